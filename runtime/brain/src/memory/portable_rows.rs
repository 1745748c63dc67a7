//! The rows of `memory.db` that travel with a brain, table by table, in the order of their keys.
//!
//! Everything travels but what can be made again: the full-text indexes, the vectors, the hash nodes, and the state
//! of the journal, which is made anew from the lock. The bytes of a row are in `docs/reference/snapshot.md`.

use std::collections::BTreeMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use super::db::{Database, sql};
use super::logical::{self, Table};
use super::vectors;
use crate::bundle::rows::FAN_OUT;
use crate::error::{Error, Result};
use crate::ids::Digest;

/// Tables that are made again where the brain arrives.
const MADE_AGAIN: [&str; 3] = ["hash_nodes", "state", vectors::TABLE];

/// How a table changes from one step to the next, so that what did not change need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangePattern {
    /// The digests of its chunks are kept with its rows and tell where it changed.
    Hashed(Table),
    /// Rows are added behind the last one, and never changed or taken away.
    AppendOnly,
    /// Like [`Grows`](Self::AppendOnly), but old rows are let go.
    AppendAndPrune,
    /// In any way. Small, or it would be read in vain.
    Arbitrary,
}

/// A place between two rows: after the `ordinal`-th row whose leading key is `key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPosition {
    /// The value of the number that leads the order; 0 in a table without one.
    pub key: i64,
    /// How many rows of that key come before.
    pub ordinal: u64,
}

/// A table that travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortableTable {
    name: String,
    columns: Vec<String>,
    /// Which columns are the primary key, by number.
    primary: Vec<usize>,
    /// The expression that leads the order, where it is a number.
    leading: Option<String>,
    changing: ChangePattern,
}

/// A row as it is read.
#[derive(Debug, Clone, Copy)]
pub struct PortableRow<'a> {
    /// Where the row ends.
    pub place: RowPosition,
    /// All cells of the row, encoded as `docs/reference/snapshot.md` says.
    pub bytes: &'a [u8],
    /// The cells of its primary key.
    pub key: &'a [u8],
}

/// Whether to go on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanControl {
    /// Read the next row, if there is one.
    Continue,
    /// Read no further row. What was read so far stands.
    Stop,
}

impl PortableTable {
    /// The table's name in `memory.db`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the table changes from one step to the next.
    pub fn change_pattern(&self) -> ChangePattern {
        self.changing
    }

    /// Which of its columns has this name.
    pub(super) fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    /// The cells of the next row, and what comes after it.
    pub(crate) fn take_row<'r>(&self, mut rows: &'r [u8]) -> Result<(Vec<IncomingCell<'r>>, &'r [u8])> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for _ in 0..self.columns.len() {
            let (cell, rest) = take_cell(rows).ok_or_else(|| damaged(self))?;
            cells.push(cell);
            rows = rest;
        }
        Ok((cells, rows))
    }

    /// Whether its rows are ordered by a number, so that reading can begin in the middle.
    pub fn is_seekable(&self) -> bool {
        self.leading.is_some()
    }
}

/// The tables that travel, by name. A table that a later schema adds travels too, and arrives empty
/// from an earlier file.
pub fn portable_tables(connection: &Connection) -> Result<Vec<PortableTable>> {
    let failed = |source| sql("read memory.db", source);
    let mut names = connection
        .prepare(
            "SELECT name FROM (SELECT type, name FROM sqlite_schema UNION SELECT type, name FROM sqlite_temp_schema) \
             WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )
        .map_err(failed)?;
    let names = names.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    let mut tables = Vec::new();
    for name in names {
        let name = name.map_err(failed)?;
        let is_index = name.ends_with("_fts") || name.contains("_fts_");
        if !is_index && !MADE_AGAIN.contains(&name.as_str()) {
            tables.push(describe(connection, name)?);
        }
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tables)
}

fn describe(connection: &Connection, name: String) -> Result<PortableTable> {
    let failed = |source| sql("read memory.db", source);
    let mut info = connection.prepare("SELECT name, type, pk FROM pragma_table_info(?1)").map_err(failed)?;
    let found = info
        .query_map([&name], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?)))
        .map_err(failed)?;
    let (mut columns, mut primary, mut kinds) = (Vec::new(), BTreeMap::new(), Vec::new());
    for (at, column) in found.enumerate() {
        let (column, kind, pk) = column.map_err(failed)?;
        if pk > 0 {
            primary.insert(pk, at);
        }
        columns.push(column);
        kinds.push(kind);
    }
    let primary: Vec<usize> = primary.into_values().collect();
    let changing = changing(&name);
    let number = primary.first().filter(|at| kinds.get(**at).is_some_and(|kind| kind == "INTEGER"));
    let leading = match (number.and_then(|at| columns.get(*at)), changing) {
        (Some(column), _) => Some(column.clone()),
        // Its key is a digest; the order in which rows came is the one that only grows.
        (None, ChangePattern::AppendOnly) => Some("rowid".to_owned()),
        (None, _) => None,
    };
    Ok(PortableTable { name, columns, primary, leading, changing })
}

