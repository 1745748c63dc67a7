//! The logical hash of `memory.db`, kept in step with its rows.
//!
//! Digests of chunks and groups of rows stand in `hash_nodes`; a step recomputes the ones it
//! touched. [`recompute`] takes everything from the rows and must agree with [`stored`].

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::db::sql;
use super::undo::{self, RowUndo};
use crate::bundle::rows::{self, Cell, ChunkHasher, FAN_OUT};
use crate::error::{Error, Result};
use crate::ids::Digest;

/// A table whose rows are in the bundle hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// What is counted and decided of each skill.
    SkillUsage = 1,
    /// Digests of subscribers, by the number rows use for them.
    Subscribers = 2,
    /// Notes by key, one row for each key and owner.
    Facts = 3,
    /// What was asked and answered in tasks.
    Messages = 4,
    /// One row a task.
    TaskLog = 5,
}

impl Table {
    /// The tables of the `usage` part.
    pub const USAGE: [Self; 1] = [Self::SkillUsage];
    /// The tables of the `memory` part.
    pub const MEMORY: [Self; 4] = [Self::Facts, Self::Messages, Self::Subscribers, Self::TaskLog];

    /// The table's name in `memory.db`, which is hashed with its rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::SkillUsage => "skill_usage",
            Self::Subscribers => "subscribers",
            Self::Facts => "facts",
            Self::Messages => "messages",
            Self::TaskLog => "task_log",
        }
    }

    /// The table of a stored number.
    pub(super) fn of_number(number: i64) -> Result<Self> {
        [Self::SkillUsage, Self::Subscribers, Self::Facts, Self::Messages, Self::TaskLog]
            .into_iter()
            .find(|table| *table as i64 == number)
            .ok_or_else(|| {
                Error::corrupt(format!("the journal names table {number}, which is none"))
                    .hint("restore the brain from a snapshot")
            })
    }

    /// The columns in the order in which they are hashed, the id first.
    pub(super) fn columns(self) -> &'static str {
        match self {
            Self::SkillUsage => {
                "id, slug, created_by, created_at, state, pinned, use_count, view_count, patch_count, \
                 last_used_at, last_viewed_at, last_patched_at, archived_at"
            }
            Self::Subscribers => "id, digest",
            Self::Facts => "id, scope, key, value, task, at",
            Self::Messages => "id, task, scope, role, content, at",
            Self::TaskLog => "id, task, scope, outcome, summary, at",
        }
    }
}

/// A chunk of a table whose rows a step touched; or a group of chunks.
pub(super) type Touched = BTreeSet<(Table, i64)>;

const CHUNK: i64 = 0;
const GROUP: i64 = 1;
/// At least as many as the widest table has.
const MOST_COLUMNS: usize = 16;

/// Brings the nodes above the chunks that a step wrote up to date, after it has made sure that each was what its node
/// said before the step: what someone else changed is never hashed into a step. `written` is what the rows were.
pub(super) fn settle(connection: &Connection, touched: &Touched, written: &[RowUndo]) -> Result<()> {
    let mut before = BTreeMap::new();
    for row in written {
        // A row that was written twice was first what it was before the step.
        before.entry((row.table, row.id)).or_insert(row.before.as_deref());
    }
    let groups: Touched = touched.iter().map(|(table, chunk)| (*table, chunk.div_euclid(FAN_OUT))).collect();
    for &(table, group) in &groups {
        let chunks = nodes(connection, table, CHUNK, group * FAN_OUT, group * FAN_OUT + FAN_OUT - 1)?;
        let expected = (!chunks.is_empty()).then(|| rows::group(table.name(), group, chunks));
        if node_of(connection, table, GROUP, group)? != expected {
            return Err(changed_by_hand(table));
        }
    }
    for &(table, chunk) in touched {
        let (old, new) = chunk_before_and_after(connection, table, chunk, &before)?;
        if node_of(connection, table, CHUNK, chunk)? != old {
            return Err(changed_by_hand(table));
        }
        put_node(connection, table, CHUNK, chunk, new.as_ref())?;
    }
    refresh_groups(connection, groups)
}

fn changed_by_hand(table: Table) -> Error {
    Error::corrupt(format!("the rows of {} in memory.db are not those of the last step", table.name())).hint(
        "see what differs with `herm brain verify ID`; if the edits are yours, take them over with `herm brain adopt \
         ID`, else restore the brain from a snapshot",
    )
}

