//! The fork itself: a consistent copy of a brain, judged with a patch and without it, and then gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use herm_sandbox::SandboxLease;
use tokio::time::Instant;

use crate::adopt::base_of;
use crate::apply;
use crate::brain::{Brain, BrainOptions, Reader};
use crate::broker::Broker;
use crate::budget::SuccessorBudget;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::evaluation::{BackendChoice, Evaluation, EvaluationPart};
use crate::harness::Harness;
use crate::ids::{BrainId, sha256};
use crate::judge::{Judgement, judge};
use crate::layout::{self, Layout};
use crate::patch::{Patch, PatchChange};
use crate::recent::Recent;
use crate::records::{Saved, VerdictStore};
use crate::runner::eval_runner::{EvalResult, EvalRunner};
use crate::runner::worker_handle::{ParentServices, limits};
use crate::skill::provenance::SkillWriter;
use crate::tool::SandboxedPrograms;
use crate::verdict::{PatchBase, RuntimeIdentity, VERDICT_SCHEMA, Verdict};
use crate::wire::{Face, Setup};

/// The most caveats of a verdict.
const MOST_CAVEATS: usize = 64;

/// What a brain is without a patch and with it; nothing where the patch cannot be applied.
pub(super) type Identities = (String, Option<String>);
/// Programs by their SHA-256.
pub(super) type ProgramsByDigest = BTreeMap<String, Arc<[u8]>>;

/// A sandboxed clone of the runtime with a copy of one brain. It never changes the parent: not the brain, not the
/// tools, not the keys. Dropping it removes it; [`destroy`](Self::destroy) says whether that worked.
#[derive(Debug)]
pub struct SuccessorFork {
    harness: Harness,
    patch: Patch,
    base: PatchBase,
    /// A copy for each side.
    leases: Option<[SandboxLease; 2]>,
    facts: Facts,
    saved: Option<PathBuf>,
}

/// What the parent knows of both sides by itself: what a worker says of it is only compared.
#[derive(Debug, Clone)]
struct Facts {
    /// What the brain is without the patch and with it; nothing where the patch cannot be applied.
    identity: Identities,
    /// The programs of the brain and of the patch, by their SHA-256.
    programs: ProgramsByDigest,
    /// The backend that the brain asks for without the patch, and with it.
    backends: [Option<String>; 2],
    /// The receipts of tasks that the brain did as it is now, and how many it did as something else.
    recent: Recent,
}

/// Where the forks of a brains directory live.
pub fn forks(layout: &Layout) -> PathBuf {
    layout.successors().join("forks")
}

impl SuccessorFork {
    /// Forks: copies the brain as it is at this moment, twice, without holding it up.
    pub async fn new(harness: &Harness, brain: &BrainId, patch: Patch) -> Result<Self> {
        let (layout, id, change) = (harness.layout().clone(), brain.clone(), patch.clone());
        let (base, leases, facts) = blocking(move || {
            // What a parent left that was killed is not ours to trip over.
            if let Err(error) = sweep(&layout) {
                tracing::warn!(%error, "what dead successors left is still there");
            }
            let leases = copies(&layout, &id)?;
            let (base, facts) = facts(&leases[0], &id, &change)?;
            Ok((base, leases, facts))
        })
        .await?;
        Ok(Self { harness: harness.clone(), patch, base, leases: Some(leases), facts, saved: None })
    }

    /// What it is judged against.
    pub fn base(&self) -> &PatchBase {
        &self.base
    }

