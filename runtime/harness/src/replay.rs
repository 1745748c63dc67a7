//! Replaying a receipt: the brain as it was before, the same words, the same tools, and then the
//! same hash, or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::task_run;
use crate::backend::{Backend, Capabilities, Chain, RetryPolicy, ScriptedBackend};
use crate::brain::{Brain, BrainOptions, OnDrift, Reader};
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::fsio;
use crate::ids::{BrainId, Digest, Slug, SystemRandom, sha256};
use crate::layout::Layout;
use crate::memory::EvidenceStatus;
use crate::receipt::Envelope;
use crate::session::machine::ToolCall;
use crate::session::reply::Edition;
use crate::session::{CancelToken, FinishedTask, HarvestRule, LiveTools, TaskRun, ToolExecutor, Transcript, Turn};
use crate::skill::command;
use crate::task::{LearningOptions, TaskLimits, TaskStatus};
use crate::tool::{
    Disclosure, Permission, ProgramRunner, RecordedSkillChanges, ReplaySource, Secrets, SessionEnv, SkillEnv,
    TaskFrame, Tool, ToolContext, ToolOutput, ToolProgram, ToolReport, ToolSpec, Toolbox, WorkingCopy,
};

/// How a replay went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    /// The number of the receipt that was replayed.
    pub seq: u64,
    /// The bundle hash before, of the receipt and of the rewound copy.
    pub before: Digest,
    /// The bundle hash after, by the receipt.
    pub expected: Digest,
    /// The bundle hash after, by the replay.
    pub reached: Digest,
    /// Whether the model would have read the same system message.
    pub same_prompt: bool,
    /// Tools whose result was taken from the transcript, because the world outside had a part in it.
    pub recorded: Vec<String>,
    /// Where a tool returned something else than it did then.
    pub diverged: Vec<String>,
}

impl ReplayReport {
    /// Whether the replay reached what the receipt says.
    pub fn is_same(&self) -> bool {
        self.expected == self.reached
    }
}

/// Tools whose results may hold what is known of a subscriber; for transcripts that do not say what a call told of them.
const TELLS_OF_SUBSCRIBER: [&str; 2] = ["ask_agent", "recall"];

/// A clock that stands still.
#[derive(Debug)]
struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// A tool that was there then and is not here now: it only speaks from the record.
struct Absent(ToolSpec);

#[async_trait]
impl Tool for Absent {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput> {
        Err(Error::unavailable(format!("the tool {} is not here", self.0.name)))
    }
}

/// Whose results a task goes on with, where its tools depend on the brain alone and are run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultSource {
    /// Those of the record: it is to be seen whether the same comes of it.
    TheRecord,
    /// Those of now: it is to be seen what comes of a change.
    WhatIsNow,
}

/// Runs the tools again where they depend on the brain alone, and reads the record where they do not.
struct ReplayExecutor {
    goes_on_with: ResultSource,
    live: LiveTools,
    turns: Vec<Turn>,
    next: AtomicUsize,
    notes: Mutex<(Vec<String>, Vec<String>)>,
}

impl ReplayExecutor {
    fn next(&self, call: &ToolCall) -> Option<&ToolReport> {
        let from = self.next.load(Ordering::SeqCst);
        let found = self.turns.iter().enumerate().skip(from).find(|(_, turn)| turn.call.is_some())?;
        self.next.store(found.0 + 1, Ordering::SeqCst);
        found.1.report.as_ref().filter(|_| found.1.call.as_ref() == Some(call))
    }

    /// Runs a call for what it does to the step, and lets the record decide whether it does: what went well is not judged
    /// again, and what failed does nothing where it would go well now.
    async fn call_as_recorded(
        &self,
        call: &ToolCall,
        before: &ToolReport,
        cx: &ToolContext,
        until: Instant,
    ) -> ToolReport {
        if before.status == EvidenceStatus::Ok {
            return self.live.call(call, &cx.for_call_that_went_well(), until).await;
        }
        let kept = cx.with_working_copy(|desk| Ok(desk.savepoint())).await;
        let now = self.live.call(call, cx, until).await;
        if let (EvidenceStatus::Ok, Ok(kept)) = (now.status, kept) {
            let _ = cx
                .with_working_copy(move |desk| {
                    desk.roll_back_to(kept);
                    Ok(())
                })
                .await;
        }
        now
    }

