//! Snapshots of a harness: pushed after tasks, off the caller's path or before the answer, and restored
//! when a task arrives for a brain that is not here or has been taken further elsewhere.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{BrainGuard, Harness, Inner};
use crate::brain::{OnExisting, Reader, SettledStep};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::BrainId;
use crate::receipt::{PublicKey, TrustedKeys};
use crate::snapshot::outbox::{Outbox, PushRecord, is_transient};
use crate::snapshot::{BrainLease, LeaseAttempt, PushReport, RestoreOptions, RestoreReport, Vault};

/// When a step is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushTiming {
    /// After the answer, off the caller's path.
    AfterTheAnswer,
    /// Before the answer: what was answered is in the store, and a step that lost against another
    /// operator's is not answered but told.
    BeforeTheAnswer,
}

/// How a harness keeps its brains in a store.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// Where snapshots go: a store, with the key that seals them where there is one.
    pub vault: Arc<Vault>,
    /// Whether a step is pushed before or after its answer.
    pub pushing: PushTiming,
    /// For how long a brain is leased; without one, operators find out about each other when they push.
    pub lease: Option<Duration>,
    /// Whose receipts count on restoring, beside the harness's own key.
    pub trusted: Vec<PublicKey>,
    /// How long a shutdown waits for pushes.
    pub flush_within: Duration,
}

impl SnapshotOptions {
    /// After the answer, without leases, with half a minute at shutdown.
    pub fn new(vault: Arc<Vault>) -> Self {
        Self {
            vault,
            pushing: PushTiming::AfterTheAnswer,
            lease: None,
            trusted: Vec::new(),
            flush_within: Duration::from_secs(30),
        }
    }
}

/// How pushes went since the harness began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct SnapshotCounters {
    /// Pushes that arrived in the store.
    pub pushed: u64,
    /// Bytes that were uploaded.
    pub bytes: u64,
    /// Attempts that failed; one push may have several.
    pub failed: u64,
    /// Brains with a push under way or waiting.
    pub pending: u64,
    /// For how many seconds the one that waits longest has.
    pub lag_secs: u64,
}

/// The first pause after a push that failed; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The longest pause while the harness shuts down.
const CLOSING_PAUSE: Duration = Duration::from_millis(200);
/// A lease that takes longer to run out is not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(90);
/// So much longer than its time a lease is waited for, so that clocks that run apart do not matter.
const LEASE_GRACE: Duration = Duration::from_millis(100);
/// Milliseconds between two looks at whether objects run out.
const RENEWED_EVERY: i64 = 86_400_000;

/// The part of a harness that pushes.
#[derive(Debug)]
pub(super) struct Snapshots {
    how: SnapshotOptions,
    workers: Mutex<HashMap<BrainId, Worker>>,
    leases: Mutex<HashMap<BrainId, BrainLease>>,
    /// Turns true when the harness shuts down: pauses end.
    closing: watch::Sender<bool>,
    /// Brains whose last push lost: the next task catches up first.
    lost: Mutex<HashSet<BrainId>>,
    /// Brains whose last push failed, for whatever reason.
    troubled: Mutex<HashSet<BrainId>>,
    pushed: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
}

/// A task that pushes one brain until nothing is due.
#[derive(Debug)]
struct Worker {
    /// Something was settled since its last push began.
    again: bool,
    /// Since when something is due.
    since: Instant,
    handle: Option<JoinHandle<()>>,
}

