//! Which path leads where, and what surrounds every answer.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::FutureExt as _;
use herm::TaskId;

use super::app::App;
use super::body::check_announced;
use super::caller::{check_host, check_local};
use super::problem::{HandlerResult, OPERATES, Problem, REQUEST_ID};
use super::{
    agents, history, learning, mesh, openai, openapi, operate, page, proposals, receipts, skills, status, tasks,
};

/// The one path with a limit of its own for bodies.
const IMPORT: &str = "/v1/agents/{id}/import";
const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Every path of the server, with what is checked before a handler runs.
pub(crate) fn router(app: App) -> Router {
    let routes = Router::new()
        .route("/", get(page::index))
        .route("/app/{*path}", get(page::part))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/metrics", get(status::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/key", get(status::key))
        .route("/v1/operator/status", get(status::status))
        .route("/v1/tasks", get(tasks::list))
        .route("/v1/tasks/{task}", get(tasks::show).delete(tasks::cancel))
        .route("/v1/tasks/{task}/events", get(tasks::follow))
        .route("/v1/tasks/{task}/feedback", post(tasks::feedback::rate))
        .route("/v1/agents", get(agents::list))
        .route("/v1/agents/{id}", get(agents::show))
        .route("/v1/agents/{id}/tasks", post(tasks::submit))
        .route("/v1/agents/{id}/tasks/{task}/feedback", post(tasks::feedback::rate_of_agent))
        .route("/v1/agents/{id}/skills", get(skills::list))
        .route("/v1/agents/{id}/skills/{slug}", get(skills::show))
        .route("/v1/agents/{id}/skills/{slug}/versions/{version}", get(skills::version))
        .route("/v1/agents/{id}/learning", get(learning::list))
        .route("/v1/agents/{id}/learning/{skill}", get(learning::show))
        .route("/v1/agents/{id}/learning/{skill}/stop", post(learning::stop))
        .route("/v1/agents/{id}/learning-report", get(learning::report))
        .route("/v1/agents/{id}/memory/search", get(history::search))
        .route("/v1/agents/{id}/receipts", get(receipts::list))
        .route("/v1/agents/{id}/receipts/{seq}", get(receipts::show))
        .route("/v1/agents/{id}/history", get(history::list))
        .route("/v1/agents/{id}/charts", get(history::charts))
        .route("/v1/agents/{id}/diff", get(history::diff))
        .route("/v1/agents/{id}/snapshots", get(operate::snapshots))
        .route("/v1/agents/{id}/proposals", get(proposals::list))
        .route("/v1/agents/{id}/proposals/{proposal}/accept", post(proposals::accept))
        .route("/v1/agents/{id}/proposals/{proposal}/reject", post(proposals::reject))
        .route("/v1/agents/{id}/curate", post(operate::curate))
        .route("/v1/agents/{id}/evolve", post(operate::evolve))
        .route("/v1/agents/{id}/verify", post(operate::verify))
        .route("/v1/agents/{id}/snapshot", post(operate::snapshot))
        .route("/v1/agents/{id}/restore", post(operate::restore))
        .route(IMPORT, post(operate::import))
        .route("/v1/agents/{id}/pause", post(operate::pause))
        .route("/v1/agents/{id}/resume", post(operate::resume))
        .route("/v1/mesh/proposals", post(mesh::propose))
        .route("/v1/mesh/votes/{proposal}", get(mesh::vote))
        .route("/v1/mesh/consensus", post(mesh::close))
        .route("/v1/mesh/missed", post(mesh::missed))
        .route("/v1/chat/completions", post(openai::completions))
        .route("/v1/models", get(openai::models))
        .route("/v1/models/{model}", get(openai::one_model));
    #[cfg(feature = "mcp")]
    let routes = routes.merge(super::mcp::routes(&app));
    routes
        .fallback(|| async { Problem::not_found("there is nothing at this path").hint("see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path does not take this method")
                .hint("see /openapi.json")
        })
        .layer(middleware::from_fn_with_state(app.clone(), surround))
        .with_state(app)
}

/// Gives every request a name, keeps strangers out where there are no keys, counts, and survives a panic.
async fn surround(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(&app, request.headers());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let checked = check(&app, &request, route.as_deref());
    let answering = async {
        match checked {
            Err(problem) => problem.into_response(),
            Ok(()) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
                Ok(response) => response,
                Err(_) => Problem::from(herm::Error::internal("answering this request panicked")).into_response(),
            },
        }
    };
    let answering = async {
        let response = answering.await;
        // What the framework refuses by itself is told like everything else.
        let is_plain =
            response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/plain"));
        match response.status().is_client_error() && is_plain {
            true => Problem::new(response.status(), "invalid_input", "the path or a part of it cannot be read")
                .into_response(),
            false => response,
        }
    };
    let mut response = REQUEST_ID.scope(id.clone(), OPERATES.scope(AtomicBool::new(false), answering)).await;
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID_HEADER, id);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Answers hold what belongs to one caller.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let (status, took) = (response.status().as_u16(), began.elapsed());
    let route = route.as_deref().unwrap_or("none");
    app.meter.answered(method.as_str(), route, status, took);
    tracing::info!(request = %id, %method, route, status, millis = took.as_millis() as u64, "answered");
    response
}

/// Refuses what needs no look at who sends it:
/// two hosts, strangers where there are no keys, a body that says it is too large.
fn check(app: &App, request: &Request, route: Option<&str>) -> HandlerResult<()> {
    check_host(request.headers())?;
    if app.is_keyless()? {
        check_local(request.version(), request.headers(), request.uri())?;
    }
    let most = match route {
        Some(IMPORT) => app.limits.import_bytes,
        _ => app.limits.body_bytes as u64,
    };
    check_announced(request.headers(), most)
}

/// The request's own name, where it has a good one; else a new one.
fn request_id(app: &App, headers: &HeaderMap) -> String {
    let said = headers.get(&REQUEST_ID_HEADER).and_then(|value| value.to_str().ok());
    match said.and_then(|text| text.parse::<TaskId>().ok()) {
        Some(good) => good.to_string(),
        None => TaskId::new(app.clock.now(), &*app.random).map_or_else(|_| "unnamed".to_owned(), |id| id.to_string()),
    }
}
