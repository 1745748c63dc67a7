//! The tables of `memory.db`, and how an older file becomes a present one.
//!
//! `messages`, `facts`, `task_log`, `subscribers` and `skill_usage` are content: their rows are in
//! the bundle hash. Everything else serves settling (journal, history, lock), proves it (receipts,
//! transcripts), tells how tools went and what the evolver made of it (evidence, evolver), or is
//! derived (full text indexes, vectors, hash nodes, tallies of evidence).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use rusqlite::Connection;

use super::db::{Database, sql};
use super::{migrate, vectors};
use crate::error::{Error, Result};

/// The schema this build writes, in `PRAGMA user_version`.
pub const SCHEMA_VERSION: i64 = 4;

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
const MIGRATIONS: [&str; 4] = [
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
    "
DROP INDEX evidence_by_step;
CREATE INDEX evidence_by_task ON evidence (task);
ALTER TABLE transcripts ADD COLUMN evidence INTEGER;
CREATE TABLE evidence_sessions (
  task TEXT PRIMARY KEY,
  step INTEGER NOT NULL,
  at INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  interrupted INTEGER NOT NULL,
  model TEXT NOT NULL,
  platform TEXT NOT NULL,
  turns INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  skills TEXT NOT NULL,
  origin TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX evidence_sessions_by_time ON evidence_sessions (at);
CREATE TABLE evidence_turns (
  id INTEGER PRIMARY KEY,
  step INTEGER NOT NULL,
  task TEXT NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  model TEXT NOT NULL,
  platform TEXT NOT NULL,
  asked TEXT NOT NULL,
  answered TEXT NOT NULL,
  UNIQUE (task, number)
) STRICT;
CREATE INDEX evidence_turns_by_time ON evidence_turns (at);
CREATE TABLE evidence_tallies (
  day INTEGER NOT NULL,
  skill TEXT NOT NULL,
  tool TEXT NOT NULL,
  events INTEGER NOT NULL,
  errors INTEGER NOT NULL,
  last INTEGER NOT NULL,
  PRIMARY KEY (day, skill, tool)
) WITHOUT ROWID, STRICT;
CREATE TABLE evidence_by_skill (
  skill TEXT NOT NULL,
  at INTEGER NOT NULL,
  evidence INTEGER NOT NULL,
  PRIMARY KEY (skill, at, evidence)
) WITHOUT ROWID, STRICT;
CREATE TABLE evolver_state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  tallied INTEGER NOT NULL,
  turned INTEGER NOT NULL,
  numbered INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  passed_at INTEGER,
  drill TEXT
) STRICT;
INSERT INTO evolver_state (one, tallied, turned, numbered, bytes) VALUES (1, 0, 0, 0, 0);
CREATE TABLE evolver_changes (
  step INTEGER NOT NULL,
  skill TEXT NOT NULL,
  manifest TEXT NOT NULL,
  rolled_back_at INTEGER,
  PRIMARY KEY (step, skill)
) WITHOUT ROWID, STRICT;
CREATE TABLE evolver_queue (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  skill TEXT,
  status TEXT NOT NULL,
  entry TEXT NOT NULL,
  content TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX evolver_queue_by_status ON evolver_queue (status, created_at);
",
    // The same tables. `steps.kind` tells apart what was all `maintenance` before, which an earlier herm cannot read.
    "",
];

impl Database {
    /// Makes the tables of a new file.
    pub(super) fn create_tables(connection: &Connection) -> Result<()> {
        Self::create_tables_of(connection, SCHEMA_VERSION)
    }

    /// Makes the tables as an earlier herm did.
    pub(super) fn create_tables_of(connection: &Connection, version: i64) -> Result<()> {
        Self::write_mark(connection).map_err(|source| sql("prepare memory.db", source))?;
        migrate(connection, 0, version)
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
            older => {
                // Looking may be the first thing that a newer herm does with a brain.
                let only_looks = number("query_only")? != 0;
                let looks = |only: bool| {
                    connection
                        .pragma_update(None, "query_only", only)
                        .map_err(|source| sql("migrate memory.db", source))
                };
                if only_looks {
                    looks(false)?;
                }
                migrate(connection, older, SCHEMA_VERSION)?;
                if only_looks {
                    looks(true)?;
                }
                same_schema(connection)
            }
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
    // Indexes of a tuning come and go with it; the next open for writing sees to that.
    let tuned =
        |kind: &str, statement: &Option<String>| kind == "index" && statement.as_deref().is_some_and(migrate::is_plain);
    // Vectors are there where a model made them.
    let derived =
        |kind: &str, statement: &Option<String>| kind == "table" && statement.as_deref() == Some(vectors::MAKE);
    let foreign = |(kind, name, statement): &&(String, String, Option<String>)| {
        !own(name) && !tuned(kind, statement) && !derived(kind, statement)
    };
    if let Some((kind, name, _)) = found.difference(expected).find(foreign) {
        return damaged(format!("memory.db has a {kind} {name} that is not herm's"));
    }
    match expected.difference(found).find(|(_, name, _)| !is_index(name) && !own(name)) {
        Some((kind, name, _)) => damaged(format!("memory.db has lost its {kind} {name}")),
        None => Ok(()),
    }
}

fn migrate(connection: &Connection, from: i64, to: i64) -> Result<()> {
    let failed = |source| sql("migrate memory.db", source);
    for (version, script) in (0..to).zip(MIGRATIONS).skip_while(|(version, _)| *version < from) {
        connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        // Whoever looks at a brain migrates it too, so another process may have been faster.
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        if found != version {
            connection.execute_batch("ROLLBACK").map_err(failed)?;
            continue;
        }
        let indexes = if version == 0 { INDEXES } else { "" };
        let batch = format!("{script} {indexes} PRAGMA user_version = {}; COMMIT;", version + 1);
        connection.execute_batch(&batch).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as an earlier herm left it.
    fn file_of(version: i64, rows: &str) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        Database::write_mark(&connection).unwrap();
        migrate(&connection, 0, version).unwrap();
        connection.execute_batch(rows).unwrap();
        connection
    }

    #[test]
    fn every_earlier_schema_becomes_the_present_one_and_keeps_its_rows() {
        let fact = "INSERT INTO facts (scope, key, value, task, at) VALUES (0, 'k', 'v', 't', 1);";
        let evidence = "INSERT INTO evidence (step, task, turn, tool, status, skills, args, summary, millis, at) \
            VALUES (2, 't', 1, 'echo', 'ok', '', x'00', 'done', 1, 1);";
        for (version, rows) in [(1, fact.to_owned()), (2, format!("{fact}{evidence}"))] {
            let connection = file_of(version, &rows);
            assert!(!Database::check_schema(&connection).unwrap());
            assert_eq!(objects(&connection).unwrap(), *expected().unwrap());
            let counted = |table: &str| -> i64 {
                connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
            };
            assert_eq!((counted("facts"), counted("evidence")), (1, version - 1));
            assert_eq!(counted("evolver_state"), 1, "the evolver begins with nothing tallied");
        }
    }

    #[test]
    fn a_connection_that_only_looks_migrates_too_and_then_only_looks() {
        let connection = file_of(2, "");
        connection.pragma_update(None, "query_only", true).unwrap();
        assert!(!Database::check_schema(&connection).unwrap());
        assert!(connection.execute("DELETE FROM evolver_state", []).is_err());
    }
}
