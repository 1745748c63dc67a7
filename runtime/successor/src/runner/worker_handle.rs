//! One side of a comparison: a worker in its sandbox, and the conversation with it. Whatever the worker says is
//! bounded, checked, and never a judgement.

use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herm_sandbox::{
    ExitReason, ResourceUsage, SandboxExit, SandboxLease, SandboxProcess, SandboxProgram, SandboxSpec, SpawnError,
    SpawnReport,
};
use tokio::sync::watch;

use crate::backend::{BackendError, ErrorClass};
use crate::broker::Broker;
use crate::budget::SuccessorBudget;
use crate::eval_worker::worker;
use crate::fork::ProgramsByDigest;
use crate::measure::EvaluationArm;
use crate::runner::conversation::{Broken, Responder, converse};
use crate::text;
use crate::tool::SandboxedPrograms;
use crate::wire::{self, Answer, FromWorker, ToWorker};

/// How long one call of a program may take.
const LONGEST_PROGRAM: Duration = Duration::from_secs(10);

/// Why an evaluation ended without a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// The reason of the verdict: `worker_died`, `budget_wall`, …
    pub(crate) reason: String,
    /// What happened, in one sentence for the summary.
    pub(crate) sentence: String,
}

impl Rejection {
    pub(crate) fn new(reason: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { reason: reason.into(), sentence: sentence.into() }
    }

    pub(crate) fn of_refusal(refusal: &SpawnError) -> Self {
        let reason = match refusal {
            SpawnError::Escaped { .. } => "sandbox_escaped",
            SpawnError::NotRegistered
            | SpawnError::Unavailable { .. }
            | SpawnError::Invalid { .. }
            | SpawnError::Setup { .. } => "sandbox_unavailable",
        };
        Self::new(reason, format!("No sandbox: {} ({}).", refusal.message(), refusal.hint()))
    }

    fn of_ending(arm: EvaluationArm, ending: &SandboxExit) -> Self {
        let side = arm.name();
        match &ending.how {
            ExitReason::Exceeded { budget, limit, used } => Self::new(
                format!("budget_{}", budget.name()),
                format!("The {side} side crossed its budget of {limit} {} ({used} were used).", budget.unit()),
            ),
            ExitReason::Exited(code) => Self::new("worker_died", format!("The {side} worker left with code {code}.")),
            ExitReason::Signalled(signal) => {
                Self::new("worker_died", format!("The {side} worker was ended by signal {signal}."))
            }
            ExitReason::Killed => Self::new("worker_died", format!("The {side} worker was ended.")),
            ExitReason::Broken(why) => Self::new("sandbox_broken", format!("The {side} sandbox broke: {why}.")),
        }
    }
}

/// What the parent does for its workers.
pub(crate) struct ParentServices<'a> {
    /// Who answers the baseline, and who the patched side: a patch may bring another backend.
    pub(crate) brokers: [Option<Arc<Broker>>; 2],
    /// Runs programs for workers, each in a sandbox of its own.
    pub(crate) sandboxes: &'a SandboxedPrograms,
    /// The programs of the patch and of the brain, by their SHA-256. No other is run.
    pub(crate) programs: ProgramsByDigest,
    pub(crate) runtime: tokio::runtime::Handle,
    /// When the evaluation has to be over.
    pub(crate) until: Instant,
}

impl ParentServices<'_> {
    fn broker(&self, arm: EvaluationArm) -> Option<&Arc<Broker>> {
        self.brokers[usize::from(arm == EvaluationArm::Patched)].as_ref()
    }

    /// Whether a question of this side was refused for want of money.
    fn is_spent(&self, arm: EvaluationArm) -> bool {
        self.broker(arm).is_some_and(|broker| broker.balance().refused)
    }

    /// What was spent on models; both sides have one purse.
    pub(crate) fn micro_usd(&self) -> u64 {
        self.brokers.iter().flatten().next().map_or(0, |broker| broker.balance().spent)
    }
}

/// A worker in its sandbox.
pub(crate) struct WorkerHandle {
    pub(crate) arm: EvaluationArm,
    pub(crate) report: SpawnReport,
    running: Option<SandboxProcess>,
    stream: Option<UnixStream>,
    ending: Option<SandboxExit>,
    /// What programs used that ran for this side since the last order.
    programs: ResourceUsage,
}

impl WorkerHandle {
    /// Starts a worker on the copy of the brain in a lease.
    pub(crate) fn spawn(arm: EvaluationArm, lease: &SandboxLease, budget: &SuccessorBudget) -> Result<Self, Rejection> {
        let (ours, theirs) = UnixStream::pair()
            .map_err(|source| Rejection::new("sandbox_unavailable", format!("No socket can be made: {source}.")))?;
        let mut spec = SandboxSpec::new(SandboxProgram::CurrentExe, lease);
        spec.limits = limits(budget);
        spec.args = vec![worker::ARGUMENT.to_owned(), worker::blocking_threads(spec.limits.processes).to_string()];
        spec.channel = Some(theirs.into());
        let running = herm_sandbox::spawn(spec).map_err(|refusal| Rejection::of_refusal(&refusal))?;
        let report = running.report.clone();
        Ok(Self {
            arm,
            report,
            running: Some(running),
            stream: Some(ours),
            ending: None,
            programs: ResourceUsage::default(),
        })
    }

