//! What a tree of skills holds, read once and into memory.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Concern, SkillImportSkipReason, SkippedSkillImport, origin};
use crate::document::{Document, MAX_DOCUMENT_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::{self, DirEntryKind, Root, SurveyLimits};
use crate::ids::{RelPath, Slug};
use crate::layout::{self, SKILLS_DIR};
use crate::location::{self, Form, MAIN_FILES, SkillLocation};
use crate::{CreatedBy, guard, rules};

/// The most one import may weigh.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// What describes a category.
const DESCRIPTION: &str = "DESCRIPTION.md";
/// What marks archived skills in their names.
const ARCHIVED_MARK: &str = ".archived-";

/// A skill that could be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillImportCandidate {
    /// Where it would stand in a brain.
    pub place: SkillLocation,
    /// Its main file in the library.
    pub source: String,
    /// Its files by their path in a brain, the main file among them, with their content.
    pub files: Vec<(RelPath, Vec<u8>)>,
    /// What the guard says of its texts.
    pub concerns: Vec<Concern>,
}

/// Everything a tree holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkillLibrary {
    /// Skills that loaded, in path order.
    pub skills: Vec<SkillImportCandidate>,
    /// Descriptions of categories, by their path in a brain.
    pub descriptions: Vec<(RelPath, Vec<u8>)>,
    /// What did not load.
    pub skipped: Vec<SkippedSkillImport>,
    /// Where skills come from, as the library records it.
    pub origins: BTreeMap<Slug, CreatedBy>,
}

impl SkillLibrary {
    /// Reads a library, or a single skill: its directory, its main file, or a flat file. `path` itself may be a link,
    /// for the caller named it on purpose; links inside are not followed.
    pub fn read(path: &Path) -> Result<Self> {
        let real = path.canonicalize().map_err(|source| Error::io("read", path, source))?;
        let meta = real.metadata().map_err(|source| Error::io("read", path, source))?;
        let no_skill = |what: &str| {
            Error::invalid(format!("{} {what}", path.display()))
                .hint("name a directory that holds skills, a skill's directory, or a skill file such as name.md")
        };
        let mut walk = Walk::default();
        if meta.is_dir() {
            walk.top(&real)?;
            if walk.is_empty_handed() {
                return Err(Error::not_found(format!("there is no skill in {}", path.display()))
                    .hint("a skill is a directory with a SKILL.md, or a Markdown file such as name.md"));
            }
        } else if meta.is_file() {
            let (Some(above), Some(name)) = (real.parent(), real.file_name().and_then(|name| name.to_str())) else {
                return Err(no_skill("has a name that is not UTF-8"));
            };
            if location::is_main_file(name) {
                walk.top(above)?;
            } else if location::is_flat_file(name) {
                walk.flat(&Root::open(above)?, "", name);
            } else {
                return Err(no_skill("is not a skill"));
            }
        } else {
            return Err(no_skill("is neither a directory nor a regular file"));
        }
        let mut library = walk.library;
        library.skills.sort_by(|a, b| a.source.cmp(&b.source));
        library.descriptions.sort();
        library.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(library)
    }
}

/// Why one file cannot be taken over.
struct Refusal {
    reason: SkillImportSkipReason,
    detail: String,
}

impl Refusal {
    fn new(reason: SkillImportSkipReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

#[derive(Default)]
struct Walk {
    library: SkillLibrary,
    seen: usize,
    bytes: u64,
}

/// The members of a skill's directory, by their path inside it.
#[derive(Default)]
struct Members {
    files: Vec<String>,
    refused: Vec<(String, Refusal)>,
    /// Skills that stand inside; where they go is not decided yet.
    nested: Vec<Found>,
}

/// A directory with a main file.
struct Found {
    here: Root,
    /// Where it stands in the library.
    at: String,
    /// Where it is to stand below the skills of a brain.
    target: String,
    /// The name of its main file.
    main: String,
    entries: Vec<fsio::DirEntry>,
}

impl Walk {
    fn top(&mut self, path: &Path) -> Result<()> {
        let root = Root::open(path)?;
        let entries = self.list(&root)?;
        let Some(main) = main_file(&entries) else {
            self.library.origins = origin::read(&root, &mut self.library.skipped);
            return self.folder(&root, "", entries);
        };
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::invalid(format!("{} is a skill without a name", path.display()))
                .hint("give its directory a name in UTF-8"));
        };
        self.directory(Found { here: root, at: name.to_owned(), target: name.to_owned(), main, entries })
    }

