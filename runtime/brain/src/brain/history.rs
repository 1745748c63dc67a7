//! The steps a brain took.

use super::journal;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, RelPath};
use crate::memory::{Database, sql};

/// Why a brain moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The brain was made.
    Create,
    /// A task ended, and its record, messages and evidence were kept.
    Task,
    /// The operator changed skills or memory.
    Maintenance,
    /// The curator retired skills, or brought some back.
    Curate,
    /// The evolver changed a skill.
    Evolve,
    /// Between tasks the agent kept or dropped an example, or let go of a skill that does harm. Earlier versions stored
    /// this kind as [`Maintenance`](Self::Maintenance).
    Learn,
    /// A patch of the runtime's settings, role or skills was applied.
    Patch,
    /// Somebody said how good the answer of a settled task was.
    Feedback,
    /// Content from elsewhere was taken in.
    Import,
    /// Edits by hand were taken over.
    Adopt,
    /// The brain goes on after a loss.
    Repair,
    /// An earlier step was undone.
    Undo {
        /// The step. Unknown where only a receipt of herm 0.1 is left of the undo.
        of: Option<i64>,
    },
}

impl StepKind {
    /// The kind as receipts, history and the HTTP interface name it. Finer kinds share a name:
    /// [`action`](Self::action) tells them apart.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Task => "task",
            Self::Maintenance | Self::Curate | Self::Evolve | Self::Learn | Self::Patch | Self::Feedback => {
                "maintenance"
            }
            Self::Import | Self::Adopt => "import",
            Self::Repair => "restore",
            Self::Undo { .. } => "rollback",
        }
    }

    /// What was done, where the name does not say it.
    pub fn action(self) -> Option<&'static str> {
        match self {
            Self::Curate => Some("curate"),
            Self::Evolve => Some("evolve"),
            Self::Learn => Some("learn"),
            Self::Patch => Some("patch"),
            Self::Feedback => Some("feedback"),
            Self::Adopt => Some("adopt"),
            Self::Undo { of: Some(_) } => Some("undo"),
            Self::Create | Self::Task | Self::Maintenance | Self::Import | Self::Repair | Self::Undo { of: None } => {
                None
            }
        }
    }

    /// The step that this one undoes.
    pub fn undoes(self) -> Option<i64> {
        match self {
            Self::Undo { of } => of,
            _ => None,
        }
    }

    /// The kind as the journal stores it: its action where there is one, and the step that an undo undoes. Two kinds
    /// have words of their own, because herm 0.1 stored several kinds by their names.
    pub(super) fn stored(self) -> String {
        match (self, self.action(), self.undoes()) {
            (Self::Maintenance, ..) => "maintain".to_owned(),
            (Self::Import, ..) => "take-in".to_owned(),
            (_, Some(action), Some(step)) => format!("{action}:{step}"),
            (_, Some(action), None) => action.to_owned(),
            (_, None, _) => self.name().to_owned(),
        }
    }

    /// Reads the kind of a stored step. Herm 0.1 stored the name alone: there the summary, which it wrote itself, has
    /// to tell the action.
    pub(super) fn read(stored: &str, summary: &str) -> Result<Self> {
        if let Some(step) = stored.strip_prefix("undo:") {
            let of = step.parse().ok().filter(|step| *step > 0);
            return of.map(|of| Self::Undo { of: Some(of) }).ok_or_else(|| unknown(stored));
        }
        match stored {
            "create" => Ok(Self::Create),
            "task" => Ok(Self::Task),
            "curate" => Ok(Self::Curate),
            "evolve" => Ok(Self::Evolve),
            "learn" => Ok(Self::Learn),
            "patch" => Ok(Self::Patch),
            "feedback" => Ok(Self::Feedback),
            "adopt" => Ok(Self::Adopt),
            "restore" => Ok(Self::Repair),
            "maintain" => Ok(Self::Maintenance),
            "take-in" => Ok(Self::Import),
            "maintenance" if summary.starts_with("curator: ") => Ok(Self::Curate),
            "maintenance" if summary.starts_with("evolver: ") => Ok(Self::Evolve),
            "maintenance" if summary.starts_with("patch: ") => Ok(Self::Patch),
            "maintenance" => Ok(Self::Maintenance),
            "import" if summary.starts_with("adopted ") => Ok(Self::Adopt),
            "import" => Ok(Self::Import),
            "rollback" => {
                let rest = summary.strip_prefix("undo of step ").unwrap_or_default();
                let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                Ok(Self::Undo { of: rest.get(..digits).and_then(|digits| digits.parse().ok()) })
            }
            other => Err(unknown(other)),
        }
    }
}

fn unknown(kind: &str) -> Error {
    Error::corrupt(format!("{kind:?} is not a kind of step")).hint("restore the brain from a snapshot")
}

impl serde::Serialize for StepKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One file of a step.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ChangeRecord {
    /// Where the file is, relative to the brain's directory.
    pub path: RelPath,
    /// Its digest before, if it was there.
    pub before: Option<Digest>,
    /// Its digest after, unless it was taken away.
    pub after: Option<Digest>,
}

/// One step as the journal has it. The history API and `herm brain history` show it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StepRecord {
    /// Its number in the journal. Numbers have no gaps.
    pub seq: i64,
    /// The brain's version after it.
    pub version: i64,
    /// What made the brain move; an undo names the step it took back.
    pub kind: StepKind,
    /// What, in one line. For people: nothing is decided by it.
    pub summary: String,
    /// When it was settled, by the clock of the brain's owner.
    pub at: Timestamp,
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

