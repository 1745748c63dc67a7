//! The test of a trial, taken at looks: fixed numbers of tasks with a known outcome.
//!
//! At each look, the chance that the coins alone made a difference at least this large is compared with the look's share of
//! the error. The shares of all looks for gain add up to 2.95 %, those for harm to 1.65 %, those of the weaker test on
//! errors, turns and cost to 0.33 %: whenever a trial is looked at, and however often, a skill that does nothing gets a
//! verdict in less than 5 % of trials.

use super::redraw::{Drawn, RedrawChances, redraw};
use super::{Observation, signals};
use crate::memory::Arm;

/// A number of tasks at which a trial is looked at, and the error that this look may make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Look {
    pub(super) tasks: usize,
    pub(super) error: f64,
}

const fn look(tasks: usize, error: f64) -> Look {
    Look { tasks, error }
}

/// Nearly all of the error for gain is spent at 40 tasks: what helps a lot is seen earlier with little, and what helps from
/// one half to three quarters of the answers needs it all.
pub(super) const GAIN: [Look; 8] = [
    look(10, 0.0005),
    look(14, 0.0005),
    look(18, 0.0005),
    look(24, 0.001),
    look(30, 0.0005),
    look(40, 0.0255),
    look(80, 0.0005),
    look(200, 0.0005),
];

/// Harm is looked for from the eighth task on, with more of its error early.
pub(super) const HARM: [Look; 10] = [
    look(8, 0.001),
    look(12, 0.001),
    look(16, 0.0015),
    look(20, 0.001),
    look(26, 0.0015),
    look(32, 0.0015),
    look(40, 0.0015),
    look(60, 0.0065),
    look(100, 0.0005),
    look(200, 0.0005),
];

/// The test on signals may make so much of the error that the test for harm may make.
const SIGNALS_ERROR: f64 = 0.2;

/// No trial observes more tasks than this: it is the last look.
pub const MOST_TASKS: usize = 200;
/// No trial lasts longer than so many tasks, with known outcome or without.
pub(super) const MOST_TASKS_IN_ALL: usize = 5 * MOST_TASKS;
/// No trial lasts longer than so many days.
const MOST_DAYS: u32 = 60;

/// When a trial is given up, and how its coins fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialPolicy {
    /// Unproven after so many tasks with a known outcome; [`MOST_TASKS`] at most.
    pub most_tasks: usize,
    /// Unproven after so many days.
    pub most_days: u32,
    /// The share of tasks that a skill on trial is shown to.
    pub share: f64,
    /// The kept tasks that each skill on trial is rehearsed on by itself; none unless said, because each asks the model twice.
    pub rehearsals: usize,
}

impl Default for TrialPolicy {
    fn default() -> Self {
        Self { most_tasks: MOST_TASKS, most_days: MOST_DAYS, share: 0.5, rehearsals: 0 }
    }
}

/// How a trial ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialVerdict {
    /// Tasks that saw the skill had better outcomes.
    Proven,
    /// Tasks that saw the skill had worse outcomes, or more trouble where nothing is known of outcomes.
    Harmful,
    /// No difference was found within the bounds.
    Unproven,
}

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VerdictGround {
    /// Outcomes. `chance` is how often the coins alone make a difference as large.
    Outcomes {
        /// From 0 to 1.
        chance: f64,
    },
    /// Errors, turns and cost of tasks whose outcome nobody knows.
    Signals {
        /// From 0 to 1.
        chance: f64,
    },
    /// The tasks are used up.
    Tasks,
    /// The days are used up.
    Days,
}

/// The end of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialDecision {
    /// Whether the skill helped, did harm, or made no difference.
    pub verdict: TrialVerdict,
    /// What that rests on.
    pub ground: VerdictGround,
    /// How many tasks were looked at.
    pub tasks: usize,
}

/// Whether a trial ends by now. The observations are in the order of their tasks, oldest first; `days` are those that the
/// trial has been seen to last ([`days_seen`]). The first look that finds something decides, so the decision does not
/// depend on when this is called.
pub fn decide(observations: &[Observation], days: u32, policy: &TrialPolicy) -> Option<TrialDecision> {
    let share = if policy.share > 0.0 && policy.share < 1.0 { policy.share } else { 0.5 };
    let most_tasks = policy.most_tasks.min(MOST_TASKS);
    let known: Vec<Drawn> = observations.iter().filter_map(by_outcome).take(most_tasks).collect();
    if let Some(decision) = look_at_outcomes(&known, share) {
        return Some(decision);
    }
    let unknown: Vec<Observation> =
        observations.iter().filter(|observation| observation.known_score().is_none()).copied().collect();
    if unknown.len() > known.len()
        && let Some(decision) = look_at_signals(&unknown, share)
    {
        return Some(decision);
    }
    let unproven = |ground, tasks| Some(TrialDecision { verdict: TrialVerdict::Unproven, ground, tasks });
    if known.len() >= most_tasks || observations.len() >= MOST_TASKS_IN_ALL {
        return unproven(VerdictGround::Tasks, observations.len());
    }
    if days >= policy.most_days {
        return unproven(VerdictGround::Days, observations.len());
    }
    None
}

