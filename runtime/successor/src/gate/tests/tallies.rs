//! Counting votes: the rule, and what nobody can do to it.

use proptest::prelude::*;

use super::super::mesh::{Member, Mesh};
use super::super::vote::{CountedVote, RejectedVote, SignedVote, VoteStatus, VoteSubject, tally};
use super::{base, key, mesh, mesh_with, patch, proposal, refusal, unjudged, vote};
use crate::ids::Digest;
use crate::{PatchBase, VerdictRuling};

fn about() -> VoteSubject {
    proposal(3, 1).question()
}

fn counted(number: u8, standing: VoteStatus) -> CountedVote {
    CountedVote { name: format!("node-{number}"), key: key(number).public().to_string(), standing }
}

/// How many approve, how many answer, and whether it passes.
fn count(members: u8, quorum: Option<usize>, rulings: &[VerdictRuling]) -> (usize, usize, bool) {
    let about = about();
    let votes: Vec<SignedVote> = (1..).zip(rulings).map(|(by, ruling)| vote(&about, *ruling, by)).collect();
    let tally = tally(&mesh_with(members, quorum), &about, &votes);
    (tally.approvals, tally.responders, tally.passed)
}

const YES: VerdictRuling = VerdictRuling::Approve;
const NO: VerdictRuling = VerdictRuling::Reject;
const MAYBE: VerdictRuling = VerdictRuling::NeedsRevision;

#[test]
fn two_thirds_of_those_who_answer_and_a_quorum_of_members_pass() {
    assert_eq!(count(5, None, &[YES; 5]), (5, 5, true));
    assert_eq!(count(5, None, &[YES, YES, YES, YES, NO]), (4, 5, true));
    // 3 of 5 are less than two thirds.
    assert_eq!(count(5, None, &[YES, YES, YES, NO, NO]), (3, 5, false));
    assert_eq!(count(5, None, &[YES, YES, YES, NO, MAYBE]), (3, 5, false));
    // Two are silent.
    assert_eq!(count(5, None, &[YES, YES, YES]), (3, 3, true));
    assert_eq!(count(5, None, &[YES, YES, YES, NO]), (3, 4, true));
    // Three are.
    assert_eq!(count(5, None, &[YES, YES]), (2, 2, false));
    assert_eq!(count(5, None, &[YES]), (1, 1, false));
    assert_eq!(count(5, None, &[]), (0, 0, false));
    // Exactly two thirds.
    assert_eq!(count(6, None, &[YES, YES, YES, YES, NO, NO]), (4, 6, true));
    assert_eq!(count(3, None, &[YES, YES, NO]), (2, 3, true));
}

#[test]
fn who_rejects_never_completes_a_quorum() {
    assert_eq!(count(5, None, &[YES, YES]), (2, 2, false));
    assert_eq!(count(5, None, &[YES, YES, NO]), (2, 3, false));
}

#[test]
fn the_quorum_is_more_than_half_unless_said_and_never_one() {
    assert_eq!([2, 3, 4, 5, 6, 9].map(|members| mesh(members).quorum()), [2, 2, 3, 3, 4, 5]);
    assert_eq!(count(5, Some(2), &[YES, YES]), (2, 2, true));
    assert_eq!(count(5, Some(2), &[YES]), (1, 1, false));
    assert_eq!(count(5, Some(5), &[YES, YES, YES, YES]), (4, 4, false));
    let members = mesh(3).members().to_vec();
    for quorum in [0, 1, 4] {
        let said = refusal(Mesh::new(members.clone(), Some(quorum)));
        assert_eq!(said, format!("the quorum of 3 members is 2 to 3, not {quorum}"));
    }
}

#[test]
fn one_key_or_one_name_is_one_member() {
    let one = mesh(2).members()[0].clone();
    let said = refusal(Mesh::new(vec![one.clone(), Member { name: "other".to_owned(), ..one.clone() }], None));
    assert_eq!(said, format!("{} is the key of two members; a key has one vote", one.key));
    let same_name = Member { key: key(7).public().clone(), ..one.clone() };
    assert!(refusal(Mesh::new(vec![one.clone(), same_name], None)).contains("needs a name of its own"));
    assert_eq!(refusal(Mesh::new(vec![one], None)), "a mesh has 2 to 99 members, not 1");
}

