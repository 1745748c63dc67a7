//! Which gates must open.

use std::time::Duration;

use super::super::approval::{Approval, Decision, Stewards, check};
use super::super::consensus::{self, Consensus};
use super::super::mesh::Gathered;
use super::super::{Brought, EpochBook, Gate, Granted, NonceBook, pass};
use super::{NOW, base, brains, key, mesh, proposal, refusal, verdict, vote};
use crate::ids::SystemRandom;
use crate::successor::{Ruling, Verdict};

fn by_steward(verdict: &Verdict) -> Granted {
    let (_dir, layout) = brains();
    let day = Duration::from_secs(24 * 3_600);
    let approval = Approval::new(verdict, Decision::Approve, NOW, day, &SystemRandom).unwrap();
    let stewards = Stewards::new([key(9).public().clone()]);
    let signed = approval.sign(&key(9)).unwrap();
    check(&signed, verdict, &base(), &stewards, NOW, &mut NonceBook::open(&layout).unwrap()).unwrap()
}

fn by_mesh(verdict: &Verdict) -> Granted {
    let (_dir, layout) = brains();
    let asked = proposal(1, 1);
    let votes = (1..=3).map(|by| vote(&asked.question(), Ruling::Approve, by)).collect();
    let gathered = Gathered { votes, silent: Vec::new() };
    let agreed = Consensus::conclude(&mesh(3), &asked, gathered, NOW, &key(1)).unwrap();
    let epochs = EpochBook::open(&layout).unwrap();
    let mut nonces = NonceBook::open(&layout).unwrap();
    consensus::check(&agreed, verdict, &base(), &mesh(3), &epochs, &mut nonces).unwrap()
}

#[test]
fn each_gate_opens_for_those_it_asks_for() {
    let verdict = verdict(Ruling::Approve);
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
fn both_must_have_agreed_on_the_same_verdict() {
    let verdict = verdict(Ruling::Approve);
    let later = Verdict { confidence: 0.99, ..verdict.clone() };
    let said = refusal(Gate::Both.open(vec![by_steward(&later), by_mesh(&verdict)]));
    assert_eq!(said, "the gate stays shut: what was granted is not for the same patch and brain");
}

#[test]
fn where_both_must_open_neither_document_is_used_up_for_the_lack_of_the_other() {
    let (_dir, layout) = brains();
    let (epochs, mut nonces) = (EpochBook::open(&layout).unwrap(), NonceBook::open(&layout).unwrap());
    let (mesh, stewards) = (mesh(3), Stewards::new([key(9).public().clone()]));
    let verdict = verdict(Ruling::Approve);
    let day = Duration::from_secs(24 * 3_600);
    let approval = Approval::new(&verdict, Decision::Approve, NOW, day, &SystemRandom).unwrap();
    let approval = approval.sign(&key(9)).unwrap();
    let agreed = |rulings: [Ruling; 3]| {
        let asked = proposal(1, 1);
        let votes = (1..).zip(rulings).map(|(by, ruling)| vote(&asked.question(), ruling, by)).collect();
        Consensus::conclude(&mesh, &asked, Gathered { votes, silent: Vec::new() }, NOW, &key(1)).unwrap()
    };
    let (yes, no) = (agreed([Ruling::Approve; 3]), agreed([Ruling::Reject; 3]));
    let human = Some((&approval, &stewards));
    let mut ask = |gate: Gate, brought: Brought<'_>| pass(gate, brought, &verdict, &base(), NOW, &mut nonces);
    let alone = Brought { approval: human, consensus: None };
    assert_eq!(refusal(ask(Gate::Both, alone)), "the gate stays shut: the mesh did not agree");
    let denied = Brought { approval: human, consensus: Some((&no, &mesh, &epochs)) };
    assert!(refusal(ask(Gate::Both, denied)).starts_with("the mesh did not agree"));
    let unsigned = Brought { approval: None, consensus: Some((&yes, &mesh, &epochs)) };
    assert_eq!(refusal(ask(Gate::Both, unsigned)), "the gate stays shut: no steward approved");
    // Nothing of that used either of them up.
    let both = Brought { approval: human, consensus: Some((&yes, &mesh, &epochs)) };
    assert_eq!(ask(Gate::Both, both).unwrap().granted().len(), 2);
    for brought in [both, alone, unsigned] {
        let said = refusal(ask(Gate::Both, brought));
        assert!(said.ends_with("was used before"), "{said}");
    }
}

#[test]
fn the_names_of_the_gates_are_lower_case() {
    for (gate, name) in [(Gate::Human, "\"human\""), (Gate::Mesh, "\"mesh\""), (Gate::Both, "\"both\"")] {
        assert_eq!(serde_json::to_string(&gate).unwrap(), name);
        assert_eq!(serde_json::from_str::<Gate>(name).unwrap(), gate);
    }
}
