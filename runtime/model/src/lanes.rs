//! Sums and exponentials of many numbers, in one fixed order and with our own arithmetic: the same bits on
//! every processor. The loops are written so that a compiler sees sixteen lanes in them.

const LANES: usize = 16;

/// The sum of products.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    total(&sums) + rest
}

#[inline(always)]
fn total(sums: &[f32; LANES]) -> f32 {
    let mut sums = *sums;
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}

/// `e` to the power of `x`, within two units of the last place; 0 and infinity are never reached.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUNDS: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUNDS;
    let whole = shifted - ROUNDS;
    // ln 2 in two parts, so that little is lost.
    let rest = (x - whole * 0.693_359_4) - whole * -2.121_944_4e-4;
    let mut power = 1.987_569_1e-4;
    for factor in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        power = power * rest + factor;
    }
    let power = power * rest * rest + rest + 1.0;
    // The last bits of the shifted number are the whole one; what is above them falls off.
    let exponent = shifted.to_bits().wrapping_add(127) << 23;
    power * f32::from_bits(exponent)
}

/// Divides `vector` by its root mean square and multiplies it with `weights`.
pub(crate) fn normalise(vector: &[f32], weights: &[f32], epsilon: f32, into: &mut [f32]) {
    let mean = dot(vector, vector) / vector.len() as f32;
    let scale = 1.0 / (mean + epsilon).sqrt();
    for ((into, number), weight) in into.iter_mut().zip(vector).zip(weights) {
        *into = number * scale * weight;
    }
}

/// `gate` through a sigmoid, times itself, times `up`: into `gate`.
pub(crate) fn gated(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

/// Positions that are scored at once.
pub(crate) const TOGETHER: usize = 16;

/// What one head makes of the past. Keys lie in blocks of sixteen positions, number by number; values
/// lie position by position.
pub(crate) struct Attention<'a> {
    /// The question of this position.
    pub(crate) query: &'a [f32],
    /// Blocks of keys, with at least `len` positions in them.
    pub(crate) keys: &'a [f32],
    /// The values so far.
    pub(crate) values: &'a [f32],
    /// How many positions are seen, this one included.
    pub(crate) len: usize,
    /// Room for one number a position.
    pub(crate) scores: &'a mut Vec<f32>,
    /// Where the answer goes.
    pub(crate) into: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Attention<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { query, keys, values, len, scores, into } = self;
        let width = query.len();
        let scale = 1.0 / (width as f32).sqrt();
        scores.clear();
        for block in keys.chunks_exact(width * TOGETHER) {
            scores.extend_from_slice(&block_scores(query, block, scale));
        }
        scores.truncate(len);
        let most = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
        let mut sums = [0f32; LANES];
        let (chunks, rest) = scores.as_chunks_mut::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                chunk[lane] = exp(chunk[lane] - most);
                sums[lane] += chunk[lane];
            }
        }
        for score in rest.iter_mut() {
            *score = exp(*score - most);
        }
        let share = 1.0 / (total(&sums) + rest.iter().sum::<f32>());
        let mut at = 0;
        while width - at >= 64 {
            weigh::<64>(scores, values, width, at, share, into);
            at += 64;
        }
        while width - at >= 16 {
            weigh::<16>(scores, values, width, at, share, into);
            at += 16;
        }
        while at < width {
            weigh::<1>(scores, values, width, at, share, into);
            at += 1;
        }
    }
}

/// The scores of sixteen positions.
#[inline(always)]
fn block_scores(query: &[f32], block: &[f32], scale: f32) -> [f32; TOGETHER] {
    // Four sums side by side: one would wait for itself.
    let [mut first, mut second, mut third, mut fourth] = [[0f32; TOGETHER]; 4];
    let (queries, last) = query.as_chunks::<4>();
    let (keys, keys_last) = block.as_chunks::<{ 4 * TOGETHER }>();
    for (queries, keys) in queries.iter().zip(keys) {
        let (keys, _) = keys.as_chunks::<TOGETHER>();
        if let [a, b, c, d] = keys {
            add_times(&mut first, queries[0], a);
            add_times(&mut second, queries[1], b);
            add_times(&mut third, queries[2], c);
            add_times(&mut fourth, queries[3], d);
        }
    }
    for (query, keys) in last.iter().zip(keys_last.as_chunks::<TOGETHER>().0) {
        add_times(&mut first, *query, keys);
    }
    std::array::from_fn(|lane| ((first[lane] + second[lane]) + (third[lane] + fourth[lane])) * scale)
}

