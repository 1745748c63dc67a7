//! The harness: brains, backends and tools in one process.
//!
//! [`Harness`] holds a pool with one place for each brain. A task takes its brain's place, runs, and is settled as one step;
//! after the answer, maintenance runs: curator, evolver, snapshot, vectors. [`replay`] runs a recorded task again in a copy.
//!
//! It knows nothing of HTTP, keys, payment or patches.
//!
//! ```
//! use herm_agent::backend::ScriptedBackend;
//! use herm_agent::task::{Task, TaskStatus};
//! use herm_brain::brain::{Brain, BrainOptions, BrainSource, Seed};
//! use herm_core::{Result, fsio};
//! use herm_harness::Harness;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<()> {
//!     let dir = fsio::create_scratch("herm-harness-doc")?;
//!     let model = ScriptedBackend::new([r#"{"answer": 42}"#]); // a model would write this
//!     let harness = Harness::builder().brains(&dir).backend(model).build()?;
//!
//!     let id = "7".parse()?;
//!     let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//!     Brain::hydrate(harness.layout(), &id, &BrainSource::Seed(seed), &BrainOptions::default())?.0.close()?;
//!
//!     let outcome = harness.run(&id, Task::new("six times seven")).await?;
//!     assert_eq!(outcome.status, TaskStatus::Converged);
//!     assert_eq!(outcome.answer.as_deref(), Some(r#"{"answer": 42}"#));
//!     harness.shutdown().await?;
//!     fsio::remove_tree(&dir)
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `reflex` | off | the backend without a language model answers where no other is given |
//! | `snapshot` | off | brains are pushed to a store after steps, and restored when a task arrives |
//! | `many_calls` | off | many calls of one tool at once, for the successor's measurements |

use herm_agent::{backend, checks, session, task, tool};
use herm_brain::{brain, memory, receipt, semantic, tuning};
use herm_core::{clock, error, fsio, ids, layout};
use herm_learning::{curator, evolver, trial};
use herm_skills as skill;
#[cfg(feature = "snapshot")]
use herm_snapshot as snapshot;

mod agents;
mod builder;
#[cfg(feature = "many_calls")]
mod calls;
mod consolidate;
mod evolve;
mod feedback;
mod harvest;
mod maintain;
mod pool;
mod rehearsals;
mod rehearse;
mod rehearse_change;
mod replay;
#[cfg(feature = "snapshot")]
mod snapshots;
#[cfg(not(feature = "snapshot"))]
#[path = "no_snapshots.rs"]
mod snapshots;
mod task_run;
mod vectors;

pub use builder::HarnessBuilder;
#[cfg(feature = "many_calls")]
pub use calls::ManyCalls;
pub use evolve::EvolverOptions;
pub use feedback::{FeedbackFrom, FeedbackResult, TaskFeedback, give_feedback};
pub use maintain::{CuratorOptions, MaintenanceCounters, MaintenanceReport, SessionHook};
pub use rehearse::{AnswerRater, RehearsalCalls, RehearsalOptions, RehearsalReport, RehearsedTask};
pub use rehearse_change::{ChangeRehearsal, RehearsedChange};
pub use replay::rerun;
pub use replay::{ReplayReport, replay, replay_with_backend};
#[cfg(feature = "snapshot")]
pub use snapshots::{PushTiming, SnapshotCounters, SnapshotOptions};
pub use task_run::{RunOptions, TaskCost};
pub use vectors::VectorProgress;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use pool::{BrainGuard, Pool, Waiter};
use rehearsals::Rehearsals;

use crate::backend::{Chain, Router};
use crate::brain::{Brain, BrainOptions};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::evolver::consolidation::pass::ConsolidationMemory;
use crate::ids::{BrainId, Random, sha256};
use crate::layout::Layout;
use crate::receipt::Signer;
use crate::session::exemplar::ExampleCache;
use crate::task::{LearningOptions, Outcome, Task};
use crate::tool::{Permissions, ProgramRunner, Secrets, SkillEnv, ToolProgram, Toolbox};
use crate::trial::pass::TrialMemory;
use crate::trial::sequential::TrialPolicy;
use crate::tuning::{ToolSwap, Tuning};

