//! A task from an open brain to a step ready to be settled. The same line is walked live and in a
//! replay; only who speaks and who runs the calls differs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::account;
use super::context;
use super::drive::{AnswerRelease, CancelToken, EventSender, Session, SessionLog, ToolExecutor, stop_of};
use super::machine::{Machine, SessionRules, Stop};
use super::prompt::{self, Prompt, PromptSkills};
use super::reply::Edition;
use super::synthesis::{self, SynthesisSource};
use super::transcript::{TRANSCRIPT_SCHEMA, Transcript};
use super::worked;
use crate::backend::Chain;
use crate::brain::MemoryLayer;
use crate::error::{Error, Result};
use crate::ids::{Digest, Random, Slug};
use crate::layout;
use crate::memory::layers;
use crate::task::{CallRecord, ChangedSkill, StopReason, TaskEvent, TaskLimits, TaskStatus, TaskUsage};
use crate::tool::{
    SkillRules, SkillWriteOutcome, TaskFrame, TaskProposal, ToolContext, ToolSpec, Toolbox, WorkingCopy,
    with_working_copy, with_working_copy_inline,
};
use crate::tuning::Tuning;

/// How long a tool that outstayed its time may still hold the desk.
const PATIENCE_WITH_TOOLS: Duration = Duration::from_secs(30);

/// The backend of a task that asks none.
const NOBODY: &str = "none";

/// Everything a task runs with.
pub struct TaskRun<'r> {
    /// The task.
    pub frame: Arc<TaskFrame>,
    /// The brain, and the step in the making.
    pub desk: Arc<Mutex<WorkingCopy>>,
    /// What tools see.
    pub cx: ToolContext,
    /// Who speaks.
    pub chain: &'r Chain,
    /// The tools the task may use.
    pub toolbox: &'r Toolbox,
    /// Who runs calls.
    pub caller: &'r dyn ToolExecutor,
    /// What it may use up.
    pub limits: &'r TaskLimits,
    /// Which components and constants the brain runs with.
    pub tuning: Arc<Tuning>,
    /// Whether a hard task is learned from.
    pub learning: bool,
    /// Ends it early.
    pub cancel: &'r CancelToken,
    /// Who watches.
    pub events: Option<&'r EventSender>,
    /// Whether the final answer may be kept; it may, where nobody is asked.
    pub release: Option<&'r dyn AnswerRelease>,
    /// Spreads retries out.
    pub random: &'r dyn Random,
    /// An answer that is known already: no model is asked.
    pub known: Option<String>,
    /// The task that this one replays: an end from outside (a deadline, a cancel) cannot happen again by itself, and
    /// what a model found near is not asked for again.
    pub replayed: Option<&'r Transcript>,
}

/// A task whose step is ready to be settled.
#[derive(Debug)]
pub struct FinishedTask {
    /// How it ended.
    pub stop: Stop,
    /// Turns used.
    pub turns: u32,
    /// Tool calls.
    pub calls: Vec<CallRecord>,
    /// What it used up.
    pub usage: TaskUsage,
    /// Objects in replies that were passed over.
    pub dropped: u32,
    /// The model that spoke last.
    pub model: Option<String>,
    /// The backend that spoke last.
    pub backend: String,
    /// What the endpoint gave as proof of where it ran.
    pub attestation: Option<String>,
    /// Everything that was said and done.
    pub transcript: Transcript,
    /// The skills that were loaded, with their digests.
    pub loaded: Vec<(Slug, Digest)>,
    /// What was done to skills.
    pub changed: Vec<ChangedSkill>,
    /// What was to be done to skills, and waits for a person.
    pub proposals: Vec<TaskProposal>,
    /// What did not work and was worked around.
    pub warnings: Vec<String>,
}

/// What the prompt is made of, read from the brain.
struct Prepared {
    role: String,
    memory: String,
    users: String,
    subscriber: String,
    shown: PromptSkills,
    /// What the choice went by, where meaning had a part in it.
    best: Option<Vec<Slug>>,
    warning: Option<String>,
    archived: Vec<Slug>,
    /// What the model is asked: the input, or what a command of it stands for.
    question: Arc<str>,
}

