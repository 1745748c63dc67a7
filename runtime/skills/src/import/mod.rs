//! Skills from elsewhere: a library, or a single skill, taken over into a brain.
//!
//! [`SkillLibrary::read`] collects what a tree holds and sorts out what cannot be loaded; [`plan`] decides, from values
//! alone, what becomes of each skill in a brain; [`SkillImportPlan::apply`] writes it. Nothing is dropped without a word: whatever
//! did not come along is in the [`SkillImportReport`] with its path and a [`SkillImportSkipReason`]. What is written is the source, byte for byte.
//!
//! The rules are described in `docs/reference/skill.md`.

mod filter;
mod library;
mod origin;
mod plan;

pub use filter::SkillFilter;
pub use library::{SkillImportCandidate, SkillLibrary};
pub use plan::{SkillImportPlan, SkillImportTarget, plan};

use crate::guard::{Objection, ObjectionWeight};
use crate::ids::{RelPath, Slug};
use crate::text;

/// What the guard says of a file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Concern {
    /// The file, in its skill.
    pub file: String,
    /// What speaks against it.
    #[serde(flatten)]
    pub objection: Objection,
}

impl Concern {
    /// File, rule, words and line: `SKILL.md holds a secret (an API key of Groq, line 3)`.
    pub fn message(&self) -> String {
        format!("{} {}", self.file, self.objection.message())
    }
}

/// The skills that a person takes over whatever the guard says of them, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedSkills(Vec<Slug>);

impl TrustedSkills {
    /// These skills, and no others.
    pub fn new(skills: Vec<Slug>) -> Self {
        Self(skills)
    }

    /// The first that is not in a library.
    fn missing<'a>(&'a self, library: &SkillLibrary) -> Option<&'a Slug> {
        let is_there = |slug: &Slug| library.skills.iter().any(|skill| skill.place.slug == *slug);
        self.0.iter().find(|slug| !is_there(slug))
    }

    /// What speaks against a skill so much that it stays behind, unless it is trusted.
    fn refusal(&self, slug: &Slug, concerns: &[Concern]) -> Option<String> {
        let refused = concerns.iter().filter(|concern| concern.objection.weight == ObjectionWeight::Refusal);
        let said: Vec<String> = refused.take(3).map(Concern::message).collect();
        (!said.is_empty() && !self.0.contains(slug))
            .then(|| format!("{}; take it over all the same with --trust {slug}", said.join("; ")))
    }
}

/// What to do about a skill of the same name that is in the brain already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNameConflict {
    /// It stays, and the new one is skipped.
    #[default]
    Keep,
    /// It is replaced as a whole, unless it is pinned. What it was stays in the journal.
    Replace,
}

/// Why something was not taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillImportSkipReason {
    /// The brain has another skill of this name.
    NameTaken,
    /// The brain's skill of this name is pinned.
    Pinned,
    /// A skill of this name is in the brain's archive.
    Archived,
    /// Another skill of the library has this name.
    Duplicate,
    /// The brain has files where the skill would stand.
    InTheWay,
    /// It holds a secret, or instructions against the role.
    Guard,
    /// It is larger than such a file may be.
    TooLarge,
    /// It is not UTF-8 text.
    NotText,
    /// Nothing in it says what it does.
    NoDescription,
    /// It is a symbolic link.
    SymbolicLink,
    /// It is a pipe, a device, a socket, or a directory in the place of a file.
    SpecialFile,
    /// A brain cannot hold this name, or no skill name can be made of it.
    BadName,
    /// The brain, or the import, would grow over its limits.
    OverLimits,
    /// It belongs to no skill.
    NotASkill,
    /// A directory that holds no skills by its name.
    NotEntered,
    /// It could not be read.
    Unreadable,
}

impl SkillImportSkipReason {
    /// The reason's stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NameTaken => "name_taken",
            Self::Pinned => "pinned",
            Self::Archived => "archived",
            Self::Duplicate => "duplicate",
            Self::InTheWay => "in_the_way",
            Self::Guard => "guard",
            Self::TooLarge => "too_large",
            Self::NotText => "not_text",
            Self::NoDescription => "no_description",
            Self::SymbolicLink => "symbolic_link",
            Self::SpecialFile => "special_file",
            Self::BadName => "bad_name",
            Self::OverLimits => "over_limits",
            Self::NotASkill => "not_a_skill",
            Self::NotEntered => "not_entered",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Something that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkippedSkillImport {
    /// Where it is in the library.
    pub path: String,
    /// The skill it is, or belongs to, where that is known.
    pub slug: Option<Slug>,
    /// Why it was not taken over; `detail` says it in a sentence.
    pub reason: SkillImportSkipReason,
    /// Why, in a sentence.
    pub detail: String,
    /// The other files of the skill, which stay behind with it.
    pub files: Vec<String>,
}

/// A skill that was taken over.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ImportedSkill {
    /// The name under which the brain has it now.
    pub slug: Slug,
    /// Its main file in the brain.
    pub path: RelPath,
    /// All its files in the brain, the main file among them.
    pub files: Vec<RelPath>,
    /// Whether it took the place of another.
    pub replaced: bool,
    /// Whether the guard refuses it and a person trusts it.
    pub trusted: bool,
    /// What the guard says of its files.
    pub concerns: Vec<Concern>,
}

/// A skill that the brain has already, with the same content.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct UnchangedSkill {
    /// The name under which the brain has it.
    pub slug: Slug,
    /// Its main file in the brain.
    pub path: RelPath,
}

/// What became of everything in a library.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillImportReport {
    /// Taken over, in name order.
    pub imported: Vec<ImportedSkill>,
    /// There already, in name order.
    pub unchanged: Vec<UnchangedSkill>,
    /// Left behind, in path order.
    pub skipped: Vec<SkippedSkillImport>,
    /// Descriptions of categories that came along with their skills.
    pub descriptions: Vec<RelPath>,
    /// How many skills and other things were not asked for.
    pub not_selected: usize,
}

impl SkillImportReport {
    /// What the step says of the import. It names each skill that a person trusted against the guard, and why the
    /// guard would refuse it.
    pub fn step_summary(&self) -> String {
        let count = self.imported.len();
        let mut summary = format!("imported {count} skill{}", if count == 1 { "" } else { "s" });
        for trusted in self.imported.iter().filter(|imported| imported.trusted) {
            let refusal = |concern: &&Concern| concern.objection.weight == ObjectionWeight::Refusal;
            let said = trusted.concerns.iter().find(refusal).map(Concern::message).unwrap_or_default();
            summary.push_str(&format!("; trusted {}: {said}", trusted.slug));
        }
        text::line(&summary, 1_000)
    }
}