/// The digest of a chunk as it was before a step and as it is now, in one pass over its rows.
fn chunk_before_and_after(
    connection: &Connection,
    table: Table,
    chunk: i64,
    before: &BTreeMap<(Table, i64), Option<&str>>,
) -> Result<(Option<Digest>, Option<Digest>)> {
    let first = chunk * FAN_OUT;
    let mut now = (ChunkHasher::new(table.name(), chunk), false);
    // Until a written row comes, both are the same.
    let mut old: Option<(ChunkHasher, bool)> = None;
    for_each_row(connection, table, first, first.saturating_add(FAN_OUT - 1), &mut |id, cells| {
        let written = before.get(&(table, id));
        if written.is_some() && old.is_none() {
            old = Some(now.clone());
        }
        if let Some((hasher, has_rows)) = &mut old {
            match written {
                // The step made it.
                Some(None) => {}
                Some(Some(columns)) => {
                    undo::for_each_cell(columns, &mut |cell| hasher.cell(cell))?;
                    *has_rows = true;
                }
                None => {
                    cells.iter().for_each(|cell| hasher.cell(*cell));
                    *has_rows = true;
                }
            }
        }
        cells.iter().for_each(|cell| now.0.cell(*cell));
        now.1 = true;
        Ok(())
    })?;
    let old = old.unwrap_or_else(|| now.clone());
    let digest = |(hasher, has_rows): (ChunkHasher, bool)| has_rows.then(|| hasher.finish());
    Ok((digest(old), digest(now)))
}

/// Brings the nodes above the touched chunks up to date.
pub(super) fn refresh(connection: &Connection, touched: &Touched) -> Result<()> {
    let mut groups = BTreeSet::new();
    for &(table, chunk) in touched {
        let first = chunk * FAN_OUT;
        let digests = chunk_digests(connection, table, first, first.saturating_add(FAN_OUT - 1))?;
        put_node(connection, table, CHUNK, chunk, digests.get(&chunk))?;
        groups.insert((table, chunk.div_euclid(FAN_OUT)));
    }
    refresh_groups(connection, groups)
}

fn refresh_groups(connection: &Connection, groups: Touched) -> Result<()> {
    for (table, group) in groups {
        let chunks = nodes(connection, table, CHUNK, group * FAN_OUT, group * FAN_OUT + FAN_OUT - 1)?;
        let digest = (!chunks.is_empty()).then(|| rows::group(table.name(), group, chunks));
        put_node(connection, table, GROUP, group, digest.as_ref())?;
    }
    Ok(())
}

/// The digest of a part made of `tables`, from the stored nodes.
pub fn stored(connection: &Connection, part: &str, tables: &[Table]) -> Result<Digest> {
    let mut digests = Vec::new();
    for table in tables {
        let groups = nodes(connection, *table, GROUP, i64::MIN, i64::MAX)?;
        digests.push((table.name(), rows::table(table.name(), groups)));
    }
    Ok(rows::part(part, digests))
}

/// The stored digests of a table's chunks.
pub(super) fn stored_chunks(connection: &Connection, table: Table) -> Result<BTreeMap<i64, Digest>> {
    nodes(connection, table, CHUNK, i64::MIN, i64::MAX).map(|nodes| nodes.into_iter().collect())
}

/// Whether the rows of a chunk have the stored digest.
pub(super) fn chunk_agrees(connection: &Connection, table: Table, chunk: i64) -> Result<bool> {
    let first = chunk.saturating_mul(FAN_OUT);
    let found = chunk_digests(connection, table, first, first.saturating_add(FAN_OUT - 1))?;
    let kept = nodes(connection, table, CHUNK, chunk, chunk)?;
    Ok(found.get(&chunk) == kept.first().map(|(_, digest)| digest))
}

/// The digest of a part made of `tables`, from every row. Also gives back the names of the tables
/// whose stored nodes disagree.
pub fn recompute(connection: &Connection, part: &str, tables: &[Table]) -> Result<(Digest, Vec<&'static str>)> {
    let mut digests = Vec::new();
    let mut differ = Vec::new();
    for table in tables {
        let chunks = chunk_digests(connection, *table, i64::MIN, i64::MAX)?;
        let same_chunks = stored_chunks(connection, *table)? == chunks;
        let mut groups: BTreeMap<i64, Vec<(i64, Digest)>> = BTreeMap::new();
        for (chunk, digest) in chunks {
            groups.entry(chunk.div_euclid(FAN_OUT)).or_default().push((chunk, digest));
        }
        let groups: Vec<_> = groups.into_iter().map(|(n, chunks)| (n, rows::group(table.name(), n, chunks))).collect();
        let kept = nodes(connection, *table, GROUP, i64::MIN, i64::MAX)?;
        if kept != groups || !same_chunks {
            differ.push(table.name());
        }
        digests.push((table.name(), rows::table(table.name(), groups)));
    }
    Ok((rows::part(part, digests), differ))
}

