//! Embedding models and rerankers that run inside the process.
//!
//! It knows nothing of brains but the two traits it implements: [`Embedder`] and [`Reranker`].
//!
//! ```no_run
//! use std::path::Path;
//!
//! use herm_brain::semantic::{EmbeddingInput, SemanticOptions, nearness};
//!
//! fn main() -> herm_core::Result<()> {
//!     // A directory with config.json, tokenizer.json and model.safetensors, as their makers publish it.
//!     let model = herm_semantic::embedder(Path::new("/srv/models/all-MiniLM-L6-v2"), SemanticOptions::default())?;
//!     let question = model.embed("who may withdraw", EmbeddingInput::Query)?;
//!     let passage = model.embed("Only the owner can take money out.", EmbeddingInput::Passage)?;
//!     println!("{:.3}", nearness(&question, &passage));
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! None. Models, formats and how vectors are used: `docs/operate/semantic.md` and `docs/reference/recall.md`.

use std::path::Path;
use std::sync::Arc;

use herm_brain::semantic::{Embedder, EmbeddingInput, Reranker, SemanticOptions};
use herm_core::{error, fsio, text};

mod decoder;
mod encoder;
mod layers;
mod models;
mod shape;
mod tokens;
mod weights;

/// The embedding model of a directory. Its weights are read when it is first used, once, and kept.
pub fn embedder(directory: &Path, running: SemanticOptions) -> error::Result<Arc<dyn Embedder>> {
    Ok(Arc::new(models::Embedding::open(directory, running)?))
}

/// The reranking model of a directory. Its weights are read when it is first used, once, and kept.
pub fn reranker(directory: &Path, running: SemanticOptions) -> error::Result<Arc<dyn Reranker>> {
    Ok(Arc::new(models::Reranking::open(directory, running)?))
}
