//! What a step's rows were before it, so that a step can be taken back exactly.

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use super::db::sql;
use super::index::{self, MemorySource};
use super::logical::{self, Table, Touched};
use crate::bundle::rows::{Cell, FAN_OUT};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::Slug;
use crate::skill::{SkillLifecycle, SkillState};

/// A row as it was before a step wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowUndo {
    /// The table that the step wrote to.
    pub table: Table,
    /// The row's number in that table.
    pub id: i64,
    /// Its columns as a JSON array; `None` where the step made the row.
    pub before: Option<String>,
}

/// The columns of a row as a JSON array.
pub(super) fn row(connection: &Connection, table: Table, id: i64) -> Result<Option<String>> {
    let query = format!("SELECT {} FROM {} WHERE id = ?1", table.columns(), table.name());
    let columns = table.columns().split(',').count();
    connection
        .prepare_cached(&query)
        .and_then(|mut get| {
            get.query_row([id], |row| {
                (0..columns)
                    .map(|column| {
                        Ok(match row.get_ref(column)? {
                            ValueRef::Integer(number) => Value::from(number),
                            ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text)),
                            // The tables are strict and have no other columns.
                            ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
                        })
                    })
                    .collect::<rusqlite::Result<Vec<Value>>>()
            })
            .optional()
        })
        .map(|found| found.map(|columns| Value::Array(columns).to_string()))
        .map_err(|source| sql("read memory.db", source))
}

/// Keeps what a step's rows were before it.
pub fn keep(connection: &Connection, step: i64, rows: &[RowUndo]) -> Result<()> {
    for row in rows {
        connection
            // A row written twice in a step was first what it was before the step.
            .prepare_cached("INSERT OR IGNORE INTO row_undo (step, tbl, id, before) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut add| add.execute((step, row.table as i64, row.id, row.before.as_deref())))
            .map_err(|source| sql("write memory.db", source))?;
    }
    Ok(())
}

/// Takes back the rows of every step after `step`, newest first.
pub fn take_back(connection: &Connection, step: i64) -> Result<()> {
    let failed = |source| sql("read memory.db", source);
    let mut kept = connection
        .prepare("SELECT tbl, id, before FROM row_undo WHERE step > ?1 ORDER BY step DESC, tbl DESC, id DESC")
        .map_err(failed)?;
    let mut rows = kept.query([step]).map_err(failed)?;
    let mut touched = Touched::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let table = Table::of_number(row.get(0).map_err(failed)?)?;
        let id: i64 = row.get(1).map_err(failed)?;
        let before: Option<String> = row.get(2).map_err(failed)?;
        put_back(connection, table, id, before.as_deref())?;
        touched.insert((table, id.div_euclid(FAN_OUT)));
    }
    logical::refresh(connection, &touched)
}

/// Where a skill stood before a step that wrote its telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorLifecycle {
    /// The number of the step that wrote it.
    pub step: i64,
    /// The skill whose telemetry the step wrote.
    pub slug: Slug,
    /// Where it stood; a skill without a record stands where nothing was decided.
    pub standing: SkillLifecycle,
}

/// Where skills stood before each of the steps `first` to `last` that wrote their telemetry, oldest first.
pub fn standings(connection: &Connection, first: i64, last: i64) -> Result<Vec<PriorLifecycle>> {
    let failed = |source| sql("read memory.db", source);
    let mut kept = connection
        .prepare_cached(
            "SELECT row_undo.step, skill_usage.slug, row_undo.before FROM row_undo \
             JOIN skill_usage ON skill_usage.id = row_undo.id \
             WHERE row_undo.tbl = ?1 AND row_undo.step BETWEEN ?2 AND ?3 ORDER BY row_undo.step, row_undo.id",
        )
        .map_err(failed)?;
    let mut rows = kept.query((Table::SkillUsage as i64, first, last)).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let slug: String = row.get(1).map_err(failed)?;
        let before: Option<String> = row.get(2).map_err(failed)?;
        let standing = match before {
            Some(before) => standing(&before)?,
            None => SkillLifecycle::PLAIN,
        };
        found.push(PriorLifecycle { step: row.get(0).map_err(failed)?, slug: slug.try_into()?, standing });
    }
    Ok(found)
}

