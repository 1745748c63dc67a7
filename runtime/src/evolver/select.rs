//! Which skills are looked at first. Evidence decides who is eligible; a [`Ranker`] may only put the
//! eligible into another order, and where it fails the order of the evidence stands.

use std::collections::BTreeSet;

use serde::Serialize;

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

/// Scores texts by how well they fit a query. Models arrive behind this trait.
pub trait Ranker: Send + Sync + std::fmt::Debug {
    /// What it is, for the report.
    fn name(&self) -> &str;
    /// One score a text, in their order; higher fits better.
    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>>;
}

/// Scores by shared words: no model, no network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lexical;

impl Ranker for Lexical {
    fn name(&self) -> &str {
        "lexical"
    }

    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let wanted = words(query);
        Ok(texts.iter().map(|text| shared(&wanted, &words(text)).0).collect())
    }
}

/// A ranker that is not there: it says why whenever it is asked.
#[derive(Debug, Clone, Copy)]
pub struct Absent {
    name: &'static str,
    why: &'static str,
}

impl Absent {
    /// One of this name, and why it is not there.
    pub fn new(name: &'static str, why: &'static str) -> Self {
        Self { name, why }
    }
}

impl Ranker for Absent {
    fn name(&self) -> &str {
        self.name
    }

    fn rank(&self, _: &str, _: &[&str]) -> Result<Vec<f64>> {
        Err(Error::unavailable(self.why))
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
pub struct Match {
    /// The skill.
    pub skill_name: Slug,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// The words that it shares with the query.
    pub reasons: Vec<String>,
}

/// The skills that fit a query by their words, best first.
pub fn by_words<'a>(query: &str, skills: impl IntoIterator<Item = (&'a Slug, &'a str)>, most: usize) -> Vec<Match> {
    let wanted = words(query);
    let mut found: Vec<Match> = skills
        .into_iter()
        .map(|(slug, text)| {
            let (score, reasons) = shared(&wanted, &words(&format!("{slug} {text}")));
            Match { skill_name: slug.clone(), score, reasons }
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
    ranking: Ranking<'_>,
    most: usize,
) -> Result<Vec<Match>> {
    let (slugs, texts): (Vec<&Slug>, Vec<String>) =
        skills.into_iter().map(|(slug, text)| (slug, text::head(text, RANKED_CHARS))).unzip();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut last = None;
    for ranker in [ranking.ranker, ranking.reranker].into_iter().flatten() {
        last = Some((scores(ranker, query, &texts)?, ranker.name()));
    }
    let Some((scores, by)) = last else { return Err(Error::invalid("nobody was asked to rank")) };
    let mut found: Vec<Match> = slugs
        .into_iter()
        .zip(scores)
        .map(|(slug, score)| Match { skill_name: slug.clone(), score, reasons: vec![format!("ranked by {by}")] })
        .collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.skill_name.cmp(&b.skill_name)));
    found.truncate(most);
    Ok(found)
}

/// Why a skill stands where it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chosen {
    /// The skill.
    #[serde(skip)]
    pub slug: Slug,
    /// What gave it its place.
    pub source: &'static str,
    /// Its score there.
    pub score: f64,
    /// In words.
    pub reasons: Vec<String>,
    /// The score of the first ranker, where a second one had the last word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_score: Option<f64>,
    /// How many events it has.
    #[serde(skip)]
    pub events: u64,
    /// Their highest number.
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
    /// Who ranked.
    pub rankers: Vec<String>,
    /// What was asked of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_preview: Option<String>,
    /// Why they did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What stands instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<&'static str>,
    /// The order.
    #[serde(skip)]
    pub order: Vec<Chosen>,
}

/// Who puts the eligible in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ranking<'a> {
    /// Ranks by a short text of each skill; nobody where the evidence decides.
    pub ranker: Option<&'a dyn Ranker>,
    /// Ranks again, with the last word.
    pub reranker: Option<&'a dyn Ranker>,
}

