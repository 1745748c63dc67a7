//! The tables of `memory.db`, and how an older file becomes a present one.
//!
//! `messages`, `facts`, `task_log`, `subscribers` and `skill_usage` are content: their rows are in
//! the bundle hash. Everything else serves settling (journal, history, lock), proves it (receipts,
//! transcripts), tells how tools went (evidence), or is derived (full text indexes, hash nodes).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use rusqlite::Connection;

use super::db::{Database, sql};
use crate::error::{Error, Result};

/// The schema this build writes, in `PRAGMA user_version`.
pub const SCHEMA_VERSION: i64 = 2;

/// "HERM" in `PRAGMA application_id`.
pub(super) const APPLICATION_ID: i64 = 0x4845_524d;

/// The full-text indexes. Derived: they are built again from the tables when they are damaged.
pub(super) const INDEXES: &str = "
CREATE VIRTUAL TABLE messages_fts USING fts5(
  content, scope, content='messages', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE facts_fts USING fts5(
  key, value, scope, content='facts', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE task_log_fts USING fts5(
  summary, scope, content='task_log', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE grams_fts USING fts5(
  grams, scope, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0');
";

/// Each entry brings a file from the version of its index to the next.
const MIGRATIONS: [&str; 2] = [
    "
CREATE TABLE subscribers (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  scope INTEGER NOT NULL,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE TABLE facts (
  id INTEGER PRIMARY KEY,
  scope INTEGER NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  task TEXT NOT NULL,
  at INTEGER NOT NULL,
  UNIQUE (scope, key)
) STRICT;
CREATE TABLE task_log (
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL UNIQUE,
  scope INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  summary TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE TABLE skill_usage (
  id INTEGER PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  state TEXT NOT NULL,
  pinned INTEGER NOT NULL,
  use_count INTEGER NOT NULL,
  view_count INTEGER NOT NULL,
  patch_count INTEGER NOT NULL,
  last_used_at INTEGER,
  last_viewed_at INTEGER,
  last_patched_at INTEGER,
  archived_at INTEGER
) STRICT;

CREATE TABLE hash_nodes (
  tbl INTEGER NOT NULL,
  level INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (tbl, level, idx)
) WITHOUT ROWID, STRICT;

CREATE TABLE entries (
  path TEXT PRIMARY KEY,
  digest BLOB NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE steps (
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  summary TEXT NOT NULL,
  at INTEGER NOT NULL,
  version INTEGER NOT NULL,
  before TEXT,
  after TEXT NOT NULL
) STRICT;
CREATE TABLE changes (
  seq INTEGER NOT NULL,
  path TEXT NOT NULL,
  before BLOB,
  after BLOB,
  PRIMARY KEY (seq, path)
) WITHOUT ROWID, STRICT;
CREATE TABLE blobs (
  digest BLOB PRIMARY KEY,
  content BLOB NOT NULL
) STRICT;
CREATE TABLE state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  lock TEXT NOT NULL,
  flushed INTEGER NOT NULL,
  sidecar_stale INTEGER NOT NULL
) STRICT;
",
    "
CREATE TABLE row_undo (
  step INTEGER NOT NULL,
  tbl INTEGER NOT NULL,
  id INTEGER NOT NULL,
  before TEXT,
  PRIMARY KEY (step, tbl, id)
) WITHOUT ROWID, STRICT;
CREATE TABLE receipts (
  seq INTEGER PRIMARY KEY,
  step INTEGER NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  envelope TEXT NOT NULL,
  ends_at INTEGER NOT NULL
) STRICT;
CREATE TABLE transcripts (
  step INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  digest TEXT NOT NULL,
  content BLOB NOT NULL
) STRICT;
CREATE TABLE evidence (
  id INTEGER PRIMARY KEY,
  step INTEGER NOT NULL,
  task TEXT NOT NULL,
  turn INTEGER NOT NULL,
  tool TEXT NOT NULL,
  status TEXT NOT NULL,
  skills TEXT NOT NULL,
  args BLOB NOT NULL,
  summary TEXT NOT NULL,
  millis INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX evidence_by_step ON evidence (step);
",
];

impl Database {
    /// Makes the tables of a new file.
    pub(super) fn create_tables(connection: &Connection) -> Result<()> {
        Self::write_mark(connection).map_err(|source| sql("prepare memory.db", source))?;
        migrate(connection, 0)
    }

    /// Writes whose file it is. Unlike an `UPDATE`, a pragma writes its page even if nothing changes.
    pub(super) fn write_mark(connection: &Connection) -> rusqlite::Result<()> {
        connection.pragma_update(None, "application_id", APPLICATION_ID)
    }

    /// Checks whose file it is and brings an older one up to date; says whether a full-text index is missing.
    pub(super) fn check_schema(connection: &Connection) -> Result<bool> {
        let number = |name: &str| -> Result<i64> {
            connection.pragma_query_value(None, name, |row| row.get(0)).map_err(|source| sql("read memory.db", source))
        };
        if number("application_id")? != APPLICATION_ID {
            return Err(Error::corrupt("memory.db is a SQLite database, but not a herm memory")
                .hint("put the brain's own memory.db back, or restore the brain from a snapshot"));
        }
        match number("user_version")? {
            SCHEMA_VERSION => same_schema(connection),
            none if none < 1 => Err(Error::corrupt(format!("memory.db has schema {none}, which no herm wrote"))
                .hint("put the brain's own memory.db back, or restore the brain from a snapshot")),
            newer if newer > SCHEMA_VERSION => Err(Error::corrupt(format!(
                "memory.db has schema {newer}, and this herm knows schemas up to {SCHEMA_VERSION}"
            ))
            .hint("open this brain with the herm that wrote it, or a newer one; nothing was changed")),
            older => migrate(connection, older).and_then(|()| same_schema(connection)),
        }
    }
}

type Objects = BTreeSet<(String, String, Option<String>)>;

fn objects(connection: &Connection) -> Result<Objects> {
    let failed = |source| sql("read memory.db", source);
    let mut all = connection.prepare("SELECT type, name, sql FROM sqlite_schema").map_err(failed)?;
    let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// What herm makes of an empty database.
fn expected() -> Result<&'static Objects> {
    static EXPECTED: OnceLock<Objects> = OnceLock::new();
    if EXPECTED.get().is_none() {
        let fresh = Connection::open_in_memory().map_err(|source| sql("prepare SQLite", source))?;
        Database::create_tables(&fresh)?;
        // Whoever comes first: it is the same for all.
        let _ = EXPECTED.set(objects(&fresh)?);
    }
    EXPECTED.get().ok_or_else(|| Error::internal("the expected schema is not known"))
}

fn is_index(name: &str) -> bool {
    name.ends_with("_fts") || name.contains("_fts_")
}

/// The tables must be the ones herm makes, word for word: a view, a trigger or a generated column
/// would be someone else's code. Full-text indexes may be missing, which is what this tells; they are
/// made again.
fn same_schema(connection: &Connection) -> Result<bool> {
    let (expected, found) = (expected()?, objects(connection)?);
    compare(expected, &found)?;
    Ok(expected.difference(&found).any(|(_, name, _)| is_index(name)))
}

fn compare(expected: &Objects, found: &Objects) -> Result<()> {
    let damaged = |what: String| {
        Err(Error::corrupt(what).hint("put the brain's own memory.db back, or restore the brain from a snapshot"))
    };
    // SQLite's own objects come and go with the tables they belong to.
    let own = |name: &str| name.starts_with("sqlite_");
    if let Some((kind, name, _)) = found.difference(expected).find(|(_, name, _)| !own(name)) {
        return damaged(format!("memory.db has a {kind} {name} that is not herm's"));
    }
    match expected.difference(found).find(|(_, name, _)| !is_index(name) && !own(name)) {
        Some((kind, name, _)) => damaged(format!("memory.db has lost its {kind} {name}")),
        None => Ok(()),
    }
}

fn migrate(connection: &Connection, from: i64) -> Result<()> {
    for (index, script) in MIGRATIONS.iter().enumerate() {
        let version = index as i64;
        if version < from {
            continue;
        }
        let indexes = if version == 0 { INDEXES } else { "" };
        let batch = format!("BEGIN IMMEDIATE; {script} {indexes} PRAGMA user_version = {}; COMMIT;", version + 1);
        connection.execute_batch(&batch).map_err(|source| sql("migrate memory.db", source))?;
    }
    Ok(())
}
