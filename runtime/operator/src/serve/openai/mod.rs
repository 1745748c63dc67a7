//! The API for OpenAI's clients: `POST /v1/chat/completions` and `GET /v1/models`, where the model `agent-1` is brain 1.

mod chat;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use herm::{BrainId, brain};
use serde_json::{Value, json};

pub(crate) use chat::ChatRequest;

use super::app::App;
use super::body::Payload;
use super::caller::Caller;
use super::live::{LiveTask, TaskResult};
use super::problem::Problem;
use super::tasks::{Accepted, Job, Leaving, LimitsRequest, OnDisconnect, TaskRequest, accept};
use super::view::TaskView;
use crate::server_db::keys::Operation;

/// What a model's name begins with.
const PREFIX: &str = "agent-";
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How much of an answer a piece of a stream has.
const PIECE: usize = 2_048;

/// A problem as OpenAI tells it.
pub(crate) struct OpenAiError(Problem);

impl<P: Into<Problem>> From<P> for OpenAiError {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl OpenAiError {
    fn document(&self) -> Value {
        let kind = match self.0.status {
            400 | 413 | 415 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            _ => "api_error",
        };
        let message = match &self.0.hint {
            Some(hint) => format!("{} ({hint})", self.0.detail),
            None => self.0.detail.clone(),
        };
        let code = if self.0.status == 404 { "model_not_found" } else { self.0.kind.as_str() };
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let told = Self(self.0.for_caller());
        let mut response = (told.0.status(), Json(told.document())).into_response();
        response.headers_mut().extend(told.0.headers.clone());
        response
    }
}

fn agent_of(model: &str) -> Result<BrainId, Problem> {
    let missing = || {
        Problem::not_found(format!("there is no model {:?}", model.chars().take(80).collect::<String>()))
            .hint("models are agents: agent-1 is agent 1; see `GET /v1/models`")
    };
    model.strip_prefix(PREFIX).and_then(|id| id.parse().ok()).ok_or_else(missing)
}

/// Asks an agent as if it were a model of OpenAI's.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai", request_body = ChatRequest,
    responses(
        (status = 200, description = "A completion, or a stream of its pieces", body = Object),
        (status = "4XX", description = "An error as OpenAI tells it", body = Object),
        (status = "5XX", description = "An error as OpenAI tells it", body = Object),
    )
)]
pub(crate) async fn completions(
    State(app): State<App>,
    caller: Result<Caller, Problem>,
    headers: HeaderMap,
    request: Result<Payload<ChatRequest>, Problem>,
) -> Result<Response, OpenAiError> {
    let caller = caller?;
    caller.needs(Operation::Run)?;
    let Payload(request) = request?;
    let agent = agent_of(&request.model)?;
    if !caller.sees(&agent) {
        return Err(Problem::not_found(format!("there is no model {:?}", request.model)).into());
    }
    request.check()?;
    let idempotency = super::tasks::idempotency_key(&headers)?;
    let task = TaskRequest {
        input: request.input()?,
        limits: Some(LimitsRequest {
            reply_tokens: request.reply_tokens().map(|wish| wish.min(app.task_limits.reply_tokens)),
            ..LimitsRequest::default()
        }),
        dry_run: false,
        preload: None,
        // A client that sends a key asks again for the same answer; one without has nothing to ask with.
        on_disconnect: if idempotency.is_some() { OnDisconnect::Continue } else { OnDisconnect::Cancel },
    };
    let job = Job::new(&app, &caller, agent, task, idempotency, false)?;
    let head = Head { model: request.model.clone(), created: app.clock.now().millis() / 1_000 };
    let with_usage = request.wants_usage();
    match accept(&app, &caller, job, &headers).await? {
        Accepted::Known(view) => {
            let problem = view.problem.as_ref().filter(|_| view.outcome.is_none()).map(Problem::read_back);
            let ended = caller.redact_end(&TaskResult { view: *view, problem });
            match request.stream {
                true => Ok(sse(stream::iter(head.pieces(&ended, with_usage)))),
                false => head.whole(&ended),
            }
        }
        Accepted::Live(live, leaving) if request.stream => {
            Ok(head.stream(live, leaving, with_usage, caller, app.meter.following()))
        }
        Accepted::Live(live, leaving) => {
            let ended = live.ended().await;
            leaving.stays();
            head.whole(&caller.redact_end(&ended))
        }
    }
}

/// What every piece of an answer begins with.
struct Head {
    model: String,
    created: i64,
}

impl Head {
    /// The answer in one piece.
    fn whole(&self, ended: &TaskResult) -> Result<Response, OpenAiError> {
        if let Some(problem) = &ended.problem {
            return Err(problem.clone().into());
        }
        let mut response = Json(self.completion(&ended.view)?).into_response();
        if let Some(payment) = ended.view.payment.as_ref().and_then(|text| text.parse().ok()) {
            response.headers_mut().insert(super::payment::PAYMENT_RESPONSE, payment);
        }
        Ok(response)
    }

