//! What the evolver keeps beside the content: the changes it applied, the queue of what waits for a
//! person, when it last passed and how its last drill went. [`EvolverRows`] reads them; [`Notes`] writes
//! what is not part of a step.

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::Serialize;
use serde_json::Value;

use super::db::{Database, sql};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::Slug;

/// A change that the evolver applied: one skill of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvolverChange {
    /// The step that applied it.
    pub step: i64,
    /// The skill it changed.
    pub skill: Slug,
    /// What was changed and why.
    pub manifest: Value,
    /// When it was taken back.
    pub rolled_back_at: Option<Timestamp>,
}

/// Something that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRow {
    /// Its id; the same thing has the same one.
    pub id: String,
    /// What kind of thing it is.
    pub kind: String,
    /// The skill it is about.
    pub skill: Option<Slug>,
    /// What became of it.
    pub status: String,
    /// The queued candidate as JSON, with the fields of `ReviewCandidate` in `herm-learning`.
    pub entry: Value,
    /// The content that accepting it would write.
    pub content: Option<String>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
}

impl QueueRow {
    /// The kind of a change of a skill that is ready and waits for a person.
    pub const CHANGE: &str = "change";
}

const QUEUE_COLUMNS: &str = "id, kind, skill, status, entry, content, created_at, updated_at";
/// The same for lists, which do not carry what accepting would write.
const LISTED_COLUMNS: &str = "id, kind, skill, status, entry, NULL, created_at, updated_at";

/// Writes a change in the transaction of its step.
pub(crate) fn add_change(connection: &Connection, step: i64, skill: &Slug, manifest: &Value) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO evolver_changes (step, skill, manifest) VALUES (?1, ?2, ?3)")
        .and_then(|mut add| add.execute((step, skill.as_str(), manifest.to_string())))
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

/// Marks the changes of a step as taken back; how many were not yet.
pub(crate) fn mark_rolled_back(connection: &Connection, step: i64, at: Timestamp) -> Result<u64> {
    connection
        .prepare_cached("UPDATE evolver_changes SET rolled_back_at = ?2 WHERE step = ?1 AND rolled_back_at IS NULL")
        .and_then(|mut put| put.execute((step, at.millis())))
        .map(|count| count as u64)
        .map_err(|source| sql("write memory.db", source))
}

/// What the evolver keeps, to be read.
#[derive(Debug, Clone, Copy)]
pub struct EvolverRows<'a> {
    connection: &'a Connection,
}

impl EvolverRows<'_> {
    /// The changes that were applied, newest first; those of one skill where it is named.
    pub fn changes(&self, skill: Option<&Slug>) -> Result<Vec<EvolverChange>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT step, skill, manifest, rolled_back_at FROM evolver_changes \
                 WHERE ?1 IS NULL OR skill = ?1 ORDER BY step DESC, skill",
            )
            .map_err(failed)?;
        let mut rows = statement.query([skill.map(Slug::as_str)]).map_err(failed)?;
        let mut changes = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            changes.push(read_change(row)?);
        }
        Ok(changes)
    }

    /// The changes of one step, by skill.
    pub fn changes_of(&self, step: i64) -> Result<Vec<EvolverChange>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached("SELECT step, skill, manifest, rolled_back_at FROM evolver_changes WHERE step = ?1")
            .map_err(failed)?;
        let mut rows = statement.query([step]).map_err(failed)?;
        let mut changes = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            changes.push(read_change(row)?);
        }
        Ok(changes)
    }

    /// What is queued, oldest first and without its content; of one status or one kind where they are named.
    pub fn queue(&self, status: Option<&str>, kind: Option<&str>) -> Result<Vec<QueueRow>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(&format!(
                "SELECT {LISTED_COLUMNS} FROM evolver_queue WHERE (?1 IS NULL OR status = ?1) \
                 AND (?2 IS NULL OR kind = ?2) ORDER BY created_at, id"
            ))
            .map_err(failed)?;
        let mut rows = statement.query([status, kind]).map_err(failed)?;
        let mut queued = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            queued.push(read_queued(row)?);
        }
        Ok(queued)
    }

    /// How many things wait for a person.
    pub fn waiting(&self) -> Result<u64> {
        self.connection
            .prepare_cached("SELECT count(*) FROM evolver_queue WHERE status = 'pending'")
            .and_then(|mut count| count.query_row([], |row| row.get::<_, i64>(0)))
            .map(i64::unsigned_abs)
            .map_err(|source| sql("read memory.db", source))
    }

    /// One thing that is queued.
    pub fn queued(&self, id: &str) -> Result<Option<QueueRow>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {QUEUE_COLUMNS} FROM evolver_queue WHERE id = ?1"))
            .map_err(failed)?;
        let mut rows = statement.query([id]).map_err(failed)?;
        rows.next().map_err(failed)?.map(read_queued).transpose()
    }

    /// When the evolver last passed.
    pub fn passed_at(&self) -> Result<Option<Timestamp>> {
        self.connection
            .prepare_cached("SELECT passed_at FROM evolver_state")
            .and_then(|mut get| get.query_row([], |row| row.get::<_, Option<i64>>(0)).optional())
            .map(|at| at.flatten().map(Timestamp))
            .map_err(|source| sql("read memory.db", source))
    }

    /// How the last drill went.
    pub fn drill(&self) -> Result<Option<Value>> {
        self.connection
            .prepare_cached("SELECT drill FROM evolver_state")
            .and_then(|mut get| get.query_row([], |row| row.get::<_, Option<String>>(0)).optional())
            .map_err(|source| sql("read memory.db", source))?
            .flatten()
            .map(|text| json(&text))
            .transpose()
    }
}

