//! A copy of a brain as it was before one of its steps, from the journal alone.

use super::evidence;
use super::history::{self, StepRecord};
use super::journal;
use super::journal_check;
use super::reader::Reader;
use super::receipt_keys::ReceiptKeys;
use super::settle;
use crate::bundle::{LOCK_SCHEMA, Lockfile, Tree};
use crate::error::{Error, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::Digest;
use crate::layout::{self, Layout};
use crate::memory::{Database, sql, undo};

impl Reader {
    /// Puts a copy of this brain into `target` (which must not have it) as it was before the step
    /// `seq`. The copy's hash is computed from its content; its lock names it. Receipts of any key vouch for the journal.
    pub fn rewind(&self, seq: i64, target: &Layout) -> Result<Lockfile> {
        self.rewind_with(seq, target, &ReceiptKeys::Any)
    }

    /// The same, where only receipts of `keys` vouch for the journal.
    pub fn rewind_with(&self, seq: i64, target: &Layout, keys: &ReceiptKeys) -> Result<Lockfile> {
        let step = self.step(seq)?;
        if step.version < 2 {
            return Err(Error::invalid("before its first step there is no brain").hint("name a later step"));
        }
        journal_check::check(&self.database.connection, seq, keys)?.into_result(self.id())?;
        let path = target.brain(self.id());
        if path.symlink_metadata().is_ok() {
            return Err(Error::conflict(format!("{} is there already", path.display())).hint("name an empty directory"));
        }
        fsio::create_dirs(&path)?;
        let database_path = path.join(layout::DATABASE);
        self.copy_database(&database_path)?;
        let database = Database::open_writable(&database_path)?;
        let failed = |source| sql("rewind memory.db", source);
        let transaction = database.connection.unchecked_transaction().map_err(failed)?;
        for (_, change) in journal::changes(&transaction, seq, i64::MAX)?.into_iter().rev() {
            journal::put_entry(&transaction, &change.path, change.before)?;
        }
        undo::take_back(&transaction, seq - 1)?;
        evidence::take_back(&transaction, seq, journal::first_evidence(&transaction, seq)?)?;
        for table in ["transcripts", "receipts", "row_undo"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE step >= ?1"), [seq]).map_err(failed)?;
        }
        for table in ["steps", "changes"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE seq >= ?1"), [seq]).map_err(failed)?;
        }
        let root = Root::open(&path)?;
        let mut tree = Tree::default();
        for (path, digest) in journal::entries(&transaction)? {
            root.replace(&path, &journal::blob(&transaction, &digest)?, SyncTiming::Later)?;
            tree.set(&path, digest);
        }
        let parts = settle::parts(&mut tree, &transaction)?;
        if step.before != Some(parts.root()) {
            return Err(Error::corrupt(format!("brain {} cannot be brought back to before step {seq}", self.id()))
                .hint("its journal lacks something; use a snapshot of that version"));
        }
        let lock = Lockfile {
            schema: LOCK_SCHEMA.to_owned(),
            bundle_hash: parts.root(),
            version: (step.version - 1).unsigned_abs(),
            last_updated: step.at,
            parent: None,
            parts,
            origin: self.lock().origin.clone(),
        };
        journal::save_lock(&transaction, &lock, true)?;
        journal::mark_flushed(&transaction, seq - 1, true)?;
        transaction.commit().map_err(failed)?;
        root.replace(&layout::rel(layout::LOCK)?, &lock.to_bytes()?, SyncTiming::Later)?;
        Ok(lock)
    }

    /// The step with the number `seq`, with its file changes; `NotFound` where the journal has none.
    pub fn step(&self, seq: i64) -> Result<StepRecord> {
        history::expect(&self.database, self.id(), seq)
    }

    /// The hash of the bundle after a step.
    pub fn after(&self, seq: i64) -> Result<Digest> {
        self.step(seq).map(|step| step.after)
    }

    fn copy_database(&self, to: &std::path::Path) -> Result<()> {
        let name = to
            .to_str()
            .ok_or_else(|| Error::invalid(format!("{} is not UTF-8", to.display())).hint("name another directory"))?;
        self.database.copy_to(name)
    }
}
