//! Level 0: every skill by name and description, never its body.
//!
//! Building the index opens one file a skill and lists only directories that are not skills. Brought up to date, it
//! reads the files the caller knows to have changed, and lists a folder again only where its own times moved. Code that
//! loads a body checks its digest at that moment, so nothing outdated is ever *used*. An [`IndexCache`] spares a new
//! process the reading and parsing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::Document;
use super::index_cache::{IndexCache, IndexFacts};
use super::location::{self, Form, SkillLocation};
use crate::error::{Error, Result};
use crate::fsio::{DirEntryKind, Root, Stat, SurveyLimits};
use crate::ids::{RelPath, Slug};
use crate::layout;

/// The largest main file that is read. More than the rules allow to write, so that a skill that
/// grew too large is still seen.
const MAX_MAIN_BYTES: u64 = 1 << 20;

/// One skill of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillEntry {
    /// Its identity, form and main file.
    pub place: SkillLocation,
    /// What its front matter calls it; the slug where it says nothing.
    pub name: String,
    /// What it does and when to use it.
    pub description: Arc<str>,
    /// The folder it stands in.
    pub category: Option<Arc<str>>,
    /// The operating systems it is for; none means all.
    pub platforms: Vec<String>,
    /// Words that call for it.
    pub triggers: Vec<String>,
    /// What it requires, as its front matter says.
    pub requires: Vec<String>,
    /// Whether its front matter pins it.
    pub pinned: bool,
}

impl SkillEntry {
    /// Whether it is for the operating system this program runs on.
    pub fn suits_this_platform(&self) -> bool {
        self.suits(std::env::consts::OS)
    }

    /// Whether it is for an operating system, called as in [`std::env::consts::OS`].
    pub fn suits(&self, platform: &str) -> bool {
        let others: &[&str] = match platform {
            "macos" => &["darwin", "osx", "mac"],
            "windows" => &["win32", "win"],
            _ => &[],
        };
        let is_named = |name: &String| {
            name.eq_ignore_ascii_case(platform) || others.iter().any(|other| name.eq_ignore_ascii_case(other))
        };
        self.platforms.is_empty() || self.platforms.iter().any(is_named)
    }
}

/// A file that should be a skill and is not in the index, or is there with a reservation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkillProblem {
    /// Where it is, relative to the brain; in a skill directory, below the path that was given for it.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What changed when an index was brought up to date.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Delta {
    /// Skills that were not in the index before.
    pub added: Vec<Slug>,
    /// Skills that are gone.
    pub removed: Vec<Slug>,
    /// Skills whose entry differs.
    pub changed: Vec<Slug>,
    /// How many are as before.
    pub unchanged: usize,
    /// How many there are.
    pub total: usize,
}

impl Delta {
    /// Adds what changed elsewhere.
    pub fn extend(&mut self, more: Self) {
        self.added.extend(more.added);
        self.removed.extend(more.removed);
        self.changed.extend(more.changed);
        self.unchanged += more.unchanged;
        self.total += more.total;
    }
}

#[derive(Debug, Clone, Default)]
struct Folder {
    stat: Stat,
    skills: Vec<Arc<SkillEntry>>,
    folders: Vec<String>,
    problems: Vec<SkillProblem>,
}

/// All skills of a directory.
#[derive(Debug, Clone, Default)]
pub struct Index {
    top: String,
    folders: Folders,
    entries: BTreeMap<Slug, Arc<SkillEntry>>,
    problems: Vec<SkillProblem>,
}

impl Index {
    /// Reads every skill below `top` of `root`.
    pub fn build(root: &Root, top: &str) -> Result<Self> {
        Self::build_with(root, top, None)
    }

    /// The same with what is known from before.
    pub fn build_with(root: &Root, top: &str, cache: Option<&mut IndexCache>) -> Result<Self> {
        let mut index = Self::empty(top);
        index.update_with(root, &[], cache)?;
        Ok(index)
    }

    /// An index of `top` that has read nothing yet.
    pub fn empty(top: &str) -> Self {
        Self { top: top.to_owned(), ..Self::default() }
    }

    /// Brings the index up to date. `changed` are files the caller changed itself.
    pub fn update(&mut self, root: &Root, changed: &[RelPath]) -> Result<Delta> {
        self.update_with(root, changed, None)
    }

