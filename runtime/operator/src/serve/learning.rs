//! What an agent has learned, and what that is worth.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use herm::memory::TrialState;
use herm::trial::pass::StoppedTrial;
use herm::trial::report::{self, LearnedSkill};
use herm::{Reader, Result, Slug, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::agents::{here, looked_at};
use super::app::App;
use super::body::{OptionalPayload, QueryParams, page};
use super::caller::Caller;
use super::problem::{HandlerResult, Problem, ProblemDocument};
use crate::operations::learning::{self, CurvePoint, ShownExample, ShownSkill};
use crate::operations::to_json;
use crate::server_db::keys::Operation;

/// Which learned skills to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LearningQuery {
    /// `trial`, `proven`, `unproven`, `harmful`, `untried` or `all`; all unless said.
    state: Option<String>,
    /// How many; 100 unless said, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before: the list goes on behind that skill.
    cursor: Option<String>,
}

/// What an agent has learned.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LearningView {
    /// How many learned skills stand where.
    #[schema(value_type = Object)]
    counts: Value,
    /// What everything proven is worth, with 95 % intervals, and what trials of harmful skills cost.
    #[schema(value_type = Object)]
    gain: Value,
    /// The learned skills, by name: where each stands and why, both arms of its trial, its gain with a 95 % interval.
    #[schema(value_type = Vec<Object>)]
    skills: Vec<Value>,
    /// Where the list goes on.
    next: Option<String>,
    /// How many fit what was asked for.
    total: usize,
}

/// What an agent has learned, and what that is worth.
#[utoipa::path(
    get, path = "/v1/agents/{id}/learning", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), LearningQuery),
    responses(
        (status = 200, description = "What was learned", body = LearningView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<LearningQuery>,
) -> HandlerResult<Json<LearningView>> {
    let id = looked_at(&app, &caller, &id)?;
    let limit = page(asked.limit, 100, 1_000)?;
    let after: Option<Slug> = asked.cursor.as_deref().map(str::parse).transpose()?;
    let state = match asked.state.as_deref().unwrap_or("all") {
        "all" => None,
        "untried" => Some(None),
        "trial" => Some(Some(TrialState::Trial)),
        "proven" => Some(Some(TrialState::Proven)),
        "unproven" => Some(Some(TrialState::Unproven)),
        "harmful" => Some(Some(TrialState::Harmful)),
        other => {
            return Err(Problem::invalid(format!(
                "{other:?} is not a state: trial, proven, unproven, harmful, untried or all"
            )));
        }
    };
    let view = app.readers.look(&app.settings.layout, &id, move |look| {
        let mut learned = report::of(&look.reader)?;
        learned.skills.retain(|skill| state.is_none_or(|state| skill.state == state));
        let total = learned.skills.len();
        let mut rest = learned.skills.iter().filter(|skill| after.as_ref().is_none_or(|after| skill.skill > *after));
        let shown: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest.next().and_then(|_| shown.last()).map(|last| last.skill.to_string());
        let (counts, gain) = (json!(learned.counts), json!(learned.gain));
        Ok(LearningView { counts, gain, skills: shown.iter().map(|skill| json!(skill)).collect(), next, total })
    });
    Ok(Json(view.await?))
}

/// What was learned, as a document to hand on: the text of `herm learn report`.
#[utoipa::path(
    get, path = "/v1/agents/{id}/learning-report", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "What was learned", body = String, content_type = "text/markdown"),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn report(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> HandlerResult<Response> {
    let id = looked_at(&app, &caller, &id)?;
    let text = app.readers.look(&app.settings.layout, &id, |look| {
        let reader = &look.reader;
        Ok(learning::markdown(reader.id(), reader.lock().version, &report::of(reader)?))
    });
    Ok(([(CONTENT_TYPE, "text/markdown; charset=utf-8")], text.await?).into_response())
}

/// One learned skill with the tasks of its trial.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LearnedSkillView {
    /// The number of the agent.
    id: String,
    /// What a list says of it: where it stands and why, both arms of its trial, its gain with a 95 % interval.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    skill: LearnedSkill,
    /// The last tasks of its trial that the caller may know of, newest first, 20 at most.
    #[schema(value_type = Vec<Object>)]
    tasks: Value,
    /// The learning curve: `arm` and `score` of each task of its trial, in the order in which they came, 1,000 at most. It
    /// names no tasks.
    #[schema(value_type = Vec<Object>)]
    curve: Vec<CurvePoint>,
    /// The worked examples that it holds, of tasks that the caller may know of: `task`, `question`, `tools`.
    #[schema(value_type = Vec<Object>)]
    examples: Vec<ShownExample>,
}

