//! `herm learn show`: one learned skill and its trial.

use herm::memory::TrialTask;
use herm::trial::report::{ArmReport, LearnedSkill};
use herm::{BrainId, Reader, Result, Slug};
use serde_json::json;

use crate::commands::to_json;
use crate::config::Settings;
use crate::operations::learning::{self, ShownExample, words};
use crate::output::{Answer, columns};

pub(super) fn run(settings: &Settings, id: &BrainId, slug: &Slug) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let shown = learning::show(&reader, slug, |_| Ok(true))?;
    let skill = &shown.skill;
    let mut text = format!("{slug}: {}\n", words::state(skill));
    if let Some(reason) = &skill.reason {
        text.push_str(&format!("{reason}\n"));
    }
    text.push_str(&dates(skill));
    text.push_str(&format!("\n{}", arms(skill)));
    text.push_str(&format!("\ngain, 95 %: {}\n", words::gain(skill.gain.as_ref())));
    if skill.rehearsals > 0 {
        let rehearsed = words::gain(skill.rehearsed_gain.as_ref());
        text.push_str(&format!("in {} rehearsals: {rehearsed}\n", skill.rehearsals));
    }
    if !shown.tasks.is_empty() {
        text.push_str(&format!("\n{}", listed(&shown.tasks)));
    }
    if !shown.examples.is_empty() {
        text.push_str(&format!("\n{}", examples(&shown.examples)));
    }
    let mut json = to_json(&shown)?;
    json["id"] = json!(id);
    Ok(Answer::new(text, json))
}

fn dates(skill: &LearnedSkill) -> String {
    let mut text = String::new();
    for (what, at) in [("on trial since", skill.since), ("decided", skill.decided), ("last task", skill.last)] {
        text.extend(at.map(|at| format!("{what} {at}\n")));
    }
    text.extend(skill.next_look.map(|look| format!("looked at next after {look} tasks with a known outcome\n")));
    text
}

fn arms(skill: &LearnedSkill) -> String {
    let row = |name: &str, arm: &ArmReport| {
        let interval =
            arm.interval.map_or_else(|| words::NONE.to_owned(), |[low, high]| format!("{low:.2} to {high:.2}"));
        let mean = arm.mean.map_or_else(|| words::NONE.to_owned(), |mean| format!("{mean:.2}"));
        vec![
            name.to_owned(),
            arm.tasks.to_string(),
            arm.known.to_string(),
            mean,
            interval,
            format!("{:.1}", arm.errors),
            format!("{:.1}", arm.turns),
            words::dollars(arm.micro_usd).trim_start_matches('+').to_owned(),
        ]
    };
    let heads = ["", "TASKS", "KNOWN", "OUTCOME", "95 %", "ERRORS", "TURNS", "COST"].map(str::to_owned).to_vec();
    columns(&[heads, row("with it", &skill.shown), row("without", &skill.held_back)])
}

fn listed(tasks: &[TrialTask]) -> String {
    let row = |task: &TrialTask| {
        let kind = if task.rehearsed { "rehearsed, " } else { "" };
        vec![
            task.task.clone(),
            task.at.to_string(),
            format!("{kind}{}", task.arm.name().replace('_', " ")),
            task.score.map_or_else(|| "unknown".to_owned(), |score| format!("{score:.2}")),
        ]
    };
    let heads = ["TASK", "BEGAN", "ARM", "OUTCOME"].map(str::to_owned).to_vec();
    columns(&std::iter::once(heads).chain(tasks.iter().map(row)).collect::<Vec<_>>())
}

fn examples(examples: &[ShownExample]) -> String {
    let row =
        |example: &ShownExample| vec![example.task.to_string(), example.tools.join(", "), example.question.clone()];
    let heads = ["EXAMPLE OF TASK", "TOOLS", "QUESTION"].map(str::to_owned).to_vec();
    columns(&std::iter::once(heads).chain(examples.iter().map(row)).collect::<Vec<_>>())
}