    fn completion(&self, view: &TaskView) -> Result<Value, OpenAiError> {
        let (content, finish) = spoken(view)?;
        Ok(json!({
            "id": format!("chatcmpl-{}", view.task),
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": content, "refusal": null },
                "logprobs": null,
                "finish_reason": finish,
            }],
            "usage": usage(view),
            "herm": account(view),
        }))
    }

    fn chunk(&self, task: &str, delta: Value, finish: Option<&str>) -> Value {
        json!({
            "id": format!("chatcmpl-{task}"),
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
        })
    }

    /// The answer, piece by piece.
    fn pieces(&self, ended: &TaskResult, with_usage: bool) -> Vec<String> {
        let view = &ended.view;
        let failed = |error: OpenAiError| vec![error.document().to_string()];
        if let Some(problem) = &ended.problem {
            return failed(problem.clone().into());
        }
        let (content, finish) = match spoken(view) {
            Ok(spoken) => spoken,
            Err(error) => return failed(error),
        };
        let mut pieces = Vec::new();
        let mut rest = content.as_str();
        while !rest.is_empty() {
            let end = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= PIECE).last();
            let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
            pieces.push(self.chunk(&view.task, json!({ "content": piece }), None).to_string());
            rest = after;
        }
        let mut last = self.chunk(&view.task, json!({}), Some(finish));
        last["herm"] = account(view);
        pieces.push(last.to_string());
        if with_usage {
            let mut counted = self.chunk(&view.task, json!({}), None);
            counted["choices"] = json!([]);
            counted["usage"] = usage(view);
            pieces.push(counted.to_string());
        }
        pieces.push("[DONE]".to_owned());
        pieces
    }

    fn stream(
        self,
        live: Arc<LiveTask>,
        leaving: Leaving,
        with_usage: bool,
        caller: Caller,
        following: super::meter::During,
    ) -> Response {
        let first = self.chunk(live.id.as_str(), json!({ "role": "assistant", "content": "" }), None).to_string();
        let rest = stream::once(async move {
            let ended = live.ended().await;
            leaving.stays();
            drop(following);
            stream::iter(self.pieces(&caller.redact_end(&ended), with_usage))
        });
        sse(stream::iter([first]).chain(rest.flatten()))
    }
}

fn sse(pieces: impl futures_util::Stream<Item = String> + Send + 'static) -> Response {
    let sent = pieces.map(|piece| Ok::<_, Infallible>(Sent::default().data(piece)));
    Sse::new(sent).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// What the agent said, and why it stopped.
fn spoken(view: &TaskView) -> Result<(String, &'static str), OpenAiError> {
    let outcome = view.outcome.clone().unwrap_or_default();
    let text = |name: &str| outcome[name].as_str().unwrap_or_default().to_owned();
    match outcome["status"].as_str() {
        Some("converged") => Ok((text("answer"), "stop")),
        Some("incomplete") => Ok((text("message"), "length")),
        _ => {
            let problem =
                Problem::new(StatusCode::BAD_GATEWAY, "unavailable", format!("the task failed: {}", text("message")));
            Err(problem.hint("try again; the receipt of the task says more").into())
        }
    }
}

fn usage(view: &TaskView) -> Value {
    let usage = view.outcome.as_ref().map(|outcome| outcome["usage"].clone()).unwrap_or_default();
    let sum =
        |field: &str| ["tokens", "estimated"].iter().map(|kind| usage[kind][field].as_u64().unwrap_or(0)).sum::<u64>();
    let (input, output) = (sum("input"), sum("output"));
    json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
}

/// What OpenAI has no field for.
fn account(view: &TaskView) -> Value {
    let outcome = view.outcome.clone().unwrap_or_default();
    json!({
        "task": view.task, "agent": view.agent, "status": outcome["status"], "version": outcome["version"],
        "receiptSeq": outcome["receiptSeq"], "receipt": outcome["receipt"],
    })
}

/// The agents this caller may call, as models.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai",
    responses((status = 200, description = "Models", body = Object), (status = "4XX", description = "An error", body = Object))
)]
pub(crate) async fn models(
    State(app): State<App>,
    caller: Result<Caller, Problem>,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller?;
    let layout = app.settings.layout.clone();
    let ids = tokio::task::spawn_blocking(move || brain::list(&layout)).await;
    let ids = ids.map_err(|_| herm::Error::internal("listing agents was interrupted"))??;
    let data: Vec<Value> = ids.iter().filter(|id| caller.sees(id)).map(model).collect();
    Ok(Json(json!({ "object": "list", "data": data })))
}

/// One agent, as a model.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "openai", params(("model" = String, Path, description = "agent-1")),
    responses((status = 200, description = "The model", body = Object), (status = "4XX", description = "An error", body = Object))
)]
pub(crate) async fn one_model(
    State(app): State<App>,
    caller: Result<Caller, Problem>,
    Path(name): Path<String>,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller?;
    let id = agent_of(&name)?;
    if !caller.sees(&id) || !app.has(&id) {
        return Err(Problem::not_found(format!("there is no model {name:?}")).into());
    }
    Ok(Json(model(&id)))
}

fn model(id: &BrainId) -> Value {
    json!({ "id": format!("{PREFIX}{id}"), "object": "model", "created": 0, "owned_by": "herm" })
}
