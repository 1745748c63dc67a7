//! Skills outside the brain: directories of the operator that are read and never written.
//!
//! Each directory has an [`Index`] of its own. Earlier directories win a name; what loses it is among the
//! [`collisions`](SkillDirs::collisions). A directory that is missing or cannot be read is a problem and no error, for an
//! agent works without it. Uses of these skills are not counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::document::MAX_DOCUMENT_BYTES;
use super::index::{Delta, Index, SkillEntry, SkillProblem};
use super::location::Form;
use super::rules;
use super::store::{self, file_path};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{DirEntryKind, Root, Stat, SurveyLimits};
use crate::ids::{RelPath, Slug};

/// A skill of a skill directory outside the brain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalSkill<'a> {
    /// What its directory's index says of it.
    pub entry: &'a SkillEntry,
    /// The directory, as it was given.
    pub dir: &'a Path,
}

/// A name that two directories claim.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkillDirCollision {
    /// The name that both claim.
    pub slug: Slug,
    /// The directory whose skill has the name.
    pub winner: PathBuf,
    /// The directory whose skill does not.
    pub loser: PathBuf,
}

/// Directories of skills, in the order in which they win names.
#[derive(Debug, Default)]
pub struct SkillDirs {
    dirs: Vec<Directory>,
    /// Whose skill a name is.
    owners: BTreeMap<Slug, usize>,
    collisions: Vec<SkillDirCollision>,
    problems: Vec<SkillProblem>,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    open: Option<Open>,
}

/// A directory that is there. Its root is the one above it, so that every path has a part to begin with.
#[derive(Debug)]
struct Open {
    real: PathBuf,
    root: Root,
    top: RelPath,
    index: Index,
    /// Main files, and files that should be some, as they were when they were read.
    stats: BTreeMap<RelPath, Option<Stat>>,
}

impl SkillDirs {
    /// The skills of these directories. Nothing is read before [`update`](Self::update).
    pub fn new(dirs: Vec<PathBuf>) -> Self {
        Self { dirs: dirs.into_iter().map(|path| Directory { path, open: None }).collect(), ..Self::default() }
    }

