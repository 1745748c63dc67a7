//! One task, from the caller's question to the answer with its receipt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::agents::Neighbours;
use super::snapshots::PushedStep;
use super::{Harness, Inner};
use crate::brain::{Settled, Step, StepKind, Transcript as KeptTranscript};
use crate::error::{Error, Result};
use crate::evolver::lane;
use crate::ids::{BrainId, TaskId, sha256};
use crate::session::{Cancel, Events, Finished, Live, Run, account};
use crate::task::{Event, Keep, Limits, Outcome, SkillMove, Status, Task};
use crate::tool::{Around, Context, Desk, SkillRules, TaskFrame, at_desk};

/// What a task has cost so far, for whoever pays also where no outcome comes of it. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct Spent(Arc<AtomicU64>);

impl Spent {
    /// In millionths of a dollar.
    pub fn micro_usd(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a caller follows a task, and ends it early.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Where events go.
    pub events: Option<Events>,
    /// Ends the task early.
    pub cancel: Cancel,
    /// Told what the model's replies cost, before the step is settled.
    pub spent: Spent,
}

impl Harness {
    /// Like [`run`](Self::run), with events and a way to end the task early.
    pub async fn run_watched(&self, id: &BrainId, task: Task, watch: Watch) -> Result<Outcome> {
        task.validate()?;
        let until = Instant::now() + task.limits.deadline();
        let inner = &self.inner;
        let opened = tokio::select! {
            biased;
            () = watch.cancel.asked() => return Err(Error::unavailable("the task was cancelled before it began")),
            opened = tokio::time::timeout_at(until, inner.open(id)) => opened,
        };
        let (place, wanting) = opened.map_err(|_| {
            Error::unavailable(format!("brain {id} was busy until the deadline")).hint("try again later")
        })??;
        let _lease = inner.keep_lease(id);
        let brain = place.as_ref().ok_or_else(|| Error::internal("the brain is not open"))?;
        let manifest = brain.manifest()?;
        let tuning = Arc::new(brain.tuning()?);
        let limits = task.limits.tuned(&tuning);
        let programs = inner.programs_of(brain, &tuning)?;
        let version = brain.lock().version;
        let at = inner.opening.clock.now();
        let chain = inner.router.route(
            id,
            task.backend.as_deref(),
            tuning.backend.as_deref().or(manifest.as_ref().and_then(|manifest| manifest.backend.as_deref())),
        )?;
        let toolbox = inner
            .toolbox
            .swapped(&tuning, &programs)?
            .permitted(manifest.as_ref().and_then(|manifest| manifest.tools.as_deref()), inner.permissions);
        let task_id = match task.id {
            Some(id) => id,
            None => TaskId::new(at, &*inner.random)?,
        };
        let mut path = task.path;
        path.push(id.clone());
        let frame = Arc::new(TaskFrame {
            brain: id.clone(),
            task: task_id,
            subscriber: task.subscriber.map(|subscriber| subscriber.digest()).or(task.on_behalf_of),
            input: task.input.into(),
            at,
            path,
            until,
            settles: task.keep == Keep::Settle,
            shares: inner.sharing,
            has_budget: limits.total_tokens.is_some() || limits.micro_usd.is_some(),
            backend: task.backend.clone(),
            commanded: OnceLock::new(),
        });
        let around = Around {
            surroundings: Arc::clone(&inner.surroundings),
            task: Some(frame.task.clone()),
            until: Some(until),
            original: None,
            tuning: Arc::clone(&tuning),
            rules: SkillRules::Gated,
        };
        let desk = Arc::new(Mutex::new(Desk::new(place, at).in_session(around)));
        let agents = Arc::new(Neighbours(Arc::downgrade(inner)));
        let cx = Context::new(Arc::clone(&frame), Arc::clone(&desk), Arc::clone(&inner.secrets), Some(agents))
            .with_meaning(inner.meaning());
        if let Some(events) = &watch.events {
            let backend = chain.backends.first().map(|backend| backend.name().to_owned()).unwrap_or_default();
            // Nobody listens any more: the task goes on all the same.
            let _ = events.send(Event::Started { task: frame.task.clone(), brain: id.clone(), version, backend });
        }
        let live = Live(toolbox.clone());
        let finished = Run {
            frame: Arc::clone(&frame),
            desk: Arc::clone(&desk),
            cx,
            chain: &chain,
            toolbox: &toolbox,
            caller: &live,
            limits: &limits,
            tuning: Arc::clone(&tuning),
            learning: inner.learning,
            cancel: &watch.cancel,
            events: watch.events.as_ref(),
            random: &*inner.random,
            replayed: None,
        }
        .run()
        .await?;
        let mut outcome = outcome_of(&frame, &finished);
        // Whatever becomes of the step, the replies are paid for.
        watch.spent.0.store(outcome.usage.micro_usd.unwrap_or(0), Ordering::Relaxed);
        if task.keep == Keep::Settle {
            let began = Instant::now();
            let settled = settle(&desk, &frame, finished, &limits).await?;
            if let Some(events) = &watch.events {
                let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let _ = events.send(Event::Settled { version: settled.version, after: settled.after, millis });
            }
            if settled.moved {
                match inner.push_before_answer(id).await? {
                    PushedStep::Lost(error) => {
                        inner.take_back_lost(id, desk, wanting, &settled, error).await?;
                        keep_settled(&mut outcome, settled);
                        return Ok(outcome);
                    }
                    PushedStep::NotYet(why) => outcome.unpushed = Some(why),
                    PushedStep::Done | PushedStep::Later => {}
                }
            }
            keep_settled(&mut outcome, settled);
        }
        inner.after_task(desk, wanting);
        Ok(outcome)
    }
}

impl Inner {
    /// Takes back a step that lost against another operator's, and says so. It is no loss where others went on from the
    /// step itself: then it is in the store's history, and stays.
    async fn take_back_lost(
        self: &Arc<Self>,
        id: &BrainId,
        desk: Arc<Mutex<Desk>>,
        wanting: super::Wanting,
        settled: &Settled,
        error: Error,
    ) -> Result<()> {
        let mut has_counted = false;
        // A tool that outstayed its time holds the brain; the next task finds out and catches up.
        if let Ok(desk) = Arc::try_unwrap(desk) {
            let mut place = desk.into_inner().unwrap_or_else(PoisonError::into_inner).into_place();
            match self.take_back(id, &mut place, settled).await {
                Ok(counted) => has_counted = counted,
                Err(left) => tracing::warn!(brain = %id, error = %left, "the next task catches up with the store"),
            }
            drop(place);
        }
        drop(wanting);
        if has_counted {
            return Ok(());
        }
        Err(Error::conflict(format!("the step of this task lost: {}", error.message()))
            .hint("it is taken back here; run the task again, and it goes on from what is there now"))
    }

