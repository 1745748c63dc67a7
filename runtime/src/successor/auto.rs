//! Autogenesis: the loop in which a brain's runtime improves itself, as stages that can each be looked at.
//!
//! watch → detect → draft → evaluate → verify → gate → apply. Every stage leaves a [`StageRecord`] of what it was given,
//! what it decided and why; whichever stage stops, the others say that they were not reached. Nothing is remembered
//! between two runs but what is in the brain and its verdicts: a run finds out where the last one stood.
//!
//! - Nothing is applied without a gate: who opens it, and who applies, is behind [`Doors`].
//! - A dry run watches, detects, drafts, evaluates and verifies, and shows what gate and window would say. It asks
//!   nobody, applies nothing and takes nothing back.
//!
//! The stages, thresholds and rules in words are in `docs/autogenesis.md`.

mod pending;
mod watch;
mod window;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

use super::audit::{self, Auditing};
use super::bottleneck::{self, Bottleneck, Surroundings};
use super::budget::Budget;
use super::draft_patch::{self, Drafted, material::Voice};
use super::evaluation::Evaluation;
use super::fork::SuccessorFork;
use super::records::{Record, Records};
use super::verdict::Ruling;
use crate::backend::Chain;
use crate::brain::Reader;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::fsio::{self, Root, Sync};
use crate::harness::Harness;
use crate::ids::BrainId;

pub use watch::{LEAST_WATCHED, Patched, Standing as WatchStanding, WATCHED, WORSE_BY, WORSE_P, Went, fisher, judge};
pub use window::Window;

/// The format of a run.
pub const AUTO_SCHEMA: &str = "herm/auto@1";
/// Tasks that are observed, unless said.
pub const USUAL_TASKS: usize = 50;

/// A stage of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Is the last patch a loss? Then it is taken back.
    Watch,
    /// What holds the brain up?
    Detect,
    /// Which patch could help?
    Draft,
    /// Does it?
    Evaluate,
    /// Does a second successor say so as well?
    Verify,
    /// May it be applied?
    Gate,
    /// It is.
    Apply,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Watch, Self::Detect, Self::Draft, Self::Evaluate, Self::Verify, Self::Gate, Self::Apply];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Detect => "detect",
            Self::Draft => "draft",
            Self::Evaluate => "evaluate",
            Self::Verify => "verify",
            Self::Gate => "gate",
            Self::Apply => "apply",
        }
    }
}

/// What a stage decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// The next stage follows.
    Go,
    /// There is nothing to do.
    Nothing,
    /// Someone else has to do something, or it is not time yet.
    Wait,
    /// It speaks against the patch.
    Against,
    /// An earlier stage stopped.
    NotReached,
}

/// What a stage was given, what it decided and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageRecord {
    /// The stage.
    pub stage: Stage,
    /// What it decided.
    pub decision: Decision,
    /// Why, in a sentence.
    pub why: String,
    /// What it was given.
    pub input: Value,
    /// What it found.
    pub output: Value,
}

/// One run of the loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoRun {
    /// Always [`AUTO_SCHEMA`].
    pub schema: &'static str,
    /// The brain.
    pub brain: BrainId,
    /// How it ran.
    pub mode: Mode,
    /// When.
    pub at: Moment,
    /// Every stage, in order.
    pub stages: Vec<StageRecord>,
}

impl AutoRun {
    /// What the stage that stopped decided; [`Decision::Go`] where all went through.
    pub fn ended(&self) -> Decision {
        let stopped = self.stages.iter().find(|record| record.decision != Decision::Go);
        stopped.map_or(Decision::Go, |record| record.decision)
    }

    /// The record of a stage.
    pub fn stage(&self, stage: Stage) -> Option<&StageRecord> {
        self.stages.iter().find(|record| record.stage == stage)
    }
}

/// Whether a run may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// It goes as far as gates allow.
    #[default]
    Live,
    /// It shows what it would do.
    DryRun,
}

/// How a gate stands for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "gate", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GateStanding {
    /// It would open.
    Open {
        /// For whom, in words.
        by: String,
    },
    /// Someone has to do something.
    Waiting {
        /// Who, in words: `a steward`.
        whom: String,
        /// How, as a command or a sentence.
        how: String,
    },
    /// Someone said no.
    Shut {
        /// Why, in a sentence.
        why: String,
    },
}

/// Gates, and what lies behind them. The operator has the keys, the stewards and the mesh.
#[async_trait]
pub trait Doors: Send + std::marker::Sync {
    /// How the gate stands. Asks nobody, and uses nothing up.
    async fn look(&self, record: &Record) -> Result<GateStanding>;

    /// Does what can be done so that it opens: a mesh is asked, a steward is not.
    async fn ask(&self, record: &Record) -> Result<GateStanding>;

