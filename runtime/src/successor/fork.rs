//! The fork itself: a consistent copy of a brain, judged with a patch and without it, and then gone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use herm_sandbox::Lease;
use tokio::time::Instant;

use super::arms::{Arms, Run};
use super::broker::Broker;
use super::budget::Budget;
use super::evaluation::{Evaluation, Speaker};
use super::judge::{Judgement, judge};
use super::patch::Patch;
use super::records::{Records, Saved};
use super::side::Around;
use super::verdict::{Base, Identity, VERDICT_SCHEMA, Verdict};
use super::wire::{Face, Setup};
use crate::brain::Reader;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::harness::Harness;
use crate::ids::BrainId;
use crate::layout::Layout;
use crate::tool::Sandboxed;

/// A sandboxed clone of the runtime with a copy of one brain. It never changes the parent: not the brain, not the
/// tools, not the keys. Dropping it removes it; [`destroy`](Self::destroy) says whether that worked.
#[derive(Debug)]
pub struct SuccessorFork {
    harness: Harness,
    patch: Patch,
    base: Base,
    /// A copy for each side.
    leases: Option<[Lease; 2]>,
    saved: Option<PathBuf>,
}

/// Where the forks of a brains directory live.
pub fn forks(layout: &Layout) -> PathBuf {
    layout.successors().join("forks")
}

impl SuccessorFork {
    /// Forks: copies the brain as it is at this moment, twice, without holding it up.
    pub async fn new(harness: &Harness, brain: &BrainId, patch: Patch) -> Result<Self> {
        let (layout, id) = (harness.layout().clone(), brain.clone());
        let (base, leases) = blocking(move || {
            // What a parent left that was killed is not ours to trip over.
            if let Err(error) = sweep(&layout) {
                tracing::warn!(%error, "what dead successors left is still there");
            }
            copies(&layout, &id)
        })
        .await?;
        Ok(Self { harness: harness.clone(), patch, base, leases: Some(leases), saved: None })
    }

    /// What it is judged against.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Runs the evaluation on both sides, judges, signs and writes down the verdict. Everything that can go wrong
    /// inside is a verdict too; an error means that the parent itself could not do its part.
    pub async fn evaluate(&mut self, evaluation: &Evaluation, budget: Budget) -> Result<Verdict> {
        budget.validate()?;
        evaluation.validate()?;
        let started_at = self.harness.now();
        let Some(leases) = self.leases.clone() else {
            return Err(Error::conflict("this successor is destroyed").hint("fork again"));
        };
        let until = Instant::now() + Duration::from_secs(budget.wall_secs);
        let broker = match evaluation.speaker {
            Speaker::Reflex => None,
            Speaker::Brain => Some(Arc::new(Broker::new(self.speakers()?, budget.micro_usd, until))),
        };
        let records = Records::new(self.harness.layout());
        let draft = records.begin(self.harness.random())?;
        let run = {
            let (evaluation, patch, brain) = (evaluation.clone(), self.patch.clone(), self.base.brain.clone());
            let face = broker
                .as_ref()
                .and_then(|broker| broker.first().map(|backend| Face::of(backend.name(), backend.capabilities())));
            let programs = Sandboxed::new(forks(self.harness.layout()));
            let outputs = draft.path().to_owned();
            let runtime = tokio::runtime::Handle::current();
            blocking(move || {
                let file = String::from_utf8(patch.bytes().to_vec())
                    .map_err(|_| Error::invalid("the patch is not text").hint("a patch is JSON"))?;
                let setup =
                    |patch| Setup { brain: brain.clone(), patch, speaker: evaluation.speaker, backend: face.clone() };
                let arms = Arms {
                    evaluation: &evaluation,
                    setups: [setup(None), setup(Some(file))],
                    leases: &leases,
                    budget: &budget,
                    around: Around { broker, programs: &programs, runtime },
                    outputs: &outputs,
                };
                let mut run = arms.run();
                run.caveats.extend(super::artifacts::collect(&leases, &outputs)?);
                Ok(run)
            })
            .await?
        };
        let verdict = self.verdict(evaluation, budget, &run, (started_at, self.harness.now()))?;
        let saved = Saved { verdict, patch: &self.patch, evaluation, samples: &run.samples };
        let (verdict, path) = draft.finish(saved, self.harness.signer())?;
        self.saved = Some(path);
        Ok(verdict)
    }

