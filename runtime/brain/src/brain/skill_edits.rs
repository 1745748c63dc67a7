//! What the gate of [`provenance`](crate::skill::provenance) is asked with: what is known of a skill, and what a step in
//! the making does to the files of each.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::open::Brain;
use super::undone_skills::UndoneSkills;
use crate::error::Result;
use crate::ids::{Digest, RelPath, Slug};
use crate::layout::{ARCHIVE_DIR, SKILLS_DIR};
use crate::skill::provenance::{SkillFacts, SkillWriter, WriteRuling, rule};
use crate::skill::{Files as _, SkillLocation, all_skills, store};

/// A file as a change would leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFileEdit {
    /// Where the file is, relative to the brain's directory.
    pub path: RelPath,
    /// What stood there, or in the files that moved there.
    pub before: Option<Vec<u8>>,
    /// What stands there afterwards; with none, the file is taken away.
    pub after: Option<Vec<u8>>,
    /// Whether its name is new.
    pub is_new: bool,
}

impl SkillFileEdit {
    /// The files that say something else than they did: what only moves says nothing new, and what is written in its place
    /// goes on from it.
    pub fn written(mut edits: Vec<Self>) -> Vec<Self> {
        let gone = edits.iter().filter(|file| file.after.is_none()).filter_map(|file| file.before.clone());
        let gone: Vec<Vec<u8>> = gone.collect();
        edits.retain(|file| file.after.as_ref().is_some_and(|after| !gone.contains(after)));
        for file in edits.iter_mut().filter(|file| file.before.is_none() && !gone.is_empty()) {
            file.before = Some(gone.join(&b"\n"[..]));
        }
        edits
    }
}

/// What a step in the making does to one skill, in the index or in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillEdits {
    /// The skill that the files belong to, before the step or after it.
    pub slug: Slug,
    /// Its files that would change, in path order.
    pub files: Vec<SkillFileEdit>,
    /// Whether it stands in the index before and after the step.
    pub active: (bool, bool),
}

impl Brain {
    /// What is known of a skill as the last step left it, active or in the archive; `None` where there is none.
    pub fn skill_facts(&self, slug: &Slug) -> Result<Option<SkillFacts>> {
        let mut nothing = Draft::new();
        let editor = self.edit(&mut nothing);
        let main = match store::find(&editor, slug)? {
            Some(place) => Some(place.main),
            None => {
                let archived = store::archived_skills(&editor.below(ARCHIVE_DIR)?);
                archived.into_iter().find(|(name, _)| name == slug).map(|(_, main)| main)
            }
        };
        let Some(main) = main else { return Ok(None) };
        let text = editor.read(&main)?.unwrap_or_default();
        Ok(Some(SkillFacts::of(editor.recorded_usage(slug)?.as_ref(), &text)))
    }

    /// What [`rule`] says to a writer who would leave these files of a skill.
    pub fn rule_on<'f>(
        &self,
        writer: SkillWriter,
        slug: &Slug,
        files: impl IntoIterator<Item = &'f [u8]>,
        undone: &UndoneSkills,
    ) -> Result<WriteRuling> {
        let there = self.skill_facts(slug)?;
        Ok(rule(writer, there, undone.judge_all(slug, there.is_some(), files)))
    }

    /// The skills whose files a draft changes, by name.
    pub fn skill_edits(&self, draft: &Draft) -> Result<Vec<SkillEdits>> {
        let skills = format!("{SKILLS_DIR}/");
        let mut edits = Vec::new();
        for (path, after) in draft.files().filter(|(path, _)| path.as_str().starts_with(&skills)) {
            if self.content_digest(path)? != after.map(Digest::of) {
                let before = self.read_content(path)?;
                let is_new = before.is_none();
                edits.push(SkillFileEdit { path: path.clone(), before, after: after.map(<[u8]>::to_vec), is_new });
            }
        }
        if edits.is_empty() {
            return Ok(Vec::new());
        }
        let settled = self.skill_paths()?;
        let gone: BTreeSet<&RelPath> =
            edits.iter().filter(|edit| edit.after.is_none()).map(|edit| &edit.path).collect();
        let new = edits.iter().filter(|edit| edit.is_new).map(|edit| edit.path.clone());
        let mut paths: Vec<RelPath> = settled.iter().filter(|path| !gone.contains(path)).cloned().chain(new).collect();
        paths.sort_unstable();
        // Two looks, for one skill may go and another come where it stood.
        let (before, after) = (SkillUnits::of(&settled), SkillUnits::of(&paths));
        let mut found: BTreeMap<Slug, Vec<SkillFileEdit>> = BTreeMap::new();
        for edit in edits {
            let owners = [before.owner(&edit.path), after.owner(&edit.path)];
            let owners: BTreeSet<&Slug> = owners.into_iter().flatten().collect();
            for slug in owners {
                found.entry(slug.clone()).or_default().push(edit.clone());
            }
        }
        let edits = found.into_iter().map(|(slug, files)| {
            let active = (before.active.contains(&slug), after.active.contains(&slug));
            SkillEdits { slug, files, active }
        });
        Ok(edits.collect())
    }
}

/// Which skill a file belongs to, among the files of a brain.
struct SkillUnits {
    /// Main files, and directories with a `/` at their end.
    units: BTreeMap<String, Slug>,
    active: BTreeSet<Slug>,
}

impl SkillUnits {
    /// `paths` are in path order.
    fn of(paths: &[RelPath]) -> Self {
        let unit = |main: &RelPath, dir: Option<RelPath>| dir.map_or_else(|| main.to_string(), |dir| format!("{dir}/"));
        let of = |place: SkillLocation| (unit(&place.main, place.dir()), place.slug);
        let mut units: BTreeMap<String, Slug> = all_skills(paths, SKILLS_DIR).map(of).collect();
        let active = units.values().cloned().collect();
        let archive = format!("{ARCHIVE_DIR}/");
        let archived: Vec<RelPath> = paths.iter().filter(|path| path.as_str().starts_with(&archive)).cloned().collect();
        units.extend(store::archived_places(&archived).map(of));
        Self { units, active }
    }

    fn owner(&self, path: &RelPath) -> Option<&Slug> {
        let above = |at: &RelPath| at.parent();
        let dirs = std::iter::successors(above(path), above).map(|dir| format!("{dir}/"));
        std::iter::once(path.to_string()).chain(dirs).find_map(|unit| self.units.get(&unit))
    }
}
