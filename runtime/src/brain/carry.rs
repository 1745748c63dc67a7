//! A brain on its way: everything in it at one moment, and putting it together where it arrives.

use std::path::PathBuf;

use super::journal;
use super::open;
use super::reader::Reader;
use super::settle;
use super::tape;
use crate::bundle::{Lockfile, Parts, Tree};
use crate::error::{Error, Result};
use crate::fsio::{self, OsLock, Root, Sync};
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout::{self, Layout};
use crate::memory::{self, Access, Carried, Database, SCHEMA_VERSION, sql};

/// A brain at one moment, while others go on writing.
#[derive(Debug)]
pub(crate) struct Moment<'r> {
    pub(crate) database: &'r Database,
    pub(crate) lock: Lockfile,
    /// The number and the digest of the last receipt.
    pub(crate) receipt: Option<(u64, String)>,
}

impl Reader {
    /// Shows the brain as it is at one moment. What is written meanwhile is not seen.
    pub(crate) fn at_one_moment<T>(&self, look: impl FnOnce(&Moment<'_>) -> Result<T>) -> Result<T> {
        let connection = &self.database.connection;
        let held = connection.unchecked_transaction().map_err(|source| sql("read memory.db", source))?;
        let lock = journal::load_state(connection)?.lock;
        let head = tape::head(connection)?;
        let receipt = head.digest.map(|digest| (head.seq, digest));
        let seen = look(&Moment { database: &self.database, lock, receipt })?;
        held.rollback().map_err(|source| sql("read memory.db", source))?;
        Ok(seen)
    }

    /// Whether the brain was once at this version with this hash, and with this last receipt.
    pub(crate) fn has_been(&self, version: u64, bundle: &Digest, receipt: Option<(u64, &str)>) -> Result<bool> {
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

/// A brain that is being put together aside. Nobody sees it before [`Arrival::settle_in`].
#[derive(Debug)]
pub(crate) struct Arrival {
    id: BrainId,
    target: PathBuf,
    staging: PathBuf,
    database: Database,
    tables: Vec<Carried>,
    // Last, so that the lock is released after everything else is closed.
    _guard: OsLock,
}

/// What is in the place where a brain is to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    /// A brain that is there is an error.
    Refuse,
    /// A brain that is there is set aside, and stays there.
    SetAside,
}

impl Arrival {
    /// Takes the brain's lock and makes an empty database of an earlier or the present schema.
    pub(crate) fn begin(layout: &Layout, id: &BrainId, wait: std::time::Duration, schema: i64) -> Result<Self> {
        if !(1..=SCHEMA_VERSION).contains(&schema) {
            return Err(Error::corrupt(format!(
                "the snapshot has a memory.db of schema {schema}, and this herm knows schemas up to {SCHEMA_VERSION}"
            ))
            .hint("restore it with the herm that wrote it, or a newer one"));
        }
        fsio::create_dirs(layout.brains())?;
        let guard = open::take_lock(layout, id, wait)?;
        open::clear_staging(layout, id)?;
        let staging = layout.staging(id);
        fsio::create_dirs(&staging)?;
        let database = Database::create_for_arrival(&staging.join(layout::DATABASE), schema)?;
        let tables = memory::carried(&database.connection)?;
        for table in &tables {
            database.clear_rows(table)?;
        }
        database.begin_arrival()?;
        Ok(Self { id: id.clone(), target: layout.brain(id), staging, database, tables, _guard: guard })
    }

    /// The tables that must arrive, by name.
    pub(crate) fn tables(&self) -> &[Carried] {
        &self.tables
    }

    /// Puts rows into a table; how many there were.
    pub(crate) fn put_rows(&self, table: &Carried, rows: &[u8]) -> Result<u64> {
        self.database.put_rows(table, rows)
    }

    /// Makes what does not travel, writes the files, and checks that it all is what `lock` says.
    /// `receipts` is called with the lines of the tape, a batch at a time.
    pub(crate) fn complete(&self, lock: &Lockfile, receipts: &mut dyn FnMut(&[String]) -> Result<()>) -> Result<()> {
        let connection = &self.database.connection;
        let root = Root::open(&self.staging)?;
        let entries = journal::entries(connection)?;
        refuse_collisions(entries.keys())?;
        let mut tree = Tree::default();
        // Files are written while the indexes are built: neither needs the other.
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<(&RelPath, Vec<u8>)>>(BATCHES);
            let root = &root;
            let writing = scope.spawn(move || {
                receiver.into_iter().flatten().try_for_each(|(path, content)| root.write_new(path, &content))
            });
            let sent = read_files(connection, &entries, &mut |batch| sender.send(batch).is_ok());
            drop(sender);
            let built = sent.and_then(|()| self.database.finish_arrival());
            let written = writing.join().map_err(|_| Error::internal("writing files was interrupted"))?;
            // A file that could not be written is the reason why no more were wanted.
            written.and(built)
        })?;
        for (path, digest) in &entries {
            tree.set(path, *digest);
        }
        let parts: Parts = settle::parts(&mut tree, connection)?;
        if parts != lock.parts || parts.root() != lock.bundle_hash {
            return Err(Error::corrupt(format!(
                "what the snapshot holds hashes to {}, and its lock says {}",
                parts.root(),
                lock.bundle_hash
            ))
            .hint("nothing was put in place; restore an earlier snapshot"));
        }
        let last = journal::last_step(connection)?;
        journal::create_state(connection, lock)?;
        journal::mark_flushed(connection, last, false)?;
        check_tape(connection, &root, receipts)?;
        settle::write_sidecar(&self.database, &root)?;
        root.replace(&layout::rel(layout::LOCK)?, &lock.to_bytes()?, Sync::Later)
    }

