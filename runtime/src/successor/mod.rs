//! The successor: a sandboxed clone of the runtime that judges a patch and returns a verdict.
//!
//! - [`Patch`] is the proposed change, [`Evaluation`] what is run to judge it; both are files with a hash.
//! - [`Sample`] is what one case gave on one side.
//! - [`Verdict`] is the judgement, computed and signed by the parent.
//! - [`gate`] is what stands between a verdict and a change: a steward, or a mesh of nodes.

mod adopt;
pub mod apply;
mod arms;
mod artifacts;
pub mod audit;
pub mod auto;
pub mod bottleneck;
mod broker;
mod budget;
mod caveats;
mod chart;
mod checking;
mod closing;
mod conditions;
pub mod draft_patch;
pub mod evaluation;
mod figures;
#[cfg(test)]
mod fixtures;
mod fork;
pub mod gate;
mod judge;
mod measure;
mod pairs;
mod patch;
mod records;
mod report;
mod sessions;
mod side;
mod speakers;
pub mod statistics;
mod summary;
mod verdict;
mod wire;
mod worker;

pub use adopt::{InLineage, adopt, base_beside, base_of, lineage, rehearse, take_back};
pub use broker::{Broker, Purse};
pub use budget::{Budget, Spent};
pub use closing::close;
pub use conditions::{GoalStanding, GuardStanding, goal_standing, guard_standing};
pub use evaluation::{EVALUATION_SCHEMA, Evaluation};
pub use fork::{SuccessorFork, forks, sweep};
pub use judge::{Judgement, judge};
pub use measure::{Arm, Better, Checked, Metric, Sample};
pub use patch::{Change, Edit, Executable, MAX_PATCH_BYTES, PATCH_SCHEMA, Patch, PatchFile};
pub use records::{Record, Records};
pub use report::{MAX_REPORT_BYTES, Report};
pub use verdict::{
    Artifact, Base, CheckCounts, Comparison, Direction, Identity, Ruling, VERDICT_SCHEMA, VERDICT_TYPE, Verdict, Walls,
};
pub use worker::take_over;
