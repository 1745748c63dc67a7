//! What texts mean: as vectors that can be compared, and as a judgement of a question and a text read together.
//!
//! Only the traits stand here. The package `herm-semantic` implements them with models that run inside the process; an
//! embedder may bring others. What a model says may only change an order: `docs/operate/semantic.md`.

mod settings;

use crate::error::Result;

pub use settings::{Device, MOST_TEXT, SemanticOptions, TEXT_LIMIT};

/// What a text is to a model that treats the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingInput {
    /// What is looked for.
    Query,
    /// What may be found.
    Passage,
}

/// Turns texts into vectors of length one, so that a dot product says how near two texts are. Slow: call it
/// off the executor's threads.
pub trait Embedder: Send + Sync + std::fmt::Debug {
    /// Names the model and its version; vectors of different names are never compared.
    fn name(&self) -> &str;
    /// The vector of a text.
    fn embed(&self, text: &str, part: EmbeddingInput) -> Result<Vec<f32>>;
}

/// Reads a question and a text together and says how well the text answers it. Slower still than an [`Embedder`].
pub trait Reranker: Send + Sync + std::fmt::Debug {
    /// Names the model and its version.
    fn name(&self) -> &str;
    /// How well a passage answers a query, from 0 to 1.
    fn score(&self, query: &str, passage: &str) -> Result<f32>;
}

/// How near two vectors of length one are, from -1 to 1; 0 where they cannot be compared.
pub fn nearness(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return 0.0;
    }
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
