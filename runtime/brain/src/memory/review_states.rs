//! What the entries of the review queue are, and what became of them: the words that `evolver_queue` has for both.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text;

/// What kind of work a candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateKind {
    /// A skill that exists should say more, or be split.
    SkillUpdate,
    /// A way of working that no skill holds yet.
    SkillNew,
    /// Something to remember in every session.
    Memory,
    /// A failure to play again until it works.
    ReplayBenchmark,
    /// Nothing to do: the observation teaches nothing.
    Ignore,
    /// A change that is ready and waits for a person to accept it.
    Change,
    /// A change whose skill did worse since: accepting takes it back.
    Rollback,
}

impl CandidateKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::SkillUpdate,
        Self::SkillNew,
        Self::Memory,
        Self::ReplayBenchmark,
        Self::Ignore,
        Self::Change,
        Self::Rollback,
    ];

    /// The name that candidates, the queue and the commands have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SkillUpdate => "skill_update",
            Self::SkillNew => "skill_new",
            Self::Memory => "memory",
            Self::ReplayBenchmark => "replay_benchmark",
            Self::Ignore => "ignore",
            Self::Change => "change",
            Self::Rollback => "rollback",
        }
    }
}

impl fmt::Display for CandidateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CandidateKind {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::invalid(format!("{:?} is not a kind of candidate", text::line(name, 40)))
                .hint(format!("there are {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// What a person decided about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewStatus {
    /// No person has decided yet.
    #[default]
    Pending,
    /// It shall be done.
    Accepted,
    /// A person said no: it shall not be done.
    Rejected,
    /// Nothing, and a newer one took its place.
    Superseded,
}

impl ReviewStatus {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Accepted, Self::Rejected, Self::Superseded];

    /// The name that the queue and the commands have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Superseded => "superseded",
        }
    }
}

impl fmt::Display for ReviewStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReviewStatus {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
            Error::invalid(format!("{:?} is not a status of the queue", text::line(name, 40)))
                .hint(format!("there are {}", Self::ALL.map(Self::name).join(", ")))
        })
    }
}

/// A word of a stored row: one that this version knows, or one that another version wrote. Such a row is listed with
/// its word as it stands, and equals no state that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StoredWord<T> {
    /// What the word means to this version.
    Known(T),
    /// The word itself, of another version.
    Other(String),
}

impl<T: FromStr> StoredWord<T> {
    pub(super) fn read(word: String) -> Self {
        word.parse().map_or(Self::Other(word), Self::Known)
    }
}

impl<T: Copy + FromStr<Err = Error>> StoredWord<T> {
    /// What the word means; `InvalidInput` for a word of another version, with the words that are known.
    pub fn required(&self) -> Result<T> {
        match self {
            Self::Known(meant) => Ok(*meant),
            Self::Other(word) => word.parse(),
        }
    }
}

impl<T> From<T> for StoredWord<T> {
    fn from(meant: T) -> Self {
        Self::Known(meant)
    }
}

impl<T: PartialEq> PartialEq<T> for StoredWord<T> {
    fn eq(&self, meant: &T) -> bool {
        matches!(self, Self::Known(known) if known == meant)
    }
}

impl<T: fmt::Display> fmt::Display for StoredWord<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(known) => known.fmt(f),
            Self::Other(word) => f.write_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_stored_word_is_read_and_written_as_it_stands() {
        for status in ReviewStatus::ALL {
            let read = StoredWord::<ReviewStatus>::read(status.name().to_owned());
            assert_eq!(
                (&read, json!(read), read.to_string()),
                (&status.into(), json!(status), status.name().to_owned())
            );
            assert!(read == status && read.required().unwrap() == status);
        }
        for kind in CandidateKind::ALL {
            assert_eq!(StoredWord::<CandidateKind>::read(kind.to_string()), StoredWord::Known(kind));
        }
        let later = StoredWord::<ReviewStatus>::read("postponed".to_owned());
        assert_eq!((json!(later), later.to_string()), (json!("postponed"), "postponed".to_owned()));
        assert!(ReviewStatus::ALL.into_iter().all(|status| later != status) && later.required().is_err());
    }
}
