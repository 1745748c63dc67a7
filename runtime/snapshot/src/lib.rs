//! Snapshots: a brain as encrypted, content-addressed chunks in a store, and back.
//!
//! - [`Vault`] pushes brains to a [`Store`] and restores them; [`Secrecy`] says how they are encrypted.
//! - [`Head`] is the pointer to a brain's last snapshot. Heads are created, never replaced, so that of
//!   two operators that move one brain only one succeeds.
//! - [`Lease`] keeps two operators from working on one brain at the same time.
//! - A [`Pointer`](pointer::Pointer) beside the store says where the head is, so that a store that was taken back is
//!   caught.
//! - [`Manifest`] lists what a snapshot holds.
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

pub use head::{HEAD_SCHEMA, Head, Writer};
pub use key::OperatorKey;
pub use lease::{Lease, Taken};
pub use manifest::{Manifest, ReceiptHead, SNAPSHOT_SCHEMA, TableEntry};
pub use prune::{Keeping, Pruned};
pub use push::Pushed;
pub use restore::{Inspect, Inspecting, Progress, Restored, Restoring};
pub use store::Store;
pub use vault::{Secrecy, Vault};
pub use verify::{Rehearse, Verified, Verifying};
