//! What a server asks of a brain again and again: one task, one file through its versions, how the brain grew. All of
//! it works while another process owns the brain.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::history::{self, StepKind, StepRecord};
use super::journal;
use super::manifest::BrainManifest;
use super::open::Brain;
use super::reader::Reader;
use crate::bundle::Lockfile;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fsio::Root;
use crate::ids::{BrainId, Digest, RelPath, TaskId};
use crate::layout::{self, Layout};
use crate::memory::{self, SessionOrigin, TaskStatus, sql};
use crate::skill::is_main_file_below;

/// A task that was settled, while its transcript is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTask {
    /// The number of the step that settled it.
    pub step: i64,
    /// Everything that was said and done.
    pub transcript: Vec<u8>,
}

/// One version of a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FileVersion {
    /// The step that wrote it.
    pub step: i64,
    /// The brain's version after it.
    pub version: i64,
    /// When the step was settled.
    pub at: Timestamp,
    /// What kind of step wrote it.
    pub kind: StepKind,
    /// The content; `None` where the step took the file away.
    pub digest: Option<Digest>,
    /// Where the file was.
    pub path: RelPath,
}

/// How much a brain knew at a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct BrainGrowth {
    /// The brain's version after a step; a step moves it by one.
    pub version: i64,
    /// When it was reached.
    pub at: Timestamp,
    /// Skills in the index.
    pub skills: i64,
    /// Skills in the archive.
    pub archived: i64,
}

/// How a task that was settled ended, with its transcript while that is kept.
pub(crate) type SettledTask = (TaskStatus, Option<Vec<u8>>);

impl Brain {
    /// How a task ended, if it was settled here.
    pub fn settled_task(&self, task: &TaskId) -> Result<Option<SettledTask>> {
        let connection = &self.database.connection;
        let Some(status) = task_status(connection, task)? else { return Ok(None) };
        Ok(Some((status, kept_task(connection, task)?.map(|kept| kept.transcript))))
    }
}

fn kept_task(connection: &Connection, task: &TaskId) -> Result<Option<StoredTask>> {
    connection
        .prepare_cached("SELECT step, content FROM transcripts WHERE task = ?1")
        .and_then(|mut get| {
            get.query_row([task.as_str()], |row| Ok(StoredTask { step: row.get(0)?, transcript: row.get(1)? }))
                .optional()
        })
        .map_err(|source| sql("read memory.db", source))
}

fn task_status(connection: &Connection, task: &TaskId) -> Result<Option<TaskStatus>> {
    let found = connection
        .prepare_cached("SELECT outcome FROM task_log WHERE task = ?1")
        .and_then(|mut get| get.query_row([task.as_str()], |row| row.get::<_, String>(0)).optional())
        .map_err(|source| sql("read memory.db", source))?;
    // What follows is how good the answer was.
    found.map(|outcome| memory::read_log(&outcome).0.parse()).transpose()
}

/// A version of a file from its number, version, time, kind, digest and summary.
fn file_version(row: &Row<'_>, path: RelPath) -> Result<FileVersion> {
    let failed = |source| sql("read memory.db", source);
    let (kind, summary): (String, String) = (row.get(3).map_err(failed)?, row.get(5).map_err(failed)?);
    Ok(FileVersion {
        step: row.get(0).map_err(failed)?,
        version: row.get(1).map_err(failed)?,
        at: Timestamp(row.get(2).map_err(failed)?),
        kind: StepKind::read(&kind, &summary)?,
        digest: row.get::<_, Option<[u8; 32]>>(4).map_err(failed)?.map(Digest::from),
        path,
    })
}

impl Reader {
    /// Takes in what the owner has settled since; whether anything has moved.
    pub fn refresh(&mut self) -> Result<bool> {
        let lock = journal::load_state(&self.database.connection)?.lock;
        let moved = lock != *self.lock();
        self.set_lock(lock);
        Ok(moved)
    }

    /// The last `limit` steps before step `before`, newest first.
    pub fn history_before(&self, before: i64, limit: usize) -> Result<Vec<StepRecord>> {
        history::read_before(&self.database, before, limit)
    }

    /// A task by its name, if it was settled and its transcript is still kept.
    pub fn stored_task(&self, task: &TaskId) -> Result<Option<StoredTask>> {
        kept_task(&self.database.connection, task)
    }

    /// Whether a task was settled, and how it ended. `Corrupt` where the log has a status that herm never writes.
    pub fn task_status(&self, task: &TaskId) -> Result<Option<TaskStatus>> {
        task_status(&self.database.connection, task)
    }

    /// The number of the receipt of a step.
    pub fn receipt_of(&self, step: i64) -> Result<Option<u64>> {
        self.database
            .connection
            .prepare_cached("SELECT seq FROM receipts WHERE step = ?1")
            .and_then(|mut get| get.query_row([step], |row| row.get::<_, i64>(0)).optional())
            .map(|seq| seq.map(i64::unsigned_abs))
            .map_err(|source| sql("read memory.db", source))
    }

