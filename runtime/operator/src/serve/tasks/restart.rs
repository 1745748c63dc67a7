//! What a process before this one accepted and did not end. A task whose step was settled is over: its outcome is read
//! back from the brain. Any other has changed nothing, and is run.

use std::sync::Arc;

use herm::harness::TaskCost;
use herm::memory::QueueRow;
use herm::session::Transcript;
use herm::task::ChangedSkill;
use herm::tool::SkillChange;
use herm::{BrainId, Reader, Result, TaskId, TaskStatus};
use serde_json::{Value, json};

use super::super::app::App;
use super::super::live::LiveTask;
use super::super::view::value_of;
use super::deadline::Deadline;
use super::request::OnDisconnect;
use super::run::{Job, TaskPayload, start};
use super::running::{Backoff, TaskExecution};
use super::task_payment::TaskPayment;
use crate::server_db::payments;
use crate::server_db::tasks::{self as rows, End, State, TaskRow};

/// Takes up what was left; how many are run again. What cannot be taken up for what the machine lacks now is tried again
/// beside the server's work.
pub(crate) async fn resume(app: &App) -> Result<usize> {
    let left = app.db.read(rows::unfinished)?;
    let mut again = 0;
    for mut row in left {
        match take_up(app, &mut row).await {
            Ok(runs) => again += usize::from(runs),
            Err(error) if error.is_passing() => {
                tracing::warn!(task = %row.id, agent = %row.agent, %error, "a task was left and is not taken up yet");
                tokio::spawn(keep_taking_up(app.clone(), row));
            }
            Err(error) => {
                tracing::warn!(task = %row.id, agent = %row.agent, %error, "a task was left and cannot be taken up; the next start tries again");
            }
        }
    }
    Ok(again)
}

async fn keep_taking_up(app: App, mut row: TaskRow) {
    let mut backoff = Backoff::default();
    loop {
        backoff.wait().await;
        if app.is_closing() {
            return;
        }
        // It may have been cancelled since, or be over.
        row = match app.db.read(|connection| rows::get(connection, &row.id)) {
            // A payment that was taken a moment ago may not be in the database yet.
            Ok(Some(now)) if now.finished_at.is_none() => TaskRow { payment: now.payment.or(row.payment), ..now },
            Ok(_) => return,
            Err(_) => continue,
        };
        match take_up(&app, &mut row).await {
            Ok(_) => return,
            Err(error) if error.is_passing() => {}
            Err(error) => {
                tracing::warn!(task = %row.id, agent = %row.agent, %error, "a task was left and cannot be taken up; the next start tries again");
                return;
            }
        }
    }
}

/// Takes one task up: writes down how it ended, or runs it; whether it runs. A payment that is taken on the way is noted in
/// the row, so that the next try does not take it again.
async fn take_up(app: &App, row: &mut TaskRow) -> Result<bool> {
    let (looking, looked_at) = (app.clone(), row.clone());
    let settled = tokio::task::spawn_blocking(move || settled(&looking, &looked_at));
    let settled = settled.await.map_err(|_| herm::Error::internal("looking for a task was interrupted"))?;
    match settled? {
        Some(end) => finish(app, end, row).await.map(|()| false),
        None => run_again(app, row.clone()),
    }
}

/// Writes down how a task of an earlier process ended, and takes its payment if it is billable.
async fn finish(app: &App, mut end: End, row: &mut TaskRow) -> Result<()> {
    // Taken before the step was settled, as it always is now; a first edition took it after.
    if row.payment.is_none()
        && end.status.is_some_and(is_billable)
        && let Some(gate) = &app.paywall
        && let Some(payment) = app.db.read(|connection| payments::open(connection, &row.id))?
    {
        match gate.taken_up(payment).settle().await {
            Ok(response) => row.payment = Some(response),
            Err(problem) => {
                end.state = State::Failed;
                end.outcome = None;
                end.problem = serde_json::to_string(&problem).ok();
            }
        }
    }
    end.payment.clone_from(&row.payment);
    let (id, key) = (row.id.clone(), row.key.clone());
    let write = move |connection: &rusqlite::Connection| {
        payments::close(connection, &id)?;
        rows::finish(connection, &id, key.as_deref(), &end)
    };
    app.db.write(write).await
}

/// How a task ended, if it did; `None` where it is to be run.
fn settled(app: &App, row: &TaskRow) -> Result<Option<End>> {
    let at = app.clock.now();
    if let Some((status, outcome)) = in_brain(app, &row.agent, &row.id)? {
        // The last attempt that was written down is the one that was settled, or was known not to be.
        let last = outcome["usage"]["microUsd"].as_u64().unwrap_or(0);
        let micro_usd = row.tries.before + last;
        let (status, value, outcome) = (Some(status), value_of(&outcome), Some(outcome.to_string()));
        return Ok(Some(End { status, outcome, value, micro_usd, ..nothing(State::Done, at) }));
    }
    if row.cancelled || row.request.is_none() {
        let problem =
            json!({ "kind": "conflict", "status": 409, "detail": "the task was cancelled before it was over" });
        let problem = Some(problem.to_string());
        return Ok(Some(End { problem, micro_usd: row.tries.all(), ..nothing(State::Cancelled, at) }));
    }
    Ok(None)
}

/// How a task went and its outcome, if its step is in the brain.
pub(super) fn in_brain(app: &App, agent: &BrainId, id: &TaskId) -> Result<Option<(TaskStatus, Value)>> {
    let layout = &app.settings.layout;
    if !layout.brain(agent).is_dir() {
        return Ok(None);
    }
    let reader = Reader::open(layout, agent)?;
    let Some(status) = reader.task_status(id)? else { return Ok(None) };
    let outcome = read_back(&reader, id, status)?;
    Ok(Some((status, outcome)))
}

