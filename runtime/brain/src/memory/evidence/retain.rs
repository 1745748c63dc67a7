//! Letting go of evidence: by age, and the oldest first where it takes too much room.

use rusqlite::Connection;

use super::fold::{self, TURN_WEIGHT};
use super::{DAY, day_of, next_number};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::memory::db::sql;

/// Rows that go in one transaction.
const BATCH: i64 = 2_000;

/// What is still to go.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// Rows before this moment are too old.
    before: i64,
    /// The bytes that counted rows may take; `None` where they fit.
    room: Option<i64>,
}

/// Lets go of a batch of evidence that is older than `keep_days` whole days or beyond `most_bytes`; how
/// many rows went and whether there is more. Inside a transaction of the caller's. Only what is counted
/// goes, and its counts stay until their day is too old, so that they stay true. Writes nothing, and
/// looks at a handful of rows only, where nothing is due.
pub(crate) fn keep_window(
    connection: &Connection,
    now: Timestamp,
    keep_days: u32,
    most_bytes: u64,
) -> Result<(u64, bool)> {
    let mark = fold::mark(connection)?.unwrap_or_default();
    let most = i64::try_from(most_bytes).unwrap_or(i64::MAX);
    let due = Due {
        before: (day_of(now.millis()) - i64::from(keep_days)).saturating_mul(DAY),
        // Some more than must: else the next row would be one too many again.
        room: (mark.bytes > most).then_some(most - most / 16),
    };
    let over = |bytes: i64| due.room.is_some_and(|room| bytes > room);
    let oldest = oldest_rows(connection, due)?;
    let some_are_left = oldest.len() as i64 == BATCH;
    if !oldest.is_empty() {
        number_from(connection)?;
    }
    let (mut bytes, mut cut, mut gone) = (mark.bytes, due.before, 0);
    for (at, id) in oldest {
        if at >= due.before && !over(bytes) {
            break;
        }
        cut = cut.max(at);
        bytes -= remove(connection, at, id)?;
        gone += 1;
    }
    // What was asked goes with what came of it.
    let (turns, weight) = remove_turns(connection, "at < ?1", cut, mark.turned)?;
    gone += turns;
    bytes -= weight;
    if !some_are_left && over(bytes) {
        let oldest = "id IN (SELECT id FROM evidence_turns ORDER BY at, id LIMIT ?1)";
        let (turns, weight) = remove_turns(connection, oldest, BATCH, mark.turned)?;
        gone += turns;
        bytes -= weight;
    }
    gone += execute(connection, "DELETE FROM evidence_sessions WHERE at < ?1", due.before)?;
    gone += execute(connection, "DELETE FROM evidence_tallies WHERE day < ?1", day_of(due.before))?;
    if gone > 0 {
        let put = "UPDATE evolver_state SET bytes = ?1, \
            turned = min(turned, coalesce((SELECT max(id) FROM evidence_turns), 0))";
        execute(connection, put, bytes.max(0))?;
    }
    Ok((gone, gone > 0 && (over(bytes) || (some_are_left && due.room.is_none()))))
}

/// The oldest rows, where they are too old or there is too much.
fn oldest_rows(connection: &Connection, due: Due) -> Result<Vec<(i64, i64)>> {
    let failed = |source| sql("read memory.db", source);
    let mut statement = connection
        .prepare_cached(
            "SELECT at, evidence FROM evidence_by_skill WHERE skill = '' AND at < ?1 ORDER BY at, evidence LIMIT ?2",
        )
        .map_err(failed)?;
    let before = if due.room.is_some() { i64::MAX } else { due.before };
    let rows = statement.query_map([before, BATCH], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Numbers are never given twice, so the highest is remembered before its row may go.
fn number_from(connection: &Connection) -> Result<()> {
    let last = next_number(connection)? - 1;
    execute(connection, "UPDATE evolver_state SET numbered = ?1 WHERE numbered < ?1", last).map(|_| ())
}

/// Takes a row away; what it weighed.
fn remove(connection: &Connection, at: i64, id: i64) -> Result<i64> {
    let looked = fold::one(connection, id, |row| {
        let skills: Vec<String> = row.skills.iter().map(|skill| (*skill).to_owned()).collect();
        (skills, row.weight)
    })?;
    let (skills, weight) = looked.unwrap_or_default();
    execute(connection, "DELETE FROM evidence WHERE id = ?1", id)?;
    execute(connection, "DELETE FROM evidence_arguments WHERE evidence = ?1", id)?;
    for skill in std::iter::once("").chain(skills.iter().map(String::as_str)) {
        connection
            .prepare_cached("DELETE FROM evidence_by_skill WHERE skill = ?1 AND at = ?2 AND evidence = ?3")
            .and_then(|mut remove| remove.execute((skill, at, id)))
            .map_err(|source| sql("write memory.db", source))?;
    }
    Ok(weight)
}

/// Takes turns away; how many, and what they weighed.
fn remove_turns(connection: &Connection, which: &str, value: i64, weighed: i64) -> Result<(u64, i64)> {
    let weight: Option<i64> = connection
        .prepare_cached(&format!(
            "SELECT sum(CASE WHEN id <= ?2 THEN {TURN_WEIGHT} ELSE 0 END) FROM evidence_turns WHERE {which}"
        ))
        .and_then(|mut sum| sum.query_row([value, weighed], |row| row.get(0)))
        .map_err(|source| sql("read memory.db", source))?;
    match weight {
        None => Ok((0, 0)),
        Some(weight) => Ok((execute(connection, &format!("DELETE FROM evidence_turns WHERE {which}"), value)?, weight)),
    }
}

fn execute(connection: &Connection, query: &str, value: i64) -> Result<u64> {
    connection
        .prepare_cached(query)
        .and_then(|mut run| run.execute([value]))
        .map(|count| count as u64)
        .map_err(|source| sql("write memory.db", source))
}
