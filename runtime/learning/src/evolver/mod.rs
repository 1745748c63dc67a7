//! The evolver: improves the skills that are used, from evidence of how their tasks went, under
//! strict guards that every change has to pass.
//!
//! Evidence is counted per skill; the skills with enough of it get a bounded block of notes at the end
//! of their text, between two markers, and nothing else in the text is touched. Every change is one
//! `maintenance` step of the brain: before or after, receipted, and undone as a whole.

pub mod apply;
pub mod backfill;
pub mod block;
pub mod consolidation;
pub mod failure;
pub mod lessons;
pub mod mining;
pub mod outcome;
pub mod pass;
pub mod policy;
pub mod prepare;
pub mod proposal;
pub mod report;
pub mod review_queue;
pub mod rollback;
pub mod round;
mod sanitize;
pub mod select;
pub mod semantic;
pub mod variants;
pub mod verification;
mod view;

pub use apply::{EvolverApproval, SkillApplyResult, SkillUpdate, apply, apply_proposed};
pub use lessons::{FailureLesson, lessons};
pub use outcome::{Estimate, OutcomeComparison, OutcomeSample, OutcomeSide, OutcomeVerdict, compare};
pub use policy::{EvolverPolicy, SkillSource};
pub use prepare::{PrepareSkip, PreparedSkill, SizeStrategy, SupportFile, prepare, structural};
pub use rollback::{drill, rollback};
pub use round::{EvolverRoundOptions, EvolverRoundReport};
pub use sanitize::sanitize;
pub use variants::{Guidance, Variant, VariantSpec};
pub use view::{EvolverView, SkillMainFile};

use crate::clock::Timestamp;
use crate::ids::Slug;
use crate::memory::Evidence;

/// A piece of evidence with its number.
pub type EvidenceRow = (i64, Evidence);

/// How much evidence there is of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub struct EvidenceCounts {
    /// Tool events of sessions that had the skill loaded.
    pub tool_events: u64,
    /// Those of them that looked at or changed skills.
    pub skill_events: u64,
    /// Those of them that failed or were refused.
    pub error_events: u64,
}

/// What is known of a skill when its block is written.
#[derive(Debug, Clone)]
pub struct Brief<'a> {
    /// The skill that the block is for.
    pub skill: &'a Slug,
    /// How many days the window has.
    pub days: u32,
    /// When the newest evidence is from.
    pub through: Option<Timestamp>,
    /// How much there is in the window.
    pub counts: EvidenceCounts,
    /// The newest of it, newest first.
    pub rows: &'a [EvidenceRow],
}
