//! One task, from the caller's question to the answer with its receipt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field};

use super::agents::HarnessAgents;
use super::snapshots::PushedStep;
use super::{Harness, Inner};
use crate::brain::{Brain, SettledStep, Step, StepKind, StepTranscript as KeptTranscript};
use crate::error::{Error, Result};
use crate::evolver::review_queue;
use crate::ids::{BrainId, TaskId, sha256};
use crate::memory::TaskOutcome;
use crate::session::{AnswerRelease, CancelToken, EventSender, FinishedTask, LiveTools, TaskRun, task_record};
use crate::skill::command;
use crate::task::{ChangedSkill, Outcome, SettleMode, Task, TaskEvent, TaskLimits, TaskStatus};
use crate::tool::{SessionEnv, SkillRules, TaskFrame, ToolContext, WorkingCopy, traced, with_working_copy};

/// What a task has cost so far, so that a caller can charge for it where no outcome comes of it too. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct TaskCost(Arc<AtomicU64>);

impl TaskCost {
    /// In millionths of a dollar.
    pub fn micro_usd(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a caller follows a task, and ends it early.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The channel that events are sent to; none where nobody listens.
    pub events: Option<EventSender>,
    /// Ends the task early.
    pub cancel: CancelToken,
    /// Told what the model's replies cost, before the step is settled.
    pub spent: TaskCost,
    /// Whether the final answer may be kept and handed out; it may, where nobody is asked.
    pub release: Option<Arc<dyn AnswerRelease>>,
    /// For how long a step that the machine cannot write now, a full disk for one, is tried again before the task is given
    /// up: what the model said was paid for.
    pub patience: Duration,
    /// When the task has to be done, where that was fixed before, waiting included; otherwise its limits
    /// say it, from now on.
    pub until: Option<Instant>,
}

impl Harness {
    /// Like [`run`](Self::run), with events and a way to end the task early.
    pub async fn run_with(&self, id: &BrainId, task: Task, watch: RunOptions) -> Result<Outcome> {
        task.validate()?;
        let span = task_span(id);
        let ended = self.run_in_span(id, task, watch, &span).instrument(span.clone()).await;
        self.inner.record_end(&span, &ended);
        ended
    }

