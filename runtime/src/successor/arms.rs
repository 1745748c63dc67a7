//! Both sides of an evaluation, case by case: the same input to the baseline and to the patched clone, each in its own
//! sandbox, in alternating order.

use std::path::Path;
use std::time::{Duration, Instant};

use herm_sandbox::{Bind, How, Lease, Output, Program, Spec, Used};

use super::budget::{Budget, Spent};
use super::checking::Case;
use super::evaluation::{Check, Evaluation, Part};
use super::measure::{Arm, Checked, Sample};
use super::side::{Around, Rejection, Side, limits};
use super::verdict::Walls;
use super::wire::{CaseResult, FromWorker, Setup, ToWorker};

/// What both sides came to.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) samples: Vec<Sample>,
    pub(super) caveats: Vec<String>,
    /// Parts for which there is nothing to run.
    pub(super) empty: Vec<String>,
    pub(super) identity: Option<(String, String)>,
    pub(super) walls: Walls,
    pub(super) spent: Spent,
    pub(super) rejected: Option<Rejection>,
}

/// An evaluation about to run.
pub(super) struct Arms<'a> {
    pub(super) evaluation: &'a Evaluation,
    /// What each side works on; only the patched one has a patch.
    pub(super) setups: [Setup; 2],
    pub(super) leases: &'a [Lease; 2],
    pub(super) budget: &'a Budget,
    pub(super) around: Around<'a>,
    /// Where output of commands goes.
    pub(super) outputs: &'a Path,
}

