//! Is the journal what the receipts of its steps say?
//!
//! A receipt binds the journal of its step by a digest ([`journal::digest`]). Receipts of herm 0.1 have none: they bind
//! the kind, the time, the version, the hashes and the number of files alone.
//!
//! The receipts stand in `memory.db` beside the journal, so they are believed only as a chain: each has the number after
//! the one before it, names that one's digest, and is signed by a key that counts ([`ReceiptKeys`]) or stands before one
//! that is. A step without a
//! receipt is believed where the chain leaves room for it: between two receipts whose versions are not neighbours,
//! before the first one, in a brain that has none at all, and, where any key counts, after the last one.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rusqlite::Connection;
use serde_json::Value;

use super::history::StepKind;
use super::journal;
use super::receipt_keys::ReceiptKeys;
use super::receipt_log;
use crate::bundle::PartDigests;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, sha256};
use crate::memory::sql;

/// At most so many findings are listed.
const MOST_FINDINGS: usize = 20;

/// What was found of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct JournalCheck {
    /// Steps whose journal is the one their receipts were signed with.
    pub bound: u64,
    /// Steps whose receipts do not bind their journal: made by herm 0.1, or without a key.
    pub unbound: u64,
    /// Steps that are lost but for their receipts, as the receipt of a repair says.
    pub lost: Vec<i64>,
    /// What does not hold, one line each.
    pub wrong: Vec<String>,
}

/// What a receipt says of its step. Unchecked.
#[derive(Debug, Clone)]
pub(super) struct ReceiptClaims {
    seq: u64,
    previous: Option<String>,
    pub(super) kind: String,
    action: Option<String>,
    undoes: Option<i64>,
    pub(super) at: String,
    pub(super) version: u64,
    pub(super) before: Option<Digest>,
    pub(super) after: Option<Digest>,
    pub(super) parts: Option<PartDigests>,
    pub(super) task: Option<String>,
    files: u64,
    journal: Option<Digest>,
    /// The receipts of steps that it says are lost.
    lost: Vec<u64>,
}

/// Reads what an envelope says of its step.
pub(super) fn read_claims(envelope: &str) -> Result<ReceiptClaims> {
    let unreadable = || Error::corrupt("a receipt cannot be read").hint("restore the brain from a snapshot");
    let envelope: Value = serde_json::from_str(envelope).map_err(|source| unreadable().because(source))?;
    let payload = STANDARD
        .decode(envelope["payload"].as_str().ok_or_else(unreadable)?)
        .map_err(|source| unreadable().because(source))?;
    let statement: Value = serde_json::from_slice(&payload).map_err(|source| unreadable().because(source))?;
    let predicate = &statement["predicate"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let digest = |value: &Value| value.as_str().and_then(|text| text.parse::<Digest>().ok());
    let subject = |name: &str| {
        let subjects = statement["subject"].as_array()?;
        digest(&subjects.iter().find(|subject| subject["name"] == name)?["digest"]["blake3"])
    };
    let lost = predicate["change"]["repair"]["lost"].as_array();
    Ok(ReceiptClaims {
        seq: predicate["seq"].as_u64().unwrap_or_default(),
        previous: predicate["previous"]["sha256"].as_str().map(str::to_owned),
        kind: text(&predicate["kind"]),
        action: predicate["action"].as_str().map(str::to_owned),
        undoes: predicate["undoes"].as_i64(),
        at: text(&predicate["at"]),
        version: predicate["version"].as_u64().unwrap_or_default(),
        before: subject("bundle/before"),
        after: subject("bundle/after"),
        parts: serde_json::from_value(predicate["parts"].clone()).ok(),
        task: predicate["task"]["id"].as_str().map(str::to_owned),
        files: predicate["files"].as_u64().unwrap_or_default(),
        journal: digest(&predicate["journal"]["blake3"]),
        lost: lost.into_iter().flatten().filter_map(|lost| lost["receipt"].as_u64()).collect(),
    })
}

impl ReceiptClaims {
    /// The kind of the step, as far as the receipt tells it.
    pub(super) fn step_kind(&self) -> Result<StepKind> {
        match (self.action.as_deref(), self.undoes) {
            (Some("undo"), Some(step)) => Ok(StepKind::Undo { of: Some(step) }),
            (Some(action), _) => StepKind::read(action, ""),
            (None, _) => StepKind::read(&self.kind, ""),
        }
    }
}

/// The receipt that was looked at last, which is the one after those that come.
struct NextReceipt {
    seq: u64,
    version: u64,
    /// The digest that it names; nothing where it cannot be read.
    previous: Option<Option<String>>,
}

/// Follows a chain of receipts from its last to its first.
struct ChainWalk<'a> {
    keys: &'a ReceiptKeys,
    is_empty: bool,
    /// Whether a receipt was seen that a key that counts has signed.
    is_vouched: bool,
    next: Option<NextReceipt>,
    /// Steps without a receipt since then: their numbers and versions.
    without: Vec<(i64, u64)>,
}

