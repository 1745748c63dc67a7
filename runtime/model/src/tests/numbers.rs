//! The network against the formulas, counted again in the plainest way: one number after the other, in `f64`.

use super::tiny::{LLAMA, QWEN2, QWEN3, Tiny};
use crate::ModelFile;
use crate::file::{Rotation, Shape};
use crate::network::{KvCache, Network};

type Vector = Vec<f64>;

fn weights(file: &ModelFile, name: &str, rows: usize, columns: usize) -> Vec<Vector> {
    let mut all = Vec::new();
    file.rows(name, (rows, columns), |_, numbers| {
        all.extend(numbers.chunks(columns).map(|row| row.iter().map(|n| f64::from(*n)).collect::<Vector>()));
    })
    .unwrap();
    all
}

fn vector(file: &ModelFile, name: &str, count: usize) -> Option<Vector> {
    file.has(name).then(|| weights(file, name, 1, count).remove(0))
}

fn times(matrix: &[Vector], vector: &[f64], bias: Option<&Vector>) -> Vector {
    let row = |(at, row): (usize, &Vector)| {
        row.iter().zip(vector).map(|(a, b)| a * b).sum::<f64>() + bias.map_or(0.0, |bias| bias[at])
    };
    matrix.iter().enumerate().map(row).collect()
}

fn normal(vector: &[f64], weights: &[f64], epsilon: f64) -> Vector {
    let mean = vector.iter().map(|n| n * n).sum::<f64>() / vector.len() as f64;
    vector.iter().zip(weights).map(|(n, w)| n / (mean + epsilon).sqrt() * w).collect()
}

