//! The successor: how long a fork takes, without state and with a brain of 250 MB. `cargo bench -p herm-tests --bench
//! successor`; `HERM_MESSAGES` makes the large brain another size. Spawning alone is measured by `cargo bench -p
//! herm-sandbox`.

use std::sync::Arc;
use std::time::Instant;

use herm::brain::OnDrift;
use herm::ids::SystemRandom;
use herm::memory::{MessageEntry, MessageRole};
use herm::receipt::Signer;
use herm::successor::{Evaluation, Patch, SuccessorBudget, SuccessorFork};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Harness, Layout, Seed, StepKind, Timestamp};
use herm_tests::generate;

const PATCH: &str =
    r#"{"schema":"herm/patch@1","title":"bench","changes":[{"kind":"constants","set":{"indexBest":41}}]}"#;
const TASK: &str = r#"{"schema":"herm/evaluation@1","title":"bench","parts":[{"kind":"compress","name":"c","sessions":1}],"goals":[{"metric":"turns"}]}"#;

fn main() {
    herm::successor::run_worker_if_reexec(herm_tools::standard);
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let dir = tempfile::tempdir().expect("a directory");
    executor.block_on(async {
        let layout = Layout::new(dir.path().join("brains"));
        let small = brain(&layout, "1", 10);
        let large =
            brain(&layout, "2", std::env::var("HERM_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(500_000));
        let harness = Harness::builder()
            .brains(layout.brains())
            .toolbox(herm_tools::standard().expect("tools"))
            .signer(Signer::generate(&SystemRandom).expect("a key"))
            .build()
            .expect("a harness");
        measure(&harness, &small, "a small brain", 60, "").await;
        let bytes = std::fs::metadata(layout.brain(&large).join("memory.db")).expect("a database").len();
        println!("| the large brain | {} MB | | |", bytes / 1_000_000);
        measure(&harness, &large, "the large brain", 5, "≤ 2,000 ms").await;
    });
}

/// A brain with so many messages.
fn brain(layout: &Layout, id: &str, messages: usize) -> BrainId {
    let id: BrainId = id.parse().expect("an id");
    let opening = BrainOptions {
        signer: Some(Arc::new(Signer::generate(&SystemRandom).expect("a key"))),
        on_drift: OnDrift::Refuse,
        ..BrainOptions::default()
    };
    let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
    let (mut brain, _) = Brain::hydrate(layout, &id, &BrainSource::Seed(seed), &opening).expect("a brain");
    let said: Vec<generate::Said> = generate::messages(messages).collect();
    for batch in said.chunks(5_000) {
        let mut draft = Draft::new();
        for one in batch {
            draft.message(MessageEntry {
                task: format!("session-{}", one.session),
                subscriber: None,
                role: MessageRole::User,
                content: one.content.clone(),
                at: Timestamp(1_767_323_045_000),
            });
        }
        brain.settle(&draft, StepKind::Import, "messages").expect("settled");
    }
    brain.close().expect("closed");
    id
}

/// The fork (two copies), and the whole way from nothing to a signed verdict on one trivial case: both workers are spawned,
/// have passed the canary, opened their copy and applied the patch long before its end.
async fn measure(harness: &Harness, id: &BrainId, what: &str, rounds: usize, bound: &str) {
    let (mut forks, mut wholes, mut spawns) = (Vec::new(), Vec::new(), Vec::new());
    let evaluation = Evaluation::parse(TASK.as_bytes()).expect("an evaluation");
    for _ in 0..rounds {
        let began = Instant::now();
        let patch = Patch::parse(PATCH.as_bytes()).expect("a patch");
        let mut fork = SuccessorFork::new(harness, id, patch).await.expect("a fork");
        let forked = began.elapsed();
        let verdict = fork.evaluate(&evaluation, SuccessorBudget::default()).await.expect("a verdict");
        assert_eq!(verdict.reason, None, "{verdict:?}");
        let whole = began.elapsed();
        fork.destroy().await.expect("destroyed");
        forks.push(forked.as_secs_f64() * 1e3);
        wholes.push(whole.as_secs_f64() * 1e3);
        spawns.push((whole - forked).as_secs_f64() * 1e3);
    }
    row(&format!("fork of {what}: both copies"), &forks, "");
    row(
        &format!("  from there to a signed verdict on one case, {what}"),
        &spawns,
        if rounds > 10 { bound } else { "" },
    );
    row(&format!("  both together, {what}"), &wholes, if rounds > 10 { "" } else { bound });
}

fn row(what: &str, values: &[f64], bound: &str) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1];
    println!("| {what} | p50 {:.1} ms, p99 {:.1} ms | {bound} | |", at(0.5), at(0.99));
}
