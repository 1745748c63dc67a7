//! Who approves, rejects and says nothing.

use herm::Layout;
use herm::successor::gate::vote::VoteStatus;
use herm::successor::gate::{SignedConsensus, VoteStore};
use herm::successor::{Evaluation, Patch, PatchBase, VerdictRuling};
use herm_tests::can_sandbox;
use serde_json::json;

use super::{BRAIN, PATIENCE, Place, Role, SILENCE, Town, checked, counts, evaluation, patch, silent};

#[test]
fn five_honest_nodes_agree_and_the_epoch_is_closed_for_all_of_them() {
    if !can_sandbox() {
        return;
    }
    let town = Town::honest();
    let asked = town.proposal(1);
    let agreed = town.decide(&asked, PATIENCE);
    assert_eq!((counts(&agreed), silent(&agreed)), ((5, 5, true), vec![]));
    // Each found it by itself: every vote rests on a verdict of its own.
    let mut verdicts: Vec<_> =
        agreed.predicate().votes.iter().map(|vote| vote.predicate().verdict_hash.clone()).collect();
    verdicts.sort();
    verdicts.dedup();
    assert_eq!(verdicts.len(), 5);
    for number in 1..=5 {
        town.tell(number, &agreed).unwrap();
    }
    // The same again changes nothing, and nobody votes in that epoch any more.
    town.tell(2, &agreed).unwrap();
    let again = town.decide(&town.proposal(1), PATIENCE);
    assert_eq!(counts(&again), (0, 0, false));
    for (name, why) in silent(&again) {
        assert_eq!(why, format!("{name} answered with 409: epoch 1 of brain 7 is closed; the next is 2"));
    }
    // Not after a restart either.
    let mut town = town;
    let place = &mut town.places[2];
    assert!(place.serving.take().unwrap().stop().success());
    place.serving = Some(place.operator.serve());
    let error = town.ask(3, &town.proposal(1)).unwrap_err();
    assert!(error.message().contains("epoch 1 of brain 7 is closed"), "{error}");
    assert_eq!(town.ask(3, &town.proposal(2)).unwrap().predicate().ruling, VerdictRuling::Approve);
}

/// From the command line to the step: the proposer has no server of its own, and needs none.
#[test]
fn what_was_evaluated_is_proposed_agreed_on_and_applied_once() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::asleep([Role::Common; 5]);
    for place in &mut town.places[1..] {
        place.serving = Some(place.operator.serve());
    }
    let own = town.node(1);
    let verdict = evaluated(own);
    // Who proposes has to know where the others are.
    own.configure(&town.places, "[successor]\ngate = \"mesh\"");
    let herm = own.operator.herm();
    let early = herm.run(&["successor", "apply", &verdict]);
    assert!(early.code != 0 && early.stderr.contains("has no consensus.dsse.json"), "{early:?}");
    let (code, said) = herm.json(&["successor", "propose", &verdict]);
    assert_eq!((code, &said["tally"]["approvals"], &said["tally"]["passed"]), (0, &json!(5), &json!(true)), "{said}");
    // The document says it all: its reader counts the votes again. Every node has closed the epoch with it.
    let agreed: SignedConsensus = serde_json::from_value(said["consensus"].clone()).unwrap();
    assert!(agreed.recount(&town.mesh()).unwrap().passed);
    let before = own.base();
    for place in &town.places {
        let book = VoteStore::open(&Layout::new(place.operator.brains())).unwrap();
        assert_eq!(book.closing(&before.brain, 1).unwrap().as_ref(), Some(&agreed));
    }
    let applied = herm.run(&["successor", "apply", &verdict]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(own.base().version, before.version + 1);
    // It is rehearsed first, and there is nothing left to do.
    let again = herm.run(&["successor", "apply", &verdict]);
    assert!(again.code != 0 && again.stderr.contains("the patch changes nothing"), "{again:?}");
}

#[test]
fn a_proposer_cut_off_from_the_others_is_told_so_and_applies_nothing() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::asleep([Role::Common; 5]);
    let place = &mut town.places[1];
    place.serving = Some(place.operator.serve());
    let own = town.node(1);
    let verdict = evaluated(own);
    own.configure(&town.places, "[successor]\ngate = \"mesh\"");
    let (code, said) = own.operator.herm().json(&["successor", "propose", &verdict]);
    let tally = &said["tally"];
    assert_ne!(code, 0, "{said}");
    assert_eq!((&tally["approvals"], &tally["responders"], &tally["passed"]), (&json!(2), &json!(2), &json!(false)));
    let applied = own.operator.herm().run(&["successor", "apply", &verdict]);
    assert!(applied.code != 0 && applied.stderr.contains("the mesh did not agree"), "{applied:?}");
    assert_eq!(own.base().version, 1);
}

/// Evaluates on the command line; the name of the verdict.
fn evaluated(place: &Place) -> String {
    evaluated_with(place, &patch(), &evaluation())
}

