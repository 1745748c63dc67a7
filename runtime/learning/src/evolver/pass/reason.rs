//! Why a candidate of a pass stands where it does. Reports have each reason as one text: the name of a rule, or a sentence.

use std::fmt;

use serde::{Serialize, Serializer};

use super::super::apply::SkillApplyReason;
use super::super::policy::EvolverObjection;
use super::super::prepare::PrepareSkipReason;
use super::super::rollback::DrillGate;
use crate::memory::{ReviewStatus, StoredWord};

/// Why a candidate of a pass has its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvolverCandidateReason {
    /// It is not changed without a person.
    Objection(EvolverObjection),
    /// Its block is ready for review only: it is not changed without a person.
    ReviewOnly(EvolverObjection),
    /// Its block is ready.
    Prepared {
        /// The tool events that the block rests on.
        events: u64,
        /// Those of them that failed or were refused.
        errors: u64,
    },
    /// Its change waits in the queue under this id.
    Held(String),
    /// The very same question was decided before, and there is no newer evidence.
    DecidedBefore {
        /// What was decided then.
        status: StoredWord<ReviewStatus>,
        /// The id of the entry in the queue.
        id: String,
    },
    /// The skill has no main file here.
    FileNotFound,
    /// Its notes rest on all the evidence there is.
    NoNewEvidence,
    /// Its notes were taken back, and there is no newer evidence.
    RolledBackNoNewEvidence,
    /// Its notes were taken back: only a person goes back on that.
    RolledBackNeedsPerson,
    /// Its notes were taken out by hand, and there is no newer evidence.
    RemovedNoNewEvidence,
    /// Its notes were taken out by hand: only a person goes back on that.
    RemovedNeedsPerson,
    /// Everything that recurs was taken back before.
    UndoneNoNewLesson,
    /// A person took this very text back: only a person goes back on that.
    UndoneNeedsPerson,
    /// No variant of its text was made.
    NoVariant,
    /// The file beside it is not one that the evolver wrote.
    SupportFileNotOurs,
    /// The new text is the one it has.
    NothingNewToSay,
    /// Its text was left alone.
    Unprepared(PrepareSkipReason),
    /// The pass ended before its turn.
    NotReached,
    /// The last change must pass a drill first.
    DrillRequired(DrillGate),
    /// Its last change is on trial: changed again, it would never be known what that change was worth.
    OnTrial,
    /// The operator did not say that a pass may write by itself.
    ApprovalRequired,
    /// Its change was made, or could not be.
    Applied(SkillApplyReason),
    /// The message of an error.
    Error(String),
}

impl From<SkillApplyReason> for EvolverCandidateReason {
    fn from(reason: SkillApplyReason) -> Self {
        match reason {
            SkillApplyReason::ApprovalRequired => Self::ApprovalRequired,
            reason => Self::Applied(reason),
        }
    }
}

impl fmt::Display for EvolverCandidateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Objection(objection) => objection.name(),
            Self::ReviewOnly(objection) => return write!(f, "for review only: {}", objection.name()),
            Self::Prepared { events, errors } => return write!(f, "{events} events, {errors} errors"),
            Self::Held(id) => return write!(f, "held as {id}"),
            Self::DecidedBefore { status, id } => return write!(f, "{status}-before: {id}"),
            Self::FileNotFound => "skill-file-not-found",
            Self::NoNewEvidence => "no-new-evidence",
            Self::RolledBackNoNewEvidence => "rolled-back-and-no-new-evidence",
            Self::RolledBackNeedsPerson => "rolled-back-needs-a-person",
            Self::RemovedNoNewEvidence => "removed-and-no-new-evidence",
            Self::RemovedNeedsPerson => "removed-needs-a-person",
            Self::UndoneNoNewLesson => "undone-and-no-new-lesson",
            Self::UndoneNeedsPerson => "undone-needs-a-person",
            Self::NoVariant => "no-variant",
            Self::SupportFileNotOurs => "support-file-not-ours",
            Self::NothingNewToSay => "nothing-new-to-say",
            Self::Unprepared(reason) => reason.name(),
            Self::NotReached => "not-reached",
            Self::DrillRequired(gate) => return write!(f, "restore-drill-required: {}", gate.name()),
            Self::OnTrial => "last-change-on-trial",
            Self::ApprovalRequired => "auto-approval-required",
            Self::Applied(reason) => reason.name(),
            Self::Error(message) => message,
        })
    }
}

impl Serialize for EvolverCandidateReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