/// The skills with at least `least` events, in order. `text_of` gives the beginning of a skill's text.
pub fn select(
    tallies: &[SkillTally],
    least: u64,
    ranking: Ranking<'_>,
    text_of: &dyn Fn(&Slug) -> Option<String>,
) -> Selection {
    let order: Vec<Chosen> = tallies.iter().filter(|tally| tally.events >= least).map(by_evidence).collect();
    let mut selection = Selection {
        mode: "deterministic-evidence",
        eligible_skill_count: order.len(),
        rankers: Vec::new(),
        query_preview: None,
        error: None,
        fallback: None,
        order,
    };
    let Some(first) = ranking.ranker.or(ranking.reranker) else { return selection };
    let second = ranking.ranker.and(ranking.reranker);
    let query = query(tallies, least);
    selection.query_preview = Some(text::line(&query, SHOWN_QUERY));
    selection.rankers = [Some(first), second].into_iter().flatten().map(|ranker| ranker.name().to_owned()).collect();
    match ranked(&selection.order, &query, first, second, text_of) {
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

fn by_evidence(tally: &SkillTally) -> Chosen {
    Chosen {
        slug: tally.skill.clone(),
        source: "evidence-threshold",
        score: tally.events as f64,
        reasons: vec![format!("event_count={}", tally.events), format!("errors={}", tally.errors)],
        first_score: None,
        events: tally.events,
        last: tally.last,
    }
}

/// What the rankers are asked: which skills have how much evidence.
fn query(tallies: &[SkillTally], least: u64) -> String {
    let eligible = tallies.iter().filter(|tally| tally.events >= least);
    let lines = eligible.map(|tally| format!("{} events={} errors={}", tally.skill, tally.events, tally.errors));
    lines.collect::<Vec<_>>().join("\n")
}

fn ranked(
    order: &[Chosen],
    query: &str,
    first: &dyn Ranker,
    second: Option<&dyn Ranker>,
    text_of: &dyn Fn(&Slug) -> Option<String>,
) -> Result<Vec<Chosen>> {
    let (mut with_text, without): (Vec<_>, Vec<_>) =
        order.iter().map(|chosen| (chosen.clone(), text_of(&chosen.slug))).partition(|(_, text)| text.is_some());
    let texts: Vec<String> =
        with_text.iter().map(|(_, text)| text::head(text.as_deref().unwrap_or_default(), RANKED_CHARS)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let scores = scores(first, query, &texts)?;
    let last = second.map(|second| self::scores(second, query, &texts)).transpose()?;
    for (at, (chosen, _)) in with_text.iter_mut().enumerate() {
        let score = scores.get(at).copied().unwrap_or_default();
        let shown = last.as_ref().and_then(|last| last.get(at).copied());
        chosen.source = "ranker";
        chosen.first_score = shown.map(|_| score);
        chosen.score = shown.unwrap_or(score);
    }
    let mut ranked: Vec<Chosen> = with_text.into_iter().map(|(chosen, _)| chosen).collect();
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.slug.cmp(&b.slug)));
    ranked.extend(without.into_iter().map(|(chosen, _)| chosen));
    Ok(ranked)
}

/// The scores of a ranker, which must be as many as the texts and numbers.
fn scores(ranker: &dyn Ranker, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
    let scores = ranker.rank(query, texts)?;
    if scores.len() != texts.len() || scores.iter().any(|score| !score.is_finite()) {
        return Err(Error::unavailable(format!("{} did not give one score a skill", ranker.name())));
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed(&'static str, Vec<f64>);

    impl Ranker for Fixed {
        fn name(&self) -> &str {
            self.0
        }
        fn rank(&self, _: &str, texts: &[&str]) -> Result<Vec<f64>> {
            assert!(texts.iter().all(|text| text.chars().count() <= RANKED_CHARS + 1), "texts are cut");
            Ok(self.1.clone())
        }
    }

    fn tallies() -> Vec<SkillTally> {
        [("pump", 9, 1), ("valve", 5, 0), ("gauge", 3, 2), ("rare", 1, 1)]
            .map(|(name, events, errors)| SkillTally {
                skill: name.parse().unwrap(),
                events,
                skill_events: 0,
                errors,
                last: events.cast_signed(),
            })
            .to_vec()
    }

    fn names(selection: &Selection) -> Vec<&str> {
        selection.order.iter().map(|chosen| chosen.slug.as_str()).collect()
    }

    fn text(_: &Slug) -> Option<String> {
        Some("x".repeat(9_000))
    }

    #[test]
    fn evidence_decides_who_is_eligible_and_a_ranker_only_their_order() {
        let plain = select(&tallies(), 2, Ranking::default(), &text);
        assert_eq!((plain.mode, names(&plain)), ("deterministic-evidence", vec!["pump", "valve", "gauge"]));
        let ranker = Fixed("fixed", vec![0.1, 0.2, 0.9]);
        let ranked = select(&tallies(), 2, Ranking { ranker: Some(&ranker), reranker: None }, &text);
        assert_eq!((ranked.mode, names(&ranked)), ("ranked", vec!["gauge", "valve", "pump"]));
        assert_eq!(ranked.eligible_skill_count, 3, "rare stays out, whatever a model thinks of it");
    }

    #[test]
    fn a_second_ranker_has_the_last_word_and_the_first_score_is_kept() {
        let (first, second) = (Fixed("a", vec![0.1, 0.2, 0.9]), Fixed("b", vec![3.0, 2.0, 1.0]));
        let ranking = Ranking { ranker: Some(&first), reranker: Some(&second) };
        let selection = select(&tallies(), 2, ranking, &text);
        assert_eq!((selection.mode, names(&selection)), ("ranked-reranked", vec!["pump", "valve", "gauge"]));
        assert_eq!(selection.order[0].first_score, Some(0.1));
    }

    #[test]
    fn a_ranker_that_fails_leaves_the_order_of_the_evidence_and_says_so() {
        for scores in [vec![], vec![1.0], vec![f64::NAN, 0.0, 0.0]] {
            let ranker = Fixed("broken", scores);
            let selection = select(&tallies(), 2, Ranking { ranker: Some(&ranker), reranker: None }, &text);
            assert_eq!((selection.mode, selection.fallback), ("ranking-unavailable", Some("deterministic-evidence")));
            assert_eq!(names(&selection), ["pump", "valve", "gauge"]);
            assert!(selection.error.is_some());
        }
    }

    #[test]
    fn a_skill_without_a_text_comes_after_the_ranked_ones() {
        let ranker = Fixed("fixed", vec![0.1, 0.2]);
        let only_some = |slug: &Slug| (slug.as_str() != "pump").then(|| "text".to_owned());
        let selection = select(&tallies(), 2, Ranking { ranker: Some(&ranker), reranker: None }, &only_some);
        assert_eq!(names(&selection), ["gauge", "valve", "pump"]);
    }

    #[test]
    fn words_are_shared_case_aside_and_a_single_letter_is_none() {
        let skills: Vec<(Slug, &str)> =
            vec![("gateway".parse().unwrap(), "Restart the plugin."), ("other".parse().unwrap(), "a b c")];
        let found = by_words("Gateway plugin restart a", skills.iter().map(|(slug, text)| (slug, *text)), 10);
        assert_eq!(found[0].score, 1.0);
        assert_eq!((found[1].skill_name.as_str(), found[1].score), ("other", 0.0));
    }
}
