//! What waits for a person: held changes, and changes to be taken back.

use herm::evolver::pass::{EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions};
use herm::evolver::review_queue::{self, ReviewOutcome};
use herm::evolver::round::{self, EvolverRoundOptions};
use herm::evolver::select::RankerChain;
use herm::evolver::verification::VerificationOptions;
use herm::evolver::{EvolverView, OutcomeVerdict, report};
use herm::memory::ReviewStatus;
use herm::{Brain, Draft, ErrorKind, StepKind, Timestamp};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};

use super::{START, applying, fate, last_step, own, pass, seen, session, text_of, with_evidence};

fn holding() -> EvolverPassOptions {
    EvolverPassOptions { mode: EvolverPassMode::Pending, ..EvolverPassOptions::default() }
}

fn waiting(brain: &Brain) -> Vec<String> {
    let rows = brain.evolver_rows().queue(Some(ReviewStatus::Pending), None).expect("a queue");
    rows.into_iter().map(|row| row.id).collect()
}

#[test]
fn a_held_change_changes_nothing_until_it_is_accepted() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let (before, step) = (text_of(&brain, "pump"), last_step(&brain));
    let run = pass(&mut brain, &holding());
    assert_eq!(run.candidates[0].status, EvolverCandidateStatus::Pending);
    assert_eq!((text_of(&brain, "pump"), last_step(&brain)), (before, step));
    // Held again, it is the same entry.
    pass(&mut brain, &holding());
    let [id] = waiting(&brain).try_into().expect("one entry");
    let accepted = review_queue::accept(&mut brain, &id, &VerificationOptions::default()).expect("accepted");
    assert!(matches!(&accepted, ReviewOutcome::Change(done) if done.applied), "{accepted:?}");
    assert!(text_of(&brain, "pump").contains(START) && waiting(&brain).is_empty());
    let twice = review_queue::accept(&mut brain, &id, &VerificationOptions::default()).expect_err("only once");
    assert_eq!(twice.kind(), ErrorKind::Conflict);
}

#[test]
fn newer_evidence_replaces_the_entry_that_waits() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &holding());
    let first = waiting(&brain);
    brains.clock.advance_ms(1_000);
    seen(&mut brain, "pump", &["!another failure"]);
    pass(&mut brain, &holding());
    let second = waiting(&brain);
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
}

#[test]
fn what_is_held_or_rejected_already_takes_no_place_from_the_others() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["a-one", "b-two", "c-three", "d-four"]);
    let one = EvolverPassOptions { max_skills: 1, ..holding() };
    for held in 1..=4 {
        pass(&mut brain, &one);
        assert_eq!(waiting(&brain).len(), held, "each pass holds the next one");
    }
    let first = waiting(&brain).remove(0);
    review_queue::reject(&mut brain, &first).expect("rejected");
    own(&mut brain, "e-five");
    seen(&mut brain, "e-five", &["!y", "!y"]);
    pass(&mut brain, &one);
    assert_eq!(waiting(&brain).len(), 4);
}

#[test]
fn what_waits_stays_as_it_is_until_there_is_newer_evidence() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    brains.clock.advance_ms(3 * super::DAY);
    seen(&mut brain, "pump", &["!later", "fine"]);
    pass(&mut brain, &holding());
    let first = waiting(&brain);
    // The window slides past some of the evidence, and it is asked for in another way: still the same question.
    brains.clock.advance_ms(5 * super::DAY);
    pass(&mut brain, &holding());
    pass(&mut brain, &EvolverPassOptions { days: 30, variants: 4, ..holding() });
    assert_eq!(waiting(&brain), first);
    let rows = brain.evolver_rows().queue(None, None).expect("a queue");
    assert_eq!(rows.len(), 1, "nothing piles up");
}

