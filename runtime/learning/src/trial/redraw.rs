//! How probable a difference between two arms is if the skill does nothing.
//!
//! A skill that does nothing leaves every score as it is, whatever arm the task was in. Then only the coins made the
//! difference, and it can be counted over all ways in which they could have fallen (a randomisation test, Fisher 1935).
//! Nothing is assumed of the scores: tasks may get harder, depend on each other, or be of many kinds.

/// Steps in a score of 1. The counting is exact for the rounded scores; this is only how finely they are compared.
const STEPS: f64 = 100.0;
/// How much more the last task weighs than the first. A brain changes during a trial, and this breaks the
/// ties between equal counts.
const RECENCY: f64 = 0.1;

/// How probable it is by the coins alone that the shown tasks do this well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RedrawChances {
    /// As well as they did, or better.
    pub(super) as_well: f64,
    /// As badly as they did, or worse.
    pub(super) as_badly: f64,
}

/// One task: whether its coin showed the skill, and its score.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    pub(super) shown: bool,
    pub(super) score: f64,
}

/// Redraws the coins of these tasks, oldest first; a coin shows the skill with probability `share`. None where the arms
/// differ by no more than the standard deviation of fair coins: they do so in one of twenty draws at least, either way
/// (Oleszkiewicz 1996), and nothing is decided by that.
pub(super) fn redraw(tasks: &[Drawn], share: f64) -> Option<RedrawChances> {
    let weights = weights(tasks);
    let apart: i64 = weights.iter().map(|(shown, weight)| if *shown { *weight } else { -weight }).sum();
    let squares: i64 = weights.iter().map(|(_, weight)| weight * weight).sum();
    if share == 0.5 && apart * apart <= squares {
        return None;
    }
    Some(sums(&weights, share))
}

/// What each task adds to the sum if the skill is shown to it.
fn weights(tasks: &[Drawn]) -> Vec<(bool, i64)> {
    let count = tasks.len() as f64;
    let mean = tasks.iter().map(|task| task.score).sum::<f64>() / count.max(1.0);
    let weigh = |(at, task): (usize, &Drawn)| {
        let recency = 1.0 + RECENCY * at as f64 / count;
        (task.shown, ((task.score - mean) * recency * STEPS).round() as i64)
    };
    tasks.iter().enumerate().map(weigh).collect()
}

/// Flips the signs of these differences, each up or down with probability one half: the same question for pairs.
pub(super) fn flip(differences: &[f64]) -> RedrawChances {
    let weights = differences.iter().map(|difference| (*difference > 0.0, (difference.abs() * STEPS).round() as i64));
    sums(&weights.collect::<Vec<_>>(), 0.5)
}

/// The distribution of the sum of the weights whose coin says so, compared with the sum that was seen.
fn sums(weights: &[(bool, i64)], share: f64) -> RedrawChances {
    let lowest: i64 = weights.iter().map(|(_, weight)| *weight.min(&0)).sum();
    let highest: i64 = weights.iter().map(|(_, weight)| *weight.max(&0)).sum();
    let seen: i64 = weights.iter().filter(|(shown, _)| *shown).map(|(_, weight)| weight).sum();
    // `chance[i]` is the chance that the sum is `lowest + i`; before the first coin, the sum is 0.
    let index = |sum: i64| usize::try_from(sum - lowest).unwrap_or_default();
    let mut chance = vec![0.0; index(highest) + 1];
    let mut before = chance.clone();
    let (mut low, mut high) = (index(0), index(0));
    chance[low] = 1.0;
    for (_, weight) in weights {
        let size = usize::try_from(weight.unsigned_abs()).unwrap_or_default();
        before[low..=high].copy_from_slice(&chance[low..=high]);
        let moved_to = if *weight < 0 { low - size } else { low + size };
        let moved_from = &before[low..=high];
        chance[low..=high].iter_mut().for_each(|stays| *stays *= 1.0 - share);
        chance[moved_to..].iter_mut().zip(moved_from).for_each(|(sum, from)| *sum += from * share);
        low = low.min(moved_to);
        high = high.max(moved_to + moved_from.len() - 1);
    }
    let (below, above) = chance.split_at(index(seen));
    let here = above.first().copied().unwrap_or_default();
    let (below, above) = (below.iter().sum::<f64>(), above.iter().skip(1).sum::<f64>());
    RedrawChances { as_well: (here + above).min(1.0), as_badly: (here + below).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(shown: &[f64], held: &[f64]) -> Vec<Drawn> {
        let each = |scores: &[f64], shown| scores.iter().map(move |score| Drawn { shown, score: *score }).collect();
        let (mut all, held): (Vec<Drawn>, Vec<Drawn>) = (each(shown, true), each(held, false));
        all.extend(held);
        all
    }

    #[test]
    fn chances_are_counted_over_every_way_the_coins_fall() {
        // Of three coins, only "the good one shown and no other" reaches as far up.
        let chances = sums(&weights(&drawn(&[1.0], &[0.0, 0.0])), 0.5);
        assert_eq!(chances, RedrawChances { as_well: 0.125, as_badly: 1.0 });
        // As well by flipping three signs: all three up.
        assert_eq!(flip(&[1.0, 1.0, 1.0]), RedrawChances { as_well: 0.125, as_badly: 1.0 });
        assert_eq!(flip(&[0.0, 0.0]), NO_EVIDENCE);
    }

    #[test]
    fn every_subset_counted_one_by_one_gives_the_same() {
        let tasks = drawn(&[1.0, 0.7, 0.2, 1.0], &[0.0, 0.4, 1.0, 0.0, 0.1]);
        let weights = weights(&tasks);
        for share in [0.5, 0.3] {
            let seen: i64 = (0..4).map(|at| weights[at].1).sum();
            let (mut as_well, mut as_badly) = (0.0, 0.0);
            for coins in 0_u32..1 << 9 {
                let sum: i64 = (0..9).filter(|at| coins >> at & 1 == 1).map(|at: usize| weights[at].1).sum();
                let shown = coins.count_ones() as i32;
                let chance = f64::powi(share, shown) * f64::powi(1.0 - share, 9 - shown);
                as_well += if sum >= seen { chance } else { 0.0 };
                as_badly += if sum <= seen { chance } else { 0.0 };
            }
            let chances = sums(&weights, share);
            assert!((chances.as_well - as_well).abs() < 1e-12 && (chances.as_badly - as_badly).abs() < 1e-12);
        }
    }

    #[test]
    fn nothing_seen_or_nothing_different_is_no_evidence() {
        for tasks in [drawn(&[], &[]), drawn(&[1.0; 20], &[1.0; 20])] {
            assert_eq!(redraw(&tasks, 0.5), None);
            assert_eq!(redraw(&tasks, 0.4), Some(NO_EVIDENCE));
        }
        assert_eq!(flip(&[]), NO_EVIDENCE);
    }

    #[test]
    fn what_is_not_counted_could_not_have_decided() {
        let mut left_out = 0;
        for shown in 0_u32..1 << 10 {
            let tasks: Vec<Drawn> =
                (0..10).map(|at| Drawn { shown: shown >> at & 1 == 1, score: f64::from(at % 3) / 2.0 }).collect();
            if redraw(&tasks, 0.5).is_none() {
                let chances = sums(&weights(&tasks), 0.5);
                assert!(chances.as_well > 0.05 && chances.as_badly > 0.05, "{chances:?}");
                left_out += 1;
            }
        }
        assert!(left_out > 500, "{left_out} of 1,024");
    }

    const NO_EVIDENCE: RedrawChances = RedrawChances { as_well: 1.0, as_badly: 1.0 };
}
