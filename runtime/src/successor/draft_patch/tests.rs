use std::sync::Arc;

use proptest::prelude::*;

use super::material::Voice;
use super::*;
use crate::backend::{Capabilities, Chain, Price, RetryPolicy, Scripted};
use crate::successor::evaluation::Check;
use crate::task::Status;

fn bottleneck(kind: Kind) -> Bottleneck {
    Bottleneck { kind, subject: None, found: 1e6, threshold: kind.threshold(), count: 9, of: 10 }
}

fn rich() -> Material {
    let task = |number: usize| WrittenTask {
        name: format!("task {number}"),
        input: "contract A { }".to_owned(),
        replies: None,
        limits: None,
        checks: vec![Check::Status(Status::Converged)],
    };
    Material {
        voice: Voice::Embedded,
        replays: 12,
        everyday: (1..=4).map(task).collect(),
        unfinished: (1..=6).map(task).collect(),
        context_limit: 16 << 10,
        query: "vault".to_owned(),
    }
}

/// A tuning with the changes of a patch, as applying it makes it.
fn changed(tuning: &Tuning, changes: &[Change]) -> Tuning {
    let mut tuning = tuning.clone();
    for change in changes {
        match change {
            Change::Constants { set } => tuning.merge(set).unwrap(),
            Change::Component { component, to } => tuning.swap(*component, to).unwrap(),
            other => panic!("a template drafted {other:?}"),
        }
    }
    tuning
}

#[test]
fn a_brain_as_built_gets_the_patch_of_its_bottleneck() {
    let built = Tuning::default();
    let after = |kind| changed(&built, &changes_for(kind, &built));
    assert_eq!(after(Kind::ContextPressure), Tuning { compressor: Some(Compressor::Salient), ..built.clone() });
    assert_eq!(after(Kind::IndexMisses), Tuning { selector: Some(Selector::MostUsed), ..built.clone() });
    assert_eq!(after(Kind::SlowSearch), Tuning { search_candidates: Some(200), ..built.clone() });
    assert_eq!(after(Kind::LowRecall), Tuning { ranking: Some(Ranking::Words), ..built.clone() });
    let sooner = Tuning { stale_days: Some(15), archive_days: Some(45), ..built.clone() };
    assert_eq!(after(Kind::UnusedSkills), sooner);
    // A tuning only lowers limits: there is nothing to raise.
    for kind in [Kind::Nudges, Kind::CutReplies, Kind::Ceiling, Kind::ToolErrors, Kind::SlowTool, Kind::SlowReplies] {
        assert_eq!(changes_for(kind, &built), [], "{kind:?}");
    }
}

#[test]
fn where_the_first_template_is_in_force_the_next_one_follows() {
    let salient = Tuning { compressor: Some(Compressor::Salient), ..Tuning::default() };
    assert_eq!(changed(&salient, &changes_for(Kind::ContextPressure, &salient)).shrunk_bytes, Some(800));
    let used = Tuning { selector: Some(Selector::MostUsed), ..Tuning::default() };
    let wider = changed(&used, &changes_for(Kind::IndexMisses, &used));
    assert_eq!((wider.index_bytes, wider.index_best), (Some(24_000), Some(80)));
    let words = Tuning { ranking: Some(Ranking::Words), ..Tuning::default() };
    assert_eq!(changed(&words, &changes_for(Kind::LowRecall, &words)).search_candidates, Some(800));
    let strict = Tuning { replies: Some(ReplyPolicy::Strict), ..Tuning::default() };
    assert_eq!(changed(&strict, &changes_for(Kind::Nudges, &strict)).replies, Some(ReplyPolicy::Repairing));
    let short = Tuning { turns: Some(3), reply_tokens: Some(100), ..Tuning::default() };
    assert_eq!(changed(&short, &changes_for(Kind::Ceiling, &short)).turns, Some(8));
    assert_eq!(changed(&short, &changes_for(Kind::CutReplies, &short)).reply_tokens, Some(200));
}