    /// Gives an order, answers what the worker asks meanwhile, and returns what came of it.
    pub(crate) fn order(&mut self, order: &ToWorker, around: &ParentServices<'_>) -> Result<FromWorker, Rejection> {
        let arm = self.arm;
        self.programs = ResourceUsage::default();
        let Some(stream) = &self.stream else { return Err(self.gone()) };
        let answers = Answers { around, arm, programs: Mutex::default() };
        let said = converse(stream, order, &answers);
        self.programs = answers.programs.into_inner().unwrap_or_else(PoisonError::into_inner);
        if around.is_spent(arm) {
            self.end();
            return Err(Rejection::new("budget_money", "The money for models was used up."));
        }
        match said {
            // A program that was ended at the wall has no answer, and the case that waited for it is late as well.
            Ok(_) if Instant::now() >= around.until => {
                self.end();
                Err(Rejection::new("budget_wall", format!("The time was up while the {} side worked.", arm.name())))
            }
            Ok(said) => Ok(said),
            Err(Broken::Gone) => Err(self.gone()),
            Err(Broken::NoThread(why)) => {
                self.end();
                Err(Rejection::new("sandbox_broken", format!("No thread can be started to answer the worker: {why}.")))
            }
            Err(Broken::Forged(why)) => {
                self.end();
                let sentence = format!("The {} worker said something that no worker says: {why}.", arm.name());
                Err(Rejection::new("worker_forged", sentence))
            }
        }
    }

    /// What programs used since the last order.
    pub(crate) fn programs(&self) -> &ResourceUsage {
        &self.programs
    }

    /// The worker is gone: why?
    fn gone(&mut self) -> Rejection {
        self.end();
        match &self.ending {
            Some(ending) => Rejection::of_ending(self.arm, ending),
            None => Rejection::new("worker_died", format!("The {} worker is gone.", self.arm.name())),
        }
    }

    /// Lets the worker leave, and waits until nothing of it is left.
    pub(crate) fn shut_down(&mut self) -> Result<ResourceUsage, Rejection> {
        drop(self.stream.take());
        if let Some(running) = self.running.take() {
            self.ending = Some(running.wait());
        }
        match &self.ending {
            Some(SandboxExit { how: ExitReason::Exited(0), used, .. }) => Ok(used.clone()),
            Some(ending) => Err(Rejection::of_ending(self.arm, ending)),
            None => Err(Rejection::new("worker_died", "A worker is gone.")),
        }
    }

    /// Ends the worker now.
    pub(crate) fn end(&mut self) {
        drop(self.stream.take());
        if let Some(running) = self.running.take() {
            // What ended by itself keeps its own end.
            running.killer().kill();
            self.ending = Some(running.wait());
        }
    }

    /// What it used, once it has ended.
    pub(crate) fn used(&self) -> ResourceUsage {
        self.ending.as_ref().map(|ending| ending.used.clone()).unwrap_or_default()
    }
}

/// What one side may take of a budget: both live at the same time and share it.
pub(crate) fn limits(budget: &SuccessorBudget) -> herm_sandbox::SandboxLimits {
    herm_sandbox::SandboxLimits {
        wall: Duration::from_secs(budget.wall_secs),
        cpu_percent: (budget.cpu_percent / 2).max(5),
        memory: budget.memory_bytes / 2,
        processes: budget.processes / 2,
        disk: budget.disk_bytes / 2,
        files: budget.files / 2,
        ..herm_sandbox::SandboxLimits::default()
    }
}

/// Who answers the worker of one side, and what its programs used.
struct Answers<'a> {
    around: &'a ParentServices<'a>,
    arm: EvaluationArm,
    programs: Mutex<ResourceUsage>,
}

impl Responder for Answers<'_> {
    fn reply(&self, ask: wire::WireAsk, mut over: watch::Receiver<bool>) -> Option<Answer> {
        let refused = |why: &str| Some(Err(BackendError::new(ErrorClass::BadRequest, why)).into());
        let Some(broker) = self.around.broker(self.arm) else {
            return refused("no backend speaks in this evaluation");
        };
        let Some(ask) = ask.into_ask() else { return refused("no session asks that") };
        let answer = self.around.runtime.block_on(async {
            tokio::select! {
                // Once it is over nobody is asked any more.
                biased;
                _ = over.wait_for(|over| *over) => {
                    Answer::NoReply { class: ErrorClass::Timeout, message: "it is over".to_owned() }
                }
                replied = broker.ask(&ask) => replied.into(),
            }
        });
        // A worker that asks for more than there is gets no more answers: it is ended now, not when it has done.
        Some(answer).filter(|_| !self.around.is_spent(self.arm))
    }

    fn program(&self, name: &str, program: &str, input: String, millis: u64) -> Answer {
        let none = |why: &str| Answer::NoOutput(why.to_owned());
        let Some(program) = self.around.programs.get(program) else { return none("there is no such program") };
        // The wall of the evaluation holds while its programs run, too.
        let left = self.around.until.saturating_duration_since(Instant::now());
        let timeout = Duration::from_millis(millis).min(LONGEST_PROGRAM).min(left);
        if timeout.is_zero() {
            return none("no time is left");
        }
        let (ran, used) = self.around.sandboxes.run_now(name, program, input.as_bytes(), timeout);
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.cpu += used.cpu;
        programs.memory_peak = programs.memory_peak.max(used.memory_peak);
        programs.disk_peak = programs.disk_peak.max(used.disk_peak);
        programs.processes_peak = programs.processes_peak.max(used.processes_peak);
        match ran {
            Ok(written) => Answer::Output(String::from_utf8_lossy(&written).into_owned()),
            Err(error) => Answer::NoOutput(text::line(error.message(), 500)),
        }
    }
}
