use std::sync::Arc;

use proptest::prelude::*;

use super::material::BackendPricing;
use super::*;
use crate::backend::{Capabilities, Chain, Price, RetryPolicy, ScriptedBackend};
use crate::bottleneck::BrainStats;
use crate::brain::BrainManifest;
use crate::evaluation::EvaluationCheck;
use crate::task::TaskStatus;

fn bottleneck(kind: BottleneckKind) -> Bottleneck {
    Bottleneck { kind, subject: None, found: 1e6, threshold: kind.threshold(), count: 9, of: 10 }
}

fn rich() -> EvaluationInputs {
    let task = |number: usize| WrittenTask {
        name: format!("task {number}"),
        input: "contract A { }".to_owned(),
        replies: None,
        limits: None,
        checks: vec![EvaluationCheck::Status(TaskStatus::Converged)],
    };
    EvaluationInputs {
        voice: BackendPricing::Embedded,
        replays: 12,
        everyday: (1..=4).map(task).collect(),
        unfinished: (1..=6).map(task).collect(),
        context_limit: 16 << 10,
        query: "vault".to_owned(),
    }
}

/// The same of a brain whose backend has a price.
fn spoken() -> EvaluationInputs {
    EvaluationInputs { voice: BackendPricing::Priced, ..rich() }
}

