//! Evidence: what tools did and how it went, how each session ended, and what was asked and answered.
//! Telemetry, written with the step it belongs to and not part of the bundle hash.
//!
//! - [`Evidence`], [`SessionEvidence`] and [`TurnEvidence`] are its rows, written as they happen.
//! - `fold` counts new rows by day, skill and tool, later and off the caller's path.
//! - [`EvidenceView`] reads counts and rows, those that are not counted yet included.
//! - [`preview`] is what becomes of a text before it is kept, [`KeptArguments`] what becomes of a call's arguments.
//! - `import` takes in sessions of elsewhere, `retain` lets go of what is old.
//!
//! The tables are described in `docs/reference/brain.md`.

mod arguments;
mod fold;
mod import;
mod preview;
mod retain;
mod view;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::db::{Database, sql};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, Slug};

pub use arguments::KeptArguments;
pub(crate) use fold::fold;
pub(crate) use import::import_session;
pub use import::{EvidenceImportCounts, ImportedSession, ImportedTurn};
pub use preview::preview;
pub(crate) use retain::keep_window;
pub use view::{EvidenceSummary, EvidenceTotals, EvidenceView, SkillTally, ToolTally};

/// In the place of a tool that is not there: its name is whatever a model wrote.
pub const UNKNOWN_TOOL: &str = "unknown-tool";
/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// The tools whose calls are about skills themselves.
const SKILL_TOOLS: [&str; 3] = ["skill_view", "skill_manage", "skills_list"];

fn day_of(at: i64) -> i64 {
    at.div_euclid(DAY)
}

/// Where a window of `days` days begins. It begins at a UTC midnight, so that the same evidence gives the same
/// counts all day long.
pub fn window_start(now: Timestamp, days: u32) -> Timestamp {
    Timestamp((day_of(now.millis()) - i64::from(days)).saturating_mul(DAY))
}

/// How a tool call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceStatus {
    /// The tool ran and returned.
    Ok,
    /// The tool ran and failed.
    Failed,
    /// The call was not run: unknown or forbidden tool, arguments that break its schema.
    Refused,
}

impl EvidenceStatus {
    /// The name under which rows keep it; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        [Self::Ok, Self::Failed, Self::Refused]
            .into_iter()
            .find(|status| status.name() == name)
            .ok_or_else(|| strange("a status of evidence", name))
    }
}

/// One tool call of a task. Skills are judged and improved by these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The task it happened in.
    pub task: String,
    /// The turn of the task in which the call was made, from 1.
    pub turn: u32,
    /// The tool that was named.
    pub tool: String,
    /// Whether the tool ran and succeeded, ran and failed, or was not run at all.
    pub status: EvidenceStatus,
    /// The skills that were loaded before the call.
    pub skills: Vec<Slug>,
    /// The digest of the arguments.
    pub args: Digest,
    /// The arguments, scrubbed. `None` where they are not known, where a herm before schema 6 wrote the row, and where
    /// the task was private: they may hold a subscriber's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<KeptArguments>,
    /// What came of it, in a line.
    pub summary: String,
    /// How long it took.
    pub millis: u64,
    /// When the task or the imported session began, not the call.
    pub at: Timestamp,
}

/// The columns of a row, as [`Evidence::read`] takes them.
const COLUMNS: &str = "id, task, turn, tool, status, skills, args, summary, millis, at, \
    (SELECT kept.arguments FROM evidence_arguments kept WHERE kept.evidence = evidence.id)";

impl Evidence {
    /// The digest of a call's arguments: of their JSON without spaces, in the order they were given.
    /// Nothing where they are not known.
    pub fn digest_of_args(args: Option<&Map<String, Value>>) -> Digest {
        let text = args.and_then(|args| serde_json::to_string(args).ok()).unwrap_or_default();
        Digest::of(text.as_bytes())
    }

    /// Writes it under its number, with the step it belongs to.
    pub(crate) fn write(&self, connection: &Connection, id: i64, step: i64) -> Result<()> {
        write_row(connection, id, step, &self.task, self)
    }

