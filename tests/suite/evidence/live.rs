//! What tasks leave as they run, and that replaying them does not depend on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herm::backend::{BackendError, Completion, ErrorClass, FinishReason, ScriptedBackend};
use herm::harness::replay;
use herm::ids::{Random, SystemRandom};
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec, Toolbox};
use herm::{Error, Harness, Task};
use herm_tests::signer;
use serde_json::{Map, Value, json};

use super::*;

const ANSWER: &str = r#"{"summary": "all is well"}"#;

/// Says what it is told to in its summary.
struct Parrot(ToolSpec);

#[async_trait]
impl Tool for Parrot {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> herm::Result<ToolOutput> {
        let said = args.get("say").and_then(Value::as_str).unwrap_or_default();
        match said {
            "fail" => Err(Error::unavailable("it is broken")),
            said => Ok(ToolOutput::new("said", said)),
        }
    }
}

fn toolbox() -> Toolbox {
    let mut toolbox = herm_tools::standard().expect("the standard tools");
    let schema = json!({ "type": "object", "properties": { "say": { "type": "string" } } });
    let card = ToolSpec::new("parrot", "Says it.", Permission::Read, schema);
    toolbox.add(Arc::new(Parrot(card))).expect("added");
    toolbox
}

fn parrot(say: &str) -> String {
    json!({ "tool": "parrot", "args": { "say": say } }).to_string()
}

fn harness(brains: &TempBrains, backend: ScriptedBackend) -> Harness {
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    Harness::builder()
        .brains(brains.path())
        .toolbox(toolbox())
        .clock(brains.clock())
        .random(random)
        .signer(signer())
        .wait(Duration::from_secs(20))
        .backend(backend)
        .build()
        .expect("a harness")
}

async fn run(brains: &TempBrains, backend: ScriptedBackend, task: Task) -> herm::Outcome {
    let harness = harness(brains, backend);
    let outcome = harness.run(&"1".parse().expect("an id"), task).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    outcome
}