    /// Goes through the gate and applies the patch, between tasks; the step it became.
    async fn apply(&self, record: &Record) -> Result<i64>;

    /// Takes a patch back by its step; the step that did.
    async fn take_back(&self, brain: &BrainId, step: i64) -> Result<i64>;
}

/// How the loop runs.
#[derive(Debug, Clone)]
pub struct Auto {
    /// Whether it may change anything.
    pub mode: Mode,
    /// How many of the last tasks are observed.
    pub tasks: usize,
    /// What each of the two successors may use up.
    pub budget: Budget,
    /// Tasks for the verifier that the first successor does not see.
    pub held_out: Option<Evaluation>,
    /// The backend that drafts the patch, by its name; templates do, unless said.
    pub draft_with: Option<String>,
    /// When patches may be applied.
    pub window: Window,
    /// How many tasks after a patch are watched.
    pub watched: usize,
}

impl Default for Auto {
    fn default() -> Self {
        Self {
            mode: Mode::Live,
            tasks: USUAL_TASKS,
            budget: Budget::default(),
            held_out: None,
            draft_with: None,
            window: Window::default(),
            watched: WATCHED,
        }
    }
}

/// Runs the loop once over a brain, and writes down how it went. A stage that speaks against going on is part of the run;
/// an error means that the loop itself could not do its part.
pub async fn run(harness: &Harness, brain: &BrainId, how: &Auto, doors: &dyn Doors) -> Result<AutoRun> {
    let mut run = AutoRun {
        schema: AUTO_SCHEMA,
        brain: brain.clone(),
        mode: how.mode,
        at: harness.now(),
        stages: Vec::with_capacity(Stage::ALL.len()),
    };
    Loop { harness, brain, how, doors }.go(&mut run.stages).await?;
    let stopped = run.stages.last().map(|record| record.stage.name()).unwrap_or_default();
    for stage in Stage::ALL.into_iter().skip(run.stages.len()) {
        run.stages.push(StageRecord {
            stage,
            decision: Decision::NotReached,
            why: format!("not reached: {stopped} came to an end"),
            input: Value::Null,
            output: Value::Null,
        });
    }
    keep(harness, &run)?;
    Ok(run)
}

/// The last run of a brain is kept, for whoever wants to see how it went.
fn keep(harness: &Harness, run: &AutoRun) -> Result<()> {
    let place = harness.layout().successors().join("auto");
    fsio::create_dirs(&place)?;
    let content = super::records::json(run)?;
    let root = Root::open(&place)?;
    root.replace(&format!("{}.json", run.brain).parse()?, &content, Sync::Now)?;
    root.clear_temporaries()
}

struct Loop<'a> {
    harness: &'a Harness,
    brain: &'a BrainId,
    how: &'a Auto,
    doors: &'a dyn Doors,
}

/// A stage that goes on has something for the next one.
type Gone<T> = Result<Option<T>>;