#[inline(always)]
fn add_times(sums: &mut [f32; TOGETHER], number: f32, keys: &[f32; TOGETHER]) {
    for lane in 0..TOGETHER {
        sums[lane] = number.mul_add(keys[lane], sums[lane]);
    }
}

/// `N` numbers of the answer, from the `at`th on: the values by their scores.
#[inline(always)]
fn weigh<const N: usize>(scores: &[f32], values: &[f32], width: usize, at: usize, share: f32, into: &mut [f32]) {
    let mut sums = [0f32; N];
    for (score, value) in scores.iter().zip(values.chunks_exact(width)) {
        if let Some(value) = value.get(at..at + N).and_then(|value| value.first_chunk::<N>()) {
            for lane in 0..N {
                sums[lane] = score.mul_add(value[lane], sums[lane]);
            }
        }
    }
    if let Some(into) = into.get_mut(at..at + N) {
        for (into, sum) in into.iter_mut().zip(sums) {
            *into = sum * share;
        }
    }
}

impl Attention<'_> {
    /// Runs it with the widest registers there are.
    pub(crate) fn run(self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            return simd.vectorize(self);
        }
        pulp::NullaryFnOnce::call(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_as_good_as_the_library_s() {
        for step in -8_700..8_800 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) / exact - 1.0).abs() < 3e-7, "e^{x}: {} and {exact}", exp(x));
        }
        assert!(exp(-1e30) > 0.0 && exp(1e30).is_finite());
    }

    /// Keys as they are kept: blocks of sixteen positions.
    fn blocks(keys: &[f32], width: usize) -> Vec<f32> {
        let positions = keys.len() / width;
        let mut blocks = vec![0.0; positions.next_multiple_of(TOGETHER) * width];
        for (position, key) in keys.chunks(width).enumerate() {
            for (at, number) in key.iter().enumerate() {
                blocks[(position / TOGETHER * width + at) * TOGETHER + position % TOGETHER] = *number;
            }
        }
        blocks
    }

    #[test]
    fn a_head_that_sees_one_position_repeats_its_value() {
        let (query, value) = ([0.5; 4], [1.0, 2.0, 3.0, 4.0]);
        let keys = blocks(&[0.25; 4], 4);
        let (mut scores, mut into) = (Vec::new(), [0.0; 4]);
        Attention { query: &query, keys: &keys, values: &value, len: 1, scores: &mut scores, into: &mut into }.run();
        assert_eq!(into, value);
    }

    #[test]
    fn a_head_is_what_the_formula_says_and_wide_registers_change_no_bit_of_it() {
        for (width, positions) in [(64, 37), (20, 5), (128, 16), (2, 33)] {
            let some = |count: usize, step: f32| (0..count).map(|at| ((at as f32) * step).sin()).collect::<Vec<f32>>();
            let (query, keys, values) = (some(width, 0.7), some(width * positions, 0.3), some(width * positions, 0.9));
            let kept = blocks(&keys, width);
            let (mut fast, mut slow) = (vec![0.0; width], vec![0.0; width]);
            let (mut first, mut second) = (Vec::new(), Vec::new());
            let (keys_kept, len) = (kept.as_slice(), positions);
            let wide =
                Attention { query: &query, keys: keys_kept, values: &values, len, scores: &mut first, into: &mut fast };
            let plain = Attention {
                query: &query,
                keys: keys_kept,
                values: &values,
                len,
                scores: &mut second,
                into: &mut slow,
            };
            wide.run();
            pulp::NullaryFnOnce::call(plain);
            assert_eq!(fast, slow);
            let weights: Vec<f64> = keys
                .chunks(width)
                .map(|key| {
                    let score: f64 = key.iter().zip(&query).map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
                    (score / (width as f64).sqrt()).exp()
                })
                .collect();
            let all: f64 = weights.iter().sum();
            for (at, got) in fast.iter().enumerate() {
                let exact: f64 =
                    weights.iter().enumerate().map(|(p, w)| w / all * f64::from(values[p * width + at])).sum();
                assert!((exact - f64::from(*got)).abs() < 1e-5, "{exact} and {got}");
            }
        }
    }
}