#[test]
fn the_same_vote_twice_counts_once() {
    let about = about();
    let yes = vote(&about, YES, 1);
    let tally = tally(&mesh(3), &about, &[yes.clone(), yes.clone(), yes]);
    assert_eq!((tally.approvals, tally.responders, tally.passed), (1, 1, false));
    assert_eq!(tally.counted, [counted(1, VoteStatus::Approve)]);
    assert_eq!(tally.not_counted, []);
}

#[test]
fn two_different_votes_of_one_key_count_as_a_reject_and_are_named() {
    let about = about();
    let votes = [vote(&about, YES, 1), vote(&about, NO, 1), vote(&about, YES, 2), vote(&about, YES, 3)];
    let tally = tally(&mesh(4), &about, &votes);
    assert_eq!((tally.approvals, tally.responders, tally.passed), (2, 3, false));
    assert_eq!(tally.counted[0], counted(1, VoteStatus::Equivocation));
    // Also where both say yes: an honest node has one vote.
    let twice = [vote(&about, YES, 1), vote(&about, YES, 1)];
    assert_eq!(super::super::vote::tally(&mesh(4), &about, &twice).counted, [counted(1, VoteStatus::Equivocation)]);
}

#[test]
fn votes_of_strangers_are_named_and_not_counted() {
    let about = about();
    let votes: Vec<SignedVote> = (1..=3).chain(20..40).map(|by| vote(&about, YES, by)).collect();
    let tally = tally(&mesh(9), &about, &votes);
    assert_eq!((tally.approvals, tally.responders, tally.passed), (3, 3, false));
    assert_eq!(tally.not_counted.len(), 20);
    assert!(tally.not_counted.iter().all(|one| one.why == "its key is no member's"));
}

#[test]
fn votes_on_another_patch_brain_epoch_or_proposal_are_named_and_not_counted() {
    let about = about();
    let other = patch("another").hash();
    let lies = [
        (VoteSubject { epoch: 2, ..about.clone() }, "it is of epoch 2, not 3".to_owned()),
        (VoteSubject { patch_hash: other.clone(), ..about.clone() }, format!("it is about the patch {other}")),
        (
            VoteSubject { base: PatchBase { version: 9, ..base() }, ..about.clone() },
            "it is about brain 1 version 9".to_owned(),
        ),
        (
            VoteSubject { base: PatchBase { bundle_hash: Digest::of(b"x"), ..base() }, ..about.clone() },
            "it is about brain 1 version 4".to_owned(),
        ),
        (VoteSubject { proposal: other.clone(), ..about.clone() }, format!("it is about the proposal {other}")),
    ];
    for (lie, why) in lies {
        let votes = [vote(&about, YES, 1), vote(&about, YES, 2), vote(&lie, YES, 3)];
        let tally = tally(&mesh(5), &about, &votes);
        assert_eq!((tally.approvals, tally.responders, tally.passed), (2, 2, false), "{why}");
        assert_eq!(tally.not_counted, [RejectedVote { key: key(3).public().to_string(), why }]);
    }
}

#[test]
fn a_replayed_vote_beside_the_true_one_does_no_harm() {
    let about = about();
    let old = VoteSubject { epoch: 2, ..about.clone() };
    let votes = [vote(&about, YES, 1), vote(&about, YES, 2), vote(&about, YES, 3), vote(&old, NO, 1)];
    let tally = tally(&mesh(5), &about, &votes);
    assert_eq!((tally.approvals, tally.responders, tally.passed), (3, 3, true));
    assert_eq!(tally.words(), "passed: 3 of 3 who answered approve; 3 of 5 members must");
}

#[test]
fn a_vote_without_a_verdict_is_named_and_is_no_answer() {
    let about = about();
    let votes = [vote(&about, YES, 1), vote(&about, YES, 2), vote(&about, YES, 3), unjudged(&about, 4)];
    let counted = tally(&mesh(5), &about, &votes);
    assert_eq!((counted.approvals, counted.responders, counted.passed), (3, 3, true));
    let why = "it rests on no verdict: another_base".to_owned();
    assert_eq!(counted.not_counted, [RejectedVote { key: key(4).public().to_string(), why }]);
    // Who could not judge and can later has not said two things.
    let later = [&votes[..], &[unjudged(&about, 4), vote(&about, NO, 4)]].concat();
    let counted = tally(&mesh(5), &about, &later);
    assert_eq!((counted.approvals, counted.responders), (3, 4));
    assert_eq!(counted.counted[3].standing, VoteStatus::Reject);
}

