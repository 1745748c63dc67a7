//! Rehearsals: kept tasks with a known outcome run again, with a learned skill and without it, and the pairs may decide its
//! trial earlier than tasks that happen to come.
//!
//! Each run is in a copy of the brain, taken back to before the task, which is removed again; no task of it is settled.
//! Tools that only read run; every other call is answered from the transcript of the task. A call that the transcript
//! does not have is refused, and the pair says nothing: the run that calls as the task did would always be the better
//! one. The role's checks say how good an answer is: a role without checks cannot be rehearsed, unless
//! an [`AnswerRater`] says it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use serde::Serialize;
use tokio::time::Instant;

use super::Harness;
use super::replay::{Rewound, blocking, rewind, silent_program};
use crate::backend::Chain;
use crate::brain::{Brain, Draft, Reader, StepKind};
use crate::checks::MadeCall;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::fsio;
use crate::ids::{BrainId, Slug, SystemRandom, TaskId};
use crate::layout::{ARCHIVE_DIR, Layout};
use crate::memory::{Arm, EvidenceStatus, RatedTask, Trial, TrialState, TrialTask};
use crate::session::exemplar::file::{self, EXAMPLES_FILE};
use crate::session::machine::ToolCall;
use crate::session::{CancelToken, FinishedTask, LiveTools, TaskRun, ToolExecutor, Transcript};
use crate::skill::change::SkillUpdate;
use crate::skill::{CreatedBy, Files as _, store};
use crate::task::{LearningOptions, StopReason, TaskLimits, TaskStatus};
use crate::tool::{
    Permission, Secrets, SessionEnv, SkillRules, TaskFrame, ToolContext, ToolProgram, ToolReport, Toolbox, WorkingCopy,
};
use crate::trial::paired::{self, MOST_PAIRS, PairedSummary, ScorePair};
use crate::trial::pass::{self, EndedTrial, TrialScope};

/// How far back kept tasks are looked at.
pub(super) const MOST_KEPT: usize = 1_000;

/// How much a rehearsal may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RehearsalOptions {
    /// At most so many tasks, each of which runs twice where the skill fits it and once where it does not.
    pub most_tasks: usize,
    /// At most so many millionths of a dollar. Refused where a backend has no known price. A run that would cost more ends
    /// early, and its pair does not count.
    pub most_micro_usd: Option<u64>,
    /// The backend, by its name in the configuration, instead of the brain's own.
    pub backend: Option<String>,
    /// Which calls are made.
    pub calls: RehearsalCalls,
}

impl Default for RehearsalOptions {
    /// Twelve tasks, whatever they cost, on the brain's own backend.
    fn default() -> Self {
        Self { most_tasks: 12, most_micro_usd: None, backend: None, calls: RehearsalCalls::default() }
    }
}

/// Which calls a rehearsal makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RehearsalCalls {
    /// Those of tools that only read. Others are answered from the transcript.
    #[default]
    Reading,
    /// All: nothing that they touch outlives the rehearsal, or the operator allowed it.
    All,
}

/// Says how good the answer of a rehearsed task is, where more is known than the checks of the role say.
pub trait AnswerRater: std::fmt::Debug + Send + Sync {
    /// From 0 (bad) to 1 (good); `None` where it is not known. `answer` is `None` where the task ended without one.
    fn rate(&self, task: &TaskId, answer: Option<&str>, calls: &[MadeCall<'_>]) -> Option<f64>;
}

/// One task that ran twice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RehearsedTask {
    /// The name of the task, as its transcript has it.
    pub task: String,
    /// Its outcome with the skill, from 0 to 1.
    pub with: f64,
    /// Its outcome without it.
    pub without: f64,
}

/// What a rehearsal found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RehearsalReport {
    /// The skill that was rehearsed.
    pub skill: Slug,
    /// The tasks that ran twice.
    pub tasks: Vec<RehearsedTask>,
    /// Tasks that the skill was not shown to, because it does not fit them.
    pub unfit: usize,
    /// Tasks whose runs had no known outcome, with why, where one is known.
    pub unrated: Vec<String>,
    /// What it cost, in millionths of a dollar.
    pub micro_usd: u64,
    /// All rehearsals of the skill so far, these included.
    pub summary: PairedSummary,
    /// How the trial of the skill ended, where this decided it.
    pub ended: Option<EndedTrial>,
}

