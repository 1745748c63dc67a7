//! The successor: a sandboxed clone of the runtime that judges a patch and returns a verdict.
//!
//! - [`Patch`] is the proposed change, [`Evaluation`] what is run to judge it; both are files with a hash.
//! - [`Sample`] is what one case gave on one side.
//! - [`Verdict`] is the judgement, computed and signed by the parent.
//! - [`gate`] is what stands between a verdict and a change: a steward, or a mesh of nodes.

mod budget;
pub mod evaluation;
pub mod gate;
mod measure;
mod patch;
mod verdict;

pub use budget::{Budget, Spent};
pub use evaluation::{EVALUATION_SCHEMA, Evaluation};
pub use measure::{Arm, Better, Checked, Metric, Sample};
pub use patch::{Change, Edit, Executable, MAX_PATCH_BYTES, PATCH_SCHEMA, Patch, PatchFile};
pub use verdict::{
    Artifact, Base, CheckCounts, Comparison, Direction, Identity, Ruling, VERDICT_SCHEMA, VERDICT_TYPE, Verdict, Walls,
};