/// What one member sends: nothing, votes, lies, the same again.
#[derive(Debug, Clone)]
enum Sent {
    Silent,
    Once(VerdictRuling),
    Again(VerdictRuling, usize),
    Two(VerdictRuling, VerdictRuling),
    OldEpoch(VerdictRuling),
    OtherPatch(VerdictRuling),
    Unjudged,
}

fn ruling() -> impl Strategy<Value = VerdictRuling> {
    prop_oneof![3 => Just(YES), 1 => Just(NO), 1 => Just(MAYBE)]
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        2 => Just(Sent::Silent),
        6 => ruling().prop_map(Sent::Once),
        1 => (ruling(), 2_usize..4).prop_map(|(ruling, times)| Sent::Again(ruling, times)),
        1 => (ruling(), ruling()).prop_map(|(one, two)| Sent::Two(one, two)),
        1 => ruling().prop_map(Sent::OldEpoch),
        1 => ruling().prop_map(Sent::OtherPatch),
        1 => Just(Sent::Unjudged),
    ]
}

fn votes_of(about: &VoteSubject, by: u8, sent: &Sent) -> Vec<SignedVote> {
    match sent {
        Sent::Silent => Vec::new(),
        Sent::Once(ruling) => vec![vote(about, *ruling, by)],
        Sent::Again(ruling, times) => vec![vote(about, *ruling, by); *times],
        Sent::Two(one, two) => vec![vote(about, *one, by), vote(about, *two, by)],
        Sent::Unjudged => vec![unjudged(about, by), unjudged(about, by)],
        Sent::OldEpoch(ruling) => vec![vote(&VoteSubject { epoch: about.epoch - 1, ..about.clone() }, *ruling, by)],
        Sent::OtherPatch(ruling) => {
            vec![vote(&VoteSubject { patch_hash: patch("another").hash(), ..about.clone() }, *ruling, by)]
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_is_sent_the_rule_holds(
        all in prop::collection::vec(sent(), 2..=9),
        wish in prop::option::of(any::<prop::sample::Index>()),
        strangers in 0_u8..4,
        mix in any::<prop::sample::Index>(),
    ) {
        let members = u8::try_from(all.len()).unwrap();
        let quorum = wish.map(|wish| 2 + wish.index(all.len() - 1));
        let (mesh, about) = (mesh_with(members, quorum), about());
        let mut votes: Vec<SignedVote> = (1..).zip(&all).flat_map(|(by, sent)| votes_of(&about, by, sent)).collect();
        votes.extend((0..strangers).map(|more| vote(&about, YES, 100 + more)));
        let counted = tally(&mesh, &about, &votes);

        // The rule, from what was sent rather than from what was counted.
        let yes = all.iter().filter(|sent| matches!(sent, Sent::Once(VerdictRuling::Approve) | Sent::Again(VerdictRuling::Approve, _))).count();
        let answered = all.iter().filter(|sent| matches!(sent, Sent::Once(_) | Sent::Again(..) | Sent::Two(..))).count();
        prop_assert_eq!((counted.approvals, counted.responders), (yes, answered));
        prop_assert_eq!(counted.passed, yes * 3 >= answered * 2 && yes >= mesh.quorum());
        if counted.passed {
            prop_assert!(counted.approvals >= 2 && counted.responders >= mesh.quorum());
        }
        // One key never counts twice, and only members count.
        let mut keys: Vec<&str> = counted.counted.iter().map(|one| one.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), counted.responders);
        prop_assert!(counted.responders <= all.len());

        // The order does not matter, nor does hearing everything twice.
        if !votes.is_empty() {
            let mut mixed = votes.clone();
            mixed.rotate_left(mix.index(votes.len()));
            mixed.extend(votes.iter().rev().cloned());
            prop_assert_eq!(&tally(&mesh, &about, &mixed), &counted);
        }

        // One more yes never turns a yes into a no; one more no, or a second voice, never turns a no into a yes.
        for (by, sent) in (1..).zip(&all) {
            match sent {
                Sent::Silent | Sent::Unjudged => {
                    let with = |ruling| tally(&mesh, &about, &[&votes[..], &[vote(&about, ruling, by)]].concat()).passed;
                    prop_assert!(!counted.passed || with(YES));
                    prop_assert!(counted.passed || !with(NO));
                    prop_assert!(counted.passed || !with(MAYBE));
                }
                Sent::Once(_) => {
                    let again = tally(&mesh, &about, &[&votes[..], &[vote(&about, YES, by)]].concat()).passed;
                    prop_assert!(counted.passed || !again);
                }
                _ => {}
            }
        }
    }
}
