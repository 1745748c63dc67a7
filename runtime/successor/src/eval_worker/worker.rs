//! The clone inside the sandbox. It has a copy of the brain, the same code as the parent, and one socket. It runs what
//! it is told and says what happened; whether that is good is not its affair.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::apply;
use crate::backend::{
    Backend, BackendError, Capabilities, Completion, CompletionRequest, ErrorClass, Router, ScriptedBackend,
};
use crate::brain::{Brain, BrainOptions, OnDrift, Reader, StepKind};
use crate::curator::CuratorPolicy;
use crate::error::{Error, Result};
use crate::eval_worker::backends::{FromRecord, SwitchableBackend};
use crate::eval_worker::meter::{Meter, processor_micros};
use crate::eval_worker::{context, curation};
use crate::evaluation::{BackendChoice, EvaluationPart, WrittenTask};
use crate::harness::{self, Harness};
use crate::ids::{BrainId, SystemRandom, sha256};
use crate::layout::Layout;
use crate::patch::Patch;
use crate::receipt::Signer;
use crate::skill::provenance::SkillWriter;
use crate::task::{Outcome, SettleMode, Task};
use crate::tool::{Permissions, ProgramRunner, Toolbox};
use crate::wire::{self, Answer, CaseResult, Face, FromWorker, Setup, ToWorker, WireAsk};
use herm_backends::Reflex;

/// The first argument of a worker.
pub(crate) const ARGUMENT: &str = "herm-successor-worker";
/// The most threads a worker has for what waits for the disk.
const MOST_BLOCKING: u32 = 8;
/// The threads it has beside them: its own, the one that reads the socket, the one that looks at the memory, and one that
/// has ended and is still counted.
const OTHER_THREADS: u32 = 4;
/// Where the worker's brains are.
const BRAINS: &str = "/work/brains";
/// Where it puts what it throws away.
const SCRATCH: &str = "/work/scratch";
/// How far back it looks for tasks to replay.
const MOST_STEPS: usize = 5_000;

/// Comes first in `main`. If this process was started to build a sandbox, or to work in one, it does so and never
/// returns; otherwise it returns at once. `toolbox` makes the tools the runtime usually has.
pub fn run_worker_if_reexec(toolbox: impl FnOnce() -> Result<Toolbox>) {
    herm_sandbox::run_if_reexec();
    if std::env::args().nth(1).as_deref() != Some(ARGUMENT) {
        return;
    }
    let Some(channel) = herm_sandbox::channel() else { return };
    let threads = std::env::args().nth(2).and_then(|said| said.parse().ok()).unwrap_or(1);
    let code = match toolbox().and_then(|toolbox| work(channel, toolbox, threads)) {
        Ok(()) => 0,
        // Nobody reads more than that: the parent has seen the socket close.
        Err(_) => 1,
    };
    std::process::exit(code);
}

/// How many threads for what waits for the disk fit into what a side may have: a thread that cannot be started ends it.
pub(crate) fn blocking_threads(processes: u32) -> u32 {
    processes.saturating_sub(OTHER_THREADS).clamp(1, MOST_BLOCKING)
}

fn work(channel: UnixStream, toolbox: Toolbox, threads: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(threads.max(1))
        .build()
        .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
    let broken = |source: std::io::Error| Error::unavailable("the parent is gone").because(source);
    let mut reading = channel.try_clone().map_err(broken)?;
    let link = Arc::new(Link { writer: Mutex::new(channel), waiting: Mutex::default(), next: AtomicU64::new(1) });
    let (orders, mut received) = mpsc::unbounded_channel();
    let answers = Arc::clone(&link);
    std::thread::spawn(move || {
        while let Ok(Some(frame)) = wire::receive::<ToWorker>(&mut reading) {
            match frame {
                ToWorker::Answer { id, answer } => answers.answered(id, answer),
                order => {
                    if orders.send(order).is_err() {
                        return;
                    }
                }
            }
        }
    });
    runtime.block_on(async {
        let Some(ToWorker::Setup(setup)) = received.recv().await else {
            return Err(Error::invalid("the first order is what to work on"));
        };
        let clone = match EvalWorker::prepare(*setup, toolbox, &link).await {
            Ok(clone) => clone,
            Err(error) => return link.send(&FromWorker::Refused(sentence(&error))),
        };
        let (identity, tasks) = (clone.identity.clone(), clone.tasks()?);
        link.send(&FromWorker::Ready { identity, tasks })?;
        while let Some(order) = received.recv().await {
            let done = match clone.carry_out(order).await {
                Ok(result) => FromWorker::Done(Box::new(result)),
                Err(error) => FromWorker::Failed(sentence(&error)),
            };
            link.send(&done)?;
        }
        Ok(())
    })
}

