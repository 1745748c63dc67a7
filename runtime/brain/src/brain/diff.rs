//! A brain as it was: the files and the skills of its earlier versions, from the journal alone, and
//! what differs between two of them.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};

use super::journal;
use super::reader::Reader;
use crate::error::{Error, Result};
use crate::fsio::Root;
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::{Database, sql, undo};
use crate::skill::{SkillLifecycle, store};

/// What became of a file between two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileChangeKind {
    /// It is in the later one only.
    Added,
    /// It is in the earlier one only.
    Removed,
    /// It has other content.
    Changed,
    /// It went into the archive with its skill.
    Archived,
    /// It came back from the archive with its skill.
    Restored,
}

impl FileChangeKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Archived => "archived",
            Self::Restored => "restored",
        }
    }
}

/// A file that differs between two versions.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FileDiff {
    /// What became of it.
    pub what: FileChangeKind,
    /// The file, where it is in the second version if it is there.
    pub path: RelPath,
    /// Where it was in the first version, if it moved into the archive or out of it.
    pub from: Option<RelPath>,
    /// Its digest in the first version.
    pub before: Option<Digest>,
    /// Its digest in the second version.
    pub after: Option<Digest>,
}

/// A skill that does not stand where it stood.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkillDiff {
    /// The skill's name, which is the same in both versions.
    pub slug: Slug,
    /// State and pin in the first version; in an [`UndoPlan`](super::UndoPlan), those of now.
    pub before: SkillLifecycle,
    /// State and pin in the second version; in an [`UndoPlan`](super::UndoPlan), those the skill gets back.
    pub after: SkillLifecycle,
}

/// What differs between two versions of a brain. Rows of the memory are not compared.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BrainDiff {
    /// The version that the changes begin from. It may be the higher of the two.
    pub from: u64,
    /// The version that the changes lead to.
    pub to: u64,
    /// Its files, by path.
    pub files: Vec<FileDiff>,
    /// Its skills, by name, as far as the journal can tell.
    pub skills: Vec<SkillDiff>,
}

impl Reader {
    /// The first and the last version in the history.
    pub fn versions(&self) -> Result<(u64, u64)> {
        journal::versions(&self.database.connection)
    }

    /// The files of a version, with their digests.
    pub fn files_at(&self, version: u64) -> Result<BTreeMap<RelPath, Digest>> {
        let view = self.view()?;
        files_after(&view, self.step_of(&view, version)?)
    }

    /// Where the skills stood in a version, as far as the journal can tell.
    pub fn lifecycles_at(&self, version: u64) -> Result<BTreeMap<Slug, SkillLifecycle>> {
        let view = self.view()?;
        standings_after(&self.database, self.step_of(&view, version)?)
    }

    /// Content that the brain has or had; `None` where it is kept neither in the journal nor in a file.
    pub fn content(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        content(&self.database, self.root(), digest)
    }

    /// What differs between two versions.
    pub fn compare(&self, from: u64, to: u64) -> Result<BrainDiff> {
        let view = self.view()?;
        let (first, second) = (self.step_of(&view, from)?, self.step_of(&view, to)?);
        let files = file_differences(&files_after(&view, first)?, &files_after(&view, second)?);
        let skills =
            skill_differences(&standings_after(&self.database, first)?, &standings_after(&self.database, second)?);
        Ok(BrainDiff { from, to, files, skills })
    }

    /// One state of the database for several reads, whatever the owner settles meanwhile.
    fn view(&self) -> Result<Transaction<'_>> {
        self.database.connection.unchecked_transaction().map_err(|source| sql("read memory.db", source))
    }

    fn step_of(&self, connection: &Connection, version: u64) -> Result<i64> {
        if let Some(step) = journal::step_of_version(connection, version)? {
            return Ok(step);
        }
        let there = match journal::versions(connection)? {
            (first, last) if first == last => format!("its only version is {last}"),
            (first, last) => format!("its versions are {first} to {last}"),
        };
        Err(Error::not_found(format!("brain {} has no version {version}: {there}", self.id()))
            .hint(format!("see them with `herm brain history {}`", self.id())))
    }
}

