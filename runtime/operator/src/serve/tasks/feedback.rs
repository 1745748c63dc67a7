//! Feedback on a task that is over: by who asked, or, as a label, by the operator. A step of the agent's brain.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use herm::brain::no_such_task;
use herm::harness::{FeedbackFrom, FeedbackResult, TaskFeedback};
use herm::memory::{MAX_NOTE_CHARS, OutcomeReport, OutcomeValue, TaskOutcome};
use herm::{BrainId, SettledStep, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};

use super::super::agents::here;
use super::super::app::App;
use super::super::body::Payload;
use super::super::caller::Caller;
use super::super::problem::{HandlerResult, Problem, ProblemDocument};
use super::super::view::{OutcomeValueSchema, TaskView, sources_for_subscriber};
use super::{TaskLookup, find};
use crate::server_db::keys::Operation;
use crate::server_db::tasks as rows;

/// What is said of an answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeedbackRequest {
    /// `good`, `bad`, or a score from 0 (bad) to 1 (good).
    #[schema(schema_with = value_schema)]
    pub(crate) value: Value,
    /// Why, in at most 500 characters.
    #[schema(max_length = 500)]
    pub(crate) note: Option<String>,
}

/// The schema of what may be said.
fn value_schema() -> utoipa::openapi::schema::Schema {
    let words = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["good", "bad"]));
    let score = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0.0)).maximum(Some(1.0));
    OneOfBuilder::new().item(words).item(score).into()
}

/// What feedback came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedbackView {
    /// The id of the task.
    task: String,
    /// The number of its agent.
    agent: String,
    /// How good its answer was, as far as is known now: `good`, `bad`, `unknown`, or a score from 0 to 1.
    #[schema(value_type = OutcomeValueSchema)]
    value: OutcomeValue,
    /// The same, and who says so: `value` and `sources`, each with `source`, `value`, `note` and `at`.
    #[schema(value_type = Object)]
    outcome: Value,
    /// How the brain moved; null where the same was said before.
    settled: Option<FeedbackStep>,
}

/// The step of a report.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FeedbackStep {
    /// The brain's version now.
    version: u64,
    /// The bundle hash now.
    bundle_hash: String,
    /// The number of the receipt.
    receipt_seq: Option<u64>,
    /// The signed receipt: a DSSE envelope.
    #[schema(value_type = Option<Object>)]
    receipt: Option<Value>,
}

impl FeedbackStep {
    fn of(settled: &SettledStep) -> Self {
        let receipt = settled.receipt.as_ref();
        Self {
            version: settled.version,
            bundle_hash: settled.after.to_string(),
            receipt_seq: receipt.map(|receipt| receipt.seq),
            receipt: receipt.and_then(|receipt| serde_json::from_str(&receipt.envelope).ok()),
        }
    }
}

