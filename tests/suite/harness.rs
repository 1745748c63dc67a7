//! A whole task through the library: scripted words, real brains, real tools.

mod answers;
mod direct_edits;
mod exemplars;
mod failures;
mod gate;
mod hostile_examples;
mod learning;
mod order;
mod preload;
mod private_words;
mod receipts;
mod replays;
mod skills;
mod taught;
mod trials;
mod verified;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herm::backend::ScriptedBackend;
use herm::ids::{Random, SystemRandom};
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec, Toolbox};
use herm::{BrainId, Harness, HarnessBuilder, Reader, Result, Task};
use herm_tests::{TempBrains, signer};
use serde_json::{Map, Value, json};

/// A tool made of a function.
struct Made<F> {
    card: ToolSpec,
    run: F,
}

#[async_trait]
impl<F> Tool for Made<F>
where
    F: Fn(&Map<String, Value>) -> Result<String> + Send + Sync + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput> {
        (self.run)(&args).map(|text| ToolOutput::new(text, "done"))
    }
}

fn made(name: &str, run: impl Fn(&Map<String, Value>) -> Result<String> + Send + Sync + 'static) -> Arc<dyn Tool> {
    let schema =
        json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "additionalProperties": false });
    Arc::new(Made { card: ToolSpec::new(name, "A tool of the tests.", Permission::Read, schema), run })
}

/// The standard tools, one that echoes and one that always fails.
fn toolbox() -> Toolbox {
    let mut toolbox = herm_tools::standard().expect("the standard tools");
    toolbox.add(made("echo", |args| Ok(format!("n is {}", args.get("n").unwrap_or(&Value::Null))))).expect("added");
    toolbox.add(made("broken", |_| Err(herm::Error::unavailable("it is broken")))).expect("added");
    toolbox
}

fn builder(brains: &TempBrains) -> HarnessBuilder {
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    Harness::builder()
        .brains(brains.path())
        .toolbox(toolbox())
        .clock(brains.clock())
        .random(random)
        .signer(signer())
        .wait(Duration::from_secs(20))
}

fn harness(brains: &TempBrains, backend: ScriptedBackend) -> Harness {
    builder(brains).backend(backend).build().expect("a harness")
}

/// A brain from the tests' seed that may use every tool.
fn brain(brains: &TempBrains) -> BrainId {
    brains.make("1").close().expect("closed");
    "1".parse().expect("an id")
}

fn call(tool: &str, args: Value) -> String {
    json!({ "tool": tool, "args": args }).to_string()
}

fn echo(n: u64) -> String {
    call("echo", json!({ "n": n }))
}

const ANSWER: &str = r#"{"summary": "all is well"}"#;

fn reader(brains: &TempBrains) -> Reader {
    Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader")
}

