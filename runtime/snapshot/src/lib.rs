//! Snapshots: a brain as encrypted, content-addressed chunks in a store, and back.
//!
//! - [`Vault`] pushes brains to a [`Store`] and restores them; [`Encryption`] says how they are encrypted.
//! - [`SnapshotHead`] is the pointer to a brain's last snapshot. Heads are created, never replaced, so that of
//!   two operators that move one brain only one succeeds.
//! - [`BrainLease`] keeps two operators from working on one brain at the same time.
//! - A [`Pointer`](pointer::Pointer) beside the store says where the head is, so that a store that was taken back is
//!   caught.
//! - [`SnapshotManifest`] lists what a snapshot holds.
//!
//! The formats are in `docs/reference/snapshot.md`.

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
