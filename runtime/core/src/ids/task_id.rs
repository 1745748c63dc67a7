//! The name of a task.

use super::{Digest, Random};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::validated_text;

/// A task's own name: 1 to 64 letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Box<str>);

impl TaskId {
    /// Whether a text can be a task's id. The error, of kind `InvalidInput`, says what is wrong with it.
    pub fn validate(text: &str) -> Result<()> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if (1..=64).contains(&text.len()) && text.chars().all(good) {
            return Ok(());
        }
        Err(Error::invalid("that is not a task id").hint("a task id is 1 to 64 letters, digits, `.`, `_` and `-`"))
    }

    /// A new one. Names sort by the moment they were made.
    pub fn new(at: Timestamp, random: &dyn Random) -> Result<Self> {
        let mut bytes = [0; 8];
        random.fill(&mut bytes)?;
        Ok(Self(format!("{:012x}-{:016x}", at.millis(), u64::from_be_bytes(bytes)).into()))
    }

    /// The name of a task that another one makes: the same whenever that one makes it from the same parts. It sorts
    /// beside its parent where the parent's name begins with a moment.
    pub fn derived(parent: &Self, parts: &[&[u8]]) -> Self {
        let mut bytes = b"herm derived task v1".to_vec();
        for part in std::iter::once(&parent.as_str().as_bytes()).chain(parts) {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        let hex = &Digest::of(&bytes).to_string()[..32];
        let moment = parent.as_str().split('-').next().filter(|moment| moment.len() == 12);
        Self(format!("{}-{hex}", moment.unwrap_or("derived")).into())
    }
}

validated_text!(TaskId);
