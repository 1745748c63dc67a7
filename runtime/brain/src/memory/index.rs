//! The full-text indexes: what is searchable, and how an index is kept and rebuilt.

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::db::{Database, sql};
use super::grams::grams;
use super::schema::INDEXES;
use super::vectors;
use crate::error::Result;

/// What can be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemorySource {
    /// What a subscriber asked, and what was answered.
    Message,
    /// A note by key: the key and its value.
    Fact,
    /// One row a task.
    Task,
}

impl MemorySource {
    /// Every source that a search looks at.
    pub const ALL: [Self; 3] = [Self::Message, Self::Fact, Self::Task];

    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Message => "messages",
            Self::Fact => "facts",
            Self::Task => "task_log",
        }
    }

    /// The indexed columns, as a list of an FTS5 column filter and of SQL.
    pub(super) fn columns(self) -> &'static str {
        match self {
            Self::Message => "content",
            Self::Fact => "key, value",
            Self::Task => "summary",
        }
    }

    /// The SQL expression of the text a reader sees.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Message => "content",
            Self::Fact => "key || ': ' || value",
            Self::Task => "summary",
        }
    }

    /// Rows of all sources share the grams index: the row's id and the source in one number.
    pub(super) fn gram_row(self, id: i64) -> i64 {
        id.saturating_mul(4).saturating_add(self as i64)
    }

    pub(super) fn from_gram_row(row: i64) -> Option<(Self, i64)> {
        let source = match row.rem_euclid(4) {
            0 => Self::Message,
            1 => Self::Fact,
            2 => Self::Task,
            _ => return None,
        };
        Some((source, row.div_euclid(4)))
    }
}

/// Adds a row, already in its table, to the indexes.
pub(super) fn add(connection: &Connection, source: MemorySource, id: i64) -> Result<()> {
    let failed = |source| sql("index memory.db", source);
    let (table, columns) = (source.table(), source.columns());
    connection
        .prepare_cached(&format!(
            "INSERT INTO {table}_fts (rowid, {columns}, scope) SELECT id, {columns}, scope FROM {table} WHERE id = ?1"
        ))
        .and_then(|mut add| add.execute([id]))
        .map_err(failed)?;
    let (text, scope): (String, i64) = connection
        .prepare_cached(&format!("SELECT {}, scope FROM {table} WHERE id = ?1", source.text()))
        .and_then(|mut get| get.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(failed)?;
    add_grams(connection, source, id, &text, scope)
}

pub(super) fn add_grams(connection: &Connection, source: MemorySource, id: i64, text: &str, scope: i64) -> Result<()> {
    let Some(grams) = grams(text) else { return Ok(()) };
    connection
        .prepare_cached("INSERT INTO grams_fts (rowid, grams, scope) VALUES (?1, ?2, ?3)")
        .and_then(|mut add| add.execute((source.gram_row(id), grams, scope)))
        .map(|_| ())
        .map_err(|error| sql("index memory.db", error))
}

/// Takes a row, still in its table as it was indexed, out of the indexes; its vector goes with it.
pub(super) fn remove(connection: &Connection, source: MemorySource, id: i64) -> Result<()> {
    let failed = |source| sql("index memory.db", source);
    let (table, columns) = (source.table(), source.columns());
    connection
        .prepare_cached(&format!(
            "INSERT INTO {table}_fts ({table}_fts, rowid, {columns}, scope) \
             SELECT 'delete', id, {columns}, scope FROM {table} WHERE id = ?1"
        ))
        .and_then(|mut remove| remove.execute([id]))
        .map_err(failed)?;
    connection
        .prepare_cached("DELETE FROM grams_fts WHERE rowid = ?1")
        .and_then(|mut remove| remove.execute([source.gram_row(id)]))
        .map_err(failed)?;
    vectors::remove(connection, source, id).map_err(failed)
}

/// Builds damaged indexes again. Where even the pages that hold them are damaged, they are cut out
/// of the database first; damaged tables are an error, and then nothing has changed. `fresh` is a
/// connection of its own, which has not met the damage yet.
pub fn heal(connection: &Connection, fresh: impl FnOnce() -> Result<Database>) -> Result<()> {
    match rebuild(connection) {
        Err(error) => {
            tracing::debug!(%error, "the index cannot be rebuilt in place; replacing it");
            replace_all(&fresh()?.connection)
        }
        done => done,
    }
}

/// Drops the indexes without reading them, makes new ones, and leaves the damaged pages behind.
fn replace_all(connection: &Connection) -> Result<()> {
    let run = |doing: &str, batch: &str| connection.execute_batch(batch).map_err(|source| sql(doing, source));
    let set_defensive = |on: bool| {
        let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, on);
        set.map(|_| ()).map_err(|source| sql("replace the index of memory.db", source))
    };
    set_defensive(false)?;
    run("begin", "BEGIN IMMEDIATE; PRAGMA writable_schema = ON")?;
    let replaced = run(
        "drop the index of memory.db",
        "DELETE FROM sqlite_schema WHERE name GLOB '*_fts' OR name GLOB '*_fts_*'; PRAGMA writable_schema = RESET;",
    )
    .and_then(|()| run("make the index of memory.db", INDEXES))
    .and_then(|()| rebuild_all(connection));
    match replaced {
        Ok(()) => run("commit", "COMMIT")?,
        Err(error) => {
            run("roll back", "ROLLBACK")?;
            return Err(error);
        }
    }
    set_defensive(true)?;
    run("pack memory.db", "VACUUM")
}

