//! What every handler has at hand.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use herm::brain::OnDrift;
use herm::ids::Random;
use herm::snapshot::Vault;
use herm::{Brain, BrainId, BrainSource, Clock, Error, Harness, Result, TaskLimits};
use tokio::sync::watch;

use super::caller::Rates;
use super::mesh::MeshState;
use super::meter::Meter;
use super::payment::Paywall;
use super::readers::Readers;
use super::spending::Money;
use super::task_queue::TaskQueue;
use crate::config::{ServeLimits, Settings};
use crate::seeds;
use crate::server_db::ServerDb;
use crate::server_db::keys::Keyring;

/// The server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Parts>);

/// What the clones of an `App` share.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The settings of the process.
    pub(crate) settings: Settings,
    /// Brains, backends and tools.
    pub(crate) harness: Harness,
    /// Where brains are snapshotted to.
    pub(crate) vault: Option<Arc<Vault>>,
    /// What the process remembers.
    pub(crate) db: ServerDb,
    /// The keys of callers.
    pub(crate) keyring: Keyring,
    /// How often they call.
    pub(crate) rates: Rates,
    /// What is allowed at once.
    pub(crate) limits: ServeLimits,
    /// What a task may use up.
    pub(crate) task_limits: TaskLimits,
    /// Money that running tasks may still spend.
    pub(crate) money: Money,
    /// Tasks that wait and run.
    pub(crate) queue: TaskQueue,
    /// Brains that take no tasks.
    pub(crate) paused: Mutex<HashSet<BrainId>>,
    /// Brains that are open for looking.
    pub(crate) readers: Arc<Readers>,
    /// The counters that `GET /metrics` shows.
    pub(crate) meter: Meter,
    /// How the last probes went, and when.
    pub(crate) probed: tokio::sync::Mutex<Option<(Instant, super::status::Probed)>>,
    /// What a task costs, and who takes the payment; `None` where tasks are free.
    pub(crate) paywall: Option<Paywall>,
    /// The mesh that this operator is a member of.
    pub(crate) mesh: Option<MeshState>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    /// When the server began; `GET /v1/operator/status` counts from here.
    pub(crate) began: Instant,
    /// Turns true when the server stops.
    pub(crate) closing: watch::Sender<bool>,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// A server of these parts.
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Whether nobody has a key.
    pub(crate) fn is_keyless(&self) -> Result<bool> {
        self.keyring.is_keyless(&self.db)
    }

    /// Whether the server stops.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Whether a brain takes no tasks.
    pub(crate) fn is_paused(&self, id: &BrainId) -> bool {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Pauses a brain, or lets it go on; whether that is new.
    pub(crate) async fn set_paused(&self, id: &BrainId, paused: bool) -> Result<bool> {
        self.db.set_paused(id, paused.then(|| self.clock.now())).await?;
        let mut all = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(if paused { all.insert(id.clone()) } else { all.remove(id) })
    }

    /// Whether there is such a brain here.
    pub(crate) fn has(&self, id: &BrainId) -> bool {
        self.settings.layout.brain(id).is_dir()
    }

    /// Sees to it that a task finds its brain: one that is not here is restored by the harness if it has lived
    /// elsewhere, and is made if its number has a seed. Nothing else is made because someone asked for it.
    pub(crate) async fn find_or_make(&self, id: &BrainId) -> Result<bool> {
        if self.has(id) {
            return Ok(true);
        }
        if let Some(vault) = &self.vault
            && vault.trusted_head(&self.settings.layout, id).await?.is_some()
        {
            return Ok(true);
        }
        if seeds::files(id.as_str()).is_none() || self.settings.layout.last_seen_snapshot(id).exists() {
            return Ok(false);
        }
        let (app, id) = (self.clone(), id.clone());
        let making = tokio::task::spawn_blocking(move || app.make_from_seed(&id));
        making.await.map_err(|_| Error::internal("making a brain was interrupted"))?.map(|()| true)
    }

    /// Makes a brain from its seed.
    pub(crate) fn make_from_seed(&self, id: &BrainId) -> Result<()> {
        let source = BrainSource::Seed(seeds::get(id)?);
        let opening = self.settings.open_options(OnDrift::Refuse);
        match Brain::hydrate(&self.settings.layout, id, &source, &opening) {
            Ok((brain, _)) => brain.close(),
            // Someone else made it just now.
            Err(_) if self.has(id) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
