//! Both sides of an evaluation, case by case: the same input to the baseline and to the patched clone, each in its own
//! sandbox, in alternating order.

use std::path::Path;
use std::time::{Duration, Instant};

use herm_sandbox::{Bind, ExitReason, OutputMode, ResourceUsage, SandboxLease, SandboxProgram, SandboxSpec};

use crate::budget::{SuccessorBudget, SuccessorUsage};
use crate::evaluation::{Evaluation, EvaluationCheck, EvaluationPart};
use crate::fork::Identities;
use crate::measure::{EvaluationArm, EvaluationSample, Metric, SampleCheck};
use crate::recent::Recent;
use crate::runner::checking::Case;
use crate::runner::worker_handle::{ParentServices, Rejection, WorkerHandle, limits};
use crate::task::TaskStatus;
use crate::text;
use crate::verdict::SandboxSummary;
use crate::wire::{CaseResult, FromWorker, Setup, ToWorker};

/// What both sides came to.
#[derive(Debug, Default)]
pub(crate) struct EvalResult {
    pub(crate) samples: Vec<EvaluationSample>,
    pub(crate) caveats: Vec<String>,
    /// Recorded tasks in which someone else than the record had to speak.
    pub(crate) diverged: u32,
    /// Parts for which there is nothing to run.
    pub(crate) empty: Vec<String>,
    pub(crate) walls: SandboxSummary,
    pub(crate) spent: SuccessorUsage,
    /// What programs used that ran for a worker, of both sides together.
    programs: ResourceUsage,
    /// What commands used, the largest of each.
    commands: SuccessorUsage,
    /// Outputs of commands that are kept, and their bytes.
    outputs: (u32, u64),
    pub(crate) rejected: Option<Rejection>,
}

/// The most outputs of commands that are kept, of both sides together.
const MOST_OUTPUTS: u32 = 128;
/// The most bytes of them.
const MOST_OUTPUT_BYTES: u64 = 32 << 20;

impl EvalResult {
    /// Something a reader should know, once.
    fn caveat(&mut self, sentence: String) {
        if !self.caveats.contains(&sentence) {
            self.caveats.push(sentence);
        }
    }
}

/// An evaluation about to run.
pub(crate) struct EvalRunner<'a> {
    pub(crate) evaluation: &'a Evaluation,
    /// What each side works on; only the patched one has a patch.
    pub(crate) setups: [Setup; 2],
    pub(crate) leases: &'a [SandboxLease; 2],
    pub(crate) budget: &'a SuccessorBudget,
    pub(crate) services: ParentServices<'a>,
    /// What the brain is without the patch and with it, as the parent knows; nothing where the patch cannot be applied.
    pub(crate) identity: &'a Identities,
    /// The tasks that the brain did as it is now: no others are replayed.
    pub(crate) recent: &'a Recent,
    /// Where output of commands goes.
    pub(crate) outputs: &'a Path,
}

