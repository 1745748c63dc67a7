//! Evidence of a brain: what a step writes of it, what is counted, taken in and let go beside the steps,
//! and what the evolver keeps. None of it is content: the bundle hash does not move.

use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;

use super::draft::Draft;
use super::open::Brain;
use super::outcomes::OutcomeWrites;
use super::reader::Reader;
use crate::clock::Timestamp;
use crate::error::{ErrorKind, Result};
use crate::ids::Slug;
use crate::memory::{
    self, Evidence, EvidenceImportCounts, EvidenceView, EvolverRows, EvolverWriter, ImportedSession, QueueRow,
    SessionEvidence, TurnEvidence, sql,
};

/// Sessions that are taken in with one sync.
const SESSIONS_AT_A_TIME: usize = 250;

/// What a step says of how things went. It is written if the step happens, and moves nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Telemetry {
    pub(super) evidence: Vec<Evidence>,
    pub(super) sessions: Vec<SessionEvidence>,
    pub(super) turns: Vec<TurnEvidence>,
    pub(super) outcomes: OutcomeWrites,
}

impl Telemetry {
    pub(super) fn extend(&mut self, other: Self) {
        self.evidence.extend(other.evidence);
        self.sessions.extend(other.sessions);
        self.turns.extend(other.turns);
        self.outcomes.extend(other.outcomes);
    }
}

/// What the evolver did in a step.
#[derive(Debug, Clone, Default)]
pub(super) struct EvolverWrites {
    pub(super) changes: Vec<(Slug, Value)>,
    /// The steps whose changes this one takes back.
    pub(super) rolled_back: Vec<i64>,
    /// What is to wait for a person.
    pub(super) proposed: Vec<QueueRow>,
}

impl Draft {
    /// Adds how a tool call went. Telemetry: it is written if the step happens, and moves nothing.
    pub fn evidence(&mut self, evidence: Evidence) {
        self.telemetry.evidence.push(evidence);
    }

    /// Adds how a session went. Telemetry, like [`evidence`](Self::evidence).
    pub fn session(&mut self, session: SessionEvidence) {
        self.telemetry.sessions.push(session);
    }

    /// Adds what was asked and answered. Telemetry, like [`evidence`](Self::evidence).
    pub fn turn(&mut self, turn: TurnEvidence) {
        self.telemetry.turns.push(turn);
    }

    /// Says what the evolver changes of a skill, and why. It is kept under the number of the step, and only
    /// if the step happens.
    pub fn evolved(&mut self, skill: Slug, manifest: Value) {
        self.evolved.changes.push((skill, manifest));
    }

    /// Puts something into the review queue, if the step happens and it is not there yet.
    pub fn propose(&mut self, row: QueueRow) {
        self.evolved.proposed.push(row);
    }

    /// Says that this step takes back what the evolver did in an earlier one.
    pub fn rolled_back(&mut self, step: i64) {
        self.evolved.rolled_back.push(step);
    }
}

/// Writes what a step says beside its content. Returns the number that its first piece of evidence has, or would have.
pub(super) fn keep(connection: &Connection, draft: &Draft, step: i64, now: Timestamp) -> Result<i64> {
    let first = memory::next_number(connection)?;
    for (evidence, id) in draft.telemetry.evidence.iter().zip(first..) {
        evidence.write(connection, id, step)?;
    }
    for session in &draft.telemetry.sessions {
        session.write(connection, step)?;
    }
    for turn in &draft.telemetry.turns {
        turn.write(connection, step)?;
    }
    draft.telemetry.outcomes.keep(connection, step)?;
    for (skill, manifest) in &draft.evolved.changes {
        memory::add_change(connection, step, skill, manifest)?;
    }
    for undone in &draft.evolved.rolled_back {
        memory::mark_rolled_back(connection, *undone, now)?;
    }
    let notes = EvolverWriter::new(connection);
    for row in &draft.evolved.proposed {
        if !notes.enqueue(row)? {
            notes.revive(row)?;
        }
    }
    Ok(first)
}