    fn note(&self, note: impl FnOnce(&mut Vec<String>, &mut Vec<String>)) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let (recorded, diverged) = &mut *notes;
        note(recorded, diverged);
    }
}

#[async_trait]
impl ToolExecutor for ReplayExecutor {
    async fn call(&self, call: &ToolCall, cx: &ToolContext, until: Instant) -> ToolReport {
        let again = self.live.0.get(&call.tool).is_some_and(|tool| tool.spec().replay == ReplaySource::Rerun);
        let Some(before) = self.next(call) else {
            self.note(|_, diverged| diverged.push(format!("{} has no result in the record", call.tool)));
            // Only what stays inside the brain is done again.
            return match again {
                true => self.live.call(call, cx, until).await,
                false => ToolReport::refused("There is no record of this call.", "not in the record"),
            };
        };
        // A call that was refused did nothing, whatever its tool would make of it now.
        if before.status == EvidenceStatus::Refused {
            return before.clone();
        }
        if !again || before.recorded {
            self.note(|recorded, _| recorded.push(call.tool.clone()));
            let told = || {
                TELLS_OF_SUBSCRIBER.contains(&call.tool.as_str()).then(|| vec![Disclosure::Text(before.text.clone())])
            };
            if let Some(heard) = before.told.clone().or_else(told) {
                // The working copy is there for as long as the task is.
                let _ = cx.with_working_copy(move |desk| desk.replay_disclosures(&heard)).await;
            }
            return before.clone();
        }
        let now = match self.goes_on_with {
            ResultSource::WhatIsNow => self.live.call(call, cx, until).await,
            // It changed nothing in the step.
            ResultSource::TheRecord if before.waits => return before.clone(),
            ResultSource::TheRecord => self.call_as_recorded(call, before, cx, until).await,
        };
        if (now.status, &now.text) != (before.status, &before.text) {
            self.note(|_, diverged| diverged.push(format!("{} returned something else", call.tool)));
        }
        match self.goes_on_with {
            // The record has the text alone: the same text is of the same data.
            ResultSource::TheRecord => {
                let data = now.data.filter(|_| (now.status, &now.text) == (before.status, &before.text));
                ToolReport { data, ..before.clone() }
            }
            ResultSource::WhatIsNow => now,
        }
    }
}

/// A program that has its card and never runs: what it said is in the record.
pub(super) fn silent_program(name: &str) -> ToolProgram {
    #[derive(Debug)]
    struct Silent;
    #[async_trait]
    impl ProgramRunner for Silent {
        async fn run(&self, name: &str, _: &Arc<[u8]>, _: Vec<u8>, _: Duration) -> Result<Vec<u8>> {
            Err(Error::unavailable(format!("the program {name} does not run in a replay")))
        }
    }
    ToolProgram::new(name, Arc::new([]), Arc::new(Silent))
}

/// Replays receipt `seq` of a brain in a copy below `workspace`, which is removed again.
pub async fn replay(
    layout: &Layout,
    id: &BrainId,
    seq: u64,
    toolbox: &Toolbox,
    workspace: &Path,
) -> Result<ReplayReport> {
    replay_by(layout, id, seq, toolbox, workspace, None).await
}

/// The same, but `speaker` speaks again instead of the record: a model that always says the same must reach the same
/// hash without anyone having written its replies down.
pub async fn replay_with_backend(
    layout: &Layout,
    id: &BrainId,
    seq: u64,
    toolbox: &Toolbox,
    workspace: &Path,
    speaker: Arc<dyn Backend>,
) -> Result<ReplayReport> {
    replay_by(layout, id, seq, toolbox, workspace, Some(speaker)).await
}