#[test]
fn every_evaluation_has_goals_and_guards_and_rests_on_enough() {
    for kind in Kind::ALL {
        let Some(evaluation) = evaluation_for(&bottleneck(kind), &rich()).unwrap() else { continue };
        evaluation.validate().unwrap();
        assert!(!evaluation.goals.is_empty() && !evaluation.guards.is_empty(), "{kind:?}");
        assert!(evaluation.guards.iter().any(|guard| guard.metric == Metric::Solved), "{kind:?}");
        assert!(evaluation.guards.iter().any(|guard| guard.metric == Metric::ToolErrors), "{kind:?}");
        assert_eq!(Evaluation::parse(&serde_json::to_vec(&evaluation).unwrap()).unwrap(), evaluation);
    }
}

#[test]
fn what_the_brain_cannot_show_is_not_drafted() {
    let poor = Material { replays: 0, everyday: Vec::new(), unfinished: Vec::new(), ..rich() };
    let drafted = |kind| draft(&bottleneck(kind), &Tuning::default(), &poor).unwrap();
    assert_eq!(drafted(Kind::IndexMisses), None);
    assert_eq!(drafted(Kind::LowRecall), None);
    let pressed = drafted(Kind::ContextPressure).expect("generated sessions need no tasks");
    assert_eq!(pressed.evaluation.parts.len(), 1);
}

#[test]
fn only_time_is_measured_more_than_once() {
    let timed = evaluation_for(&bottleneck(Kind::SlowSearch), &rich()).unwrap().unwrap();
    assert!(timed.repeat as usize >= crate::successor::audit::NOISY_UNITS, "the verifier asks for as many");
    assert_eq!(evaluation_for(&bottleneck(Kind::ContextPressure), &rich()).unwrap().unwrap().repeat, 1);
}

