//! How a brain moved: its steps, what differs between two versions, how it grew, and what it remembers.

use axum::Json;
use axum::extract::{Path, State};
use herm::memory::{HybridResults, Search};
use herm::{Digest, StepKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::agents::{here, looked_at};
use super::app::App;
use super::body::{QueryParams, page};
use super::caller::Caller;
use super::problem::{HandlerResult, ProblemDocument};
use super::receipts::Seen;
use super::undone_texts::UndoneTexts;
use crate::operations::receipt_check::statement;
use crate::operations::versions::{ShownFiles, compare};
use crate::server_db::keys::Operation;

/// Which steps to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// How many; 50 unless said, 200 at most.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
    /// Those before this number.
    before: Option<u64>,
}

/// A page of steps, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepList {
    /// The steps of this page.
    steps: Vec<StepView>,
    /// What to ask for with `before` next.
    next: Option<i64>,
}

/// One settled step of a brain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepView {
    /// Its number; a later step has a greater one.
    seq: i64,
    /// The brain's version after it.
    version: i64,
    /// Why the brain moved.
    kind: String,
    /// What was done, in a line: the operator reads all, anyone else that of their own tasks and of the brain's making.
    summary: Option<String>,
    /// When it was settled.
    at: String,
    /// The bundle hash before.
    before: Option<String>,
    /// The bundle hash after.
    after: String,
    /// The number of its receipt.
    receipt: Option<u64>,
    /// The files that moved.
    files: Vec<MovedFile>,
}

/// A file that a step moved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MovedFile {
    path: String,
    /// The digest of the content before; nothing where there was none, or where the caller may not read it.
    before: Option<String>,
    /// The digest of the content after; nothing where there is none, or where the caller may not read it.
    after: Option<String>,
}

/// The steps of a brain, newest first.
#[utoipa::path(
    get, path = "/v1/agents/{id}/history", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), HistoryQuery),
    responses(
        (status = 200, description = "Steps", body = StepList),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<HistoryQuery>,
) -> HandlerResult<Json<StepList>> {
    let id = looked_at(&app, &caller, &id)?;
    let limit = page(asked.limit, 50, 200)?;
    let before = asked.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let (seen, operates) = (Seen::by(&caller), caller.is_operator());
    let list = app.readers.look(&app.settings.layout, &id, move |look| {
        let reader = &look.reader;
        let records = match before {
            i64::MAX => reader.history(limit)?,
            before => reader.history_before(before, limit)?,
        };
        let undone = if operates { UndoneTexts::default() } else { UndoneTexts::of(reader)? };
        let mut steps = Vec::with_capacity(records.len());
        for record in records {
            let receipt = reader.receipt_of(record.seq)?;
            // What was said in another's task stays theirs, in the line and in the names of files. What is undone is told
            // in the words of the step that is undone; what the operator did may name facts and subscribers.
            let is_own = match (record.kind, receipt) {
                (StepKind::Task | StepKind::Feedback, Some(seq)) if !operates => match reader.receipts(seq, seq)?.pop()
                {
                    Some(taped) => seen.sees(&statement(&taped.envelope)?),
                    None => false,
                },
                _ => false,
            };
            let shows_line = operates || is_own || record.kind == StepKind::Create;
            let shows_files = shows_line || !matches!(record.kind, StepKind::Task | StepKind::Undo { .. });
            steps.push(StepView {
                seq: record.seq,
                version: record.version,
                kind: record.kind.name().to_owned(),
                summary: shows_line.then_some(record.summary),
                at: record.at.to_string(),
                before: record.before.map(|digest| digest.to_string()),
                after: record.after.to_string(),
                receipt,
                files: record
                    .changes
                    .into_iter()
                    .filter(|change| shows_files && (operates || !change.path.as_str().starts_with("users/")))
                    .map(|change| {
                        let told = |digest: Option<Digest>| {
                            digest.filter(|digest| !undone.has(&change.path, digest)).map(|digest| digest.to_string())
                        };
                        MovedFile {
                            path: change.path.to_string(),
                            before: told(change.before),
                            after: told(change.after),
                        }
                    })
                    .collect(),
            });
        }
        let next = steps.last().map(|step| step.seq).filter(|seq| *seq > 1 && steps.len() == limit);
        Ok(StepList { steps, next })
    });
    Ok(Json(list.await?))
}

