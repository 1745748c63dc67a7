//! Full-text indexes that are built beside a database that is being filled, on another thread: tokenizing is most of
//! what it takes to put a brain together, and SQLite has one writer a file.
//!
//! An index is built in a file of its own from the rows as they arrive, and its segments are then copied. FTS5 keeps
//! them in ordinary tables, and an index whose content stands elsewhere has nothing else.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::ToSqlOutput;

use super::db::{Database, sql};
use super::index::{self, LARGE_BATCH, MemorySource};
use super::portable_rows::{IncomingCell, PortableTable};
use crate::error::{Error, Result};

/// The tables of an index that hold it; what is left is its configuration.
const SEGMENTS: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND \
     (name GLOB '*_fts_data' OR name GLOB '*_fts_idx' OR name GLOB '*_fts_docsize')";

/// Full-text indexes on their way.
#[derive(Debug)]
pub(crate) struct DetachedIndex {
    database: Database,
}

impl DetachedIndex {
    /// Empty ones of a schema, in a file that the caller removes afterwards.
    pub(crate) fn create(path: &Path, schema: i64) -> Result<Self> {
        let database = Database::create_for_restore(path, schema)?;
        index::set_batch(&database.connection, LARGE_BATCH)?;
        database.begin_restore()?;
        Ok(Self { database })
    }

    /// Whether the rows of a table are searched for words.
    pub(crate) fn is_of(table: &str) -> bool {
        MemorySource::ALL.iter().any(|source| source.table() == table)
    }

    /// Takes in rows of a table, in the order of their ids.
    pub(crate) fn add_rows(&self, table: &PortableTable, mut rows: &[u8]) -> Result<()> {
        let Some(source) = MemorySource::ALL.into_iter().find(|source| source.table() == table.name()) else {
            return Ok(());
        };
        let failed = |error| sql("index memory.db", error);
        let missing = || Error::internal(format!("{} has no such column", table.name()));
        let position = |column: &str| table.position(column).ok_or_else(missing);
        let mut wanted = vec![position("id")?];
        for column in source.columns().split(", ").chain(["scope"]) {
            wanted.push(position(column)?);
        }
        let marks = vec!["?"; wanted.len()].join(", ");
        let name = source.table();
        let mut add = (self.database.connection)
            .prepare_cached(&format!("INSERT INTO {name}_fts (rowid, {}, scope) VALUES ({marks})", source.columns()))
            .map_err(failed)?;
        while !rows.is_empty() {
            let (cells, rest) = table.take_row(rows)?;
            rows = rest;
            let cells: Vec<IncomingCell<'_>> = wanted.iter().filter_map(|at| cells.get(*at).copied()).collect();
            add.execute(rusqlite::params_from_iter(&cells)).map_err(failed)?;
            let (id, texts, scope) = match cells.as_slice() {
                [IncomingCell::Integer(id), texts @ .., IncomingCell::Integer(scope)] => (*id, texts, *scope),
                _ => return Err(not_a_row(table)),
            };
            match texts {
                [IncomingCell::Text(text)] => self.add_grams(source, id, text, scope)?,
                [IncomingCell::Text(key), IncomingCell::Text(value)] => {
                    self.add_grams(source, id, &format!("{key}: {value}"), scope)?;
                }
                _ => return Err(not_a_row(table)),
            }
        }
        Ok(())
    }

    fn add_grams(&self, source: MemorySource, id: i64, text: &str, scope: i64) -> Result<()> {
        index::add_grams(&self.database.connection, source, id, text, scope)
    }

    /// Copies them into the database they are of, whose own are empty.
    pub(super) fn move_into(self, to: &Connection) -> Result<()> {
        let failed = |source| sql("move the index of memory.db", source);
        let from = &self.database.connection;
        from.execute_batch("COMMIT").map_err(failed)?;
        let set_defensive =
            |on: bool| to.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, on).map(|_| ()).map_err(failed);
        // The tables of an index are closed to everyone but the index itself, unless one says so.
        set_defensive(false)?;
        let mut names = to.prepare(SEGMENTS).map_err(failed)?;
        for name in names.query_map([], |row| row.get::<_, String>(0)).map_err(failed)? {
            copy_table(from, to, &name.map_err(failed)?)?;
        }
        set_defensive(true)
    }
}

fn copy_table(from: &Connection, to: &Connection, name: &str) -> Result<()> {
    let failed = |source| sql("move the index of memory.db", source);
    to.execute(&format!("DELETE FROM {name}"), []).map_err(failed)?;
    let mut all = from.prepare(&format!("SELECT * FROM {name}")).map_err(failed)?;
    let columns = all.column_count();
    let marks = vec!["?"; columns].join(", ");
    let mut put = to.prepare(&format!("INSERT INTO {name} VALUES ({marks})")).map_err(failed)?;
    let mut rows = all.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        for at in 0..columns {
            let cell = ToSqlOutput::Borrowed(row.get_ref(at).map_err(failed)?);
            put.raw_bind_parameter(at + 1, cell).map_err(failed)?;
        }
        put.raw_execute().map_err(failed)?;
    }
    Ok(())
}

fn not_a_row(table: &PortableTable) -> Error {
    Error::corrupt(format!("a row of {} in the snapshot is not one", table.name())).hint("restore an earlier snapshot")
}