    /// What follows a task, off the caller's path.
    fn after_task(self: &Arc<Self>, desk: Arc<Mutex<Desk>>, wanting: super::Wanting) {
        let place = match Arc::try_unwrap(desk) {
            Ok(desk) => desk.into_inner().unwrap_or_else(PoisonError::into_inner).into_place(),
            // A tool that outstayed its time still holds the desk; the place is free when it is done.
            Err(_) => return,
        };
        let inner = Arc::clone(self);
        tokio::task::spawn_blocking(move || inner.maintain_place(place, wanting));
    }
}

fn keep_settled(outcome: &mut Outcome, settled: Settled) {
    outcome.receipt = settled.receipt.as_ref().and_then(|kept| serde_json::from_str(&kept.envelope).ok());
    outcome.settled = Some(settled);
}

fn outcome_of(frame: &TaskFrame, finished: &Finished) -> Outcome {
    let status = finished.stop.reason.status();
    Outcome {
        task: frame.task.clone(),
        brain: frame.brain.clone(),
        status,
        stop: finished.stop.reason,
        answer: finished.stop.answer.clone(),
        message: finished.stop.message.clone(),
        backend: finished.backend.clone(),
        model: finished.model.clone(),
        turns: finished.turns,
        calls: finished.calls.clone(),
        dropped: finished.dropped,
        usage: finished.usage,
        skills_loaded: finished.loaded.iter().map(|(slug, _)| slug.clone()).collect(),
        skills_changed: finished.changed.clone(),
        skills_proposed: finished
            .proposals
            .iter()
            .map(|proposal| SkillMove { slug: proposal.proposed.change.skill.clone(), change: proposal.change })
            .collect(),
        billable: status == Status::Converged,
        settled: None,
        receipt: None,
        warnings: finished.warnings.clone(),
        unpushed: None,
    }
}

/// Commits the step of a task. Once begun it is finished, whoever still waits.
pub(super) async fn settle(
    desk: &Arc<Mutex<Desk>>,
    frame: &Arc<TaskFrame>,
    finished: Finished,
    limits: &Limits,
) -> Result<Settled> {
    let content = finished.transcript.to_bytes()?;
    let digest = sha256(&content);
    let frame = Arc::clone(frame);
    let limits = limits.clone();
    at_desk(desk, move |desk| {
        let changed = changed_skills(desk, &finished)?;
        let report = report(&frame, &finished, &limits, &digest, content.len(), changed);
        let summary = format!("{}: {}", finished.stop.reason.status().name(), account::summary(&finished.stop));
        let step = Step {
            kind: StepKind::Task,
            summary: &summary,
            report: Some(&report),
            transcript: Some(KeptTranscript { task: frame.task.as_str(), digest: &digest, content: &content }),
        };
        let at = desk.at();
        let (brain, draft) = desk.step()?;
        for proposal in &finished.proposals {
            draft.propose(lane::proposed_row(&proposal.proposed, at, &proposal.why)?);
        }
        brain.settle_step(draft, &step)
    })
    .await
}

/// What was done to skills, with the digest of each as it is now.
fn changed_skills(desk: &mut Desk, finished: &Finished) -> Result<Vec<Value>> {
    let mut changed = Vec::new();
    for moved in &finished.changed {
        let digest = match desk.skill_place(&moved.slug)? {
            Some(place) => desk.read(&place.main)?.map(|content| sha256(&content)),
            None => None,
        };
        changed.push(json!({ "slug": moved.slug, "change": moved.change, "sha256": digest }));
    }
    Ok(changed)
}

/// A task's account of itself, as its receipt says it.
fn report(
    frame: &TaskFrame,
    finished: &Finished,
    limits: &Limits,
    transcript: &str,
    transcript_bytes: usize,
    changed: Vec<Value>,
) -> Value {
    let stop = &finished.stop;
    let loaded: Vec<Value> =
        finished.loaded.iter().map(|(slug, digest)| json!({ "slug": slug, "blake3": digest })).collect();
    let calls: Vec<Value> = finished
        .calls
        .iter()
        .map(|call| json!({ "turn": call.turn, "tool": call.tool, "status": call.status }))
        .collect();
    json!({
        "id": frame.task,
        "subscriber": frame.subscriber,
        "input": { "sha256": sha256(frame.input.as_bytes()), "bytes": frame.input.len() },
        "result": stop.answer.as_deref().map(|answer| json!({ "sha256": sha256(answer.as_bytes()), "bytes": answer.len() })),
        "status": stop.reason.status(),
        "stop": stop.reason,
        "billable": stop.reason.status() == Status::Converged,
        "backend": finished.backend,
        "model": finished.model,
        "attestation": finished.attestation,
        "limits": limits,
        "usage": finished.usage,
        "turns": finished.turns,
        "calls": calls,
        "skills": { "loaded": loaded, "changed": changed },
        "transcript": { "sha256": transcript, "bytes": transcript_bytes },
    })
}
