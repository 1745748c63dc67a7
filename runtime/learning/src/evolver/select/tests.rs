use proptest::prelude::*;

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

fn tally(name: &str, events: u64, errors: u64) -> SkillTally {
    SkillTally { skill: name.parse().unwrap(), events, skill_events: 0, errors, last: events.cast_signed() }
}

fn tallies() -> Vec<SkillTally> {
    vec![tally("pump", 9, 1), tally("valve", 5, 0), tally("gauge", 3, 2), tally("rare", 1, 1)]
}

fn names(selection: &Selection) -> Vec<&str> {
    selection.order.iter().map(|chosen| chosen.slug.as_str()).collect()
}

fn text(_: &Slug) -> Option<String> {
    Some("x".repeat(9_000))
}

#[test]
fn evidence_decides_who_is_eligible_and_a_ranker_only_their_order() {
    let plain = select(&tallies(), 2, RankerChain::default(), &text);
    assert_eq!((plain.mode, names(&plain)), ("deterministic-evidence", vec!["pump", "valve", "gauge"]));
    let ranker = Fixed("fixed", vec![0.1, 0.2, 0.9]);
    let ranked = select(&tallies(), 2, RankerChain { ranker: Some(&ranker), reranker: None }, &text);
    assert_eq!((ranked.mode, names(&ranked)), ("ranked", vec!["gauge", "valve", "pump"]));
    assert_eq!(ranked.eligible_skill_count, 3, "rare stays out, whatever a model thinks of it");
}

#[test]
fn a_second_ranker_has_the_last_word_and_the_first_score_is_kept() {
    let (first, second) = (Fixed("a", vec![0.1, 0.2, 0.9]), Fixed("b", vec![3.0, 2.0, 1.0]));
    let ranking = RankerChain { ranker: Some(&first), reranker: Some(&second) };
    let selection = select(&tallies(), 2, ranking, &text);
    assert_eq!((selection.mode, names(&selection)), ("ranked-reranked", vec!["pump", "valve", "gauge"]));
    assert_eq!(selection.order[0].first_score, Some(0.1));
}

#[test]
fn a_ranker_that_fails_leaves_the_order_of_the_evidence_and_says_so() {
    for scores in [vec![], vec![1.0], vec![f64::NAN, 0.0, 0.0]] {
        let ranker = Fixed("broken", scores);
        let selection = select(&tallies(), 2, RankerChain { ranker: Some(&ranker), reranker: None }, &text);
        assert_eq!((selection.mode, selection.fallback), ("ranking-unavailable", Some("deterministic-evidence")));
        assert_eq!(names(&selection), ["pump", "valve", "gauge"]);
        assert!(selection.error.is_some());
    }
}

