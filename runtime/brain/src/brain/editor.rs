//! Changes to a brain with their rules: skills, their telemetry, and Layer 1.

use super::draft::Draft;
use super::open::Brain;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::{Trial, TrialState, layers};
use crate::skill::{CreatedBy, Files, SkillLocation, SkillState, SkillUsage, store};

/// Why a skill is on trial again.
const REWRITTEN: &str = "its text was changed";

/// A file of Layer 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLayer {
    /// `MEMORY.md`: what the agent remembers for everyone.
    Memory,
    /// `USER.md`: what it remembers of its users in general.
    User,
    /// `users/<digest>.md`: what it remembers of one subscriber.
    Subscriber(Digest),
}

impl MemoryLayer {
    /// The file that holds this layer, relative to the brain's directory.
    pub fn path(self) -> Result<RelPath> {
        match self {
            Self::Memory => layout::rel(layout::MEMORY_LAYER),
            Self::User => layout::rel(layout::USER_LAYER),
            Self::Subscriber(digest) => layout::user_layer(&digest),
        }
    }

    /// The most characters it may hold.
    pub fn cap(self) -> usize {
        match self {
            Self::Memory => layers::MEMORY_CAP,
            Self::User | Self::Subscriber(_) => layers::USER_CAP,
        }
    }
}

/// A brain seen through a draft: reads see the draft's changes, writes go into it.
#[derive(Debug)]
pub struct Editor<'a> {
    pub(super) brain: &'a Brain,
    pub(super) draft: &'a mut Draft,
    at: Option<Timestamp>,
}

impl Brain {
    /// Makes changes in `draft`. Nothing happens to the brain before [`Brain::settle`].
    pub fn edit<'a>(&'a self, draft: &'a mut Draft) -> Editor<'a> {
        Editor { brain: self, draft, at: None }
    }
}

