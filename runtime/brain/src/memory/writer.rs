//! Row changes inside one transaction.

use rusqlite::{Connection, OptionalExtension as _};

use super::db::sql;
use super::index::{self, MemorySource};
use super::logical::{self, Table, Touched};
use super::outcome::{self, OutcomeReport, OutcomeValue, TaskOutcome};
use super::task_status::TaskStatus;
use super::undo::{self, RowUndo};
use crate::bundle::rows::FAN_OUT;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, Slug};
use crate::skill::SkillUsage;

/// Rows of this scope belong to the brain, not to one subscriber, and everyone may see them.
pub(super) const SHARED: i64 = 0;

/// Who said something in a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// The subscriber who asked, or the operator.
    User,
    /// The model that answered.
    Assistant,
    /// A tool that a call was made to; herm's own tasks store no such messages.
    Tool,
}

impl MessageRole {
    /// The role's name, as stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// Something said during a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageEntry {
    /// The task it belongs to.
    pub task: String,
    /// Whose task it was; `None` is visible to everyone.
    pub subscriber: Option<Digest>,
    /// Who said it in the task.
    pub role: MessageRole,
    /// What was said, as the caller cut it; a search finds its words.
    pub content: String,
    /// When the task began in which it was said.
    pub at: Timestamp,
}

/// A note by key; a later one with the same key and owner replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Whose note it is; `None` is visible to everyone.
    pub subscriber: Option<Digest>,
    /// What it is about.
    pub key: String,
    /// The note itself, which a search finds together with the key.
    pub value: String,
    /// The task that noted it.
    pub task: String,
    /// When it was last written, as its writer says; searches rank newer facts a little higher.
    pub at: Timestamp,
}

/// How a task went, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEntry {
    /// The id of the task, which the log has once.
    pub task: String,
    /// Whose task it was; `None` is visible to everyone.
    pub subscriber: Option<Digest>,
    /// How it ended. How good its answer was is added from its outcome.
    pub outcome: TaskStatus,
    /// What it was about.
    pub summary: String,
    /// When the task began, not when it ended.
    pub at: Timestamp,
}

/// Changes rows and remembers which ones, so that the logical hash can follow.
#[derive(Debug)]
pub struct MemoryWriter<'c> {
    connection: &'c Connection,
    touched: Touched,
    undo: Vec<RowUndo>,
}

impl<'c> MemoryWriter<'c> {
    /// A writer inside the transaction that is open on `connection`.
    pub fn new(connection: &'c Connection) -> Self {
        Self { connection, touched: Touched::new(), undo: Vec::new() }
    }

    /// Notes that a row was written, and what it was before.
    fn touch(&mut self, table: Table, id: i64, before: Option<String>) {
        self.touched.insert((table, id.div_euclid(FAN_OUT)));
        self.undo.push(RowUndo { table, id, before });
    }

    fn scope(&mut self, subscriber: Option<&Digest>) -> Result<i64> {
        let Some(digest) = subscriber.map(Digest::to_string) else { return Ok(SHARED) };
        let failed = |source| sql("write memory.db", source);
        let known = self
            .connection
            .prepare_cached("SELECT id FROM subscribers WHERE digest = ?1")
            .and_then(|mut find| find.query_row([&digest], |row| row.get(0)).optional())
            .map_err(failed)?;
        if let Some(id) = known {
            return Ok(id);
        }
        self.connection
            .prepare_cached("INSERT INTO subscribers (digest) VALUES (?1)")
            .and_then(|mut add| add.insert([&digest]))
            .inspect(|id| self.touch(Table::Subscribers, *id, None))
            .map_err(failed)
    }

    /// Adds a message to the memory and its index, and returns its row number.
    pub fn message(&mut self, message: &MessageEntry) -> Result<i64> {
        let scope = self.scope(message.subscriber.as_ref())?;
        let id = self
            .connection
            .prepare_cached("INSERT INTO messages (task, scope, role, content, at) VALUES (?1, ?2, ?3, ?4, ?5)")
            .and_then(|mut add| {
                let MessageEntry { task, role, content, at, .. } = message;
                add.insert((task, scope, role.name(), content, at.millis()))
            })
            .map_err(|source| sql("write memory.db", source))?;
        self.touch(Table::Messages, id, None);
        index::add(self.connection, MemorySource::Message, id)?;
        Ok(id)
    }

    /// Adds a fact, or replaces the one with the same key and owner.
    pub fn fact(&mut self, fact: &Fact) -> Result<i64> {
        let failed = |source| sql("write memory.db", source);
        let scope = self.scope(fact.subscriber.as_ref())?;
        let known: Option<i64> = self
            .connection
            .prepare_cached("SELECT id FROM facts WHERE scope = ?1 AND key = ?2")
            .and_then(|mut find| find.query_row((scope, &fact.key), |row| row.get(0)).optional())
            .map_err(failed)?;
        let before = known.map(|id| undo::row(self.connection, Table::Facts, id)).transpose()?.flatten();
        let id = match known {
            Some(id) => {
                index::remove(self.connection, MemorySource::Fact, id)?;
                self.connection
                    .prepare_cached("UPDATE facts SET value = ?2, task = ?3, at = ?4 WHERE id = ?1")
                    .and_then(|mut put| put.execute((id, &fact.value, &fact.task, fact.at.millis())))
                    .map_err(failed)?;
                id
            }
            None => self
                .connection
                .prepare_cached("INSERT INTO facts (scope, key, value, task, at) VALUES (?1, ?2, ?3, ?4, ?5)")
                .and_then(|mut add| add.insert((scope, &fact.key, &fact.value, &fact.task, fact.at.millis())))
                .map_err(failed)?,
        };
        self.touch(Table::Facts, id, before);
        index::add(self.connection, MemorySource::Fact, id)?;
        Ok(id)
    }

