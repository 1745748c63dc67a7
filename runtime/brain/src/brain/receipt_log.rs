//! The receipt log. Its truth is a table of `memory.db`, written with the step; `receipts.ndjson` follows it line by
//! line, like every other file of a brain.

use rusqlite::{Connection, OptionalExtension as _};

use super::journal;
use super::journal_check::{self, JournalCheck};
use super::open::Brain;
use super::reader::Reader;
use super::receipt_keys::ReceiptKeys;
use super::step_signer::{Receipt, StepChange, StepSigner};
use crate::bundle::Lockfile;
use crate::error::{Error, ErrorKind, Result};
use crate::layout;
use crate::memory::{Database, sql};

/// The last receipt of a brain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LastReceipt {
    pub(super) seq: u64,
    pub(super) digest: Option<String>,
    /// The version that its step led to.
    pub(super) version: u64,
    /// How long the receipt log is with this line, in bytes.
    pub(super) ends_at: u64,
}

/// A receipt as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReceipt {
    /// Its number, from 1.
    pub seq: u64,
    /// The step it belongs to.
    pub step: i64,
    /// The signed envelope: one line of JSON, without the line break.
    pub envelope: String,
}

pub(super) fn head(connection: &Connection) -> Result<LastReceipt> {
    head_until(connection, i64::MAX)
}

/// The last receipt of the steps up to `step`. Receipts follow their steps, so the index of steps finds it at once,
/// however long the receipt log is.
pub(super) fn head_until(connection: &Connection, step: i64) -> Result<LastReceipt> {
    connection
        .prepare_cached(
            "SELECT seq, digest, ends_at, coalesce((SELECT version FROM steps WHERE steps.seq = step), 0) \
             FROM receipts WHERE step <= ?1 ORDER BY step DESC LIMIT 1",
        )
        .and_then(|mut get| {
            get.query_row([step], |row| {
                let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                Ok(LastReceipt { seq: number(0)?, digest: row.get(1)?, ends_at: number(2)?, version: number(3)? })
            })
            .optional()
        })
        .map(Option::unwrap_or_default)
        .map_err(|source| sql("read memory.db", source))
}

/// Keeps the receipt of a step.
pub(super) fn add(connection: &Connection, step: i64, head: &LastReceipt, receipt: &Receipt) -> Result<()> {
    if receipt.envelope.contains('\n') {
        return Err(Error::internal("a receipt has more than one line"));
    }
    let ends_at = head.ends_at + receipt.envelope.len() as u64 + 1;
    connection
        .prepare_cached("INSERT INTO receipts (seq, step, digest, envelope, ends_at) VALUES (?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut add| {
            let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            add.execute((number(head.seq + 1), step, &receipt.digest, &receipt.envelope, number(ends_at)))
        })
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

/// Signs a move and keeps the receipt, where there is someone to sign. The number, the link to the receipt before and
/// the digest of the step's journal are filled in here, so every row of the journal must be written by then.
pub(super) fn sign_step(
    connection: &Connection,
    witness: Option<&dyn StepSigner>,
    step: i64,
    moved: StepChange<'_>,
) -> Result<Option<Receipt>> {
    let Some(witness) = witness else { return Ok(None) };
    let head = head(connection)?;
    let journal = Some(journal::digest(connection, step)?);
    let receipt =
        witness.sign_step(&StepChange { seq: head.seq + 1, previous: head.digest.as_deref(), journal, ..moved })?;
    add(connection, step, &head, &receipt)?;
    Ok(Some(receipt))
}

impl Brain {
    /// Brings `receipts.ndjson` up to the table. `sure_until` is the last step whose line is known to be in the file.
    pub(super) fn write_receipt_log(&self, sure_until: i64) -> Result<()> {
        let connection = &self.database.connection;
        let (known, end) = (head_until(connection, sure_until)?, head(connection)?);
        if end.seq == known.seq {
            return Ok(());
        }
        let path = layout::rel(layout::RECEIPTS)?;
        let lines = |from: u64| -> Result<String> {
            let mut text = String::new();
            for receipt in receipts(&self.database, from, u64::MAX)? {
                text.push_str(&receipt.envelope);
                text.push('\n');
            }
            Ok(text)
        };
        if self.root.write_tail(&path, known.ends_at, lines(known.seq + 1)?.as_bytes())? {
            return Ok(());
        }
        // What was there before is not: the file is written again as a whole.
        tracing::warn!(brain = %self.id(), "receipts.ndjson was cut or is gone; written again from memory.db");
        self.root.write_tail(&path, 0, lines(1)?.as_bytes()).map(|_| ())
    }

    /// Compares the length of `receipts.ndjson` with the table. If they differ, something other than herm touched the
    /// file, and it is written up to the table again.
    pub(super) fn check_receipt_log(&self) -> Result<()> {
        let end = head(&self.database.connection)?;
        let path = layout::rel(layout::RECEIPTS)?;
        let size = self.root.stat(&path)?.map_or(0, |stat| stat.size);
        if size != end.ends_at {
            self.write_receipt_log(0)?;
        }
        Ok(())
    }

    /// The receipts `first` to `last`, by number.
    pub fn receipts(&self, first: u64, last: u64) -> Result<Vec<StoredReceipt>> {
        receipts(&self.database, first, last)
    }
}

/// What `receipts.ndjson` is beside the receipts of `memory.db`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogState {
    /// It has the same lines, down to the last receipt.
    Whole,
    /// The last lines are still to be written: the owner of the brain writes them, or the next open.
    Behind,
    /// Other lines, or fewer than were made durable.
    Differs,
}