    fn read(row: &Row<'_>) -> Result<(i64, Self)> {
        let failed = |source| sql("read memory.db", source);
        let args: [u8; 32] = row.get(6).map_err(failed)?;
        let millis: i64 = row.get(8).map_err(failed)?;
        let evidence = Self {
            task: row.get(1).map_err(failed)?,
            turn: row.get(2).map_err(failed)?,
            tool: row.get(3).map_err(failed)?,
            status: EvidenceStatus::parse(text(row, 4)?)?,
            skills: slugs(text(row, 5)?)?,
            args: args.into(),
            summary: row.get(7).map_err(failed)?,
            millis: millis.unsigned_abs(),
            at: Timestamp(row.get(9).map_err(failed)?),
            arguments: match row.get_ref(10).map_err(failed)? {
                ValueRef::Null => None,
                _ => Some(KeptArguments::parse(text(row, 10)?)?),
            },
        };
        Ok((row.get(0).map_err(failed)?, evidence))
    }
}

fn write_row(connection: &Connection, id: i64, step: i64, task: &str, evidence: &Evidence) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO evidence (id, step, task, turn, tool, status, skills, args, summary, millis, at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .and_then(|mut add| {
            add.execute((
                id,
                step,
                task,
                evidence.turn,
                &evidence.tool,
                evidence.status.name(),
                joined(&evidence.skills),
                evidence.args.bytes(),
                &evidence.summary,
                i64::try_from(evidence.millis).unwrap_or(i64::MAX),
                evidence.at.millis(),
            ))
        })
        .map_err(|source| sql("write memory.db", source))?;
    let Some(arguments) = &evidence.arguments else { return Ok(()) };
    connection
        .prepare_cached("INSERT INTO evidence_arguments (evidence, arguments) VALUES (?1, ?2)")
        .and_then(|mut add| add.execute((id, arguments.to_string())))
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

/// How a session came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionOrigin {
    /// It ran here, and was written with its step.
    Live,
    /// It was taken in from a record of elsewhere.
    Backfill,
}

impl SessionOrigin {
    /// The name under which rows keep it; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Backfill => "backfill",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        [Self::Live, Self::Backfill]
            .into_iter()
            .find(|origin| origin.name() == name)
            .ok_or_else(|| strange("an origin of a session", name))
    }
}

/// How a session went: one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvidence {
    /// The id of the task; of an imported session, the session's own id.
    pub task: String,
    /// When the task began; of an imported session, [`ImportedSession::at`].
    pub at: Timestamp,
    /// Whether it came to its answer.
    pub completed: bool,
    /// Whether it was ended from outside: cancelled, or out of time.
    pub interrupted: bool,
    /// The model that spoke last.
    pub model: String,
    /// The backend or platform it ran on.
    pub platform: String,
    /// How many turns it took. An imported session counts its questions.
    pub turns: u32,
    /// Tool calls, refused ones included.
    pub calls: u32,
    /// Those that failed or were refused.
    pub errors: u32,
    /// The skills that were loaded in it.
    pub skills: Vec<Slug>,
    /// How it came to be known.
    pub origin: SessionOrigin,
}

impl SessionEvidence {
    /// Writes it with the step it belongs to. What is there of that task is replaced.
    pub(crate) fn write(&self, connection: &Connection, step: i64) -> Result<()> {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO evidence_sessions (task, step, at, completed, interrupted, model, platform, \
                 turns, calls, errors, skills, origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )
            .and_then(|mut put| {
                put.execute((
                    &self.task,
                    step,
                    self.at.millis(),
                    self.completed,
                    self.interrupted,
                    &self.model,
                    &self.platform,
                    self.turns,
                    self.calls,
                    self.errors,
                    joined(&self.skills),
                    self.origin.name(),
                ))
            })
            .map(|_| ())
            .map_err(|source| sql("write memory.db", source))
    }

    const COLUMNS: &str =
        "task, at, completed, interrupted, model, platform, turns, calls, errors, skills, origin, step";

