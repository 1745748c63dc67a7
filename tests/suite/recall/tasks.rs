//! Recall by meaning in tasks: vectors are made behind the tasks, a failing model changes nothing, a replay needs none.

use std::sync::Arc;
use std::time::Duration;

use herm::backend::{Router, ScriptedBackend};
use herm::tool::EmbeddingUses;
use herm::{Harness, HarnessBuilder, Task};
use herm_tests::meaning::{Harm, Hostile};
use herm_tests::signer;
use serde_json::json;

use super::*;

pub(super) const ANSWER: &str = r#"{"summary": "all is well"}"#;

pub(super) fn builder(brains: &TempBrains) -> HarnessBuilder {
    Harness::builder()
        .brains(brains.path())
        .toolbox(herm_tools::standard().expect("the standard tools"))
        .clock(brains.clock())
        .signer(signer())
        .wait(Duration::from_secs(20))
}

fn recall_for(model: Arc<dyn Embedder>, builder: HarnessBuilder) -> HarnessBuilder {
    builder.embedder(model).embedding_uses(EmbeddingUses { recall: true, skills: false })
}

/// Runs a task that recalls something; what it was told, and the summary of the call.
async fn recall(harness: HarnessBuilder, query: &str) -> String {
    let look = json!({ "tool": "recall", "args": { "query": query } }).to_string();
    let backend = Arc::new(ScriptedBackend::new([look, ANSWER.to_owned()]));
    let harness = harness.router(Router::single(Arc::clone(&backend) as _)).build().expect("a harness");
    let task = Task::new("tell me");
    harness.run(&"1".parse().expect("an id"), task).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    backend.asked()[1].messages.last().expect("a message").content.to_string()
}

