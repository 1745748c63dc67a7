//! The stages, one after the other. Each reads, decides, and says what it decided.

use serde_json::json;

use super::{Auto, Decision, Doors, GateStanding, Mode, Stage, StageRecord, WatchStanding, pending, watch};
use crate::audit::{self, Auditing};
use crate::backend::Chain;
use crate::bottleneck::{self, Bottleneck, Surroundings};
use crate::brain::Reader;
use crate::draft_patch::{self, Drafted, Scene, material::Voice};
use crate::error::{Error, Result};
use crate::fork::SuccessorFork;
use crate::harness::Harness;
use crate::ids::BrainId;
use crate::records::{REPORT, Record, Records};
use crate::verdict::Ruling;

/// The loop over a brain.
pub(super) struct Loop<'a> {
    pub(super) harness: &'a Harness,
    pub(super) brain: &'a BrainId,
    pub(super) how: &'a Auto,
    pub(super) doors: &'a dyn Doors,
}

/// A stage that goes on has something for the next one.
type Gone<T> = Result<Option<T>>;

impl Loop<'_> {
    pub(super) async fn go(&self, stages: &mut Vec<StageRecord>) -> Result<()> {
        if self.watch(stages).await?.is_none() {
            return Ok(());
        }
        let record = match self.read(pending::waiting).await? {
            Some((record, faults)) => {
                if !pending::continued(stages, &record, &faults) {
                    return Ok(());
                }
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
                let version = self.doors.take_back(self.brain, step).await?;
                output["takenBackWith"] = json!(version);
                (Decision::Against, format!("step {step} was taken back with version {version}: {why}"))
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
        let toolbox = self.harness.toolbox().clone();
        let looked = seen.clone();
        let (material, tried, scene) = self
            .read(move |harness, reader| {
                let voice = Voice::of(&speakers(harness, reader, None)?);
                let scene = Scene::of(reader, &toolbox, &looked)?;
                Ok((draft_patch::material(reader, voice)?, pending::tried(harness, reader)?, scene))
            })
            .await?;
        let input = json!({
            "bottlenecks": found.iter().map(|one| one.kind).collect::<Vec<_>>(),
            "tuning": seen.tuning,
            "material": material,
            "tried": tried.len(),
            "draftWith": self.how.draft_with,
        });
        let (drafted, passed) = match &self.how.draft_with {
            Some(backend) => {
                let chain = self.speakers(&Reader::open(self.harness.layout(), self.brain)?, Some(backend))?;
                (draft_patch::model::draft(chain, &found, &scene, &material).await?, Vec::new())
            }
            None => draft_patch::first(&found, &scene, &material, &tried)?,
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
                "aim": drafted.aim,
                "against": drafted.bottleneck,
                "patch": { "hash": drafted.patch.hash(), "title": drafted.patch.title(), "why": drafted.patch.why(),
                           "changes": drafted.patch.changes() },
                "evaluation": { "hash": drafted.evaluation.hash()?, "title": drafted.evaluation.title,
                    "parts": drafted.evaluation.parts.iter().map(crate::evaluation::Part::name).collect::<Vec<_>>(),
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
                            "report": record.path.join(REPORT) }),
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

    async fn apply(&self, stages: &mut Vec<StageRecord>, record: &Record) -> Gone<u64> {
        let (window, now) = (self.how.window, self.harness.now());
        let mut applied = None;
        let (decision, why) = match (window.has(now), self.how.mode) {
            (false, _) => (Decision::Wait, format!("waiting for the maintenance window, {window}; it is {now}")),
            (true, Mode::DryRun) => (Decision::Wait, "it would be applied now; this is a dry run".to_owned()),
            (true, Mode::Live) => {
                let version = self.doors.apply(record).await?;
                applied = Some(version);
                (
                    Decision::Go,
                    format!("applied with version {version}; the next {} tasks are watched", self.how.watched),
                )
            }
        };
        stages.push(StageRecord {
            stage: Stage::Apply,
            decision,
            why,
            input: json!({ "verdict": record.name, "window": window, "now": now }),
            output: json!({ "version": applied, "identity": record.verdict.identity }),
        });
        Ok(applied)
    }
}

/// Who speaks for a brain, in the order they are asked.
pub(crate) fn speakers(harness: &Harness, reader: &Reader, wish: Option<&str>) -> Result<Chain> {
    let manifest = reader.manifest()?.and_then(|manifest| manifest.backend);
    let tuned = reader.tuning()?.backend;
    harness.speakers(reader.id(), wish, tuned.or(manifest).as_deref())
}