    /// The same with what is known from before.
    pub fn update_with(&mut self, root: &Root, changed: &[RelPath], cache: Option<&mut IndexCache>) -> Result<Delta> {
        let mut scan = Scan {
            root,
            cache,
            top: &self.top,
            folders: BTreeMap::new(),
            buffer: Vec::new(),
            seen: 0,
            moved: false,
            last_category: None,
        };
        for path in changed {
            scan.take_in(path, &mut self.folders)?;
        }
        scan.folder(&self.top, 1, &self.folders)?;
        if !scan.moved && self.folders.len() == scan.folders.len() {
            let total = self.entries.len();
            return Ok(Delta { unchanged: total, total, ..Delta::default() });
        }
        self.folders = scan.folders;
        let before = std::mem::take(&mut self.entries);
        self.collect();
        Ok(self.delta(&before))
    }

    /// Skills in slug order.
    pub fn entries(&self) -> impl Iterator<Item = &SkillEntry> {
        self.entries.values().map(AsRef::as_ref)
    }

    /// The skill of this name, or `None` where the index has none.
    pub fn get(&self, slug: &Slug) -> Option<&SkillEntry> {
        self.entries.get(slug).map(AsRef::as_ref)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Files that could not be read, and names that two files claim.
    pub fn problems(&self) -> &[SkillProblem] {
        &self.problems
    }

    fn collect(&mut self) {
        self.problems.clear();
        let mut found: Vec<&Arc<SkillEntry>> = Vec::new();
        for folder in self.folders.values() {
            found.extend(&folder.skills);
            self.problems.extend(folder.problems.iter().cloned());
        }
        // Path order decides who wins a name, whatever order the file system listed.
        found.sort_by(|a, b| a.place.main.cmp(&b.place.main));
        for entry in found {
            match self.entries.get(&entry.place.slug) {
                None => {
                    self.entries.insert(entry.place.slug.clone(), Arc::clone(entry));
                }
                Some(winner) => self.problems.push(SkillProblem {
                    path: entry.place.main.to_string(),
                    reason: format!("the name {} is taken by {}", entry.place.slug, winner.place.main),
                }),
            }
        }
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
    }

    fn delta(&self, before: &BTreeMap<Slug, Arc<SkillEntry>>) -> Delta {
        let mut delta = Delta { total: self.entries.len(), ..Delta::default() };
        for (slug, entry) in &self.entries {
            match before.get(slug) {
                None => delta.added.push(slug.clone()),
                Some(old) if Arc::ptr_eq(old, entry) || old == entry => delta.unchanged += 1,
                Some(_) => delta.changed.push(slug.clone()),
            }
        }
        delta.removed = before.keys().filter(|slug| !self.entries.contains_key(*slug)).cloned().collect();
        delta
    }
}

type Folders = BTreeMap<String, Arc<Folder>>;

struct Scan<'a> {
    root: &'a Root,
    cache: Option<&'a mut IndexCache>,
    top: &'a str,
    folders: Folders,
    buffer: Vec<u8>,
    seen: usize,
    /// Something differs from before.
    moved: bool,
    last_category: Option<Arc<str>>,
}

/// What became of a file that should be a skill.
enum Loaded {
    Absent,
    Skill(Arc<SkillEntry>),
    Broken(SkillProblem),
}

