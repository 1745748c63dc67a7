//! The settle journal: the tables of `memory.db` that make a step durable before its files are.

use std::collections::BTreeMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _};

use super::history::{ChangeRecord, StepKind};
use super::settle::StepTranscript;
use crate::bundle::rows::{self, Cell, ChunkHasher};
use crate::bundle::{BundlePart, Lockfile};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath, hex};
use crate::memory::sql;

/// What the journal knows of the brain as a whole.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) lock: Lockfile,
    /// Steps up to this one have their files on the disk.
    pub(super) flushed: i64,
    /// The telemetry sidecar does not yet show the last usage rows.
    pub(super) sidecar_stale: bool,
}

/// One file of a step.
#[derive(Debug, Clone)]
pub(super) struct FileChange {
    pub(super) path: RelPath,
    pub(super) before: Option<Digest>,
    pub(super) after: Option<Digest>,
}

impl FileChange {
    pub(super) fn record(&self) -> ChangeRecord {
        ChangeRecord { path: self.path.clone(), before: self.before, after: self.after }
    }
}

pub(super) fn create_state(connection: &Connection, lock: &Lockfile) -> Result<()> {
    let text = lock_text(lock)?;
    connection
        .execute("INSERT INTO state (one, lock, flushed, sidecar_stale) VALUES (1, ?1, 0, 0)", [text])
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

fn lock_text(lock: &Lockfile) -> Result<String> {
    String::from_utf8(lock.to_bytes()?).map_err(|source| Error::internal("the lock is not UTF-8").because(source))
}

pub(super) fn load_state(connection: &Connection) -> Result<State> {
    let (lock, flushed, sidecar_stale): (String, i64, bool) = connection
        .prepare_cached("SELECT lock, flushed, sidecar_stale FROM state")
        .and_then(|mut get| get.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
        .map_err(|source| match source {
            rusqlite::Error::QueryReturnedNoRows => {
                Error::corrupt("memory.db has lost its journal state").hint("restore the brain from a snapshot")
            }
            other => sql("read memory.db", other),
        })?;
    let lock = Lockfile::parse(lock.as_bytes()).map_err(|source| {
        Error::corrupt("memory.db has lost the lock of its last step")
            .hint("restore the brain from a snapshot")
            .because(source)
    })?;
    if i64::try_from(lock.version).is_err() || !(0..=last_step(connection)?).contains(&flushed) {
        return Err(strange());
    }
    Ok(State { lock, flushed, sidecar_stale })
}

pub(super) fn save_lock(connection: &Connection, lock: &Lockfile, sidecar_stale: bool) -> Result<()> {
    let text = lock_text(lock)?;
    connection
        .prepare_cached("UPDATE state SET lock = ?1, sidecar_stale = sidecar_stale OR ?2")
        .and_then(|mut put| put.execute((text, sidecar_stale)))
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

pub(super) fn mark_flushed(connection: &Connection, seq: i64, sidecar_stale: bool) -> Result<()> {
    connection
        .prepare_cached("UPDATE state SET flushed = ?1, sidecar_stale = ?2")
        .and_then(|mut put| put.execute((seq, sidecar_stale)))
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

/// The last step whose files are durable, where there are later ones.
pub(super) fn unflushed_since(connection: &Connection) -> Result<Option<i64>> {
    connection
        .prepare_cached("SELECT flushed FROM state WHERE flushed < (SELECT coalesce(max(seq), 0) FROM steps)")
        .and_then(|mut get| get.query_row([], |row| row.get(0)).optional())
        .map_err(|source| sql("read memory.db", source))
}

pub(super) fn last_step(connection: &Connection) -> Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM steps")
        .and_then(|mut get| get.query_row([], |row| row.get(0)))
        .map_err(|source| sql("read memory.db", source))
}

/// Records a step and returns its number.
pub(super) fn add_step(
    connection: &Connection,
    kind: StepKind,
    summary: &str,
    at: Timestamp,
    lock: &Lockfile,
    before: Option<Digest>,
) -> Result<i64> {
    connection
        .prepare_cached("INSERT INTO steps (kind, summary, at, version, before, after) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .and_then(|mut add| {
            add.insert((
                kind.stored(),
                summary,
                at.millis(),
                i64::try_from(lock.version).unwrap_or(i64::MAX),
                before.map(|digest| digest.to_string()),
                lock.bundle_hash.to_string(),
            ))
        })
        .map_err(|source| sql("write memory.db", source))
}

/// The digest of what the journal keeps of a step: its row of `steps`, its `changes` by path, its `row_undo` by table
/// and row. What its files held is bound by the digests of the changes. `docs/reference/receipt.md` defines it.
pub(super) fn digest(connection: &Connection, seq: i64) -> Result<Digest> {
    const TABLES: [(&str, &str); 3] = [
        ("steps", "SELECT seq, kind, summary, at, version, before, after FROM steps WHERE seq = ?1"),
        ("changes", "SELECT path, before, after FROM changes WHERE seq = ?1 ORDER BY path"),
        ("row_undo", "SELECT tbl, id, before FROM row_undo WHERE step = ?1 ORDER BY tbl, id"),
    ];
    let failed = |source| sql("read memory.db", source);
    let mut digests = Vec::new();
    for (table, query) in TABLES {
        let mut hasher = ChunkHasher::new(table, seq);
        let mut statement = connection.prepare_cached(query).map_err(failed)?;
        let columns = statement.column_count();
        let mut rows = statement.query([seq]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            for column in 0..columns {
                match row.get_ref(column).map_err(failed)? {
                    ValueRef::Null => hasher.cell(Cell::Null),
                    ValueRef::Integer(value) => hasher.cell(Cell::Integer(value)),
                    ValueRef::Text(text) => hasher.cell(Cell::Text(text)),
                    ValueRef::Blob(bytes) => hasher.cell(Cell::Text(hex(bytes).as_bytes())),
                    ValueRef::Real(_) => return Err(strange()),
                }
            }
        }
        digests.push((table, hasher.finish()));
    }
    Ok(rows::part("journal", digests))
}

fn strange() -> Error {
    Error::corrupt("memory.db has a journal that no herm wrote").hint("restore the brain from a snapshot")
}

/// Records one file of a step.
pub(super) fn add_change(connection: &Connection, seq: i64, change: &FileChange) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO changes (seq, path, before, after) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut add| {
            let bytes = |digest: Option<Digest>| digest.map(|digest| *digest.bytes());
            add.execute((seq, change.path.as_str(), bytes(change.before), bytes(change.after)))
        })
        .map_err(|source| sql("write memory.db", source))?;
    put_entry(connection, &change.path, change.after)
}

