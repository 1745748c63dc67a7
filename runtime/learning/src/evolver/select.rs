//! Which skills are looked at first. Evidence decides who is eligible; a [`Ranker`] may only put the
//! eligible into another order, and where it fails the order of the evidence stands.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use super::EvidenceRow;
use crate::error::{Error, Result};
use crate::ids::Slug;
use crate::memory::SkillTally;
use crate::text;

/// How many characters of a skill's text a ranker sees, unless said otherwise.
pub const RANKED_CHARS: usize = 512;
/// How many reasons a lexical score gives.
const MOST_REASONS: usize = 8;
/// How much of the query is shown.
const SHOWN_QUERY: usize = 500;

/// How many of the best a second ranker looks at again: it is the slower one, and a pass changes no more.
pub const RERANKED: usize = 25;

/// Scores texts by how well they fit a query. Models arrive behind this trait.
pub trait Ranker: Send + Sync + std::fmt::Debug {
    /// What it is, for the report.
    fn name(&self) -> &str;
    /// How many characters of a text it sees.
    fn text_limit(&self) -> usize {
        RANKED_CHARS
    }
    /// Whether a model does it.
    fn is_model(&self) -> bool {
        false
    }
    /// Whether it is there to be asked: not where nothing is configured.
    fn is_available(&self) -> bool {
        true
    }
    /// One score a text, in their order; higher fits better.
    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>>;
}

/// Scores by shared words: no model, no network.
#[derive(Debug, Clone, Copy, Default)]
pub struct LexicalRanker;

impl Ranker for LexicalRanker {
    fn name(&self) -> &str {
        "lexical"
    }

    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let wanted = words(query);
        Ok(texts.iter().map(|text| shared(&wanted, &words(text)).0).collect())
    }
}

/// A ranker that is not there: it says why whenever it is asked.
#[derive(Debug, Clone)]
pub struct UnavailableRanker {
    name: String,
    why: String,
}

impl UnavailableRanker {
    /// One of this name, and why it is not there.
    pub fn new(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), why: why.into() }
    }
}

impl Ranker for UnavailableRanker {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_available(&self) -> bool {
        false
    }

    fn rank(&self, _: &str, _: &[&str]) -> Result<Vec<f64>> {
        Err(Error::unavailable(self.why.clone()))
    }
}

/// The words of a text: letters, digits, `_` and `-`, longer than one character, in lower case.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
        .filter(|word| word.chars().nth(1).is_some())
        .map(str::to_lowercase)
        .collect()
}

/// The part of the wanted words that a text has, and which.
fn shared(wanted: &BTreeSet<String>, has: &BTreeSet<String>) -> (f64, Vec<String>) {
    let both: Vec<String> = wanted.intersection(has).take(MOST_REASONS).cloned().collect();
    let count = wanted.intersection(has).count() as f64;
    let score = if wanted.is_empty() { 0.0 } else { count / wanted.len() as f64 };
    ((score * 1e4).round() / 1e4, both)
}

/// A skill that fits a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillMatch {
    /// The skill's name; at most one match is of it.
    pub skill_name: Slug,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// The words that it shares with the query, or who gave it which score.
    pub reasons: Vec<String>,
    /// The score of the first ranker, where a second one had the last word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_score: Option<f64>,
}

/// The skills that fit a query by their words, best first.
pub fn by_words<'a>(
    query: &str,
    skills: impl IntoIterator<Item = (&'a Slug, &'a str)>,
    most: usize,
) -> Vec<SkillMatch> {
    let wanted = words(query);
    let mut found: Vec<SkillMatch> = skills
        .into_iter()
        .map(|(slug, text)| {
            let (score, reasons) = shared(&wanted, &words(&format!("{slug} {text}")));
            SkillMatch { skill_name: slug.clone(), score, reasons, first_score: None }
        })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.skill_name.cmp(&b.skill_name)));
    found.truncate(most);
    found
}

/// The skills that fit a query by what the rankers say, best first.
pub fn ranked_for<'a>(
    query: &str,
    skills: impl IntoIterator<Item = (&'a Slug, &'a str)>,
    ranking: RankerChain<'_>,
    most: usize,
) -> Result<Vec<SkillMatch>> {
    let (skills, texts): (Vec<&Slug>, Vec<&str>) = skills.into_iter().unzip();
    let Some((first, second)) = ranking.asked() else { return Err(Error::invalid("nobody was asked to rank")) };
    let placed = places(first, second, query, &skills, &texts)?;
    let found = placed.into_iter().take(most).filter_map(|place| {
        let (score, first_score) = place.scores();
        let skill_name = (*skills.get(place.at)?).clone();
        Some(SkillMatch { skill_name, score, reasons: place.reasons(first, second), first_score })
    });
    Ok(found.collect())
}

