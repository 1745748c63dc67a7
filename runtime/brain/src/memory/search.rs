//! Search over messages, facts and the task log.
//!
//! Every term is looked up on its own, newest first and at most so many rows of each source (see [`SearchWeights`]),
//! and the BM25 scores are added up. A rare term is thereby ranked over all its rows. A word that is everywhere says
//! little about which row is meant, and this way it costs no more than a rare one.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension as _};

use super::db::{is_damage, sql};
use super::index::MemorySource;
use super::query::{ParsedQuery, Term, parse_query};
use super::writer::SHARED;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Digest;
use crate::tuning::SearchWeights;

const SNIPPET_CHARS: usize = 160;

/// Whose rows a search may see. The limit is part of the query, not a filter on its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchScope {
    /// The operator, who sees the rows of all subscribers.
    Operator,
    /// What belongs to everyone: a task without a subscriber.
    Shared,
    /// One subscriber: its own rows and the shared ones.
    Subscriber(Digest),
}

/// What to look for.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// The question as it was typed. Its words are the search terms.
    pub text: &'a str,
    /// Whose rows may be seen.
    pub scope: SearchScope,
    /// A task whose own rows are left out: asking is not an answer.
    pub except_task: Option<&'a str>,
    /// How many hits at most.
    pub limit: usize,
    /// The moment from which the age of a row is measured.
    pub now: Timestamp,
    /// What it goes by.
    pub weights: SearchWeights,
}

/// A row that was found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SearchHit {
    /// Which kind of row.
    pub source: MemorySource,
    /// Its id in that table.
    pub id: i64,
    /// The task it belongs to.
    pub task: String,
    /// When it was written.
    pub at: Timestamp,
    /// The part of its text around the first term.
    pub snippet: String,
    /// How well it fits: only good for comparing hits of one search. Higher is better.
    pub score: f64,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchResults {
    /// The rows that fit, the best first, at most [`Search::limit`].
    pub hits: Vec<SearchHit>,
    /// The index is damaged; the rows were scanned instead.
    pub degraded: bool,
}

/// Searches. A damaged index degrades to a scan; damaged rows are an error.
pub fn search(connection: &Connection, search: &Search<'_>) -> Result<SearchResults> {
    let shaped = parse_query(search.text);
    if shaped.is_empty() || search.limit == 0 {
        return Ok(SearchResults::default());
    }
    let scopes = visible_scopes(connection, search.scope)?;
    let (ranked, degraded) = by_words(connection, search, &shaped, &scopes)?;
    let mut hits: Vec<SearchHit> = ranked.into_iter().map(|ranked| ranked.hit).collect();
    show(connection, &shaped, &mut hits)?;
    Ok(SearchResults { hits, degraded })
}

/// A hit, and how much of what was looked for it holds.
pub(super) struct Ranked {
    pub(super) hit: SearchHit,
    /// The share of the terms that are found anywhere which this row holds.
    pub(super) share: f64,
}

/// The rows that hold the terms, best first, still without their snippets; and whether the index is damaged.
pub(super) fn by_words(
    connection: &Connection,
    search: &Search<'_>,
    shaped: &ParsedQuery,
    scopes: &Scopes,
) -> Result<(Vec<Ranked>, bool)> {
    let (scores, degraded) = match score_by_index(connection, shaped, scopes, search.weights) {
        Ok(scores) => (scores, false),
        Err(error) if is_damage(&error) => {
            tracing::warn!(%error, "the full-text index is damaged; scanning instead");
            (score_by_scan(connection, shaped, scopes)?, true)
        }
        Err(error) => return Err(sql("search memory.db", error)),
    };
    // An answer has two rows, and what is shown of them is one.
    let twice = Search { limit: search.limit.saturating_mul(2), ..search.clone() };
    let mut ranked = answers_once(connection, best(connection, &twice, scopes, scores)?, |ranked| &mut ranked.hit)?;
    ranked.truncate(search.limit);
    Ok((ranked, degraded))
}

/// Leaves one row of each answer: the line of the log that repeats it is left out, and where it came first, the answer
/// itself takes its place. Best first, before and after.
pub(super) fn answers_once<T>(
    connection: &Connection,
    ordered: Vec<T>,
    hit_of: impl Fn(&mut T) -> &mut SearchHit,
) -> Result<Vec<T>> {
    // By task: where the row stands that was kept of its answer.
    let mut shown: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<T> = Vec::with_capacity(ordered.len());
    for mut item in ordered {
        let hit = hit_of(&mut item);
        if is_answer(connection, hit)? {
            let first = shown.get(&hit.task).and_then(|at| kept.get_mut(*at)).map(&hit_of);
            match (first, hit.source) {
                (Some(first), MemorySource::Message) if first.source == MemorySource::Task => {
                    (first.source, first.id) = (hit.source, hit.id);
                    continue;
                }
                (Some(_), MemorySource::Task) => continue,
                _ => drop(shown.insert(hit.task.clone(), kept.len())),
            }
        }
        kept.push(item);
    }
    Ok(kept)
}