#[test]
fn a_skill_without_a_text_comes_after_the_ranked_ones() {
    let ranker = Fixed("fixed", vec![0.1, 0.2]);
    let only_some = |slug: &Slug| (slug.as_str() != "pump").then(|| "text".to_owned());
    let selection = select(&tallies(), 2, RankerChain { ranker: Some(&ranker), reranker: None }, &only_some);
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

#[test]
fn a_second_ranker_looks_only_at_the_best_and_the_others_follow() {
    #[derive(Debug)]
    struct Counted(std::sync::Mutex<Vec<usize>>);
    impl Ranker for Counted {
        fn name(&self) -> &str {
            "counted"
        }
        fn rank(&self, _: &str, texts: &[&str]) -> Result<Vec<f64>> {
            self.0.lock().unwrap().push(texts.len());
            Ok((0..texts.len()).map(|at| at as f64).collect())
        }
    }
    let many: Vec<SkillTally> = (0..40).map(|at| tally(&format!("skill-{at:02}"), 40 - at, 0)).collect();
    let (first, second) = (Fixed("first", (0..40).map(|at| -f64::from(at)).collect()), Counted(Vec::new().into()));
    let selection = select(&many, 1, RankerChain { ranker: Some(&first), reranker: Some(&second) }, &text);
    assert_eq!(*second.0.lock().unwrap(), [RERANKED]);
    let expected: Vec<String> = (0..25).rev().chain(25..40).map(|at| format!("skill-{at:02}")).collect();
    assert_eq!(names(&selection), expected);
    assert_eq!(selection.order[0].reasons.last().unwrap(), "reranked by counted: 24.0000");
}

#[test]
fn a_ranker_sees_as_much_of_a_text_as_it_asks_for() {
    #[derive(Debug)]
    struct Wide;
    impl Ranker for Wide {
        fn name(&self) -> &str {
            "wide"
        }
        fn text_limit(&self) -> usize {
            2_000
        }
        fn rank(&self, _: &str, texts: &[&str]) -> Result<Vec<f64>> {
            Ok(texts.iter().map(|text| text.chars().count() as f64).collect())
        }
    }
    let selection = select(&tallies(), 2, RankerChain { ranker: Some(&Wide), reranker: None }, &text);
    assert!((2_000.0..=2_001.0).contains(&selection.order[0].score), "{:?}", selection.order[0]);
}

/// A ranker that does its worst.
#[derive(Debug, Clone)]
enum Hostile {
    Says(Vec<f64>),
    OneEach(Vec<f64>),
    Fails,
    Cuts(usize),
}

impl Ranker for Hostile {
    fn name(&self) -> &str {
        "hostile"
    }
    fn text_limit(&self) -> usize {
        if let Self::Cuts(limit) = self { *limit } else { RANKED_CHARS }
    }
    fn rank(&self, _: &str, texts: &[&str]) -> Result<Vec<f64>> {
        match self {
            Self::Says(scores) => Ok(scores.clone()),
            Self::OneEach(scores) => Ok(scores.iter().copied().cycle().take(texts.len()).collect()),
            Self::Fails => Err(Error::internal("it broke down")),
            Self::Cuts(_) => Ok(texts.iter().map(|text| text.len() as f64).collect()),
        }
    }
}

fn hostile() -> impl Strategy<Value = Option<Hostile>> {
    let odd = prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-0.0),
        Just(0.0),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE)
    ];
    let ranker = prop_oneof![
        prop::collection::vec(odd, 0..70).prop_map(Hostile::Says),
        prop::collection::vec(-2.0..2.0, 1..9).prop_map(Hostile::OneEach),
        prop::collection::vec(prop_oneof![Just(0.0), Just(-0.0)], 1..3).prop_map(Hostile::OneEach),
        Just(Hostile::Fails),
        prop_oneof![Just(0), Just(1), Just(usize::MAX)].prop_map(Hostile::Cuts),
    ];
    prop::option::of(ranker)
}

proptest! {
    #[test]
    fn whatever_a_ranker_says_exactly_the_eligible_are_chosen_each_once(
        events in prop::collection::vec((0u64..6, 0u64..3, any::<bool>()), 0..60),
        least in 1u64..5,
        first in hostile(),
        second in hostile(),
    ) {
        let name = |at: usize| format!("skill-{at}");
        let tallies: Vec<SkillTally> =
            events.iter().enumerate().map(|(at, (events, errors, _))| tally(&name(at), *events, *errors)).collect();
        let has_text = |slug: &Slug| {
            let at: usize = slug.as_str().trim_start_matches("skill-").parse().unwrap();
            events[at].2.then(|| format!("text of {slug}"))
        };
        let eligible: Vec<SkillTally> = tallies.iter().filter(|tally| tally.events >= least).cloned().collect();
        let ranking = RankerChain {
            ranker: first.as_ref().map(|one| one as &dyn Ranker),
            reranker: second.as_ref().map(|one| one as &dyn Ranker),
        };
        let selection = select(&tallies, least, ranking, &has_text);
        prop_assert_eq!(selection.eligible_skill_count, eligible.len());
        let mut chosen: Vec<(Slug, u64, i64)> =
            selection.order.iter().map(|one| (one.slug.clone(), one.events, one.last)).collect();
        chosen.sort();
        let mut expected: Vec<(Slug, u64, i64)> =
            eligible.iter().map(|one| (one.skill.clone(), one.events, one.last)).collect();
        expected.sort();
        prop_assert_eq!(chosen, expected);
        prop_assert!(selection.order.iter().all(|one| one.score.is_finite()));
        if selection.mode == "ranking-unavailable" {
            let plain = select(&tallies, least, RankerChain::default(), &has_text);
            prop_assert_eq!(&selection.order, &plain.order, "the order of the evidence stands");
            prop_assert!(selection.error.is_some() && selection.fallback == Some("deterministic-evidence"));
        }
    }
}

