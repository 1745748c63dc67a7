//! How large a difference is, with its 95 % interval.
//!
//! The interval of a difference of means is Newcombe's (1998, method 10) on Wilson's intervals. For scores between 0 and 1
//! that are no yes or no it is too wide rather than too narrow, since no such score varies more than a yes or no of the same
//! mean. After an early stop the difference itself is somewhat too large, as with every test that stops early.

use serde::Serialize;

/// The normal quantile of 97.5 %.
const Z: f64 = 1.959_963_984_540_054;

/// Scores of one arm: how many, and their sum.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ScoreSum {
    /// How many scores were added.
    pub count: u64,
    /// Their sum, each between 0 and 1.
    pub sum: f64,
}

impl ScoreSum {
    /// The sum of these scores; each is held to 0 to 1.
    pub fn of(scores: impl IntoIterator<Item = f64>) -> Self {
        scores.into_iter().fold(Self::default(), |so_far, score| so_far.with(score))
    }

    /// The same with one score more, held to 0 to 1.
    #[must_use]
    pub fn with(self, score: f64) -> Self {
        Self { count: self.count + 1, sum: self.sum + score.clamp(0.0, 1.0) }
    }

    /// The mean; none where there is no score.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| (self.sum / self.count as f64).clamp(0.0, 1.0))
    }

    /// Wilson's 95 % interval of the mean.
    pub fn interval(self) -> [f64; 2] {
        let Some(rate) = self.mean() else { return [0.0, 1.0] };
        let n = self.count as f64;
        let middle = rate + Z * Z / (2.0 * n);
        let reach = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
        let whole = 1.0 + Z * Z / n;
        [((middle - reach) / whole).max(0.0), ((middle + reach) / whole).min(1.0)]
    }
}

/// A difference between two means, and where it lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// The mean with the skill minus the mean without it.
    pub value: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}

/// What tasks gain that see a skill; none where one of the arms has no score.
pub fn gain(shown: ScoreSum, held_back: ScoreSum) -> Option<Gain> {
    correlated(shown, held_back, 0.0)
}

/// What tasks gain that were run with a skill and without it: `pairs` of scores, with it first.
pub fn paired_gain(pairs: &[(f64, f64)]) -> Option<Gain> {
    let with = ScoreSum::of(pairs.iter().map(|(with, _)| *with));
    let without = ScoreSum::of(pairs.iter().map(|(_, without)| *without));
    correlated(with, without, correlation(pairs))
}

/// The square-and-add interval: each end is as far from the difference as the ends of both means say, less what
/// both means have in common.
fn correlated(first: ScoreSum, second: ScoreSum, correlation: f64) -> Option<Gain> {
    let (a, b) = (first.mean()?, second.mean()?);
    let ([a_low, a_high], [b_low, b_high]) = (first.interval(), second.interval());
    let reach = |x: f64, y: f64| (x * x - 2.0 * correlation * x * y + y * y).max(0.0).sqrt();
    let value = a - b;
    let low = (value - reach(a - a_low, b_high - b)).max(-1.0);
    let high = (value + reach(a_high - a, b - b_low)).min(1.0);
    Some(Gain { value, low, high })
}

/// Pearson's correlation; 0 where one side never varies.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let mean = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / n;
    let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    let both = sum(&|pair| (pair.0 - a) * (pair.1 - b));
    let spread = (sum(&|pair| (pair.0 - a).powi(2)) * sum(&|pair| (pair.1 - b).powi(2))).sqrt();
    if spread > 0.0 { (both / spread).clamp(-1.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, known: f64) -> bool {
        (found - known).abs() < 5e-5
    }

    #[test]
    fn intervals_are_those_of_the_literature() {
        // Newcombe 1998, Statistics in Medicine 17: 873-890, table II, method 10.
        for (x, m, y, n, low, high) in [
            (56, 70, 48, 80, 0.0524, 0.3339),
            (9, 10, 3, 10, 0.1705, 0.8090),
            (10, 10, 0, 20, 0.6791, 1.0),
            (10, 10, 0, 10, 0.6075, 1.0),
        ] {
            let sum = |count, sum| ScoreSum { count, sum: f64::from(sum) };
            let found = gain(sum(m, x), sum(n, y)).unwrap();
            assert!(near(found.low, low) && near(found.high, high), "{x}/{m} {y}/{n}: {found:?}");
        }
    }

    #[test]
    fn pairs_that_move_together_have_a_narrower_interval() {
        let pairs: Vec<(f64, f64)> =
            (0..40).map(|at| if at < 20 { (1.0, f64::from(at < 12)) } else { (0.0, 0.0) }).collect();
        let paired = paired_gain(&pairs).unwrap();
        let sum = |side: fn(&(f64, f64)) -> f64| ScoreSum::of(pairs.iter().map(side));
        let unpaired = gain(sum(|pair| pair.0), sum(|pair| pair.1)).unwrap();
        assert_eq!(paired.value, unpaired.value);
        assert!(paired.low > unpaired.low && paired.high < unpaired.high && paired.low > 0.0);
    }

    #[test]
    fn without_a_score_there_is_no_gain() {
        assert_eq!(gain(ScoreSum::default(), ScoreSum::of([1.0])), None);
        assert_eq!(paired_gain(&[]), None);
        assert_eq!(ScoreSum::default().interval(), [0.0, 1.0]);
    }
}
