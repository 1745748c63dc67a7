//! The skills of an open brain: found, chosen, counted.

use std::collections::BTreeSet;

use super::history;
use super::journal;
use super::open::Brain;
use super::settle::{self, SettledStep};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{RelPath, Slug};
use crate::layout;
use crate::memory::QueryVector;
use crate::memory::vectors::{self, NearSkills};
use crate::skill::command::{CommandMatch, Commands};
use crate::skill::{Delta, Index, IndexCache, ScoredSkill, SkillCatalog, SkillUsage, all_skills};

/// The active skills among the files of a brain, by path alone.
fn slugs_below(mut paths: Vec<RelPath>) -> BTreeSet<Slug> {
    paths.sort_unstable();
    all_skills(&paths, layout::SKILLS_DIR).map(|place| place.slug).collect()
}

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
        let delta = match self.index.take() {
            Some(mut index) => {
                let delta = index.update(&self.root, &changed)?;
                self.index = Some(index);
                delta
            }
            None => self.first_index()?,
        };
        if delta.unchanged != delta.total || !delta.removed.is_empty() {
            self.catalog = None;
            self.commands = None;
        }
        Ok(delta)
    }

    /// Indexes the skills for the first time since the brain was opened, and keeps what they said for the next opening.
    fn first_index(&mut self) -> Result<Delta> {
        let path = layout::rel(layout::INDEX_CACHE)?;
        let mut cache = IndexCache::load(&self.root, &path);
        let mut index = Index::empty(layout::SKILLS_DIR);
        let delta = index.update_with(&self.root, &[], Some(&mut cache))?;
        self.index = Some(index);
        if self.may_write_caches && cache.is_stale() {
            // Only a cache: without it the next process reads every skill once.
            if let Err(error) = cache.save(&self.root, &path) {
                tracing::debug!(brain = %self.id, %error, "skill index not kept");
            }
        }
        Ok(delta)
    }

    /// Takes in what a person did to the skills by hand (a skill that was dropped into the directory, edited or taken
    /// away) as a step of its own, and says what changed since the last step. The brain is to be opened with
    /// [`OnDrift::Report`](super::OnDrift). Whatever else differs is refused: that is for [`adopt`](Self::adopt).
    pub fn adopt_skills(&mut self) -> Result<(Delta, Option<SettledStep>)> {
        let settled = journal::entries(&self.database.connection)?;
        let before = slugs_below(settled.into_keys().collect());
        let touched = match self.drift().cloned() {
            None => Vec::new(),
            Some(drift) => {
                let below = format!("{}/", layout::SKILLS_DIR);
                let rows = settle::row_parts(&self.database.connection)?;
                let paths: Vec<RelPath> =
                    [&drift.changed, &drift.added, &drift.removed].into_iter().flatten().cloned().collect();
                let is_of_skills = paths.iter().all(|path| path.as_str().starts_with(&below));
                let rows_as_locked = rows == (self.lock.parts.usage, self.lock.parts.memory);
                if !is_of_skills || !rows_as_locked || drift.lock_file || !drift.tables.is_empty() {
                    return Err(drift.into_error(&self.id));
                }
                paths
            }
        };
        let settled = if touched.is_empty() { None } else { self.adopt()? };
        self.reload()?;
        let still = slugs_below(self.tree()?.below(layout::SKILLS_DIR).cloned().collect());
        let index = self.index()?;
        let mut delta = Delta { total: index.len(), ..Delta::default() };
        for entry in index.entries() {
            let place = &entry.place;
            let dir = place.dir().map(|dir| format!("{dir}/"));
            let is_its = |path: &RelPath| {
                *path == place.main || dir.as_ref().is_some_and(|dir| path.as_str().starts_with(dir.as_str()))
            };
            if !before.contains(&place.slug) {
                delta.added.push(place.slug.clone());
            } else if touched.iter().any(is_its) {
                delta.changed.push(place.slug.clone());
            } else {
                delta.unchanged += 1;
            }
        }
        delta.removed = before.difference(&still).cloned().collect();
        Ok((delta, settled))
    }

    /// The skill index as it was last brought up to date, with herm's own changes since. Enough within a task: only the
    /// owner of the brain changes it meanwhile.
    pub fn known_skills(&mut self) -> Result<&Index> {
        if self.index.is_none() || !self.changed_files.is_empty() {
            self.reload()?;
        }
        self.index()
    }

    /// The skills that fit `text` best, best first.
    pub fn best_skills(&mut self, text: &str, most: usize) -> Result<Vec<Slug>> {
        Ok(self.catalog()?.best(text, most).into_iter().cloned().collect())
    }

    /// The same, with how well each one fits.
    pub fn scored_skills(&mut self, text: &str, most: usize) -> Result<Vec<ScoredSkill>> {
        Ok(self.catalog()?.scored(text, most))
    }

    fn catalog(&mut self) -> Result<&SkillCatalog> {
        self.known_skills()?;
        let index = self.index.as_ref().ok_or_else(|| Error::internal("the index is not built"))?;
        Ok(self.catalog.get_or_insert_with(|| SkillCatalog::build(index)))
    }

    /// Which of these skills mean what is sought and how near they are, and which have no vector
    /// yet: [`vectors::nearest_skills`] says more.
    pub fn nearest_skills<'s>(
        &self,
        sought: &QueryVector,
        skills: impl Iterator<Item = (&'s str, &'s str)>,
        most_lacking: usize,
    ) -> Result<NearSkills> {
        vectors::nearest_skills(&self.database.connection, sought, skills, most_lacking)
    }

    /// The skill that a typed command stands for.
    pub fn command(&mut self, word: &str) -> Result<CommandMatch<'_>> {
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
    pub fn is_light(&self) -> bool {
        const FEW: usize = 1_000;
        self.index.as_ref().is_some_and(|index| index.len() <= FEW)
    }

    /// The telemetry of all skills.
    pub fn usage(&self) -> Result<std::collections::BTreeMap<Slug, SkillUsage>> {
        self.database.skill_usage()
    }

    /// When the last step of a kind was whose summary begins like this.
    pub fn last_curated(&self) -> Result<Option<Timestamp>> {
        history::last_curated(&self.database)
    }

    /// How many skills are due to move between active, stale and archived.
    pub fn skills_due(&self, stale: Timestamp, archive: Timestamp) -> Result<u64> {
        self.database.skills_due(stale, archive)
    }

    /// The pinned skills, by name.
    pub fn pinned(&self) -> Result<Vec<Slug>> {
        self.database.pinned()
    }
}
