//! The parts that both architectures are made of: products, norms, activations and attention. Products are candle's;
//! what goes over single rows is plain Rust that the compiler can put into vector instructions, for texts are short and
//! one at a time.

use candle_core::{Device, Result, Tensor};

use super::weights::Weights;

/// What is applied between the two products of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Gelu,
    GeluTanh,
    Relu,
    Silu,
}

impl Activation {
    pub(super) fn apply(self, row: &mut [f32]) {
        match self {
            Self::Gelu => {
                row.iter_mut().for_each(|x| *x = 0.5 * *x * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2)))
            }
            Self::GeluTanh => row.iter_mut().for_each(|x| {
                // 0.5 (1 + tanh y) is the logistic function of 2 y.
                let y = 0.797_884_6 * (*x + 0.044_715 * *x * *x * *x);
                *x *= logistic(2.0 * y);
            }),
            Self::Relu => row.iter_mut().for_each(|x| *x = x.max(0.0)),
            Self::Silu => row.iter_mut().for_each(|x| *x *= logistic(*x)),
        }
    }
}

/// 1 / (1 + e^-x).
pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// e^x to about one part in ten million, by arithmetic alone: the library's own is a call for each number.
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it leaves an integer in the low bits
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let mut sum = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = sum * rest + factor;
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    (sum * rest * rest + rest + 1.0) * power
}

/// The error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
fn erf(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let mut sum = 1.061_405_4;
    for factor in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        sum = sum * t + factor;
    }
    (1.0 - sum * t * exp(-size * size)).copysign(x)
}

/// A matrix product with a bias.
#[derive(Debug)]
pub(super) struct Linear {
    weight: Tensor,
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// Several products of one input are made as one: their rows one after another.
    pub(super) fn stacked(
        weights: &Weights,
        names: &[&str],
        sizes: &[usize],
        input: usize,
        bias: Bias,
    ) -> crate::error::Result<Self> {
        let (mut rows, mut offsets) = (Vec::new(), Vec::new());
        for (name, &size) in names.iter().zip(sizes) {
            rows.append(&mut weights.tensor(&format!("{name}.weight"), &[size, input])?);
            if bias == Bias::Yes {
                offsets.append(&mut weights.tensor(&format!("{name}.bias"), &[size])?);
            }
        }
        Self::new(rows, (bias == Bias::Yes).then_some(offsets), input)
    }

    /// Reads the product with one matrix: `output` rows of `input` numbers, with a bias where `bias` says so.
    pub(super) fn read(
        weights: &Weights,
        name: &str,
        input: usize,
        output: usize,
        bias: Bias,
    ) -> crate::error::Result<Self> {
        Self::stacked(weights, &[name], &[output], input, bias)
    }

    pub(super) fn new(rows: Vec<f32>, bias: Option<Vec<f32>>, input: usize) -> crate::error::Result<Self> {
        let output = rows.len() / input;
        let weight = Tensor::from_vec(rows, (output, input), &Device::Cpu).and_then(|weight| weight.t());
        let weight = weight.map_err(|error| crate::error::Error::internal(format!("a matrix: {error}")))?;
        Ok(Self { weight, bias })
    }

    /// The product, and what `then` makes of each of its rows.
    pub(super) fn apply(&self, x: &Tensor, mut then: impl FnMut(usize, &mut [f32])) -> Result<Tensor> {
        let bias = self.bias.as_deref().unwrap_or_default();
        each_row(&x.matmul(&self.weight)?, |at, row| {
            row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            then(at, row);
        })
    }
}

/// Whether a product has a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    Yes,
    No,
}

/// Brings a row to mean zero and length one, then scales and moves it.
#[derive(Debug)]
pub(super) struct LayerNorm {
    scale: Vec<f32>,
    offset: Vec<f32>,
    epsilon: f32,
}

impl LayerNorm {
    pub(super) fn read(weights: &Weights, name: &str, size: usize, epsilon: f32) -> crate::error::Result<Self> {
        let scale = weights.tensor(&format!("{name}.weight"), &[size])?;
        let offset = weights.tensor(&format!("{name}.bias"), &[size])?;
        Ok(Self { scale, offset, epsilon })
    }

