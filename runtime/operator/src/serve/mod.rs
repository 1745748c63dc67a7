//! `herm serve`: the operator's process. Requests come in through `listen` and `router`, are let in by `caller`, become
//! tasks in `tasks`, wait in `task_queue`, and run in the harness; what must outlive the process is in `server_db`.

mod agents;
mod app;
mod ask_policy;
mod body;
mod caller;
mod history;
mod learning;
mod listen;
mod live;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
mod mesh;
mod meter;
mod openai;
pub(crate) mod openapi;
mod operate;
mod page;
mod patches;
mod payment;
mod problem;
mod proposals;
mod readers;
mod reading;
mod receipts;
mod router;
#[cfg(test)]
mod router_paths;
mod skills;
mod spending;
mod status;
mod task_queue;
mod tasks;
mod undone_texts;
mod view;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use herm::fsio::OsLock;
use herm::ids::SystemRandom;
use herm::{Error, ErrorKind, Harness, Result, SystemClock, brain};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use app::{App, Parts};

use crate::backends;
use crate::config::Settings;
use crate::mcp as mcp_tools;
use crate::operations::verifier::verifier;
use crate::otlp;
use crate::server_db::ServerDb;
use crate::server_db::keys::Keyring;
use crate::server_db::marker::KeysMarker;
use crate::server_layout::ServerLayout;

/// Where it listens, unless said.
pub(crate) const LISTEN: &str = "127.0.0.1:7700";

/// A server that is about to answer.
pub(crate) struct Server {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    _lock: OsLock,
}

impl Server {
    /// Puts a server together: everything that can be wrong is wrong here.
    pub(crate) async fn open(settings: &Settings, listen: Option<&str>) -> Result<Self> {
        let entry = settings.config.serve.clone().unwrap_or_default();
        let place = listen.or(entry.listen.as_deref()).unwrap_or(LISTEN);
        let book = KeysMarker::new(&settings.layout, &settings.signer).open_server_db()?;
        let lock =
            OsLock::acquire(&ServerLayout::of(&settings.layout).lock(), "the server of these brains", Duration::ZERO)
                .map_err(|error| match error.kind() {
                ErrorKind::Conflict => Error::conflict("a server runs on these brains already")
                    .hint("use it, stop it first, or name another directory with --brains"),
                _ => error,
            })?;
        let keyring = Keyring::new(&settings.layout);
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(place)
            .await
            .map_err(|source| {
                Error::invalid(format!("{place:?} is no place to listen at: {source}"))
                    .hint("write it like 127.0.0.1:7700")
            })?
            .collect();
        if keyring.is_keyless(&book)? && addresses.iter().any(|address| !address.ip().is_loopback()) {
            return Err(Error::refused(format!(
                "there is no key, so the server answers only on this machine, not at {place}"
            ))
            .hint("make a key with `herm keys create NAME --operations operate`, or listen at 127.0.0.1:7700"));
        }
        let listener = TcpListener::bind(addresses.as_slice()).await.map_err(|source| {
            Error::unavailable(format!("cannot listen at {place}: {source}"))
                .hint("is another server running? choose another place with --listen")
        })?;
        let address = listener.local_addr().map_err(|source| Error::unavailable("no address").because(source))?;
        let app = app(settings, book, keyring).await?;
        Ok(Self { app, listener, address, _lock: lock })
    }

    /// The same without a listener: for a program that speaks with this process through its standard input and output.
    #[cfg(feature = "mcp")]
    pub(crate) async fn without_listening(settings: &Settings) -> Result<App> {
        let book = KeysMarker::new(&settings.layout, &settings.signer).open_server_db()?;
        app(settings, book, Keyring::new(&settings.layout)).await
    }

    /// The address it listens at, with the port that it was given.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether nobody has a key.
    pub(crate) fn is_keyless(&self) -> Result<bool> {
        self.app.is_keyless()
    }

    /// Makes the first brain, where there is none at all; whether it did.
    pub(crate) fn make_first_brain(&self) -> Result<bool> {
        if !brain::list(&self.app.settings.layout)?.is_empty() || self.app.vault.is_some() {
            return Ok(false);
        }
        self.app.make_from_seed(&"1".parse()?).map(|()| true)
    }

