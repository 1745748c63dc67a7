//! Snapshots: a brain as encrypted, content-addressed chunks in a store, and back.
//!
//! - [`Vault`] pushes brains to a [`Store`] and restores them; [`Encryption`] says how they are encrypted.
//! - [`SnapshotHead`] is the pointer to a brain's last snapshot. Heads are created, never replaced, so that of
//!   two operators that move one brain only one succeeds.
//! - [`BrainLease`] keeps two operators from working on one brain at the same time.
//! - A [`Pointer`](pointer::Pointer) beside the store says where the head is, so that a store that was
//!   taken back is noticed.
//! - [`SnapshotManifest`] lists what a snapshot holds.
//!
//! It knows nothing of tasks, models and tools.
//!
//! ```
//! use std::sync::Arc;
//!
//! use herm_brain::brain::{Brain, BrainOptions, BrainSource, Seed};
//! use herm_brain::receipt::{Signer, TrustedKeys};
//! use herm_core::ids::SystemRandom;
//! use herm_core::{Layout, Result, SystemClock, fsio};
//! use herm_snapshot::store::MemoryStore;
//! use herm_snapshot::{Encryption, OperatorKey, RestoreOptions, Vault};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<()> {
//!     let dir = fsio::create_scratch("herm-snapshot-doc")?;
//!     let (here, there) = (Layout::new(dir.join("here")), Layout::new(dir.join("there")));
//!     let signer = Arc::new(Signer::load_or_create(&here.signing_key(), &SystemRandom)?);
//!     let trusted = TrustedKeys::Keys(vec![signer.public().clone()]);
//!     let options = BrainOptions { signer: Some(signer), ..BrainOptions::default() };
//!     let id = "7".parse()?;
//!     let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//!     Brain::hydrate(&here, &id, &BrainSource::Seed(seed), &options)?.0.close()?;
//!
//!     let key = Encryption::Key(OperatorKey::from_bytes([7; 32])); // a program reads it with `OperatorKey::load`
//!     let store = Arc::new(MemoryStore::new());
//!     let vault = Vault::new(store, key, "an operator", Arc::new(SystemRandom), Arc::new(SystemClock));
//!     let pushed = vault.push(&here, &id).await?;
//!
//!     // Restored only after every digest, the bundle hash and every receipt is verified.
//!     let restored = vault.restore(&there, &id, &RestoreOptions::new(trusted)).await?;
//!     assert_eq!(restored.head, pushed.head);
//!     fsio::remove_tree(&dir)
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `s3`, `gcs`, `azure`, `webdav` | off | that store; each sets `object_store` |
//! | `object_store` | off | what the four share; not set by itself |
//!
//! A directory, a store in memory and Walrus need no feature. The formats are in `docs/reference/snapshot.md`.

use herm_brain::{brain, bundle, memory, receipt};
use herm_core::{clock, error, fsio, ids, layout, redact, text};

mod cache;
mod catalog;
mod chunk;
mod cipher;
mod head;
mod http;
mod key;
mod lease;
mod manifest;
pub mod outbox;
mod pack;
pub mod pointer;
pub mod portable;
mod prune;
mod push;
mod restore;
pub mod store;
#[cfg(test)]
mod tests;
mod vault;
mod verify;

pub use head::{HEAD_SCHEMA, HeadWriter, SnapshotHead};
pub use key::OperatorKey;
pub use lease::{BrainLease, LeaseAttempt};
pub use manifest::{ReceiptHead, SNAPSHOT_SCHEMA, SnapshotManifest, TableEntry};
pub use prune::{PruneOptions, PruneReport};
pub use push::PushReport;
pub use restore::{Inspecting, Progress, RestoreOptions, RestoreReport, RowInspector};
pub use store::Store;
pub use vault::{Encryption, Vault};
pub use verify::{RehearsalScope, SnapshotVerification, SnapshotVerifyOptions};
