//! The judge: samples in, ruling out. Pure: it reads no clock and no file, and the same samples with the
//! same seed give the same judgement on every machine. A worker never grades itself; what it says comes
//! here as samples that the parent checked.
//!
//! The first of these that holds is the ruling:
//! 1. **REJECT** where the samples cannot be trusted: a side of a pair is missing or there twice, a sample is of
//!    no case of the evaluation, the sides were checked for different things.
//! 2. **REJECT** where the patch breaks something: a case that ran in the baseline fails more often with
//!    it, a check that most repetitions passed in the baseline is not passed by most with it, a metric that a goal
//!    or a guard needs is gone or impossible, a guard is broken.
//! 3. **NEEDS_REVISION** where nothing is shown: no goals, a part that the baseline itself cannot run,
//!    no goal met, a goal worse, a guard that is doubtful or was not measured.
//! 4. **APPROVE** where none of these holds.
//!
//! Confidence is the share of resamples of the whole evaluation that come to the same ruling, and 1 where chance has no
//! part in it. The full definitions are in `docs/reference/verdict.md`.

mod caveats;
pub(crate) mod conditions;
pub(crate) mod figures;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod pairs;
pub mod statistics;
pub(crate) mod summary;

use crate::evaluation::{Evaluation, EvaluationPart, MAX_CONDITIONS};
use crate::judge::conditions::{Evidence, rule};
use crate::judge::pairs::{Case, Outcome, Pairing, Tally, label};
use crate::judge::statistics::{Compared, MetricScope, RESAMPLES, compare, count};
use crate::measure::{EvaluationArm, EvaluationSample, Metric};
use crate::verdict::{CheckCounts, MetricComparison, VerdictRuling};

/// What the judge found.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Whether the patch is approved, is rejected or needs a revision.
    pub verdict: VerdictRuling,
    /// The share of resampled evaluations that come to the same ruling; 1 where no chance is involved.
    pub confidence: f64,
    /// Why it was rejected, by a stable name; nothing where it was not.
    pub reason: Option<String>,
    /// What came of it, in a few sentences.
    pub summary: String,
    /// What a reader should know before relying on it.
    pub caveats: Vec<String>,
    /// How many checks passed, regressed and were fixed; all 0 where nothing was compared.
    pub checks: CheckCounts,
    /// One comparison for each metric and part with pairs; empty where nothing was compared.
    pub statistics: Vec<MetricComparison>,
}

impl Judgement {
    /// A rejection without a comparison: the reason by a stable name, and in a sentence.
    pub fn rejected(reason: &str, sentence: impl Into<String>) -> Self {
        Self {
            verdict: VerdictRuling::Reject,
            confidence: 1.0,
            reason: Some(reason.to_owned()),
            summary: sentence.into(),
            caveats: Vec::new(),
            checks: CheckCounts::default(),
            statistics: Vec::new(),
        }
    }
}

/// Judges an evaluation by its samples. `seed` begins the resampling.
pub fn judge(evaluation: &Evaluation, samples: &[EvaluationSample], seed: u64) -> Judgement {
    let pairing = Pairing::of(evaluation, samples);
    if let Some(first) = pairing.flaws.first() {
        let mut judgement = Judgement::rejected(first.code(), first.sentence());
        judgement.caveats =
            caveats::capped(pairing.flaws.iter().skip(1).map(crate::judge::pairs::Flaw::sentence).collect());
        return judgement;
    }
    if evaluation.goals.len() + evaluation.guards.len() > MAX_CONDITIONS {
        let summary = format!("More than {MAX_CONDITIONS} goals and guards are not judged.");
        return Judgement { verdict: VerdictRuling::NeedsRevision, reason: None, ..Judgement::rejected("", summary) };
    }
    let asked = asked(evaluation);
    let compared: Vec<Compared> = compare(&pairing.cases, &scopes(&asked), seed).into_iter().flatten().collect();
    let statistics: Vec<MetricComparison> = compared.iter().map(|one| one.comparison.clone()).collect();
    let tallies = pairing.tallies();
    let checks = count(&tallies);
    let found = JudgeFindings {
        evaluation,
        broken: broken(&asked, &pairing, &tallies),
        idle: idle_parts(evaluation, &pairing.cases),
        cases: &pairing.cases,
        tallies: &tallies,
        checks,
        statistics: &statistics,
    };
    let (verdict, confidence) = decide(&found, &asked, &compared);
    let broken_guard = || (verdict == VerdictRuling::Reject).then_some("guard_broken");
    let reason = found.broken.first().map(Breakage::code).or_else(broken_guard).map(str::to_owned);
    let (summary, caveats) = (summary::of(&found, verdict), caveats::of(&found, verdict));
    Judgement { verdict, confidence, reason, summary, caveats, checks, statistics }
}

/// Everything that sentences are made of.
pub(crate) struct JudgeFindings<'a> {
    pub(crate) evaluation: &'a Evaluation,
    pub(crate) broken: Vec<Breakage>,
    /// Parts that did not run on both sides at all.
    pub(crate) idle: Vec<&'a str>,
    pub(crate) cases: &'a [Case<'a>],
    pub(crate) tallies: &'a [Tally<'a>],
    pub(crate) checks: CheckCounts,
    pub(crate) statistics: &'a [MetricComparison],
}