/// The files as a step left them: those of the last step, with everything later taken back.
fn files_after(connection: &Connection, step: i64) -> Result<BTreeMap<RelPath, Digest>> {
    let mut files = journal::entries(connection)?;
    for (_, change) in journal::changes(connection, step.saturating_add(1), i64::MAX)?.into_iter().rev() {
        match change.before {
            Some(digest) => files.insert(change.path, digest),
            None => files.remove(&change.path),
        };
    }
    Ok(files)
}

/// Where the skills stood after a step.
fn standings_after(database: &Database, step: i64) -> Result<BTreeMap<Slug, SkillLifecycle>> {
    let now = database.skill_usage()?;
    let mut standings: BTreeMap<_, _> =
        now.iter().map(|(slug, usage)| (slug.clone(), SkillLifecycle::of(usage))).collect();
    for earlier in undo::standings(&database.connection, step.saturating_add(1), i64::MAX)?.into_iter().rev() {
        standings.insert(earlier.slug, earlier.standing);
    }
    Ok(standings)
}

/// Content by its digest: from the journal, or from a file that has it now.
pub(super) fn content(database: &Database, root: &Root, digest: &Digest) -> Result<Option<Vec<u8>>> {
    if let Some(content) = journal::find_blob(&database.connection, digest)? {
        return Ok(Some(content));
    }
    for (path, _) in journal::entries(&database.connection)?.into_iter().filter(|(_, there)| there == digest) {
        let found = root.read(&path, layout::MAX_FILE_BYTES)?;
        if let Some(content) = found.filter(|content| Digest::of(content) == *digest) {
            return Ok(Some(content));
        }
    }
    Ok(None)
}

