//! The same question for rehearsals: one task runs twice, with the skill and without it.
//!
//! If the skill does nothing, each difference could as well have the other sign. For outcomes that are good or bad this is
//! McNemar's exact test. A rehearsal is a test of its own: its looks for gain may make 3 % of error, those for harm 2 %.

use serde::Serialize;

use super::estimate::{Gain, ScoreSum, paired_gain};
use super::redraw::flip;
use super::sequential::{Look, TrialDecision, TrialVerdict, VerdictGround};
use crate::memory::{Arm, TrialTask};

/// The scores of one task, run twice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ScorePair {
    /// The score with the skill, 0 to 1.
    pub with: f64,
    /// The score without it, 0 to 1.
    pub without: f64,
}

/// The pairs among the tasks of a trial: those that were rehearsed in both arms, in the order of the first of each.
pub fn pairs_of(tasks: &[TrialTask]) -> Vec<ScorePair> {
    let mut pairs: Vec<(&str, Option<f64>, Option<f64>)> = Vec::new();
    for task in tasks.iter().filter(|task| task.rehearsed) {
        let at = match pairs.iter().position(|(name, ..)| *name == task.task) {
            Some(at) => at,
            None => {
                pairs.push((&task.task, None, None));
                pairs.len() - 1
            }
        };
        if let Some((_, with, without)) = pairs.get_mut(at) {
            *(if task.arm == Arm::Shown { with } else { without }) = task.score;
        }
    }
    pairs.into_iter().filter_map(|(_, with, without)| Some(ScorePair { with: with?, without: without? })).collect()
}

const fn look(tasks: usize, error: f64) -> Look {
    Look { tasks, error }
}

const GAIN: [Look; 5] = [look(8, 0.004), look(12, 0.006), look(16, 0.006), look(24, 0.007), look(40, 0.007)];
const HARM: [Look; 6] =
    [look(8, 0.004), look(10, 0.003), look(12, 0.003), look(16, 0.003), look(24, 0.003), look(40, 0.004)];

/// No rehearsal runs more pairs than this: it is the last look.
pub const MOST_PAIRS: usize = 40;

/// What a rehearsal found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PairedSummary {
    /// Scores with the skill.
    pub with: ScoreSum,
    /// Scores of the same tasks without it.
    pub without: ScoreSum,
    /// Tasks that went better with the skill.
    pub better: u64,
    /// Tasks that went worse with the skill.
    pub worse: u64,
    /// The difference; none without pairs.
    pub gain: Option<Gain>,
    /// How often chance alone makes a difference at least this large, in either direction.
    pub p: f64,
}

/// Sums up pairs: both means, the difference, and how likely chance alone makes one as large.
pub fn summarise(pairs: &[ScorePair]) -> PairedSummary {
    let chances = flip(&differences(pairs));
    let count = |is: fn(f64) -> bool| differences(pairs).into_iter().filter(|by| is(*by)).count() as u64;
    let both: Vec<(f64, f64)> = pairs.iter().map(|pair| (pair.with, pair.without)).collect();
    PairedSummary {
        with: ScoreSum::of(pairs.iter().map(|pair| pair.with)),
        without: ScoreSum::of(pairs.iter().map(|pair| pair.without)),
        better: count(|by| by > 0.0),
        worse: count(|by| by < 0.0),
        gain: paired_gain(&both),
        p: (2.0 * chances.as_well.min(chances.as_badly)).min(1.0),
    }
}

/// Whether the pairs so far decide; the first look that finds something does.
pub fn decide(pairs: &[ScorePair]) -> Option<TrialDecision> {
    let differences = differences(pairs);
    for tasks in 1..=differences.len().min(MOST_PAIRS) {
        let error = |looks: &[Look]| looks.iter().find(|look| look.tasks == tasks).map_or(0.0, |look| look.error);
        let (gain, harm) = (error(&GAIN), error(&HARM));
        if gain == 0.0 && harm == 0.0 {
            continue;
        }
        let chances = flip(&differences[..tasks]);
        let decided =
            |verdict, chance| Some(TrialDecision { verdict, ground: VerdictGround::Outcomes { chance }, tasks });
        if chances.as_badly <= harm {
            return decided(TrialVerdict::Harmful, chances.as_badly);
        }
        if chances.as_well <= gain {
            return decided(TrialVerdict::Proven, chances.as_well);
        }
    }
    None
}

/// With minus without, for pairs whose scores mean something.
fn differences(pairs: &[ScorePair]) -> Vec<f64> {
    let difference = |pair: &ScorePair| pair.with.clamp(0.0, 1.0) - pair.without.clamp(0.0, 1.0);
    pairs.iter().map(difference).filter(|difference| !difference.is_nan()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(better: usize, worse: usize, same: usize) -> Vec<ScorePair> {
        let times = |count, with, without| std::iter::repeat_n(ScorePair { with, without }, count);
        times(better, 1.0, 0.0).chain(times(worse, 0.0, 1.0)).chain(times(same, 1.0, 1.0)).collect()
    }

    #[test]
    fn the_errors_of_all_looks_add_up_to_five_percent() {
        let sum = |looks: &[Look]| looks.iter().map(|look| look.error).sum::<f64>();
        assert!((sum(&GAIN) - 0.03).abs() < 1e-9 && (sum(&HARM) - 0.02).abs() < 1e-9);
    }

    #[test]
    fn the_p_value_is_that_of_the_exact_test_of_mcnemar() {
        // 2 · (C(12,0) + C(12,1) + C(12,2)) / 2^12
        assert!((summarise(&pairs(10, 2, 30)).p - 2.0 * 79.0 / 4_096.0).abs() < 1e-12);
        assert_eq!(summarise(&pairs(3, 3, 3)).p, 1.0);
        assert_eq!(summarise(&[]).p, 1.0);
    }

    #[test]
    fn eight_pairs_that_all_go_one_way_decide() {
        let proven = decide(&pairs(8, 0, 0)).unwrap();
        assert_eq!((proven.verdict, proven.tasks), (TrialVerdict::Proven, 8));
        assert_eq!(decide(&pairs(0, 8, 0)).unwrap().verdict, TrialVerdict::Harmful);
        assert_eq!(decide(&pairs(7, 0, 1)), None);
        assert_eq!(decide(&pairs(0, 0, 500)), None);
    }

    #[test]
    fn what_a_rehearsal_found_is_counted() {
        let found = summarise(&pairs(6, 1, 3));
        assert_eq!((found.better, found.worse), (6, 1));
        assert_eq!((found.with.mean(), found.without.mean()), (Some(0.9), Some(0.4)));
        assert_eq!(found.gain.map(|gain| gain.value), Some(0.5));
    }
}
