//! A brain that arrives: put together aside, checked, and only then in its place.
//!
//! Three things go on at once: rows are put into the database, files are written as soon as their content is there,
//! and, where there is much text, the full-text index is built beside the database.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension as _;

use super::export::refuse_collisions;
use super::journal;
use super::journal_check;
use super::open;
use super::pipeline::{Pipeline, PipelineInput};
use super::receipt_keys::ReceiptKeys;
use super::receipt_log;
use super::settle;
use crate::bundle::{Lockfile, PartDigests, Tree};
use crate::error::{Error, Result};
use crate::fsio::{self, OsLock, Root, SyncTiming};
use crate::ids::{BrainId, Digest, RelPath, sha256};
use crate::layout::{self, Layout};
use crate::memory::{
    self, Database, DetachedIndex, IncomingCell, PortableTable, RowPosition, SCHEMA_VERSION, Table, sql,
};

/// A brain that is being put together aside. Nobody sees it before [`RestoreTarget::install`].
#[derive(Debug)]
pub struct RestoreTarget {
    id: BrainId,
    target: PathBuf,
    staging: PathBuf,
    database: Database,
    tables: Vec<PortableTable>,
    files: Option<Files>,
    /// All of them, once they are written.
    entries: BTreeMap<RelPath, Digest>,
    index: Option<Indexing>,
    // Last, so that the lock is released after everything else is closed.
    _guard: OsLock,
}

/// Rows of searched tables on their way into an index.
type Indexing = Pipeline<(PortableTable, Vec<u8>), DetachedIndex>;

/// The files of a brain, while their contents arrive.
#[derive(Debug)]
struct Files {
    all: BTreeMap<RelPath, Digest>,
    /// Where each content goes that has not come yet.
    wanted: HashMap<Digest, Vec<RelPath>>,
    writing: Pipeline<(Vec<RelPath>, Digest, Vec<u8>), ()>,
}

/// What a receipt that holds says of its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedReceipt {
    /// The digest of its statement.
    pub(crate) digest: String,
    /// The version after the step.
    pub(crate) version: u64,
    /// The bundle hash before it; none for the first.
    pub(crate) before: Option<String>,
    /// The bundle hash after it.
    pub(crate) after: Option<String>,
    /// The digest of what was said and done, for a task.
    pub(crate) transcript: Option<String>,
}

/// What is in the place where a brain is to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// A brain that is there is an error.
    Refuse,
    /// A brain that is there is set aside, and stays there.
    SetAside,
}

impl RestoreTarget {
    /// Takes the brain's lock and makes an empty database of an earlier or the present schema. `text_bytes` is about
    /// how much text will be searched.
    pub fn begin(
        layout: &Layout,
        id: &BrainId,
        wait: std::time::Duration,
        schema: i64,
        text_bytes: u64,
    ) -> Result<Self> {
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
        let database = Database::create_for_restore(&staging.join(layout::DATABASE), schema)?;
        let tables = memory::portable_tables(&database.connection)?;
        for table in &tables {
            database.clear_rows(table)?;
        }
        database.begin_restore()?;
        let index = (text_bytes >= INDEXED_BESIDE).then(|| {
            let path = staging.join(INDEX_FILE);
            Pipeline::spawn(MOST_WAITING, move |pieces: PipelineInput<(PortableTable, Vec<u8>)>| {
                let index = DetachedIndex::create(&path, schema)?;
                for (table, rows) in pieces {
                    index.add_rows(&table, &rows)?;
                }
                Ok(index)
            })
        });
        let target = layout.brain(id);
        Ok(Self {
            id: id.clone(),
            target,
            staging,
            database,
            tables,
            files: None,
            entries: BTreeMap::new(),
            index,
            _guard: guard,
        })
    }

    /// The tables that must arrive, by name.
    pub fn tables(&self) -> &[PortableTable] {
        &self.tables
    }

    /// Whether the rows of a table are searched for words.
    pub fn is_searched(table: &str) -> bool {
        DetachedIndex::is_of(table)
    }

    /// In which order tables should come: first what is searched, for indexing it takes longest, then the list of files
    /// and their contents, so that files are written and synced while the index is built.
    pub fn rank(table: &str) -> u8 {
        match table {
            searched if DetachedIndex::is_of(searched) => 0,
            FILES => 1,
            CONTENTS => 2,
            _ => 3,
        }
    }

    /// All rows of a table have come. After the contents nobody has to wait for more files: they are made durable while
    /// the rows of other tables arrive and are indexed.
    pub fn table_is_full(&mut self, table: &PortableTable) {
        if table.name() == CONTENTS
            && let Some(files) = &mut self.files
        {
            files.writing.close_input();
        }
    }