async fn replay_by(
    layout: &Layout,
    id: &BrainId,
    seq: u64,
    toolbox: &Toolbox,
    workspace: &Path,
    speaker: Option<Arc<dyn Backend>>,
) -> Result<ReplayReport> {
    let copy = Layout::new(workspace.join(format!("replay-{}-{id}-{seq}", std::process::id())));
    let replayed = replay_in(layout, id, seq, toolbox, &copy, speaker).await;
    fsio::remove_tree(copy.brains())?;
    replayed
}

/// Says what the record says.
fn speaks_from_record(transcript: &Transcript) -> Arc<dyn Backend> {
    let shown = Capabilities { needs_examples: transcript.examples, ..Capabilities::default() };
    let speaker = ScriptedBackend::playing(transcript.turns.iter().map(|turn| Ok(turn.reply.clone()))).capable(shown);
    Arc::new(match &transcript.synthesis {
        Some(synthesis) => speaker.synthesising_with(Ok(synthesis.clone())),
        None => speaker,
    })
}

async fn replay_in(
    layout: &Layout,
    id: &BrainId,
    seq: u64,
    toolbox: &Toolbox,
    copy: &Layout,
    speaker: Option<Arc<dyn Backend>>,
) -> Result<ReplayReport> {
    let (source, id_too, target) = (layout.clone(), id.clone(), copy.clone());
    let rewound = blocking(move || rewind(&source, &id_too, seq, &target)).await?;
    let Rewound { transcript, brain, before, expected, moved } = rewound;
    let speaker = speaker.unwrap_or_else(|| speaks_from_record(&transcript));
    let goes_on_with = ResultSource::TheRecord;
    let again = Rerun { original: layout, transcript: &transcript, moved, toolbox, speaker, goes_on_with };
    let (finished, desk, frame, caller) = again.run(brain).await?;
    let same_prompt = finished.transcript.prompt == transcript.prompt;
    let settled = task_run::settle(&desk, &frame, finished, &transcript.limits, None).await?;
    let (mut recorded, diverged) = caller.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
    recorded.sort();
    recorded.dedup();
    Ok(ReplayReport { seq, before, expected, reached: settled.after, same_prompt, recorded, diverged })
}

/// A recorded task once more, on a brain that was changed first and with another speaker: how it would have gone.
/// The brain is a copy below `workspace`, taken back to before the task, and is removed again; nothing is settled.
pub async fn rerun(
    layout: &Layout,
    id: &BrainId,
    seq: u64,
    toolbox: &Toolbox,
    workspace: &Path,
    change: impl FnOnce(&mut Brain) -> Result<()> + Send + 'static,
    speaker: impl FnOnce(&Transcript) -> Arc<dyn Backend>,
) -> Result<FinishedTask> {
    let copy = Layout::new(workspace.join(format!("rerun-{}-{id}-{seq}", std::process::id())));
    let (source, id_too, target) = (layout.clone(), id.clone(), copy.clone());
    let rewound = blocking(move || {
        let Rewound { transcript, mut brain, .. } = rewind(&source, &id_too, seq, &target)?;
        let listed = |brain: &Brain| Ok::<_, Error>(brain.manifest()?.and_then(|manifest| manifest.tools));
        let before = listed(&brain)?;
        change(&mut brain)?;
        let after = listed(&brain)?;
        Ok((transcript, brain, (before, after)))
    });
    let finished = async {
        let (mut transcript, brain, (before, after)) = rewound.await?;
        // A change of the whitelist is felt: which tools a task had is otherwise what the record says.
        if before != after {
            transcript.tools = tools_by(&transcript.tools, before.as_deref(), after.as_deref(), toolbox);
        }
        // A skill would be written by the backend that answered then.
        transcript.learning = false;
        transcript.harvest = HarvestRule::Never;
        // The brain was changed: which skills are near is asked of the brain as it is now, by words.
        transcript.skills = None;
        // How it would go now: by the rules of now.
        transcript.reading = Edition::default();
        transcript.gated = true;
        transcript.gated_edits = true;
        let speaker = speaker(&transcript);
        let goes_on_with = ResultSource::WhatIsNow;
        let again = Rerun { original: layout, transcript: &transcript, moved: None, toolbox, speaker, goes_on_with };
        again.run(brain).await.map(|(finished, ..)| finished)
    }
    .await;
    fsio::remove_tree(copy.brains())?;
    finished
}

