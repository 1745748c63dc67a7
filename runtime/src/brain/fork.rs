//! A new brain from another one's content: the same bundle hash, a history and a chain of its own.

use std::path::Path;

use super::history::StepKind;
use super::journal::{self, FileChange};
use super::open::{self, Opening};
use super::reader::Reader;
use super::settle;
use super::tape;
use super::witness::Move;
use crate::bundle::{LOCK_SCHEMA, Lockfile, Origin, Tree};
use crate::error::{Error, Result};
use crate::fsio::{self, Root, Sync};
use crate::ids::BrainId;
use crate::layout::{self, Layout};
use crate::memory::{self, Database, Flow, SCHEMA_VERSION, Table, sql};

impl Reader {
    /// Makes brain `new` from this one as it was at a version, or as it is. Its files, memory and usage are
    /// those of then; receipts, journal, transcripts and evidence stay behind, for they are about this brain.
    pub fn fork(&self, version: Option<u64>, layout: &Layout, new: &BrainId, opening: &Opening) -> Result<Lockfile> {
        if layout.brain(new).symlink_metadata().is_ok() {
            return Err(Error::conflict(format!("brain {new} is already there")).hint("choose another number"));
        }
        let Some(version) = version.filter(|version| *version != self.lock().version) else {
            return self.fork_as_it_is(layout, new, opening);
        };
        let step = journal::step_of_version(&self.database.connection, version)?.ok_or_else(|| {
            Error::not_found(format!("brain {} never had a version {version}", self.id()))
                .hint(format!("see its versions with `herm brain history {}`", self.id()))
        })?;
        fsio::create_dirs(layout.brains())?;
        let scratch = Layout::new(layout.brains().join(format!(".staging-{new}-from")));
        fsio::remove_tree(scratch.brains())?;
        let forked = self
            .rewind(step + 1, &scratch)
            .and_then(|_| Self::open(&scratch, self.id()))
            .and_then(|then| then.fork_as_it_is(layout, new, opening));
        fsio::remove_tree(scratch.brains())?;
        forked
    }

    fn fork_as_it_is(&self, layout: &Layout, new: &BrainId, opening: &Opening) -> Result<Lockfile> {
        fsio::create_dirs(layout.brains())?;
        let _guard = open::take_lock(layout, new, opening.wait)?;
        open::clear_staging(layout, new)?;
        let staging = layout.staging(new);
        fsio::create_dirs(&staging)?;
        let made =
            self.at_one_moment(|moment| put_together(moment.database, &moment.lock, self.id(), &staging, new, opening));
        let made = made.and_then(|lock| fsio::rename_durably(&staging, &layout.brain(new)).map(|()| lock));
        if made.is_err() {
            fsio::remove_tree(&staging)?;
        }
        made
    }
}

/// Writes the forked brain into an empty directory and makes it durable.
fn put_together(
    from: &Database,
    original: &Lockfile,
    id: &BrainId,
    path: &Path,
    new: &BrainId,
    opening: &Opening,
) -> Result<Lockfile> {
    let now = opening.clock.now();
    let root = Root::open(path)?;
    let database = Database::create_for_arrival(&path.join(layout::DATABASE), SCHEMA_VERSION)?;
    database.begin_arrival()?;
    let content: Vec<&str> = Table::USAGE.into_iter().chain(Table::MEMORY).map(Table::name).collect();
    for table in memory::carried(&from.connection)?.iter().filter(|table| content.contains(&table.name())) {
        from.read_rows(table, None, &mut |row| database.put_rows(table, row.bytes, &mut None).map(|_| Flow::On))?;
    }
    database.finish_arrival()?;
    let connection = &database.connection;
    let mut tree = Tree::default();
    for (file, digest) in journal::entries(&from.connection)? {
        let bytes = journal::blob(&from.connection, &digest)?;
        root.replace(&file, &bytes, Sync::Later)?;
        journal::keep_blob(connection, &digest, &bytes)?;
        tree.set(&file, digest);
    }
    let parts = settle::parts(&mut tree, connection)?;
    if parts != original.parts {
        return Err(Error::corrupt(format!("brain {id} is not what its lock says"))
            .hint(format!("see what differs with `herm brain verify {id}`")));
    }
    let origin = Origin::Fork { brain: id.clone(), version: original.version, bundle_hash: original.bundle_hash };
    let lock = Lockfile {
        schema: LOCK_SCHEMA.to_owned(),
        bundle_hash: parts.root(),
        version: 1,
        last_updated: now,
        parent: None,
        parts,
        origin,
    };
    let summary = format!("forked from version {} of brain {id}", original.version);
    let transaction = connection.unchecked_transaction().map_err(|source| sql("fork memory.db", source))?;
    journal::create_state(&transaction, &lock)?;
    let seq = journal::add_step(&transaction, StepKind::Create, &summary, now, &lock, None)?;
    let mut files = Vec::new();
    for (file, digest) in tree.iter() {
        let change = FileChange { path: file.clone(), before: None, after: Some(digest) };
        journal::add_change(&transaction, seq, &change)?;
        files.push(change.record());
    }
    let moved = Move {
        brain: new,
        seq: 0,
        kind: StepKind::Create,
        summary: &summary,
        at: now,
        before: None,
        after: &lock,
        files: &files,
        previous: None,
        journal: None,
        report: None,
    };
    let receipt = tape::attest(&transaction, opening.witness.as_deref(), seq, moved)?;
    journal::mark_flushed(&transaction, seq, false)?;
    transaction.commit().map_err(|source| sql("fork memory.db", source))?;
    settle::write_sidecar(&database, &root)?;
    root.replace(&layout::rel(layout::LOCK)?, &lock.to_bytes()?, Sync::Later)?;
    if let Some(receipt) = receipt {
        let line = format!("{}\n", receipt.envelope);
        root.replace(&layout::rel(layout::RECEIPTS)?, line.as_bytes(), Sync::Later)?;
    }
    drop(database);
    root.clear_temporaries()?;
    let mut paths: Vec<_> = tree.iter().map(|(file, _)| file.clone()).collect();
    for name in [layout::LOCK, layout::USAGE_SIDECAR, layout::DATABASE, layout::RECEIPTS] {
        paths.push(layout::rel(name)?);
    }
    if !root.sync_file_system()? {
        settle::sync_files(&root, &paths)?;
    }
    Ok(lock)
}
