//! The summary of a judgement: a few sentences that say what was found and why the ruling is what it is.

use crate::evaluation::{Evaluation, Goal, Guard};
use crate::judge::conditions::{GoalStatus, GuardStatus, find, goal_status, guard_status};
use crate::judge::figures::{line, percent, quantity};
use crate::judge::{Breakage, JudgeFindings};
use crate::measure::Metric;
use crate::verdict::{Direction, MetricComparison, VerdictRuling};

/// So many things of a kind are named; the others are counted.
const NAMED: usize = 3;

/// The summary as one text: what broke, then checks, guards and goals, and what was not shown.
pub(crate) fn of(found: &JudgeFindings<'_>, verdict: VerdictRuling) -> String {
    let mut sentences = Vec::new();
    sentences.extend(broken(found, "could not be run with the patch", |one| match one {
        Breakage::Fails(what) => Some(what),
        Breakage::Regresses(_) | Breakage::Hides(_) => None,
    }));
    sentences.extend(broken(found, "passed before and failed with the patch", |one| match one {
        Breakage::Regresses(what) => Some(what),
        Breakage::Fails(_) | Breakage::Hides(_) => None,
    }));
    sentences.extend(broken(found, "could not be measured with the patch", |one| match one {
        Breakage::Hides(what) => Some(what),
        Breakage::Fails(_) | Breakage::Regresses(_) => None,
    }));
    sentences.extend(checks(found));
    sentences.extend(found.evaluation.guards.iter().filter_map(|guard| guard_sentence(guard, found.statistics)));
    let mut told: Vec<(Metric, Option<&str>)> = Vec::new();
    for goal in &found.evaluation.goals {
        let scope = (goal.metric, goal.part.as_deref());
        if !told.contains(&scope) {
            told.push(scope);
            sentences.push(goal_sentence(found.evaluation, goal, found.statistics));
        }
    }
    if !found.idle.is_empty() {
        let names: Vec<String> = found.idle.iter().take(NAMED).map(|name| format!("“{}”", line(name, 60))).collect();
        sentences.push(format!("Not everything ran on both sides: {}{}.", names.join(", "), more(found.idle.len())));
    }
    if found.evaluation.goals.is_empty() {
        sentences.push("The evaluation has no goals, so nothing can be shown to be better.".to_owned());
    } else if verdict == VerdictRuling::NeedsRevision && found.idle.is_empty() {
        let is_met = |goal: &Goal| goal_status(found.evaluation, goal, found.statistics) == GoalStatus::Met;
        if !found.evaluation.goals.iter().any(is_met) {
            sentences.push("No goal is met.".to_owned());
        }
    }
    sentences.join(" ")
}

fn more(count: usize) -> String {
    if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() }
}

fn broken<'a>(
    found: &'a JudgeFindings<'_>,
    what: &str,
    of: impl Fn(&'a Breakage) -> Option<&'a String>,
) -> Option<String> {
    let named: Vec<&str> = found.broken.iter().filter_map(of).map(String::as_str).collect();
    let first = capitalised(&named.iter().take(NAMED).copied().collect::<Vec<_>>().join(", "));
    (!named.is_empty()).then(|| format!("{first}{} {what}.", more(named.len())))
}

fn checks(found: &JudgeFindings<'_>) -> Option<String> {
    let counts = found.checks;
    let (passed, before, total) = (counts.patched_passed, counts.baseline_passed, counts.total);
    match () {
        () if total == 0 => None,
        () if passed == total && before == total => Some(format!("Checks passed ({passed}/{total}).")),
        () if passed == total => Some(format!("Checks passed ({passed}/{total}; {before} before).")),
        () if counts.regressed == 0 => {
            Some(format!("Checks: {passed} of {total} passed, {before} before; none regressed."))
        }
        () => Some(format!(
            "Checks: {passed} of {total} passed, {before} before; {} regressed and {} got fixed.",
            counts.regressed, counts.fixed
        )),
    }
}

fn guard_sentence(guard: &Guard, statistics: &[MetricComparison]) -> Option<String> {
    let subject = capitalised(&subject(guard.metric, guard.part.as_deref()));
    let gain = find(statistics, guard.metric, guard.part.as_deref()).map_or(0.0, MetricComparison::gain);
    match guard_status(guard, statistics) {
        GuardStatus::Holds => None,
        GuardStatus::Broken => {
            Some(format!("{subject} got {} worse; {} is allowed.", percent(-gain), percent(guard.slack)))
        }
        GuardStatus::Doubtful => Some(format!(
            "{subject} may have got worse ({}, {} is allowed), but chance could explain it.",
            percent(-gain),
            percent(guard.slack)
        )),
        GuardStatus::TooFew => Some(format!("{subject} is guarded, but was measured too few times to tell.")),
        GuardStatus::Unmeasured => Some(format!("{subject} is guarded, but was not measured.")),
    }
}

fn goal_sentence(evaluation: &Evaluation, goal: &Goal, statistics: &[MetricComparison]) -> String {
    let subject = capitalised(&subject(goal.metric, goal.part.as_deref()));
    let Some(comparison) = find(statistics, goal.metric, goal.part.as_deref()) else {
        return format!("{subject} was not measured.");
    };
    match goal_status(evaluation, goal, statistics) {
        GoalStatus::Met => format!("{subject} {}.", moved(comparison)),
        GoalStatus::Short => {
            format!("{subject} {}, less than the {} wanted.", moved(comparison), percent(goal.by))
        }
        GoalStatus::TooFew => format!("{subject} was measured too few times to tell."),
        GoalStatus::Unchanged | GoalStatus::Unclear | GoalStatus::Worse | GoalStatus::Unmeasured => {
            format!("{subject} {}.", moved(comparison))
        }
    }
}

/// How a metric moved, as the end of a sentence.
pub(crate) fn moved(comparison: &MetricComparison) -> String {
    let gain = comparison.gain();
    let from_nothing = comparison.baseline == 0.0 && comparison.patched > 0.0;
    match comparison.direction {
        Direction::Same => "did not change".to_owned(),
        Direction::Better | Direction::Worse if from_nothing => {
            format!("rose from nothing to {}", quantity(comparison.metric, comparison.patched))
        }
        Direction::Better => format!("improved {}", percent(gain)),
        Direction::Worse => format!("got {} worse", percent(-gain)),
        Direction::Unclear => {
            let [bad, good] = comparison.gain_interval();
            let end = |gain: f64| format!("{} {}", percent(gain.abs()), if gain < 0.0 { "worse" } else { "better" });
            format!("is unclear: between {} and {}", end(bad), end(good))
        }
    }
}

/// A metric in a part, for sentences.
pub(crate) fn subject(metric: Metric, part: Option<&str>) -> String {
    match part {
        None => metric.title().to_owned(),
        Some(part) => format!("{} in “{}”", metric.title(), line(part, 60)),
    }
}

/// With a capital at the beginning, but for words such as p99.
pub(crate) fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    match (rest.next(), rest.clone().next()) {
        (Some(first), second) if !second.is_some_and(|c| c.is_ascii_digit()) => {
            first.to_uppercase().chain(rest).collect()
        }
        _ => text.to_owned(),
    }
}
