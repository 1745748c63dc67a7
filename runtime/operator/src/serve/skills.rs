//! The skills of an agent.

use std::collections::{BTreeMap, HashMap, HashSet};

use axum::Json;
use axum::extract::{Path, State};
use herm::ids::RelPath;
use herm::memory::{OutcomeCounts, TrialState, window_start};
use herm::skill::{SkillState, SkillUsage};
use herm::text::diff;
use herm::{Digest, Error, Reader, Result, Slug, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::agents::looked_at;
use super::app::App;
use super::body::{QueryParams, page};
use super::caller::Caller;
use super::problem::{HandlerResult, Problem, ProblemDocument};
use super::reading::{SkillReading, reading};
use super::undone_texts::taken_back;

/// The days of evidence that a success rate rests on.
const DAYS: u32 = 30;
/// How many versions of a skill are listed.
const VERSIONS: usize = 100;
/// Lines around a change.
const CONTEXT: usize = 3;

/// A skill in a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillRow {
    /// Its name in commands and calls.
    pub(crate) slug: String,
    /// What its front matter calls it.
    pub(crate) name: String,
    /// What it does and when to use it.
    pub(crate) description: String,
    /// The folder it stands in.
    pub(crate) category: Option<String>,
    /// `active`, `stale` or `archived`.
    pub(crate) state: String,
    /// Exempt from everything automatic.
    pub(crate) pinned: bool,
    /// Who made it, such as `agent`, `user` or `seed`.
    pub(crate) created_by: Option<String>,
    /// When it was made.
    pub(crate) created_at: Option<String>,
    /// How often it was used.
    pub(crate) uses: u32,
    /// How often it was read.
    pub(crate) views: u32,
    /// How often it was changed.
    pub(crate) patches: u32,
    /// When it was last used.
    pub(crate) last_used_at: Option<String>,
    /// Tool calls of the last 30 days in sessions that had it loaded.
    pub(crate) events: u64,
    /// Those of them that failed.
    pub(crate) errors: u64,
    /// The part of these calls that did not fail; nothing where there are none. It says nothing of how good answers were:
    /// `outcomes` does.
    pub(crate) success_rate: Option<f64>,
    /// How good the answers of tasks were that had it loaded or in their prompt.
    pub(crate) outcomes: SkillOutcomes,
    /// Where its trial stands: `trial`, `proven`, `unproven` or `harmful`; nothing where it never was on trial.
    pub(crate) trial: Option<String>,
    /// Its main file, by its path in the brain.
    #[serde(skip)]
    pub(crate) path: Option<RelPath>,
}

/// How many tasks came to which outcome.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, ToSchema)]
pub(crate) struct SkillOutcomes {
    /// Tasks whose outcome is good.
    good: u64,
    /// Tasks whose outcome is bad.
    bad: u64,
    /// Those with a score between the two.
    scored: u64,
    /// Those of which nobody says how good they were.
    unknown: u64,
    /// The mean of those that are known, from 0 (bad) to 1 (good); nothing where there are none.
    mean: Option<f64>,
}

impl From<&OutcomeCounts> for SkillOutcomes {
    fn from(counts: &OutcomeCounts) -> Self {
        let known = counts.known();
        Self {
            good: counts.good,
            bad: counts.bad,
            scored: counts.scored,
            unknown: counts.unknown,
            mean: (known > 0).then(|| (counts.good as f64 + counts.score_sum) / known as f64),
        }
    }
}

/// What a brain keeps of its skills beside their files.
struct Kept {
    usage: BTreeMap<Slug, SkillUsage>,
    /// Tool calls and those that failed, of the last days.
    calls: HashMap<Slug, (u64, u64)>,
    outcomes: BTreeMap<Slug, OutcomeCounts>,
    trials: HashMap<Slug, TrialState>,
}

impl Kept {
    fn of(reader: &Reader, now: Timestamp) -> Result<Self> {
        let summary = reader.evidence_view().summary(window_start(now, DAYS))?;
        let calls = summary.skills.into_iter().map(|tally| (tally.skill, (tally.events, tally.errors)));
        let trials = reader.trials()?.into_iter().map(|trial| (trial.skill, trial.state));
        Ok(Self {
            usage: reader.usage()?,
            calls: calls.collect(),
            outcomes: reader.skill_outcomes()?,
            trials: trials.collect(),
        })
    }
}