/// Computes every node again from the rows.
pub fn rehash(connection: &Connection) -> Result<()> {
    connection.execute("DELETE FROM hash_nodes", []).map_err(|source| sql("hash memory.db", source))?;
    let mut groups = Touched::new();
    for table in Table::USAGE.into_iter().chain(Table::MEMORY) {
        let outside = format!("SELECT count(*) FROM {} WHERE abs(id / 2) > {}", table.name(), i64::MAX / 8);
        let strange: i64 =
            connection.query_row(&outside, [], |row| row.get(0)).map_err(|source| sql("hash memory.db", source))?;
        if strange > 0 {
            return Err(Error::corrupt(format!("{} rows of {} have ids that no herm gave", strange, table.name()))
                .hint("give them small ids, or restore the brain from a snapshot"));
        }
        for (chunk, digest) in chunk_digests(connection, table, i64::MIN, i64::MAX)? {
            put_node(connection, table, CHUNK, chunk, Some(&digest))?;
            groups.insert((table, chunk.div_euclid(FAN_OUT)));
        }
    }
    refresh_groups(connection, groups)
}

/// The digests of the chunks that hold rows with ids `first` to `last`.
fn chunk_digests(connection: &Connection, table: Table, first: i64, last: i64) -> Result<BTreeMap<i64, Digest>> {
    let mut digests = BTreeMap::new();
    let mut open: Option<(i64, ChunkHasher)> = None;
    for_each_row(connection, table, first, last, &mut |id, cells| {
        let chunk = id.div_euclid(FAN_OUT);
        if open.as_ref().is_none_or(|(at, _)| *at != chunk)
            && let Some((at, hasher)) = open.replace((chunk, ChunkHasher::new(table.name(), chunk)))
        {
            digests.insert(at, hasher.finish());
        }
        if let Some((_, hasher)) = open.as_mut() {
            cells.iter().for_each(|cell| hasher.cell(*cell));
        }
        Ok(())
    })?;
    if let Some((at, hasher)) = open {
        digests.insert(at, hasher.finish());
    }
    Ok(digests)
}

/// Visits the rows with ids `first` to `last` in order, with their columns.
fn for_each_row(
    connection: &Connection,
    table: Table,
    first: i64,
    last: i64,
    visit: &mut dyn FnMut(i64, &[Cell<'_>]) -> Result<()>,
) -> Result<()> {
    let failed = |source| sql("hash memory.db", source);
    let query = format!("SELECT {} FROM {} WHERE id BETWEEN ?1 AND ?2 ORDER BY id", table.columns(), table.name());
    let mut statement = connection.prepare_cached(&query).map_err(failed)?;
    let columns = statement.column_count();
    let mut found = statement.query([first, last]).map_err(failed)?;
    while let Some(row) = found.next().map_err(failed)? {
        let id: i64 = row.get(0).map_err(failed)?;
        let mut cells = [Cell::Null; MOST_COLUMNS];
        for (column, cell) in cells.iter_mut().enumerate().take(columns) {
            *cell = match row.get_ref(column).map_err(failed)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(value) => Cell::Integer(value),
                ValueRef::Text(text) => Cell::Text(text),
                other => {
                    return Err(Error::corrupt(format!(
                        "row {id} of {} holds a {} where text or a number belongs",
                        table.name(),
                        other.data_type()
                    ))
                    .hint("restore the brain from a snapshot"));
                }
            };
        }
        visit(id, cells.get(..columns).unwrap_or_default())?;
    }
    Ok(())
}

/// The stored digest of one node.
fn node_of(connection: &Connection, table: Table, level: i64, index: i64) -> Result<Option<Digest>> {
    Ok(nodes(connection, table, level, index, index)?.pop().map(|(_, digest)| digest))
}

fn put_node(connection: &Connection, table: Table, level: i64, index: i64, digest: Option<&Digest>) -> Result<()> {
    let done = match digest {
        Some(digest) => connection
            .prepare_cached("INSERT OR REPLACE INTO hash_nodes (tbl, level, idx, digest) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut put| put.execute((table as i64, level, index, digest.bytes()))),
        None => connection
            .prepare_cached("DELETE FROM hash_nodes WHERE tbl = ?1 AND level = ?2 AND idx = ?3")
            .and_then(|mut remove| remove.execute((table as i64, level, index))),
    };
    done.map(|_| ()).map_err(|source| sql("hash memory.db", source))
}

fn nodes(connection: &Connection, table: Table, level: i64, first: i64, last: i64) -> Result<Vec<(i64, Digest)>> {
    let failed = |source| sql("hash memory.db", source);
    let mut statement = connection
        .prepare_cached(
            "SELECT idx, digest FROM hash_nodes WHERE tbl = ?1 AND level = ?2 AND idx BETWEEN ?3 AND ?4 ORDER BY idx",
        )
        .map_err(failed)?;
    let found = statement
        .query_map((table as i64, level, first, last), |row| {
            Ok((row.get(0)?, Digest::from(row.get::<_, [u8; 32]>(1)?)))
        })
        .map_err(failed)?;
    found.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)
}
