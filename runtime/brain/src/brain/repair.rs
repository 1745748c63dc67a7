//! Repairing a brain whose `memory.db` has lost steps that were acknowledged ([`ahead`](super::ahead) finds out).
//!
//! What is damaged is copied aside first and stays there. Where the caller accepts the loss, the files are taken over as
//! they stand, the receipts that are left stay in the chain, and a step of its own with a receipt of its own names every
//! step that is lost. So the chain goes on, and no number is ever signed twice.

use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::journal;
use super::journal_check::{self, ReceiptClaims};
use super::lost_steps::SurplusFiles;
use super::open::{self, Brain, BrainOptions};
use super::pending_files;
use super::receipt_log;
use super::restore_target::{VerifiedReceipt, free_place};
use super::settle::SettledStep;
use super::step_signer::Receipt;
use crate::bundle::{LOCK_SCHEMA, Lockfile};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::{BrainId, Digest};
use crate::layout::{self, Layout};

/// What to do about steps that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// Name them, and change nothing.
    Report,
    /// Go on without them, with a receipt that names them.
    Accept,
}

/// A step that was acknowledged and is lost.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LostStep {
    /// The version of the brain after it.
    pub version: u64,
    /// The number of its receipt, where that is left.
    pub receipt: Option<u64>,
    /// What kind of step it was, by its receipt.
    pub kind: Option<String>,
    /// The task, by its receipt.
    pub task: Option<String>,
    /// The bundle hash after it, where a receipt or the lock says it.
    pub bundle_hash: Option<Digest>,
}

/// What a repair found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// So many bytes `receipts.ndjson` has behind the last receipt of `memory.db`.
    pub surplus_bytes: u64,
    /// Steps that are lost.
    pub lost: Vec<LostStep>,
    /// Where the damaged files are kept, if anything was changed.
    pub aside: Option<PathBuf>,
    /// The step that says what is lost, if it was accepted.
    pub settled: Option<SettledStep>,
}

/// What is left of the steps that are lost.
#[derive(Debug)]
pub(super) struct LostSteps {
    steps: Vec<LostStep>,
    receipts: Vec<LostReceipt>,
    /// The lock that the chain of receipts ends at, those of lost steps with it.
    pub(super) chained: Lockfile,
    /// The last version that was ever acknowledged.
    pub(super) version: u64,
}

#[derive(Debug)]
struct LostReceipt {
    receipt: Receipt,
    claims: ReceiptClaims,
}

/// Repairs a brain. `receipts` is called with each line of the chain, oldest first, and says what the step was, or that
/// the line does not hold.
pub(crate) fn repair(
    layout: &Layout,
    id: &BrainId,
    opening: &BrainOptions,
    on_loss: OnLoss,
    receipts: &mut dyn FnMut(&str) -> Result<VerifiedReceipt>,
) -> Result<RepairReport> {
    if layout.brain(id).symlink_metadata().is_err() {
        return Err(open::no_such_brain(layout, id));
    }
    let guard = open::take_lock(layout, id, opening.wait)?;
    let (mut brain, beside) = Brain::connect(layout, id, opening, guard)?;
    let last = receipt_log::head(&brain.database.connection)?;
    let Some(ahead) = beside.ahead_of(&brain.lock, &last) else { return Ok(RepairReport::default()) };
    let lost = LostSteps::read(&brain, &ahead, &last, receipts)?;
    if on_loss == OnLoss::Report {
        return Ok(RepairReport { lost: lost.steps, surplus_bytes: ahead.receipt_bytes, ..RepairReport::default() });
    }
    let aside = set_aside(layout, id, &brain.root)?;
    brain.database.make_writable()?;
    brain.put_back_torn_files()?;
    let name = aside.file_name().map(|name| name.to_string_lossy().into_owned());
    let report = json!({ "repair": { "lost": lost.steps, "aside": name } });
    let settled = brain.take_over(Some((&lost, &report)))?;
    brain.close()?;
    Ok(RepairReport { lost: lost.steps, surplus_bytes: ahead.receipt_bytes, aside: Some(aside), settled })
}

/// Copies everything that may hold evidence to a place where nothing is ever removed.
fn set_aside(layout: &Layout, id: &BrainId, root: &Root) -> Result<PathBuf> {
    let place = free_place(layout, id)?;
    fsio::create_dirs(&place)?;
    for name in [layout::DATABASE, layout::DATABASE_LOG, layout::LOCK, layout::RECEIPTS] {
        fsio::copy_durably(&root.path().join(name), &place.join(name))?;
    }
    Root::open(&place)?.sync_dir(None)?;
    Ok(place)
}

impl Brain {
    /// Puts files back that a power cut left in pieces. Everything else is newer than `memory.db`, and stays.
    fn put_back_torn_files(&self) -> Result<()> {
        let connection = &self.database.connection;
        for change in journal::unflushed(connection, self.materialised)? {
            let Some(digest) = change.after else { continue };
            let found = self.root.read(&change.path, layout::MAX_FILE_BYTES)?.unwrap_or_default();
            if Digest::of(&found) != digest
                && journal::find_blob(connection, &Digest::of(&found))?.is_none()
                && pending_files::is_torn_piece(connection, &change.path, &found, self.materialised)?
            {
                self.root.replace(&change.path, &journal::blob(connection, &digest)?, SyncTiming::Now)?;
            }
        }
        Ok(())
    }
}

