//! `herm learn status` and `herm learn trials`: the skills that an agent wrote, and where they stand.

use herm::memory::TrialState;
use herm::trial::report::{self, LearnedSkill};
use herm::{BrainId, Reader, Result};
use serde_json::json;

use crate::commands::to_json;
use crate::config::Settings;
use crate::operations::learning::words;
use crate::output::{Answer, columns};

pub(super) fn status(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let learned = report::of(&Reader::open(&settings.layout, id)?)?;
    let mut json = to_json(&learned)?;
    json["id"] = json!(id);
    if learned.skills.is_empty() {
        return Ok(Answer::new("nothing learned yet\n", json));
    }
    let heads = ["SKILL", "STATE", "WITH IT", "WITHOUT", "GAIN, 95 %", "COST"];
    let row = |skill: &LearnedSkill| {
        vec![
            skill.skill.to_string(),
            words::state(skill),
            words::arm(&skill.shown),
            words::arm(&skill.held_back),
            words::gain(skill.gain.as_ref()),
            words::cost(skill),
        ]
    };
    let table = columns(&rows(&heads, learned.skills.iter().map(row)));
    Ok(Answer::new(format!("{table}\n{}", words::summary(&learned)), json))
}

pub(super) fn trials(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let mut learned = report::of(&Reader::open(&settings.layout, id)?)?.skills;
    learned.retain(|skill| skill.state == Some(TrialState::Trial));
    let json = json!({ "id": id, "trials": to_json(&learned)? });
    if learned.is_empty() {
        return Ok(Answer::new("nothing is on trial\n", json));
    }
    let heads = ["SKILL", "SINCE", "WITH IT", "WITHOUT", "GAIN, 95 %", "NEXT LOOK", "LAST TASK"];
    let row = |skill: &LearnedSkill| {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| words::NONE.to_owned());
        let known = skill.shown.known + skill.held_back.known;
        vec![
            skill.skill.to_string(),
            or_none(skill.since.map(|at| at.to_string())),
            words::arm(&skill.shown),
            words::arm(&skill.held_back),
            words::gain(skill.gain.as_ref()),
            or_none(skill.next_look.map(|look| format!("{known} of {look} tasks"))),
            or_none(skill.last.map(|at| at.to_string())),
        ]
    };
    Ok(Answer::new(columns(&rows(&heads, learned.iter().map(row))), json))
}

fn rows<const N: usize>(heads: &[&str; N], rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let heads: Vec<String> = heads.map(str::to_owned).to_vec();
    std::iter::once(heads).chain(rows).collect()
}
