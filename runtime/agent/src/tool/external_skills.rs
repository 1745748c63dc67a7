//! Skills outside the brains, as tasks see them: read-only, and never in place of a brain's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Result;
use crate::ids::Slug;
use crate::skill::command::{CommandMatch, Commands};
use crate::skill::{Delta, SkillCatalog, SkillDirs, SkillEntry};
use crate::text;

/// Skills outside the brains as a session knows them.
pub(super) type SkillDescriptions = BTreeMap<Slug, Arc<str>>;

/// What a session last heard of them.
#[derive(Debug)]
pub(super) struct ExternalListing {
    pub(super) known: SkillDescriptions,
    pub(super) at: Instant,
    /// How long the look took.
    pub(super) took: Duration,
}

/// How the skills outside changed since a session last heard of them; nothing where they did not.
pub(super) fn news(before: &SkillDescriptions, now: &SkillDescriptions) -> Option<String> {
    let named = |what: &str, slugs: Vec<&Slug>| match slugs.as_slice() {
        [] => None,
        slugs => Some(format!("{what} {}", slugs.iter().map(|slug| slug.as_str()).collect::<Vec<_>>().join(", "))),
    };
    let added = now.keys().filter(|slug| !before.contains_key(*slug)).collect();
    let removed = before.keys().filter(|slug| !now.contains_key(*slug)).collect();
    let differs = |(slug, text): (&Slug, &Arc<str>)| before.get(slug).is_some_and(|known| known != text);
    let changed = now.iter().filter(|entry| differs(*entry)).map(|(slug, _)| slug).collect();
    let said: Vec<String> =
        [named("added", added), named("removed", removed), named("changed", changed)].into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("[the skills outside changed: {}]", text::line(&said.join("; "), 600)))
}

/// The skills of directories that the operator named.
#[derive(Debug, Default)]
pub struct ExternalSkills {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) shelf: SkillDirs,
    /// Made from the skill directories when they are first asked for.
    catalog: Option<SkillCatalog>,
    commands: Option<Commands>,
}

impl ExternalSkills {
    /// The skills below these directories; earlier ones win a name.
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self { held: Mutex::new(Held { shelf: SkillDirs::new(dirs), ..Held::default() }) }
    }

    /// Reads the directories, or what changed in them, and says what did.
    pub fn update(&self) -> Result<Delta> {
        let mut held = self.held();
        let delta = held.shelf.update()?;
        if delta.unchanged != delta.total || !delta.removed.is_empty() {
            held.catalog = None;
            held.commands = None;
        }
        Ok(delta)
    }

    /// The names of the skills that are there now.
    pub fn slugs(&self) -> Vec<Slug> {
        self.held().shelf.entries().map(|shelved| shelved.entry.place.slug.clone()).collect()
    }

    /// What is there now, by name and description.
    pub(super) fn known(&self) -> SkillDescriptions {
        let held = self.held();
        held.shelf
            .entries()
            .map(|shelved| (shelved.entry.place.slug.clone(), Arc::clone(&shelved.entry.description)))
            .collect()
    }

    /// The same as pairs.
    pub fn pairs(&self) -> Vec<(Slug, Arc<str>)> {
        self.known().into_iter().collect()
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        // Whatever a panic left is read again by the next update.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The skills that fit `text` best, best first.
    pub(super) fn best(&self, text: &str, most: usize) -> Vec<Slug> {
        let held = &mut *self.held();
        let shelf = &held.shelf;
        let catalog =
            held.catalog.get_or_insert_with(|| SkillCatalog::of(shelf.entries().map(|shelved| shelved.entry)));
        catalog.best(text, most).into_iter().cloned().collect()
    }

    /// The skill that a typed command stands for, or what is near it.
    pub(super) fn command(&self, word: &str) -> std::result::Result<Slug, Vec<String>> {
        let held = &mut *self.held();
        let shelf = &held.shelf;
        let named = |entry: &'_ SkillEntry| (entry.place.slug.clone(), entry.name.clone());
        let commands = held.commands.get_or_insert_with(|| {
            let names: Vec<(Slug, String)> = shelf.entries().map(|shelved| named(shelved.entry)).collect();
            Commands::of(names.iter().map(|(slug, name)| (slug, name.as_str())))
        });
        match commands.resolve(word) {
            CommandMatch::Skill(slug) => Ok(slug.clone()),
            CommandMatch::Unknown { near } => Err(near),
        }
    }
}

impl Held {
    /// Where a skill's files are.
    pub(super) fn dir_of(&self, slug: &Slug) -> Option<PathBuf> {
        let shelved = self.shelf.get(slug)?;
        let main = Path::new(shelved.entry.place.main.as_str());
        // The first part of the path is the directory's own name.
        let inside: PathBuf = main.components().skip(1).collect();
        Some(shelved.dir.join(inside).parent().map_or_else(|| shelved.dir.to_owned(), Path::to_owned))
    }
}