/// Answers from the record of the task where a call would do something.
struct CarefulTools {
    live: LiveTools,
    calls: RehearsalCalls,
    recorded: Vec<(ToolCall, ToolReport)>,
    /// Tools in whose place a program stands.
    silent: BTreeSet<String>,
    /// The tool of the first call that the record does not have.
    unrecorded: OnceLock<String>,
}

impl CarefulTools {
    fn may_run(&self, tool: &str) -> bool {
        let only_reads = || self.live.0.get(tool).is_some_and(|tool| tool.spec().permission == Permission::Read);
        !self.silent.contains(tool) && (self.calls == RehearsalCalls::All || only_reads())
    }
}

#[async_trait]
impl ToolExecutor for CarefulTools {
    async fn call(&self, call: &ToolCall, cx: &ToolContext, until: Instant) -> ToolReport {
        if self.may_run(&call.tool) {
            return self.live.call(call, cx, until).await;
        }
        match self.recorded.iter().find(|(made, _)| made == call) {
            Some((_, report)) => report.clone(),
            None => {
                self.unrecorded.get_or_init(|| call.tool.clone());
                ToolReport::refused(
                    "This call is not made in a rehearsal. Go on without it.",
                    "not made in a rehearsal",
                )
            }
        }
    }
}

/// The files of a skill, main file first.
#[derive(Debug, Clone)]
struct SkillFiles {
    slug: Slug,
    main: String,
    support: Vec<(String, Vec<u8>)>,
}

impl SkillFiles {
    fn read(reader: &Reader, slug: &Slug) -> Result<Self> {
        let index = reader.skills()?;
        let place = index.get(slug).map(|entry| entry.place.clone()).ok_or_else(|| {
            Error::not_found(format!("there is no skill {:?} in brain {}", slug.as_str(), reader.id()))
                .hint(format!("see what it learned with `herm learn status {}`", reader.id()))
        })?;
        let main = reader.text(&place.main)?.unwrap_or_default();
        let mut support = Vec::new();
        if let Some(dir) = place.dir() {
            for name in reader.skill_files(&dir, &place.main)? {
                let content = reader.file(&format!("{dir}/{name}").parse()?)?.unwrap_or_default();
                support.push((name, content));
            }
        }
        Ok(Self { slug: slug.clone(), main, support })
    }

    /// The same behind a change.
    fn changed(&self, change: &SkillUpdate) -> Self {
        let mut files = Self { main: change.content.clone(), ..self.clone() };
        for (name, content) in &change.support {
            files.support.retain(|(known, _)| known != name);
            files.support.extend(content.iter().map(|content| (name.clone(), content.clone().into_bytes())));
        }
        files
    }

    /// The same for a run of a task: an example that the task itself left would give it the answer. None where
    /// nothing else is left.
    fn for_task(&self, task: &TaskId) -> Result<Option<Self>> {
        let mut files = self.clone();
        for (_, content) in files.support.iter_mut().filter(|(name, _)| name == EXAMPLES_FILE) {
            let examples = file::parse(&String::from_utf8_lossy(content));
            if let Some(left) = file::without(examples, task) {
                if left.is_empty() {
                    return Ok(None);
                }
                *content = file::write(&left)?.into_bytes();
            }
        }
        Ok(Some(files))
    }

    /// Puts the skill into a copy as it is now, proven, so that it is shown.
    fn put(&self, brain: &mut Brain) -> Result<()> {
        let mut draft = Draft::new();
        let mut editor = brain.edit(&mut draft);
        if store::find(&editor, &self.slug)?.is_some() {
            editor.edit_skill(&self.slug, &self.main)?;
        } else if store::archived_slugs(&editor.below(ARCHIVE_DIR)?).contains(&self.slug) {
            editor.restore_skill(&self.slug)?;
            editor.edit_skill(&self.slug, &self.main)?;
        } else {
            editor.create_skill(&self.slug, &self.main, CreatedBy::Agent)?;
        }
        for (name, content) in &self.support {
            editor.write_skill_file(&self.slug, name, content.clone())?;
        }
        brain.settle(&draft, StepKind::Maintenance, "rehearsed with the skill")?;
        let (skill, since) = (self.slug.clone(), brain.clock().now());
        let reason = "rehearsed".to_owned();
        let proven = Trial { skill, state: TrialState::Proven, since, decided: Some(since), reason };
        brain.write_trials(|writer| writer.put_trial(&proven)).map(drop)
    }