impl ChainWalk<'_> {
    /// Comes to the receipt `seq`, which says `digest` of itself, of a step that led to `version`; 0 is the end.
    fn reach(&mut self, seq: u64, version: u64, digest: Option<&str>, found: &mut JournalCheck) {
        if let Some(next) = &self.next {
            match next.seq.checked_sub(seq + 1) {
                Some(0) => {}
                Some(1) => found.note(format!("receipt {} is missing", seq + 1)),
                Some(_) => found.note(format!("receipts {} to {} are missing", seq + 1, next.seq - 1)),
                None => found.note(format!("receipt {} stands behind receipt {seq}", next.seq)),
            }
            if next.previous.as_ref().is_some_and(|named| named.as_deref() != digest) {
                found.note(format!("receipt {} does not name the receipt before it", next.seq));
            }
        }
        for (step, at) in std::mem::take(&mut self.without) {
            let has_room = match (&self.next, self.keys) {
                (Some(next), _) => version < at && at < next.version,
                (None, ReceiptKeys::Any) => version < at,
                (None, ReceiptKeys::Only(_)) => self.is_empty,
            };
            match has_room {
                true => found.unbound += 1,
                false => {
                    found.note(format!("step {step} has no receipt, and the receipts leave no room for such a step"))
                }
            }
        }
    }
}

/// Checks the journal of the steps from `first` on against their receipts, of which those of `keys` count.
pub(super) fn check(connection: &Connection, first: i64, keys: &ReceiptKeys) -> Result<JournalCheck> {
    let failed = |source| sql("read memory.db", source);
    let mut found = JournalCheck::default();
    let is_empty = receipt_log::head(connection)?.seq == 0;
    let mut walk = ChainWalk { keys, is_empty, is_vouched: false, next: None, without: Vec::new() };
    let mut lost = BTreeSet::new();
    // The newest first: a repair stands after the steps that it says are lost.
    let mut statement = connection
        .prepare_cached(
            "SELECT steps.seq, kind, at, version, before, after, receipts.seq, envelope, \
             (SELECT count(*) FROM changes WHERE changes.seq = steps.seq), summary, digest \
             FROM steps LEFT JOIN receipts ON receipts.step = steps.seq WHERE steps.seq >= ?1 ORDER BY steps.seq DESC",
        )
        .map_err(failed)?;
    let mut rows = statement.query([first]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let seq: i64 = row.get(0).map_err(failed)?;
        let version = row.get::<_, i64>(3).map_err(failed)?.unsigned_abs();
        let (Some(receipt), Some(envelope)) =
            (row.get::<_, Option<i64>>(6).map_err(failed)?, row.get::<_, Option<String>>(7).map_err(failed)?)
        else {
            walk.without.push((seq, version));
            continue;
        };
        let receipt = receipt.unsigned_abs();
        let digest: String = row.get(10).map_err(failed)?;
        walk.reach(receipt, version, Some(&digest), &mut found);
        let opened = match keys.open(&envelope) {
            Ok(payload) => {
                walk.is_vouched = true;
                Ok(payload)
            }
            // The digests that lead here were signed by a key that counts.
            Err(_) if walk.is_vouched => ReceiptKeys::Any.open(&envelope),
            Err(what) => Err(what),
        };
        let signed = match opened {
            Ok(payload) if sha256(&payload) == digest => {
                read_claims(&envelope).map_err(|error| error.message().to_owned())
            }
            Ok(_) => Err("its digest is another".to_owned()),
            Err(what) => Err(what),
        };
        let previous = signed.as_ref().ok().map(|said| said.previous.clone());
        walk.next = Some(NextReceipt { seq: receipt, version, previous });
        let said = match signed {
            Ok(said) if said.seq == receipt => said,
            Ok(said) => {
                found.note(format!("receipt {receipt} says that it is receipt {}", said.seq));
                continue;
            }
            Err(what) => {
                found.note(format!("receipt {receipt} does not hold: {what}"));
                continue;
            }
        };
        lost.extend(said.lost.iter().copied());
        if lost.contains(&receipt) {
            found.lost.push(seq);
            continue;
        }
        let hash = |text: Option<String>| text.and_then(|text| text.parse::<Digest>().ok());
        let stored: String = row.get(1).map_err(failed)?;
        let kind = match StepKind::read(&stored, &row.get::<_, String>(9).map_err(failed)?) {
            Ok(kind) => kind,
            Err(error) => {
                found.note(format!("step {seq}: {}", error.message()));
                continue;
            }
        };
        // Receipts of herm 0.1 name the kind alone.
        let says_action =
            said.action.is_none() || (said.action.as_deref(), said.undoes) == (kind.action(), kind.undoes());
        let kept = (
            kind.name().to_owned(),
            Timestamp(row.get(2).map_err(failed)?).to_string(),
            version,
            hash(row.get(4).map_err(failed)?),
            hash(row.get(5).map_err(failed)?),
            row.get::<_, i64>(8).map_err(failed)?.unsigned_abs(),
        );
        if !says_action || kept != (said.kind, said.at, said.version, said.before, said.after, said.files) {
            found.note(format!("step {seq} of the journal is not the one that receipt {receipt} speaks of"));
            continue;
        }
        match said.journal {
            None => found.unbound += 1,
            Some(signed) if journal::digest(connection, seq)? == signed => found.bound += 1,
            Some(_) => {
                found.note(format!("the journal of step {seq} is not the one that receipt {receipt} was signed with"));
            }
        }
    }
    let before = receipt_log::head_until(connection, first.saturating_sub(1))?;
    walk.reach(before.seq, before.version, before.digest.as_deref(), &mut found);
    found.lost.reverse();
    for (table, column, what) in
        [("receipts", "step", "a receipt"), ("changes", "seq", "a change"), ("row_undo", "step", "an earlier row")]
    {
        let query = format!(
            "SELECT min({column}) FROM {table} WHERE {column} >= ?1 AND {column} NOT IN (SELECT seq FROM steps)"
        );
        let stray: Option<i64> = connection
            .prepare_cached(&query)
            .and_then(|mut get| get.query_row([first], |row| row.get(0)))
            .map_err(failed)?;
        if let Some(step) = stray {
            found.note(format!("the journal has {what} of step {step}, and no such step"));
        }
    }
    Ok(found)
}

