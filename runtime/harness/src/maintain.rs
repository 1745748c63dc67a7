//! What follows a session: the curator retires what goes unused, trials that found something end, the evolver improves
//! what is used, what is kept only for a while is pruned, the files are made durable, and the brain is snapshotted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::{BrainGuard, Harness, Inner, Waiter, close_brain};
use crate::brain::{Brain, BrainOptions, OnDrift, STEPS_BETWEEN_FLUSHES};
use crate::clock::Timestamp;
use crate::curator;
use crate::error::{Error, Result};
use crate::evolver::EvolverRoundReport;
use crate::evolver::consolidation::pass::ConsolidationReport;
use crate::ids::BrainId;
use crate::memory::TrialState;
use crate::skill::Delta;
use crate::trial;
use crate::trial::pass::{TrialPassReport, TrialScope};

/// How the curator runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CuratorOptions {
    /// When a skill counts as unused.
    pub policy: curator::CuratorPolicy,
    /// At least so long between two passes over a brain; zero is after every session.
    pub every: Duration,
}

impl CuratorOptions {
    fn every_millis(self) -> i64 {
        i64::try_from(self.every.as_millis()).unwrap_or(i64::MAX)
    }
}

/// Someone who looks at a brain after its sessions, once their place is free and off the caller's path. Called on a thread
/// for blocking work; errors are for it to tell.
pub trait SessionHook: std::fmt::Debug + Send + std::marker::Sync {
    /// A session of a brain is over and maintained.
    fn after(&self, harness: &Harness, brain: &BrainId);
}

/// The last pass over a brain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Curated {
    at: Option<Timestamp>,
    /// Skills that stayed due: without files, or not movable.
    stuck: u64,
}

/// How much the curator and the evolver have changed since a harness began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceCounters {
    /// Skills that the curator moved.
    pub curated: u64,
    /// Changes that the evolver made or holds for a person.
    pub evolved: u64,
    /// Changes that it proposes to take back.
    pub rollbacks_proposed: u64,
    /// Trials that found that a skill helps.
    pub proven: u64,
    /// Trials that found that a skill does harm.
    pub harmful: u64,
    /// Trials that found no difference.
    pub unproven: u64,
}

/// The same, while it counts.
#[derive(Debug, Default)]
pub(super) struct AtomicCounters {
    pub(super) curated: AtomicU64,
    pub(super) evolved: AtomicU64,
    pub(super) rollbacks_proposed: AtomicU64,
    proven: AtomicU64,
    harmful: AtomicU64,
    unproven: AtomicU64,
}

