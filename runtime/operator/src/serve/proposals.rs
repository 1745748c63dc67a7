//! What the evolver holds for a person: looked at, accepted, rejected.

use axum::Json;
use axum::extract::{Path, State};
use herm::evolver::mining::ReviewStatus;
use herm::evolver::{EvolverView, review_queue};
use herm::memory::QueueRow;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::agents::here;
use super::app::App;
use super::body::QueryParams;
use super::caller::Caller;
use super::problem::{HandlerResult, Problem, ProblemDocument};
use super::reading::commands;
use crate::operations::change_preview::{AcceptPreview, accept_preview};
use crate::operations::external_skills;
use crate::server_db::keys::Operation;

/// How many proposals are shown.
const MOST: usize = 200;

/// Which proposals to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProposalsQuery {
    /// `pending`, `accepted`, `rejected` or `all`; pending unless said.
    status: Option<String>,
}

/// Proposals of the evolver, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProposalList {
    /// The proposals with the status that was asked for, at most 200.
    proposals: Vec<ProposalView>,
}

/// One proposal, with what accepting it would change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProposalView {
    /// The id by which it is accepted or rejected.
    id: String,
    /// What kind of thing it is.
    kind: String,
    /// The skill it is about.
    skill: Option<String>,
    /// What became of it.
    status: String,
    /// What it is, in a line.
    title: Option<String>,
    /// Why the evolver proposes it.
    why: Option<String>,
    /// When it was put here.
    created_at: String,
    /// What it rests on.
    #[schema(value_type = Vec<Object>)]
    evidence: Value,
    /// What accepting it would do to the skill's text.
    diff: Option<String>,
    /// Whether the skill is still as it was when the change was thought of.
    stands: Option<bool>,
    /// The inline commands of the text that the skill would have, as the runtime reads them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
}

/// What the evolver holds for a person.
#[utoipa::path(
    get, path = "/v1/agents/{id}/proposals", tag = "operator",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), ProposalsQuery),
    responses(
        (status = 200, description = "Proposals", body = ProposalList),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<ProposalsQuery>,
) -> HandlerResult<Json<ProposalList>> {
    caller.needs(Operation::Operate)?;
    let id = here(&app, &caller, &id)?;
    let status = match asked.status.as_deref().unwrap_or("pending") {
        "all" => None,
        "pending" => Some(ReviewStatus::Pending),
        "accepted" => Some(ReviewStatus::Accepted),
        "rejected" => Some(ReviewStatus::Rejected),
        other => {
            return Err(Problem::invalid(format!("{other:?} is not a status: pending, accepted, rejected or all")));
        }
    };
    let looking = app.clone();
    let list = app.readers.look(&app.settings.layout, &id, move |look| {
        let reader = &look.reader;
        let ground =
            EvolverView::of_reader(reader, looking.clock.now())?.with_external(external_skills(&looking.settings)?);
        let rows = reader.evolver_rows().queue(status, None)?;
        let mut proposals = Vec::new();
        for listed in rows.into_iter().rev().take(MOST) {
            let row = reader.evolver_rows().queued(&listed.id)?.unwrap_or(listed);
            let would = accept_preview(&row, |skill| ground.text(skill))?;
            proposals.push(view(row, would));
        }
        Ok(ProposalList { proposals })
    });
    Ok(Json(list.await?))
}

fn view(row: QueueRow, would: Option<AcceptPreview>) -> ProposalView {
    let word = |name: &str| row.entry[name].as_str().map(str::to_owned);
    let evidence = match &row.entry["evidence_refs"] {
        Value::Null => json!([]),
        list @ Value::Array(_) => list.clone(),
        one => json!([one]),
    };
    ProposalView {
        title: word("title"),
        why: word("rationale"),
        evidence,
        kind: row.kind.to_string(),
        skill: row.skill.map(|skill| skill.to_string()),
        status: row.status.to_string(),
        created_at: row.created_at.to_string(),
        stands: would.as_ref().map(|would| would.stands),
        commands: would.as_ref().and_then(|would| would.text.as_deref()).map(commands).unwrap_or_default(),
        diff: would.map(|would| would.diff),
        id: row.id,
    }
}

/// What became of a proposal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Decided {
    /// The id of the proposal.
    id: String,
    /// What became of it.
    status: String,
    /// Whether what it wanted is so now.
    done: bool,
    /// What accepting it came to; null where it was rejected.
    #[schema(value_type = Option<Object>)]
    settled: Option<Value>,
}

/// Accepts a proposal: the change is verified and made as a step of its own.
#[utoipa::path(
    post, path = "/v1/agents/{id}/proposals/{proposal}/accept", tag = "operator",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("proposal" = String, Path, description = "The proposal"),
    ),
    responses(
        (status = 200, description = "What became of it", body = Decided),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn accept(
    State(app): State<App>,
    caller: Caller,
    Path((id, proposal)): Path<(String, String)>,
) -> HandlerResult<Json<Decided>> {
    caller.needs(Operation::Operate)?;
    let id = here(&app, &caller, &id)?;
    let verification = app.settings.evolver().verification();
    let decided = app.harness.with_brain(&id, move |brain| {
        let accepted = review_queue::accept(brain, &proposal, &verification)?;
        let done = accepted.is_done();
        let status = if done { ReviewStatus::Accepted } else { ReviewStatus::Pending };
        Ok(Decided {
            id: proposal,
            status: status.name().to_owned(),
            done,
            settled: serde_json::to_value(&accepted).ok(),
        })
    });
    Ok(Json(decided.await?))
}

/// Rejects a proposal; it comes back only by a person.
#[utoipa::path(
    post, path = "/v1/agents/{id}/proposals/{proposal}/reject", tag = "operator",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("proposal" = String, Path, description = "The proposal"),
    ),
    responses(
        (status = 200, description = "What became of it", body = Decided),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn reject(
    State(app): State<App>,
    caller: Caller,
    Path((id, proposal)): Path<(String, String)>,
) -> HandlerResult<Json<Decided>> {
    caller.needs(Operation::Operate)?;
    let id = here(&app, &caller, &id)?;
    let decided = app.harness.with_brain(&id, move |brain| {
        review_queue::reject(brain, &proposal)?;
        let status = ReviewStatus::Rejected.name().to_owned();
        Ok(Decided { id: proposal, status, done: true, settled: None })
    });
    Ok(Json(decided.await?))
}