/// Says how good the answer of a task was. By who asked, or by the operator, whose word prevails.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/feedback", tag = "tasks",
    params(("task" = String, Path, description = "The task")),
    request_body = FeedbackRequest,
    responses(
        (status = 200, description = "The outcome of the task now", body = FeedbackView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn rate(
    State(app): State<App>,
    caller: Caller,
    Path(task): Path<String>,
    Payload(said): Payload<FeedbackRequest>,
) -> HandlerResult<Json<FeedbackView>> {
    give(&app, &caller, None, &task, said).await.map(Json)
}

/// The same of a task that the server has let go of, or never ran, by its agent.
#[utoipa::path(
    post, path = "/v1/agents/{id}/tasks/{task}/feedback", tag = "tasks",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("task" = String, Path, description = "The task"),
    ),
    request_body = FeedbackRequest,
    responses(
        (status = 200, description = "The outcome of the task now", body = FeedbackView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn rate_of_agent(
    State(app): State<App>,
    caller: Caller,
    Path((id, task)): Path<(String, String)>,
    Payload(said): Payload<FeedbackRequest>,
) -> HandlerResult<Json<FeedbackView>> {
    give(&app, &caller, Some(&id), &task, said).await.map(Json)
}

/// Takes what is said of the answer of a task into its brain.
pub(crate) async fn give(
    app: &App,
    caller: &Caller,
    agent: Option<&str>,
    task: &str,
    said: FeedbackRequest,
) -> HandlerResult<FeedbackView> {
    caller.needs(Operation::Run)?;
    let value = OutcomeValue::of_json(&said.value)?;
    if said.note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE_CHARS) {
        return Err(Problem::invalid(format!("the note has more than {MAX_NOTE_CHARS} characters")));
    }
    let rated = find_rated(app, caller, agent, task)?;
    let feedback = TaskFeedback { task: rated.task.clone(), value, note: said.note, from: rated.from.clone() };
    let result = match said_before(app, &rated, &feedback).await? {
        Some(outcome) => FeedbackResult { outcome, settled: None },
        None => app.harness.feedback(&rated.agent, feedback).await?,
    };
    if result.settled.is_some() {
        app.meter.reported(rated.from.source(), value);
        rated.write_down(app, &result.outcome).await?;
    }
    let mut outcome = json!(result.outcome);
    if !caller.is_operator() {
        sources_for_subscriber(&mut outcome);
    }
    Ok(FeedbackView {
        task: rated.task.to_string(),
        agent: rated.agent.to_string(),
        value: result.outcome.value,
        outcome,
        settled: result.settled.as_ref().map(FeedbackStep::of),
    })
}

/// The task that is spoken of.
struct RatedTask {
    agent: BrainId,
    task: TaskId,
    /// As the server remembers it, where it does.
    view: Option<TaskView>,
    /// In whose name the caller speaks of it.
    from: FeedbackFrom,
}

/// Finds a task that the caller may speak of: by what the server remembers, else by what the brain says of it.
fn find_rated(app: &App, caller: &Caller, agent: Option<&str>, text: &str) -> HandlerResult<RatedTask> {
    let named = match caller.subscriber() {
        _ if caller.is_operator() => Some(FeedbackFrom::Operator),
        Some(subscriber) => Some(FeedbackFrom::Subscriber(subscriber.clone())),
        None => None,
    };
    let agent = agent.map(|agent| caller.agent(agent)).transpose()?;
    let view = match (find(app, caller, text), &agent) {
        (Ok(TaskLookup::Live(live)), _) => Some(live.view()),
        (Ok(TaskLookup::Kept(view)), _) => Some(*view),
        (Err(problem), None) => return Err(problem),
        (Err(_), Some(_)) => None,
    };
    let Some(view) = view else {
        // One that the server knows and does not show to this caller is not there.
        let (agent, task) = match (agent, text.parse::<TaskId>()) {
            (Some(agent), Ok(task)) => (here(app, caller, agent.as_str())?, task),
            (_, Err(error)) => return Err(error.into()),
            (None, Ok(_)) => return Err(Problem::not_found("there is no such task")),
        };
        let is_known = app.queue.task(&task).is_some() || app.db.read(|db| rows::get(db, &task))?.is_some();
        // Who asked without a name cannot be told from others by the brain alone.
        return match named {
            Some(from) if !is_known => Ok(RatedTask { agent, task, view: None, from }),
            _ => Err(no_such_task(&agent, &task).into()),
        };
    };
    let (of, task) = (view.agent.parse::<BrainId>()?, view.task.parse::<TaskId>()?);
    if let Some(agent) = agent.filter(|agent| *agent != of) {
        return Err(no_such_task(&agent, &task).into());
    }
    let conflict = |what: &str| Problem::new(StatusCode::CONFLICT, "conflict", what);
    match (&view.finished_at, &view.outcome) {
        (None, _) => Err(conflict("the task is not over yet").hint("wait for its outcome, then say how good it was")),
        (Some(_), None) => Err(conflict("the task came to no outcome: there is nothing to speak of")),
        (Some(_), Some(_)) => {
            let from = named.unwrap_or(FeedbackFrom::Unnamed);
            Ok(RatedTask { agent: of, task, view: Some(view), from })
        }
    }
}

/// The outcome, where the same was said before: found without waiting for the brain. What is not there, or is another
/// subscriber's, is refused without opening it.
async fn said_before(app: &App, rated: &RatedTask, feedback: &TaskFeedback) -> HandlerResult<Option<TaskOutcome>> {
    // One that is in a store alone is restored by the harness.
    if !app.has(&rated.agent) {
        return Ok(None);
    }
    let TaskFeedback { task, value, note, from } = feedback.clone();
    let report = OutcomeReport { source: from.source(), value, note, at: app.clock.now() }.checked()?;
    let looked = app.readers.look(&app.settings.layout, &rated.agent, move |look| {
        let logged = look.reader.logged_task(&task)?;
        if !logged.is_some_and(|logged| from.may_rate(&logged)) {
            return Ok(Err(no_such_task(look.reader.id(), &task)));
        }
        let outcome = look.reader.outcome(&task)?.unwrap_or_default();
        let is_said = outcome.sources.iter().any(|known| known.says_same(&report));
        Ok(Ok(is_said.then_some(outcome)))
    });
    Ok(looked.await??)
}

impl RatedTask {
    /// Brings what the server remembers of the task up to date.
    async fn write_down(&self, app: &App, outcome: &TaskOutcome) -> HandlerResult<()> {
        let Some(mut view) = self.view.clone() else { return Ok(()) };
        set_outcome(&mut view, outcome);
        let (task, value) = (self.task.clone(), outcome.value.to_string());
        let json = view.outcome.map(|outcome| outcome.to_string());
        Ok(app.db.write(move |db| rows::rate(db, &task, &value, json.as_deref())).await?)
    }
}

fn set_outcome(view: &mut TaskView, outcome: &TaskOutcome) {
    if let Some(Value::Object(told)) = &mut view.outcome {
        told.insert("outcome".to_owned(), json!(outcome));
        view.value = Some(json!(outcome.value));
    }
}

/// A task with its outcome as the brain has it now: it may have been spoken of elsewhere since. What cannot be looked at
/// now is told as it was.
pub(super) async fn with_present_outcome(app: &App, mut view: TaskView) -> TaskView {
    let (Ok(agent), Ok(task)) = (view.agent.parse::<BrainId>(), view.task.parse::<TaskId>()) else { return view };
    if view.outcome.is_none() || !app.has(&agent) {
        return view;
    }
    let looked = app.readers.look(&app.settings.layout, &agent, move |look| look.reader.outcome(&task));
    if let Ok(Some(now)) = looked.await {
        set_outcome(&mut view, &now);
    }
    view
}
