//! Payments that were shown, each for one task.

use herm::{Error, Result, TaskId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use crate::server_db::failed;

/// Keeps a payment for a task. `Conflict` where it was shown before.
pub fn add(connection: &Connection, id: &[u8; 32], task: &TaskId, payment: &Value, at: Timestamp) -> Result<()> {
    let added = connection
        .prepare_cached("INSERT OR IGNORE INTO payments (id, task, payment, is_open, at) VALUES (?1, ?2, ?3, 1, ?4)")
        .and_then(|mut add| add.execute((id, task.as_str(), payment.to_string(), at.millis())))
        .map_err(failed)?;
    match added {
        0 => Err(Error::conflict("this payment was used already").hint("sign a new one for each task")),
        _ => Ok(()),
    }
}

/// The payment of a task that was neither taken nor let go; `None` where there is no such payment.
pub fn open(connection: &Connection, task: &TaskId) -> Result<Option<Value>> {
    let text: Option<String> = connection
        .prepare_cached("SELECT payment FROM payments WHERE task = ?1 AND is_open = 1")
        .and_then(|mut get| get.query_row([task.as_str()], |row| row.get(0)).optional())
        .map_err(failed)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Notes that a payment was taken, and what the facilitator said of it, before the answer is kept: a task that is run again
/// after a kill is not paid for again.
pub fn take(connection: &Connection, task: &TaskId, response: &str) -> Result<()> {
    close(connection, task)?;
    connection
        .prepare_cached("UPDATE tasks SET payment = ?2 WHERE id = ?1")
        .and_then(|mut put| put.execute((task.as_str(), response)))
        .map(|_| ())
        .map_err(failed)
}

/// Notes that a payment was taken, or that its task was not billable.
pub fn close(connection: &Connection, task: &TaskId) -> Result<()> {
    connection
        .prepare_cached("UPDATE payments SET is_open = 0 WHERE task = ?1")
        .and_then(|mut put| put.execute([task.as_str()]))
        .map(|_| ())
        .map_err(failed)
}

/// Lets go of payments that were shown before a moment, by when nobody could take them any more.
pub fn forget(connection: &Connection, before: Timestamp) -> Result<usize> {
    connection.execute("DELETE FROM payments WHERE is_open = 0 AND at < ?1", [before.millis()]).map_err(failed)
}
