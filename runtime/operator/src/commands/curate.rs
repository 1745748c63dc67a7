//! `herm curate`: a curator pass by hand.

use herm::brain::OnDrift;
use herm::curator::{self, CuratorPlan, CuratorReport, CuratorSkipReason};
use herm::memory::OutcomeCounts;
use herm::{Brain, BrainId, Result};
use serde_json::json;

use super::{finish, to_json};
use crate::config::Settings;
use crate::output::{Answer, columns};

pub(super) fn run(settings: &Settings, id: &str, dry_run: bool) -> Result<Answer> {
    let id: BrainId = id.parse()?;
    match dry_run {
        true => pass(settings, &id, dry_run),
        false => settings.while_leased(&id, || pass(settings, &id, dry_run)),
    }
}

fn pass(settings: &Settings, id: &BrainId, dry_run: bool) -> Result<Answer> {
    let policy = settings.curator()?.policy;
    let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
    let report = match dry_run {
        true => CuratorReport { plan: curator::preview(&mut brain, policy)?, settled: None },
        false => curator::run(&mut brain, policy)?,
    };
    let version = brain.lock().version;
    let unfinished = finish(brain)?;
    let plan = &report.plan;
    let mut text = match (plan.transitioned.len(), dry_run) {
        (0, _) => format!("nothing to retire; brain {id} stays at version {version}\n"),
        (_, true) => "would move:\n".to_owned(),
        (_, false) => format!("moved; brain {id} is now version {version}:\n"),
    };
    if !plan.transitioned.is_empty() {
        let mut rows = vec![["SKILL", "FROM", "TO", "LAST ACTIVE"].map(str::to_owned).to_vec()];
        for moved in &plan.transitioned {
            let last = moved.last_activity.map_or_else(|| "never".to_owned(), |at| at.to_string());
            rows.push(vec![moved.slug.to_string(), moved.from.name().into(), moved.to.name().into(), last]);
        }
        text.push_str(&columns(&rows));
    }
    text.push_str(&stayed(plan));
    text.push_str(&observed(plan));
    let mut json = to_json(&report)?;
    if let Some(fields) = json.as_object_mut() {
        fields.insert("id".to_owned(), json!(id));
        fields.insert("dryRun".to_owned(), json!(dry_run));
        fields.insert("policy".to_owned(), to_json(&policy)?);
    }
    let refused: Vec<String> = plan
        .skipped
        .iter()
        .filter_map(|skipped| match &skipped.reason {
            CuratorSkipReason::Refused(why) => Some(format!("not moved: {}: {why}", skipped.slug)),
            _ => None,
        })
        .collect();
    let answer = Answer::new(text, json).unfinished(unfinished);
    Ok(if refused.is_empty() { answer } else { answer.note(refused.join("\n")) })
}

/// How the tasks of learned skills went, and which skills no task ever had.
fn observed(plan: &CuratorPlan) -> String {
    let mut text = String::new();
    for skill in plan.outcomes.iter().filter(|skill| skill.clearly_bad) {
        let OutcomeCounts { good, bad, scored, unknown, .. } = skill.counts;
        let scored = if scored == 0 { String::new() } else { format!(", {scored} scored") };
        text.push_str(&format!("bad outcomes: {}: {good} good, {bad} bad{scored}, {unknown} unknown\n", skill.slug));
    }
    let idle: Vec<String> =
        plan.never_used.iter().map(|skill| format!("{} for {} days", skill.slug, skill.days)).collect();
    if !idle.is_empty() {
        text.push_str(&format!("never used: {}\n", idle.join(", ")));
    }
    text
}

/// How many stayed, and why, in a line.
fn stayed(plan: &CuratorPlan) -> String {
    let count =
        |wanted: fn(&CuratorSkipReason) -> bool| plan.skipped.iter().filter(|skipped| wanted(&skipped.reason)).count();
    let kinds: [(usize, &str); 5] = [
        (count(|reason| matches!(reason, CuratorSkipReason::NoChange)), "as they should be"),
        (count(|reason| matches!(reason, CuratorSkipReason::NotAgentCreated)), "not written by the agent"),
        (count(|reason| matches!(reason, CuratorSkipReason::Pinned)), "pinned"),
        (count(|reason| matches!(reason, CuratorSkipReason::Missing)), "without files"),
        (count(|reason| matches!(reason, CuratorSkipReason::Refused(_))), "not movable"),
    ];
    let said: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if said.is_empty() { String::new() } else { format!("stayed: {}\n", said.join(", ")) }
}
