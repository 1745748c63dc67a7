//! Changing one skill, taking a change back, and the drill that shows it could be.

use std::path::Path;

use herm::brain::OnChanged;
use herm::evolver::EvolverView;
use herm::evolver::apply::{self, EvolverApproval, SkillApplyReason, SkillApplyResult, SkillUpdate};
use herm::evolver::prepare::HARD_CAP;
use herm::evolver::rollback::{self, DrillCheck, DrillReport, DrillStatus, RollbackReason, RollbackReport};
use herm::{BrainId, Digest, Error, Result, Slug, fsio};
use serde_json::json;

use super::{owning, verification, with_id};
use crate::cli;
use crate::config::Settings;
use crate::exit;
use crate::output::Answer;

pub(super) fn apply(settings: &Settings, arguments: &cli::Apply) -> Result<Answer> {
    let (id, skill): (BrainId, Slug) = (arguments.id.parse()?, arguments.target.parse()?);
    let expected: Digest = arguments.expected_digest.parse()?;
    // A character has four bytes at the most.
    let bytes = fsio::read_regular(&arguments.content, 4 * HARD_CAP as u64)?;
    let content = String::from_utf8(bytes).map_err(|source| {
        Error::invalid(format!("{} is not UTF-8 text", arguments.content.display()))
            .hint("save it as UTF-8")
            .because(source)
    })?;
    let approval = if arguments.approve { EvolverApproval::Given } else { EvolverApproval::Missing };
    let verification = verification(&arguments.verifiers)?;
    let (applied, unfinished) = owning(settings, &id, |brain| {
        let source = EvolverView::of_brain(brain)?.source(&skill);
        let why = json!({ "what": "reviewed text", "by": "operator", "source": source });
        let change = SkillUpdate { skill: skill.clone(), expected, content, support: Vec::new(), why };
        apply::apply(brain, &change, approval, &verification)
    })?;
    let answer = Answer::new(applied_text(&id, &applied), with_id(&id, &applied)?);
    Ok(answer.unfinished(unfinished).code(applied_code(&applied)))
}

pub(super) fn applied_text(id: &BrainId, applied: &SkillApplyResult) -> String {
    let skill = &applied.skill;
    let mut text = match (&applied.settled, applied.manifest) {
        (Some(settled), Some(step)) => format!(
            "{skill} is changed; brain {id} is now version {}; take it back with `herm evolve rollback {id} --manifest {step}`\n",
            settled.version
        ),
        _ if applied.reason == SkillApplyReason::Unchanged => {
            format!("{skill} says that already: nothing was written\n")
        }
        _ => format!(
            "{skill} is not changed: {}{}\n",
            applied.reason.name(),
            applied.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default()
        ),
    };
    if let Some(verify) = applied.verify.as_ref().filter(|verify| !verify.passed && !verify.output.is_empty()) {
        text.push_str(&verify.output);
        text.push('\n');
    }
    text
}

pub(super) fn applied_code(applied: &SkillApplyResult) -> u8 {
    match applied.reason {
        SkillApplyReason::Applied | SkillApplyReason::Unchanged => exit::DONE,
        SkillApplyReason::ApprovalRequired => exit::REFUSED,
        SkillApplyReason::TargetNotFound => exit::NOT_FOUND,
        SkillApplyReason::HashMismatch => exit::CONFLICT,
        SkillApplyReason::VerifyFailed | SkillApplyReason::RulesBroken => exit::NEGATIVE,
    }
}

pub(super) fn rollback(settings: &Settings, id: &BrainId, manifest: i64, force: bool) -> Result<Answer> {
    let on_changed = if force { OnChanged::Overwrite } else { OnChanged::Refuse };
    let (done, unfinished) = owning(settings, id, |brain| rollback::rollback(brain, manifest, on_changed))?;
    let answer = Answer::new(rolled_back_text(id, &done), with_id(id, &done)?);
    Ok(answer.unfinished(unfinished).code(rolled_back_code(&done)))
}

pub(super) fn rolled_back_text(id: &BrainId, done: &RollbackReport) -> String {
    match (&done.settled, done.reason) {
        (Some(settled), _) => {
            let files: String = done.files.iter().map(|file| format!("  put back: {file}\n")).collect();
            format!("step {} is taken back; brain {id} is now version {}\n{files}", done.manifest, settled.version)
        }
        (None, RollbackReason::AlreadyAsBefore) => format!("everything is as before step {} already\n", done.manifest),
        (None, reason) => format!(
            "step {} is not taken back: {}{}\n",
            done.manifest,
            reason.name(),
            done.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default()
        ),
    }
}

pub(super) fn rolled_back_code(done: &RollbackReport) -> u8 {
    match done.is_as_before() {
        true => exit::DONE,
        false => exit::CONFLICT,
    }
}

pub(super) fn drill(settings: &Settings, id: &BrainId, manifest: i64, into: Option<&Path>) -> Result<Answer> {
    let (drilled, unfinished) = owning(settings, id, |brain| match into {
        Some(into) => rollback::drill(brain, manifest, into),
        None => rollback::drill_in_staging(brain, manifest),
    })?;
    let code = if drilled.status == DrillStatus::Pass { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(drilled_text(&drilled), with_id(id, &drilled)?).unfinished(unfinished).code(code))
}

fn drilled_text(drilled: &DrillReport) -> String {
    let mut text = format!("the drill of step {}: {}\n", drilled.manifest, drilled.status.name());
    for (check, mark) in &drilled.checks {
        let mark = match mark {
            DrillCheck::Pass => "pass",
            DrillCheck::Warn => "warn",
            DrillCheck::Fail => "fail",
            DrillCheck::Skipped => "nothing to check",
        };
        text.push_str(&format!("  {check}: {mark}\n"));
    }
    for line in drilled.errors.iter().chain(&drilled.warnings) {
        text.push_str(&format!("  {line}\n"));
    }
    text
}
