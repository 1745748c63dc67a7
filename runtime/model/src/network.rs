//! The network of the llama family: embedding, layers of attention and a gated product, and the scores of the
//! next token. What a position contributes does not depend on which others are evaluated with it, so a
//! conversation that is kept and one that is read again give the same bits.

use rayon::prelude::*;

use crate::error::Result;
use crate::file::{ModelFile, Rotation, Shape};
use crate::lanes::{self, Attention, TOGETHER};
use crate::matrix::{Inputs, Matrix};

/// The weights of one layer: attention and feed-forward.
#[derive(Debug)]
struct Layer {
    attn_norm: Vec<f32>,
    query: Linear,
    key: Linear,
    value: Linear,
    /// Each head's question and key are normalised, in some families.
    query_norm: Option<Vec<f32>>,
    key_norm: Option<Vec<f32>>,
    attn_out: Linear,
    ffn_norm: Vec<f32>,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// A matrix, and what is added to its products.
#[derive(Debug)]
struct Linear {
    matrix: Matrix,
    bias: Option<Vec<f32>>,
}

impl Linear {
    fn load(file: &ModelFile, name: &str, rows: usize, columns: usize) -> Result<Self> {
        let matrix = load(file, &format!("{name}.weight"), rows, columns)?;
        let bias = format!("{name}.bias");
        Ok(Self { matrix, bias: if file.has(&bias) { Some(file.row(&bias, rows)?) } else { None } })
    }

    fn times(&self, inputs: &Inputs) -> Vec<f32> {
        let mut out = vec![0.0; self.matrix.rows() * inputs.len()];
        self.matrix.times(inputs, &mut out);
        if let Some(bias) = &self.bias {
            for row in out.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
            }
        }
        out
    }
}

fn load(file: &ModelFile, name: &str, rows: usize, columns: usize) -> Result<Matrix> {
    file.check_tensor(name, (rows, columns))?;
    let mut matrix = Matrix::new(rows, columns);
    file.rows(name, (rows, columns), |first, numbers| matrix.put_rows(first, numbers))?;
    Ok(matrix)
}

/// The weights of a model, ready to be multiplied.
#[derive(Debug)]
pub(crate) struct Network {
    shape: Shape,
    embedding: Matrix,
    layers: Vec<Layer>,
    output_norm: Vec<f32>,
    /// The embedding again, where there is none.
    lm_head: Option<Matrix>,
    /// How far each pair of a head turns from one position to the next.
    rope_freqs: Vec<f64>,
}

impl Network {
    /// Loads the weights of a checked file into memory.
    pub(crate) fn load(file: &ModelFile) -> Result<Self> {
        let shape = file.shape.clone();
        let scores = file.has("output.weight");
        let ((embedding, scores), layers) = rayon::join(
            || {
                let of = |name| load(file, name, shape.vocabulary, shape.width);
                (of("token_embd.weight"), scores.then(|| of("output.weight")))
            },
            || (0..shape.layers).into_par_iter().map(|at| Layer::load(file, at)).collect::<Result<Vec<_>>>(),
        );
        let last = file.row("output_norm.weight", shape.width)?;
        let pairs = shape.rope_width / 2;
        let slower =
            if file.has("rope_freqs.weight") { file.row("rope_freqs.weight", pairs)? } else { vec![1.0; pairs] };
        let turns = slower.iter().enumerate().map(|(pair, slower)| {
            let exponent = -2.0 * pair as f64 / shape.rope_width as f64;
            f64::from(shape.rope_base).powf(exponent) / f64::from(*slower) / f64::from(shape.rope_scale)
        });
        let turns = turns.collect();
        Ok(Self {
            embedding: embedding?,
            layers: layers?,
            output_norm: last,
            lm_head: scores.transpose()?,
            rope_freqs: turns,
            shape,
        })
    }

    /// The numbers it was built by.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Reads `tokens` behind what `past` holds, and keeps them there.
    pub(crate) fn read(&self, tokens: &[u32], past: &mut KvCache) -> Vec<f32> {
        let (shape, first) = (&self.shape, past.len);
        let mut stream = vec![0.0; tokens.len() * shape.width];
        for (token, row) in tokens.iter().zip(stream.chunks_exact_mut(shape.width)) {
            self.embedding.row(*token as usize, row);
        }
        let waves = RopeTable::of(&self.rope_freqs, first, tokens.len());
        for (layer, kept) in self.layers.iter().zip(&mut past.layers) {
            layer.attend(shape, &waves, first, kept, &mut stream);
            layer.feed_forward(shape, &mut stream);
        }
        past.len += tokens.len();
        past.tokens.extend_from_slice(tokens);
        stream.split_off((tokens.len() - 1) * shape.width)
    }

