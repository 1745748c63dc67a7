//! What only an operator may do with a brain.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use herm::brain::OnExisting;
use herm::curator;
use herm::evolver::pass::EvolverPassMode;
use herm::evolver::select::RankerChain;
use herm::evolver::{EvolverRoundOptions, EvolverView, pass};
use herm::fsio::PrivateFile;
use herm::ids::SystemRandom;
use herm::snapshot::RestoreOptions;
use herm::snapshot::outbox::Outbox;
use herm::snapshot::portable::{self, SecretPolicy};
use herm::{BrainId, Error, Layout, Result, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::agents::{here, looked_at};
use super::app::App;
use super::body::{OptionalPayload, drips, next, too_large};
use super::caller::{Caller, no_agent};
use super::problem::{HandlerResult, ProblemDocument};
use crate::operations::{external_skills, receipt_check, to_json};
use crate::server_db::keys::Operation;
use crate::stores::EncryptionOptions;

/// Whether to do something, or only say what would be done.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PassOptions {
    /// Only say what would be done.
    dry_run: bool,
}

fn operated(app: &App, caller: &Caller, id: &str) -> HandlerResult<BrainId> {
    caller.needs(Operation::Operate)?;
    here(app, caller, id)
}

/// Lets the curator pass.
#[utoipa::path(
    post, path = "/v1/agents/{id}/curate", tag = "operator", request_body = Option<PassOptions>,
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "What moved, and what stayed", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn curate(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    OptionalPayload(how): OptionalPayload<PassOptions>,
) -> HandlerResult<Json<Value>> {
    let id = operated(&app, &caller, &id)?;
    let policy = app.settings.curator()?.policy;
    let report = match how.dry_run {
        true => {
            let looked = app.harness.with_brain(&id, move |brain| curator::preview(brain, policy));
            curator::CuratorReport { plan: looked.await?, settled: None }
        }
        false => app.harness.curate(&id, policy).await?,
    };
    Ok(Json(to_json(&report)?))
}

/// Lets the evolver pass, as the configuration says.
#[utoipa::path(
    post, path = "/v1/agents/{id}/evolve", tag = "operator", request_body = Option<PassOptions>,
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "What was found and done", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn evolve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    OptionalPayload(how): OptionalPayload<PassOptions>,
) -> HandlerResult<Json<Value>> {
    let id = operated(&app, &caller, &id)?;
    let mut routine: EvolverRoundOptions = app.settings.evolver().routine()?;
    let external = external_skills(&app.settings)?;
    if how.dry_run || routine.options.mode == EvolverPassMode::DryRun {
        routine.options.mode = EvolverPassMode::DryRun;
        let now = app.clock.now();
        let planned = app.readers.look(&app.settings.layout, &id, move |look| {
            let ground = EvolverView::of_reader(&look.reader, now)?.with_external(external);
            to_json(&json!({ "run": pass::plan(&ground, &routine.options, RankerChain::default())? }))
        });
        return Ok(Json(planned.await?));
    }
    Ok(Json(to_json(&app.harness.evolve(&id, routine, external).await?)?))
}

/// Checks every receipt and the content of a brain.
#[utoipa::path(
    post, path = "/v1/agents/{id}/verify", tag = "operator",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "What is proven, and what is not", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn verify(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<Value>> {
    let id = operated(&app, &caller, &id)?;
    let looking = app.clone();
    let verified = app.harness.with_brain(&id, move |brain| {
        let looked = receipt_check::content_of(brain)?;
        receipt_check::check_brain(&looking.settings, brain.id(), None, |_, _| Ok(looked))?.json()
    });
    let mut verified = verified.await?;
    verified["findings"] = verified["checked"]["findings"].clone();
    Ok(Json(verified))
}

/// Pushes a brain to the store, now.
#[utoipa::path(
    post, path = "/v1/agents/{id}/snapshot", tag = "operator",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "What was pushed", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<Value>> {
    let id = operated(&app, &caller, &id)?;
    Ok(Json(to_json(&app.harness.snapshot(&id).await?)?))
}

/// Which version to restore.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RestoreRequest {
    /// The version; the last one unless said.
    version: Option<u64>,
    /// Whether a brain that is here makes room: it is set aside, never overwritten.
    replace: bool,
}

/// Brings a brain back from the store, verified before it is in place.
#[utoipa::path(
    post, path = "/v1/agents/{id}/restore", tag = "operator", request_body = Option<RestoreRequest>,
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "What was restored", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn restore(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    OptionalPayload(how): OptionalPayload<RestoreRequest>,
) -> HandlerResult<Json<Value>> {
    caller.needs(Operation::Operate)?;
    let id = caller.agent(&id)?;
    let in_place = if how.replace { OnExisting::SetAside } else { OnExisting::Refuse };
    if let (Some(version), Some(vault)) = (how.version, &app.vault)
        && let Some(head) = vault.head(&id).await?
        && version < head.version
    {
        return Err(Error::conflict(format!(
            "the store has version {}, and the next task would go on from that one",
            head.version
        ))
        .hint(format!("to go on from version {version}, use `herm brain fork {id} NEW --version {version}`"))
        .into());
    }
    Ok(Json(to_json(&app.harness.restore(&id, how.version, in_place).await?)?))
}

