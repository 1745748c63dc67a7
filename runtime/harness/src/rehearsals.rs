//! Rehearsals that run by themselves: after tasks, one brain at a time, for as many tasks a skill as the operator allows.
//!
//! They run while the brain is free for the next task: only to write down what was found is its place taken. A role
//! without checks is left alone, because nobody could say how good the answers are.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::replay::blocking;
use super::{Harness, Inner, RehearsalOptions};
use crate::brain::Reader;
use crate::error::Result;
use crate::ids::{BrainId, Slug};
use crate::layout;
use crate::session::{CancelToken, role_has_checks};

/// Fewer pairs decide nothing: a change is rehearsed at once or not at all.
const FEWEST_PAIRS: usize = 8;

/// What a process remembers of the rehearsals that it began.
#[derive(Debug)]
pub(super) struct Rehearsals {
    /// Tasks that a skill on trial is rehearsed on, at most.
    most_tasks: usize,
    brains: Mutex<HashMap<BrainId, BrainRehearsals>>,
    /// Each asks a model twice a task: one brain at a time.
    turn: Semaphore,
    /// Ends all rehearsals at shutdown.
    cancel: CancelToken,
}

#[derive(Debug, Default)]
struct BrainRehearsals {
    /// Tasks that were tried for a skill, also those that it did not fit: they cost something, too.
    /// Changes that wait are counted by their ids.
    tried: BTreeMap<String, usize>,
    worker: Option<JoinHandle<()>>,
    /// Whether there was a task since the worker last looked.
    again: bool,
}

impl Rehearsals {
    /// None where none are to run.
    pub(super) fn new(most_tasks: usize) -> Option<Self> {
        (most_tasks > 0).then(|| Self {
            most_tasks,
            brains: Mutex::default(),
            turn: Semaphore::new(1),
            cancel: CancelToken::new(),
        })
    }

    fn brains(&self) -> MutexGuard<'_, HashMap<BrainId, BrainRehearsals>> {
        // The map is never left half changed.
        self.brains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tasks are left for a skill or a change of which `known` were rehearsed, by this process or an earlier one.
    fn left(&self, id: &BrainId, what: &str, known: usize) -> usize {
        let tried = self.brains().get(id).and_then(|brain| brain.tried.get(what).copied()).unwrap_or_default();
        self.most_tasks.saturating_sub(tried.max(known))
    }

    /// Whether there was a task since the last look; the worker is let go of where there was none.
    fn goes_on(&self, id: &BrainId) -> bool {
        let mut brains = self.brains();
        let Some(known) = brains.get_mut(id) else { return false };
        let again = std::mem::take(&mut known.again) && !self.cancel.is_cancelled();
        if !again {
            known.worker = None;
        }
        again
    }

    fn count(&self, id: &BrainId, what: &str, known: usize, tasks: usize) {
        let mut brains = self.brains();
        let tried = brains.entry(id.clone()).or_default().tried.entry(what.to_owned()).or_default();
        *tried = (*tried).max(known) + tasks;
    }
}

/// A skill that could be rehearsed: how many tasks it was rehearsed on, and how many are kept that it was not.
#[derive(Debug, PartialEq, Eq)]
struct DueRehearsal {
    skill: Slug,
    known: usize,
    kept: usize,
}

/// Whether the role of a brain says what a good answer is.
fn has_checks(reader: &Reader) -> Result<bool> {
    let role = reader.text(&layout::rel(layout::SYSTEM)?)?.unwrap_or_default();
    let manifest = reader.manifest()?.and_then(|manifest| manifest.checks);
    role_has_checks(role.as_bytes(), manifest.as_ref())
}

impl Inner {
    /// Sees to it that what is on trial in a brain is rehearsed soon, where that is on.
    pub(super) fn rehearse_later(self: &Arc<Self>, id: &BrainId) {
        let Some(rehearsals) = &self.rehearsals else { return };
        let Ok(executor) = tokio::runtime::Handle::try_current() else { return };
        if rehearsals.cancel.is_cancelled() {
            return;
        }
        let mut brains = rehearsals.brains();
        let known = brains.entry(id.clone()).or_default();
        known.again = true;
        if known.worker.is_some() {
            return;
        }
        let (inner, id) = (Arc::clone(self), id.clone());
        known.worker = Some(executor.spawn(async move {
            let Some(rehearsals) = &inner.rehearsals else { return };
            while rehearsals.goes_on(&id) {
                if let Err(error) = inner.rehearse_all(&id, rehearsals).await {
                    tracing::warn!(brain = %id, %error, "a rehearsal did not run; the trial goes on without it");
                }
            }
        }));
    }