/// The tools of a task whose whitelist was another: without those that it lost, and with those that it gained and that only
/// read the brain. Any others are a matter of what the operator permits.
fn tools_by(then: &[String], before: Option<&[String]>, after: Option<&[String]>, toolbox: &Toolbox) -> Vec<String> {
    let holds = |list: Option<&[String]>, name: &str| list.is_none_or(|list| list.iter().any(|listed| listed == name));
    let gained = toolbox
        .iter()
        .map(|tool| tool.spec())
        .filter(|card| card.permission == Permission::Read && !holds(before, &card.name) && holds(after, &card.name));
    let kept = then.iter().filter(|name| holds(after, name)).cloned();
    kept.chain(gained.map(|card| card.name.clone())).collect()
}

/// A recorded task, about to run again.
struct Rerun<'a> {
    original: &'a Layout,
    transcript: &'a Transcript,
    /// What the receipt says that it did to skills, where the record decides.
    moved: Option<RecordedSkillChanges>,
    toolbox: &'a Toolbox,
    speaker: Arc<dyn Backend>,
    goes_on_with: ResultSource,
}

impl Rerun<'_> {
    async fn run(
        self,
        brain: Brain,
    ) -> Result<(FinishedTask, Arc<Mutex<WorkingCopy>>, Arc<TaskFrame>, ReplayExecutor)> {
        let Self { original: layout, transcript, moved, toolbox, speaker, goes_on_with } = self;
        let id = &transcript.brain;
        let at = transcript.at;
        let tuning = Arc::new(brain.tuning()?);
        let slot = Arc::new(tokio::sync::Mutex::new(Some(brain)));
        let around = SessionEnv {
            surroundings: Arc::new(SkillEnv { environment: super::builder::set_variables(), ..SkillEnv::default() }),
            task: Some(transcript.task.clone()),
            until: None,
            original: Some(layout.brain(id)),
            tuning: Arc::clone(&tuning),
            rules: transcript.rules(),
            moved: moved.map(Arc::new),
        };
        let desk = Arc::new(Mutex::new(WorkingCopy::new(slot.lock_owned().await, at).in_session(around)));
        let until = Instant::now() + Duration::from_secs(3_600);
        let frame = Arc::new(TaskFrame {
            brain: id.clone(),
            task: transcript.task.clone(),
            subscriber: transcript.subscriber,
            input: transcript.input.as_str().into(),
            at,
            path: vec![id.clone()],
            until,
            settles: false,
            shares: transcript.sharing,
            has_budget: false,
            backend: None,
            commanded: OnceLock::new(),
        });
        let cx = ToolContext::new(Arc::clone(&frame), Arc::clone(&desk), Arc::new(Secrets::default()), None);
        // Programs in the place of tools speak from the record: they touched more than the brain.
        let silent: BTreeMap<String, ToolProgram> =
            tuning.tools.keys().map(|name| (name.clone(), silent_program(name))).collect();
        let mut toolbox = toolbox.swapped(&tuning, &silent)?.only(&transcript.tools);
        // Tools that this process does not have can still speak from the record.
        for name in &transcript.tools {
            if toolbox.get(name).is_some() {
                continue;
            }
            toolbox.add(Arc::new(Absent(ToolSpec {
                replay: ReplaySource::Recorded,
                ..ToolSpec::new(name, "", Permission::Read, json!({}))
            })))?;
        }
        // What was spent then is not spent again.
        let limits = TaskLimits { total_tokens: None, micro_usd: None, ..transcript.limits.clone() };
        let limits = limits.tuned(&tuning);
        let chain = Chain { backends: vec![speaker], policy: RetryPolicy::default() };
        let caller = ReplayExecutor {
            goes_on_with,
            live: LiveTools(toolbox.clone()),
            turns: transcript.turns.clone(),
            next: AtomicUsize::new(0),
            notes: Mutex::default(),
        };
        let finished = TaskRun {
            frame: Arc::clone(&frame),
            desk: Arc::clone(&desk),
            cx,
            chain: &chain,
            toolbox: &toolbox,
            caller: &caller,
            limits: &limits,
            tuning: Arc::clone(&tuning),
            // What it learned is in the record.
            learning: LearningOptions { synthesis: transcript.learning, ..LearningOptions::default() },
            trial_share: 0.0,
            examples: Arc::default(),
            verifiers: None,
            cancel: &CancelToken::new(),
            events: None,
            release: None,
            random: &SystemRandom,
            known: answered_by_nobody(transcript),
            replayed: Some(transcript),
        }
        .run()
        .await?;
        Ok((finished, desk, frame, caller))
    }
}

