//! What becomes of each skill of a library in one brain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use super::library::{SkillImportCandidate, SkillLibrary};
use super::{
    Concern, ImportedSkill, OnNameConflict, SkillFilter, SkillImportReport, SkillImportSkipReason, SkippedSkillImport,
    TrustedSkills, UnchangedSkill,
};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::guard::ObjectionWeight;
use crate::ids::{RelPath, Slug};
use crate::layout::{ARCHIVE_DIR, SKILLS_DIR};
use crate::location::{self, MAIN_FILES, SkillLocation};
use crate::store;

/// The brain that skills are taken over into.
pub struct SkillImportTarget<'a> {
    /// The brain's files, which the plan only reads.
    pub files: &'a dyn Files,
    /// Whether a skill of it is pinned.
    pub pinned: &'a dyn Fn(&Slug) -> Result<bool>,
    /// How many more files and directories it can hold.
    pub room: usize,
}

impl fmt::Debug for SkillImportTarget<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Target").field("room", &self.room).finish_non_exhaustive()
    }
}

/// An import that is decided and not yet done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkillImportPlan {
    /// What became of everything.
    pub report: SkillImportReport,
    removed: Vec<RelPath>,
    written: Vec<(RelPath, Vec<u8>)>,
}

impl SkillImportPlan {
    /// Writes what was decided.
    pub fn apply(self, files: &mut dyn Files) -> SkillImportReport {
        self.removed.into_iter().for_each(|path| files.remove(path));
        self.written.into_iter().for_each(|(path, content)| files.write(path, content));
        self.report
    }
}

/// Decides about everything in a library. An error only where the brain cannot be read, or where `only` names
/// something that is not there, or `trusted` does.
pub fn plan(
    library: SkillLibrary,
    only: &SkillFilter,
    namesakes: OnNameConflict,
    trusted: &TrustedSkills,
    target: &SkillImportTarget<'_>,
) -> Result<SkillImportPlan> {
    if let Some(slug) = trusted.missing(&library) {
        return Err(Error::not_found(format!("there is no skill {slug} in the library that could be trusted"))
            .hint("see what it holds with --dry-run"));
    }
    let mut report = SkillImportReport::default();
    let (wanted, others): (Vec<_>, Vec<_>) =
        library.skills.into_iter().partition(|skill| only.wants(Some(&skill.place.slug), &skill.source));
    let (skipped, passed): (Vec<_>, Vec<_>) =
        library.skipped.into_iter().partition(|skipped| only.wants(skipped.slug.as_ref(), &skipped.path));
    only.all_hit()?;
    report.not_selected = others.len() + passed.len();
    report.skipped = skipped;
    let mut planner = Planner::new(target, namesakes, trusted, report)?;
    for candidate in wanted {
        planner.skill(candidate)?;
    }
    for (path, content) in library.descriptions {
        planner.description(path, content, only)?;
    }
    Ok(planner.finish())
}

struct Planner<'a> {
    target: &'a SkillImportTarget<'a>,
    namesakes: OnNameConflict,
    trusted: &'a TrustedSkills,
    plan: SkillImportPlan,
    /// Paths below `skills/` as they will be.
    paths: BTreeSet<RelPath>,
    dirs: BTreeSet<RelPath>,
    local: BTreeMap<Slug, SkillLocation>,
    archived: BTreeSet<Slug>,
    /// Names that were decided about, with where they come from.
    taken: BTreeMap<Slug, String>,
    room: usize,
}

/// Why a skill stays behind.
type Refused = (SkillImportSkipReason, String);

impl<'a> Planner<'a> {
    fn new(
        target: &'a SkillImportTarget<'a>,
        namesakes: OnNameConflict,
        trusted: &'a TrustedSkills,
        report: SkillImportReport,
    ) -> Result<Self> {
        let paths = target.files.below(SKILLS_DIR)?;
        let mut local = BTreeMap::new();
        for place in location::all(&paths, SKILLS_DIR) {
            local.entry(place.slug.clone()).or_insert(place);
        }
        Ok(Self {
            target,
            namesakes,
            trusted,
            plan: SkillImportPlan { report, ..SkillImportPlan::default() },
            dirs: paths.iter().flat_map(above).collect(),
            paths: paths.into_iter().collect(),
            local,
            archived: store::archived_slugs(&target.files.below(ARCHIVE_DIR)?).into_iter().collect(),
            taken: BTreeMap::new(),
            room: target.room,
        })
    }