/// Keeps what was said and done in the task of a step. `evidence` is the number that its evidence begins
/// with: what it learned names such numbers, and a replay must come to the same.
pub(super) fn keep_transcript(
    connection: &Connection,
    seq: i64,
    transcript: &StepTranscript<'_>,
    evidence: i64,
) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO transcripts (step, task, digest, content, evidence) VALUES (?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut add| add.execute((seq, transcript.task, transcript.digest, transcript.content, evidence)))
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

/// The number that the evidence of a step began with, where its transcript is kept and says so.
pub(super) fn first_evidence(connection: &Connection, seq: i64) -> Result<Option<i64>> {
    connection
        .prepare_cached("SELECT evidence FROM transcripts WHERE step = ?1")
        .and_then(|mut get| get.query_row([seq], |row| row.get::<_, Option<i64>>(0)).optional())
        .map(Option::flatten)
        .map_err(|source| sql("read memory.db", source))
}

/// Keeps content by its digest.
pub(super) fn keep_blob(connection: &Connection, digest: &Digest, content: &[u8]) -> Result<()> {
    connection
        // Content in hand is right by definition; a damaged row of that digest is put right with it.
        .prepare_cached(
            "INSERT INTO blobs (digest, content) VALUES (?1, ?2) ON CONFLICT (digest) \
             DO UPDATE SET content = excluded.content WHERE content <> excluded.content",
        )
        .and_then(|mut add| add.execute((digest.bytes(), content)))
        .map(|_| ())
        .map_err(|source| sql("write memory.db", source))
}

/// The content of a digest, checked against it; `None` where the journal does not have it.
pub(super) fn find_blob(connection: &Connection, digest: &Digest) -> Result<Option<Vec<u8>>> {
    let content: Option<Vec<u8>> = connection
        .prepare_cached("SELECT content FROM blobs WHERE digest = ?1")
        .and_then(|mut get| get.query_row([digest.bytes()], |row| row.get(0)).optional())
        .map_err(|source| sql("read memory.db", source))?;
    Ok(content.filter(|content| Digest::of(content) == *digest))
}

/// The content of a digest, checked against it.
pub(super) fn blob(connection: &Connection, digest: &Digest) -> Result<Vec<u8>> {
    find_blob(connection, digest)?.ok_or_else(|| {
        Error::corrupt(format!("the journal has lost the content {digest}")).hint("restore the brain from a snapshot")
    })
}

