//! How a brain comes to be on this machine.
//!
//! Exactly one of: it is *present*; a *seed* of this program, copied on the first run only; a
//! *manifest* or a directory, checked against its hash; or a snapshot, which `snapshot` restores. A
//! new brain is put together aside and renamed into place, so it is either whole or not there.

use std::path::Path;

use super::bundle_files::BundleFiles;
use super::draft::Draft;
use super::history::StepKind;
use super::journal::{self, FileChange};
use super::open::{self, Brain, Opening};
use super::settle;
use super::tape;
use super::witness::Move;
use crate::bundle::{LOCK_SCHEMA, Lockfile, Tree};
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::fsio::{self, Root, Sync};
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout::{self, Layout};
use crate::memory::{self, Database, sql};
use crate::skill::{Usage, all_skills};

/// A canonical agent, as data.
#[derive(Debug, Clone, Copy)]
pub struct Seed<'a> {
    /// Its number.
    pub id: &'a BrainId,
    /// Its files by path.
    pub files: &'a [(&'a str, &'a [u8])],
}

/// Where a new brain comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A canonical agent.
    Seed(Seed<'a>),
    /// A manifest that carries its files.
    Manifest {
        /// The manifest.
        json: &'a [u8],
        /// The bundle hash the brain must have.
        expected: Option<Digest>,
    },
    /// A directory of files.
    Directory {
        /// The directory.
        path: &'a Path,
        /// The bundle hash the brain must have.
        expected: Option<Digest>,
    },
}

/// What hydrating did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hydrated {
    /// The brain was there; nothing was copied over it.
    Present,
    /// It was made.
    Created,
}

impl Brain {
    /// Opens a brain, making it from `source` if it is not there. What is there is never
    /// overwritten, whatever the source holds.
    pub fn hydrate(layout: &Layout, id: &BrainId, source: &Source<'_>, opening: &Opening) -> Result<(Self, Hydrated)> {
        fsio::create_dirs(layout.brains())?;
        let guard = open::take_lock(layout, id, opening.wait)?;
        if layout.brain(id).symlink_metadata().is_ok() {
            return Ok((Self::open_locked(layout, id, opening, guard)?, Hydrated::Present));
        }
        let bundle = BundleFiles::collect(source)?;
        open::clear_staging(layout, id)?;
        let staging = layout.staging(id);
        fsio::create_dirs(&staging)?;
        let made = put_together(&staging, id, &bundle, opening)
            .and_then(|()| fsio::rename_durably(&staging, &layout.brain(id)));
        if let Err(error) = made {
            // The error is what matters; what cannot be removed now goes with the next try.
            if let Err(left) = fsio::remove_tree(&staging) {
                tracing::warn!(error = %left, "a half-made brain is still there");
            }
            return Err(error);
        }
        Ok((Self::open_locked(layout, id, opening, guard)?, Hydrated::Created))
    }
}

/// Writes a whole brain into an empty directory and makes it durable.
fn put_together(path: &Path, id: &BrainId, bundle: &BundleFiles, opening: &Opening) -> Result<()> {
    let now = opening.clock.now();
    let root = Root::open(path)?;
    let mut tree = Tree::default();
    for (path, content) in &bundle.files {
        root.replace(path, content, Sync::Later)?;
        tree.set(path, Digest::of(content));
    }
    let database = Database::create(&path.join(layout::DATABASE))?;
    let failed = |source| sql("make memory.db", source);
    let transaction = database.connection.unchecked_transaction().map_err(failed)?;
    let undo = settle::write_rows(&transaction, &first_rows(bundle))?;
    let parts = settle::parts(&mut tree, &transaction)?;
    let bundle_hash = parts.root();
    if let Some(expected) = bundle.expected.filter(|expected| *expected != bundle_hash) {
        return Err(Error::refused(format!("the bundle hashes to {bundle_hash}, and {expected} was expected"))
            .hint("get the bundle again from where the hash comes from; nothing was written"));
    }
    let lock = Lockfile {
        schema: LOCK_SCHEMA.to_owned(),
        bundle_hash,
        version: 1,
        last_updated: now,
        parent: None,
        parts,
        origin: bundle.origin.clone(),
    };
    journal::create_state(&transaction, &lock)?;
    let seq = journal::add_step(&transaction, StepKind::Create, &bundle.summary, now, &lock, None)?;
    memory::undo::keep(&transaction, seq, &undo)?;
    let mut files = Vec::new();
    for (path, digest) in tree.iter() {
        if let Some(content) = bundle.files.get(path) {
            journal::keep_blob(&transaction, &digest, content)?;
        }
        let change = FileChange { path: path.clone(), before: None, after: Some(digest) };
        journal::add_change(&transaction, seq, &change)?;
        files.push(change.record());
    }
    let moved = Move {
        brain: id,
        seq: 0,
        kind: StepKind::Create,
        summary: &bundle.summary,
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
    transaction.commit().map_err(failed)?;
    settle::write_sidecar(&database, &root)?;
    root.replace(&layout::rel(layout::LOCK)?, &lock.to_bytes()?, Sync::Later)?;
    if let Some(receipt) = receipt {
        let line = format!("{}\n", receipt.envelope);
        root.replace(&layout::rel(layout::RECEIPTS)?, line.as_bytes(), Sync::Later)?;
    }
    drop(database);
    root.clear_temporaries()?;
    let mut paths: Vec<RelPath> = bundle.files.keys().cloned().collect();
    for name in [layout::LOCK, layout::USAGE_SIDECAR, layout::DATABASE, layout::RECEIPTS] {
        paths.push(layout::rel(name)?);
    }
    // Syncing thousands of files one by one takes seconds; the whole file system takes one call.
    if paths.len() > 64 && root.sync_file_system()? { Ok(()) } else { settle::sync_files(&root, &paths) }
}

/// The telemetry of the skills a brain begins with. It depends on the files alone and not on the
/// moment (they were made "at 0"), so that the same bundle always has the same hash.
fn first_rows(bundle: &BundleFiles) -> Draft {
    let mut draft = Draft::new();
    let paths: Vec<RelPath> = bundle.files.keys().cloned().collect();
    for place in all_skills(&paths, layout::SKILLS_DIR) {
        draft.usage.entry(place.slug).or_insert_with(|| Usage::new(bundle.created_by, Moment(0)));
    }
    draft
}
