//! Embedding models and rerankers that run inside the process.
//!
//! Knows nothing of brains but the two traits it implements.

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
