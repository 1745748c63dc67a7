//! `herm learn rehearse`: kept tasks again, with a learned skill and without it, or with a change of one and without it.

use herm::harness::{ChangeRehearsal, RehearsalOptions, RehearsalReport, RehearsedChange};
use herm::{BrainId, Harness, Reader, Result, Slug};
use serde_json::json;

use crate::backends;
use crate::cli::Rehearse;
use crate::commands::{in_runtime, to_json};
use crate::config::Settings;
use crate::mcp;
use crate::operations::learning::words;
use crate::output::{Answer, columns};
use crate::spinner::Spinner;

pub(super) fn run(settings: &Settings, arguments: &Rehearse, quiet: bool) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    if let Some(change) = &arguments.change {
        let done = in_runtime(rehearse_change(settings, arguments, &id, change, quiet))?;
        return Ok(Answer::new(words_of_change(&done), json!({ "id": id, "rehearsal": to_json(&done)? })));
    }
    let skills = match &arguments.slug {
        Some(slug) => vec![slug.parse()?],
        None => Reader::open(&settings.layout, &id)?.on_trial()?,
    };
    let options = options_of(arguments);
    let reports = in_runtime(rehearse(settings, arguments, &id, &skills, &options, quiet))?;
    let text = match reports.is_empty() {
        true => "nothing is on trial\n".to_owned(),
        false => reports.iter().map(words_of).collect::<Vec<_>>().join("\n"),
    };
    Ok(Answer::new(text, json!({ "id": id, "rehearsals": to_json(&reports)? })))
}

fn options_of(arguments: &Rehearse) -> RehearsalOptions {
    RehearsalOptions {
        most_tasks: arguments.budget,
        most_micro_usd: arguments.budget_usd,
        backend: arguments.backend.clone(),
        ..RehearsalOptions::default()
    }
}

async fn harness_of(settings: &Settings, arguments: &Rehearse) -> Result<Harness> {
    let (tools, _) = mcp::connect(settings).await?;
    let snapshotting = settings.snapshotting().await?;
    backends::harness(settings, arguments.backend.as_deref(), arguments.model.as_deref(), tools, snapshotting)
}

async fn rehearse_change(
    settings: &Settings,
    arguments: &Rehearse,
    id: &BrainId,
    change: &str,
    quiet: bool,
) -> Result<ChangeRehearsal> {
    let harness = harness_of(settings, arguments).await?;
    let mut spinner = if quiet { None } else { Spinner::start() };
    if let Some(spinner) = &mut spinner {
        spinner.say(&format!("rehearsing {change}"));
    }
    let done = harness.rehearse_change(id, change, &options_of(arguments)).await?;
    harness.shutdown().await?;
    Ok(done)
}

async fn rehearse(
    settings: &Settings,
    arguments: &Rehearse,
    id: &BrainId,
    skills: &[Slug],
    options: &RehearsalOptions,
    quiet: bool,
) -> Result<Vec<RehearsalReport>> {
    let harness = harness_of(settings, arguments).await?;
    let mut spinner = if quiet { None } else { Spinner::start() };
    let mut reports: Vec<RehearsalReport> = Vec::new();
    for skill in skills {
        let spent: u64 = reports.iter().map(|report| report.micro_usd).sum();
        let most_micro_usd = options.most_micro_usd.map(|most| most.saturating_sub(spent));
        let options = RehearsalOptions { most_micro_usd, ..options.clone() };
        if let Some(spinner) = &mut spinner {
            spinner.say(&format!("rehearsing {skill}"));
        }
        reports.push(harness.rehearse(id, skill, &options).await?);
    }
    harness.shutdown().await?;
    Ok(reports)
}

fn words_of_change(done: &ChangeRehearsal) -> String {
    let came = match &done.came {
        RehearsedChange::Made(made) if made.applied => "it is proven, and was made".to_owned(),
        RehearsedChange::Made(made) => {
            let why = made.detail.clone().unwrap_or_else(|| made.reason.name().to_owned());
            format!("it is proven, and could not be made: {why}")
        }
        RehearsedChange::Rejected => "it does harm, and was rejected".to_owned(),
        RehearsedChange::Waits => "that decides nothing: it waits for a person".to_owned(),
    };
    format!("change {} of {}{came}\n", done.change, found(&done.report))
}

fn words_of(report: &RehearsalReport) -> String {
    let mut text = found(report);
    match &report.ended {
        Some(ended) => text.push_str(&format!("its trial ended: {}; {}\n", ended.state.name(), ended.reason)),
        None => text.push_str("its trial goes on\n"),
    }
    text
}

/// What the runs found, whatever follows from it.
fn found(report: &RehearsalReport) -> String {
    let mut text = format!("{}: ", report.skill);
    if report.tasks.is_empty() {
        text.push_str("no kept task could be rehearsed\n");
    } else {
        text.push_str(&format!("{} tasks ran with it and without it\n", report.tasks.len()));
        let mut rows = vec![["TASK", "WITH IT", "WITHOUT"].map(str::to_owned).to_vec()];
        rows.extend(
            report
                .tasks
                .iter()
                .map(|task| vec![task.task.clone(), format!("{:.2}", task.with), format!("{:.2}", task.without)]),
        );
        text.push_str(&columns(&rows));
    }
    if report.unfit > 0 {
        text.push_str(&format!("it was not shown to {} tasks: it does not fit them\n", report.unfit));
    }
    if let Some(why) = report.unrated.first() {
        text.push_str(&format!("{} tasks have no outcome: {why}\n", report.unrated.len()));
    }
    if report.micro_usd > 0 {
        text.push_str(&format!("it cost {:.4} dollars\n", report.micro_usd as f64 / 1e6));
    }
    let summary = &report.summary;
    if summary.with.count > 0 {
        text.push_str(&format!(
            "all rehearsals so far: {} better, {} worse, gain {}, p = {:.4}\n",
            summary.better,
            summary.worse,
            words::gain(summary.gain.as_ref()),
            summary.p
        ));
    }
    text
}
