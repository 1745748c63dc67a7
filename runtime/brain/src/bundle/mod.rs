//! The bundle hash: one BLAKE3 root over everything durable in a brain.
//!
//! The exact definition, with test vectors, is `docs/reference/bundle.md`. This module is pure: it
//! takes paths, digests and rows, and gives digests. Files enter through [`Tree`], rows of
//! `memory.db` through [`rows`], and [`Lockfile`] is the root as it stands in `bundle.lock.json`.

mod lockfile;
mod part;
pub mod rows;
mod tree;

pub use lockfile::{BrainOrigin, LOCK_SCHEMA, Lockfile};
pub use part::{BundlePart, PartDigests};
pub use tree::{Tree, file_leaf};

/// A hasher for one kind of node, so that no node can be mistaken for one of another kind.
fn node(context: &'static str) -> blake3::Hasher {
    blake3::Hasher::new_derive_key(context)
}

/// Feeds a text with its length in front.
fn feed_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}
