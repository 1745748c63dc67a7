//! Evidence: what tools did and how it went. Telemetry, written with the step it belongs to and not
//! part of the bundle hash.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::db::{Database, sql};
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::ids::{Digest, Slug};

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
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    fn parse(name: &str) -> Result<Self> {
        [Self::Ok, Self::Failed, Self::Refused].into_iter().find(|status| status.name() == name).ok_or_else(|| {
            Error::corrupt(format!("{name:?} is not a status of evidence")).hint("restore the brain from a snapshot")
        })
    }
}

/// One tool event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The task it happened in.
    pub task: String,
    /// The turn.
    pub turn: u32,
    /// The tool that was named.
    pub tool: String,
    /// How it went.
    pub status: EvidenceStatus,
    /// The skills that the task loaded.
    pub skills: Vec<Slug>,
    /// The digest of the arguments: they may hold a subscriber's words.
    pub args: Digest,
    /// What came of it, in a line.
    pub summary: String,
    /// How long it took.
    pub millis: u64,
    /// When.
    pub at: Moment,
}

impl Evidence {
    /// Writes it with the step it belongs to; its number.
    pub fn write(&self, connection: &Connection, step: i64) -> Result<i64> {
        let skills = self.skills.iter().map(Slug::as_str).collect::<Vec<_>>().join(" ");
        connection
            .prepare_cached(
                "INSERT INTO evidence (step, task, turn, tool, status, skills, args, summary, millis, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )
            .and_then(|mut add| {
                add.insert((
                    step,
                    &self.task,
                    self.turn,
                    &self.tool,
                    self.status.name(),
                    skills,
                    self.args.bytes(),
                    &self.summary,
                    i64::try_from(self.millis).unwrap_or(i64::MAX),
                    self.at.millis(),
                ))
            })
            .map_err(|source| sql("write memory.db", source))
    }
}

impl Database {
    /// The number the next piece of evidence will have.
    pub fn next_evidence(&self) -> Result<i64> {
        self.connection
            .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM evidence")
            .and_then(|mut get| get.query_row([], |row| row.get(0)))
            .map_err(|source| sql("read memory.db", source))
    }

    /// The last `limit` pieces of evidence, newest first, with their numbers.
    pub fn evidence(&self, limit: usize) -> Result<Vec<(i64, Evidence)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, task, turn, tool, status, skills, args, summary, millis, at FROM evidence \
                 ORDER BY id DESC LIMIT ?1",
            )
            .map_err(failed)?;
        let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)]).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let skills: String = row.get(5).map_err(failed)?;
            let args: [u8; 32] = row.get(6).map_err(failed)?;
            let millis: i64 = row.get(8).map_err(failed)?;
            let evidence = Evidence {
                task: row.get(1).map_err(failed)?,
                turn: row.get(2).map_err(failed)?,
                tool: row.get(3).map_err(failed)?,
                status: EvidenceStatus::parse(&row.get::<_, String>(4).map_err(failed)?)?,
                skills: skills.split_whitespace().map(str::parse).collect::<Result<_>>()?,
                args: args.into(),
                summary: row.get(7).map_err(failed)?,
                millis: millis.unsigned_abs(),
                at: Moment(row.get(9).map_err(failed)?),
            };
            found.push((row.get(0).map_err(failed)?, evidence));
        }
        Ok(found)
    }
}