/// What a patch can break for certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Breakage {
    /// A case that ran in the baseline does not, or not as often.
    Fails(String),
    /// A check that the baseline passes fails.
    Regresses(String),
    /// A metric that is needed is gone or impossible.
    Hides(String),
}

impl Breakage {
    fn code(&self) -> &'static str {
        match self {
            Self::Fails(_) => "case_failed",
            Self::Regresses(_) => "check_regressed",
            Self::Hides(_) => "measurement_missing",
        }
    }
}

/// What goals and guards ask for, in their order.
fn asked(evaluation: &Evaluation) -> Vec<MetricScope> {
    let goals = evaluation.goals.iter().map(|goal| (goal.metric, goal.part.clone()));
    let guards = evaluation.guards.iter().map(|guard| (guard.metric, guard.part.clone()));
    goals.chain(guards).collect()
}

/// What is compared: what goals and guards ask for, then every metric over all parts.
fn scopes(asked: &[MetricScope]) -> Vec<MetricScope> {
    let mut scopes: Vec<MetricScope> = Vec::new();
    for scope in asked.iter().cloned().chain(Metric::ALL.map(|metric| (metric, None))) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

fn broken(asked: &[MetricScope], pairing: &Pairing<'_>, tallies: &[Tally<'_>]) -> Vec<Breakage> {
    let fails = |case: &&Case<'_>| {
        case.runs_in_the_baseline() && case.failures(EvaluationArm::Patched) > case.failures(EvaluationArm::Baseline)
    };
    let failing = pairing.cases.iter().filter(fails).map(|case| Breakage::Fails(case.label()));
    let regressed = tallies.iter().filter(|tally| tally.outcome() == Outcome::Regressed);
    let regressed = regressed.map(|tally| {
        Breakage::Regresses(format!(
            "“{}” in {}",
            crate::judge::figures::line(tally.check, 80),
            label(tally.part, tally.case)
        ))
    });
    let hidden = asked.iter().filter_map(|(metric, part)| {
        let hides = |case: &&Case<'_>| part.as_deref().is_none_or(|part| part == case.part) && hides(case, *metric);
        let case = pairing.cases.iter().find(hides)?;
        Some(Breakage::Hides(format!("{} of {}", metric.title(), case.label())))
    });
    failing.chain(regressed).chain(hidden).collect()
}

/// Whether a pair that ran has a believable value in the baseline and none with the patch. To ignore such pairs would
/// let a patch choose which ones count.
fn hides(case: &Case<'_>, metric: Metric) -> bool {
    let believable = |sample: &EvaluationSample| sample.metrics.get(&metric).is_some_and(|value| metric.can_be(*value));
    case.pairs.iter().filter(|pair| pair.ran()).any(|pair| believable(pair.baseline) && !believable(pair.patched))
}

/// Parts that did not run on both sides at all, and suites of which a task was never tried.
fn idle_parts<'a>(evaluation: &'a Evaluation, cases: &[Case<'_>]) -> Vec<&'a str> {
    let ran: std::collections::BTreeSet<(&str, &str)> = cases
        .iter()
        .filter(|case| case.pairs.iter().any(crate::judge::pairs::Pair::ran))
        .flat_map(|case| [(case.part, case.name), (case.part, "")])
        .collect();
    let tried: std::collections::BTreeSet<(&str, &str)> = cases.iter().map(|case| (case.part, case.name)).collect();
    let is_idle = |part: &&EvaluationPart| match part {
        EvaluationPart::Suite { name, tasks } => {
            !ran.contains(&(name.as_str(), "")) || tasks.iter().any(|task| !tried.contains(&(name, task.name.as_str())))
        }
        part => !ran.contains(&(part.name(), "")),
    };
    evaluation.parts.iter().filter(is_idle).map(EvaluationPart::name).collect()
}

fn decide(found: &JudgeFindings<'_>, asked: &[MetricScope], compared: &[Compared]) -> (VerdictRuling, f64) {
    if !found.broken.is_empty() {
        return (VerdictRuling::Reject, 1.0);
    }
    let is_of = |one: &&Compared, (metric, part): &MetricScope| {
        one.comparison.metric == *metric && one.comparison.part == *part
    };
    let wanted: Vec<Option<&Compared>> =
        asked.iter().map(|scope| compared.iter().find(|one| is_of(one, scope))).collect();
    let cannot_approve = !found.idle.is_empty();
    let ruling = |evidence: &[Option<Evidence>]| match rule(found.evaluation, evidence) {
        VerdictRuling::Approve if cannot_approve => VerdictRuling::NeedsRevision,
        ruling => ruling,
    };
    let seen: Vec<Option<Evidence>> = wanted.iter().map(|one| one.map(|one| Evidence::of(&one.comparison))).collect();
    let verdict = ruling(&seen);
    let mut moved = seen.clone();
    let same = (0..RESAMPLES)
        .filter(|resample| {
            for ((moved, seen), one) in moved.iter_mut().zip(&seen).zip(&wanted) {
                *moved = seen
                    .zip(*one)
                    .map(|(seen, one)| one.changes.get(*resample).map_or(seen, |change| seen.moved_to(*change)));
            }
            ruling(&moved) == verdict
        })
        .count();
    (verdict, same as f64 / RESAMPLES as f64)
}

#[cfg(test)]
mod tests;