fn turned(head: &[f64], position: usize, shape: &Shape) -> Vector {
    let (mut out, pairs) = (head.to_vec(), shape.rope_width / 2);
    for pair in 0..pairs {
        let speed = f64::from(shape.rope_base).powf(-2.0 * pair as f64 / shape.rope_width as f64);
        let (sin, cos) = (position as f64 * speed).sin_cos();
        let (a, b) = match shape.rotation {
            Rotation::Neighbours => (2 * pair, 2 * pair + 1),
            Rotation::Halves => (pair, pair + pairs),
        };
        (out[a], out[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
    }
    out
}

/// The scores after the last of `tokens`, by the formulas.
fn by_hand(file: &ModelFile, tokens: &[u32]) -> Vector {
    let shape = &file.shape;
    let (wide, epsilon) = (shape.head_width, f64::from(shape.epsilon));
    let (queries, kept) = (shape.heads * wide, shape.kv_heads * wide);
    let embedding = weights(file, "token_embd.weight", shape.vocabulary, shape.width);
    let mut stream: Vec<Vector> = tokens.iter().map(|token| embedding[*token as usize].clone()).collect();
    for layer in 0..shape.layers {
        let of = |name: &str| format!("blk.{layer}.{name}");
        let linear = |name: &str, rows: usize, columns: usize| {
            let bias = vector(file, &of(&format!("{name}.bias")), rows);
            let matrix = weights(file, &of(&format!("{name}.weight")), rows, columns);
            move |input: &[f64]| times(&matrix, input, bias.as_ref())
        };
        let norm = |name: &str| vector(file, &of(name), shape.width).unwrap();
        let head_norm = |name: &str| vector(file, &of(name), wide);
        let (q, k, v) = (
            linear("attn_q", queries, shape.width),
            linear("attn_k", kept, shape.width),
            linear("attn_v", kept, shape.width),
        );
        let together = linear("attn_output", shape.width, queries);
        let before = norm("attn_norm.weight");
        let heads = |numbers: Vector, norm: Option<&Vector>, position: usize| -> Vec<Vector> {
            let one = |head: &[f64]| match norm {
                Some(norm) => turned(&normal(head, norm, epsilon), position, shape),
                None => turned(head, position, shape),
            };
            numbers.chunks(wide).map(one).collect()
        };
        let (query_norm, key_norm) = (head_norm("attn_q_norm.weight"), head_norm("attn_k_norm.weight"));
        let inputs: Vec<Vector> = stream.iter().map(|row| normal(row, &before, epsilon)).collect();
        let at = |place: usize| heads(k(&inputs[place]), key_norm.as_ref(), place);
        let keys: Vec<Vec<Vector>> = (0..inputs.len()).map(at).collect();
        let values: Vec<Vector> = inputs.iter().map(|input| v(input)).collect();
        for (position, row) in stream.iter_mut().enumerate() {
            let mut seen = Vec::new();
            for (head, query) in heads(q(&inputs[position]), query_norm.as_ref(), position).iter().enumerate() {
                let group = head / (shape.heads / shape.kv_heads);
                let score = |place: usize| {
                    query.iter().zip(&keys[place][group]).map(|(a, b)| a * b).sum::<f64>() / (wide as f64).sqrt()
                };
                let shares: Vec<f64> = (0..=position).map(|place| score(place).exp()).collect();
                let all: f64 = shares.iter().sum();
                seen.extend((group * wide..(group + 1) * wide).map(|number| {
                    shares.iter().zip(&values).map(|(share, value)| share / all * value[number]).sum::<f64>()
                }));
            }
            row.iter_mut().zip(together(&seen)).for_each(|(number, more)| *number += more);
        }
        let before = norm("ffn_norm.weight");
        let gate = linear("ffn_gate", shape.inner, shape.width);
        let up = linear("ffn_up", shape.inner, shape.width);
        let down = linear("ffn_down", shape.width, shape.inner);
        for row in &mut stream {
            let input = normal(row, &before, epsilon);
            let inner: Vector = gate(&input).iter().zip(up(&input)).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            row.iter_mut().zip(down(&inner)).for_each(|(number, more)| *number += more);
        }
    }
    let last = normal(stream.last().unwrap(), &vector(file, "output_norm.weight", shape.width).unwrap(), epsilon);
    let scores = if file.has("output.weight") {
        weights(file, "output.weight", shape.vocabulary, shape.width)
    } else {
        embedding
    };
    times(&scores, &last, None)
}

fn best<N: PartialOrd + Copy>(scores: &[N]) -> usize {
    (0..scores.len()).reduce(|best, at| if scores[at] > scores[best] { at } else { best }).unwrap()
}

/// How far apart two rows of scores are, as a share of what is usual among them.
fn apart(exact: &[f64], scores: &[f32]) -> f64 {
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|n| n * n).sum::<f64>();
    let off = squares(&mut exact.iter().zip(scores).map(|(a, b)| a - f64::from(*b)));
    (off / squares(&mut exact.iter().copied())).sqrt()
}

/// Weights here are eight bits wide, as the network has them, so what differs is the rounding of what goes
/// through it: a part in 127 of the largest number of each 32.
#[test]
fn the_scores_are_what_the_formulas_say() {
    for plan in [LLAMA, QWEN2, QWEN3] {
        let work = tempfile::tempdir().unwrap();
        let file = ModelFile::open(&Tiny::new(plan).write(work.path())).unwrap();
        let network = Network::load(&file).unwrap();
        let tokens: Vec<u32> = (0..21).map(|at| at * 37 % 260).collect();
        for count in [1, 2, 5, 16, 17, 21] {
            let tokens = &tokens[..count];
            let exact = by_hand(&file, tokens);
            let scores = network.score(&network.read(tokens, &mut KvCache::new(&file.shape)));
            let off = apart(&exact, &scores);
            assert!(off < 0.04, "{} after {count}: {off} off", plan.family);
            let (ours, theirs) = (best(&scores), best(&exact));
            let most = exact.iter().zip(&scores).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
            assert!(exact[theirs] - exact[ours] <= 2.0 * most, "{} after {count}: {ours} and {theirs}", plan.family);
            // One at a time, or some at once: the same bits.
            let mut past = KvCache::new(&file.shape);
            let last = tokens.chunks(3).map(|some| network.read(some, &mut past)).last().unwrap();
            assert_eq!(network.score(&last), scores);
        }
    }
}

/// What the test above would say of a network that turns its heads another way.
#[test]
fn another_rotation_is_not_taken_for_rounding() {
    let work = tempfile::tempdir().unwrap();
    let mut file = ModelFile::open(&Tiny::new(LLAMA).write(work.path())).unwrap();
    let tokens: Vec<u32> = (0..21).map(|at| at * 37 % 260).collect();
    let network = Network::load(&file).unwrap();
    let scores = network.score(&network.read(&tokens, &mut KvCache::new(&file.shape)));
    file.shape.rotation = Rotation::Halves;
    let off = apart(&by_hand(&file, &tokens), &scores);
    assert!(off > 0.1, "{off} off");
}