    /// Takes the skill away from a copy, where it is.
    fn take_away(&self, brain: &mut Brain) -> Result<()> {
        let mut draft = Draft::new();
        let mut editor = brain.edit(&mut draft);
        if store::find(&editor, &self.slug)?.is_none() {
            return Ok(());
        }
        editor.archive_skill(&self.slug)?;
        brain.settle(&draft, StepKind::Maintenance, "rehearsed without the skill").map(drop)
    }
}

/// A run that ended, and the tool of a call that was refused because the record does not have it.
struct EndedRun {
    finished: FinishedTask,
    unrecorded: Option<String>,
}

/// How one run of a task went.
struct Run {
    /// None where nothing is known: also where a call was refused that a task would have made.
    score: Option<f64>,
    /// Whether it ended because the money was used up.
    out_of_money: bool,
    /// Why the outcome is not known.
    note: Option<String>,
    was_shown: bool,
    errors: u32,
    turns: u32,
    micro_usd: u64,
}

impl Run {
    fn of(ended: &EndedRun, skill: &Slug, rater: Option<&dyn AnswerRater>) -> Self {
        let EndedRun { finished, unrecorded } = ended;
        let outcome = &finished.transcript.outcome;
        let errors = finished.calls.iter().filter(|call| call.status != EvidenceStatus::Ok).count();
        let shown = &finished.transcript.shown;
        let why = || finished.stop.message.clone().unwrap_or_else(|| "the role has no checks".to_owned());
        let (score, note) = match unrecorded {
            Some(tool) => {
                (None, Some(format!("a call of {tool} that the task did not make is not made in a rehearsal")))
            }
            None => {
                let score = rater.map_or_else(|| outcome.value.score(), |rater| rated(finished, rater));
                let note = || outcome.sources.iter().find_map(|said| said.note.clone()).unwrap_or_else(why);
                (score, score.is_none().then(note))
            }
        };
        Self {
            score,
            out_of_money: finished.stop.reason == StopReason::Budget,
            note,
            was_shown: shown.iter().any(|shown| shown.skill == *skill && shown.arm == Arm::Shown),
            errors: u32::try_from(errors).unwrap_or(u32::MAX),
            turns: finished.turns,
            micro_usd: finished.usage.micro_usd.unwrap_or(0),
        }
    }

    fn row(&self, skill: &Slug, task: &TaskId, at: Timestamp, arm: Arm) -> TrialTask {
        let (skill, task) = (skill.clone(), task.to_string());
        let Self { score, errors, turns, micro_usd, .. } = *self;
        TrialTask { skill, task, arm, at, score, errors, turns, micro_usd, rehearsed: true }
    }
}

fn rated(finished: &FinishedTask, rater: &dyn AnswerRater) -> Option<f64> {
    let converged = finished.stop.reason.status() == TaskStatus::Converged;
    let answer = finished.stop.answer.as_deref().filter(|_| converged);
    rater.rate(&finished.transcript.task, answer, &finished.transcript.made_calls())
}

impl Harness {
    /// Runs kept tasks of a brain again, with one of its learned skills and without it, until the pairs decide its trial or
    /// the budget is used up. A task is rehearsed once for a skill; what earlier rehearsals found counts. The checks of the
    /// role say how good the answers are.
    pub async fn rehearse(&self, id: &BrainId, skill: &Slug, options: &RehearsalOptions) -> Result<RehearsalReport> {
        self.rehearse_rated(id, skill, options, None).await
    }

