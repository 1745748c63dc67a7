//! What is for a person to decide: proposals, and the queue.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use herm::evolver::mining::{self, CandidateKind, ReviewCandidate, ReviewStatus};
use herm::evolver::proposal::{self, Facts, ProposalInput};
use herm::evolver::{EvidenceCounts, review_queue};
use herm::fsio;
use herm::memory::{EvidenceView, QueueRow, window_start};
use herm::{Brain, BrainId, Error, Reader, Result, Slug, Timestamp};
use serde_json::{Value, json};

use super::{check_days, looking, owning, verification, with_id};
use crate::backends;
use crate::cli::{Mine, Propose, Queue};
use crate::commands::to_json;
use crate::config::Settings;
use crate::exit;
use crate::operations::change_preview::accept_preview;
use crate::output::{Answer, columns, cut};

/// How many rows a proposal may rest on.
const PROPOSAL_ROWS: usize = 20;
/// How many rows of a skill a proposal's numbers are looked up in.
const FACT_ROWS: usize = 100_000;
/// The largest proposal and the largest file of observations.
const MAX_PROPOSAL: u64 = 4 << 20;
const MAX_OBSERVATIONS: u64 = 256 << 20;

pub(super) fn propose(settings: &Settings, arguments: &Propose) -> Result<Answer> {
    let (id, skill): (BrainId, Slug) = (arguments.of.id.parse()?, arguments.of.skill.parse()?);
    let days = check_days(arguments.of.days)?;
    let mut proposal = looking(settings, &id, |ground| {
        let since = window_start(ground.now, days);
        let rows = ground.evidence.of_skill(&skill, since, PROPOSAL_ROWS)?;
        let tally = ground.evidence.counts_of(&skill, since)?;
        let counts =
            EvidenceCounts { tool_events: tally.events, skill_events: tally.skill_events, error_events: tally.errors };
        let text = ground.text(&skill)?;
        if text.is_none() && rows.is_empty() {
            return Err(super::unknown_skill(&id, &skill));
        }
        let text = text.as_ref().map(|text| text.text.as_str());
        Ok(proposal::propose(&ProposalInput { skill: &skill, text, counts, rows: &rows, days }))
    })?;
    if arguments.draft_with_model {
        let harness =
            backends::harness(settings, arguments.backend.as_deref(), arguments.model.as_deref(), vec![], None)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
        let within = Duration::from_secs(arguments.model_timeout.clamp(1, 3_600));
        let wish = arguments.backend.as_deref();
        proposal.model_draft = Some(runtime.block_on(harness.draft(&id, &proposal, wish, within))?);
    }
    let json = to_json(&proposal)?;
    if let Some(path) = &arguments.output {
        fsio::create_private(path, format!("{json:#}\n").as_bytes())?;
    }
    let mut text = format!(
        "{skill}: {} events in {days} days, {} failed\n",
        proposal.evidence_summary.tool_events, proposal.evidence_summary.error_events
    );
    for action in &proposal.proposed_actions {
        text.push_str(&format!("  {}: {} ({})\n", action.kind.name(), action.description, action.evidence));
    }
    let mut code = exit::DONE;
    if let Some(draft) = &proposal.model_draft {
        text.push_str(&match (&draft.text, &draft.error) {
            (Some(said), _) => format!("\na draft, for a person to read:\n{said}\n"),
            (None, error) => format!("\nno draft: {}\n", error.as_deref().unwrap_or("the model did not answer")),
        });
        if draft.text.is_none() {
            code = exit::UNAVAILABLE;
        }
    }
    Ok(Answer::new(text, json).code(code).note("a proposal changes nothing; apply a text with `herm evolve apply`"))
}

pub(super) fn verify(
    settings: &Settings,
    id: &BrainId,
    path: &Path,
    skill: Option<&str>,
    days: Option<u32>,
) -> Result<Answer> {
    let bytes = fsio::read_regular(path, MAX_PROPOSAL)?;
    let document: Value = serde_json::from_slice(&bytes).map_err(|source| {
        Error::invalid(format!("{} is not JSON: {source}", path.display()))
            .hint("make one with `herm --json evolve propose`")
    })?;
    let said = document.get("days").and_then(Value::as_u64).and_then(|days| u32::try_from(days).ok());
    let days = check_days(days.or(said).unwrap_or(30))?;
    let named = document.get("skill_name").and_then(Value::as_str);
    let skill: Slug = match skill.or(named) {
        Some(name) => name.parse()?,
        None => {
            return Err(Error::invalid(format!("{} names no skill", path.display()))
                .hint("say which one it must be about with --skill"));
        }
    };
    let verdict = looking(settings, id, |ground| {
        let since = window_start(ground.now, days);
        let rows = ground.evidence.of_skill(&skill, since, FACT_ROWS)?;
        let ids: std::collections::HashSet<i64> = rows.iter().map(|(id, _)| *id).collect();
        let facts = Facts {
            skill: skill.clone(),
            events: ground.evidence.counts_of(&skill, since)?.events,
            known_ids: &|id| ids.contains(&id),
            current_digest: ground.text(&skill)?.map(|text| text.digest),
        };
        Ok(proposal::verify(&document, &facts))
    })?;
    let text = match verdict.passed {
        true => format!("the proposal for {skill} holds: {} checks\n", verdict.checks.len()),
        false => format!(
            "the proposal for {skill} does not hold\n{}",
            verdict.failures.iter().map(|why| format!("  {why}\n")).collect::<String>()
        ),
    };
    let code = if verdict.passed { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(text, with_id(id, &verdict)?).code(code))
}