fn changing(name: &str) -> ChangePattern {
    let hashed = Table::USAGE.into_iter().chain(Table::MEMORY).find(|table| table.name() == name);
    match (hashed, name) {
        (Some(table), _) => ChangePattern::Hashed(table),
        (None, "blobs" | "changes" | "outcomes" | "receipts" | "row_undo" | "steps" | "trial_tasks" | "trials") => {
            ChangePattern::AppendOnly
        }
        (None, "evidence" | "evidence_arguments" | "transcripts") => ChangePattern::AppendAndPrune,
        (None, _) => ChangePattern::Arbitrary,
    }
}

impl Database {
    /// Reads the rows of a table in their order, from a place on.
    pub fn read_rows(
        &self,
        table: &PortableTable,
        from: Option<RowPosition>,
        each: &mut dyn FnMut(PortableRow<'_>) -> Result<ScanControl>,
    ) -> Result<()> {
        let failed = |source| sql("read memory.db", source);
        let columns = table.columns.join(", ");
        let leading = table.leading.as_deref().unwrap_or("0");
        let order = match table.leading.as_deref() {
            Some("rowid") => "rowid".to_owned(),
            _ => table.primary.iter().filter_map(|at| table.columns.get(*at)).cloned().collect::<Vec<_>>().join(", "),
        };
        // Without a place there is no condition: a key of any sign belongs to the table.
        let after = if from.is_some() { format!("WHERE {leading} >= ?1") } else { String::new() };
        let query = format!("SELECT {columns}, {leading} FROM {} {after} ORDER BY {order}", table.name);
        let mut statement = self.connection.prepare_cached(&query).map_err(failed)?;
        let mut rows = match from {
            Some(place) => statement.query([place.key]),
            None => statement.query([]),
        }
        .map_err(failed)?;
        let (mut bytes, mut key) = (Vec::new(), Vec::new());
        let mut place = RowPosition { key: i64::MIN, ordinal: 0 };
        while let Some(row) = rows.next().map_err(failed)? {
            let leading: i64 = row.get(table.columns.len()).map_err(failed)?;
            let ordinal = if place.key == leading { place.ordinal + 1 } else { 1 };
            place = RowPosition { key: leading, ordinal };
            if from.is_some_and(|from| place <= from) {
                continue;
            }
            bytes.clear();
            key.clear();
            for at in 0..table.columns.len() {
                let cell = row.get_ref(at).map_err(failed)?;
                put_cell(&mut bytes, cell, table)?;
                if table.primary.contains(&at) {
                    put_cell(&mut key, cell, table)?;
                }
            }
            if each(PortableRow { place, bytes: &bytes, key: &key })? == ScanControl::Stop {
                break;
            }
        }
        Ok(())
    }

    /// How many rows of a table are at a place or before it.
    pub fn count_rows(&self, table: &PortableTable, until: RowPosition) -> Result<u64> {
        let Some(leading) = &table.leading else { return Ok(0) };
        self.connection
            .prepare_cached(&format!("SELECT count(*) FROM {} WHERE {leading} <= ?1", table.name))
            .and_then(|mut count| count.query_row([until.key], |row| row.get::<_, i64>(0)))
            .map(i64::unsigned_abs)
            .map_err(|source| sql("read memory.db", source))
    }

    /// The digests of the chunks of a hashed table; a chunk holds 256 ids.
    pub fn chunk_digests(&self, table: Table) -> Result<BTreeMap<i64, Digest>> {
        logical::stored_chunks(&self.connection, table)
    }

    /// Whether the rows of a chunk of a hashed table are the ones whose digest is kept.
    pub fn chunk_is_sound(&self, table: Table, chunk: i64) -> Result<bool> {
        logical::chunk_agrees(&self.connection, table, chunk)
    }

    /// Puts rows into a table that must not have them yet, and returns how many there were. `rows` is what
    /// [`read_rows`](Self::read_rows) gave, one after the other. `end` is where the rows before them ended, and
    /// then where these do.
    pub(crate) fn put_rows(
        &self,
        table: &PortableTable,
        mut rows: &[u8],
        end: &mut Option<RowPosition>,
    ) -> Result<u64> {
        let marks = vec!["?"; table.columns.len()].join(", ");
        let query = format!("INSERT INTO {} ({}) VALUES ({marks})", table.name, table.columns.join(", "));
        let mut put = self.connection.prepare_cached(&query).map_err(|source| sql("write memory.db", source))?;
        let leading = table.leading.as_deref().and_then(|leading| table.position(leading));
        let mut count = 0;
        while !rows.is_empty() {
            let (cells, rest) = table.take_row(rows)?;
            rows = rest;
            put.execute(rusqlite::params_from_iter(&cells)).map_err(|source| {
                Error::corrupt(format!("a row of {} in the snapshot is not one: {source}", table.name))
                    .hint("restore an earlier snapshot")
                    .because(source)
            })?;
            count += 1;
            let key = match (leading.and_then(|at| cells.get(at)), &table.leading) {
                (Some(IncomingCell::Integer(key)), _) => *key,
                (None, Some(_)) => self.connection.last_insert_rowid(),
                _ => 0,
            };
            let before = end.filter(|before| before.key == key).map_or(0, |before| before.ordinal);
            *end = Some(RowPosition { key, ordinal: before + 1 });
        }
        Ok(count)
    }

    /// Empties a table before its rows arrive: some begin with a row.
    pub(crate) fn clear_rows(&self, table: &PortableTable) -> Result<()> {
        let cleared = self.connection.execute(&format!("DELETE FROM {}", table.name), []);
        cleared.map(|_| ()).map_err(|source| sql("write memory.db", source))
    }
}

/// The chunk of a hashed table that holds an id.
pub fn chunk_of(id: i64) -> i64 {
    id.div_euclid(FAN_OUT)
}

fn damaged(table: &PortableTable) -> Error {
    Error::corrupt(format!("the snapshot holds bytes that are no rows of {}", table.name))
        .hint("restore an earlier snapshot")
}

fn put_cell(bytes: &mut Vec<u8>, cell: ValueRef<'_>, table: &PortableTable) -> Result<()> {
    let mut put_long = |tag: u8, content: &[u8]| {
        bytes.push(tag);
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(content);
    };
    match cell {
        ValueRef::Null => bytes.push(0),
        ValueRef::Integer(value) => {
            bytes.push(1);
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::Text(text) => put_long(2, text),
        ValueRef::Blob(blob) => put_long(3, blob),
        ValueRef::Real(_) => {
            return Err(Error::corrupt(format!("a row of {} holds a fraction, which no herm wrote", table.name))
                .hint("run `herm brain verify ID`"));
        }
    }
    Ok(())
}

/// A cell as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncomingCell<'a> {
    /// SQL's NULL, which the snapshot has as a tag byte alone.
    Null,
    /// A signed 64-bit number.
    Integer(i64),
    /// A text whose bytes were checked to be UTF-8.
    Text(&'a str),
    /// Bytes as they are.
    Blob(&'a [u8]),
}

impl ToSql for IncomingCell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

fn take_cell(bytes: &[u8]) -> Option<(IncomingCell<'_>, &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let long = || -> Option<(&[u8], &[u8])> {
        let (length, rest) = rest.split_first_chunk::<8>()?;
        rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
    };
    Some(match tag {
        0 => (IncomingCell::Null, rest),
        1 => {
            let (value, rest) = rest.split_first_chunk::<8>()?;
            (IncomingCell::Integer(i64::from_le_bytes(*value)), rest)
        }
        2 => {
            let (text, rest) = long()?;
            (IncomingCell::Text(std::str::from_utf8(text).ok()?), rest)
        }
        3 => {
            let (blob, rest) = long()?;
            (IncomingCell::Blob(blob), rest)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("memory.db")).unwrap();
        (dir, database)
    }

    fn all(database: &Database, table: &PortableTable, from: Option<RowPosition>) -> Vec<(RowPosition, Vec<u8>)> {
        let mut rows = Vec::new();
        database
            .read_rows(table, from, &mut |row| {
                rows.push((row.place, row.bytes.to_vec()));
                Ok(ScanControl::Continue)
            })
            .unwrap();
        rows
    }

    #[test]
    fn the_page_lists_every_table_with_its_columns_and_its_key() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/snapshot.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_dir, database) = database();
        for table in portable_tables(&database.connection).unwrap() {
            let row = format!("| `{}` | **", table.name);
            let line = page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("{row} is not there"));
            let listed = line.split(" | ").nth(1).unwrap().trim_end_matches(" |").split(": ").next().unwrap();
            let written: Vec<&str> = listed.split(", ").map(|column| column.split(' ').next().unwrap()).collect();
            let key = |(at, column): (usize, &String)| match table.primary.contains(&at) {
                true => format!("**{column}**"),
                false => column.clone(),
            };
            assert_eq!(written, table.columns.iter().enumerate().map(key).collect::<Vec<_>>(), "{}", table.name);
        }
    }

