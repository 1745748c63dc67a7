//! Changes to skills. Written strictly: what a rule refuses never reaches a file.
//!
//! Every function works on [`Files`], so a change is part of a step in the making and becomes real
//! only when the brain settles.

use std::collections::BTreeMap;

use super::document::Document;
use super::files::Files;
use super::finding::{Severity, SkillFinding};
use super::location::{self, Form, SkillLocation};
use super::rules;
use crate::error::{Error, Result};
use crate::ids::{RelPath, Slug};
use crate::layout::{self, ARCHIVE_DIR, SKILLS_DIR};

/// What marks the second and later archives of a name: `name.archived-2.md`.
const AGAIN: &str = ".archived-";

/// Where an active skill stands.
pub fn find(files: &dyn Files, slug: &Slug) -> Result<Option<SkillLocation>> {
    Ok(location::find(&files.below(SKILLS_DIR)?, SKILLS_DIR, slug))
}

fn expect(files: &dyn Files, slug: &Slug) -> Result<SkillLocation> {
    if let Some(place) = find(files, slug)? {
        return Ok(place);
    }
    let error = Error::not_found(format!("there is no skill {:?} in this brain", slug.as_str()));
    Err(match archived(files, slug)? {
        Some(_) => error.hint(format!("it is archived: bring it back with `herm skills restore ID {slug}`")),
        None => error.hint("see the names with `herm skills list ID`"),
    })
}

/// Writes a new skill, flat.
pub fn create(files: &mut dyn Files, slug: &Slug, content: &str) -> Result<SkillLocation> {
    if let Some(there) = find(files, slug)? {
        return Err(
            Error::conflict(format!("skill {slug} exists already, at {}", there.main)).hint("edit or patch it instead")
        );
    }
    if archived(files, slug)?.is_some() {
        return Err(Error::conflict(format!("skill {slug} is archived"))
            .hint(format!("bring it back with `herm skills restore ID {slug}`, then edit it")));
    }
    obey_rules(content, slug)?;
    let main = layout::flat_skill(slug)?;
    files.write(main.clone(), content.as_bytes().to_vec());
    Ok(SkillLocation { slug: slug.clone(), main, form: Form::Flat })
}

/// Replaces a skill's main file.
pub fn edit(files: &mut dyn Files, slug: &Slug, content: &str) -> Result<SkillLocation> {
    let place = expect(files, slug)?;
    obey_rules(content, slug)?;
    files.write(place.main.clone(), content.as_bytes().to_vec());
    Ok(place)
}

/// Replaces the one occurrence of `find_text` in the main file, or in a support file.
pub fn patch(
    files: &mut dyn Files,
    slug: &Slug,
    support: Option<&str>,
    find_text: &str,
    replacement: &str,
) -> Result<SkillLocation> {
    let place = expect(files, slug)?;
    let path = match support {
        Some(support) => support_path(&place, support)?,
        None => place.main.clone(),
    };
    let text = read_text(files, &path)?;
    let patched = match text.matches(find_text).count() {
        _ if find_text.is_empty() => {
            return Err(Error::invalid("the text to find must say something").hint("name the text to replace"));
        }
        1 => text.replacen(find_text, replacement, 1),
        0 => {
            return Err(Error::not_found(format!("{path} does not contain that text"))
                .hint("read the file again and name the text exactly"));
        }
        several => {
            return Err(Error::conflict(format!("{path} contains that text {several} times"))
                .hint("name a longer text that occurs once"));
        }
    };
    match support {
        None => obey_rules(&patched, slug)?,
        Some(_) => obey_support_size(patched.len())?,
    }
    files.write(path, patched.into_bytes());
    Ok(place)
}

/// Writes a support file. A flat skill becomes a directory; nothing else about it changes.
pub fn write_file(files: &mut dyn Files, slug: &Slug, support: &str, content: Vec<u8>) -> Result<SkillLocation> {
    let place = expect(files, slug)?;
    let target = place.promoted()?;
    let path = support_path(&target, support)?;
    obey_support_size(content.len())?;
    if target.form != place.form {
        let main = read(files, &place.main)?;
        files.remove(place.main);
        files.write(target.main.clone(), main);
    }
    files.write(path, content);
    Ok(target)
}

