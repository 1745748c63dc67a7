//! How a sandbox ended, and what it took.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::LimitKind;

/// How a sandbox ended, and what it took. When it is there, nothing of the sandbox runs any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxExit {
    /// How the program ended: by itself, at a limit, or because it was killed.
    pub how: ExitReason,
    /// What everything inside took, until nothing ran any more.
    pub used: ResourceUsage,
    /// The time from the crossing of a limit (or the call of the killer) until the last process was gone; nothing
    /// where the program ended by itself.
    pub terminated_within: Option<Duration>,
}

/// How a sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The program left with this code.
    Exited(i32),
    /// The program was ended by this signal, which did not come from outside.
    Signalled(i32),
    /// It took more than it may.
    Exceeded {
        /// The limit that was crossed.
        budget: LimitKind,
        /// What it may take.
        limit: u64,
        /// What was measured at the crossing, in the unit of [`LimitKind::unit`]. Where the kernel holds a hard limit
        /// this is the limit, and the crossing was an attempt.
        used: u64,
    },
    /// A [`Killer`](crate::Killer) ended it, or [`SandboxProcess`](crate::SandboxProcess) was dropped.
    Killed,
    /// The sandbox itself broke, with the sentence that says how; the program was ended.
    Broken(String),
}

/// What a sandbox took. Figures that are sampled can miss a peak between two samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// From the program's start to its end.
    pub wall: Duration,
    /// CPU time of all processes.
    pub cpu: Duration,
    /// The most memory at one time, in bytes.
    pub memory_peak: u64,
    /// The most bytes in the work directory.
    pub disk_peak: u64,
    /// The most files and directories in the work directory.
    pub files_peak: u64,
    /// The most processes and threads at one time.
    pub processes_peak: u32,
    /// Bytes of standard output and standard error.
    pub output: u64,
}