    /// Adds a line to the task log, with what is known of the answer.
    pub fn task(&mut self, entry: &TaskEntry, value: OutcomeValue) -> Result<i64> {
        let outcome = outcome::write_log(entry.outcome.name(), value);
        let scope = self.scope(entry.subscriber.as_ref())?;
        let id = self
            .connection
            .prepare_cached("INSERT INTO task_log (task, scope, outcome, summary, at) VALUES (?1, ?2, ?3, ?4, ?5)")
            .and_then(|mut add| {
                let TaskEntry { task, summary, at, .. } = entry;
                add.insert((task, scope, outcome, summary, at.millis()))
            })
            .map_err(|source| match source.sqlite_error_code() {
                Some(rusqlite::ErrorCode::ConstraintViolation) => {
                    Error::conflict(format!("task {:?} is in the log already", entry.task))
                        .hint("every task has an id of its own")
                        .because(source)
                }
                _ => sql("write memory.db", source),
            })?;
        self.touch(Table::TaskLog, id, None);
        index::add(self.connection, MemorySource::Task, id)?;
        Ok(id)
    }

    /// Brings the line of a task that is in the log to what reports on it come to. The line changes with every report, so
    /// that a report is a step also where the value stays: then the number of the report is added.
    pub fn outcome(&mut self, task: &str, reports: &[OutcomeReport]) -> Result<()> {
        let found: Option<(i64, String)> = self
            .connection
            .prepare_cached("SELECT id, outcome FROM task_log WHERE task = ?1")
            .and_then(|mut find| find.query_row([task], |row| row.try_into()).optional())
            .map_err(|source| sql("write memory.db", source))?;
        let Some((id, line)) = found else {
            return Err(Error::not_found(format!("task {task:?} is not in the log")).hint("name a task of this brain"));
        };
        let mut all = outcome::reports(self.connection, task)?;
        all.extend_from_slice(reports);
        let number = all.len();
        let (status, before) = outcome::read_log(&line);
        let value = TaskOutcome::of(all).value;
        let mut text = outcome::write_log(status, value);
        if value == before {
            text.push_str(&format!(" #{number}"));
        }
        let row = undo::row(self.connection, Table::TaskLog, id)?;
        self.connection
            .prepare_cached("UPDATE task_log SET outcome = ?2 WHERE id = ?1")
            .and_then(|mut put| put.execute((id, text)))
            .map_err(|source| sql("write memory.db", source))?;
        self.touch(Table::TaskLog, id, row);
        Ok(())
    }

    /// Sets the telemetry of a skill.
    pub fn usage(&mut self, slug: &Slug, usage: &SkillUsage) -> Result<()> {
        let at = |moment: Option<Timestamp>| moment.map(Timestamp::millis);
        let known: Option<i64> = self
            .connection
            .prepare_cached("SELECT id FROM skill_usage WHERE slug = ?1")
            .and_then(|mut find| find.query_row([slug.as_str()], |row| row.get(0)).optional())
            .map_err(|source| sql("write memory.db", source))?;
        let before = known.map(|id| undo::row(self.connection, Table::SkillUsage, id)).transpose()?.flatten();
        let id: i64 = self
            .connection
            .prepare_cached(
                "INSERT INTO skill_usage (slug, created_by, created_at, state, pinned, use_count, view_count, \
                 patch_count, last_used_at, last_viewed_at, last_patched_at, archived_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
                 ON CONFLICT (slug) DO UPDATE SET created_by = ?2, created_at = ?3, state = ?4, pinned = ?5, \
                 use_count = ?6, view_count = ?7, patch_count = ?8, last_used_at = ?9, last_viewed_at = ?10, \
                 last_patched_at = ?11, archived_at = ?12 RETURNING id",
            )
            .and_then(|mut put| {
                put.query_row(
                    rusqlite::params![
                        slug.as_str(),
                        usage.created_by.name(),
                        usage.created_at.millis(),
                        usage.state.name(),
                        usage.pinned,
                        usage.use_count,
                        usage.view_count,
                        usage.patch_count,
                        at(usage.last_used_at),
                        at(usage.last_viewed_at),
                        at(usage.last_patched_at),
                        at(usage.archived_at),
                    ],
                    |row| row.get(0),
                )
            })
            .map_err(|source| sql("write memory.db", source))?;
        self.touch(Table::SkillUsage, id, before);
        Ok(())
    }

    /// Brings the hashes up to date. What it returns undoes the rows again. Refused as `Corrupt` where the rows were not
    /// what their hashes said before anything was written.
    pub fn finish(self) -> Result<Vec<RowUndo>> {
        logical::settle(self.connection, &self.touched, &self.undo)?;
        Ok(self.undo)
    }

    /// What undoes the rows again, where the caller computes every hash anew.
    pub fn into_undo(self) -> Vec<RowUndo> {
        self.undo
    }
}