fn summaries(brains: &TempBrains) -> Vec<String> {
    let rows = reader(brains).evidence_view().recent(EVER, 100).expect("rows");
    rows.into_iter().rev().map(|(_, row)| row.summary).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_leaves_its_calls_its_session_and_its_turn() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let view = json!({ "tool": "skill_view", "args": { "name": "flat-one" } }).to_string();
    let words = [parrot("fine"), view, parrot("fail"), "{\"tool\": \"nothing\", \"args\": {}}".to_owned()];
    let backend = ScriptedBackend::new(words.into_iter().chain([ANSWER.to_owned()]));
    let outcome = run(&brains, backend, Task::new("check the\n pump")).await;
    let reader = reader(&brains);
    let rows = reader.evidence_view().of_skill(&slug("flat-one"), EVER, 100).expect("rows");
    let seen: Vec<(i64, &str, &str, u32)> =
        rows.iter().rev().map(|(id, row)| (*id, row.tool.as_str(), row.status.name(), row.turn)).collect();
    assert_eq!(
        seen,
        [(3, "parrot", "failed", 3), (4, "nothing", "refused", 4)],
        "a call belongs to the skills that the session had loaded before it"
    );
    let all = reader.evidence_view().recent(EVER, 100).expect("rows");
    let kept: Vec<Option<String>> =
        all.iter().rev().map(|(_, row)| row.arguments.as_ref().map(ToString::to_string)).collect();
    let expected = [Some(r#"{"say":"fine"}"#), Some(r#"{"name":"flat-one"}"#), Some(r#"{"say":"fail"}"#), None];
    assert_eq!(kept, expected.map(|text| text.map(str::to_owned)), "a call that was refused unread has none");
    let told = serde_json::to_value(&all[1].1).expect("JSON");
    assert_eq!(told["arguments"], json!({ "say": "fail" }));
    assert!(serde_json::to_value(&all[0].1).expect("JSON").get("arguments").is_none());
    let at = brains.clock().now();
    let known = SessionEvidence {
        task: outcome.task.to_string(),
        at,
        completed: true,
        interrupted: false,
        model: outcome.model.clone().expect("a model"),
        platform: outcome.backend.clone(),
        turns: 5,
        calls: 4,
        errors: 2,
        skills: vec![slug("flat-one")],
        origin: SessionOrigin::Live,
    };
    let sessions =
        reader.evidence_view().sessions_with(&slug("flat-one"), EVER, Timestamp(i64::MAX)).expect("sessions");
    assert_eq!(sessions, std::slice::from_ref(&known));
    let turn = TurnEvidence {
        task: known.task,
        number: 1,
        at,
        model: known.model,
        platform: known.platform,
        asked: "check the pump".to_owned(),
        answered: ANSWER.to_owned(),
    };
    assert_eq!(reader.evidence_view().recent_turns(EVER, 9).expect("turns"), [(1, turn)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_that_stands_in_the_prompt_or_was_commanded_has_every_call() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let words = [parrot("fine"), parrot("fail"), ANSWER.to_owned()];
    run(&brains, ScriptedBackend::new(words), Task::new("/flat-one and so on")).await;
    let rows = reader(&brains).evidence_view().of_skill(&slug("flat-one"), EVER, 100).expect("rows");
    assert_eq!(numbers(&rows), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_failed_leaves_its_evidence_too() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let said = Completion {
        text: parrot("fine"),
        finish: FinishReason::Stop,
        model: "m".to_owned(),
        tokens: None,
        attestation: None,
    };
    let words = vec![Ok(said), Err(BackendError::new(ErrorClass::Auth, "the key is wrong"))];
    let outcome = run(&brains, ScriptedBackend::playing(words), Task::new("do it")).await;
    assert_eq!(outcome.status, herm::TaskStatus::Failed);
    let summary = reader(&brains).evidence_view().summary(EVER).expect("a summary");
    assert_eq!((summary.tool_events, summary.turn_events, summary.session_events), (1, 1, 1));
    let (_, turn) = reader(&brains).evidence_view().recent_turns(EVER, 1).expect("turns").remove(0);
    assert_eq!((turn.model.as_str(), turn.asked.as_str(), turn.answered.as_str()), ("m", "do it", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_control_characters_and_long_texts_do_not_become_evidence() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let key = format!("sk-ant-{}", "a1B2".repeat(8));
    let words = [
        parrot(&format!("found {key}\n in \u{7}the\u{0} log")),
        // A summary is cut after 160 characters: what is left of the key is no key any more.
        parrot(&format!("{} {key}", "x".repeat(140))),
        parrot(&"word ".repeat(400)),
    ];
    let asked = format!("my key is {key}, keep it {}", "word ".repeat(400));
    run(&brains, ScriptedBackend::new(words.into_iter().chain([ANSWER.to_owned()])), Task::new(asked)).await;
    let summaries = summaries(&brains);
    assert_eq!(summaries[0], "found [redacted] in the log");
    assert_eq!(summaries[1], format!("{} [redacted]…", "x".repeat(140)));
    assert!(summaries[2].chars().count() <= 161, "{}", summaries[2]);
    let (_, turn) = reader(&brains).evidence_view().recent_turns(EVER, 1).expect("turns").remove(0);
    assert_eq!((turn.asked.chars().count(), turn.asked.ends_with('…')), (500, true));
    assert!(turn.asked.starts_with("my key is [redacted], keep it word word "), "{}", turn.asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_subscribers_words_do_not_become_evidence() {
    let input = "our unreleased vault at 0xabc holds all of the treasury funds for now";
    for (who, shared) in [(Some("alice"), false), (None, true)] {
        let brains = TempBrains::new();
        brains.make("1").close().expect("closed");
        let words = [parrot("it said: vault at 0xABC holds all of the treasury!"), parrot("nothing of note")];
        let task = Task { subscriber: who.map(|who| who.parse().expect("an id")), ..Task::new(input) };
        run(&brains, ScriptedBackend::new(words.into_iter().chain([ANSWER.to_owned()])), task).await;
        let (_, turn) = reader(&brains).evidence_view().recent_turns(EVER, 1).expect("turns").remove(0);
        let quoted = "it said: vault at 0xABC holds all of the treasury!";
        let expected =
            if shared { [quoted, input, ANSWER] } else { ["[quotes the subscriber]", "[private]", "[private]"] };
        let summaries = summaries(&brains);
        assert_eq!([summaries[0].as_str(), &turn.asked, &turn.answered], expected);
        assert_eq!(summaries[1], "nothing of note");
        // What a private task gave to tools is not kept at all.
        let rows = reader(&brains).evidence_view().recent(EVER, 9).expect("rows");
        assert_eq!(rows.iter().filter(|(_, row)| row.arguments.is_some()).count(), if shared { 2 } else { 0 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_private_task_gives_to_tools_and_skills_do_not_become_evidence() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let words = [
        json!({ "tool": "Alice Smith, 7 Elm Street\u{1b}[31m\nx", "args": {} }).to_string(),
        json!({ "tool": "alice_smith", "args": {} }).to_string(),
        json!({ "tool": "skill_view", "args": { "name": "alice-smith-divorce-fund" } }).to_string(),
        parrot("the account \"alice smith\" has 12345 in /home/alice"),
    ];
    let task = Task { subscriber: Some("alice".parse().expect("an id")), ..Task::new("my name is Alice Smith") };
    run(&brains, ScriptedBackend::new(words.into_iter().chain([ANSWER.to_owned()])), task).await;
    let rows = reader(&brains).evidence_view().recent(EVER, 10).expect("rows");
    let told: Vec<(String, String)> = rows.into_iter().rev().map(|(_, row)| (row.tool, row.summary)).collect();
    let everything = format!("{told:?}").to_lowercase();
    assert!(!everything.contains("alice") && !everything.contains("elm") && !everything.contains("12345"), "{told:?}");
    assert_eq!(told[0].0, "unknown-tool");
    assert_eq!(told[3], ("parrot".to_owned(), "the account {text} has # in {path}".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_named_its_evidence_replays_whatever_became_of_evidence_since() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let learn = |n: u32| {
        let words = (0..5).map(move |call| parrot(&format!("{n}-{call}"))).chain([ANSWER.to_owned()]);
        let skill = json!({
            "action": "create", "name": format!("learned-{n}"),
            "description": if n == 1 { "Counts pumps. Use when pumps are counted." } else { "Bakes a cake." },
            "body": format!("# L\n\ntext {n}\n")
        });
        ScriptedBackend::new(words).synthesising(skill.to_string())
    };
    let replays = async |what: &str| {
        let work = tempfile::tempdir().expect("a directory");
        for seq in 2..=3 {
            let id = "1".parse().expect("an id");
            let replayed = replay(&brains.layout(), &id, seq, &toolbox(), work.path()).await.expect("replayed");
            assert!(replayed.is_same(), "{what}: {replayed:?}");
        }
    };
    run(&brains, learn(1), Task::new("learn it")).await;
    let mut brain = brains.open("1").expect("opened");
    let at = brain.clock().now();
    let calls: Vec<Evidence> = (0..30).map(|n| call("s", "echo", &n.to_string(), &[], at)).collect();
    brain.import_evidence([imported("s", &calls, 2, at)]).expect("taken in");
    brain.close().expect("closed");
    let outcome = run(&brains, learn(2), Task::new("learn it")).await;
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
    let text = std::fs::read_to_string(brains.file("1", "skills/learned-2.md")).expect("the skill");
    assert!(text.contains("evidence: \"36 37 38 39 40\""), "{text}");
    replays("taken in between").await;
    let mut brain = brains.open("1").expect("opened");
    brain.import_evidence([imported("later", &calls, 2, at)]).expect("taken in");
    brain.close().expect("closed");
    replays("taken in later").await;
    brains.clock.advance_ms(100 * DAY);
    let mut brain = brains.open("1").expect("opened");
    assert!(brain.prune_evidence(90, u64::MAX).expect("pruned") > 0);
    brain.close().expect("closed");
    replays("let go").await;
}
