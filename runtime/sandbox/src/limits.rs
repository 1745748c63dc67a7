//! What a sandbox may take.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a sandbox may take. Crossing one of them ends everything inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Time from the program's start to its end.
    pub wall: Duration,
    /// CPU time per time, in percent of one core: 200 are two cores. It is held, not crossed: who wants more waits.
    /// Without control groups it is rounded down to whole cores, and up to one.
    pub cpu_percent: u32,
    /// Bytes of memory of all processes together.
    pub memory: u64,
    /// Processes and threads together.
    pub processes: u32,
    /// Bytes in the work directory, including what was there at the start.
    pub disk: u64,
    /// Files and directories in the work directory, including what was there at the start.
    pub files: u64,
    /// Bytes of standard output and standard error together.
    pub output: u64,
}

impl Default for SandboxLimits {
    /// An hour, two cores, 2 GiB of memory, 256 processes, 10 GB and a million files on disk, 64 MiB of output.
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(3_600),
            cpu_percent: 200,
            memory: 2 * 1024 * 1024 * 1024,
            processes: 256,
            disk: 10_000_000_000,
            files: 1_000_000,
            output: 64 * 1024 * 1024,
        }
    }
}

/// A budget that can be crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// [`SandboxLimits::wall`] was crossed; its figures are in milliseconds.
    Wall,
    /// [`SandboxLimits::memory`] was crossed; its figures are in bytes.
    Memory,
    /// [`SandboxLimits::processes`] was crossed; its figures count processes and threads.
    Processes,
    /// [`SandboxLimits::disk`] was crossed; its figures are in bytes.
    Disk,
    /// [`SandboxLimits::files`] was crossed; its figures count files and directories.
    Files,
    /// [`SandboxLimits::output`] was crossed; its figures are in bytes.
    Output,
}

impl LimitKind {
    /// The budget's stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::Files => "files",
            Self::Output => "output",
        }
    }

    /// The unit of its figures.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Wall => "ms",
            Self::Memory | Self::Disk | Self::Output => "bytes",
            Self::Processes => "processes",
            Self::Files => "files",
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
