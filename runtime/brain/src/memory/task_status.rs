//! How a task ended, as the task log, transcripts and receipts name it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// With a final answer.
    Converged,
    /// Without one, though everything worked: what was done stands.
    Incomplete,
    /// Something broke. Nothing is kept but the account of it.
    Failed,
}

impl TaskStatus {
    const ALL: [Self; 3] = [Self::Converged, Self::Incomplete, Self::Failed];

    /// The word that the task log, transcripts and receipts have for it; it never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TaskStatus {
    type Err = Error;

    /// Reads a stored name. Another one is `Corrupt`: no edition of herm has written it.
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text).ok_or_else(|| {
            Error::corrupt(format!("{text:?} is not a status of a task"))
                .hint("restore the database from a backup, or the brain from a snapshot")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn every_status_is_read_back_and_another_text_is_damage() {
        for status in TaskStatus::ALL {
            assert_eq!(status.name().parse::<TaskStatus>().expect("a status"), status);
            assert_eq!(serde_json::to_value(status).expect("JSON"), serde_json::json!(status.name()));
        }
        for text in ["", "Converged", "done", "converged good"] {
            assert_eq!(text.parse::<TaskStatus>().expect_err("refused").kind(), ErrorKind::Corrupt);
        }
    }
}