/// Removes a support file.
pub fn remove_file(files: &mut dyn Files, slug: &Slug, support: &str) -> Result<SkillLocation> {
    let place = expect(files, slug)?;
    let path = support_path(&place, support)?;
    read(files, &path)?;
    files.remove(path);
    Ok(place)
}

/// Moves a skill with all its files into the archive. Nothing there is ever overwritten: a second
/// archive of the same name gets a number.
pub fn archive(files: &mut dyn Files, slug: &Slug) -> Result<()> {
    let place = expect(files, slug)?;
    let unit = unit(&place);
    let inside = unit.as_str().strip_prefix(SKILLS_DIR).unwrap_or_default().to_owned();
    if inside.contains(AGAIN) {
        return Err(Error::invalid(format!("{unit} has {AGAIN:?} in its name, which marks archived skills"))
            .hint("rename it by hand, and take the change over with `herm brain adopt ID`"));
    }
    let taken = files.below(ARCHIVE_DIR)?;
    let free = |base: &str| {
        let dir = format!("{base}/");
        !taken.iter().any(|path| path.as_str() == base || path.as_str().starts_with(&dir))
    };
    let target = (1..)
        .map(|n| format!("{ARCHIVE_DIR}{}", numbered(&inside, place.form, n)))
        .find(|candidate| free(candidate))
        .unwrap_or_default();
    move_unit(files, unit.as_str(), &target)
}

/// Brings an archived skill back to where it was; the latest archive of that name.
pub fn restore(files: &mut dyn Files, slug: &Slug) -> Result<SkillLocation> {
    if let Some(there) = find(files, slug)? {
        return Err(Error::conflict(format!("skill {slug} is active already, at {}", there.main))
            .hint("archive the active one first; restoring never overwrites"));
    }
    let found = archived(files, slug)?.ok_or_else(|| {
        Error::not_found(format!("there is no archived skill {:?} in this brain", slug.as_str()))
            .hint("see the names with `herm skills list ID --archived`")
    })?;
    let inside = found.unit.strip_prefix(ARCHIVE_DIR).unwrap_or_default();
    let target = format!("{SKILLS_DIR}{}", unnumbered(inside, found.form));
    move_unit(files, &found.unit, &target)?;
    find(files, slug)?.ok_or_else(|| Error::internal(format!("skill {slug} was restored but is not found")))
}

/// The skills among the files below the archive with the main file that a restore would bring back, sorted by name.
pub fn archived_skills(paths: &[RelPath]) -> Vec<(Slug, RelPath)> {
    let mut latest: BTreeMap<Slug, ArchivedUnit> = BTreeMap::new();
    for unit in archived_units(paths) {
        match latest.get(&unit.slug) {
            Some(known) if known.number > unit.number => {}
            _ => drop(latest.insert(unit.slug.clone(), unit)),
        }
    }
    latest.into_iter().map(|(slug, unit)| (slug, unit.main)).collect()
}

/// Every skill among the files below the archive, where each name may stand several times.
pub fn archived_places(paths: &[RelPath]) -> impl Iterator<Item = SkillLocation> {
    archived_units(paths).map(|ArchivedUnit { slug, main, form, .. }| SkillLocation { slug, main, form })
}

/// The skills among the files below the archive, sorted.
pub fn archived_slugs(paths: &[RelPath]) -> Vec<Slug> {
    archived_skills(paths).into_iter().map(|(slug, _)| slug).collect()
}

/// Where a file of the archive may have stood before it was archived, the likeliest first.
pub fn before_archive(path: &RelPath) -> Vec<RelPath> {
    let Some(inside) = path.as_str().strip_prefix(ARCHIVE_DIR).and_then(|rest| rest.strip_prefix('/')) else {
        return Vec::new();
    };
    let parts: Vec<&str> = inside.split('/').collect();
    // A skill is archived under its own name, or under its name with a number.
    let numbered = parts.iter().enumerate().filter(|(_, part)| part.contains(AGAIN)).map(|(at, part)| {
        let form = if at + 1 == parts.len() { Form::Flat } else { Form::Directory };
        let bare = unnumbered(part, form);
        let all: Vec<&str> = parts.iter().enumerate().map(|(n, part)| if n == at { &*bare } else { *part }).collect();
        all.join("/")
    });
    std::iter::once(inside.to_owned())
        .chain(numbered)
        .filter_map(|inside| format!("{SKILLS_DIR}/{inside}").parse().ok())
        .collect()
}

