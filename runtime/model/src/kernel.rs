//! Eight rows of weights times a few vectors: where the time goes. Twice, with the same results to the last
//! bit: for processors with AVX2, and in plain words for all others.

use crate::matrix::Inputs;

/// Numbers that share a factor.
pub(crate) const BLOCK: usize = 32;
/// Rows that are multiplied at once.
pub(crate) const TILE: usize = 8;
/// Words of a block of inputs: two numbers each.
pub(crate) const PAIRS: usize = BLOCK / 2;
/// A block of eight rows: two neighbours of each row after the other.
pub(crate) type Tile = [i8; BLOCK * TILE];

/// How many vectors go through a tile together.
const TOGETHER: usize = 4;

/// Rows of tiles times all of `inputs`. `out` is written tile by tile, input by input.
pub(crate) fn multiply(tiles: &[Tile], factors: &[[f32; TILE]], blocks: usize, inputs: &Inputs, out: &mut [f32]) {
    let count = inputs.len();
    let mut input = 0;
    while input < count {
        let step = if count - input >= TOGETHER { TOGETHER } else { 1 };
        let work = Work { tiles, factors, blocks, inputs, input, count };
        match step {
            TOGETHER => run::<TOGETHER>(&work, out),
            _ => run::<1>(&work, out),
        }
        input += step;
    }
}

/// A part of a product.
#[derive(Clone, Copy)]
struct Work<'w> {
    tiles: &'w [Tile],
    factors: &'w [[f32; TILE]],
    blocks: usize,
    inputs: &'w Inputs,
    input: usize,
    count: usize,
}

impl<'w> Work<'w> {
    fn vectors<const M: usize>(&self) -> [(&'w [[i32; PAIRS]], &'w [f32]); M] {
        std::array::from_fn(|m| self.inputs.get(self.input + m))
    }

