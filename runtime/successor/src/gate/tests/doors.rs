//! Which gates must open.

use std::time::Duration;

use super::super::approval::{ApprovalDecision, SignedApproval, StewardApproval, Stewards, check};
use super::super::consensus::{self, Consensus};
use super::super::mesh::CollectedVotes;
use super::super::{DecisionStore, Gate, GateEvidence, GateGrant, NonceStore, VoteStore, pass, rejection};
use super::{NOW, base, brains, key, mesh, proposal, refusal, verdict, vote};
use crate::clock::Timestamp;
use crate::ids::SystemRandom;
use crate::skill::provenance::SkillWriter;
use crate::{Verdict, VerdictRuling};

fn by_steward(verdict: &Verdict) -> GateGrant {
    let (_dir, layout) = brains();
    let day = Duration::from_secs(24 * 3_600);
    let approval = StewardApproval::new(verdict, ApprovalDecision::Approve, NOW, day, &SystemRandom).unwrap();
    let stewards = Stewards::new([key(9).public().clone()]);
    let signed = approval.sign(&key(9)).unwrap();
    check(&signed, verdict, &base(), &stewards, NOW, &mut NonceStore::open(&layout).unwrap()).unwrap()
}

fn by_mesh(verdict: &Verdict) -> GateGrant {
    let (_dir, layout) = brains();
    let asked = proposal(1, 1);
    let votes = (1..=3).map(|by| vote(&asked.question(), VerdictRuling::Approve, by)).collect();
    let gathered = CollectedVotes { votes, silent: Vec::new() };
    let agreed = Consensus::conclude(&mesh(3), &asked, gathered, NOW, &key(1)).unwrap();
    let epochs = VoteStore::open(&layout).unwrap();
    let mut nonces = NonceStore::open(&layout).unwrap();
    consensus::check(&agreed, verdict, &base(), &mesh(3), &epochs, &mut nonces).unwrap()
}

#[test]
fn each_gate_opens_for_those_it_asks_for() {
    let verdict = verdict(VerdictRuling::Approve);
    let (human, nodes) = (by_steward(&verdict), by_mesh(&verdict));
    assert!(Gate::Human.open(vec![human.clone()]).is_ok());
    assert!(Gate::Mesh.open(vec![nodes.clone()]).is_ok());
    assert_eq!(Gate::Both.open(vec![human.clone(), nodes.clone()]).unwrap().granted(), [human.clone(), nodes.clone()]);
    assert_eq!(refusal(Gate::Human.open(vec![nodes.clone()])), "the gate stays shut: no steward approved");
    assert_eq!(refusal(Gate::Mesh.open(vec![human.clone()])), "the gate stays shut: the mesh did not agree");
    assert_eq!(refusal(Gate::Both.open(vec![human])), "the gate stays shut: the mesh did not agree");
    assert_eq!(refusal(Gate::Both.open(vec![nodes])), "the gate stays shut: no steward approved");
    assert!(Gate::Human.open(Vec::new()).is_err());
    assert_eq!(Gate::default(), Gate::Human);
}

#[test]
fn a_patch_writes_skills_as_a_person_where_a_steward_approved_it_and_as_a_machine_where_the_mesh_alone_did() {
    let verdict = verdict(VerdictRuling::Approve);
    let (human, nodes) = (by_steward(&verdict), by_mesh(&verdict));
    for (gate, granted, writer) in [
        (Gate::Human, vec![human.clone()], SkillWriter::Person),
        (Gate::Both, vec![human, nodes.clone()], SkillWriter::Person),
        (Gate::Mesh, vec![nodes], SkillWriter::Patch),
    ] {
        assert_eq!((gate.writer(), gate.open(granted).unwrap().writer()), (writer, writer), "{gate:?}");
    }
}

#[test]
fn both_must_have_agreed_on_the_same_verdict() {
    let verdict = verdict(VerdictRuling::Approve);
    let later = Verdict { confidence: 0.99, ..verdict.clone() };
    let said = refusal(Gate::Both.open(vec![by_steward(&later), by_mesh(&verdict)]));
    assert_eq!(said, "the gate stays shut: what was granted is not for the same patch and brain");
}

#[test]
fn where_both_must_open_neither_document_is_used_up_for_the_lack_of_the_other() {
    let (_dir, layout) = brains();
    let (epochs, mut nonces) = (VoteStore::open(&layout).unwrap(), NonceStore::open(&layout).unwrap());
    let (mesh, stewards) = (mesh(3), Stewards::new([key(9).public().clone()]));
    let verdict = verdict(VerdictRuling::Approve);
    let day = Duration::from_secs(24 * 3_600);
    let approval = StewardApproval::new(&verdict, ApprovalDecision::Approve, NOW, day, &SystemRandom).unwrap();
    let approval = approval.sign(&key(9)).unwrap();
    let agreed = |rulings: [VerdictRuling; 3]| {
        let asked = proposal(1, 1);
        let votes = (1..).zip(rulings).map(|(by, ruling)| vote(&asked.question(), ruling, by)).collect();
        Consensus::conclude(&mesh, &asked, CollectedVotes { votes, silent: Vec::new() }, NOW, &key(1)).unwrap()
    };
    let (yes, no) = (agreed([VerdictRuling::Approve; 3]), agreed([VerdictRuling::Reject; 3]));
    let signed = [approval];
    let human = Some((&signed[..], &stewards));
    let mut ask = |gate: Gate, brought: GateEvidence<'_>| pass(gate, brought, &verdict, &base(), NOW, &mut nonces);
    let alone = GateEvidence { decisions: human, consensus: None };
    assert_eq!(refusal(ask(Gate::Both, alone)), "the gate stays shut: the mesh did not agree");
    let denied = GateEvidence { decisions: human, consensus: Some((&no, &mesh, &epochs)) };
    assert!(refusal(ask(Gate::Both, denied)).starts_with("the mesh did not agree"));
    let unsigned = GateEvidence { decisions: None, consensus: Some((&yes, &mesh, &epochs)) };
    assert_eq!(refusal(ask(Gate::Both, unsigned)), "the gate stays shut: no steward approved");
    // Nothing of that used either of them up.
    let both = GateEvidence { decisions: human, consensus: Some((&yes, &mesh, &epochs)) };
    assert_eq!(ask(Gate::Both, both).unwrap().granted().len(), 2);
    for brought in [both, alone, unsigned] {
        let said = refusal(ask(Gate::Both, brought));
        assert!(said.ends_with("was used before"), "{said}");
    }
}