    /// The same, where `rater` says how good the answers are.
    pub async fn rehearse_rated(
        &self,
        id: &BrainId,
        skill: &Slug,
        options: &RehearsalOptions,
        rater: Option<&dyn AnswerRater>,
    ) -> Result<RehearsalReport> {
        self.rehearse_until(id, skill, options, rater, &CancelToken::new()).await
    }

    /// The same, until it is told to end: then what was found so far counts.
    pub(super) async fn rehearse_until(
        &self,
        id: &BrainId,
        skill: &Slug,
        options: &RehearsalOptions,
        rater: Option<&dyn AnswerRater>,
        cancel: &CancelToken,
    ) -> Result<RehearsalReport> {
        let inner = Arc::clone(&self.inner);
        // A skill that was just learned goes on trial first.
        self.with_brain(id, move |brain| inner.conclude_trials(brain, TrialScope::New).map(drop)).await?;
        let (layout, id_too, slug) = (self.layout().clone(), id.clone(), skill.clone());
        let plan = blocking(move || Plan::read(&layout, &id_too, &slug)).await?;
        let (mut report, rows) = self.run_plan(id, options, rater, cancel, plan).await?;
        let (slug, counters) = (skill.clone(), Arc::clone(&self.inner));
        let (summary, ended) = self
            .with_brain(id, move |brain| {
                brain.write_trials(|writer| rows.iter().try_for_each(|row| writer.add_task(row).map(drop)))?;
                let concluded = pass::conclude_rehearsals(brain, &slug)?;
                counters.counted.count_trials(&concluded);
                let pairs = paired::pairs_of(&brain.trial_tasks(&slug)?);
                Ok((paired::summarise(&pairs), concluded.ended.into_iter().next()))
            })
            .await?;
        (report.summary, report.ended) = (summary, ended);
        Ok(report)
    }

    /// Runs a plan in a scratch directory that is removed again: what was found, and the rows that say so.
    pub(super) async fn run_plan(
        &self,
        id: &BrainId,
        options: &RehearsalOptions,
        rater: Option<&dyn AnswerRater>,
        cancel: &CancelToken,
        plan: Plan,
    ) -> Result<(RehearsalReport, Vec<TrialTask>)> {
        let chain = self.backend_chain(id, options.backend.as_deref(), plan.backend.as_deref())?;
        if options.most_micro_usd.is_some()
            && let Some(free) = chain.backends.iter().find(|backend| backend.capabilities().price.is_none())
        {
            return Err(Error::invalid(format!(
                "a budget in money cannot be held: {} has no known price",
                free.name()
            ))
            .hint("give its price in the configuration, or a budget in tasks"));
        }
        let workspace = fsio::create_scratch("herm-rehearsal")?;
        let stage = Stage { harness: self, id, chain: &chain, options, rater, cancel, workspace: &workspace };
        let done = stage.run(plan).await;
        fsio::remove_tree(&workspace)?;
        done
    }
}

/// Where a rehearsal runs, and who speaks and judges there.
struct Stage<'a> {
    harness: &'a Harness,
    id: &'a BrainId,
    chain: &'a Chain,
    options: &'a RehearsalOptions,
    rater: Option<&'a dyn AnswerRater>,
    cancel: &'a CancelToken,
    workspace: &'a Path,
}

