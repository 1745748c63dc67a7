//! The steps a brain took.

use super::journal;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, RelPath};
use crate::memory::{Database, sql};

/// Why a brain moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKind {
    /// It was made.
    Create,
    /// A subscriber's call.
    Task,
    /// The operator, the curator or the evolver.
    Maintenance,
    /// Content from elsewhere, or edits by hand, taken over.
    Import,
    /// A snapshot put in place.
    Restore,
    /// An earlier change undone.
    Rollback,
}

impl StepKind {
    /// The kind's name, as stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Task => "task",
            Self::Maintenance => "maintenance",
            Self::Import => "import",
            Self::Restore => "restore",
            Self::Rollback => "rollback",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self> {
        [Self::Create, Self::Task, Self::Maintenance, Self::Import, Self::Restore, Self::Rollback]
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| {
                Error::corrupt(format!("{name:?} is not a kind of step")).hint("restore the brain from a snapshot")
            })
    }
}

/// One file of a step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChangeRecord {
    /// The file.
    pub path: RelPath,
    /// Its digest before, if it was there.
    pub before: Option<Digest>,
    /// Its digest after, unless it was taken away.
    pub after: Option<Digest>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StepRecord {
    /// Its number.
    pub seq: i64,
    /// The brain's version after it.
    pub version: i64,
    /// Why.
    pub kind: StepKind,
    /// What, in one line.
    pub summary: String,
    /// When.
    pub at: Moment,
    /// The bundle hash before.
    pub before: Option<Digest>,
    /// The bundle hash after.
    pub after: Digest,
    /// The files that moved.
    pub changes: Vec<ChangeRecord>,
}

/// The last `limit` steps, newest first.
pub(super) fn read(database: &Database, limit: usize) -> Result<Vec<StepRecord>> {
    steps(database, "ORDER BY seq DESC LIMIT ?1", i64::try_from(limit).unwrap_or(i64::MAX))
}

/// The last `limit` steps before one, newest first.
pub(super) fn read_before(database: &Database, before: i64, limit: usize) -> Result<Vec<StepRecord>> {
    let first = before.saturating_sub(i64::try_from(limit).unwrap_or(i64::MAX)).max(0);
    // Numbers have no gaps, so a range of them is a page.
    let mut page = steps(database, "WHERE seq >= ?1 ORDER BY seq LIMIT 1000", first)?;
    page.retain(|step| step.seq < before);
    page.reverse();
    page.truncate(limit);
    Ok(page)
}

/// One step.
fn one(database: &Database, seq: i64) -> Result<Option<StepRecord>> {
    steps(database, "WHERE seq = ?1", seq).map(|mut found| found.pop())
}

/// One step that must be there.
pub(super) fn expect(database: &Database, id: &BrainId, seq: i64) -> Result<StepRecord> {
    one(database, seq)?.ok_or_else(|| {
        Error::not_found(format!("brain {id} has no step {seq}"))
            .hint(format!("see its steps with `herm brain history {id}`"))
    })
}

fn steps(database: &Database, which: &str, number: i64) -> Result<Vec<StepRecord>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = database
        .connection
        .prepare_cached(&format!("SELECT seq, version, kind, summary, at, before, after FROM steps {which}"))
        .map_err(failed)?;
    let mut rows = statement.query([number]).map_err(failed)?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let kind: String = row.get(2).map_err(failed)?;
        let before: Option<String> = row.get(5).map_err(failed)?;
        let after: String = row.get(6).map_err(failed)?;
        let seq = row.get(0).map_err(failed)?;
        let changes =
            journal::changes(&database.connection, seq, seq)?.into_iter().map(|(_, change)| change.record()).collect();
        steps.push(StepRecord {
            seq,
            version: row.get(1).map_err(failed)?,
            kind: StepKind::parse(&kind)?,
            summary: row.get(3).map_err(failed)?,
            at: Moment(row.get(4).map_err(failed)?),
            before: before.map(|text| text.parse()).transpose()?,
            after: after.parse()?,
            changes,
        });
    }
    Ok(steps)
}

/// When the last step of a kind was whose summary begins like this.
pub(super) fn last_like(database: &Database, kind: StepKind, beginning: &str) -> Result<Option<Moment>> {
    database
        .connection
        .prepare_cached("SELECT max(at) FROM steps WHERE kind = ?1 AND substr(summary, 1, length(?2)) = ?2")
        .and_then(|mut last| last.query_row((kind.name(), beginning), |row| row.get::<_, Option<i64>>(0)))
        .map(|at| at.map(Moment))
        .map_err(|source| sql("read memory.db", source))
}
