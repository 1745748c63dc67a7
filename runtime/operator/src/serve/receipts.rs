//! The signed account of how a brain moved, as far as a caller may know it.

use axum::Json;
use axum::extract::{Path, State};
use herm::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::agents::looked_at;
use super::app::App;
use super::body::{QueryParams, page};
use super::caller::Caller;
use super::problem::{HandlerResult, Problem, ProblemDocument};
use crate::operations::receipt_check::statement;

/// How many receipts are looked through for those of one subscriber.
const LOOKED_THROUGH: u64 = 500;

/// Whose receipts a caller sees: the operator all; anyone else those of no task and their own.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    all: bool,
    own: Option<String>,
}

impl Seen {
    pub(crate) fn by(caller: &Caller) -> Self {
        Self { all: caller.is_operator(), own: caller.digest().map(|digest| digest.to_string()) }
    }

    pub(crate) fn sees(&self, statement: &Value) -> bool {
        // Of a task, or of what was said of one later.
        let about = [&statement["predicate"]["task"], &statement["predicate"]["change"]["feedback"]];
        self.all || about.iter().all(|task| task.is_null() || task["subscriber"].as_str() == self.own.as_deref())
    }
}

/// Which receipts to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReceiptsQuery {
    /// How many; 50 unless said, 200 at most.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// Those before this number.
    before: Option<u64>,
}

/// A page of receipts, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptList {
    /// The receipts of this page that the caller may see.
    receipts: Vec<ReceiptRow>,
    /// What to ask for with `before` next.
    next: Option<u64>,
    /// The number of the last receipt of the brain.
    last: u64,
}

/// One receipt in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptRow {
    /// Its number; a later receipt has a greater one.
    seq: u64,
    /// When the brain moved.
    at: Option<String>,
    /// Why the brain moved.
    kind: Option<String>,
    /// The brain's version after the step.
    version: Option<u64>,
    /// The id of the task that ran, or that was rated.
    task: Option<String>,
    /// How the task ended.
    status: Option<String>,
    /// The model that spoke.
    model: Option<String>,
    /// The bundle hash before.
    before: Option<String>,
    /// The bundle hash after.
    after: Option<String>,
}

/// The digest that a statement has under a name.
pub(crate) fn subject(statement: &Value, name: &str) -> Option<String> {
    let subjects = statement["subject"].as_array()?;
    let found = subjects.iter().find(|subject| subject["name"] == name)?;
    found["digest"].as_object()?.values().next()?.as_str().map(str::to_owned)
}

fn row(seq: u64, statement: &Value) -> ReceiptRow {
    let predicate = &statement["predicate"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    ReceiptRow {
        seq,
        at: text(&predicate["at"]),
        kind: text(&predicate["kind"]),
        version: predicate["version"].as_u64(),
        task: text(&predicate["task"]["id"]).or_else(|| text(&predicate["change"]["feedback"]["task"])),
        status: text(&predicate["task"]["status"]),
        model: text(&predicate["task"]["model"]),
        before: subject(statement, "bundle/before"),
        after: subject(statement, "bundle/after"),
    }
}

/// The receipts of an agent, newest first.
#[utoipa::path(
    get, path = "/v1/agents/{id}/receipts", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), ReceiptsQuery),
    responses(
        (status = 200, description = "Receipts", body = ReceiptList),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<ReceiptsQuery>,
) -> HandlerResult<Json<ReceiptList>> {
    let id = looked_at(&app, &caller, &id)?;
    let limit = page(asked.limit, 50, 200)?;
    let seen = Seen::by(&caller);
    let list = app.readers.look(&app.settings.layout, &id, move |look| {
        let last = look.reader.last_receipt()?;
        let mut at = asked.before.map_or(last, |before| before.saturating_sub(1).min(last));
        let stop = at.saturating_sub(LOOKED_THROUGH);
        let mut receipts = Vec::new();
        while at > stop && receipts.len() < limit {
            let first = at.saturating_sub(limit as u64 - 1).max(1);
            let mut batch = look.reader.receipts(first, at)?;
            // Where numbers are missing, none is looked at twice.
            at = first - 1;
            while let Some(taped) = batch.pop() {
                let statement = statement(&taped.envelope)?;
                if seen.sees(&statement) {
                    receipts.push(row(taped.seq, &statement));
                }
                if receipts.len() == limit {
                    at = taped.seq - 1;
                    break;
                }
            }
        }
        let next = (at > 0).then_some(at + 1);
        Ok(ReceiptList { receipts, next, last })
    });
    Ok(Json(list.await?))
}

/// One receipt, with its signature.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptView {
    /// Its number; a later receipt has a greater one.
    seq: u64,
    /// The in-toto statement that was signed.
    #[schema(value_type = Object)]
    statement: Value,
    /// The DSSE envelope around it.
    #[schema(value_type = Object)]
    envelope: Value,
    /// The key that signs here.
    key: String,
}

/// One receipt: the signed statement and its envelope.
#[utoipa::path(
    get, path = "/v1/agents/{id}/receipts/{seq}", tag = "agents",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("seq" = u64, Path, description = "The number of the receipt"),
    ),
    responses(
        (status = 200, description = "The receipt", body = ReceiptView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((id, seq)): Path<(String, String)>,
) -> HandlerResult<Json<ReceiptView>> {
    let id = looked_at(&app, &caller, &id)?;
    let seq: u64 = seq.parse().map_err(|_| Problem::invalid("the number of a receipt is a number"))?;
    let seen = Seen::by(&caller);
    let key = app.harness.signer().public().to_string();
    let view = app.readers.look(&app.settings.layout, &id, move |look| {
        let missing = || Error::not_found(format!("there is no receipt {seq}"));
        let taped = look.reader.receipts(seq, seq)?.pop().ok_or_else(missing)?;
        let statement = statement(&taped.envelope)?;
        if !seen.sees(&statement) {
            return Err(missing());
        }
        let envelope = serde_json::from_str(&taped.envelope)
            .map_err(|source| Error::corrupt("a receipt is not JSON").because(source))?;
        Ok(ReceiptView { seq, statement, envelope, key })
    });
    Ok(Json(view.await?))
}
