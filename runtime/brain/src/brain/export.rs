//! A brain about to leave: everything in it at one moment.

use super::journal;
use super::reader::Reader;
use super::receipt_log;
use crate::bundle::Lockfile;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath};
use crate::memory::{Database, sql};

/// A brain at one moment, while others go on writing.
#[derive(Debug)]
pub struct ReadView<'r> {
    /// Its rows, in one read transaction.
    pub database: &'r Database,
    /// Its lock as those rows have it.
    pub lock: Lockfile,
    /// The number and the digest of the last receipt.
    pub receipt: Option<(u64, String)>,
}

impl Reader {
    /// Shows the brain as it is at one moment. What is written meanwhile is not seen.
    pub fn with_read_view<T>(&self, look: impl FnOnce(&ReadView<'_>) -> Result<T>) -> Result<T> {
        let connection = &self.database.connection;
        let held = connection.unchecked_transaction().map_err(|source| sql("read memory.db", source))?;
        let lock = journal::load_state(connection)?.lock;
        let head = receipt_log::head(connection)?;
        let receipt = head.digest.map(|digest| (head.seq, digest));
        let seen = look(&ReadView { database: &self.database, lock, receipt })?;
        held.rollback().map_err(|source| sql("read memory.db", source))?;
        Ok(seen)
    }

    /// Whether the brain was once at this version with this hash, and with this last receipt.
    pub fn has_been(&self, version: u64, bundle: &Digest, receipt: Option<(u64, &str)>) -> Result<bool> {
        let connection = &self.database.connection;
        let Some(step) = journal::step_of_version(connection, version)? else { return Ok(false) };
        if self.after(step)? != *bundle {
            return Ok(false);
        }
        let Some((seq, digest)) = receipt else { return Ok(true) };
        let known: rusqlite::Result<String> = connection
            .prepare_cached("SELECT digest FROM receipts WHERE seq = ?1")
            .and_then(|mut get| get.query_row([i64::try_from(seq).unwrap_or(-1)], |row| row.get(0)));
        match known {
            Ok(known) => Ok(known == digest),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(false),
            Err(source) => Err(sql("read memory.db", source)),
        }
    }
}

/// Names that some file systems take for one another, so that a brain fits everywhere it is restored.
pub fn refuse_collisions<'p>(paths: impl Iterator<Item = &'p RelPath>) -> Result<()> {
    let mut seen = std::collections::BTreeMap::new();
    for path in paths {
        if let Some(other) = seen.insert(path.as_str().to_lowercase(), path) {
            return Err(Error::refused(format!("{other} and {path} differ in case alone"))
                .hint("rename one of them: not every file system can hold both"));
        }
    }
    Ok(())
}
