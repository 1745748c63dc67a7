//! A node: one vote, written down; epochs that close; and what came of it, through the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::super::consensus::{self, Consensus, SignedConsensus};
use super::super::mesh::{
    CollectedVotes, Member, MeshProposal, NodeVerdicts, NonVoter, PatchVerifier, SignedProposal, Transport, gather,
};
use super::super::signed::Signed;
use super::super::vote::{SignedVote, VoteStatus, VoteSubject};
use super::super::{Gate, Grantor, MeshNode, MeshNodeParts, NonceStore, ProposalResult, VoteStore};
use super::{NOW, base, brains, key, mesh, patch, proposal, proposal_with, refusal, unjudged, verdict, vote};
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BrainId, Digest, SystemRandom};
use crate::layout::Layout;
use crate::{CheckCounts, Evaluation, Patch, PatchBase, Verdict, VerdictRuling};

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// Rules as it is told, and counts how often it was asked.
struct Ruled {
    base: PatchBase,
    verdict: Verdict,
    local: Option<Verdict>,
    asked: AtomicUsize,
}

#[async_trait]
impl PatchVerifier for Ruled {
    async fn base(&self, _: &BrainId, _: &Patch) -> Result<PatchBase> {
        Ok(self.base.clone())
    }

    async fn verify(&self, proposal: &MeshProposal) -> Result<NodeVerdicts> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        // Whatever is asked, it is what was judged; unless the test says something else was.
        let is_usual = self.verdict.evaluation_hash == super::evaluation().hash()?;
        let evaluation_hash = if is_usual { proposal.evaluation.hash()? } else { self.verdict.evaluation_hash.clone() };
        Ok(NodeVerdicts { verdict: Verdict { evaluation_hash, ..self.verdict.clone() }, local: self.local.clone() })
    }
}

fn ruled(ruling: VerdictRuling) -> Arc<Ruled> {
    finding(base(), verdict(ruling), None)
}

fn finding(base: PatchBase, verdict: Verdict, local: Option<Verdict>) -> Arc<Ruled> {
    Arc::new(Ruled { base, verdict, local, asked: AtomicUsize::new(0) })
}

/// An evaluation that measures time and checks nothing.
fn unchecked() -> Evaluation {
    let text = r#"{ "schema": "herm/evaluation@1", "title": "long sessions",
        "parts": [{ "kind": "compress", "name": "long", "sessions": 8 },
                  { "kind": "suite", "name": "asked", "tasks": [{ "name": "one", "input": "hello" }] }],
        "goals": [{ "metric": "keptFacts" }] }"#;
    Evaluation::parse(text.as_bytes()).unwrap()
}

/// A verdict on a node's own evaluation: so many checks passed before, so many of them no more.
fn local(ruling: VerdictRuling, passed: u64, regressed: u64) -> Verdict {
    let checks = CheckCounts { total: 4, baseline_passed: passed, regressed, ..CheckCounts::default() };
    Verdict { evaluation_hash: format!("sha256:{}", "5".repeat(64)), checks, ..verdict(ruling) }
}

fn node(number: u8, layout: &Layout, verifier: Arc<Ruled>) -> Result<MeshNode> {
    MeshNode::new(MeshNodeParts {
        mesh: mesh(5),
        signer: key(number),
        book: VoteStore::open(layout)?,
        verifier,
        clock: Arc::new(Still),
        random: Arc::new(SystemRandom),
    })
}

/// What the mesh says when these members answer so.
fn concluded(proposal: &SignedProposal, rulings: &[VerdictRuling]) -> SignedConsensus {
    let about = proposal.question();
    let votes = (1..).zip(rulings).map(|(by, ruling)| vote(&about, *ruling, by)).collect();
    let gathered = CollectedVotes { votes, silent: Vec::new() };
    Consensus::conclude(&mesh(5), proposal, gathered, NOW, &key(1)).unwrap()
}

const YES: VerdictRuling = VerdictRuling::Approve;
const NO: VerdictRuling = VerdictRuling::Reject;