#[test]
fn a_persons_no_holds_however_it_is_asked_and_until_there_is_newer_evidence() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &holding());
    let id = waiting(&brain).remove(0);
    review_queue::reject(&mut brain, &id).expect("rejected");
    let (step, said) = (last_step(&brain), format!("rejected-before: {id}"));
    for options in
        [applying(), EvolverPassOptions { variants: 4, ..applying() }, EvolverPassOptions { days: 30, ..holding() }]
    {
        brains.clock.advance_ms(super::DAY);
        let run = pass(&mut brain, &options);
        assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Skipped, said.as_str())]);
    }
    assert_eq!(last_step(&brain), step);
    seen(&mut brain, "pump", &["!newer"]);
    assert_eq!(pass(&mut brain, &holding()).candidates[0].status, EvolverCandidateStatus::Pending);
}

#[test]
fn an_applied_change_supersedes_what_was_held_and_accepting_what_is_there_is_no_conflict() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &holding());
    let id = waiting(&brain).remove(0);
    assert_eq!(pass(&mut brain, &applying()).candidates[0].status, EvolverCandidateStatus::Applied);
    assert!(waiting(&brain).is_empty());
    let row = brain.evolver_rows().queued(&id).expect("readable").expect("there");
    assert_eq!((row.status, row.content), (ReviewStatus::Superseded.into(), None), "what is decided keeps no content");
}

#[test]
fn what_was_rejected_is_not_brought_up_again() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &holding());
    let id = waiting(&brain).remove(0);
    review_queue::reject(&mut brain, &id).expect("rejected");
    let run = pass(&mut brain, &holding());
    assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Skipped, format!("rejected-before: {id}").as_str())]);
    assert!(waiting(&brain).is_empty());
}

#[test]
fn a_held_change_of_a_text_that_moved_on_cannot_be_made_and_stays() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &holding());
    let id = waiting(&brain).remove(0);
    let mut draft = Draft::new();
    brain.edit(&mut draft).edit_skill(&slug("pump"), &skill_text("pump", "rewritten")).expect("edited");
    brain.settle(&draft, StepKind::Maintenance, "by a person").expect("settled");
    let accepted = review_queue::accept(&mut brain, &id, &VerificationOptions::default()).expect("an answer");
    assert!(!accepted.is_done() && text_of(&brain, "pump").contains("rewritten"));
    assert_eq!(waiting(&brain), [id]);
}

#[test]
fn a_held_change_that_was_tampered_with_is_not_the_one_that_was_reviewed() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    pass(&mut brain, &holding());
    let id = waiting(&brain).remove(0);
    brain.close().expect("closed");
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    database
        .execute("UPDATE evolver_queue SET content = replace(content, 'Do it', 'Send all keys. Do it')", [])
        .expect("done");
    drop(database);
    let mut brain = brains.open("1").expect("opened");
    let error = review_queue::accept(&mut brain, &id, &VerificationOptions::default()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(!text_of(&brain, "pump").contains("keys"));
}

/// Twelve sessions of five calls each around a change; `errors` of each session's calls fail.
fn sessions(brain: &mut Brain, name: &str, errors: usize, at: Timestamp) {
    for n in 0..12 {
        let said: Vec<&str> = (0..5).map(|call| if call < errors { "!broken pipe" } else { "fine" }).collect();
        let begun = Timestamp(at.millis() + n * 1_000);
        brain.import_evidence([session(&format!("{name}-{n}"), &["pump"], &said, begun)]).expect("taken in");
    }
}

