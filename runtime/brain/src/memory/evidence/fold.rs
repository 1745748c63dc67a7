//! Counting evidence: how many events and errors there were by day, skill and tool, and which rows a
//! skill has. Done later than the rows are written, in batches, so that a task pays nothing for it; a
//! mark says how far it is.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _};

use super::{EvidenceStatus, day_of, text};
use crate::error::Result;
use crate::memory::db::sql;

/// How many rows are counted at a time: this takes some tens of milliseconds.
pub(crate) const MOST_ROWS: i64 = 10_000;

/// How far counting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Evidence up to this number is counted.
    pub(super) tallied: i64,
    /// Turns up to this number are weighed.
    pub(super) turned: i64,
    /// Roughly how many bytes the counted rows take.
    pub(super) bytes: i64,
}

/// What counting needs of a row.
#[derive(Debug)]
pub(super) struct TallyRow<'r> {
    pub(super) id: i64,
    pub(super) at: i64,
    pub(super) tool: &'r str,
    pub(super) is_error: bool,
    /// The skills loaded before the call, each of them once.
    pub(super) skills: Vec<&'r str>,
    /// Roughly how many bytes it takes, with its arguments and its places in the indexes.
    pub(super) weight: i64,
}

impl TallyRow<'_> {
    pub(super) fn day(&self) -> i64 {
        day_of(self.at)
    }

    /// Whether it belongs to a skill; every row belongs to none in particular, `""`.
    pub(super) fn is_of(&self, skill: &str) -> bool {
        skill.is_empty() || self.skills.contains(&skill)
    }
}

const LIGHT: &str = "SELECT id, at, tool, status, skills, octet_length(task), octet_length(summary), \
    coalesce((SELECT 12 + octet_length(kept.arguments) FROM evidence_arguments kept WHERE kept.evidence = id), 0) \
    FROM evidence";

fn light<'r>(row: &'r rusqlite::Row<'_>) -> Result<TallyRow<'r>> {
    let number = |column| row.get::<_, i64>(column).map_err(|source| sql("read memory.db", source));
    let (tool, list) = (text(row, 2)?, text(row, 4)?);
    let mut skills: Vec<&str> = Vec::new();
    for skill in list.split(' ').filter(|skill| !skill.is_empty()) {
        if !skills.contains(&skill) {
            skills.push(skill);
        }
    }
    let long = |text: &str| text.len() as i64;
    // Measured: a row has some 90 bytes beside its texts, and 12 in each index with what it is found by.
    let found_by: i64 = skills.iter().map(|skill| long(skill) + 12).sum::<i64>() + 12;
    let weight = 90 + 2 * number(5)? + number(6)? + number(7)? + long(tool) + long(list) + found_by;
    let is_error = text(row, 3)? != EvidenceStatus::Ok.name();
    Ok(TallyRow { id: number(0)?, at: number(1)?, tool, is_error, skills, weight })
}

