//! A task from an open brain to a step ready to be settled. The same line is walked live and in a
//! replay; only who speaks and who runs the calls differs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::context;
use super::drive::{AnswerRelease, CancelToken, EventSender, Session, SessionLog, ToolExecutor, stop_of};
use super::exemplar::file::RoomRule;
use super::exemplar::{self, Example, ExampleCache, Plan};
use super::few_shot::{self, ExampleNames};
use super::lesson_rules::{self, KnownSkill, LessonContext};
use super::machine::{FactRules, Machine, SessionRules, Stop};
use super::prompt::{self, Prompt, PromptSkills};
use super::reply::Edition;
use super::role::Role;
use super::shown::{self, Learned, ShowRules};
use super::synthesis::{self, SynthesisSource};
use super::task_record;
use super::transcript::{HarvestRule, TRANSCRIPT_SCHEMA, Transcript};
use crate::backend::{Capabilities, Chain};
use crate::brain::MemoryLayer;
use crate::checks::{self, Check, CheckResult, Verifier};
use crate::error::{Error, Result};
use crate::ids::{Digest, Random, Slug};
use crate::layout;
use crate::memory::{EvidenceStatus, OutcomeReport, OutcomeSource, OutcomeValue, TaskOutcome, layers};
use crate::redact::redact;
use crate::skill::CreatedBy;
use crate::task::{
    CallRecord, ChangedSkill, LearningOptions, ShownAs, StopReason, TaskEvent, TaskLimits, TaskStatus, TaskUsage,
};
use crate::text;
use crate::tool::{
    CallEnd, Permission, ProgramRunner, SkillChange, SkillRules, SkillWriteOutcome, SoughtMeaning, TaskFrame,
    TaskProposal, ToolContext, ToolSpec, Toolbox, WorkingCopy, dispatch_to_end, with_working_copy,
    with_working_copy_inline,
};
use crate::tuning::Tuning;

/// How long a tool that outstayed its time may still hold the working copy.
const PATIENCE_WITH_TOOLS: Duration = Duration::from_secs(30);

/// From this score on an outcome is good enough to learn from.
pub const GOOD_SCORE: f64 = 0.7;
/// How long a tool or a program that verifies an answer may take.
const VERIFIER_TIME: Duration = Duration::from_secs(10);
/// The most characters of a note on an outcome.
const NOTE_CHARS: usize = 300;

/// The tools of what the agent noted itself.
const OWN_NOTES: [&str; 2] = ["memory", "recall"];

/// The backend of a task that asks none.
const NOBODY: &str = "none";