impl Snapshots {
    pub(super) fn new(how: SnapshotOptions) -> Self {
        Self {
            how,
            workers: Mutex::default(),
            leases: Mutex::default(),
            closing: watch::Sender::new(false),
            lost: Mutex::default(),
            troubled: Mutex::default(),
            pushed: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<BrainId, Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, HashSet<BrainId>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn troubled(&self) -> MutexGuard<'_, HashSet<BrainId>> {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<BrainId, BrainLease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Harness {
    /// Pushes a brain now and waits for it.
    pub async fn snapshot(&self, id: &BrainId) -> Result<PushReport> {
        self.inner.push(self.inner.snapshots()?, id).await
    }

    /// Restores a brain from the store. A brain that is here is an error, or is set aside.
    pub async fn restore(&self, id: &BrainId, version: Option<u64>, in_place: OnExisting) -> Result<RestoreReport> {
        let snapshots = self.inner.snapshots()?;
        let (mut place, _wanting) = self.inner.pool.take(id).await;
        if let Some(brain) = place.take() {
            super::close_now(brain).await?;
        }
        let restored = self.inner.fetch(snapshots, id, version, in_place).await;
        drop(place);
        self.inner.pool.tidy();
        restored
    }

    /// Begins to push every brain here whose last version is not in the store: what a process before
    /// this one did not get done.
    pub fn resume_snapshots(&self) -> Result<u64> {
        let snapshots = self.inner.snapshots()?;
        let store = snapshots.how.vault.store().describe();
        let mut due = 0;
        for id in crate::brain::list(&self.inner.layout)? {
            let version = match Reader::open(&self.inner.layout, &id) {
                Ok(reader) => reader.lock().version,
                Err(error) => {
                    tracing::warn!(brain = %id, %error, "cannot be snapshotted");
                    continue;
                }
            };
            if !Outbox::load(&self.inner.layout.brain(&id))?.has(&store, version) {
                self.inner.push_later(&id);
                due += 1;
            }
        }
        Ok(due)
    }

    /// How pushes went; `None` where nothing is snapshotted.
    pub fn snapshot_counters(&self) -> Option<SnapshotCounters> {
        let snapshots = self.inner.snapshots.as_ref()?;
        let (pending, lag_secs) = {
            let workers = snapshots.workers();
            let lag = workers.values().map(|worker| worker.since.elapsed().as_secs()).max();
            (workers.len() as u64, lag.unwrap_or(0))
        };
        Some(SnapshotCounters {
            pushed: snapshots.pushed.load(Ordering::SeqCst),
            bytes: snapshots.bytes.load(Ordering::SeqCst),
            failed: snapshots.failed.load(Ordering::SeqCst),
            pending,
            lag_secs,
        })
    }
}

impl Inner {
    fn snapshots(&self) -> Result<&Snapshots> {
        self.snapshots.as_ref().ok_or_else(|| {
            Error::refused("this harness has no store for snapshots")
                .hint("call `.snapshotting(…)` on the builder, or write [snapshot] into the configuration")
        })
    }

    /// One push, with a note in the brain of how it went.
    async fn push(&self, snapshots: &Snapshots, id: &BrainId) -> Result<PushReport> {
        let vault = &snapshots.how.vault;
        let span = snapshot_span(id);
        let pushed = vault.push(&self.layout, id).instrument(span.clone()).await;
        match &pushed {
            Ok(done) => {
                span.record("herm.version", done.head.version).record("herm.bytes", done.bytes);
                snapshots.troubled().remove(id);
                snapshots.pushed.fetch_add(1, Ordering::SeqCst);
                snapshots.bytes.fetch_add(done.bytes, Ordering::SeqCst);
                let arrived =
                    PushRecord { version: done.head.version, head: done.head.number, at: self.opening.clock.now() };
                self.note(id, |outbox, store| outbox.arrived(store, arrived));
            }
            Err(error) => {
                span.record("error.type", error.kind().name()).record("otel.status_code", "ERROR");
                snapshots.failed.fetch_add(1, Ordering::SeqCst);
                snapshots.troubled().insert(id.clone());
                if error.kind() == ErrorKind::Conflict {
                    snapshots.lost().insert(id.clone());
                }
                let now = self.opening.clock.now();
                tracing::warn!(brain = %id, %error, "not snapshotted");
                self.note(id, |outbox, store| {
                    outbox.failed(store, error, now);
                });
            }
        }
        pushed
    }

    /// Once a day, sees to it that what the store has of a brain does not run out. What fails is tried again then.
    async fn renew(&self, snapshots: &Snapshots, id: &BrainId) {
        let now = self.opening.clock.now();
        let last = Outbox::load(&self.layout.brain(id)).ok().and_then(|outbox| outbox.renewed);
        if last.is_some_and(|last| (0..RENEWED_EVERY).contains(&now.millis().saturating_sub(last.millis()))) {
            return;
        }
        match snapshots.how.vault.renew(id).await {
            Ok(0) => {}
            Ok(renewed) => tracing::info!(brain = %id, renewed, "what the store has is kept on"),
            Err(error) => tracing::warn!(brain = %id, %error, "what the store has may run out"),
        }
        self.note(id, |outbox, _| outbox.renewed = Some(now));
    }

    /// Writes into the outbox of a brain. Only a note: what is due shows without it.
    fn note(&self, id: &BrainId, write: impl FnOnce(&mut Outbox, &str)) {
        let Some(snapshots) = &self.snapshots else { return };
        let (brain, store) = (self.layout.brain(id), snapshots.how.vault.store().describe());
        let kept = Outbox::load(&brain).and_then(|mut outbox| {
            write(&mut outbox, &store);
            outbox.save(&brain)
        });
        if let Err(error) = kept {
            tracing::debug!(brain = %id, %error, "the outbox was not kept");
        }
    }

    /// Pushes a brain soon, off everyone's path. Several wishes become one push.
    pub(super) fn push_later(self: &Arc<Self>, id: &BrainId) {
        let Some(snapshots) = &self.snapshots else { return };
        let Ok(executor) = tokio::runtime::Handle::try_current() else { return };
        let mut workers = snapshots.workers();
        if let Some(worker) = workers.get_mut(id) {
            worker.again = true;
            return;
        }
        let (inner, brain) = (Arc::clone(self), id.clone());
        let handle = executor.spawn(async move { inner.keep_pushing(&brain).await });
        workers.insert(id.clone(), Worker { again: false, since: Instant::now(), handle: Some(handle) });
    }

    /// Pushes until nothing is due or trying again cannot help.
    async fn keep_pushing(&self, id: &BrainId) {
        let Some(snapshots) = &self.snapshots else { return };
        let mut closing = snapshots.closing.subscribe();
        let mut pause = FIRST_PAUSE;
        loop {
            let goes_on = match self.push(snapshots, id).await {
                Ok(_) => {
                    pause = FIRST_PAUSE;
                    self.renew(snapshots, id).await;
                    false
                }
                Err(error) => is_transient(error.kind()),
            };
            if goes_on {
                let is_closing = *closing.borrow_and_update();
                // A shutdown does not wait for long pauses, and it ends this worker when its time is up.
                let pause_now = if is_closing { pause.min(CLOSING_PAUSE) } else { pause };
                tokio::select! {
                    () = tokio::time::sleep(pause_now.mul_f64(0.5 + self.random.fraction())) => {}
                    _ = closing.changed() => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            let mut workers = snapshots.workers();
            match workers.get_mut(id) {
                Some(worker) if worker.again => {
                    worker.again = false;
                    worker.since = Instant::now();
                }
                _ => {
                    workers.remove(id);
                    return;
                }
            }
        }
    }

    /// Waits for every push under way, at most for the time a shutdown has, and gives leases back.
    pub(super) async fn flush_snapshots(&self) -> Result<()> {
        let Some(snapshots) = &self.snapshots else { return Ok(()) };
        let deadline = tokio::time::Instant::now() + snapshots.how.flush_within;
        let running: Vec<(BrainId, Option<JoinHandle<()>>)> =
            snapshots.workers().iter_mut().map(|(id, worker)| (id.clone(), worker.handle.take())).collect();
        snapshots.closing.send_replace(true);
        for (id, handle) in running {
            let Some(mut handle) = handle else { continue };
            if tokio::time::timeout_at(deadline, &mut handle).await.is_err() {
                handle.abort();
                snapshots.workers().remove(&id);
                snapshots.troubled().insert(id);
            }
        }
        // A push that gave up, perhaps because the brain moved under it, has a last try now that nothing moves.
        let troubled: Vec<BrainId> = snapshots.troubled().drain().collect();
        let mut late = Vec::new();
        for id in troubled {
            let pushed = tokio::time::timeout_at(deadline, self.push(snapshots, &id)).await;
            if !matches!(pushed, Ok(Ok(_))) {
                late.push(id.to_string());
            }
        }
        let leases: Vec<BrainLease> = snapshots.leases().drain().map(|(_, lease)| lease).collect();
        for lease in leases {
            if let Err(error) = snapshots.how.vault.release_lease(&lease).await {
                tracing::debug!(%error, "a lease was not given back; it runs out by itself");
            }
        }
        snapshots.closing.send_replace(false);
        if late.is_empty() {
            return Ok(());
        }
        Err(Error::unavailable(format!("not in the store yet: the last steps of brain {}", late.join(", ")))
            .hint("they are pushed with the next task, or with `herm snapshot create ID`"))
    }

    /// Whether the last push of a brain lost, and the brain here has not caught up since.
    pub(super) fn has_lost(&self, id: &BrainId) -> bool {
        self.snapshots.as_ref().is_some_and(|snapshots| snapshots.lost().contains(id))
    }

    /// What has to be so before a task may run on a brain: the lease is ours, and the brain here is the
    /// one of the store, or further.
    pub(super) async fn prepare(&self, id: &BrainId, place: &mut BrainGuard) -> Result<()> {
        let Some(snapshots) = &self.snapshots else { return Ok(()) };
        let is_ours = match snapshots.how.lease {
            None => place.is_some(),
            Some(ttl) => self.hold_lease(snapshots, id, ttl).await?,
        };
        let has_lost = snapshots.lost().contains(id);
        if is_ours && place.is_some() && !has_lost {
            return Ok(());
        }
        let caught_up = self.catch_up(snapshots, id, place).await;
        match caught_up {
            // Without a lease nobody promised to ask the store first.
            Err(error)
                if error.kind() == ErrorKind::Unavailable
                    && snapshots.how.lease.is_none()
                    && self.layout.brain(id).is_dir() =>
            {
                tracing::warn!(brain = %id, %error, "the store was not asked; going on with the brain that is here");
                Ok(())
            }
            done => done,
        }
    }

    /// Takes or renews the lease; whether it was ours all the time.
    async fn hold_lease(&self, snapshots: &Snapshots, id: &BrainId, ttl: Duration) -> Result<bool> {
        let vault = &snapshots.how.vault;
        let held = snapshots.leases().get(id).cloned();
        if let Some(lease) = held {
            if !lease.is_due() {
                return Ok(true);
            }
            match vault.renew_lease(&lease).await {
                Ok(renewed) => {
                    snapshots.leases().insert(id.clone(), renewed);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Conflict => drop(snapshots.leases().remove(id)),
                Err(error) => return Err(error),
            }
        }
        let mut has_waited = false;
        loop {
            let (owner, wait) = match vault.take_lease(id, ttl).await? {
                LeaseAttempt::Ours(lease) => {
                    snapshots.leases().insert(id.clone(), lease);
                    return Ok(false);
                }
                LeaseAttempt::Busy { owner, wait } => (owner, wait),
            };
            // A holder that died does not renew: its time is waited for once, within the task's deadline. One that
            // lives has renewed by then.
            if has_waited || wait > LONGEST_WAIT {
                return Err(Error::conflict(format!("{owner} works on brain {id}"))
                    .hint(format!("ask there, or try again; it is free {} s after its last renewal", ttl.as_secs()))
                    .passing());
            }
            has_waited = true;
            tracing::info!(brain = %id, owner, seconds = wait.as_secs(), "waiting for a lease that may be nobody's");
            tokio::time::sleep(wait + LEASE_GRACE).await;
        }
    }

    /// Keeps the lease of a brain while a task runs on it; ends with what is returned. A lease that is lost meanwhile is
    /// found out by the push.
    pub(super) fn keep_lease(self: &Arc<Self>, id: &BrainId) -> Option<LeaseKeeper> {
        let ttl = self.snapshots.as_ref()?.how.lease?;
        let (inner, id) = (Arc::clone(self), id.clone());
        let handle = tokio::spawn(async move {
            let Some(snapshots) = &inner.snapshots else { return };
            loop {
                tokio::time::sleep(ttl / 3).await;
                let Some(lease) = snapshots.leases().get(&id).cloned() else { return };
                match snapshots.how.vault.renew_lease(&lease).await {
                    Ok(renewed) => drop(snapshots.leases().insert(id.clone(), renewed)),
                    Err(error) if error.kind() == ErrorKind::Conflict => {
                        tracing::warn!(brain = %id, "the lease was taken over while a task ran");
                        snapshots.leases().remove(&id);
                        return;
                    }
                    Err(error) => tracing::warn!(brain = %id, %error, "the lease was not renewed; trying again"),
                }
            }
        });
        Some(LeaseKeeper(handle))
    }

    /// Brings the brain here to the store's head, unless it is there or further.
    async fn catch_up(&self, snapshots: &Snapshots, id: &BrainId, place: &mut BrainGuard) -> Result<()> {
        let Some(head) = snapshots.how.vault.trusted_head(&self.layout, id).await? else { return Ok(()) };
        let (layout, brain) = (self.layout.clone(), id.clone());
        let here = tokio::task::spawn_blocking(move || -> Result<_> {
            if layout.brain(&brain).symlink_metadata().is_err() {
                return Ok(None);
            }
            let reader = Reader::open(&layout, &brain)?;
            let been = reader.has_been(head.version, &head.bundle_hash, head.receipt())?;
            Ok(Some((been, reader.lock().clone())))
        });
        let here = here.await.map_err(|_| Error::internal("looking at a brain was interrupted"))??;
        let in_place = match &here {
            Some((true, _)) => return Ok(()),
            Some((false, _)) => OnExisting::SetAside,
            None => OnExisting::Refuse,
        };
        if let Some(brain) = place.take() {
            super::close_now(brain).await?;
        }
        let restored = match self.fetch(snapshots, id, None, in_place).await {
            // Another process on this machine was asked for it too, and was faster.
            Err(error)
                if error.kind() == ErrorKind::Conflict
                    && in_place == OnExisting::Refuse
                    && self.layout.brain(id).is_dir() =>
            {
                return Ok(());
            }
            restored => restored?,
        };
        snapshots.lost().remove(id);
        if let Some(aside) = &restored.aside {
            self.tidy_aside(id, aside, restored.head.version)?;
        }
        Ok(())
    }

    /// Removes a brain that was set aside, if everything in it is in the one that took its place: looked at as it is
    /// now, for while the new one was fetched somebody may have settled a step or edited a file.
    fn tidy_aside(&self, id: &BrainId, aside: &Path, now: u64) -> Result<()> {
        let old = Reader::at(aside, id)?;
        let (version, hash) = (old.lock().version, old.lock().bundle_hash);
        let last = old.last_receipt()?;
        let reader = Reader::open(&self.layout, id)?;
        let is_known =
            reader.has_been(version, &hash, None)? && old.receipts(last, last)? == reader.receipts(last, last)?;
        if is_known && !old.differs_from_its_steps()? {
            tracing::info!(brain = %id, from = version, to = now, "caught up with the store");
            return crate::fsio::remove_tree(aside);
        }
        let what = if is_known { "edits that no step took over" } else { "steps that lost against another operator's" };
        tracing::warn!(brain = %id, version, head = now, aside = %aside.display(), "{what} are set aside");
        Ok(())
    }

    async fn fetch(
        &self,
        snapshots: &Snapshots,
        id: &BrainId,
        version: Option<u64>,
        in_place: OnExisting,
    ) -> Result<RestoreReport> {
        let mut keys = vec![self.signer.public().clone()];
        keys.extend(snapshots.how.trusted.iter().cloned());
        let how = RestoreOptions {
            version,
            in_place,
            trusted: TrustedKeys::Keys(keys),
            wait: self.opening.wait,
            progress: None,
            inspect: None,
        };
        snapshots.how.vault.restore(&self.layout, id, &how).await
    }

    /// Pushes the step of a task before it is answered, where that was asked for. A step that lost is
    /// taken back: the brain is what the store says, and the caller is told.
    pub(super) async fn push_before_answer(self: &Arc<Self>, id: &BrainId) -> Result<PushedStep> {
        let Some(snapshots) = self.snapshots.as_ref() else { return Ok(PushedStep::Later) };
        if snapshots.how.pushing == PushTiming::AfterTheAnswer {
            return Ok(PushedStep::Later);
        }
        match self.push(snapshots, id).await {
            Ok(_) => Ok(PushedStep::Done),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(PushedStep::Lost(error)),
            Err(error) => {
                self.push_later(id);
                let why = error.message();
                Ok(PushedStep::NotYet(format!("the step is settled here and not in the store yet: {why}")))
            }
        }
    }

    /// Takes back what lost; whether the step is in the history of what the store has all the same. A process that slept
    /// between a push and its answer cannot tell from the heads, for those may have been pruned.
    pub(super) async fn take_back(&self, id: &BrainId, place: &mut BrainGuard, step: &SettledStep) -> Result<bool> {
        let snapshots = self.snapshots()?;
        snapshots.leases().remove(id);
        self.catch_up(snapshots, id, place).await?;
        let (layout, id, version, hash) = (self.layout.clone(), id.clone(), step.version, step.after);
        let looked =
            tokio::task::spawn_blocking(move || Reader::open(&layout, &id)?.has_been(version, &hash, None)).await;
        looked.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }
}

/// The span of one push of a brain into the store.
fn snapshot_span(id: &BrainId) -> tracing::Span {
    tracing::info_span!(
        "snapshot",
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
        herm.brain = %id,
        herm.version = tracing::field::Empty,
        herm.bytes = tracing::field::Empty,
        error.type = tracing::field::Empty,
    )
}

/// Renews a lease until it is dropped.
#[derive(Debug)]
pub(super) struct LeaseKeeper(JoinHandle<()>);

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How the push of a step went.
#[derive(Debug)]
pub(super) enum PushedStep {
    /// It is in the store.
    Done,
    /// It is pushed later, or never: nobody asked for more.
    Later,
    /// It is settled here, and the store could not be reached; pushing goes on.
    NotYet(String),
    /// Someone else's step came first.
    Lost(Error),
}