    /// Makes everything durable and gives the brain its place; where the one went that was there.
    pub(crate) fn settle_in(self, layout: &Layout, in_place: InPlace) -> Result<Option<PathBuf>> {
        let Self { id, target, staging, database, _guard, .. } = self;
        drop(database);
        let path = staging.join(layout::DATABASE);
        // Brings an earlier schema up to date, and checks every table word for word.
        drop(Database::open(&path, Access::Write)?);
        let root = Root::open(&staging)?;
        root.clear_temporaries()?;
        let files = entry_paths(&path)?;
        // Syncing a few files does not wait for everyone else's; thousands are faster all at once.
        if files.len() <= FILES_ONE_BY_ONE || !root.sync_file_system()? {
            settle::sync_files(&root, &files)?;
        }
        let mut aside = None;
        if in_place == InPlace::SetAside && target.symlink_metadata().is_ok() {
            let place = free_place(layout, &id)?;
            fsio::rename_durably(&target, &place)?;
            aside = Some(place);
        }
        fsio::rename_durably(&staging, &target)?;
        Ok(aside)
    }

    /// Throws away what was put together.
    pub(crate) fn abandon(self) {
        let staging = self.staging.clone();
        drop(self.database);
        // The reason for it is what matters; what cannot be removed now goes with the next try.
        if let Err(left) = fsio::remove_tree(&staging) {
            tracing::warn!(error = %left, "a half-restored brain is still there");
        }
    }
}

/// Up to so many files are synced one by one.
const FILES_ONE_BY_ONE: usize = 64;
/// Batches of files that wait to be written.
const BATCHES: usize = 16;
/// Bytes of a batch.
const BATCH_BYTES: usize = 4 << 20;

/// Reads the content of every file, a batch at a time, until nobody wants more.
fn read_files<'e>(
    connection: &rusqlite::Connection,
    entries: &'e std::collections::BTreeMap<RelPath, Digest>,
    send: &mut dyn FnMut(Vec<(&'e RelPath, Vec<u8>)>) -> bool,
) -> Result<()> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for (path, digest) in entries {
        let content = journal::blob(connection, digest).map_err(|_| {
            Error::corrupt(format!("the snapshot has no content for {path}")).hint("restore an earlier snapshot")
        })?;
        if content.len() as u64 > layout::MAX_FILE_BYTES {
            return Err(Error::corrupt(format!("{path} in the snapshot is larger than a file of a brain can be"))
                .hint("restore an earlier snapshot"));
        }
        bytes += content.len();
        batch.push((path, content));
        if bytes >= BATCH_BYTES {
            bytes = 0;
            if !send(std::mem::take(&mut batch)) {
                return Ok(());
            }
        }
    }
    send(batch);
    Ok(())
}

fn entry_paths(database: &std::path::Path) -> Result<Vec<RelPath>> {
    let database = Database::open(database, Access::Read)?;
    let mut paths: Vec<RelPath> = journal::entries(&database.connection)?.into_keys().collect();
    for name in [layout::LOCK, layout::USAGE_SIDECAR, layout::DATABASE, layout::RECEIPTS] {
        paths.push(layout::rel(name)?);
    }
    Ok(paths)
}

/// Where a brain that makes room goes: a place of its own, and nothing is ever removed from there.
fn free_place(layout: &Layout, id: &BrainId) -> Result<PathBuf> {
    fsio::create_dirs(&layout.aside())?;
    (1..10_000u32)
        .map(|number| layout.aside().join(format!("{id}-{number}")))
        .find(|place| place.symlink_metadata().is_err())
        .ok_or_else(|| {
            Error::refused(format!("{} is full of brains that were set aside", layout.aside().display()))
                .hint("move them elsewhere")
        })
}

/// Names that some file systems take for one another, so that a brain fits everywhere it is restored.
pub(crate) fn refuse_collisions<'p>(paths: impl Iterator<Item = &'p RelPath>) -> Result<()> {
    let mut seen = std::collections::BTreeMap::new();
    for path in paths {
        if let Some(other) = seen.insert(path.as_str().to_lowercase(), path) {
            return Err(Error::refused(format!("{other} and {path} differ in case alone"))
                .hint("rename one of them: not every file system can hold both"));
        }
    }
    Ok(())
}

const RECEIPTS_AT_ONCE: u64 = 256;

/// Writes the tape from the table, and hands it over to be checked.
fn check_tape(
    connection: &rusqlite::Connection,
    root: &Root,
    receipts: &mut dyn FnMut(&[String]) -> Result<()>,
) -> Result<()> {
    let path = layout::rel(layout::RECEIPTS)?;
    let last = tape::head(connection)?;
    let (mut next, mut ends_at) = (1, 0);
    while next <= last.seq {
        let batch = tape::batch(connection, next, next + RECEIPTS_AT_ONCE - 1)?;
        let mut text = String::new();
        for kept in &batch {
            text.push_str(&kept.envelope);
            text.push('\n');
            if kept.ends_at != ends_at + text.len() as u64 || kept.envelope.contains('\n') {
                return Err(Error::corrupt("the receipts of the snapshot are not as long as they say")
                    .hint("restore an earlier snapshot"));
            }
        }
        if batch.is_empty() {
            return Err(Error::corrupt("a receipt is missing in the snapshot").hint("restore an earlier snapshot"));
        }
        root.write_tail(&path, ends_at, text.as_bytes())?;
        ends_at += text.len() as u64;
        next += batch.len() as u64;
        receipts(&batch.into_iter().map(|kept| kept.envelope).collect::<Vec<_>>())?;
    }
    Ok(())
}
