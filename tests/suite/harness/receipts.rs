//! Receipts: signed, chained, replayable, and checkable by a stranger.

use herm::harness::replay;
use herm::receipt::{ChainReport, Envelope, TrustedKeys, check};

use super::*;

fn statements(brains: &TempBrains) -> Vec<Value> {
    let lines = reader(brains).receipts(1, u64::MAX).expect("receipts");
    lines
        .iter()
        .map(|taped| {
            let payload = Envelope::parse(&taped.envelope).expect("an envelope").payload().expect("a payload");
            serde_json::from_slice(&payload).expect("a statement")
        })
        .collect()
}

fn checked(lines: &[String]) -> ChainReport {
    check(lines.iter().map(String::as_str), &TrustedKeys::Keys(vec![signer().public().clone()]))
}

fn tape(brains: &TempBrains) -> Vec<String> {
    let text = std::fs::read_to_string(brains.file("1", "receipts.ndjson")).expect("a tape");
    text.lines().map(str::to_owned).collect()
}

/// A brain with a creation, three tasks that write in every way, and a step by hand.
async fn lived(brains: &TempBrains) -> Harness {
    let id = brain(brains);
    let text = "---\nname: made\ndescription: Made. Use when made.\n---\n# Made\n\ntext\n";
    let days = [
        vec![
            call("skill_manage", json!({ "action": "create", "name": "made", "content": text })),
            call("note", json!({ "key": "k", "value": "one" })),
            call("memory", json!({ "action": "add", "target": "memory", "content": "a lesson" })),
            ANSWER.to_owned(),
        ],
        (0..5).map(echo).chain([ANSWER.to_owned()]).collect(),
        vec![
            call("note", json!({ "key": "k", "value": "two" })),
            call("recall", json!({ "query": "lesson one" })),
            call("skill_view", json!({ "name": "made" })),
            call("skill_manage", json!({ "action": "patch", "name": "made", "find": "text", "replace": "more text" })),
            ANSWER.to_owned(),
        ],
    ];
    let mut last = None;
    for words in days {
        let synthesis = json!({
            "action": "create", "name": "learned", "description": "Learned. Use when learned.", "body": "# L\n\ntext\n"
        });
        let harness = harness(brains, ScriptedBackend::new(words).synthesising(synthesis.to_string()));
        let who = Some("alice".parse().expect("an id"));
        let outcome =
            harness.run(&id, Task { subscriber: who, ..task("do the next thing") }).await.expect("an outcome");
        assert_eq!(outcome.status, herm::TaskStatus::Converged);
        harness.shutdown().await.expect("closed");
        last = Some(harness);
    }
    last.expect("a harness")
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_matters_is_signed() {
    let brains = TempBrains::new();
    lived(&brains).await;
    let statements = statements(&brains);
    assert_eq!(statements.len(), 4);
    let kinds: Vec<&str> = statements.iter().map(|s| s["predicate"]["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["create", "task", "task", "task"]);
    let task = &statements[3]["predicate"]["task"];
    for field in [
        "id",
        "subscriber",
        "input",
        "result",
        "status",
        "stop",
        "billable",
        "backend",
        "model",
        "attestation",
        "limits",
        "usage",
        "turns",
        "calls",
        "skills",
        "transcript",
    ] {
        assert!(task.get(field).is_some(), "{field} is not signed");
    }
    assert_eq!(task["skills"]["loaded"][0]["slug"], "made");
    assert_eq!(task["skills"]["changed"][0]["change"], "changed");
    assert!(!statements[3].to_string().contains("alice"), "a subscriber is only a digest");
    assert_eq!(task["result"]["sha256"], herm::ids::sha256(ANSWER.as_bytes()));
    insta::assert_json_snapshot!("receipt_of_a_task", statements[3], {
        ".subject[].digest.*" => "[digest]",
        ".predicate.journal.blake3" => "[digest]",
        ".predicate.previous.sha256" => "[digest]",
        ".predicate.parts.*" => "[digest]",
        ".predicate.task.id" => "[task]",
        ".predicate.task.subscriber" => "[digest]",
        ".predicate.task.**.sha256" => "[digest]",
        ".predicate.task.**.blake3" => "[digest]",
        ".predicate.task.transcript.bytes" => "[bytes]",
        ".predicate.task.usage.estimated.*" => "[tokens]",
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_holds_and_every_tampering_shows() {
    let brains = TempBrains::new();
    lived(&brains).await;
    let lines = tape(&brains);
    let whole = checked(&lines);
    assert!(whole.is_sound(), "{whole:?}");
    assert_eq!(whole.after.as_deref(), Some(reader(&brains).lock().bundle_hash.to_string().as_str()));
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let mut dropped = lines.clone();
    dropped.remove(1);
    let doubled: Vec<String> = lines.iter().chain(lines.last()).cloned().collect();
    let mut forged = lines.clone();
    forged[2] = lines[2].replace("\"payload\":\"", "\"payload\":\"e30");
    let mut other = lines.clone();
    let stranger = herm::Signer::from_seed([9; 32]);
    let payload = Envelope::parse(&lines[2]).expect("an envelope").payload().expect("a payload");
    other[2] = Envelope::seal(&payload, &stranger).to_line().expect("a line");
    let without_first = lines[1..].to_vec();
    for (what, bad) in [
        ("swapped", swapped),
        ("dropped", dropped),
        ("doubled", doubled),
        ("forged", forged),
        ("another key", other),
        ("not from genesis", without_first),
        ("nothing", Vec::new()),
        ("garbage", vec!["x".to_owned()]),
    ] {
        assert!(!checked(&bad).is_sound(), "{what} was not noticed");
    }
    // Cutting the tail off is only seen by who has a checkpoint.
    let cut = lines[..3].to_vec();
    assert!(checked(&cut).is_sound());
    let last = whole.last.as_deref().expect("a digest");
    let id = "1".parse().expect("an id");
    let point =
        herm::receipt::checkpoint(&id, 4, last, &reader(&brains).lock().bundle_hash, herm::Timestamp(0), &signer())
            .expect("a checkpoint");
    assert!(checked(&[lines.clone(), vec![point.clone()]].concat()).is_sound());
    assert!(!checked(&[cut, vec![point]].concat()).is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_replays_to_the_same_hash() {
    let brains = TempBrains::new();
    lived(&brains).await;
    let id = "1".parse().expect("an id");
    let work = tempfile::tempdir().expect("a directory");
    for seq in 2..=4 {
        let replayed = replay(&brains.layout(), &id, seq, &toolbox(), work.path()).await.expect("replayed");
        assert!(replayed.is_same() && replayed.same_prompt && replayed.diverged.is_empty(), "{replayed:?}");
    }
    assert_eq!(std::fs::read_dir(work.path()).expect("a directory").count(), 0, "nothing is left behind");
    let error = replay(&brains.layout(), &id, 1, &toolbox(), work.path()).await.expect_err("not a task");
    assert!(error.message().contains("not of a task"), "{error}");
    assert!(reader(&brains).lock().version == 4, "the brain itself has not moved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_with_another_tool_does_not_reach_the_hash() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let harness =
        harness(&brains, ScriptedBackend::new([call("note", json!({ "key": "k", "value": "v" })), ANSWER.to_owned()]));
    harness.run(&id, task("do it")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let mut tampered = Toolbox::new();
    for tool in toolbox().iter() {
        let name = tool.spec().name.clone();
        if name == "note" {
            let mut card = tool.spec().clone();
            card.replay = herm::tool::ReplaySource::Rerun;
            tampered
                .add(Arc::new(Made { card, run: |_: &Map<String, Value>| Ok("noted nothing".to_owned()) }))
                .expect("added");
        } else {
            tampered.add(Arc::clone(tool)).expect("added");
        }
    }
    let work = tempfile::tempdir().expect("a directory");
    let replayed = replay(&brains.layout(), &id, 2, &tampered, work.path()).await.expect("replayed");
    assert!(!replayed.is_same(), "the check can fail");
    assert_eq!(replayed.diverged.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_and_cancelled_tasks_replay_too() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let words = vec![
        Ok(herm::backend::Completion {
            text: call("note", json!({ "key": "k", "value": "v" })),
            finish: herm::backend::FinishReason::Stop,
            model: "m".to_owned(),
            tokens: None,
            attestation: None,
        }),
        Err(herm::backend::BackendError::new(herm::backend::ErrorClass::Auth, "the key is wrong")),
    ];
    let harness = harness(&brains, ScriptedBackend::playing(words));
    let outcome = harness.run(&id, task("do it")).await.expect("an outcome");
    assert_eq!(outcome.status, herm::TaskStatus::Failed);
    harness.shutdown().await.expect("closed");
    let work = tempfile::tempdir().expect("a directory");
    let replayed = replay(&brains.layout(), &id, 2, &toolbox(), work.path()).await.expect("replayed");
    assert!(replayed.is_same(), "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn old_transcripts_are_let_go() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let words = (0..4).flat_map(|n| [echo(n), ANSWER.to_owned()]);
    let harness = builder(&brains).keep_transcripts(2).backend(ScriptedBackend::new(words)).build().expect("a harness");
    for _ in 0..4 {
        harness.run(&id, task("do it")).await.expect("an outcome");
        harness.maintain(&id).await.expect("maintained");
    }
    harness.shutdown().await.expect("closed");
    let reader = reader(&brains);
    let kept: Vec<bool> = (2..=5).map(|step| reader.transcript(step).expect("read").is_some()).collect();
    assert_eq!(kept, [false, false, true, true]);
    let work = tempfile::tempdir().expect("a directory");
    let error = replay(&brains.layout(), &id, 2, &toolbox(), work.path()).await.expect_err("gone");
    assert!(error.message().contains("no longer kept"), "{error}");
}

/// Budgets are not spent again, and a tool that is not here speaks from the record.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_needs_neither_money_nor_every_tool() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let priced = herm::backend::Capabilities {
        price: Some(herm::backend::Price { input: 1, output: 1 }),
        ..herm::backend::Capabilities::default()
    };
    let backend = ScriptedBackend::new([echo(1), ANSWER.to_owned()]).capable(priced);
    let harness = builder(&brains).backend(backend).build().expect("a harness");
    let limits =
        herm::TaskLimits { micro_usd: Some(1_000_000), total_tokens: Some(100_000), ..herm::TaskLimits::default() };
    let outcome = harness.run(&id, Task { limits, ..task("do it") }).await.expect("an outcome");
    assert_eq!(outcome.status, herm::TaskStatus::Converged, "{:?}", outcome.message);
    harness.shutdown().await.expect("closed");
    let work = tempfile::tempdir().expect("a directory");
    let without_echo = herm_tools::standard().expect("tools");
    let replayed = replay(&brains.layout(), &id, 2, &without_echo, work.path()).await.expect("replayed");
    assert!(replayed.is_same(), "{replayed:?}");
    assert_eq!(replayed.recorded, ["echo"]);
    assert!(!replayed.same_prompt, "the prompt had the tool's own words");
}

/// Takes in a sample of an earlier herm: a brain of agent 3, signed by this key.
async fn take_in(brains: &TempBrains, sample: &str, signed_by: herm::receipt::PublicKey) -> (BrainId, Reader) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/receipts").join(sample);
    let how = herm::snapshot::RestoreOptions {
        version: None,
        in_place: herm::brain::OnExisting::Refuse,
        trusted: TrustedKeys::Keys(vec![signed_by]),
        wait: std::time::Duration::from_secs(5),
        progress: None,
        inspect: None,
    };
    let around: (Arc<dyn herm::ids::Random>, Arc<dyn herm::Clock>) =
        (Arc::new(herm::ids::SystemRandom), Arc::new(herm::SystemClock));
    let (plain, allow) = (herm::snapshot::Encryption::Plaintext, herm::snapshot::portable::SecretPolicy::Allow);
    herm::snapshot::portable::import(&brains.layout(), &file, plain, how, allow, around).await.expect("imported");
    let id: BrainId = "3".parse().expect("an id");
    let reader = Reader::open(&brains.layout(), &id).expect("a brain");
    (id, reader)
}

fn kept(reader: &Reader, seq: u64) -> Value {
    let step = reader.receipts(seq, seq).expect("a receipt").pop().expect("a receipt").step;
    serde_json::from_slice(&reader.transcript(step).expect("read").expect("kept")).expect("JSON")
}

/// Three tasks that herm ran by the third rules of replies, when the gate ruled on calls alone. In two of them an answer stood
/// beside a call in a fence, or behind code around a thought; in the last a tool wrote a subscriber's words into a skill.
#[tokio::test(flavor = "multi_thread")]
async fn transcripts_of_the_third_rules_and_of_the_gate_of_calls_replay_to_the_same_hash() {
    let brains = TempBrains::new();
    let (id, reader) = take_in(&brains, "third_reading.herm", signer().public().clone()).await;
    let work = tempfile::tempdir().expect("a directory");
    let tools = super::direct_edits::that_keeps_a_secret();
    for (seq, answer) in (2..).zip(["{\"id\":7}", "{\"n\":7}", ANSWER]) {
        let transcript = kept(&reader, seq);
        assert_eq!((&transcript["stop"]["answer"], &transcript["reading"]), (&json!(answer), &json!(3)));
        assert_eq!((&transcript["gated"], transcript.get("gatedEdits")), (&json!(true), None));
        let replayed = replay(&brains.layout(), &id, seq, &tools, work.path()).await.expect("replayed");
        assert!(replayed.is_same() && replayed.diverged.is_empty(), "{seq}: {replayed:?}");
    }
    let written = brains.file("3", "skills/by-tool.md");
    assert!(std::fs::read_to_string(written).expect("read").contains(super::direct_edits::SECRET));
}

/// Four tasks that herm ran before calls of other notations were calls. Their answers are what was misread: data that stood
/// before a call, a call in a tag, the arguments of an object that could not be read, and `{}`.
#[tokio::test(flavor = "multi_thread")]
async fn transcripts_of_the_first_rules_replay_to_the_same_hash() {
    let brains = TempBrains::new();
    let signed_by = "did:key:z6MkpMALxy4ZPdkB3gDMy7dyNdkFF6oeP3AiZs29PYFxGXey".parse().expect("a key");
    let (id, reader) = take_in(&brains, "first_reading.herm", signed_by).await;
    let work = tempfile::tempdir().expect("a directory");
    let answers = ["{\"id\":7}", "{\"name\":\"recall\",\"arguments\":{\"query\":\"x\"}}", "{\"query\":\"x\"}", "{}"];
    for (seq, answer) in (2..).zip(answers) {
        let transcript = kept(&reader, seq);
        assert_eq!((&transcript["stop"]["answer"], transcript.get("reading")), (&json!(answer), None));
        let replayed = replay(&brains.layout(), &id, seq, &toolbox(), work.path()).await.expect("replayed");
        assert!(replayed.is_same(), "{seq}: {replayed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_another_notation_runs_keeps_its_text_and_replays() {
    let brains = TempBrains::new();
    let id = brain(&brains);
    let said = "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"key\": \"k\", \"value\": \"v\"}}\n</tool_call>";
    let words = ["{\"plan\": 1} {\"tool\":\"note\",\"args\":{\"key\":\"a\",\"value\":\"b\"}}", said, "{}", ANSWER];
    let harness = harness(&brains, ScriptedBackend::new(words.map(str::to_owned)));
    let outcome = harness.run(&id, task("do it")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    assert_eq!(outcome.answer.as_deref(), Some(ANSWER));
    let transcript = kept(&reader(&brains), 2);
    assert_eq!((&transcript["reading"], &transcript["turns"][1]["reply"]["text"]), (&json!(4), &json!(said)));
    assert_eq!(transcript["turns"][1]["call"], json!({ "tool": "note", "args": { "key": "k", "value": "v" } }));
    assert!(transcript["turns"][2].get("call").is_none(), "an empty answer went back");
    let work = tempfile::tempdir().expect("a directory");
    let replayed = replay(&brains.layout(), &id, 2, &toolbox(), work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.diverged.is_empty(), "{replayed:?}");
}