#[tokio::test]
async fn a_node_votes_what_its_own_successor_found() {
    for ruling in [YES, NO, VerdictRuling::NeedsRevision] {
        let (_dir, layout) = brains();
        let asked = proposal(1, 1);
        let vote = node(2, &layout, ruled(ruling)).unwrap().vote(&asked).await.unwrap();
        assert_eq!(vote.key(), key(2).public());
        let said = vote.predicate();
        assert_eq!((&said.about, said.ruling), (&asked.question(), ruling));
        assert_eq!(said.verdict_hash, Some(verdict(ruling).hash().unwrap()));
    }
}

#[tokio::test]
async fn a_node_gives_one_vote_and_the_same_one_after_a_restart() {
    let (_dir, layout) = brains();
    let asked = proposal(1, 1);
    let verifier = ruled(YES);
    let first = node(2, &layout, verifier.clone()).unwrap().vote(&asked).await.unwrap();
    // Another process, whose successor would now say something else.
    let later = ruled(NO);
    let second = node(2, &layout, later.clone()).unwrap().vote(&asked).await.unwrap();
    assert_eq!(second, first);
    assert_eq!((verifier.asked.load(Ordering::Relaxed), later.asked.load(Ordering::Relaxed)), (1, 0));
}

#[tokio::test]
async fn of_two_processes_that_vote_at_once_one_vote_stands() {
    let (_dir, layout) = brains();
    let asked = proposal(1, 1);
    let (yes, no) = (node(2, &layout, ruled(YES)).unwrap(), node(2, &layout, ruled(NO)).unwrap());
    let (one, other) = tokio::join!(yes.vote(&asked), no.vote(&asked));
    assert_eq!(one.unwrap(), other.unwrap());
}

#[tokio::test]
async fn a_node_with_another_brain_does_not_judge_and_writes_nothing_down() {
    let (_dir, layout) = brains();
    let other = PatchBase { bundle_hash: Digest::of(b"another brain"), ..base() };
    let verifier = finding(other, verdict(YES), None);
    let (node, asked) = (node(2, &layout, verifier.clone()).unwrap(), proposal(1, 1));
    let vote = node.vote(&asked).await.unwrap();
    let said = vote.predicate();
    assert_eq!((said.ruling, said.reason.as_deref(), &said.verdict_hash), (NO, Some("another_base"), &None));
    assert_eq!(verifier.asked.load(Ordering::Relaxed), 0);
    // However often it is asked: a proposer for another brain fills no disk and uses nothing up.
    for number in 1..50 {
        node.vote(&proposal(number, 1)).await.unwrap();
    }
    for dir in ["votes", "verified"] {
        assert_eq!(layout.successors().join("gates").join(dir).read_dir().unwrap().count(), 0, "{dir}");
    }
    assert_eq!(node.book().vote(asked.hash()).unwrap(), None);
}

#[tokio::test]
async fn a_brain_that_moves_while_the_successor_runs_is_another_brain() {
    let moved = Verdict { base: PatchBase { version: 5, ..base() }, ..verdict(YES) };
    for verifier in [finding(base(), moved.clone(), None), finding(base(), verdict(YES), Some(moved.clone()))] {
        let (_dir, layout) = brains();
        let vote = node(2, &layout, verifier).unwrap().vote(&proposal(1, 1)).await.unwrap();
        let said = vote.predicate();
        assert_eq!((said.ruling, said.reason.as_deref(), &said.verdict_hash), (NO, Some("another_base"), &None));
    }
}

#[tokio::test]
async fn a_verdict_on_something_else_becomes_no_vote() {
    let other = Verdict { patch_hash: patch("another").hash(), ..verdict(YES) };
    for verifier in [finding(base(), other.clone(), None), finding(base(), verdict(YES), Some(other))] {
        let (_dir, layout) = brains();
        let (node, asked) = (node(2, &layout, verifier).unwrap(), proposal(1, 1));
        assert_eq!(node.vote(&asked).await.unwrap_err().kind(), ErrorKind::Internal);
        assert_eq!(node.book().vote(asked.hash()).unwrap(), None);
    }
}

