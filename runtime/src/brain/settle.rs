//! One step: a single transaction, then files that can be made again from it.

use rusqlite::TransactionBehavior;

use super::draft::Draft;
use super::history::StepKind;
use super::journal::{self, FileChange};
use super::open::Brain;
use crate::bundle::{Part, Parts, Tree};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::Sync;
use crate::ids::{Digest, RelPath};
use crate::layout;
use crate::memory::{self, Database, Table, Writer, sql};
use crate::skill;

/// How a step moved a brain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// Whether the bundle moved at all.
    pub moved: bool,
    /// The version now.
    pub version: u64,
    /// The bundle hash before.
    pub before: Digest,
    /// The bundle hash now.
    pub after: Digest,
    /// What moved.
    pub parts: Vec<Part>,
    /// The files that moved.
    pub files: Vec<RelPath>,
}

impl Brain {
    /// Commits `draft` as one step. On an error nothing has changed; on success the step is on
    /// the disk, and its files are in place (or are put there by the next open).
    pub fn settle(&mut self, draft: &Draft, kind: StepKind, summary: &str) -> Result<Settled> {
        self.check_usable()?;
        if self.behind {
            self.materialise()?;
        }
        self.tree()?;
        let changes = self.changes_of(draft)?;
        let before = self.lock.clone();
        self.put_in_tree(&changes, |change| change.after);
        let now = self.clock().now();
        let mut committed = self.commit(draft, &changes, kind, summary, now);
        if committed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corrupt) && !self.poisoned {
            // A damaged index is derived data and is built again; damaged rows fail here as well.
            committed = self.heal_indexes().and_then(|()| {
                tracing::warn!(brain = %self.id(), "the full-text index was damaged and has been rebuilt");
                self.commit(draft, &changes, kind, summary, now)
            });
        }
        let lock = match committed {
            Ok(Some(lock)) => lock,
            unmoved_or_failed => {
                self.put_in_tree(&changes, |change| change.before);
                return unmoved_or_failed.map(|_| Settled {
                    moved: false,
                    version: before.version,
                    before: before.bundle_hash,
                    after: before.bundle_hash,
                    parts: Vec::new(),
                    files: Vec::new(),
                });
            }
        };
        self.lock = lock;
        self.unflushed = true;
        self.behind = true;
        // The step is committed. Files that cannot be written now are written before the next
        // step or by the next open; the caller's answer stands either way.
        if let Err(error) = self.materialise() {
            tracing::warn!(brain = %self.id(), %error, "files of a settled step are still to be written");
        }
        Ok(Settled {
            moved: true,
            version: self.lock.version,
            before: before.bundle_hash,
            after: self.lock.bundle_hash,
            parts: before.parts.moved(&self.lock.parts),
            files: changes.into_iter().map(|(change, _)| change.path).collect(),
        })
    }

    fn put_in_tree(&mut self, changes: &[(FileChange, Option<Vec<u8>>)], to: impl Fn(&FileChange) -> Option<Digest>) {
        if let Some(tree) = self.tree.get_mut() {
            for (change, _) in changes {
                tree.put(&change.path, to(change));
            }
        }
    }

    /// The file changes a draft really makes, with the content of each before.
    fn changes_of(&self, draft: &Draft) -> Result<Vec<(FileChange, Option<Vec<u8>>)>> {
        let mut changes = Vec::new();
        for (path, content) in &draft.files {
            if Part::of(path.as_str()).is_none() {
                return Err(Error::invalid(format!("{path} is not part of a brain"))
                    .hint("docs/formats/brain.md lists what a brain holds"));
            }
            if content.as_ref().is_some_and(|content| content.len() as u64 > layout::MAX_FILE_BYTES) {
                return Err(Error::invalid(format!("{path} is larger than {} bytes", layout::MAX_FILE_BYTES))
                    .hint("make it smaller"));
            }
            let before = self.tree()?.get(path);
            let after = content.as_deref().map(Digest::of);
            if before != after {
                // Everything that could stand in the way of the file is found before the commit.
                let there = self.root.can_hold(path)?;
                if there && before.is_none() {
                    return Err(Error::conflict(format!(
                        "{path} of brain {} was put there by something other than herm",
                        self.id()
                    ))
                    .hint(format!(
                        "look with `herm brain verify {0}`; take it over with `herm brain adopt {0}`",
                        self.id()
                    )));
                }
                let old = self.read_content(path)?;
                changes.push((FileChange { path: path.clone(), before, after }, old));
            }
        }
        Ok(changes)
    }

    /// The transaction. `None` where the bundle would not move.
    fn commit(
        &mut self,
        draft: &Draft,
        changes: &[(FileChange, Option<Vec<u8>>)],
        kind: StepKind,
        summary: &str,
        now: Moment,
    ) -> Result<Option<crate::bundle::Lockfile>> {
        let failed = |source| sql("settle", source);
        let transaction =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        write_rows(&transaction, draft)?;
        let tree = self.tree.get_mut().ok_or_else(|| Error::internal("the tree is not built"))?;
        let parts = parts(tree, &transaction)?;
        let Some(lock) = self.lock.next(parts, now) else { return Ok(None) };
        let seq = journal::add_step(&transaction, kind, summary, now, &lock, Some(self.lock.bundle_hash))?;
        for (change, old) in changes {
            journal::add_change(&transaction, seq, change)?;
            let new = draft.files.get(&change.path).and_then(Option::as_ref);
            for (digest, content) in [(change.before, old.as_ref()), (change.after, new)] {
                if let (Some(digest), Some(content)) = (digest, content) {
                    journal::keep_blob(&transaction, &digest, content)?;
                }
            }
        }
        journal::save_lock(&transaction, &lock, !draft.usage.is_empty())?;
        if let Err(source) = transaction.commit() {
            let error = failed(source);
            // After a failed sync nobody knows what the disk holds: only a fresh open can tell.
            // A damaged index shows here too, but then nothing was written.
            self.poisoned = error.kind() != ErrorKind::Corrupt;
            return Err(error);
        }
        Ok(Some(lock))
    }

    /// Brings the files to what the journal says. Can be repeated at any time.
    pub(super) fn materialise(&mut self) -> Result<()> {
        for change in journal::unflushed(&self.database.connection, self.materialised)? {
            let path = &change.path;
            match change.after {
                None => self.root.remove(path)?,
                Some(digest) => {
                    let content = journal::blob(&self.database.connection, &digest)?;
                    self.root.replace(path, &content, Sync::Later)?;
                }
            }
            self.survey.forget(path);
            self.changed_files.push(path.clone());
        }
        self.root.replace(&layout::rel(layout::LOCK)?, &self.lock.to_bytes()?, Sync::Later)?;
        self.materialised = journal::last_step(&self.database.connection)?;
        self.behind = false;
        Ok(())
    }

    /// Makes the files of settled steps durable and empties the journal's redo list. Off the
    /// caller's path: until then a crash is repaired from the journal.
    pub fn flush(&mut self) -> Result<()> {
        self.check_usable()?;
        if self.behind {
            self.materialise()?;
        }
        if !self.unflushed {
            return Ok(());
        }
        let connection = &self.database.connection;
        let state = journal::load_state(connection)?;
        let last = journal::last_step(connection)?;
        let mut paths: Vec<RelPath> =
            journal::unflushed(connection, state.flushed)?.into_iter().map(|change| change.path).collect();
        paths.push(layout::rel(layout::LOCK)?);
        if state.sidecar_stale {
            write_sidecar(&self.database, &self.root)?;
            paths.push(layout::rel(layout::USAGE_SIDECAR)?);
        }
        sync_files(&self.root, &paths)?;
        // The checkpoint first: the write after it begins a new log, which takes a sync more, and
        // that must not fall on the next step.
        self.database.checkpoint()?;
        journal::mark_flushed(connection, last)?;
        self.unflushed = false;
        Ok(())
    }
}