/// The rows with a number above `after`, `most` of them, in order.
pub(super) fn each_after(
    connection: &Connection,
    after: i64,
    most: i64,
    mut each: impl FnMut(&TallyRow<'_>),
) -> Result<()> {
    let failed = |source| sql("read memory.db", source);
    let mut statement =
        connection.prepare_cached(&format!("{LIGHT} WHERE id > ?1 ORDER BY id LIMIT ?2")).map_err(failed)?;
    let mut rows = statement.query([after, most]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        each(&light(row)?);
    }
    Ok(())
}

/// Shows the row with this number to `look`, before it is deleted. `None` where there is none.
pub(super) fn one<T>(connection: &Connection, id: i64, look: impl FnOnce(&TallyRow<'_>) -> T) -> Result<Option<T>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection.prepare_cached(&format!("{LIGHT} WHERE id = ?1")).map_err(failed)?;
    let mut rows = statement.query([id]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) => Ok(Some(look(&light(row)?))),
        None => Ok(None),
    }
}

pub(super) fn mark(connection: &Connection) -> Result<Option<Mark>> {
    connection
        .prepare_cached("SELECT tallied, turned, bytes FROM evolver_state")
        .and_then(|mut get| {
            get.query_row([], |row| Ok(Mark { tallied: row.get(0)?, turned: row.get(1)?, bytes: row.get(2)? }))
                .optional()
        })
        .map_err(|source| sql("read memory.db", source))
}

/// The highest numbers of evidence and of turns.
fn newest(connection: &Connection) -> Result<(i64, i64)> {
    connection
        .prepare_cached(
            "SELECT coalesce((SELECT max(id) FROM evidence), 0), coalesce((SELECT max(id) FROM evidence_turns), 0)",
        )
        .and_then(|mut get| get.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(|source| sql("read memory.db", source))
}

/// Counts the next rows that are not counted yet; whether there are more. Inside a transaction of the
/// caller's. Writes nothing where there is nothing new.
pub(crate) fn fold(connection: &Connection) -> Result<bool> {
    let failed = |source| sql("write memory.db", source);
    let mark = match mark(connection)? {
        Some(mark) => mark,
        // Someone lost the mark: what was counted cannot be told from what was not.
        None => {
            connection
                .execute_batch(
                    "DELETE FROM evidence_tallies; DELETE FROM evidence_by_skill; \
                     INSERT INTO evolver_state (one, tallied, turned, numbered, bytes) VALUES (1, 0, 0, 0, 0)",
                )
                .map_err(failed)?;
            Mark::default()
        }
    };
    let (rows, turns) = newest(connection)?;
    if rows <= mark.tallied && turns <= mark.turned {
        return Ok(false);
    }
    let mut tallies: BTreeMap<(i64, String, String), (i64, i64, i64)> = BTreeMap::new();
    let mut found_by: Vec<(String, i64, i64)> = Vec::new();
    let (mut tallied, mut bytes) = (mark.tallied, 0);
    each_after(connection, mark.tallied, MOST_ROWS, |row| {
        tallied = row.id;
        bytes += row.weight;
        for skill in std::iter::once("").chain(row.skills.iter().copied()) {
            let tally = tallies.entry((row.day(), skill.to_owned(), row.tool.to_owned())).or_default();
            *tally = (tally.0 + 1, tally.1 + i64::from(row.is_error), row.id);
            found_by.push((skill.to_owned(), row.at, row.id));
        }
    })?;
    for ((day, skill, tool), (events, errors, last)) in &tallies {
        connection
            .prepare_cached(
                "INSERT INTO evidence_tallies (day, skill, tool, events, errors, last) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (day, skill, tool) DO UPDATE SET \
                 events = events + excluded.events, errors = errors + excluded.errors, \
                 last = max(last, excluded.last)",
            )
            .and_then(|mut put| put.execute((day, skill, tool, events, errors, last)))
            .map_err(failed)?;
    }
    // In the order of their table, which is what it takes fastest.
    found_by.sort_unstable();
    for (skill, at, id) in &found_by {
        connection
            .prepare_cached("INSERT OR IGNORE INTO evidence_by_skill (skill, at, evidence) VALUES (?1, ?2, ?3)")
            .and_then(|mut put| put.execute((skill, at, id)))
            .map_err(failed)?;
    }
    connection
        .prepare_cached(&format!(
            "UPDATE evolver_state SET tallied = ?1, turned = ?3, bytes = max(0, bytes + ?4 + \
             coalesce((SELECT sum({TURN_WEIGHT}) FROM evidence_turns WHERE id > ?2), 0))"
        ))
        .and_then(|mut put| put.execute((tallied, mark.turned, turns.max(mark.turned), bytes)))
        .map_err(failed)?;
    Ok(tallied < rows)
}

/// Roughly how many bytes a turn takes, with its places in the indexes.
pub(super) const TURN_WEIGHT: &str = "100 + 2 * octet_length(task) + octet_length(model) + octet_length(platform) + octet_length(asked) \
     + octet_length(answered)";
