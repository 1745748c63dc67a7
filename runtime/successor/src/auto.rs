//! Autogenesis: the loop in which a brain's runtime improves itself, as stages that can each be looked at.
//!
//! watch → detect → draft → evaluate → verify → gate → apply. Every stage leaves a [`StageRecord`] of what it was given,
//! what it decided and why; whichever stage stops, the others say that they were not reached. Nothing is remembered
//! between two runs but what is in the brain and its verdicts: a run finds out where the last one stood.
//!
//! - Nothing is applied without a gate: who opens it, and who applies, is behind [`PatchGates`].
//! - A dry run watches, detects, drafts, evaluates and verifies, and shows what gate and window would say. It asks
//!   nobody, applies nothing and takes nothing back.
//!
//! The stages, thresholds and rules in words are in `docs/operate/autogenesis.md`.

pub(super) mod pending;
pub(super) mod stages;
mod watch;
mod window;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use crate::budget::SuccessorBudget;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::evaluation::Evaluation;
use crate::fsio::{self, Root, SyncTiming};
use crate::harness::Harness;
use crate::ids::BrainId;
use crate::records::VerdictRecord;

pub use watch::{
    LEAST_WATCHED, WATCHED, WORSE_BY, WORSE_P, WatchStatus as WatchStanding, WatchedPatch, WatchedTask, fisher, judge,
};
pub use window::Window;

/// The format of a run.
pub const AUTO_SCHEMA: &str = "herm/auto@1";
/// Tasks that are observed, unless said.
pub const USUAL_TASKS: usize = 50;

/// A stage of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchLoopStage {
    /// Is the last patch a loss? Then it is taken back.
    Watch,
    /// What holds the brain up?
    Detect,
    /// Which patch could help?
    Draft,
    /// Does the patch make the brain better? A successor judges it.
    Evaluate,
    /// Does a second successor say so as well?
    Verify,
    /// May it be applied?
    Gate,
    /// The patch becomes a step of the brain.
    Apply,
}

impl PatchLoopStage {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Watch, Self::Detect, Self::Draft, Self::Evaluate, Self::Verify, Self::Gate, Self::Apply];

    /// The name that a run's JSON and the output of `herm successor auto` use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Detect => "detect",
            Self::Draft => "draft",
            Self::Evaluate => "evaluate",
            Self::Verify => "verify",
            Self::Gate => "gate",
            Self::Apply => "apply",
        }
    }
}

/// What a stage decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StageDecision {
    /// The next stage follows.
    Go,
    /// There is nothing to do.
    Nothing,
    /// Someone else has to do something, or it is not time yet.
    Wait,
    /// It speaks against the patch.
    Against,
    /// An earlier stage stopped.
    NotReached,
}

/// What a stage was given, what it decided and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageRecord {
    /// The stage that this record is about.
    pub stage: PatchLoopStage,
    /// What the stage decided; only [`StageDecision::Go`] lets the next one begin.
    pub decision: StageDecision,
    /// Why, in a sentence.
    pub why: String,
    /// What it was given.
    pub input: Value,
    /// What it found, as JSON; null where the stage was not reached.
    pub output: Value,
}

/// One run of the loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchLoopRun {
    /// The format of this file, [`AUTO_SCHEMA`].
    pub schema: &'static str,
    /// The brain that the loop ran over.
    pub brain: BrainId,
    /// Whether the run could change anything.
    pub mode: PatchLoopMode,
    /// When the run began.
    pub at: Timestamp,
    /// Every stage, in order.
    pub stages: Vec<StageRecord>,
}

impl PatchLoopRun {
    /// What the stage that stopped decided; [`StageDecision::Go`] where all went through.
    pub fn ended(&self) -> StageDecision {
        let stopped = self.stages.iter().find(|record| record.decision != StageDecision::Go);
        stopped.map_or(StageDecision::Go, |record| record.decision)
    }

    /// The record of a stage.
    pub fn stage(&self, stage: PatchLoopStage) -> Option<&StageRecord> {
        self.stages.iter().find(|record| record.stage == stage)
    }
}