    async fn run_in_span(&self, id: &BrainId, task: Task, watch: RunOptions, span: &Span) -> Result<Outcome> {
        let until = watch.until.unwrap_or_else(|| Instant::now() + task.limits.deadline());
        let inner = &self.inner;
        let known = match command::is_reload(&task.input)? {
            true => Some(inner.reload_by_command(id, &task).await?),
            false => None,
        };
        let opened = tokio::select! {
            biased;
            () = watch.cancel.wait_cancelled() => return Err(Error::unavailable("the task was cancelled before it began")),
            opened = tokio::time::timeout_at(until, inner.open(id)) => opened,
        };
        let (place, wanting) = opened.map_err(|_| {
            Error::unavailable(format!("brain {id} was busy until the deadline")).hint("try again later")
        })??;
        let _lease = inner.keep_lease(id);
        let brain = place.as_ref().ok_or_else(|| Error::internal("the brain is not open"))?;
        let manifest = brain.manifest()?;
        let tuning = Arc::new(brain.tuning()?);
        let preload = tuning.preload.or(manifest.as_ref().and_then(|manifest| manifest.preload));
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
        span.record("gen_ai.conversation.id", task_id.as_str());
        if inner.trace_content {
            span.record("gen_ai.input.messages", traced(&task.input));
        }
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
            settles: task.keep == SettleMode::Settle,
            shares: inner.sharing,
            has_budget: limits.total_tokens.is_some() || limits.micro_usd.is_some(),
            backend: task.backend.clone(),
            commanded: OnceLock::new(),
        });
        let around = SessionEnv {
            surroundings: Arc::clone(&inner.surroundings),
            task: Some(frame.task.clone()),
            until: Some(until),
            original: None,
            tuning: Arc::clone(&tuning),
            rules: SkillRules::Gated,
            moved: None,
        };
        let desk = Arc::new(Mutex::new(WorkingCopy::new(place, at).in_session(around)));
        let agents = Arc::new(HarnessAgents::new(inner, task.asking.clone()));
        let cx = ToolContext::new(Arc::clone(&frame), Arc::clone(&desk), Arc::clone(&inner.secrets), Some(agents))
            .with_meaning(inner.meaning())
            .tracing_content(inner.trace_content);
        if let Some(events) = &watch.events {
            let backend = chain.backends.first().map(|backend| backend.name().to_owned()).unwrap_or_default();
            // Nobody listens any more: the task goes on all the same.
            let _ = events.send(TaskEvent::Started { task: frame.task.clone(), brain: id.clone(), version, backend });
        }
        let live = LiveTools(toolbox.clone());
        let finished = TaskRun {
            frame: Arc::clone(&frame),
            desk: Arc::clone(&desk),
            cx,
            chain: &chain,
            toolbox: &toolbox,
            caller: &live,
            limits: &limits,
            tuning: Arc::clone(&tuning),
            learning: inner.learning.preloading(task.preload, preload),
            trial_share: inner.trial_policy.share,
            examples: Arc::clone(&inner.examples),
            verifiers: inner.programs.clone(),
            cancel: &watch.cancel,
            events: watch.events.as_ref(),
            release: watch.release.as_deref(),
            random: &*inner.random,
            known,
            replayed: None,
        }
        .run()
        .await?;
        let mut outcome = outcome_of(&frame, &finished);
        // Whatever becomes of the step, the replies are paid for.
        watch.spent.0.store(outcome.usage.micro_usd.unwrap_or(0), Ordering::Relaxed);
        if task.keep == SettleMode::Settle {
            let began = Instant::now();
            let settled = settle(&desk, &frame, finished, &limits, inner.again(id, watch.patience)).await?;
            if let Some(events) = &watch.events {
                let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let _ = events.send(TaskEvent::Settled { version: settled.version, after: settled.after, millis });
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
    /// What `/reload-skills` answers: how the skills changed. What a person did to them by hand is taken in.
    async fn reload_by_command(self: &Arc<Self>, id: &BrainId, task: &Task) -> Result<String> {
        if task.subscriber.is_some() || task.on_behalf_of.is_some() {
            return Err(Error::refused(format!("/{} is for the operator", command::RELOAD))
                .hint("ask without a subscriber, or use `herm skills reload`"));
        }
        if task.keep != SettleMode::Settle {
            return Err(Error::invalid(format!("/{} takes in what changed, and cannot be tried", command::RELOAD))
                .hint("see what differs with `herm brain verify`"));
        }
        let delta = self.take_in_skills(id).await?;
        serde_json::to_string(&delta).map_err(|source| Error::internal("the result is not JSON").because(source))
    }

    /// Takes back a step that lost against another operator's, and says so. It is not lost where others went on from the
    /// step itself: then it is in the store's history, and stays.
    async fn take_back_lost(
        self: &Arc<Self>,
        id: &BrainId,
        desk: Arc<Mutex<WorkingCopy>>,
        wanting: super::Waiter,
        settled: &SettledStep,
        error: Error,
    ) -> Result<()> {
        let (mut has_counted, mut is_taken_back) = (false, false);
        // A tool that outstayed its time holds the brain; the next task finds out and catches up.
        if let Ok(desk) = Arc::try_unwrap(desk) {
            let mut place = desk.into_inner().unwrap_or_else(PoisonError::into_inner).into_place();
            match self.take_back(id, &mut place, settled).await {
                Ok(counted) => (has_counted, is_taken_back) = (counted, true),
                Err(left) => tracing::warn!(brain = %id, error = %left, "the next task catches up with the store"),
            }
            drop(place);
        }
        drop(wanting);
        if has_counted {
            return Ok(());
        }
        Err(Error::conflict(format!("the step of this task lost: {}", error.message())).hint(match is_taken_back {
            true => "it is taken back here; run the task again, and it goes on from what is there now",
            false => "the next task takes it back here; run the task again when the store can be read",
        }))
    }

    /// How a step is tried again, for so long.
    fn again(self: &Arc<Self>, id: &BrainId, patience: Duration) -> Option<SettleRetry> {
        let (inner, id) = (Arc::clone(self), id.clone());
        let open = Arc::new(move || Brain::open(&inner.layout, &id, &inner.opening));
        (!patience.is_zero()).then_some(SettleRetry { patience, open })
    }

    /// What follows a task, off the caller's path.
    fn after_task(self: &Arc<Self>, desk: Arc<Mutex<WorkingCopy>>, wanting: super::Waiter) {
        let place = match Arc::try_unwrap(desk) {
            Ok(desk) => desk.into_inner().unwrap_or_else(PoisonError::into_inner).into_place(),
            // A tool that outstayed its time still holds the working copy; the place is free when it is done.
            Err(_) => return,
        };
        let inner = Arc::clone(self);
        // Not a part of the task, whose caller has the answer: a span of its own that refers to the task's.
        let span = tracing::info_span!(parent: None, "maintain", herm.brain = field::Empty);
        span.follows_from(Span::current());
        tokio::task::spawn_blocking(move || span.in_scope(|| inner.maintain_place(place, wanting)));
    }

    /// Says on the span of a task how it ended.
    fn record_end(&self, span: &Span, ended: &Result<Outcome>) {
        if span.is_disabled() {
            return;
        }
        let failed = match ended {
            Ok(outcome) => {
                let tokens = outcome.usage.tokens.or(outcome.usage.estimated).unwrap_or_default();
                span.record("gen_ai.provider.name", outcome.backend.as_str())
                    .record("gen_ai.response.model", outcome.model.as_deref())
                    .record("gen_ai.usage.input_tokens", tokens.input)
                    .record("gen_ai.usage.output_tokens", tokens.output)
                    .record("herm.status", outcome.status.name())
                    .record("herm.turns", outcome.turns)
                    .record("herm.version", outcome.settled.as_ref().map(|settled| settled.version));
                if let Some(answer) = outcome.answer.as_deref().filter(|_| self.trace_content) {
                    span.record("gen_ai.output.messages", traced(answer));
                }
                (outcome.status != TaskStatus::Converged).then(|| outcome.stop.name())
            }
            Err(error) => Some(error.kind().name()),
        };
        if let Some(failed) = failed {
            span.record("error.type", failed).record("otel.status_code", "ERROR");
        }
    }
}

/// The span of one task, from here to its answer, with the names of OpenTelemetry's conventions for generative models.
fn task_span(id: &BrainId) -> Span {
    tracing::info_span!(
        "task",
        otel.name = %format_args!("invoke_agent {id}"),
        otel.status_code = field::Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.id = %id,
        gen_ai.conversation.id = field::Empty,
        gen_ai.provider.name = field::Empty,
        gen_ai.response.model = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        gen_ai.input.messages = field::Empty,
        gen_ai.output.messages = field::Empty,
        herm.status = field::Empty,
        herm.turns = field::Empty,
        herm.version = field::Empty,
        error.type = field::Empty,
    )
}

fn keep_settled(outcome: &mut Outcome, settled: SettledStep) {
    outcome.receipt = settled.receipt.as_ref().and_then(|kept| serde_json::from_str(&kept.envelope).ok());
    outcome.settled = Some(settled);
}

fn outcome_of(frame: &TaskFrame, finished: &FinishedTask) -> Outcome {
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
            .map(|proposal| ChangedSkill { slug: proposal.proposed.change.skill.clone(), change: proposal.change })
            .collect(),
        billable: status == TaskStatus::Converged,
        outcome: finished.transcript.outcome.clone(),
        shown: finished.transcript.shown.clone(),
        settled: None,
        receipt: None,
        warnings: finished.warnings.clone(),
        unpushed: None,
    }
}

/// The first wait before a step is tried again, and the longest.
const SETTLE_WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How a step that the machine cannot write now is tried again.
#[derive(Clone)]
pub(super) struct SettleRetry {
    /// How long the step is tried again.
    patience: Duration,
    /// Opens the brain, where a commit failed and nobody knows what the disk holds.
    open: Arc<dyn Fn() -> Result<Brain> + Send + Sync>,
}

/// Commits the step of a task. Once begun it is finished, even where nobody waits. A step that failed for what the
/// machine lacks, and is not in the brain, is tried again where that is asked for.
pub(super) async fn settle(
    desk: &Arc<Mutex<WorkingCopy>>,
    frame: &Arc<TaskFrame>,
    finished: FinishedTask,
    limits: &TaskLimits,
    again: Option<SettleRetry>,
) -> Result<SettledStep> {
    let content = finished.transcript.to_bytes()?;
    let digest = sha256(&content);
    let step = Arc::new((finished, content, digest, OnceLock::new()));
    let until = Instant::now() + again.as_ref().map_or(Duration::ZERO, |again| again.patience);
    let (mut wait, longest) = SETTLE_WAITS;
    loop {
        let (working, limits, step, again) = (Arc::clone(frame), limits.clone(), Arc::clone(&step), again.clone());
        let settled = with_working_copy(desk, move |desk| {
            let (finished, content, digest, base) = &*step;
            match (base.get(), again) {
                (Some(base), Some(again)) if !desk.is_usable() => desk.open_again(base, || (again.open)())?,
                _ => {}
            }
            let changed = changed_skills(desk, finished)?;
            let report = report(&working, finished, &limits, digest, content.len(), changed);
            let summary = format!("{}: {}", finished.stop.reason.status().name(), task_record::summary(&finished.stop));
            let step = Step {
                kind: StepKind::Task,
                summary: &summary,
                report: Some(&report),
                transcript: Some(KeptTranscript { task: working.task.as_str(), digest, content }),
            };
            let at = desk.at();
            let (brain, draft) = desk.step()?;
            // Known from the first try on; the draft holds the proposals from then on.
            if base.set(brain.lock().bundle_hash).is_ok() {
                for proposal in &finished.proposals {
                    draft.propose(review_queue::proposed_row(&proposal.proposed, at, &proposal.why)?);
                }
            }
            brain.settle_step(draft, &step)
        })
        .await;
        match settled {
            Err(error) if error.is_passing() && Instant::now() + wait < until => {
                tracing::warn!(brain = %frame.brain, task = %frame.task, %error, "a step is not settled yet; trying again");
                tokio::time::sleep(wait).await;
                wait = (2 * wait).min(longest);
            }
            settled => return settled,
        }
    }
}

/// What was done to skills, with the digest of each as it is now.
fn changed_skills(desk: &mut WorkingCopy, finished: &FinishedTask) -> Result<Vec<Value>> {
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
    finished: &FinishedTask,
    limits: &TaskLimits,
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
    let mut report = json!({
        "id": frame.task,
        "subscriber": frame.subscriber,
        "input": { "sha256": sha256(frame.input.as_bytes()), "bytes": frame.input.len() },
        "result": stop.answer.as_deref().map(|answer| json!({ "sha256": sha256(answer.as_bytes()), "bytes": answer.len() })),
        "status": stop.reason.status(),
        "stop": stop.reason,
        "billable": stop.reason.status() == TaskStatus::Converged,
        "backend": finished.backend,
        "model": finished.model,
        "attestation": finished.attestation,
        "limits": limits,
        "usage": finished.usage,
        "turns": finished.turns,
        "calls": calls,
        "skills": { "loaded": loaded, "changed": changed },
        "transcript": { "sha256": transcript, "bytes": transcript_bytes },
    });
    // Receipts of tasks without either say nothing of them, as they always did.
    let learned = &finished.transcript;
    if !learned.outcome.sources.is_empty() {
        report["outcome"] = signed_outcome(&learned.outcome);
    }
    if !learned.shown.is_empty() {
        report["shown"] = json!(learned.shown);
    }
    report
}

/// An outcome as a receipt has it: notes by their digests, for what a verifier says may quote the task.
fn signed_outcome(outcome: &TaskOutcome) -> Value {
    let sources: Vec<Value> = outcome
        .sources
        .iter()
        .map(|said| {
            let note = said.note.as_ref().map(|note| json!({ "sha256": sha256(note.as_bytes()), "bytes": note.len() }));
            json!({ "source": said.source, "value": said.value, "note": note, "at": said.at })
        })
        .collect();
    json!({ "value": outcome.value, "sources": sources })
}
