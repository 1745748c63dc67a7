//! Sessions that ran elsewhere, from their records: `session_*.json` files of a directory, newest first.
//!
//! A record that cannot be read is named in the report and stops nothing. What is known already, whether
//! it ran here or was taken in before, is not taken in twice. No skill is changed, no model is asked, and
//! nothing is guessed from prose: only calls that the record holds as calls.

mod record;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::brain::Brain;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{DirEntryKind, Root};
use crate::memory::{EvidenceImportCounts, ImportedSession, window_start};

pub use record::read as read_record;

/// The largest record that is read.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;
/// How many records that could not be read are named; all are counted.
const NAMED: usize = 50;

/// Which records are taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackfillScope {
    /// Those that began in the last so many days.
    pub days: u32,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

impl Default for BackfillScope {
    fn default() -> Self {
        Self { days: 30, limit: None }
    }
}

/// What became of the records of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackfillReport {
    /// The directory that the records were read from.
    pub sessions_dir: PathBuf,
    /// How many days back it went.
    pub days: u32,
    /// At most so many records.
    pub limit: Option<usize>,
    /// Records that were found.
    pub sessions_seen: usize,
    /// Records whose sessions are known now.
    pub sessions_imported: usize,
    /// Records of sessions that began before the window.
    pub sessions_skipped_old: usize,
    /// Records that could not be read.
    pub files_failed: usize,
    /// The first of them, and why.
    pub failures: Vec<BackfillFailure>,
    /// How much new evidence came of the records.
    #[serde(flatten)]
    pub taken: EvidenceImportCounts,
}

/// A record that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackfillFailure {
    /// The file's name in the directory.
    pub file: String,
    /// The message of the error that reading it gave.
    pub why: String,
}

/// A record by its name and age.
#[derive(Debug)]
struct Found {
    name: String,
    changed: Timestamp,
    /// Why it is none, where that is known before it is read.
    objection: Option<&'static str>,
}

/// Takes in the sessions of a directory. Reads one record at a time, and holds no more than a batch.
pub fn backfill(brain: &mut Brain, dir: &Path, scope: BackfillScope) -> Result<BackfillReport> {
    let root = Root::open(dir).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::not_found(format!("there is no directory {}", dir.display()))
            .hint("name the directory that holds the session_*.json files"),
        _ => error,
    })?;
    let now = brain.clock().now();
    let since = window_start(now, scope.days);
    let found = newest_first(&root, now)?;
    let mut done = BackfillReport {
        sessions_dir: dir.to_owned(),
        days: scope.days,
        limit: scope.limit,
        sessions_seen: found.len(),
        sessions_imported: 0,
        sessions_skipped_old: 0,
        files_failed: 0,
        failures: Vec::new(),
        taken: EvidenceImportCounts::default(),
    };
    let mut records = Records { root: &root, since, done: &mut done, left: found.into_iter(), most: scope.limit };
    let taken = brain.import_evidence(std::iter::from_fn(|| records.next_session()))?;
    done.taken = taken;
    Ok(done)
}

/// The records of a directory by when they were last written, newest first. What only looks like one comes before them,
/// so that it is named whatever the limit.
fn newest_first(root: &Root, now: Timestamp) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in root.list()? {
        if !entry.name.starts_with("session_") || !entry.name.to_ascii_lowercase().ends_with(".json") {
            continue;
        }
        let objection = match (entry.kind, entry.name.ends_with(".json")) {
            (DirEntryKind::Dir, _) => Some("it is a directory; a record is a file"),
            (_, false) => Some("the names of records end in .json, in small letters: rename it to have it read"),
            _ => None,
        };
        let changed = match entry.name.parse().map(|path| root.stat(&path)) {
            _ if objection.is_some() => now,
            // What is dated in the future would be the newest for ever.
            Ok(Ok(Some(stat))) => Timestamp(stat.mtime / 1_000_000).min(now),
            // Told when it is read.
            _ => now,
        };
        found.push(Found { name: entry.name, changed, objection });
    }
    let key = |one: &Found| (one.objection.is_some(), one.changed);
    found.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| b.name.cmp(&a.name)));
    Ok(found)
}

struct Records<'a> {
    root: &'a Root,
    since: Timestamp,
    done: &'a mut BackfillReport,
    left: std::vec::IntoIter<Found>,
    most: Option<usize>,
}

impl Records<'_> {
    /// The next session of the window.
    fn next_session(&mut self) -> Option<ImportedSession> {
        loop {
            if self.most.is_some_and(|most| self.done.sessions_imported >= most) {
                return None;
            }
            let found = self.left.next()?;
            // A session cannot have begun after its record was last written: no need to read it.
            if found.changed < self.since {
                self.done.sessions_skipped_old += 1;
                continue;
            }
            match self.read(&found) {
                Ok(session) if session.at < self.since => self.done.sessions_skipped_old += 1,
                Ok(session) => {
                    self.done.sessions_imported += 1;
                    return Some(session);
                }
                Err(why) => {
                    self.done.files_failed += 1;
                    if self.done.failures.len() < NAMED {
                        let failure = BackfillFailure { file: escaped(&found.name), why: escaped(&why) };
                        self.done.failures.push(failure);
                    }
                }
            }
        }
    }

    fn read(&self, found: &Found) -> Result<ImportedSession, String> {
        if let Some(objection) = found.objection {
            return Err(objection.to_owned());
        }
        let path = found.name.parse().map_err(|error: Error| error.message().to_owned())?;
        let bytes = self.root.read(&path, MAX_RECORD_BYTES).map_err(|error| error.message().to_owned())?;
        let bytes = bytes.ok_or_else(|| "it went away meanwhile".to_owned())?;
        let stem = found.name.strip_prefix("session_").and_then(|name| name.strip_suffix(".json"));
        record::read(&bytes, stem.unwrap_or(&found.name), found.changed)
    }
}

/// A text on one line: line breaks and other control characters as they are written in a program.
fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests;
