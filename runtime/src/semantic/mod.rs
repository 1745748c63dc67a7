//! What texts mean: as vectors that can be compared, and as a judgement of a question and a text read together.
//!
//! The traits stand here whatever the build; the models that implement them are behind the feature `semantic`, in Rust
//! alone, and are opened by [`embedder`] and [`reranker`]. What a model says may only change an order: `docs/operate/semantic.md`.

mod settings;

#[cfg(feature = "semantic")]
mod decoder;
#[cfg(feature = "semantic")]
mod encoder;
#[cfg(feature = "semantic")]
mod layers;
#[cfg(feature = "semantic")]
mod models;
#[cfg(feature = "semantic")]
mod shape;
#[cfg(feature = "semantic")]
mod tokens;
#[cfg(feature = "semantic")]
mod weights;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;

pub use settings::{Device, MOST_TEXT, Running, TEXT_LIMIT};

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

/// Whether this build can run models.
pub const fn is_built_in() -> bool {
    cfg!(feature = "semantic")
}

/// The embedding model of a directory. Its weights are read when it is first used, once, and kept.
#[cfg(feature = "semantic")]
pub fn embedder(directory: &Path, running: Running) -> Result<Arc<dyn Embedder>> {
    Ok(Arc::new(models::Embedding::open(directory, running)?))
}

/// The reranking model of a directory. Its weights are read when it is first used, once, and kept.
#[cfg(feature = "semantic")]
pub fn reranker(directory: &Path, running: Running) -> Result<Arc<dyn Reranker>> {
    Ok(Arc::new(models::Reranking::open(directory, running)?))
}

/// Fails: this build has no models.
#[cfg(not(feature = "semantic"))]
pub fn embedder(_: &Path, _: Running) -> Result<Arc<dyn Embedder>> {
    Err(not_built_in())
}

/// Fails: this build has no models.
#[cfg(not(feature = "semantic"))]
pub fn reranker(_: &Path, _: Running) -> Result<Arc<dyn Reranker>> {
    Err(not_built_in())
}

#[cfg(not(feature = "semantic"))]
fn not_built_in() -> crate::error::Error {
    crate::error::Error::unavailable("this build runs no embedding models and no rerankers")
        .hint("build herm with `--features semantic`")
}