fn lived(brains: &TempBrains) {
    let mut brain = brains.make("1");
    say(&mut brain, None, &["The spare key is under the flowerpot", "The weather is fine"]);
    brain.close().expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_made_behind_a_task_and_found_by_the_next() {
    let brains = TempBrains::new();
    lived(&brains);
    let first = recall(recall_for(Arc::new(Letters::default()), builder(&brains)), "flowrpot").await;
    assert!(first.contains("Nothing found"), "{first}");
    let rows = reader(&brains).counts(&reader(&brains).skills().expect("skills")).expect("counts");
    assert_eq!(vectors(&brains) as u64, rows.messages + rows.facts + rows.tasks, "a shutdown lets the pass end");
    let second = recall(recall_for(Arc::new(Letters::default()), builder(&brains)), "flowrpot").await;
    assert!(second.contains("under the flowerpot"), "{second}");
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_reads_what_meaning_found_from_the_record_and_reaches_the_same_hash() {
    let brains = TempBrains::new();
    lived(&brains);
    for _ in 0..2 {
        recall(recall_for(Arc::new(Letters::default()), builder(&brains)), "flowrpot").await;
    }
    let work = tempfile::tempdir().expect("a directory");
    let (id, toolbox) = ("1".parse().expect("an id"), herm_tools::standard().expect("the standard tools"));
    for (seq, recorded) in [(3, vec![]), (4, vec!["recall".to_owned()])] {
        let replayed =
            herm::harness::replay(&brains.layout(), &id, seq, &toolbox, work.path()).await.expect("replayed");
        assert!(replayed.is_same() && replayed.same_prompt, "{replayed:?}");
        assert_eq!((replayed.recorded, replayed.diverged), (recorded, Vec::new()), "receipt {seq}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_task_that_recalled_by_meaning_replays_to_the_same_hash() {
    const SHARED: &str = "The flowerpot by the door is watered on every second monday of the month";
    const PRIVATE: &str = "The flowerpot hides the spare key, and the combination of the safe is behind the lighthouse";
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    note(&mut brain, "watering", SHARED);
    say(&mut brain, Some(who("alice")), &[PRIVATE]);
    brain.close().expect("closed");
    let look = json!({ "tool": "recall", "args": { "query": "flowrpot" } }).to_string();
    let create = |name: &str, body: &str| {
        let text = herm_tests::brains::skill_text(name, body);
        json!({ "tool": "skill_manage", "args": { "action": "create", "name": name, "content": text } }).to_string()
    };
    // The first makes the vectors. The second finds by them, may not write what is alice's, and writes what is not.
    for words in [
        vec![look.clone(), ANSWER.to_owned()],
        vec![look.clone(), create("safe", PRIVATE), create("watering", SHARED), ANSWER.to_owned()],
    ] {
        let calls = words.len() - 1;
        let backend = Arc::new(ScriptedBackend::new(words));
        let harness = recall_for(Arc::new(Letters::default()), builder(&brains));
        let harness = harness.router(Router::single(Arc::clone(&backend) as _)).build().expect("a harness");
        let asked = Task { subscriber: Some("alice".parse().expect("an id")), ..Task::new("tell me") };
        let outcome = harness.run(&"1".parse().expect("an id"), asked).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
        let ended: Vec<&str> = outcome.calls.iter().map(|call| call.status.name()).collect();
        assert_eq!(ended, ["ok", "failed", "ok"][..calls], "{:?}", outcome.calls);
        let told: Vec<String> =
            backend.asked().iter().map(|ask| ask.messages.last().expect("a message").content.to_string()).collect();
        if calls > 1 {
            assert!(told[1].contains("hides the spare key") && told[1].contains("watered"), "{told:?}");
            assert!(told[2].contains("own words"), "{told:?}");
        }
    }
    let seq = reader(&brains).lock().version;
    let work = tempfile::tempdir().expect("a directory");
    let (id, toolbox) = ("1".parse().expect("an id"), herm_tools::standard().expect("the standard tools"));
    let replayed = herm::harness::replay(&brains.layout(), &id, seq, &toolbox, work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.same_prompt, "{replayed:?}");
    assert_eq!((replayed.recorded, replayed.diverged), (vec!["recall".to_owned()], Vec::<String>::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_leaves_recall_by_words_which_says_so() {
    let plain = TempBrains::new();
    lived(&plain);
    let by_words = recall(builder(&plain), "spare key").await;
    for harm in [Harm::Fails, Harm::Panics, Harm::Nan, Harm::Huge] {
        let brains = TempBrains::new();
        lived(&brains);
        let told = recall(recall_for(Arc::new(Hostile::new(harm)), builder(&brains)), "spare key").await;
        assert_eq!(told, by_words, "{harm:?}");
        let brain = brains.open("1").expect("opened");
        assert!(brain.verify().expect("verified").is_sound());
        let transcript = reader(&brains).transcript(3).expect("read").expect("a transcript");
        let transcript = String::from_utf8(transcript).expect("text");
        assert!(transcript.contains("1 hit, by words alone: the embedding model failed"), "{transcript}");
        assert_eq!(brain.close().expect("closed"), ());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_or_without_a_use_nothing_changes() {
    let mut locks = Vec::new();
    for harness in [
        builder as fn(&TempBrains) -> HarnessBuilder,
        |brains| builder(brains).embedder(Arc::new(Letters::default())),
        |brains| builder(brains).embedding_uses(EmbeddingUses { recall: true, skills: true }),
    ] {
        let brains = TempBrains::new();
        lived(&brains);
        recall(harness(&brains), "spare key").await;
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'vectors'";
        let made: i64 = database(&brains).query_row(tables, [], |row| row.get(0)).expect("counted");
        let transcript = reader(&brains).transcript(3).expect("read").expect("a transcript");
        let transcript = String::from_utf8(transcript).expect("text");
        assert!(made == 0 && !transcript.contains("recorded") && !transcript.contains("\"skills\":"), "{transcript}");
        locks.push(brains.open("1").expect("opened").lock().version);
    }
    assert!(locks.iter().all(|version| *version == locks[0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_texts_take_many_passes_and_all_get_their_vectors() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let texts: Vec<String> = (0..150).map(|n| format!("message number {n}")).collect();
    say(&mut brain, None, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    brain.close().expect("closed");
    let model = Arc::new(Letters::default());
    let harness = recall_for(Arc::clone(&model) as _, builder(&brains)).build().expect("a harness");
    let id = "1".parse().expect("an id");
    assert_eq!(harness.maintain(&id).await.expect("maintained").vectors, Some(32), "a pass is bounded");
    assert_eq!(harness.make_vectors(&id).await.expect("made"), 118);
    assert_eq!((harness.make_vectors(&id).await.expect("made"), model.asked()), (0, 150));
    harness.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_guards_the_words_that_a_recall_by_meaning_heard_and_no_others() {
    const SHARED: &str = "The flowerpot by the door is watered on every second monday of the month";
    let filler = "and so on and so forth, as it was told many times before in this place ".repeat(4);
    let tail = "the combination of the safe is written behind the picture of the old lighthouse";
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    note(&mut brain, "watering", SHARED);
    say(&mut brain, Some(who("alice")), &[&format!("The spare key is under the flowerpot {filler} {tail}")]);
    brain.close().expect("closed");
    let look = json!({ "tool": "recall", "args": { "query": "flowrpot" } }).to_string();
    for _ in 0..2 {
        let backend = ScriptedBackend::new([look.clone(), ANSWER.to_owned()]);
        let harness = recall_for(Arc::new(Letters::default()), builder(&brains)).backend(backend);
        let harness = harness.build().expect("a harness");
        let asked = Task { subscriber: Some("alice".parse().expect("an id")), ..Task::new("tell me") };
        harness.run(&"1".parse().expect("an id"), asked).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
    }
    let seq = reader(&brains).lock().version;
    let create = |name: &str, body: &str| {
        let text = herm_tests::brains::skill_text(name, body);
        json!({ "tool": "skill_manage", "args": { "action": "create", "name": name, "content": text } }).to_string()
    };
    // The model says more than it said then: what it writes now is judged by what the task had heard.
    let words = [look, create("watering", SHARED), create("safe", tail), ANSWER.to_owned()];
    let speaker = Arc::new(ScriptedBackend::new(words));
    let (id, toolbox) = ("1".parse().expect("an id"), herm_tools::standard().expect("the standard tools"));
    let work = tempfile::tempdir().expect("a directory");
    let spoken = Arc::clone(&speaker) as _;
    let layout = brains.layout();
    let replayed =
        herm::harness::replay_with_backend(&layout, &id, seq, &toolbox, work.path(), spoken).await.expect("it");
    assert_eq!(replayed.recorded, ["recall"]);
    let told: Vec<String> =
        speaker.asked().iter().map(|ask| ask.messages.last().expect("a message").content.to_string()).collect();
    assert!(
        told[1].contains("watered") && told[1].contains("spare key") && !told[1].contains("lighthouse"),
        "{told:?}"
    );
    assert!(told[2].contains("Created skill watering"), "what everyone knows is nobody's secret: {}", told[2]);
    assert!(told[3].contains("own words"), "the whole text was heard: {}", told[3]);
}