/// Which versions to compare.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffQuery {
    /// The version to compare from.
    from: u64,
    /// The second; the present one unless said.
    to: Option<u64>,
}

/// What differs between two versions of a brain.
#[utoipa::path(
    get, path = "/v1/agents/{id}/diff", tag = "operator",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), DiffQuery),
    responses(
        (status = 200, description = "Files and skills that differ", body = Object),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn diff(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<DiffQuery>,
) -> HandlerResult<Json<Value>> {
    caller.needs(Operation::Operate)?;
    let id = here(&app, &caller, &id)?;
    let compared = app.readers.look(&app.settings.layout, &id, move |look| {
        let to = asked.to.unwrap_or(look.reader.lock().version);
        Ok(compare(&look.reader, asked.from, to, ShownFiles::Texts)?.json)
    });
    Ok(Json(compared.await?))
}

/// How a brain grew.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Charts {
    /// Skills over versions, oldest first.
    points: Vec<GrowthPoint>,
    /// Tool calls of tasks over versions, oldest first.
    versions: Vec<VersionPoint>,
    /// Tool calls by day.
    days: Vec<DayPoint>,
}

/// Tool calls of the task that led to a version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionPoint {
    version: i64,
    calls: u64,
    errors: u64,
}

/// How many skills there were at a version.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrowthPoint {
    version: i64,
    at: String,
    skills: i64,
    archived: i64,
}

/// Tool calls of a day.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DayPoint {
    day: String,
    events: u64,
    errors: u64,
}

const POINTS: usize = 500;
const CHART_DAYS: i64 = 90;
const DAY: i64 = 86_400_000;

/// How a brain grew: skills and errors over versions, and errors over days.
#[utoipa::path(
    get, path = "/v1/agents/{id}/charts", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$")),
    responses(
        (status = 200, description = "Points", body = Charts),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn charts(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> HandlerResult<Json<Charts>> {
    let id = looked_at(&app, &caller, &id)?;
    let since = Timestamp(app.clock.now().millis() - CHART_DAYS * DAY);
    let charts = app.readers.look(&app.settings.layout, &id, move |look| {
        let growth = look.reader.growth(POINTS)?.into_iter();
        let versions = look.reader.calls_by_version(POINTS)?.into_iter();
        let days = look.reader.evidence_by_day(since)?.into_iter();
        Ok(Charts {
            points: growth
                .map(|point| GrowthPoint {
                    version: point.version,
                    at: point.at.to_string(),
                    skills: point.skills,
                    archived: point.archived,
                })
                .collect(),
            versions: versions.map(|(version, calls, errors)| VersionPoint { version, calls, errors }).collect(),
            days: days
                .map(|(day, events, errors)| DayPoint {
                    day: Timestamp(day * DAY).to_string().chars().take(10).collect(),
                    events,
                    errors,
                })
                .collect(),
        })
    });
    Ok(Json(charts.await?))
}

/// What to look for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchQuery {
    /// Words to look for in what the brain remembers.
    q: String,
    /// How many; 20 unless said, 100 at most.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// What was found, best first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Hits {
    /// The rows of the memory that were found.
    #[schema(value_type = Vec<Object>)]
    hits: Vec<herm::memory::SearchHit>,
    /// Whether the index is damaged and the rows were scanned instead.
    degraded: bool,
    /// Whether meaning had a part in it, beside the words.
    #[serde(rename = "byMeaning")]
    by_meaning: bool,
}

/// Searches what a brain remembers: what belongs to everyone, and to the caller.
#[utoipa::path(
    get, path = "/v1/agents/{id}/memory/search", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), SearchQuery),
    responses(
        (status = 200, description = "Hits", body = Hits),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn search(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<SearchQuery>,
) -> HandlerResult<Json<Hits>> {
    let id = looked_at(&app, &caller, &id)?;
    let limit = page(asked.limit, 20, 100)?;
    let (scope, now) = (caller.scope(), app.clock.now());
    let sought = app.harness.embed_query(&asked.q).await;
    let found = app.readers.look(&app.settings.layout, &id, move |look| {
        let weights = look.reader.tuning()?.search();
        let wanted = Search { text: &asked.q, scope, except_task: None, limit, now, weights };
        look.reader.search_hybrid(&wanted, sought.as_ref())
    });
    let HybridResults { found, used_vectors } = found.await?;
    Ok(Json(Hits { hits: found.hits, degraded: found.degraded, by_meaning: used_vectors }))
}
