//! `herm successor`: patches judged in a sandboxed clone, and what became of them.

mod auto;
mod gates;
mod inspect;
mod patch_gates;

use std::path::Path;

use herm::fsio;
use herm::successor::gate::ApprovalDecision;
use herm::successor::{Evaluation, MAX_PATCH_BYTES, Patch, SuccessorBudget, SuccessorFork, VerdictRuling};
use herm::{BrainId, Error, Harness, Result};
use serde_json::json;

use super::{in_runtime, to_json};
use crate::backends;
use crate::cli::{BudgetFlags, Evaluate, Successor};
use crate::config::Settings;
use crate::exit;
use crate::output::Answer;

/// The largest evaluation file.
const MAX_EVALUATION_BYTES: u64 = 4 << 20;

pub(super) fn run(settings: &Settings, command: &Successor) -> Result<Answer> {
    match command {
        Successor::Evaluate(arguments) => evaluate(settings, arguments),
        Successor::List => inspect::list(settings),
        Successor::Audit(arguments) => auto::audit(settings, arguments),
        Successor::Auto(arguments) => auto::run(settings, arguments),
        Successor::Drafts { id } => inspect::drafts(settings, id.as_deref()),
        Successor::Show { verdict } => inspect::show(settings, verdict),
        Successor::Key { file } => gates::show_key(file),
        Successor::Approve(arguments) => gates::decide(settings, arguments, ApprovalDecision::Approve),
        Successor::Reject(arguments) => gates::decide(settings, arguments, ApprovalDecision::Reject),
        Successor::Propose { verdict, within } => gates::propose(settings, verdict, *within),
        Successor::Apply { verdict } => gates::apply(settings, verdict),
        Successor::Rollback { id, step } => gates::rollback(settings, id, *step),
        Successor::Lineage { id } => gates::show_lineage(settings, id),
        Successor::Destroy { verdict } => inspect::destroy(settings, verdict),
        Successor::Janitor => inspect::janitor(settings),
    }
}

/// A harness that judges: no maintenance, no snapshots.
fn harness(settings: &Settings) -> Result<Harness> {
    backends::harness(settings, None, None, Vec::new(), None)
}

fn evaluate(settings: &Settings, arguments: &Evaluate) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let patch = read_patch(&arguments.patch)?;
    let evaluation = read_evaluation(&arguments.task)?;
    let budget = budget(&arguments.budget)?;
    let (verdict, saved) = in_runtime(async {
        let mut fork = SuccessorFork::new(&harness(settings)?, &id, patch.clone()).await?;
        let verdict = fork.evaluate(&evaluation, budget).await;
        let saved = fork.saved().map(Path::to_owned);
        fork.destroy().await?;
        Ok((verdict?, saved))
    })?;
    let mut text = inspect::summary(&patch, &verdict)?;
    let mut json = json!({ "hash": verdict.hash()?, "verdict": to_json(&verdict)? });
    if let Some(saved) = saved {
        text.push_str(&format!("report: {}\n", saved.join("report.html").display()));
        json["directory"] = json!(saved);
    }
    let code = if verdict.verdict == VerdictRuling::Approve { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(text, json).code(code))
}

/// Reads a patch file.
pub(super) fn read_patch(path: &Path) -> Result<Patch> {
    Patch::parse(&fsio::read_regular(path, MAX_PATCH_BYTES as u64)?)
}

/// Reads an evaluation file.
pub(super) fn read_evaluation(path: &Path) -> Result<Evaluation> {
    Evaluation::parse(&fsio::read_regular(path, MAX_EVALUATION_BYTES)?)
}

fn budget(flags: &BudgetFlags) -> Result<SuccessorBudget> {
    let usual = SuccessorBudget::default();
    let micro_usd = match flags.money {
        None => usual.micro_usd,
        Some(dollars) if (0.0..=1e6).contains(&dollars) => (dollars * 1e6).round() as u64,
        Some(dollars) => {
            return Err(Error::invalid(format!("{dollars} is not an amount of dollars")).hint("5.00 is the default"));
        }
    };
    let megabytes = |said: Option<u64>, usual: u64| said.map_or(usual, |megabytes| megabytes.saturating_mul(1_000_000));
    let budget = SuccessorBudget {
        wall_secs: flags.wall.unwrap_or(usual.wall_secs),
        micro_usd,
        disk_bytes: megabytes(flags.disk, usual.disk_bytes),
        cpu_percent: flags.cpu.unwrap_or(usual.cpu_percent),
        memory_bytes: megabytes(flags.memory, usual.memory_bytes),
        processes: flags.processes.unwrap_or(usual.processes),
        files: flags.files.unwrap_or(usual.files),
    };
    budget.validate()?;
    Ok(budget)
}