/// Every skill of a brain, those of the archive too, by name.
pub(super) fn rows(reader: &Reader, now: Timestamp) -> Result<Vec<SkillRow>> {
    let kept = Kept::of(reader, now)?;
    let index = reader.skills()?;
    let mut rows: Vec<SkillRow> = index
        .entries()
        .map(|entry| {
            let slug = &entry.place.slug;
            let mut row = row(slug, &kept);
            row.name.clone_from(&entry.name);
            row.description = entry.description.to_string();
            row.category = entry.category.as_deref().map(str::to_owned);
            // What stands in the index is not archived, even if its namesake is.
            if row.state == SkillState::Archived.name() {
                SkillState::Active.name().clone_into(&mut row.state);
            }
            row.path = Some(entry.place.main.clone());
            row
        })
        .collect();
    for (slug, path) in reader.archived_skills()? {
        if rows.iter().any(|row| row.slug == slug.as_str()) {
            continue;
        }
        let mut row = row(&slug, &kept);
        SkillState::Archived.name().clone_into(&mut row.state);
        row.path = Some(path);
        rows.push(row);
    }
    rows.sort_by(|a, b| a.slug.cmp(&b.slug));
    Ok(rows)
}

fn row(slug: &Slug, kept: &Kept) -> SkillRow {
    let usage = kept.usage.get(slug);
    let (events, errors) = kept.calls.get(slug).copied().unwrap_or_default();
    SkillRow {
        slug: slug.to_string(),
        name: slug.to_string(),
        description: String::new(),
        category: None,
        state: usage.map_or(SkillState::Active, |usage| usage.state).name().to_owned(),
        pinned: usage.is_some_and(|usage| usage.pinned),
        created_by: usage.map(|usage| usage.created_by.name().to_owned()),
        created_at: usage.map(|usage| usage.created_at.to_string()),
        uses: usage.map_or(0, |usage| usage.use_count),
        views: usage.map_or(0, |usage| usage.view_count),
        patches: usage.map_or(0, |usage| usage.patch_count),
        last_used_at: usage.and_then(|usage| usage.last_used_at).map(|at| at.to_string()),
        events,
        errors,
        success_rate: (events > 0).then(|| 1.0 - errors as f64 / events as f64),
        outcomes: kept.outcomes.get(slug).map(SkillOutcomes::from).unwrap_or_default(),
        trial: kept.trials.get(slug).map(|state| state.name().to_owned()),
        path: None,
    }
}

/// Which skills to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SkillsQuery {
    /// Only those whose name or description has this in it.
    q: Option<String>,
    /// `active`, `stale`, `archived` or `all`; active and stale ones unless said.
    state: Option<String>,
    /// `name`, `uses`, `lastUsed` or `errors`; by name unless said.
    sort: Option<String>,
    /// How many; 100 unless said, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before: the list goes on behind that skill.
    cursor: Option<String>,
}

/// Skills of an agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillList {
    /// The skills of this page.
    skills: Vec<SkillRow>,
    /// Where the list goes on.
    next: Option<String>,
    /// How many fit what was asked for.
    total: usize,
}

/// The skills of an agent.
#[utoipa::path(
    get, path = "/v1/agents/{id}/skills", tag = "agents",
    params(("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"), SkillsQuery),
    responses(
        (status = 200, description = "Skills", body = SkillList),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<SkillsQuery>,
) -> HandlerResult<Json<SkillList>> {
    let id = looked_at(&app, &caller, &id)?;
    let limit = page(asked.limit, 100, 1_000)?;
    let after: Option<Slug> = asked.cursor.as_deref().map(str::parse).transpose()?;
    let state = asked.state.as_deref().unwrap_or("present");
    let fits_state: fn(&SkillRow) -> bool = match state {
        "present" => |row| row.state != "archived",
        "active" => |row| row.state == "active",
        "stale" => |row| row.state == "stale",
        "archived" => |row| row.state == "archived",
        "all" => |_| true,
        other => return Err(Problem::invalid(format!("{other:?} is not a state: active, stale, archived or all"))),
    };
    let by: fn(&SkillRow, &SkillRow) -> std::cmp::Ordering = match asked.sort.as_deref().unwrap_or("name") {
        "name" => |a, b| a.slug.cmp(&b.slug),
        "uses" => |a, b| b.uses.cmp(&a.uses).then_with(|| a.slug.cmp(&b.slug)),
        "lastUsed" => |a, b| b.last_used_at.cmp(&a.last_used_at).then_with(|| a.slug.cmp(&b.slug)),
        "errors" => |a, b| b.errors.cmp(&a.errors).then_with(|| a.slug.cmp(&b.slug)),
        other => return Err(Problem::invalid(format!("{other:?} is no order: name, uses, lastUsed or errors"))),
    };
    let q = asked.q.map(|text| text.trim().to_lowercase()).filter(|text| !text.is_empty());
    let now = app.clock.now();
    let list = app.readers.look(&app.settings.layout, &id, move |look| {
        let all = look.skills(now)?;
        let has = |row: &SkillRow, q: &str| row.slug.contains(q) || row.description.to_lowercase().contains(q);
        let mut found: Vec<&SkillRow> =
            all.iter().filter(|row| fits_state(row) && q.as_ref().is_none_or(|q| has(row, q))).collect();
        found.sort_by(|a, b| by(a, b));
        let total = found.len();
        // Behind the last one that was shown, wherever it stands now; one that is gone is looked for where it stood.
        let skip = after.map_or(0, |after| {
            let last = all.iter().find(|row| row.slug == after.as_str());
            found.partition_point(|row| match last {
                Some(last) => by(row, last).is_le(),
                None => row.slug.as_str() <= after.as_str(),
            })
        });
        let skills: Vec<SkillRow> = found.into_iter().skip(skip).take(limit).cloned().collect();
        let more = skip + skills.len() < total;
        let next = skills.last().filter(|_| more).map(|last| last.slug.clone());
        Ok(SkillList { skills, next, total })
    });
    Ok(Json(list.await?))
}