    #[test]
    fn everything_travels_but_what_is_made_again() {
        let (_dir, database) = database();
        let names: Vec<String> =
            portable_tables(&database.connection).unwrap().into_iter().map(|table| table.name).collect();
        let steps = ["steps", "blobs", "receipts", "transcripts", "evidence", "outcomes", "trials", "trial_tasks"];
        for content in ["messages", "facts", "skill_usage"].into_iter().chain(steps) {
            assert!(names.iter().any(|name| name == content), "{content}");
        }
        for made_again in ["hash_nodes", "state", "messages_fts", "grams_fts_data"] {
            assert!(!names.iter().any(|name| name == made_again), "{made_again}");
        }
    }

    #[test]
    fn reading_goes_on_from_a_place_in_the_middle_of_a_key() {
        let (_dir, database) = database();
        for (step, path) in [(1, "a"), (1, "b"), (1, "c"), (2, "a")] {
            database.connection.execute("INSERT INTO changes (seq, path) VALUES (?1, ?2)", (step, path)).unwrap();
        }
        let tables = portable_tables(&database.connection).unwrap();
        let changes = tables.iter().find(|table| table.name == "changes").unwrap();
        let rows = all(&database, changes, None);
        assert_eq!(rows.len(), 4);
        assert_eq!(all(&database, changes, Some(rows[1].0)), rows[2..]);
        assert_eq!(all(&database, changes, Some(rows[2].0)), rows[3..]);
        assert_eq!(database.count_rows(changes, rows[2].0).unwrap(), 3);
    }