    /// Reads the directories, or what changed in them since the last time.
    pub fn update(&mut self) -> Result<Delta> {
        let before: BTreeMap<Slug, (usize, SkillEntry)> = self
            .owners
            .iter()
            .filter_map(|(slug, number)| Some((slug.clone(), (*number, self.entry(slug)?.clone()))))
            .collect();
        self.problems.clear();
        let mut seen: Vec<PathBuf> = Vec::new();
        for directory in &mut self.dirs {
            let problem = match directory.update() {
                Ok(real) if seen.contains(&real) => {
                    directory.open = None;
                    Some("it is given twice; the first time counts".to_owned())
                }
                Ok(real) => {
                    seen.push(real);
                    None
                }
                Err(error) if matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt) => return Err(error),
                Err(error) => {
                    directory.open = None;
                    Some(error.message().to_owned())
                }
            };
            let path = directory.path.display().to_string();
            self.problems.extend(problem.map(|reason| SkillProblem { path, reason }));
        }
        self.merge();
        Ok(self.delta(&before))
    }

    fn merge(&mut self) {
        self.owners.clear();
        self.collisions.clear();
        for (number, directory) in self.dirs.iter().enumerate() {
            let Some(open) = &directory.open else { continue };
            for entry in open.index.entries() {
                let slug = &entry.place.slug;
                match self.owners.get(slug).and_then(|winner| self.dirs.get(*winner)) {
                    None => drop(self.owners.insert(slug.clone(), number)),
                    Some(winner) => self.collisions.push(SkillDirCollision {
                        slug: slug.clone(),
                        winner: winner.path.clone(),
                        loser: directory.path.clone(),
                    }),
                }
            }
            for problem in open.index.problems() {
                let inside = problem.path.strip_prefix(open.top.as_str()).unwrap_or(&problem.path);
                let path = directory.path.join(inside.trim_start_matches('/')).display().to_string();
                self.problems.push(SkillProblem { path, reason: problem.reason.clone() });
            }
        }
    }

    fn delta(&self, before: &BTreeMap<Slug, (usize, SkillEntry)>) -> Delta {
        let mut delta = Delta { total: self.owners.len(), ..Delta::default() };
        for (slug, number) in &self.owners {
            match (before.get(slug), self.entry(slug)) {
                (None, _) => delta.added.push(slug.clone()),
                (Some((owner, old)), Some(new)) if owner == number && old == new => delta.unchanged += 1,
                _ => delta.changed.push(slug.clone()),
            }
        }
        delta.removed = before.keys().filter(|slug| !self.owners.contains_key(*slug)).cloned().collect();
        delta
    }

    /// Its skills in slug order.
    pub fn entries(&self) -> impl Iterator<Item = ExternalSkill<'_>> {
        self.owners.keys().filter_map(|slug| self.get(slug))
    }

    /// The skill of this name, from the first directory that has one; `None` where no directory has it.
    pub fn get(&self, slug: &Slug) -> Option<ExternalSkill<'_>> {
        let directory = self.dirs.get(*self.owners.get(slug)?)?;
        Some(ExternalSkill { entry: directory.open.as_ref()?.index.get(slug)?, dir: &directory.path })
    }

    /// Names that a later directory claims too.
    pub fn collisions(&self) -> &[SkillDirCollision] {
        &self.collisions
    }

    /// Directories and files that could not be read.
    pub fn problems(&self) -> &[SkillProblem] {
        &self.problems
    }

    fn entry(&self, slug: &Slug) -> Option<&SkillEntry> {
        self.get(slug).map(|shelved| shelved.entry)
    }

    fn expect(&self, slug: &Slug) -> Result<(&Open, &SkillEntry)> {
        let directory = self.owners.get(slug).and_then(|number| self.dirs.get(*number));
        let open = directory.and_then(|directory| directory.open.as_ref());
        open.and_then(|open| Some((open, open.index.get(slug)?))).ok_or_else(|| {
            Error::not_found(format!("there is no skill {:?} in the skill directories", slug.as_str()))
                .hint("see the names with `herm skills list ID`")
        })
    }

    /// The text of a skill, or of one of its other files, as it is on the disk now.
    pub fn read(&self, slug: &Slug, file: Option<&str>) -> Result<String> {
        let (open, entry) = self.expect(slug)?;
        let (path, most) = match file {
            None => (entry.place.main.clone(), MAX_DOCUMENT_BYTES),
            Some(file) => (file_path(&entry.place, file)?, rules::MAX_SUPPORT_BYTES),
        };
        if let Some(file) = file.filter(|file| file.split('/').any(|part| part.starts_with('.'))) {
            return Err(Error::refused(format!("{file:?} of skill {slug} is hidden, and is not shown"))
                .hint("what begins with a dot in a directory of the operator is not the agent's to read"));
        }
        let shown = file.unwrap_or_else(|| path.name());
        let read = open.root.read(&path, most as u64).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => store::too_large(slug, shown),
            _ => error,
        });
        let Some(bytes) = read? else {
            return Err(Error::not_found(format!("skill {slug} has no file {shown}"))
                .hint("its directory may have changed: read the skill itself again"));
        };
        store::file_text(slug, shown, bytes)
    }

    /// The files of a skill beside its main file, by their paths inside it, in order.
    pub fn files(&self, slug: &Slug) -> Result<Vec<String>> {
        let (open, entry) = self.expect(slug)?;
        let mut files = Vec::new();
        if let (Form::Directory, Some(dir)) = (entry.place.form, entry.place.dir()) {
            list(&open.root, &dir, "", &mut files)?;
        }
        files.retain(|file| file != entry.place.main.name());
        files.sort();
        Ok(files)
    }
}

impl Directory {
    /// Brings the index up to date and returns where the directory really is.
    fn update(&mut self) -> Result<PathBuf> {
        let is_there = |open: &Open| Ok::<bool, Error>(open.root.stat(&open.top)?.is_some());
        let open = match self.open.take() {
            // What was taken away may be somewhere else now, if a link led there.
            Some(open) if is_there(&open)? => open,
            _ => Open::at(&self.path)?,
        };
        let open = self.open.insert(open);
        open.update()?;
        Ok(open.real.clone())
    }
}

impl Open {
    fn at(path: &Path) -> Result<Self> {
        let real = path.canonicalize().map_err(|source| Error::io("read", path, source))?;
        if !real.is_dir() {
            return Err(Error::invalid(format!("{} is not a directory", path.display()))
                .hint("name a directory that holds skills"));
        }
        let (Some(above), Some(name)) = (real.parent(), real.file_name().and_then(|name| name.to_str())) else {
            return Err(Error::invalid(format!("{} has no name that could be read", path.display()))
                .hint("name a directory that holds skills, with a name in UTF-8"));
        };
        let (root, top) = (Root::open(above)?, name.parse()?);
        Ok(Self { root, top, index: Index::default(), stats: BTreeMap::new(), real })
    }

    /// An index notices new and removed files by itself; files that were edited in place are seen here.
    fn update(&mut self) -> Result<()> {
        let mut is_new = self.stats.is_empty();
        for (path, known) in &self.stats {
            is_new |= self.root.stat(path)? != *known;
        }
        if is_new {
            self.index = Index::build(&self.root, self.top.as_str())?;
        } else {
            self.index.update(&self.root, &[])?;
        }
        let mains = self.index.entries().map(|entry| entry.place.main.clone());
        let broken = self.index.problems().iter().filter_map(|problem| problem.path.parse().ok());
        let mut stats = BTreeMap::new();
        for path in mains.chain(broken) {
            let stat = self.root.stat(&path)?;
            stats.insert(path, stat);
        }
        self.stats = stats;
        Ok(())
    }
}