/// The same with another patch, by another evaluation.
pub(super) fn evaluated_with(place: &Place, patch: &Patch, evaluation: &Evaluation) -> String {
    let file = |name: &str, content: &[u8]| {
        let path = place.operator.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let patch_file = file("patch.json", patch.bytes());
    let task_file = file("task.json", &serde_json::to_vec(evaluation).unwrap());
    let arguments = ["successor", "evaluate", BRAIN, "--patch", &patch_file, "--task", &task_file];
    let (code, judged) = place.operator.herm().json(&arguments);
    assert_eq!(code, 0, "{judged:#}");
    judged["hash"].as_str().unwrap()["sha256:".len()..][..16].to_owned()
}

/// Five with the same brain, some of whom have an evaluation of their own that their brain does not pass as it is: they
/// approve of nothing.
fn strict(numbers: &[usize]) -> Town {
    let mut town = Town::asleep([Role::Common; 5]);
    let mut task = checked("yes");
    task["checks"] = json!([{ "answerHas": "no" }]);
    let own = json!({
        "schema": "herm/evaluation@1",
        "title": "What nobody passes",
        "parts": [{ "kind": "suite", "name": "asked", "tasks": [task] }],
    });
    for number in numbers {
        town.node(*number).holds_out(&own);
        town.node(*number).configure(&town.places, "");
    }
    for place in &mut town.places {
        place.serving = Some(place.operator.serve());
    }
    town
}

#[test]
fn two_who_reject_stop_it_for_3_of_5_are_less_than_two_thirds() {
    if !can_sandbox() {
        return;
    }
    let town = strict(&[4, 5]);
    let agreed = town.decide(&town.proposal(1), PATIENCE);
    assert_eq!((counts(&agreed), silent(&agreed)), ((3, 5, false), vec![]));
    let standings: Vec<VoteStatus> = agreed.predicate().tally.counted.iter().map(|one| one.standing).collect();
    let (yes, no) = (VoteStatus::Approve, VoteStatus::Reject);
    assert_eq!(standings, [yes, yes, yes, no, no]);
    assert_eq!(agreed.predicate().votes[4].predicate().reason.as_deref(), Some("local_unmeasured"));
}

#[test]
fn one_who_rejects_does_not_stop_four() {
    if !can_sandbox() {
        return;
    }
    let town = strict(&[5]);
    assert_eq!(counts(&town.decide(&town.proposal(1), PATIENCE)), (4, 5, true));
}

#[test]
fn who_has_another_brain_is_named_counts_for_nothing_and_closes_nothing() {
    if !can_sandbox() {
        return;
    }
    let (common, other) = (Role::Common, Role::Other);
    let town = Town::of([common, common, common, other, other]);
    let agreed = town.decide(&town.proposal(1), PATIENCE);
    assert_eq!((counts(&agreed), silent(&agreed)), ((3, 3, true), vec![]));
    let named = &agreed.predicate().tally.not_counted;
    assert_eq!(
        named.iter().map(|one| one.why.as_str()).collect::<Vec<_>>(),
        ["it rests on no verdict: another_base"; 2]
    );
    // A member that proposes for a brain that nobody has is answered at once by all, and closes no epoch with that.
    let nowhere = PatchBase { version: 77, ..town.node(1).base() };
    let free = town.proposal_for(1, &town.node(1).signer, &evaluation(), nowhere);
    let answered = town.decide(&free, PATIENCE);
    assert_eq!((counts(&answered), answered.predicate().votes.len()), ((0, 0, false), 5));
    for number in 1..=5 {
        let refused = town.tell(number, &answered).unwrap_err();
        assert!(refused.message().contains("0 members voted, and 3 must have"), "{refused}");
        let book = VoteStore::open(&Layout::new(town.node(number).operator.brains())).unwrap();
        assert_eq!(book.vote(free.hash()).unwrap(), None, "nothing is written down");
    }
    for number in 1..=3 {
        town.tell(number, &agreed).unwrap();
    }
}

#[test]
fn two_silent_do_not_stop_three_and_three_silent_do() {
    if !can_sandbox() {
        return;
    }
    let town = Town::honest();
    let asked = town.proposal(1);
    for number in 1..=3 {
        assert_eq!(town.ask(number, &asked).unwrap().predicate().ruling, VerdictRuling::Approve);
    }
    town.node(4).fall_silent();
    town.node(5).fall_silent();
    let agreed = town.decide(&asked, SILENCE);
    assert_eq!(counts(&agreed), (3, 3, true));
    let names: Vec<&str> = silent(&agreed).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["node-4", "node-5"]);
    town.node(3).fall_silent();
    assert_eq!(counts(&town.decide(&asked, SILENCE)), (2, 2, false));
    // Who comes back votes.
    for number in 3..=5 {
        town.node(number).go_on();
    }
    assert_eq!(counts(&town.decide(&asked, PATIENCE)), (5, 5, true));
}

#[test]
fn a_proposer_that_reaches_one_other_never_passes() {
    if !can_sandbox() {
        return;
    }
    let (common, other) = (Role::Common, Role::Common);
    let mut town = Town::asleep([common, other, common, common, common]);
    for place in &mut town.places[..2] {
        place.serving = Some(place.operator.serve());
    }
    let asked = town.proposal(1);
    for _ in 0..3 {
        let agreed = town.decide(&asked, PATIENCE);
        assert_eq!(counts(&agreed), (2, 2, false));
        assert_eq!(silent(&agreed).len(), 3);
        let refused = town.tell(2, &agreed).unwrap_err();
        assert!(refused.message().contains("2 members voted, and 3 must have"), "{refused}");
    }
    // When the others can be reached, it is the same proposal.
    for place in &mut town.places[2..] {
        place.serving = Some(place.operator.serve());
    }
    assert_eq!(counts(&town.decide(&asked, PATIENCE)), (5, 5, true));
}