    async fn rehearse_all(self: &Arc<Self>, id: &BrainId, rehearsals: &Rehearsals) -> Result<()> {
        let Ok(_turn) = rehearsals.turn.acquire().await else { return Ok(()) };
        let harness = Harness { inner: Arc::clone(self) };
        for due in self.due_rehearsals(id).await? {
            let left = rehearsals.left(id, due.skill.as_str(), due.known).min(due.kept);
            if left == 0 || rehearsals.cancel.is_cancelled() {
                continue;
            }
            let options = RehearsalOptions { most_tasks: left, ..RehearsalOptions::default() };
            let report = harness.rehearse_until(id, &due.skill, &options, None, &rehearsals.cancel).await?;
            let tried = report.tasks.len() + report.unfit + report.unrated.len();
            rehearsals.count(id, due.skill.as_str(), due.known, tried);
            tracing::info!(
                brain = %id, skill = %due.skill, tasks = report.tasks.len(), micro_usd = report.micro_usd,
                ended = report.ended.as_ref().map(|ended| ended.state.name()), "a skill was rehearsed"
            );
        }
        self.rehearse_changes(id, rehearsals).await
    }

    /// Rehearses changes that wait for a person, once there are enough kept tasks for the pairs to decide.
    async fn rehearse_changes(self: &Arc<Self>, id: &BrainId, rehearsals: &Rehearsals) -> Result<()> {
        let harness = Harness { inner: Arc::clone(self) };
        let (changes, kept) = self.due_changes(id).await?;
        for change in changes {
            let left = rehearsals.left(id, &change, 0);
            let is_due = left == rehearsals.most_tasks && left >= FEWEST_PAIRS && kept >= left;
            if !is_due || rehearsals.cancel.is_cancelled() {
                continue;
            }
            let options = RehearsalOptions { most_tasks: left, ..RehearsalOptions::default() };
            let done = harness.rehearse_change_until(id, &change, &options, None, &rehearsals.cancel).await?;
            if rehearsals.cancel.is_cancelled() {
                break;
            }
            rehearsals.count(id, &change, 0, left);
            tracing::info!(
                brain = %id, change, tasks = done.report.tasks.len(), micro_usd = done.report.micro_usd,
                came = ?done.came, "a change that waits was rehearsed"
            );
        }
        Ok(())
    }

    /// The changes that wait and can be rehearsed, and how many tasks are kept.
    async fn due_changes(&self, id: &BrainId) -> Result<(Vec<String>, usize)> {
        let (layout, id) = (self.layout.clone(), id.clone());
        blocking(move || {
            let reader = Reader::open(&layout, &id)?;
            let waiting = super::rehearse_change::waiting(&reader)?;
            if waiting.is_empty() || !has_checks(&reader)? {
                return Ok((Vec::new(), 0));
            }
            Ok((waiting, reader.rated_tasks(super::rehearse::MOST_KEPT)?.len()))
        })
        .await
    }

    /// The skills on trial in a brain whose role has checks, with the tasks there are to rehearse.
    async fn due_rehearsals(&self, id: &BrainId) -> Result<Vec<DueRehearsal>> {
        let (layout, id) = (self.layout.clone(), id.clone());
        blocking(move || {
            let reader = Reader::open(&layout, &id)?;
            let on_trial = reader.on_trial()?;
            if on_trial.is_empty() || !has_checks(&reader)? {
                return Ok(Vec::new());
            }
            let kept = reader.rated_tasks(super::rehearse::MOST_KEPT)?.len();
            let due = on_trial.into_iter().map(|skill| {
                let known = reader.trial_tasks(&skill)?.iter().filter(|task| task.rehearsed).count() / 2;
                Ok(DueRehearsal { skill, known, kept: kept.saturating_sub(known) })
            });
            due.collect()
        })
        .await
    }

    /// Ends the rehearsals that run, and begins no others.
    pub(super) async fn finish_rehearsals(&self) {
        let Some(rehearsals) = &self.rehearsals else { return };
        rehearsals.cancel.cancel();
        let running: Vec<JoinHandle<()>> =
            rehearsals.brains().values_mut().filter_map(|brain| brain.worker.take()).collect();
        for worker in running {
            // That one failed is in the log.
            let _ = worker.await;
        }
    }
}