/// A model that remembers what it was asked.
#[derive(Debug, Default)]
struct Model(std::sync::Mutex<Vec<String>>);

impl Ranker for Model {
    fn name(&self) -> &str {
        "model"
    }
    fn is_model(&self) -> bool {
        true
    }
    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
        self.0.lock().unwrap().push(query.to_owned());
        Ok(vec![0.5; texts.len()])
    }
}

fn evidence(id: i64, skills: &[&str], status: crate::memory::EvidenceStatus, summary: &str) -> EvidenceRow {
    let row = crate::memory::Evidence {
        task: "t".to_owned(),
        turn: 1,
        tool: "fetch".to_owned(),
        status,
        skills: skills.iter().map(|name| name.parse().unwrap()).collect(),
        args: crate::ids::Digest::of(b"x"),
        arguments: None,
        summary: summary.to_owned(),
        millis: 1,
        at: crate::clock::Timestamp(id),
    };
    (id, row)
}

#[test]
fn rankers_are_asked_with_counts_and_with_what_happened_last() {
    use crate::memory::EvidenceStatus::{Failed, Ok as Fine};
    let tallies = tallies();
    let (known, few) = (&tallies[0].skill, "not-eligible");
    let rows: Vec<EvidenceRow> = std::iter::once(evidence(99, &[few], Fine, "nobody asks for this"))
        .chain((0..25).map(|n| evidence(50 - n, &[known.as_str()], Failed, &format!("gateway timeout {n}"))))
        .collect();
    let model = Model::default();
    let ranking = RankerChain { ranker: Some(&model), reranker: None };
    let selection = select_asked(&RankerQuery { tallies: &tallies, recent: &rows }, 2, ranking, &text);
    let asked = model.0.lock().unwrap().clone();
    let query = &asked[0];
    assert!(query.contains(&format!("{known} events={} errors={}", tallies[0].events, tallies[0].errors)), "{query}");
    assert!(query.contains(&format!("{known} fetch failed: gateway timeout 0")), "{query}");
    assert!(query.contains("gateway timeout 18") && !query.contains("gateway timeout 19"), "the newest 20: {query}");
    assert!(!query.contains("nobody asks"), "{query}");
    assert!(selection.model_executed);
}

#[test]
fn whether_a_model_was_run_is_told_as_it_was() {
    let model = Model::default();
    let absent = UnavailableRanker::new("reranker", "nothing is configured");
    let asked = |ranker: Option<&dyn Ranker>, reranker: Option<&dyn Ranker>| {
        let selection = select(&tallies(), 2, RankerChain { ranker, reranker }, &text);
        (selection.mode, selection.model_executed, selection.rankers)
    };
    assert_eq!(asked(None, None), ("deterministic-evidence", false, vec![]));
    assert_eq!(asked(Some(&LexicalRanker), None), ("ranked", false, vec!["lexical".to_owned()]));
    assert_eq!(asked(Some(&model), None), ("ranked", true, vec!["model".to_owned()]));
    assert_eq!(asked(Some(&absent), None), ("ranking-unavailable", false, vec![]));
    // It ran, although nothing came of it; and only who is there is named.
    assert_eq!(asked(Some(&model), Some(&absent)), ("ranking-unavailable", true, vec!["model".to_owned()]));
}