/// Whose tasks a caller may know of: the operator all, anyone else their own.
fn may_see(reader: &Reader, caller: &Caller, task: &TaskId) -> Result<bool> {
    Ok(caller.is_operator() || reader.logged_task(task)?.is_some_and(|logged| logged.subscriber == caller.digest()))
}

/// One learned skill: where it stands and why, both arms of its trial, its last tasks and its worked examples.
#[utoipa::path(
    get, path = "/v1/agents/{id}/learning/{skill}", tag = "agents",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("skill" = String, Path, description = "The skill"),
    ),
    responses(
        (status = 200, description = "The skill and its trial", body = LearnedSkillView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((id, skill)): Path<(String, String)>,
) -> HandlerResult<Json<LearnedSkillView>> {
    let id = looked_at(&app, &caller, &id)?;
    let slug: Slug = skill.parse()?;
    let view = app.readers.look(&app.settings.layout, &id, move |look| {
        let reader = &look.reader;
        let ShownSkill { skill, tasks, curve, examples } =
            learning::show(reader, &slug, |task| may_see(reader, &caller, task))?;
        Ok(LearnedSkillView { id: reader.id().to_string(), skill, tasks: to_json(&tasks)?, curve, examples })
    });
    Ok(Json(view.await?))
}

/// What a person makes of a skill on trial.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopAs {
    /// It stays in the index of skills and is put before no task.
    #[default]
    Unproven,
    /// It is shown to every task that it fits.
    Proven,
    /// It is archived and does not come back by itself.
    Archived,
}

/// How to end a trial.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StopTrial {
    /// `unproven`, `proven` or `archived`; unproven unless said.
    r#as: StopAs,
}

/// A trial that a person ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoppedView {
    /// The number of the agent.
    id: String,
    /// Where the skill stands now.
    #[schema(value_type = Object)]
    trial: Value,
    /// The step that archived it, where one did.
    #[schema(value_type = Option<Object>)]
    settled: Value,
}

/// Ends a trial by hand, or changes its verdict.
#[utoipa::path(
    post, path = "/v1/agents/{id}/learning/{skill}/stop", tag = "operator", request_body = Option<StopTrial>,
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("skill" = String, Path, description = "The skill"),
    ),
    responses(
        (status = 200, description = "Where the skill stands now", body = StoppedView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn stop(
    State(app): State<App>,
    caller: Caller,
    Path((id, skill)): Path<(String, String)>,
    OptionalPayload(how): OptionalPayload<StopTrial>,
) -> HandlerResult<Json<StoppedView>> {
    caller.needs(Operation::Operate)?;
    let id = here(&app, &caller, &id)?;
    let slug: Slug = skill.parse()?;
    let how = match how.r#as {
        StopAs::Unproven => StoppedTrial::Unproven,
        StopAs::Proven => StoppedTrial::Kept,
        StopAs::Archived => StoppedTrial::Archived,
    };
    let stopped = app.harness.with_brain(&id, move |brain| learning::stop(brain, &slug, how)).await?;
    Ok(Json(StoppedView { id: id.to_string(), trial: to_json(&stopped.trial)?, settled: to_json(&stopped.settled)? }))
}