    pub(super) fn apply(&self, row: &mut [f32]) {
        let count = row.len() as f32;
        let mean = sum(row, |x| x) / count;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
        let by = 1.0 / (variance + self.epsilon).sqrt();
        for ((x, scale), offset) in row.iter_mut().zip(&self.scale).zip(&self.offset) {
            *x = (*x - mean) * by * scale + offset;
        }
    }
}

/// Brings a row to a mean square of one, then scales it.
#[derive(Debug)]
pub(super) struct RmsNorm {
    scale: Vec<f32>,
    epsilon: f32,
}

impl RmsNorm {
    pub(super) fn read(weights: &Weights, name: &str, size: usize, epsilon: f32) -> crate::error::Result<Self> {
        Ok(Self { scale: weights.tensor(&format!("{name}.weight"), &[size])?, epsilon })
    }

    pub(super) fn apply(&self, row: &mut [f32]) {
        let by = 1.0 / (sum(row, |x| x * x) / row.len() as f32 + self.epsilon).sqrt();
        row.iter_mut().zip(&self.scale).for_each(|(x, scale)| *x *= by * scale);
    }
}

/// A sum in eight lanes: faster than one number after another, and more exact.
fn sum(row: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (eights, rest) = row.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for eight in eights {
        lanes.iter_mut().zip(eight).for_each(|(lane, x)| *lane += of(*x));
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|x| of(*x)).sum::<f32>()
}

/// Which tokens a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    All,
    /// Itself and those before it.
    Past,
}

/// What each token takes from those that it sees. `queries` are `[groups, several heads of tokens, size]`, keys and
/// values `[groups, tokens, size]`: heads of one group share them.
pub(super) fn attend(queries: &Tensor, keys: &Tensor, values: &Tensor, sight: Sight) -> Result<Tensor> {
    let (_, tokens, size) = keys.dims3()?;
    let by = 1.0 / (size as f32).sqrt();
    let scores = each_row(&queries.matmul(&keys.t()?)?, |at, row| {
        let seen = match sight {
            Sight::All => tokens,
            Sight::Past => at % tokens + 1,
        };
        let (seen, unseen) = row.split_at_mut(seen);
        unseen.fill(0.0);
        softmax(seen, by);
    })?;
    scores.matmul(values)
}

/// Makes numbers that were multiplied by `by` positive parts of one.
fn softmax(row: &mut [f32], by: f32) {
    let most = row.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
    row.iter_mut().for_each(|x| *x = exp((*x - most) * by));
    let whole = 1.0 / sum(row, |x| x);
    row.iter_mut().for_each(|x| *x *= whole);
}

/// The same tensor with each row of its last side changed.
pub(super) fn each_row(x: &Tensor, mut change: impl FnMut(usize, &mut [f32])) -> Result<Tensor> {
    let shape = x.shape().clone();
    let width = shape.dims().last().copied().unwrap_or(1).max(1);
    let mut numbers = x.flatten_all()?.to_vec1::<f32>()?;
    numbers.chunks_exact_mut(width).enumerate().for_each(|(at, row)| change(at, row));
    Tensor::from_vec(numbers, shape, &Device::Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e_are_those_of_the_library() {
        for step in -870..=880 {
            let x = step as f32 / 10.0 + 0.037;
            let (ours, theirs) = (exp(x), f64::from(x.clamp(-87.0, 88.0)).exp());
            assert!((f64::from(ours) - theirs).abs() <= theirs * 3e-7, "{x}: {ours} {theirs}");
        }
    }

    #[test]
    fn the_error_function_is_that_of_the_tables() {
        for (x, expected) in
            [(0.0, 0.0), (0.1, 0.112_462_9), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3)]
        {
            for (x, expected) in [(x, expected), (-x, -expected)] {
                assert!((erf(x) - expected).abs() < 5e-7, "{x}: {} {expected}", erf(x));
            }
        }
        assert_eq!((erf(9.0), erf(-9.0)), (1.0, -1.0));
    }

    #[test]
    fn parts_of_a_row_add_up_to_one_whatever_its_numbers() {
        for mut row in [vec![0.0; 5], vec![-3.0e38, 3.0e38, 0.0], vec![88.0, -88.0, 1.0, 1.0]] {
            softmax(&mut row, 1.0);
            assert!(
                (row.iter().sum::<f32>() - 1.0).abs() < 1e-6 && row.iter().all(|x| (0.0..=1.0).contains(x)),
                "{row:?}"
            );
        }
    }
}