    /// Answers until it is told to stop; then lets tasks end, and flushes snapshots.
    pub(crate) async fn run(self) -> Result<()> {
        let Self { app, listener, _lock, .. } = self;
        operate::sweep(&app.settings.layout)?;
        sweep_forks(&app).await;
        let again = tasks::resume(&app).await?;
        if again > 0 {
            tracing::info!(again, "tasks of the process before are taken up");
        }
        if app.vault.is_some() {
            app.harness.resume_snapshots()?;
        }
        let tidying = tokio::spawn(status::tidy(app.clone()));
        let patching =
            [tokio::spawn(patches::answer_requests(app.clone())), tokio::spawn(patches::keep_in_step(app.clone()))];
        let stopping = tokio::spawn(stop_on_signal(app.clone()));
        listen::listen(&app, listener, router::router(app.clone())).await;
        tidying.abort();
        for one in patching {
            one.abort();
        }
        // It ends when the last task has, or was told to.
        let _ = stopping.await;
        // First the votes, then what they would rest on: ending a successor here rejects nothing.
        if let Some(door) = &app.mesh {
            door.stop().await;
        }
        let stopped = app.harness.shutdown().await;
        close_forks(&app).await;
        stopped
    }
}

/// Removes what successors and sandboxes of a process that was killed left behind.
async fn sweep_forks(app: &App) {
    let layout = app.settings.layout.clone();
    let swept = tokio::task::spawn_blocking(move || herm::successor::sweep(&layout)).await;
    if let Ok(Err(error)) = swept {
        tracing::warn!(%error, "what dead successors left is still there");
    }
}

/// Ends this process's own sandboxes, also those that threads still work with, and removes them.
async fn close_forks(app: &App) {
    let layout = app.settings.layout.clone();
    match tokio::task::spawn_blocking(move || herm::successor::close(&layout)).await {
        Ok(Ok(swept)) => {
            for (path, why) in swept.left {
                tracing::warn!(path = %path.display(), %why, "a sandbox is still there; the next start removes it");
            }
        }
        Ok(Err(error)) => tracing::warn!(%error, "what successors left is still there; the next start removes it"),
        Err(_) => {}
    }
}

/// Everything behind a server's APIs.
async fn app(settings: &Settings, book: ServerDb, keyring: Keyring) -> Result<App> {
    parts(settings, book, keyring).await.map(App::new)
}

async fn parts(settings: &Settings, book: ServerDb, keyring: Keyring) -> Result<Parts> {
    let entry = settings.config.serve.clone().unwrap_or_default();
    let limits = entry.limits()?;
    let (tools, warnings) = mcp_tools::connect(settings).await?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let snapshotting = settings.snapshotting().await?;
    let vault = snapshotting.as_ref().map(|how| Arc::clone(&how.vault));
    settings.applying()?;
    let harness = backends::server_builder(settings, tools, snapshotting)?;
    let harness: Harness = harness.trace_content(otlp::captures_content()).build()?;
    let paused: HashSet<_> = book.paused()?.into_iter().collect();
    let mesh = match (settings.gates()?.mesh, &settings.config.mesh) {
        (Some(mesh), Some(said)) => Some(mesh::MeshState::open(settings, mesh, verifier(&harness, said.verifying()?))?),
        _ => None,
    };
    Ok(Parts {
        settings: settings.clone(),
        harness,
        vault,
        db: book,
        keyring,
        rates: caller::Rates::default(),
        limits,
        task_limits: settings.config.limits.unwrap_or_default().limits(),
        money: spending::Money::default(),
        queue: task_queue::TaskQueue::new(limits),
        paused: Mutex::new(paused),
        readers: Arc::default(),
        meter: meter::Meter::default(),
        paywall: entry.x402.as_ref().map(payment::Paywall::new).transpose()?,
        mesh,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        probed: tokio::sync::Mutex::default(),
        began: Instant::now(),
        closing: watch::Sender::new(false),
    })
}

/// Waits to be told to stop, and gives running tasks their time.
async fn stop_on_signal(app: App) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::error!("signals cannot be waited for; the server stops only when it is killed");
        return;
    };
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    tracing::info!("stopping: no new tasks, those that run have their time");
    app.closing.send_replace(true);
    let until = tokio::time::Instant::now() + Duration::from_secs(app.limits.shutdown_secs);
    let drained = async {
        while !app.queue.tasks().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        _ = tokio::time::timeout_at(until, drained) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // What is written down is taken up by the next process; anything else ends here, with a receipt.
    for live in app.queue.tasks() {
        match live.durable {
            true => {
                live.abort();
                live.leave();
                app.queue.forget(&live.id);
            }
            false => live.cancel.cancel(),
        }
    }
}
