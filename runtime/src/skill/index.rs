//! Level 0: every skill by name and description, never its body.
//!
//! Building the index opens one file a skill and lists only directories that are not skills.
//! Brought up to date, it lists again only where a directory's own times moved or where the
//! caller knows of a change; whoever loads a body checks its digest at that moment, so nothing
//! outdated is ever *used*.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::document::Document;
use super::place::{self, Form, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{Limits, Root, Stat};
use crate::ids::{RelPath, Slug};
use crate::layout;

/// The largest main file that is read. More than the rules allow to write, so that a skill that
/// grew too large is still seen.
const MAX_MAIN_BYTES: u64 = 1 << 20;

/// One skill of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its identity, form and main file.
    pub place: Place,
    /// What its front matter calls it; the slug where it says nothing.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The folder it stands in.
    pub category: Option<String>,
    /// The operating systems it is for; none means all.
    pub platforms: Vec<String>,
    stat: Stat,
}

impl Entry {
    /// Whether it is for the operating system this program runs on.
    pub fn suits_this_platform(&self) -> bool {
        self.platforms.is_empty()
            || self.platforms.iter().any(|platform| {
                let platform = platform.to_ascii_lowercase();
                platform == std::env::consts::OS || (platform == "darwin" && cfg!(target_os = "macos"))
            })
    }
}

/// A file that should be a skill and is not in the index, or is there with a reservation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What changed when an index was brought up to date.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Delta {
    /// New skills.
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

#[derive(Debug, Clone, Default)]
struct Folder {
    stat: Stat,
    skills: Vec<Arc<Entry>>,
    folders: Vec<String>,
    problems: Vec<Problem>,
}

/// All skills of a directory.
#[derive(Debug, Clone, Default)]
pub struct Index {
    top: String,
    folders: BTreeMap<String, Arc<Folder>>,
    entries: BTreeMap<Slug, Arc<Entry>>,
    problems: Vec<Problem>,
}

impl Index {
    /// Reads every skill below `top` of `root`.
    pub fn build(root: &Root, top: &str) -> Result<Self> {
        let mut index = Self { top: top.to_owned(), ..Self::default() };
        index.update(root, &[])?;
        Ok(index)
    }

    /// Brings the index up to date. `changed` are files the caller knows to have changed.
    pub fn update(&mut self, root: &Root, changed: &[RelPath]) -> Result<Delta> {
        let mut scan = Scan {
            root,
            top: &self.top,
            before: &self.folders,
            changed: changed.iter().map(RelPath::as_str).collect(),
            folders: BTreeMap::new(),
            buffer: Vec::new(),
            seen: 0,
            moved: false,
        };
        scan.folder(&self.top, 1)?;
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
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(AsRef::as_ref)
    }

    /// One skill.
    pub fn get(&self, slug: &Slug) -> Option<&Entry> {
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
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    fn collect(&mut self) {
        self.problems.clear();
        let mut found: Vec<&Arc<Entry>> = Vec::new();
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
                Some(winner) => self.problems.push(Problem {
                    path: entry.place.main.to_string(),
                    reason: format!("the name {} is taken by {}", entry.place.slug, winner.place.main),
                }),
            }
        }
        self.problems.sort_by(|a, b| a.path.cmp(&b.path));
    }

    fn delta(&self, before: &BTreeMap<Slug, Arc<Entry>>) -> Delta {
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

struct Scan<'a> {
    root: &'a Root,
    top: &'a str,
    before: &'a BTreeMap<String, Arc<Folder>>,
    changed: BTreeSet<&'a str>,
    folders: BTreeMap<String, Arc<Folder>>,
    buffer: Vec<u8>,
    seen: usize,
    moved: bool,
}

