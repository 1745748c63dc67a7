//! A node that has enough to do: what waits, what is turned away, and what goes on after the node that asked has gone.

use herm_tests::can_sandbox;
use std::io::Write as _;
use std::path::Path;

use herm::successor::gate::{SignedProposal, SignedVote};
use herm::successor::{Evaluation, VerdictRuling};
use herm_tests::http::{Answer, Client};
use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::json;

use super::{Role, Town, as_json};

/// A node whose brain asks a model that says nothing until it may.
struct Held {
    town: Town,
    gate: Gate,
    model: ModelServer,
}

impl Held {
    fn new() -> Self {
        let gate = Gate::default();
        let model = ModelServer::always(Step::chat(r#"{"done":"yes"}"#).after(&gate));
        let config = format!(
            "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
             price = {{ input = 1, output = 1 }}\n",
            model.url()
        );
        let mut town = Town::asleep_with([Role::Common; 5], &config);
        let place = &mut town.places[1];
        place.serving = Some(place.operator.serve());
        Self { town, gate, model }
    }

    fn client(&self) -> Client {
        self.town.node(2).serving().client()
    }

    /// A proposal of a member whose evaluation asks the model.
    fn proposal(&self, by: usize) -> SignedProposal {
        let file = json!({
            "schema": "herm/evaluation@1",
            "title": "It answers",
            "speaker": "brain",
            "parts": [{ "kind": "suite", "name": "asked", "tasks": [{ "name": "one", "input": "go" }] }],
        });
        let evaluation = Evaluation::parse(file.to_string().as_bytes()).unwrap();
        self.town.proposal_with(1, &self.town.node(by).signer, &evaluation)
    }

    /// Sends a proposal and goes away at once.
    fn send_and_leave(&self, proposal: &SignedProposal) {
        let (client, body) = (self.client(), as_json(proposal).to_string());
        let mut stream = client.connect();
        let head = format!(
            "POST /v1/mesh/proposals HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            client.address(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        // The server has read it once it says anything of it.
        self.until_not(proposal, 404);
    }

    /// Waits until the model was asked.
    fn until_asked(&self) {
        for _ in 0..48_000 {
            if !self.model.requests().is_empty() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        panic!("nobody asked the model")
    }

    fn look(&self, proposal: &SignedProposal) -> Answer {
        self.client().get(&format!("/v1/mesh/votes/{}", proposal.hash().trim_start_matches("sha256:")))
    }

    /// Looks until there is an answer of this status.
    fn until(&self, proposal: &SignedProposal, status: u16) -> Answer {
        for _ in 0..48_000 {
            let answer = self.look(proposal);
            if answer.status == status {
                return answer;
            }
            assert!(matches!(answer.status, 202 | 404), "{answer:?}");
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        panic!("never {status}: {:?}", self.look(proposal))
    }

    /// Looks until there is another answer than this.
    fn until_not(&self, proposal: &SignedProposal, status: u16) {
        for _ in 0..48_000 {
            if self.look(proposal).status != status {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        panic!("always {status}")
    }

    fn refused(&self, proposal: &SignedProposal) -> String {
        let answer = self.client().post("/v1/mesh/proposals", &as_json(proposal));
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("5")), "{answer:?}");
        answer.json()["detail"].as_str().unwrap().to_owned()
    }
}

#[test]
fn one_is_verified_one_waits_others_are_turned_away_and_votes_come_without_anyone_waiting() {
    if !can_sandbox() {
        return;
    }
    let held = Held::new();
    let (first, second) = (held.proposal(1), held.proposal(3));
    held.send_and_leave(&first);
    assert_eq!(held.look(&first).json(), json!({ "proposal": first.hash(), "state": "verifying" }));
    assert_eq!(held.refused(&held.proposal(1)), "another proposal of this member is being verified");
    held.send_and_leave(&second);
    assert_eq!(held.refused(&held.proposal(4)), "2 proposals are being verified");
    held.gate.open();
    for proposal in [first, second] {
        let vote: SignedVote = serde_json::from_value(held.until(&proposal, 200).json()).unwrap();
        assert_eq!((vote.key(), &vote.predicate().about), (held.town.node(2).signer.public(), &proposal.question()));
        // One answer that is the same on both sides shows nothing.
        assert_eq!(vote.predicate().ruling, VerdictRuling::NeedsRevision);
    }
    // There is room again.
    held.send_and_leave(&held.proposal(4));
}

/// What is below the directory of forks but its lock.
fn forks(brains: &Path) -> Vec<String> {
    let names = std::fs::read_dir(brains.join(".successor/forks")).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name != ".lock").collect()
}

#[test]
fn a_server_that_was_killed_while_it_verified_sweeps_its_forks_when_it_starts() {
    if !can_sandbox() {
        return;
    }
    let mut held = Held::new();
    held.send_and_leave(&held.proposal(1));
    held.until_asked();
    let place = &mut held.town.places[1];
    place.serving.take().unwrap().kill();
    let brains = place.operator.brains();
    assert_eq!(forks(&brains).len(), 2);
    place.serving = Some(place.operator.serve());
    // Before it answers anything.
    assert_eq!(held.client().get("/healthz").status, 200);
    assert_eq!(forks(&brains), Vec::<String>::new());
}

#[test]
fn a_server_that_is_told_to_stop_does_not_wait_for_a_verdict() {
    if !can_sandbox() {
        return;
    }
    let mut held = Held::new();
    let asked = held.proposal(1);
    held.send_and_leave(&asked);
    let brains = held.town.node(2).operator.brains();
    let there = || forks(&brains);
    // It asks the model by now, so both sides are there.
    held.until_asked();
    assert_eq!(there().len(), 2);
    let place = &mut held.town.places[1];
    assert!(place.serving.take().unwrap().stop().success());
    assert_eq!(there(), Vec::<String>::new());
    let making = place.operator.brains().join(".successor/verdicts");
    assert_eq!(std::fs::read_dir(making).unwrap().count(), 0, "nor a verdict that nobody came to");
    // It gave no vote, and verifies when it is asked again.
    place.serving = Some(place.operator.serve());
    assert_eq!(held.look(&asked).status, 404);
    held.gate.open();
    held.client().post("/v1/mesh/proposals", &as_json(&asked));
    held.until(&asked, 200);
}