fn sentence(error: &Error) -> String {
    match error.hint_text() {
        Some(hint) => format!("{} ({hint})", error.message()),
        None => error.message().to_owned(),
    }
}

/// The socket to the parent, which tasks share: answers find their question by its number.
#[derive(Debug)]
struct Link {
    writer: Mutex<UnixStream>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    next: AtomicU64,
}

impl Link {
    fn send(&self, frame: &FromWorker) -> Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&mut *writer, frame).map_err(|source| Error::unavailable("the parent is gone").because(source))
    }

    fn answered(&self, id: u64, answer: Answer) {
        if let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
            // The task that asked may have given up.
            let _ = waiting.send(answer);
        }
    }

    async fn ask(&self, frame: impl FnOnce(u64) -> FromWorker) -> Result<Answer> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, tell);
        self.send(&frame(id))?;
        told.await.map_err(|_| Error::unavailable("the parent is gone"))
    }
}

/// The brain's own backend, through the broker.
#[derive(Debug)]
struct Brokered {
    link: Arc<Link>,
    face: Face,
}

#[async_trait]
impl Backend for Brokered {
    fn name(&self) -> &str {
        &self.face.name
    }

    fn capabilities(&self) -> Capabilities {
        self.face.capabilities()
    }

    async fn complete(&self, ask: &CompletionRequest) -> std::result::Result<Completion, BackendError> {
        let asked = WireAsk::of(&self.face.name, ask);
        match self.link.ask(|id| FromWorker::Ask { id, ask: asked }).await {
            Ok(Answer::Reply(completion)) => Ok(completion),
            Ok(Answer::NoReply { class, message }) => Err(BackendError::new(class, message)),
            Ok(Answer::Output(_) | Answer::NoOutput(_)) => {
                Err(BackendError::new(ErrorClass::BadReply, "the broker answered something else"))
            }
            Err(error) => Err(BackendError::new(ErrorClass::Network, error.message())),
        }
    }
}

/// Programs run in a sandbox of their own, which only the parent can make.
#[derive(Debug)]
struct AskedFor(Arc<Link>);

#[async_trait]
impl ProgramRunner for AskedFor {
    async fn run(&self, name: &str, program: &Arc<[u8]>, input: Vec<u8>, timeout: Duration) -> Result<Vec<u8>> {
        let (name, program) = (name.to_owned(), sha256(program));
        let input = String::from_utf8(input).map_err(|_| Error::internal("a call is text"))?;
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        match self.0.ask(|id| FromWorker::Program { id, name, program, input, millis }).await? {
            Answer::Output(written) => Ok(written.into_bytes()),
            Answer::NoOutput(why) => Err(Error::unavailable(why)),
            Answer::Reply(_) | Answer::NoReply { .. } => Err(Error::internal("the parent answered something else")),
        }
    }
}

/// The runtime, once more.
struct EvalWorker {
    brain: BrainId,
    layout: Layout,
    patch: Option<Patch>,
    harness: Harness,
    toolbox: Toolbox,
    speaker: Arc<dyn Backend>,
    switchboard: SwitchableBackend,
    identity: (String, String),
}