/// Whether a row is an answer, or the line of the log that repeats one. The line of a task that came to no answer says
/// what nothing else does.
fn is_answer(connection: &Connection, hit: &SearchHit) -> Result<bool> {
    let query = match hit.source {
        MemorySource::Fact => return Ok(false),
        MemorySource::Message => "SELECT role = 'assistant' FROM messages WHERE id = ?1",
        MemorySource::Task => "SELECT substr(outcome || ' ', 1, 10) = 'converged ' FROM task_log WHERE id = ?1",
    };
    let found =
        connection.prepare_cached(query).and_then(|mut get| get.query_row([hit.id], |row| row.get(0)).optional());
    found.map(|is| is.unwrap_or(false)).map_err(|source| sql("search memory.db", source))
}

/// Which values of `scope` may be seen.
pub(super) struct Scopes {
    all: bool,
    own: i64,
}

impl Scopes {
    /// A condition on rows.
    pub(super) fn rows(&self) -> String {
        if self.all { "1".to_owned() } else { format!("scope IN ({SHARED}, {})", self.own) }
    }

    /// A condition inside an FTS5 query.
    fn fts(&self) -> String {
        if self.all { String::new() } else { format!(" AND scope : (\"{SHARED}\" OR \"{}\")", self.own) }
    }
}

pub(super) fn visible_scopes(connection: &Connection, scope: SearchScope) -> Result<Scopes> {
    let digest = match scope {
        SearchScope::Operator => return Ok(Scopes { all: true, own: SHARED }),
        SearchScope::Shared => return Ok(Scopes { all: false, own: SHARED }),
        SearchScope::Subscriber(digest) => digest,
    };
    let own = connection
        .prepare_cached("SELECT id FROM subscribers WHERE digest = ?1")
        .and_then(|mut find| find.query_row([digest.to_string()], |row| row.get(0)).optional())
        .map_err(|source| sql("search memory.db", source))?;
    // A subscriber the brain has never met still sees what is shared.
    Ok(Scopes { all: false, own: own.unwrap_or(SHARED) })
}

/// How well a row fits.
#[derive(Default)]
struct Fit {
    score: f64,
    /// How many of the terms it holds.
    terms: u32,
}

#[derive(Default)]
struct Scores {
    rows: BTreeMap<(MemorySource, i64), Fit>,
    /// How many of the terms any row holds.
    found: u32,
}

fn score_by_index(
    connection: &Connection,
    shaped: &ParsedQuery,
    scopes: &Scopes,
    weights: SearchWeights,
) -> rusqlite::Result<Scores> {
    let mut scores = Scores::default();
    for Term { words, grams, .. } in &shaped.terms {
        // A row in which both indexes find the term counts once.
        let mut of_term: BTreeMap<(MemorySource, i64), f64> = BTreeMap::new();
        if let Some(words) = words {
            for source in MemorySource::ALL {
                let table = source.table();
                let columns = source.columns().replace(',', "");
                let wanted = format!("{{{columns}}} : {words}{}", scopes.fts());
                for_each_match(connection, &format!("{table}_fts"), &wanted, weights.candidates, |id, score| {
                    of_term.insert((source, id), score);
                })?;
            }
        }
        let wanted = format!("grams : {grams}{}", scopes.fts());
        for_each_match(connection, "grams_fts", &wanted, weights.candidates, |row, score| {
            if let Some(key) = MemorySource::from_gram_row(row) {
                let best = of_term.entry(key).or_insert(score);
                *best = best.max(score);
            }
        })?;
        scores.found += u32::from(!of_term.is_empty());
        for (key, score) in of_term {
            let fit = scores.rows.entry(key).or_default();
            fit.score += score;
            fit.terms += 1;
        }
    }
    Ok(scores)
}

fn for_each_match(
    connection: &Connection,
    index: &str,
    wanted: &str,
    candidates: u32,
    mut take: impl FnMut(i64, f64),
) -> rusqlite::Result<()> {
    let query = format!(
        "SELECT rowid, -bm25({index}) FROM {index} WHERE {index} MATCH ?1 ORDER BY rowid DESC LIMIT {candidates}"
    );
    let mut statement = connection.prepare_cached(&query)?;
    let mut rows = statement.query([wanted])?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

/// Without an index: every visible row, one point a term.
fn score_by_scan(connection: &Connection, shaped: &ParsedQuery, scopes: &Scopes) -> Result<Scores> {
    let failed = |source| sql("search memory.db", source);
    let mut scores = Scores::default();
    for source in MemorySource::ALL {
        let query = format!("SELECT id, {} FROM {} WHERE {}", source.text(), source.table(), scopes.rows());
        let mut statement = connection.prepare(&query).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let text = row.get_ref(1).and_then(|text| Ok(text.as_str()?.to_lowercase())).map_err(failed)?;
            let terms = shaped.needles().map(|needle| u32::from(text.contains(needle))).sum();
            if terms > 0 {
                let id: i64 = row.get(0).map_err(failed)?;
                scores.rows.insert((source, id), Fit { score: f64::from(terms), terms });
                scores.found = scores.found.max(terms);
            }
        }
    }
    Ok(scores)
}

