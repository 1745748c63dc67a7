//! A copy of a brain as it is at this moment, even while its owner works on it: rows by SQLite's backup, files from the
//! journal. The original is neither locked nor changed.

use super::journal;
use super::reader::Reader;
use crate::bundle::Lockfile;
use crate::error::{Error, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::layout::{self, Layout};
use crate::memory::Database;

impl Reader {
    /// Puts a copy of this brain into `target`, which must not have it: the same version, the same hash, the same
    /// receipts. Nothing is synced: a copy is for looking at and throwing away.
    pub fn copy_into(&self, target: &Layout) -> Result<Lockfile> {
        let path = target.brain(self.id());
        if path.symlink_metadata().is_ok() {
            return Err(Error::conflict(format!("{} is there already", path.display())).hint("name an empty directory"));
        }
        fsio::create_dirs(&path)?;
        let database_path = path.join(layout::DATABASE);
        self.database.back_up(&database_path)?;
        let database = Database::open_writable(&database_path)?;
        let root = Root::open(&path)?;
        for (path, digest) in journal::entries(&database.connection)? {
            root.replace(&path, &journal::blob(&database.connection, &digest)?, SyncTiming::Later)?;
        }
        let lock = journal::load_state(&database.connection)?.lock;
        root.replace(&layout::rel(layout::LOCK)?, &lock.to_bytes()?, SyncTiming::Later)?;
        Ok(lock)
    }
}
