//! The brain as a task sees it: what is settled, with the step in the making already visible.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::dispatch::Disclosure;
use super::external_skills::ExternalListing;
use super::gate::{Gate, Overlay, SkillWriteOutcome, Write};
use super::loading::SessionEnv;
use crate::brain::{Brain, Draft, Editor, MemoryLayer};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::{Fact, HybridResults, MemorySource, QueryVector, Search, SearchResults};
use crate::skill::provenance::SkillWriter;
use crate::skill::visible::{VisibilityFilter, VisibleSkill, visible};
use crate::skill::{Document, Files as _, Form, MAIN_FILES, SkillLocation, all_skills, guard, store};
use crate::tuning::Tuning;

/// A skill as the index shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkillSummary {
    /// The skill's name, by which a task loads it.
    pub slug: Slug,
    /// What it does and when to use it.
    pub description: Arc<str>,
    /// The folder it stands in.
    pub category: Option<Arc<str>>,
    /// Whether it is outside the brain, where nobody here changes it.
    pub external: bool,
}

impl SkillSummary {
    fn of(seen: VisibleSkill<'_>) -> Self {
        Self {
            slug: seen.entry.place.slug.clone(),
            description: Arc::clone(&seen.entry.description),
            category: seen.entry.category.clone(),
            external: seen.external.is_some(),
        }
    }
}

/// A folder of skills.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Category {
    /// The name of the folder.
    pub name: Arc<str>,
    /// How many skills stand in it.
    pub skills: usize,
    /// What it is about, where it says so.
    pub description: String,
}

/// What a task did to a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillChange {
    /// The skill was made, with its main file.
    Created,
    /// The skill's main file or one of its support files changed.
    Changed,
    /// It went to the archive.
    Archived,
}

/// A skill that a task has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedSkill {
    /// The SHA-256 of its main file when it was last read.
    pub digest: Digest,
    /// The turn in which the task first had it; 0 where it did before the first.
    pub turn: u32,
}

/// What a task has made of its step so far.
#[derive(Debug, Clone)]
pub struct Savepoint {
    draft: Draft,
    loaded: BTreeMap<Slug, LoadedSkill>,
    changed: BTreeMap<Slug, SkillChange>,
    proposed: BTreeMap<Slug, Overlay>,
}

/// A brain that a task works on. The brain's place in the pool is held until this value is gone.
pub struct WorkingCopy {
    slot: OwnedMutexGuard<Option<Brain>>,
    draft: Draft,
    loaded: BTreeMap<Slug, LoadedSkill>,
    /// The turn of the call that works on it; 0 before the first.
    turn: u32,
    changed: BTreeMap<Slug, SkillChange>,
    at: Timestamp,
    /// The account is being written: no tool may change anything any more.
    closed: bool,
    pub(super) around: SessionEnv,
    /// The skills outside, as the session last heard of them.
    pub(super) heard: Option<ExternalListing>,
    pub(super) gate: Gate,
}

impl std::fmt::Debug for WorkingCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkingCopy").field("draft", &self.draft).finish_non_exhaustive()
    }
}

impl WorkingCopy {
    /// A working copy of the brain in `slot`. What the task writes carries the moment `at`.
    pub fn new(slot: OwnedMutexGuard<Option<Brain>>, at: Timestamp) -> Self {
        Self {
            slot,
            draft: Draft::new(),
            loaded: BTreeMap::new(),
            turn: 0,
            changed: BTreeMap::new(),
            at,
            closed: false,
            around: SessionEnv::default(),
            heard: None,
            gate: Gate::default(),
        }
    }

    /// The same for a session, in its surroundings.
    #[must_use]
    pub fn in_session(self, around: SessionEnv) -> Self {
        Self { around, ..self }
    }

    /// Which components and constants the brain runs with.
    pub fn tuning(&self) -> &Arc<Tuning> {
        &self.around.tuning
    }

    /// The brain itself; an error where its place is empty.
    pub fn brain(&mut self) -> Result<&mut Brain> {
        self.slot.as_mut().ok_or_else(|| Error::internal("there is no brain in the working copy"))
    }

    /// Whether looking something up in the brain is a matter of microseconds.
    pub(super) fn is_light(&self) -> bool {
        // A skill's shell, or a directory outside, may take its time.
        !self.around.is_slow() && self.slot.as_ref().is_some_and(Brain::is_light)
    }

    /// Whether there are skills outside the brain to hear of.
    pub(super) fn hears_of_outside(&self) -> bool {
        self.around.surroundings.outside.is_some()
    }

    /// Ends the working copy and gives back the brain's place.
    pub fn into_place(self) -> OwnedMutexGuard<Option<Brain>> {
        self.slot
    }

