//! Someone who puts a signed receipt to every step, inside the step's own transaction.

use serde_json::Value;

use super::history::{ChangeRecord, StepKind};
use crate::bundle::Lockfile;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::{BrainId, Digest};
use crate::signing::PublicKey;

/// How a brain is about to move.
#[derive(Debug)]
pub struct StepChange<'a> {
    /// The brain that moves, by its number.
    pub brain: &'a BrainId,
    /// The number of this receipt, from 1.
    pub seq: u64,
    /// What kind of step it is.
    pub kind: StepKind,
    /// The step in a line.
    pub summary: &'a str,
    /// When the step is settled: the time that the receipt states.
    pub at: Timestamp,
    /// The lock before; none for the step that makes a brain.
    pub before: Option<&'a Lockfile>,
    /// The lock that the step leads to.
    pub after: &'a Lockfile,
    /// The files that move.
    pub files: &'a [ChangeRecord],
    /// The digest of the receipt before this one.
    pub previous: Option<&'a str>,
    /// The digest of what the journal keeps of the step.
    pub journal: Option<Digest>,
    /// What the step has to say beyond the move: a task's account of itself.
    pub report: Option<&'a Value>,
}

/// A signed receipt, as [`StepSigner::sign_step`] makes it and the receipt log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its number, from 1.
    pub seq: u64,
    /// The envelope: one line of JSON.
    pub envelope: String,
    /// The SHA-256 of the signed statement, in hexadecimal; the next receipt names it.
    pub digest: String,
}

/// Signs each step before it is committed. [`BrainOptions`](super::BrainOptions) names the one that a
/// brain is opened with.
pub trait StepSigner: Send + Sync + std::fmt::Debug {
    /// The receipt of a move. An error stops the step: what is not signed does not happen.
    fn sign_step(&self, moved: &StepChange<'_>) -> Result<Receipt>;

    /// The key that its receipts are checked with, where it is known: then other receipts vouch for nothing. `None` takes
    /// receipts of any key.
    fn public_key(&self) -> Result<Option<PublicKey>> {
        Ok(None)
    }
}
