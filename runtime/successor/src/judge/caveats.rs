//! Caveats of a judgement: what a reader should know before relying on it.

use crate::judge::JudgeFindings;
use crate::judge::conditions::{GoalStatus, find, goal_status};
use crate::judge::figures::{counted, line, percent};
use crate::judge::pairs::{Case, Outcome, Tally, label};
use crate::judge::statistics::FEW;
use crate::judge::summary::{capitalised, moved, subject};
use crate::measure::{EvaluationArm, EvaluationSample, Metric};
use crate::verdict::{Direction, MetricComparison, VerdictRuling};

/// The most caveats; the others are counted.
const MAX_CAVEATS: usize = 40;
/// The most caveats of one kind.
const MAX_OF_A_KIND: usize = 8;

/// The caveats of a judgement, one sentence each: those beyond [`MAX_CAVEATS`] are only counted.
pub(crate) fn of(found: &JudgeFindings<'_>, verdict: VerdictRuling) -> Vec<String> {
    let mut caveats = Vec::new();
    let mut kind = |several: Vec<String>, what: &str| {
        let more = several.len().saturating_sub(MAX_OF_A_KIND);
        caveats.extend(several.into_iter().take(MAX_OF_A_KIND));
        if more > 0 {
            caveats.push(format!("And {more} more {what}."));
        }
    };
    kind(found.tallies.iter().filter(|tally| tally.is_flaky()).map(flaky).collect(), "flaky checks");
    kind(found.cases.iter().filter_map(failing).collect(), "cases that could not always be run");
    kind(unbelievable(found.cases), "values that cannot be");
    kind(found.statistics.iter().filter(|one| is_asked_for(found, one)).flat_map(strength).collect(), "of this kind");
    kind(unguarded(found), "metrics");
    let short =
        found.cases.iter().filter(|case| (case.pairs.len() as u64) < u64::from(found.evaluation.repeat)).count();
    if short > 0 {
        let cases = counted(short, "case was", "cases were");
        caveats.push(format!("{cases} repeated fewer than the {} times that were asked for.", found.evaluation.repeat));
    }
    let failing = found.tallies.iter().filter(|tally| tally.outcome() == Outcome::Failing).count();
    if failing > 0 {
        caveats.push(format!("{} with and without the patch.", counted(failing, "check fails", "checks fail")));
    }
    if found.checks.total == 0 {
        caveats.push("Nothing was checked: no case has a check.".to_owned());
    }
    caveats.extend((verdict == VerdictRuling::Approve).then(|| one_of_many(found)).flatten());
    capped(caveats)
}

/// At most so many, and how many are left out.
pub(crate) fn capped(mut caveats: Vec<String>) -> Vec<String> {
    let more = caveats.len().saturating_sub(MAX_CAVEATS);
    if more > 0 {
        caveats.truncate(MAX_CAVEATS);
        caveats.push(format!("And {more} more."));
    }
    caveats
}

fn flaky(tally: &Tally<'_>) -> String {
    let Tally { part, case, check, runs, baseline, patched, .. } = tally;
    let check = line(check, 80);
    let of = label(part, case);
    format!("Flaky check “{check}” in {of}: passed {baseline} of {runs} times before, {patched} with the patch.")
}

fn failing(case: &Case<'_>) -> Option<String> {
    let [before, after] = EvaluationArm::BOTH.map(|arm| case.failures(arm));
    let mut samples = case.side(EvaluationArm::Baseline).chain(case.side(EvaluationArm::Patched));
    let why = samples.find_map(|sample: &EvaluationSample| sample.failure.as_deref())?;
    let (of, runs, why) = (case.label(), case.pairs.len(), line(why, 160));
    Some(if before == runs && after == 0 {
        format!("{of} can only be run with the patch ({why}). It is not part of the comparison.")
    } else {
        let times = counted(runs, "time", "times");
        format!("{of} could not be run {before} of {times} before and {after} with the patch ({why}).")
    })
}