    #[test]
    fn rows_arrive_as_they_left() {
        let ((_from_dir, from), (_to_dir, to)) = (database(), database());
        from.connection
            .execute_batch(
                "INSERT INTO blobs (digest, content) VALUES (x'02', x'00ff'), (x'01', x'');
                 INSERT INTO changes (seq, path) VALUES (1, 'a'), (2, 'a'), (2, 'b');
                 INSERT INTO skill_usage VALUES (3, 'a', 'agent', 5, 'active', 0, 1, 2, 3, NULL, 9, NULL, -1);
                 INSERT INTO outcomes VALUES (4, 2, 't', 'feedback', '0.70', 'a note', 5), (6, 3, 't', 'label', 'bad', NULL, 6);
                 INSERT INTO trials VALUES (1, 2, 'a', 'proven', 5, 9, 'it helps');
                 INSERT INTO evidence_arguments VALUES (7, '{}');
                 INSERT INTO trial_tasks VALUES (1, 2, 'a', 't', 'shown', 5, NULL, 0, 1, 0, 0);",
            )
            .unwrap();
        for table in portable_tables(&from.connection).unwrap() {
            let rows = all(&from, &table, None);
            to.clear_rows(&table).unwrap();
            let bytes: Vec<u8> = rows.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let mut end = None;
            assert_eq!(to.put_rows(&table, &bytes, &mut end).unwrap(), rows.len() as u64);
            assert_eq!(end, all(&to, &table, None).last().map(|(place, _)| *place), "{}", table.name);
            assert_eq!(all(&to, &table, None), rows, "{}", table.name);
        }
    }

    #[test]
    fn bytes_that_are_no_rows_are_refused() {
        let (_dir, database) = database();
        let tables = portable_tables(&database.connection).unwrap();
        let steps = tables.iter().find(|table| table.name == "steps").unwrap();
        let long = [&[2u8][..], &u64::MAX.to_le_bytes()].concat();
        let not_text = [&[2u8][..], &1u64.to_le_bytes(), &[0xff]].concat();
        for bad in [&[9u8][..], &[1, 2, 3], &long, &not_text, &[0]] {
            assert!(database.put_rows(steps, bad, &mut None).is_err(), "{bad:?}");
        }
    }
}
