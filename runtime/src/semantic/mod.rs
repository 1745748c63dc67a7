//! What a text means, as a vector. The trait stands here whatever the build; the models that implement it
//! are behind the feature `semantic`.

use crate::error::Result;

/// What a text is to a model that treats the two differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
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
    fn embed(&self, text: &str, part: Part) -> Result<Vec<f32>>;
}

/// How near two vectors of length one are, from -1 to 1; 0 where they cannot be compared.
pub fn nearness(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return 0.0;
    }
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