/// Waits until files and the directories that name them are on the disk.
pub(super) fn sync_files(root: &crate::fsio::Root, paths: &[RelPath]) -> Result<()> {
    let mut dirs = std::collections::BTreeSet::new();
    for path in paths {
        root.sync(path)?;
        let mut above = path.parent();
        while let Some(dir) = above {
            above = dir.parent();
            dirs.insert(dir);
        }
    }
    // Deepest first: a directory is on the disk before the one that names it.
    for dir in dirs.iter().rev() {
        root.sync_dir(Some(dir))?;
    }
    root.sync_dir(None)
}

pub(super) fn write_sidecar(database: &Database, root: &crate::fsio::Root) -> Result<()> {
    let bytes = skill::sidecar(&database.skill_usage()?)?;
    root.replace(&layout::rel(layout::USAGE_SIDECAR)?, &bytes, Sync::Later)
}

pub(super) fn write_rows(connection: &rusqlite::Connection, draft: &Draft) -> Result<()> {
    let mut writer = Writer::new(connection);
    for message in &draft.messages {
        writer.message(message)?;
    }
    for fact in &draft.facts {
        writer.fact(fact)?;
    }
    for task in &draft.tasks {
        writer.task(task)?;
    }
    for (slug, usage) in &draft.usage {
        writer.usage(slug, usage)?;
    }
    writer.finish()
}

/// The digest of every part, from the tree and from the hash nodes of the rows.
pub(super) fn parts(tree: &mut Tree, connection: &rusqlite::Connection) -> Result<Parts> {
    let [system, layer1, skills, patterns] = file_parts(tree);
    let (usage, memory) = row_parts(connection)?;
    Ok(Parts { system, layer1, skills, patterns, usage, memory })
}

/// The digests of the parts made of files.
pub(super) fn file_parts(tree: &mut Tree) -> [Digest; 4] {
    [Part::System, Part::Layer1, Part::Skills, Part::Patterns].map(|part| tree.part(part))
}

/// The digests of the parts made of rows: usage and memory.
pub(super) fn row_parts(connection: &rusqlite::Connection) -> Result<(Digest, Digest)> {
    Ok((
        memory::stored(connection, Part::Usage.name(), &Table::USAGE)?,
        memory::stored(connection, Part::Memory.name(), &Table::MEMORY)?,
    ))
}
