//! What a brain has learned travels with it: outcomes, examples and both arms of every trial, and the trials go on.

use std::sync::Arc;

use herm::Reader;
use herm::harness::{FeedbackFrom, TaskFeedback};
use herm::memory::{Arm, OutcomeValue, TrialState};
use herm::snapshot::store::MemoryStore;
use herm::trial::pass::TrialMemory;
use herm::{Harness, Task};
use herm_tests::brains::slug;
use herm_tests::{TempBrains, learned, signer};

use super::{how, id, key, vault, vault_of};

/// What trials say of a brain.
fn known(brains: &TempBrains) -> (Vec<herm::memory::Trial>, Vec<herm::memory::TrialTask>, herm::memory::OutcomeCounts) {
    let reader = Reader::open(&brains.layout(), &id("7")).unwrap();
    let tasks = ["attic", "cellar", "garage", "shed"];
    let rows = tasks.iter().flat_map(|name| reader.trial_tasks(&slug(name)).unwrap()).collect();
    (reader.trials().unwrap(), rows, reader.outcome_counts(herm::Timestamp(0)).unwrap())
}

#[tokio::test]
async fn trials_and_outcomes_come_back_as_they_were_and_go_on_from_there() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = here.make("7");
    learned::every_state(&mut brain);
    brain.close().unwrap();
    let (_, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    let (trials, rows, outcomes) = known(&here);
    assert_eq!((trials.len(), rows.len(), outcomes.known()), (4, 32, 32));
    assert_eq!(known(&there), (trials, rows, outcomes));
    // A trial of which six tasks are known is decided by those that follow, here or there.
    let mut back = there.open("7").unwrap();
    learned::look(&mut back, &mut TrialMemory::default());
    assert_eq!(back.trial(&slug("garage")).unwrap().unwrap().state, TrialState::Trial);
    learned::tasks(&mut back, "shed", [OutcomeValue::Good, OutcomeValue::Bad], 24);
    learned::look(&mut back, &mut TrialMemory::default());
    assert_eq!(back.trial(&slug("shed")).unwrap().unwrap().state, TrialState::Proven);
    assert_eq!(back.trial_tasks(&slug("garage")).unwrap().len(), 6);
    assert!(back.verify().unwrap().is_sound());
}

/// A harness on a store, with a model that answers this.
fn harness(brains: &TempBrains, store: &Arc<MemoryStore>, owner: &str) -> Harness {
    let vault = vault_of(store.clone(), key(1), owner);
    Harness::builder()
        .brains(brains.path())
        .backend(
            herm::backend::ScriptedBackend::new(vec![r#"{"summary": "all is well"}"#; 100]).capable(
                herm::backend::Capabilities { preload_bytes: 1_200, ..herm::backend::Capabilities::default() },
            ),
        )
        .clock(brains.clock())
        .signer(signer())
        .evolving(None)
        .snapshotting(Some(herm::harness::SnapshotOptions::new(Arc::new(vault))))
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trial_goes_on_where_another_machine_left_it_and_draws_the_same_arms() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    let mut brain = one.make("7");
    learned::learn(&mut brain, "garage", "Look there first.");
    learned::look(&mut brain, &mut TrialMemory::default());
    brain.close().unwrap();
    let first = harness(&one, &store, "one");
    let mut arms: Vec<(String, Arm)> = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..4 {
        let outcome = first.run(&id("7"), Task::new(format!("task {number}"))).await.unwrap();
        let on_trial = outcome.shown.iter().find(|shown| shown.skill == slug("garage")).unwrap();
        assert!(on_trial.trial);
        arms.push((outcome.task.to_string(), on_trial.arm));
        tasks.push(outcome.task);
    }
    first.shutdown().await.unwrap();
    std::fs::remove_dir_all(one.path().join("7")).unwrap();

    let second = harness(&two, &store, "two");
    // Feedback on a task that ran elsewhere, and one more task.
    let (task, from) = (tasks[0].clone(), FeedbackFrom::Operator);
    let feedback = TaskFeedback { task, value: OutcomeValue::Good, note: None, from };
    assert!(second.feedback(&id("7"), feedback).await.unwrap().settled.is_some());
    let outcome = second.run(&id("7"), Task::new("and on")).await.unwrap();
    let on_trial = outcome.shown.iter().find(|shown| shown.skill == slug("garage")).unwrap();
    arms.push((outcome.task.to_string(), on_trial.arm));
    second.shutdown().await.unwrap();
    let reader = Reader::open(&two.layout(), &id("7")).unwrap();
    let rows = reader.trial_tasks(&slug("garage")).unwrap();
    assert_eq!(rows.iter().map(|row| (row.task.clone(), row.arm)).collect::<Vec<_>>(), arms);
    assert_eq!(rows.iter().map(|row| row.score).collect::<Vec<_>>(), [Some(1.0), None, None, None, None]);
    assert_eq!(reader.trial(&slug("garage")).unwrap().unwrap().state, TrialState::Trial);
    assert!(two.open("7").unwrap().verify().unwrap().is_sound());
}