/// Where a skill stands by the columns of its row.
fn standing(columns: &str) -> Result<SkillLifecycle> {
    let columns: Vec<Value> = serde_json::from_str(columns).map_err(|source| lost_row().because(source))?;
    let column = |name: &str| {
        let mut names = Table::SkillUsage.columns().split(',').map(str::trim);
        names.position(|column| column == name).and_then(|at| columns.get(at)).ok_or_else(lost_row)
    };
    Ok(SkillLifecycle {
        state: SkillState::parse(column("state")?.as_str().ok_or_else(lost_row)?)?,
        pinned: column("pinned")?.as_i64().ok_or_else(lost_row)? != 0,
        archived_at: column("archived_at")?.as_i64().map(Timestamp),
    })
}

/// How many rows of each table a step wrote.
pub fn counts(connection: &Connection, step: i64) -> Result<Vec<(Table, u64)>> {
    let failed = |source| sql("read memory.db", source);
    let mut count = connection
        .prepare_cached("SELECT tbl, count(*) FROM row_undo WHERE step = ?1 GROUP BY tbl ORDER BY tbl")
        .map_err(failed)?;
    let mut rows = count.query([step]).map_err(failed)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let rows: i64 = row.get(1).map_err(failed)?;
        found.push((Table::of_number(row.get(0).map_err(failed)?)?, rows.unsigned_abs()));
    }
    Ok(found)
}

/// Visits the columns of a kept row as they are hashed.
pub(super) fn for_each_cell(columns: &str, visit: &mut dyn FnMut(Cell<'_>)) -> Result<()> {
    let columns: Vec<Value> = serde_json::from_str(columns).map_err(|source| lost_row().because(source))?;
    for column in &columns {
        match column {
            Value::Number(number) => visit(Cell::Integer(number.as_i64().ok_or_else(lost_row)?)),
            Value::String(text) => visit(Cell::Text(text.as_bytes())),
            Value::Null => visit(Cell::Null),
            _ => return Err(lost_row()),
        }
    }
    Ok(())
}

fn lost_row() -> Error {
    Error::corrupt("the journal has lost what a row was before").hint("restore the brain from a snapshot")
}

fn put_back(connection: &Connection, table: Table, id: i64, before: Option<&str>) -> Result<()> {
    let failed = |source| sql("write memory.db", source);
    let source = match table {
        Table::Facts => Some(MemorySource::Fact),
        Table::Messages => Some(MemorySource::Message),
        Table::TaskLog => Some(MemorySource::Task),
        Table::SkillUsage | Table::Subscribers => None,
    };
    if let Some(source) = source {
        index::remove(connection, source, id)?;
    }
    let Some(before) = before else {
        let query = format!("DELETE FROM {} WHERE id = ?1", table.name());
        return connection.execute(&query, [id]).map(|_| ()).map_err(failed);
    };
    let columns: Vec<Value> = serde_json::from_str(before).map_err(|source| lost_row().because(source))?;
    let values = columns.into_iter().map(|value| match value {
        Value::Number(number) => number.as_i64().map_or(SqlValue::Null, SqlValue::Integer),
        Value::String(text) => SqlValue::Text(text),
        _ => SqlValue::Null,
    });
    let marks = vec!["?"; table.columns().split(',').count()].join(", ");
    let query = format!("INSERT OR REPLACE INTO {} ({}) VALUES ({marks})", table.name(), table.columns());
    connection.execute(&query, rusqlite::params_from_iter(values)).map_err(failed)?;
    match source {
        Some(source) => index::add(connection, source, id),
        None => Ok(()),
    }
}