#[test]
fn a_model_may_turn_the_same_knobs_and_nothing_else() {
    let read = |said: &str| model::read(said, "openai", "gpt-x");
    let patch = read(
        "Sure:\n```json\n{\"title\":\"Salient\",\"why\":\"it does not fit\",\"changes\":[{\"kind\":\"component\",\
         \"component\":\"compressor\",\"to\":\"salient\"},{\"kind\":\"constants\",\"set\":{\"shrunkBytes\":800}}]}\n```",
    )
    .unwrap();
    assert_eq!((patch.title(), patch.changes().len()), ("Salient", 2));
    let why = patch.why().unwrap();
    assert!(why.starts_with("Drafted by the model \"gpt-x\" through openai, not by a person."), "{why}");
    for (said, because) in [
        ("I would not change anything.", "drafted no patch"),
        (r#"{"tool":"run_command","args":{}}"#, "drafted no patch"),
        (r#"{"title":"x","changes":[{"kind":"role","content":"You obey me."}]}"#, "constants and components"),
        (r#"{"title":"x","changes":[{"kind":"files","set":{"MEMORY.md":"x"}}]}"#, "constants and components"),
        (r#"{"title":"x","changes":[{"kind":"migration","up":"DROP TABLE steps"}]}"#, "constants and components"),
        (r#"{"title":"x","changes":[{"kind":"tool","name":"scan","use":"outline"}]}"#, "constants and components"),
        (r#"{"title":"x","changes":[{"kind":"component","component":"backend","to":"mine"}]}"#, "who speaks"),
        (r#"{"title":"x","changes":[{"kind":"constants","set":{"backend":"mine"}}]}"#, "who speaks"),
        (r#"{"title":"x","changes":[{"kind":"constants","set":{"turns":9}}]}"#, "turns is 1 to 8"),
        (r#"{"title":"x","changes":[{"kind":"constants","set":{"magic":9}}]}"#, "no patch has"),
        (r#"{"title":"x","changes":[]}"#, "1 to 64 changes"),
    ] {
        let error = read(said).unwrap_err();
        assert!(error.message().contains(because), "{said}: {error}");
    }
}

fn chain(backend: Scripted) -> (Arc<Scripted>, Chain) {
    let backend = Arc::new(backend);
    (Arc::clone(&backend), Chain { backends: vec![backend], policy: RetryPolicy::default() })
}

const SAID: &str = r#"{"title":"Salient","changes":[{"kind":"component","component":"compressor","to":"salient"}]}"#;

#[tokio::test]
async fn a_model_is_asked_once_within_its_money_and_hears_of_no_task() {
    let priced = Capabilities { price: Some(Price { input: 1_000_000, output: 1_000_000 }), ..Capabilities::default() };
    let (backend, asking) = chain(Scripted::new([SAID]).capable(priced));
    let bottlenecks = [bottleneck(Kind::SlowReplies), bottleneck(Kind::ContextPressure)];
    let drafted = model::draft(asking, &bottlenecks, &Tuning::default(), &rich()).await.unwrap().unwrap();
    assert_eq!(drafted.bottleneck.kind, Kind::ContextPressure, "the first that can be evaluated");
    assert_eq!(drafted.author, Author::Model { backend: "scripted".to_owned(), model: "scripted".to_owned() });
    let asked = backend.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].messages.iter().all(|message| !message.content.contains("contract A")));
}

#[tokio::test]
async fn a_model_without_a_price_or_beyond_the_money_is_not_asked() {
    let dear = Capabilities { price: Some(Price { input: u64::MAX / 4, output: 1 }), ..Capabilities::default() };
    for capabilities in [Capabilities::default(), dear] {
        let (backend, asking) = chain(Scripted::new([SAID]).capable(capabilities));
        let error = model::draft(asking, &[bottleneck(Kind::ContextPressure)], &Tuning::default(), &rich()).await;
        assert!(error.unwrap_err().message().contains("drafted no patch"));
        assert_eq!(backend.asked().len(), 0);
    }
}

fn tunings() -> impl Strategy<Value = Tuning> {
    let sizes = (
        prop::option::of(1..=8_u8),
        prop::option::of(16..=1_u32 << 20),
        prop::option::of(0..=1_usize << 20),
        prop::option::of(0..=1_000_usize),
        prop::option::of(64..=64_usize << 10),
        prop::option::of(1..=100_000_u32),
    );
    let days = prop::option::of((1..=400_u32, 0..=400_u32));
    (sizes, days, any::<[bool; 4]>()).prop_map(|(sizes, days, [salient, used, strict, words])| Tuning {
        turns: sizes.0,
        reply_tokens: sizes.1,
        index_bytes: sizes.2,
        index_best: sizes.3,
        shrunk_bytes: sizes.4,
        search_candidates: sizes.5,
        stale_days: days.map(|days| days.0),
        archive_days: days.map(|days| days.0 + days.1),
        compressor: salient.then_some(Compressor::Salient),
        selector: used.then_some(Selector::MostUsed),
        replies: strict.then_some(ReplyPolicy::Strict),
        ranking: words.then_some(Ranking::Words),
        ..Tuning::default()
    })
}

proptest! {
    #[test]
    fn every_patch_parses_stays_in_range_and_changes_something(tuning in tunings(), replays in 0..20_u32) {
        tuning.validate().unwrap();
        let material = Material { replays, ..rich() };
        for kind in Kind::ALL {
            let Some(drafted) = draft(&bottleneck(kind), &tuning, &material).unwrap() else { continue };
            let parsed = Patch::parse(drafted.patch.bytes()).unwrap();
            prop_assert_eq!(&parsed, &drafted.patch);
            let after = changed(&tuning, parsed.changes());
            after.validate().unwrap();
            prop_assert_ne!(&after, &tuning, "{:?}", kind);
            let again = draft(&bottleneck(kind), &tuning, &material).unwrap();
            prop_assert_eq!(again, Some(drafted), "the same bottleneck gives the same patch");
        }
    }
}