    fn skill(&mut self, candidate: SkillImportCandidate) -> Result<()> {
        let SkillImportCandidate { place, source, files, concerns } = candidate;
        let slug = place.slug.clone();
        let verdict = match (self.trusted.refusal(&slug, &concerns), self.taken.get(&slug)) {
            (Some(refusal), _) => Err((SkillImportSkipReason::Guard, refusal)),
            (None, Some(first)) => Err((
                SkillImportSkipReason::Duplicate,
                format!("the name {slug} is taken by {first} of the same library"),
            )),
            (None, None) => self.verdict(&place, &files)?,
        };
        match verdict {
            Err((reason, detail)) => {
                // As the library calls them: a skill inside another one would have stood elsewhere in the brain.
                let directory = |path: &str| path.rsplit_once('/').map_or(0, |(directory, _)| directory.len() + 1);
                let from = source.get(..directory(&source)).unwrap_or_default();
                let behind = directory(place.main.as_str());
                let named = |path: &RelPath| format!("{from}{}", path.as_str().get(behind..).unwrap_or_default());
                let others =
                    files.iter().filter(|(path, _)| *path != place.main).map(|(path, _)| named(path)).collect();
                let skipped = SkippedSkillImport { path: source, slug: Some(slug), reason, detail, files: others };
                self.plan.report.skipped.push(skipped);
                return Ok(());
            }
            Ok(Verdict::Unchanged(path)) => {
                self.plan.report.unchanged.push(UnchangedSkill { slug: slug.clone(), path })
            }
            Ok(Verdict::Take { replacing }) => {
                let replaced = !replacing.is_empty();
                for path in replacing {
                    self.paths.remove(&path);
                    self.plan.removed.push(path);
                }
                let new = files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
                self.room = self.room.saturating_sub(self.growth(&new));
                self.dirs.extend(new.iter().flat_map(above));
                self.paths.extend(new.iter().cloned());
                self.plan.written.extend(files);
                let refused = |concern: &Concern| concern.objection.weight == ObjectionWeight::Refusal;
                let trusted = concerns.iter().any(refused);
                let imported =
                    ImportedSkill { slug: slug.clone(), path: place.main, files: new, replaced, trusted, concerns };
                self.plan.report.imported.push(imported);
            }
        }
        self.taken.insert(slug, source);
        Ok(())
    }

    fn verdict(&self, place: &SkillLocation, files: &[(RelPath, Vec<u8>)]) -> Result<Result<Verdict, Refused>> {
        let slug = &place.slug;
        let mut replacing = Vec::new();
        if let Some(there) = self.local.get(slug) {
            let members = self.members(there);
            if self.is_same(there, &members, place, files)? {
                return Ok(Ok(Verdict::Unchanged(there.main.clone())));
            }
            if (self.target.pinned)(slug)? {
                return Ok(Err((
                    SkillImportSkipReason::Pinned,
                    format!("skill {slug} at {} is pinned; unpin it first", there.main),
                )));
            }
            if self.namesakes == OnNameConflict::Keep {
                let detail = format!("the brain has a skill {slug} at {}; --replace replaces it", there.main);
                return Ok(Err((SkillImportSkipReason::NameTaken, detail)));
            }
            replacing = members;
        } else if self.archived.contains(slug) {
            let detail = format!("skill {slug} is archived; bring it back with `herm skills restore ID {slug}` first");
            return Ok(Err((SkillImportSkipReason::Archived, detail)));
        }
        if let Some(path) = self.in_the_way(place, &replacing) {
            return Ok(Err((SkillImportSkipReason::InTheWay, format!("{path} of the brain is in the way"))));
        }
        let new: Vec<RelPath> = files.iter().map(|(path, _)| path.clone()).collect();
        if self.growth(&new) > self.room {
            return Ok(Err((
                SkillImportSkipReason::OverLimits,
                "the brain would hold too many files and directories".to_owned(),
            )));
        }
        Ok(Ok(Verdict::Take { replacing }))
    }

    /// The files of a skill of the brain.
    fn members(&self, place: &SkillLocation) -> Vec<RelPath> {
        match place.dir() {
            None => vec![place.main.clone()],
            Some(dir) => below(&self.paths, &dir).cloned().collect(),
        }
    }