/// Everything a task runs with.
pub struct TaskRun<'r> {
    /// What names the task: its brain, subscriber, input and deadline.
    pub frame: Arc<TaskFrame>,
    /// The brain, and the step in the making.
    pub desk: Arc<Mutex<WorkingCopy>>,
    /// The context that each call of a tool gets.
    pub cx: ToolContext,
    /// The backends that are asked, in order.
    pub chain: &'r Chain,
    /// The tools the task may use.
    pub toolbox: &'r Toolbox,
    /// What runs the calls: the tools, or in a replay the record of what they returned.
    pub caller: &'r dyn ToolExecutor,
    /// What it may use up.
    pub limits: &'r TaskLimits,
    /// Which components and constants the brain runs with.
    pub tuning: Arc<Tuning>,
    /// What is learned, and how it is shown.
    pub learning: LearningOptions,
    /// The share of matching tasks that are shown what is on trial.
    pub trial_share: f64,
    /// Examples that were read already.
    pub examples: Arc<ExampleCache>,
    /// Runs programs that verify answers.
    pub verifiers: Option<Arc<dyn ProgramRunner>>,
    /// Lets the caller end the task early.
    pub cancel: &'r CancelToken,
    /// The channel that events are sent to; none where nobody listens.
    pub events: Option<&'r EventSender>,
    /// Whether the final answer may be kept; it may, where nobody is asked.
    pub release: Option<&'r dyn AnswerRelease>,
    /// The source of chance for the waits between retries.
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
    /// Why the task ended, with the answer or a message.
    pub stop: Stop,
    /// How many turns were used, 0 to 8.
    pub turns: u32,
    /// The tool calls in order, refused ones included.
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
    role: Role,
    memory: String,
    users: String,
    subscriber: String,
    shown: PromptSkills,
    learned: Learned,
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
        let capabilities = self.capabilities();
        let role = &prepared.role;
        let answer = prompt::final_schema(&role.text);
        // What was said then is read as it was read then.
        let reading = self.replayed.map_or_else(Edition::default, |replayed| replayed.reading);
        let names = match reading < Edition::Fourth {
            true => ExampleNames::Same,
            false => ExampleNames::DrawnFor(&self.frame.task),
        };
        let example = prepared.learned.example.as_ref().map(Example::render);
        let system: Arc<str> = prompt::system(&Prompt {
            role: &role.text,
            memory: &prepared.memory,
            users: &prepared.users,
            subscriber: &prepared.subscriber,
            tools: &cards,
            skills: &prepared.shown,
            turns: self.limits.turns,
            answer: answer.as_ref(),
            examples: capabilities.needs_examples,
            names,
            shown: example.as_deref(),
            preloaded: &prepared.learned.preloaded,
        })
        .into();
        let planned = prepared.learned.shown.iter().any(|shown| shown.shown_as == ShownAs::Plan);
        let held = planned || capabilities.needs_examples;
        let plan = prepared
            .learned
            .example
            .as_ref()
            .filter(|_| held)
            .and_then(|found| Plan::of(found, &prepared.learned.repeated, &cards));
        let tuning = &self.tuning;
        let rules = SessionRules {
            turns: self.limits.turns,
            tools: cards.iter().map(|card| card.name.clone()).collect(),
            context_bytes: self.limits.context_bytes.min(capabilities.context_bytes.unwrap_or(usize::MAX)),
            compressor: tuning.compressor.unwrap_or_default(),
            shrunk_bytes: tuning.shrunk_bytes.unwrap_or(context::SHRUNK_BYTES),
            replies: tuning.replies.unwrap_or_default(),
            answer_keys: prompt::required_keys(answer.as_ref()),
            reading,
            working_tools: working_tools(&cards, reading, capabilities.needs_examples),
            facts: FactRules {
                grounding: role.grounding,
                role: role.text.as_str().into(),
                examples: match (&example, capabilities.needs_examples) {
                    (Some(example), _) => example.as_str().into(),
                    (None, true) => few_shot::card_examples(&cards, answer.as_ref(), names).into(),
                    (None, false) => "".into(),
                },
                values: match (&prepared.learned.example, capabilities.needs_examples) {
                    _ if reading < Edition::Fourth => Vec::new(),
                    (Some(example), _) => example.values(),
                    (None, true) => few_shot::card_values(&cards, names),
                    (None, false) => Vec::new(),
                },
                has_schema: answer.is_some(),
            },
        };
        let mut machine = Machine::new(rules.clone(), Arc::clone(&system), Arc::clone(&prepared.question));
        let session = Session {
            chain: self.chain,
            caller: self.caller,
            cx: &self.cx,
            tools: &cards,
            answer: answer.as_ref(),
            examples: capabilities.needs_examples,
            plan: plan.as_ref(),
            follows_plan: planned,
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
            learning: self.learning.learns && self.learning.synthesis,
            sharing: self.frame.shares,
            examples: capabilities.needs_examples,
            gated: self.rules() != SkillRules::Ungated,
            gated_edits: self.rules() == SkillRules::Gated,
            reading,
            prompt: crate::ids::sha256(system.as_bytes()),
            skills: prepared.best,
            shown: prepared.learned.shown,
            outcome: TaskOutcome::default(),
            harvest: self.harvest(),
            guarded: self.harvest() != HarvestRule::Never && self.replayed.is_none_or(|replayed| replayed.guarded),
            turns: std::mem::take(&mut driven.turns),
            synthesis: None,
            stop: stop.clone(),
        };
        let mut warnings: Vec<String> = prepared.warning.into_iter().collect();
        let converged = stop.reason.status() == TaskStatus::Converged;
        transcript.outcome = match self.replayed {
            Some(replayed) => replayed.outcome.clone(),
            None if self.known.is_some() => TaskOutcome::default(),
            None => self.outcome(&prepared.role, answer.as_ref(), &transcript).await,
        };
        if transcript.learning && converged && synthesis::is_hard(machine.calls(), self.rules()) {
            match self
                .learn(&session, &machine, &mut transcript, &mut driven, prepared.archived, &prepared.role.text)
                .await
            {
                Ok(waits) => warnings.extend(waits),
                Err(error) => {
                    tracing::info!(brain = %self.frame.brain, %error, "nothing was written down");
                    warnings.push(format!("no skill was written: {}", error.message()));
                }
            }
        }
        if converged && transcript.harvest != HarvestRule::Never {
            self.keep_example(&prepared.role.text, &transcript).await.unwrap_or_else(|error| {
                tracing::info!(brain = %self.frame.brain, %error, "no example was kept");
            });
        }
        if stop.reason == StopReason::Final
            && let Some(release) = self.release
            && let Err(why) = release.release(transcript.stop.answer.as_deref().unwrap_or_default()).await
        {
            transcript.stop = Stop { reason: StopReason::Cancelled, answer: None, message: Some(why) };
        }
        self.close(machine, driven, transcript, warnings).await
    }

    /// Whether a task that went well leaves an example. What one subscriber said is not an example for others.
    fn harvest(&self) -> HarvestRule {
        let options = self.learning;
        match self.replayed {
            Some(replayed) => replayed.harvest,
            None if !(options.learns && options.examples) || self.frame.is_private() => HarvestRule::Never,
            None if options.unrated => HarvestRule::Grounded,
            None => HarvestRule::Good,
        }
    }

    /// Keeps an example of the task, where its outcome is good; where nobody says, and that is enough, where all facts of
    /// its answer come from results.
    async fn keep_example(&self, role: &str, transcript: &Transcript) -> Result<()> {
        let is_good = match transcript.outcome.value.score() {
            Some(score) => score >= GOOD_SCORE,
            None => transcript.harvest == HarvestRule::Grounded && exemplar::is_grounded(transcript, role),
        };
        if !is_good {
            return Ok(());
        }
        let Some(example) = exemplar::harvest(transcript, role) else { return Ok(()) };
        let rule = RoomRule::of(transcript.reading);
        with_working_copy(&self.desk, move |desk| exemplar::keep::keep(desk, example, rule)).await.map(drop)
    }

    /// How good the answer was, as far as the role says how to find out.
    async fn outcome(&self, role: &Role, schema: Option<&Value>, transcript: &Transcript) -> TaskOutcome {
        let stop = &transcript.stop;
        if stop.reason.status() == TaskStatus::Failed {
            return TaskOutcome::default();
        }
        let mut reports = Vec::new();
        let at = self.frame.at;
        let answer = stop.answer.as_deref();
        if let (Some(schema), Some(answer)) = (schema, answer) {
            let value = serde_json::from_str(answer).unwrap_or_default();
            let problems = crate::schema::problems(schema, &value);
            if !problems.is_empty() {
                let note = Some(text::head(&problems.join("; "), NOTE_CHARS));
                reports.push(OutcomeReport { source: OutcomeSource::Schema, value: OutcomeValue::Bad, note, at });
            }
        }
        if !role.checks.is_empty() {
            let mut asked = Vec::new();
            for verifier in role.checks.iter().filter_map(Check::verifier) {
                asked.push(self.ask_verifier(verifier, transcript).await);
            }
            let (value, note) = match checks::evaluate(&role.checks, answer, &transcript.made_calls(), &asked) {
                CheckResult::Holds => (OutcomeValue::Good, None),
                CheckResult::Share(share) => (OutcomeValue::of_score(share.clamp(0.0, 1.0)).unwrap_or_default(), None),
                CheckResult::Fails(why) => (OutcomeValue::Bad, Some(why)),
                CheckResult::Unknown(why) => (OutcomeValue::Unknown, Some(why)),
            };
            let note = note.map(|note| text::head(&redact(&note), NOTE_CHARS));
            reports.push(OutcomeReport { source: OutcomeSource::Verifier, value, note, at });
        }
        TaskOutcome::of(reports)
    }

    /// Asks a tool or a program what it says of the answer.
    async fn ask_verifier(&self, verifier: Verifier<'_>, transcript: &Transcript) -> CheckResult {
        let answer: Value = transcript
            .stop
            .answer
            .as_deref()
            .map(|answer| serde_json::from_str(answer).unwrap_or_else(|_| Value::from(answer)))
            .unwrap_or_default();
        match verifier {
            Verifier::Tool(name) => {
                let args = json!({ "answer": answer, "question": self.frame.input.as_ref() });
                let args = args.as_object().cloned().unwrap_or_default();
                let unknown = |why: &str| CheckResult::Unknown(format!("{name}: {why}"));
                let Some(tool) = self.toolbox.get(name) else { return unknown("there is no such tool") };
                // A replay does not verify again: what a verifier wrote would be missing there.
                if tool.spec().permission == Permission::WriteBrain {
                    return unknown("it writes to the brain, and a verifier may not");
                }
                let until = tokio::time::Instant::now() + VERIFIER_TIME;
                let (report, end) = dispatch_to_end(tool, args, &self.cx, until).await;
                match (report.status, end) {
                    (EvidenceStatus::Ok, _) => CheckResult::Holds,
                    (EvidenceStatus::Failed, CallEnd::Said) => CheckResult::Fails(report.summary),
                    (EvidenceStatus::Failed, CallEnd::Broke) | (EvidenceStatus::Refused, _) => unknown(&report.summary),
                }
            }
            Verifier::Program(path) => self.ask_program(path, &answer, transcript).await,
        }
    }

    /// Runs a program of the brain: it reads question, answer and calls as one JSON object, and writes `good`, `bad` or a
    /// number from 0 to 1. A program that cannot be run, or says anything else, says nothing about the answer.
    async fn ask_program(&self, path: &str, answer: &Value, transcript: &Transcript) -> CheckResult {
        let unknown = |why: String| CheckResult::Unknown(format!("{path}: {why}"));
        let Some(runner) = &self.verifiers else {
            return unknown("programs are not allowed here".to_owned());
        };
        let read = {
            let path = path.to_owned();
            with_working_copy(&self.desk, move |desk| desk.read(&path.parse()?)).await
        };
        let program: Arc<[u8]> = match read {
            Ok(Some(bytes)) => bytes.into(),
            Ok(None) => return unknown("there is no such file in the brain".to_owned()),
            Err(error) => return unknown(error.message().to_owned()),
        };
        let calls: Vec<Value> = transcript
            .turns
            .iter()
            .filter_map(|turn| {
                let (call, report) = (turn.call.as_ref()?, turn.report.as_ref()?);
                Some(json!({ "tool": call.tool, "args": call.args, "status": report.status, "result": report.text }))
            })
            .collect();
        let input = json!({ "question": transcript.input, "answer": answer, "calls": calls }).to_string();
        match runner.run(path, &program, input.into_bytes(), VERIFIER_TIME).await {
            Ok(said) => match String::from_utf8_lossy(&said).trim() {
                "good" => CheckResult::Holds,
                "bad" => CheckResult::Fails(format!("{path} says so")),
                said => match said.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share)) {
                    Some(share) => CheckResult::Share(share),
                    None => unknown(format!("it said {:?}, and not good, bad or 0 to 1", text::head(said, 80))),
                },
            },
            Err(error) => unknown(error.message().to_owned()),
        }
    }

    /// Which rules hold for skills: those of the task that is replayed, where it is one.
    fn rules(&self) -> SkillRules {
        match self.replayed {
            Some(transcript) => transcript.rules(),
            None => SkillRules::Gated,
        }
    }

    fn ended(&self, stop: Stop) -> Stop {
        let from_outside = |reason| {
            !matches!(reason, StopReason::Final | StopReason::Unverified | StopReason::Ceiling | StopReason::Stuck)
        };
        match self.replayed {
            // An answer that was not let go ended from outside too, after its last reply.
            Some(before)
                if matches!(stop.reason, StopReason::Backend | StopReason::Final | StopReason::Unverified)
                    && from_outside(before.stop.reason) =>
            {
                before.stop.clone()
            }
            _ => stop,
        }
    }

    async fn prepare(&self) -> Result<Prepared> {
        let mut prepared = self.prepare_by_words().await?;
        let sought = self.sought(&mut prepared).await;
        if prepared.shown.more > 0 {
            self.choose_by_meaning(&mut prepared, sought.clone()).await;
        }
        self.choose_learned(&mut prepared, sought).await?;
        Ok(prepared)
    }

    /// What the task means, where meaning chooses skills and there is something to choose. What goes wrong leaves the
    /// choice by words, and is said. A replay has the choice in its record.
    async fn sought(&self, prepared: &mut Prepared) -> Option<SoughtMeaning> {
        let meaning = self.cx.meaning().filter(|meaning| meaning.uses().skills).cloned()?;
        let preloads = self.learning.preload && self.capabilities().preload_bytes > 0;
        let has_choice = prepared.shown.more > 0 || preloads && !prepared.shown.skills.is_empty() && !self.is_known();
        if self.replayed.is_some() || !has_choice {
            return None;
        }
        match meaning.embed_query(&self.frame.input).await {
            Ok(vector) => Some(SoughtMeaning { vector, meaning }),
            Err(error) => {
                self.by_words_alone(prepared, &error);
                None
            }
        }
    }

    fn by_words_alone(&self, prepared: &mut Prepared, error: &Error) {
        tracing::warn!(brain = %self.frame.brain, %error, "skills are chosen by their words alone");
        prepared.warning = Some(format!("skills were chosen by their words alone: {}", error.message()));
    }

    /// What the backend can do that is asked first.
    fn capabilities(&self) -> Capabilities {
        self.chain.backends.first().map(|backend| backend.capabilities()).unwrap_or_default()
    }

    /// Whether the answer, or the skill that the task is about, is known without a choice.
    fn is_known(&self) -> bool {
        self.known.is_some() || self.frame.commanded.get().is_some()
    }

    /// Chooses what of the learned is shown.
    async fn choose_learned(&self, prepared: &mut Prepared, sought: Option<SoughtMeaning>) -> Result<()> {
        let capabilities = self.capabilities();
        let holds = self.chain.backends.iter().all(|backend| backend.capabilities().constrains_replies);
        let (frame, options) = (Arc::clone(&self.frame), self.learning);
        let replayed = self.replayed.map(|replayed| replayed.shown.clone());
        let cache = Arc::clone(&self.examples);
        let (share, is_known, by_meaning) = (self.trial_share, self.is_known(), sought.is_some());
        let mut index = std::mem::take(&mut prepared.shown);
        let choose = move |desk: &mut WorkingCopy| {
            if is_known && replayed.is_none() {
                return Ok((Learned::default(), index));
            }
            let rules = ShowRules {
                brain: &frame.brain,
                task: &frame.task,
                question: &frame.input,
                options,
                plans: options.plans && holds,
                preload_bytes: capabilities.preload_bytes,
                example_takes_room: capabilities.needs_examples,
                sought: sought.as_ref(),
                share,
                cache: &cache,
                replayed: replayed.as_deref(),
            };
            let learned = rules.choose(desk, &mut index)?;
            Ok((learned, index))
        };
        (prepared.learned, prepared.shown) = match by_meaning {
            true => with_working_copy(&self.desk, choose).await?,
            false => with_working_copy_inline(&self.desk, choose).await?,
        };
        Ok(())
    }

    /// Chooses the skills of the index again by words and meaning, where that is on; in a replay, as it was recorded.
    async fn choose_by_meaning(&self, prepared: &mut Prepared, sought: Option<SoughtMeaning>) {
        let room = self.index_room();
        let input = Arc::clone(&self.frame.input);
        let chosen = match (self.replayed, sought) {
            (Some(replayed), _) => match replayed.skills.clone() {
                Some(best) => with_working_copy(&self.desk, move |desk| choose(desk, room, |_, _| Ok(best))).await,
                None => return,
            },
            (None, Some(SoughtMeaning { vector, meaning })) => {
                let best = move |desk: &mut WorkingCopy, most| desk.best_skills_near(&input, most, &vector, &meaning);
                with_working_copy(&self.desk, move |desk| choose(desk, room, best)).await
            }
            (None, None) => return,
        };
        match chosen {
            Ok((shown, best)) => (prepared.shown, prepared.best) = (shown, Some(best)),
            Err(error) => self.by_words_alone(prepared, &error),
        }
    }

    /// How much of the prompt the skill index may take. Where a model has to be shown, every token is time.
    fn index_room(&self) -> Room {
        let (bytes, best) = match self.capabilities().needs_examples {
            true => (few_shot::INDEX_BYTES, few_shot::INDEX_BEST),
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
            let role = Role::read(&role, desk.brain()?.manifest()?.and_then(|manifest| manifest.checks).as_ref())?;
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
            let learned = Learned::default();
            Ok(Prepared {
                role,
                memory,
                users,
                subscriber,
                shown,
                learned,
                best: None,
                warning: None,
                archived,
                question,
            })
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
        role: &str,
    ) -> Result<Option<String>> {
        let skills = with_working_copy_inline(&self.desk, WorkingCopy::skills).await?;
        let answer = transcript.stop.answer.as_deref().unwrap_or_default();
        let ask = synthesis::question(
            session.roles(),
            &self.frame.input,
            &transcript.turns,
            answer,
            &skills,
            &archived,
            self.limits,
        );
        let completion = session
            .ask_counted(&ask, driven)
            .await
            .map_err(|why| Error::unavailable(format!("nobody wrote it down: {why}")))?;
        transcript.synthesis = Some(completion.clone());
        let Some(lesson) = synthesis::decide(&completion, transcript.reading)? else { return Ok(None) };
        // In a replay the record says what was kept.
        if self.replayed.is_none() {
            let written = lesson.slug.clone();
            let known = with_working_copy_inline(&self.desk, move |desk| known_skills(desk, &written)).await?;
            let context = LessonContext {
                instructions: synthesis::INSTRUCTIONS,
                role,
                input: &self.frame.input,
                turns: &transcript.turns,
                tools: &transcript.tools,
                skills: &known,
            };
            if let Some(why) = lesson_rules::objection(&lesson, &context) {
                return Err(Error::refused(format!("what was learned is not kept: {why}")));
            }
        }
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
                if done.1 == SkillChange::Created && done.2 == SkillWriteOutcome::Done {
                    exemplar::keep::begin_trial(desk, &done.0, "written down after a hard task")?;
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
                TaskStatus::Converged => desk.count_uses(&transcript.shown_examples())?,
                TaskStatus::Incomplete => {}
                TaskStatus::Failed => desk.forget_changes(),
            }
            let loaded: Vec<(Slug, Digest)> =
                desk.loaded().iter().map(|(slug, skill)| (slug.clone(), skill.digest)).collect();
            let turns: Vec<(Slug, u32)> =
                desk.loaded().iter().map(|(slug, skill)| (slug.clone(), skill.turn)).collect();
            let changed: Vec<ChangedSkill> = desk
                .changed()
                .iter()
                .map(|(slug, change)| ChangedSkill { slug: slug.clone(), change: *change })
                .collect();
            let proposals: Vec<TaskProposal> = desk.proposals().cloned().collect();
            let private = desk.private_words().cloned();
            let (_, draft) = desk.step()?;
            let task = task_record::TaskRecord {
                frame: &frame,
                private: private.as_ref(),
                turns: &transcript.turns,
                machine: &machine,
                stop: &stop,
                loaded: &turns,
                model: driven.model.as_deref(),
                backend: &driven.backend,
            };
            task.write(draft);
            task.write_learning(&transcript, driven.usage.micro_usd.unwrap_or(0), draft);
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
        // A tool that never lets go of the working copy must not hold its task for ever.
        match tokio::time::timeout(PATIENCE_WITH_TOOLS, closing).await {
            Ok(finished) => finished,
            Err(_) => Err(Error::unavailable("a tool holds the brain and does not let go; nothing was settled")),
        }
    }
}