impl AtomicCounters {
    pub(super) fn count_trials(&self, report: &TrialPassReport) {
        for ended in &report.ended {
            let counter = match ended.state {
                TrialState::Proven => &self.proven,
                TrialState::Harmful => &self.harmful,
                TrialState::Unproven => &self.unproven,
                TrialState::Trial => continue,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a maintenance pass did.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct MaintenanceReport {
    /// What the curator did, where something was due.
    pub curator: Option<curator::CuratorReport>,
    /// What became of trials, where something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<TrialPassReport>,
    /// What the evolver did, where it was time.
    pub evolver: Option<EvolverRoundReport>,
    /// Skills that were merged, or would be, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<ConsolidationReport>,
    /// Transcripts that were let go.
    pub transcripts: u64,
    /// Vectors that were made, where a model makes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors: Option<u64>,
}

impl Harness {
    /// Maintains a brain now and waits for it. Runs by itself after each task.
    pub async fn maintain(&self, id: &BrainId) -> Result<MaintenanceReport> {
        let (mut place, wanting) = self.inner.open(id).await?;
        let inner = Arc::clone(&self.inner);
        let span = tracing::info_span!("maintain", herm.brain = %id);
        let done = tokio::task::spawn_blocking(move || {
            let _span = span.entered();
            let brain = place.as_mut().ok_or_else(|| Error::internal("the brain is not open"))?;
            let maintained = inner.curate(brain).and_then(|curator| {
                let trials = inner.conclude_trials(brain, TrialScope::All)?;
                let evolver = inner.evolve(brain)?;
                let consolidation = inner.consolidate(brain)?;
                let transcripts = make_durable(brain, inner.keep_transcripts)?;
                Ok(MaintenanceReport { curator, trials, evolver, consolidation, transcripts, vectors: None })
            });
            inner.push_later(brain.id());
            drop(place);
            drop(wanting);
            inner.close_overweight();
            maintained
        });
        let mut maintained = done.await.map_err(|_| Error::internal("maintenance was interrupted"))??;
        maintained.vectors = self.inner.make_vectors(id).await?.map(|pass| pass.kept);
        Ok(maintained)
    }
}

impl Harness {
    /// Does something with a brain as its owner, off the executor's threads, between tasks: first come first served.
    /// Steps are for the closure to settle.
    pub async fn with_brain<T: Send + 'static>(
        &self,
        id: &BrainId,
        work: impl FnOnce(&mut Brain) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (mut place, wanting) = self.inner.open(id).await?;
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || {
            let brain = place.as_mut().ok_or_else(|| Error::internal("the brain is not open"))?;
            let before = brain.lock().version;
            let done = work(brain);
            wanting.weigh(brain.memory_bytes());
            if brain.lock().version != before {
                inner.push_later(brain.id());
            }
            drop(place);
            drop(wanting);
            inner.close_overweight();
            done
        });
        done.await.map_err(|_| Error::internal("the work on a brain was interrupted"))?
    }

    /// Lets the curator pass over a brain now, whether or not it is time; what it moved is counted.
    pub async fn curate(&self, id: &BrainId, policy: curator::CuratorPolicy) -> Result<curator::CuratorReport> {
        let inner = Arc::clone(&self.inner);
        self.with_brain(id, move |brain| {
            let report = curator::run(brain, policy)?;
            inner.counted.curated.fetch_add(report.plan.transitioned.len() as u64, Ordering::Relaxed);
            Ok(report)
        })
        .await
    }

    /// How much the curator and the evolver have changed since the harness began.
    pub fn maintenance_counters(&self) -> MaintenanceCounters {
        MaintenanceCounters {
            curated: self.inner.counted.curated.load(Ordering::Relaxed),
            evolved: self.inner.counted.evolved.load(Ordering::Relaxed),
            rollbacks_proposed: self.inner.counted.rollbacks_proposed.load(Ordering::Relaxed),
            proven: self.inner.counted.proven.load(Ordering::Relaxed),
            harmful: self.inner.counted.harmful.load(Ordering::Relaxed),
            unproven: self.inner.counted.unproven.load(Ordering::Relaxed),
        }
    }

    /// Looks at the skill files of a brain again, and says what changed since the last time. A session
    /// that runs is waited for; inside one, `skills_list` does the same.
    pub async fn reload(&self, id: &BrainId) -> Result<Delta> {
        let (mut place, wanting) = self.inner.open(id).await?;
        let reloading = tokio::task::spawn_blocking(move || {
            let brain = place.as_mut().ok_or_else(|| Error::internal("the brain is not open"))?;
            let delta = brain.reload();
            drop(place);
            drop(wanting);
            delta
        });
        reloading.await.map_err(|_| Error::internal("reloading was interrupted"))?
    }
}

impl Inner {
    /// Takes in what a person did to a brain's skills by hand, and says how the skills changed, those outside too.
    pub(super) async fn take_in_skills(self: &Arc<Self>, id: &BrainId) -> Result<Delta> {
        let (mut place, wanting) = self.pool.take(id).await;
        self.prepare(id, &mut place).await?;
        let (inner, id) = (Arc::clone(self), id.clone());
        let taking = tokio::task::spawn_blocking(move || {
            // An open brain knows its files as they were when it was opened.
            place.take().map_or(Ok(()), Brain::close)?;
            let opening = BrainOptions { on_drift: OnDrift::Report, ..inner.opening.clone() };
            let mut brain = Brain::open(&inner.layout, &id, &opening)?;
            let (mut delta, settled) = brain.adopt_skills()?;
            brain.close()?;
            if settled.is_some() {
                inner.push_later(&id);
            }
            if let Some(outside) = &inner.surroundings.outside {
                delta.extend(outside.update()?);
            }
            drop(place);
            drop(wanting);
            Ok(delta)
        });
        taking.await.map_err(|_| Error::internal("taking in skills was interrupted"))?
    }

    /// Maintains the brain of a task that is done, lets go of its place, and closes brains
    /// that weigh too much.
    pub(super) fn maintain_place(self: &Arc<Self>, mut place: BrainGuard, wanting: Waiter) {
        let mut id = None;
        if let Some(brain) = place.as_mut() {
            tracing::Span::current().record("herm.brain", tracing::field::display(brain.id()));
            id = Some(brain.id().clone());
            let told = |brain: &Brain, error: Error| {
                tracing::warn!(brain = %brain.id(), %error, "maintenance did not finish; the next pass goes on");
            };
            if let Err(error) = self.curate(brain) {
                told(brain, error);
            }
            if let Err(error) = self.conclude_trials(brain, TrialScope::New) {
                told(brain, error);
            }
            if let Err(error) = self.evolve(brain) {
                told(brain, error);
            }
            if let Err(error) = self.consolidate(brain) {
                told(brain, error);
            }
            let due = brain.steps_since_flush() >= STEPS_BETWEEN_FLUSHES;
            if due && let Err(error) = make_durable(brain, self.keep_transcripts) {
                told(brain, error);
            }
            wanting.weigh(brain.memory_bytes());
            // Before the place is free, so that a shutdown that waits for it knows of the push.
            self.push_later(brain.id());
            self.make_vectors_later(brain.id());
            self.rehearse_later(brain.id());
        }
        drop(place);
        drop(wanting);
        self.close_overweight();
        if let (Some(after), Some(id)) = (&self.after, id) {
            after.after(&Harness { inner: Arc::clone(self) }, &id);
        }
    }

    /// Lets the curator pass, where it is on, not too soon after the last time, and something is due.
    fn curate(&self, brain: &mut Brain) -> Result<Option<curator::CuratorReport>> {
        let Some(curating) = self.curating else { return Ok(None) };
        let now = brain.clock().now();
        let curated = || self.curated.lock().unwrap_or_else(PoisonError::into_inner);
        let last = curated().get(brain.id()).copied().unwrap_or_default();
        let due = curator::due(brain, curating.policy)?;
        // Skills that are due and cannot be moved stay due.
        if due == last.stuck {
            return Ok(None);
        }
        if !curating.every.is_zero() {
            let passed = brain.last_curated()?.into_iter().chain(last.at).max();
            let since = passed.map(|passed| now.millis().saturating_sub(passed.millis()));
            // A clock that was ahead once does not keep the curator away.
            if since.is_some_and(|since| (0..curating.every_millis()).contains(&since)) {
                return Ok(None);
            }
        }
        let report = curator::run(brain, curating.policy)?;
        let stuck = curator::due(brain, curating.policy)?;
        let nothing_to_know = curating.every.is_zero() && stuck == 0;
        match nothing_to_know {
            true => drop(curated().remove(brain.id())),
            false => drop(curated().insert(brain.id().clone(), Curated { at: Some(now), stuck })),
        }
        let moved = report.plan.transitioned.len();
        if moved > 0 {
            self.counted.curated.fetch_add(moved as u64, Ordering::Relaxed);
            tracing::info!(brain = %brain.id(), moved, "the curator passed");
        }
        Ok(Some(report))
    }

    /// Ends the trials that found something, where what is learned is on trial.
    pub(super) fn conclude_trials(&self, brain: &mut Brain, scope: TrialScope) -> Result<Option<TrialPassReport>> {
        if !self.learning.trials {
            return Ok(None);
        }
        let trials = || self.trials.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = trials().remove(brain.id()).unwrap_or_default();
        let done = trial::pass::run(brain, &mut memory, &self.trial_policy, scope);
        // Also after a failure: what was looked at stays looked at, and the mark did not move.
        trials().insert(brain.id().clone(), memory);
        let report = done?;
        self.counted.count_trials(&report);
        for ended in &report.ended {
            tracing::info!(brain = %brain.id(), skill = %ended.skill, state = ended.state.name(), "a trial ended");
        }
        for (skill, step) in &report.rolled_back {
            tracing::info!(brain = %brain.id(), %skill, step, "a change did harm and was rolled back");
        }
        for (skill, why) in &report.refused {
            tracing::warn!(brain = %brain.id(), %skill, why, "a skill does harm and could not be archived");
        }
        Ok((!report.is_empty()).then_some(report))
    }

    /// Closes the brains that were unused the longest, until the rest fits.
    pub(super) fn close_overweight(&self) {
        let overweight = self.pool.overweight();
        let any = !overweight.is_empty();
        for (place, id) in overweight {
            // Said in the log; the next open finishes what is left.
            let _ = close_brain(place, &id, Brain::close_unsynced);
        }
        if any {
            self.pool.tidy();
        }
    }
}

fn make_durable(brain: &mut Brain, keep_transcripts: u64) -> Result<u64> {
    let transcripts = brain.prune_transcripts(keep_transcripts)?;
    brain.flush()?;
    Ok(transcripts)
}