    /// The scores of every token to come next, by what [`Network::read`] returned last.
    pub(crate) fn score(&self, last: &[f32]) -> Vec<f32> {
        let mut normal = vec![0.0; last.len()];
        lanes::normalise(last, &self.output_norm, self.shape.epsilon, &mut normal);
        let matrix = self.lm_head.as_ref().unwrap_or(&self.embedding);
        let mut scores = vec![0.0; matrix.rows()];
        matrix.times(&Inputs::of(&normal, self.shape.width), &mut scores);
        scores
    }
}

impl Layer {
    fn load(file: &ModelFile, at: usize) -> Result<Self> {
        let shape = &file.shape;
        let (width, heads) = (shape.width, shape.heads * shape.head_width);
        let kept = shape.kv_heads * shape.head_width;
        let of = |name: &str| format!("blk.{at}.{name}");
        let linear = |name: &str, rows, columns| Linear::load(file, &of(name), rows, columns);
        let norm = |name: &str| match file.has(&of(name)) {
            true => file.row(&of(name), shape.head_width).map(Some),
            false => Ok(None),
        };
        Ok(Self {
            attn_norm: file.row(&of("attn_norm.weight"), width)?,
            query: linear("attn_q", heads, width)?,
            key: linear("attn_k", kept, width)?,
            value: linear("attn_v", kept, width)?,
            query_norm: norm("attn_q_norm.weight")?,
            key_norm: norm("attn_k_norm.weight")?,
            attn_out: linear("attn_output", width, heads)?,
            ffn_norm: file.row(&of("ffn_norm.weight"), width)?,
            gate: linear("ffn_gate", shape.inner, width)?,
            up: linear("ffn_up", shape.inner, width)?,
            down: linear("ffn_down", width, shape.inner)?,
        })
    }

    fn attend(&self, shape: &Shape, waves: &RopeTable, first: usize, kept: &mut LayerCache, stream: &mut [f32]) {
        let inputs = normal_inputs(stream, &self.attn_norm, shape);
        let mut queries = self.query.times(&inputs);
        let mut keys = self.key.times(&inputs);
        let values = self.value.times(&inputs);
        let wide = shape.head_width;
        for (numbers, norm, heads) in
            [(&mut queries, &self.query_norm, shape.heads), (&mut keys, &self.key_norm, shape.kv_heads)]
        {
            for (at, row) in numbers.chunks_exact_mut(heads * wide).enumerate() {
                for head in row.chunks_exact_mut(wide) {
                    if let Some(norm) = norm {
                        let plain = head.to_vec();
                        lanes::normalise(&plain, norm, shape.epsilon, head);
                    }
                    waves.turn(at, head.get_mut(..shape.rope_width).unwrap_or_default(), shape.rotation);
                }
            }
        }
        kept.add(first, &keys, &values, wide);
        let mut seen = vec![0.0; queries.len()];
        let group = shape.heads / shape.kv_heads;
        seen.par_chunks_mut(wide).zip(queries.par_chunks(wide)).enumerate().for_each_init(
            Vec::new,
            |scores, (at, (into, query))| {
                let (row, head) = (at / shape.heads, at % shape.heads);
                let len = first + row + 1;
                if let Some(Head { keys, values }) = kept.heads.get(head / group) {
                    let keys = keys.get(..len.next_multiple_of(TOGETHER) * wide).unwrap_or_default();
                    Attention { query, keys, values, len, scores, into }.run();
                }
            },
        );
        add(stream, &self.attn_out.times(&Inputs::of(&seen, shape.heads * wide)));
    }

    fn feed_forward(&self, shape: &Shape, stream: &mut [f32]) {
        let inputs = normal_inputs(stream, &self.ffn_norm, shape);
        let mut gate = self.gate.times(&inputs);
        lanes::gated(&mut gate, &self.up.times(&inputs));
        add(stream, &self.down.times(&Inputs::of(&gate, shape.inner)));
    }
}

fn normal_inputs(stream: &[f32], weights: &[f32], shape: &Shape) -> Inputs {
    let mut normal = vec![0.0; stream.len()];
    for (row, into) in stream.chunks_exact(shape.width).zip(normal.chunks_exact_mut(shape.width)) {
        lanes::normalise(row, weights, shape.epsilon, into);
    }
    Inputs::of(&normal, shape.width)
}