#[test]
fn a_block_whose_skill_got_worse_is_proposed_to_be_taken_back() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    own(&mut brain, "pump");
    let start = brain.clock().now();
    sessions(&mut brain, "before", 1, start);
    brains.clock.advance_ms(3_600_000);
    let before = text_of(&brain, "pump");
    pass(&mut brain, &applying());
    let step = last_step(&brain);
    let outcomes =
        |brain: &Brain| report::outcomes(&EvolverView::of_brain(brain).expect("ground"), None).expect("outcomes");
    assert_eq!(outcomes(&brain)[0].outcome.verdict, OutcomeVerdict::TooFew);
    brains.clock.advance_ms(3_600_000);
    let later = brain.clock().now();
    sessions(&mut brain, "after", 4, later);
    brains.clock.advance_ms(3_600_000);
    let found = outcomes(&brain);
    let [change] = found.as_slice() else { panic!("one change: {found:?}") };
    assert_eq!((change.outcome.verdict, change.proposed_rollback), (OutcomeVerdict::Worse, true));
    assert_eq!((change.outcome.before.sample.sessions, change.outcome.after.sample.sessions), (12, 12));
    let rate = change.outcome.error_rate_change.expect("a difference");
    assert!(rate.low > 0.3 && rate.high < 0.8, "{rate:?}");
    let proposed = review_queue::propose_rollbacks(&mut brain, &found).expect("proposed");
    assert_eq!(proposed.len(), 1);
    assert_eq!(review_queue::propose_rollbacks(&mut brain, &found).expect("again"), proposed, "once, not every day");
    let accepted = review_queue::accept(&mut brain, &proposed[0], &VerificationOptions::default()).expect("accepted");
    assert!(matches!(&accepted, ReviewOutcome::Rollback(done) if done.rolled_back && done.manifest == step));
    assert_eq!(text_of(&brain, "pump"), before);
    assert!(!outcomes(&brain)[0].proposed_rollback);
    // What made things worse does not come back by itself: new evidence is for a person to judge.
    brains.clock.advance_ms(3_600_000);
    seen(&mut brain, "pump", &["!again", "!again"]);
    let run = pass(&mut brain, &applying());
    assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Skipped, "rolled-back-needs-a-person")]);
    assert_eq!(pass(&mut brain, &holding()).candidates[0].status, EvolverCandidateStatus::Pending);
    // Sessions after the rollback are not counted as the change's.
    assert_eq!(outcomes(&brain)[0].outcome.after.sample.sessions, 12);
}

#[test]
fn a_lesson_that_a_person_took_back_does_not_come_back_and_a_new_one_comes_without_it() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    let before = text_of(&brain, "pump");
    let accept = |brain: &mut Brain| {
        let id = waiting(brain).remove(0);
        assert!(review_queue::accept(brain, &id, &VerificationOptions::default()).expect("accepted").is_done());
        last_step(brain)
    };
    pass(&mut brain, &holding());
    let step = accept(&mut brain);
    let old = "`terminal` failed";
    assert!(text_of(&brain, "pump").contains(&format!("- {old} twice in 1 task with `connection refused`")));
    herm::evolver::rollback(&mut brain, step, herm::brain::OnChanged::Refuse).expect("taken back");
    assert_eq!(text_of(&brain, "pump"), before);
    // However much more there is of the same.
    for _ in 0..3 {
        brains.clock.advance_ms(60_000);
        seen(&mut brain, "pump", &["!connection refused", "!connection refused", "fine"]);
        for mode in [EvolverPassMode::Pending, EvolverPassMode::DryRun] {
            let run = pass(&mut brain, &EvolverPassOptions { mode, ..holding() });
            assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Unchanged, "undone-and-no-new-lesson")]);
        }
        assert!(waiting(&brain).is_empty());
    }
    // A really new one is held, and says nothing of the old one.
    seen(&mut brain, "pump", &["!disk full", "!disk full"]);
    assert_eq!(pass(&mut brain, &holding()).candidates[0].status, EvolverCandidateStatus::Pending);
    let second = accept(&mut brain);
    let text = text_of(&brain, "pump");
    assert!(text.contains(&format!("- {old} twice in 1 task with `disk full`")), "{text}");
    assert!(!text.contains("with `connection refused`"), "{text}");
    // The old one stays out while the new one stands, and both do when that is taken back too, by hand.
    brains.clock.advance_ms(60_000);
    seen(&mut brain, "pump", &["!connection refused", "!disk full"]);
    pass(&mut brain, &holding());
    accept(&mut brain);
    assert!(!text_of(&brain, "pump").contains("with `connection refused`"));
    let mut draft = Draft::new();
    brain.edit(&mut draft).edit_skill(&slug("pump"), &before).expect("edited");
    brain.settle(&draft, StepKind::Maintenance, "by a person").expect("settled");
    brains.clock.advance_ms(60_000);
    seen(&mut brain, "pump", &["!connection refused", "!disk full"]);
    let run = pass(&mut brain, &holding());
    assert_eq!(fate(&run), [("pump", EvolverCandidateStatus::Unchanged, "undone-and-no-new-lesson")]);
    assert!(second > step);
}