#[tokio::test]
async fn what_the_proposer_s_evaluation_approves_of_must_not_be_worse_in_the_node_s_own() {
    for (found, ruling, reason) in [
        (local(YES, 4, 0), YES, None),
        (local(VerdictRuling::NeedsRevision, 4, 0), YES, None),
        (local(NO, 4, 0), NO, Some("local_regression")),
        (local(NO, 4, 2), NO, Some("local_regression")),
        (local(VerdictRuling::NeedsRevision, 4, 1), NO, Some("local_regression")),
        // Nothing ran in it: that shows nothing, so nobody approves.
        (local(VerdictRuling::NeedsRevision, 0, 0), NO, Some("local_unmeasured")),
        (local(VerdictRuling::NeedsRevision, 2, 0), NO, Some("local_unmeasured")),
        (local(VerdictRuling::NeedsRevision, 3, 0), YES, None),
        (Verdict { checks: CheckCounts::default(), ..local(YES, 0, 0) }, NO, Some("local_unmeasured")),
    ] {
        for evaluation in [super::evaluation(), unchecked()] {
            let (_dir, layout) = brains();
            let node = node(2, &layout, finding(base(), verdict(YES), Some(found.clone()))).unwrap();
            let asked = proposal_with(1, 1, &evaluation);
            let vote = node.vote(&asked).await.unwrap();
            let said = vote.predicate();
            assert_eq!((said.ruling, said.reason.as_deref()), (ruling, reason), "{found:?}");
            assert!(said.verdict_hash.is_some());
            assert_eq!(said.local_verdict_hash, Some(found.hash().unwrap()));
            // A rejection that rests on verdicts counts like any other, and is the node's one vote.
            assert_eq!(node.book().vote(asked.hash()).unwrap(), Some(vote));
        }
    }
}

#[tokio::test]
async fn without_an_evaluation_of_its_own_a_node_approves_of_none_that_checks_nothing() {
    let asked = |ruling| async move {
        let (_dir, layout) = brains();
        node(2, &layout, ruled(ruling)).unwrap().vote(&proposal_with(1, 1, &unchecked())).await.unwrap()
    };
    let vote = asked(YES).await;
    assert_eq!((vote.predicate().ruling, vote.predicate().reason.as_deref()), (NO, Some("no_checks")));
    assert!(vote.predicate().verdict_hash.is_some(), "it counts");
    for ruling in [NO, VerdictRuling::NeedsRevision] {
        assert_eq!(
            (asked(ruling).await.predicate().ruling, asked(ruling).await.predicate().reason.clone()),
            (ruling, None)
        );
    }
}