/// Adds the regular files below a directory, which is called `shown`. Links are passed over.
fn list(root: &Root, dir: &RelPath, shown: &str, files: &mut Vec<String>) -> Result<()> {
    let opened = match root.below(dir) {
        Ok(Some(opened)) => opened,
        Ok(None) => return Ok(()),
        // A link in the place of a directory leads elsewhere, and nothing elsewhere is the skill's.
        Err(error) if error.kind() == ErrorKind::Refused => return Ok(()),
        Err(error) => return Err(error),
    };
    // What begins with a dot in a directory of the operator (`.env`, `.git`) is not the agent's to read.
    for entry in opened.list()?.into_iter().filter(|entry| !entry.name.starts_with('.')) {
        let Ok(path) = dir.join(&entry.name) else { continue };
        let shown = if shown.is_empty() { entry.name.clone() } else { format!("{shown}/{}", entry.name) };
        match entry.kind {
            DirEntryKind::File => files.push(shown),
            DirEntryKind::Dir => list(root, &path, &shown, files)?,
            DirEntryKind::Other(_) => {}
        }
        let most = SurveyLimits::default().entries;
        if files.len() > most {
            return Err(Error::invalid(format!("{dir} holds more than {most} files")).hint("split the skill"));
        }
    }
    Ok(())
}

/// A path as the configuration writes it: `~` at the beginning is `home`, `$NAME` and `${NAME}` are variables. What a
/// variable holds is not looked at again.
pub fn expand(text: &str, home: Option<&Path>, env: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf> {
    let fail = |what: String, hint: &str| Err(Error::invalid(format!("{text:?} {what}")).hint(hint));
    if text.trim().is_empty() {
        return fail("is not a path".to_owned(), "name a directory");
    }
    let (mut path, mut rest) = (String::new(), text);
    if let Some(behind) = text.strip_prefix('~') {
        if !behind.is_empty() && !behind.starts_with('/') {
            return fail("names the home of another user".to_owned(), "write the whole path");
        }
        match home.and_then(Path::to_str) {
            Some(home) => path.push_str(home.trim_end_matches('/')),
            None => {
                return fail(
                    "needs a home directory, and HOME is not set".to_owned(),
                    "set HOME, or write the whole path",
                );
            }
        }
        rest = behind;
        if rest.is_empty() && path.is_empty() {
            path.push('/');
        }
    }
    while let Some((before, behind)) = rest.split_once('$') {
        path.push_str(before);
        let (name, after) = match behind.strip_prefix('{') {
            Some(braced) => match braced.split_once('}') {
                Some((name, after)) if is_variable(name) => (name, after),
                _ => return fail("has a ${ without a name and a }".to_owned(), "write it as ${NAME}"),
            },
            None => behind.split_at(behind.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()),
        };
        rest = after;
        if !is_variable(name) {
            path.push('$');
            path.push_str(name);
            continue;
        }
        match env(name).filter(|value| !value.is_empty()) {
            Some(value) => path.push_str(&value),
            None => {
                return fail(format!("needs the variable {name}, which is not set"), "set it, or write the whole path");
            }
        }
    }
    path.push_str(rest);
    Ok(PathBuf::from(path))
}

fn is_variable(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_part) && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn variables(name: &str) -> Option<String> {
        match name {
            "LIB" => Some("/srv/lib".to_owned()),
            "ODD" => Some("$LIB/~".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn home_and_variables_are_expanded_once() {
        let home = Path::new("/home/op");
        for (text, path) in [
            ("~", "/home/op"),
            ("~/skills", "/home/op/skills"),
            ("$LIB/a", "/srv/lib/a"),
            ("${LIB}a", "/srv/liba"),
            ("/x/$ODD", "/x/$LIB/~"),
            ("/a~b/c$", "/a~b/c$"),
            ("/a/$1/$-", "/a/$1/$-"),
            ("relative/x", "relative/x"),
        ] {
            assert_eq!(expand(text, Some(home), &variables).unwrap(), Path::new(path), "{text}");
        }
        for text in ["", " ", "$NONE/x", "${NONE}", "$EMPTY", "${LIB", "${}", "${1}", "${LIB /x}", "~bob/x"] {
            assert!(expand(text, Some(home), &variables).unwrap_err().hint_text().is_some(), "{text}");
        }
        assert!(expand("~/x", None, &variables).unwrap_err().to_string().contains("HOME"));
        assert_eq!(expand("~", Some(Path::new("/")), &variables).unwrap(), Path::new("/"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[~$a-zA-Z{}_/é]{0,20}") {
            let _ = expand(&text, Some(Path::new("/h")), &variables);
        }
    }
}
