//! What evidence comes to: whether a goal is met, whether a guard holds, and which ruling follows. The
//! conditions in words are in `docs/reference/verdict.md`.

use crate::evaluation::{Evaluation, Goal, Guard};
use crate::judge::statistics::FEW;
use crate::measure::Metric;
use crate::verdict::{Direction, MetricComparison, VerdictRuling};

/// Shares that differ by less are the same: 2 % wanted and 2 % found is enough.
const ROUNDING: f64 = 1e-9;

/// How a goal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalStatus {
    /// The interval lies on the good side, and the change is as large as wanted.
    Met,
    /// The interval lies on the good side, but the change is smaller than wanted.
    Short,
    /// Not one pair differs.
    Unchanged,
    /// The interval holds zero.
    Unclear,
    /// The interval lies on the bad side.
    Worse,
    /// There are too few units to tell.
    TooFew,
    /// No pair has the metric.
    Unmeasured,
}

impl GoalStatus {
    /// What it says, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Short => "better, but less than wanted",
            Self::Unchanged => "unchanged",
            Self::Unclear => "unclear",
            Self::Worse => "worse",
            Self::TooFew => "too few runs to tell",
            Self::Unmeasured => "not measured",
        }
    }
}

/// How a guard stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardStatus {
    /// Not worse than its slack.
    Holds,
    /// Worse than its slack, but chance could explain it.
    Doubtful,
    /// Worse than its slack.
    Broken,
    /// The metric is noisy and there are too few units to tell.
    TooFew,
    /// No pair has the metric.
    Unmeasured,
}

impl GuardStatus {
    /// What it says, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Doubtful => "doubtful",
            Self::Broken => "broken",
            Self::TooFew => "too few runs to tell",
            Self::Unmeasured => "not measured",
        }
    }
}

/// What a condition looks at. More than zero is better, whichever way the metric goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence {
    metric: Metric,
    units: usize,
    same: bool,
    gain: f64,
    interval: [f64; 2],
}

impl Evidence {
    pub(crate) fn of(comparison: &MetricComparison) -> Self {
        Self {
            metric: comparison.metric,
            units: comparison.units,
            same: comparison.direction == Direction::Same,
            gain: comparison.gain(),
            interval: comparison.gain_interval(),
        }
    }

    /// The evidence of a resample in which the change was this. Its interval is as wide as the one
    /// that was found and moves along: an own one would need resamples of every resample.
    pub(crate) fn moved_to(self, change: f64) -> Self {
        let gain = self.metric.better().gain(change);
        let interval = self.interval.map(|end| end + gain - self.gain);
        Self { gain, interval, ..self }
    }

    /// The same as one of so many goals that chance could have met: the more of them, the farther from zero it has to lie.
    /// What does not vary between two runs meets none by chance.
    fn among(self, chances: usize) -> Self {
        if !self.metric.is_noisy() || chances <= 1 {
            return self;
        }
        let wider = normal_quantile(TAIL / chances as f64) / normal_quantile(TAIL);
        let [bad, good] = self.interval;
        Self { interval: [self.gain - (self.gain - bad) * wider, good], ..self }
    }

    fn is_too_little(self) -> bool {
        self.metric.is_noisy() && self.units < FEW
    }

    /// Whether there is enough to call something better. A case or two show nothing about the others, noisy or not.
    fn is_enough_to_approve(self) -> bool {
        self.units >= FEW
    }
}

/// What chance may lie beyond either end of an interval of 95 %.
const TAIL: f64 = 0.025;

/// How far from the middle of a normal distribution this much of it lies beyond (Abramowitz and Stegun, 26.2.23).
fn normal_quantile(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// How many goals of an evaluation chance could meet.
fn chances(evaluation: &Evaluation) -> usize {
    evaluation.goals.iter().filter(|goal| goal.metric.is_noisy()).count()
}

/// How a goal stands.
pub(crate) fn goal(goal: &Goal, evidence: Option<Evidence>) -> GoalStatus {
    let Some(evidence) = evidence else { return GoalStatus::Unmeasured };
    let [bad, good] = evidence.interval;
    if evidence.is_too_little() {
        GoalStatus::TooFew
    } else if evidence.same {
        GoalStatus::Unchanged
    } else if good < 0.0 {
        GoalStatus::Worse
    } else if !evidence.is_enough_to_approve() {
        GoalStatus::TooFew
    } else if bad <= 0.0 {
        GoalStatus::Unclear
    } else if evidence.gain + ROUNDING < goal.by {
        GoalStatus::Short
    } else {
        GoalStatus::Met
    }
}

/// How a guard stands.
pub(crate) fn guard(guard: &Guard, evidence: Option<Evidence>) -> GuardStatus {
    let Some(evidence) = evidence else { return GuardStatus::Unmeasured };
    if evidence.is_too_little() {
        GuardStatus::TooFew
    } else if -evidence.gain <= guard.slack + ROUNDING {
        GuardStatus::Holds
    } else if !evidence.metric.is_noisy() || evidence.interval[1] < 0.0 {
        // What does not vary between two runs needs no interval to be worse.
        GuardStatus::Broken
    } else {
        GuardStatus::Doubtful
    }
}

/// How a goal of a judged evaluation stands.
pub fn goal_status(evaluation: &Evaluation, of: &Goal, statistics: &[MetricComparison]) -> GoalStatus {
    let evidence = find(statistics, of.metric, of.part.as_deref()).map(Evidence::of);
    goal(of, evidence.map(|evidence| evidence.among(chances(evaluation))))
}

/// How a guard of a judged evaluation stands.
pub fn guard_status(of: &Guard, statistics: &[MetricComparison]) -> GuardStatus {
    guard(of, find(statistics, of.metric, of.part.as_deref()).map(Evidence::of))
}

/// The comparison of a metric in a part, or in all.
pub(crate) fn find<'a>(
    statistics: &'a [MetricComparison],
    metric: Metric,
    part: Option<&str>,
) -> Option<&'a MetricComparison> {
    statistics.iter().find(|comparison| comparison.metric == metric && comparison.part.as_deref() == part)
}