fn add(stream: &mut [f32], more: &[f32]) {
    stream.iter_mut().zip(more).for_each(|(number, more)| *number += more);
}

/// How far each pair turns, for a run of positions: cosine and sine.
struct RopeTable {
    pairs: usize,
    waves: Vec<(f32, f32)>,
}

impl RopeTable {
    fn of(turns: &[f64], first: usize, count: usize) -> Self {
        let positions = (first..first + count).map(|at| at as f64);
        #[expect(clippy::cast_possible_truncation, reason = "counted in f64, kept in f32")]
        let waves =
            positions.flat_map(|at| turns.iter().map(move |turn| ((at * turn).cos() as f32, (at * turn).sin() as f32)));
        Self { pairs: turns.len(), waves: waves.collect() }
    }

    fn turn(&self, at: usize, head: &mut [f32], rotation: Rotation) {
        let waves = self.waves.get(at * self.pairs..(at + 1) * self.pairs).unwrap_or_default();
        match rotation {
            Rotation::Neighbours => {
                for ([a, b], (cos, sin)) in head.as_chunks_mut::<2>().0.iter_mut().zip(waves) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
            Rotation::Halves => {
                let (first, second) = head.split_at_mut(head.len() / 2);
                for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(waves) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
    }
}

/// What one head keeps of the positions read so far: keys in blocks of positions, values one after the other.
#[derive(Debug, Clone, Default)]
struct Head {
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// What one layer keeps.
#[derive(Debug, Clone)]
struct LayerCache {
    heads: Vec<Head>,
}

impl LayerCache {
    fn add(&mut self, first: usize, keys: &[f32], values: &[f32], wide: usize) {
        let all = self.heads.len() * wide;
        for (at, head) in self.heads.iter_mut().enumerate() {
            let of_head = |row: usize, numbers: &'_ [f32]| -> std::ops::Range<usize> {
                let from = (row * all + at * wide).min(numbers.len());
                from..(from + wide).min(numbers.len())
            };
            let rows = values.len().checked_div(all).unwrap_or(0);
            grow(&mut head.values, (first + rows) * wide);
            grow(&mut head.keys, (first + rows).next_multiple_of(TOGETHER) * wide);
            for row in 0..rows {
                let position = first + row;
                let value = values.get(of_head(row, values)).unwrap_or_default();
                if let Some(place) = head.values.get_mut(position * wide..(position + 1) * wide) {
                    place.copy_from_slice(value);
                }
                let block = position / TOGETHER * wide * TOGETHER + position % TOGETHER;
                let key = keys.get(of_head(row, keys)).unwrap_or_default();
                let places = head.keys.get_mut(block..).unwrap_or_default().iter_mut().step_by(TOGETHER);
                places.zip(key).for_each(|(place, number)| *place = *number);
            }
        }
    }
}

/// Makes room for `len` numbers: a quarter more at a time, not twice as much, for this is where the memory goes.
fn grow(numbers: &mut Vec<f32>, len: usize) {
    if len > numbers.capacity() {
        let more = (len - numbers.len()).max(numbers.len() / 4).max(4_096);
        numbers.reserve_exact(more);
    }
    numbers.resize(len, 0.0);
}

/// A conversation as far as it was read.
#[derive(Debug, Clone)]
pub(crate) struct KvCache {
    len: usize,
    tokens: Vec<u32>,
    layers: Vec<LayerCache>,
    wide: usize,
}

impl KvCache {
    /// A cache for models of this shape, with no tokens yet.
    pub(crate) fn new(shape: &Shape) -> Self {
        let empty = LayerCache { heads: vec![Head::default(); shape.kv_heads] };
        Self { len: 0, tokens: Vec::new(), layers: vec![empty; shape.layers], wide: shape.head_width }
    }

    /// The tokens that were read.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Forgets all but the first `len` tokens.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.tokens.truncate(self.len);
        for head in self.layers.iter_mut().flat_map(|layer| &mut layer.heads) {
            head.keys.truncate(self.len.next_multiple_of(TOGETHER) * self.wide);
            head.values.truncate(self.len * self.wide);
        }
    }

    /// The memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let heads = self.layers.iter().flat_map(|layer| &layer.heads);
        heads.map(|head| (head.keys.capacity() + head.values.capacity()) * size_of::<f32>()).sum()
    }
}
