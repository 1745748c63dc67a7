//! How the server is: for people, for probes and for Prometheus.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use herm::brain;
use herm::memory::{Search, SearchScope};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Error, Layout, Reader, Result, Seed, StepKind};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::app::App;
use super::caller::Caller;
use super::problem::{HandlerResult, ProblemDocument};
use crate::server_db::keys::{self, Operation};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// The version of herm.
    version: &'static str,
    /// Seconds since it began.
    uptime_secs: u64,
    /// Whether nobody has a key.
    keyless: bool,
    /// How many brains are here.
    brains: usize,
    /// Brains that are open, and the bytes they take.
    #[schema(value_type = Object)]
    pool: Value,
    /// Tasks that run and wait, and how many may wait.
    #[schema(value_type = Object)]
    queue: Value,
    /// Tasks by how they ended.
    #[schema(value_type = Object)]
    tasks: Value,
    /// Agents with something to do.
    #[schema(value_type = Vec<Object>)]
    busy: Vec<Value>,
    /// What the curator and the evolver changed.
    #[schema(value_type = Object)]
    maintenance: Value,
    /// How pushes to the store went.
    #[schema(value_type = Option<Object>)]
    snapshots: Option<Value>,
}

/// How the server is.
#[utoipa::path(
    get, path = "/v1/operator/status", tag = "operator",
    responses(
        (status = 200, description = "How it is", body = Status),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn status(State(app): State<App>, caller: Caller) -> HandlerResult<Json<Status>> {
    caller.needs(Operation::Operate)?;
    let depth = app.queue.depth();
    let (open, bytes) = app.harness.pool_weight();
    let now = app.clock.now();
    let mut busy = app.queue.busy();
    busy.retain(|busy| caller.sees(&busy.agent));
    busy.sort_by(|a, b| (b.waiting, &a.agent).cmp(&(a.waiting, &b.agent)));
    let layout = app.settings.layout.clone();
    let brains = tokio::task::spawn_blocking(move || brain::list(&layout).map(|ids| ids.len()));
    let brains = brains.await.map_err(|_| Error::internal("counting brains was interrupted"))??;
    Ok(Json(Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_secs: app.began.elapsed().as_secs(),
        keyless: app.is_keyless()?,
        brains,
        pool: json!({ "brains": open, "bytes": bytes }),
        queue: json!({ "running": depth.running, "waiting": depth.waiting, "limit": app.limits.waiting }),
        tasks: json!({
            "converged": app.meter.tasks("converged"),
            "incomplete": app.meter.tasks("incomplete"),
            "failed": app.meter.tasks("failed"),
        }),
        busy: busy
            .into_iter()
            .take(100)
            .map(|busy| {
                let since = busy.running.as_ref().and_then(|live| live.started_at());
                json!({
                    "agent": busy.agent,
                    "task": busy.running.as_ref().map(|live| live.id.to_string()),
                    "waiting": busy.waiting,
                    "sinceSecs": since.map(|since| (now.millis() - since.millis()).max(0) / 1_000),
                })
            })
            .collect(),
        maintenance: json!(app.harness.maintenance_counters()),
        snapshots: app.harness.snapshot_counters().map(|counters| json!(counters)),
    }))
}

/// Who the caller is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyView {
    /// The name of the key.
    name: Option<String>,
    /// In whose name it calls.
    subscriber: Option<String>,
    /// The agents it may call; all where it does not say.
    agents: Option<Vec<String>>,
    /// What it may do.
    operations: Vec<String>,
    /// Requests that the key may make in a minute; null without a key.
    rate_per_minute: Option<u32>,
    /// What its tasks may cost together, in millionths of a dollar.
    micro_usd: Option<u64>,
    /// What they have cost.
    spent_micro_usd: u64,
    /// Whether nobody has a key.
    keyless: bool,
}

/// What the caller's key allows.
#[utoipa::path(
    get, path = "/v1/key", tag = "operator",
    responses(
        (status = 200, description = "The key", body = KeyView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn key(State(app): State<App>, caller: Caller) -> HandlerResult<Json<KeyView>> {
    let Some(key) = caller.key() else {
        let operations = ["run", "read", "operate"].map(str::to_owned).to_vec();
        return Ok(Json(KeyView {
            name: None,
            subscriber: None,
            agents: None,
            operations,
            rate_per_minute: None,
            micro_usd: None,
            spent_micro_usd: 0,
            keyless: true,
        }));
    };
    Ok(Json(KeyView {
        name: Some(key.name.clone()),
        subscriber: key.subscriber.as_ref().map(ToString::to_string),
        agents: key.agents.as_ref().map(|agents| agents.iter().map(ToString::to_string).collect()),
        operations: key.operations.iter().map(|operation| operation.name().to_owned()).collect(),
        rate_per_minute: Some(key.rate),
        micro_usd: key.micro_usd,
        spent_micro_usd: app.db.read(|connection| keys::spent(connection, &key.id))?,
        keyless: false,
    }))
}

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "seen", responses((status = 200, description = "It does", body = String)))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// So long a probe may take.
const PROBE: Duration = Duration::from_secs(5);

/// Whether the server can do its work: a write and a search in a scratch brain, and the snapshot store.
#[utoipa::path(
    get, path = "/readyz", tag = "seen",
    responses((status = 200, description = "It can", body = Object), (status = 503, description = "It cannot", body = Object))
)]
pub(crate) async fn readyz(State(app): State<App>) -> Response {
    // One probe at a time, and its result for everyone who asks within a moment: anyone may ask.
    let mut probed = app.probed.lock().await;
    let said = match &*probed {
        Some((at, said)) if at.elapsed() < PROBED_EVERY => said.clone(),
        _ => {
            let said = probe(&app).await;
            *probed = Some((Instant::now(), said.clone()));
            said
        }
    };
    drop(probed);
    let closing = app.is_closing();
    let ready = !closing && said.values().all(|word| *word == "ok");
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": ready, "closing": closing, "probes": said }))).into_response()
}