#[tokio::test]
async fn a_member_has_one_proposal_verified_until_the_epoch_is_closed_or_the_brain_moves() {
    let (_dir, layout) = brains();
    let verifier = ruled(YES);
    let voting = node(2, &layout, verifier.clone()).unwrap();
    let asked = || verifier.asked.load(Ordering::Relaxed);
    let first = proposal(1, 1);
    voting.vote(&first).await.unwrap();
    // Another one in the same epoch, or with any number it likes; not after a restart either.
    for epoch in [1, 2, 1_000] {
        let error = node(2, &layout, verifier.clone()).unwrap().vote(&proposal(epoch, 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().starts_with("another proposal of this member for brain 1 is verified"), "{error}");
    }
    assert_eq!(asked(), 1);
    // The same one, and other members.
    voting.vote(&first).await.unwrap();
    voting.vote(&proposal(1, 3)).await.unwrap();
    assert_eq!(asked(), 2);
    voting.close(&concluded(&first, &[NO; 5])).unwrap();
    voting.vote(&proposal(2, 1)).await.unwrap();
    assert_eq!(asked(), 3);
    // A node does not stand in its own way.
    voting.vote(&proposal(2, 2)).await.unwrap();
    voting.vote(&proposal(2, 2)).await.unwrap();
}

#[tokio::test]
async fn what_is_proposed_again_in_an_open_epoch_is_the_same_proposal() {
    let places: Vec<_> = (0..4).map(|_| brains()).collect();
    let near = |numbers: std::ops::RangeInclusive<u8>| {
        Near(numbers.map(|number| node(number, &places[usize::from(number) - 1].1, ruled(YES)).unwrap()).collect())
    };
    let few = propose(&places[0].1, &near(2..=2), &verdict(YES)).await.unwrap();
    let more = propose(&places[0].1, &near(2..=4), &verdict(YES)).await.unwrap();
    assert_eq!(more.proposal, few.proposal);
    assert_eq!((few.consensus.predicate().tally.passed, more.consensus.predicate().tally.passed), (false, true));
}

#[tokio::test]
async fn proposals_of_strangers_are_refused_and_strangers_are_no_nodes() {
    let (_dir, layout) = brains();
    let verifier = ruled(YES);
    let said = refusal(node(2, &layout, verifier.clone()).unwrap().vote(&proposal(1, 66)).await);
    assert_eq!(said, format!("{} signed the proposal and is no member here", key(66).public()));
    assert_eq!(verifier.asked.load(Ordering::Relaxed), 0);
    assert!(refusal(node(66, &layout, verifier)).contains("is not among the members of the mesh"));
}

#[tokio::test]
async fn a_closed_epoch_is_never_voted_in_again() {
    let (_dir, layout) = brains();
    let voting = node(2, &layout, ruled(YES)).unwrap();
    let first = proposal(1, 1);
    voting.vote(&first).await.unwrap();
    let tally = voting.close(&concluded(&first, &[YES; 5])).unwrap();
    assert!(tally.passed);
    // After a restart, too; and neither the old proposal nor a new one of that epoch.
    let restarted = node(2, &layout, ruled(YES)).unwrap();
    assert_eq!(
        (restarted.book().closed(&base().brain).unwrap(), restarted.book().next(&base().brain).unwrap()),
        (1, 2)
    );
    for old in [first, proposal(1, 3)] {
        let error = restarted.vote(&old).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.message(), "epoch 1 of brain 1 is closed; the next is 2");
    }
    restarted.vote(&proposal(2, 1)).await.unwrap();
    // Other brains have epochs of their own.
    let other: BrainId = "2".parse().unwrap();
    assert_eq!(restarted.book().next(&other).unwrap(), 1);
}

#[tokio::test]
async fn an_epoch_out_of_nowhere_is_refused() {
    let (_dir, layout) = brains();
    let node = node(2, &layout, ruled(YES)).unwrap();
    node.vote(&proposal(1_024, 1)).await.unwrap();
    for far in [1_025, u64::MAX] {
        let said = refusal(node.vote(&proposal(far, 1)).await);
        assert_eq!(said, format!("epoch {far} of brain 1 is out of nowhere; the next is 1"));
    }
}

#[test]
fn one_member_alone_cannot_close_an_epoch_for_others() {
    let (_dir, layout) = brains();
    let node = node(2, &layout, ruled(YES)).unwrap();
    let said = refusal(node.close(&concluded(&proposal(1, 1), &[NO, NO])));
    assert_eq!(said, "2 members voted, and 3 must have before an epoch is closed for everyone");
    assert_eq!(node.book().closed(&base().brain).unwrap(), 0);
    // Nor do votes that rest on nothing: they are given for nothing.
    let asked = proposal(1, 1);
    let votes = (1..=5).map(|by| unjudged(&asked.question(), by)).collect();
    let free =
        Consensus::conclude(&mesh(5), &asked, CollectedVotes { votes, silent: Vec::new() }, NOW, &key(1)).unwrap();
    let said = refusal(node.close(&free));
    assert_eq!(said, "0 members voted, and 3 must have before an epoch is closed for everyone");
    assert_eq!(node.book().closed(&base().brain).unwrap(), 0);
    // A failed one closes as well as one that passed, and the first stays.
    let first = concluded(&proposal(1, 1), &[NO, NO, YES]);
    node.close(&first).unwrap();
    node.close(&first).unwrap();
    let other = refusal(node.close(&concluded(&proposal(1, 1), &[YES; 5])));
    assert_eq!(other, "epoch 1 of brain 1 was closed with another consensus");
    assert_eq!(node.book().closing(&base().brain, 1).unwrap(), Some(first));
}

