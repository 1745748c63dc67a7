//! A brain can be taken anywhere and comes back as it was: pushed, restored, verified.

mod cli;
mod elsewhere;
mod fences;
mod harness;
mod learning;
mod operators;
mod prune;
mod resume;
mod round_trip;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use herm::brain::OnExisting;
use herm::ids::SystemRandom;
use herm::receipt::TrustedKeys;
use herm::snapshot::store::MemoryStore;
use herm::snapshot::{Encryption, OperatorKey, RehearsalScope, RestoreOptions, SnapshotVerifyOptions, Store, Vault};
use herm::{Brain, BrainId, Draft, StepKind};
use herm_tests::brains::{skill_text, slug};
use herm_tests::{ManualClock, TempBrains, signer};

fn id(text: &str) -> BrainId {
    text.parse().unwrap()
}

fn key(byte: u8) -> Encryption {
    Encryption::Key(OperatorKey::from_bytes([byte; 32]))
}

fn vault_of(store: Arc<dyn Store>, secrecy: Encryption, owner: &str) -> Vault {
    Vault::new(store, secrecy, owner, Arc::new(SystemRandom), Arc::new(ManualClock::new()))
}

fn vault() -> (Arc<MemoryStore>, Vault) {
    let store = Arc::new(MemoryStore::new());
    (Arc::clone(&store), vault_of(store, key(1), "the test"))
}

fn how() -> RestoreOptions {
    RestoreOptions {
        version: None,
        in_place: OnExisting::Refuse,
        trusted: TrustedKeys::Keys(vec![signer().public().clone()]),
        wait: Duration::from_secs(20),
        progress: None,
        inspect: None,
    }
}

/// Every snapshot read, and the last one put together.
fn verifying() -> SnapshotVerifyOptions {
    SnapshotVerifyOptions { version: None, rehearse: RehearsalScope::Last, trusted: how().trusted }
}

/// One step that looks like a task's: two messages, a line of the log, and now and then a skill.
fn step(brain: &mut Brain, number: u64) {
    let mut draft = Draft::new();
    let task = format!("task-{number}");
    for (role, text) in
        [(herm::memory::MessageRole::User, "a question"), (herm::memory::MessageRole::Assistant, "an answer")]
    {
        draft.message(herm::memory::MessageEntry {
            task: task.clone(),
            subscriber: None,
            role,
            content: format!("{text} number {number}, at some length so that chunks fill up. {}", "more ".repeat(40)),
            at: herm::Timestamp(1_767_323_045_000),
        });
    }
    if number.is_multiple_of(3) {
        let name = slug(&format!("skill-{number}"));
        let text = skill_text(name.as_str(), &format!("Do it {number} times."));
        brain.edit(&mut draft).create_skill(&name, &text, herm::skill::CreatedBy::Agent).unwrap();
    }
    let settled = brain.settle(&draft, StepKind::Task, &task).unwrap();
    assert!(settled.moved);
}

/// A brain with some steps behind it.
fn grown(brains: &TempBrains, number: &str, steps: u64) -> Brain {
    let mut brain = brains.make(number);
    for at in 1..=steps {
        step(&mut brain, at);
    }
    brain
}
