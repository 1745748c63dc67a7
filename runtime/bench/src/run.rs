//! Runs the arms: each learns from its tasks and is measured on others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use herm::backend::{Backend, Router, ScriptedBackend};
use herm::checks::{self, Check, CheckResult, MadeCall};
use herm::harness::{
    AnswerRater, CuratorOptions, EvolverOptions, FeedbackFrom, RehearsalCalls, RehearsalOptions, TaskFeedback,
};
use herm::memory::{Arm as ShownOrNot, OutcomeValue};
use herm::task::{LearningOptions, SettleMode};
use herm::tool::{Permissions, Tool, Toolbox};
use herm::{
    Brain, BrainId, BrainOptions, BrainSource, Error, Harness, Layout, Outcome, Reader, Result, RunOptions, Seed,
    StopReason, Task, TaskId, TaskLimits, TaskStatus, fsio,
};

use super::arms::BenchArm;
use super::calls::{self, HeardCall};
use super::demonstrations::Demonstration;
use super::family::Family;
use super::fixed::{SeededRandom, StepClock, task_id};
use super::servers;
use super::table::{ArmResult, BenchTable, FamilyResult, TaskResult};
use super::tasks::FamilyTask;

/// The brain of every arm: each has a directory of its own.
const BRAIN: &str = "1";
/// How long a task may take. A slow machine must not change the table.
const DEADLINE_SECS: u64 = 86_400;
/// So many tasks in a row that the backend did not answer end the measurement.
const MOST_UNANSWERED: usize = 3;

/// The learning tasks that a skill which is still on trial behind the learning half is rehearsed on, at most.
const REHEARSED: usize = 24;

/// What is measured, and how.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The ways to learn, in the order they are run.
    pub arms: Vec<BenchArm>,
    /// Only so many tasks to learn from.
    pub learn: Option<usize>,
    /// Only so many tasks to measure on.
    pub held_out: Option<usize>,
    /// Only so many of the demonstrations of a family.
    pub demonstrations: Option<usize>,
    /// Whether a learning arm is told which of its answers were good.
    pub labels: bool,
}

/// Runs every arm of every family. `say` hears what goes on: where it is, and a line for each arm that is done.
pub async fn run(
    families: &[Family],
    backend: &Arc<dyn Backend>,
    options: &BenchOptions,
    say: &mut (dyn FnMut(BenchProgress<'_>) + Send),
) -> Result<BenchTable> {
    let place = fsio::create_scratch("herm-bench")?;
    let measured = async {
        let mut results = Vec::new();
        for (at, family) in families.iter().enumerate() {
            let place = place.join(at.to_string());
            results.push(Measurement { family, backend, options, place }.family(say).await?);
        }
        Ok(BenchTable::new(backend.name(), options, results))
    };
    let measured = measured.await;
    fsio::remove_tree(&place)?;
    measured
}

/// What goes on in a run, as `say` hears it.
#[derive(Debug, Clone, Copy)]
pub enum BenchProgress<'a> {
    /// A task of an arm begins; `task` counts from 1.
    Task {
        /// The name of the family.
        family: &'a str,
        /// The way to learn.
        arm: BenchArm,
        /// Which half the task is of, in words for people.
        half: &'a str,
        /// The number of the task within its half.
        task: usize,
        /// How many tasks the half has.
        of: usize,
    },
    /// An arm is done.
    Arm {
        /// The name of the family.
        family: &'a str,
        /// The way to learn.
        arm: BenchArm,
        /// What came of the tasks to learn from.
        learned: &'a [TaskResult],
        /// What came of the held-out tasks.
        measured: &'a [TaskResult],
    },
}

struct Measurement<'a> {
    family: &'a Family,
    backend: &'a Arc<dyn Backend>,
    options: &'a BenchOptions,
    place: PathBuf,
}

