//! What came of it, with how sure one can be.

use herm::successor::statistics::{SplitMix64, wilson};
use serde::Serialize;
use serde_json::{Value, json};

use crate::output::columns;

/// How often means are drawn again for their intervals.
const RESAMPLES: usize = 2_000;

/// One task.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Measured {
    pub(super) solved: bool,
    pub(super) turns: u32,
    pub(super) calls: usize,
    pub(super) skills: usize,
}

/// One way of doing them.
#[derive(Debug)]
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) model: Option<String>,
    pub(super) measured: Vec<Measured>,
}

impl Arm {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), model: None, measured: Vec::new() }
    }

    fn solved(&self) -> u64 {
        self.measured.iter().filter(|task| task.solved).count() as u64
    }

    fn skills(&self) -> usize {
        self.measured.iter().map(|task| task.skills).sum()
    }
}

impl Serialize for Arm {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let total = self.measured.len() as u64;
        let mean = |of: fn(&Measured) -> f64| -> Value {
            let (mean, [low, high]) = mean(&self.measured.iter().map(of).collect::<Vec<_>>());
            json!({ "mean": mean, "interval": [low, high] })
        };
        json!({
            "arm": self.name, "tasks": total, "solved": self.solved(), "interval": wilson(self.solved(), total),
            "turns": mean(|task| f64::from(task.turns)), "calls": mean(|task| task.calls as f64),
            "skillsWritten": self.skills(), "measured": self.measured,
        })
        .serialize(serializer)
    }
}

/// A mean and its 95 % interval, by drawing again.
fn mean(values: &[f64]) -> (f64, [f64; 2]) {
    if values.is_empty() {
        return (0.0, [0.0, 0.0]);
    }
    let of = |sum: f64| sum / values.len() as f64;
    let mut stream = SplitMix64::new(1);
    let mut draws: Vec<f64> = (0..RESAMPLES)
        .map(|_| of((0..values.len()).filter_map(|_| values.get(stream.below(values.len()))).sum()))
        .collect();
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws.get((share * RESAMPLES as f64) as usize).copied().unwrap_or_default();
    (of(values.iter().sum()), [at(0.025), at(0.975)])
}

/// The table, as the page in the documentation has it.
pub(super) fn text(model: &str, tasks: usize, arms: &[Arm], written: &[String]) -> String {
    let heads = ["arm", "tasks", "solved", "95 %", "turns", "95 %", "calls", "95 %", "skills written"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for arm in arms {
        let total = arm.measured.len() as u64;
        let [low, high] = wilson(arm.solved(), total).map(|share| (share * 100.0).round());
        let counted = |of: fn(&Measured) -> f64| {
            let (mean, [low, high]) = mean(&arm.measured.iter().map(of).collect::<Vec<_>>());
            [format!("{mean:.1}"), format!("{low:.1}–{high:.1}")]
        };
        let [turns, turns_in] = counted(|task| f64::from(task.turns));
        let [calls, calls_in] = counted(|task| task.calls as f64);
        rows.push(vec![
            arm.name.clone(),
            total.to_string(),
            arm.solved().to_string(),
            format!("{low}–{high} %"),
            turns,
            turns_in,
            calls,
            calls_in,
            arm.skills().to_string(),
        ]);
    }
    let mut text =
        format!("{model}, {tasks} tasks of one family; the arms are measured on its second half\n\n{}", columns(&rows));
    for skill in written {
        text.push_str(&format!("\nwritten by the agent:\n{}\n", skill.trim()));
    }
    if written.is_empty() {
        text.push_str("\nthe agent wrote nothing down\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_an_interval_around_it_and_the_same_values_give_none() {
        let (middle, [low, high]) = mean(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(low < middle && middle < high && middle == 3.5, "{low} {middle} {high}");
        assert_eq!(mean(&[2.0; 9]), (2.0, [2.0, 2.0]));
        assert_eq!(mean(&[]), (0.0, [0.0, 0.0]));
    }
}
