//! What is known of a skill besides its text: who made it, how it is used, whether it is kept.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::Slug;

/// Implements the stored name of a small enum.
macro_rules! stored_name {
    ($type:ident, $what:literal, { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// The name, as stored.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Reads a stored name.
            pub fn parse(name: &str) -> Result<Self> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    other => Err(Error::corrupt(format!("{other:?} is not {}", $what))
                        .hint("restore the brain from a snapshot")),
                }
            }
        }
    };
}

/// Who made a skill. A recorded fact, never guessed from a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CreatedBy {
    /// The agent itself: in a task, or by what learns between tasks.
    Agent,
    /// The seed the brain began as.
    Seed,
    /// A manifest, a directory or an import.
    Imported,
    /// An import that its library records as installed from a hub.
    Hub,
    /// An import that its library records as part of a plugin.
    Plugin,
    /// An import that its library records as shipped with another program.
    Bundled,
    /// A person rather than a program.
    User,
}

stored_name!(CreatedBy, "a maker of skills", {
    Agent => "agent", Seed => "seed", Imported => "imported",
    Hub => "hub", Plugin => "plugin", Bundled => "bundled", User => "user",
});

/// Where a skill is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillState {
    /// In the index, and used lately or new.
    Active,
    /// In the index, long unused.
    Stale,
    /// Out of the index, kept, restorable.
    Archived,
}

stored_name!(SkillState, "a state of a skill", {
    Active => "active", Stale => "stale", Archived => "archived",
});

/// The telemetry of one skill.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SkillUsage {
    /// When it was archived, while it is.
    pub archived_at: Option<Timestamp>,
    /// When it was made. Making is not using.
    pub created_at: Timestamp,
    /// Who made it. Most automatic changes are only for what the agent made.
    pub created_by: CreatedBy,
    /// When it was last changed.
    pub last_patched_at: Option<Timestamp>,
    /// When it was last used.
    pub last_used_at: Option<Timestamp>,
    /// When it was last read.
    pub last_viewed_at: Option<Timestamp>,
    /// How often it was changed.
    pub patch_count: u32,
    /// Exempt from everything automatic.
    pub pinned: bool,
    /// Where it is in its life.
    pub state: SkillState,
    /// How often it was used.
    pub use_count: u32,
    /// How often it was read.
    pub view_count: u32,
}

impl SkillUsage {
    /// A skill just made.
    pub fn new(created_by: CreatedBy, created_at: Timestamp) -> Self {
        Self {
            archived_at: None,
            created_at,
            created_by,
            last_patched_at: None,
            last_used_at: None,
            last_viewed_at: None,
            patch_count: 0,
            pinned: false,
            state: SkillState::Active,
            use_count: 0,
            view_count: 0,
        }
    }
}

impl SkillUsage {
    /// When it was last used, read or changed; none if it never was. Making it is not activity.
    pub fn last_activity(&self) -> Option<Timestamp> {
        [self.last_used_at, self.last_viewed_at, self.last_patched_at].into_iter().flatten().max()
    }
}

/// The bytes of `skills/.usage.json`: sorted keys, 2-space indent, a final newline.
pub fn sidecar(usage: &BTreeMap<Slug, SkillUsage>) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(usage)
        .map_err(|source| Error::internal("usage could not be written as JSON").because(source))?;
    bytes.push(b'\n');
    Ok(bytes)
}