/// The bytes of a file; `NotFound` where there is none.
pub fn read(files: &dyn Files, path: &RelPath) -> Result<Vec<u8>> {
    files.read(path)?.ok_or_else(|| {
        Error::not_found(format!("there is no file {path} in this brain"))
            .hint("see the skill's files with `herm --json skills view ID NAME`")
    })
}

/// The path of a support file, which must lie in one of the support directories.
pub fn support_path(place: &SkillLocation, support: &str) -> Result<RelPath> {
    RelPath::validate(support)?;
    let allowed = support.split_once('/').is_some_and(|(dir, _)| rules::SUPPORT_DIRS.contains(&dir));
    if !allowed {
        return Err(Error::invalid(format!(
            "{support:?} is not a support file: it must lie below one of {}",
            rules::SUPPORT_DIRS.join("/, ") + "/"
        ))
        .hint("for example references/notes.md"));
    }
    file_path(place, support)
}

/// The path of any file in a skill's directory, for reading.
pub fn file_path(place: &SkillLocation, file: &str) -> Result<RelPath> {
    RelPath::validate(file)?;
    if let Some(part) = file.split('/').find(|part| layout::PRUNED_DIRS.contains(part)) {
        return Err(Error::not_found(format!("{file:?} is no file of skill {}: {part} holds none", place.slug))
            .hint("view the skill without a file first; it names the files it has"));
    }
    match place.dir() {
        Some(dir) => dir.join(file),
        None => Err(Error::not_found(format!("skill {} is a single file and has no support files", place.slug))
            .hint("see the skill itself with `herm skills view ID NAME`")),
    }
}

/// The text of a skill's file as a reader gets it; a file that is too large or not text gets a sentence.
pub fn file_text(slug: &Slug, file: &str, bytes: Vec<u8>) -> Result<String> {
    if bytes.len() > rules::MAX_SUPPORT_BYTES {
        return Err(too_large(slug, file));
    }
    let not_text = || {
        Error::refused(format!("{file} of skill {slug} is not text"))
            .hint("only text can be viewed; a script of the skill may use the file")
    };
    let text = String::from_utf8(bytes).map_err(|_| not_text())?;
    if text.contains('\0') { Err(not_text()) } else { Ok(text) }
}

/// Why a file that is larger than a support file may be is not shown.
pub(super) fn too_large(slug: &Slug, file: &str) -> Error {
    Error::refused(format!("{file} of skill {slug} has more than {} bytes and is not shown", rules::MAX_SUPPORT_BYTES))
        .hint("a script of the skill may use the file")
}

fn read_text(files: &dyn Files, path: &RelPath) -> Result<String> {
    String::from_utf8(read(files, path)?).map_err(|source| {
        Error::invalid(format!("{path} is not UTF-8 text")).hint("only text can be patched").because(source)
    })
}

fn obey_support_size(bytes: usize) -> Result<()> {
    if bytes > rules::MAX_SUPPORT_BYTES {
        return Err(Error::invalid(format!(
            "a support file may have {} bytes, this one has {bytes}",
            rules::MAX_SUPPORT_BYTES
        ))
        .hint("split it, or keep only what the skill needs"));
    }
    Ok(())
}

fn obey_rules(content: &str, slug: &Slug) -> Result<()> {
    let document = Document::read(content.as_bytes()).map_err(|unreadable| {
        Error::invalid(format!("the skill cannot be read: {}", unreadable.reason)).hint("write it as UTF-8 text")
    })?;
    let broken: Vec<SkillFinding> = rules::check(&document, Some(slug.as_str()))
        .into_iter()
        .filter(|finding| finding.severity == Severity::Error)
        .collect();
    match broken.first() {
        None => Ok(()),
        Some(first) => {
            let all: Vec<&str> = broken.iter().map(|finding| finding.message.as_str()).collect();
            Err(Error::invalid(format!("skill {slug} breaks the rules: {}", all.join("; "))).hint(first.fix.clone()))
        }
    }
}