impl EvalWorker {
    async fn prepare(setup: Setup, toolbox: Toolbox, link: &Arc<Link>) -> Result<Self> {
        let Setup { brain, patch, speaker, backend } = setup;
        let patch = patch.map(|file| Patch::parse(file.as_bytes())).transpose()?;
        // An identity of its own, made here, never written down, wiped when it is dropped.
        let signer = Signer::generate(&SystemRandom)?;
        let layout = Layout::new(BRAINS);
        let (opened, id, witness, change) = (layout.clone(), brain.clone(), signer.clone(), patch.clone());
        let identity = tokio::task::spawn_blocking(move || {
            let opening =
                BrainOptions { signer: Some(Arc::new(witness)), on_drift: OnDrift::Refuse, ..BrainOptions::default() };
            let mut copy = Brain::open(&opened, &id, &opening)?;
            let before = apply::identity(&copy, None)?;
            let after = match &change {
                Some(patch) => apply::apply(&mut copy, patch, SkillWriter::Person, serde_json::Value::Null)?.identity.1,
                None => before.clone(),
            };
            copy.close()?;
            Ok::<_, Error>((before, after))
        })
        .await
        .map_err(|_| Error::internal("the patch was interrupted"))??;
        let speaker: Arc<dyn Backend> = match (speaker, backend) {
            (BackendChoice::Reflex, _) => Arc::new(Reflex),
            (BackendChoice::Brain, Some(face)) => Arc::new(Brokered { link: Arc::clone(link), face }),
            (BackendChoice::Brain, None) => {
                return Err(Error::unavailable("the brain has no backend that could speak through the broker"));
            }
        };
        let switchboard = SwitchableBackend::new(Arc::clone(&speaker));
        let harness = Harness::builder()
            .brains(BRAINS)
            .router(router(&layout, &brain, &switchboard)?)
            .toolbox(toolbox.clone())
            .permissions(Permissions { network: false, process: true })
            .programs(Arc::new(AskedFor(Arc::clone(link))))
            .signer(signer)
            .learning(false)
            .curating(None)
            .evolving(None)
            .build()?;
        Ok(Self { brain, layout, patch, harness, toolbox, speaker, switchboard, identity })
    }

    /// The receipts of tasks that can be replayed, newest first.
    fn tasks(&self) -> Result<Vec<u64>> {
        let reader = Reader::open(&self.layout, &self.brain)?;
        let mut tasks = Vec::new();
        for step in reader.history(MOST_STEPS)?.into_iter().filter(|step| step.kind == StepKind::Task) {
            if let Some(receipt) = reader.receipt_of(step.seq)?
                && step.version > 1
                && reader.transcript(step.seq)?.is_some()
            {
                tasks.push(receipt);
            }
        }
        Ok(tasks)
    }

    async fn carry_out(&self, order: ToWorker) -> Result<CaseResult> {
        let meter = Meter::begin();
        let result = match order {
            ToWorker::Task(task) => self.task(*task).await,
            ToWorker::Replay { seq, asked } => self.replay(seq, asked).await,
            ToWorker::Compress { part, session, seed } => self.compress(&part, session, seed).await,
            ToWorker::Curate { part, life, seed } => self.curate(&part, life, seed),
            ToWorker::Calls(part) => self.calls(part).await,
            ToWorker::Setup(_) | ToWorker::Answer { .. } => Err(Error::invalid("that is not a case")),
        };
        let (micros, memory_bytes) = meter.end();
        let result = result?;
        // Making the patch a step is no part of the case.
        let cpu_micros = Some(micros.saturating_sub(result.patching_micros));
        Ok(CaseResult { cpu_micros, memory_bytes, ..result })
    }

    async fn task(&self, written: WrittenTask) -> Result<CaseResult> {
        let speaker: Arc<dyn Backend> = match written.replies {
            Some(replies) => Arc::new(ScriptedBackend::new(replies)),
            None => Arc::clone(&self.speaker),
        };
        self.switchboard.connect(speaker);
        let limits = written.limits.unwrap_or_default();
        let task = Task { limits, keep: SettleMode::DryRun, ..Task::new(written.input) };
        let outcome = self.harness.run(&self.brain, task).await?;
        let (context_bytes, asked) = self.switchboard.heard();
        Ok(CaseResult { context_bytes: Some(context_bytes), asked, ..result_of(outcome) })
    }