/// What a brain says of itself at one moment, even if a step is settled meanwhile.
#[derive(Debug, Clone)]
pub struct ReceiptLog {
    /// The lock of the last step.
    pub lock: Lockfile,
    /// Every receipt of the brain, by number.
    pub receipts: Vec<StoredReceipt>,
    /// How many steps were made without someone to sign.
    pub unsigned_steps: u64,
    /// What `receipts.ndjson` is beside them.
    pub log: LogState,
    /// Whether the journal is what the receipts say.
    pub journal: JournalCheck,
}

impl Reader {
    /// Everything there is to check of the receipts, all of one moment.
    pub fn receipt_log(&self) -> Result<ReceiptLog> {
        let path = layout::rel(layout::RECEIPTS)?;
        let connection = &self.database.connection;
        // A line is written after its step is committed. So what is read before the table is never further than it,
        // and what is read after it has everything that was durable.
        let earlier = self.read_file(&path, u64::MAX)?.unwrap_or_default();
        let held = connection.unchecked_transaction().map_err(|source| sql("read memory.db", source))?;
        let state = journal::load_state(connection)?;
        let receipts = receipts(&self.database, 1, u64::MAX)?;
        let durable = head_until(connection, state.flushed)?.ends_at;
        let unsigned_steps = self.steps_without_receipt()?;
        let journal = journal_check::check(connection, 1, &ReceiptKeys::Any)?;
        held.rollback().map_err(|source| sql("read memory.db", source))?;
        let later = self.read_file(&path, u64::MAX)?.unwrap_or_default();
        let mut lines = Vec::new();
        for receipt in &receipts {
            lines.extend_from_slice(receipt.envelope.as_bytes());
            lines.push(b'\n');
        }
        let durable = usize::try_from(durable).ok().and_then(|end| lines.get(..end)).unwrap_or(&lines);
        let log = if !lines.starts_with(&earlier) || !later.starts_with(durable) {
            LogState::Differs
        } else if later.starts_with(&lines) {
            LogState::Whole
        } else {
            LogState::Behind
        };
        Ok(ReceiptLog { lock: state.lock, receipts, unsigned_steps, log, journal })
    }

    /// The receipts `first` to `last`, by number.
    pub fn receipts(&self, first: u64, last: u64) -> Result<Vec<StoredReceipt>> {
        receipts(&self.database, first, last)
    }

    /// The number of the last receipt; 0 where there is none.
    pub fn last_receipt(&self) -> Result<u64> {
        head(&self.database.connection).map(|head| head.seq)
    }

    /// Whether `receipts.ndjson` is what the table has.
    pub fn receipt_log_is_whole(&self) -> Result<bool> {
        let end = head(&self.database.connection)?.ends_at;
        let tape = match self.read_file(&layout::rel(layout::RECEIPTS)?, end) {
            // Longer than it can be.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(false),
            tape => tape?.unwrap_or_default(),
        };
        let mut rest = tape.as_slice();
        for receipt in receipts(&self.database, 1, u64::MAX)? {
            match rest.strip_prefix(receipt.envelope.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n")) {
                Some(after) => rest = after,
                None => return Ok(false),
            }
        }
        Ok(rest.is_empty())
    }

    /// How many steps were made without someone to sign.
    pub fn steps_without_receipt(&self) -> Result<u64> {
        self.database
            .connection
            .query_row("SELECT count(*) FROM steps WHERE seq NOT IN (SELECT step FROM receipts)", [], |row| {
                row.get::<_, i64>(0)
            })
            .map(i64::unsigned_abs)
            .map_err(|source| sql("read memory.db", source))
    }

    /// The transcript of a step, with its digest, while it is kept.
    pub fn transcript(&self, step: i64) -> Result<Option<Vec<u8>>> {
        self.database
            .connection
            .prepare_cached("SELECT content FROM transcripts WHERE step = ?1")
            .and_then(|mut get| get.query_row([step], |row| row.get(0)).optional())
            .map_err(|source| sql("read memory.db", source))
    }
}

/// A receipt with the place where its line ends.
#[derive(Debug)]
pub(super) struct ReceiptLine {
    pub(super) step: i64,
    pub(super) digest: String,
    pub(super) envelope: String,
    pub(super) ends_at: u64,
}

/// The receipts `first` to `last` as they are kept, by number.
pub(super) fn batch(connection: &Connection, first: u64, last: u64) -> Result<Vec<ReceiptLine>> {
    let failed = |source| sql("read memory.db", source);
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut statement = connection
        .prepare_cached("SELECT step, digest, envelope, ends_at FROM receipts WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq")
        .map_err(failed)?;
    let rows = statement
        .query_map((number(first), number(last)), |row| {
            let ends_at = row.get::<_, i64>(3)?.unsigned_abs();
            Ok(ReceiptLine { step: row.get(0)?, digest: row.get(1)?, envelope: row.get(2)?, ends_at })
        })
        .map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

fn receipts(database: &Database, first: u64, last: u64) -> Result<Vec<StoredReceipt>> {
    let failed = |source| sql("read memory.db", source);
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut statement = database
        .connection
        .prepare_cached("SELECT seq, step, envelope FROM receipts WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq")
        .map_err(failed)?;
    let rows = statement
        .query_map((number(first), number(last)), |row| {
            let seq: i64 = row.get(0)?;
            Ok(StoredReceipt { seq: seq.unsigned_abs(), step: row.get(1)?, envelope: row.get(2)? })
        })
        .map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}