    /// Puts rows into a table; how many there were. `end` is where the rows before them ended, and then these.
    pub fn put_rows(&mut self, table: &PortableTable, rows: &[u8], end: &mut Option<RowPosition>) -> Result<u64> {
        let count = self.database.put_rows(table, rows, end)?;
        if table.name() == CONTENTS {
            self.write_files(table, rows)?;
        }
        if let Some(index) = self.index.as_ref().filter(|_| DetachedIndex::is_of(table.name())) {
            index.send((table.clone(), rows.to_vec()), rows.len());
        }
        Ok(count)
    }

    /// Hands the contents that files are waiting for to the thread that writes them.
    fn write_files(&mut self, table: &PortableTable, mut rows: &[u8]) -> Result<()> {
        let files = self.files()?;
        while !rows.is_empty() {
            let (cells, rest) = table.take_row(rows)?;
            rows = rest;
            let [IncomingCell::Blob(digest), IncomingCell::Blob(content)] = cells.as_slice() else { continue };
            let Ok(digest) = <[u8; 32]>::try_from(*digest).map(Digest::from) else { continue };
            if let Some(paths) = files.wanted.remove(&digest) {
                files.writing.send((paths, digest, content.to_vec()), content.len());
            }
        }
        Ok(())
    }

    /// The files that are wanted. The list of them must have arrived.
    fn files(&mut self) -> Result<&mut Files> {
        let files = match self.files.take() {
            Some(files) => files,
            None => {
                let all = journal::entries(&self.database.connection)?;
                refuse_collisions(all.keys())?;
                let mut wanted: HashMap<Digest, Vec<RelPath>> = HashMap::new();
                for (path, digest) in &all {
                    wanted.entry(*digest).or_default().push(path.clone());
                }
                let root = Root::open(&self.staging)?;
                Files { all, wanted, writing: Pipeline::spawn(MOST_WAITING, move |pieces| write_files(&root, pieces)) }
            }
        };
        Ok(self.files.insert(files))
    }

    /// Makes what does not travel, and checks that it all is what `lock` says. `receipts` is called with each line of
    /// the receipt log, and says what the step must have been.
    pub fn complete(
        &mut self,
        lock: &Lockfile,
        receipts: &mut dyn FnMut(&str) -> Result<VerifiedReceipt>,
    ) -> Result<()> {
        if let Some(path) = self.files()?.wanted.values().flatten().min() {
            return Err(
                Error::corrupt(format!("the snapshot has no content for {path}")).hint("restore an earlier snapshot")
            );
        }
        let root = Root::open(&self.staging)?;
        match self.index.take() {
            Some(index) => {
                self.database.finish_restore_with(|| index.finish())?;
                root.remove(&layout::rel(INDEX_FILE)?)?;
            }
            None => self.database.finish_restore()?,
        }
        if let Some(Files { all, writing, .. }) = self.files.take() {
            self.entries = all;
            writing.finish()?;
        }
        let connection = &self.database.connection;
        let mut tree = Tree::default();
        for (path, digest) in &self.entries {
            tree.set(path, *digest);
        }
        let parts: PartDigests = settle::parts(&mut tree, connection)?;
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
        root.replace(&layout::rel(layout::LOCK)?, &lock.to_bytes()?, SyncTiming::Later)
    }

    /// Makes everything durable and gives the brain its place; where the one went that was there.
    pub fn install(self, layout: &Layout, in_place: OnExisting) -> Result<Option<PathBuf>> {
        let Self { id, target, staging, database, entries, _guard, .. } = self;
        drop(database);
        let path = staging.join(layout::DATABASE);
        // Brings an earlier schema up to date, and checks every table word for word.
        drop(Database::open_writable(&path)?);
        let root = Root::open(&staging)?;
        root.clear_temporaries()?;
        let mut files: Vec<RelPath> = entries.into_keys().collect();
        for name in [layout::LOCK, layout::USAGE_SIDECAR, layout::DATABASE, layout::RECEIPTS] {
            files.push(layout::rel(name)?);
        }
        // Syncing a few files does not wait for everyone else's; thousands are faster all at once.
        if files.len() <= FILES_ONE_BY_ONE || !root.sync_file_system()? {
            settle::sync_files(&root, &files)?;
        }
        let mut aside = None;
        if in_place == OnExisting::SetAside && target.symlink_metadata().is_ok() {
            let place = free_place(layout, &id)?;
            fsio::rename_durably(&target, &place)?;
            aside = Some(place);
        }
        fsio::rename_durably(&staging, &target)?;
        Ok(aside)
    }

    /// The digests of the chunks of a table whose rows are hashed.
    pub fn chunk_digests(&self, table: Table) -> Result<BTreeMap<i64, Digest>> {
        self.database.chunk_digests(table)
    }

    /// Where it is put together.
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// Throws away what was put together.
    pub fn abandon(self) {
        let Self { staging, database, files, index, _guard, .. } = self;
        // The threads that still work there must have ended before it is removed. What they say does
        // not matter any more.
        if let Some(files) = files {
            let _ = files.writing.finish();
        }
        if let Some(index) = index {
            let _ = index.finish();
        }
        drop(database);
        // The reason for it is what matters; what cannot be removed now goes with the next try.
        if let Err(left) = fsio::remove_tree(&staging) {
            tracing::warn!(error = %left, "a half-restored brain is still there");
        }
    }
}

