//! Statistics of an evaluation: paired comparisons with a bootstrap interval and a sign-flip test. Pure
//! and seeded: the same samples and the same seed give the same numbers on every machine, and
//! `docs/reference/verdict.md` defines them so that a stranger can compute them again.
//!
//! Repetitions of one case are no independent evidence of what a patch does to *other* cases, so what
//! is resampled is cases. Only where a noisy metric has fewer than [`FEW`] cases in a part are its
//! repetitions resampled, and the judge says so.

use crate::judge::pairs::{Case, Outcome, Pair, Tally};
use crate::measure::Metric;
use crate::verdict::{CheckCounts, Direction, MetricComparison};

/// How often an evaluation is resampled.
pub const RESAMPLES: usize = 2_000;
/// Fewer units than this are few.
pub const FEW: usize = 5;
/// Up to so many units, the sign-flip test tries all signs.
const ALL_SIGNS: usize = 12;
/// The largest change that is told apart from larger ones. It keeps every number finite.
const LARGEST_CHANGE: f64 = 1e6;
/// Two values that differ by less than this share differ by rounding alone.
const ROUNDING: f64 = 1e-9;
/// The normal quantile of 97.5 %.
const Z: f64 = 1.959_963_984_540_054;

/// A metric in a part, or in all.
pub type MetricScope = (Metric, Option<String>);

/// A seeded stream of numbers: SplitMix64.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream that begins at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws the next number of the stream, evenly from all 64-bit numbers.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`: the high half of the product of the next number and the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// A comparison and what it would have been in each resample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    pub(crate) comparison: MetricComparison,
    pub(crate) changes: Vec<f64>,
}

/// The usable values of a pair, baseline first. What differs by rounding alone does not differ.
pub(crate) fn values(pair: &Pair<'_>, metric: Metric) -> Option<[f64; 2]> {
    let of = |metrics: &std::collections::BTreeMap<Metric, f64>| metrics.get(&metric).copied();
    let (before, after) = (of(&pair.baseline.metrics)?, of(&pair.patched.metrics)?);
    if !pair.ran() || !metric.can_be(before) || !metric.can_be(after) {
        return None;
    }
    let is_rounding = (after - before).abs() <= ROUNDING * before.max(after);
    Some([before, if is_rounding { before } else { after }])
}

