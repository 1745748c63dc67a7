//! What an agent has learned, and what that is worth.

use axum::Json;
use axum::extract::{Path, State};
use herm::Slug;
use herm::memory::TrialState;
use herm::trial::report;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::agents::looked_at;
use super::app::App;
use super::body::{QueryParams, page};
use super::caller::Caller;
use super::problem::{HandlerResult, Problem, ProblemDocument};

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