fn task(input: &str) -> Task {
    Task::new(input)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_settles_and_has_a_receipt() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let harness = harness(&brains, ScriptedBackend::new([echo(1), ANSWER.to_owned()]));
    let outcome = harness.run(&id, task("do it")).await.expect("an outcome");
    assert_eq!(outcome.answer.as_deref(), Some(ANSWER));
    assert_eq!((outcome.turns, outcome.calls.len(), outcome.billable), (2, 1, true));
    let settled = outcome.settled.expect("settled");
    assert_eq!(settled.version, 2);
    assert!(outcome.receipt.expect("a receipt")["payloadType"].is_string());
    harness.shutdown().await.expect("closed");
    let counts = reader(&brains).counts(&reader(&brains).skills().expect("skills")).expect("counts");
    assert_eq!((counts.messages, counts.tasks), (2, 1));
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_what_happens_in_order() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let harness = harness(&brains, ScriptedBackend::new([echo(1), "hm".to_owned(), ANSWER.to_owned()]));
    let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let watch = herm::RunOptions { events: Some(events), ..herm::RunOptions::default() };
    harness.run_with(&id, task("do it"), watch).await.expect("an outcome");
    let mut names = Vec::new();
    while let Some(event) = heard.recv().await {
        names.push(serde_json::to_value(&event).expect("JSON")["event"].as_str().expect("a name").to_owned());
    }
    assert_eq!(
        names,
        [
            "started",
            "turn_started",
            "reply",
            "tool_call",
            "tool_result",
            "turn_started",
            "reply",
            "nudge",
            "turn_started",
            "reply",
            "settled"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_leaves_the_brain_as_it_was() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let before = reader(&brains).lock().clone();
    let harness =
        harness(&brains, ScriptedBackend::new([call("note", json!({ "key": "k", "value": "v" })), ANSWER.to_owned()]));
    let dry = Task { keep: herm::task::SettleMode::DryRun, ..task("do it") };
    let outcome = harness.run(&id, dry).await.expect("an outcome");
    assert!(outcome.settled.is_none() && outcome.receipt.is_none() && outcome.answer.is_some());
    harness.shutdown().await.expect("closed");
    assert_eq!(*reader(&brains).lock(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whitelist_of_a_brain_holds_in_the_prompt_and_at_dispatch() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    // The manifest is part of the role: put it there by hand and take it over.
    let manifest = r#"{"schema": "herm/manifest@1", "name": "T", "tools": ["echo", "no-such-tool"]}"#;
    std::fs::write(brains.file("1", "manifest.json"), manifest).expect("written");
    let report = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut open = herm::Brain::open(&brains.layout(), &id, &report).expect("opened");
    open.adopt().expect("adopted");
    open.close().expect("closed");
    let backend = Arc::new(ScriptedBackend::new([call("broken", json!({})), echo(1), ANSWER.to_owned()]));
    let router = herm::backend::Router::single(backend.clone());
    let harness = builder(&brains).router(router).build().expect("a harness");
    let outcome = harness.run(&id, task("do it")).await.expect("an outcome");
    assert_eq!(outcome.calls[0].status, herm::memory::EvidenceStatus::Refused);
    let system = backend.asked()[0].messages[0].content.clone();
    assert!(system.contains("- echo:") && !system.contains("broken") && !system.contains("skill_view"), "{system}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whitelist_of_unknown_tools_only_means_no_tools_and_no_guard() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    std::fs::write(
        brains.file("1", "manifest.json"),
        r#"{"schema": "herm/manifest@1", "name": "T", "tools": ["no-such-tool"]}"#,
    )
    .expect("written");
    let report = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut open = herm::Brain::open(&brains.layout(), &id, &report).expect("opened");
    open.adopt().expect("adopted");
    open.close().expect("closed");
    let outcome = harness(&brains, ScriptedBackend::new([ANSWER])).run(&id, task("do it")).await.expect("an outcome");
    assert_eq!(outcome.answer.as_deref(), Some(ANSWER));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_subscriber_said_does_not_reach_another() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let says = |words: Vec<String>| harness(&brains, ScriptedBackend::new(words));
    let alice = Task { subscriber: Some("alice".parse().expect("an id")), ..task("my code word is zanzibar") };
    let noted = call("note", json!({ "key": "code", "value": "zanzibar" }));
    let remembered = call("memory", json!({ "action": "add", "target": "user", "content": "likes zanzibar" }));
    let for_all = call("memory", json!({ "action": "add", "target": "memory", "content": "zanzibar is the word" }));
    let first = says(vec![noted, remembered, for_all, ANSWER.to_owned()]);
    first.run(&id, alice).await.expect("an outcome");
    first.shutdown().await.expect("closed");
    for (who, sees) in [("alice", true), ("bob", false), ("", false)] {
        let backend =
            Arc::new(ScriptedBackend::new([call("recall", json!({ "query": "zanzibar" })), ANSWER.to_owned()]));
        let router = herm::backend::Router::single(backend.clone());
        let harness = builder(&brains).router(router).build().expect("a harness");
        let subscriber = if who.is_empty() { None } else { Some(who.parse().expect("an id")) };
        harness.run(&id, Task { subscriber, ..task("what do you know?") }).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
        let read: String =
            backend.asked().iter().flat_map(|ask| &ask.messages).map(|m| m.content.to_string()).collect();
        let told = read.replace("\"query\":\"zanzibar\"", "");
        assert_eq!(told.contains("zanzibar"), sees, "{who:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_is_what_it_is() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let backend = Arc::new(ScriptedBackend::new([echo(1), ANSWER.to_owned()]));
    let router = herm::backend::Router::single(backend.clone());
    let mut toolbox = Toolbox::new();
    for name in ["echo", "skill_view"] {
        toolbox.add(made(name, |_| Ok(String::new()))).expect("added");
    }
    let harness = builder(&brains).router(router).toolbox(toolbox).build().expect("a harness");
    harness.run(&id, task("do it")).await.expect("an outcome");
    let asked = backend.asked();
    insta::assert_snapshot!("system_message", asked[0].messages[0].content);
    assert_eq!(asked[0].messages[0], asked[1].messages[0], "the system message is byte-stable");
    assert_eq!(&*asked[0].messages[1].content, "do it", "the input is verbatim");
}
