//! What stands before a task: skills that match it and the nearest example, by their scores, as far as there is room, and
//! unless the task, the operator or the brain has that off.

use std::path::Path;

use herm::backend::{Backend, BackendError, Capabilities, Completion, CompletionRequest, FinishReason, Router};
use herm::harness::replay;
use herm::memory::Arm;
use herm::skill::CreatedBy;
use herm::task::{LearningOptions, SettleMode, ShownAs, ShownSkill};
use herm::{BrainSource, Draft, Seed, StepKind, TaskLimits};
use herm_tests::brains::slug;

use super::exemplars::{CHECKED, always, finds, lamp, ran, says, small, tools};
use super::*;

fn large() -> Capabilities {
    Capabilities { preload_bytes: 6_000, ..Capabilities::default() }
}

fn skill(name: &str, description: &str, body: &str) -> (String, String) {
    (format!("skills/{name}.md"), format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n"))
}

const FINDS: &str = "Finds lamps and kettles. Use when someone asks where a lamp or a kettle is.";

fn expert() -> (String, String) {
    skill("find-lamps", FINDS, "Ask the cellar before the attic.")
}

/// Skills that have nothing to do with finding.
fn others() -> Vec<(String, String)> {
    ["bread", "taxes", "tulips", "violins"]
        .map(|about| skill(about, &format!("Says what to know of {about}."), &format!("All of {about}.")))
        .to_vec()
}

fn made(brains: &TempBrains, role: &str, files: Vec<(String, String)>) -> BrainId {
    let id: BrainId = "1".parse().expect("an id");
    let role = ("system.md".to_owned(), format!("{role}You find things.\n"));
    let all: Vec<(String, String)> = std::iter::once(role).chain(files).collect();
    let files: Vec<(&str, &[u8])> = all.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect();
    let seed = BrainSource::Seed(Seed { id: &id, files: &files });
    let (brain, _) = herm::Brain::hydrate(&brains.layout(), &id, &seed, &brains.opening()).expect("a brain");
    brain.close().expect("closed");
    id
}

/// The agent has written a skill.
fn learned(brains: &TempBrains, name: &str, description: &str, body: &str) {
    let mut brain = brains.open("1").expect("opened");
    let mut draft = Draft::new();
    let (_, text) = skill(name, description, body);
    brain.edit(&mut draft).create_skill(&slug(name), &text, CreatedBy::Agent).expect("made");
    brain.settle(&draft, StepKind::Maintenance, "learned").expect("settled");
    brain.close().expect("closed");
}

fn names(shown: &[ShownSkill]) -> Vec<(&str, ShownAs)> {
    shown.iter().map(|shown| (shown.skill.as_str(), shown.shown_as)).collect()
}

async fn replays(brains: &TempBrains, id: &BrainId, steps: std::ops::RangeInclusive<u64>) {
    for seq in steps {
        let report =
            replay(&brains.layout(), id, seq, &tools(), &brains.path().join("replays")).await.expect("a replay");
        assert!(report.is_same() && report.same_prompt, "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_skills_those_that_match_are_put_before_the_task_with_their_score() {
    let brains = TempBrains::new();
    let id = made(&brains, "", [others(), vec![expert()]].concat());
    let (outcome, asked) = ran(&brains, always(), large(), "Where is the lamp?", &lamp()).await;
    assert_eq!(names(&outcome.shown), [("find-lamps", ShownAs::Skill)]);
    let score = outcome.shown[0].score.expect("a score");
    assert!((0.15..=1.0).contains(&score), "{score}");
    assert!(asked[0].messages[0].content.contains("# Procedure: find-lamps\n\nAsk the cellar"));
    let (outcome, asked) = ran(&brains, always(), large(), "Where is the globe?", &lamp()).await;
    assert!(outcome.shown.is_empty() && !asked[0].messages[0].content.contains("# Procedure"));
    replays(&brains, &id, 2..=3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brain_with_few_skills_shows_all_of_them_where_they_have_room_together() {
    for (bytes, shown) in [(6_000, 3), (60, 1)] {
        let brains = TempBrains::new();
        let few = [others().split_off(2), vec![expert()]].concat();
        let id = made(&brains, "", few);
        let can = Capabilities { preload_bytes: bytes, ..small() };
        let (outcome, _) = ran(&brains, always(), can, "Where is the globe?", &lamp()).await;
        assert_eq!(outcome.shown.len(), if shown == 3 { 3 } else { 0 }, "{:?}", outcome.shown);
        assert!(outcome.shown.iter().all(|shown| shown.score == Some(0.0)));
        let (outcome, _) = ran(&brains, always(), can, "Where is the lamp?", &lamp()).await;
        assert_eq!((outcome.shown.len(), outcome.shown[0].skill.as_str()), (shown, "find-lamps"));
        replays(&brains, &id, 2..=3).await;
    }
}

/// A model that says the same whatever it is asked.
#[derive(Debug)]
struct Stubborn;

#[async_trait]
impl Backend for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn capabilities(&self) -> Capabilities {
        small()
    }

    async fn complete(&self, _: &CompletionRequest) -> Result<Completion, BackendError> {
        let (text, model) = (says("box 1"), "stubborn-1".to_owned());
        Ok(Completion { text, finish: FinishReason::Stop, model, tokens: None, attestation: None })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curated_skill_of_every_family_stands_before_each_of_its_tasks() {
    let families = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seed/families");
    let mut seen = 0;
    for family in std::fs::read_dir(&families).expect("families").flatten().map(|entry| entry.path()) {
        let text = |name: &str| std::fs::read_to_string(family.join(name)).expect("a file");
        let curated = text("skill.md");
        let name = curated.lines().find_map(|line| line.strip_prefix("name: ")).expect("a name").to_owned();
        let body = curated.rsplit("---").next().expect("a body").trim().to_owned();
        let brains = TempBrains::new();
        let id = made(&brains, &text("system.md"), vec![(format!("skills/{name}.md"), curated)]);
        let learning = LearningOptions { preload: true, ..LearningOptions::OFF };
        let router = Router::single(Arc::new(Stubborn) as Arc<dyn Backend>);
        let harness =
            builder(&brains).toolbox(tools()).router(router).learning(learning).evolving(None).build().expect("built");
        for line in text("tasks.jsonl").lines() {
            let input: Value = serde_json::from_str(line).expect("a task");
            let limits = TaskLimits { turns: 1, ..TaskLimits::default() };
            let asked = Task { limits, keep: SettleMode::DryRun, ..task(input["input"].as_str().expect("an input")) };
            let outcome = harness.run(&id, asked).await.expect("an outcome");
            assert_eq!(names(&outcome.shown), [(name.as_str(), ShownAs::Skill)], "{line}");
            assert!(outcome.shown[0].arm == Arm::Shown && outcome.shown[0].score.is_some() && !body.is_empty());
            seen += 1;
        }
        harness.shutdown().await.expect("closed");
    }
    assert!(seen >= 7 * 80, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_example_and_the_expert_skill_that_matches_stand_before_the_task_together() {
    let kettle = [finds("kettle", "cellar"), says("box 42")];
    let small_room = Capabilities { preload_bytes: 100, ..small() };
    for (can, as_what, both) in
        [(large(), ShownAs::Example, true), (small(), ShownAs::Plan, true), (small_room, ShownAs::Plan, false)]
    {
        let brains = TempBrains::new();
        let id = made(&brains, CHECKED, vec![expert()]);
        ran(&brains, always(), can, "Where is the lamp?", &lamp()).await;
        let (outcome, asked) = ran(&brains, always(), can, "Where is the kettle?", &kettle).await;
        let expected = [("how-to-find", as_what), ("find-lamps", ShownAs::Skill)];
        assert_eq!(names(&outcome.shown), if both { &expected[..] } else { &expected[..1] });
        let prompt = &asked[0].messages[0].content;
        assert!(prompt.contains("The lamp is in box 28."), "{prompt}");
        assert_eq!(prompt.contains("# Procedure: find-lamps"), both, "{prompt}");
        replays(&brains, &id, 2..=3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learned_skill_neither_stands_beside_an_example_nor_before_the_skill_of_an_expert() {
    let brains = TempBrains::new();
    let id = made(&brains, CHECKED, [others(), vec![expert()]].concat());
    learned(&brains, "a-lamp-finder", FINDS, "Ask the attic before the cellar.");
    // Before there is an example both stand, the expert's first; with room for one, that one alone.
    let (outcome, _) = ran(&brains, always(), Capabilities { preload_bytes: 40, ..large() }, "A lamp?", &lamp()).await;
    assert_eq!(names(&outcome.shown), [("find-lamps", ShownAs::Skill)]);
    let no_examples = LearningOptions { examples: false, ..always() };
    let (outcome, _) = ran(&brains, no_examples, large(), "Where is the lamp?", &lamp()).await;
    assert_eq!(names(&outcome.shown), [("find-lamps", ShownAs::Skill), ("a-lamp-finder", ShownAs::Skill)]);
    let (outcome, _) = ran(&brains, always(), large(), "Where is the lamp?", &lamp()).await;
    assert_eq!(names(&outcome.shown), [("how-to-find", ShownAs::Example), ("find-lamps", ShownAs::Skill)]);
    replays(&brains, &id, 3..=5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_prevails_over_the_operator_and_the_operator_over_the_brain() {
    let manifest = |preload: &str| {
        ("manifest.json".to_owned(), format!(r#"{{"schema":"herm/manifest@1","name":"FINDER"{preload}}}"#))
    };
    let tuning =
        |preload: &str| ("tuning.json".to_owned(), format!(r#"{{"schema":"herm/tuning@1","preload":{preload}}}"#));
    let off = LearningOptions { preload: false, ..always() };
    for (files, learning, of_task, stands) in [
        (vec![manifest("")], always(), None, true),
        (vec![manifest(r#","preload":false"#)], always(), None, false),
        (vec![manifest(r#","preload":false"#), tuning("true")], always(), None, true),
        (vec![manifest(r#","preload":true"#), tuning("false")], always(), None, false),
        (vec![manifest(r#","preload":true"#)], off, None, false),
        (vec![manifest("")], always(), Some(false), false),
        (vec![tuning("false")], off, Some(true), true),
    ] {
        let brains = TempBrains::new();
        let said = format!("{files:?} {} {of_task:?}", learning.preload);
        let id = made(&brains, CHECKED, [files, vec![expert()]].concat());
        for example in [false, true] {
            let harness = builder(&brains)
                .toolbox(tools())
                .router(Router::single(Arc::new(ScriptedBackend::new(lamp()).capable(large())) as Arc<dyn Backend>))
                .learning(learning)
                .evolving(None)
                .build()
                .expect("a harness");
            let asked = Task { preload: of_task, ..task("Where is the lamp?") };
            let outcome = harness.run(&id, asked).await.expect("an outcome");
            harness.shutdown().await.expect("closed");
            let expected = [("how-to-find", ShownAs::Example), ("find-lamps", ShownAs::Skill)];
            let stood = if example { &expected[..] } else { &expected[1..] };
            assert_eq!(names(&outcome.shown), if stands { stood } else { &[] }, "{said}");
        }
        replays(&brains, &id, 2..=3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_points_at_a_skill_or_repeats_it_or_the_role_is_not_learned() {
    let said = |body: &str| {
        json!({ "action": "create", "name": "lamp-way", "description": "Use when a lamp is sought.", "body": body })
            .to_string()
    };
    for (body, why) in [
        ("Load skill find-lamps. Then follow its steps.", "it only points at skill find-lamps"),
        ("Ask the cellar before the attic.", "it says what skill find-lamps says"),
    ] {
        let brains = TempBrains::new();
        made(&brains, CHECKED, vec![expert()]);
        let backend = ScriptedBackend::new(lamp()).capable(large()).synthesising(said(body));
        let learning = LearningOptions { synthesis: true, ..always() };
        let harness = builder(&brains)
            .toolbox(tools())
            .backend(backend)
            .learning(learning)
            .evolving(None)
            .build()
            .expect("built");
        let id: BrainId = "1".parse().expect("an id");
        let outcome = harness.run(&id, task("Where is the lamp?")).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
        assert!(outcome.warnings.iter().any(|warning| warning.contains(why)), "{:?}", outcome.warnings);
        assert!(!reader(&brains).skills().expect("skills").entries().any(|entry| entry.name == "lamp-way"));
        replays(&brains, &id, 2..=2).await;
    }
    let brains = TempBrains::new();
    let id = made(&brains, "", Vec::new());
    let content = |body: &str| format!("---\nname: finding\ndescription: Find things\n---\n{body}\n");
    let create =
        |body: &str| call("skill_manage", json!({ "action": "create", "name": "finding", "content": content(body) }));
    let words = [create("You find things."), create("Call find with the cellar first."), ANSWER.to_owned()];
    let harness = harness(&brains, ScriptedBackend::new(words));
    let outcome = harness.run(&id, task("Where is the lamp?")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    assert!(outcome.calls[0].summary.contains("nothing that the role"), "{:?}", outcome.calls);
    assert_eq!(outcome.skills_changed.len(), 1, "{:?}", outcome.calls);
    let work = brains.path().join("replays");
    let report = replay(&brains.layout(), &id, 2, &toolbox(), &work).await.expect("a replay");
    assert!(report.is_same() && report.same_prompt, "{report:?}");
}