fn by_outcome(observation: &Observation) -> Option<Drawn> {
    Some(Drawn { shown: observation.arm == Arm::Shown, score: observation.known_score()? })
}

fn look_at_outcomes(known: &[Drawn], share: f64) -> Option<TrialDecision> {
    let error = |looks: &[Look], tasks| looks.iter().find(|look| look.tasks == tasks).map_or(0.0, |look| look.error);
    for tasks in looks(&[&GAIN, &HARM], known.len()) {
        let Some(RedrawChances { as_well, as_badly }) = redraw(&known[..tasks], share) else { continue };
        let decided =
            |verdict, chance| Some(TrialDecision { verdict, ground: VerdictGround::Outcomes { chance }, tasks });
        if as_badly <= error(&HARM, tasks) {
            return decided(TrialVerdict::Harmful, as_badly);
        }
        if as_well <= error(&GAIN, tasks) {
            return decided(TrialVerdict::Proven, as_well);
        }
    }
    None
}

/// The weaker test: it can only find harm, beyond a margin, and with a fifth of the error.
fn look_at_signals(unknown: &[Observation], share: f64) -> Option<TrialDecision> {
    let reached = HARM.iter().filter(|look| look.tasks <= unknown.len());
    let mut found = reached.filter_map(|Look { tasks, error }| {
        let chance = redraw(&signals::drawn(&unknown[..*tasks]), share)?.as_badly;
        let ground = VerdictGround::Signals { chance };
        let harmful = TrialDecision { verdict: TrialVerdict::Harmful, ground, tasks: *tasks };
        (chance <= error * SIGNALS_ERROR).then_some(harmful)
    });
    found.next()
}