/// How much of an index is put together in memory before it is written: SQLite's own default, and what
/// building a whole index is a third faster with.
const USUAL_BATCH: i64 = 1 << 20;
pub(super) const LARGE_BATCH: i64 = 4 << 20;

/// Like [`rebuild`], for an index that is built from nothing: fewer and larger pieces to merge.
pub(super) fn rebuild_in_one_go(connection: &Connection) -> Result<()> {
    set_batch(connection, LARGE_BATCH)?;
    rebuild(connection)?;
    set_batch(connection, USUAL_BATCH)
}

pub(super) fn set_batch(connection: &Connection, bytes: i64) -> Result<()> {
    for source in MemorySource::ALL {
        let table = source.table();
        connection
            .execute(&format!("INSERT INTO {table}_fts ({table}_fts, rank) VALUES ('hashsize', ?1)"), [bytes])
            .map_err(|error| sql("rebuild the index of memory.db", error))?;
    }
    Ok(())
}

/// Builds every index again from the tables: all of them or, on an error, none.
pub fn rebuild(connection: &Connection) -> Result<()> {
    let run =
        |batch: &str| connection.execute_batch(batch).map_err(|error| sql("rebuild the index of memory.db", error));
    // A savepoint works inside a transaction and outside of one.
    run("SAVEPOINT rebuild")?;
    let done = rebuild_all(connection);
    if done.is_err() {
        run("ROLLBACK TO rebuild")?;
    }
    run("RELEASE rebuild")?;
    done
}

fn rebuild_all(connection: &Connection) -> Result<()> {
    let failed = |source| sql("rebuild the index of memory.db", source);
    for source in MemorySource::ALL {
        let table = source.table();
        connection
            .execute_batch(&format!("INSERT INTO {table}_fts ({table}_fts) VALUES ('rebuild')"))
            .map_err(failed)?;
    }
    connection.execute_batch("INSERT INTO grams_fts (grams_fts) VALUES ('delete-all')").map_err(failed)?;
    for source in MemorySource::ALL {
        let query = format!("SELECT id, {}, scope FROM {}", source.text(), source.table());
        let mut all = connection.prepare(&query).map_err(failed)?;
        let mut rows = all.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, text, scope): (i64, String, i64) = row.try_into().map_err(failed)?;
            add_grams(connection, source, id, &text, scope)?;
        }
    }
    Ok(())
}
