//! One side of a comparison: a worker in its sandbox, and the conversation with it. Whatever the worker says is
//! bounded, checked, and never a judgement.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use herm_sandbox::{Ending, How, Lease, Program, Refusal, Running, SpawnReport, Spec, Used};

use super::broker::Broker;
use super::budget::Budget;
use super::measure::Arm;
use super::wire::{self, Answer, FromWorker, ToWorker};
use super::worker;
use crate::backend::{BackendError, ErrorClass};
use crate::text;
use crate::tool::{Programs as _, Sandboxed};

/// Why an evaluation ended without a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// The stable name.
    pub(super) reason: String,
    /// The sentence.
    pub(super) sentence: String,
}

impl Rejection {
    pub(super) fn new(reason: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { reason: reason.into(), sentence: sentence.into() }
    }

    pub(super) fn of_refusal(refusal: &Refusal) -> Self {
        let reason = match refusal {
            Refusal::Escaped { .. } => "sandbox_escaped",
            Refusal::NotRegistered | Refusal::Unavailable { .. } | Refusal::Invalid { .. } | Refusal::Setup { .. } => {
                "sandbox_unavailable"
            }
        };
        Self::new(reason, format!("No sandbox: {} ({}).", refusal.message(), refusal.hint()))
    }

    fn of_ending(arm: Arm, ending: &Ending) -> Self {
        let side = arm.name();
        match &ending.how {
            How::Exceeded { budget, limit, used } => Self::new(
                format!("budget_{}", budget.name()),
                format!("The {side} side crossed its budget of {limit} {} ({used} were used).", budget.unit()),
            ),
            How::Exited(code) => Self::new("worker_died", format!("The {side} worker left with code {code}.")),
            How::Signalled(signal) => {
                Self::new("worker_died", format!("The {side} worker was ended by signal {signal}."))
            }
            How::Killed => Self::new("worker_died", format!("The {side} worker was ended.")),
            How::Broken(why) => Self::new("sandbox_broken", format!("The {side} sandbox broke: {why}.")),
        }
    }
}

/// What parent and worker share.
pub(super) struct Around<'a> {
    pub(super) broker: Option<Arc<Broker>>,
    pub(super) programs: &'a Sandboxed,
    pub(super) runtime: tokio::runtime::Handle,
}

/// A worker in its sandbox.
pub(super) struct Side {
    pub(super) arm: Arm,
    pub(super) report: SpawnReport,
    running: Option<Running>,
    stream: Option<UnixStream>,
    ending: Option<Ending>,
}

impl Side {
    /// Starts a worker on the copy of the brain in a lease.
    pub(super) fn spawn(arm: Arm, lease: &Lease, budget: &Budget) -> Result<Self, Rejection> {
        let (ours, theirs) = UnixStream::pair()
            .map_err(|source| Rejection::new("sandbox_unavailable", format!("No socket can be made: {source}.")))?;
        let mut spec = Spec::new(Program::Ourselves, lease);
        spec.args = vec![worker::ARGUMENT.to_owned()];
        spec.channel = Some(theirs.into());
        spec.limits = limits(budget);
        let running = herm_sandbox::spawn(spec).map_err(|refusal| Rejection::of_refusal(&refusal))?;
        let report = running.report.clone();
        Ok(Self { arm, report, running: Some(running), stream: Some(ours), ending: None })
    }

    /// Gives an order, answers what the worker asks meanwhile, and returns what came of it.
    pub(super) fn order(&mut self, order: &ToWorker, around: &Around<'_>) -> Result<FromWorker, Rejection> {
        let arm = self.arm;
        let Some(stream) = self.stream.as_mut() else {
            return Err(Rejection::new("worker_died", format!("The {} worker is gone.", arm.name())));
        };
        if wire::send(stream, order).is_err() {
            return Err(self.gone());
        }
        loop {
            let frame = match self.stream.as_mut().map(wire::receive::<FromWorker>) {
                Some(Ok(Some(frame))) => frame,
                Some(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                    self.end();
                    return Err(Rejection::new(
                        "worker_forged",
                        format!("The {} worker said something that no worker says: {error}.", arm.name()),
                    ));
                }
                _ => return Err(self.gone()),
            };
            let (id, answer) = match frame {
                FromWorker::Ask { id, ask } => (id, reply(around, ask)),
                FromWorker::Program { id, name, program, input, millis } => {
                    (id, output(around, &name, &program, input, millis))
                }
                done => return Ok(done),
            };
            if around.broker.as_ref().is_some_and(|broker| broker.purse().refused) {
                self.end();
                return Err(Rejection::new("budget_money", "The money for models was used up."));
            }
            let answered = self.stream.as_mut().map(|stream| wire::send(stream, &ToWorker::Answer { id, answer }));
            if !matches!(answered, Some(Ok(()))) {
                return Err(self.gone());
            }
        }
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
    pub(super) fn leave(&mut self) -> Result<Used, Rejection> {
        drop(self.stream.take());
        if let Some(running) = self.running.take() {
            self.ending = Some(running.wait());
        }
        match &self.ending {
            Some(Ending { how: How::Exited(0), used, .. }) => Ok(used.clone()),
            Some(ending) => Err(Rejection::of_ending(self.arm, ending)),
            None => Err(Rejection::new("worker_died", "A worker is gone.")),
        }
    }

    /// Ends the worker now.
    pub(super) fn end(&mut self) {
        drop(self.stream.take());
        if let Some(running) = self.running.take() {
            // What ended by itself keeps its own end.
            running.killer().kill();
            self.ending = Some(running.wait());
        }
    }

    /// What it used, once it has ended.
    pub(super) fn used(&self) -> Used {
        self.ending.as_ref().map(|ending| ending.used.clone()).unwrap_or_default()
    }
}

/// What one side may take of a budget: both live at the same time and share it.
pub(super) fn limits(budget: &Budget) -> herm_sandbox::Limits {
    herm_sandbox::Limits {
        wall: Duration::from_secs(budget.wall_secs),
        cpu_percent: (budget.cpu_percent / 2).max(5),
        memory: budget.memory_bytes / 2,
        processes: budget.processes / 2,
        disk: budget.disk_bytes / 2,
        files: budget.files / 2,
        ..herm_sandbox::Limits::default()
    }
}

fn reply(around: &Around<'_>, ask: wire::WireAsk) -> Answer {
    let Some(broker) = &around.broker else {
        return Err(BackendError::new(ErrorClass::BadRequest, "no backend speaks in this evaluation")).into();
    };
    around.runtime.block_on(broker.ask(&ask.into_ask())).into()
}

fn output(around: &Around<'_>, name: &str, program: &str, input: String, millis: u64) -> Answer {
    let Ok(program) = STANDARD.decode(program) else { return Answer::NoOutput("the program is not base64".to_owned()) };
    let timeout = Duration::from_millis(millis.min(60_000));
    let ran = around.runtime.block_on(around.programs.run(name, &program.into(), input.into_bytes(), timeout));
    match ran {
        Ok(written) => Answer::Output(String::from_utf8_lossy(&written).into_owned()),
        Err(error) => Answer::NoOutput(text::line(error.message(), 500)),
    }
}
