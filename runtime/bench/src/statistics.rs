//! How sure one can be: counts, intervals and the paired test.

use herm::successor::statistics::wilson;

/// Two arms on the same tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PairedCounts {
    /// Tasks that this arm solved and the other did not.
    pub(super) better: u64,
    /// Tasks that the other solved and this one did not.
    pub(super) worse: u64,
}

impl PairedCounts {
    /// Counts pairs: whether this arm solved a task, and whether the other did.
    pub(super) fn of(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        pairs.into_iter().fold(Self::default(), |counts, pair| match pair {
            (true, false) => Self { better: counts.better + 1, ..counts },
            (false, true) => Self { worse: counts.worse + 1, ..counts },
            _ => counts,
        })
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { better: self.better + other.better, worse: self.worse + other.worse }
    }

    /// The exact two-sided p of McNemar's test: how probable a split at least as uneven is, if each task that only one
    /// of them solved could as well have been solved by the other.
    pub(super) fn p(self) -> f64 {
        let (all, few) = (self.better + self.worse, self.better.min(self.worse));
        // The sum of C(all, i) for i = 0 … few, over 2^all. Halving goes on while the sum grows: no power of two is ever
        // too large or too small for a number.
        let (mut term, mut sum, mut halvings) = (1.0_f64, 1.0_f64, all);
        for taken in 0..few {
            term *= (all - taken) as f64 / (taken + 1) as f64;
            sum += term;
            while sum > 1.0 && halvings > 0 {
                (term, sum, halvings) = (term / 2.0, sum / 2.0, halvings - 1);
            }
        }
        for _ in 0..halvings {
            sum /= 2.0;
        }
        (2.0 * sum).min(1.0)
    }
}

/// Solved of all, with the 95 % interval of the share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SolvedCount {
    pub(super) solved: u64,
    pub(super) tasks: u64,
}

impl SolvedCount {
    pub(super) fn of(solved: impl IntoIterator<Item = bool>) -> Self {
        solved.into_iter().fold(Self::default(), |count, solved| Self {
            solved: count.solved + u64::from(solved),
            tasks: count.tasks + 1,
        })
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { solved: self.solved + other.solved, tasks: self.tasks + other.tasks }
    }

    pub(super) fn interval(self) -> [f64; 2] {
        wilson(self.solved, self.tasks)
    }
}

/// The mean; nothing where there is none.
pub(super) fn mean(values: impl IntoIterator<Item = u32>) -> Option<f64> {
    let (sum, count) =
        values.into_iter().fold((0_u64, 0_u64), |(sum, count), value| (sum + u64::from(value), count + 1));
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(better: u64, worse: u64) -> f64 {
        PairedCounts { better, worse }.p()
    }

    #[test]
    fn the_paired_test_is_exact() {
        for ((better, worse), wanted) in [
            ((0, 0), 1.0),
            ((1, 0), 1.0),
            ((5, 0), 0.0625),
            ((0, 6), 0.03125),
            ((8, 1), 0.039_062_5),
            ((10, 2), 0.038_574_218_75),
            ((7, 7), 1.0),
        ] {
            assert!((p(better, worse) - wanted).abs() < 1e-12, "{better} {worse}: {}", p(better, worse));
        }
        assert!(p(43, 0) < 1e-12 && p(43, 0) > 0.0);
        // As the normal distribution has it, where there are very many.
        let many = p(5_200, 4_800);
        assert!((many - 6.5e-5).abs() < 1e-5, "{many}");
        assert!((p(5_000, 5_000) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn pairs_are_counted_by_who_alone_solved_them() {
        let counts = PairedCounts::of([(true, false), (true, true), (false, true), (true, false), (false, false)]);
        assert_eq!(counts, PairedCounts { better: 2, worse: 1 });
        assert_eq!(counts.plus(counts), PairedCounts { better: 4, worse: 2 });
    }

    #[test]
    fn a_share_has_its_interval_and_no_values_have_no_mean() {
        let count = SolvedCount::of([true, false, true, true]);
        assert_eq!(count, SolvedCount { solved: 3, tasks: 4 });
        let [low, high] = count.interval();
        assert!(low < 0.75 && 0.75 < high);
        assert_eq!((mean([1, 2, 4]), mean([])), (Some(7.0 / 3.0), None));
    }
}