/// The numbers of tasks at which these tests look, up to a number, in order.
fn looks(tests: &[&[Look]], most: usize) -> Vec<usize> {
    let mut all: Vec<usize> =
        tests.iter().copied().flatten().map(|look| look.tasks).filter(|tasks| *tasks <= most).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The next number of tasks with a known outcome at which a trial is looked at; none after the last.
pub fn next_look(known: usize) -> Option<usize> {
    looks(&[&GAIN, &HARM], usize::MAX).into_iter().find(|tasks| *tasks > known)
}

/// The next number of tasks without a known outcome at which their signals are looked at; none after the last.
pub(super) fn next_signals_look(unknown: usize) -> Option<usize> {
    HARM.iter().map(|look| look.tasks).find(|tasks| *tasks > unknown)
}

/// A gap between two tasks counts as so many days at most.
const LONGEST_GAP_DAYS: i64 = 7;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// How many days a trial was seen to last, by the times of its tasks in the order in which they ran, in milliseconds. A
/// clock that jumps ahead adds a week at most, one that is set back adds nothing: no jump ends a trial by itself.
pub fn days_seen(times: &[i64]) -> u32 {
    let gap = |pair: &[i64]| match pair {
        [before, after] => after.saturating_sub(*before).clamp(0, LONGEST_GAP_DAYS * DAY_MILLIS),
        _ => 0,
    };
    let total: i64 = times.windows(2).map(gap).fold(0, i64::saturating_add);
    u32::try_from(total / DAY_MILLIS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(arm: Arm, score: Option<f64>) -> Observation {
        Observation { arm, score, errors: 0, turns: 2, micro_usd: 100 }
    }

    /// Tasks whose arms alternate, with these scores.
    fn alternating(tasks: usize, shown: Option<f64>, held: Option<f64>) -> Vec<Observation> {
        (0..tasks).map(|at| if at % 2 == 0 { task(Arm::Shown, shown) } else { task(Arm::HeldBack, held) }).collect()
    }

    #[test]
    fn the_errors_of_all_looks_add_up_to_less_than_five_percent() {
        let sum = |looks: &[Look]| looks.iter().map(|look| look.error).sum::<f64>();
        let signals = sum(&HARM) * SIGNALS_ERROR;
        assert!((sum(&GAIN) - 0.0295).abs() < 1e-9 && (sum(&HARM) - 0.0165).abs() < 1e-9 && signals < 0.0034);
        assert!(sum(&GAIN) + sum(&HARM) + signals < 0.05);
        for looks in [GAIN.as_slice(), &HARM] {
            assert!(looks.windows(2).all(|pair| pair[0].tasks < pair[1].tasks));
            assert_eq!(looks.last().map(|look| look.tasks), Some(MOST_TASKS));
        }
        assert!(HARM[0].tasks < GAIN[0].tasks, "harm is looked for first");
    }

    #[test]
    fn a_skill_that_always_helps_is_proven_and_one_that_always_hurts_is_stopped_sooner() {
        let policy = TrialPolicy::default();
        let good = decide(&alternating(200, Some(1.0), Some(0.0)), 0, &policy).unwrap();
        let bad = decide(&alternating(200, Some(0.0), Some(1.0)), 0, &policy).unwrap();
        assert_eq!((good.verdict, good.tasks), (TrialVerdict::Proven, 14));
        assert_eq!((bad.verdict, bad.tasks), (TrialVerdict::Harmful, 12));
    }

    #[test]
    fn the_decision_is_the_same_whenever_it_is_asked_for() {
        let policy = TrialPolicy::default();
        let mut observations = alternating(14, Some(1.0), Some(0.0));
        let first = decide(&observations, 0, &policy);
        observations.extend(alternating(100, Some(0.0), Some(1.0)));
        assert!(first.is_some());
        assert_eq!(decide(&observations, 0, &policy), first);
    }

    #[test]
    fn a_trial_without_a_difference_ends_unproven_after_its_tasks_or_its_days() {
        let policy = TrialPolicy::default();
        let same = alternating(199, Some(1.0), Some(1.0));
        assert_eq!(decide(&same, 59, &policy), None);
        let unproven = |ground, tasks| Some(TrialDecision { verdict: TrialVerdict::Unproven, ground, tasks });
        assert_eq!(decide(&same, 60, &policy), unproven(VerdictGround::Days, 199));
        let same = alternating(200, Some(1.0), Some(1.0));
        assert_eq!(decide(&same, 0, &policy), unproven(VerdictGround::Tasks, 200));
        let few = TrialPolicy { most_tasks: 50, ..policy };
        assert_eq!(decide(&same[..50], 0, &few), unproven(VerdictGround::Tasks, 50));
    }

    #[test]
    fn unknown_outcomes_prove_nothing_and_end_after_a_thousand_tasks() {
        let policy = TrialPolicy::default();
        assert_eq!(decide(&alternating(999, None, None), 0, &policy), None);
        let ended = decide(&alternating(1_000, None, None), 0, &policy).unwrap();
        assert_eq!((ended.verdict, ended.ground), (TrialVerdict::Unproven, VerdictGround::Tasks));
        // What is not a number is not an outcome.
        assert_eq!(decide(&alternating(200, Some(f64::NAN), Some(f64::NAN)), 0, &policy), None);
    }

    #[test]
    fn much_more_trouble_is_harm_where_outcomes_are_unknown_and_less_trouble_is_no_proof() {
        let policy = TrialPolicy::default();
        let mut worse = alternating(60, None, None);
        worse.iter_mut().filter(|task| task.arm == Arm::Shown).for_each(|task| {
            task.errors = 3;
            task.turns = 6;
        });
        let harmful = decide(&worse, 0, &policy).unwrap();
        assert_eq!(harmful.verdict, TrialVerdict::Harmful);
        assert!(matches!(harmful.ground, VerdictGround::Signals { chance } if chance < 0.001));
        worse.iter_mut().for_each(|task| task.arm = if task.arm == Arm::Shown { Arm::HeldBack } else { Arm::Shown });
        assert_eq!(decide(&worse, 0, &policy), None);
        // Where most outcomes are known, they alone count.
        let mut known = alternating(60, Some(1.0), Some(1.0));
        known.iter_mut().filter(|task| task.arm == Arm::Shown).for_each(|task| task.errors = 4);
        assert_eq!(decide(&known, 0, &policy), None);
    }

    #[test]
    fn one_more_turn_and_a_longer_prompt_are_no_harm() {
        let mut observations = alternating(200, None, None);
        observations.iter_mut().filter(|task| task.arm == Arm::Shown).for_each(|task| {
            task.turns += 1;
            task.micro_usd = 130;
        });
        assert_eq!(decide(&observations, 0, &TrialPolicy::default()), None);
    }

    #[test]
    fn a_clock_that_jumps_does_not_end_a_trial() {
        let day = DAY_MILLIS;
        assert_eq!(days_seen(&[]), 0);
        assert_eq!(days_seen(&[0, day, 2 * day, 5 * day]), 5);
        // A century ahead and back again.
        assert_eq!(days_seen(&[0, 36_500 * day, day, 2 * day]), 8);
        assert_eq!(days_seen(&[i64::MIN, i64::MAX, i64::MIN, i64::MAX]), 14);
        assert_eq!(days_seen(&(0..=60).map(|at| at * day).collect::<Vec<_>>()), 60);
    }

    #[test]
    fn the_next_look_is_known() {
        assert_eq!(next_look(0), Some(8));
        assert_eq!(next_look(8), Some(10));
        assert_eq!(next_look(40), Some(60));
        assert_eq!(next_look(200), None);
    }
}
