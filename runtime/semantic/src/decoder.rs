//! The decoder of Qwen3, as its embedding models use it: every token sees itself and those before it, heads of a group
//! share keys and values, and positions are turns of pairs of numbers.

use candle_core::{Device, Tensor};

use super::layers::{Activation, Bias, Linear, RmsNorm, Sight, attend, each_row};
use super::shape::Shape;
use super::weights::{Table, Weights};
use crate::error::{Error, Result};

/// A Qwen3 decoder, which gives one vector for each token.
#[derive(Debug)]
pub(super) struct Decoder {
    words: Table,
    layers: Vec<Layer>,
    norm: RmsNorm,
    sides: Sides,
    rope_base: f64,
}

#[derive(Debug, Clone, Copy)]
struct Sides {
    hidden: usize,
    inner: usize,
    heads: usize,
    groups: usize,
    size: usize,
}

#[derive(Debug)]
struct Layer {
    before: RmsNorm,
    parts: Linear,
    query_norm: RmsNorm,
    key_norm: RmsNorm,
    gathered: Linear,
    between: RmsNorm,
    gate_and_up: Linear,
    down: Linear,
}

impl Decoder {
    pub(super) fn read(weights: &Weights, shape: &Shape) -> Result<Self> {
        let sides = Sides {
            hidden: shape.hidden,
            inner: shape.inner,
            heads: shape.heads,
            groups: shape.key_heads,
            size: shape.head_size,
        };
        let layers =
            (0..shape.layers).map(|at| Layer::read(weights, sides, shape.epsilon, at)).collect::<Result<_>>()?;
        Ok(Self {
            words: weights.table("embed_tokens.weight", shape.words, shape.hidden)?,
            layers,
            norm: RmsNorm::read(weights, "norm", shape.hidden, shape.epsilon)?,
            sides,
            rope_base: shape.rope_base,
        })
    }

    /// A vector for each token: `[tokens, hidden]`.
    pub(super) fn run(&self, ids: &[u32]) -> Result<Tensor> {
        let hidden = self.sides.hidden;
        let mut x = vec![0.0; ids.len() * hidden];
        for (id, row) in ids.iter().zip(x.chunks_exact_mut(hidden)) {
            if !self.words.add(*id as usize, row) {
                return Err(Error::corrupt(format!("the tokenizer gives token {id}, which the model does not know"))
                    .hint("fetch tokenizer.json and the weights of one model"));
            }
        }
        let turns = Turns::new(ids.len(), self.sides.size, self.rope_base);
        self.through(x, &turns).map_err(|error| Error::internal(format!("the decoder failed: {error}")))
    }

    fn through(&self, x: Vec<f32>, turns: &Turns) -> candle_core::Result<Tensor> {
        let mut x = Tensor::from_vec(x, (turns.tokens, self.sides.hidden), &Device::Cpu)?;
        for layer in &self.layers {
            x = layer.run(&x, self.sides, turns)?;
        }
        each_row(&x, |_, row| self.norm.apply(row))
    }
}

impl Layer {
    fn read(weights: &Weights, sides: Sides, epsilon: f32, at: usize) -> Result<Self> {
        let Sides { hidden, inner, heads, groups, size } = sides;
        let name = |part: &str| format!("layers.{at}.{part}");
        let (query, key, value) = (name("self_attn.q_proj"), name("self_attn.k_proj"), name("self_attn.v_proj"));
        let attention = [heads * size, groups * size, groups * size];
        let (gate, up) = (name("mlp.gate_proj"), name("mlp.up_proj"));
        Ok(Self {
            before: RmsNorm::read(weights, &name("input_layernorm"), hidden, epsilon)?,
            parts: Linear::stacked(weights, &[&query, &key, &value], &attention, hidden, Bias::No)?,
            query_norm: RmsNorm::read(weights, &name("self_attn.q_norm"), size, epsilon)?,
            key_norm: RmsNorm::read(weights, &name("self_attn.k_norm"), size, epsilon)?,
            gathered: Linear::read(weights, &name("self_attn.o_proj"), heads * size, hidden, Bias::No)?,
            between: RmsNorm::read(weights, &name("post_attention_layernorm"), hidden, epsilon)?,
            gate_and_up: Linear::stacked(weights, &[&gate, &up], &[inner; 2], hidden, Bias::No)?,
            down: Linear::read(weights, &name("mlp.down_proj"), inner, hidden, Bias::No)?,
        })
    }

    fn run(&self, x: &Tensor, sides: Sides, turns: &Turns) -> candle_core::Result<Tensor> {
        let Sides { inner, heads, groups, size, .. } = sides;
        let tokens = turns.tokens;
        let normed = each_row(x, |_, row| self.before.apply(row))?;
        let parts = self.parts.apply(&normed, |at, row| {
            for (head, numbers) in row.chunks_exact_mut(size).enumerate() {
                match head {
                    head if head < heads => self.query_norm.apply(numbers),
                    head if head < heads + groups => self.key_norm.apply(numbers),
                    _ => continue,
                }
                turns.turn(at, numbers);
            }
        })?;
        let parts = parts.reshape((tokens, heads + 2 * groups, size))?.transpose(0, 1)?.contiguous()?;
        let queries = parts.narrow(0, 0, heads)?.reshape((groups, heads / groups * tokens, size))?;
        let keys = parts.narrow(0, heads, groups)?;
        let values = parts.narrow(0, heads + groups, groups)?;
        let taken = attend(&queries, &keys, &values, Sight::Past)?.reshape((heads, tokens, size))?;
        let taken = taken.transpose(0, 1)?.contiguous()?.reshape((tokens, heads * size))?;
        let x = (x + self.gathered.apply(&taken, |_, _| {})?)?;
        let normed = each_row(&x, |_, row| self.between.apply(row))?;
        let gated = self.gate_and_up.apply(&normed, |_, row| {
            let (gate, up) = row.split_at_mut(inner);
            Activation::Silu.apply(gate);
            gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= *up);
        })?;
        let gated = gated.narrow(1, 0, inner)?.contiguous()?;
        &x + self.down.apply(&gated, |_, _| {})?
    }
}

/// How far the pairs of numbers of each position are turned.
#[derive(Debug)]
struct Turns {
    tokens: usize,
    half: usize,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Turns {
    fn new(tokens: usize, size: usize, base: f64) -> Self {
        let half = size / 2;
        let angle = |token: usize, pair: usize| token as f64 / base.powf(2.0 * pair as f64 / size as f64);
        let angles: Vec<f64> = (0..tokens).flat_map(|token| (0..half).map(move |pair| angle(token, pair))).collect();
        let cosines = angles.iter().map(|angle| angle.cos() as f32).collect();
        let sines = angles.iter().map(|angle| angle.sin() as f32).collect();
        Self { tokens, half, cosines, sines }
    }

    /// Turns the numbers of a head: the first half with the second.
    fn turn(&self, token: usize, head: &mut [f32]) {
        let (first, second) = head.split_at_mut(self.half);
        let angles = self.cosines.iter().zip(&self.sines).skip(token * self.half);
        for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(angles) {
            (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
        }
    }
}
