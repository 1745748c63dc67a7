//! The evolver after sessions, in the harness.

use std::time::Duration;

use herm::backend::ScriptedBackend;
use herm::evolver::pass::{EvolverPassMode, EvolverPassOptions};
use herm::evolver::{EvolverApproval, EvolverRoundOptions};
use herm::harness::EvolverOptions;
use herm::memory::ReviewStatus;
use herm::{Harness, Task};
use herm_tests::TempBrains;
use herm_tests::brains::signer;

use super::{START, seen, text_of, with_evidence};

fn harness(brains: &TempBrains, evolving: Option<EvolverOptions>) -> Harness {
    let call = r#"{"tool": "recall", "args": {"query": "x"}}"#;
    let replies = std::iter::repeat_n([call, r#"{"done": true}"#], 8).flatten().map(str::to_owned);
    Harness::builder()
        .brains(brains.path())
        .clock(brains.clock())
        .signer(signer())
        .toolbox(herm_tools::standard().expect("tools"))
        .backend(ScriptedBackend::new(replies.collect::<Vec<_>>()))
        .evolving(evolving)
        .build()
        .expect("a harness")
}

fn many(brain: &mut herm::Brain) {
    for _ in 0..10 {
        seen(brain, "pump", &["fine", "!connection refused", "fine"]);
    }
}

#[tokio::test]
async fn it_holds_what_it_finds_unless_told_otherwise_and_only_once_in_a_while() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    many(&mut brain);
    let before = text_of(&brain, "pump");
    brain.close().expect("closed");
    let harness = harness(&brains, Some(EvolverOptions::default()));
    let id = "1".parse().expect("an id");
    let maintained = harness.maintain(&id).await.expect("maintained");
    let evolved = maintained.evolver.expect("a pass");
    assert_eq!(evolved.run.expect("a pass").summary["pending"], 1);
    assert!(harness.maintain(&id).await.expect("maintained").evolver.is_none(), "not before a day is over");
    brains.clock.advance_ms(25 * 3_600_000);
    assert!(harness.maintain(&id).await.expect("maintained").evolver.is_some());
    harness.shutdown().await.expect("closed");
    let brain = brains.open("1").expect("opened");
    assert_eq!(text_of(&brain, "pump"), before);
    assert_eq!(brain.evolver_rows().queue(Some(ReviewStatus::Pending), None).expect("a queue").len(), 1);
}

#[tokio::test]
async fn told_to_apply_it_changes_skills_after_a_session_and_signs_for_it() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    many(&mut brain);
    brain.close().expect("closed");
    let options = EvolverPassOptions {
        mode: EvolverPassMode::ApplyLowRisk,
        approval: EvolverApproval::Given,
        ..EvolverPassOptions::default()
    };
    let evolving = EvolverOptions {
        routine: EvolverRoundOptions { options, ..EvolverRoundOptions::default() },
        every: Duration::from_secs(60),
    };
    let harness = harness(&brains, Some(evolving));
    let outcome = harness.run(&"1".parse().expect("an id"), Task::new("do something")).await.expect("an outcome");
    let task_version = outcome.settled.expect("settled").version;
    harness.shutdown().await.expect("closed");
    let brain = brains.open("1").expect("opened");
    assert!(text_of(&brain, "pump").contains(START));
    assert_eq!(brain.lock().version, task_version + 1, "a step of its own, after the task's");
    let last = brain.receipts(1, u64::MAX).expect("receipts").pop().expect("one");
    assert_eq!(last.step, brain.last_step().expect("a step"));
}

#[tokio::test]
async fn turned_off_it_still_counts_evidence_and_lets_it_go() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    many(&mut brain);
    brain.close().expect("closed");
    brains.clock.advance_ms(100 * super::DAY);
    let options = EvolverPassOptions { mode: EvolverPassMode::DryRun, ..EvolverPassOptions::default() };
    let off = EvolverOptions {
        routine: EvolverRoundOptions { options, keep_days: 30, ..EvolverRoundOptions::default() },
        ..EvolverOptions::default()
    };
    let harness = harness(&brains, Some(off));
    let evolved = harness.maintain(&"1".parse().expect("an id")).await.expect("maintained").evolver.expect("a round");
    assert!(evolved.run.is_none() && evolved.pruned > 0);
    harness.shutdown().await.expect("closed");
}

#[tokio::test]
async fn a_young_brain_is_left_alone_and_one_without_an_evolver_always() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    brain.close().expect("closed");
    let id = "1".parse().expect("an id");
    let young = harness(&brains, Some(EvolverOptions::default()));
    assert!(young.maintain(&id).await.expect("maintained").evolver.is_none(), "three events are not enough");
    young.shutdown().await.expect("closed");
    brain = brains.open("1").expect("opened");
    many(&mut brain);
    brain.close().expect("closed");
    let off = harness(&brains, None);
    assert!(off.maintain(&id).await.expect("maintained").evolver.is_none());
    off.shutdown().await.expect("closed");
}
