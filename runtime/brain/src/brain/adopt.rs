//! Adopting what someone changed by hand, as a step of its own, so that no later step is blamed for it. A repair adopts
//! what is left after a loss in the same way.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::commit::{self, Base, Contents, StepPlan, Summary};
use super::history::StepKind;
use super::journal::{self, FileChange};
use super::manifest::BrainManifest;
use super::open::Brain;
use super::repair::Repair;
use super::settle::SettledStep;
use super::verify::{self, Drift};
use crate::bundle::{PartDigests, Tree};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fsio::{Dir, Root};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::undo::RowUndo;
use crate::memory::{self, Database};
use crate::skill::{self, CreatedBy, SkillUsage};

impl Brain {
    /// Takes over what someone changed by hand, as a step of its own. `None` where there is nothing to take over.
    pub fn adopt(&mut self) -> Result<Option<SettledStep>> {
        self.take_over(None)
    }

    /// Takes over what is there as a step of its own: edits by hand, or what is left after a loss.
    pub(super) fn take_over(&mut self, repair: Option<Repair<'_>>) -> Result<Option<SettledStep>> {
        self.check_committable()?;
        let found = self.edits()?;
        let earlier = std::mem::replace(&mut self.tree, OnceCell::from(found.tree.clone()));
        self.settling = true;
        let committed = self.commit_edits(found, repair);
        self.settling = false;
        if committed.is_err() {
            self.tree = earlier;
            return committed;
        }
        // The files are there already; only the lock and the receipt are still to be written. The step stands, also
        // where that has to wait for the next open.
        if let Err(error) = self.write_lock_and_receipts().and_then(|()| self.flush()) {
            tracing::warn!(brain = %self.id(), %error, "files of an adopted step are still to be written");
        }
        committed
    }

    /// What is on the disk now, checked for whether it can be a brain.
    fn edits(&self) -> Result<Edits> {
        let problems = self.database.integrity()?;
        if let Some(problem) = problems.first() {
            return Err(Error::corrupt(format!("memory.db is damaged and cannot be taken over: {problem}"))
                .hint("restore the brain from a snapshot"));
        }
        let looked = verify::scan_files(&self.root, Dir::default())?;
        if let Some(odd) = looked.survey.odd.first() {
            return Err(Error::refused(format!("{} is {} and cannot be part of a brain", odd.path, odd.what))
                .hint("replace it with a regular file, or remove it"));
        }
        let (tree, _) = verify::tree_of(&looked.top)?;
        if tree.get(&layout::rel(layout::SYSTEM)?).is_none() {
            return Err(Error::refused("system.md is gone, and a brain without its role cannot be taken over")
                .hint("put system.md back; its last settled content is in the brain's history"));
        }
        let manifest = layout::rel(layout::MANIFEST)?;
        if tree.get(&manifest).is_some()
            && let Some(bytes) = self.root.read(&manifest, layout::MAX_FILE_BYTES)?
        {
            BrainManifest::parse(&bytes)?;
        }
        let drift = Drift::between(&self.database, &tree, false)?;
        let known = journal::entries(&self.database.connection)?;
        let paths = drift.changed.iter().chain(&drift.added).chain(&drift.removed);
        let changes = paths
            .map(|path| FileChange { path: path.clone(), before: known.get(path).copied(), after: tree.get(path) })
            .collect();
        Ok(Edits {
            new_skills: new_skills(&drift.added, &known, &tree),
            rewritten: rewritten(&self.database, &tree, &drift.changed)?,
            survey: looked.top,
            tree,
            changes,
        })
    }

    fn commit_edits(&mut self, found: Edits, repair: Option<Repair<'_>>) -> Result<Option<SettledStep>> {
        let Edits { changes, survey, tree: files, new_skills, rewritten } = found;
        let before = repair.map_or_else(|| self.lock.clone(), |(lost, _)| lost.chained.clone());
        // After a loss nobody knows who wrote what is there: it gets no more trust than what an agent wrote.
        let (created_by, rewritten) =
            if repair.is_some() { (CreatedBy::Agent, Vec::new()) } else { (CreatedBy::User, rewritten) };
        let now = self.clock().now();
        let adopted = |parts: &PartDigests| {
            // What is noted here of whose a skill is was not changed by hand.
            let usage_edited = parts.usage != before.parts.usage && rewritten.is_empty();
            summary(changes.len(), usage_edited || parts.memory != before.parts.memory)
        };
        let repaired = repair.map(|(lost, _)| lost.line());
        let plan = StepPlan {
            brain: &self.id,
            signer: self.signer.as_deref(),
            now,
            kind: if repair.is_some() { StepKind::Repair } else { StepKind::Adopt },
            summary: repaired.as_deref().map_or(Summary::OfParts(&adopted), Summary::Text),
            report: repair.map(|(_, report)| report),
            base: match repair {
                None => Base::Edited(&self.lock),
                Some((lost, _)) => Base::Lost { lost, lock: &self.lock },
            },
            changes: &changes,
            contents: &FilesOnDisk(&self.root),
            telemetry: None,
            transcript: None,
        };
        let tree = self.tree.get_mut().ok_or_else(|| Error::internal("the tree is not built"))?;
        let committed = commit::commit_step(&self.database.connection, tree, &plan, |connection| {
            write_rows(connection, &files, &new_skills, created_by, &rewritten, now)
        });
        let committed = self.or_poison(committed)?;
        self.survey = survey;
        self.drift = None;
        self.changed_files.extend(changes.iter().map(|change| change.path.clone()));
        let settled = committed.as_ref().map(|committed| SettledStep::moved(&before, committed, &changes));
        if let Some(committed) = committed {
            self.lock = committed.lock;
        }
        self.unflushed = true;
        self.behind = true;
        Ok(settled)
    }
}

