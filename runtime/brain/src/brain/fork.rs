//! A new brain from another one's content: the same bundle hash, a history and a chain of its own.

use std::path::Path;

use super::commit::{self, AlreadyKept, Base, StepPlan, Summary};
use super::history::StepKind;
use super::journal::{self, FileChange};
use super::open::{self, BrainOptions};
use super::reader::Reader;
use super::settle;
use crate::bundle::{BrainOrigin, Lockfile, Tree};
use crate::error::{Error, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::BrainId;
use crate::layout::{self, Layout};
use crate::memory::{self, Database, SCHEMA_VERSION, ScanControl, Table};

impl Reader {
    /// Makes brain `new` from this one as it was at a version, or as it is. Its files, memory and usage are
    /// those of then; receipts, journal, transcripts and evidence stay behind, for they are about this brain.
    pub fn fork(
        &self,
        version: Option<u64>,
        layout: &Layout,
        new: &BrainId,
        opening: &BrainOptions,
    ) -> Result<Lockfile> {
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
            .rewind_with(step + 1, &scratch, &opening.receipt_keys()?)
            .and_then(|_| Self::open(&scratch, self.id()))
            .and_then(|then| then.fork_as_it_is(layout, new, opening));
        fsio::remove_tree(scratch.brains())?;
        forked
    }

    fn fork_as_it_is(&self, layout: &Layout, new: &BrainId, opening: &BrainOptions) -> Result<Lockfile> {
        fsio::create_dirs(layout.brains())?;
        let _guard = open::take_lock(layout, new, opening.wait)?;
        open::clear_staging(layout, new)?;
        let staging = layout.staging(new);
        fsio::create_dirs(&staging)?;
        let made = self
            .with_read_view(|moment| put_together(moment.database, &moment.lock, self.id(), &staging, new, opening));
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
    opening: &BrainOptions,
) -> Result<Lockfile> {
    let now = opening.clock.now();
    let root = Root::open(path)?;
    let database = Database::create_for_restore(&path.join(layout::DATABASE), SCHEMA_VERSION)?;
    database.begin_restore()?;
    let content: Vec<&str> = Table::USAGE.into_iter().chain(Table::MEMORY).map(Table::name).collect();
    for table in memory::portable_tables(&from.connection)?.iter().filter(|table| content.contains(&table.name())) {
        from.read_rows(table, None, &mut |row| {
            database.put_rows(table, row.bytes, &mut None).map(|_| ScanControl::Continue)
        })?;
    }
    database.finish_restore()?;
    let connection = &database.connection;
    let mut tree = Tree::default();
    for (file, digest) in journal::entries(&from.connection)? {
        let bytes = journal::blob(&from.connection, &digest)?;
        root.replace(&file, &bytes, SyncTiming::Later)?;
        journal::keep_blob(connection, &digest, &bytes)?;
        tree.set(&file, digest);
    }
    let parts = settle::parts(&mut tree, connection)?;
    if parts != original.parts {
        return Err(Error::corrupt(format!("brain {id} is not what its lock says"))
            .hint(format!("see what differs with `herm brain verify {id}`")));
    }
    let origin = BrainOrigin::Fork { brain: id.clone(), version: original.version, bundle_hash: original.bundle_hash };
    let summary = format!("forked from version {} of brain {id}", original.version);
    let changes: Vec<FileChange> = tree
        .iter()
        .map(|(path, digest)| FileChange { path: path.clone(), before: None, after: Some(digest) })
        .collect();
    let plan = StepPlan {
        brain: new,
        signer: opening.signer.as_deref(),
        now,
        kind: StepKind::Create,
        summary: Summary::Text(&summary),
        report: None,
        base: Base::New { origin: &origin, expected: Some(original.bundle_hash) },
        changes: &changes,
        contents: &AlreadyKept,
        telemetry: None,
        transcript: None,
    };
    let committed = commit::commit_step(connection, &mut tree, &plan, |_| Ok(Vec::new()))?
        .ok_or_else(|| Error::internal("a new brain has no first step"))?;
    let lock = committed.lock.clone();
    commit::finish_new_brain(&root, database, &committed, changes.into_iter().map(|change| change.path))?;
    Ok(lock)
}
