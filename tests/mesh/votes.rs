//! Who approves, rejects and says nothing.

use herm::successor::gate::vote::Standing;
use herm::successor::gate::{EpochBook, NonceBook, SignedConsensus};
use herm::successor::gate::{Gate, consensus};
use herm::successor::{Records, Ruling, Verdict};
use herm::{ErrorKind, Layout};

use super::{PATIENCE, Role, SILENCE, Town, counts, patch, silent};

#[test]
fn five_honest_nodes_agree_and_the_epoch_is_closed_for_all_of_them() {
    let town = Town::honest();
    let asked = town.proposal(1);
    let agreed = town.decide(&asked, PATIENCE);
    assert_eq!((counts(&agreed), silent(&agreed)), ((5, 5, true), vec![]));
    // Each found it by itself: every vote rests on a verdict of its own.
    let mut verdicts: Vec<_> = agreed.said().votes.iter().map(|vote| vote.said().verdict_hash.clone()).collect();
    verdicts.sort();
    verdicts.dedup();
    assert_eq!(verdicts.len(), 5);
    for number in 1..=5 {
        town.tell(number, &agreed).unwrap();
    }
    // The same again is no news, and nobody votes in that epoch any more.
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
    assert_eq!(town.ask(3, &town.proposal(2)).unwrap().said().ruling, Ruling::Approve);
}

#[test]
fn what_the_mesh_agreed_on_opens_the_proposer_s_gate_once() {
    let town = Town::honest();
    let asked = town.proposal(1);
    let agreed = town.decide(&asked, PATIENCE);
    // The document says it all: whoever reads it counts again.
    let read: SignedConsensus = SignedConsensus::parse(&agreed.to_line().unwrap()).unwrap();
    let layout = Layout::new(town.node(1).operator.brains());
    let (epochs, mut nonces) = (EpochBook::open(&layout).unwrap(), NonceBook::open(&layout).unwrap());
    // What node 1 found itself; every node keeps the verdict that its vote names.
    let own = agreed.said().votes.iter().find(|vote| vote.key() == town.node(1).signer.public()).unwrap();
    let (records, _) = Records::new(&layout).all().unwrap();
    let found = |verdict: &Verdict| verdict.hash().ok() == own.said().verdict_hash;
    let verdict = records.into_iter().map(|record| record.verdict).find(found).unwrap();
    let base = town.node(1).base();
    let granted = consensus::check(&read, &verdict, &base, &town.mesh(), &epochs, &mut nonces).unwrap();
    Gate::Mesh.open(vec![granted]).unwrap().covers(&patch(), &base).unwrap();
    let again = consensus::check(&read, &verdict, &base, &town.mesh(), &epochs, &mut nonces).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Refused);
}

#[test]
fn two_who_reject_stop_it_for_3_of_5_are_less_than_two_thirds() {
    let (common, other) = (Role::Common, Role::Other);
    let town = Town::of([common, common, common, other, other]);
    let agreed = town.decide(&town.proposal(1), PATIENCE);
    assert_eq!((counts(&agreed), silent(&agreed)), ((3, 5, false), vec![]));
    let standings: Vec<Standing> = agreed.said().tally.counted.iter().map(|one| one.standing).collect();
    let (yes, no) = (Standing::Approve, Standing::Reject);
    assert_eq!(standings, [yes, yes, yes, no, no]);
}

#[test]
fn one_who_rejects_does_not_stop_four() {
    let (common, other) = (Role::Common, Role::Other);
    let town = Town::of([common, common, common, common, other]);
    assert_eq!(counts(&town.decide(&town.proposal(1), PATIENCE)), (4, 5, true));
}

#[test]
fn two_silent_do_not_stop_three_and_three_silent_do() {
    let town = Town::honest();
    let asked = town.proposal(1);
    for number in 1..=3 {
        assert_eq!(town.ask(number, &asked).unwrap().said().ruling, Ruling::Approve);
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
