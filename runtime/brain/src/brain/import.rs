//! Skills from elsewhere, taken over in one step.

use std::collections::BTreeSet;
use std::path::Path;

use super::editor::Editor;
use super::open::Brain;
use crate::error::{Error, Result};
use crate::fsio::SurveyLimits;
use crate::ids::RelPath;
use crate::skill::import::{
    self, OnNameConflict, SkillFilter, SkillImportReport, SkillImportTarget, SkillLibrary, TrustedSkills,
};
use crate::skill::{CreatedBy, SkillState, SkillUsage};

/// Files and directories that an import leaves free, so that the brain can go on learning.
const SPARE: usize = 1_000;

impl Brain {
    /// Reads the skills at `path`, which must lie outside of this brain.
    pub fn skill_library(&self, path: &Path) -> Result<SkillLibrary> {
        let real = |path: &Path| path.canonicalize().map_err(|source| Error::io("read", path, source));
        let (from, own) = (real(path)?, real(self.root.path())?);
        if from.starts_with(&own) || own.starts_with(&from) {
            return Err(Error::invalid(format!("{} is part of brain {}, or holds it", path.display(), self.id))
                .hint("files put into a brain by hand are taken over with `herm brain adopt ID`"));
        }
        SkillLibrary::read(path)
    }
}

impl Editor<'_> {
    /// Takes over the skills of a library. Their provenance is *imported*, or what the library records of them (a hub, a
    /// plugin, another program), also where one takes the place of another: what may run because a person wrote it must
    /// not run because it has the same name.
    ///
    /// What the guard refuses stays behind.
    pub fn import_skills(
        &mut self,
        library: SkillLibrary,
        only: &SkillFilter,
        namesakes: OnNameConflict,
    ) -> Result<SkillImportReport> {
        self.import_trusted_skills(library, only, namesakes, &TrustedSkills::default())
    }

    /// Like [`import_skills`](Self::import_skills), with skills that a person has read and trusts whatever the guard
    /// says of them. Say in the step's summary which: see [`SkillImportReport::step_summary`].
    pub fn import_trusted_skills(
        &mut self,
        library: SkillLibrary,
        only: &SkillFilter,
        namesakes: OnNameConflict,
        trusted: &TrustedSkills,
    ) -> Result<SkillImportReport> {
        let room = self.room()?;
        let pinned = |slug: &_| Ok(self.usage(slug)?.pinned);
        let target = SkillImportTarget { files: self, pinned: &pinned, room };
        let origins = library.origins.clone();
        let plan = import::plan(library, only, namesakes, trusted, &target)?;
        let report = plan.apply(self);
        for imported in &report.imported {
            let now = self.now();
            let created_by = origins.get(&imported.slug).copied().unwrap_or(CreatedBy::Imported);
            let usage = if imported.replaced {
                let before = self.usage(&imported.slug)?;
                SkillUsage {
                    created_by,
                    patch_count: before.patch_count.saturating_add(1),
                    last_patched_at: Some(now),
                    state: SkillState::Active,
                    archived_at: None,
                    ..before
                }
            } else {
                SkillUsage::new(created_by, now)
            };
            self.draft.usage.insert(imported.slug.clone(), usage);
        }
        Ok(report)
    }

    /// How many more files and directories the brain can hold.
    fn room(&self) -> Result<usize> {
        let tree = self.brain.tree()?;
        let mut dirs: BTreeSet<RelPath> = BTreeSet::new();
        let mut files = 0;
        for (path, _) in tree.iter() {
            files += 1;
            let mut at = path.parent();
            while let Some(dir) = at {
                at = dir.parent();
                if !dirs.insert(dir) {
                    break;
                }
            }
        }
        Ok(SurveyLimits::default().entries.saturating_sub(SPARE + files + dirs.len()))
    }
}