impl Scan<'_> {
    /// Takes in one file that the caller changed: its skill is read again, and its folder's times
    /// count as seen. A change that is not inside a known folder makes the nearest one be listed.
    fn take_in(&mut self, path: &RelPath, folders: &mut Folders) -> Result<()> {
        let Some(at) = nearest_folder(path, folders) else { return Ok(()) };
        let inside = path.as_str().get(at.len() + 1..).unwrap_or_default();
        if inside.split('/').next().is_some_and(|first| layout::PRUNED_DIRS.contains(&first)) {
            return Ok(());
        }
        let is_skill = match inside.split_once('/') {
            None => location::is_flat_file(inside),
            Some((_, name)) => name == layout::SKILL_FILE,
        };
        let Some(folder) = folders.get_mut(&at).map(Arc::make_mut) else { return Ok(()) };
        let owner = inside.split_once('/').map(|(name, _)| format!("{at}/{name}/"));
        let known = |entry: &Arc<SkillEntry>| match &owner {
            Some(owner) => entry.place.main.as_str().starts_with(owner.as_str()),
            None => entry.place.main == *path,
        };
        if !is_skill {
            // A support file of a skill is not in the index; anything else is for the listing.
            if !folder.skills.iter().any(known) {
                folder.stat = Stat::UNKNOWN;
            }
            return Ok(());
        }
        self.moved = true;
        folder.skills.retain(|entry| !known(entry));
        folder.problems.retain(|problem| problem.path != path.as_str());
        folder.folders.retain(|below| owner.as_ref().is_none_or(|owner| *below != owner.trim_end_matches('/')));
        let Some(here) = self.root.below(&at.parse()?)? else { return Ok(()) };
        let form = if owner.is_some() { Form::Directory } else { Form::Flat };
        match self.load(&here, &at, inside, form)? {
            Loaded::Absent => {}
            Loaded::Skill(entry) => folder.skills.push(entry),
            Loaded::Broken(problem) => folder.problems.push(problem),
        }
        folder.stat = self.root.stat(&at.parse()?)?.unwrap_or(Stat::UNKNOWN);
        Ok(())
    }

    fn folder(&mut self, at: &str, depth: usize, before: &Folders) -> Result<()> {
        let limits = SurveyLimits::default();
        if depth > limits.depth {
            return Err(Error::invalid(format!(
                "{} is more than {} levels deep",
                self.root.path().join(at).display(),
                limits.depth
            ))
            .hint("move the skills up, or the directory out of the tree"));
        }
        let Some(stat) = self.root.stat(&at.parse()?)? else {
            self.moved |= before.contains_key(at);
            return Ok(());
        };
        let folder = match before.get(at) {
            Some(known) if known.stat == stat => Arc::clone(known),
            _ => {
                self.moved = true;
                Arc::new(self.list(at, stat)?)
            }
        };
        self.folders.insert(at.to_owned(), Arc::clone(&folder));
        for below in &folder.folders {
            self.folder(below, depth + 1, before)?;
        }
        Ok(())
    }

    fn list(&mut self, at: &str, stat: Stat) -> Result<Folder> {
        let mut folder = Folder { stat, ..Folder::default() };
        let Some(here) = self.root.below(&at.parse()?)? else { return Ok(folder) };
        let (mut dirs, mut flat, mut main) = (Vec::new(), Vec::new(), None);
        for entry in here.list()? {
            self.seen += 1;
            if self.seen > SurveyLimits::default().entries {
                return Err(Error::invalid(format!(
                    "{} holds more than {} entries",
                    self.root.path().join(self.top).display(),
                    SurveyLimits::default().entries
                ))
                .hint("remove what does not belong there, or split the skills over several brains"));
            }
            match entry.kind {
                DirEntryKind::Dir if layout::PRUNED_DIRS.contains(&entry.name.as_str()) => {}
                DirEntryKind::Dir if layout::is_not_content(&format!("{at}/{}", entry.name)) => {}
                DirEntryKind::Dir => dirs.push(entry.name),
                // A folder is listed only if it has no SKILL.md; it may have another spelling.
                DirEntryKind::File if location::is_main_file(&entry.name) && at != self.top => main = Some(entry.name),
                DirEntryKind::File if location::is_flat_file(&entry.name) => flat.push(entry.name),
                DirEntryKind::File => {}
                DirEntryKind::Other(what) => {
                    folder
                        .problems
                        .push(SkillProblem { path: format!("{at}/{}", entry.name), reason: what.to_owned() });
                }
            }
        }
        if let Some(main) = main {
            self.add(&here, at, &main, Form::Directory, &mut folder)?;
            return Ok(folder);
        }
        dirs.sort_unstable();
        for name in dirs {
            let inside = format!("{name}/{}", layout::SKILL_FILE);
            if !self.add(&here, at, &inside, Form::Directory, &mut folder)? {
                folder.folders.push(format!("{at}/{name}"));
            }
        }
        let in_top_or_category = at == self.top || at.rsplit_once('/').is_some_and(|(above, _)| above == self.top);
        for name in flat.into_iter().filter(|_| in_top_or_category) {
            self.add(&here, at, &name, Form::Flat, &mut folder)?;
        }
        Ok(folder)
    }

    fn add(&mut self, here: &Root, at: &str, inside: &str, form: Form, folder: &mut Folder) -> Result<bool> {
        match self.load(here, at, inside, form)? {
            Loaded::Absent => return Ok(false),
            Loaded::Skill(entry) => folder.skills.push(entry),
            Loaded::Broken(problem) => folder.problems.push(problem),
        }
        Ok(true)
    }

    /// Reads the main file `inside` the folder `at`, which is open as `here`.
    fn load(&mut self, here: &Root, at: &str, inside: &str, form: Form) -> Result<Loaded> {
        let path = format!("{at}/{inside}");
        let broken = |path: String, reason: String| Ok(Loaded::Broken(SkillProblem { path, reason }));
        let Ok(main) = path.parse::<RelPath>() else {
            return broken(path, "a name that a brain cannot hold".to_owned());
        };
        let facts = match self.facts(here, inside, &main) {
            Ok(Some(facts)) => facts,
            Ok(None) => return Ok(Loaded::Absent),
            Err(reason) => return broken(path, reason),
        };
        let titled = match form {
            Form::Directory => path.rsplit('/').nth(1).unwrap_or_default(),
            Form::Flat => main.name().trim_end_matches(".md"),
        };
        let Some(slug) = Slug::from_title(titled) else {
            let reason = format!("{titled:?} has no letter or digit to make a name of");
            return broken(path, reason);
        };
        let place = SkillLocation { slug, main, form };
        Ok(Loaded::Skill(Arc::new(SkillEntry {
            name: facts.name.clone().unwrap_or_else(|| place.slug.to_string()),
            description: Arc::clone(&facts.description),
            category: self.category(at, inside, form),
            platforms: facts.platforms.clone(),
            triggers: facts.triggers.clone(),
            requires: facts.requires.clone(),
            pinned: facts.pinned,
            place,
        })))
    }

    /// What a main file says; `None` where there is none.
    fn facts(
        &mut self,
        here: &Root,
        inside: &str,
        main: &RelPath,
    ) -> std::result::Result<Option<Arc<IndexFacts>>, String> {
        // What `stat` says belongs to the content only if it was asked first.
        let stat = match (&self.cache, inside.parse::<RelPath>()) {
            (Some(_), Ok(rel)) => here.stat(&rel).ok().flatten(),
            _ => None,
        };
        if let (Some(cache), Some(stat)) = (&mut self.cache, &stat)
            && let Some(facts) = cache.by_stat(main, stat)
        {
            return Ok(Some(facts));
        }
        match here.read_head(inside, MAX_MAIN_BYTES, &mut self.buffer) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(error.message().to_owned()),
        }
        let buffer = &self.buffer;
        let parse = || match Document::read(buffer) {
            Ok(document) => Ok(IndexFacts::of(&document)),
            Err(unreadable) => Err(unreadable.reason),
        };
        match &mut self.cache {
            Some(cache) => cache.by_content(main, stat, buffer, parse),
            None => parse().map(Arc::new),
        }
        .map(Some)
    }
}

impl Scan<'_> {
    /// The folders between the top and the skill. Neighbours share the text.
    fn category(&mut self, at: &str, inside: &str, form: Form) -> Option<Arc<str>> {
        // A main file that stands in the listed folder itself makes that folder the skill.
        let folder = match form {
            Form::Directory if !inside.contains('/') => at.rsplit_once('/').map_or("", |(above, _)| above),
            _ => at,
        };
        let name = folder.strip_prefix(self.top)?.strip_prefix('/')?;
        if self.last_category.as_deref() != Some(name) {
            self.last_category = Some(name.into());
        }
        self.last_category.clone()
    }
}

/// The deepest known folder that a path lies in.
fn nearest_folder(path: &RelPath, folders: &Folders) -> Option<String> {
    let mut above = path.parent();
    while let Some(dir) = above {
        if folders.contains_key(dir.as_str()) {
            return Some(dir.to_string());
        }
        above = dir.parent();
    }
    None
}
