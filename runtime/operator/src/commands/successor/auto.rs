//! `herm successor audit` and `herm successor auto`: a verdict checked by a second successor, and the loop that finds,
//! drafts, judges, checks and, behind the gates, applies.

use herm::successor::audit::{self, AuditOptions, AuditSeverity};
use herm::successor::auto::{self, PatchLoopMode, PatchLoopRun, StageDecision};
use herm::{BrainId, Result};
use serde_json::json;

use super::super::{in_runtime, to_json};
use super::patch_gates::OperatorGates;
use super::{budget, harness, read_evaluation};
use crate::cli::{Audit, Auto};
use crate::config::Settings;
use crate::exit;
use crate::output::Answer;

pub(super) fn audit(settings: &Settings, arguments: &Audit) -> Result<Answer> {
    let held_out = arguments.held_out.as_deref().map(read_evaluation).transpose()?;
    let auditing = AuditOptions { held_out, budget: budget(&arguments.budget)? };
    let audit = in_runtime(async { audit::audit(&harness(settings)?, &arguments.verdict, auditing).await })?;
    let about = audit.about.strip_prefix("sha256:").unwrap_or(&audit.about);
    let mut text = format!(
        "{} · verdict {}\n",
        if audit.agrees { "AGREES" } else { "DISAGREES" },
        about.chars().take(12).collect::<String>()
    );
    match (&audit.verdict, audit.ruling) {
        (Some(second), Some(ruling)) => text.push_str(&format!(
            "second   {} · {} · seed {}{}\n",
            second.strip_prefix("sha256:").unwrap_or(second).chars().take(12).collect::<String>(),
            ruling.name(),
            audit.seed,
            if audit.held_out { " · held-out tasks" } else { "" }
        )),
        _ => text.push_str("second   was not run\n"),
    }
    for finding in &audit.findings {
        let weight = match finding.weight {
            AuditSeverity::Fault => "fault",
            AuditSeverity::Caveat => "caveat",
        };
        text.push_str(&format!("{weight}: {}\n", finding.sentence));
    }
    let code = if audit.agrees { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(text, json!({ "hash": audit.hash()?, "audit": to_json(&audit)? })).code(code))
}

pub(super) fn run(settings: &Settings, arguments: &Auto) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let how = auto::PatchLoopOptions {
        mode: if arguments.dry_run { PatchLoopMode::DryRun } else { PatchLoopMode::Live },
        tasks: arguments.tasks,
        budget: budget(&arguments.budget)?,
        held_out: arguments.held_out.as_deref().map(read_evaluation).transpose()?,
        draft_with: arguments.draft_with.clone(),
        window: arguments.window.parse()?,
        watched: arguments.watch,
    };
    let run = in_runtime(async {
        let harness = harness(settings)?;
        let doors = OperatorGates::new(settings);
        let run = auto::run(&harness, &id, &how, &doors).await;
        harness.shutdown().await?;
        run
    })?;
    let code = if run.ended() == StageDecision::Against { exit::NEGATIVE } else { exit::DONE };
    Ok(Answer::new(text_of(&run), to_json(&run)?).code(code))
}

/// A run for people: a stage, what it decided, why.
fn text_of(run: &PatchLoopRun) -> String {
    let mut text = match run.mode {
        PatchLoopMode::DryRun => {
            format!("brain {}: a dry run; nothing is asked for, applied or taken back\n", run.brain)
        }
        PatchLoopMode::Live => format!("brain {}\n", run.brain),
    };
    for record in &run.stages {
        let mark = match record.decision {
            StageDecision::Go => "✓",
            StageDecision::Nothing => "·",
            StageDecision::Wait => "…",
            StageDecision::Against => "✗",
            StageDecision::NotReached => " ",
        };
        text.push_str(&format!("{mark} {:<9}{}\n", record.stage.name(), record.why));
        let sentences = record.output["sentences"].as_array().map(Vec::as_slice).unwrap_or_default();
        for sentence in sentences.iter().skip(1).filter_map(serde_json::Value::as_str) {
            text.push_str(&format!("           {sentence}\n"));
        }
        if let Some(report) = record.output["report"].as_str() {
            text.push_str(&format!("           report: {report}\n"));
        }
    }
    text
}
