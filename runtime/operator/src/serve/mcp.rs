//! herm as an MCP server: the tools `run_task`, `recall`, `skills`, `feedback` and `receipt_verify`, under the same keys, over HTTP at
//! `/mcp` and on standard input and output.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use herm::memory::{HybridResults, Search};
use herm::receipt::Envelope;
use herm::{Error, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value, json};

use super::Server;
use super::agents::looked_at;
use super::app::App;
use super::caller::Caller;
use super::problem::{HandlerResult, Problem};
use super::receipts::Seen;
use super::tasks::feedback::{self, FeedbackRequest};
use super::tasks::{Accepted, Job, OnDisconnect, TaskRequest, accept};
use crate::config::Settings;
use crate::operations::receipt_check::statement;
use crate::server_db::keys::Operation;

/// How many skills a list has.
const SKILLS: usize = 200;

/// The server, as the protocol sees it.
#[derive(Clone)]
struct McpHandler {
    app: App,
    /// Who calls, where the connection says nothing of it.
    otherwise: Option<Caller>,
}

/// The route of the protocol.
pub(crate) fn routes(app: &App) -> Router<App> {
    let mut config = StreamableHttpServerConfig::default();
    // Nothing is kept between two calls, so any process may answer the next.
    config.legacy_session_mode = false;
    config.json_response = true;
    // Who may ask is decided in front of it, for every path alike.
    config.allowed_hosts = Vec::new();
    let doors = McpHandler { app: app.clone(), otherwise: None };
    let service =
        StreamableHttpService::new(move || Ok(doors.clone()), Arc::new(LocalSessionManager::default()), config);
    let answer = move |State(app): State<App>, caller: Caller, request: Request| {
        let service = service.clone();
        async move {
            let (mut parts, body) = request.into_parts();
            // The protocol reads whatever comes; here a body has its size and its time, however it is sent.
            let body = match super::body::read(&app, body).await {
                Ok(bytes) => axum::body::Body::from(bytes),
                Err(problem) => return problem.into_response(),
            };
            parts.extensions.insert(caller);
            let request = Request::from_parts(parts, body);
            let response: Response = service.handle(request).await.map(axum::body::Body::new).into_response();
            response
        }
    };
    Router::new().route("/mcp", any(answer))
}

/// Speaks on standard input and output until the other side is gone. The other side counts as the operator.
pub(crate) fn on_stdio(settings: &Settings) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
    runtime.block_on(async {
        let app = Server::without_listening(settings).await?;
        let doors = McpHandler { app: app.clone(), otherwise: Some(Caller::operator()) };
        let failed = |what: &str| Error::unavailable(format!("the other side broke off: {what}"));
        let running = doors.serve(rmcp::transport::stdio()).await.map_err(|error| failed(&error.to_string()))?;
        running.waiting().await.map_err(|error| failed(&error.to_string()))?;
        app.harness.shutdown().await
    })
}

fn tools() -> Vec<Tool> {
    let agent = json!({ "type": "string", "description": "The agent's number", "pattern": "^[0-9]+$" });
    let object = |properties: Value, required: &[&str]| {
        let schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        Arc::new(schema.as_object().cloned().unwrap_or_default())
    };
    vec![
        Tool::new(
            "run_task",
            "Gives an agent a task and waits for its answer, with a signed receipt of how its brain moved.",
            object(json!({ "agent": agent, "input": { "type": "string" } }), &["agent", "input"]),
        ),
        Tool::new(
            "recall",
            "Searches what an agent remembers: messages, facts and earlier tasks.",
            object(
                json!({ "agent": agent, "query": { "type": "string" }, "limit": { "type": "integer", "minimum": 1, "maximum": 50 } }),
                &["agent", "query"],
            ),
        ),
        Tool::new(
            "skills",
            "Lists the skills of an agent, or shows the text of one.",
            object(json!({ "agent": agent, "skill": { "type": "string" } }), &["agent"]),
        ),
        Tool::new(
            "feedback",
            "Says how good the answer of a task was: by who asked, or by the operator. Saying something else corrects it.",
            object(
                json!({
                    "task": { "type": "string" },
                    "value": { "anyOf": [{ "enum": ["good", "bad"] }, { "type": "number", "minimum": 0, "maximum": 1 }] },
                    "note": { "type": "string", "maxLength": 500, "description": "Why" },
                    "agent": agent,
                }),
                &["task", "value"],
            ),
        ),
        Tool::new(
            "receipt_verify",
            "Checks the signature of a receipt: one of an agent's by its number, or an envelope.",
            object(
                json!({ "agent": agent, "receipt": { "type": "integer", "minimum": 1 }, "envelope": { "type": "object" } }),
                &["agent"],
            ),
        ),
    ]
}

