//! The skills of an open brain: found, chosen, counted.

use super::history::{self, StepKind};
use super::open::Brain;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::ids::Slug;
use crate::layout;
use crate::memory::Sought;
use crate::memory::vectors::{self, Unmeant};
use crate::skill::command::{Commands, Resolved};
use crate::skill::{Catalog, Delta, Index, Usage};

impl Brain {
    /// The skill index, brought up to date.
    pub fn skills(&mut self) -> Result<&Index> {
        self.reload()?;
        self.index()
    }

    fn index(&self) -> Result<&Index> {
        self.index.as_ref().ok_or_else(|| Error::internal("the index is not built"))
    }

    /// Brings the skill index up to date, and says what changed since the last time.
    pub fn reload(&mut self) -> Result<Delta> {
        let changed = std::mem::take(&mut self.changed_files);
        let mut index = match self.index.take() {
            Some(index) => index,
            None => Index::empty(layout::SKILLS_DIR),
        };
        let delta = index.update(&self.root, &changed)?;
        if delta.unchanged != delta.total || !delta.removed.is_empty() {
            self.catalog = None;
            self.commands = None;
        }
        self.index = Some(index);
        Ok(delta)
    }

    /// The skill index as it was last brought up to date, with herm's own changes since. Enough
    /// within a task: whoever holds the brain is the only one to change it.
    pub fn known_skills(&mut self) -> Result<&Index> {
        if self.index.is_none() || !self.changed_files.is_empty() {
            self.reload()?;
        }
        self.index()
    }

    /// The skills that fit `text` best, best first.
    pub fn best_skills(&mut self, text: &str, most: usize) -> Result<Vec<Slug>> {
        self.known_skills()?;
        let index = self.index.as_ref().ok_or_else(|| Error::internal("the index is not built"))?;
        let catalog = self.catalog.get_or_insert_with(|| Catalog::build(index));
        Ok(catalog.best(text, most).into_iter().cloned().collect())
    }

    /// Which of these skills mean what is sought, and which have no vector yet: see
    /// [`vectors::nearest_skills`].
    pub(crate) fn nearest_skills<'s>(
        &self,
        sought: &Sought,
        skills: impl Iterator<Item = (&'s str, &'s str)>,
        most_lacking: usize,
    ) -> Result<(Vec<usize>, Vec<Unmeant>)> {
        vectors::nearest_skills(&self.database.connection, sought, skills, most_lacking)
    }

    /// The skill that a typed command stands for.
    pub fn command(&mut self, word: &str) -> Result<Resolved<'_>> {
        self.known_skills()?;
        let index = self.index.as_ref().ok_or_else(|| Error::internal("the index is not built"))?;
        Ok(self.commands.get_or_insert_with(|| Commands::build(index)).resolve(word))
    }

    /// The text of an active skill's main file, by its slug.
    pub fn skill_text(&mut self, slug: &Slug) -> Result<String> {
        let entry = self.skills()?.get(slug).map(|entry| entry.place.main.clone());
        let main = entry.ok_or_else(|| {
            Error::not_found(format!("there is no skill {:?} in this brain", slug.as_str()))
                .hint("see the names with `herm skills list ID`")
        })?;
        let bytes = self.read_content(&main)?.unwrap_or_default();
        String::from_utf8(bytes).map_err(|source| {
            Error::invalid(format!("{main} is not UTF-8 text"))
                .hint("save it as UTF-8, and take the change over with `herm brain adopt ID`")
                .because(source)
        })
    }

    /// Whether its skills are few and already indexed: looking one up is a matter of microseconds.
    pub(crate) fn is_light(&self) -> bool {
        const FEW: usize = 1_000;
        self.index.as_ref().is_some_and(|index| index.len() <= FEW)
    }

    /// The telemetry of all skills.
    pub fn usage(&self) -> Result<std::collections::BTreeMap<Slug, Usage>> {
        self.database.skill_usage()
    }

    /// When the last step of a kind was whose summary begins like this.
    pub(crate) fn last_step_like(&self, kind: StepKind, beginning: &str) -> Result<Option<Moment>> {
        history::last_like(&self.database, kind, beginning)
    }

    /// How many skills are due to move between active, stale and archived.
    pub(crate) fn skills_due(&self, stale: Moment, archive: Moment) -> Result<u64> {
        self.database.skills_due(stale, archive)
    }

    /// The pinned skills, by name.
    pub fn pinned(&self) -> Result<Vec<Slug>> {
        self.database.pinned()
    }
}