    /// Whether nothing was found that is a skill or should be one.
    fn is_empty_handed(&self) -> bool {
        let is_aside = |skipped: &SkippedSkillImport| {
            matches!(skipped.reason, SkillImportSkipReason::NotASkill | SkillImportSkipReason::NotEntered)
        };
        self.library.skills.is_empty() && self.library.skipped.iter().all(is_aside)
    }

    fn list(&mut self, here: &Root) -> Result<Vec<fsio::DirEntry>> {
        let mut entries = here.list()?;
        self.seen += entries.len();
        let most = SurveyLimits::default().entries;
        if self.seen > most {
            return Err(Error::invalid(format!("{} is part of more than {most} entries", here.path().display()))
                .hint("import a part of the library at a time"));
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn skip(&mut self, path: impl Into<String>, slug: Option<Slug>, refusal: Refusal, files: Vec<String>) {
        let Refusal { reason, detail } = refusal;
        self.library.skipped.push(SkippedSkillImport { path: path.into(), slug, reason, detail, files });
    }

    /// A directory that is not a skill: the top, or a category.
    fn folder(&mut self, here: &Root, at: &str, entries: Vec<fsio::DirEntry>) -> Result<()> {
        for entry in entries {
            let path = joined(at, &entry.name);
            match entry.kind {
                DirEntryKind::Other(what) => self.skip(path, None, odd(what), Vec::new()),
                DirEntryKind::Dir => {
                    let Some((below, entries)) = self.enter(here, &entry.name, &path)? else { continue };
                    match main_file(&entries) {
                        Some(main) => {
                            self.directory(Found { here: below, at: path.clone(), target: path, main, entries })?;
                        }
                        None => self.folder(&below, &path, entries)?,
                    }
                }
                DirEntryKind::File if location::is_flat_file(&entry.name) && !at.contains('/') => {
                    self.flat(here, at, &entry.name);
                }
                DirEntryKind::File if entry.name == DESCRIPTION && !at.is_empty() => self.description(here, &path),
                DirEntryKind::File => {
                    let detail = if location::is_flat_file(&entry.name) {
                        "a skill in a single file stands in the top directory or in one category"
                    } else {
                        "it belongs to no skill"
                    };
                    self.skip(path, None, Refusal::new(SkillImportSkipReason::NotASkill, detail), Vec::new());
                }
            }
        }
        Ok(())
    }

    /// Opens and lists a directory; `None` where it is skipped.
    fn enter(&mut self, here: &Root, name: &str, path: &str) -> Result<Option<(Root, Vec<fsio::DirEntry>)>> {
        if layout::PRUNED_DIRS.contains(&name) {
            let detail = format!("directories called {name} hold no skills");
            self.skip(path, None, Refusal::new(SkillImportSkipReason::NotEntered, detail), Vec::new());
            return Ok(None);
        }
        let opened = in_brain(path).and_then(|_| {
            let name: RelPath = name.parse().map_err(|error: Error| bad_name(&error))?;
            match here.below(&name) {
                Ok(Some(below)) => Ok(below),
                Ok(None) => Err(Refusal::new(SkillImportSkipReason::Unreadable, "it went away while it was read")),
                Err(error) => Err(unreadable(&error)),
            }
        });
        match opened {
            Ok(below) => {
                let entries = self.list(&below)?;
                Ok(Some((below, entries)))
            }
            Err(refusal) => {
                self.skip(path, None, refusal, Vec::new());
                Ok(None)
            }
        }
    }

    /// A skill in directory form. Skills inside its directory are skills of their own, beside it.
    fn directory(&mut self, found: Found) -> Result<()> {
        let Found { here, at, target, main, entries } = found;
        let mut members = Members::default();
        self.members(&here, &at, "", entries, &mut members)?;
        let title = at.rsplit('/').next().unwrap_or(&at);
        let slug = Slug::from_title(title);
        let loaded = match members.refused.iter().position(|(inside, _)| *inside == main) {
            Some(odd) => Err(members.refused.remove(odd).1),
            None => self.load(&here, &at, &target, title, &main, &mut members),
        };
        let others = |members: &Members| {
            let files = members.files.iter().filter(|inside| **inside != main);
            files.map(|inside| joined(&at, inside)).collect::<Vec<_>>()
        };
        match loaded {
            Ok(candidate) => {
                let detail = format!("a main file in a support directory: a file of skill {}", candidate.place.slug);
                for inside in members.files.iter().filter(|inside| is_main_file_below(inside)) {
                    let refusal = Refusal::new(SkillImportSkipReason::NotASkill, detail.clone());
                    self.skip(joined(&at, inside), slug.clone(), refusal, Vec::new());
                }
                self.library.skills.push(candidate);
            }
            Err(refusal) => self.skip(joined(&at, &main), slug.clone(), refusal, others(&members)),
        }
        for (inside, refusal) in members.refused {
            self.skip(joined(&at, &inside), slug.clone(), refusal, Vec::new());
        }
        let category = target.rsplit_once('/').map_or("", |(category, _)| category);
        for nested in members.nested {
            let name = nested.at.rsplit('/').next().unwrap_or(&nested.at);
            self.directory(Found { target: joined(category, name), ..nested })?;
        }
        Ok(())
    }

    fn members(
        &mut self,
        here: &Root,
        at: &str,
        inside: &str,
        entries: Vec<fsio::DirEntry>,
        members: &mut Members,
    ) -> Result<()> {
        for entry in entries {
            let path = joined(inside, &entry.name);
            match entry.kind {
                DirEntryKind::File => members.files.push(path),
                DirEntryKind::Other(what) => members.refused.push((path, odd(what))),
                // A directory in the place of the main file: whatever it holds is not the skill.
                DirEntryKind::Dir if path == layout::SKILL_FILE => {
                    let refusal = Refusal::new(SkillImportSkipReason::SpecialFile, "it is a directory and not a file");
                    members.refused.push((path, refusal));
                }
                DirEntryKind::Dir => {
                    let whole = joined(at, &path);
                    let Some((below, entries)) = self.enter(here, &entry.name, &whole)? else { continue };
                    match main_file(&entries).filter(|_| !is_support(&path)) {
                        Some(main) => {
                            let target = String::new();
                            members.nested.push(Found { here: below, at: whole, target, main, entries });
                        }
                        None => self.members(&below, at, &path, entries, members)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a skill's main file and all its other files; those that cannot come along move to the refused ones.
    fn load(
        &mut self,
        here: &Root,
        at: &str,
        target: &str,
        title: &str,
        main: &str,
        members: &mut Members,
    ) -> Result<SkillImportCandidate, Refusal> {
        let main_target = in_brain(&joined(target, layout::SKILL_FILE))?;
        let content = main_content(here, main)?;
        let place = SkillLocation { slug: named(title, at)?, main: main_target.clone(), form: Form::Directory };
        let mut concerns = concerns(main, &content);
        let mut files = vec![(main_target, content)];
        for inside in members.files.clone().into_iter().filter(|inside| inside != main) {
            match support(here, target, &inside) {
                Ok((target, content)) => {
                    concerns.extend(self::concerns(&inside, &content));
                    files.push((target, content));
                }
                Err(refusal) => {
                    members.files.retain(|file| *file != inside);
                    members.refused.push((inside, refusal));
                }
            }
        }
        self.weigh(&files)?;
        files.sort();
        Ok(SkillImportCandidate { place, source: joined(at, main), files, concerns })
    }

    /// A skill in a single file. Its front matter says that it is one: most Markdown files are none.
    fn flat(&mut self, here: &Root, at: &str, name: &str) {
        let source = joined(at, name);
        let title = name.strip_suffix(".md").unwrap_or(name);
        let loaded = in_brain(&source).and_then(|target| {
            says_it_is_a_skill(here, name)?;
            let content = main_content(here, name)?;
            let place = SkillLocation { slug: named(title, title)?, main: target.clone(), form: Form::Flat };
            let concerns = concerns(name, &content);
            let files = vec![(target, content)];
            self.weigh(&files)?;
            Ok(SkillImportCandidate { place, source: source.clone(), files, concerns })
        });
        match loaded {
            Ok(candidate) => self.library.skills.push(candidate),
            Err(refusal) => self.skip(source, Slug::from_title(title), refusal, Vec::new()),
        }
    }

    /// What is said of a category. It comes along with the skills of its folder.
    fn description(&mut self, here: &Root, path: &str) {
        let loaded = in_brain(path).and_then(|target| {
            let content = content(here, DESCRIPTION, MAX_DOCUMENT_BYTES)?;
            let text = std::str::from_utf8(&content)
                .map_err(|_| Refusal::new(SkillImportSkipReason::NotText, "it is not UTF-8"))?;
            let refused = |concern: &Concern| concern.objection.weight == guard::ObjectionWeight::Refusal;
            if let Some(concern) = concerns(DESCRIPTION, text.as_bytes()).iter().find(|concern| refused(concern)) {
                return Err(Refusal::new(SkillImportSkipReason::Guard, concern.message()));
            }
            let file = (target, content);
            self.weigh(std::slice::from_ref(&file))?;
            Ok(file)
        });
        match loaded {
            Ok(file) => self.library.descriptions.push(file),
            Err(refusal) => self.skip(path, None, refusal, Vec::new()),
        }
    }

    fn weigh(&mut self, files: &[(RelPath, Vec<u8>)]) -> Result<(), Refusal> {
        let weight: u64 = files.iter().map(|(_, content)| content.len() as u64).sum();
        if self.bytes + weight > MAX_TOTAL_BYTES {
            let detail = format!("one import may weigh {MAX_TOTAL_BYTES} bytes; import the rest with --only");
            return Err(Refusal::new(SkillImportSkipReason::OverLimits, detail));
        }
        self.bytes += weight;
        Ok(())
    }
}

/// The name of the main file among the entries of a directory. `SKILL.md` makes it a skill whatever stands there.
fn main_file(entries: &[fsio::DirEntry]) -> Option<String> {
    let is_there = |name: &str| {
        let mut named = entries.iter().filter(|entry| entry.name == name);
        named.any(|entry| entry.kind == DirEntryKind::File || name == layout::SKILL_FILE)
    };
    MAIN_FILES.into_iter().find(|name| is_there(name)).map(str::to_owned)
}

/// Whether a path inside a skill lies in one of its support directories.
fn is_support(inside: &str) -> bool {
    inside.split('/').next().is_some_and(|first| rules::SUPPORT_DIRS.contains(&first))
}

/// Whether a path inside a skill is called like a main file, and is not the skill's own.
fn is_main_file_below(inside: &str) -> bool {
    inside.rsplit_once('/').is_some_and(|(_, name)| location::is_main_file(name))
}

/// Refuses a Markdown file that is no skill: what every repository has, and what has no front matter with a name or a
/// description. What cannot be read at all is for [`main_content`] to say.
fn says_it_is_a_skill(here: &Root, name: &str) -> Result<(), Refusal> {
    const NO_SKILLS: [&str; 5] = ["readme", "license", "licence", "copying", "codeofconduct"];
    let stem: String = name.split('.').next().unwrap_or(name).chars().filter(char::is_ascii_alphanumeric).collect();
    if NO_SKILLS.contains(&stem.to_ascii_lowercase().as_str()) {
        return Err(Refusal::new(SkillImportSkipReason::NotASkill, "files of this name are about the library"));
    }
    let bytes = content(here, name, MAX_DOCUMENT_BYTES)?;
    let Ok(document) = Document::read(&bytes) else { return Ok(()) };
    let says = |key: &str| document.text(key).is_some_and(|text| !text.trim().is_empty());
    match says("name") || says("description") {
        true => Ok(()),
        false => {
            let detail = "it has no front matter with a name or a description, which makes a Markdown file a skill";
            Err(Refusal::new(SkillImportSkipReason::NotASkill, detail))
        }
    }
}

/// A main file that loads: text that says what it does.
fn main_content(here: &Root, name: &str) -> Result<Vec<u8>, Refusal> {
    let bytes = content(here, name, MAX_DOCUMENT_BYTES)?;
    let document =
        Document::read(&bytes).map_err(|unreadable| Refusal::new(SkillImportSkipReason::NotText, unreadable.reason))?;
    if document.description().is_none_or(|description| description.trim().is_empty()) {
        let detail = "it has neither a description nor a text that could serve as one";
        return Err(Refusal::new(SkillImportSkipReason::NoDescription, detail));
    }
    Ok(bytes)
}

/// A file beside a main file.
fn support(here: &Root, at: &str, inside: &str) -> Result<(RelPath, Vec<u8>), Refusal> {
    if location::is_main_file(inside) {
        return Err(Refusal::new(
            SkillImportSkipReason::Duplicate,
            "another spelling of the main file stands beside it",
        ));
    }
    let target = in_brain(&joined(at, inside))?;
    if layout::is_not_content(target.as_str()) {
        return Err(Refusal::new(SkillImportSkipReason::NotASkill, "files of this name are not part of a brain"));
    }
    Ok((target, content(here, inside, rules::MAX_SUPPORT_BYTES)?))
}

fn content(here: &Root, name: &str, most: usize) -> Result<Vec<u8>, Refusal> {
    let rel: RelPath = name.parse().map_err(|error: Error| bad_name(&error))?;
    match here.read(&rel, most as u64) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(Refusal::new(SkillImportSkipReason::Unreadable, "it went away while it was read")),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            Err(Refusal::new(SkillImportSkipReason::TooLarge, format!("it has more than {most} bytes")))
        }
        Err(error) => Err(unreadable(&error)),
    }
}

/// What the guard says of a file, without quoting a secret. It reads texts alone.
fn concerns(file: &str, content: &[u8]) -> Vec<Concern> {
    let text = std::str::from_utf8(content).unwrap_or_default();
    let concern = |objection| Concern { file: file.to_owned(), objection };
    guard::file_objections(file, text).into_iter().map(concern).collect()
}

/// A path of the library as a path of a brain.
fn in_brain(path: &str) -> Result<RelPath, Refusal> {
    format!("{SKILLS_DIR}/{path}").parse().map_err(|error: Error| bad_name(&error))
}

/// The name a skill goes by.
fn named(title: &str, at: &str) -> Result<Slug, Refusal> {
    if at.contains(ARCHIVED_MARK) {
        let detail = format!("{ARCHIVED_MARK:?} in a name marks archived skills; rename it");
        return Err(Refusal::new(SkillImportSkipReason::BadName, detail));
    }
    Slug::from_title(title).ok_or_else(|| {
        Refusal::new(
            SkillImportSkipReason::BadName,
            format!("{title:?} has no letter or digit to make a name of; rename it"),
        )
    })
}

fn bad_name(error: &Error) -> Refusal {
    Refusal::new(SkillImportSkipReason::BadName, error.message())
}

fn unreadable(error: &Error) -> Refusal {
    let reason = if error.kind() == ErrorKind::Refused {
        SkillImportSkipReason::SpecialFile
    } else {
        SkillImportSkipReason::Unreadable
    };
    Refusal::new(reason, error.message())
}

fn odd(what: &str) -> Refusal {
    match what {
        "a symbolic link" => {
            Refusal::new(SkillImportSkipReason::SymbolicLink, "links are not followed; put the file itself there")
        }
        "a name that is not UTF-8" => Refusal::new(SkillImportSkipReason::BadName, "its name is not UTF-8; rename it"),
        other => Refusal::new(SkillImportSkipReason::SpecialFile, format!("it is {other}")),
    }
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") }
}