/// Takes a copy's evidence back to before the step `seq`; `first` is the number that the step's own
/// began with, where it is known.
pub(super) fn take_back(connection: &Connection, seq: i64, first: Option<i64>) -> Result<()> {
    let failed = |source| sql("rewind memory.db", source);
    let oldest = || connection.query_row("SELECT min(id) FROM evidence WHERE step >= ?1", [seq], |row| row.get(0));
    let first = match first {
        Some(first) => first,
        None => match oldest().map_err(failed)? {
            Some(oldest) => oldest,
            None => memory::next_number(connection)?,
        },
    };
    // What was taken in from elsewhere since has numbers above it.
    connection.execute("DELETE FROM evidence WHERE id >= ?1", [first]).map_err(failed)?;
    connection.execute("DELETE FROM evidence_arguments WHERE evidence >= ?1", [first]).map_err(failed)?;
    for table in ["evidence_sessions", "evidence_turns", "evolver_changes", "outcomes", "trials", "trial_tasks"] {
        connection.execute(&format!("DELETE FROM {table} WHERE step >= ?1"), [seq]).map_err(failed)?;
    }
    // Counts of rows that are gone are not told apart: all is counted again.
    connection
        .execute_batch("DELETE FROM evidence_tallies; DELETE FROM evidence_by_skill; DELETE FROM evolver_state")
        .and_then(|()| {
            connection.execute(
                "INSERT INTO evolver_state (one, tallied, turned, numbered, bytes) VALUES (1, 0, 0, ?1, 0)",
                [first - 1],
            )
        })
        .map(|_| ())
        .map_err(failed)
}

impl Brain {
    /// What there is of evidence, to count and to read.
    pub fn evidence_view(&self) -> EvidenceView<'_> {
        self.database.evidence_view()
    }

    /// What the evolver keeps beside the content.
    pub fn evolver_rows(&self) -> EvolverRows<'_> {
        self.database.evolver_rows()
    }

    /// Takes in sessions that ran elsewhere, without what is already known of them. This makes no step: the
    /// bundle does not move, and there is no receipt. Where it fails, the sessions before it stay, and taking all
    /// in again adds the rest.
    pub fn import_evidence(
        &mut self,
        sessions: impl IntoIterator<Item = ImportedSession>,
    ) -> Result<EvidenceImportCounts> {
        self.check_usable()?;
        let mut sessions = sessions.into_iter().peekable();
        let mut taken = EvidenceImportCounts::default();
        let mut uncounted = true;
        while sessions.peek().is_some() {
            let batch = sessions.by_ref().take(SESSIONS_AT_A_TIME);
            let mut so_far = taken;
            (so_far, uncounted) = self.beside_steps(|connection| {
                for session in batch {
                    memory::take_in_evidence(connection, &session, &mut so_far)?;
                }
                Ok((so_far, memory::fold_evidence(connection)?))
            })?;
            taken = so_far;
        }
        while uncounted {
            uncounted = self.beside_steps(memory::fold_evidence)?;
        }
        Ok(taken)
    }

    /// Counts what is not counted yet, by day, skill and tool. Costs next to nothing where nothing is new.
    pub fn count_evidence(&mut self) -> Result<()> {
        self.check_usable()?;
        while self.beside_steps(memory::fold_evidence)? {}
        Ok(())
    }

    /// Lets go of evidence older than `keep_days` whole days, and of the oldest where all of it takes more
    /// than about `most_bytes`; how many rows went. Counts stay until their day is too old. Costs next to
    /// nothing where nothing is due.
    pub fn prune_evidence(&mut self, keep_days: u32, most_bytes: u64) -> Result<u64> {
        self.check_usable()?;
        let now = self.clock().now();
        let mut all = 0;
        loop {
            let (gone, more) =
                self.beside_steps(|connection| memory::keep_window(connection, now, keep_days, most_bytes))?;
            all += gone;
            if !more {
                return Ok(all);
            }
        }
    }

    /// Writes what the evolver keeps, in one transaction that is no step. Where `write` fails, nothing
    /// of it is written.
    pub fn write_evolver_rows<T>(&mut self, write: impl FnOnce(&EvolverWriter<'_>) -> Result<T>) -> Result<T> {
        self.check_usable()?;
        self.beside_steps(|connection| write(&EvolverWriter::new(connection)))
    }

    /// A transaction that is no step.
    pub(super) fn beside_steps<T>(&mut self, write: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let failed = |source| sql("write memory.db", source);
        let transaction =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let written = write(&transaction)?;
        if let Err(source) = transaction.commit() {
            let error = failed(source);
            // As with a step: after a failed sync only a fresh open knows what the disk holds.
            self.poisoned |= error.kind() != ErrorKind::Corrupt;
            return Err(error);
        }
        Ok(written)
    }
}

impl Reader {
    /// What there is of evidence, to count and to read.
    pub fn evidence_view(&self) -> EvidenceView<'_> {
        self.database.evidence_view()
    }

    /// What the evolver keeps beside the content.
    pub fn evolver_rows(&self) -> EvolverRows<'_> {
        self.database.evolver_rows()
    }

    /// The last `limit` pieces of evidence by number, newest first.
    pub fn evidence(&self, limit: usize) -> Result<Vec<(i64, Evidence)>> {
        self.database.evidence(limit)
    }
}