impl Measurement<'_> {
    async fn family(&self, say: &mut (dyn FnMut(BenchProgress<'_>) + Send)) -> Result<FamilyResult> {
        let family = self.family;
        let mut arms = Vec::new();
        for arm in self.options.arms.iter().copied() {
            if arm.has_skill() && family.skill.is_none() {
                continue;
            }
            let result = self.arm(arm, say).await.map_err(|error| {
                let said = format!("{}, {}: {}", family.name, arm.title(), error.message());
                let hint = error.hint_text().map(str::to_owned);
                let error = Error::new(error.kind(), said).because(error);
                hint.into_iter().fold(error, Error::hint)
            })?;
            say(BenchProgress::Arm { family: &family.name, arm, learned: &result.learn, measured: &result.held_out });
            arms.push(result);
        }
        let said: BTreeSet<&String> = arms.iter().flat_map(|arm| &arm.remarks).collect();
        let remarks = family.remarks.iter().chain(said).cloned().collect();
        let shows = arms.iter().any(|result| result.arm.learns());
        let demonstrations = if shows { self.demonstrations().len() } else { 0 };
        Ok(FamilyResult {
            name: family.name.clone(),
            about: family.about.clone(),
            group: family.group.clone(),
            demonstrations,
            remarks,
            arms,
        })
    }

    /// The demonstrations that are given.
    fn demonstrations(&self) -> &[Demonstration] {
        first(&self.family.demonstrations, self.options.demonstrations)
    }

    /// Learns on the first half, then answers the second with what was learned and nothing new.
    async fn arm(&self, arm: BenchArm, say: &mut (dyn FnMut(BenchProgress<'_>) + Send)) -> Result<ArmResult> {
        let family = self.family;
        let id: BrainId = BRAIN.parse()?;
        let layout = Layout::new(self.place.join(arm.name()));
        let clock = Arc::new(StepClock::new());
        self.make_brain(&layout, &id, arm, &clock)?;
        // A server may keep a state: every arm has its own.
        let (started, remarks) = servers::start(&family.servers).await?;
        if arm.learns() {
            self.demonstrate(&layout, &id, arm, &started, &clock).await?;
        }
        let mut all = Vec::new();
        let mut evolved = 0;
        for (half, learning, keep, tasks) in [
            (
                "learning",
                arm.learning(self.options.labels),
                SettleMode::Settle,
                first(&family.learn, self.options.learn),
            ),
            ("held out", arm.frozen(), SettleMode::DryRun, first(&family.held_out, self.options.held_out)),
        ] {
            let learns = keep == SettleMode::Settle;
            let kept = if learns { arm.maintenance() } else { (None, None) };
            let harness = self.harness(&layout, self.backend, learning, kept, &started, &clock)?;
            let mut results = Vec::new();
            let mut unanswered = 0;
            for (at, task) in tasks.iter().enumerate() {
                say(BenchProgress::Task { family: &family.name, arm, half, task: at + 1, of: tasks.len() });
                let number = at + if learns { 0 } else { family.learn.len() };
                let name = task_id(&family.name, &task.name, number)?;
                let result = self.task(&harness, &id, &name, task, keep).await?;
                // Maintenance keeps the brain until it is done, and reads the clock.
                harness.with_brain(&id, |_| Ok(())).await?;
                clock.step();
                unanswered = if result.unanswered { unanswered + 1 } else { 0 };
                if let Some(why) = result.why.as_ref().filter(|_| unanswered >= MOST_UNANSWERED.min(tasks.len())) {
                    return Err(Error::unavailable(format!("the backend does not answer: {why}")).hint(
                        "check the backend with `herm run`, then measure again; --replies keeps what was answered",
                    ));
                }
                results.push(result);
            }
            if learns && arm.has_trials() {
                // The outcome of the last task counts, too.
                harness.maintain(&id).await?;
                if self.options.labels {
                    self.rehearse(&harness, &layout, &id).await?;
                }
            }
            evolved += harness.maintenance_counters().evolved;
            harness.shutdown().await?;
            all.push(results);
        }
        let mut halves = all.into_iter();
        let (learn, held_out) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
        let skills = Reader::open(&layout, &id)?.skills()?.len();
        let learned = skills.saturating_sub(usize::from(arm.has_skill()));
        Ok(ArmResult { arm, learned, evolved, remarks, learn, held_out })
    }

    /// Decides by rehearsals of learning tasks what tasks alone did not decide.
    async fn rehearse(&self, harness: &Harness, layout: &Layout, id: &BrainId) -> Result<()> {
        let mut checks = BTreeMap::new();
        for (number, task) in first(&self.family.learn, self.options.learn).iter().enumerate() {
            checks.insert(task_id(&self.family.name, &task.name, number)?, task.checks.as_slice());
        }
        let rater = FamilyChecks(checks);
        // A table has no effects, and the server of a family was allowed; its state is that of this arm alone.
        let calls = RehearsalCalls::All;
        let options = RehearsalOptions { most_tasks: REHEARSED, calls, ..RehearsalOptions::default() };
        for skill in Reader::open(layout, id)?.on_trial()? {
            harness.rehearse_rated(id, &skill, &options, Some(&rater)).await?;
        }
        Ok(())
    }

    /// Runs the demonstrations as tasks whose replies are given, and says that they went well: what is learned from them is
    /// learned as from any other task.
    async fn demonstrate(
        &self,
        layout: &Layout,
        id: &BrainId,
        arm: BenchArm,
        started: &[Arc<dyn Tool>],
        clock: &Arc<StepClock>,
    ) -> Result<()> {
        let given = self.demonstrations();
        if given.is_empty() {
            return Ok(());
        }
        let script: Arc<dyn Backend> =
            Arc::new(ScriptedBackend::new(given.iter().flat_map(Demonstration::replies).collect::<Vec<_>>()));
        // Nothing is shown to them, and nothing is drawn: they are no part of the trials.
        let learning = arm.learning(true);
        let learning = LearningOptions { synthesis: false, preload: false, plans: false, unrated: false, ..learning };
        let harness = self.harness(layout, &script, learning, (None, None), started, clock)?;
        let tasks = self.family.learn.len() + self.family.held_out.len();
        for (at, shown) in given.iter().enumerate() {
            let name = task_id(&self.family.name, &shown.place, tasks + at)?;
            let asked = Task { id: Some(name), limits: self.limits(), ..Task::new(shown.input.clone()) };
            let outcome = harness.run(id, asked).await?;
            if outcome.status != TaskStatus::Converged {
                let why = outcome.message.unwrap_or_else(|| "it has no answer".to_owned());
                return Err(Error::invalid(format!("{}: the demonstration does not go well: {why}", shown.place))
                    .hint(
                        "give the calls with which the tools answer it, and an answer that stands in their results",
                    ));
            }
            label(&harness, id, &outcome, true).await?;
            harness.with_brain(id, |_| Ok(())).await?;
            clock.step();
        }
        harness.shutdown().await?;
        let leaves_examples = learning.examples;
        if leaves_examples && Reader::open(layout, id)?.skills()?.is_empty() {
            let place = given.first().map(|shown| shown.place.as_str()).unwrap_or_default();
            return Err(Error::invalid(format!("{place}: the demonstration leaves no example"))
                .hint("docs/reference/examples.md says what an example holds: at most seven calls and 1,500 bytes"));
        }
        Ok(())
    }

    fn make_brain(&self, layout: &Layout, id: &BrainId, arm: BenchArm, clock: &Arc<StepClock>) -> Result<()> {
        let mut files = vec![("system.md".to_owned(), self.family.role.as_bytes())];
        if let Some((name, text)) = self.family.skill.as_ref().filter(|_| arm.has_skill()) {
            files.push((format!("skills/{name}.md"), text.as_bytes()));
        }
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        let options = BrainOptions { clock: Arc::clone(clock) as _, ..BrainOptions::default() };
        let (brain, _) = Brain::hydrate(layout, id, &BrainSource::Seed(Seed { id, files: &files }), &options)?;
        brain.close()
    }

    fn harness(
        &self,
        layout: &Layout,
        backend: &Arc<dyn Backend>,
        learning: LearningOptions,
        (curating, evolving): (Option<CuratorOptions>, Option<EvolverOptions>),
        started: &[Arc<dyn Tool>],
        clock: &Arc<StepClock>,
    ) -> Result<Harness> {
        let mut toolbox: Toolbox = herm_tools::standard()?.only(&self.family.standard_tools);
        for tool in &self.family.tools {
            toolbox.add(Arc::new(tool.clone()))?;
        }
        for tool in started {
            toolbox.add(Arc::clone(tool))?;
        }
        let builder = Harness::builder()
            .brains(layout.brains())
            .router(Router::single(Arc::clone(backend)))
            .toolbox(toolbox)
            .permissions(Permissions { network: false, process: !started.is_empty() })
            .clock(Arc::clone(clock) as _)
            .random(Arc::new(SeededRandom::new(1)))
            .sharing(true)
            .curating(curating)
            .evolving(evolving);
        builder.learning(learning).build()
    }

    fn limits(&self) -> TaskLimits {
        let limits = TaskLimits { deadline_secs: DEADLINE_SECS, ..TaskLimits::default() };
        TaskLimits { turns: self.family.turns.unwrap_or(limits.turns), ..limits }
    }

    async fn task(
        &self,
        harness: &Harness,
        id: &BrainId,
        name: &TaskId,
        task: &FamilyTask,
        keep: SettleMode,
    ) -> Result<TaskResult> {
        let asked = Task { id: Some(name.clone()), limits: self.limits(), keep, ..Task::new(task.input.clone()) };
        let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let outcome = harness.run_with(id, asked, RunOptions { events: Some(events), ..RunOptions::default() }).await?;
        let made = calls::of(std::iter::from_fn(|| heard.try_recv().ok()));
        let made: Vec<MadeCall<'_>> = made.iter().map(HeardCall::view).collect();
        let result = match outcome.status {
            TaskStatus::Converged => checks::evaluate(&task.checks, outcome.answer.as_deref(), &made, &[]),
            _ => CheckResult::Fails(outcome.message.clone().unwrap_or_else(|| "there is no answer".to_owned())),
        };
        let solved = result == CheckResult::Holds;
        if self.options.labels && keep == SettleMode::Settle && outcome.status != TaskStatus::Failed {
            label(harness, id, &outcome, solved).await?;
        }
        Ok(TaskResult {
            task: task.name.clone(),
            solved,
            turns: outcome.turns,
            calls: u32::try_from(outcome.calls.len()).unwrap_or(u32::MAX),
            model: outcome.model.clone(),
            shown: outcome.shown.iter().any(|shown| shown.arm == ShownOrNot::Shown),
            unanswered: outcome.stop == StopReason::Backend,
            why: match result {
                CheckResult::Fails(why) | CheckResult::Unknown(why) => Some(why),
                CheckResult::Holds | CheckResult::Share(_) => None,
            },
            answer: outcome.answer,
        })
    }
}

/// The checks of a family's tasks, for their rehearsals.
#[derive(Debug)]
struct FamilyChecks<'a>(BTreeMap<TaskId, &'a [Check]>);

impl AnswerRater for FamilyChecks<'_> {
    fn rate(&self, task: &TaskId, answer: Option<&str>, calls: &[MadeCall<'_>]) -> Option<f64> {
        let checks = self.0.get(task)?;
        let holds = answer.is_some() && checks::evaluate(checks, answer, calls, &[]) == CheckResult::Holds;
        Some(if holds { 1.0 } else { 0.0 })
    }
}

/// The first of them; all, where it is not said how many.
fn first<T>(tasks: &[T], most: Option<usize>) -> &[T] {
    tasks.get(..most.unwrap_or(usize::MAX).min(tasks.len())).unwrap_or_default()
}

/// Tells the agent whether its answer was good, as an operator does.
async fn label(harness: &Harness, id: &BrainId, outcome: &Outcome, good: bool) -> Result<()> {
    let value = if good { OutcomeValue::Good } else { OutcomeValue::Bad };
    let said = TaskFeedback { task: outcome.task.clone(), value, note: None, from: FeedbackFrom::Operator };
    harness.feedback(id, said).await.map(drop)
}