    /// The step in the making, and the brain it is for.
    pub fn step(&mut self) -> Result<(&mut Brain, &mut Draft)> {
        let brain = self.slot.as_mut().ok_or_else(|| Error::internal("there is no brain in the working copy"))?;
        Ok((brain, &mut self.draft))
    }

    /// Whether a step can be settled here.
    pub fn is_usable(&self) -> bool {
        self.slot.as_ref().is_some_and(Brain::is_usable)
    }

    /// Puts another opening of the same brain in the place of one that cannot be used any more; the step in the making
    /// stays. Refused where the brain is no longer what the step was made on.
    pub fn open_again(&mut self, base: &Digest, open: impl FnOnce() -> Result<Brain>) -> Result<()> {
        // It holds the lock.
        drop(self.slot.take());
        let brain = self.slot.insert(open()?);
        if brain.lock().bundle_hash == *base {
            return Ok(());
        }
        Err(Error::conflict("the brain has moved since the step was made")
            .hint("look whether the step is in its history"))
    }

    /// Makes changes with their rules.
    pub fn edit(&mut self) -> Result<Editor<'_>> {
        let at = self.at;
        let (brain, draft) = self.step()?;
        Ok(brain.edit(draft).at(at))
    }

    /// When the task began.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// The skills that were loaded.
    pub fn loaded(&self) -> &BTreeMap<Slug, LoadedSkill> {
        &self.loaded
    }

    /// What was done to skills.
    pub fn changed(&self) -> &BTreeMap<Slug, SkillChange> {
        &self.changed
    }

    /// Every active skill by slug, the ones of this step included.
    pub fn skills(&mut self) -> Result<Vec<SkillSummary>> {
        let around = Arc::clone(&self.around.surroundings);
        let held = around.outside.as_ref().map(|outside| outside.held());
        let filter = VisibilityFilter { platform: std::env::consts::OS, disabled: &around.disabled };
        let local = self.brain()?.known_skills()?;
        let is_plain =
            held.is_none() && filter.disabled.is_empty() && local.entries().all(|entry| entry.requires.is_empty());
        let mut cards: Vec<SkillSummary> = if is_plain {
            // The usual case, without weighing thousands of skills against each other.
            let suiting = local.entries().filter(|entry| entry.suits_this_platform());
            suiting.map(|entry| SkillSummary::of(VisibleSkill { entry, external: None })).collect()
        } else {
            let shelf = held.iter().flat_map(|held| held.shelf.entries());
            visible(local.entries(), shelf, &filter).skills.into_iter().map(SkillSummary::of).collect()
        };
        drop(held);
        for slug in self.drafted_skills() {
            let known = cards.binary_search_by(|card| card.slug.cmp(&slug));
            match (self.skill_place(&slug)?, known) {
                (Some(place), known) => {
                    let text = self.read_text(&place.main)?;
                    let description = Document::read(text.as_bytes())
                        .ok()
                        .and_then(|document| document.description())
                        .unwrap_or_default();
                    let category = place.category().map(Into::into);
                    let card = SkillSummary { slug, description: description.into(), category, external: false };
                    match known {
                        Ok(at) => drop(cards.get_mut(at).map(|old| *old = card)),
                        Err(at) => cards.insert(at, card),
                    }
                }
                (None, Ok(at)) => drop(cards.remove(at)),
                (None, Err(_)) => {}
            }
        }
        Ok(cards)
    }

    /// Every category with how many skills it has and what its `DESCRIPTION.md` says.
    pub fn categories(&mut self, cards: &[SkillSummary]) -> Result<Vec<Category>> {
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for category in cards.iter().filter_map(|card| card.category.as_ref()) {
            *counts.entry(Arc::clone(category)).or_default() += 1;
        }
        let mut categories = Vec::new();
        for (name, skills) in counts {
            let path: RelPath = format!("{}/{name}/{}", layout::SKILLS_DIR, layout::CATEGORY_FILE).parse()?;
            let said = self.read(&path)?.and_then(|bytes| Document::read(&bytes).ok()?.description());
            categories.push(Category { name, skills, description: said.unwrap_or_default() });
        }
        Ok(categories)
    }

    /// The skills this step touches.
    fn drafted_skills(&self) -> BTreeSet<Slug> {
        let skills = format!("{}/", layout::SKILLS_DIR);
        let archive = format!("{}/", layout::ARCHIVE_DIR);
        let paths: Vec<RelPath> = self
            .draft
            .files()
            .map(|(path, _)| path.clone())
            .filter(|path| path.as_str().starts_with(&skills) && !path.as_str().starts_with(&archive))
            .collect();
        all_skills(&paths, layout::SKILLS_DIR).map(|place| place.slug).collect()
    }

    /// The skills the operator pinned.
    pub fn pinned(&mut self) -> Result<Vec<Slug>> {
        self.brain()?.pinned()
    }

    /// Where a skill stands, with this step's changes.
    pub fn skill_place(&mut self, slug: &Slug) -> Result<Option<SkillLocation>> {
        if self.drafted_skills().is_empty()
            && let Some(entry) = self.brain()?.known_skills()?.get(slug)
        {
            return Ok(Some(entry.place.clone()));
        }
        store::find(&self.edit()?, slug)
    }

    fn read_text(&mut self, path: &RelPath) -> Result<String> {
        let bytes = self.edit()?.read(path)?.unwrap_or_default();
        String::from_utf8(bytes).map_err(|source| Error::invalid(format!("{path} is not UTF-8 text")).because(source))
    }

    /// The support files of a skill, relative to it.
    pub fn skill_files(&mut self, slug: &Slug) -> Result<Vec<String>> {
        let Some(place) = self.skill_place(slug)? else {
            return match &self.around.surroundings.outside {
                Some(outside) => outside.held().shelf.files(slug),
                None => Err(no_such_skill(slug)),
            };
        };
        let Some(dir) = place.dir() else { return Ok(Vec::new()) };
        let prefix = format!("{dir}/");
        let below = self.edit()?.below(dir.as_str())?;
        Ok(below
            .iter()
            .filter(|path| **path != place.main)
            .filter_map(|path| path.as_str().strip_prefix(&prefix).map(str::to_owned))
            .collect())
    }

    /// Notes what was done to a skill.
    pub fn note_change(&mut self, slug: &Slug, change: SkillChange) {
        let known = self.changed.get(slug).copied();
        let now = match (known, change) {
            // Made and then changed in one step is made.
            (Some(SkillChange::Created), SkillChange::Changed) => SkillChange::Created,
            _ => change,
        };
        self.changed.insert(slug.clone(), now);
    }

    /// Takes back what was noted of a skill.
    pub(super) fn forget_change(&mut self, slug: &Slug) {
        self.changed.remove(slug);
    }

    /// Makes a new skill of the agent's own.
    pub fn create_skill(&mut self, slug: &Slug, content: &str) -> Result<SkillWriteOutcome> {
        self.check_says_something(content)?;
        self.create_skill_by(SkillWriter::Tool, slug, content)
    }

    /// The same by any writer.
    pub(crate) fn create_skill_by(&mut self, by: SkillWriter, slug: &Slug, content: &str) -> Result<SkillWriteOutcome> {
        if self.is_outside(slug) {
            guard::check_skill(content)?;
            return Err(Error::conflict(format!(
                "skill {slug} stands outside the brain, where nobody here changes it"
            ))
            .hint("use it as it is, or choose another name"));
        }
        self.write_skill(by, slug, Write::Create(content))
    }

    /// Replaces a skill's main file.
    pub fn edit_skill(&mut self, slug: &Slug, content: &str) -> Result<SkillWriteOutcome> {
        self.write_skill(SkillWriter::Tool, slug, Write::Edit(content))
    }

    /// Replaces the one occurrence of `find` in a skill's main file or in one of its files.
    pub fn patch_skill(
        &mut self,
        slug: &Slug,
        file: Option<&str>,
        find: &str,
        replacement: &str,
    ) -> Result<SkillWriteOutcome> {
        self.write_skill(SkillWriter::Tool, slug, Write::Patch { file, find, replacement })
    }

    /// Writes a support file of a skill.
    pub fn write_skill_file(&mut self, slug: &Slug, file: &str, content: &str) -> Result<SkillWriteOutcome> {
        self.write_skill(SkillWriter::Tool, slug, Write::File { file, content })
    }

    /// Takes a support file away.
    pub fn remove_skill_file(&mut self, slug: &Slug, file: &str) -> Result<SkillWriteOutcome> {
        self.write_skill(SkillWriter::Tool, slug, Write::RemoveFile(file))
    }

    /// Moves a skill to the archive. A pinned one stays.
    pub fn archive_skill(&mut self, slug: &Slug) -> Result<SkillWriteOutcome> {
        self.write_skill(SkillWriter::Tool, slug, Write::Archive)
    }

    /// The names in the archive, with this step's changes.
    pub fn archived(&mut self) -> Result<Vec<Slug>> {
        Ok(store::archived_slugs(&self.edit()?.below(layout::ARCHIVE_DIR)?))
    }

    /// Where a skill of the archive stands that a restore would bring back.
    pub(crate) fn archived_place(&mut self, slug: &Slug) -> Result<Option<SkillLocation>> {
        let archived = store::archived_skills(&self.edit()?.below(layout::ARCHIVE_DIR)?);
        let found = archived.into_iter().find(|(name, _)| name == slug);
        Ok(found.map(|(slug, main)| {
            let form = if MAIN_FILES.contains(&main.name()) { Form::Directory } else { Form::Flat };
            SkillLocation { slug, main, form }
        }))
    }

    /// A Layer 1 file with this step's changes.
    pub fn layer(&mut self, layer: MemoryLayer) -> Result<String> {
        let text = self.edit()?.layer(layer)?;
        if matches!(layer, MemoryLayer::Subscriber(_)) {
            self.saw_private(&text);
        }
        Ok(text)
    }

    /// Adds or replaces a fact.
    pub fn fact(&mut self, fact: Fact) {
        self.draft.fact(fact);
    }

    /// Searches the settled memory, by the brain's own weights.
    pub fn search(&mut self, wanted: &Search<'_>) -> Result<SearchResults> {
        Ok(self.search_near(wanted, None)?.found)
    }

    /// The same by words, and by meaning where that is given.
    pub fn search_near(&mut self, wanted: &Search<'_>, sought: Option<&QueryVector>) -> Result<HybridResults> {
        let weights = self.around.tuning.search();
        let near = self.brain()?.search_hybrid(&Search { weights, ..wanted.clone() }, sought)?;
        self.saw_rows(near.found.hits.iter().map(|hit| (hit.source, hit.id)))?;
        Ok(near)
    }

    /// The task has seen these rows; what the subscriber has said in them is not to be repeated.
    fn saw_rows(&mut self, rows: impl IntoIterator<Item = (MemorySource, i64)>) -> Result<()> {
        if self.is_private() {
            for text in self.brain()?.private_texts(rows)? {
                self.saw_private(&text);
            }
        }
        Ok(())
    }

    /// A call that is not run again told this of the subscriber.
    pub fn replay_disclosures(&mut self, heard: &[Disclosure]) -> Result<()> {
        for heard in heard {
            match heard {
                Disclosure::Row(source, id) => self.saw_rows([(*source, *id)])?,
                Disclosure::Text(text) => self.saw_private(text),
            }
        }
        Ok(())
    }

    /// The names of the patterns.
    pub fn patterns(&mut self) -> Result<Vec<RelPath>> {
        let paths = self.edit()?.below(layout::PATTERNS_DIR)?;
        Ok(paths.into_iter().filter(|path| path.as_str().ends_with(".md")).collect())
    }

    /// A file of the bundle, with this step's changes.
    pub fn read(&mut self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        self.edit()?.read(path)
    }

    /// Takes a skill that stands in the prompt whole for loaded.
    pub(crate) fn preloaded(&mut self, slug: Slug, digest: Digest) {
        self.note_loaded(slug, digest);
    }

    /// Says which turn it is.
    pub(super) fn at_turn(&mut self, turn: u32) {
        self.turn = turn;
    }

    /// Remembers that a skill was loaded; whether it was not yet.
    pub(super) fn note_loaded(&mut self, slug: Slug, digest: Digest) -> bool {
        match self.loaded.entry(slug) {
            Entry::Occupied(mut known) => {
                known.get_mut().digest = digest;
                false
            }
            Entry::Vacant(new) => {
                new.insert(LoadedSkill { digest, turn: self.turn });
                true
            }
        }
    }

    /// Counts a use of every loaded skill, and of these: a converged task relied on them.
    pub fn count_uses(&mut self, shown: &[Slug]) -> Result<()> {
        let used: BTreeSet<Slug> = self.loaded.keys().chain(shown).cloned().collect();
        for slug in used {
            // One that was archived meanwhile keeps its record as it is.
            if self.skill_place(&slug)?.is_some() {
                self.edit()?.used(&slug)?;
            }
        }
        Ok(())
    }

    /// From now on the working copy is closed to tools: one that was given up on may still be about to write.
    pub(crate) fn close_to_tools(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Does `work`; where it fails, the step is as it was before.
    pub(crate) fn atomically<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let kept = self.savepoint();
        let done = work(self);
        if done.is_err() {
            self.roll_back_to(kept);
        }
        done
    }

    /// The step as it is now.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            draft: self.draft.clone(),
            loaded: self.loaded.clone(),
            changed: self.changed.clone(),
            proposed: self.gate.proposed.clone(),
        }
    }

    /// Makes the step what it was.
    pub fn roll_back_to(&mut self, kept: Savepoint) {
        let Savepoint { draft, loaded, changed, proposed } = kept;
        (self.draft, self.loaded, self.changed, self.gate.proposed) = (draft, loaded, changed, proposed);
    }

    /// Throws away what the task changed; its account of itself stays.
    pub fn forget_changes(&mut self) {
        self.draft = std::mem::take(&mut self.draft).task_record_only();
        self.changed.clear();
        self.gate.proposed.clear();
    }
}

pub(super) fn no_such_skill(slug: &Slug) -> Error {
    Error::not_found(format!("there is no skill {:?}", slug.as_str())).hint("skills_list has the names")
}