fn best(connection: &Connection, search: &Search<'_>, scopes: &Scopes, scores: Scores) -> Result<Vec<Ranked>> {
    let failed = |source| sql("search memory.db", source);
    let found = f64::from(scores.found.max(1));
    let mut order: Vec<((MemorySource, i64), Fit)> = scores.rows.into_iter().collect();
    order.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
    let mut ranked: Vec<Ranked> = Vec::new();
    for ((source, id), fit) in order {
        // Recency can lift a row by so much at most: once that is not enough, nothing further is.
        let worst = ranked.get(search.limit - 1).map(|ranked| ranked.hit.score);
        if worst.is_some_and(|worst| fit.score * (1.0 + search.weights.recency) < worst) {
            break;
        }
        let Some((task, at)) = place_of(connection, source, id, scopes).map_err(failed)? else { continue };
        if search.except_task == Some(task.as_str()) {
            continue;
        }
        let fresh = search.weights.recency * recency(at, search.now, search.weights.half_life_days);
        let hit = SearchHit { source, id, task, at, snippet: String::new(), score: fit.score * (1.0 + fresh) };
        let place = ranked.partition_point(|other| ahead(&other.hit, &hit).is_lt());
        ranked.insert(place, Ranked { hit, share: f64::from(fit.terms) / found });
        ranked.truncate(search.limit);
    }
    Ok(ranked)
}

/// The task and moment of a row that may be seen. The scope is checked here too: an index is derived, and privacy must
/// not rest on it.
pub(super) fn place_of(
    connection: &Connection,
    source: MemorySource,
    id: i64,
    scopes: &Scopes,
) -> rusqlite::Result<Option<(String, Timestamp)>> {
    let query = format!("SELECT task, at FROM {} WHERE id = ?1 AND {}", source.table(), scopes.rows());
    connection.prepare_cached(&query)?.query_row([id], |row| Ok((row.get(0)?, Timestamp(row.get(1)?)))).optional()
}

/// Fills in the snippets.
pub(super) fn show(connection: &Connection, shaped: &ParsedQuery, hits: &mut [SearchHit]) -> Result<()> {
    for hit in hits {
        let query = format!("SELECT {} FROM {} WHERE id = ?1", hit.source.text(), hit.source.table());
        let text: String = connection
            .prepare_cached(&query)
            .and_then(|mut get| get.query_row([hit.id], |row| row.get(0)))
            .map_err(|source| sql("search memory.db", source))?;
        hit.snippet = snippet(&text, shaped);
    }
    Ok(())
}

/// The whole texts of the rows that belong to one subscriber.
pub(crate) fn private_texts(
    connection: &Connection,
    rows: impl IntoIterator<Item = (MemorySource, i64)>,
) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for (source, id) in rows {
        let (text, table) = (source.text(), source.table());
        let query = format!("SELECT {text} FROM {table} WHERE id = ?1 AND scope <> {SHARED}");
        let found: Option<String> = connection
            .prepare_cached(&query)
            .and_then(|mut get| get.query_row([id], |row| row.get(0)).optional())
            .map_err(|source| sql("search memory.db", source))?;
        texts.extend(found);
    }
    Ok(texts)
}

/// The order of hits: by score, then the newer, then by source and id, so that it is always the same.
pub(super) fn ahead(a: &SearchHit, b: &SearchHit) -> Ordering {
    b.score.total_cmp(&a.score).then(b.at.cmp(&a.at)).then(a.source.cmp(&b.source)).then(b.id.cmp(&a.id))
}

/// 1 now, one half after the half-life, never negative; a row from the future counts as now.
fn recency(at: Timestamp, now: Timestamp, half_life_days: f64) -> f64 {
    let days = (now.millis().saturating_sub(at.millis())).max(0) as f64 / 86_400_000.0;
    0.5_f64.powf(days / half_life_days)
}

/// The text around the first place where a term, or the stem of one, stands.
fn snippet(text: &str, shaped: &ParsedQuery) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let folded: Vec<char> = flat.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect();
    let place = |needle: &str| -> Option<usize> {
        let needle: Vec<char> = needle.chars().collect();
        let shortest = if needle.len() > 4 { needle.len() - 3 } else { needle.len() };
        (shortest..=needle.len()).rev().find_map(|length| {
            let stem = needle.get(..length)?;
            folded.windows(stem.len().max(1)).position(|window| window == stem)
        })
    };
    let first = shaped.needles().filter_map(place).min().unwrap_or(0);
    let start = first.saturating_sub(SNIPPET_CHARS / 4);
    let mut shown: String = flat.chars().skip(start).take(SNIPPET_CHARS).collect();
    if start > 0 {
        shown.insert(0, '…');
    }
    if start + SNIPPET_CHARS < folded.len() {
        shown.push('…');
    }
    shown
}
