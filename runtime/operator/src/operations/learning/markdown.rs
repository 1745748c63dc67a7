//! What an agent has learned is worth, as Markdown to hand on.

use herm::BrainId;
use herm::memory::TrialState;
use herm::trial::report::{LearnedSkill, LearningReport};

use super::words;

/// The report as Markdown: what everything is worth, then a table for each state, with the reasons.
pub(crate) fn markdown(id: &BrainId, version: u64, learned: &LearningReport) -> String {
    let mut text = format!("# What agent {id} has learned, at version {version}\n\n");
    if learned.skills.is_empty() {
        text.push_str("Nothing yet.\n");
        return text;
    }
    text.push_str(&words::summary(learned).replace('\n', "  \n"));
    text.push_str(
        "\nOutcomes are from 0 (bad) to 1 (good). A gain is the mean outcome of tasks that were shown a skill minus that of \
         tasks that it fitted and was held back from, by a coin. After an early end of a trial it is somewhat too large.\n",
    );
    for (state, title) in [
        (Some(TrialState::Proven), "Proven"),
        (Some(TrialState::Trial), "On trial"),
        (Some(TrialState::Unproven), "Unproven"),
        (Some(TrialState::Harmful), "Harmful"),
        (None, "Not on trial yet"),
    ] {
        let those: Vec<&LearnedSkill> = learned.skills.iter().filter(|skill| skill.state == state).collect();
        if those.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "\n## {title}\n\n| skill | with it | without | gain, 95 % | cost a task |\n|---|---|---|---|---|\n"
        ));
        for skill in &those {
            let (shown, held) = (words::arm(&skill.shown), words::arm(&skill.held_back));
            let (gain, cost) = (words::gain(skill.gain.as_ref()), words::cost(skill));
            text.push_str(&format!("| {} | {shown} | {held} | {gain} | {cost} |\n", skill.skill));
        }
        let reasons = those.iter().filter_map(|skill| Some(format!("- {}: {}\n", skill.skill, skill.reason.as_ref()?)));
        if matches!(state, Some(TrialState::Proven | TrialState::Harmful | TrialState::Unproven)) {
            text.push('\n');
            text.extend(reasons);
        }
    }
    text
}
