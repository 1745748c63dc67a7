//! The outbox of a brain: how its snapshots went, kept in the brain, so that a restart forgets nothing.
//!
//! Whether a snapshot is due is not written down anywhere: it is where the brain's version is not the one
//! that was last pushed. So nothing is lost between a step and a note about it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{Root, SyncTiming};
use crate::layout;

/// How the snapshots of a brain went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outbox {
    /// The store they go to.
    pub store: String,
    /// The last one that arrived.
    pub pushed: Option<PushRecord>,
    /// What has gone wrong since.
    pub trouble: Option<PushFailure>,
    /// When the store was last asked to keep what it has.
    pub renewed: Option<Timestamp>,
}

/// A snapshot that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRecord {
    /// The version of the brain that arrived.
    pub version: u64,
    /// The number of its head.
    pub head: u64,
    /// When the store had all of it.
    pub at: Timestamp,
}

/// Pushes that failed since the last one that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushFailure {
    /// How often in a row.
    pub attempts: u32,
    /// When the first of them failed.
    pub since: Timestamp,
    /// The message of the last error.
    pub reason: String,
    /// What kind of error it was.
    pub kind: String,
}

impl Outbox {
    /// The outbox of a brain; an empty one where there is none.
    pub fn load(brain: &Path) -> Result<Self> {
        let root = Root::open(brain)?;
        let Some(bytes) = root.read(&layout::rel(layout::OUTBOX)?, 1 << 20)? else { return Ok(Self::default()) };
        // It only tells what was; a damaged one is begun anew.
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Writes the outbox into the brain's directory, in place of the one before.
    pub fn save(&self, brain: &Path) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|source| Error::internal("the outbox cannot be written").because(source))?;
        Root::open(brain)?.replace(&layout::rel(layout::OUTBOX)?, &bytes, SyncTiming::Later)
    }

    /// Whether a brain of this version is in the store.
    pub fn has(&self, store: &str, version: u64) -> bool {
        self.store == store && self.pushed.as_ref().is_some_and(|pushed| pushed.version == version)
    }

    /// Notes a push that arrived.
    pub fn arrived(&mut self, store: &str, arrived: PushRecord) {
        *self = Self { store: store.to_owned(), pushed: Some(arrived), trouble: None, renewed: self.renewed };
    }

    /// Notes a push that failed; how often it has by now.
    pub fn failed(&mut self, store: &str, error: &Error, now: Timestamp) -> u32 {
        if self.store != store {
            *self = Self { store: store.to_owned(), ..Self::default() };
        }
        let before = self.trouble.take();
        let attempts = before.as_ref().map_or(0, |trouble| trouble.attempts).saturating_add(1);
        let since = before.map_or(now, |trouble| trouble.since);
        let reason = error.message().to_owned();
        self.trouble = Some(PushFailure { attempts, since, reason, kind: error.kind().name().to_owned() });
        attempts
    }
}

/// Whether trying again by itself can help.
pub fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable)
}
