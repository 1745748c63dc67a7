//! Who says at the end of a task how good its answer was: the schema of the role's answers, tools, and programs. A verifier that
//! is broken says nothing about the answer.

use herm::memory::{OutcomeReport, OutcomeSource, OutcomeValue};
use herm::task::TaskStatus;
use herm::tool::ProgramRunner;
use herm::{Brain, BrainSource, Seed};

use super::*;

fn made_of(brains: &TempBrains, role: &str, more: &[(&str, &[u8])]) -> BrainId {
    let id: BrainId = "1".parse().expect("an id");
    let files: Vec<(&str, &[u8])> =
        std::iter::once(("system.md", role.as_bytes())).chain(more.iter().copied()).collect();
    let seed = BrainSource::Seed(Seed { id: &id, files: &files });
    let (brain, _) = Brain::hydrate(&brains.layout(), &id, &seed, &brains.opening()).expect("a brain");
    brain.close().expect("closed");
    id
}

fn checked_by(check: &str) -> String {
    format!("---\nchecks:\n  - {check}\n---\nYou count.\n")
}

/// A tool that judges an answer.
struct Judge {
    card: ToolSpec,
    verdict: Verdict,
}

enum Verdict {
    Fine,
    Wrong,
    Down,
    Hangs,
    Crashes,
    Writes,
}

#[async_trait]
impl Tool for Judge {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        assert_eq!(args["question"], "how many?");
        assert_eq!(args["answer"], json!({ "answer": "n is 1" }));
        match self.verdict {
            Verdict::Fine => Ok(ToolOutput::new("fine", "fine")),
            Verdict::Wrong => Err(herm::Error::invalid("n is 2")),
            Verdict::Down => Err(herm::Error::unavailable("the oracle does not answer")),
            Verdict::Hangs => std::future::pending().await,
            Verdict::Crashes => panic!("a bug in a verifier"),
            Verdict::Writes => panic!("never called: {:?}", cx.task().input),
        }
    }
}

fn judge(verdict: Verdict) -> Arc<dyn Tool> {
    let schema = json!({ "type": "object", "required": ["answer", "question"] });
    let permission = if matches!(verdict, Verdict::Writes) { Permission::WriteBrain } else { Permission::Read };
    let card = ToolSpec::new("judge", "Judges an answer.", permission, schema);
    Arc::new(Judge { card: ToolSpec { timeout: Duration::from_millis(50), ..card }, verdict })
}