/// Why a skill stands where it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankedSkill {
    /// The skill, by its name.
    #[serde(skip)]
    pub slug: Slug,
    /// What gave it its place.
    pub source: &'static str,
    /// The number of its events, or the score that the last ranker gave it.
    pub score: f64,
    /// The counts behind the score, or what each ranker said.
    pub reasons: Vec<String>,
    /// The score of the first ranker, where a second one had the last word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_score: Option<f64>,
    /// How many events it has.
    #[serde(skip)]
    pub events: u64,
    /// The highest number among those events.
    #[serde(skip)]
    pub last: i64,
}

/// The eligible skills in the order they are looked at, and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Selection {
    /// `deterministic-evidence`, `ranked`, `ranked-reranked` or `ranking-unavailable`.
    pub mode: &'static str,
    /// How many skills have enough evidence.
    pub eligible_skill_count: usize,
    /// Who was asked to rank, of those that are there.
    pub rankers: Vec<String>,
    /// Whether a model had its say, whatever became of it.
    pub model_executed: bool,
    /// What was asked of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_preview: Option<String>,
    /// Why they did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What decided the order instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<&'static str>,
    /// The skills in the order they are looked at.
    #[serde(skip)]
    pub order: Vec<RankedSkill>,
}

/// Who puts the eligible in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankerChain<'a> {
    /// Ranks by a short text of each skill; nobody where the evidence decides.
    pub ranker: Option<&'a dyn Ranker>,
    /// Ranks again, with the last word.
    pub reranker: Option<&'a dyn Ranker>,
}

impl<'a> RankerChain<'a> {
    /// Who is asked first, and who after that.
    fn asked(self) -> Option<(&'a dyn Ranker, Option<&'a dyn Ranker>)> {
        Some((self.ranker.or(self.reranker)?, self.ranker.and(self.reranker)))
    }
}

/// How many of the newest rows of evidence a query is made from.
pub const QUERY_ROWS: usize = 20;
/// How many characters of a row stand in a query.
const QUERY_ROW_CHARS: usize = 160;

/// What the evidence asks of rankers.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankerQuery<'a> {
    /// How much evidence each skill has.
    pub tallies: &'a [SkillTally],
    /// The newest rows, newest first.
    pub recent: &'a [EvidenceRow],
}

/// The skills with at least `least` events, in order. `text_of` gives the beginning of a skill's text.
pub fn select(
    tallies: &[SkillTally],
    least: u64,
    ranking: RankerChain<'_>,
    text_of: &dyn Fn(&Slug) -> Option<String>,
) -> Selection {
    select_asked(&RankerQuery { tallies, recent: &[] }, least, ranking, text_of)
}

/// The same, where rankers are told what happened last.
pub fn select_asked(
    asks: &RankerQuery<'_>,
    least: u64,
    ranking: RankerChain<'_>,
    text_of: &dyn Fn(&Slug) -> Option<String>,
) -> Selection {
    let order: Vec<RankedSkill> = asks.tallies.iter().filter(|tally| tally.events >= least).map(by_evidence).collect();
    let mut selection = Selection {
        mode: "deterministic-evidence",
        eligible_skill_count: order.len(),
        rankers: Vec::new(),
        model_executed: false,
        query_preview: None,
        error: None,
        fallback: None,
        order,
    };
    let Some((first, second)) = ranking.asked() else { return selection };
    let query = query(asks, &selection.order);
    selection.query_preview = Some(text::line(&query, SHOWN_QUERY));
    let there = [Some(first), second].into_iter().flatten().filter(|ranker| ranker.is_available());
    selection.rankers = there.map(|ranker| ranker.name().to_owned()).collect();
    let executed = AtomicBool::new(false);
    let first = Noting { ranker: first, executed: &executed };
    let again = second.map(|ranker| Noting { ranker, executed: &executed });
    let ranked = ranked(&selection.order, &query, &first, again.as_ref().map(|again| again as &dyn Ranker), text_of);
    selection.model_executed = executed.load(Ordering::Relaxed);
    match ranked {
        Ok(order) => {
            selection.mode = if second.is_some() { "ranked-reranked" } else { "ranked" };
            selection.order = order;
        }
        Err(error) => {
            selection.mode = "ranking-unavailable";
            selection.error = Some(text::line(error.message(), SHOWN_QUERY));
            selection.fallback = Some("deterministic-evidence");
        }
    }
    selection
}

/// A ranker, and whether a model has given scores.
#[derive(Debug)]
struct Noting<'a> {
    ranker: &'a dyn Ranker,
    executed: &'a AtomicBool,
}

impl Ranker for Noting<'_> {
    fn name(&self) -> &str {
        self.ranker.name()
    }

    fn text_limit(&self) -> usize {
        self.ranker.text_limit()
    }

    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let scores = self.ranker.rank(query, texts)?;
        if self.ranker.is_model() && !texts.is_empty() {
            self.executed.store(true, Ordering::Relaxed);
        }
        Ok(scores)
    }
}

fn by_evidence(tally: &SkillTally) -> RankedSkill {
    RankedSkill {
        slug: tally.skill.clone(),
        source: "evidence-threshold",
        score: tally.events as f64,
        reasons: vec![format!("event_count={}", tally.events), format!("errors={}", tally.errors)],
        first_score: None,
        events: tally.events,
        last: tally.last,
    }
}

