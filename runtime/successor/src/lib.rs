//! The successor: a sandboxed clone of the runtime that judges a patch and returns a verdict.
//!
//! - [`Patch`] is the proposed change, [`Evaluation`] what is run to judge it; both are files with a hash.
//! - [`EvaluationSample`] is what one case gave on one side.
//! - [`Verdict`] is the judgement, computed and signed by the parent.
//! - [`gate`] is what stands between a verdict and a change: a steward, or a mesh of nodes.
//!
//! It knows nothing of command lines and servers. A program that evaluates calls [`run_worker_if_reexec`] first in its
//! `main`: its own binary is started again inside the sandbox.
//!
//! ```no_run
//! use herm_agent::tool::Toolbox;
//! use herm_harness::Harness;
//! use herm_successor::{Evaluation, Patch, SuccessorBudget, SuccessorFork};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     herm_successor::run_worker_if_reexec(|| Ok(Toolbox::new()));
//!     let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//!     runtime.block_on(async {
//!         let harness = Harness::builder().brains("brains").build()?;
//!         let patch = Patch::parse(&std::fs::read("patch.json")?)?;
//!         let evaluation = Evaluation::parse(&std::fs::read("evaluation.json")?)?;
//!         let mut fork = SuccessorFork::new(&harness, &"1".parse()?, patch).await?;
//!         let verdict = fork.evaluate(&evaluation, SuccessorBudget::default()).await?;
//!         println!("{}", verdict.verdict.name());
//!         fork.destroy().await?;
//!         harness.shutdown().await?;
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # Features
//!
//! None. The formats are in `docs/reference/patch.md`, `evaluation.md` and `verdict.md`.

use herm_agent::{backend, session, task, tool};
use herm_brain::{brain, bundle, memory, receipt, tuning};
use herm_core::{clock, error, fsio, ids, layout, redact, text};
use herm_harness as harness;
use herm_learning::curator;
use herm_skills as skill;

mod adopt;
pub mod apply;
pub mod audit;
pub mod auto;
pub mod bottleneck;
mod broker;
mod budget;
pub mod detector;
pub mod draft_patch;
mod eval_worker;
pub mod evaluation;
mod fork;
pub mod gate;
mod judge;
mod measure;
mod patch;
mod recent;
mod records;
mod report;
mod runner;
mod shutdown;
mod statement;
mod successor_layout;
mod verdict;
mod wire;

pub use adopt::{LineageEntry, adopt, base_from_reader, base_of, lineage, rehearse, take_back};
pub use broker::{Broker, BrokerBalance};
pub use budget::{SuccessorBudget, SuccessorUsage};
pub use eval_worker::worker::run_worker_if_reexec;
pub use evaluation::{EVALUATION_SCHEMA, Evaluation};
pub use fork::{SuccessorFork, forks, sweep};
pub use judge::conditions::{GoalStatus, GuardStatus, goal_status, guard_status};
pub use judge::{Judgement, judge, statistics};
pub use measure::{EvaluationArm, EvaluationSample, Metric, MetricPolarity, SampleCheck};
pub use patch::{Executable, MAX_PATCH_BYTES, PATCH_SCHEMA, Patch, PatchChange, PatchEdit, PatchFile};
pub use records::{VerdictRecord, VerdictStore};
pub use report::{MAX_REPORT_BYTES, VerdictReport};
pub use shutdown::close;
pub use successor_layout::SuccessorLayout;
pub use verdict::{
    Artifact, BaseDigests, CheckCounts, Direction, MetricComparison, PatchBase, RuntimeIdentity, SandboxSummary,
    VERDICT_SCHEMA, VERDICT_TYPE, Verdict, VerdictRuling,
};