    /// Runs the evaluation on both sides, judges, signs and writes down the verdict. Everything that can go wrong
    /// inside is a verdict too; an error means that the parent itself could not do its part.
    pub async fn evaluate(&mut self, evaluation: &Evaluation, budget: SuccessorBudget) -> Result<Verdict> {
        budget.validate()?;
        evaluation.validate()?;
        let started_at = self.harness.now();
        // A copy that was judged on is not the brain any more.
        let Some(leases) = self.leases.take() else {
            return Err(Error::conflict("this successor has judged already, or is destroyed").hint("fork again"));
        };
        let until = Instant::now() + Duration::from_secs(budget.wall_secs);
        let brokers = match evaluation.speaker {
            BackendChoice::Reflex => [None, None],
            BackendChoice::Brain => {
                let [before, after] = self.speakers()?;
                let before = Broker::new(before, budget.micro_usd, until);
                let after = before.beside(after);
                [Some(Arc::new(before)), Some(Arc::new(after))]
            }
        };
        let records = VerdictStore::new(self.harness.layout());
        // Below a lease: where this process dies, it goes with it.
        let making = records.begin(&leases[0].directory().join("record"))?;
        let run = {
            let (evaluation, patch, brain) = (evaluation.clone(), self.patch.clone(), self.base.brain.clone());
            let faces = brokers.clone().map(|broker| {
                let broker = broker?;
                broker.first().map(|backend| Face::of(backend.name(), backend.capabilities()))
            });
            let sandboxes = SandboxedPrograms::new(forks(self.harness.layout())).within(&limits(&budget));
            let (outputs, runtime) = (making.path().to_owned(), tokio::runtime::Handle::current());
            let Facts { identity, programs, recent, .. } = self.facts.clone();
            let leases = leases.clone();
            blocking(move || {
                let file = String::from_utf8(patch.bytes().to_vec())
                    .map_err(|_| Error::invalid("the patch is not text").hint("a patch is JSON"))?;
                let [before, after] = faces;
                let setup =
                    |patch, backend| Setup { brain: brain.clone(), patch, speaker: evaluation.speaker, backend };
                let arms = EvalRunner {
                    evaluation: &evaluation,
                    setups: [setup(None, before), setup(Some(file), after)],
                    leases: &leases,
                    budget: &budget,
                    services: ParentServices {
                        brokers,
                        sandboxes: &sandboxes,
                        programs,
                        runtime,
                        until: until.into_std(),
                    },
                    identity: &identity,
                    recent: &recent,
                    outputs: &outputs,
                };
                let mut run = arms.run();
                run.caveats.extend(crate::runner::artifacts::collect(&leases, &outputs)?);
                Ok(run)
            })
            .await?
        };
        let verdict = self.verdict(evaluation, budget, &run, (started_at, self.harness.now()))?;
        let saved = Saved { verdict, patch: &self.patch, evaluation, samples: &run.samples };
        let (verdict, path) = making.finish(saved, self.harness.signer())?;
        self.leases = None;
        remove(leases).await?;
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

    /// Who speaks without the patch, and who with it.
    fn speakers(&self) -> Result<[crate::backend::Chain; 2]> {
        let speaks = |wish: &Option<String>| self.harness.backend_chain(&self.base.brain, None, wish.as_deref());
        Ok([speaks(&self.facts.backends[0])?, speaks(&self.facts.backends[1])?])
    }

    /// What a reader should know of how it was run.
    fn caveats(&self, evaluation: &Evaluation, run: &EvalResult) -> Vec<String> {
        let mut caveats = run.caveats.clone();
        if run.rejected.is_none() && !run.samples.iter().any(|sample| !sample.checks.is_empty()) {
            caveats.push("No task was checked: this says nothing about answers.".to_owned());
        }
        if run.diverged > 0 {
            let who = match evaluation.speaker {
                BackendChoice::Reflex => "the embedded backend, which is no language model,",
                BackendChoice::Brain => "the brain's backend",
            };
            caveats.push(format!(
                "In {} replays the patch changed the conversation, and {who} spoke instead of the record.",
                run.diverged
            ));
        }
        let swaps =
            self.patch.changes().iter().any(|change| matches!(change, PatchChange::Tool { executable: Some(_), .. }));
        if swaps && evaluation.parts.iter().any(|part| matches!(part, EvaluationPart::Replay { .. })) {
            caveats.push(
                "In replays the program of the patch does not run: its calls are answered from the record.".to_owned(),
            );
        }
        caveats
    }

    fn verdict(
        &self,
        evaluation: &Evaluation,
        budget: SuccessorBudget,
        run: &EvalResult,
        times: (Timestamp, Timestamp),
    ) -> Result<Verdict> {
        let judgement = match &run.rejected {
            Some(rejection) => Judgement::rejected(&rejection.reason, rejection.sentence.clone()),
            None => judge(&evaluation.without(&run.empty), &run.samples, evaluation.seed),
        };
        let (before, after) = self.facts.identity.clone();
        let mut caveats = self.caveats(evaluation, run);
        caveats.extend(judgement.caveats);
        caveats.truncate(MOST_CAVEATS);
        Ok(Verdict {
            schema: VERDICT_SCHEMA.to_owned(),
            verdict: judgement.verdict,
            confidence: judgement.confidence,
            patch_hash: self.patch.hash(),
            evaluation_hash: evaluation.hash()?,
            evaluation_summary: judgement.summary,
            caveats,
            left_out: run.empty.clone(),
            artifacts: Vec::new(),
            reason: judgement.reason,
            base: self.base.clone(),
            identity: RuntimeIdentity { before, after },
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

/// Copies of a brain for both sides, of the same moment.
fn copies(layout: &Layout, id: &BrainId) -> Result<[SandboxLease; 2]> {
    let root = forks(layout);
    let take = || SandboxLease::take(&root).map_err(|source| Error::io("make a sandbox in", &root, source));
    let leases = [take()?, take()?];
    let place = |lease: &SandboxLease| Layout::new(lease.work().join("brains"));
    Reader::open(layout, id)?.copy_into(&place(&leases[0]))?;
    // The second is a copy of the first: the brain may have moved meanwhile.
    Reader::open(&place(&leases[0]), id)?.copy_into(&place(&leases[1]))?;
    Ok(leases)
}

fn facts(lease: &SandboxLease, id: &BrainId, patch: &Patch) -> Result<(PatchBase, Facts)> {
    let layout = Layout::new(lease.work().join("brains"));
    let recent = Recent::of(&Reader::open(&layout, id)?, patch)?;
    let brain = Brain::open(&layout, id, &BrainOptions::default())?;
    let base = base_of(&brain, patch)?;
    let staged = apply::stage(&brain, patch, SkillWriter::Person).ok();
    let before = apply::identity(&brain, None)?;
    let after = staged.as_ref().map(|draft| apply::identity(&brain, Some(draft))).transpose()?;
    let backends = [apply::backend(&brain, None)?, apply::backend(&brain, staged.as_ref())?];
    let mut programs = ProgramsByDigest::new();
    for name in brain.tuning()?.tools.keys() {
        if let Some(content) = brain.read_content(&layout::rel(&format!("{}/{name}", layout::TOOLS_DIR))?)? {
            programs.insert(sha256(&content), content.into());
        }
    }
    for change in patch.changes() {
        if let PatchChange::Tool { executable: Some(executable), .. } = change {
            let program = executable.program()?;
            programs.insert(sha256(&program), program.into());
        }
    }
    brain.close()?;
    Ok((base, Facts { identity: (before, after), programs, backends, recent }))
}

/// Removes the working directories of both sides.
async fn remove(leases: [SandboxLease; 2]) -> Result<()> {
    blocking(move || {
        leases
            .iter()
            .try_for_each(|lease| lease.remove().map_err(|source| Error::io("remove", lease.directory(), source)))
    })
    .await
}

/// Removes what dead parents left.
pub fn sweep(layout: &Layout) -> Result<herm_sandbox::janitor::SweepReport> {
    let root = forks(layout);
    herm_sandbox::janitor::sweep(&root).map_err(|source| Error::io("tidy", &root, source))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::internal("the successor was interrupted"))?
}