/// The ruling that goals and guards alone come to. `evidence` is what is known of the goals in their
/// order, then of the guards.
pub(crate) fn rule(evaluation: &Evaluation, evidence: &[Option<Evidence>]) -> VerdictRuling {
    let (of_goals, of_guards) = evidence.split_at(evaluation.goals.len().min(evidence.len()));
    let (mut met, mut doubt, chances) = (false, false, chances(evaluation));
    for (of, evidence) in evaluation.guards.iter().zip(of_guards) {
        match guard(of, *evidence) {
            GuardStatus::Broken => return VerdictRuling::Reject,
            GuardStatus::Holds => {}
            GuardStatus::Doubtful | GuardStatus::TooFew | GuardStatus::Unmeasured => doubt = true,
        }
    }
    for (of, evidence) in evaluation.goals.iter().zip(of_goals) {
        match goal(of, evidence.map(|evidence| evidence.among(chances))) {
            GoalStatus::Met => met = true,
            GoalStatus::Worse => doubt = true,
            GoalStatus::Short
            | GoalStatus::Unchanged
            | GoalStatus::Unclear
            | GoalStatus::TooFew
            | GoalStatus::Unmeasured => {}
        }
    }
    if met && !doubt { VerdictRuling::Approve } else { VerdictRuling::NeedsRevision }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(metric: Metric, units: usize, gain: f64, interval: [f64; 2]) -> Option<Evidence> {
        Some(Evidence { metric, units, same: gain == 0.0, gain, interval })
    }

    #[test]
    fn a_goal_is_met_by_an_interval_on_the_good_side_and_a_change_as_large_as_wanted() {
        let wanted = Goal { metric: Metric::KeptFacts, part: None, by: 0.1 };
        let stands = |gain, interval| goal(&wanted, evidence(Metric::KeptFacts, 20, gain, interval));
        assert_eq!(stands(0.3, [0.2, 0.4]), GoalStatus::Met);
        assert_eq!(stands(0.1, [0.05, 0.15]), GoalStatus::Met);
        assert_eq!(stands(0.06, [0.05, 0.07]), GoalStatus::Short);
        assert_eq!(stands(0.3, [0.0, 0.4]), GoalStatus::Unclear);
        assert_eq!(stands(-0.3, [-0.4, -0.2]), GoalStatus::Worse);
        assert_eq!(stands(0.0, [0.0, 0.0]), GoalStatus::Unchanged);
        assert_eq!(goal(&wanted, None), GoalStatus::Unmeasured);
    }

    #[test]
    fn a_goal_among_many_that_vary_has_to_lie_farther_from_chance() {
        let wanted = Goal { metric: Metric::WallMicros, part: None, by: 0.0 };
        let near = evidence(Metric::WallMicros, 20, 0.1, [0.01, 0.19]).unwrap();
        let stands = |chances| goal(&wanted, Some(near.among(chances)));
        assert_eq!((stands(1), stands(2), stands(30)), (GoalStatus::Met, GoalStatus::Unclear, GoalStatus::Unclear));
        let steady = evidence(Metric::KeptFacts, 20, 0.1, [0.01, 0.19]).unwrap();
        assert_eq!(goal(&Goal { metric: Metric::KeptFacts, ..wanted }, Some(steady.among(30))), GoalStatus::Met);
        assert!((normal_quantile(0.025) - 1.96).abs() < 1e-3 && (normal_quantile(0.0005) - 3.2905).abs() < 1e-3);
    }

    #[test]
    fn a_goal_needs_five_units_noisy_or_not_and_worse_needs_none() {
        let wanted = |metric| Goal { metric, part: None, by: 0.1 };
        let stands = |metric| goal(&wanted(metric), evidence(metric, 4, 0.3, [0.2, 0.4]));
        assert_eq!(stands(Metric::WallMicros), GoalStatus::TooFew);
        assert_eq!(stands(Metric::Tokens), GoalStatus::TooFew);
        let worse = goal(&wanted(Metric::Tokens), evidence(Metric::Tokens, 4, -0.3, [-0.4, -0.2]));
        assert_eq!(worse, GoalStatus::Worse);
    }

    #[test]
    fn a_guard_of_a_noisy_metric_breaks_only_where_chance_cannot_explain_it() {
        let kept = |metric| Guard { metric, part: None, slack: 0.05 };
        let stands = |metric, gain, interval| guard(&kept(metric), evidence(metric, 20, gain, interval));
        assert_eq!(stands(Metric::WallMicros, -0.2, [-0.3, -0.1]), GuardStatus::Broken);
        assert_eq!(stands(Metric::WallMicros, -0.2, [-0.5, 0.1]), GuardStatus::Doubtful);
        assert_eq!(stands(Metric::WallMicros, -0.04, [-0.05, -0.03]), GuardStatus::Holds);
        assert_eq!(stands(Metric::Tokens, -0.2, [-0.5, 0.1]), GuardStatus::Broken);
        assert_eq!(stands(Metric::Tokens, 0.2, [0.1, 0.3]), GuardStatus::Holds);
    }
}