    /// Where the last verdict and its artifacts are.
    pub fn saved(&self) -> Option<&Path> {
        self.saved.as_deref()
    }

    /// Removes everything but verdicts and artifacts. Doing it twice does no harm.
    pub async fn destroy(&mut self) -> Result<()> {
        let Some(leases) = self.leases.take() else { return Ok(()) };
        blocking(move || {
            leases
                .iter()
                .try_for_each(|lease| lease.remove().map_err(|source| Error::io("remove", lease.directory(), source)))
        })
        .await
    }

    fn speakers(&self) -> Result<crate::backend::Chain> {
        let reader = Reader::open(self.harness.layout(), &self.base.brain)?;
        let manifest = reader.manifest()?.and_then(|manifest| manifest.backend);
        let tuned = reader.tuning()?.backend;
        self.harness.speakers(&self.base.brain, None, tuned.or(manifest).as_deref())
    }

    fn verdict(&self, evaluation: &Evaluation, budget: Budget, run: &Run, times: (Moment, Moment)) -> Result<Verdict> {
        let judgement = match &run.rejected {
            Some(rejection) => Judgement::rejected(&rejection.reason, rejection.sentence.clone()),
            None => judge(&without(evaluation, &run.empty), &run.samples, evaluation.seed),
        };
        let identity = run.identity.clone();
        let after = identity.as_ref().map(|(_, after)| after.clone()).filter(|_| run.rejected.is_none());
        let mut caveats = run.caveats.clone();
        caveats.extend(judgement.caveats);
        Ok(Verdict {
            schema: VERDICT_SCHEMA.to_owned(),
            verdict: judgement.verdict,
            confidence: judgement.confidence,
            patch_hash: self.patch.hash(),
            evaluation_hash: evaluation.hash()?,
            evaluation_summary: judgement.summary,
            caveats,
            artifacts: Vec::new(),
            reason: judgement.reason,
            base: self.base.clone(),
            identity: Identity { before: identity.map(|(before, _)| before).unwrap_or_default(), after },
            budget,
            spent: run.spent,
            walls: run.walls.clone(),
            seed: evaluation.seed,
            checks: judgement.checks,
            statistics: judgement.statistics,
            started_at: times.0,
            ended_at: times.1,
        })
    }
}

/// The evaluation without parts for which there was nothing to run, unless it measures something in them.
fn without(evaluation: &Evaluation, empty: &[String]) -> Evaluation {
    let is_measured = |part: &str| {
        let goals = evaluation.goals.iter().map(|goal| goal.part.as_deref());
        goals.chain(evaluation.guards.iter().map(|guard| guard.part.as_deref())).any(|named| named == Some(part))
    };
    let mut evaluation_run = evaluation.clone();
    evaluation_run.parts.retain(|part| !empty.iter().any(|empty| empty == part.name()) || is_measured(part.name()));
    evaluation_run
}

/// Copies of a brain for both sides, of the same moment.
fn copies(layout: &Layout, id: &BrainId) -> Result<(Base, [Lease; 2])> {
    let root = forks(layout);
    let take = || Lease::take(&root).map_err(|source| Error::io("make a sandbox in", &root, source));
    let leases = [take()?, take()?];
    let place = |lease: &Lease| Layout::new(lease.work().join("brains"));
    let lock = Reader::open(layout, id)?.copy_into(&place(&leases[0]))?;
    // The second is a copy of the first: the brain may have moved meanwhile.
    Reader::open(&place(&leases[0]), id)?.copy_into(&place(&leases[1]))?;
    Ok((Base { brain: id.clone(), version: lock.version, bundle_hash: lock.bundle_hash }, leases))
}

/// Removes what dead parents left.
pub fn sweep(layout: &Layout) -> Result<herm_sandbox::janitor::Swept> {
    let root = forks(layout);
    herm_sandbox::janitor::sweep(&root).map_err(|source| Error::io("tidy", &root, source))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("the successor was interrupted"))?
}