/// One skill, with its text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillView {
    /// What a list says of it.
    #[serde(flatten)]
    row: SkillRow,
    /// The text of its main file.
    text: String,
    /// How the runtime reads that text.
    reading: SkillReading,
    /// Its main file, by its path in the brain.
    path: String,
    /// The digest of its main file.
    digest: String,
    /// The other files in its directory.
    files: Vec<SupportFile>,
    /// Its versions, newest first.
    versions: Vec<SkillVersion>,
}

/// A support file of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SupportFile {
    path: String,
    bytes: usize,
}

/// A version of a skill's main file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillVersion {
    /// The brain's version after the step.
    version: i64,
    /// The number of the step in the history.
    step: i64,
    /// When the step was settled.
    at: String,
    /// Why the brain moved.
    kind: String,
    /// What became of the file: `written` or `removed`.
    what: String,
    /// The digest of the content; nothing where the caller may not read it.
    digest: Option<String>,
}

/// One skill: its text, files and versions.
#[utoipa::path(
    get, path = "/v1/agents/{id}/skills/{slug}", tag = "agents",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("slug" = String, Path, description = "The skill"),
    ),
    responses(
        (status = 200, description = "The skill", body = SkillView),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((id, slug)): Path<(String, String)>,
) -> HandlerResult<Json<SkillView>> {
    let id = looked_at(&app, &caller, &id)?;
    let slug: Slug = slug.parse()?;
    let (now, sees) = (app.clock.now(), Sees::by(&caller));
    let view = app.readers.look(&app.settings.layout, &id, move |look| {
        let (row, path) = find(&look.skills(now)?, &slug)?;
        let reader = &look.reader;
        let bytes = reader.text(&path)?.ok_or_else(|| gone(&slug))?;
        let mut files = Vec::new();
        if let Some(dir) = path.as_str().strip_suffix("SKILL.md") {
            for file in reader.skill_paths()?.into_iter().filter(|file| file.as_str().starts_with(dir) && *file != path)
            {
                let bytes = reader.settled_file(&file)?.map_or(0, |content| content.len());
                files.push(SupportFile { path: file.as_str()[dir.len()..].to_owned(), bytes });
            }
        }
        let places = places(&slug, &path);
        let versions = reader.file_versions(&places, VERSIONS)?;
        let hidden = hidden(reader, sees, &places)?;
        Ok(SkillView {
            digest: Digest::of(bytes.as_bytes()).to_string(),
            reading: reading(&bytes),
            text: bytes,
            path: path.to_string(),
            files,
            versions: versions
                .into_iter()
                .map(|version| SkillVersion {
                    version: version.version,
                    step: version.step,
                    at: version.at.to_string(),
                    kind: version.kind.name().to_owned(),
                    what: if version.digest.is_some() { "written" } else { "removed" }.to_owned(),
                    digest: version.digest.filter(|digest| !hidden.contains(digest)).map(|digest| digest.to_string()),
                })
                .collect(),
            row,
        })
    });
    Ok(Json(view.await?))
}

fn find(rows: &[SkillRow], slug: &Slug) -> Result<(SkillRow, RelPath)> {
    let row = rows.binary_search_by(|row| row.slug.as_str().cmp(slug.as_str())).ok().and_then(|at| rows.get(at));
    match row.and_then(|row| Some((row.clone(), row.path.clone()?))) {
        Some(found) => Ok(found),
        None => Err(gone(slug)),
    }
}