impl TaskRun<'_> {
    /// Runs the task and writes its step. Nothing is settled yet.
    pub async fn run(&self) -> Result<FinishedTask> {
        let prepared = self.prepare().await?;
        let cards: Vec<&ToolSpec> = self.toolbox.iter().map(|tool| tool.spec()).collect();
        let capabilities = self.chain.backends.first().map(|backend| backend.capabilities()).unwrap_or_default();
        let answer = prompt::final_schema(&prepared.role);
        let system: Arc<str> = prompt::system(&Prompt {
            role: &prepared.role,
            memory: &prepared.memory,
            users: &prepared.users,
            subscriber: &prepared.subscriber,
            tools: &cards,
            skills: &prepared.shown,
            turns: self.limits.turns,
            answer: answer.as_ref(),
            examples: capabilities.needs_examples,
        })
        .into();
        let tuning = &self.tuning;
        // What was said then is read as it was read then.
        let reading = self.replayed.map_or_else(Edition::default, |replayed| replayed.reading);
        let rules = SessionRules {
            turns: self.limits.turns,
            tools: cards.iter().map(|card| card.name.clone()).collect(),
            context_bytes: self.limits.context_bytes.min(capabilities.context_bytes.unwrap_or(usize::MAX)),
            compressor: tuning.compressor.unwrap_or_default(),
            shrunk_bytes: tuning.shrunk_bytes.unwrap_or(context::SHRUNK_BYTES),
            replies: tuning.replies.unwrap_or_default(),
            answer_keys: prompt::required_keys(answer.as_ref()),
            reading,
        };
        let mut machine = Machine::new(rules.clone(), Arc::clone(&system), Arc::clone(&prepared.question));
        let session = Session {
            chain: self.chain,
            caller: self.caller,
            cx: &self.cx,
            tools: &cards,
            answer: answer.as_ref(),
            examples: capabilities.needs_examples,
            limits: self.limits,
            until: self.frame.until,
            cancel: self.cancel,
            events: self.events,
            random: self.random,
            legal: Default::default(),
        };
        let (mut driven, stop) = match &self.known {
            Some(answer) => {
                let driven = SessionLog { backend: NOBODY.to_owned(), ..SessionLog::default() };
                (driven, Stop { reason: StopReason::Final, answer: Some(answer.clone()), message: None })
            }
            None => {
                let driven = session.drive(&mut machine).await;
                (driven, self.ended(stop_of(&machine)))
            }
        };
        let mut transcript = Transcript {
            schema: TRANSCRIPT_SCHEMA.to_owned(),
            task: self.frame.task.clone(),
            brain: self.frame.brain.clone(),
            at: self.frame.at,
            subscriber: self.frame.subscriber,
            input: self.frame.input.to_string(),
            limits: self.limits.clone(),
            tools: rules.tools,
            backend: driven.backend.clone(),
            learning: self.learning,
            sharing: self.frame.shares,
            examples: capabilities.needs_examples,
            gated: self.rules() == SkillRules::Gated,
            reading,
            prompt: crate::ids::sha256(system.as_bytes()),
            skills: prepared.best,
            turns: std::mem::take(&mut driven.turns),
            synthesis: None,
            stop: stop.clone(),
        };
        let mut warnings: Vec<String> = prepared.warning.into_iter().collect();
        let converged = stop.reason.status() == TaskStatus::Converged;
        if self.learning && converged && synthesis::is_hard(machine.calls(), self.rules()) {
            match self.learn(&session, &machine, &mut transcript, &mut driven, prepared.archived).await {
                Ok(waits) => warnings.extend(waits),
                Err(error) => {
                    tracing::info!(brain = %self.frame.brain, %error, "nothing was written down");
                    warnings.push(format!("no skill was written: {}", error.message()));
                }
            }
        }
        if stop.reason == StopReason::Final
            && let Some(release) = self.release
            && let Err(why) = release.release().await
        {
            transcript.stop = Stop { reason: StopReason::Cancelled, answer: None, message: Some(why) };
        }
        self.close(machine, driven, transcript, warnings).await
    }

    /// Which rules hold for skills: those of the task that is replayed, where it is one.
    fn rules(&self) -> SkillRules {
        match self.replayed {
            Some(transcript) => transcript.rules(),
            None => SkillRules::Gated,
        }
    }

    fn ended(&self, stop: Stop) -> Stop {
        let from_outside = |reason| !matches!(reason, StopReason::Final | StopReason::Ceiling | StopReason::Stuck);
        match self.replayed {
            // An answer that was not let go ended from outside too, after its last reply.
            Some(before)
                if matches!(stop.reason, StopReason::Backend | StopReason::Final)
                    && from_outside(before.stop.reason) =>
            {
                before.stop.clone()
            }
            _ => stop,
        }
    }

    async fn prepare(&self) -> Result<Prepared> {
        let mut prepared = self.prepare_by_words().await?;
        if prepared.shown.more > 0 {
            self.choose_by_meaning(&mut prepared).await;
        }
        Ok(prepared)
    }

    /// Chooses the skills again by words and meaning, where that is on; in a replay, as it was recorded. What goes
    /// wrong leaves the choice by words, and is said.
    async fn choose_by_meaning(&self, prepared: &mut Prepared) {
        let meaning = self.cx.meaning().filter(|meaning| meaning.uses().skills).cloned();
        let room = self.index_room();
        let input = Arc::clone(&self.frame.input);
        let chosen = match (self.replayed, meaning) {
            (Some(replayed), _) => match replayed.skills.clone() {
                Some(best) => with_working_copy(&self.desk, move |desk| choose(desk, room, |_, _| Ok(best))).await,
                None => return,
            },
            (None, Some(meaning)) => match meaning.embed_query(&self.frame.input).await {
                Ok(sought) => {
                    let best =
                        move |desk: &mut WorkingCopy, most| desk.best_skills_near(&input, most, &sought, &meaning);
                    with_working_copy(&self.desk, move |desk| choose(desk, room, best)).await
                }
                Err(error) => Err(error),
            },
            (None, None) => return,
        };
        match chosen {
            Ok((shown, best)) => (prepared.shown, prepared.best) = (shown, Some(best)),
            Err(error) => {
                tracing::warn!(brain = %self.frame.brain, %error, "skills are chosen by their words alone");
                prepared.warning = Some(format!("skills were chosen by their words alone: {}", error.message()));
            }
        }
    }

    /// How much of the prompt the skill index may take. Where a model has to be shown, every token is time.
    fn index_room(&self) -> Room {
        let shown = self.chain.backends.first().is_some_and(|backend| backend.capabilities().needs_examples);
        let (bytes, best) = match shown {
            true => (worked::INDEX_BYTES, worked::INDEX_BEST),
            false => (prompt::INDEX_BYTES, prompt::INDEX_BEST),
        };
        Room { bytes: self.tuning.index_bytes.unwrap_or(bytes), best: self.tuning.index_best.unwrap_or(best) }
    }

    async fn prepare_by_words(&self) -> Result<Prepared> {
        let frame = Arc::clone(&self.frame);
        let input = Arc::clone(&self.frame.input);
        let subscriber = self.frame.subscriber;
        let room = self.index_room();
        let asks = self.known.is_none();
        with_working_copy_inline(&self.desk, move |desk| {
            let role = desk.read(&layout::rel(layout::SYSTEM)?)?.ok_or_else(|| {
                Error::corrupt("the brain has no system.md").hint("put it back, or restore the brain from a snapshot")
            })?;
            let role = String::from_utf8(role)
                .map_err(|source| Error::corrupt("system.md is not UTF-8 text").because(source))?;
            let mut frozen = |layer: MemoryLayer| desk.layer(layer).map(|text| layers::frozen(&text, layer.cap()));
            let memory = frozen(MemoryLayer::Memory)?;
            let users = frozen(MemoryLayer::User)?;
            let subscriber =
                subscriber.map(|digest| frozen(MemoryLayer::Subscriber(digest))).transpose()?.unwrap_or_default();
            desk.reload()?;
            let (shown, _) = choose(desk, room, |desk, most| desk.best_skills(&input, most))?;
            let archived = desk.archived()?;
            let question = match asks.then(|| desk.invoke(&input)).transpose()?.flatten() {
                Some(message) => {
                    // Known once, and for good.
                    let _ = frame.commanded.set(());
                    message.into()
                }
                None => input,
            };
            Ok(Prepared { role, memory, users, subscriber, shown, best: None, warning: None, archived, question })
        })
        .await
    }

    /// Asks what the task taught, and writes it down. Says so where it waits for a person instead.
    async fn learn(
        &self,
        session: &Session<'_>,
        machine: &Machine,
        transcript: &mut Transcript,
        driven: &mut SessionLog,
        archived: Vec<Slug>,
    ) -> Result<Option<String>> {
        let skills = with_working_copy_inline(&self.desk, WorkingCopy::skills).await?;
        let answer = transcript.stop.answer.as_deref().unwrap_or_default();
        let ask = synthesis::question(
            &self.frame.input,
            &transcript.turns,
            answer,
            &skills,
            &archived,
            self.limits,
            session.examples,
        );
        let completion = session
            .ask_counted(&ask, driven)
            .await
            .map_err(|why| Error::unavailable(format!("nobody wrote it down: {why}")))?;
        transcript.synthesis = Some(completion.clone());
        let Some(lesson) = synthesis::decide(&completion, transcript.reading)? else { return Ok(None) };
        let executed = machine.calls().len();
        let task = self.frame.task.clone();
        let is_replayed = self.replayed.is_some();
        let (slug, change, written) = with_working_copy(&self.desk, move |desk| {
            let first = desk.brain()?.next_evidence()?;
            let evidence = (first..).take(executed).collect();
            let from = SynthesisSource { task: &task, evidence };
            // In a replay the receipt says whether it was written.
            desk.atomically(|desk| {
                let done = desk.as_recorded(is_replayed, |desk| synthesis::write(desk, &lesson, &archived, &from))?;
                if is_replayed && done.2 == SkillWriteOutcome::Done {
                    desk.check_moved(&done.0)?;
                }
                Ok(done)
            })
        })
        .await?;
        match written {
            SkillWriteOutcome::Done => {
                session.emit(|| TaskEvent::SkillWritten { slug, change });
                Ok(None)
            }
            SkillWriteOutcome::Waits(_) => Ok(Some(format!("what was learned about skill {slug} waits for a person"))),
        }
    }

    /// Adds the account of the task to its step.
    async fn close(
        &self,
        machine: Machine,
        driven: SessionLog,
        transcript: Transcript,
        mut warnings: Vec<String>,
    ) -> Result<FinishedTask> {
        let frame = Arc::clone(&self.frame);
        let closing = with_working_copy_inline(&self.desk, move |desk| {
            desk.close_to_tools();
            let stop = transcript.stop.clone();
            warnings.extend(desk.gate_direct_edits()?);
            match stop.reason.status() {
                TaskStatus::Converged => desk.count_uses()?,
                TaskStatus::Incomplete => {}
                TaskStatus::Failed => desk.forget_changes(),
            }
            let loaded: Vec<(Slug, Digest)> =
                desk.loaded().iter().map(|(slug, digest)| (slug.clone(), *digest)).collect();
            let changed: Vec<ChangedSkill> = desk
                .changed()
                .iter()
                .map(|(slug, change)| ChangedSkill { slug: slug.clone(), change: *change })
                .collect();
            let slugs: Vec<Slug> = loaded.iter().map(|(slug, _)| slug.clone()).collect();
            let proposals: Vec<TaskProposal> = desk.proposals().cloned().collect();
            let private = desk.private_words().cloned();
            let (_, draft) = desk.step()?;
            let task = account::TaskRecord {
                frame: &frame,
                private: private.as_ref(),
                turns: &transcript.turns,
                machine: &machine,
                stop: &stop,
                loaded: &slugs,
                model: driven.model.as_deref(),
                backend: &driven.backend,
            };
            task.write(draft);
            Ok(FinishedTask {
                stop,
                turns: u32::from(machine.turns()),
                calls: machine.calls().to_vec(),
                dropped: machine.dropped(),
                usage: driven.usage,
                model: driven.model,
                backend: driven.backend,
                attestation: driven.attestation,
                transcript,
                loaded,
                changed,
                proposals,
                warnings,
            })
        });
        // A tool that never lets go of the desk must not hold its task for ever.
        match tokio::time::timeout(PATIENCE_WITH_TOOLS, closing).await {
            Ok(finished) => finished,
            Err(_) => Err(Error::unavailable("a tool holds the brain and does not let go; nothing was settled")),
        }
    }
}

/// How much of the prompt the skill index may take, in bytes and in skills.
#[derive(Debug, Clone, Copy)]
struct Room {
    bytes: usize,
    best: usize,
}

/// The skills to show, and what `best` said where it was asked.
fn choose(
    desk: &mut WorkingCopy,
    room: Room,
    best: impl FnOnce(&mut WorkingCopy, usize) -> Result<Vec<Slug>>,
) -> Result<(PromptSkills, Vec<Slug>)> {
    let skills = desk.skills()?;
    let pinned = desk.pinned()?;
    let mut said = Vec::new();
    let shown = prompt::choose(skills, &pinned, room.bytes, || {
        said = best(desk, room.best)?;
        Ok(said.clone())
    })?;
    Ok((shown, said))
}
