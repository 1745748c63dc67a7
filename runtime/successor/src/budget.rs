//! What a successor may use up. Crossing any of it ends the successor and the verdict is REJECT.

use herm_sandbox::ResourceUsage;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What a successor may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SuccessorBudget {
    /// Seconds on the wall.
    pub wall_secs: u64,
    /// Millionths of a dollar for models.
    pub micro_usd: u64,
    /// Bytes on disk; every sandbox gets half of them.
    pub disk_bytes: u64,
    /// Percent of one processor.
    pub cpu_percent: u32,
    /// Bytes of memory; every sandbox gets half of them.
    pub memory_bytes: u64,
    /// Processes and threads; every sandbox gets half of them.
    pub processes: u32,
    /// Files and directories on disk; every sandbox gets half of them.
    pub files: u64,
}

impl Default for SuccessorBudget {
    fn default() -> Self {
        Self {
            wall_secs: 3_600,
            micro_usd: 5_000_000,
            disk_bytes: 10_000_000_000,
            cpu_percent: 200,
            memory_bytes: 4 << 30,
            processes: 256,
            files: 200_000,
        }
    }
}

impl SuccessorBudget {
    /// The rules budgets obey.
    pub fn validate(&self) -> Result<()> {
        let rule = if self.wall_secs == 0 || self.wall_secs > 86_400 {
            "the time is 1 second to 24 hours"
        } else if self.cpu_percent < 10 {
            "the processor time is at least 10 % of one processor"
        } else if self.memory_bytes < 64 << 20 {
            "the memory is at least 64 MiB"
        } else if self.processes < 16 {
            "there are at least 16 processes"
        } else if self.disk_bytes < 16 << 20 || self.files < 1_000 {
            "the disk is at least 16 MiB and 1,000 files"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("this budget cannot be: {rule}"))
            .hint("leave it out: an hour, 5.00 USD, 10 GB, 200 % of a processor"))
    }
}

impl SuccessorUsage {
    /// What of it is more than a budget allows: its name, its unit, what was used and what was allowed. Time, processors
    /// and money are held while it runs.
    pub(super) fn beyond(&self, budget: &SuccessorBudget) -> Option<(&'static str, &'static str, u64, u64)> {
        let all = [
            ("memory", "bytes", self.memory_bytes, budget.memory_bytes),
            ("processes", "processes", self.processes.into(), budget.processes.into()),
            ("disk", "bytes", self.disk_bytes, budget.disk_bytes),
            ("files", "files", self.files, budget.files),
        ];
        all.into_iter().find(|(.., used, allowed)| used > allowed)
    }

    /// Takes in what ran at the same time.
    pub(super) fn add_concurrent(&mut self, used: &ResourceUsage) {
        self.cpu_millis += millis(used);
        self.disk_bytes += used.disk_peak;
        self.memory_bytes += used.memory_peak;
        self.processes += used.processes_peak;
        self.files += used.files_peak;
    }

    /// Takes in what ran by itself, one after the other.
    pub(super) fn add_peaks(&mut self, used: &ResourceUsage) {
        self.cpu_millis += millis(used);
        self.disk_bytes = self.disk_bytes.max(used.disk_peak);
        self.memory_bytes = self.memory_bytes.max(used.memory_peak);
        self.processes = self.processes.max(used.processes_peak);
        self.files = self.files.max(used.files_peak);
    }

    /// Takes in what ran afterwards.
    pub(super) fn after(&mut self, later: &Self) {
        self.cpu_millis += later.cpu_millis;
        self.disk_bytes = self.disk_bytes.max(later.disk_bytes);
        self.memory_bytes = self.memory_bytes.max(later.memory_bytes);
        self.processes = self.processes.max(later.processes);
        self.files = self.files.max(later.files);
    }
}

fn millis(used: &ResourceUsage) -> u64 {
    u64::try_from(used.cpu.as_millis()).unwrap_or(u64::MAX)
}

/// What a successor used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessorUsage {
    /// Milliseconds on the wall.
    pub wall_millis: u64,
    /// Milliseconds of processor time, of everything that ran.
    pub cpu_millis: u64,
    /// Millionths of a dollar for models.
    pub micro_usd: u64,
    /// The most bytes on disk.
    pub disk_bytes: u64,
    /// The most bytes of memory: the peaks of what ran side by side, added up.
    pub memory_bytes: u64,
    /// The most processes and threads.
    pub processes: u32,
    /// The most files and directories on disk: the peaks of what ran side by side, added up.
    pub files: u64,
}