impl Stage<'_> {
    /// Runs tasks in pairs, as long as there is a budget; what was found, and the rows to keep.
    async fn run(&self, plan: Plan) -> Result<(RehearsalReport, Vec<TrialTask>)> {
        let skill = plan.files.slug.clone();
        let mut report = RehearsalReport {
            skill: skill.clone(),
            tasks: Vec::new(),
            unfit: 0,
            unrated: Vec::new(),
            micro_usd: 0,
            summary: paired::summarise(&plan.pairs),
            ended: None,
        };
        let (mut rows, mut pairs) = (Vec::new(), plan.pairs);
        for rated in plan.tasks.into_iter().take(self.options.most_tasks) {
            if pairs.len() >= MOST_PAIRS || paired::decide(&pairs).is_some() {
                break;
            }
            let task: TaskId = rated.task.parse()?;
            let Some(files) = plan.files.for_task(&task)? else {
                report.unfit += 1;
                continue;
            };
            let without_it = plan.without.clone().map_or_else(
                || Ok(Some(Without::Skill(files.clone()))),
                |before| before.for_task(&task).map(|before| before.map(Without::Change)),
            )?;
            let Some(without_it) = without_it else {
                report.unfit += 1;
                continue;
            };
            let left = self.left(&report);
            let (at, with) = self.run_again(&rated, &skill, left, move |brain| files.put(brain)).await?;
            report.micro_usd += with.micro_usd;
            if self.cancel.is_cancelled() || with.out_of_money {
                break;
            }
            if !with.was_shown {
                report.unfit += 1;
                continue;
            }
            let Some(with_score) = with.score else {
                report.unrated.extend(with.note);
                continue;
            };
            let left = self.left(&report);
            let (_, without) = self.run_again(&rated, &skill, left, move |brain| without_it.put(brain)).await?;
            report.micro_usd += without.micro_usd;
            if self.cancel.is_cancelled() || without.out_of_money {
                break;
            }
            let Some(without_score) = without.score else {
                report.unrated.extend(without.note);
                continue;
            };
            pairs.push(ScorePair { with: with_score, without: without_score });
            report.tasks.push(RehearsedTask { task: rated.task, with: with_score, without: without_score });
            rows.push(with.row(&skill, &task, at, Arm::Shown));
            rows.push(without.row(&skill, &task, at, Arm::HeldBack));
        }
        Ok((report, rows))
    }

    /// What may still be spent, where that is bounded.
    fn left(&self, report: &RehearsalReport) -> Option<u64> {
        self.options.most_micro_usd.map(|most| most.saturating_sub(report.micro_usd))
    }

    /// Runs one task again in a copy that was changed first, for so much money; when the task was, and how it went.
    async fn run_again(
        &self,
        rated: &RatedTask,
        skill: &Slug,
        micro_usd: Option<u64>,
        change: impl FnOnce(&mut Brain) -> Result<()> + Send + 'static,
    ) -> Result<(Timestamp, Run)> {
        let copy = Layout::new(self.workspace.join("copy"));
        let (source, id, target) = (self.harness.layout().clone(), self.id.clone(), copy.clone());
        let seq = rated.receipt;
        let rewound = blocking(move || {
            let Rewound { transcript, mut brain, .. } = rewind(&source, &id, seq, &target)?;
            change(&mut brain)?;
            Ok((transcript, brain))
        });
        let ran = async {
            let (transcript, brain) = rewound.await?;
            let ended = self.run_copy(&transcript, brain, micro_usd).await?;
            Ok((transcript.at, Run::of(&ended, skill, self.rater)))
        };
        let ran = ran.await;
        fsio::remove_tree(copy.brains())?;
        ran
    }

    async fn run_copy(&self, transcript: &Transcript, brain: Brain, micro_usd: Option<u64>) -> Result<EndedRun> {
        let inner = &self.harness.inner;
        let (id, at) = (&transcript.brain, transcript.at);
        let tuning = Arc::new(brain.tuning()?);
        let slot = Arc::new(tokio::sync::Mutex::new(Some(brain)));
        let limits = TaskLimits { total_tokens: None, micro_usd, ..transcript.limits.clone() }.tuned(&tuning);
        let until = Instant::now() + limits.deadline();
        let around = SessionEnv {
            surroundings: Arc::clone(&inner.surroundings),
            task: Some(transcript.task.clone()),
            until: Some(until),
            original: Some(self.harness.layout().brain(id)),
            tuning: Arc::clone(&tuning),
            rules: SkillRules::Gated,
            moved: None,
        };
        let desk = Arc::new(Mutex::new(WorkingCopy::new(slot.lock_owned().await, at).in_session(around)));
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
            has_budget: micro_usd.is_some(),
            backend: None,
            commanded: OnceLock::new(),
        });
        let cx = ToolContext::new(Arc::clone(&frame), Arc::clone(&desk), Arc::new(Secrets::default()), None);
        // Programs in the place of tools speak from the record: they touch more than the brain.
        let silent: BTreeMap<String, ToolProgram> =
            tuning.tools.keys().map(|name| (name.clone(), silent_program(name))).collect();
        let toolbox: Toolbox = inner.toolbox.swapped(&tuning, &silent)?.only(&transcript.tools);
        let made = transcript.turns.iter().filter_map(|turn| Some((turn.call.clone()?, turn.report.clone()?)));
        let tools = CarefulTools {
            live: LiveTools(toolbox.clone()),
            calls: self.options.calls,
            recorded: made.collect(),
            silent: silent.into_keys().collect(),
            unrecorded: OnceLock::new(),
        };
        let finished = TaskRun {
            frame: Arc::clone(&frame),
            desk: Arc::clone(&desk),
            cx,
            chain: self.chain,
            toolbox: &toolbox,
            caller: &tools,
            limits: &limits,
            tuning: Arc::clone(&tuning),
            learning: LearningOptions { learns: false, trials: true, ..inner.learning },
            trial_share: inner.trial_policy.share,
            examples: Arc::clone(&inner.examples),
            verifiers: inner.programs.clone(),
            cancel: self.cancel,
            events: None,
            release: None,
            random: &SystemRandom,
            known: None,
            replayed: None,
        }
        .run()
        .await?;
        Ok(EndedRun { finished, unrecorded: tools.unrecorded.into_inner() })
    }
}