impl EvalRunner<'_> {
    /// Runs every part on both sides, commands last. Blocks for as long as that takes.
    pub(crate) fn run(self) -> EvalResult {
        let began = Instant::now();
        let mut run = EvalResult::default();
        let mut sides = Vec::new();
        let rejected = self.drive(&mut run, &mut sides, began).err();
        for side in &mut sides {
            // Nothing is left of a side that did not leave by itself.
            side.end();
            // Both lived at the same time.
            run.spent.add_concurrent(&side.used());
        }
        // Programs ran while both sides lived, commands afterwards.
        run.spent.add_concurrent(&run.programs);
        let alone = run.commands;
        run.spent.after(&alone);
        run.spent.wall_millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        run.spent.micro_usd = self.services.micro_usd();
        // Each kept to its own share, and yet together they may have taken more.
        let beyond = run.spent.beyond(self.budget).map(|(name, unit, used, allowed)| {
            let sentence = format!("Both sides and their programs used {used} {unit}, and {allowed} were allowed.");
            Rejection::new(format!("budget_{name}"), sentence)
        });
        run.rejected = rejected.or(beyond);
        run
    }

    fn drive(&self, run: &mut EvalResult, sides: &mut Vec<WorkerHandle>, began: Instant) -> Result<(), Rejection> {
        for (arm, lease) in EvaluationArm::BOTH.into_iter().zip(self.leases) {
            sides.push(WorkerHandle::spawn(arm, lease, self.budget)?);
        }
        if let Some(side) = sides.last() {
            run.walls = walls(side);
        }
        let mut tasks = Vec::new();
        for (side, setup) in sides.iter_mut().zip(&self.setups) {
            let order = ToWorker::Setup(Box::new(setup.clone()));
            match side.order(&order, &self.services)? {
                FromWorker::Ready { identity, tasks: replayable } => {
                    let expected = match side.arm {
                        EvaluationArm::Baseline => (Some(&self.identity.0), Some(&self.identity.0)),
                        EvaluationArm::Patched => (Some(&self.identity.0), self.identity.1.as_ref()),
                    };
                    if (Some(&identity.0), Some(&identity.1)) != expected {
                        let sentence = format!("The {} worker has become something else.", side.arm.name());
                        return Err(Rejection::new("worker_forged", sentence));
                    }
                    // What can be replayed is decided by the baseline; the patch has no say in it.
                    if side.arm == EvaluationArm::Baseline {
                        let earlier;
                        (tasks, earlier) = self.recent.among(&replayable);
                        let has_replays =
                            self.evaluation.parts.iter().any(|part| matches!(part, EvaluationPart::Replay { .. }));
                        if earlier > 0 && has_replays {
                            run.caveat(format!(
                                "{earlier} tasks from before the brain was last changed are not replayed."
                            ));
                        }
                    }
                }
                FromWorker::Refused(why) if side.arm == EvaluationArm::Patched => {
                    let why = text::line(&why, 500);
                    return Err(Rejection::new("patch_refused", format!("The patch cannot be applied: {why}.")));
                }
                FromWorker::Refused(why) | FromWorker::Failed(why) => {
                    let why = text::line(&why, 500);
                    return Err(Rejection::new("worker_failed", format!("The {} side: {why}.", side.arm.name())));
                }
                _ => return Err(Rejection::new("worker_forged", "A worker answered out of turn.")),
            }
        }
        for part in &self.evaluation.parts {
            self.part(part, &tasks, run, sides)?;
        }
        for side in sides.iter_mut() {
            side.shut_down()?;
        }
        for part in &self.evaluation.parts {
            if let EvaluationPart::Command { name, argv, exit } = part {
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

    fn part(
        &self,
        part: &EvaluationPart,
        tasks: &[u64],
        run: &mut EvalResult,
        sides: &mut [WorkerHandle],
    ) -> Result<(), Rejection> {
        let seed = self.evaluation.seed;
        for repetition in 0..self.evaluation.repeat {
            match part {
                EvaluationPart::Suite { name, tasks } => {
                    for (at, task) in (0..).zip(tasks) {
                        let case = Named { part: name, name: &task.name, repetition, turn: at };
                        self.pair(case, &task.checks, run, sides, |_| ToWorker::Task(Box::new(task.clone())))?;
                    }
                }
                EvaluationPart::Replay { name, last } => {
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
                EvaluationPart::Compress { name, sessions, .. } => {
                    for session in 0..*sessions {
                        let case = Named { part: name, name: &format!("session {session}"), repetition, turn: session };
                        self.pair(case, &[], run, sides, |_| ToWorker::Compress { part: part.clone(), session, seed })?;
                    }
                }
                EvaluationPart::Curate { name, lives, .. } => {
                    for life in 0..*lives {
                        let case = Named { part: name, name: &format!("life {life}"), repetition, turn: life };
                        self.pair(case, &[], run, sides, |_| ToWorker::Curate { part: part.clone(), life, seed })?;
                    }
                }
                EvaluationPart::Calls { name, tool, .. } => {
                    let case = Named { part: name, name: tool, repetition, turn: 0 };
                    self.pair(case, &[], run, sides, |_| ToWorker::Calls(part.clone()))?;
                    succeeds_as_before(&mut run.samples);
                }
                // After the workers: it has the brain to itself.
                EvaluationPart::Command { .. } => {}
            }
        }
        Ok(())
    }

    /// One case on both sides.
    fn pair(
        &self,
        named: Named<'_>,
        checks: &[EvaluationCheck],
        run: &mut EvalResult,
        sides: &mut [WorkerHandle],
        order_of: impl Fn(EvaluationArm) -> ToWorker,
    ) -> Result<(), Rejection> {
        let mut ended = [None, None];
        for arm in order(named.repetition + named.turn) {
            let result = self.one(named, arm, checks, run, sides, &order_of(arm))?;
            ended[usize::from(arm == EvaluationArm::Patched)] = result.and_then(|result| result.status);
        }
        ends_as_before(&mut run.samples, ended);
        Ok(())
    }

    /// A recorded task: the baseline comes first, for it says what was asked.
    fn replay(
        &self,
        named: Named<'_>,
        seq: u64,
        run: &mut EvalResult,
        sides: &mut [WorkerHandle],
    ) -> Result<(), Rejection> {
        let before =
            self.one(named, EvaluationArm::Baseline, &[], run, sides, &ToWorker::Replay { seq, asked: None })?;
        let asked = before.as_ref().map(|result| result.asked.clone());
        let after = self.one(named, EvaluationArm::Patched, &[], run, sides, &ToWorker::Replay { seq, asked })?;
        let recorded = |result: &Option<CaseResult>| result.as_ref().map_or(0, |result| result.recorded);
        run.diverged += u32::from(recorded(&after) < recorded(&before));
        ends_as_before(&mut run.samples, [before, after].map(|result| result.and_then(|result| result.status)));
        Ok(())
    }

    fn one(
        &self,
        named: Named<'_>,
        arm: EvaluationArm,
        checks: &[EvaluationCheck],
        run: &mut EvalResult,
        sides: &mut [WorkerHandle],
        order: &ToWorker,
    ) -> Result<Option<CaseResult>, Rejection> {
        let Some(side) = sides.iter_mut().find(|side| side.arm == arm) else {
            return Err(Rejection::new("worker_died", "A side is missing."));
        };
        let case = Case { part: named.part, name: named.name, repetition: named.repetition, arm };
        let began = Instant::now();
        let said = side.order(order, &self.services);
        let programs = side.programs().clone();
        run.programs.cpu += programs.cpu;
        run.programs.memory_peak = run.programs.memory_peak.max(programs.memory_peak);
        run.programs.disk_peak = run.programs.disk_peak.max(programs.disk_peak);
        run.programs.processes_peak = run.programs.processes_peak.max(programs.processes_peak);
        match said? {
            FromWorker::Done(mut result) => {
                // What its programs took, a case took.
                let cpu = u64::try_from(programs.cpu.as_micros()).unwrap_or(u64::MAX);
                result.cpu_micros = result.cpu_micros.map(|micros| micros.saturating_add(cpu));
                result.memory_bytes = result.memory_bytes.map(|bytes| bytes.saturating_add(programs.memory_peak));
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
        run: &mut EvalResult,
        began: Instant,
    ) -> Result<(), Rejection> {
        let lease = &self.leases[usize::from(case.arm == EvaluationArm::Patched)];
        let left = Duration::from_secs(self.budget.wall_secs).saturating_sub(began.elapsed());
        if left.is_zero() {
            let sentence = "No time was left for the commands of the evaluation.";
            return Err(Rejection::new("budget_wall", sentence));
        }
        let program = argv.first().map(String::as_str).unwrap_or_default();
        let mut spec = SandboxSpec::new(SandboxProgram::At(program.into()), lease);
        spec.args = argv.iter().skip(1).cloned().collect();
        spec.binds = Bind::system();
        spec.environment = vec![
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("HERM_SEED".to_owned(), self.evaluation.seed.to_string()),
        ];
        spec.limits = herm_sandbox::SandboxLimits { wall: left, output: 1 << 20, ..limits(self.budget) };
        let said = self.outputs.join(format!("{}-{}-{}.txt", safe(case.part), case.repetition, case.arm.name()));
        if run.outputs.0 < MOST_OUTPUTS && run.outputs.1 < MOST_OUTPUT_BYTES {
            match crate::fsio::create_output(&said) {
                Ok(file) => spec.stdout = OutputMode::File(file),
                Err(error) => run.caveat(format!("Output of a command is not kept: {}", error.message())),
            }
        } else {
            run.caveat(format!(
                "Of what commands wrote, {MOST_OUTPUTS} outputs or {} MiB are kept.",
                MOST_OUTPUT_BYTES >> 20
            ));
        }
        let running = herm_sandbox::spawn(spec).map_err(|refusal| Rejection::of_refusal(&refusal))?;
        let ending = running.wait();
        run.commands.add_peaks(&ending.used);
        if let Ok(kept) = said.metadata() {
            run.outputs = (run.outputs.0 + 1, run.outputs.1 + kept.len());
        }
        let result = CaseResult {
            cpu_micros: u64::try_from(ending.used.cpu.as_micros()).ok(),
            memory_bytes: Some(ending.used.memory_peak),
            ..CaseResult::default()
        };
        let found = match ending.how {
            ExitReason::Exited(code) if code == exit => None,
            ExitReason::Exited(code) => Some(format!("it left with {code}")),
            ExitReason::Signalled(signal) => Some(format!("signal {signal} ended it")),
            ExitReason::Exceeded { budget, limit, .. } => {
                return Err(Rejection::new(
                    format!("budget_{}", budget.name()),
                    format!(
                        "The command on the {} side crossed its budget of {limit} {}.",
                        case.arm.name(),
                        budget.unit()
                    ),
                ));
            }
            ExitReason::Killed | ExitReason::Broken(_) => {
                return Err(Rejection::new("sandbox_broken", "The sandbox of a command broke."));
            }
        };
        let mut sample = case.ran(&[], &result, ending.used.wall);
        let passed = found.is_none();
        sample.checks = vec![SampleCheck { name: format!("it leaves with {exit}"), passed, found }];
        sample.metrics.insert(Metric::Solved, f64::from(u8::from(passed)));
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
fn order(turn: u32) -> [EvaluationArm; 2] {
    if turn.is_multiple_of(2) {
        [EvaluationArm::Baseline, EvaluationArm::Patched]
    } else {
        [EvaluationArm::Patched, EvaluationArm::Baseline]
    }
}

fn walls(side: &WorkerHandle) -> SandboxSummary {
    let report = &side.report;
    let on = report.layers.iter().filter(|layer| layer.on);
    SandboxSummary {
        tier: Some(report.tier.name().to_owned()),
        layers: on.map(|layer| format!("{:?} ({})", layer.layer, layer.detail)).collect(),
        canary: report.canary.iter().map(|probe| probe.probe.clone()).collect(),
    }
}

/// A task that ends worse with the patch than without has become worse, whatever it saved on the way: every case of a
/// task has this check, whether the evaluation asks for it or not.
fn ends_as_before(samples: &mut [EvaluationSample], ended: [Option<TaskStatus>; 2]) {
    let rank = |status| match status {
        TaskStatus::Converged => 0,
        TaskStatus::Incomplete => 1,
        TaskStatus::Failed => 2,
    };
    let [Some(before), Some(after)] = ended else { return };
    let found =
        (rank(after) > rank(before)).then(|| format!("it ended {}, and {} before", after.name(), before.name()));
    as_before(samples, "it ends as before", found.as_deref());
}

/// A tool that fails at once is fast: calls must not only return sooner, as many of them must succeed as before.
fn succeeds_as_before(samples: &mut [EvaluationSample]) {
    let failed = |arm| {
        let mut of_arm = samples.iter().rev().take(2).filter(|sample| sample.arm == arm);
        of_arm.find_map(|sample| sample.metrics.get(&Metric::ToolErrors).copied())
    };
    let (Some(before), Some(after)) = (failed(EvaluationArm::Baseline), failed(EvaluationArm::Patched)) else { return };
    let found = (after > before).then(|| format!("{after} calls failed, and {before} before"));
    as_before(samples, "as many calls succeed as before", found.as_deref());
}

/// A check of the last two samples that the baseline passes, and the patched side unless something was found.
fn as_before(samples: &mut [EvaluationSample], name: &str, found: Option<&str>) {
    let Some(at) = samples.len().checked_sub(2) else { return };
    for sample in samples.iter_mut().skip(at) {
        let found = found.filter(|_| sample.arm == EvaluationArm::Patched).map(str::to_owned);
        sample.checks.push(SampleCheck { name: name.to_owned(), passed: found.is_none(), found });
        let good = sample.checks.iter().filter(|check| check.passed).count() as f64;
        sample.metrics.insert(Metric::Solved, good / sample.checks.len() as f64);
    }
}

/// A name as part of a file's name.
fn safe(name: &str) -> String {
    name.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
