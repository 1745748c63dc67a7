//! What an evaluation measures: one [`Sample`] for every case in every arm. A worker inside the
//! sandbox says what happened; the parent checks it and turns it into samples.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A side of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluationArm {
    /// The brain as it is.
    Baseline,
    /// The brain with the patch.
    Patched,
}

impl EvaluationArm {
    /// Both, the baseline first.
    pub const BOTH: [Self; 2] = [Self::Baseline, Self::Patched];

    /// The name in measurements and output: `baseline` or `patched`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Patched => "patched",
        }
    }
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricPolarity {
    /// A smaller value is better.
    Lower,
    /// A larger value is better.
    Higher,
}

impl MetricPolarity {
    /// How good a change is: more than zero is better, whichever way the metric goes.
    pub fn gain(self, change: f64) -> f64 {
        match self {
            Self::Higher => change,
            Self::Lower => -change,
        }
    }
}

/// A quantity that cases have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Metric {
    /// The share of a case's checks that passed: 0 to 1.
    Solved,
    /// Turns until the end.
    Turns,
    /// Tool calls that ran.
    ToolCalls,
    /// Tool calls that failed or were refused.
    ToolErrors,
    /// Tokens, counted or estimated.
    Tokens,
    /// Bytes of all conversations sent to the model.
    ContextBytes,
    /// The share of planted facts that the model can still read at the end: 0 to 1.
    KeptFacts,
    /// Skills that the curator would archive and that are used again.
    RetiredUsed,
    /// Skills that the curator would leave in the index and that are never used again.
    DeadKept,
    /// Time on a processor.
    CpuMicros,
    /// Time on the wall.
    WallMicros,
    /// The 99th percentile of the latency of tool calls.
    LatencyP99Micros,
    /// The most memory at once.
    MemoryBytes,
}

impl Metric {
    /// All metrics, in the order of the enum.
    pub const ALL: [Self; 13] = [
        Self::Solved,
        Self::Turns,
        Self::ToolCalls,
        Self::ToolErrors,
        Self::Tokens,
        Self::ContextBytes,
        Self::KeptFacts,
        Self::RetiredUsed,
        Self::DeadKept,
        Self::CpuMicros,
        Self::WallMicros,
        Self::LatencyP99Micros,
        Self::MemoryBytes,
    ];

    /// The name in evaluation files, measurements and verdicts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Turns => "turns",
            Self::ToolCalls => "toolCalls",
            Self::ToolErrors => "toolErrors",
            Self::Tokens => "tokens",
            Self::ContextBytes => "contextBytes",
            Self::KeptFacts => "keptFacts",
            Self::RetiredUsed => "retiredUsed",
            Self::DeadKept => "deadKept",
            Self::CpuMicros => "cpuMicros",
            Self::WallMicros => "wallMicros",
            Self::LatencyP99Micros => "latencyP99Micros",
            Self::MemoryBytes => "memoryBytes",
        }
    }

    /// What it says, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Solved => "checks passed",
            Self::Turns => "turns",
            Self::ToolCalls => "tool calls",
            Self::ToolErrors => "tool errors",
            Self::Tokens => "tokens",
            Self::ContextBytes => "bytes of conversation",
            Self::KeptFacts => "facts kept",
            Self::RetiredUsed => "living skills retired",
            Self::DeadKept => "dead skills kept",
            Self::CpuMicros => "processor time",
            Self::WallMicros => "time",
            Self::LatencyP99Micros => "p99 latency of calls",
            Self::MemoryBytes => "memory",
        }
    }

    /// Which way it is better.
    pub fn better(self) -> MetricPolarity {
        match self {
            Self::Solved | Self::KeptFacts => MetricPolarity::Higher,
            Self::Turns
            | Self::ToolCalls
            | Self::ToolErrors
            | Self::Tokens
            | Self::ContextBytes
            | Self::RetiredUsed
            | Self::DeadKept
            | Self::CpuMicros
            | Self::WallMicros
            | Self::LatencyP99Micros
            | Self::MemoryBytes => MetricPolarity::Lower,
        }
    }

    /// Whether the machine, and not only the patch, has a part in it: such a metric varies between two
    /// runs of the same thing.
    pub fn is_noisy(self) -> bool {
        matches!(self, Self::CpuMicros | Self::WallMicros | Self::LatencyP99Micros | Self::MemoryBytes)
    }

    /// Whether it can have this value at all. A worker that says otherwise is not believed: one value
    /// that is not a number would poison every mean.
    pub fn can_be(self, value: f64) -> bool {
        let most = match self {
            Self::Solved | Self::KeptFacts => 1.0,
            _ => 1e15,
        };
        (0.0..=most).contains(&value)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One check of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SampleCheck {
    /// What had to hold.
    pub name: String,
    /// Whether it held, as the parent found.
    pub passed: bool,
    /// What was found instead, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// What one case gave in one arm. Samples of the same part, case and repetition are a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvaluationSample {
    /// The part of the evaluation it belongs to.
    pub part: String,
    /// The case, by a name that is unique in its part.
    pub case: String,
    /// Which time it was run, from 0.
    pub repetition: u32,
    /// Which side it was run on: as it is, or with the patch.
    pub arm: EvaluationArm,
    /// What had to hold, as the parent found it.
    pub checks: Vec<SampleCheck>,
    /// What was measured; a metric that the part does not have is missing.
    pub metrics: BTreeMap<Metric, f64>,
    /// Why it could not be run, where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