/// The answer of a task that asked no model: what was found then is not there to be found again.
fn answered_by_nobody(transcript: &Transcript) -> Option<String> {
    let is_one = transcript.turns.is_empty() && command::is_reload(&transcript.input).unwrap_or(false);
    transcript.stop.answer.clone().filter(|_| is_one)
}

/// A brain as it was before a task.
pub(super) struct Rewound {
    pub(super) transcript: Transcript,
    pub(super) brain: Brain,
    /// The bundle hash before the task and after it, by the receipt.
    before: Digest,
    expected: Digest,
    /// What the receipt says that the task did to skills. One that failed did nothing in the end, and the receipt does not
    /// say what it had begun.
    moved: Option<RecordedSkillChanges>,
}

/// What a receipt says that its task did to skills.
fn moved(task: &Value) -> Result<Option<RecordedSkillChanges>> {
    if task["status"] == TaskStatus::Failed.name() {
        return Ok(None);
    }
    let changed = task["skills"]["changed"].as_array().into_iter().flatten();
    let skills = changed.map(|skill| {
        let slug = skill["slug"].as_str().unwrap_or_default().parse::<Slug>()?;
        Ok((slug, skill["sha256"].as_str().map(str::to_owned)))
    });
    skills.collect::<Result<_>>().map(|skills| Some(RecordedSkillChanges(skills)))
}

/// The transcript of a receipt, and the brain as it was before it.
pub(super) fn rewind(layout: &Layout, id: &BrainId, seq: u64, copy: &Layout) -> Result<Rewound> {
    let reader = Reader::open(layout, id)?;
    let taped = reader.receipts(seq, seq)?.pop().ok_or_else(|| {
        Error::not_found(format!("brain {id} has no receipt {seq}"))
            .hint(format!("see them with `herm receipts list {id}`"))
    })?;
    let payload = Envelope::parse(&taped.envelope)?.payload()?;
    let statement: Value =
        serde_json::from_slice(&payload).map_err(|source| Error::corrupt("the receipt is not JSON").because(source))?;
    let named = statement["predicate"]["task"]["transcript"]["sha256"]
        .as_str()
        .ok_or_else(|| Error::invalid(format!("receipt {seq} is not of a task")).hint("only tasks can be replayed"))?;
    let content = reader.transcript(taped.step)?.ok_or_else(|| {
        Error::not_found(format!("the transcript of receipt {seq} is no longer kept"))
            .hint("keep more transcripts, or replay sooner")
    })?;
    if sha256(&content) != named {
        return Err(Error::corrupt(format!("the transcript of receipt {seq} is not the one that was signed"))
            .hint("restore the brain from a snapshot"));
    }
    let transcript = Transcript::parse(&content)?;
    let step = reader.step(taped.step)?;
    let lock = reader.rewind(taped.step, copy)?;
    let opening = BrainOptions {
        wait: Duration::from_secs(5),
        clock: Arc::new(FixedClock(transcript.at)),
        on_drift: OnDrift::Refuse,
        signer: None,
        trusted: Vec::new(),
    };
    let brain = Brain::open(copy, id, &opening)?;
    let moved = moved(&statement["predicate"]["task"])?;
    Ok(Rewound { transcript, brain, before: lock.bundle_hash, expected: step.after, moved })
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("the replay was interrupted"))?
}
