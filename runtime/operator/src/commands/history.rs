//! `herm brain history`, `diff` and `undo`: how a brain moved, and how to take a step back.

use herm::brain::{ChangeRecord, OnChanged, OnDrift, RetainedRows, UndoPlan, UndoTarget};
use herm::{Brain, BrainId, Digest, Reader, Result};
use serde_json::{Value, json};

use super::{finish, to_json};
use crate::config::Settings;
use crate::operations::versions::{ShownFiles, compare, skill_line};
use crate::output::{Answer, columns, cut};

pub(super) fn history(settings: &Settings, id: &BrainId, limit: usize, with_files: bool) -> Result<Answer> {
    let steps = Reader::open(&settings.layout, id)?.history(limit)?;
    let mut rows = vec![["STEP", "VERSION", "WHEN", "KIND", "HASH", "WHAT"].map(str::to_owned).to_vec()];
    for step in &steps {
        let files = match step.changes.len() {
            0 => String::new(),
            1 => " (1 file)".to_owned(),
            several => format!(" ({several} files)"),
        };
        rows.push(vec![
            step.seq.to_string(),
            step.version.to_string(),
            step.at.to_string(),
            step.kind.name().to_owned(),
            step.after.short(),
            cut(&step.summary, 80) + &files,
        ]);
    }
    let mut text = columns(&rows);
    if with_files {
        // A row is a line: the first is the head, and each step follows with its files below it.
        let mut lines = text.lines();
        let mut all: String = lines.next().map(|head| format!("{head}\n")).unwrap_or_default();
        for (line, step) in lines.zip(&steps) {
            all.push_str(&format!("{line}\n"));
            all.extend(step.changes.iter().map(|change| format!("{}\n", file_line(change))));
        }
        text = all;
    }
    Ok(Answer::new(text, json!({ "id": id, "steps": to_json(&steps)? })))
}

fn file_line(change: &ChangeRecord) -> String {
    let short = |digest: Option<Digest>| digest.map_or_else(|| format!("{:<12}", "-"), |digest| digest.short());
    format!("      {} → {}  {}", short(change.before), short(change.after), change.path)
}

pub(super) fn diff(settings: &Settings, id: &BrainId, from: u64, to: Option<u64>, stat: bool) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let to = to.unwrap_or_else(|| reader.lock().version);
    let compared = compare(&reader, from, to, if stat { ShownFiles::Names } else { ShownFiles::Texts })?;
    Ok(Answer::new(compared.text, compared.json).note("messages, facts and the task log are not compared"))
}

pub(super) fn undo(settings: &Settings, id: &BrainId, step: i64, on_changed: OnChanged) -> Result<Answer> {
    let (undone, unfinished) = settings.while_leased(id, || {
        let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
        let undone = brain.undo(step, on_changed)?;
        Ok((undone, finish(brain)?))
    })?;
    let text = match &undone.settled {
        None => nothing(&undone.plan),
        Some(settled) => {
            let head = format!(
                "undid step {step}: {}; brain {id} is now version {}",
                cut(&undone.plan.summary, 80),
                settled.version
            );
            format!("{head}\n{}", plan_lines(&undone.plan))
        }
    };
    let mut json = plan_json(id, &undone.plan)?;
    json["dryRun"] = json!(false);
    json["settled"] = to_json(&undone.settled)?;
    Ok(Answer::new(text, json).unfinished(unfinished))
}

pub(super) fn plan_undo(settings: &Settings, id: &BrainId, step: i64, on_changed: OnChanged) -> Result<Answer> {
    let brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
    let plan = brain.plan_undo(step, on_changed)?;
    brain.close()?;
    let text = if plan.is_empty() {
        nothing(&plan)
    } else {
        format!(
            "undoing step {step} ({}) would do this; nothing has changed\n{}",
            cut(&plan.summary, 80),
            plan_lines(&plan)
        )
    };
    let mut json = plan_json(id, &plan)?;
    json["dryRun"] = json!(true);
    json["settled"] = Value::Null;
    Ok(Answer::new(text, json))
}

fn plan_json(id: &BrainId, plan: &UndoPlan) -> Result<Value> {
    let mut json = json!({ "id": id });
    if let (Value::Object(all), Value::Object(plan)) = (&mut json, to_json(plan)?) {
        all.extend(plan);
    }
    Ok(json)
}

fn nothing(plan: &UndoPlan) -> String {
    format!(
        "nothing to undo: no file and no skill state that step {} changed differs from before it\n{}",
        plan.step,
        kept_line(&plan.kept)
    )
}

fn plan_lines(plan: &UndoPlan) -> String {
    let mut text = String::new();
    for file in &plan.files {
        let what = if file.after.is_some() { "put back" } else { "removed" };
        text.push_str(&format!("  {what:<8}  {}\n", file.path));
    }
    for skill in &plan.skills {
        text.push_str(&format!("  {}", skill_line(skill)));
    }
    for changed in &plan.overwritten {
        let what = match &changed.target {
            UndoTarget::File(path) => path.to_string(),
            UndoTarget::Skill(slug) => format!("skill {slug}"),
        };
        let steps: Vec<String> = changed.steps.iter().map(i64::to_string).collect();
        text.push_str(&format!("  forced    {what}: changed since by step {}\n", steps.join(", ")));
    }
    text + &kept_line(&plan.kept)
}

/// What the step wrote and keeps.
fn kept_line(kept: &[RetainedRows]) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let named = |kept: &RetainedRows| match (kept.table, kept.rows) {
        ("messages", 1) => "1 message".to_owned(),
        ("facts", 1) => "1 fact".to_owned(),
        ("task_log", 1) => "1 line of the task log".to_owned(),
        ("task_log", rows) => format!("{rows} lines of the task log"),
        (table, rows) => format!("{rows} {table}"),
    };
    let all: Vec<String> = kept.iter().map(named).collect();
    format!("  not undone: {}; what was said and done stays\n", all.join(", "))
}