impl JournalCheck {
    fn note(&mut self, what: String) {
        match self.wrong.len() {
            MOST_FINDINGS => self.wrong.push("more may be wrong".to_owned()),
            more if more > MOST_FINDINGS => {}
            _ => self.wrong.push(what),
        }
    }

    /// The same as an error, where something does not hold.
    pub(super) fn into_result(self, id: &BrainId) -> Result<Self> {
        match self.wrong.first() {
            None => Ok(self),
            Some(what) => Err(Error::corrupt(format!("{what}; what it keeps is not used"))
                .hint(format!("see everything with `herm brain verify {id}`; restore the brain from a snapshot"))),
        }
    }
}

/// Contents that the journal keeps and that are not what their digests say, or that it should keep and has lost.
pub(super) fn check_contents(connection: &Connection) -> Result<Vec<String>> {
    let failed = |source| sql("read memory.db", source);
    let mut wrong = Vec::new();
    let mut all = connection.prepare("SELECT digest, content FROM blobs").map_err(failed)?;
    let mut rows = all.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let digest = row.get_ref(0).map_err(failed)?.as_blob().unwrap_or_default();
        let content = row.get_ref(1).map_err(failed)?.as_blob().unwrap_or_default();
        if Digest::of(content).bytes().as_slice() != digest {
            let name = <[u8; 32]>::try_from(digest).map(|digest| Digest::from(digest).to_string());
            wrong.push(format!("the journal's content {} is not what it was", name.unwrap_or_default()));
        }
    }
    let mut gone = connection
        .prepare(
            "SELECT seq, path FROM changes WHERE \
             (before IS NOT NULL AND before NOT IN (SELECT digest FROM blobs UNION ALL SELECT digest FROM entries)) OR \
             (after IS NOT NULL AND after NOT IN (SELECT digest FROM blobs UNION ALL SELECT digest FROM entries)) LIMIT 20",
        )
        .map_err(failed)?;
    let rows = gone
        .query_map([], |row| {
            Ok(format!(
                "the journal has lost a content of {} (step {})",
                row.get::<_, String>(1)?,
                row.get::<_, i64>(0)?
            ))
        })
        .map_err(failed)?;
    for row in rows {
        wrong.push(row.map_err(failed)?);
    }
    wrong.truncate(MOST_FINDINGS);
    Ok(wrong)
}