/// What the rankers are asked: which skills have how much evidence, and what happened last in tasks with them.
fn query(asks: &RankerQuery<'_>, eligible: &[RankedSkill]) -> String {
    let is_eligible = |slug: &&Slug| eligible.iter().any(|chosen| chosen.slug == **slug);
    let mut lines: Vec<String> = asks
        .tallies
        .iter()
        .filter(|tally| is_eligible(&&tally.skill))
        .map(|tally| format!("{} events={} errors={}", tally.skill, tally.events, tally.errors))
        .collect();
    for (_, row) in asks.recent.iter().take(QUERY_ROWS) {
        let skills: Vec<&str> = row.skills.iter().filter(|slug| is_eligible(slug)).map(Slug::as_str).collect();
        if !skills.is_empty() {
            let said = text::line(&row.summary, QUERY_ROW_CHARS);
            lines.push(format!("{} {} {}: {said}", skills.join(" "), row.tool, row.status.name()));
        }
    }
    lines.join("\n")
}

fn ranked(
    order: &[RankedSkill],
    query: &str,
    first: &dyn Ranker,
    second: Option<&dyn Ranker>,
    text_of: &dyn Fn(&Slug) -> Option<String>,
) -> Result<Vec<RankedSkill>> {
    let (with_text, without): (Vec<_>, Vec<_>) =
        order.iter().map(|chosen| (chosen, text_of(&chosen.slug))).partition(|(_, text)| text.is_some());
    let slugs: Vec<&Slug> = with_text.iter().map(|(chosen, _)| &chosen.slug).collect();
    let texts: Vec<&str> = with_text.iter().map(|(_, text)| text.as_deref().unwrap_or_default()).collect();
    let mut ranked = Vec::with_capacity(order.len());
    for place in places(first, second, query, &slugs, &texts)? {
        let Some((chosen, _)) = with_text.get(place.at) else { continue };
        let (score, first_score) = place.scores();
        let reasons = chosen.reasons.iter().cloned().chain(place.reasons(first, second)).collect();
        ranked.push(RankedSkill { source: "ranker", score, reasons, first_score, ..(*chosen).clone() });
    }
    ranked.extend(without.into_iter().map(|(chosen, _)| chosen.clone()));
    Ok(ranked)
}

/// Where a text stands by what the rankers say of it.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    first: f64,
    second: Option<f64>,
}

impl Place {
    /// The score that counts, and the first one where it was another's.
    fn scores(&self) -> (f64, Option<f64>) {
        (self.second.unwrap_or(self.first), self.second.map(|_| self.first))
    }

    /// Who gave which score.
    fn reasons(&self, first: &dyn Ranker, second: Option<&dyn Ranker>) -> Vec<String> {
        let mut reasons = vec![format!("ranked by {}: {:.4}", first.name(), self.first)];
        if let (Some(second), Some(score)) = (second, self.second) {
            reasons.push(format!("reranked by {}: {score:.4}", second.name()));
        }
        reasons
    }
}

/// Every text once, best first. The second ranker has the last word over the best [`RERANKED`] of the first; those it
/// did not look at follow. Of equal ones the name decides.
fn places(
    first: &dyn Ranker,
    second: Option<&dyn Ranker>,
    query: &str,
    names: &[&Slug],
    texts: &[&str],
) -> Result<Vec<Place>> {
    let given = scores(first, query, texts)?;
    let mut placed: Vec<Place> =
        given.into_iter().enumerate().map(|(at, first)| Place { at, first, second: None }).collect();
    let sort = |placed: &mut [Place]| {
        placed
            .sort_by(|a, b| b.scores().0.total_cmp(&a.scores().0).then_with(|| names.get(a.at).cmp(&names.get(b.at))));
    };
    sort(&mut placed);
    let Some(second) = second else { return Ok(placed) };
    let (best, _) = placed.split_at_mut(RERANKED.min(texts.len()));
    // Asked in the order they came, so that the first ranker does not lead the second.
    best.sort_by_key(|place| place.at);
    let again: Vec<&str> = best.iter().filter_map(|place| texts.get(place.at).copied()).collect();
    for (place, score) in best.iter_mut().zip(scores(second, query, &again)?) {
        place.second = Some(score);
    }
    sort(best);
    Ok(placed)
}

/// The scores of a ranker, which must be as many as the texts and numbers.
fn scores(ranker: &dyn Ranker, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
    let seen: Vec<String> = texts.iter().map(|text| text::head(text, ranker.text_limit())).collect();
    let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
    let scores = ranker.rank(query, &seen)?;
    if scores.len() != texts.len() || scores.iter().any(|score| !score.is_finite()) {
        return Err(Error::unavailable(format!("{} did not give one score a skill", ranker.name())));
    }
    Ok(scores)
}

#[cfg(test)]
mod tests;