#[test]
fn only_whoever_proposed_says_what_came_of_it() {
    let (_dir, layout) = brains();
    let node = node(3, &layout, ruled(YES)).unwrap();
    let asked = proposal(1, 1);
    // Member 2 keeps its own no and two of the votes that it was shown: not passed, closed for everyone.
    let picked =
        |about: &VoteSubject| (2..=4).zip([NO, YES, YES]).map(|(by, ruling)| vote(about, ruling, by)).collect();
    let gathered = |about: &VoteSubject| CollectedVotes { votes: picked(about), silent: Vec::new() };
    let forged = Consensus::conclude(&mesh(5), &asked, gathered(&asked.question()), NOW, &key(2));
    assert!(forged.is_err(), "the proposer it names did not sign it");
    let own = key(2).public().to_string();
    let said = Consensus { proposer: own.clone(), ..concluded(&asked, &[NO, YES, YES]).predicate().clone() };
    let theirs = key(1).public().to_string();
    assert_eq!(refusal(Signed::seal(said.clone(), &key(2))), format!("{own} says what came of a proposal of {theirs}"));
    // Where it says that it proposed, the votes are about somebody else's proposal.
    let about = VoteSubject { proposer: own, ..asked.question() };
    let stolen = Signed::seal(Consensus { about, votes: picked(&asked.question()), ..said }, &key(2)).unwrap();
    assert!(node.close(&stolen).is_err());
    assert_eq!(node.book().closed(&base().brain).unwrap(), 0);
}

#[test]
fn a_consensus_opens_the_gate_once() {
    let (_dir, layout) = brains();
    let (epochs, mut nonces) = (VoteStore::open(&layout).unwrap(), NonceStore::open(&layout).unwrap());
    let agreed = concluded(&proposal(1, 1), &[YES, YES, YES, YES, NO]);
    let own = verdict(YES);
    let granted = consensus::check(&agreed, &own, &base(), &mesh(5), &epochs, &mut nonces).unwrap();
    let approving: Vec<String> = (1..=4).map(|number| key(number).public().to_string()).collect();
    assert_eq!((granted.by(), granted.document()), (&Grantor::Mesh(approving), agreed.hash()));
    let passed = Gate::Mesh.open(vec![granted.clone()]).unwrap();
    passed.covers(&patch("shorter"), &base()).unwrap();
    assert!(passed.covers(&patch("another"), &base()).is_err());
    assert!(passed.covers(&patch("shorter"), &PatchBase { version: 5, ..base() }).is_err());
    assert_eq!(refusal(Gate::Both.open(vec![granted])), "the gate stays shut: no steward approved");
    let mut reopened = NonceStore::open(&layout).unwrap();
    let again = refusal(consensus::check(&agreed, &own, &base(), &mesh(5), &epochs, &mut reopened));
    assert_eq!(again, format!("the consensus on {} was used before", agreed.predicate().about.proposal));
}