/// Takes a brain out of a portable file.
#[utoipa::path(
    post, path = "/v1/agents/{id}/import", tag = "operator",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 201, description = "What was taken in", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Body,
) -> HandlerResult<Response> {
    caller.needs(Operation::Operate)?;
    let id = caller.agent(&id)?;
    if app.has(&id) {
        return Err(Error::conflict(format!("agent {id} is here already")).hint("remove it first, or keep it").into());
    }
    let incoming = Incoming::receive(&app, body).await?;
    let how = RestoreOptions {
        version: None,
        in_place: OnExisting::Refuse,
        trusted: app.settings.trusted()?,
        wait: app.settings.lock_wait,
        progress: None,
        inspect: None,
    };
    let secrecy = app.settings.secrecy(EncryptionOptions::AsConfigured)?;
    let doors = (Arc::new(SystemRandom) as _, Arc::new(SystemClock) as _);
    let expected = portable::peek(&incoming.path)?;
    if expected != id {
        return Err(Error::invalid(format!("the file holds agent {expected}, not agent {id}"))
            .hint(format!("send it to /v1/agents/{expected}/import"))
            .into());
    }
    let restored =
        portable::import(&app.settings.layout, &incoming.path, secrecy, how, SecretPolicy::Refuse, doors).await?;
    Ok((StatusCode::CREATED, Json(to_json(&restored)?)).into_response())
}

/// A body on its way to a file, which is removed when it is no longer needed.
struct Incoming {
    path: std::path::PathBuf,
}

impl Incoming {
    async fn receive(app: &App, body: Body) -> HandlerResult<Self> {
        let name = herm::TaskId::new(app.clock.now(), &*app.random)?;
        let path = app.settings.layout.server_db().with_file_name(format!("import-{name}"));
        let incoming = Self { path: path.clone() };
        let most = app.limits.import_bytes;
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<axum::body::Bytes>(8);
        // The file is there before anyone can leave.
        let mut file = PrivateFile::create(&path)?;
        let writing = tokio::task::spawn_blocking(move || {
            while let Some(piece) = receiver.blocking_recv() {
                file.write(&piece)?;
            }
            Ok::<_, Error>(())
        });
        let mut pieces = body.into_data_stream();
        let (began, mut bytes) = (Instant::now(), 0_u64);
        while let Some(piece) = next(app, &mut pieces).await? {
            drips(app, began, bytes)?;
            bytes += piece.len() as u64;
            if bytes > most {
                return Err(too_large(most));
            }
            // A disk that is full ends the writing; its error is the one to tell.
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        drop(sender);
        writing.await.map_err(|_| Error::internal("writing an import was interrupted"))??;
        Ok(incoming)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Err(error) = herm::fsio::remove_file(&self.path) {
            tracing::warn!(%error, "a file that was imported is left behind");
        }
    }
}

/// Removes what imports of a process that was killed left behind.
pub(crate) fn sweep(layout: &Layout) -> Result<()> {
    let dir = layout.server_db().with_file_name("");
    let entries = std::fs::read_dir(&dir).map_err(|source| Error::io("list", &dir, source))?;
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with("import-") {
            herm::fsio::remove_file(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether a brain takes tasks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Paused {
    /// The number of the agent.
    id: String,
    /// Whether it takes no tasks.
    paused: bool,
    /// Whether that is new.
    changed: bool,
}

/// Lets a brain take no more tasks; those that wait or run go on.
#[utoipa::path(
    post, path = "/v1/agents/{id}/pause", tag = "operator",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "Whether it takes tasks", body = Paused),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<Paused>> {
    set_paused(&app, &caller, &id, true).await
}

/// Lets a brain take tasks again.
#[utoipa::path(
    post, path = "/v1/agents/{id}/resume", tag = "operator",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "Whether it takes tasks", body = Paused),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<Paused>> {
    set_paused(&app, &caller, &id, false).await
}

async fn set_paused(app: &App, caller: &Caller, id: &str, paused: bool) -> HandlerResult<Json<Paused>> {
    let id = operated(app, caller, id)?;
    let changed = app.set_paused(&id, paused).await?;
    Ok(Json(Paused { id: id.to_string(), paused, changed }))
}

/// Snapshots of a brain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshots {
    /// Whether brains are snapshotted here.
    configured: bool,
    /// The last snapshot in the store.
    #[schema(value_type = Option<Object>)]
    head: Option<Value>,
    /// Those there are, newest first, at most 100.
    #[schema(value_type = Vec<Object>)]
    snapshots: Vec<Value>,
    /// How the last pushes went.
    #[schema(value_type = Option<Object>)]
    outbox: Option<Value>,
}

/// The snapshots of a brain.
#[utoipa::path(
    get, path = "/v1/agents/{id}/snapshots", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "Snapshots", body = Snapshots),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "The store does not answer", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn snapshots(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<Snapshots>> {
    caller.needs(Operation::Read)?;
    let id = caller.agent(&id)?;
    let Some(vault) = &app.vault else {
        let id = looked_at(&app, &caller, id.as_str())?;
        drop(id);
        return Ok(Json(Snapshots { configured: false, head: None, snapshots: Vec::new(), outbox: None }));
    };
    let heads = vault.heads(&id).await?;
    if heads.is_empty() && !app.has(&id) {
        return Err(no_agent(&id));
    }
    let one = |head: &herm::snapshot::SnapshotHead| json!({ "number": head.number, "version": head.version, "bundleHash": head.bundle_hash, "at": head.at });
    // What it says of the store is the operator's business.
    let outbox = match app.has(&id) && caller.is_operator() {
        true => Some(to_json(&Outbox::load(&app.settings.layout.brain(&id))?)?),
        false => None,
    };
    Ok(Json(Snapshots {
        configured: true,
        head: heads.last().map(one),
        snapshots: heads.iter().rev().take(100).map(one).collect(),
        outbox,
    }))
}