    /// Every version of the files with one of these paths, newest first, at most `limit`.
    pub fn file_versions(&self, paths: &[RelPath], limit: usize) -> Result<Vec<FileVersion>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .database
            .connection
            .prepare_cached(
                "SELECT s.seq, s.version, s.at, s.kind, c.after, s.summary FROM changes c JOIN steps s ON s.seq = c.seq \
                 WHERE c.path = ?1 ORDER BY c.seq DESC LIMIT ?2",
            )
            .map_err(failed)?;
        let mut versions = Vec::new();
        for path in paths {
            let most = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = statement.query((path.as_str(), most)).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                versions.push(file_version(row, path.clone())?);
            }
        }
        versions.sort_by_key(|version| std::cmp::Reverse(version.step));
        versions.truncate(limit);
        Ok(versions)
    }

    /// Every version of the files that an undo has ever put back, oldest first.
    pub fn versions_of_undone_files(&self) -> Result<Vec<FileVersion>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .database
            .connection
            .prepare_cached(
                "SELECT s.seq, s.version, s.at, s.kind, c.after, s.summary, c.path FROM changes c \
                 JOIN steps s ON s.seq = c.seq WHERE c.path IN \
                 (SELECT path FROM changes WHERE seq IN (SELECT seq FROM steps WHERE kind = ?1 OR kind LIKE ?2)) \
                 ORDER BY c.seq",
            )
            .map_err(failed)?;
        // Old steps have the name alone, and new ones say which step they undo.
        let mut rows = statement.query([StepKind::Undo { of: None }.name(), "undo:%"]).map_err(failed)?;
        let mut versions = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            versions.push(file_version(row, row.get::<_, String>(6).map_err(failed)?.parse()?)?);
        }
        Ok(versions)
    }

    /// How many skills there were after each step that changed their number, at most the last `limit`, oldest first.
    pub fn growth(&self, limit: usize) -> Result<Vec<BrainGrowth>> {
        let failed = |source| sql("read memory.db", source);
        let (mut skills, mut archived) = (0_i64, 0_i64);
        for path in journal::entries(&self.database.connection)?.keys() {
            match counted(path) {
                Some(SkillRoot::Skills) => skills += 1,
                Some(SkillRoot::Archive) => archived += 1,
                None => {}
            }
        }
        // Backwards from now: each step is taken back in turn.
        let mut statement = self
            .database
            .connection
            .prepare_cached("SELECT seq, version, at FROM steps ORDER BY seq DESC LIMIT ?1")
            .map_err(failed)?;
        let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)]).map_err(failed)?;
        let mut points = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let seq: i64 = row.get(0).map_err(failed)?;
            let at = Timestamp(row.get(2).map_err(failed)?);
            points.push(BrainGrowth { version: row.get(1).map_err(failed)?, at, skills, archived });
            for (_, change) in journal::changes(&self.database.connection, seq, seq)? {
                let delta = i64::from(change.before.is_some()) - i64::from(change.after.is_some());
                match counted(&change.path) {
                    Some(SkillRoot::Skills) => skills += delta,
                    Some(SkillRoot::Archive) => archived += delta,
                    None => {}
                }
            }
        }
        points.reverse();
        Ok(points)
    }

    /// Tool calls of tasks and how many of them failed, by the version that the task led to: of the last `limit` tasks,
    /// oldest first, as `(version, calls, errors)`. Sessions that were taken in from elsewhere do not count, for they
    /// are no steps of this brain.
    pub fn calls_by_version(&self, limit: usize) -> Result<Vec<(i64, u64, u64)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .database
            .connection
            .prepare_cached(
                "SELECT version, sum(calls), sum(errors) FROM (\
                 SELECT step, calls, errors FROM evidence_sessions WHERE origin = ?2 ORDER BY at DESC LIMIT ?1) \
                 JOIN steps ON seq = step GROUP BY version ORDER BY version",
            )
            .map_err(failed)?;
        let rows = statement
            .query_map((i64::try_from(limit).unwrap_or(i64::MAX), SessionOrigin::Live.name()), |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs(), row.get::<_, i64>(2)?.unsigned_abs()))
            })
            .map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }

    /// Tool events and how many of them failed, by UTC day since a moment: `(days since 1970, events, errors)`.
    pub fn evidence_by_day(&self, since: Timestamp) -> Result<Vec<(i64, u64, u64)>> {
        let failed = |source| sql("read memory.db", source);
        let mut statement = self
            .database
            .connection
            .prepare_cached(
                "SELECT day, sum(events), sum(errors) FROM (\
                 SELECT day, events, errors FROM evidence_tallies WHERE skill = '' \
                 UNION ALL SELECT at / 86400000, 1, status <> 'ok' FROM evidence \
                 WHERE id > (SELECT tallied FROM evolver_state)) \
                 WHERE day >= ?1 GROUP BY day ORDER BY day",
            )
            .map_err(failed)?;
        let rows = statement
            .query_map([since.millis().div_euclid(86_400_000)], |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs(), row.get::<_, i64>(2)?.unsigned_abs()))
            })
            .map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

enum SkillRoot {
    Skills,
    Archive,
}

/// Whether a path is the main file of a skill, and where.
fn counted(path: &RelPath) -> Option<SkillRoot> {
    if is_main_file_below(path, layout::SKILLS_DIR) {
        return Some(SkillRoot::Skills);
    }
    is_main_file_below(path, layout::ARCHIVE_DIR).then_some(SkillRoot::Archive)
}

/// The largest lock and manifest that a list reads.
const MAX_SMALL: u64 = 1 << 20;

/// What a list says of a brain, from its two small files: the lock and the manifest. Nothing is opened and nothing is
/// checked against the content.
pub fn read_summary(layout: &Layout, id: &BrainId) -> Result<(Lockfile, Option<BrainManifest>)> {
    let root = Root::open(&layout.brain(id))?;
    let read = |name: &str| root.read(&layout::rel(name)?, MAX_SMALL);
    let lock = read(layout::LOCK)?.ok_or_else(|| {
        Error::corrupt(format!("brain {id} has no {}", layout::LOCK))
            .hint(format!("look with `herm brain verify {id}`"))
    })?;
    let manifest = read(layout::MANIFEST)?.map(|bytes| BrainManifest::parse(&bytes)).transpose()?;
    Ok((Lockfile::parse(&lock)?, manifest))
}