fn gone(slug: &Slug) -> Error {
    Error::not_found(format!("there is no skill {:?} in this brain", slug.as_str()))
        .hint("see the names with `GET /v1/agents/{id}/skills?state=all`")
}

/// How much of a skill's past a caller sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sees {
    All,
    WhatStands,
}

impl Sees {
    fn by(caller: &Caller) -> Self {
        if caller.is_operator() { Self::All } else { Self::WhatStands }
    }
}

/// The texts of a skill that a caller may not read: for anyone but the operator, those that were taken back. Who undoes an
/// edit wants it gone for others.
fn hidden(reader: &Reader, caller: Sees, places: &[RelPath]) -> Result<HashSet<Digest>> {
    let (mut taken, mut standing) = (HashSet::new(), HashSet::new());
    if caller == Sees::All {
        return Ok(taken);
    }
    for place in places {
        let mut versions = reader.file_versions(std::slice::from_ref(place), usize::MAX)?;
        versions.reverse();
        let taken_back = taken_back(&versions);
        for (version, is_taken_back) in versions.iter().zip(taken_back) {
            let texts = if is_taken_back { &mut taken } else { &mut standing };
            texts.extend(version.digest);
        }
    }
    Ok(&taken - &standing)
}

/// The places a skill's main file may have had: where it is, and both forms at the top.
fn places(slug: &Slug, path: &RelPath) -> Vec<RelPath> {
    let usual = [format!("skills/{slug}.md"), format!("skills/{slug}/SKILL.md")];
    let mut places = vec![path.clone()];
    places.extend(usual.iter().filter_map(|text| text.parse().ok()).filter(|place| place != path));
    places
}

/// A skill's main file as it was.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillText {
    /// The skill's name in commands and calls.
    slug: String,
    /// The brain's version that was asked for.
    version: u64,
    /// The text of the main file at that version.
    text: String,
    /// The digest of the main file at that version.
    digest: String,
    /// What differs from the version that `from` names: a unified diff, and empty where the text is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// What to compare a version with.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct VersionQuery {
    /// Another version of the brain: the answer has what differs since. 0 is before the first, where there was no text.
    from: Option<u64>,
}

/// A skill as it was at a version of the brain.
#[utoipa::path(
    get, path = "/v1/agents/{id}/skills/{slug}/versions/{version}", tag = "agents",
    params(
        ("id" = String, Path, description = "The agent's number", pattern = "^[0-9]{1,78}$"),
        ("slug" = String, Path, description = "The skill"),
        ("version" = u64, Path, description = "The brain's version"),
        VersionQuery,
    ),
    responses(
        (status = 200, description = "The text", body = SkillText),
        (status = "4XX", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn version(
    State(app): State<App>,
    caller: Caller,
    Path((id, slug, version)): Path<(String, String, String)>,
    QueryParams(asked): QueryParams<VersionQuery>,
) -> HandlerResult<Json<SkillText>> {
    let id = looked_at(&app, &caller, &id)?;
    let slug: Slug = slug.parse()?;
    let version: u64 = version.parse().map_err(|_| Problem::invalid("a version is a number"))?;
    let (now, sees) = (app.clock.now(), Sees::by(&caller));
    let text = app.readers.look(&app.settings.layout, &id, move |look| {
        let (_, path) = find(&look.skills(now)?, &slug)?;
        let reader = &look.reader;
        let places = places(&slug, &path);
        let hidden = hidden(reader, sees, &places)?;
        let text_at = |version: u64| -> Result<(Digest, String)> {
            let files = reader.files_at(version)?;
            let found = places.iter().find_map(|place| files.get(place)).copied();
            let digest = found.filter(|digest| !hidden.contains(digest)).ok_or_else(|| {
                Error::not_found(format!("version {version} has no skill {:?} that you may read", slug.as_str()))
                    .hint("see its versions with `GET /v1/agents/{id}/skills/{slug}`")
            })?;
            let content = reader.content(&digest)?.ok_or_else(|| {
                Error::not_found(format!("the text of {:?} at version {version} is no longer kept", slug.as_str()))
            })?;
            Ok((digest, String::from_utf8_lossy(&content).into_owned()))
        };
        let (digest, text) = text_at(version)?;
        let before = match asked.from {
            None => None,
            Some(0) => Some(String::new()),
            Some(from) => Some(text_at(from)?.1),
        };
        let diff = before.map(|before| diff::unified(&before, &text, CONTEXT));
        Ok(SkillText { slug: slug.to_string(), version, text, digest: digest.to_string(), diff })
    });
    Ok(Json(text.await?))
}
