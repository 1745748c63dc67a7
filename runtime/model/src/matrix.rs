//! Weights as whole numbers: blocks of 32 with one factor each, laid out so that eight rows are multiplied at
//! once. A product is counted in integers and put together in one fixed order, so that it has the same bits
//! on every processor, with any number of threads, and whatever else is multiplied beside it.

use rayon::prelude::*;

use crate::kernel::{self, BLOCK, PAIRS, TILE, Tile};

/// A matrix of weights.
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    blocks: usize,
    tiles: Vec<Tile>,
    factors: Vec<[f32; TILE]>,
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matrix({} × {})", self.rows, self.columns)
    }
}

/// So large that an `f32` has no digits behind the point.
const ROUNDS: f32 = 12_582_912.0;

/// The factor of a block, and its numbers as multiples of it.
fn quantise(numbers: &[f32], mut put: impl FnMut(usize, i8)) -> f32 {
    let most = numbers.iter().fold(0f32, |most, n| most.max(n.abs()));
    let factor = most / 127.0;
    let inverse = if factor > 0.0 { 1.0 / factor } else { 0.0 };
    for (at, number) in numbers.iter().enumerate() {
        // Adding and taking away this number rounds, without a call into the C library for each weight.
        let whole = (number * inverse + ROUNDS) - ROUNDS;
        #[expect(clippy::cast_possible_truncation, reason = "at most 127 by the choice of the factor")]
        put(at, whole as i8);
    }
    factor
}

impl Matrix {
    /// One that is filled row by row.
    pub(crate) fn new(rows: usize, columns: usize) -> Self {
        let blocks = columns.div_ceil(BLOCK);
        let count = rows.div_ceil(TILE) * blocks;
        Self { rows, columns, blocks, tiles: vec![[0; BLOCK * TILE]; count], factors: vec![[0.0; TILE]; count] }
    }

    /// Puts whole rows in their place, from row `first` on.
    pub(crate) fn put_rows(&mut self, first: usize, numbers: &[f32]) {
        for (row, numbers) in numbers.chunks_exact(self.columns).enumerate().map(|(at, row)| (first + at, row)) {
            for (block, numbers) in numbers.chunks(BLOCK).enumerate() {
                let at = row / TILE * self.blocks + block;
                let (Some(tile), Some(factors)) = (self.tiles.get_mut(at), self.factors.get_mut(at)) else { return };
                let lane = row % TILE;
                factors[lane] = quantise(numbers, |column, number| {
                    tile[column / 2 * (2 * TILE) + lane * 2 + column % 2] = number;
                });
            }
        }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads a row back.
    pub(crate) fn row(&self, row: usize, into: &mut [f32]) {
        let lane = row % TILE;
        let first = row / TILE * self.blocks;
        for (block, numbers) in into.chunks_mut(BLOCK).enumerate() {
            let (Some(tile), Some(factors)) = (self.tiles.get(first + block), self.factors.get(first + block)) else {
                return;
            };
            for (column, number) in numbers.iter_mut().enumerate() {
                let whole = tile[column / 2 * (2 * TILE) + lane * 2 + column % 2];
                *number = f32::from(whole) * factors[lane];
            }
        }
    }

    /// The product with each of `inputs`: `out` has one row of results an input.
    pub(crate) fn times(&self, inputs: &Inputs, out: &mut [f32]) {
        let count = inputs.len();
        // Enough work for a thread to be worth waking.
        let at_once = (8 * 1024 / (self.blocks * count).max(1)).clamp(1, 64);
        let mut tiled = vec![0f32; self.rows.div_ceil(TILE) * TILE * count];
        tiled
            .par_chunks_mut(at_once * TILE * count)
            .zip(self.tiles.par_chunks(at_once * self.blocks).zip(self.factors.par_chunks(at_once * self.blocks)))
            .for_each(|(out, (tiles, factors))| kernel::multiply(tiles, factors, self.blocks, inputs, out));
        if count == 1 {
            out.copy_from_slice(tiled.get(..self.rows).unwrap_or_default());
            return;
        }
        // From tile by tile to input by input.
        out.par_chunks_mut(self.rows).enumerate().for_each(|(input, row)| {
            for (tile, part) in row.chunks_mut(TILE).enumerate() {
                let from = (tile * count + input) * TILE;
                part.copy_from_slice(tiled.get(from..from + part.len()).unwrap_or_default());
            }
        });
    }
}

/// What a matrix is multiplied with: vectors as whole numbers, two in a word.
#[derive(Debug)]
pub(crate) struct Inputs {
    blocks: usize,
    words: Vec<[i32; PAIRS]>,
    factors: Vec<f32>,
}

impl Inputs {
    /// These vectors of `columns` numbers each.
    pub(crate) fn of(vectors: &[f32], columns: usize) -> Self {
        let blocks = columns.div_ceil(BLOCK);
        let count = vectors.len().checked_div(columns).unwrap_or(0) * blocks;
        let (mut words, mut factors) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for numbers in vectors.chunks_exact(columns).flat_map(|vector| vector.chunks(BLOCK)) {
            let mut whole = [0i16; BLOCK];
            factors.push(quantise(numbers, |at, number| whole[at] = i16::from(number)));
            let mut pairs = [0; PAIRS];
            for (pair, [low, high]) in pairs.iter_mut().zip(whole.as_chunks::<2>().0) {
                *pair = i32::from(*high) << 16 | i32::from(*low) & 0xffff;
            }
            words.push(pairs);
        }
        Self { blocks, words, factors }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len().checked_div(self.blocks).unwrap_or(0)
    }

    /// One of them: its words and its factors, block by block.
    pub(crate) fn get(&self, at: usize) -> (&[[i32; PAIRS]], &[f32]) {
        let range = at * self.blocks..(at + 1) * self.blocks;
        (self.words.get(range.clone()).unwrap_or_default(), self.factors.get(range).unwrap_or_default())
    }
}
