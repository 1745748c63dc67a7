//! The logical hash of `memory.db`, kept in step with its rows.
//!
//! Digests of chunks and groups of rows stand in `hash_nodes`; a step recomputes the ones it
//! touched. [`recompute`] takes everything from the rows and must agree with [`stored`].

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::db::sql;
use crate::bundle::rows::{self, Cell, ChunkHasher, FAN_OUT};
use crate::error::{Error, Result};
use crate::ids::Digest;

/// A table whose rows are in the bundle hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Skill telemetry.
    SkillUsage = 1,
    /// Digests of subscribers, by the number rows use for them.
    Subscribers = 2,
    /// Notes by key.
    Facts = 3,
    /// What was said.
    Messages = 4,
    /// One row a task.
    TaskLog = 5,
}

impl Table {
    /// The tables of the `usage` part.
    pub const USAGE: [Self; 1] = [Self::SkillUsage];
    /// The tables of the `memory` part.
    pub const MEMORY: [Self; 4] = [Self::Facts, Self::Messages, Self::Subscribers, Self::TaskLog];

    /// The table's name.
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
        let mut groups: BTreeMap<i64, Vec<(i64, Digest)>> = BTreeMap::new();
        for (chunk, digest) in chunks {
            groups.entry(chunk.div_euclid(FAN_OUT)).or_default().push((chunk, digest));
        }
        let groups: Vec<_> = groups.into_iter().map(|(n, chunks)| (n, rows::group(table.name(), n, chunks))).collect();
        let kept = nodes(connection, *table, GROUP, i64::MIN, i64::MAX)?;
        if kept != groups {
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
    let failed = |source| sql("hash memory.db", source);
    let query = format!("SELECT {} FROM {} WHERE id BETWEEN ?1 AND ?2 ORDER BY id", table.columns(), table.name());
    let mut statement = connection.prepare_cached(&query).map_err(failed)?;
    let columns = statement.column_count();
    let mut found = statement.query([first, last]).map_err(failed)?;
    let mut digests = BTreeMap::new();
    let mut open: Option<(i64, ChunkHasher)> = None;
    while let Some(row) = found.next().map_err(failed)? {
        let id: i64 = row.get(0).map_err(failed)?;
        let chunk = id.div_euclid(FAN_OUT);
        if open.as_ref().is_none_or(|(at, _)| *at != chunk)
            && let Some((at, hasher)) = open.replace((chunk, ChunkHasher::new(table.name(), chunk)))
        {
            digests.insert(at, hasher.finish());
        }
        let Some((_, hasher)) = open.as_mut() else { continue };
        for column in 0..columns {
            hasher.cell(match row.get_ref(column).map_err(failed)? {
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
            });
        }
    }
    if let Some((at, hasher)) = open {
        digests.insert(at, hasher.finish());
    }
    Ok(digests)
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