/// The file or directory that is moved when the skill moves.
fn unit(place: &SkillLocation) -> RelPath {
    place.dir().unwrap_or_else(|| place.main.clone())
}

fn move_unit(files: &mut dyn Files, from: &str, to: &str) -> Result<()> {
    let from: RelPath = from.parse()?;
    let mut members = files.below(from.as_str())?;
    if members.is_empty() {
        members.push(from.clone());
    }
    let mut target_files = files.below(to)?;
    target_files.extend(files.read(&to.parse()?)?.map(|_| to.parse()).transpose()?);
    if let Some(there) = target_files.first() {
        return Err(Error::conflict(format!("{there} is in the way"))
            .hint("move it away by hand, and take the change over with `herm brain adopt ID`"));
    }
    for path in members {
        let rest = path.as_str().strip_prefix(from.as_str()).unwrap_or_default();
        let target: RelPath = format!("{to}{rest}").parse()?;
        let content = read(files, &path)?;
        files.remove(path);
        files.write(target, content);
    }
    Ok(())
}

struct ArchivedUnit {
    slug: Slug,
    /// The file with its front matter, in the archive.
    main: RelPath,
    /// The archived file or directory.
    unit: String,
    form: Form,
    number: u32,
}

fn archived(files: &dyn Files, slug: &Slug) -> Result<Option<ArchivedUnit>> {
    let paths = files.below(ARCHIVE_DIR)?;
    Ok(archived_units(&paths).filter(|unit| unit.slug == *slug).max_by_key(|unit| unit.number))
}

/// The skills among the files below the archive, which are in path order. What lies inside an archived
/// skill's directory is that skill's own, a main file of another name too.
fn archived_units(paths: &[RelPath]) -> impl Iterator<Item = ArchivedUnit> {
    paths.iter().filter(|path| !location::is_inside_unit(path, paths, ARCHIVE_DIR)).filter_map(archived_unit)
}

/// Reads the path of an archived main file: `.archive/<categories>/`,
/// then `<slug>[.archived-N]/SKILL.md` or `<slug>[.archived-N].md`.
fn archived_unit(path: &RelPath) -> Option<ArchivedUnit> {
    let form = if location::is_main_file(path.name()) { Form::Directory } else { Form::Flat };
    let (unit, stem) = match form {
        Form::Directory => {
            let dir = path.parent()?;
            (dir.as_str().to_owned(), dir.name().to_owned())
        }
        Form::Flat if location::is_flat_file(path.name()) => {
            let inside = path.as_str().strip_prefix(ARCHIVE_DIR)?.strip_prefix('/')?;
            if inside.split('/').count() > 2 || inside.split('/').any(|part| rules::SUPPORT_DIRS.contains(&part)) {
                return None;
            }
            (path.as_str().to_owned(), path.name().strip_suffix(".md")?.to_owned())
        }
        Form::Flat => return None,
    };
    let (title, number) = match stem.rsplit_once(AGAIN).map(|(title, n)| (title, n.parse())) {
        Some((title, Ok(number))) => (title, number),
        _ => (stem.as_str(), 1),
    };
    Some(ArchivedUnit { slug: Slug::from_title(title)?, main: path.clone(), unit, form, number })
}

fn numbered(inside: &str, form: Form, number: u32) -> String {
    match (form, number) {
        (_, 1) => inside.to_owned(),
        (Form::Directory, n) => format!("{inside}{AGAIN}{n}"),
        (Form::Flat, n) => format!("{}{AGAIN}{n}.md", inside.strip_suffix(".md").unwrap_or(inside)),
    }
}

fn unnumbered(inside: &str, form: Form) -> String {
    let bare = |stem: &str| match stem.rsplit_once(AGAIN) {
        Some((title, number)) if number.parse::<u32>().is_ok() => title.to_owned(),
        _ => stem.to_owned(),
    };
    match form {
        Form::Directory => bare(inside),
        Form::Flat => format!("{}.md", bare(inside.strip_suffix(".md").unwrap_or(inside))),
    }
}
