//! A pass over the skills with enough evidence, and taking in evidence from elsewhere.

use herm::evolver::apply::{EvolverApproval, SkillApplyReason};
use herm::evolver::backfill::{self, BackfillReport, BackfillScope};
use herm::evolver::pass::{
    self, EvolverCandidateReason, EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions, EvolverPassReport,
};
use herm::evolver::policy::{EvolverObjection, EvolverPolicy};
use herm::evolver::round::{self, EvolverRoundOptions};
use herm::{BrainId, Error, Result};
use serde_json::json;

use super::rankers::Rankers;
use super::{check_days, looking, owning, verification, with_id};
use crate::cli::{self, AutoRun};
use crate::config::Settings;
use crate::exit;
use crate::operations::external_skills;
use crate::output::{Answer, columns, cut};

pub(super) fn policy(said: &cli::Policy) -> EvolverPolicy {
    EvolverPolicy {
        protect_core_skills: !said.no_protect_core_skills,
        allow: said.allow_auto_apply_skill.clone(),
        block: said.block_auto_apply_skill.clone(),
    }
}

pub(super) fn auto_run(settings: &Settings, arguments: &AutoRun) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let mode = match (arguments.apply_low_risk, arguments.hold) {
        (true, _) => EvolverPassMode::ApplyLowRisk,
        (false, true) => EvolverPassMode::Pending,
        (false, false) => EvolverPassMode::DryRun,
    };
    let options = EvolverPassOptions {
        days: arguments.days,
        max_skills: arguments.max_skills,
        min_evidence: arguments.min_evidence,
        variants: arguments.variants,
        policy: settings.evolver().policy(policy(&arguments.policy)),
        mode,
        approval: if arguments.approve_auto_apply { EvolverApproval::Given } else { EvolverApproval::Missing },
        verification: verification(&arguments.verifiers)?,
        require_restore_drill: arguments.require_restore_drill,
    };
    options.check()?;
    let reranks = arguments.policy.rerank_candidates;
    let ranks = arguments.policy.semantic_candidates || reranks;
    let rankers = if ranks { Rankers::of(settings)? } else { Rankers::by_words() };
    let ranking = rankers.ranking(ranks, reranks);
    let mut rollbacks = Vec::new();
    let (run, unfinished) = match mode {
        // Looking needs no lock.
        EvolverPassMode::DryRun => (looking(settings, &id, |ground| pass::plan(ground, &options, ranking))?, None),
        EvolverPassMode::Pending | EvolverPassMode::ApplyLowRisk => {
            let external = external_skills(settings)?;
            let routine = EvolverRoundOptions { options, ..settings.evolver().routine()? };
            let (evolved, unfinished) = owning(settings, &id, |brain| round::run(brain, &routine, ranking, &external))?;
            let run = evolved.run.ok_or_else(|| Error::internal("the evolver did not pass"))?;
            rollbacks = evolved.rollbacks_proposed;
            (run, unfinished)
        }
    };
    let mut text = run_text(&id, &run);
    if let Some(remark) = rankers.remark() {
        text.push_str(&format!("{remark}\n"));
    }
    for entry in &rollbacks {
        let short: String = entry.chars().take(8).collect();
        text.push_str(&format!(
            "a change made things worse: take it back with `herm evolve queue accept {id} {short}`\n"
        ));
    }
    let mut json = with_id(&id, &run)?;
    json["rollbacks_proposed"] = json!(rollbacks);
    json["ranking_remark"] = json!(rankers.remark());
    let answer = Answer::new(text, json);
    Ok(answer.unfinished(unfinished).code(run_code(&run)))
}

fn run_code(run: &EvolverPassReport) -> u8 {
    let was = |reason: EvolverCandidateReason| run.candidates.iter().any(|one| one.reason == reason);
    let not_verified = was(EvolverCandidateReason::Applied(SkillApplyReason::VerifyFailed));
    match (was(EvolverCandidateReason::ApprovalRequired), not_verified || run.error.is_some()) {
        (true, _) => exit::REFUSED,
        (_, true) => exit::NEGATIVE,
        _ => exit::DONE,
    }
}