    /// Where the sums of a row of tiles go.
    #[inline(always)]
    fn put<const M: usize>(&self, tile: usize, sums: &[[f32; TILE]; M], out: &mut [f32]) {
        let from = (tile * self.count + self.input) * TILE;
        if let Some(place) = out.get_mut(from..from + M * TILE) {
            place.copy_from_slice(sums.as_flattened());
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn run<const M: usize>(work: &Work<'_>, out: &mut [f32]) {
    match pulp::x86::V3::try_new() {
        Some(simd) => simd.vectorize(wide::Wide::<M> { simd, work, out }),
        None => plain::<M>(work, out),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn run<const M: usize>(work: &Work<'_>, out: &mut [f32]) {
    plain::<M>(work, out);
}

/// The same product in plain code, for processors without AVX2.
fn plain<const M: usize>(work: &Work<'_>, out: &mut [f32]) {
    let vectors = work.vectors::<M>();
    let rows = work.tiles.chunks_exact(work.blocks).zip(work.factors.chunks_exact(work.blocks));
    for (row, (tiles, factors)) in rows.enumerate() {
        let mut sums = [[0f32; TILE]; M];
        for (block, (tile, factors)) in tiles.iter().zip(factors).enumerate() {
            for (sums, (words, scales)) in sums.iter_mut().zip(&vectors) {
                let (Some(words), Some(scale)) = (words.get(block), scales.get(block)) else { continue };
                let mut counts = [0i32; TILE];
                for (pair, word) in tile.as_chunks::<{ 2 * TILE }>().0.iter().zip(words) {
                    #[expect(clippy::cast_possible_truncation, reason = "the lower of two numbers in a word")]
                    let (low, high) = (i32::from(*word as i16), word >> 16);
                    for (count, [first, second]) in counts.iter_mut().zip(pair.as_chunks::<2>().0) {
                        *count += i32::from(*first) * low + i32::from(*second) * high;
                    }
                }
                for ((sum, count), factor) in sums.iter_mut().zip(counts).zip(factors) {
                    *sum += count as f32 * (factor * scale);
                }
            }
        }
        work.put(row, &sums, out);
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use pulp::x86::V3;
    use pulp::{NullaryFnOnce, cast, f32x8, i8x16, i16x16};

    use super::{PAIRS, TILE, Work};

    /// The same, eight rows at a time.
    pub(crate) struct Wide<'w, const M: usize> {
        pub(crate) simd: V3,
        pub(crate) work: &'w Work<'w>,
        pub(crate) out: &'w mut [f32],
    }

    impl<const M: usize> NullaryFnOnce for Wide<'_, M> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Self { simd, work, out } = self;
            let vectors = work.vectors::<M>();
            let nothing = ([0; PAIRS], 0.0);
            let rows = work.tiles.chunks_exact(work.blocks).zip(work.factors.chunks_exact(work.blocks));
            for (row, (tiles, factors)) in rows.enumerate() {
                let mut sums = [simd.splat_f32x8(0.0); M];
                for (block, (tile, factors)) in tiles.iter().zip(factors).enumerate() {
                    let words: [&[i32; PAIRS]; M] =
                        std::array::from_fn(|m| vectors[m].0.get(block).unwrap_or(&nothing.0));
                    let mut counts = [simd.splat_i32x8(0); M];
                    for (at, pair) in tile.as_chunks::<16>().0.iter().enumerate() {
                        let weights: i16x16 = simd.convert_i8x16_to_i16x16(cast::<[i8; 16], i8x16>(*pair));
                        for m in 0..M {
                            let word: i16x16 = cast(simd.splat_i32x8(words[m][at % PAIRS]));
                            let products = simd.multiply_wrapping_add_adjacent_i16x16(weights, word);
                            counts[m] = simd.wrapping_add_i32x8(counts[m], products);
                        }
                    }
                    let factors: f32x8 = cast::<[f32; TILE], f32x8>(*factors);
                    for m in 0..M {
                        let scale = vectors[m].1.get(block).copied().unwrap_or(nothing.1);
                        let scale = simd.mul_f32x8(factors, simd.splat_f32x8(scale));
                        let count = simd.convert_i32x8_to_f32x8(counts[m]);
                        sums[m] = simd.add_f32x8(sums[m], simd.mul_f32x8(count, scale));
                    }
                }
                work.put(row, &sums.map(cast::<f32x8, [f32; TILE]>), out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn filled(rows: usize, columns: usize) -> (Matrix, Vec<f32>) {
        let weights = numbers(rows * columns, 7);
        let mut matrix = Matrix::new(rows, columns);
        matrix.put_rows(0, &weights);
        (matrix, weights)
    }

    #[test]
    fn a_product_is_near_the_exact_one() {
        for (rows, columns, count) in [(8, 32, 1), (24, 96, 4), (13, 70, 3), (64, 576, 9)] {
            let (matrix, weights) = filled(rows, columns);
            let vectors = numbers(columns * count, 99);
            let mut out = vec![0.0; rows * count];
            matrix.times(&Inputs::of(&vectors, columns), &mut out);
            for (at, got) in out.iter().enumerate() {
                let (input, row) = (at / rows, at % rows);
                let exact: f32 = (0..columns).map(|c| weights[row * columns + c] * vectors[input * columns + c]).sum();
                assert!((exact - got).abs() < 0.02 * (columns as f32).sqrt(), "{rows}×{columns}: {exact} and {got}");
            }
        }
    }

    #[test]
    fn a_vector_has_the_same_product_whatever_stands_beside_it() {
        let (matrix, _) = filled(40, 100);
        let vectors = numbers(100 * 11, 5);
        let mut together = vec![0.0; 40 * 11];
        matrix.times(&Inputs::of(&vectors, 100), &mut together);
        for (at, vector) in vectors.chunks(100).enumerate() {
            let mut alone = vec![0.0; 40];
            matrix.times(&Inputs::of(vector, 100), &mut alone);
            assert_eq!(alone, together[at * 40..(at + 1) * 40]);
        }
    }

    #[test]
    fn plain_words_and_wide_registers_agree_to_the_last_bit() {
        let blocks = 5;
        let tiles: Vec<Tile> =
            (0..3 * blocks).map(|t| std::array::from_fn(|at| ((t * 37 + at * 11) % 255) as i8)).collect();
        let factors: Vec<[f32; TILE]> = numbers(3 * blocks * TILE, 3).as_chunks::<TILE>().0.to_vec();
        let inputs = Inputs::of(&numbers(6 * blocks * BLOCK, 4), blocks * BLOCK);
        let mut wide = vec![0.0; 3 * 6 * TILE];
        multiply(&tiles, &factors, blocks, &inputs, &mut wide);
        let mut slow = vec![0.0; 3 * 6 * TILE];
        for input in 0..6 {
            let work = Work { tiles: &tiles, factors: &factors, blocks, inputs: &inputs, input, count: 6 };
            plain::<1>(&work, &mut slow);
        }
        assert_eq!(wide, slow);
    }

    #[test]
    fn a_row_is_read_back_as_it_was_put() {
        let (matrix, weights) = filled(19, 70);
        let mut row = vec![0.0; 70];
        matrix.row(18, &mut row);
        for (got, put) in row.iter().zip(&weights[18 * 70..]) {
            assert!((got - put).abs() < 0.005);
        }
    }
}