/// What the run "without" has in place of what is rehearsed.
enum Without {
    /// The brain as if it never had the skill: it is archived in the copy.
    Skill(SkillFiles),
    /// The skill as it was before its change.
    Change(SkillFiles),
}

impl Without {
    fn put(&self, brain: &mut Brain) -> Result<()> {
        match self {
            Self::Skill(files) => files.take_away(brain),
            Self::Change(before) => before.put(brain),
        }
    }
}

/// What a rehearsal begins with, read while others may hold the brain.
pub(super) struct Plan {
    /// The skill, as the runs "with" have it.
    files: SkillFiles,
    /// The skill as the runs "without" have it, where a change of it is rehearsed; they have none otherwise.
    without: Option<SkillFiles>,
    /// The tasks to run, those that matched the skill in its trial first, then the newest.
    tasks: Vec<RatedTask>,
    /// What earlier rehearsals found.
    pairs: Vec<ScorePair>,
    /// The backend that the brain names.
    backend: Option<String>,
}

impl Plan {
    fn read(layout: &Layout, id: &BrainId, skill: &Slug) -> Result<Self> {
        Self::of_skill(&Reader::open(layout, id)?, skill)
    }

    /// With a change of a skill, and without it. What was found of the skill itself answers another question, so every kept
    /// task may run.
    pub(super) fn of_change(reader: &Reader, change: &SkillUpdate) -> Result<Self> {
        let plan = Self::of_skill(reader, &change.skill)?;
        let (files, tasks) = (plan.files.changed(change), reader.rated_tasks(MOST_KEPT)?);
        Ok(Self { without: Some(plan.files), files, tasks, pairs: Vec::new(), ..plan })
    }

    fn of_skill(reader: &Reader, skill: &Slug) -> Result<Self> {
        let id = reader.id();
        let usage = reader.usage()?.remove(skill);
        if usage.is_none_or(|usage| usage.created_by != CreatedBy::Agent || usage.pinned) {
            return Err(Error::not_found(format!("skill {skill} of brain {id} is not one that the agent learned"))
                .hint(format!("see what it learned with `herm learn status {id}`")));
        }
        let known = reader.trial_tasks(skill)?;
        let names = |rehearsed| known.iter().filter(move |task| task.rehearsed == rehearsed).map(|task| &task.task);
        let (matched, done): (BTreeSet<&String>, BTreeSet<&String>) = (names(false).collect(), names(true).collect());
        let mut tasks = reader.rated_tasks(MOST_KEPT)?;
        tasks.retain(|rated| !done.contains(&rated.task));
        tasks.sort_by_key(|rated| !matched.contains(&rated.task));
        Ok(Self {
            files: SkillFiles::read(reader, skill)?,
            without: None,
            tasks,
            pairs: paired::pairs_of(&known),
            backend: reader.manifest()?.and_then(|manifest| manifest.backend),
        })
    }
}
