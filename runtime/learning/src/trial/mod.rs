//! Trials: what was learned is shown to some tasks and held back from others until the difference is known.
//!
//! For each task that a learned skill fits, a coin decides whether the task sees it. [`sequential`] compares the two arms
//! while the trial runs, and ends it as proven, harmful or unproven; [`paired`] does the same for rehearsals, where one task
//! runs with and without the skill; [`estimate`] says how large the difference is. All of it is pure: observations in, a
//! decision out. [`pass`] reads a brain, decides and writes, and [`report`] sums a brain's trials up.
//! `docs/decisions/0033-trials-redraw-their-coins.md` has the error bounds and what was simulated.

pub mod estimate;
pub mod paired;
pub mod pass;
mod redraw;
pub mod report;
pub mod sequential;
mod signals;

#[cfg(test)]
mod simulated;

use crate::memory::{Arm, TrialTask};

/// One task of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// What the task saw.
    pub arm: Arm,
    /// How good its answer was, from 0 to 1; none where nobody said.
    pub score: Option<f64>,
    /// How many of its calls failed.
    pub errors: u32,
    /// How many turns it took.
    pub turns: u32,
    /// What it cost, in millionths of a US dollar.
    pub micro_usd: u64,
}

impl From<&TrialTask> for Observation {
    fn from(task: &TrialTask) -> Self {
        let TrialTask { arm, score, errors, turns, micro_usd, .. } = *task;
        Self { arm, score, errors, turns, micro_usd }
    }
}

impl Observation {
    /// The score, where there is one that means something.
    fn known_score(&self) -> Option<f64> {
        self.score.filter(|score| !score.is_nan()).map(|score| score.clamp(0.0, 1.0))
    }
}
