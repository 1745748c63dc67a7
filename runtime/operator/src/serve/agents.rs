//! The agents of this operator.

use axum::Json;
use axum::extract::{Path, State};
use herm::brain;
use herm::bundle::BundlePart;
use herm::{BrainId, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};

use super::app::App;
use super::body::{QueryParams, page};
use super::caller::{Caller, no_agent};
use super::problem::{HandlerResult, ProblemDocument, told_to_subscriber};
use crate::server_db::keys::Operation;

/// Which agents to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AgentsQuery {
    /// How many; 100 unless said, 500 at most.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// The `next` of the page before: the list goes on behind that agent.
    cursor: Option<String>,
    /// Only those whose number or name has this in it.
    q: Option<String>,
}

/// A page of agents, in the order of their numbers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentList {
    /// The agents of this page.
    agents: Vec<AgentSummary>,
    /// Where the list goes on.
    next: Option<String>,
    /// How many this caller may call, whatever was asked for.
    total: usize,
}

/// One agent in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentSummary {
    /// The agent's number, in decimal digits.
    id: String,
    /// The name that its manifest gives it.
    name: Option<String>,
    /// What it does, as its manifest says.
    summary: Option<String>,
    /// The version of its brain.
    version: Option<u64>,
    /// The content hash of its brain.
    bundle_hash: Option<String>,
    /// When its brain last moved.
    last_updated: Option<String>,
    /// Whether it takes no tasks.
    paused: bool,
    /// How many of its tasks run: 0 or 1.
    running: usize,
    /// How many of its tasks wait for their turn.
    waiting: usize,
    /// Why it cannot be looked at.
    error: Option<String>,
}

/// The agents this caller may call.
#[utoipa::path(
    get, path = "/v1/agents", tag = "agents", params(AgentsQuery),
    responses(
        (status = 200, description = "Agents", body = AgentList),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(asked): QueryParams<AgentsQuery>,
) -> HandlerResult<Json<AgentList>> {
    caller.needs(Operation::Read)?;
    let limit = page(asked.limit, 100, 500)?;
    let after: Option<BrainId> = asked.cursor.map(|text| text.parse()).transpose()?;
    let wanted = asked.q.filter(|text| !text.trim().is_empty()).map(|text| text.trim().to_lowercase());
    let looking = app.clone();
    let listed = tokio::task::spawn_blocking(move || -> Result<AgentList> {
        let mut ids = brain::list(&looking.settings.layout)?;
        ids.retain(|id| caller.sees(id));
        let total = ids.len();
        let mut agents = Vec::new();
        let rest = ids.iter().filter(|id| after.as_ref().is_none_or(|after| by_number(id) > by_number(after)));
        let mut next = None;
        for id in rest {
            if agents.len() == limit {
                next = agents.last().map(|last: &AgentSummary| last.id.clone());
                break;
            }
            let agent = summary(&looking, &caller, id);
            let name = agent.name.as_deref().unwrap_or_default().to_lowercase();
            if wanted.as_ref().is_none_or(|q| id.as_str().contains(q.as_str()) || name.contains(q.as_str())) {
                agents.push(agent);
            }
        }
        Ok(AgentList { agents, next, total })
    });
    let listed = listed.await.map_err(|_| herm::Error::internal("listing agents was interrupted"))?;
    Ok(Json(listed?))
}

/// Numbers in their own order, however long they are.
fn by_number(id: &BrainId) -> (usize, &str) {
    (id.as_str().len(), id.as_str())
}