/// What was probed, and how it went.
pub(crate) type Probed = BTreeMap<&'static str, &'static str>;

/// For so long a probe counts.
const PROBED_EVERY: Duration = Duration::from_secs(1);

async fn probe(app: &App) -> Probed {
    let probing = app.clone();
    let brain = async move {
        let probed = tokio::task::spawn_blocking(move || probe_brain(&probing)).await;
        probed.map_err(|_| Error::internal("the probe was interrupted"))?
    };
    let book = app.db.write(|connection| {
        connection
            .query_row("SELECT count(*) FROM paused", [], |_| Ok(()))
            .map_err(|source| herm::memory::sql("use the server's database", source))
    });
    let store = async {
        match &app.vault {
            Some(vault) => ask_store(vault).await,
            None => Ok(()),
        }
    };
    let mut said = Probed::from([("brain", in_time(brain).await), ("book", in_time(book).await)]);
    if app.vault.is_some() {
        said.insert("store", in_time(store).await);
    }
    said
}

/// How a probe went, in a word. Who asks may be anyone: the kind is enough, the log has the rest.
async fn in_time(probe: impl Future<Output = Result<()>>) -> &'static str {
    let probed = tokio::time::timeout(PROBE, probe).await;
    match probed.unwrap_or_else(|_| Err(Error::unavailable("the probe took too long"))) {
        Ok(()) => "ok",
        Err(error) => {
            tracing::warn!(%error, "not ready");
            error.kind().name()
        }
    }
}

/// Asks for the head of a brain that nobody has.
async fn ask_store(vault: &herm::snapshot::Vault) -> Result<()> {
    vault.head(&"0".parse()?).await.map(|_| ())
}

/// How many probes a scratch brain remembers.
const PROBES_KEPT: u64 = 200;

/// Writes a step into a brain beside the others, finds it again, and removes nothing:
/// the brain is kept for the next probe.
fn probe_brain(app: &App) -> Result<()> {
    let above = app.settings.layout.server_db().with_file_name("probe");
    let layout = Layout::new(above);
    let id: BrainId = "1".parse()?;
    // It remembers every probe, and is begun anew before that is much.
    if brain::read_summary(&layout, &id).is_ok_and(|(lock, _)| lock.version > PROBES_KEPT) {
        herm::fsio::remove_tree(&layout.brain(&id))?;
    }
    let opening = BrainOptions { wait: Duration::from_millis(500), ..BrainOptions::default() };
    let seed = Seed { id: &id, files: &[("system.md", b"A brain that only shows that brains work here.\n")] };
    let (mut brain, _) = Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &opening)?;
    let now = app.clock.now();
    let mut draft = Draft::new();
    draft.fact(herm::memory::Fact {
        subscriber: None,
        key: "probe".to_owned(),
        value: format!("probed {}", now.millis()),
        task: "probe".to_owned(),
        at: now,
    });
    brain.settle(&draft, StepKind::Maintenance, "a probe")?;
    brain.close()?;
    let reader = Reader::open(&layout, &id)?;
    let search = Search {
        text: "probed",
        scope: SearchScope::Operator,
        except_task: None,
        limit: 1,
        now,
        weights: Default::default(),
    };
    let found = reader.search(&search)?;
    match found.hits.is_empty() || found.degraded {
        true => Err(Error::corrupt("what was just written is not found")),
        false => Ok(()),
    }
}

/// What is counted, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "seen",
    responses(
        (status = 200, description = "Counters", content_type = "text/plain", body = String),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn metrics(State(app): State<App>, caller: Caller) -> HandlerResult<Response> {
    caller.needs(Operation::Operate)?;
    let text = app.meter.text(&app);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Keeps the server database small: lets go of what is older than it is kept. Runs for as long as the server does.
pub(crate) async fn tidy(app: App) {
    const EVERY: Duration = Duration::from_secs(600);
    loop {
        tokio::time::sleep(EVERY).await;
        let days = i64::from(app.limits.keep_tasks_days);
        let before = |days: i64| herm::Timestamp(app.clock.now().millis() - days * 86_400_000);
        let (tasks, payments) = (before(days), before(days.max(2)));
        let forget = move |connection: &rusqlite::Connection| {
            crate::server_db::payments::forget(connection, payments)?;
            crate::server_db::tasks::forget(connection, tasks)
        };
        if let Err(error) = app.db.write(forget).await {
            tracing::warn!(%error, "old tasks were not let go");
        }
    }
}