fn read_change(row: &Row<'_>) -> Result<EvolverChange> {
    let failed = |source| sql("read memory.db", source);
    Ok(EvolverChange {
        step: row.get(0).map_err(failed)?,
        skill: row.get::<_, String>(1).map_err(failed)?.try_into()?,
        manifest: json(&row.get::<_, String>(2).map_err(failed)?)?,
        rolled_back_at: row.get::<_, Option<i64>>(3).map_err(failed)?.map(Timestamp),
    })
}

fn read_queued(row: &Row<'_>) -> Result<QueueRow> {
    let failed = |source| sql("read memory.db", source);
    Ok(QueueRow {
        id: row.get(0).map_err(failed)?,
        kind: row.get(1).map_err(failed)?,
        skill: row.get::<_, Option<String>>(2).map_err(failed)?.map(Slug::try_from).transpose()?,
        status: row.get(3).map_err(failed)?,
        entry: json(&row.get::<_, String>(4).map_err(failed)?)?,
        content: row.get(5).map_err(failed)?,
        created_at: Timestamp(row.get(6).map_err(failed)?),
        updated_at: Timestamp(row.get(7).map_err(failed)?),
    })
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|source| {
        Error::corrupt("what the evolver keeps is not JSON").hint("restore the brain from a snapshot").because(source)
    })
}

/// Writes what the evolver keeps, inside one transaction that is no step.
#[derive(Debug, Clone, Copy)]
pub struct EvolverWriter<'c> {
    connection: &'c Connection,
}

impl<'c> EvolverWriter<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self { connection }
    }

    /// Queues something, unless it is there; whether it was new.
    pub fn enqueue(&self, row: &QueueRow) -> Result<bool> {
        self.connection
            .prepare_cached(
                "INSERT OR IGNORE INTO evolver_queue (id, kind, skill, status, entry, content, created_at, updated_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )
            .and_then(|mut add| {
                add.execute((
                    &row.id,
                    &row.kind,
                    row.skill.as_ref().map(Slug::as_str),
                    &row.status,
                    row.entry.to_string(),
                    &row.content,
                    row.created_at.millis(),
                    row.updated_at.millis(),
                ))
            })
            .map(|added| added > 0)
            .map_err(|source| sql("write memory.db", source))
    }

    /// Queues something again that was superseded; whether it was.
    pub fn revive(&self, row: &QueueRow) -> Result<bool> {
        self.connection
            .prepare_cached(
                "UPDATE evolver_queue SET status = ?2, entry = ?3, content = ?4, updated_at = ?5 \
                 WHERE id = ?1 AND status = 'superseded'",
            )
            .and_then(|mut put| {
                let entry = row.entry.to_string();
                put.execute((&row.id, &row.status, entry, &row.content, row.updated_at.millis()))
            })
            .map(|changed| changed > 0)
            .map_err(|source| sql("write memory.db", source))
    }

    /// Says what became of something that is queued; whether there is such a thing. What it would have
    /// written is let go, unless it was rejected: then the like of it is not asked again.
    pub fn set_status(&self, id: &str, status: &str, at: Timestamp) -> Result<bool> {
        self.connection
            .prepare_cached(
                "UPDATE evolver_queue SET status = ?2, updated_at = ?3, \
                 content = CASE ?2 WHEN 'rejected' THEN content END WHERE id = ?1",
            )
            .and_then(|mut put| put.execute((id, status, at.millis())))
            .map(|changed| changed > 0)
            .map_err(|source| sql("write memory.db", source))
    }

    /// Marks the changes of a step as taken back; how many were not yet.
    pub fn mark_rolled_back(&self, step: i64, at: Timestamp) -> Result<u64> {
        mark_rolled_back(self.connection, step, at)
    }

    /// Says when the evolver passed.
    pub fn set_passed_at(&self, at: Timestamp) -> Result<()> {
        self.set_state("UPDATE evolver_state SET passed_at = ?1", at.millis())
    }

    /// Says how a drill went.
    pub fn set_drill(&self, drill: &Value) -> Result<()> {
        self.set_state("UPDATE evolver_state SET drill = ?1", drill.to_string())
    }

    fn set_state(&self, query: &str, value: impl rusqlite::ToSql) -> Result<()> {
        let changed = self
            .connection
            .prepare_cached(query)
            .and_then(|mut put| put.execute([value]))
            .map_err(|source| sql("write memory.db", source))?;
        match changed {
            1 => Ok(()),
            _ => {
                Err(Error::corrupt("memory.db has lost the evolver's state").hint("restore the brain from a snapshot"))
            }
        }
    }
}

impl Database {
    /// What the evolver keeps beside the content.
    pub fn evolver_rows(&self) -> EvolverRows<'_> {
        EvolverRows { connection: &self.connection }
    }
}