impl Loop<'_> {
    async fn go(&self, stages: &mut Vec<StageRecord>) -> Result<()> {
        if self.watch(stages).await?.is_none() {
            return Ok(());
        }
        let record = match self.read(pending::waiting).await? {
            Some(record) => {
                pending::continued(stages, &record);
                record
            }
            None => {
                let Some(found) = self.detect(stages).await? else { return Ok(()) };
                let Some(drafted) = self.draft(stages, found).await? else { return Ok(()) };
                let Some(record) = self.evaluate(stages, drafted).await? else { return Ok(()) };
                if self.verify(stages, &record).await?.is_none() {
                    return Ok(());
                }
                record
            }
        };
        if self.gate(stages, &record).await?.is_some() {
            self.apply(stages, &record).await?;
        }
        Ok(())
    }

    /// Reads beside whoever owns the brain, off the executor's threads.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Harness, &Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (harness, brain) = (self.harness.clone(), self.brain.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let reader = Reader::open(harness.layout(), &brain)?;
            work(&harness, &reader)
        });
        reading.await.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }

    async fn watch(&self, stages: &mut Vec<StageRecord>) -> Gone<()> {
        let watched = self.how.watched;
        let patched = self.read(move |_, reader| watch::last_patch(reader, watched)).await?;
        let standing = watch::judge(patched.as_ref(), watched);
        let input = json!({
            "patch": patched.as_ref().map(|patched| json!({ "step": patched.step, "summary": patched.summary })),
            "before": patched.as_ref().map_or(0, |patched| patched.before.len()),
            "since": patched.as_ref().map_or(0, |patched| patched.since.len()),
            "watched": watched,
        });
        let step = patched.map_or(0, |patched| patched.step);
        let mut output = json!(standing);
        let (decision, why) = match &standing {
            WatchStanding::Nothing => (Decision::Go, "no patch is watched".to_owned()),
            WatchStanding::Kept { since } => {
                (Decision::Go, format!("the last patch, step {step}, is no worse after {since} tasks"))
            }
            WatchStanding::Watching { since, of } => {
                (Decision::Wait, format!("the last patch, step {step}, is watched: {since} of {of} tasks since"))
            }
            WatchStanding::Worse { why } if self.how.mode == Mode::DryRun => {
                (Decision::Against, format!("step {step} would be taken back: {why}"))
            }
            WatchStanding::Worse { why } => {
                let undone = self.doors.take_back(self.brain, step).await?;
                output["takenBackBy"] = json!(undone);
                (Decision::Against, format!("step {step} was taken back by step {undone}: {why}"))
            }
        };
        stages.push(StageRecord { stage: Stage::Watch, decision, why, input, output });
        Ok((decision == Decision::Go).then_some(()))
    }

    fn speakers(&self, reader: &Reader, wish: Option<&str>) -> Result<Chain> {
        speakers(self.harness, reader, wish)
    }

    async fn detect(&self, stages: &mut Vec<StageRecord>) -> Gone<(bottleneck::Seen, Vec<Bottleneck>)> {
        let tasks = self.how.tasks;
        let seen = self
            .read(move |harness, reader| {
                let first = speakers(harness, reader, None)?.backends.into_iter().next();
                let context_bytes = first.and_then(|first| first.capabilities().context_bytes);
                bottleneck::observe(reader, &Surroundings { toolbox: harness.toolbox().clone(), context_bytes }, tasks)
            })
            .await?;
        let found = bottleneck::detect(&seen.tasks, &seen.standing);
        let sentences: Vec<String> = found.iter().map(Bottleneck::sentence).collect();
        let (decision, why) = match sentences.first() {
            Some(worst) => (Decision::Go, worst.clone()),
            None if seen.tasks.len() < bottleneck::LEAST_TASKS => {
                let least = bottleneck::LEAST_TASKS;
                let why = format!(
                    "{} tasks since the runtime was last changed say too little: {least} are needed",
                    seen.tasks.len()
                );
                (Decision::Nothing, why)
            }
            None => (Decision::Nothing, "nothing reaches its threshold".to_owned()),
        };
        stages.push(StageRecord {
            stage: Stage::Detect,
            decision,
            why,
            input: json!({ "tasks": seen.tasks.len(), "atMost": tasks, "standing": seen.standing }),
            output: json!({ "measures": bottleneck::measure(&seen.tasks), "bottlenecks": found, "sentences": sentences }),
        });
        Ok((decision == Decision::Go).then_some((seen, found)))
    }

    async fn draft(
        &self,
        stages: &mut Vec<StageRecord>,
        (seen, found): (bottleneck::Seen, Vec<Bottleneck>),
    ) -> Gone<Drafted> {
        let (material, tried) = self
            .read(|harness, reader| {
                let voice = Voice::of(&speakers(harness, reader, None)?);
                Ok((draft_patch::material(reader, voice)?, pending::tried(harness, reader)?))
            })
            .await?;
        let input = json!({
            "bottlenecks": found.iter().map(|one| one.kind).collect::<Vec<_>>(),
            "tuning": seen.tuning,
            "material": material,
            "tried": tried.len(),
            "draftWith": self.how.draft_with,
        });
        let mut passed = Vec::new();
        let drafted = match &self.how.draft_with {
            Some(backend) => {
                let chain = self.speakers(&Reader::open(self.harness.layout(), self.brain)?, Some(backend))?;
                draft_patch::model::draft(chain, &found, &seen.tuning, &material).await?
            }
            None => {
                let mut first = None;
                for one in &found {
                    match draft_patch::draft(one, &seen.tuning, &material)? {
                        None => passed.push(format!("no patch and evaluation for this: {}", one.kind.words())),
                        Some(drafted) if tried.iter().any(|changes| changes == drafted.patch.changes()) => {
                            passed.push(format!("“{}” was tried on this runtime", drafted.patch.title()));
                        }
                        Some(drafted) => {
                            first = Some(drafted);
                            break;
                        }
                    }
                }
                first
            }
        };
        let (decision, why) = match &drafted {
            Some(drafted) => (Decision::Go, format!("“{}” could help", drafted.patch.title())),
            None if passed.is_empty() => (Decision::Nothing, "nothing could show whether a patch helps".to_owned()),
            None => (Decision::Nothing, passed.join("; ")),
        };
        let output = match &drafted {
            None => json!({ "passedOver": passed }),
            Some(drafted) => json!({
                "passedOver": passed,
                "author": drafted.author,
                "against": drafted.bottleneck,
                "patch": { "hash": drafted.patch.hash(), "title": drafted.patch.title(), "why": drafted.patch.why(),
                           "changes": drafted.patch.changes() },
                "evaluation": { "hash": drafted.evaluation.hash()?, "title": drafted.evaluation.title,
                    "parts": drafted.evaluation.parts.iter().map(super::evaluation::Part::name).collect::<Vec<_>>(),
                    "goals": drafted.evaluation.goals, "guards": drafted.evaluation.guards },
            }),
        };
        stages.push(StageRecord { stage: Stage::Draft, decision, why, input, output });
        Ok(drafted)
    }

    async fn evaluate(&self, stages: &mut Vec<StageRecord>, drafted: Drafted) -> Gone<Record> {
        let mut fork = SuccessorFork::new(self.harness, self.brain, drafted.patch.clone()).await?;
        let base = fork.base().clone();
        let verdict = fork.evaluate(&drafted.evaluation, self.how.budget).await;
        fork.destroy().await?;
        let verdict = verdict?;
        let record = Records::new(self.harness.layout()).find(&verdict.hash()?)?;
        let is_approved = verdict.verdict == Ruling::Approve;
        let why = format!("{}: {}", verdict.verdict.name(), verdict.evaluation_summary);
        stages.push(StageRecord {
            stage: Stage::Evaluate,
            decision: if is_approved { Decision::Go } else { Decision::Against },
            why,
            input: json!({ "base": base, "patch": drafted.patch.hash(), "evaluation": verdict.evaluation_hash,
                           "budget": self.how.budget }),
            output: json!({ "verdict": record.name, "hash": verdict.hash()?, "ruling": verdict.verdict,
                            "confidence": verdict.confidence, "walls": verdict.walls, "spent": verdict.spent,
                            "report": record.path.join(super::records::REPORT) }),
        });
        Ok(is_approved.then_some(record))
    }

    async fn verify(&self, stages: &mut Vec<StageRecord>, record: &Record) -> Gone<()> {
        let auditing = Auditing { held_out: self.how.held_out.clone(), budget: self.how.budget };
        let audit = audit::audit(self.harness, &record.name, auditing).await?;
        let (decision, why) = match audit.faults().next() {
            None if audit.agrees => (Decision::Go, "a second successor with another seed agrees".to_owned()),
            None => (Decision::Against, "the verifier does not agree".to_owned()),
            Some(fault) => (Decision::Against, fault.sentence.clone()),
        };
        stages.push(StageRecord {
            stage: Stage::Verify,
            decision,
            why,
            input: json!({ "verdict": record.name, "seed": audit.seed, "heldOut": audit.held_out }),
            output: json!({ "agrees": audit.agrees, "hash": audit.hash()?, "second": audit.verdict,
                            "ruling": audit.ruling, "findings": audit.findings }),
        });
        Ok((decision == Decision::Go).then_some(()))
    }

    async fn gate(&self, stages: &mut Vec<StageRecord>, record: &Record) -> Gone<()> {
        let standing = match self.how.mode {
            Mode::DryRun => self.doors.look(record).await?,
            Mode::Live => self.doors.ask(record).await?,
        };
        let (decision, why) = match &standing {
            GateStanding::Open { by } => (Decision::Go, format!("the gate opens: {by}")),
            GateStanding::Waiting { whom, how } => (Decision::Wait, format!("waiting for {whom}: {how}")),
            GateStanding::Shut { why } => (Decision::Against, why.clone()),
        };
        stages.push(StageRecord {
            stage: Stage::Gate,
            decision,
            why,
            input: json!({ "verdict": record.name, "patch": record.verdict.patch_hash, "base": record.verdict.base }),
            output: json!(standing),
        });
        Ok((decision == Decision::Go).then_some(()))
    }

    async fn apply(&self, stages: &mut Vec<StageRecord>, record: &Record) -> Gone<i64> {
        let (window, now) = (self.how.window, self.harness.now());
        let mut applied = None;
        let (decision, why) = match (window.has(now), self.how.mode) {
            (false, _) => (Decision::Wait, format!("waiting for the maintenance window, {window}; it is {now}")),
            (true, Mode::DryRun) => (Decision::Wait, "it would be applied now; this is a dry run".to_owned()),
            (true, Mode::Live) => {
                let step = self.doors.apply(record).await?;
                applied = Some(step);
                (Decision::Go, format!("applied as step {step}; the next {} tasks are watched", self.how.watched))
            }
        };
        stages.push(StageRecord {
            stage: Stage::Apply,
            decision,
            why,
            input: json!({ "verdict": record.name, "window": window, "now": now }),
            output: json!({ "step": applied, "identity": record.verdict.identity }),
        });
        Ok(applied)
    }
}

/// Who speaks for a brain, in the order they are asked.
fn speakers(harness: &Harness, reader: &Reader, wish: Option<&str>) -> Result<Chain> {
    let manifest = reader.manifest()?.and_then(|manifest| manifest.backend);
    let tuned = reader.tuning()?.backend;
    harness.speakers(reader.id(), wish, tuned.or(manifest).as_deref())
}