impl Scan<'_> {
    fn folder(&mut self, at: &str, depth: usize) -> Result<()> {
        let limits = Limits::default();
        if depth > limits.depth {
            return Err(Error::invalid(format!(
                "{} is more than {} levels deep",
                self.root.path().join(at).display(),
                limits.depth
            ))
            .hint("move the skills up, or the directory out of the tree"));
        }
        let path: RelPath = at.parse()?;
        let Some(stat) = self.root.stat(&path)? else {
            self.moved |= self.before.contains_key(at);
            return Ok(());
        };
        let known = self.before.get(at).cloned();
        let folder = match &known {
            Some(known) if known.stat == stat && !self.touches(at) => Arc::clone(known),
            _ => {
                self.moved = true;
                Arc::new(self.list(at, stat, known.as_deref())?)
            }
        };
        self.folders.insert(at.to_owned(), Arc::clone(&folder));
        for below in &folder.folders {
            self.folder(below, depth + 1)?;
        }
        Ok(())
    }

    /// Whether a known change lies in this folder or in a skill directly below it.
    fn touches(&self, at: &str) -> bool {
        self.changed.iter().any(|path| path.strip_prefix(at).is_some_and(|rest| rest.starts_with('/')))
    }

    fn list(&mut self, at: &str, stat: Stat, known: Option<&Folder>) -> Result<Folder> {
        let mut names: Vec<(String, bool)> = Vec::new();
        let mut folder = Folder { stat, ..Folder::default() };
        for entry in self.root.list(at)? {
            self.seen += 1;
            if self.seen > Limits::default().entries {
                return Err(Error::invalid(format!(
                    "{} holds more than {} entries",
                    self.root.path().join(self.top).display(),
                    Limits::default().entries
                ))
                .hint("remove what does not belong there, or split the skills over several brains"));
            }
            match entry.kind {
                crate::fsio::Kind::Dir if layout::PRUNED_DIRS.contains(&entry.name.as_str()) => {}
                crate::fsio::Kind::Dir => names.push((entry.name, true)),
                crate::fsio::Kind::File if place::is_main_file(&entry.name) && at != self.top => {
                    // Only a folder listed because its main file has another spelling.
                    names.push((entry.name, false));
                }
                crate::fsio::Kind::File if place::is_flat_file(&entry.name) => names.push((entry.name, false)),
                crate::fsio::Kind::File => {}
                crate::fsio::Kind::Odd(what) => {
                    folder.problems.push(Problem { path: format!("{at}/{}", entry.name), reason: what.to_owned() });
                }
            }
        }
        names.sort();
        let is_skill_folder = names.iter().any(|(name, is_dir)| !is_dir && place::is_main_file(name));
        let known: BTreeMap<&str, &Arc<Entry>> = known
            .map(|folder| folder.skills.iter().map(|entry| (entry.place.main.as_str(), entry)).collect())
            .unwrap_or_default();
        for (name, is_dir) in names {
            let path = format!("{at}/{name}");
            if is_dir {
                if is_skill_folder {
                    continue;
                }
                let main = format!("{path}/{}", layout::SKILL_FILE);
                if !self.skill(&main, Form::Directory, &known, &mut folder)? {
                    folder.folders.push(path);
                }
            } else if place::is_main_file(&name) {
                self.skill(&path, Form::Directory, &known, &mut folder)?;
            } else if !is_skill_folder {
                self.skill(&path, Form::Flat, &known, &mut folder)?;
            }
        }
        Ok(folder)
    }

    /// Reads one main file into `folder`; `false` where there is no such file.
    fn skill(
        &mut self,
        path: &str,
        form: Form,
        known: &BTreeMap<&str, &Arc<Entry>>,
        folder: &mut Folder,
    ) -> Result<bool> {
        let Ok(main) = path.parse::<RelPath>() else {
            folder.problems.push(Problem { path: path.to_owned(), reason: "a name that a brain cannot hold".into() });
            return Ok(true);
        };
        if let Some(entry) = known.get(path)
            && !self.changed.contains(path)
            && self.root.stat(&main)? == Some(entry.stat)
        {
            folder.skills.push(Arc::clone(entry));
            return Ok(true);
        }
        let mut report = |reason: String| {
            folder.problems.push(Problem { path: path.to_owned(), reason });
            Ok(true)
        };
        let stat = match self.root.read_with_stat(&main, MAX_MAIN_BYTES, &mut self.buffer) {
            Ok(Some(stat)) => stat,
            Ok(None) => return Ok(false),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Refused) => {
                return report(error.message().to_owned());
            }
            Err(error) => return Err(error),
        };
        let document = match Document::read(&self.buffer) {
            Ok(document) => document,
            Err(unreadable) => return report(unreadable.reason),
        };
        let titled = match form {
            Form::Directory => main.parent().map(|dir| dir.name().to_owned()).unwrap_or_default(),
            Form::Flat => main.name().trim_end_matches(".md").to_owned(),
        };
        let Some(slug) = Slug::from_title(&titled) else {
            return report(format!("{titled:?} has no letter or digit to make a name of"));
        };
        let place = Place { slug, main, form };
        folder.skills.push(Arc::new(Entry {
            name: document.name().unwrap_or_else(|| place.slug.to_string()),
            description: document.description().unwrap_or_default(),
            category: place.category(self.top),
            platforms: document.platforms(),
            place,
            stat,
        }));
        Ok(true)
    }
}