impl LostSteps {
    fn read(
        brain: &Brain,
        ahead: &SurplusFiles,
        last: &receipt_log::LastReceipt,
        vouch: &mut dyn FnMut(&str) -> Result<VerifiedReceipt>,
    ) -> Result<Self> {
        for kept in brain.receipts(1, u64::MAX)? {
            // From a receipt that nobody vouches for, no later one can be told to continue the chain.
            vouch(&kept.envelope).map_err(|error| {
                Error::refused(format!("receipt {} in memory.db does not hold: {}", kept.seq, error.message()))
                    .hint("see `herm receipts verify`; if another operator signed it, name that key as trusted")
            })?;
        }
        let log = brain.root.read(&layout::rel(layout::RECEIPTS)?, u64::MAX)?.unwrap_or_default();
        let tail = usize::try_from(last.ends_at).ok().and_then(|end| log.get(end..)).unwrap_or_default();
        let mut receipts = Vec::new();
        // The last piece has no end of a line: nothing, or a receipt that was cut.
        let mut lines: Vec<&[u8]> = tail.split(|byte| *byte == b'\n').collect();
        lines.pop();
        for (line, seq) in lines.into_iter().zip(last.seq + 1..) {
            let Ok(line) = std::str::from_utf8(line) else { break };
            let said = journal_check::read_claims(line);
            let vouched = match (vouch(line), &said) {
                (Ok(vouched), _) => vouched,
                // What is no receipt proves nothing.
                (Err(_), Err(_)) => break,
                // Someone may hold this receipt: another of the same number would make it a lie.
                (Err(error), Ok(_)) => {
                    return Err(Error::refused(format!(
                        "receipt {seq} in receipts.ndjson does not hold, and its number would be signed a second time: {}",
                        error.message()
                    ))
                    .hint(
                        "if another operator signed it, name that key as trusted; if nobody did, keep a copy of \
                         receipts.ndjson, take the line out, and repair again",
                    ));
                }
            };
            let said = said?;
            receipts.push(LostReceipt {
                receipt: Receipt { seq, envelope: line.to_owned(), digest: vouched.digest },
                claims: said,
            });
        }
        let mut steps: Vec<LostStep> = receipts.iter().map(LostReceipt::step).collect();
        let covered = receipts.last().map_or(brain.lock.version, |lost| lost.claims.version);
        if let Some(lock) = &ahead.lock
            && !steps.iter().any(|step| step.version == lock.version)
        {
            let first = (covered + 1).min(lock.version);
            steps.extend((first..=lock.version).map(|version| LostStep {
                version,
                receipt: None,
                kind: None,
                task: None,
                bundle_hash: (version == lock.version).then_some(lock.bundle_hash),
            }));
        }
        let chained = match receipts.last() {
            None => brain.lock.clone(),
            Some(lost) => lost.lock(&brain.lock)?,
        };
        let version = steps.iter().map(|step| step.version).max().unwrap_or(0).max(brain.lock.version);
        Ok(Self { steps, receipts, chained, version })
    }

    /// The repair in a line.
    pub(super) fn line(&self) -> String {
        match self.steps.as_slice() {
            [] => "repaired: receipts.ndjson held what is no receipt".to_owned(),
            [one] => format!("repaired: the step to version {} is lost", one.version),
            [first, .., last] => {
                format!(
                    "repaired: {} steps are lost, to versions {} to {}",
                    self.steps.len(),
                    first.version,
                    last.version
                )
            }
        }
    }

    /// Keeps what is left of the lost steps: a row each, without files and rows, and their receipts.
    pub(super) fn keep(&self, connection: &Connection, lock: &Lockfile) -> Result<()> {
        for lost in &self.receipts {
            let (kind, at) = (lost.claims.step_kind()?, Timestamp::parse(&lost.claims.at)?);
            let summary = "lost: only its receipt is left";
            let seq = journal::add_step(connection, kind, summary, at, &lost.lock(lock)?, lost.claims.before)?;
            receipt_log::add(connection, seq, &receipt_log::head(connection)?, &lost.receipt)?;
        }
        Ok(())
    }
}

impl LostReceipt {
    fn step(&self) -> LostStep {
        LostStep {
            version: self.claims.version,
            receipt: Some(self.receipt.seq),
            kind: Some(self.claims.kind.clone()),
            task: self.claims.task.clone(),
            bundle_hash: self.claims.after,
        }
    }

    /// The lock after the step, as its receipt tells it.
    fn lock(&self, known: &Lockfile) -> Result<Lockfile> {
        let after =
            self.claims.after.ok_or_else(|| Error::corrupt("a receipt does not say where the brain moved to"))?;
        Ok(Lockfile {
            schema: LOCK_SCHEMA.to_owned(),
            bundle_hash: after,
            version: self.claims.version,
            last_updated: Timestamp::parse(&self.claims.at)?,
            parent: self.claims.before,
            parts: self.claims.parts.unwrap_or(known.parts),
            origin: known.origin.clone(),
        })
    }
}

/// What a repair is, for the step that makes it.
pub(super) type Repair<'a> = (&'a LostSteps, &'a Value);