/// An end without anything to tell.
fn nothing(state: State, at: herm::Timestamp) -> End {
    let (status, outcome, value, problem, payment) = (None, None, None, None, None);
    End { state, status, outcome, value, problem, payment, may_be_tried_again: false, micro_usd: 0, at }
}

/// Whether a settled task is paid for: one that came to an answer.
fn is_billable(status: TaskStatus) -> bool {
    status == TaskStatus::Converged
}

/// The outcome of a settled task, from its transcript and its receipt.
fn read_back(reader: &Reader, id: &TaskId, status: TaskStatus) -> Result<Value> {
    let mut outcome = json!({ "status": status, "billable": is_billable(status) });
    outcome["outcome"] = json!(reader.outcome(id)?.unwrap_or_default());
    let Some(kept) = reader.stored_task(id)? else {
        outcome["message"] = json!("the task was settled; its transcript is no longer kept");
        return Ok(outcome);
    };
    let transcript = Transcript::parse(&kept.transcript)?;
    outcome["stop"] = json!(transcript.stop.reason);
    outcome["answer"] = json!(transcript.stop.answer);
    outcome["message"] = json!(transcript.stop.message);
    outcome["backend"] = json!(transcript.backend);
    outcome["turns"] = json!(transcript.turns.len());
    outcome["warnings"] = json!(["read back from the brain after a restart"]);
    let proposed = proposed_by(reader, id)?;
    if !proposed.is_empty() {
        outcome["skillsProposed"] = json!(proposed);
    }
    if let Some(seq) = reader.receipt_of(kept.step)?
        && let Some(taped) = reader.receipts(seq, seq)?.pop()
    {
        let statement = crate::operations::receipt_check::statement(&taped.envelope)?;
        let (predicate, task) = (&statement["predicate"], &statement["predicate"]["task"]);
        outcome["model"] = task["model"].clone();
        outcome["usage"] = task["usage"].clone();
        outcome["calls"] = task["calls"].clone();
        outcome["skillsLoaded"] = slugs(&task["skills"]["loaded"]);
        outcome["skillsChanged"] = task["skills"]["changed"].clone();
        outcome["version"] = predicate["version"].clone();
        outcome["bundleHash"] = json!(super::super::receipts::subject(&statement, "bundle/after"));
        outcome["receiptSeq"] = json!(seq);
        outcome["receipt"] = serde_json::from_str(&taped.envelope).unwrap_or_default();
    }
    Ok(outcome)
}

/// What a task proposed to do to skills, from the review queue.
fn proposed_by(reader: &Reader, id: &TaskId) -> Result<Vec<ChangedSkill>> {
    let rows = reader.evolver_rows().queue(None, Some(QueueRow::CHANGE))?;
    let of_task = rows.into_iter().filter(|row| row.entry["metadata"]["task"] == json!(id));
    let moves = of_task.filter_map(|row| {
        let change = match row.entry["metadata"]["act"].as_str() {
            Some("create") => SkillChange::Created,
            Some("archive") => SkillChange::Archived,
            _ => SkillChange::Changed,
        };
        Some(ChangedSkill { slug: row.skill?, change })
    });
    Ok(moves.collect())
}

fn slugs(loaded: &Value) -> Value {
    loaded.as_array().into_iter().flatten().map(|skill| skill["slug"].clone()).collect()
}

/// Runs a task that was accepted and changed nothing; whether it could be read.
fn run_again(app: &App, row: TaskRow) -> Result<bool> {
    let Some(what) = row.request.as_deref().and_then(|text| serde_json::from_str::<TaskPayload>(text).ok()) else {
        tracing::warn!(task = %row.id, "a task was left and cannot be read");
        return Ok(false);
    };
    let job = Job {
        id: row.id.clone(),
        agent: row.agent.clone(),
        owner: row.owner.clone(),
        key: row.key,
        what,
        idempotency: row.idempotency,
        digest: row.digest,
        durable: true,
        on_disconnect: OnDisconnect::Continue,
    };
    // Money that was taken is owed a result, however late it comes.
    let is_owed = row.payment.is_some();
    let held = app.db.read(|connection| payments::open(connection, &job.id))?;
    let held = held.zip(app.paywall.as_ref()).map(|(payment, gate)| gate.taken_up(payment));
    let till = match (row.payment, held) {
        (Some(response), _) => Some(TaskPayment::taken(app, &job.id, response)),
        (None, Some(paid)) => Some(TaskPayment::shown(app, &job.id, paid)),
        (None, None) => None,
    };
    let (now, most) = (app.clock.now(), job.what.limits.deadline());
    let deadline = match row.deadline.filter(|_| !is_owed) {
        Some(at) => Deadline::kept(at, now, most),
        None => Deadline::after(now, most),
    };
    let reserved = job.key.as_deref().zip(job.what.limits.micro_usd);
    let reserved = reserved.map(|(key, amount)| app.money.reserve_again(key, amount));
    let live = Arc::new(LiveTask::new(row.id, row.agent, row.owner, true, row.created_at));
    let ticket = app.queue.enter_again(Arc::clone(&live));
    let (app, till, parent) = (app.clone(), till.map(Arc::new), None);
    start(
        TaskExecution {
            app,
            job,
            live,
            deadline,
            till,
            reserved,
            parent,
            spent: TaskCost::default(),
            earlier: row.tries,
        },
        ticket,
    );
    Ok(true)
}