fn run_text(id: &BrainId, run: &EvolverPassReport) -> String {
    if run.candidates.is_empty() {
        return "no skill has enough evidence\n".to_owned();
    }
    let mut rows = vec![["SKILL", "SOURCE", "STATUS", "EVENTS", "WHY"].map(str::to_owned).to_vec()];
    for one in &run.candidates {
        let status = match one.status {
            EvolverCandidateStatus::Planned => "planned",
            EvolverCandidateStatus::Applied => "applied",
            EvolverCandidateStatus::Pending => "held",
            EvolverCandidateStatus::Unchanged => "unchanged",
            EvolverCandidateStatus::Skipped => "skipped",
        };
        let (skill, source) = (one.skill_name.to_string(), one.source.name().to_owned());
        rows.push(vec![
            skill,
            source,
            status.to_owned(),
            one.selection.events.to_string(),
            cut(&one.reason.to_string(), 80),
        ]);
    }
    let mut text = columns(&rows);
    if run.selection.mode.starts_with("ranked") {
        text.push_str(&format!("order: {} by {}\n", run.selection.mode, run.selection.rankers.join(" and ")));
    }
    if let (Some(error), Some(fallback)) = (&run.selection.error, run.selection.fallback) {
        text.push_str(&format!("not ranked: {error}; the order is {fallback}\n"));
    }
    let waiting =
        run.candidates.iter().filter(|one| one.status == EvolverCandidateStatus::Skipped && one.held.is_some());
    let of_others = EvolverCandidateReason::Objection(EvolverObjection::NotAgentCreated);
    let waiting = waiting.filter(|one| one.reason == of_others).count();
    if waiting > 0 {
        text.push_str(&format!("{waiting} not the agent's own, held for a person: `herm evolve queue list {id}`\n"));
    }
    if let Some(error) = &run.error {
        text.push_str(&format!("the pass ended early: {error}\n"));
    }
    if let Some(left) = run.summary["not_reached"].as_u64().filter(|left| *left > 0) {
        text.push_str(&format!("{left} more with enough evidence: raise --max-skills, or run again later\n"));
    }
    let next = match run.mode {
        EvolverPassMode::DryRun => {
            "nothing was written: add --apply-low-risk --approve-auto-apply, or --hold\n".to_owned()
        }
        EvolverPassMode::Pending => format!("accept what is held with `herm evolve queue accept {id} ENTRY`\n"),
        EvolverPassMode::ApplyLowRisk => String::new(),
    };
    text.push_str(&next);
    text
}

pub(super) fn backfill(settings: &Settings, arguments: &cli::Backfill) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let scope = BackfillScope { days: check_days(arguments.days)?, limit: arguments.limit };
    if scope.limit == Some(0) {
        return Err(Error::invalid("--limit is 0, which takes in nothing").hint("leave it out for all"));
    }
    let dir = arguments.sessions_dir.clone().or_else(super::default_sessions).ok_or_else(|| {
        Error::invalid("it is not known where the sessions are").hint("name their directory with --sessions-dir")
    })?;
    let (done, unfinished) = owning(settings, &id, |brain| backfill::backfill(brain, &dir, scope))?;
    let code = if done.files_failed > 0 { exit::NEGATIVE } else { exit::DONE };
    Ok(Answer::new(backfilled_text(&done), with_id(&id, &done)?).unfinished(unfinished).code(code))
}

pub(super) fn backfilled_text(done: &BackfillReport) -> String {
    let mut text = format!(
        "{} records: {} taken in, {} too old, {} not readable\n\
         new: {} tool events, {} turns, {} sessions; {} tool events were known\n",
        done.sessions_seen,
        done.sessions_imported,
        done.sessions_skipped_old,
        done.files_failed,
        done.taken.tool_events,
        done.taken.turn_events,
        done.taken.session_events,
        done.taken.duplicates
    );
    for failure in &done.failures {
        text.push_str(&format!("  {}: {}\n", failure.file, failure.why));
    }
    if done.files_failed > done.failures.len() {
        text.push_str(&format!("  and {} more\n", done.files_failed - done.failures.len()));
    }
    text
}