/// Values that no case can have, by metric and side. Pairs with one are left out.
fn unbelievable(cases: &[Case<'_>]) -> Vec<String> {
    let sentence = |(metric, arm): (Metric, EvaluationArm)| {
        let samples = cases.iter().flat_map(|case| case.side(arm));
        let values = samples.filter_map(|sample| sample.metrics.get(&metric));
        let count = values.filter(|value| !metric.can_be(**value)).count();
        let what = counted(count, "value", "values");
        (count > 0)
            .then(|| format!("{what} of {} in the {} arm cannot be and did not count.", metric.title(), arm.name()))
    };
    Metric::ALL.iter().flat_map(|metric| EvaluationArm::BOTH.map(|arm| (*metric, arm))).filter_map(sentence).collect()
}

fn is_asked_for(found: &JudgeFindings<'_>, comparison: &MetricComparison) -> bool {
    let fits = |metric: Metric, part: &Option<String>| metric == comparison.metric && *part == comparison.part;
    found.evaluation.goals.iter().any(|goal| fits(goal.metric, &goal.part))
        || found.evaluation.guards.iter().any(|guard| fits(guard.metric, &guard.part))
}

/// How much a comparison carries.
fn strength(comparison: &MetricComparison) -> Vec<String> {
    let subject = capitalised(&subject(comparison.metric, comparison.part.as_deref()));
    let (cases, pairs) = (counted(comparison.cases, "case", "cases"), counted(comparison.pairs, "pair", "pairs"));
    let is_noisy = comparison.metric.is_noisy();
    let mut caveats = Vec::new();
    if is_noisy && comparison.units < FEW {
        caveats.push(format!("{subject} varies from run to run and has only {pairs}: at least {FEW} are needed."));
    } else if is_noisy && comparison.units > comparison.cases {
        caveats.push(format!("{subject} rests on {pairs} of {cases}: it says nothing about other cases."));
    } else if is_noisy && comparison.direction != Direction::Same {
        caveats.push(format!("{subject} depends on the machine as well: it rests on {pairs} of {cases}."));
    } else if comparison.cases < FEW && comparison.direction != Direction::Same {
        caveats.push(format!("{subject} rests on {cases} only."));
    }
    if matches!(comparison.direction, Direction::Better | Direction::Worse)
        && comparison.units >= FEW
        && comparison.p > 0.05
    {
        let p = comparison.p;
        caveats.push(format!("{subject}: the interval leaves no doubt, but the sign-flip test does (p = {p:.3})."));
    }
    caveats
}

/// Metrics that got worse and that nobody asked about.
fn unguarded(found: &JudgeFindings<'_>) -> Vec<String> {
    let is_worse = |one: &&MetricComparison| one.direction == Direction::Worse && !is_asked_for(found, one);
    let measures_checks = |one: &&MetricComparison| one.metric == Metric::Solved && found.checks.regressed > 0;
    let is_told = |one: &&MetricComparison| {
        // A metric that is asked about in a part is not told again for all parts, if that is the only one.
        let same = |other: &&MetricComparison| other.metric == one.metric && other.pairs == one.pairs;
        found.statistics.iter().filter(same).any(|other| is_asked_for(found, other))
    };
    let worse = found.statistics.iter().filter(is_worse).filter(|one| one.units >= FEW || !one.metric.is_noisy());
    worse
        .filter(|one| !measures_checks(one) && !is_told(one))
        .map(|one| {
            let subject = capitalised(&subject(one.metric, one.part.as_deref()));
            format!("{subject} {}; nothing guards it.", moved(one))
        })
        .collect()
}

/// The more goals there are, the likelier one of them is met by chance.
fn one_of_many(found: &JudgeFindings<'_>) -> Option<String> {
    let goals = &found.evaluation.goals;
    let is_met =
        |goal: &&crate::evaluation::Goal| goal_status(found.evaluation, goal, found.statistics) == GoalStatus::Met;
    let met: Vec<_> = goals.iter().filter(is_met).collect();
    let bound = 0.05 / goals.len().max(1) as f64;
    let comparison = |goal: &&crate::evaluation::Goal| find(found.statistics, goal.metric, goal.part.as_deref());
    let is_strong = met.iter().filter_map(comparison).any(|one| one.p <= bound || !one.metric.is_noisy());
    (goals.len() > 1 && !is_strong).then(|| {
        let (met, all) = (met.len(), goals.len());
        format!(
            "{met} of {all} goals is met, none with p below {}: with many goals chance meets one sooner.",
            percent(bound)
        )
    })
}
