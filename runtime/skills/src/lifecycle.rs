//! What is decided about a skill, apart from what is counted of it.

use super::usage::{SkillState, SkillUsage};
use crate::clock::Timestamp;

/// Where a skill stands: the part of its telemetry that is a decision and can be taken back. Counts
/// and times of use are facts and cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillLifecycle {
    /// Where it is in its life.
    pub state: SkillState,
    /// Exempt from everything automatic.
    pub pinned: bool,
    /// When it was archived, while it is.
    pub archived_at: Option<Timestamp>,
}

impl SkillLifecycle {
    /// A skill that nothing was decided about, and a skill without a record.
    pub const PLAIN: Self = Self { state: SkillState::Active, pinned: false, archived_at: None };

    /// Where a skill with this telemetry stands.
    pub fn of(usage: &SkillUsage) -> Self {
        Self { state: usage.state, pinned: usage.pinned, archived_at: usage.archived_at }
    }

    /// Puts a skill there. Nothing else about it changes.
    pub fn put(self, usage: &mut SkillUsage) {
        usage.state = self.state;
        usage.pinned = self.pinned;
        usage.archived_at = self.archived_at;
    }

    /// In a word or two: `archived`, `active, pinned`.
    pub fn words(self) -> String {
        format!("{}{}", self.state.name(), if self.pinned { ", pinned" } else { "" })
    }
}
