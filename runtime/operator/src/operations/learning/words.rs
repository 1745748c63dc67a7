//! Figures of trials as people read them.

use herm::trial::estimate::Gain;
use herm::trial::report::{ArmReport, LearnedSkill, LearningReport};

/// What stands in a table where there is nothing.
pub(crate) const NONE: &str = "–";

/// Where a skill stands.
pub(crate) fn state(skill: &LearnedSkill) -> String {
    let state = skill.state.map_or("not on trial yet", |state| state.name());
    let archived = if skill.archived { ", archived" } else { "" };
    let pinned = if skill.pinned { ", pinned" } else { "" };
    format!("{state}{archived}{pinned}")
}

/// `0.85 of 20`: the mean outcome of so many tasks; with those of unknown outcome, where there are any.
pub(crate) fn arm(arm: &ArmReport) -> String {
    let unknown = arm.tasks - arm.known;
    match (arm.mean, unknown) {
        (None, 0) => NONE.to_owned(),
        (None, unknown) => format!("{unknown} unknown"),
        (Some(mean), 0) => format!("{mean:.2} of {}", arm.known),
        (Some(mean), unknown) => format!("{mean:.2} of {}, {unknown} unknown", arm.known),
    }
}

/// `+0.60 (+0.31 to +0.78)`.
pub(crate) fn gain(gain: Option<&Gain>) -> String {
    gain.map_or_else(|| NONE.to_owned(), |gain| format!("{:+.2} ({:+.2} to {:+.2})", gain.value, gain.low, gain.high))
}

/// Millionths of a dollar as dollars.
pub(crate) fn dollars(micro_usd: f64) -> String {
    format!("{:+.4} $", micro_usd / 1e6)
}

/// What a task costs more with a skill.
pub(crate) fn cost(skill: &LearnedSkill) -> String {
    skill.extra_micro_usd.map_or_else(|| NONE.to_owned(), dollars)
}

/// What everything learned is worth, in a few lines.
pub(crate) fn summary(report: &LearningReport) -> String {
    let counts = &report.counts;
    let parts = [
        (counts.proven, "proven"),
        (counts.trial, "on trial"),
        (counts.unproven, "unproven"),
        (counts.harmful, "harmful"),
        (counts.untried, "not on trial yet"),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    let mut text = format!("{}\n", parts.join(", "));
    let worth = &report.gain;
    if worth.proven.is_some() {
        text.push_str(&format!(
            "gain of what is proven: {} a task that it fits\nit fits {:.0} % of tasks; over all tasks: {}\n",
            gain(worth.proven.as_ref()),
            worth.fitting * 100.0,
            gain(worth.overall.as_ref())
        ));
    }
    if worth.price > 0.0 {
        text.push_str(&format!("what harmful skills cost on trial: {:.1} good answers\n", worth.price));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_at_a_glance() {
        let mut shown = ArmReport {
            tasks: 24,
            known: 20,
            mean: Some(0.85),
            interval: None,
            errors: 0.0,
            turns: 2.0,
            micro_usd: 1.0,
        };
        assert_eq!(arm(&shown), "0.85 of 20, 4 unknown");
        shown = ArmReport { known: 0, mean: None, ..shown };
        assert_eq!(arm(&shown), "24 unknown");
        assert_eq!(gain(Some(&Gain { value: 0.6, low: -0.1, high: 0.781 })), "+0.60 (-0.10 to +0.78)");
        assert_eq!((gain(None), dollars(-1_250.0)), ("–".to_owned(), "-0.0013 $".to_owned()));
    }
}