/// A list needs no database: the lock and the manifest are small files.
fn summary(app: &App, caller: &Caller, id: &BrainId) -> AgentSummary {
    let depth = app.queue.depth_of(id);
    let mut agent = AgentSummary {
        id: id.to_string(),
        name: None,
        summary: None,
        version: None,
        bundle_hash: None,
        last_updated: None,
        paused: app.is_paused(id),
        running: depth.running,
        waiting: depth.waiting,
        error: None,
    };
    match brain::read_summary(&app.settings.layout, id) {
        Ok((lock, manifest)) => {
            agent.version = Some(lock.version);
            agent.bundle_hash = Some(lock.bundle_hash.to_string());
            agent.last_updated = Some(lock.last_updated.to_string());
            if let Some(manifest) = manifest {
                agent.name = Some(manifest.name);
                agent.summary = manifest.summary;
            }
        }
        Err(error) if caller.is_operator() => agent.error = Some(error.message().to_owned()),
        Err(error) => agent.error = Some(told_to_subscriber(error.message()).to_owned()),
    }
    agent
}

/// An agent, with the state of its brain.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentView {
    /// The agent's number, in decimal digits.
    id: String,
    /// The name that its manifest gives it.
    name: Option<String>,
    /// What it does, as its manifest says.
    summary: Option<String>,
    /// The tools it may use; all that are permitted, where it does not say.
    tools: Option<Vec<String>>,
    /// The version of its brain.
    version: u64,
    /// The content hash of its brain.
    bundle_hash: String,
    /// The content hash of the version before.
    parent: Option<String>,
    /// When its brain last moved.
    last_updated: String,
    /// Where its brain came from.
    #[schema(value_type = Object)]
    origin: Value,
    /// One digest a part.
    #[schema(value_type = Object)]
    parts: Value,
    /// How much it holds.
    #[schema(value_type = Object)]
    counts: Value,
    /// Skills that cannot be loaded, and why.
    #[schema(value_type = Vec<Object>)]
    problems: Value,
    /// Whether it takes no tasks.
    paused: bool,
    /// How many of its tasks run: 0 or 1.
    running: usize,
    /// How many of its tasks wait for their turn.
    waiting: usize,
    /// The key that signs its receipts here, as did:key.
    signing_key: String,
}

/// One agent: version, hash, parts, counts.
#[utoipa::path(
    get, path = "/v1/agents/{id}", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "The agent", body = AgentView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<AgentView>> {
    let id = looked_at(&app, &caller, &id)?;
    let (paused, depth) = (app.is_paused(&id), app.queue.depth_of(&id));
    let signing_key = app.harness.signer().public().to_string();
    let view = app.readers.look(&app.settings.layout, &id, move |look| {
        let (manifest, counts, problems) = look.figures()?;
        let reader = &look.reader;
        let lock = reader.lock();
        let parts: Map<String, Value> =
            BundlePart::ALL.iter().map(|part| (part.name().to_owned(), json!(lock.parts.get(*part)))).collect();
        Ok(AgentView {
            id: reader.id().to_string(),
            name: manifest.as_ref().map(|manifest| manifest.name.clone()),
            summary: manifest.as_ref().and_then(|manifest| manifest.summary.clone()),
            tools: manifest.and_then(|manifest| manifest.tools),
            version: lock.version,
            bundle_hash: lock.bundle_hash.to_string(),
            parent: lock.parent.map(|parent| parent.to_string()),
            last_updated: lock.last_updated.to_string(),
            origin: json!(lock.origin),
            parts: Value::Object(parts),
            counts: json!(counts),
            problems,
            paused,
            running: depth.running,
            waiting: depth.waiting,
            signing_key,
        })
    });
    Ok(Json(view.await?))
}

/// The number of an agent that is here and that the caller may look at.
pub(crate) fn looked_at(app: &App, caller: &Caller, id: &str) -> HandlerResult<BrainId> {
    caller.needs(Operation::Read)?;
    here(app, caller, id)
}

/// The number of an agent that is here and that the caller may know of.
pub(crate) fn here(app: &App, caller: &Caller, id: &str) -> HandlerResult<BrainId> {
    let id = caller.agent(id)?;
    if app.has(&id) { Ok(id) } else { Err(no_agent(&id)) }
}