/// What was changed by hand.
struct Edits {
    changes: Vec<FileChange>,
    tree: Tree,
    survey: Dir,
    /// Skills whose main file was put there.
    new_skills: Vec<Slug>,
    /// Skills whose main file was rewritten, with what is recorded of them.
    rewritten: Vec<(Slug, SkillUsage)>,
}

/// The contents of files that are already in place.
struct FilesOnDisk<'a>(&'a Root);

impl Contents for FilesOnDisk<'_> {
    fn of(&self, change: &FileChange) -> Result<[Option<Cow<'_, [u8]>>; 2]> {
        let Some(digest) = change.after else { return Ok([None, None]) };
        match self.0.read(&change.path, layout::MAX_FILE_BYTES)? {
            Some(content) if Digest::of(&content) == digest => Ok([None, Some(Cow::Owned(content))]),
            _ => Err(Error::conflict(format!("{} is being changed right now", change.path))
                .hint("try again when nobody edits the brain")),
        }
    }
}

/// Writes what adopting notes of skills, and counts rows that were written by hand.
fn write_rows(
    connection: &Connection,
    tree: &Tree,
    new_skills: &[Slug],
    created_by: CreatedBy,
    rewritten: &[(Slug, SkillUsage)],
    now: Timestamp,
) -> Result<Vec<RowUndo>> {
    let mut writer = memory::MemoryWriter::new(connection);
    for slug in new_skills {
        // What is recorded of an earlier skill of that name is not about this one.
        writer.usage(slug, &SkillUsage::new(created_by, now))?;
    }
    for (slug, usage) in rewritten {
        // A person's words now: nothing unattended writes them again.
        writer.usage(slug, &SkillUsage { created_by: CreatedBy::User, ..usage.clone() })?;
    }
    let undo = writer.into_undo();
    memory::rehash(connection)?;
    memory::rebuild_indexes(connection)?;
    journal::replace_entries(connection, tree.iter())?;
    Ok(undo)
}

/// The skills whose main file is among these, with what is recorded of them.
fn rewritten(database: &Database, tree: &Tree, changed: &[RelPath]) -> Result<Vec<(Slug, SkillUsage)>> {
    let paths: Vec<RelPath> = tree.below(layout::SKILLS_DIR).cloned().collect();
    let mut found = Vec::new();
    for place in skill::all_skills(&paths, layout::SKILLS_DIR) {
        if changed.contains(&place.main) {
            let usage = database.skill_usage_of(&place.slug)?;
            found.extend(usage.map(|usage| (place.slug, usage)));
        }
    }
    Ok(found)
}

/// The skills whose main files are among the files that were added, unless they were only moved.
fn new_skills(added: &[RelPath], known: &BTreeMap<RelPath, Digest>, tree: &Tree) -> Vec<Slug> {
    let before: Vec<RelPath> = known.keys().cloned().collect();
    let active = |place: &skill::SkillLocation| !place.main.as_str().starts_with(&format!("{}/", layout::ARCHIVE_DIR));
    let known: BTreeSet<Slug> =
        skill::all_skills(&before, layout::SKILLS_DIR).filter(active).map(|place| place.slug).collect();
    let all: Vec<RelPath> = tree.below(layout::SKILLS_DIR).cloned().collect();
    skill::all_skills(&all, layout::SKILLS_DIR)
        .filter(|place| active(place) && added.contains(&place.main) && !known.contains(&place.slug))
        .map(|place| place.slug)
        .collect()
}

/// The step in a line.
fn summary(files: usize, rows: bool) -> String {
    let files_word = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    let what = match (files, rows) {
        (0, _) => "rows of memory.db".to_owned(),
        (_, false) => files_word,
        (_, true) => format!("{files_word} and rows of memory.db"),
    };
    format!("adopted {what} changed by hand")
}