    fn read(row: &Row<'_>) -> Result<Self> {
        let failed = |source| sql("read memory.db", source);
        Ok(Self {
            task: row.get(0).map_err(failed)?,
            at: Timestamp(row.get(1).map_err(failed)?),
            completed: row.get(2).map_err(failed)?,
            interrupted: row.get(3).map_err(failed)?,
            model: row.get(4).map_err(failed)?,
            platform: row.get(5).map_err(failed)?,
            turns: row.get(6).map_err(failed)?,
            calls: row.get(7).map_err(failed)?,
            errors: row.get(8).map_err(failed)?,
            skills: slugs(text(row, 9)?)?,
            origin: SessionOrigin::parse(text(row, 10)?)?,
        })
    }
}

/// What was asked and answered, as previews.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEvidence {
    /// The id of the task that the question belongs to.
    pub task: String,
    /// Which question of the task, from 1.
    pub number: u32,
    /// When the task began; of an imported session, [`ImportedTurn::at`].
    pub at: Timestamp,
    /// The model that answered.
    pub model: String,
    /// The backend or platform it ran on.
    pub platform: String,
    /// The beginning of the question.
    pub asked: String,
    /// The beginning of the answer.
    pub answered: String,
}

impl TurnEvidence {
    /// Writes it with the step it belongs to; whether it was new. One that is known keeps its words,
    /// unless it had no answer yet.
    pub(crate) fn write(&self, connection: &Connection, step: i64) -> Result<bool> {
        let Self { task, number, at, model, platform, asked, answered } = self;
        let added = connection
            .prepare_cached(
                "INSERT OR IGNORE INTO evidence_turns (step, task, number, at, model, platform, asked, answered) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )
            .and_then(|mut add| add.execute((step, task, number, at.millis(), model, platform, asked, answered)))
            .map_err(|source| sql("write memory.db", source))?;
        if added == 0 && !answered.is_empty() {
            connection
                .prepare_cached(
                    "UPDATE evidence_turns SET answered = ?3 WHERE task = ?1 AND number = ?2 AND answered = ''",
                )
                .and_then(|mut put| put.execute((task, number, answered)))
                .map_err(|source| sql("write memory.db", source))?;
        }
        Ok(added > 0)
    }
}

fn joined(skills: &[Slug]) -> String {
    skills.iter().map(Slug::as_str).collect::<Vec<_>>().join(" ")
}

fn slugs(text: &str) -> Result<Vec<Slug>> {
    text.split_whitespace().map(str::parse).collect()
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str> {
    let value = row.get_ref(column).map_err(|source| sql("read memory.db", source))?;
    value.as_str().map_err(|source| {
        Error::corrupt("evidence holds what no herm wrote").hint("restore the brain from a snapshot").because(source)
    })
}

fn strange(what: &str, found: &str) -> Error {
    Error::corrupt(format!("{found:?} is not {what}")).hint("restore the brain from a snapshot")
}

/// The number the next piece of evidence will have. Numbers are never given twice, whatever was let go:
/// skills name the evidence they rest on.
pub(crate) fn next_number(connection: &Connection) -> Result<i64> {
    connection
        .prepare_cached(
            "SELECT 1 + max(coalesce((SELECT max(id) FROM evidence), 0), \
             coalesce((SELECT numbered FROM evolver_state), 0))",
        )
        .and_then(|mut get| get.query_row([], |row| row.get(0)))
        .map_err(|source| sql("read memory.db", source))
}

impl Database {
    /// The number the next piece of evidence will have.
    pub fn next_evidence(&self) -> Result<i64> {
        next_number(&self.connection)
    }

    /// The last `limit` pieces of evidence by number, newest first.
    pub fn evidence(&self, limit: usize) -> Result<Vec<(i64, Evidence)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM evidence ORDER BY id DESC LIMIT ?1"))
            .map_err(failed)?;
        let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            found.push(Evidence::read(row)?);
        }
        Ok(found)
    }

    /// What there is of evidence, to count and to read.
    pub fn evidence_view(&self) -> EvidenceView<'_> {
        EvidenceView::new(self)
    }
}
