//! Who lies, says the same twice, says two things, and brings old votes.

use herm_tests::can_sandbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use herm::successor::gate::mesh::CollectedVotes;
use herm::successor::gate::vote::VoteStatus;
use herm::successor::gate::{SignedVote, VoteSubject};
use herm::successor::{PatchBase, VerdictRuling};
use herm_tests::web_server;

use super::{PATIENCE, Town, as_json, claim, counts, patch, silent};

/// Puts a server in a node's place that answers every request with the next of these votes, and then with the last.
fn answer_with(town: &mut Town, number: usize, votes: Vec<SignedVote>) {
    let bodies: Vec<Vec<u8>> = votes.iter().map(|vote| as_json(vote).to_string().into_bytes()).collect();
    let asked = AtomicUsize::new(0);
    let answering = Arc::new(move |_: web_server::Asked| {
        let at = asked.fetch_add(1, Ordering::SeqCst).min(bodies.len() - 1);
        (200, bodies[at].clone())
    });
    let url = town.runtime.block_on(web_server::serve(answering));
    town.places[number - 1].elsewhere = Some(url);
}

#[test]
fn a_liar_s_vote_on_another_patch_does_not_count_and_is_named() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::honest();
    let asked = town.proposal(1);
    let other = format!("sha256:{}", "a".repeat(64));
    let lie = VoteSubject { patch_hash: other.clone(), ..asked.question() };
    let liar = town.node(5).signer.clone();
    answer_with(&mut town, 5, vec![claim(&lie, VerdictRuling::Approve, &liar)]);
    let agreed = town.decide(&asked, PATIENCE);
    assert_eq!((counts(&agreed), silent(&agreed)), ((4, 4, true), vec![]));
    let named = &agreed.predicate().tally.not_counted;
    assert_eq!(named.len(), 1);
    assert_eq!((&named[0].key, &named[0].why), (&liar.public().to_string(), &format!("it is about the patch {other}")));
    // All five are in the document, the lie too.
    assert_eq!(agreed.predicate().votes.len(), 5);
}

#[test]
fn a_vote_under_another_key_is_no_answer() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::honest();
    let asked = town.proposal(1);
    // One answers with a key of its own making, one with a vote of another member.
    let stranger = herm::Signer::from_seed([99; 32]);
    answer_with(&mut town, 4, vec![claim(&asked.question(), VerdictRuling::Approve, &stranger)]);
    let borrowed = town.ask(1, &asked).unwrap();
    answer_with(&mut town, 5, vec![borrowed]);
    let agreed = town.decide(&asked, PATIENCE);
    assert_eq!(counts(&agreed), (3, 3, true));
    assert_eq!(
        silent(&agreed),
        [
            ("node-4", &*format!("node-4 answered with a vote that {} signed", stranger.public())),
            ("node-5", &*format!("node-5 answered with a vote that {} signed", town.node(1).signer.public())),
        ]
    );
}

#[test]
fn a_hundred_votes_of_strangers_change_nothing() {
    if !can_sandbox() {
        return;
    }
    let town = Town::asleep([super::Role::Common; 5]);
    let asked = town.proposal(1);
    let strangers =
        (100..200).map(|seed| claim(&asked.question(), VerdictRuling::Approve, &herm::Signer::from_seed([seed; 32])));
    let agreed = town.conclude(&asked, CollectedVotes { votes: strangers.collect(), silent: Vec::new() });
    assert_eq!(counts(&agreed), (0, 0, false));
    assert_eq!(agreed.predicate().tally.not_counted.len(), 100);
}

#[test]
fn a_node_says_the_same_however_often_it_is_asked_and_also_after_it_was_killed() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::honest();
    let asked = town.proposal(1);
    let first = town.ask(2, &asked).unwrap();
    assert_eq!(town.ask(2, &asked).unwrap(), first);
    let place = &mut town.places[1];
    place.serving.take().unwrap().kill();
    place.serving = Some(place.operator.serve());
    assert_eq!(town.ask(2, &asked).unwrap(), first);
    // Heard three times, it counts once.
    let votes = vec![first.clone(), first.clone(), first];
    let agreed = town.conclude(&asked, CollectedVotes { votes, silent: Vec::new() });
    assert_eq!(counts(&agreed), (1, 1, false));
}

#[test]
fn who_says_two_things_is_named_and_counts_as_a_reject() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::honest();
    let asked = town.proposal(1);
    let about = asked.question();
    let two_faced = town.node(5).signer.clone();
    let says = |ruling| claim(&about, ruling, &two_faced);
    answer_with(&mut town, 5, vec![says(VerdictRuling::Approve), says(VerdictRuling::Reject)]);
    // Asked twice, by the proposer or by two who compare what they heard.
    let mut votes: Vec<SignedVote> = (1..=5).map(|number| town.ask(number, &asked).unwrap()).collect();
    votes.push(town.ask(5, &asked).unwrap());
    let agreed = town.conclude(&asked, CollectedVotes { votes, silent: Vec::new() });
    assert_eq!(counts(&agreed), (4, 5, true));
    let last = agreed.predicate().tally.counted.last().unwrap();
    assert_eq!((last.name.as_str(), last.standing), ("node-5", VoteStatus::Equivocation));
}

#[test]
fn votes_of_an_old_epoch_are_worth_nothing_in_a_new_one() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::honest();
    let first = town.proposal(1);
    let agreed = town.decide(&first, PATIENCE);
    assert_eq!(counts(&agreed), (5, 5, true));
    for number in 1..=5 {
        town.tell(number, &agreed).unwrap();
    }
    // The same patch for the same brain once more, answered with what was said then.
    let second = town.proposal(2);
    let old = agreed.predicate().votes.clone();
    for (number, vote) in (1..).zip(&old) {
        answer_with(&mut town, number, vec![vote.clone()]);
    }
    let replayed = town.decide(&second, PATIENCE);
    assert_eq!(counts(&replayed), (0, 0, false));
    let whys: Vec<&str> = replayed.predicate().tally.not_counted.iter().map(|one| one.why.as_str()).collect();
    assert_eq!(whys, ["it is of epoch 1, not 2"; 5]);
}

#[test]
fn the_votes_for_one_brain_are_worth_nothing_for_another() {
    if !can_sandbox() {
        return;
    }
    let town = Town::asleep([super::Role::Common; 5]);
    let asked = town.proposal(1);
    let elsewhere =
        VoteSubject { base: PatchBase { brain: "8".parse().unwrap(), ..town.node(1).base() }, ..asked.question() };
    let votes = town.places.iter().map(|place| claim(&elsewhere, VerdictRuling::Approve, &place.signer)).collect();
    let agreed = town.conclude(&asked, CollectedVotes { votes, silent: Vec::new() });
    assert_eq!(counts(&agreed), (0, 0, false));
    assert_eq!(asked.predicate().patch().unwrap().hash(), patch().hash());
}