#[test]
fn a_consensus_that_does_not_hold_opens_nothing() {
    let (_dir, layout) = brains();
    let (epochs, mut nonces) = (VoteStore::open(&layout).unwrap(), NonceStore::open(&layout).unwrap());
    let mut ask = |agreed: &SignedConsensus, own: &Verdict, now: &PatchBase| {
        refusal(consensus::check(agreed, own, now, &mesh(5), &epochs, &mut nonces))
    };
    let asked = proposal(1, 1);
    let good = concluded(&asked, &[YES; 5]);
    assert_eq!(
        ask(&concluded(&asked, &[YES, YES, YES, NO, NO]), &verdict(YES), &base()),
        "the mesh did not agree (not passed: 3 of 5 who answered approve; 3 of 5 members must)"
    );
    let other = Verdict { patch_hash: patch("another").hash(), ..verdict(YES) };
    assert!(ask(&good, &other, &base()).starts_with("the mesh agreed on the patch"));
    let other = Verdict { base: PatchBase { version: 5, ..base() }, ..verdict(YES) };
    assert!(
        ask(&good, &other, &base())
            .starts_with("the mesh agreed for another brain than the verdict's: it was brain 1 version 4")
    );
    assert!(ask(&good, &verdict(NO), &base()).starts_with("the verdict is REJECT"));
    assert!(ask(&good, &verdict(YES), &PatchBase { version: 5, ..base() }).starts_with("the brain has moved"));
    // Counted by a stranger, and counted wrongly.
    let stranger = key(66).public().to_string();
    let about = VoteSubject { proposer: stranger.clone(), ..good.predicate().about.clone() };
    let forged = Consensus { about, proposer: stranger, ..good.predicate().clone() };
    let forged = super::Signed::seal(forged, &key(66)).unwrap();
    assert!(ask(&forged, &verdict(YES), &base()).ends_with("is no member here"));
    let mut wrong = concluded(&asked, &[YES, YES]).predicate().clone();
    wrong.tally = good.predicate().tally.clone();
    let wrong = super::Signed::seal(wrong, &key(1)).unwrap();
    assert!(ask(&wrong, &verdict(YES), &base()).starts_with("the consensus was counted as \"passed: 5 of 5"));
    // Nothing of that closed the epoch or used the proposal up.
    assert_eq!(epochs.closed(&base().brain).unwrap(), 0);
    consensus::check(&good, &verdict(YES), &base(), &mesh(5), &epochs, &mut nonces).unwrap();
}

#[test]
fn a_consensus_with_a_vote_that_was_changed_cannot_be_read() {
    let line = concluded(&proposal(1, 1), &[YES; 3]).to_line().unwrap();
    assert!(SignedConsensus::parse(&line).is_ok());
    let mut said = concluded(&proposal(1, 1), &[YES; 3]).predicate().clone();
    let mut document = serde_json::to_value(&said.votes[0]).unwrap();
    document["signatures"][0]["keyid"] = key(9).public().to_string().into();
    assert!(serde_json::from_value::<SignedVote>(document).is_err());
    said.proposer = key(2).public().to_string();
    said.about.proposer = said.proposer.clone();
    assert!(refusal(super::Signed::seal(said, &key(1))).contains("says it is signed by"));
}

/// Answers for members without any network: a vote, somebody else's vote, an error, or never.
struct Scripted(Vec<(u8, Answer)>);

enum Answer {
    Vote(Box<SignedVote>),
    Fails,
    Never,
}

#[async_trait]
impl Transport for Scripted {
    async fn ask(&self, member: &Member, _: &SignedProposal, _: Duration) -> Result<SignedVote> {
        let (_, answer) = self.0.iter().find(|(number, _)| *key(*number).public() == member.key).unwrap();
        match answer {
            Answer::Vote(vote) => Ok(SignedVote::clone(vote)),
            Answer::Fails => Err(Error::unavailable("cannot reach it")),
            Answer::Never => std::future::pending().await,
        }
    }

    async fn tell(&self, _: &Member, _: &SignedConsensus, _: Duration) -> Result<()> {
        Ok(())
    }
}

/// Nodes in this process, asked and told without any network; those that are not there cannot be reached.
struct Near(Vec<MeshNode>);

impl Near {
    fn node(&self, member: &Member) -> Result<&MeshNode> {
        let here = |node: &&MeshNode| *node.key() == member.key;
        self.0.iter().find(here).ok_or_else(|| Error::unavailable("cannot reach it"))
    }
}

#[async_trait]
impl Transport for Near {
    async fn ask(&self, member: &Member, proposal: &SignedProposal, _: Duration) -> Result<SignedVote> {
        self.node(member)?.vote(proposal).await
    }

    async fn tell(&self, member: &Member, consensus: &SignedConsensus, _: Duration) -> Result<()> {
        self.node(member)?.close(consensus).map(drop)
    }
}

/// Proposes as node 1, whose successor finds it good, with these others there.
async fn propose(own: &Layout, others: &Near, verdict: &Verdict) -> Result<ProposalResult> {
    let node = node(1, own, ruled(YES))?;
    node.propose(verdict, &patch("shorter"), &super::evaluation(), others, Duration::from_secs(60)).await
}

