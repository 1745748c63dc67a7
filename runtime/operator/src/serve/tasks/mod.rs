//! Tasks over HTTP: accepted once, run once, followed or asked for later.

mod deadline;
pub(crate) mod feedback;
mod request;
mod restart;
mod run;
mod running;
mod stream;
mod task_payment;

pub(crate) use request::{LimitsRequest, OnDisconnect, TaskRequest};
pub(crate) use restart::resume;
pub(crate) use run::{Accepted, Job, accept};
pub(crate) use stream::events_of;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT, HeaderName, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use herm::TaskId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::app::App;
use super::body::{Payload, QueryParams, page};
use super::caller::Caller;
use super::live::LiveTask;
use super::problem::{HandlerResult, Problem, ProblemDocument};
use super::view::TaskView;
use crate::server_db::keys::Operation;
use crate::server_db::tasks::{self as rows, Wanted};

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Runs a task on an agent.
#[utoipa::path(
    post, path = "/v1/agents/{id}/tasks", tag = "tasks",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key is the same task"),
        ("Prefer" = Option<String>, Header, description = "`respond-async` to be answered at once"),
        ("Accept" = Option<String>, Header, description = "`text/event-stream` to follow the task"),
    ),
    request_body = TaskRequest,
    responses(
        (status = 200, description = "The task is over; or its events as they happen", body = TaskView),
        (status = 202, description = "The task is accepted", body = TaskView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn submit(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Payload(request): Payload<TaskRequest>,
) -> HandlerResult<Response> {
    caller.needs(Operation::Run)?;
    let agent = caller.agent(&id)?;
    let later = prefers_async(&headers);
    let idempotency = idempotency_key(&headers)?;
    let job = Job::new(&app, &caller, agent, request, idempotency, later)?;
    match accept(&app, &caller, job, &headers).await? {
        Accepted::Known(view) if later => Ok(accepted(caller.redact_view(*view))),
        Accepted::Known(view) if wants_events(&headers) => Ok(stream::only_end(&caller.redact_view(*view))),
        Accepted::Known(view) => finished(&caller.redact_view(*view)),
        Accepted::Live(live, leaving) if later => {
            leaving.stays();
            Ok(accepted(caller.redact_view(live.view())))
        }
        Accepted::Live(live, leaving) if wants_events(&headers) => Ok(events_of(&app, &caller, live, 0, Some(leaving))),
        Accepted::Live(live, leaving) => {
            let ended = live.ended().await;
            leaving.stays();
            match &ended.problem {
                Some(problem) => Err(problem.clone()),
                None => finished(&caller.redact_view(ended.view.clone())),
            }
        }
    }
}

/// The answer to a task that is left to run.
fn accepted(view: TaskView) -> Response {
    let place = format!("/v1/tasks/{}", view.task);
    let headers = [(LOCATION, place), (PREFERENCE_APPLIED, "respond-async".to_owned())];
    (StatusCode::ACCEPTED, headers, Json(view)).into_response()
}

/// The answer to a task that is over, the first time and every time after.
fn finished(view: &TaskView) -> HandlerResult<Response> {
    if let Some(problem) = view.problem.as_ref().filter(|_| view.outcome.is_none()) {
        return Err(Problem::read_back(problem));
    }
    let mut response = Json(view).into_response();
    if let Some(payment) = view.payment.as_ref().and_then(|text| text.parse().ok()) {
        response.headers_mut().insert(super::payment::PAYMENT_RESPONSE, payment);
    }
    Ok(response)
}

/// Cancels a task whose caller leaves, where that was asked for.
#[derive(Debug)]
pub(crate) struct Leaving(Option<Arc<LiveTask>>);

impl Leaving {
    pub(crate) fn new(live: Arc<LiveTask>, on_disconnect: OnDisconnect) -> Self {
        Self((on_disconnect == OnDisconnect::Cancel).then_some(live))
    }

    /// The caller is still there at the end.
    pub(crate) fn stays(mut self) {
        self.0 = None;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(live) = &self.0 {
            live.cancel.cancel();
        }
    }
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let said = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|text| text.split([',', ';'])).any(|part| part.trim().eq_ignore_ascii_case("respond-async"))
}

fn wants_events(headers: &HeaderMap) -> bool {
    let said = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|text| text.split(',')).any(|part| part.trim().to_ascii_lowercase().starts_with("text/event-stream"))
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> HandlerResult<Option<String>> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(text) if (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(Some(text.to_owned()))
        }
        _ => Err(Problem::invalid("an Idempotency-Key is 1 to 128 visible ASCII characters")),
    }
}

/// Which tasks to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only tasks of the agent with this number.
    agent: Option<String>,
    /// In which state: queued, running, done, cancelled or failed.
    state: Option<String>,
    /// How many; 50 unless said, 200 at most.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// The `next` of the page before: the list goes on behind that task.
    cursor: Option<String>,
}

/// A page of tasks, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TaskList {
    /// Without answers and receipts.
    tasks: Vec<TaskView>,
    /// Where the list goes on.
    next: Option<String>,
}