impl Editor<'_> {
    /// Everything it does carries this moment, instead of the clock's.
    #[must_use]
    pub fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }

    pub(super) fn now(&self) -> Timestamp {
        self.at.unwrap_or_else(|| self.brain.clock().now())
    }

    /// A skill's telemetry as it will be after the draft. A skill without a record was put there
    /// by hand: a person made it.
    pub fn usage(&self, slug: &Slug) -> Result<SkillUsage> {
        Ok(self.recorded_usage(slug)?.unwrap_or_else(|| SkillUsage::new(CreatedBy::User, self.now())))
    }

    /// A skill's telemetry, where there is a record of it.
    pub fn recorded_usage(&self, slug: &Slug) -> Result<Option<SkillUsage>> {
        match self.draft.usage.get(slug) {
            Some(usage) => Ok(Some(usage.clone())),
            None => self.brain.database.skill_usage_of(slug),
        }
    }

    fn change_usage(&mut self, slug: &Slug, change: impl FnOnce(&mut SkillUsage, Timestamp)) -> Result<()> {
        let mut usage = self.usage(slug)?;
        change(&mut usage, self.now());
        self.draft.usage.insert(slug.clone(), usage);
        Ok(())
    }

    /// Writes a new skill.
    pub fn create_skill(&mut self, slug: &Slug, content: &str, by: CreatedBy) -> Result<SkillLocation> {
        let place = store::create(self, slug, content)?;
        self.draft.usage.insert(slug.clone(), SkillUsage::new(by, self.now()));
        Ok(place)
    }

    /// Replaces a skill's main file.
    pub fn edit_skill(&mut self, slug: &Slug, content: &str) -> Result<SkillLocation> {
        let before = self.main_text(slug)?;
        let place = store::edit(self, slug, content)?;
        self.patched(slug)?;
        self.try_again(slug, before)?;
        Ok(place)
    }

    /// Replaces the one occurrence of a text in the main file or in a support file.
    pub fn patch_skill(
        &mut self,
        slug: &Slug,
        support: Option<&str>,
        find: &str,
        replacement: &str,
    ) -> Result<SkillLocation> {
        let before = self.main_text(slug)?;
        let place = store::patch(self, slug, support, find, replacement)?;
        self.patched(slug)?;
        self.try_again(slug, before)?;
        Ok(place)
    }

    fn main_text(&self, slug: &Slug) -> Result<Option<Vec<u8>>> {
        store::find(self, slug)?.map_or(Ok(None), |place| self.read(&place.main))
    }

    /// What was found out of a skill's text does not hold for another: one that is or was on trial is tried anew, where its
    /// text is not `before` any more. It is on trial only while it is the agent's own.
    fn try_again(&mut self, slug: &Slug, before: Option<Vec<u8>>) -> Result<()> {
        if self.draft.telemetry.outcomes.has_trial_of(slug) || self.main_text(slug)? == before {
            return Ok(());
        }
        let usage = self.usage(slug)?;
        let is_tried = usage.created_by == CreatedBy::Agent && !usage.pinned;
        if is_tried && let Some(trial) = self.brain.database.trial_anew(slug, self.now(), REWRITTEN)? {
            self.draft.trial(trial);
        }
        Ok(())
    }

    /// Writes a support file; a flat skill becomes a directory.
    pub fn write_skill_file(&mut self, slug: &Slug, support: &str, content: Vec<u8>) -> Result<SkillLocation> {
        let place = store::write_file(self, slug, support, content)?;
        self.patched(slug)?;
        Ok(place)
    }

    /// Removes a support file.
    pub fn remove_skill_file(&mut self, slug: &Slug, support: &str) -> Result<SkillLocation> {
        let place = store::remove_file(self, slug, support)?;
        self.patched(slug)?;
        Ok(place)
    }

    /// Counts a look at a skill.
    pub fn viewed(&mut self, slug: &Slug) -> Result<()> {
        self.change_usage(slug, |usage, now| {
            usage.view_count += 1;
            usage.last_viewed_at = Some(now);
        })
    }

    /// Counts a use of a skill. A stale one that is used is active again.
    pub fn used(&mut self, slug: &Slug) -> Result<()> {
        self.change_usage(slug, |usage, now| {
            usage.use_count += 1;
            usage.last_used_at = Some(now);
            if usage.state == SkillState::Stale {
                usage.state = SkillState::Active;
            }
        })
    }

    fn patched(&mut self, slug: &Slug) -> Result<()> {
        self.change_usage(slug, |usage, now| {
            usage.patch_count += 1;
            usage.last_patched_at = Some(now);
        })
    }

    /// Moves a skill with all its files into the archive.
    pub fn archive_skill(&mut self, slug: &Slug) -> Result<()> {
        store::archive(self, slug)?;
        self.change_usage(slug, |usage, now| {
            usage.state = SkillState::Archived;
            usage.archived_at = Some(now);
        })
    }

    /// Brings an archived skill back. One that a trial found to do harm is in the index again, but is not put before tasks.
    pub fn restore_skill(&mut self, slug: &Slug) -> Result<SkillLocation> {
        let place = store::restore(self, slug)?;
        if let Some(trial) = self.brain.trial(slug)?.filter(|trial| trial.state == TrialState::Harmful) {
            let reason = "brought back from the archive".to_owned();
            self.draft.trial(Trial { state: TrialState::Unproven, decided: Some(self.now()), reason, ..trial });
        }
        self.change_usage(slug, |usage, now| {
            usage.state = SkillState::Active;
            usage.archived_at = None;
            // A person who brings a skill back has looked at it, so it does not count as idle again at once.
            usage.last_viewed_at = Some(now);
        })?;
        Ok(place)
    }

    /// Notes where a skill is in its life. Going to the archive is [`archive_skill`](Self::archive_skill).
    pub fn set_skill_state(&mut self, slug: &Slug, state: SkillState) -> Result<()> {
        self.change_usage(slug, |usage, _| usage.state = state)
    }

    /// Exempts a skill from everything automatic, or no longer.
    pub fn pin_skill(&mut self, slug: &Slug, pinned: bool) -> Result<()> {
        if store::find(self, slug)?.is_none() {
            return Err(Error::not_found(format!("there is no skill {:?} in this brain", slug.as_str()))
                .hint("see the names with `herm skills list ID`"));
        }
        if self.usage(slug)?.pinned != pinned {
            self.change_usage(slug, |usage, _| usage.pinned = pinned)?;
        }
        Ok(())
    }

    /// The text of a file of Layer 1; empty where there is none. An unreadable one is an error.
    pub fn layer(&self, layer: MemoryLayer) -> Result<String> {
        let path = layer.path()?;
        match self.read(&path)? {
            None => Ok(String::new()),
            Some(bytes) => String::from_utf8(bytes).map_err(|source| {
                Error::corrupt(format!("{path} is not UTF-8 text"))
                    .hint("save it as UTF-8, and take the change over with `herm brain adopt ID`")
                    .because(source)
            }),
        }
    }

    /// Applies all edits to a file of Layer 1, or none.
    pub fn edit_layer(&mut self, layer: MemoryLayer, edits: &[layers::LayerEdit]) -> Result<()> {
        let before = self.layer(layer)?;
        let after = layers::apply(&before, edits, layer.cap())?;
        if after != before {
            self.write(layer.path()?, after.into_bytes());
        }
        Ok(())
    }
}

impl Files for Editor<'_> {
    fn read(&self, path: &RelPath) -> Result<Option<Vec<u8>>> {
        match self.draft.files.get(path) {
            Some(content) => Ok(content.clone()),
            None => self.brain.read_content(path),
        }
    }

    fn below(&self, dir: &str) -> Result<Vec<RelPath>> {
        let mut paths: Vec<RelPath> = self.brain.tree()?.below(dir).cloned().collect();
        let is_below = |path: &RelPath| path.as_str().strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
        for (path, content) in self.draft.files.iter().filter(|(path, _)| is_below(path)) {
            match (content, paths.binary_search(path)) {
                (Some(_), Err(at)) => paths.insert(at, path.clone()),
                (None, Ok(at)) => drop(paths.remove(at)),
                (Some(_), Ok(_)) | (None, Err(_)) => {}
            }
        }
        Ok(paths)
    }

    fn write(&mut self, path: RelPath, content: Vec<u8>) {
        self.draft.files.insert(path, Some(content));
    }

    fn remove(&mut self, path: RelPath) {
        self.draft.files.insert(path, None);
    }
}
