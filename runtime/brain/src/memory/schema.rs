//! The tables of `memory.db`, and how an older file becomes a present one.
//!
//! `messages`, `facts`, `task_log`, `subscribers` and `skill_usage` are content: their rows are in
//! the bundle hash. Everything else serves settling (journal, history, lock), proves it (receipts,
//! transcripts), tells how tools and answers went and what was made of it (evidence, evolver, outcomes,
//! trials), or is derived (full text indexes, vectors, hash nodes, tallies of evidence).

use std::collections::BTreeSet;
use std::sync::OnceLock;

use rusqlite::Connection;

use super::db::{Access, Database, sql};
use super::{migrate, vectors};
use crate::error::{Error, Result};

/// The schema this build writes, in `PRAGMA user_version`.
pub const SCHEMA_VERSION: i64 = 6;

/// The oldest schema that can be read as it stands: later ones only add tables.
const OLDEST_READ: i64 = 3;

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
const MIGRATIONS: [&str; 6] = [
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
    "
CREATE TABLE outcomes (
  id INTEGER PRIMARY KEY,
  step INTEGER NOT NULL,
  task TEXT NOT NULL,
  source TEXT NOT NULL,
  value TEXT NOT NULL,
  note TEXT,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX outcomes_by_task ON outcomes (task);
CREATE TABLE trials (
  id INTEGER PRIMARY KEY,
  step INTEGER NOT NULL,
  skill TEXT NOT NULL,
  state TEXT NOT NULL,
  since INTEGER NOT NULL,
  decided INTEGER,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX trials_by_skill ON trials (skill);
CREATE TABLE trial_tasks (
  id INTEGER PRIMARY KEY,
  step INTEGER NOT NULL,
  skill TEXT NOT NULL,
  task TEXT NOT NULL,
  arm TEXT NOT NULL,
  at INTEGER NOT NULL,
  score INTEGER,
  errors INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  micro_usd INTEGER NOT NULL,
  rehearsed INTEGER NOT NULL,
  UNIQUE (skill, task, arm, rehearsed)
) STRICT;
CREATE INDEX trial_tasks_by_task ON trial_tasks (task);
",
    // A table and not a column: who looks at an earlier file reads its rows as they are.
    "
CREATE TABLE evidence_arguments (
  evidence INTEGER PRIMARY KEY,
  arguments TEXT NOT NULL
) STRICT;
",
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

    /// Checks whose file it is, and gives it the tables that it lacks for as long as it is open. Nothing is written. Says
    /// which schema the file has, and whether a full-text index is missing.
    pub(super) fn check_schema(connection: &Connection, access: Access) -> Result<(i64, bool)> {
        let failed = |source| sql("read memory.db", source);
        // All of one moment: the owner of the brain may be bringing it up to date.
        let held = connection.unchecked_transaction().map_err(failed)?;
        let number =
            |name: &str| -> Result<i64> { held.pragma_query_value(None, name, |row| row.get(0)).map_err(failed) };
        if number("application_id")? != APPLICATION_ID {
            return Err(Error::corrupt("memory.db is a SQLite database, but not a herm memory")
                .hint("put the brain's own memory.db back, or restore the brain from a snapshot"));
        }
        let version = number("user_version")?;
        match version {
            none if none < 1 => {
                return Err(Error::corrupt(format!("memory.db has schema {none}, which no herm wrote"))
                    .hint("put the brain's own memory.db back, or restore the brain from a snapshot"));
            }
            newer if newer > SCHEMA_VERSION => {
                return Err(Error::corrupt(format!(
                    "memory.db has schema {newer}, and this herm knows schemas up to {SCHEMA_VERSION}"
                ))
                .hint("open this brain with the herm that wrote it, or a newer one; nothing was changed"));
            }
            old if old < OLDEST_READ && access == Access::Read => {
                return Err(Error::refused(format!(
                    "memory.db has schema {old}, which has to be brought up to date before anyone looks at it"
                ))
                .hint("`herm brain adopt ID` does it, as does every command that changes the brain"));
            }
            _ => {}
        }
        let lacks_index = same_schema(&held, version)?;
        stand_in(&held, version)?;
        held.commit().map_err(failed)?;
        Ok((version, lacks_index))
    }

    /// Brings a file of an earlier schema up to date.
    pub(super) fn upgrade(&mut self) -> Result<()> {
        if self.schema == SCHEMA_VERSION {
            return Ok(());
        }
        for (name, _) in lacking(self.schema)? {
            let dropped = self.connection.execute_batch(&format!("DROP TABLE temp.{name}"));
            dropped.map_err(|source| sql("migrate memory.db", source))?;
        }
        migrate(&self.connection, self.schema, SCHEMA_VERSION)?;
        self.lacks_index = same_schema(&self.connection, SCHEMA_VERSION)?;
        self.schema = SCHEMA_VERSION;
        Ok(())
    }
}

/// The tables that a file of an earlier schema lacks, with the SQL that makes them.
fn lacking(version: i64) -> Result<Vec<(&'static str, &'static str)>> {
    let there: BTreeSet<&str> = expected(version)?.iter().map(|(_, name, _)| name.as_str()).collect();
    let is_lacking = |(kind, name, statement): &'static (String, String, Option<String>)| {
        let statement = statement.as_deref().filter(|_| kind == "table" && !there.contains(name.as_str()))?;
        Some((name.as_str(), statement))
    };
    Ok(expected(SCHEMA_VERSION)?.iter().filter_map(is_lacking).collect())
}

/// Makes these tables, empty and of this connection alone: what reads the present schema reads the file as it is.
fn stand_in(connection: &Connection, version: i64) -> Result<()> {
    for (_, statement) in lacking(version)? {
        let statement = statement.replacen("CREATE TABLE", "CREATE TEMP TABLE", 1);
        connection.execute_batch(&statement).map_err(|source| sql("read memory.db", source))?;
    }
    Ok(())
}

type Objects = BTreeSet<(String, String, Option<String>)>;

fn objects(connection: &Connection) -> Result<Objects> {
    let failed = |source| sql("read memory.db", source);
    let mut all = connection.prepare("SELECT type, name, sql FROM sqlite_schema").map_err(failed)?;
    let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// What the herm of a schema makes of an empty database.
fn expected(version: i64) -> Result<&'static Objects> {
    static EXPECTED: [OnceLock<Objects>; MIGRATIONS.len()] = [const { OnceLock::new() }; MIGRATIONS.len()];
    let unknown = || Error::internal(format!("schema {version} is not known"));
    let place = usize::try_from(version - 1).ok().and_then(|at| EXPECTED.get(at)).ok_or_else(unknown)?;
    if place.get().is_none() {
        let fresh = Connection::open_in_memory().map_err(|source| sql("prepare SQLite", source))?;
        Database::create_tables_of(&fresh, version)?;
        // The first thread to set it wins: it is the same for all.
        let _ = place.set(objects(&fresh)?);
    }
    place.get().ok_or_else(unknown)
}

fn is_index(name: &str) -> bool {
    name.ends_with("_fts") || name.contains("_fts_")
}

/// The tables must be the ones the herm of that schema makes, word for word: a view, a trigger or a generated column
/// would be someone else's code. Full-text indexes may be missing, for they are made again; this says whether one is.
fn same_schema(connection: &Connection, version: i64) -> Result<bool> {
    let (expected, found) = (expected(version)?, objects(connection)?);
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
        // An earlier herm migrates where it only looks, so another process may have been faster.
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

    /// A memory of an earlier schema, opened.
    fn opened(connection: Connection) -> Database {
        let (schema, lacks_index) = Database::check_schema(&connection, Access::Write).unwrap();
        Database { connection, lacks_index, schema }
    }

    fn count(connection: &Connection, table: &str) -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn every_earlier_schema_becomes_the_present_one_and_keeps_its_rows() {
        let fact = "INSERT INTO facts (scope, key, value, task, at) VALUES (0, 'k', 'v', 't', 1);";
        let evidence = "INSERT INTO evidence (step, task, turn, tool, status, skills, args, summary, millis, at) \
            VALUES (2, 't', 1, 'echo', 'ok', '', zeroblob(32), 'done', 1, 1);";
        for version in 1..SCHEMA_VERSION {
            let rows = if version == 1 { fact.to_owned() } else { format!("{fact}{evidence}") };
            let mut database = opened(file_of(version, &rows));
            database.upgrade().unwrap();
            let connection = &database.connection;
            assert!(!database.lacks_index && database.schema == SCHEMA_VERSION, "{version}");
            assert_eq!(objects(connection).unwrap(), *expected(SCHEMA_VERSION).unwrap(), "{version}");
            assert_eq!((count(connection, "facts"), count(connection, "evidence")), (1, i64::from(version > 1)));
            assert_eq!((count(connection, "outcomes"), count(connection, "trial_tasks")), (0, 0));
            let kept: Vec<_> = database.evidence(9).unwrap().into_iter().map(|(_, row)| row.arguments).collect();
            assert_eq!(kept, vec![None; usize::from(version > 1)], "rows of then have no arguments");
            assert_eq!(count(connection, "evolver_state"), 1, "the evolver begins with nothing tallied");
            assert_eq!(count(connection, "sqlite_temp_schema"), 0, "nothing hides the tables that are there now");
        }
    }

    #[test]
    fn whoever_only_opens_a_file_of_an_earlier_schema_changes_nothing_of_it() {
        for version in 1..SCHEMA_VERSION {
            let connection = file_of(version, "");
            let before = (objects(&connection).unwrap(), connection.total_changes());
            assert_eq!(Database::check_schema(&connection, Access::Write).unwrap(), (version, false));
            assert_eq!((objects(&connection).unwrap(), connection.total_changes()), before, "{version}");
            let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
            assert_eq!(found, version);
        }
    }

    /// Every table with its columns, as a statement finds them.
    fn columns(connection: &Connection) -> BTreeSet<(String, String)> {
        let tables = expected(SCHEMA_VERSION).unwrap().iter().filter(|(kind, ..)| kind == "table");
        let mut found = BTreeSet::new();
        for (_, table, _) in tables {
            let mut names = connection.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
            let names = names.query_map([table], |row| row.get(0)).unwrap();
            found.extend(names.map(|name| (table.clone(), name.unwrap())));
        }
        found
    }

    #[test]
    fn a_look_finds_every_table_and_column_of_the_present_schema_in_each_schema_that_it_reads() {
        let present = columns(&file_of(SCHEMA_VERSION, ""));
        for version in OLDEST_READ..SCHEMA_VERSION {
            let connection = file_of(version, "");
            Database::check_schema(&connection, Access::Read).unwrap();
            assert_eq!(columns(&connection), present, "{version}");
        }
    }

    #[test]
    fn a_look_at_a_schema_that_is_older_names_the_command_that_brings_it_up_to_date() {
        for version in 1..OLDEST_READ {
            let error = Database::check_schema(&file_of(version, ""), Access::Read).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Refused, "{error}");
            assert!(error.hint_text().is_some_and(|hint| hint.contains("herm brain adopt ID")), "{error:?}");
        }
    }
}