    /// Whether the skill that is there has these very files, wherever it stands.
    fn is_same(
        &self,
        there: &SkillLocation,
        members: &[RelPath],
        new: &SkillLocation,
        files: &[(RelPath, Vec<u8>)],
    ) -> Result<bool> {
        if there.form != new.form || members.len() != files.len() {
            return Ok(false);
        }
        // A flat skill is its one file, whatever that is called; in a directory the names count.
        let inside = |place: &SkillLocation, path: &RelPath| {
            let inside = place.dir().map(|dir| path.as_str().trim_start_matches(dir.as_str()).to_owned());
            inside.unwrap_or_default()
        };
        let wanted: BTreeMap<String, &Vec<u8>> =
            files.iter().map(|(path, content)| (inside(new, path), content)).collect();
        for path in members {
            let content = self.target.files.read(path)?;
            if content.as_ref() != wanted.get(&inside(there, path)).copied() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What stands where a skill would, besides the one that it replaces.
    fn in_the_way(&self, place: &SkillLocation, replacing: &[RelPath]) -> Option<RelPath> {
        let stays = |path: &RelPath| self.paths.contains(path) && !replacing.contains(path);
        let unit = place.dir().unwrap_or_else(|| place.main.clone());
        if stays(&unit) {
            return Some(unit);
        }
        if let Some(path) = below(&self.paths, &unit).find(|path| !replacing.contains(path)) {
            return Some(path.clone());
        }
        for dir in above(&unit).into_iter().filter(|dir| dir.as_str() != SKILLS_DIR) {
            if stays(&dir) {
                return Some(dir);
            }
            // Inside a skill's directory nothing else is a skill.
            let mut mains = MAIN_FILES.iter().filter_map(|name| dir.join(name).ok());
            if let Some(main) = mains.find(|main| stays(main)) {
                return Some(main);
            }
        }
        None
    }

    /// How many files and directories these files would add.
    fn growth(&self, files: &[RelPath]) -> usize {
        let dirs: BTreeSet<RelPath> = files.iter().flat_map(above).collect();
        dirs.difference(&self.dirs).count() + files.iter().filter(|path| !self.paths.contains(*path)).count()
    }

    /// What is said of a category comes along if a skill of it did.
    fn description(&mut self, path: RelPath, content: Vec<u8>, only: &SkillFilter) -> Result<()> {
        let inside = path.as_str().trim_start_matches(SKILLS_DIR).trim_start_matches('/').to_owned();
        let folder = path.parent().map(|dir| format!("{dir}/")).unwrap_or_default();
        let report = &mut self.plan.report;
        let taken = report.imported.iter().map(|imported| &imported.path);
        let is_used =
            taken.chain(report.unchanged.iter().map(|same| &same.path)).any(|main| main.as_str().starts_with(&folder));
        let there = self.target.files.read(&path)?;
        let refused = match there {
            _ if !is_used && !only.is_everything() => {
                report.not_selected += 1;
                return Ok(());
            }
            _ if !is_used => {
                Some((SkillImportSkipReason::NotASkill, "it describes a category that no skill came along of"))
            }
            Some(there) if there == content => return Ok(()),
            Some(_) if self.namesakes == OnNameConflict::Keep => Some((
                SkillImportSkipReason::NameTaken,
                "the brain describes this category differently; --replace replaces it",
            )),
            _ => None,
        };
        match refused {
            Some((reason, detail)) => {
                let detail = detail.to_owned();
                report.skipped.push(SkippedSkillImport { path: inside, slug: None, reason, detail, files: Vec::new() });
            }
            None => {
                report.descriptions.push(path.clone());
                self.plan.written.push((path, content));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> SkillImportPlan {
        // A file that is replaced is written, not taken away.
        let written: BTreeSet<&RelPath> = self.plan.written.iter().map(|(path, _)| path).collect();
        self.plan.removed.retain(|path| !written.contains(path));
        let report = &mut self.plan.report;
        report.imported.sort_by(|a, b| a.slug.cmp(&b.slug));
        report.unchanged.sort_by(|a, b| a.slug.cmp(&b.slug));
        report.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        self.plan
    }
}

enum Verdict {
    Unchanged(RelPath),
    Take { replacing: Vec<RelPath> },
}

/// The directories above a path.
fn above(path: &RelPath) -> Vec<RelPath> {
    std::iter::successors(path.parent(), RelPath::parent).collect()
}

/// The paths below a directory.
fn below<'a>(paths: &'a BTreeSet<RelPath>, dir: &RelPath) -> impl Iterator<Item = &'a RelPath> {
    let start = format!("{dir}/");
    let first = paths.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded));
    first.take_while(move |path| path.as_str().starts_with(&start))
}