/// Whether a run may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PatchLoopMode {
    /// It goes as far as gates allow.
    #[default]
    Live,
    /// It shows what it would do.
    DryRun,
}

/// How a gate stands for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "gate", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GateStatus {
    /// The gate would open now.
    Open {
        /// For whom, in words.
        by: String,
    },
    /// Someone has to do something.
    Waiting {
        /// Who, in words: `a steward`.
        whom: String,
        /// How, as a command or a sentence.
        how: String,
    },
    /// Somebody rejected the patch: waiting would not help.
    Shut {
        /// Why, in a sentence.
        why: String,
    },
}

/// Gates, and what lies behind them. The operator has the keys, the stewards and the mesh.
#[async_trait]
pub trait PatchGates: Send + std::marker::Sync {
    /// How the gate stands. Asks nobody, and uses nothing up.
    async fn look(&self, record: &VerdictRecord) -> Result<GateStatus>;

    /// Does what can be done so that it opens: a mesh is asked, a steward is not.
    async fn ask(&self, record: &VerdictRecord) -> Result<GateStatus>;

    /// Goes through the gate and applies the patch, between tasks; the brain's version then.
    async fn apply(&self, record: &VerdictRecord) -> Result<u64>;

    /// Takes a patch back by its step, between tasks; the brain's version then.
    async fn take_back(&self, brain: &BrainId, step: i64) -> Result<u64>;
}

/// How the loop runs.
#[derive(Debug, Clone)]
pub struct PatchLoopOptions {
    /// Whether it may change anything.
    pub mode: PatchLoopMode,
    /// How many of the last tasks are observed.
    pub tasks: usize,
    /// What each of the two successors may use up.
    pub budget: SuccessorBudget,
    /// Tasks for the verifier that the first successor does not see.
    pub held_out: Option<Evaluation>,
    /// The backend that drafts the patch, by its name; templates do, unless said.
    pub draft_with: Option<String>,
    /// When patches may be applied.
    pub window: Window,
    /// How many tasks after a patch are watched.
    pub watched: usize,
}

impl Default for PatchLoopOptions {
    fn default() -> Self {
        Self {
            mode: PatchLoopMode::Live,
            tasks: USUAL_TASKS,
            budget: SuccessorBudget::default(),
            held_out: None,
            draft_with: None,
            window: Window::default(),
            watched: WATCHED,
        }
    }
}

/// Runs the loop once over a brain, and writes down how it went. A stage that speaks against going on is part of the run;
/// an error means that the loop itself could not do its part.
pub async fn run(
    harness: &Harness,
    brain: &BrainId,
    how: &PatchLoopOptions,
    doors: &dyn PatchGates,
) -> Result<PatchLoopRun> {
    let mut run = PatchLoopRun {
        schema: AUTO_SCHEMA,
        brain: brain.clone(),
        mode: how.mode,
        at: harness.now(),
        stages: Vec::with_capacity(PatchLoopStage::ALL.len()),
    };
    stages::Loop { harness, brain, how, doors }.go(&mut run.stages).await?;
    let stopped = run.stages.last().map(|record| record.stage.name()).unwrap_or_default();
    for stage in PatchLoopStage::ALL.into_iter().skip(run.stages.len()) {
        run.stages.push(StageRecord {
            stage,
            decision: StageDecision::NotReached,
            why: format!("not reached: {stopped} came to an end"),
            input: Value::Null,
            output: Value::Null,
        });
    }
    keep(harness, &run)?;
    Ok(run)
}

/// Keeps the run in place of the brain's last one, so that people can read how it went.
fn keep(harness: &Harness, run: &PatchLoopRun) -> Result<()> {
    let place = harness.layout().successors().join("auto");
    fsio::create_dirs(&place)?;
    let content = crate::records::json(run)?;
    let root = Root::open(&place)?;
    root.replace(&format!("{}.json", run.brain).parse()?, &content, SyncTiming::Now)?;
    root.clear_temporaries()
}
