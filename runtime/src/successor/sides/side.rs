//! One side of a comparison: a worker in its sandbox, and the conversation with it. Whatever the worker says is
//! bounded, checked, and never a judgement.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herm_sandbox::{Ending, How, Lease, Program, Refusal, Running, SpawnReport, Spec, Used};

use crate::backend::{BackendError, ErrorClass};
use crate::successor::broker::Broker;
use crate::successor::budget::Budget;
use crate::successor::fork::ProgramsByDigest;
use crate::successor::inside::worker;
use crate::successor::measure::Arm;
use crate::successor::wire::{self, Answer, FromWorker, ToWorker};
use crate::text;
use crate::tool::Sandboxed;

/// How long one call of a program may take.
const LONGEST_PROGRAM: Duration = Duration::from_secs(10);

/// Why an evaluation ended without a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::successor) struct Rejection {
    /// The stable name.
    pub(in crate::successor) reason: String,
    /// The sentence.
    pub(in crate::successor) sentence: String,
}

impl Rejection {
    pub(in crate::successor) fn new(reason: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { reason: reason.into(), sentence: sentence.into() }
    }

    pub(in crate::successor) fn of_refusal(refusal: &Refusal) -> Self {
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

/// What the parent does for its workers.
pub(in crate::successor) struct Around<'a> {
    /// Who answers the baseline, and who the patched side: a patch may bring another backend.
    pub(in crate::successor) brokers: [Option<Arc<Broker>>; 2],
    /// Who runs programs.
    pub(in crate::successor) sandboxes: &'a Sandboxed,
    /// The programs of the patch and of the brain, by their SHA-256. No other is run.
    pub(in crate::successor) programs: ProgramsByDigest,
    pub(in crate::successor) runtime: tokio::runtime::Handle,
    /// When the evaluation has to be over.
    pub(in crate::successor) until: Instant,
}

impl Around<'_> {
    fn broker(&self, arm: Arm) -> Option<&Arc<Broker>> {
        self.brokers[usize::from(arm == Arm::Patched)].as_ref()
    }

    /// Whether a question of this side was refused for want of money.
    fn is_spent(&self, arm: Arm) -> bool {
        self.broker(arm).is_some_and(|broker| broker.purse().refused)
    }

    /// What was spent on models; both sides have one purse.
    pub(in crate::successor) fn micro_usd(&self) -> u64 {
        self.brokers.iter().flatten().next().map_or(0, |broker| broker.purse().spent)
    }
}

/// A worker in its sandbox.
pub(in crate::successor) struct Side {
    pub(in crate::successor) arm: Arm,
    pub(in crate::successor) report: SpawnReport,
    running: Option<Running>,
    stream: Option<UnixStream>,
    ending: Option<Ending>,
    /// What programs used that ran for this side since the last order.
    programs: Used,
}

impl Side {
    /// Starts a worker on the copy of the brain in a lease.
    pub(in crate::successor) fn spawn(arm: Arm, lease: &Lease, budget: &Budget) -> Result<Self, Rejection> {
        let (ours, theirs) = UnixStream::pair()
            .map_err(|source| Rejection::new("sandbox_unavailable", format!("No socket can be made: {source}.")))?;
        let mut spec = Spec::new(Program::Ourselves, lease);
        spec.args = vec![worker::ARGUMENT.to_owned()];
        spec.channel = Some(theirs.into());
        spec.limits = limits(budget);
        let running = herm_sandbox::spawn(spec).map_err(|refusal| Rejection::of_refusal(&refusal))?;
        let report = running.report.clone();
        Ok(Self { arm, report, running: Some(running), stream: Some(ours), ending: None, programs: Used::default() })
    }

    /// Gives an order, answers what the worker asks meanwhile, and returns what came of it.
    pub(in crate::successor) fn order(
        &mut self,
        order: &ToWorker,
        around: &Around<'_>,
    ) -> Result<FromWorker, Rejection> {
        let arm = self.arm;
        self.programs = Used::default();
        let Some(stream) = self.stream.as_mut() else { return Err(self.gone()) };
        let mut programs = Used::default();
        let said = converse(stream, order, |asked| match asked {
            // Whoever wants more than there is gets no more answers: it is ended now, not when it has done.
            Asked::Reply(ask) => Some(reply(around, arm, ask)).filter(|_| !around.is_spent(arm)),
            Asked::Program { name, program, input, millis } => {
                let (answer, used) = output(around, &name, &program, input, millis);
                programs.cpu += used.cpu;
                programs.memory_peak = programs.memory_peak.max(used.memory_peak);
                programs.disk_peak = programs.disk_peak.max(used.disk_peak);
                programs.processes_peak = programs.processes_peak.max(used.processes_peak);
                Some(answer)
            }
        });
        self.programs = programs;
        if around.is_spent(arm) {
            self.end();
            return Err(Rejection::new("budget_money", "The money for models was used up."));
        }
        match said {
            Ok(said) => Ok(said),
            Err(Broken::Gone) => Err(self.gone()),
            Err(Broken::Forged(why)) => {
                self.end();
                let sentence = format!("The {} worker said something that no worker says: {why}.", arm.name());
                Err(Rejection::new("worker_forged", sentence))
            }
        }
    }

