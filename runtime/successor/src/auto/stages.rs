//! The stages, one after the other. Each reads, decides, and says what it decided.

use serde_json::json;

use super::{
    GateStatus, PatchGates, PatchLoopMode, PatchLoopOptions, PatchLoopStage, StageDecision, StageRecord, WatchStanding,
    pending, watch,
};
use crate::audit::{self, AuditOptions};
use crate::backend::Chain;
use crate::bottleneck::{self, Bottleneck, ObservationEnv};
use crate::brain::Reader;
use crate::draft_patch::{self, DraftContext, PatchDraft, material::BackendPricing};
use crate::error::{Error, Result};
use crate::fork::SuccessorFork;
use crate::harness::Harness;
use crate::ids::BrainId;
use crate::records::{REPORT, VerdictRecord, VerdictStore};
use crate::verdict::VerdictRuling;

/// The loop over a brain.
pub(super) struct Loop<'a> {
    pub(super) harness: &'a Harness,
    pub(super) brain: &'a BrainId,
    pub(super) how: &'a PatchLoopOptions,
    pub(super) doors: &'a dyn PatchGates,
}

/// A stage that goes on has something for the next one.
type StageResult<T> = Result<Option<T>>;

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

    /// Reads the brain without its lock, so its owner may be at work, and off the executor's threads.
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

    async fn watch(&self, stages: &mut Vec<StageRecord>) -> StageResult<()> {
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
            WatchStanding::Nothing => (StageDecision::Go, "no patch is watched".to_owned()),
            WatchStanding::Kept { since } => {
                (StageDecision::Go, format!("the last patch, step {step}, is no worse after {since} tasks"))
            }
            WatchStanding::Watching { since, of } => {
                (StageDecision::Wait, format!("the last patch, step {step}, is watched: {since} of {of} tasks since"))
            }
            WatchStanding::Worse { why } if self.how.mode == PatchLoopMode::DryRun => {
                (StageDecision::Against, format!("step {step} would be taken back: {why}"))
            }
            WatchStanding::Worse { why } => {
                let version = self.doors.take_back(self.brain, step).await?;
                output["takenBackWith"] = json!(version);
                (StageDecision::Against, format!("step {step} was taken back with version {version}: {why}"))
            }
        };
        stages.push(StageRecord { stage: PatchLoopStage::Watch, decision, why, input, output });
        Ok((decision == StageDecision::Go).then_some(()))
    }

    fn speakers(&self, reader: &Reader, wish: Option<&str>) -> Result<Chain> {
        speakers(self.harness, reader, wish)
    }

    async fn detect(
        &self,
        stages: &mut Vec<StageRecord>,
    ) -> StageResult<(bottleneck::BrainObservation, Vec<Bottleneck>)> {
        let tasks = self.how.tasks;
        let seen = self
            .read(move |harness, reader| {
                let first = speakers(harness, reader, None)?.backends.into_iter().next();
                let context_bytes = first.and_then(|first| first.capabilities().context_bytes);
                bottleneck::observe(
                    reader,
                    &ObservationEnv { toolbox: harness.toolbox().clone(), context_bytes },
                    tasks,
                )
            })
            .await?;
        let found = bottleneck::detect(&seen.tasks, &seen.standing);
        let sentences: Vec<String> = found.iter().map(Bottleneck::sentence).collect();
        let (decision, why) = match sentences.first() {
            Some(worst) => (StageDecision::Go, worst.clone()),
            None if seen.tasks.len() < bottleneck::LEAST_TASKS => {
                let least = bottleneck::LEAST_TASKS;
                let why = format!(
                    "{} tasks since the runtime was last changed say too little: {least} are needed",
                    seen.tasks.len()
                );
                (StageDecision::Nothing, why)
            }
            None => (StageDecision::Nothing, "nothing reaches its threshold".to_owned()),
        };
        stages.push(StageRecord {
            stage: PatchLoopStage::Detect,
            decision,
            why,
            input: json!({ "tasks": seen.tasks.len(), "atMost": tasks, "standing": seen.standing }),
            output: json!({ "measures": bottleneck::measure(&seen.tasks), "bottlenecks": found, "sentences": sentences }),
        });
        Ok((decision == StageDecision::Go).then_some((seen, found)))
    }

    async fn draft(
        &self,
        stages: &mut Vec<StageRecord>,
        (seen, found): (bottleneck::BrainObservation, Vec<Bottleneck>),
    ) -> StageResult<PatchDraft> {
        let toolbox = self.harness.toolbox().clone();
        let looked = seen.clone();
        let (material, tried, scene) = self
            .read(move |harness, reader| {
                let voice = BackendPricing::of(&speakers(harness, reader, None)?);
                let scene = DraftContext::of(reader, &toolbox, &looked)?;
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
            Some(drafted) => (StageDecision::Go, format!("“{}” could help", drafted.patch.title())),
            None if passed.is_empty() => {
                (StageDecision::Nothing, "nothing could show whether a patch helps".to_owned())
            }
            None => (StageDecision::Nothing, passed.join("; ")),
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
                    "parts": drafted.evaluation.parts.iter().map(crate::evaluation::EvaluationPart::name).collect::<Vec<_>>(),
                    "goals": drafted.evaluation.goals, "guards": drafted.evaluation.guards },
            }),
        };
        stages.push(StageRecord { stage: PatchLoopStage::Draft, decision, why, input, output });
        Ok(drafted)
    }

    async fn evaluate(&self, stages: &mut Vec<StageRecord>, drafted: PatchDraft) -> StageResult<VerdictRecord> {
        let mut fork = SuccessorFork::new(self.harness, self.brain, drafted.patch.clone()).await?;
        let base = fork.base().clone();
        let verdict = fork.evaluate(&drafted.evaluation, self.how.budget).await;
        fork.destroy().await?;
        let verdict = verdict?;
        let record = VerdictStore::new(self.harness.layout()).find(&verdict.hash()?)?;
        let is_approved = verdict.verdict == VerdictRuling::Approve;
        let why = format!("{}: {}", verdict.verdict.name(), verdict.evaluation_summary);
        stages.push(StageRecord {
            stage: PatchLoopStage::Evaluate,
            decision: if is_approved { StageDecision::Go } else { StageDecision::Against },
            why,
            input: json!({ "base": base, "patch": drafted.patch.hash(), "evaluation": verdict.evaluation_hash,
                           "budget": self.how.budget }),
            output: json!({ "verdict": record.name, "hash": verdict.hash()?, "ruling": verdict.verdict,
                            "confidence": verdict.confidence, "walls": verdict.walls, "spent": verdict.spent,
                            "report": record.path.join(REPORT) }),
        });
        Ok(is_approved.then_some(record))
    }

    async fn verify(&self, stages: &mut Vec<StageRecord>, record: &VerdictRecord) -> StageResult<()> {
        let auditing = AuditOptions { held_out: self.how.held_out.clone(), budget: self.how.budget };
        let audit = audit::audit(self.harness, &record.name, auditing).await?;
        let (decision, why) = match audit.faults().next() {
            None if audit.agrees => (StageDecision::Go, "a second successor with another seed agrees".to_owned()),
            None => (StageDecision::Against, "the verifier does not agree".to_owned()),
            Some(fault) => (StageDecision::Against, fault.sentence.clone()),
        };
        stages.push(StageRecord {
            stage: PatchLoopStage::Verify,
            decision,
            why,
            input: json!({ "verdict": record.name, "seed": audit.seed, "heldOut": audit.held_out }),
            output: json!({ "agrees": audit.agrees, "hash": audit.hash()?, "second": audit.verdict,
                            "ruling": audit.ruling, "findings": audit.findings }),
        });
        Ok((decision == StageDecision::Go).then_some(()))
    }

    async fn gate(&self, stages: &mut Vec<StageRecord>, record: &VerdictRecord) -> StageResult<()> {
        let standing = match self.how.mode {
            PatchLoopMode::DryRun => self.doors.look(record).await?,
            PatchLoopMode::Live => self.doors.ask(record).await?,
        };
        let (decision, why) = match &standing {
            GateStatus::Open { by } => (StageDecision::Go, format!("the gate opens: {by}")),
            GateStatus::Waiting { whom, how } => (StageDecision::Wait, format!("waiting for {whom}: {how}")),
            GateStatus::Shut { why } => (StageDecision::Against, why.clone()),
        };
        stages.push(StageRecord {
            stage: PatchLoopStage::Gate,
            decision,
            why,
            input: json!({ "verdict": record.name, "patch": record.verdict.patch_hash, "base": record.verdict.base }),
            output: json!(standing),
        });
        Ok((decision == StageDecision::Go).then_some(()))
    }

    async fn apply(&self, stages: &mut Vec<StageRecord>, record: &VerdictRecord) -> StageResult<u64> {
        let (window, now) = (self.how.window, self.harness.now());
        let mut applied = None;
        let (decision, why) = match (window.has(now), self.how.mode) {
            (false, _) => (StageDecision::Wait, format!("waiting for the maintenance window, {window}; it is {now}")),
            (true, PatchLoopMode::DryRun) => {
                (StageDecision::Wait, "it would be applied now; this is a dry run".to_owned())
            }
            (true, PatchLoopMode::Live) => {
                let version = self.doors.apply(record).await?;
                applied = Some(version);
                (
                    StageDecision::Go,
                    format!("applied with version {version}; the next {} tasks are watched", self.how.watched),
                )
            }
        };
        stages.push(StageRecord {
            stage: PatchLoopStage::Apply,
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
    harness.backend_chain(reader.id(), wish, tuned.or(manifest).as_deref())
}
