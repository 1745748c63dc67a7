//! The rules of replies, by number: a replay reads a reply as it was read.

use serde::{Deserialize, Serialize};

/// By which rules a reply is read. A transcript says which, so that a replay reads it as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Edition {
    /// Without calls of other notations; the first legal object counts, an empty one too; of a key that occurs twice in
    /// the arguments the last counts.
    First,
    /// As `docs/reference/reply.md` says; any call that ran makes an answer legal.
    Second,
    /// The same replies; an answer needs a call that went well, and facts that come from results.
    Third,
    /// Where a call is all that a fence holds, the fence does not quote it: the model is asked again. With every backend, an
    /// answer rests on tools that touch the task's matter, and on what they said when they went well. Made-up examples have
    /// names of their task; longer tasks leave examples.
    #[default]
    Fourth,
}

impl Edition {
    /// The rules of transcripts that do not say.
    pub fn first() -> Self {
        Self::First
    }

    /// Whether these are the rules of transcripts that do not say.
    pub fn is_first(&self) -> bool {
        *self == Self::First
    }
}

impl From<Edition> for u8 {
    fn from(edition: Edition) -> Self {
        match edition {
            Edition::First => 1,
            Edition::Second => 2,
            Edition::Third => 3,
            Edition::Fourth => 4,
        }
    }
}

impl TryFrom<u8> for Edition {
    type Error = String;
    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            1 => Ok(Self::First),
            2 => Ok(Self::Second),
            3 => Ok(Self::Third),
            4 => Ok(Self::Fourth),
            other => Err(format!("its replies were read by rules {other}, and this herm knows 1 to 4")),
        }
    }
}