impl ServerHandler for McpHandler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult { tools: tools(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let shown = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Caller>());
        let Some(caller) = shown.or(self.otherwise.as_ref()).cloned() else {
            return Err(ErrorData::invalid_request("nobody said who they are", None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let Some(tool) = tools().into_iter().find(|tool| tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        };
        let schema = Value::Object(tool.input_schema.as_ref().clone());
        let problems = herm::schema::problems(&schema, &Value::Object(arguments.clone()));
        if !problems.is_empty() {
            return Err(ErrorData::invalid_params(problems.join("; "), None));
        }
        let answered = match request.name.as_ref() {
            "run_task" => self.run_task(&caller, &arguments).await,
            "recall" => self.recall(&caller, &arguments).await,
            "skills" => self.skills(&caller, &arguments).await,
            "feedback" => self.feedback(&caller, arguments).await,
            _ => self.receipt_verify(&caller, &arguments).await,
        };
        Ok(match answered {
            Ok(value) => CallToolResult::structured(value),
            Err(problem) => {
                let problem = caller.redact_problem(problem);
                let said = match &problem.hint {
                    Some(hint) => format!("{} ({hint})", problem.detail),
                    None => problem.detail.clone(),
                };
                CallToolResult::error(vec![ContentBlock::text(said)])
            }
        }
        .into())
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl McpHandler {
    async fn run_task(&self, caller: &Caller, arguments: &Map<String, Value>) -> HandlerResult<Value> {
        caller.needs(Operation::Run)?;
        let agent = caller.agent(text(arguments, "agent"))?;
        if self.app.paywall.is_some() {
            return Err(Error::refused(format!(
                "tasks of agent {agent} are paid for one by one, and MCP has no way to pay"
            ))
            .hint(format!(
                "send the task to POST /v1/agents/{agent}/tasks with a payment; the other tools cost nothing"
            ))
            .into());
        }
        let request = TaskRequest {
            input: text(arguments, "input").to_owned(),
            on_disconnect: OnDisconnect::Cancel,
            ..TaskRequest::default()
        };
        let job = Job::new(&self.app, caller, agent, request, None, false)?;
        match accept(&self.app, caller, job, &axum::http::HeaderMap::new()).await? {
            Accepted::Known(view) => Ok(json!(caller.redact_view(*view))),
            Accepted::Live(live, leaving) => {
                let ended = live.ended().await;
                leaving.stays();
                match &ended.problem {
                    Some(problem) => Err(problem.clone()),
                    None => Ok(json!(caller.redact_view(ended.view.clone()))),
                }
            }
        }
    }

    async fn recall(&self, caller: &Caller, arguments: &Map<String, Value>) -> HandlerResult<Value> {
        let id = looked_at(&self.app, caller, text(arguments, "agent"))?;
        let limit = arguments.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let (scope, now, query) = (caller.scope(), self.app.clock.now(), text(arguments, "query").to_owned());
        let sought = self.app.harness.embed_query(&query).await;
        let found = self.app.readers.look(&self.app.settings.layout, &id, move |look| {
            let (limit, weights) = (limit.unwrap_or(10), look.reader.tuning()?.search());
            let wanted = Search { text: &query, scope, except_task: None, limit, now, weights };
            look.reader.search_hybrid(&wanted, sought.as_ref())
        });
        let HybridResults { found, used_vectors: by_meaning } = found.await?;
        Ok(json!({ "hits": found.hits, "byMeaning": by_meaning }))
    }

    async fn skills(&self, caller: &Caller, arguments: &Map<String, Value>) -> HandlerResult<Value> {
        let id = looked_at(&self.app, caller, text(arguments, "agent"))?;
        let wanted = arguments.get("skill").and_then(Value::as_str).map(str::to_owned);
        let now = self.app.clock.now();
        let found = self.app.readers.look(&self.app.settings.layout, &id, move |look| {
            let rows = look.skills(now)?;
            let Some(wanted) = wanted else {
                let shown: Vec<Value> = rows
                    .iter()
                    .filter(|row| row.state != "archived")
                    .take(SKILLS)
                    .map(|row| json!({ "slug": row.slug, "description": row.description, "uses": row.uses }))
                    .collect();
                return Ok(json!({ "skills": shown, "total": rows.len() }));
            };
            let missing = || Error::not_found(format!("there is no skill {wanted:?}"));
            let row = rows.iter().find(|row| row.slug == wanted).ok_or_else(missing)?;
            let path = row.path.clone().ok_or_else(missing)?;
            Ok(json!({ "slug": row.slug, "text": look.reader.text(&path)?.ok_or_else(missing)? }))
        });
        Ok(found.await?)
    }

    async fn feedback(&self, caller: &Caller, mut arguments: Map<String, Value>) -> HandlerResult<Value> {
        let said = FeedbackRequest {
            value: arguments.remove("value").unwrap_or_default(),
            note: arguments.get("note").and_then(Value::as_str).map(str::to_owned),
        };
        let agent = arguments.get("agent").and_then(Value::as_str);
        feedback::give(&self.app, caller, agent, text(&arguments, "task"), said).await.map(|view| json!(view))
    }

    async fn receipt_verify(&self, caller: &Caller, arguments: &Map<String, Value>) -> HandlerResult<Value> {
        let id = looked_at(&self.app, caller, text(arguments, "agent"))?;
        let key = self.app.harness.signer().public().clone();
        let line = match (arguments.get("receipt").and_then(Value::as_u64), arguments.get("envelope")) {
            (None, Some(envelope)) => envelope.to_string(),
            (Some(seq), None) => {
                let seen = Seen::by(caller);
                let found = self.app.readers.look(&self.app.settings.layout, &id, move |look| {
                    let missing = || Error::not_found(format!("there is no receipt {seq}"));
                    let taped = look.reader.receipts(seq, seq)?.pop().ok_or_else(missing)?;
                    match seen.sees(&statement(&taped.envelope)?) {
                        true => Ok(taped.envelope),
                        false => Err(missing()),
                    }
                });
                found.await?
            }
            _ => return Err(Problem::invalid("verify what? give either receipt or envelope")),
        };
        let envelope = Envelope::parse(&line)?;
        let checked = envelope.open(&key);
        let said = statement(&line)?;
        Ok(json!({
            "valid": checked.is_ok(),
            "why": checked.err().map(|error| error.message().to_owned()),
            "key": key.to_string(),
            "statement": said,
            "notProven": "that it is the last one, or that none was left out: `herm receipts verify` checks the whole chain",
        }))
    }
}