/// Brains, backends and tools in one process. Cheap to clone; all clones are one harness.
#[derive(Debug, Clone)]
pub struct Harness {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    layout: Layout,
    router: Router,
    toolbox: Toolbox,
    permissions: Permissions,
    secrets: Arc<Secrets>,
    opening: BrainOptions,
    signer: Arc<Signer>,
    random: Arc<dyn Random>,
    learning: LearningOptions,
    /// Examples that were read already, of all brains.
    examples: Arc<ExampleCache>,
    sharing: bool,
    /// Whether spans hold what was said.
    trace_content: bool,
    pool: Pool,
    keep_transcripts: u64,
    surroundings: Arc<SkillEnv>,
    /// How the curator runs; not at all where it is off.
    curating: Option<CuratorOptions>,
    /// How the evolver runs; not at all where it is off.
    evolving: Option<EvolverOptions>,
    /// The last pass over a brain, where there is something to remember of it.
    curated: Mutex<HashMap<BrainId, maintain::Curated>>,
    /// What is remembered of the trials of a brain between two passes.
    trials: Mutex<HashMap<BrainId, TrialMemory>>,
    /// The skills of a brain that were compared with each other last.
    consolidated: Mutex<HashMap<BrainId, ConsolidationMemory>>,
    /// When a trial is given up, and the share of matching tasks that are shown what is on trial.
    trial_policy: TrialPolicy,
    /// Rehearsals that run by themselves.
    rehearsals: Option<Rehearsals>,
    counted: maintain::AtomicCounters,
    /// Who looks at brains after their sessions; nobody, unless said.
    after: Option<Arc<dyn SessionHook>>,
    /// Who runs programs that stand in for tools; nobody, unless said.
    programs: Option<Arc<dyn ProgramRunner>>,
    /// What texts mean, where a model was given; nothing, unless said.
    vectors: Option<vectors::Vectors>,
    /// Where brains are snapshotted to; nowhere, unless said.
    #[cfg_attr(not(feature = "snapshot"), expect(dead_code, reason = "nothing is pushed in this build"))]
    snapshots: Option<snapshots::Snapshots>,
    /// Which brain waits for which.
    waits: agents::Waits,
}

impl Harness {
    /// Begins with the embedded backend, no tools, and a key made on first use.
    pub fn builder() -> HarnessBuilder {
        HarnessBuilder::default()
    }

    /// Runs a task on a brain. Tasks of one brain run one at a time, first come first served;
    /// different brains run side by side. Dropping the future leaves the brain before or after
    /// the step, never between.
    pub async fn run(&self, id: &BrainId, task: Task) -> Result<Outcome> {
        self.run_with(id, task, RunOptions::default()).await
    }

    /// Where the brains are.
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// All tools of the harness; a brain's whitelist and the permissions decide which of them a task may use.
    pub fn toolbox(&self) -> &Toolbox {
        &self.inner.toolbox
    }

    /// Who speaks for a brain, in the order they are asked: by this wish, or as always.
    pub fn backend_chain(&self, id: &BrainId, wish: Option<&str>, manifest: Option<&str>) -> Result<Chain> {
        self.inner.router.route(id, wish, manifest)
    }

    /// The moment, by the clock of the harness.
    pub fn now(&self) -> Timestamp {
        self.inner.opening.clock.now()
    }

    /// Where randomness comes from.
    pub fn random(&self) -> &dyn Random {
        &*self.inner.random
    }

    /// What tools may touch beyond the brain.
    pub fn permissions(&self) -> Permissions {
        self.inner.permissions
    }

    /// The key that signs.
    pub fn signer(&self) -> &Signer {
        &self.inner.signer
    }

    /// How many brains are open, and roughly how many bytes they take.
    pub fn pool_weight(&self) -> (usize, usize) {
        self.inner.pool.weight()
    }