pub(super) fn mine(settings: &Settings, arguments: &Mine) -> Result<Answer> {
    let id: BrainId = arguments.id.parse()?;
    let days = check_days(arguments.days)?;
    let read = match &arguments.input {
        None => None,
        Some(path) if path.as_os_str() == "-" => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .take(MAX_OBSERVATIONS + 1)
                .read_to_end(&mut bytes)
                .map_err(|source| Error::unavailable("standard input cannot be read").because(source))?;
            if bytes.len() as u64 > MAX_OBSERVATIONS {
                return Err(Error::invalid(format!("there are more than {MAX_OBSERVATIONS} bytes of observations"))
                    .hint("split them up"));
            }
            Some(mining::read_lines(&bytes))
        }
        Some(path) => Some(mining::read_lines(&fsio::read_regular(path, MAX_OBSERVATIONS)?)),
    };
    let bad = read.as_ref().map(|mined| mined.bad.clone()).unwrap_or_default();
    let mine = |evidence: &EvidenceView<'_>, now: Timestamp| match read {
        Some(mined) => Ok(mined.candidates),
        None => review_queue::mine_evidence(evidence, window_start(now, days)),
    };
    let worth = |candidates: &[ReviewCandidate]| -> Vec<ReviewCandidate> {
        candidates.iter().filter(|one| one.kind != CandidateKind::Ignore).cloned().collect()
    };
    let ((candidates, new), unfinished) = match arguments.dry_run {
        // Looking needs no lock.
        true => looking(settings, &id, |ground| {
            let candidates = mine(&ground.evidence, ground.now)?;
            let mut new = Vec::new();
            for one in worth(&candidates) {
                let is_known = ground.rows.queued(&one.id)?.is_some() || new.iter().any(|(id, _)| *id == one.id);
                new.push((one.id, !is_known));
            }
            Ok(((candidates, new), None))
        })?,
        false => owning(settings, &id, |brain| {
            let candidates = mine(&brain.evidence_view(), brain.clock().now())?;
            let worth = worth(&candidates);
            let new = review_queue::enqueue(brain, &worth)?;
            Ok((candidates, worth.into_iter().map(|one| one.id).zip(new).collect::<Vec<_>>()))
        })?,
    };
    let added: HashSet<&str> = new.iter().filter(|(_, new)| *new).map(|(id, _)| id.as_str()).collect();
    let is_new = |id: &str| added.contains(id);
    let mut rows = vec![["KIND", "SURE", "NEW", "TITLE"].map(str::to_owned).to_vec()];
    let mut json = Vec::new();
    for one in &candidates {
        let mut entry = to_json(one)?;
        entry["enqueued"] = json!(is_new(&one.id));
        json.push(entry);
        if one.kind != CandidateKind::Ignore {
            let new = if is_new(&one.id) { "yes" } else { "" };
            rows.push(vec![one.kind.name().into(), one.confidence.to_string(), new.into(), one.title.clone()]);
        }
    }
    let inserted = new.iter().filter(|(_, new)| *new).count();
    let ignored = candidates.iter().filter(|one| one.kind == CandidateKind::Ignore).count();
    let mut text = if rows.len() > 1 { columns(&rows) } else { String::new() };
    let queued = if arguments.dry_run { "would be queued" } else { "queued" };
    text.push_str(&format!("{inserted} {queued}, {} known, {ignored} ignored\n", new.len() - inserted));
    for (line, why) in &bad {
        text.push_str(&format!("line {line} is no observation: {why}\n"));
    }
    let bad: Vec<Value> = bad.iter().map(|(line, why)| json!({ "line": line, "why": why })).collect();
    let document = json!({
        "id": id, "count": candidates.len(), "inserted": inserted, "duplicates": new.len() - inserted,
        "dryRun": arguments.dry_run, "candidates": json, "bad": bad,
    });
    let code = if bad.is_empty() { exit::DONE } else { exit::NEGATIVE };
    Ok(Answer::new(text, document).unfinished(unfinished).code(code))
}

