//! What the evolver does each time it comes by, by itself or by a timer: counts the evidence, passes over the
//! skills that have enough of it, proposes to take back what made things worse, and lets old evidence go.

use serde::Serialize;

use super::apply::EvolverApproval;
use super::pass::{self, EvolverPassMode, EvolverPassOptions, EvolverPassReport};
use super::select::RankerChain;
use super::view::EvolverView;
use super::{report, review_queue};
use crate::brain::Brain;
use crate::error::Result;
use crate::ids::Slug;

/// How a round goes.
#[derive(Debug, Clone)]
pub struct EvolverRoundOptions {
    /// How it passes over the skills; a dry run is not a pass at all.
    pub options: EvolverPassOptions,
    /// Evidence older than so many days is let go.
    pub keep_days: u32,
    /// And the oldest of it, where all of it takes more than about so many bytes.
    pub keep_bytes: u64,
}

impl Default for EvolverRoundOptions {
    /// Changes are held until a person accepts them; evidence is kept for 90 days or 64 MiB.
    fn default() -> Self {
        Self {
            options: EvolverPassOptions { mode: EvolverPassMode::Pending, ..EvolverPassOptions::default() },
            keep_days: 90,
            keep_bytes: 64 << 20,
        }
    }
}

/// What a round did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvolverRoundReport {
    /// The pass, where there was one.
    pub run: Option<EvolverPassReport>,
    /// Changes that it proposes to take back, by their ids in the queue.
    pub rollbacks_proposed: Vec<String>,
    /// Rows of evidence that were let go.
    #[serde(rename = "let_go")]
    pub pruned: u64,
}

/// One round over a brain.
pub fn run(
    brain: &mut Brain,
    routine: &EvolverRoundOptions,
    ranking: RankerChain<'_>,
    external: &[Slug],
) -> Result<EvolverRoundReport> {
    let is_refused =
        routine.options.mode == EvolverPassMode::ApplyLowRisk && routine.options.approval == EvolverApproval::Missing;
    if is_refused {
        // Nobody said yes: it says what it would do, and is not a round.
        let run = Some(pass::run(brain, &routine.options, ranking, external)?);
        return Ok(EvolverRoundReport { run, rollbacks_proposed: Vec::new(), pruned: 0 });
    }
    // Counted first: planning then reads counts, and not every row since the last time.
    brain.count_evidence()?;
    let (mut run, mut rollbacks_proposed) = (None, Vec::new());
    if routine.options.mode != EvolverPassMode::DryRun {
        run = Some(pass::run(brain, &routine.options, ranking, external)?);
        let outcomes = report::outcomes(&EvolverView::of_brain(brain)?, None)?;
        rollbacks_proposed = review_queue::propose_rollbacks(brain, &outcomes)?;
    }
    let let_go = brain.prune_evidence(routine.keep_days, routine.keep_bytes)?;
    let now = brain.clock().now();
    brain.write_evolver_rows(|notes| notes.set_passed_at(now))?;
    Ok(EvolverRoundReport { run, rollbacks_proposed, pruned: let_go })
}