/// Up to so many files are synced one by one.
const FILES_ONE_BY_ONE: usize = 64;
/// The list of files, and their contents.
const FILES: &str = "entries";
const CONTENTS: &str = "blobs";
/// With less text than this the index is built at the end: a thread and a file of its own would cost more.
const INDEXED_BESIDE: u64 = 1 << 20;
/// Where it is built meanwhile, in the staging directory.
const INDEX_FILE: &str = "index.db";
/// Bytes that wait to be indexed, or to be written.
const MOST_WAITING: usize = 32 << 20;

/// Writes contents to their places in a directory that nobody sees yet.
fn write_files(root: &Root, pieces: PipelineInput<(Vec<RelPath>, Digest, Vec<u8>)>) -> Result<()> {
    let (mut writing, mut written) = (root.bulk_writer(), 0);
    for (paths, digest, content) in pieces {
        for path in paths {
            if Digest::of(&content) != digest {
                return Err(Error::corrupt(format!("the content of {path} in the snapshot is damaged"))
                    .hint("restore an earlier snapshot"));
            }
            if content.len() as u64 > layout::MAX_FILE_BYTES {
                return Err(Error::corrupt(format!("{path} in the snapshot is larger than a file of a brain can be"))
                    .hint("restore an earlier snapshot"));
            }
            writing.write(&path, &content)?;
            written += 1;
        }
    }
    // What is on the disk by then need not be waited for at the end.
    if written > FILES_ONE_BY_ONE {
        root.sync_file_system()?;
    }
    Ok(())
}

/// Where a brain that makes room goes: a place of its own, and nothing is ever removed from there.
pub(super) fn free_place(layout: &Layout, id: &BrainId) -> Result<PathBuf> {
    fsio::create_dirs(&layout.replaced_brains())?;
    (1..10_000u32)
        .map(|number| layout.replaced_brains().join(format!("{id}-{number}")))
        .find(|place| place.symlink_metadata().is_err())
        .ok_or_else(|| {
            Error::refused(format!("{} is full of brains that were set aside", layout.replaced_brains().display()))
                .hint("move them elsewhere")
        })
}

const RECEIPTS_AT_ONCE: u64 = 256;

/// Writes `receipts.ndjson` from the table, and hands each line over to be checked.
fn check_tape(
    connection: &rusqlite::Connection,
    root: &Root,
    receipts: &mut dyn FnMut(&str) -> Result<VerifiedReceipt>,
) -> Result<()> {
    let path = layout::rel(layout::RECEIPTS)?;
    let last = receipt_log::head(connection)?;
    let (mut next, mut ends_at) = (1, 0);
    while next <= last.seq {
        let batch = receipt_log::batch(connection, next, next + RECEIPTS_AT_ONCE - 1)?;
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
        for kept in &batch {
            check_step(connection, kept, &receipts(&kept.envelope)?)?;
        }
    }
    match journal_check::check(connection, 1, &ReceiptKeys::Any)?.wrong.first() {
        None => Ok(()),
        Some(what) => Err(Error::corrupt(format!("in the snapshot, {what}")).hint("restore an earlier snapshot")),
    }
}

/// Checks what the journal says of a step against its receipt, and what was kept of its task.
fn check_step(
    connection: &rusqlite::Connection,
    kept: &receipt_log::ReceiptLine,
    vouched: &VerifiedReceipt,
) -> Result<()> {
    let failed = |source| sql("read memory.db", source);
    let other = |what: &str| {
        Error::corrupt(format!("step {} of the snapshot {what}", kept.step)).hint("restore an earlier snapshot")
    };
    let step: Option<(i64, Option<String>, String)> = connection
        .prepare_cached("SELECT version, before, after FROM steps WHERE seq = ?1")
        .and_then(|mut get| get.query_row([kept.step], |row| row.try_into()).optional())
        .map_err(failed)?;
    let said = (i64::try_from(vouched.version).unwrap_or(-1), vouched.before.clone(), vouched.after.clone());
    if kept.digest != vouched.digest
        || step.map(|(version, before, after)| (version, before, Some(after))) != Some(said)
    {
        return Err(other("is not the one its receipt speaks of"));
    }
    let transcript: Option<(String, Vec<u8>)> = connection
        .prepare_cached("SELECT digest, content FROM transcripts WHERE step = ?1")
        .and_then(|mut get| get.query_row([kept.step], |row| row.try_into()).optional())
        .map_err(failed)?;
    match (transcript, &vouched.transcript) {
        // Old ones are let go of.
        (None, _) => Ok(()),
        (Some((digest, content)), Some(expected)) if digest == *expected && sha256(&content) == *expected => Ok(()),
        (Some(_), _) => Err(other("has another transcript than its receipt says")),
    }
}