    async fn replay(&self, seq: u64, asked: Option<Vec<String>>) -> Result<CaseResult> {
        let (patch, patching) = (self.patch.clone(), Arc::new(AtomicU64::new(0)));
        let took = Arc::clone(&patching);
        let change = move |brain: &mut Brain| {
            let began = processor_micros();
            let changed = match &patch {
                Some(patch) => apply::apply(brain, patch, SkillWriter::Person, serde_json::Value::Null).map(drop),
                None => Ok(()),
            };
            took.store(processor_micros().saturating_sub(began), Ordering::Relaxed);
            changed
        };
        let mut record = None;
        // The record of the brain as it was, not of the clone's: the patch is applied to the state before the task.
        let finished =
            harness::rerun(&self.layout, &self.brain, seq, &self.toolbox, SCRATCH.as_ref(), change, |transcript| {
                let speaker = Arc::new(FromRecord::new(transcript, asked, Arc::clone(&self.speaker)));
                record = Some(Arc::clone(&speaker));
                self.switchboard.connect(speaker);
                Arc::new(self.switchboard.clone())
            })
            .await?;
        let (context_bytes, asked) = self.switchboard.heard();
        Ok(CaseResult {
            status: Some(finished.stop.reason.status()),
            answer: finished.stop.answer,
            message: finished.stop.message,
            turns: Some(finished.turns),
            calls: Some(finished.calls),
            tokens: Some(finished.usage.total_tokens()),
            context_bytes: Some(context_bytes),
            asked,
            recorded: record.map_or(0, |record| record.used()),
            patching_micros: patching.load(Ordering::Relaxed),
            ..CaseResult::default()
        })
    }

    async fn compress(&self, part: &EvaluationPart, session: u32, seed: u64) -> Result<CaseResult> {
        let EvaluationPart::Compress { results, result_bytes, context_bytes, .. } = part else {
            return Err(Error::invalid("that part does not compress"));
        };
        let tuning = Reader::open(&self.layout, &self.brain)?.tuning()?;
        let generated = context::generate(seed, session, *results, *result_bytes);
        let left = context::run(&generated, &tuning, *context_bytes);
        Ok(CaseResult {
            turns: Some(left.turns),
            context_bytes: Some(left.context_bytes),
            kept_facts: Some(left.kept_facts),
            ..CaseResult::default()
        })
    }

    fn curate(&self, part: &EvaluationPart, life: u32, seed: u64) -> Result<CaseResult> {
        let EvaluationPart::Curate { skills, .. } = part else {
            return Err(Error::invalid("that part retires no skills"));
        };
        let tuning = Reader::open(&self.layout, &self.brain)?.tuning()?;
        let policy = CuratorPolicy::default().tuned(&tuning)?;
        let retired = curation::curate(&curation::generate(seed, life, *skills)?, policy);
        Ok(CaseResult {
            retired_used: Some(retired.used_again),
            dead_kept: Some(retired.dead_kept),
            ..CaseResult::default()
        })
    }

    async fn calls(&self, part: EvaluationPart) -> Result<CaseResult> {
        let EvaluationPart::Calls { tool, args, input, calls, at_once, .. } = part else {
            return Err(Error::invalid("that part makes no calls"));
        };
        let many = harness::ManyCalls { tool, args, input, calls, at_once };
        let (records, p99) = self.harness.call_many(&self.brain, many).await?;
        let latency_p99_micros = Some(u64::try_from(p99.as_micros()).unwrap_or(u64::MAX));
        Ok(CaseResult { calls: Some(records), latency_p99_micros, ..CaseResult::default() })
    }
}

/// Every name that the brain could ask for leads to the switchboard.
fn router(layout: &Layout, brain: &BrainId, switchboard: &SwitchableBackend) -> Result<Router> {
    let reader = Reader::open(layout, brain)?;
    let manifest = reader.manifest()?.and_then(|manifest| manifest.backend);
    let mut router = Router::single(Arc::new(switchboard.clone()));
    for name in manifest.into_iter().chain(reader.tuning()?.backend) {
        router = router.backend(&name, Arc::new(switchboard.clone()));
    }
    Ok(router)
}

fn result_of(outcome: Outcome) -> CaseResult {
    CaseResult {
        status: Some(outcome.status),
        answer: outcome.answer,
        message: outcome.message,
        turns: Some(outcome.turns),
        calls: Some(outcome.calls),
        tokens: Some(outcome.usage.total_tokens()),
        ..CaseResult::default()
    }
}