/// Tasks of the caller, newest first.
#[utoipa::path(
    get, path = "/v1/tasks", tag = "tasks", params(ListQuery),
    responses(
        (status = 200, description = "Tasks", body = TaskList),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(asked): QueryParams<ListQuery>,
) -> HandlerResult<Json<TaskList>> {
    let limit = page(asked.limit, 50, 200)?;
    let state = asked.state.as_deref().map(|name| {
        rows::State::named(name).ok_or_else(|| Problem::invalid(format!("{name:?} is not a state of a task")))
    });
    let state = state.transpose()?;
    let agent = asked.agent.as_deref().map(|text| caller.agent(text)).transpose()?;
    let agents = match (&agent, caller.key().and_then(|key| key.agents.as_ref())) {
        (Some(agent), _) => Some(vec![agent.to_string()]),
        (None, Some(agents)) => Some(agents.iter().map(ToString::to_string).collect()),
        (None, None) => None,
    };
    let cursor: Option<TaskId> = asked.cursor.map(TaskId::try_from).transpose()?;
    let wanted = Wanted {
        owner: (!caller.is_operator()).then(|| caller.owner()),
        agents,
        state,
        before: cursor.as_ref().map(ToString::to_string),
        limit,
    };
    // Before the database is read: one that ends meanwhile is written down first, and then no longer here.
    let here = app.queue.tasks();
    let listed = wanted.clone();
    let found = app.db.list(move |connection| rows::list(connection, &listed)).await?;
    let mut tasks: Vec<TaskView> = found.into_iter().map(TaskView::of_row).collect();
    // Those that are not written down yet are known here.
    for live in here {
        let view = live.view();
        let fits = caller.owns(&live.owner)
            && caller.sees(&live.agent)
            && agent.as_ref().is_none_or(|agent| *agent == live.agent)
            && wanted.state.is_none_or(|state| state == view.state)
            && cursor.as_ref().is_none_or(|cursor| live.id < *cursor);
        let view = TaskView { outcome: None, ..view };
        match tasks.iter_mut().find(|known| known.task == view.task) {
            Some(known) => *known = view,
            None if fits => tasks.push(view),
            None => {}
        }
    }
    tasks.sort_by(|a, b| b.task.cmp(&a.task));
    let more = tasks.len() >= limit;
    tasks.truncate(limit);
    let next = tasks.last().filter(|_| more).map(|last| last.task.clone());
    let tasks = tasks.into_iter().map(|task| caller.redact_view(task)).collect();
    Ok(Json(TaskList { tasks, next }))
}

/// A task that this caller may know of: one that lives, or one of the server database.
pub(crate) enum TaskLookup {
    Live(Arc<LiveTask>),
    Kept(Box<TaskView>),
}

pub(crate) fn find(app: &App, caller: &Caller, text: &str) -> HandlerResult<TaskLookup> {
    let missing = || Problem::not_found("there is no such task").hint("see your tasks with `GET /v1/tasks`");
    let id: TaskId = text.parse().map_err(|_| missing())?;
    if let Some(live) = app.queue.task(&id) {
        let is_theirs = caller.owns(&live.owner) && caller.sees(&live.agent);
        return if is_theirs { Ok(TaskLookup::Live(live)) } else { Err(missing()) };
    }
    match app.db.read(|connection| rows::get(connection, &id))? {
        Some(row) if caller.owns(&row.owner) && caller.sees(&row.agent) => {
            Ok(TaskLookup::Kept(Box::new(TaskView::of_row(row))))
        }
        _ => Err(missing()),
    }
}

/// One task: how far it has come, or what came of it.
#[utoipa::path(
    get, path = "/v1/tasks/{task}", tag = "tasks",
    params(("task" = String, Path, description = "The task")),
    responses(
        (status = 200, description = "The task", body = TaskView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(task): Path<String>,
) -> HandlerResult<Json<TaskView>> {
    let view = match find(&app, &caller, &task)? {
        TaskLookup::Live(live) => live.view(),
        TaskLookup::Kept(view) => *view,
    };
    Ok(Json(caller.redact_view(feedback::with_present_outcome(&app, view).await)))
}

/// What happens in a task, as it happens.
#[utoipa::path(
    get, path = "/v1/tasks/{task}/events", tag = "tasks",
    params(
        ("task" = String, Path, description = "The task"),
        ("Last-Event-ID" = Option<String>, Header, description = "Go on behind this event"),
    ),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    caller: Caller,
    Path(task): Path<String>,
    headers: HeaderMap,
) -> HandlerResult<Response> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let from = last.and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(match find(&app, &caller, &task)? {
        TaskLookup::Live(live) => events_of(&app, &caller, live, from, None),
        TaskLookup::Kept(view) => stream::only_end(&caller.redact_view(*view)),
    })
}

/// Cancels a task that is not over; one that is over is a conflict.
#[utoipa::path(
    delete, path = "/v1/tasks/{task}", tag = "tasks",
    params(("task" = String, Path, description = "The task")),
    responses(
        (status = 202, description = "It is being cancelled", body = TaskView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(task): Path<String>,
) -> HandlerResult<Response> {
    caller.needs(Operation::Run)?;
    let over = |state: rows::State| {
        Problem::new(StatusCode::CONFLICT, "conflict", format!("the task is over already: {}", state.name()))
            .hint("look at it with `GET /v1/tasks/{task}`")
    };
    match find(&app, &caller, &task)? {
        TaskLookup::Kept(view) if view.finished_at.is_none() => {
            // Left by an earlier process and not taken up yet: so it never is.
            let id = view.task.parse()?;
            app.db.write(move |connection| rows::cancel(connection, &id)).await?;
            Ok((StatusCode::ACCEPTED, Json(*view)).into_response())
        }
        TaskLookup::Kept(view) => Err(over(view.state)),
        TaskLookup::Live(live) => {
            let view = live.view();
            if view.finished_at.is_some() {
                return Err(over(view.state));
            }
            if live.durable {
                let id = live.id.clone();
                app.db.write(move |connection| rows::cancel(connection, &id)).await?;
            }
            live.cancel.cancel();
            Ok((StatusCode::ACCEPTED, Json(live.view())).into_response())
        }
    }
}