/// A path of the journal. It can only name content: nothing herm keeps beside it.
fn content_path(text: String) -> Result<RelPath> {
    text.parse().ok().filter(|path: &RelPath| BundlePart::of(path.as_str()).is_some()).ok_or_else(|| {
        let shown: String = text.chars().take(120).collect();
        Error::corrupt(format!("the journal names {shown:?}, which is no content of a brain"))
            .hint("restore the brain from a snapshot")
    })
}

/// Replaces the list of files with what is there.
pub(super) fn replace_entries<'a>(
    connection: &Connection,
    files: impl Iterator<Item = (&'a RelPath, Digest)>,
) -> Result<()> {
    connection.execute("DELETE FROM entries", []).map_err(|source| sql("write memory.db", source))?;
    for (path, digest) in files {
        put_entry(connection, path, Some(digest))?;
    }
    Ok(())
}

pub(super) fn put_entry(connection: &Connection, path: &RelPath, digest: Option<Digest>) -> Result<()> {
    let done = match digest {
        Some(digest) => connection
            .prepare_cached("INSERT OR REPLACE INTO entries (path, digest) VALUES (?1, ?2)")
            .and_then(|mut put| put.execute((path.as_str(), digest.bytes()))),
        None => connection
            .prepare_cached("DELETE FROM entries WHERE path = ?1")
            .and_then(|mut remove| remove.execute([path.as_str()])),
    };
    done.map(|_| ()).map_err(|source| sql("write memory.db", source))
}

/// The digest of a file as the last step left it.
pub(super) fn entry(connection: &Connection, path: &RelPath) -> Result<Option<Digest>> {
    connection
        .prepare_cached("SELECT digest FROM entries WHERE path = ?1")
        .and_then(|mut get| get.query_row([path.as_str()], |row| row.get::<_, [u8; 32]>(0)).optional())
        .map(|digest| digest.map(Digest::from))
        .map_err(|source| sql("read memory.db", source))
}

/// The files of the bundle as the last step left them.
pub(super) fn entries(connection: &Connection) -> Result<BTreeMap<RelPath, Digest>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection.prepare("SELECT path, digest FROM entries").map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut entries = BTreeMap::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let digest: [u8; 32] = row.get(1).map_err(failed)?;
        entries.insert(content_path(row.get(0).map_err(failed)?)?, digest.into());
    }
    Ok(entries)
}

/// What the steps after `flushed` did to each file: how it was before them and is after.
pub(super) fn unflushed(connection: &Connection, flushed: i64) -> Result<Vec<FileChange>> {
    let mut net: BTreeMap<RelPath, FileChange> = BTreeMap::new();
    for (_, change) in changes(connection, flushed.saturating_add(1), i64::MAX)? {
        match net.get_mut(&change.path) {
            Some(known) => known.after = change.after,
            None => {
                net.insert(change.path.clone(), change);
            }
        }
    }
    Ok(net.into_values().collect())
}

/// The file changes of the steps `first` to `last`, in order.
pub(super) fn changes(connection: &Connection, first: i64, last: i64) -> Result<Vec<(i64, FileChange)>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection
        .prepare_cached("SELECT seq, path, before, after FROM changes WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq, path")
        .map_err(failed)?;
    let mut rows = statement.query((first, last)).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let digest = |column| -> Result<Option<Digest>> {
            Ok(row.get::<_, Option<[u8; 32]>>(column).map_err(failed)?.map(Digest::from))
        };
        let path = content_path(row.get(1).map_err(failed)?)?;
        let change = FileChange { path, before: digest(2)?, after: digest(3)? };
        found.push((row.get(0).map_err(failed)?, change));
    }
    Ok(found)
}

/// The step after which the brain had a version; `None` where it never had it.
pub(super) fn step_of_version(connection: &Connection, version: u64) -> Result<Option<i64>> {
    connection
        .prepare_cached("SELECT max(seq) FROM steps WHERE version = ?1")
        .and_then(|mut get| get.query_row([i64::try_from(version).unwrap_or(-1)], |row| row.get(0)))
        .map_err(|source| sql("read memory.db", source))
}

/// The first and the last version in the history.
pub(super) fn versions(connection: &Connection) -> Result<(u64, u64)> {
    connection
        .prepare_cached("SELECT coalesce(min(version), 0), coalesce(max(version), 0) FROM steps")
        .and_then(|mut get| get.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))))
        .map(|(first, last)| (first.unsigned_abs(), last.unsigned_abs()))
        .map_err(|source| sql("read memory.db", source))
}