impl Arms<'_> {
    /// Runs everything. Blocks.
    pub(super) fn run(self) -> Run {
        let began = Instant::now();
        let mut run = Run::default();
        let mut sides = Vec::new();
        let rejected = self.drive(&mut run, &mut sides, began).err();
        for side in &mut sides {
            // Nothing is left of a side that did not leave by itself.
            side.end();
            add(&mut run.spent, &side.used());
        }
        run.spent.wall_millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        run.spent.micro_usd = self.around.broker.as_ref().map_or(0, |broker| broker.purse().spent);
        run.rejected = rejected;
        run
    }

    fn drive(&self, run: &mut Run, sides: &mut Vec<Side>, began: Instant) -> Result<(), Rejection> {
        for (arm, lease) in Arm::BOTH.into_iter().zip(self.leases) {
            sides.push(Side::spawn(arm, lease, self.budget)?);
        }
        if let Some(side) = sides.last() {
            run.walls = walls(side);
        }
        let mut tasks = Vec::new();
        for (side, setup) in sides.iter_mut().zip(&self.setups) {
            let order = ToWorker::Setup(Box::new(setup.clone()));
            match side.order(&order, &self.around)? {
                FromWorker::Ready { identity, tasks: replayable } => {
                    run.identity = Some(identity);
                    // What can be replayed is decided by the baseline; the patch has no say in it.
                    if side.arm == Arm::Baseline {
                        tasks = replayable;
                    }
                }
                FromWorker::Refused(why) if side.arm == Arm::Patched => {
                    return Err(Rejection::new("patch_refused", format!("The patch cannot be applied: {why}.")));
                }
                FromWorker::Refused(why) | FromWorker::Failed(why) => {
                    return Err(Rejection::new("worker_failed", format!("The {} side: {why}.", side.arm.name())));
                }
                _ => return Err(Rejection::new("worker_forged", "A worker answered out of turn.")),
            }
        }
        for part in &self.evaluation.parts {
            self.part(part, &tasks, run, sides)?;
        }
        for side in sides.iter_mut() {
            side.leave()?;
        }
        for part in &self.evaluation.parts {
            if let Part::Command { name, argv, exit } = part {
                for repetition in 0..self.evaluation.repeat {
                    for arm in order(repetition) {
                        let case = Case { part: name, name: "command", repetition, arm };
                        self.command(case, argv, *exit, run, began)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn part(&self, part: &Part, tasks: &[u64], run: &mut Run, sides: &mut [Side]) -> Result<(), Rejection> {
        let seed = self.evaluation.seed;
        for repetition in 0..self.evaluation.repeat {
            match part {
                Part::Suite { name, tasks } => {
                    for (at, task) in (0..).zip(tasks) {
                        let case = Named { part: name, name: &task.name, repetition, turn: at };
                        self.pair(case, &task.checks, run, sides, |_| ToWorker::Task(Box::new(task.clone())))?;
                    }
                }
                Part::Replay { name, last } => {
                    let wanted = tasks.iter().take(*last as usize);
                    if wanted.len() == 0 && repetition == 0 {
                        run.caveats.push(format!("Part “{name}” was left out: the brain keeps no task to replay."));
                        run.empty.push(name.clone());
                    } else if repetition == 0 && wanted.len() < *last as usize {
                        run.caveats.push(format!(
                            "Part “{name}” replays {} of the {last} tasks asked for: no more are kept.",
                            wanted.len()
                        ));
                    }
                    for (at, seq) in (0..).zip(wanted) {
                        self.replay(
                            Named { part: name, name: &format!("receipt {seq}"), repetition, turn: at },
                            *seq,
                            run,
                            sides,
                        )?;
                    }
                }
                Part::Compress { name, sessions, .. } => {
                    for session in 0..*sessions {
                        let case = Named { part: name, name: &format!("session {session}"), repetition, turn: session };
                        self.pair(case, &[], run, sides, |_| ToWorker::Compress { part: part.clone(), session, seed })?;
                    }
                }
                Part::Calls { name, tool, .. } => {
                    let case = Named { part: name, name: tool, repetition, turn: 0 };
                    self.pair(case, &[], run, sides, |_| ToWorker::Calls(part.clone()))?;
                }
                // After the workers: it has the brain to itself.
                Part::Command { .. } => {}
            }
        }
        Ok(())
    }

    /// One case on both sides.
    fn pair(
        &self,
        named: Named<'_>,
        checks: &[Check],
        run: &mut Run,
        sides: &mut [Side],
        order_of: impl Fn(Arm) -> ToWorker,
    ) -> Result<(), Rejection> {
        for arm in order(named.repetition + named.turn) {
            self.one(named, arm, checks, run, sides, &order_of(arm))?;
        }
        Ok(())
    }

    /// A recorded task: the baseline comes first, for it says what was asked.
    fn replay(&self, named: Named<'_>, seq: u64, run: &mut Run, sides: &mut [Side]) -> Result<(), Rejection> {
        let before = self.one(named, Arm::Baseline, &[], run, sides, &ToWorker::Replay { seq, asked: None })?;
        let asked = before.map(|result| result.asked);
        self.one(named, Arm::Patched, &[], run, sides, &ToWorker::Replay { seq, asked })?;
        Ok(())
    }

    fn one(
        &self,
        named: Named<'_>,
        arm: Arm,
        checks: &[Check],
        run: &mut Run,
        sides: &mut [Side],
        order: &ToWorker,
    ) -> Result<Option<CaseResult>, Rejection> {
        let Some(side) = sides.iter_mut().find(|side| side.arm == arm) else {
            return Err(Rejection::new("worker_died", "A side is missing."));
        };
        let case = Case { part: named.part, name: named.name, repetition: named.repetition, arm };
        let began = Instant::now();
        match side.order(order, &self.around)? {
            FromWorker::Done(result) => {
                run.samples.push(case.ran(checks, &result, began.elapsed()));
                Ok(Some(*result))
            }
            FromWorker::Failed(why) => {
                run.samples.push(case.failed(checks, why));
                Ok(None)
            }
            _ => Err(Rejection::new("worker_forged", "A worker answered out of turn.")),
        }
    }

    /// A command in a sandbox of its own, on the brain its worker left.
    fn command(
        &self,
        case: Case<'_>,
        argv: &[String],
        exit: i32,
        run: &mut Run,
        began: Instant,
    ) -> Result<(), Rejection> {
        let lease = &self.leases[usize::from(case.arm == Arm::Patched)];
        let left = Duration::from_secs(self.budget.wall_secs).saturating_sub(began.elapsed());
        let program = argv.first().map(String::as_str).unwrap_or_default();
        let mut spec = Spec::new(Program::At(program.into()), lease);
        spec.args = argv.iter().skip(1).cloned().collect();
        spec.binds = Bind::system();
        spec.environment = vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("HERM_SEED".to_owned(), self.evaluation.seed.to_string()),
        ];
        spec.limits = herm_sandbox::Limits { wall: left, output: 1 << 20, ..limits(self.budget) };
        let said = self.outputs.join(format!("{}-{}-{}.txt", safe(case.part), case.repetition, case.arm.name()));
        match crate::fsio::create_output(&said) {
            Ok(file) => spec.stdout = Output::File(file),
            Err(error) => run.caveats.push(format!("Output of a command is not kept: {}", error.message())),
        }
        let running = herm_sandbox::spawn(spec).map_err(|refusal| Rejection::of_refusal(&refusal))?;
        let ending = running.wait();
        add(&mut run.spent, &ending.used);
        let result = CaseResult {
            cpu_micros: u64::try_from(ending.used.cpu.as_micros()).ok(),
            memory_bytes: Some(ending.used.memory_peak),
            ..CaseResult::default()
        };
        let found = match ending.how {
            How::Exited(code) if code == exit => None,
            How::Exited(code) => Some(format!("it left with {code}")),
            How::Signalled(signal) => Some(format!("signal {signal} ended it")),
            How::Exceeded { budget, limit, .. } => {
                return Err(Rejection::new(
                    format!("budget_{}", budget.name()),
                    format!(
                        "The command on the {} side crossed its budget of {limit} {}.",
                        case.arm.name(),
                        budget.unit()
                    ),
                ));
            }
            How::Killed | How::Broken(_) => {
                return Err(Rejection::new("sandbox_broken", "The sandbox of a command broke."));
            }
        };
        let mut sample = case.ran(&[], &result, ending.used.wall);
        let passed = found.is_none();
        sample.checks = vec![Checked { name: format!("it leaves with {exit}"), passed, found }];
        sample.metrics.insert(super::measure::Metric::Solved, f64::from(u8::from(passed)));
        run.samples.push(sample);
        Ok(())
    }
}

/// A case on no side yet.
#[derive(Debug, Clone, Copy)]
struct Named<'a> {
    part: &'a str,
    name: &'a str,
    repetition: u32,
    /// Decides who goes first.
    turn: u32,
}

/// Who goes first alternates, so that a machine that grows slower does not favour one side.
fn order(turn: u32) -> [Arm; 2] {
    if turn.is_multiple_of(2) { [Arm::Baseline, Arm::Patched] } else { [Arm::Patched, Arm::Baseline] }
}

fn walls(side: &Side) -> Walls {
    let report = &side.report;
    let on = report.layers.iter().filter(|layer| layer.on);
    Walls {
        tier: Some(report.tier.name().to_owned()),
        layers: on.map(|layer| format!("{:?} ({})", layer.layer, layer.detail)).collect(),
        canary: report.canary.iter().map(|probe| probe.probe.clone()).collect(),
    }
}

fn add(spent: &mut Spent, used: &Used) {
    spent.cpu_millis += u64::try_from(used.cpu.as_millis()).unwrap_or(u64::MAX);
    spent.disk_bytes += used.disk_peak;
    spent.memory_bytes += used.memory_peak;
    spent.processes += used.processes_peak;
    spent.files += used.files_peak;
}

/// A name as part of a file's name.
fn safe(name: &str) -> String {
    name.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