/// The tools that an answer can rest on; none, where it can rest on any. Models load a skill or look into the memory and
/// answer at once. By earlier rules that was held against small models alone, and against skills alone.
fn working_tools(cards: &[&ToolSpec], reading: Edition, is_small: bool) -> Vec<String> {
    let is_own = |card: &ToolSpec| card.lookup || reading >= Edition::Fourth && OWN_NOTES.contains(&card.name.as_str());
    match is_small || reading >= Edition::Fourth {
        true => cards.iter().filter(|card| !is_own(card)).map(|card| card.name.clone()).collect(),
        false => Vec::new(),
    }
}

/// The skills that a lesson may point at or repeat: all by their names, and those by their texts that the task had before
/// it, or that have its name, unless the agent wrote them.
fn known_skills(desk: &mut WorkingCopy, lesson: &Slug) -> Result<Vec<KnownSkill>> {
    let slugs: Vec<Slug> = desk.skills()?.into_iter().map(|card| card.slug).collect();
    let mut known = Vec::with_capacity(slugs.len());
    for slug in slugs {
        let mut expert = None;
        if desk.loaded().contains_key(&slug) || slug == *lesson {
            let usage = desk.edit()?.recorded_usage(&slug)?;
            if usage.is_none_or(|usage| usage.created_by != CreatedBy::Agent) {
                expert = shown::body_of(desk, &slug)?;
            }
        }
        known.push(KnownSkill { slug, expert });
    }
    Ok(known)
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