fn file_differences(old: &BTreeMap<RelPath, Digest>, new: &BTreeMap<RelPath, Digest>) -> Vec<FileDiff> {
    let mut found = Vec::new();
    let mut removed: BTreeMap<&RelPath, Digest> = BTreeMap::new();
    let mut added: BTreeMap<&RelPath, Digest> = BTreeMap::new();
    for (path, digest) in old {
        match new.get(path) {
            None => drop(removed.insert(path, *digest)),
            Some(after) if after != digest => found.push(FileDiff {
                what: FileChangeKind::Changed,
                path: path.clone(),
                from: None,
                before: Some(*digest),
                after: Some(*after),
            }),
            Some(_) => {}
        }
    }
    added.extend(new.iter().filter(|(path, _)| !old.contains_key(*path)).map(|(path, digest)| (path, *digest)));
    for Moved { what, from, path } in moves(&removed, &added) {
        // Of several archives of one name, one is what stood there.
        if let (Some(before), Some(after)) = (removed.get(&from).copied(), added.get(&path).copied()) {
            removed.remove(&from);
            added.remove(&path);
            found.push(FileDiff { what, path, from: Some(from), before: Some(before), after: Some(after) });
        }
    }
    let gone = removed.into_iter().map(|(path, digest)| (FileChangeKind::Removed, path, Some(digest), None));
    let come = added.into_iter().map(|(path, digest)| (FileChangeKind::Added, path, None, Some(digest)));
    for (what, path, before, after) in gone.chain(come) {
        found.push(FileDiff { what, path: path.clone(), from: None, before, after });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// A file that went into the archive or came out of it.
struct Moved {
    what: FileChangeKind,
    from: RelPath,
    path: RelPath,
}

/// All that may have moved, those with the same content on both sides first.
fn moves(removed: &BTreeMap<&RelPath, Digest>, added: &BTreeMap<&RelPath, Digest>) -> Vec<Moved> {
    let mut found = Vec::new();
    for path in added.keys() {
        let from = store::before_archive(path).into_iter().filter(|from| removed.contains_key(from));
        found.extend(from.map(|from| Moved { what: FileChangeKind::Archived, from, path: (*path).clone() }));
    }
    for from in removed.keys() {
        let to = store::before_archive(from).into_iter().filter(|to| added.contains_key(to));
        found.extend(to.map(|path| Moved { what: FileChangeKind::Restored, from: (*from).clone(), path }));
    }
    found.sort_by_key(|moved| removed.get(&moved.from) != added.get(&moved.path));
    found
}

fn skill_differences(old: &BTreeMap<Slug, SkillLifecycle>, new: &BTreeMap<Slug, SkillLifecycle>) -> Vec<SkillDiff> {
    let mut slugs: Vec<&Slug> = old.keys().chain(new.keys()).collect();
    slugs.sort();
    slugs.dedup();
    let stood = |standings: &BTreeMap<Slug, SkillLifecycle>, slug| {
        standings.get(slug).copied().unwrap_or(SkillLifecycle::PLAIN)
    };
    slugs
        .into_iter()
        .map(|slug| SkillDiff { slug: slug.clone(), before: stood(old, slug), after: stood(new, slug) })
        .filter(|skill| skill.before != skill.after)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[(&str, &str)]) -> BTreeMap<RelPath, Digest> {
        paths.iter().map(|(path, text)| (path.parse().expect("a path"), Digest::of(text.as_bytes()))).collect()
    }

    fn said(old: &[(&str, &str)], new: &[(&str, &str)]) -> Vec<String> {
        let line = |file: FileDiff| match file.from {
            Some(from) => format!("{} {} from {from}", file.what.name(), file.path),
            None => format!("{} {}", file.what.name(), file.path),
        };
        file_differences(&files(old), &files(new)).into_iter().map(line).collect()
    }

    #[test]
    fn a_skill_that_was_archived_is_said_so_under_any_number() {
        let old = [
            ("skills/.archive/flat.md", "older"),
            ("skills/cat/dir/SKILL.md", "s"),
            ("skills/cat/dir/references/x.archived-2.md", "r"),
            ("skills/flat.md", "f"),
            ("skills/gone.md", "g"),
            ("skills/same.md", "1"),
        ];
        let new = [
            ("skills/.archive/cat/dir.archived-3/SKILL.md", "s"),
            ("skills/.archive/cat/dir.archived-3/references/x.archived-2.md", "r"),
            ("skills/.archive/flat.archived-2.md", "f, changed first"),
            ("skills/.archive/flat.md", "older"),
            ("skills/new.md", "n"),
            ("skills/same.md", "2"),
        ];
        let archived = [
            "archived skills/.archive/cat/dir.archived-3/SKILL.md from skills/cat/dir/SKILL.md",
            "archived skills/.archive/cat/dir.archived-3/references/x.archived-2.md from \
             skills/cat/dir/references/x.archived-2.md",
            "archived skills/.archive/flat.archived-2.md from skills/flat.md",
            "removed skills/gone.md",
            "added skills/new.md",
            "changed skills/same.md",
        ];
        assert_eq!(said(&old, &new), archived);
        let back = said(&new, &old);
        assert!(
            back.contains(&"restored skills/flat.md from skills/.archive/flat.archived-2.md".to_owned()),
            "{back:?}"
        );
        assert_eq!(back.iter().filter(|line| line.starts_with("restored")).count(), 3, "{back:?}");
    }

    #[test]
    fn of_two_archives_of_a_name_the_one_with_its_content_is_it() {
        let old = [("skills/x.md", "one")];
        let new = [("skills/.archive/x.archived-2.md", "two"), ("skills/.archive/x.md", "one")];
        let expected = ["added skills/.archive/x.archived-2.md", "archived skills/.archive/x.md from skills/x.md"];
        assert_eq!(said(&old, &new), expected);
    }
}