    /// What programs used since the last order.
    pub(in crate::successor) fn programs(&self) -> &Used {
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
    pub(in crate::successor) fn leave(&mut self) -> Result<Used, Rejection> {
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
    pub(in crate::successor) fn end(&mut self) {
        drop(self.stream.take());
        if let Some(running) = self.running.take() {
            // What ended by itself keeps its own end.
            running.killer().kill();
            self.ending = Some(running.wait());
        }
    }

    /// What it used, once it has ended.
    pub(in crate::successor) fn used(&self) -> Used {
        self.ending.as_ref().map(|ending| ending.used.clone()).unwrap_or_default()
    }
}

/// What one side may take of a budget: both live at the same time and share it.
pub(in crate::successor) fn limits(budget: &Budget) -> herm_sandbox::Limits {
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

/// Why a conversation with a worker ended before its answer.
#[derive(Debug, PartialEq, Eq)]
enum Broken {
    /// The socket closed, or nobody speaks with it any more.
    Gone,
    /// It said what no worker says.
    Forged(String),
}

/// What a worker asks for.
enum Asked {
    Reply(wire::WireAsk),
    Program { name: String, program: String, input: String, millis: u64 },
}

/// Sends an order and answers questions until the worker says what came of it, or one is not answered.
fn converse(
    stream: &mut (impl Read + Write),
    order: &ToWorker,
    mut answer: impl FnMut(Asked) -> Option<Answer>,
) -> Result<FromWorker, Broken> {
    wire::send(stream, order).map_err(|_| Broken::Gone)?;
    loop {
        let frame = match wire::receive::<FromWorker>(stream) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(Broken::Gone),
            Err(error) => {
                return match error.kind() {
                    std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                        Err(Broken::Forged(text::line(&error.to_string(), 200)))
                    }
                    _ => Err(Broken::Gone),
                };
            }
        };
        let (id, asked) = match frame {
            FromWorker::Ask { id, ask } => (id, Asked::Reply(ask)),
            FromWorker::Program { id, name, program, input, millis } => {
                (id, Asked::Program { name, program, input, millis })
            }
            done => return Ok(done),
        };
        let answer = answer(asked).ok_or(Broken::Gone)?;
        wire::send(stream, &ToWorker::Answer { id, answer }).map_err(|_| Broken::Gone)?;
    }
}

fn reply(around: &Around<'_>, arm: Arm, ask: wire::WireAsk) -> Answer {
    let refused = |why: &str| Err(BackendError::new(ErrorClass::BadRequest, why)).into();
    let Some(broker) = around.broker(arm) else { return refused("no backend speaks in this evaluation") };
    let Some(ask) = ask.into_ask() else { return refused("no session asks that") };
    around.runtime.block_on(broker.ask(&ask)).into()
}

fn output(around: &Around<'_>, name: &str, program: &str, input: String, millis: u64) -> (Answer, Used) {
    let none = |why: &str| (Answer::NoOutput(why.to_owned()), Used::default());
    let Some(program) = around.programs.get(program) else { return none("there is no such program") };
    // The wall of the evaluation holds while its programs run, too.
    let left = around.until.saturating_duration_since(Instant::now());
    let timeout = Duration::from_millis(millis).min(LONGEST_PROGRAM).min(left);
    if timeout.is_zero() {
        return none("no time is left");
    }
    let (ran, used) = around.sandboxes.run_now(name, program, input.as_bytes(), timeout);
    let answer = match ran {
        Ok(written) => Answer::Output(String::from_utf8_lossy(&written).into_owned()),
        Err(error) => Answer::NoOutput(text::line(error.message(), 500)),
    };
    (answer, used)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that says these bytes and leaves.
    fn hearing(bytes: &[u8]) -> Result<FromWorker, Broken> {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let order = ToWorker::Replay { seq: 1, asked: None };
        converse(&mut ours, &order, |_| Some(Answer::NoOutput("nobody".to_owned())))
    }

    fn framed(body: &str) -> Vec<u8> {
        [(body.len() as u32).to_le_bytes().as_slice(), body.as_bytes()].concat()
    }

    #[test]
    fn a_worker_that_leaves_is_gone_and_one_that_lies_is_found_out() {
        assert_eq!(hearing(b"").unwrap_err(), Broken::Gone);
        assert_eq!(hearing(&framed("{}")[..4]).unwrap_err(), Broken::Gone);
        for forged in [framed("APPROVE"), framed("{\"Verdict\":\"APPROVE\"}"), framed("{\"Done\":"), vec![255; 8]] {
            assert!(matches!(hearing(&forged), Err(Broken::Forged(_))), "{forged:?}");
        }
    }

    #[test]
    fn questions_are_answered_until_it_says_what_came_of_it() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut inside = theirs;
        let worker = std::thread::spawn(move || {
            let _: Option<ToWorker> = wire::receive(&mut inside).unwrap();
            for id in 0..3 {
                let (name, program, input) = ("count".to_owned(), "0".repeat(64), String::new());
                wire::send(&mut inside, &FromWorker::Program { id, name, program, input, millis: 1 }).unwrap();
                let answer: Option<ToWorker> = wire::receive(&mut inside).unwrap();
                assert!(matches!(answer, Some(ToWorker::Answer { id: answered, .. }) if answered == id));
            }
            wire::send(&mut inside, &FromWorker::Failed("that is all".to_owned())).unwrap();
        });
        let mut asked = 0;
        let said = converse(&mut ours, &ToWorker::Replay { seq: 1, asked: None }, |_| {
            asked += 1;
            Some(Answer::NoOutput("there is no such program".to_owned()))
        });
        worker.join().unwrap();
        assert!(matches!(said, Ok(FromWorker::Failed(why)) if why == "that is all"));
        assert_eq!(asked, 3);
    }
}