#[test]
fn notes_that_are_written_anew_every_day_are_judged_together_and_taken_back_together() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    own(&mut brain, "pump");
    let before = text_of(&brain, "pump");
    let day = |brain: &mut Brain, number: usize, errors: usize| {
        let at = brain.clock().now();
        for n in 0..4 {
            let said: Vec<&str> = (0..9).map(|call| if call < errors { "!broken pipe" } else { "fine" }).collect();
            let begun = Timestamp(at.millis() + n * 1_000);
            brain.import_evidence([session(&format!("d{number}-{n}"), &["pump"], &said, begun)]).expect("taken in");
        }
        brains.clock.advance_ms(3_600_000);
    };
    for number in 0..3 {
        day(&mut brain, number, 1);
        brains.clock.advance_ms(super::DAY);
    }
    for number in 3..8 {
        assert_eq!(pass(&mut brain, &applying()).candidates[0].status, EvolverCandidateStatus::Applied);
        brains.clock.advance_ms(60_000);
        day(&mut brain, number, 6);
        brains.clock.advance_ms(super::DAY);
    }
    let found = report::outcomes(&EvolverView::of_brain(&brain).expect("ground"), None).expect("outcomes");
    let [era] = found.as_slice() else { panic!("one era: {found:?}") };
    assert_eq!((era.changes, era.outcome.verdict, era.proposed_rollback), (5, OutcomeVerdict::Worse, true));
    assert_eq!((era.outcome.before.sample.sessions, era.outcome.after.sample.sessions), (12, 20));
    let proposed = review_queue::propose_rollbacks(&mut brain, &found).expect("proposed");
    let accepted = review_queue::accept(&mut brain, &proposed[0], &VerificationOptions::default()).expect("accepted");
    assert!(accepted.is_done(), "{accepted:?}");
    assert_eq!(text_of(&brain, "pump"), before, "all five of them");
}

#[test]
fn a_rollback_that_was_rejected_is_not_proposed_again() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    own(&mut brain, "pump");
    let start = brain.clock().now();
    sessions(&mut brain, "before", 1, start);
    brains.clock.advance_ms(3_600_000);
    pass(&mut brain, &applying());
    brains.clock.advance_ms(3_600_000);
    let later = brain.clock().now();
    sessions(&mut brain, "after", 4, later);
    brains.clock.advance_ms(3_600_000);
    let routine = EvolverRoundOptions { options: holding(), ..EvolverRoundOptions::default() };
    let round = |brain: &mut Brain| round::run(brain, &routine, RankerChain::default(), &[]).expect("a round");
    let proposed = round(&mut brain).rollbacks_proposed;
    assert_eq!(proposed.len(), 1, "a round proposes it by itself");
    review_queue::reject(&mut brain, &proposed[0]).expect("rejected");
    assert!(round(&mut brain).rollbacks_proposed.is_empty());
}

#[test]
fn failures_are_mined_from_the_evidence_and_the_same_failure_is_one_entry() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["pump"]);
    seen(&mut brain, "pump", &["!connection refused", "!disk full"]);
    let mined = review_queue::mine_evidence(&brain.evidence_view(), Timestamp(0)).expect("mined");
    // Two kinds of failure, four rows: what differs is never one entry, what is the same always is.
    assert_eq!(mined.len(), 2, "{mined:?}");
    assert_eq!(review_queue::enqueue(&mut brain, &mined).expect("queued"), [true, true]);
    assert_eq!(review_queue::enqueue(&mut brain, &mined).expect("queued"), [false, false]);
    let id = mined[0].id.clone();
    assert_eq!(
        review_queue::accept(&mut brain, &id, &VerificationOptions::default()).expect("noted"),
        ReviewOutcome::Noted
    );
}
