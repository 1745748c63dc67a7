//! What can be seen of a task without knowing how good its answer was: calls that failed, turns, cost.

use super::Observation;
use super::redraw::Drawn;
use crate::memory::Arm;

/// So many failed calls, or turns, are as many as count.
const MOST_ERRORS: u32 = 4;
const MOST_TURNS: u32 = 8;
/// So many times the usual cost is as much as counts.
const MOST_COST: f64 = 4.0;
/// A skill takes room in the prompt and may take a turn. Only trouble beyond this, of at most 1, counts against it.
const MARGIN: f64 = 0.1;

/// Tasks with one minus their trouble as a score. Those that saw the skill are forgiven the margin.
pub(super) fn drawn(tasks: &[Observation]) -> Vec<Drawn> {
    let usual = usual_cost(tasks);
    tasks
        .iter()
        .map(|task| {
            let shown = task.arm == Arm::Shown;
            Drawn { shown, score: 1.0 - trouble(task, usual) + if shown { MARGIN } else { 0.0 } }
        })
        .collect()
}

/// The median cost of a task, in millionths of a dollar; the upper one of two.
fn usual_cost(tasks: &[Observation]) -> f64 {
    let mut costs: Vec<u64> = tasks.iter().map(|task| task.micro_usd).collect();
    costs.sort_unstable();
    costs.get(costs.len() / 2).map_or(0.0, |cost| *cost as f64)
}

/// From 0 to 1: the mean of how many calls failed, how many turns it took and what it cost, each up to a most.
fn trouble(task: &Observation, usual: f64) -> f64 {
    let errors = f64::from(task.errors.min(MOST_ERRORS)) / f64::from(MOST_ERRORS);
    let turns = f64::from(task.turns.min(MOST_TURNS)) / f64::from(MOST_TURNS);
    let cost = if usual > 0.0 { (task.micro_usd as f64 / usual / MOST_COST).min(1.0) } else { 0.0 };
    (errors + turns + cost) / 3.0
}