/// A brain with more skills than the prompt has room for, a large memory, and a whitelist.
fn scene(tuning: &Tuning) -> DraftContext {
    let tool = |name: &str, is_harmless: bool| ToolFacts {
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        schema: serde_json::json!({
            "type": "object", "required": ["text"], "additionalProperties": false,
            "properties": { "text": { "type": "string" }, "most": { "type": "integer", "minimum": 1 } },
        }),
        is_harmless,
    };
    DraftContext {
        tuning: tuning.clone(),
        standing: BrainStats { own_skills: 40, unused: 30, index_fits: false, rows: 1_000_000 },
        role: "You look at contracts.\n".to_owned(),
        manifest: Some(
            BrainManifest::parse(br#"{"schema":"herm/manifest@1","name":"A","tools":["scan","skill_view"]}"#).unwrap(),
        ),
        skills: std::collections::BTreeSet::new(),
        tools: vec![tool("scan", true), tool("skill_view", true), tool("outline", true), tool("web_fetch", false)],
    }
}

/// The setting that the templates change.
fn settings(kind: BottleneckKind, tuning: &Tuning) -> Vec<PatchChange> {
    settings_for(kind, &scene(tuning))
}

fn about(kind: BottleneckKind, subject: &str, count: u64, of: u64) -> Bottleneck {
    let found = count as f64 / of as f64;
    Bottleneck { kind, subject: Some(subject.to_owned()), found, threshold: kind.threshold(), count, of }
}

/// A tuning with the changes of a patch, as applying it makes it.
fn changed(tuning: &Tuning, changes: &[PatchChange]) -> Tuning {
    let mut tuning = tuning.clone();
    for change in changes {
        match change {
            PatchChange::Constants { set } => tuning.merge(set).unwrap(),
            PatchChange::Component { component, to } => tuning.swap(*component, to).unwrap(),
            PatchChange::Role { .. } | PatchChange::Files { .. } => {}
            other => panic!("a template drafted {other:?}"),
        }
    }
    tuning
}

#[test]
fn a_brain_as_built_gets_the_patch_of_its_bottleneck() {
    let built = Tuning::default();
    let after = |kind| changed(&built, &settings(kind, &built));
    assert_eq!(
        after(BottleneckKind::ContextPressure),
        Tuning { compressor: Some(Compressor::Salient), ..built.clone() }
    );
    assert_eq!(after(BottleneckKind::IndexMisses), Tuning { selector: Some(Selector::MostUsed), ..built.clone() });
    assert_eq!(after(BottleneckKind::SlowSearch), Tuning { search_candidates: Some(200), ..built.clone() });
    assert_eq!(after(BottleneckKind::LowRecall), Tuning { ranking: Some(SearchRanking::Words), ..built.clone() });
    let sooner = Tuning { stale_days: Some(15), archive_days: Some(45), ..built.clone() };
    assert_eq!(after(BottleneckKind::UnusedSkills), sooner);
    // A tuning only lowers limits: there is nothing to raise.
    for kind in [
        BottleneckKind::Nudges,
        BottleneckKind::CutReplies,
        BottleneckKind::Ceiling,
        BottleneckKind::ToolErrors,
        BottleneckKind::SlowTool,
        BottleneckKind::SlowReplies,
    ] {
        assert_eq!(settings(kind, &built), [], "{kind:?}");
    }
}

#[test]
fn where_the_first_template_is_in_force_the_next_one_follows() {
    let salient = Tuning { compressor: Some(Compressor::Salient), ..Tuning::default() };
    assert_eq!(changed(&salient, &settings(BottleneckKind::ContextPressure, &salient)).shrunk_bytes, Some(800));
    let used = Tuning { selector: Some(Selector::MostUsed), ..Tuning::default() };
    let wider = changed(&used, &settings(BottleneckKind::IndexMisses, &used));
    assert_eq!((wider.index_bytes, wider.index_best), (Some(24_000), Some(80)));
    let words = Tuning { ranking: Some(SearchRanking::Words), ..Tuning::default() };
    assert_eq!(changed(&words, &settings(BottleneckKind::LowRecall, &words)).search_candidates, Some(800));
    let strict = Tuning { replies: Some(ReplyPolicy::Strict), ..Tuning::default() };
    assert_eq!(changed(&strict, &settings(BottleneckKind::Nudges, &strict)).replies, Some(ReplyPolicy::Repairing));
    let short = Tuning { turns: Some(3), reply_tokens: Some(100), ..Tuning::default() };
    assert_eq!(changed(&short, &settings(BottleneckKind::Ceiling, &short)).turns, Some(8));
    assert_eq!(changed(&short, &settings(BottleneckKind::CutReplies, &short)).reply_tokens, Some(200));
}

#[test]
fn every_evaluation_has_goals_and_guards_and_rests_on_enough() {
    for kind in BottleneckKind::ALL {
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
    let poor = EvaluationInputs { replays: 0, everyday: Vec::new(), unfinished: Vec::new(), ..rich() };
    let drafted = |kind| draft(&bottleneck(kind), &scene(&Tuning::default()), &poor, &[]).unwrap();
    assert_eq!(drafted(BottleneckKind::IndexMisses), None);
    assert_eq!(drafted(BottleneckKind::LowRecall), None);
    let pressed = drafted(BottleneckKind::ContextPressure).expect("generated sessions need no tasks");
    assert_eq!(pressed.evaluation.parts.len(), 1);
}

#[test]
fn only_time_is_measured_more_than_once() {
    let timed = evaluation_for(&bottleneck(BottleneckKind::SlowSearch), &rich()).unwrap().unwrap();
    assert!(timed.repeat as usize >= crate::audit::NOISY_UNITS, "the verifier asks for as many");
    assert_eq!(evaluation_for(&bottleneck(BottleneckKind::ContextPressure), &rich()).unwrap().unwrap().repeat, 1);
}

#[test]
fn a_model_may_change_what_templates_change_and_nothing_else() {
    let read = |said: &str| model::read(said, "openai", "gpt-x", &scene(&Tuning::default()));
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
        (r#"{"title":"x","changes":[{"kind":"files","set":{"MEMORY.md":"x"}}]}"#, "nothing else"),
        (r#"{"title":"x","changes":[{"kind":"files","set":{"manifest.json":"{}"}}]}"#, "nothing else"),
        (r#"{"title":"x","changes":[{"kind":"files","remove":["skills/a.md"]}]}"#, "nothing else"),
        (r#"{"title":"x","changes":[{"kind":"migration","up":"DROP TABLE steps"}]}"#, "nothing else"),
        (r#"{"title":"x","changes":[{"kind":"tool","name":"scan","use":"outline"}]}"#, "nothing else"),
        (r#"{"title":"x","changes":[{"kind":"tools","allow":["scan","web_fetch"]}]}"#, "\"web_fetch\" is no tool"),
        (r#"{"title":"x","changes":[{"kind":"tools","allow":"scan"}]}"#, "a whitelist is a list"),
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

#[test]
fn a_model_may_write_the_role_a_skill_and_a_whitelist() {
    let said = serde_json::json!({
        "title": "Say it", "why": "replies cannot be used",
        "changes": [
            { "kind": "role", "content": "You look at contracts. Reply with one JSON object." },
            { "kind": "files", "set": { "skills/reply.md": "---\nname: reply\ndescription: How to reply.\n---\n# Reply\n" } },
            { "kind": "tools", "allow": ["scan", "outline"] },
        ],
    });
    let patch = model::read(&said.to_string(), "openai", "gpt-x", &scene(&Tuning::default())).unwrap();
    let [PatchChange::Role { content: Some(_), .. }, PatchChange::Files { .. }, PatchChange::Files { set, .. }] =
        patch.changes()
    else {
        panic!("{:?}", patch.changes());
    };
    let manifest = BrainManifest::parse(set["manifest.json"].as_bytes()).unwrap();
    assert_eq!((manifest.name.as_str(), manifest.tools.unwrap()), ("A", vec!["scan".to_owned(), "outline".to_owned()]));
}

#[test]
fn a_setting_that_cannot_change_anything_is_not_drafted() {
    let built = Tuning::default();
    let with = |kind, standing| {
        let scene = DraftContext { standing, ..scene(&built) };
        settings_for(kind, &scene)
    };
    let full = scene(&built).standing;
    // Every skill is shown: it does not matter which are chosen first.
    assert_eq!(with(BottleneckKind::IndexMisses, BrainStats { index_fits: true, ..full }), []);
    assert_ne!(with(BottleneckKind::IndexMisses, full), []);
    // A memory that is looked at whole either way.
    assert_eq!(with(BottleneckKind::SlowSearch, BrainStats { rows: 200, ..full }), []);
    assert_ne!(with(BottleneckKind::SlowSearch, BrainStats { rows: 201, ..full }), []);
    assert_eq!(with(BottleneckKind::LowRecall, BrainStats { rows: 1, ..full }), []);
    let words = Tuning { ranking: Some(SearchRanking::Words), ..built.clone() };
    let recall = |rows| {
        settings_for(
            BottleneckKind::LowRecall,
            &DraftContext { standing: BrainStats { rows, ..full }, ..scene(&words) },
        )
    };
    assert_eq!(recall(400), []);
    assert_ne!(recall(401), []);
}

#[test]
fn where_no_setting_helps_the_role_a_skill_or_the_whitelist_is_drafted() {
    let built = Tuning::default();
    let drafted = |bottleneck: &Bottleneck, scene: &DraftContext| {
        let drafted = draft(bottleneck, scene, &spoken(), &[]).unwrap().expect("a draft");
        assert_eq!(Patch::parse(drafted.patch.bytes()).unwrap(), drafted.patch);
        (drafted.aim, drafted.patch.changes().to_vec())
    };
    // Skills are listed again although the prompt shows all of them.
    let fits = DraftContext { standing: BrainStats { index_fits: true, ..scene(&built).standing }, ..scene(&built) };
    let (aim, changes) = drafted(&bottleneck(BottleneckKind::IndexMisses), &fits);
    let [PatchChange::Role { content: Some(role), .. }] = &changes[..] else { panic!("{changes:?}") };
    assert!(
        aim == DraftTarget::Role && role.starts_with("You look at contracts.\n\nAll your skills are listed."),
        "{role}"
    );
    // Once the role says it, there is nothing left to draft.
    let told = DraftContext { role: role.clone(), ..fits };
    assert_eq!(draft(&bottleneck(BottleneckKind::IndexMisses), &told, &spoken(), &[]).unwrap(), None);
    for kind in [BottleneckKind::Nudges, BottleneckKind::CutReplies, BottleneckKind::Ceiling] {
        assert_eq!(drafted(&bottleneck(kind), &scene(&built)).0, DraftTarget::Role, "{kind:?}");
    }
    assert_eq!(drafted(&about(BottleneckKind::NonConvergence, "stuck", 9, 10), &scene(&built)).0, DraftTarget::Role);
    assert_eq!(
        draft(&about(BottleneckKind::NonConvergence, "backend", 9, 10), &scene(&built), &spoken(), &[]).unwrap(),
        None
    );
    // A tool that fails now and then: how to call it. One that always fails: not any more.
    let (aim, changes) = drafted(&about(BottleneckKind::ToolErrors, "scan", 4, 10), &scene(&built));
    let [PatchChange::Files { set, .. }] = &changes[..] else { panic!("{changes:?}") };
    let skill = &set["skills/calling-scan.md"];
    assert!(aim == DraftTarget::Skill && skill.contains("- `text`: string, required\n"), "{skill}");
    crate::skill::guard::check_skill(skill).unwrap();
    let (aim, changes) = drafted(&about(BottleneckKind::ToolErrors, "scan", 10, 10), &scene(&built));
    let [PatchChange::Files { set, .. }] = &changes[..] else { panic!("{changes:?}") };
    assert!(aim == DraftTarget::Tools && !set["manifest.json"].contains("scan"), "{set:?}");
    // A tool that is there and not allowed, if it only reads the brain; who reaches further is for a person.
    let (aim, changes) = drafted(&about(BottleneckKind::ToolErrors, "outline", 6, 6), &scene(&built));
    assert!(aim == DraftTarget::Tools && format!("{changes:?}").contains("outline"), "{changes:?}");
    let far = draft(&about(BottleneckKind::ToolErrors, "web_fetch", 6, 6), &scene(&built), &spoken(), &[]).unwrap();
    assert_ne!(far.map(|drafted| drafted.aim), Some(DraftTarget::Tools));
    assert_eq!(drafted(&about(BottleneckKind::ToolErrors, "unknown-tool", 6, 6), &scene(&built)).0, DraftTarget::Role);
}

#[test]
fn what_the_embedded_backend_would_not_obey_is_named_and_not_drafted() {
    let built = Tuning::default();
    let failing = about(BottleneckKind::ToolErrors, "skill_view", 6, 9);
    for (one, said) in [
        (bottleneck(BottleneckKind::Nudges), "“Say it in the role: replies cannot be used” cannot be judged"),
        (failing, "“A skill that says how to call skill_view” cannot be judged"),
    ] {
        let (none, passed) = super::first(std::slice::from_ref(&one), &scene(&built), &rich(), &[]).unwrap();
        assert_eq!(none, None, "{one:?}");
        let rest = "the embedded backend obeys no role and no skill; give the brain a backend with a price";
        assert_eq!(passed, [format!("{said}: {rest}")]);
        let (drafted, passed) = super::first(std::slice::from_ref(&one), &scene(&built), &spoken(), &[]).unwrap();
        assert!(drafted.is_some() && passed.is_empty(), "{passed:?}");
    }
    // Which tools it may call it feels all the same.
    let vain = about(BottleneckKind::ToolErrors, "outline", 6, 6);
    assert_eq!(draft(&vain, &scene(&built), &rich(), &[]).unwrap().unwrap().aim, DraftTarget::Tools);
}

#[test]
fn what_was_tried_makes_room_for_the_next_template() {
    let strict = Tuning { replies: Some(ReplyPolicy::Strict), ..Tuning::default() };
    let one = bottleneck(BottleneckKind::Nudges);
    let first = draft(&one, &scene(&strict), &spoken(), &[]).unwrap().unwrap();
    assert_eq!(first.aim, DraftTarget::Setting);
    let tried = [first.patch.changes().to_vec()];
    let second = draft(&one, &scene(&strict), &spoken(), &tried).unwrap().unwrap();
    assert_eq!(second.aim, DraftTarget::Role);
    let both = [tried[0].clone(), second.patch.changes().to_vec()];
    let (none, passed) = super::first(&[one], &scene(&strict), &spoken(), &both).unwrap();
    assert_eq!((none, passed.len()), (None, 1));
    assert!(passed[0].ends_with("was tried on this runtime"), "{passed:?}");
}

fn chain(backend: ScriptedBackend) -> (Arc<ScriptedBackend>, Chain) {
    let backend = Arc::new(backend);
    (Arc::clone(&backend), Chain { backends: vec![backend], policy: RetryPolicy::default() })
}

const SAID: &str = r#"{"title":"Salient","changes":[{"kind":"component","component":"compressor","to":"salient"}]}"#;

#[tokio::test]
async fn a_model_is_asked_once_within_its_money_and_hears_of_no_task() {
    let priced = Capabilities { price: Some(Price { input: 1_000_000, output: 1_000_000 }), ..Capabilities::default() };
    let (backend, asking) = chain(ScriptedBackend::new([SAID]).capable(priced));
    let bottlenecks = [bottleneck(BottleneckKind::SlowReplies), bottleneck(BottleneckKind::ContextPressure)];
    let drafted = model::draft(asking, &bottlenecks, &scene(&Tuning::default()), &rich()).await.unwrap().unwrap();
    assert_eq!(drafted.bottleneck.kind, BottleneckKind::ContextPressure, "the first that can be evaluated");
    assert_eq!(drafted.author, Author::Model { backend: "scripted".to_owned(), model: "scripted".to_owned() });
    let asked = backend.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].messages.iter().all(|message| !message.content.contains("contract A")));
}

#[tokio::test]
async fn a_model_without_a_price_or_beyond_the_money_is_not_asked() {
    let dear = Capabilities { price: Some(Price { input: u64::MAX / 4, output: 1 }), ..Capabilities::default() };
    for capabilities in [Capabilities::default(), dear] {
        let (backend, asking) = chain(ScriptedBackend::new([SAID]).capable(capabilities));
        let error =
            model::draft(asking, &[bottleneck(BottleneckKind::ContextPressure)], &scene(&Tuning::default()), &rich())
                .await;
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
        ranking: words.then_some(SearchRanking::Words),
        ..Tuning::default()
    })
}

proptest! {
    #[test]
    fn every_patch_parses_stays_in_range_and_changes_something(tuning in tunings(), replays in 0..20_u32) {
        tuning.validate().unwrap();
        let material = EvaluationInputs { replays, ..rich() };
        for kind in BottleneckKind::ALL {
            let Some(drafted) = draft(&bottleneck(kind), &scene(&tuning), &material, &[]).unwrap() else { continue };
            let parsed = Patch::parse(drafted.patch.bytes()).unwrap();
            prop_assert_eq!(&parsed, &drafted.patch);
            let after = changed(&tuning, parsed.changes());
            after.validate().unwrap();
            prop_assert_eq!(after != tuning, drafted.aim == DraftTarget::Setting, "{:?}", kind);
            let again = draft(&bottleneck(kind), &scene(&tuning), &material, &[]).unwrap();
            prop_assert_eq!(again, Some(drafted), "the same bottleneck gives the same patch");
        }
    }
}
