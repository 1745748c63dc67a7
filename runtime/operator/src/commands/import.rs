//! `herm skills import`: skills from elsewhere, in one step.

use herm::brain::{OnDrift, SettledStep};
use herm::skill::import::{Concern, OnNameConflict, SkillFilter, SkillImportReport, TrustedSkills};
use herm::{Brain, BrainId, Draft, Result, Slug, StepKind};
use serde_json::json;

use super::{finish, to_json};
use crate::cli;
use crate::config::Settings;
use crate::exit;
use crate::output::{Answer, columns};

/// More warnings of one skill are in the JSON alone.
const SHOWN_CONCERNS: usize = 3;

pub(super) fn run(settings: &Settings, arguments: &cli::ImportSkills) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    match arguments.dry_run {
        true => import(settings, &id, arguments),
        false => settings.while_leased(&id, || import(settings, &id, arguments)),
    }
}

fn import(settings: &Settings, id: &BrainId, arguments: &cli::ImportSkills) -> Result<Answer> {
    let mut brain = Brain::open(&settings.layout, id, &settings.open_options(OnDrift::Refuse))?;
    let library = brain.skill_library(&arguments.path)?;
    let namesakes = if arguments.replace { OnNameConflict::Replace } else { OnNameConflict::Keep };
    let mut draft = Draft::new();
    let trusted = TrustedSkills::new(arguments.trust.iter().map(|slug| slug.parse::<Slug>()).collect::<Result<_>>()?);
    let only = SkillFilter::new(&arguments.only);
    let report = brain.edit(&mut draft).import_trusted_skills(library, &only, namesakes, &trusted)?;
    // Where the skills came from is the operator's business: a brain travels, and its history with it.
    let settled = match (arguments.dry_run, draft.is_empty()) {
        (false, false) => Some(brain.settle(&draft, StepKind::Import, &report.step_summary())?),
        _ => None,
    };
    let unfinished = finish(brain)?;
    let code = if report.imported.is_empty() && report.unchanged.is_empty() { exit::NEGATIVE } else { exit::DONE };
    let text = text(id, &report, settled.as_ref(), arguments.dry_run);
    let mut json = to_json(&report)?;
    json["id"] = json!(id);
    json["dryRun"] = json!(arguments.dry_run);
    json["settled"] = to_json(&settled)?;
    Ok(Answer::new(text, json).unfinished(unfinished).code(code))
}

fn text(id: &BrainId, report: &SkillImportReport, settled: Option<&SettledStep>, dry_run: bool) -> String {
    let mut rows = Vec::new();
    let mut row = |what: &str, path: &str, why: String| rows.push(vec![what.to_owned(), path.to_owned(), why]);
    for imported in &report.imported {
        let what = if imported.replaced { "replaced" } else { "imported" };
        let trusted = if imported.trusted { ", trusted against the guard" } else { "" };
        row(what, imported.path.as_str(), format!("{}{trusted}", counted(imported.files.len(), "file")));
        for concern in imported.concerns.iter().take(SHOWN_CONCERNS) {
            row("warning", imported.path.as_str(), Concern::message(concern));
        }
    }
    for path in &report.descriptions {
        row("imported", path.as_str(), "description of a category".to_owned());
    }
    for same in &report.unchanged {
        row("unchanged", same.path.as_str(), String::new());
    }
    for skipped in &report.skipped {
        let more = match skipped.files.len() {
            0 => String::new(),
            more => format!(" (and {} with it)", counted(more, "file")),
        };
        row("skipped", &skipped.path, format!("{}: {}{more}", skipped.reason.name(), skipped.detail));
    }
    let mut text = columns(&rows);
    let (imported, unchanged) = (counted(report.imported.len(), "skill"), report.unchanged.len());
    text.push_str(&format!("{imported} imported, {unchanged} unchanged, {} skipped", report.skipped.len()));
    if report.not_selected > 0 {
        text.push_str(&format!(", {} not selected", report.not_selected));
    }
    text.push_str(&match settled {
        Some(settled) if settled.moved => format!("; brain {id} is now version {}\n", settled.version),
        _ if dry_run => format!("; nothing was written, brain {id} stays as it is\n"),
        _ => format!("; brain {id} stays as it is\n"),
    });
    text
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
