//! The encoder of BERT, RoBERTa and XLM-RoBERTa: every token sees every other. RoBERTa counts positions from behind
//! its padding, and a classifier of it judges a pair of texts by the first token.

use candle_core::{Device, Tensor};

use super::layers::{Activation, Bias, LayerNorm, Linear, Sight, attend, each_row};
use super::shape::{Architecture, Shape};
use super::weights::{Table, Weights};
use crate::error::{Error, Result};

/// A BERT-like encoder, which gives one vector for each token.
#[derive(Debug)]
pub(super) struct Encoder {
    words: Table,
    positions: Table,
    /// What every token of the first type gets; texts have no other type.
    first_type: Table,
    norm: LayerNorm,
    layers: Vec<Layer>,
    hidden: usize,
    heads: usize,
    activation: Activation,
    /// The token that has no position of its own, where there is one.
    padding: Option<u32>,
}

#[derive(Debug)]
struct Layer {
    parts: Linear,
    gathered: Linear,
    gathered_norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    outer_norm: LayerNorm,
}

impl Encoder {
    pub(super) fn read(weights: &Weights, shape: &Shape) -> Result<Self> {
        let (hidden, epsilon) = (shape.hidden, shape.epsilon);
        let layers = (0..shape.layers).map(|at| Layer::read(weights, shape, at)).collect::<Result<_>>()?;
        Ok(Self {
            words: weights.table("embeddings.word_embeddings.weight", shape.words, hidden)?,
            positions: weights.table("embeddings.position_embeddings.weight", shape.positions, hidden)?,
            first_type: weights.table("embeddings.token_type_embeddings.weight", shape.types, hidden)?,
            norm: LayerNorm::read(weights, "embeddings.LayerNorm", hidden, epsilon)?,
            layers,
            hidden,
            heads: shape.heads,
            activation: shape.activation,
            padding: (shape.architecture != Architecture::Bert).then_some(shape.padding),
        })
    }

    /// A vector for each token: `[tokens, hidden]`.
    pub(super) fn run(&self, ids: &[u32]) -> Result<Tensor> {
        let mut x = vec![0.0; ids.len() * self.hidden];
        let mut counted = 0;
        for (at, (id, row)) in ids.iter().zip(x.chunks_exact_mut(self.hidden)).enumerate() {
            let position = match self.padding {
                None => at,
                Some(padding) if *id == padding => padding as usize,
                Some(padding) => {
                    counted += 1;
                    padding as usize + counted
                }
            };
            let known =
                self.words.add(*id as usize, row) && self.positions.add(position, row) && self.first_type.add(0, row);
            if !known {
                return Err(Error::corrupt(format!(
                    "the tokenizer gives token {id} at {at}, which the model does not know"
                ))
                .hint("fetch tokenizer.json and the weights of one model"));
            }
            self.norm.apply(row);
        }
        self.through(x, ids.len()).map_err(|error| Error::internal(format!("the encoder failed: {error}")))
    }

    fn through(&self, x: Vec<f32>, tokens: usize) -> candle_core::Result<Tensor> {
        let mut x = Tensor::from_vec(x, (tokens, self.hidden), &Device::Cpu)?;
        for layer in &self.layers {
            x = layer.run(&x, self.heads, self.activation)?;
        }
        Ok(x)
    }
}

impl Layer {
    fn read(weights: &Weights, shape: &Shape, at: usize) -> Result<Self> {
        let (hidden, inner, epsilon) = (shape.hidden, shape.inner, shape.epsilon);
        let name = |part: &str| format!("encoder.layer.{at}.{part}");
        let (query, key, value) =
            (name("attention.self.query"), name("attention.self.key"), name("attention.self.value"));
        Ok(Self {
            parts: Linear::stacked(weights, &[&query, &key, &value], &[hidden; 3], hidden, Bias::Yes)?,
            gathered: Linear::read(weights, &name("attention.output.dense"), hidden, hidden, Bias::Yes)?,
            gathered_norm: LayerNorm::read(weights, &name("attention.output.LayerNorm"), hidden, epsilon)?,
            inner: Linear::read(weights, &name("intermediate.dense"), hidden, inner, Bias::Yes)?,
            outer: Linear::read(weights, &name("output.dense"), inner, hidden, Bias::Yes)?,
            outer_norm: LayerNorm::read(weights, &name("output.LayerNorm"), hidden, epsilon)?,
        })
    }

    fn run(&self, x: &Tensor, heads: usize, activation: Activation) -> candle_core::Result<Tensor> {
        let (tokens, hidden) = x.dims2()?;
        let parts = self.parts.apply(x, |_, _| {})?;
        let parts = parts.reshape((tokens, 3 * heads, hidden / heads))?.transpose(0, 1)?.contiguous()?;
        let part = |at: usize| parts.narrow(0, at * heads, heads);
        let taken = attend(&part(0)?, &part(1)?, &part(2)?, Sight::All)?;
        let taken = taken.transpose(0, 1)?.contiguous()?.reshape((tokens, hidden))?;
        let x = normed_sum(x, &self.gathered, &taken, &self.gathered_norm)?;
        let inner = self.inner.apply(&x, |_, row| activation.apply(row))?;
        normed_sum(&x, &self.outer, &inner, &self.outer_norm)
    }
}

/// A product added to what was there, normed.
fn normed_sum(x: &Tensor, product: &Linear, of: &Tensor, norm: &LayerNorm) -> candle_core::Result<Tensor> {
    let was = x.flatten_all()?.to_vec1::<f32>()?;
    let width = x.dims2()?.1;
    product.apply(of, |at, row| {
        row.iter_mut().zip(was.iter().skip(at * width)).for_each(|(x, was)| *x += was);
        norm.apply(row);
    })
}

/// The head of a classifier with one number: a product, a tangent, and another product, of the first token.
#[derive(Debug)]
pub(super) struct Judge {
    dense: Linear,
    out: Linear,
}

impl Judge {
    pub(super) fn read(weights: &Weights, shape: &Shape) -> Result<Self> {
        let size = shape.hidden;
        let part = |name: &str, output: usize| {
            let rows = weights.at_root(&format!("classifier.{name}.weight"), &[output, size])?;
            let bias = weights.at_root(&format!("classifier.{name}.bias"), &[output])?;
            Linear::new(rows, Some(bias), size)
        };
        Ok(Self { dense: part("dense", size)?, out: part("out_proj", 1)? })
    }

    /// The number before it is made a part of one.
    pub(super) fn judge(&self, states: &Tensor) -> Result<f32> {
        let failed = |error| Error::internal(format!("the classifier failed: {error}"));
        let judged = || -> candle_core::Result<f32> {
            let first = each_row(&states.narrow(0, 0, 1)?, |_, _| {})?;
            let dense = self.dense.apply(&first, |_, row| row.iter_mut().for_each(|x| *x = x.tanh()))?;
            self.out.apply(&dense, |_, _| {})?.flatten_all()?.get(0)?.to_scalar()
        };
        judged().map_err(failed)
    }
}
