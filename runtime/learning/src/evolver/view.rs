//! What the evolver stands on: the evidence, the skills as the last step left them, and what is recorded
//! of them. The same for a brain that is owned and for one that is only looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::SkillSource;
use crate::brain::{Brain, Reader};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath, Slug};
use crate::layout;
use crate::memory::{EvidenceView, EvolverRows};
use crate::skill::provenance::SkillFacts;
use crate::skill::{SkillLocation, SkillUsage, all_skills, support_path};

type Read<'a> = Box<dyn Fn(&RelPath) -> Result<Option<Vec<u8>>> + 'a>;

/// A brain as the evolver sees it.
pub struct EvolverView<'a> {
    /// The evidence that tasks left, in the brain's database.
    pub evidence: EvidenceView<'a>,
    /// What the evolver keeps.
    pub rows: EvolverRows<'a>,
    /// The moment that windows of days end at.
    pub now: Timestamp,
    usage: BTreeMap<Slug, SkillUsage>,
    places: BTreeMap<Slug, SkillLocation>,
    external: BTreeSet<Slug>,
    read: Read<'a>,
}

impl std::fmt::Debug for EvolverView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("now", &self.now).field("skills", &self.places.len()).finish_non_exhaustive()
    }
}

impl<'a> EvolverView<'a> {
    /// The view of a brain that is owned.
    pub fn of_brain(brain: &'a Brain) -> Result<Self> {
        Ok(Self {
            evidence: brain.evidence_view(),
            rows: brain.evolver_rows(),
            now: brain.clock().now(),
            usage: brain.usage()?,
            places: places(&brain.skill_paths()?),
            external: BTreeSet::new(),
            read: Box::new(|path| brain.read_content(path)),
        })
    }

    /// The ground of a brain that is only looked at.
    pub fn of_reader(reader: &'a Reader, now: Timestamp) -> Result<Self> {
        Ok(Self {
            evidence: reader.evidence_view(),
            rows: reader.evolver_rows(),
            now,
            usage: reader.usage()?,
            places: places(&reader.skill_paths()?),
            external: BTreeSet::new(),
            read: Box::new(|path| reader.settled_file(path)),
        })
    }

    /// Which skills come from directories outside of the brain.
    #[must_use]
    pub fn with_external(mut self, external: impl IntoIterator<Item = Slug>) -> Self {
        self.external.extend(external);
        self
    }

    /// Where a skill comes from, as it is recorded.
    pub fn source(&self, slug: &Slug) -> SkillSource {
        if !self.places.contains_key(slug) && self.external.contains(slug) {
            return SkillSource::External;
        }
        SkillSource::of(self.usage.get(slug).map(|usage| usage.created_by))
    }

    /// Where a skill stands in the brain.
    pub fn place(&self, slug: &Slug) -> Option<&SkillLocation> {
        self.places.get(slug)
    }

    /// The skills of the brain.
    pub fn skills(&self) -> impl Iterator<Item = &Slug> {
        self.places.keys()
    }

    /// A skill's main file; `None` where the brain has no such skill.
    pub fn text(&self, slug: &Slug) -> Result<Option<SkillMainFile>> {
        let Some(place) = self.places.get(slug) else { return Ok(None) };
        let Some(bytes) = (self.read)(&place.main)? else { return Ok(None) };
        let digest = Digest::of(&bytes);
        let text = String::from_utf8(bytes).map_err(|source| {
            Error::invalid(format!("{} is not UTF-8 text", place.main)).hint("save it as UTF-8").because(source)
        })?;
        Ok(Some(SkillMainFile { path: place.main.clone(), text, digest }))
    }

    /// A support file of a skill; `None` where it has none of that name.
    pub fn support(&self, slug: &Slug, file: &str) -> Result<Option<String>> {
        let Some(place) = self.places.get(slug).filter(|place| place.dir().is_some()) else { return Ok(None) };
        let bytes = (self.read)(&support_path(place, file)?)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// What the gate goes by, where a skill of the brain says this.
    pub fn facts(&self, slug: &Slug, text: &str) -> SkillFacts {
        SkillFacts::of(self.usage.get(slug), text.as_bytes())
    }
}

/// A skill's main file with the digest of the very bytes it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillMainFile {
    /// Where the main file stands in the brain.
    pub path: RelPath,
    /// The text of the main file, front matter included.
    pub text: String,
    /// The digest of its bytes.
    pub digest: Digest,
}

fn places(paths: &[RelPath]) -> BTreeMap<Slug, SkillLocation> {
    let mut places = BTreeMap::new();
    for place in all_skills(paths, layout::SKILLS_DIR) {
        // The first in path order, as everywhere.
        places.entry(place.slug.clone()).or_insert(place);
    }
    places
}
