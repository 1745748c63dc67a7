//! Brains over S3: faults on the way, a machine that forgot everything, and what it costs.

use std::sync::Arc;
use std::time::Duration;

use herm::brain::OnExisting;
use herm::ids::SystemRandom;
use herm::memory::{MessageEntry, MessageRole};
use herm::receipt::TrustedKeys;
use herm::snapshot::{Encryption, OperatorKey, RehearsalScope, RestoreOptions, SnapshotVerifyOptions, Store, Vault};
use herm::{Brain, BrainId, Draft, ErrorKind, StepKind, Timestamp};
use herm_tests::s3_server::{Faults, Order, S3Server};
use herm_tests::{ManualClock, TempBrains, signer};

use super::store;

pub(super) fn id(text: &str) -> BrainId {
    text.parse().unwrap()
}

pub(super) fn vault(store: Arc<dyn Store>) -> Vault {
    let key = Encryption::Key(OperatorKey::from_bytes([5; 32]));
    Vault::new(store, key, "the test", Arc::new(SystemRandom), Arc::new(ManualClock::new()))
}

pub(super) fn how() -> RestoreOptions {
    RestoreOptions {
        version: None,
        in_place: OnExisting::Refuse,
        trusted: TrustedKeys::Keys(vec![signer().public().clone()]),
        wait: Duration::from_secs(20),
        progress: None,
        inspect: None,
    }
}

pub(super) fn step(brain: &mut Brain, number: u64) {
    let mut draft = Draft::new();
    for at in 0..8 {
        draft.message(MessageEntry {
            task: format!("task-{number}"),
            subscriber: None,
            role: MessageRole::User,
            content: format!("message {at} of step {number}. {}", "and so on ".repeat(60)),
            at: Timestamp(5),
        });
    }
    brain.settle(&draft, StepKind::Task, "a task").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_brain_goes_to_a_bucket_and_comes_back() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = here.make("7");
    for number in 0..60 {
        step(&mut brain, number);
    }
    let server = S3Server::start(Order::OneByOne).await;
    let vault = vault(store(&server, "brains-of-herm"));
    vault.push(&here.layout(), &id("7")).await.unwrap();
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(there.open("7").unwrap().lock(), brain.lock());
}

/// Whatever the store does, nothing wrong is restored, and in the end everything arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_storm_of_faults_nothing_wrong_is_restored_and_snapshots_arrive_in_the_end() {
    let here = TempBrains::new();
    let mut brain = here.make("7");
    let server = S3Server::start(Order::OneByOne).await;
    let storms = [
        Faults { before: 150, ..Faults::default() },
        Faults { after: 150, ..Faults::default() },
        Faults { cut: 150, ..Faults::default() },
        Faults { flipped: 150, ..Faults::default() },
        Faults { before: 60, after: 60, cut: 60, flipped: 60, ..Faults::default() },
    ];
    let mut failed = 0;
    for (number, storm) in (0..).zip(storms.iter().cycle().take(15)) {
        for at in 0..5 {
            step(&mut brain, number * 10 + at);
        }
        server.set_faults(*storm);
        // A vault of its own each time: keys come over the wire too.
        let pushed = loop {
            match vault(store(&server, "storm")).push(&here.layout(), &id("7")).await {
                Ok(pushed) => break pushed,
                Err(error) => {
                    failed += 1;
                    assert!(failed < 500 && error.kind() != ErrorKind::Conflict, "{error:?}");
                }
            }
        };
        assert_eq!(pushed.head.bundle_hash, brain.lock().bundle_hash);
        let there = TempBrains::new();
        loop {
            match vault(store(&server, "storm")).restore(&there.layout(), &id("7"), &how()).await {
                Ok(_) => break,
                Err(error) => {
                    failed += 1;
                    assert!(failed < 500, "{error:?}");
                    assert!(!there.file("7", "").exists(), "{error:?}");
                }
            }
        }
        assert_eq!(there.open("7").unwrap().lock(), brain.lock());
    }
    server.set_faults(Faults::default());
    let what = SnapshotVerifyOptions { version: None, rehearse: RehearsalScope::Last, trusted: how().trusted };
    let verified = vault(store(&server, "storm")).verify(&here.layout(), &id("7"), &what).await.unwrap();
    assert_eq!(verified.findings, Vec::<String>::new());
}
