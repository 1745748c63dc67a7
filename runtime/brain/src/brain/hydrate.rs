//! How a brain comes to be on this machine.
//!
//! Exactly one of: it is *present*; a *seed* of this program, copied on the first run only; a
//! *manifest* or a directory, checked against its hash; or a snapshot, which `snapshot` restores. A
//! new brain is put together aside and renamed into place, so it is either whole or not there.

use std::borrow::Cow;
use std::path::Path;

use super::bundle_files::BundleFiles;
use super::commit::{self, Base, Contents, StepPlan, Summary};
use super::draft::Draft;
use super::history::StepKind;
use super::journal::FileChange;
use super::open::{self, Brain, BrainOptions};
use super::settle;
use crate::bundle::Tree;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fsio::{self, Root, SyncTiming};
use crate::ids::{BrainId, Digest, RelPath};
use crate::layout::{self, Layout};
use crate::memory::Database;
use crate::skill::{SkillUsage, all_skills};

/// A canonical agent, as data.
#[derive(Debug, Clone, Copy)]
pub struct Seed<'a> {
    /// The number of the canonical agent; the lock of the new brain names it as the origin.
    pub id: &'a BrainId,
    /// Its files by path.
    pub files: &'a [(&'a str, &'a [u8])],
}

/// Where a new brain comes from.
#[derive(Debug, Clone, Copy)]
pub enum BrainSource<'a> {
    /// A canonical agent, given as data.
    Seed(Seed<'a>),
    /// A manifest that carries its files.
    Manifest {
        /// The bytes of the manifest: JSON with all files in it, see `docs/reference/manifest.md`.
        json: &'a [u8],
        /// The bundle hash the brain must have.
        expected: Option<Digest>,
    },
    /// A directory of files.
    Directory {
        /// The directory whose files are read. It stays as it is.
        path: &'a Path,
        /// The bundle hash the brain must have.
        expected: Option<Digest>,
    },
}

/// Whether [`Brain::hydrate`] found a brain or made one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HydrateOutcome {
    /// The brain was there; nothing was copied over it.
    Present,
    /// There was no brain; it was made from the source, with its first step.
    Created,
}

impl Brain {
    /// Opens a brain, making it from `source` if it is not there. What is there is never
    /// overwritten, whatever the source holds.
    pub fn hydrate(
        layout: &Layout,
        id: &BrainId,
        source: &BrainSource<'_>,
        opening: &BrainOptions,
    ) -> Result<(Self, HydrateOutcome)> {
        fsio::create_dirs(layout.brains())?;
        let guard = open::take_lock(layout, id, opening.wait)?;
        if layout.brain(id).symlink_metadata().is_ok() {
            return Ok((Self::open_locked(layout, id, opening, guard)?, HydrateOutcome::Present));
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
        Ok((Self::open_locked(layout, id, opening, guard)?, HydrateOutcome::Created))
    }
}

/// Writes a whole brain into an empty directory and makes it durable.
fn put_together(path: &Path, id: &BrainId, bundle: &BundleFiles, opening: &BrainOptions) -> Result<()> {
    let now = opening.clock.now();
    let root = Root::open(path)?;
    let mut tree = Tree::default();
    for (path, content) in &bundle.files {
        root.replace(path, content, SyncTiming::Later)?;
        tree.set(path, Digest::of(content));
    }
    let database = Database::create(&path.join(layout::DATABASE))?;
    let changes: Vec<FileChange> = tree
        .iter()
        .map(|(path, digest)| FileChange { path: path.clone(), before: None, after: Some(digest) })
        .collect();
    let plan = StepPlan {
        brain: id,
        signer: opening.signer.as_deref(),
        now,
        kind: StepKind::Create,
        summary: Summary::Text(&bundle.summary),
        report: None,
        base: Base::New { origin: &bundle.origin, expected: bundle.expected },
        changes: &changes,
        contents: bundle,
        telemetry: None,
        transcript: None,
    };
    let committed = commit::commit_step(&database.connection, &mut tree, &plan, |connection| {
        settle::write_rows(connection, &first_rows(bundle))
    })?
    .ok_or_else(|| Error::internal("a new brain has no first step"))?;
    commit::finish_new_brain(&root, database, &committed, bundle.files.keys().cloned())
}

impl Contents for BundleFiles {
    fn of(&self, change: &FileChange) -> Result<[Option<Cow<'_, [u8]>>; 2]> {
        Ok([None, self.files.get(&change.path).map(|content| Cow::Borrowed(content.as_slice()))])
    }
}

/// The telemetry of the skills a brain begins with. It depends on the files alone and not on the
/// moment (they were made "at 0"), so that the same bundle always has the same hash.
fn first_rows(bundle: &BundleFiles) -> Draft {
    let mut draft = Draft::new();
    let paths: Vec<RelPath> = bundle.files.keys().cloned().collect();
    for place in all_skills(&paths, layout::SKILLS_DIR) {
        draft.usage.entry(place.slug).or_insert_with(|| SkillUsage::new(bundle.created_by, Timestamp(0)));
    }
    draft
}