/// Runs a task with these words; the answer stands and is settled whatever is said of it.
async fn reports(builder: HarnessBuilder, words: Vec<String>) -> (OutcomeValue, Vec<OutcomeReport>) {
    let harness = builder.backend(ScriptedBackend::new(words.clone())).evolving(None).build().expect("a harness");
    let outcome = harness.run(&"1".parse().expect("an id"), task("how many?")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    assert_eq!((outcome.status, outcome.answer.as_ref()), (TaskStatus::Converged, words.last()));
    let kept = outcome.settled.expect("settled").version;
    assert_eq!(kept, 2);
    (outcome.outcome.value, outcome.outcome.sources)
}

fn counted() -> Vec<String> {
    vec![echo(1), r#"{"answer": "n is 1"}"#.to_owned()]
}

async fn judged(verdict: Option<Verdict>) -> (OutcomeValue, Option<String>) {
    let brains = TempBrains::new();
    made_of(&brains, &checked_by("tool: judge"), &[]);
    let mut tools = toolbox();
    if let Some(verdict) = verdict {
        tools.add(judge(verdict)).expect("added");
    }
    let (value, mut sources) = reports(builder(&brains).toolbox(tools), counted()).await;
    let only = sources.pop().expect("a report");
    assert_eq!((only.source, only.value, sources.len()), (OutcomeSource::Verifier, value, 0));
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
    (value, only.note)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_says_whether_an_answer_is_right() {
    assert_eq!(judged(Some(Verdict::Fine)).await, (OutcomeValue::Good, None));
    assert_eq!(judged(Some(Verdict::Wrong)).await, (OutcomeValue::Bad, Some("n is 2".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_hangs_crashes_lacks_what_it_needs_or_is_not_there_says_nothing() {
    for (verdict, why) in [
        (Some(Verdict::Hangs), "judge: stopped: took too long"),
        (Some(Verdict::Crashes), "judge: crashed"),
        (Some(Verdict::Down), "judge: the oracle does not answer"),
        (Some(Verdict::Writes), "judge: it writes to the brain, and a verifier may not"),
        (None, "judge: there is no such tool"),
    ] {
        assert_eq!(judged(verdict).await, (OutcomeValue::Unknown, Some(why.to_owned())));
    }
    // Nor does one that does not take an answer and a question.
    let brains = TempBrains::new();
    made_of(&brains, &checked_by("tool: echo"), &[]);
    let (value, sources) = reports(builder(&brains), counted()).await;
    let note = sources[0].note.as_deref().expect("a note");
    assert!(value == OutcomeValue::Unknown && note.starts_with("echo: arguments refused: "), "{note}");
}

/// Says what it was told to say, and is never given more than ten seconds.
#[derive(Debug)]
struct Says(Result<&'static [u8], &'static str>);

#[async_trait]
impl ProgramRunner for Says {
    async fn run(&self, name: &str, program: &Arc<[u8]>, input: Vec<u8>, timeout: Duration) -> Result<Vec<u8>> {
        assert_eq!((name, &**program, timeout), ("tools/verify", &b"#!/bin/sh\n"[..], Duration::from_secs(10)));
        let read: Value = serde_json::from_slice(&input).expect("one JSON object");
        let call = json!({ "tool": "echo", "args": { "n": 1 }, "status": "ok", "result": "n is 1" });
        let all = json!({ "question": "how many?", "answer": { "answer": "n is 1" }, "calls": [call] });
        assert_eq!(read, all);
        self.0.map(<[u8]>::to_vec).map_err(herm::Error::refused)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_asked_once_with_all_there_is_to_know_and_where_none_is_allowed_nothing_is_known() {
    let program: &[(&str, &[u8])] = &[("tools/verify", b"#!/bin/sh\n")];
    let role = checked_by("program: tools/verify");
    for (said, value, note) in [
        (Some(Ok(&b"good\n"[..])), OutcomeValue::Good, None),
        (Some(Ok(b"0.256")), OutcomeValue::Score(0.26), None),
        (Some(Ok(b"inf")), OutcomeValue::Unknown, Some("tools/verify: it said \"inf\", and not good, bad or 0 to 1")),
        (Some(Err("no room")), OutcomeValue::Unknown, Some("tools/verify: no room")),
        (None, OutcomeValue::Unknown, Some("tools/verify: programs are not allowed here")),
    ] {
        let brains = TempBrains::new();
        made_of(&brains, &role, program);
        let builder = match said {
            Some(said) => builder(&brains).programs(Arc::new(Says(said))),
            None => builder(&brains),
        };
        let (found, sources) = reports(builder, counted()).await;
        assert_eq!((found, sources[0].note.as_deref()), (value, note));
    }
}

const SCHEMA: &str = "You count.\n\n# Final answer\n\n```json\n{\"type\": \"object\", \"required\": [\"n\"], \
                      \"properties\": {\"n\": {\"type\": \"integer\", \"maximum\": 9}}}\n```\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_fit_the_roles_schema_is_bad_and_one_that_fits_is_not_known_to_be_good() {
    for (answer, value) in [(r#"{"n": "one"}"#, OutcomeValue::Bad), (r#"{"n": 1}"#, OutcomeValue::Unknown)] {
        let brains = TempBrains::new();
        made_of(&brains, SCHEMA, &[]);
        let (found, sources) = reports(builder(&brains), vec![echo(1), answer.to_owned()]).await;
        assert_eq!((found, sources.len()), (value, usize::from(value == OutcomeValue::Bad)), "{answer}");
        assert!(sources.iter().all(|said| said.source == OutcomeSource::Schema && said.note.is_some()), "{sources:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_prevails_over_the_schema_unless_it_does_not_know() {
    for (check, value) in
        [("calls: echo", OutcomeValue::Good), ("contains: two", OutcomeValue::Bad), ("tool: none", OutcomeValue::Bad)]
    {
        let brains = TempBrains::new();
        made_of(&brains, &format!("---\nchecks:\n  - {check}\n---\n{SCHEMA}"), &[]);
        let (found, sources) = reports(builder(&brains), vec![echo(1), r#"{"n": "one"}"#.to_owned()]).await;
        let order: Vec<_> = sources.iter().map(|said| said.source).collect();
        assert_eq!((found, order), (value, vec![OutcomeSource::Verifier, OutcomeSource::Schema]), "{check}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_has_the_outcome_and_no_word_of_what_a_verifier_quoted() {
    let brains = TempBrains::new();
    made_of(&brains, &checked_by("program: tools/verify"), &[("tools/verify", b"#!/bin/sh\n")]);
    let quoting = Says(Ok(b"alice asked where her lamp is"));
    reports(builder(&brains).programs(Arc::new(quoting)), counted()).await;
    let line = reader(&brains).receipts(2, 2).expect("receipts").remove(0).envelope;
    let payload = herm::receipt::Envelope::parse(&line).expect("an envelope").payload().expect("a payload");
    let statement: Value = serde_json::from_slice(&payload).expect("a statement");
    let said = &statement["predicate"]["task"]["outcome"];
    assert_eq!((&said["value"], &said["sources"][0]["source"]), (&json!("unknown"), &json!("verifier")));
    let note = reader(&brains)
        .outcome(&statement["predicate"]["task"]["id"].as_str().expect("a task").parse().expect("an id"));
    let note = note.expect("read").expect("a task").sources.remove(0).note.expect("a note");
    assert!(note.contains("alice asked where her lamp is"), "{note}");
    let digest = json!({ "sha256": herm::ids::sha256(note.as_bytes()), "bytes": note.len() });
    assert_eq!(said["sources"][0]["note"], digest);
    assert!(!statement.to_string().contains("lamp"), "{statement}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_does_not_ask_again_and_comes_to_the_same_hash() {
    let brains = TempBrains::new();
    let id = made_of(&brains, &checked_by("program: tools/verify"), &[("tools/verify", b"#!/bin/sh\n")]);
    reports(builder(&brains).programs(Arc::new(Says(Ok(b"0.7")))), counted()).await;
    let replays = brains.path().join("replays");
    let report = herm::harness::replay(&brains.layout(), &id, 2, &toolbox(), &replays).await.expect("a replay");
    assert!(report.is_same() && report.same_prompt, "{report:?}");
}