pub(super) fn queue(settings: &Settings, command: &Queue) -> Result<Answer> {
    match command {
        Queue::List { id, status, kind, all } => {
            let status = match (status, all) {
                (_, true) => None,
                (None, _) => Some(ReviewStatus::Pending),
                (Some(status), _) => Some(status.parse()?),
            };
            let kind = kind.as_deref().map(str::parse::<CandidateKind>).transpose()?;
            list(settings, &id.parse()?, status, kind)
        }
        Queue::Show { id, entry } => show(settings, &id.parse()?, entry),
        Queue::Accept { id, entry, verifiers } => {
            let id = id.parse()?;
            let asked = verification(verifiers)?;
            let verification = if asked.has_commands() { asked } else { settings.evolver().verification() };
            let (accepted, unfinished) = owning(settings, &id, |brain| {
                let entry = find(brain.evolver_rows().queue(None, None)?, &id, entry)?.id;
                Ok((review_queue::accept(brain, &entry, &verification)?, entry))
            })?;
            let (accepted, entry) = accepted;
            let text = match &accepted {
                review_queue::ReviewOutcome::Change(applied) => super::change::applied_text(&id, applied),
                review_queue::ReviewOutcome::Rollback(rolled_back) => super::change::rolled_back_text(&id, rolled_back),
                review_queue::ReviewOutcome::Noted => format!("accepted {entry}: the work itself is a person's\n"),
            };
            let code = match &accepted {
                review_queue::ReviewOutcome::Change(applied) => super::change::applied_code(applied),
                review_queue::ReviewOutcome::Rollback(rolled_back) => super::change::rolled_back_code(rolled_back),
                review_queue::ReviewOutcome::Noted => exit::DONE,
            };
            let json = json!({ "id": id, "entry": entry, "done": accepted.is_done(), "result": to_json(&accepted)? });
            Ok(Answer::new(text, json).unfinished(unfinished).code(code))
        }
        Queue::Reject { id, entry } => {
            let id = id.parse()?;
            let (entry, unfinished) = owning(settings, &id, |brain: &mut Brain| {
                let entry = find(brain.evolver_rows().queue(None, None)?, &id, entry)?.id;
                review_queue::reject(brain, &entry)?;
                Ok(entry)
            })?;
            let json = json!({ "id": id, "entry": entry, "status": ReviewStatus::Rejected });
            Ok(Answer::new(format!("rejected {entry}\n"), json).unfinished(unfinished))
        }
    }
}

fn list(
    settings: &Settings,
    id: &BrainId,
    status: Option<ReviewStatus>,
    kind: Option<CandidateKind>,
) -> Result<Answer> {
    looking(settings, id, |ground| {
        let rows = ground.rows.queue(status, kind)?;
        let mut table = vec![["ID", "KIND", "STATUS", "TITLE", "WHY"].map(str::to_owned).to_vec()];
        for row in &rows {
            let word = |name: &str| row.entry[name].as_str().unwrap_or_default();
            let short: String = row.id.chars().take(8).collect();
            let (title, why) = (cut(word("title"), 60), cut(word("rationale"), 60));
            table.push(vec![short, row.kind.to_string(), row.status.to_string(), title, why]);
        }
        let text = if rows.is_empty() { "nothing waits\n".to_owned() } else { columns(&table) };
        let shown: Vec<Value> = rows.iter().map(review_queue::to_json).collect();
        let json = json!({ "id": id, "status": status, "kind": kind, "count": shown.len(), "queue": shown });
        Ok(Answer::new(text, json))
    })
}

fn show(settings: &Settings, id: &BrainId, entry: &str) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let found = find(reader.evolver_rows().queue(None, None)?, id, entry)?;
    let row = reader.evolver_rows().queued(&found.id)?.unwrap_or(found);
    let word = |name: &str| row.entry[name].as_str().unwrap_or_default().to_owned();
    let mut text = format!("{}  {}  {}\n{}\n{}\n", row.id, row.kind, row.status, word("title"), word("rationale"));
    let mut json = review_queue::to_json(&row);
    if let Some(would) = accept_preview(&row, |skill| looking(settings, id, |ground| ground.text(skill)))? {
        text.push_str(&format!("\n{}", would.diff));
        if !would.stands {
            text.push_str("the skill was changed since: this change can no longer be made\n");
        }
        json["diff"] = json!(would.diff);
        json["stands"] = json!(would.stands);
    }
    Ok(Answer::new(text, json))
}

/// The entry whose id begins like this.
fn find(rows: Vec<QueueRow>, id: &BrainId, wanted: &str) -> Result<QueueRow> {
    let mut hits = rows.into_iter().filter(|row| !wanted.is_empty() && row.id.starts_with(wanted));
    match (hits.next(), hits.next()) {
        (Some(row), None) => Ok(row),
        (Some(_), Some(_)) => Err(Error::invalid(format!("several entries of the queue begin with {wanted:?}"))
            .hint("give more of the id, as `herm --json evolve queue list` shows it")),
        (None, _) => Err(Error::not_found(format!("there is nothing {wanted:?} in the queue of brain {id}"))
            .hint(format!("see what there is with `herm evolve queue list {id} --all`"))),
    }
}
