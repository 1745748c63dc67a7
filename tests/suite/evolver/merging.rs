//! Skills of the agent's own that say nearly the same become one: proposed, made or rejected as a whole, and undone as one.

use std::time::Duration;

use herm::backend::ScriptedBackend;
use herm::brain::OnChanged;
use herm::evolver::consolidation::pass::{self as merging, ConsolidationMemory, ConsolidationReport};
use herm::evolver::pass::{EvolverPassMode, EvolverPassOptions};
use herm::evolver::review_queue::{self, ReviewOutcome};
use herm::evolver::verification::VerificationOptions;
use herm::evolver::{DrillStatus, EvolverApproval, EvolverPolicy, EvolverRoundOptions, SkillApplyReason};
use herm::harness::EvolverOptions;
use herm::memory::{ReviewStatus, TrialState};
use herm::skill::{CreatedBy, SkillState};
use herm::trial::pass::{TrialMemory, TrialScope};
use herm::trial::sequential::TrialPolicy;
use herm::{Brain, Draft, Harness, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{signer, slug};

use super::{add_skill, applying, file_of, last_step, text_of};

const DESK: &str = "1. Ask the cloakroom desk with the ticket number.\n2. If the desk says closed, ask the porter at the \
    north gate.\n3. Answer with the shelf and the drawer.\n";
const DESK_AGAIN: &str = "- Ask the cloakroom desk; give it the ticket number.\n- If the desk says closed, the porter at \
    the north gate knows.\n- Answer with the shelf and the drawer.\n- Umbrellas stand in the cellar.\n";
const SCALE: &str = "1. Weigh the parcel on the brass scale.\n2. Convert pounds to kilograms before you answer.\n";

fn text(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: What to do.\n---\n\n{body}")
}

/// A brain with two skills that say nearly the same, and one that does not; all of them on trial.
fn overlapping(brains: &TempBrains) -> Brain {
    let mut brain = brains.make("1");
    for (name, body) in [("lost-things", DESK), ("weigh-it", SCALE), ("find-lost", DESK_AGAIN)] {
        brains.clock.advance_ms(1_000);
        add_skill(&mut brain, name, &text(name, body), CreatedBy::Agent);
    }
    try_all(&mut brain);
    brain
}

fn try_all(brain: &mut Brain) {
    let policy = TrialPolicy::default();
    herm::trial::pass::run(brain, &mut TrialMemory::default(), &policy, TrialScope::All).expect("a pass");
}

fn holding() -> EvolverPassOptions {
    EvolverPassOptions { mode: EvolverPassMode::Pending, ..EvolverPassOptions::default() }
}

fn consolidate(brain: &mut Brain, options: &EvolverPassOptions) -> ConsolidationReport {
    merging::run(brain, options, &mut ConsolidationMemory::default()).expect("a pass")
}

fn accept(brain: &mut Brain, id: &str) -> ReviewOutcome {
    review_queue::accept(brain, id, &VerificationOptions::default()).expect("decided")
}

#[test]
fn two_skills_that_say_the_same_become_one_in_one_step_and_undo_takes_it_back() {
    let brains = TempBrains::new();
    let mut brain = overlapping(&brains);
    let (kept, other) = (text_of(&brain, "lost-things"), text_of(&brain, "find-lost"));
    let proposed = consolidate(&mut brain, &holding()).proposed;
    let [id] = proposed.try_into().expect("one proposal");
    assert_eq!(text_of(&brain, "lost-things"), kept, "nothing changes before a person accepts");
    let row = brain.evolver_rows().queued(&id).expect("read").expect("there");
    assert_eq!(row.entry["title"], "Merge find-lost into lost-things");
    let since = brain.trial(&slug("lost-things")).expect("read").expect("on trial").since;

    let step = last_step(&brain);
    assert!(accept(&mut brain, &id).is_done());
    assert_eq!(last_step(&brain), step + 1, "one step");
    assert_eq!(brain.receipts(1, u64::MAX).expect("receipts").pop().expect("one").step, step + 1);
    let merged = text_of(&brain, "lost-things");
    assert_eq!(merged, format!("{}\n\n## More on this\n\n- Umbrellas stand in the cellar.\n", kept.trim_end()));
    assert_eq!(file_of(&brain, "skills/.archive/find-lost.md").as_deref(), Some(other.as_str()), "not deleted");
    assert_eq!(brain.usage().expect("usage")[&slug("find-lost")].state, SkillState::Archived);
    let trial = brain.trial(&slug("lost-things")).expect("read").expect("on trial");
    assert!(trial.state == TrialState::Trial && trial.since > since, "{trial:?}");
    let change = brain.evolver_rows().changes_of(step + 1).expect("changes").remove(0);
    assert_eq!(change.manifest["merges"], serde_json::json!(["find-lost"]));
    assert!(consolidate(&mut brain, &holding()).is_empty(), "nothing is left to merge");

    // It can be rolled back as a whole, and then it does not come back by itself.
    let drilled = herm::evolver::rollback::drill_in_staging(&mut brain, step + 1).expect("drilled");
    assert_eq!(drilled.status, DrillStatus::Pass, "{drilled:?}");
    brain.undo(step + 1, OnChanged::Refuse).expect("undone");
    assert_eq!((text_of(&brain, "lost-things"), text_of(&brain, "find-lost")), (kept, other));
    assert_eq!(brain.usage().expect("usage")[&slug("find-lost")].state, SkillState::Active);
    assert!(consolidate(&mut brain, &holding()).is_empty());
    assert!(consolidate(&mut brain, &applying()).is_empty());
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn a_rejected_merge_is_not_proposed_again_however_the_skills_are_worded_since() {
    let brains = TempBrains::new();
    let mut brain = overlapping(&brains);
    let [id] = consolidate(&mut brain, &holding()).proposed.try_into().expect("one proposal");
    review_queue::reject(&mut brain, &id).expect("rejected");
    assert!(consolidate(&mut brain, &holding()).is_empty());
    let mut draft = Draft::new();
    let reworded = text("find-lost", &format!("{DESK_AGAIN}- Gloves are in the drawer.\n"));
    brain.edit(&mut draft).edit_skill(&slug("find-lost"), &reworded).expect("edited");
    brain.settle(&draft, StepKind::Maintenance, "reworded").expect("settled");
    assert!(consolidate(&mut brain, &holding()).is_empty());
    assert!(consolidate(&mut brain, &applying()).is_empty());
    // Another skill that says the same is another question.
    add_skill(&mut brain, "seek-lost", &text("seek-lost", DESK_AGAIN), CreatedBy::Agent);
    assert_eq!(consolidate(&mut brain, &holding()).proposed.len(), 1);
}

#[test]
fn a_merge_of_skills_that_changed_since_is_refused_and_replaced() {
    let brains = TempBrains::new();
    let mut brain = overlapping(&brains);
    let [id] = consolidate(&mut brain, &holding()).proposed.try_into().expect("one proposal");
    let mut draft = Draft::new();
    let reworded = text("find-lost", &format!("{DESK_AGAIN}- Gloves are in the drawer.\n"));
    brain.edit(&mut draft).edit_skill(&slug("find-lost"), &reworded).expect("edited");
    brain.settle(&draft, StepKind::Maintenance, "reworded").expect("settled");
    let ReviewOutcome::Change(refused) = accept(&mut brain, &id) else { panic!("a change") };
    assert_eq!((refused.applied, refused.reason), (false, SkillApplyReason::HashMismatch));
    assert!(refused.detail.expect("why").contains("find-lost"));
    let [newer] = consolidate(&mut brain, &holding()).proposed.try_into().expect("one proposal");
    assert_ne!(newer, id);
    let status = brain.evolver_rows().queued(&id).expect("read").expect("there").status;
    assert!(status == ReviewStatus::Superseded, "{status}");
    assert!(accept(&mut brain, &newer).is_done());
    assert!(text_of(&brain, "lost-things").contains("Gloves are in the drawer."));
}

#[test]
fn skills_of_people_pinned_ones_procedures_and_what_the_operator_blocks_are_left_alone() {
    for spare in 0..4 {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let name = if spare == 0 { "how-to-find-lost" } else { "find-lost" };
        let by = if spare == 1 { CreatedBy::User } else { CreatedBy::Agent };
        add_skill(&mut brain, "lost-things", &text("lost-things", DESK), CreatedBy::Agent);
        add_skill(&mut brain, name, &text(name, DESK_AGAIN), by);
        let mut draft = Draft::new();
        brain.edit(&mut draft).pin_skill(&slug(name), spare == 2).expect("pinned");
        brain.settle(&draft, StepKind::Maintenance, "maybe pinned").expect("settled");
        let block = if spare == 3 { vec!["find-*".to_owned()] } else { Vec::new() };
        let options = EvolverPassOptions { policy: EvolverPolicy { block, ..EvolverPolicy::default() }, ..applying() };
        assert!(consolidate(&mut brain, &options).is_empty(), "{spare}");
    }
    let brains = TempBrains::new();
    let mut brain = overlapping(&brains);
    let unapproved = EvolverPassOptions { approval: EvolverApproval::Missing, ..applying() };
    for options in [unapproved, EvolverPassOptions::default()] {
        assert!(consolidate(&mut brain, &options).is_empty(), "off and not allowed: nothing is proposed");
    }
}

#[test]
fn a_merge_that_hurts_is_rolled_back_with_all_its_skills() {
    use crate::trials::until_it_ends;
    use herm::memory::OutcomeValue::{Bad, Good};

    let brains = TempBrains::new();
    let mut brain = overlapping(&brains);
    let kept = text_of(&brain, "lost-things");
    let made = consolidate(&mut brain, &applying()).applied;
    assert!(made[0].applied, "{made:?}");
    let (_, report) = until_it_ends(&mut brain, "lost-things", [Bad, Good], 60).expect("it ends");
    assert_eq!(report.rolled_back, [(slug("lost-things"), made[0].manifest.expect("a step"))]);
    assert_eq!(text_of(&brain, "lost-things"), kept);
    assert_eq!(brain.usage().expect("usage")[&slug("find-lost")].state, SkillState::Active);
    assert!(consolidate(&mut brain, &applying()).is_empty(), "not again");
}

fn harness(brains: &TempBrains, options: EvolverPassOptions) -> Harness {
    let routine = EvolverRoundOptions { options, ..EvolverRoundOptions::default() };
    let replies = std::iter::repeat_n([r#"{"tool": "recall", "args": {"query": "x"}}"#, r#"{"done": true}"#], 4);
    Harness::builder()
        .brains(brains.path())
        .clock(brains.clock())
        .signer(signer())
        .toolbox(herm_tools::standard().expect("tools"))
        .backend(ScriptedBackend::new(replies.flatten().map(str::to_owned).collect::<Vec<_>>()))
        .evolving(Some(EvolverOptions { routine, every: Duration::from_secs(3_600) }))
        .build()
        .expect("a harness")
}

#[tokio::test]
async fn after_a_session_a_merge_is_proposed_or_made_and_the_same_skills_are_not_compared_twice() {
    let brains = TempBrains::new();
    overlapping(&brains).close().expect("closed");
    let id = "1".parse().expect("an id");
    let holds = harness(&brains, holding());
    let first = holds.maintain(&id).await.expect("maintained").consolidation.expect("a proposal");
    assert_eq!(first.proposed.len(), 1);
    assert_eq!(holds.maintain(&id).await.expect("maintained").consolidation, None);
    holds.shutdown().await.expect("closed");

    let makes = harness(&brains, applying());
    let outcome = makes.run(&id, herm::Task::new("do something")).await.expect("an outcome");
    let version = outcome.settled.expect("settled").version;
    makes.shutdown().await.expect("closed");
    let brain = brains.open("1").expect("opened");
    assert!(text_of(&brain, "lost-things").contains("Umbrellas"));
    assert_eq!(brain.lock().version, version + 1, "a step of its own, after the task's");
    assert_eq!(brain.evolver_rows().waiting().expect("counted"), 0, "what waited is done");
}