/// Compares every scope over the pairs of the cases, which are sorted by part.
/// A scope without a pair has no comparison.
pub(crate) fn compare(cases: &[Case<'_>], scopes: &[MetricScope], seed: u64) -> Vec<Option<Compared>> {
    let parts: Vec<&[Case<'_>]> = cases.chunk_by(|a, b| a.part == b.part).collect();
    let mut metrics: Vec<Metric> = scopes.iter().map(|(metric, _)| *metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let mut strata = Vec::new();
    let mut columns = Vec::new();
    for part in &parts {
        let whole = strata.len();
        strata.push(part.len());
        let repetitions: usize = part.iter().map(|case| case.pairs.len()).sum();
        if part.len() < FEW {
            strata.push(repetitions);
        }
        for metric in &metrics {
            let column = if metric.is_noisy() && part.len() < FEW {
                Column::by_repetition(part, *metric, whole + 1)
            } else {
                Column::by_case(part, *metric, whole)
            };
            columns.extend((column.pairs > 0).then_some(column));
        }
    }
    let of_scope = |(metric, part): &MetricScope| -> Vec<usize> {
        let fits = |column: &Column<'_>| column.metric == *metric && part.as_deref().is_none_or(|p| p == column.part);
        (0..columns.len()).filter(|index| fits(&columns[*index])).collect()
    };
    let chosen: Vec<Vec<usize>> = scopes.iter().map(of_scope).collect();
    let changes = resample(&strata, &columns, &chosen, seed);
    let each = scopes.iter().zip(chosen).zip(changes);
    each.map(|((scope, chosen), changes)| {
        let columns: Vec<&Column<'_>> = chosen.iter().map(|index| &columns[*index]).collect();
        (!columns.is_empty()).then(|| Compared { comparison: summarise(scope, &columns, &changes, seed), changes })
    })
    .collect()
}

/// One metric in one part: sums over the pairs of each unit.
struct Column<'a> {
    part: &'a str,
    metric: Metric,
    stratum: usize,
    baseline: Vec<f64>,
    patched: Vec<f64>,
    pairs: usize,
    cases: usize,
    units: usize,
    differs: bool,
}

impl<'a> Column<'a> {
    fn by_case(part: &[Case<'a>], metric: Metric, stratum: usize) -> Self {
        let mut column = Self::new(part, metric, stratum);
        for case in part {
            column.add_unit(&case.pairs);
            column.cases += usize::from(case.pairs.iter().any(|pair| values(pair, metric).is_some()));
        }
        column
    }

    fn by_repetition(part: &[Case<'a>], metric: Metric, stratum: usize) -> Self {
        let mut column = Self::new(part, metric, stratum);
        for case in part {
            case.pairs.iter().for_each(|pair| column.add_unit(std::slice::from_ref(pair)));
            column.cases += usize::from(case.pairs.iter().any(|pair| values(pair, metric).is_some()));
        }
        column
    }

    fn new(part: &[Case<'a>], metric: Metric, stratum: usize) -> Self {
        let name = part.first().map_or("", |case| case.part);
        let (baseline, patched) = (Vec::new(), Vec::new());
        Self { part: name, metric, stratum, baseline, patched, pairs: 0, cases: 0, units: 0, differs: false }
    }

    fn add_unit(&mut self, pairs: &[Pair<'_>]) {
        let (mut before, mut after, mut count) = (0.0, 0.0, 0);
        for [baseline, patched] in pairs.iter().filter_map(|pair| values(pair, self.metric)) {
            before += baseline;
            after += patched;
            count += 1;
            self.differs |= baseline != patched;
        }
        self.baseline.push(before);
        self.patched.push(after);
        self.pairs += count;
        self.units += usize::from(count > 0);
    }
}

/// The change of every scope in every resample. Each part is resampled to its own size; all metrics of
/// a resample go by the same draw, so that a whole evaluation can be judged in it.
fn resample(strata: &[usize], columns: &[Column<'_>], chosen: &[Vec<usize>], seed: u64) -> Vec<Vec<f64>> {
    let mut stream = SplitMix64::new(seed);
    let mut weights: Vec<Vec<f64>> = strata.iter().map(|units| vec![0.0; *units]).collect();
    let mut changes: Vec<Vec<f64>> = chosen.iter().map(|_| Vec::with_capacity(RESAMPLES)).collect();
    let mut sums = vec![[0.0; 2]; columns.len()];
    for _ in 0..RESAMPLES {
        for weights in &mut weights {
            weights.fill(0.0);
            let units = weights.len();
            for _ in 0..units {
                weights[stream.below(units)] += 1.0;
            }
        }
        for (sum, column) in sums.iter_mut().zip(columns) {
            let weights = &weights[column.stratum];
            *sum = [weigh(&column.baseline, weights), weigh(&column.patched, weights)];
        }
        for (changes, chosen) in changes.iter_mut().zip(chosen) {
            let total = |side: usize| chosen.iter().map(|index| sums[*index][side]).sum();
            changes.push(change(total(0), total(1)));
        }
    }
    changes
}

/// The sum of values times weights, in four partial sums side by side: a single one would be four times slower.
fn weigh(values: &[f64], weights: &[f64]) -> f64 {
    let (mut lanes, mut rest) = ([0.0; 4], 0.0);
    let (fours, last) = values.as_chunks::<4>();
    let (weight_fours, last_weights) = weights.as_chunks::<4>();
    for (values, weights) in fours.iter().zip(weight_fours) {
        for ((lane, value), weight) in lanes.iter_mut().zip(values).zip(weights) {
            *lane += value * weight;
        }
    }
    for (value, weight) in last.iter().zip(last_weights) {
        rest += value * weight;
    }
    lanes.iter().sum::<f64>() + rest
}

/// The difference as a share of the baseline. Where the baseline is 0 there is no such share: then it
/// is a share of the other side, so all of it, and 0 if both are 0. What differs by rounding alone does not differ.
fn change(baseline: f64, patched: f64) -> f64 {
    let difference = patched - baseline;
    let whole = if baseline > 0.0 { baseline } else { patched };
    if difference.abs() <= ROUNDING * baseline.max(patched) {
        return 0.0;
    }
    (difference / whole).clamp(-LARGEST_CHANGE, LARGEST_CHANGE)
}

fn summarise((metric, part): &MetricScope, columns: &[&Column<'_>], changes: &[f64], seed: u64) -> MetricComparison {
    let sum = |of: fn(&Column<'_>) -> usize| columns.iter().map(|column| of(column)).sum::<usize>();
    let (pairs, units) = (sum(|column| column.pairs), sum(|column| column.units));
    let before: f64 = columns.iter().flat_map(|column| &column.baseline).sum();
    let after: f64 = columns.iter().flat_map(|column| &column.patched).sum();
    let mut comparison = MetricComparison {
        metric: *metric,
        part: part.clone(),
        better: metric.better(),
        pairs,
        cases: sum(|column| column.cases),
        units,
        baseline: before / pairs as f64,
        patched: after / pairs as f64,
        change: change(before, after),
        interval: interval(changes, units),
        p: 1.0,
        direction: Direction::Same,
    };
    if columns.iter().any(|column| column.differs) {
        let differences = |column: &&Column<'_>| -> Vec<f64> {
            column.patched.iter().zip(&column.baseline).map(|(after, before)| after - before).collect()
        };
        comparison.p = sign_flip(&columns.iter().flat_map(differences).collect::<Vec<f64>>(), seed);
        let [bad, good] = comparison.gain_interval();
        comparison.direction = match () {
            () if bad > 0.0 => Direction::Better,
            () if good < 0.0 => Direction::Worse,
            () => Direction::Unclear,
        };
    }
    comparison
}

/// The 95 % interval of resampled changes: the percentile interval, with the tails of Student's
/// distribution in place of the normal's. The plain one is too narrow where units are few.
fn interval(changes: &[f64], units: usize) -> [f64; 2] {
    let mut sorted = changes.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = (tail(units) * sorted.len() as f64).floor() as usize;
    let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    [at(cut), at(sorted.len().saturating_sub(1 + cut))]
}

/// The share of resamples to leave out at each end: the normal tail beyond `√(n/(n−1))·t`, where `t` is the 97.5 %
/// quantile of Student's distribution with `n − 1` degrees of freedom (Hesterberg, 2015).
fn tail(units: usize) -> f64 {
    if units < 2 {
        return 0.0;
    }
    let free = (units - 1) as f64;
    normal_tail((units as f64 / free).sqrt() * student(free))
}

/// The 97.5 % quantile of Student's distribution, by the expansion of Cornish and Fisher.
fn student(free: f64) -> f64 {
    let z = Z;
    z + (z.powi(3) + z) / (4.0 * free)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * free.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * free.powi(3))
}

/// The share of the normal distribution beyond `x ≥ 0` (Abramowitz and Stegun, 7.1.26).
fn normal_tail(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x / std::f64::consts::SQRT_2);
    let series = 1.061_405_429_f64.mul_add(t, -1.453_152_027).mul_add(t, 1.421_413_741);
    let series = series.mul_add(t, -0.284_496_736).mul_add(t, 0.254_829_592);
    0.5 * series * t * (-x * x / 2.0).exp()
}

/// How probable a sum at least as far from zero is if every unit's difference could as well have the
/// other sign. All signs are tried where that is few; else as many as there are resamples.
fn sign_flip(differences: &[f64], seed: u64) -> f64 {
    let differences: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    let size: f64 = differences.iter().map(|difference| difference.abs()).sum();
    // Sums of the same values in another order differ by rounding; that must not decide.
    let found = differences.iter().sum::<f64>().abs() - ROUNDING * size;
    if differences.len() <= ALL_SIGNS {
        let all = 1_u32 << differences.len();
        let flipped = |signs: u32| -> f64 {
            let sign = |index: usize| if signs >> index & 1 == 1 { -1.0 } else { 1.0 };
            differences.iter().enumerate().map(|(index, difference)| sign(index) * difference).sum()
        };
        let as_far = (0..all).filter(|signs| flipped(*signs).abs() >= found).count();
        return as_far as f64 / f64::from(all);
    }
    let mut stream = SplitMix64::new(seed.wrapping_add(1));
    let mut as_far = 1;
    for _ in 0..RESAMPLES {
        let mut lanes = [0.0; 4];
        for chunk in differences.chunks(64) {
            let mut signs = stream.next_u64();
            for four in chunk.chunks(4) {
                for (lane, difference) in lanes.iter_mut().zip(four) {
                    *lane += f64::from_bits(difference.to_bits() ^ (signs << 63));
                    signs >>= 1;
                }
            }
        }
        as_far += usize::from(lanes.iter().sum::<f64>().abs() >= found);
    }
    as_far as f64 / (RESAMPLES + 1) as f64
}

/// Counts the checks of all cases by their outcome on both sides.
pub(crate) fn count(tallies: &[Tally<'_>]) -> CheckCounts {
    let outcomes = |wanted: &[Outcome]| tallies.iter().filter(|tally| wanted.contains(&tally.outcome())).count() as u64;
    CheckCounts {
        total: tallies.len() as u64,
        baseline_passed: outcomes(&[Outcome::Regressed, Outcome::Passing]),
        patched_passed: outcomes(&[Outcome::Fixed, Outcome::Passing]),
        regressed: outcomes(&[Outcome::Regressed]),
        fixed: outcomes(&[Outcome::Fixed]),
        flaky: tallies.iter().filter(|tally| tally.is_flaky()).count() as u64,
    }
}

/// The 95 % interval of a rate (Wilson, 1927): also right near 0 and 1, and with few of them.
pub fn wilson(passed: u64, total: u64) -> [f64; 2] {
    if total == 0 {
        return [0.0, 1.0];
    }
    let (n, rate) = (total as f64, passed.min(total) as f64 / total as f64);
    let middle = rate + Z * Z / (2.0 * n);
    let reach = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
    let whole = 1.0 + Z * Z / n;
    [((middle - reach) / whole).max(0.0), ((middle + reach) / whole).min(1.0)]
}

#[cfg(test)]
mod tests;
