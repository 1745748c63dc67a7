//! The parts of a bundle, so that a reader of the lock sees *what* moved.

use super::{feed_text, node};
use crate::ids::Digest;
use crate::layout;

/// One part of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BundlePart {
    /// `system.md`, `manifest.json`, `tuning.json` and `tools/`.
    System,
    /// `MEMORY.md`, `USER.md` and `users/`.
    Layer1,
    /// `skills/`, the archive included.
    Skills,
    /// Everything below `patterns/`: shared knowledge that tasks only read.
    Patterns,
    /// Use counts, pins and states of skills: rows of `memory.db`.
    Usage,
    /// Messages, facts and the task log: rows of `memory.db`.
    Memory,
}

impl BundlePart {
    /// All parts, in the order in which the root binds them.
    pub const ALL: [Self; 6] = [Self::System, Self::Layer1, Self::Skills, Self::Patterns, Self::Usage, Self::Memory];

    /// The part's name, as in the lock.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Layer1 => "layer1",
            Self::Skills => "skills",
            Self::Patterns => "patterns",
            Self::Usage => "usage",
            Self::Memory => "memory",
        }
    }

    /// The part a file belongs to, or `None` where it is not part of a bundle.
    pub fn of(path: &str) -> Option<Self> {
        if layout::is_not_content(path) {
            return None;
        }
        match path.split_once('/') {
            None => match path {
                layout::SYSTEM | layout::MANIFEST | layout::TUNING => Some(Self::System),
                layout::MEMORY_LAYER | layout::USER_LAYER => Some(Self::Layer1),
                _ => None,
            },
            Some((layout::TOOLS_DIR, _)) => Some(Self::System),
            Some((layout::USERS_DIR, _)) => Some(Self::Layer1),
            Some((layout::SKILLS_DIR, _)) => Some(Self::Skills),
            Some((layout::PATTERNS_DIR, _)) => Some(Self::Patterns),
            Some(_) => None,
        }
    }
}

/// The digest of each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartDigests {
    /// `system.md`, `manifest.json`, `tuning.json` and `tools/`.
    pub system: Digest,
    /// `MEMORY.md`, `USER.md` and `users/`.
    pub layer1: Digest,
    /// `skills/`, the archive included.
    pub skills: Digest,
    /// Everything below `patterns/`: shared knowledge that tasks only read.
    pub patterns: Digest,
    /// Use counts, pins and states of skills.
    pub usage: Digest,
    /// Messages, facts and the task log.
    pub memory: Digest,
}

impl PartDigests {
    /// The digest of one part.
    pub fn get(&self, part: BundlePart) -> Digest {
        match part {
            BundlePart::System => self.system,
            BundlePart::Layer1 => self.layer1,
            BundlePart::Skills => self.skills,
            BundlePart::Patterns => self.patterns,
            BundlePart::Usage => self.usage,
            BundlePart::Memory => self.memory,
        }
    }

    /// The bundle hash: one digest over the names and digests of all parts.
    pub fn root(&self) -> Digest {
        let mut hasher = node("herm bundle v1 root");
        for part in BundlePart::ALL {
            feed_text(&mut hasher, part.name());
            hasher.update(self.get(part).bytes());
        }
        hasher.finalize().into()
    }

    /// The parts in which two bundles differ.
    pub fn moved(&self, other: &Self) -> Vec<BundlePart> {
        BundlePart::ALL.into_iter().filter(|part| self.get(*part) != other.get(*part)).collect()
    }
}