/// The step with the number `seq`, or `None` where the journal has none.
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
        let (kind, summary): (String, String) = (row.get(2).map_err(failed)?, row.get(3).map_err(failed)?);
        let before: Option<String> = row.get(5).map_err(failed)?;
        let after: String = row.get(6).map_err(failed)?;
        let seq = row.get(0).map_err(failed)?;
        let changes =
            journal::changes(&database.connection, seq, seq)?.into_iter().map(|(_, change)| change.record()).collect();
        steps.push(StepRecord {
            seq,
            version: row.get(1).map_err(failed)?,
            kind: StepKind::read(&kind, &summary)?,
            summary,
            at: Timestamp(row.get(4).map_err(failed)?),
            before: before.map(|text| text.parse()).transpose()?,
            after: after.parse()?,
            changes,
        });
    }
    Ok(steps)
}

/// When the curator last moved a brain.
pub(super) fn last_curated(database: &Database) -> Result<Option<Timestamp>> {
    database
        .connection
        // Herm 0.1 stored its steps as maintenance, with this summary.
        .prepare_cached(
            "SELECT max(at) FROM steps WHERE kind = 'curate' OR \
             (kind = 'maintenance' AND substr(summary, 1, 9) = 'curator: ')",
        )
        .and_then(|mut last| last.query_row([], |row| row.get::<_, Option<i64>>(0)))
        .map(|at| at.map(Timestamp))
        .map_err(|source| sql("read memory.db", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_as_it_was_stored() {
        let all = [
            StepKind::Create,
            StepKind::Task,
            StepKind::Maintenance,
            StepKind::Curate,
            StepKind::Evolve,
            StepKind::Learn,
            StepKind::Patch,
            StepKind::Feedback,
            StepKind::Import,
            StepKind::Adopt,
            StepKind::Repair,
            StepKind::Undo { of: Some(17) },
        ];
        for kind in all {
            // The summary has no say in it: it reads like that of another kind.
            for summary in
                ["a line", "undo of step 4: x", "patch: tidy up", "curator: x", "evolver: x", "adopted 2 files"]
            {
                assert_eq!(StepKind::read(&kind.stored(), summary).unwrap(), kind);
            }
        }
    }

    #[test]
    fn steps_of_herm_0_1_are_read_by_their_summaries() {
        let read = |kind, summary| StepKind::read(kind, summary).unwrap();
        assert_eq!(read("maintenance", "curator: archived 2 skills"), StepKind::Curate);
        assert_eq!(read("maintenance", "evolver: notes of report-writing"), StepKind::Evolve);
        assert_eq!(read("maintenance", "patch: a larger budget"), StepKind::Patch);
        assert_eq!(read("maintenance", "archived skill x"), StepKind::Maintenance);
        assert_eq!(read("import", "adopted 2 files changed by hand"), StepKind::Adopt);
        assert_eq!(read("rollback", "undo of step 12 (forced): x"), StepKind::Undo { of: Some(12) });
        assert_eq!(read("rollback", "lost: only its receipt is left"), StepKind::Undo { of: None });
    }

    #[test]
    fn a_history_of_herm_0_1_with_every_kind_of_step_is_read() {
        let all = [
            ("create", "created from seed 1", StepKind::Create),
            ("task", "converged: No language model spoke. Signals of 1 pattern match 1 place", StepKind::Task),
            // What a model says decides nothing.
            ("task", "curator: converged, and adopted 2 files", StepKind::Task),
            ("maintenance", "the operator added to fact \"review-day\"", StepKind::Maintenance),
            ("maintenance", "archived skill report-writing", StepKind::Maintenance),
            ("maintenance", "curator: 2 stale, 1 archived", StepKind::Curate),
            ("maintenance", "evolver: notes of report-writing", StepKind::Evolve),
            ("maintenance", "patch: a larger budget", StepKind::Patch),
            ("import", "imported 3 skills", StepKind::Import),
            ("import", "adopted 1 file changed by hand", StepKind::Adopt),
            ("restore", "repaired: the step to version 12 is lost", StepKind::Repair),
            ("rollback", "undo of step 4: the operator added to MEMORY.md", StepKind::Undo { of: Some(4) }),
            ("rollback", "undo of step 10 (forced): adopted 1 file changed by hand", StepKind::Undo { of: Some(10) }),
            ("rollback", "lost: only its receipt is left", StepKind::Undo { of: None }),
        ];
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("memory.db")).unwrap();
        let insert = "INSERT INTO steps (seq, kind, summary, at, version, before, after) \
            VALUES (?1, ?2, ?3, ?1 * 1000, ?1, NULL, ?4)";
        for (seq, (kind, summary, _)) in (1_i64..).zip(&all) {
            let row = (seq, *kind, *summary, Digest::of(summary.as_bytes()).to_string());
            database.connection.execute(insert, row).unwrap();
        }
        let mut found = read(&database, 100).unwrap();
        found.reverse();
        let found: Vec<(&str, StepKind)> = found.iter().map(|step| (step.summary.as_str(), step.kind)).collect();
        assert_eq!(found, all.map(|(_, summary, kind)| (summary, kind)));
        assert_eq!(last_curated(&database).unwrap(), Some(Timestamp(6_000)));
        for (stored, _, kind) in all {
            assert_eq!(kind.name(), stored, "receipts name it as they did");
        }
    }

    #[test]
    fn a_kind_that_no_herm_wrote_is_refused() {
        for kind in ["", "undo", "undo:", "undo:x", "undo:-1", "undo:0", "Task", "purge"] {
            assert_eq!(StepKind::read(kind, "").unwrap_err().kind(), crate::error::ErrorKind::Corrupt, "{kind}");
        }
    }
}