/// A decision of a steward, signed so many hours from now, for a day.
fn decided(verdict: &Verdict, decision: ApprovalDecision, hours: i64, by: u8) -> SignedApproval {
    let (at, day) = (Timestamp(NOW.millis() + hours * 3_600_000), Duration::from_secs(24 * 3_600));
    StewardApproval::new(verdict, decision, at, day, &SystemRandom).unwrap().sign(&key(by)).unwrap()
}

#[test]
fn what_one_steward_rejects_no_other_can_approve() {
    use ApprovalDecision::{Approve, Reject};
    let (_dir, layout) = brains();
    let book = DecisionStore::open(&layout).unwrap();
    let stewards = Stewards::new([8, 9].map(|number| key(number).public().clone()));
    let verdict = verdict(VerdictRuling::Approve);
    let hash = verdict.hash().unwrap();
    let ask = |now: Timestamp| {
        let decisions = DecisionStore::open(&layout).unwrap().about(&hash).unwrap();
        let brought = GateEvidence { decisions: Some((&decisions, &stewards)), consensus: None };
        let mut nonces = NonceStore::open(&layout).unwrap();
        pass(Gate::Human, brought, &verdict, &base(), now, &mut nonces)
            .map(|passed| passed.granted()[0].document().to_owned())
    };
    assert_eq!(refusal(ask(NOW)), "the gate stays shut: no steward approved");
    let rejected = format!("the steward {} rejected this patch", key(9).public());
    // Neither before nor after, by another steward; and a stranger's rejection is nothing.
    book.keep(&decided(&verdict, Approve, -2, 8)).unwrap();
    book.keep(&decided(&verdict, Reject, -1, 9)).unwrap();
    assert_eq!(refusal(ask(NOW)), rejected);
    let approved = decided(&verdict, Approve, 0, 8);
    book.keep(&approved).unwrap();
    book.keep(&decided(&verdict, Reject, 0, 66)).unwrap();
    assert_eq!(refusal(ask(NOW)), rejected);
    assert_eq!(book.about(&hash).unwrap().len(), 3);
    // A rejection of another verdict says nothing of this one.
    let other = Verdict { confidence: 0.5, ..verdict.clone() };
    book.keep(&decided(&other, Reject, 0, 8)).unwrap();
    // Nor does it last for ever: the rejection ends an hour before the approval.
    let later = Timestamp(NOW.millis() + 23 * 3_600_000 + 1);
    assert_eq!(ask(later).unwrap(), approved.hash());
    // The same steward may think again, both ways.
    book.keep(&decided(&verdict, Reject, 0, 9)).unwrap();
    assert_eq!(refusal(ask(NOW)), rejected);
    let again = decided(&verdict, Approve, 0, 9);
    book.keep(&again).unwrap();
    assert_eq!(ask(NOW).unwrap(), again.hash());
    book.keep(&decided(&verdict, Reject, 0, 9)).unwrap();
    assert_eq!(refusal(ask(NOW)), rejected);
}

#[test]
fn of_two_decisions_of_one_steward_the_later_counts_wherever_they_lie() {
    use ApprovalDecision::{Approve, Reject};
    let verdict = verdict(VerdictRuling::Approve);
    let (hash, stewards) = (verdict.hash().unwrap(), Stewards::new([key(9).public().clone()]));
    let shut = |decisions: &[SignedApproval]| rejection(decisions, &hash, &stewards, NOW).is_some();
    let (no, yes) = (decided(&verdict, Reject, -2, 9), decided(&verdict, Approve, -1, 9));
    assert!(!shut(&[no.clone(), yes.clone()]) && !shut(&[yes.clone(), no.clone()]));
    let last = decided(&verdict, Reject, 0, 9);
    assert!(shut(&[last.clone(), yes.clone(), no]) && shut(&[yes, last]));
    // At the same moment, no is the last word.
    let (no, yes) = (decided(&verdict, Reject, 0, 9), decided(&verdict, Approve, 0, 9));
    assert!(shut(&[no.clone(), yes.clone()]) && shut(&[yes, no]));
}

#[test]
fn the_names_of_the_gates_are_lower_case() {
    for (gate, name) in [(Gate::Human, "\"human\""), (Gate::Mesh, "\"mesh\""), (Gate::Both, "\"both\"")] {
        assert_eq!(serde_json::to_string(&gate).unwrap(), name);
        assert_eq!(serde_json::from_str::<Gate>(name).unwrap(), gate);
    }
}