    /// Catches up with the store where the last step here lost against another operator's. Until then the brain holds
    /// a step that nobody else will ever see.
    pub async fn catch_up(&self, id: &BrainId) -> Result<()> {
        if !self.inner.has_lost(id) {
            return Ok(());
        }
        let opened = self.inner.open(id).await.map(drop);
        if !self.inner.has_lost(id) {
            return opened;
        }
        let error = Error::unavailable(format!("the last step of brain {id} lost and is not taken back yet"));
        let error = error.hint("it is when the store can be reached").passing();
        Err(match opened {
            Ok(()) => error,
            Err(source) => error.because(source),
        })
    }

    /// Waits for running tasks, for snapshots that are due, and closes every brain.
    pub async fn shutdown(&self) -> Result<()> {
        // Those take brains' places to write down what they found.
        self.inner.finish_rehearsals().await;
        let mut closed = self.inner.close_all().await;
        // Vectors in the making are kept, which opens their brains once more.
        if self.inner.finish_vectors().await {
            closed = closed.and(self.inner.close_all().await);
        }
        self.inner.pool.tidy();
        let flushed = self.inner.flush_snapshots().await;
        closed.and(flushed)
    }
}

impl Inner {
    /// Closes every brain, as its place becomes free.
    async fn close_all(&self) -> Result<()> {
        let mut all = Ok(());
        for (place, id) in self.pool.all().await {
            let closed = close(place, id).await;
            all = all.and(closed);
        }
        all
    }

    /// The programs that stand in for tools of a brain, checked against their digests.
    fn programs_of(&self, brain: &Brain, tuning: &Tuning) -> Result<BTreeMap<String, ToolProgram>> {
        let Some(runner) = &self.programs else { return Ok(BTreeMap::new()) };
        let mut programs = BTreeMap::new();
        for (name, swap) in &tuning.tools {
            let ToolSwap::Executable(said) = swap else { continue };
            let path = layout::rel(&format!("{}/{name}", layout::TOOLS_DIR))?;
            let content = brain.read_content(&path)?.filter(|content| sha256(content) == said.sha256);
            let content = content.ok_or_else(|| {
                Error::corrupt(format!("{path} is not the program that tuning.json names"))
                    .hint("undo the change of tuning.json, or restore the brain from a snapshot")
            })?;
            programs.insert(name.clone(), ToolProgram::new(name, content.into(), Arc::clone(runner)));
        }
        Ok(programs)
    }

    /// Waits for a brain's place and sees to it that the brain is open in it.
    async fn open(self: &Arc<Self>, id: &BrainId) -> Result<(BrainGuard, Waiter)> {
        let (mut place, wanting) = self.pool.take(id).await;
        self.prepare(id, &mut place).await?;
        if place.as_ref().is_some_and(Brain::is_usable) {
            return Ok((place, wanting));
        }
        let (inner, id) = (Arc::clone(self), id.clone());
        let opened = tokio::task::spawn_blocking(move || {
            // What cannot be used is let go first: it holds the lock.
            drop(place.take());
            let brain = Brain::open(&inner.layout, &id, &inner.opening)?;
            wanting.weigh(brain.memory_bytes());
            *place = Some(brain);
            Ok((place, wanting))
        });
        match opened.await {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(error)) => {
                self.pool.tidy();
                Err(error)
            }
            Err(_) => Err(Error::internal("opening the brain was interrupted")),
        }
    }
}

#[cfg(feature = "snapshot")]
/// Closes a brain that makes room, off the executor's threads.
async fn close_now(brain: Brain) -> Result<()> {
    let closing = tokio::task::spawn_blocking(move || brain.close());
    closing.await.map_err(|_| Error::internal("closing a brain was interrupted"))?
}

/// Closes a brain, off the executor's threads.
async fn close(place: BrainGuard, id: BrainId) -> Result<()> {
    let closing = tokio::task::spawn_blocking(move || close_brain(place, &id, Brain::close));
    closing.await.map_err(|_| Error::internal("closing a brain was interrupted"))?
}

fn close_brain(mut place: BrainGuard, id: &BrainId, how: fn(Brain) -> Result<()>) -> Result<()> {
    let closed = place.take().map_or(Ok(()), how);
    if let Err(error) = &closed {
        tracing::warn!(brain = %id, %error, "not closed cleanly; the next open finishes it");
    }
    closed
}