#[tokio::test]
async fn a_proposer_votes_like_everybody_counts_keeps_and_tells() {
    let places: Vec<_> = (0..5).map(|_| brains()).collect();
    let others = (2..=4).map(|number| node(number, &places[usize::from(number) - 1].1, ruled(YES)).unwrap());
    let (own, others) = (&places[0].1, Near(others.collect()));
    let concluded = propose(own, &others, &verdict(YES)).await.unwrap();
    let tally = &concluded.consensus.predicate().tally;
    assert_eq!((tally.approvals, tally.responders, tally.passed), (4, 4, true));
    assert_eq!(concluded.untold.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["node-5"]);
    let book = VoteStore::open(own).unwrap();
    assert_eq!(book.kept(concluded.consensus.hash()).unwrap().as_ref(), Some(&concluded.consensus));
    for book in others.0.iter().map(MeshNode::book).chain([&book]) {
        assert_eq!(book.closing(&base().brain, 1).unwrap().as_ref(), Some(&concluded.consensus));
    }
    // Its own server would say the same: the vote is on disk.
    let own_vote = book.vote(concluded.proposal.hash()).unwrap().unwrap();
    assert!(concluded.consensus.predicate().votes.contains(&own_vote));
    // The next one is of the next epoch.
    assert_eq!(propose(own, &others, &verdict(YES)).await.unwrap().proposal.predicate().epoch, 2);
}

#[tokio::test]
async fn a_proposer_that_reaches_too_few_closes_nothing_and_keeps_what_came() {
    let places: Vec<_> = (0..2).map(|_| brains()).collect();
    let (own, others) = (&places[0].1, Near(vec![node(2, &places[1].1, ruled(YES)).unwrap()]));
    let concluded = propose(own, &others, &verdict(YES)).await.unwrap();
    assert!(!concluded.consensus.predicate().tally.passed);
    let book = VoteStore::open(own).unwrap();
    assert_eq!(book.closed(&base().brain).unwrap(), 0);
    assert!(book.kept(concluded.consensus.hash()).unwrap().is_some());
}

#[tokio::test]
async fn only_what_was_approved_is_proposed() {
    let (_dir, own) = brains();
    let nobody = Near(Vec::new());
    assert!(refusal(propose(&own, &nobody, &verdict(NO)).await).starts_with("the verdict is REJECT"));
    let other = Verdict { patch_hash: patch("another").hash(), ..verdict(YES) };
    assert!(refusal(propose(&own, &nobody, &other).await).starts_with("the verdict is about another patch"));
}

#[tokio::test(start_paused = true)]
async fn everyone_is_asked_and_whoever_gives_no_vote_of_its_own_is_named() {
    let asked = proposal(1, 1);
    let about = asked.question();
    let script = Scripted(vec![
        (2, Answer::Vote(Box::new(vote(&about, YES, 2)))),
        (3, Answer::Vote(Box::new(vote(&about, YES, 2)))),
        (4, Answer::Fails),
        (5, Answer::Never),
    ]);
    let own = vote(&about, YES, 1);
    let gathered = gather(&mesh(5), &script, &asked, Some(own), Duration::from_secs(60)).await;
    let silent = |number: u8, why: &str| NonVoter {
        name: format!("node-{number}"),
        key: key(number).public().to_string(),
        why: why.to_owned(),
    };
    let swapped = format!("node-3 answered with a vote that {} signed", key(2).public());
    assert_eq!(gathered.silent, [silent(3, &swapped), silent(4, "cannot reach it"), silent(5, "no vote within 60 s")]);
    let agreed = Consensus::conclude(&mesh(5), &asked, gathered, NOW, &key(1)).unwrap();
    let counted: Vec<VoteStatus> = agreed.predicate().tally.counted.iter().map(|one| one.standing).collect();
    assert_eq!((counted, agreed.predicate().tally.passed), (vec![VoteStatus::Approve; 2], false));
}
