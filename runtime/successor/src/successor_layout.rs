//! Where successors keep what they leave behind, beside the brains.

use std::path::{Path, PathBuf};

use crate::layout::Layout;

/// What successors leave behind in a directory of brains: verdicts, approvals, notes, and forks while they live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessorLayout {
    root: PathBuf,
}

impl SuccessorLayout {
    /// The files of the successors of these brains.
    pub fn of(layout: &Layout) -> Self {
        Self { root: layout.brains().join(".successor") }
    }

    /// The directory of all that successors leave behind. It need not exist yet.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the verdicts, each in a directory of its own.
    pub fn verdicts(&self) -> PathBuf {
        self.root.join("verdicts")
    }

    /// The directory of the requests that commands leave for the server.
    pub fn requests(&self) -> PathBuf {
        self.root.join("requests")
    }

    /// The directory of what gates remember: approvals, votes and nonces.
    pub(crate) fn gates(&self) -> PathBuf {
        self.root.join("gates")
    }

    /// The directory of the forks that live.
    pub(crate) fn forks(&self) -> PathBuf {
        self.root.join("forks")
    }

    /// The directory of the notes about patches that were drafted.
    pub(crate) fn drafts(&self) -> PathBuf {
        self.root.join("drafts")
    }

    /// The directory of the last run of each brain's patch loop.
    pub(crate) fn runs(&self) -> PathBuf {
        self.root.join("auto")
    }
}
