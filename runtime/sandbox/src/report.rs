//! What stands around a program, as its parent was told before it said go.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spec::SandboxLayer;

/// How a sandbox is built, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Namespaces that this process makes itself.
    Namespaces,
    /// Namespaces that the system's `bwrap` makes; limits, Landlock, the filter and the canary are ours.
    Bubblewrap,
}

impl Tier {
    /// All of them, best first.
    pub const ALL: [Self; 2] = [Self::Namespaces, Self::Bubblewrap];

    /// The tier's stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
        }
    }
}

/// What stands around a program that has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpawnReport {
    /// How it was built.
    pub tier: Tier,
    /// Every layer, whether it stands, and how.
    pub layers: Vec<LayerReport>,
    /// What holds each limit, in words: "memory" → "cgroup v1".
    pub limits: Vec<(String, String)>,
    /// Every probe of the canary; all of them held.
    pub canary: Vec<ProbeResult>,
    /// From the call to the program's start.
    pub ready_after: Duration,
}

/// One layer of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerReport {
    /// The layer that this is about.
    pub layer: SandboxLayer,
    /// Whether the layer stands around the program.
    pub on: bool,
    /// How it stands, or why it does not: "ABI 7", "the kernel has no Landlock".
    pub detail: String,
}

/// What one probe of the canary found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// The stable name of the probe, such as `write_outside`.
    pub probe: String,
    /// Whether the sandbox held.
    pub held: bool,
    /// How it was stopped, or what it reached.
    pub detail: String,
}
