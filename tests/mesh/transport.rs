//! Asking over HTTP: what a proposer takes for a vote, and how long it waits.

use herm_tests::can_sandbox;
use std::time::Duration;

use herm::successor::VerdictRuling;
use herm::successor::gate::{HttpTransport, Member, SignedProposal, SignedVote, Transport as _};
use herm::{ErrorKind, Signer};
use herm_tests::model_server::{ModelServer, Step};
use serde_json::json;

use super::{PATIENCE, Role, Town, as_json, claim};

/// A member that answers as scripted.
struct Scripted {
    server: ModelServer,
    signer: Signer,
    asked: SignedProposal,
}

impl Scripted {
    fn new(steps: impl FnOnce(&SignedVote) -> Vec<Step>) -> Self {
        let town = Town::asleep([Role::Common; 5]);
        let (asked, signer) = (town.proposal(1), town.node(2).signer.clone());
        let vote = claim(&asked.question(), VerdictRuling::Approve, &signer);
        Self { server: ModelServer::start(steps(&vote)), signer, asked }
    }

    fn ask(&self, within: Duration) -> herm::Result<SignedVote> {
        let member = Member {
            name: "beta".to_owned(),
            key: self.signer.public().clone(),
            url: format!("{}/", self.server.url()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(HttpTransport::new().unwrap().ask(&member, &self.asked, within))
    }

    /// What was asked: method and path.
    fn asked(&self) -> Vec<String> {
        self.server.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect()
    }
}

fn good(vote: &SignedVote) -> Step {
    Step::json(200, as_json(vote))
}

#[test]
fn a_vote_that_takes_a_while_is_asked_for_until_it_is_there() {
    if !can_sandbox() {
        return;
    }
    let pending = || Step::json(202, json!({ "state": "verifying" }));
    let member = Scripted::new(|vote| vec![pending(), pending(), good(vote)]);
    let vote = member.ask(PATIENCE).unwrap();
    assert_eq!((vote.key(), &vote.predicate().about), (member.signer.public(), &member.asked.question()));
    let look = format!("GET /v1/mesh/votes/{}", member.asked.hash().trim_start_matches("sha256:"));
    assert_eq!(member.asked(), ["POST /v1/mesh/proposals", &look, &look]);
    // What is sent is the proposal in its envelope, and nothing else.
    assert_eq!(member.server.requests()[0].body, as_json(&member.asked));
}

#[test]
fn a_member_with_enough_to_do_is_asked_again() {
    if !can_sandbox() {
        return;
    }
    let busy = || Step::json(429, json!({ "detail": "2 proposals are being verified" }));
    let member = Scripted::new(|vote| vec![busy(), good(vote)]);
    member.ask(PATIENCE).unwrap();
    assert_eq!(member.asked(), ["POST /v1/mesh/proposals", "POST /v1/mesh/proposals"]);
}

#[test]
fn a_member_that_was_started_again_meanwhile_is_asked_again() {
    if !can_sandbox() {
        return;
    }
    let steps = [(202, "verifying"), (404, "there is no vote on it here")];
    let steps = steps.map(|(status, detail)| Step::json(status, json!({ "detail": detail })));
    let member = Scripted::new(|vote| steps.into_iter().chain([good(vote)]).collect());
    member.ask(PATIENCE).unwrap();
    let look = format!("GET /v1/mesh/votes/{}", member.asked.hash().trim_start_matches("sha256:"));
    assert_eq!(member.asked(), ["POST /v1/mesh/proposals", &look, "POST /v1/mesh/proposals"]);
}

#[test]
fn a_refusal_is_told_in_the_member_s_words_without_what_a_terminal_would_obey() {
    if !can_sandbox() {
        return;
    }
    let member = Scripted::new(|_| vec![Step::json(409, json!({ "detail": "epoch 1 is \u{1b}[2Jclosed" }))]);
    assert_eq!(member.ask(PATIENCE).unwrap_err().message(), "beta answered with 409: epoch 1 is [2Jclosed");
    let member = Scripted::new(|_| vec![Step::json(500, json!({ "detail": "x".repeat(9_999) }))]);
    assert_eq!(member.ask(PATIENCE).unwrap_err().message().len(), "beta answered with 500: ".len() + 300);
}

#[test]
fn what_is_no_vote_is_no_answer() {
    if !can_sandbox() {
        return;
    }
    let member = Scripted::new(|_| vec![Step::json(200, json!({ "ruling": "APPROVE" }))]);
    assert!(member.ask(PATIENCE).unwrap_err().message().starts_with("beta answered with no vote: "));
    let member = Scripted::new(|vote| {
        let mut forged = as_json(vote);
        forged["signatures"][0]["sig"] = "A".repeat(86).into();
        vec![Step::json(200, forged)]
    });
    assert!(member.ask(PATIENCE).unwrap_err().message().starts_with("beta answered with no good vote: "));
    // A proposal is signed by a member too, and is no vote.
    let town = Town::asleep([Role::Common; 5]);
    let other = as_json(&town.proposal(1));
    let member = Scripted::new(|_| vec![Step::json(200, other)]);
    assert!(member.ask(PATIENCE).unwrap_err().message().contains("it holds \"urn:herm:proposal:1\""));
}

#[test]
fn redirects_are_not_followed() {
    if !can_sandbox() {
        return;
    }
    let elsewhere = ModelServer::always(Step::json(200, json!({})));
    let place = format!("{}/v1/mesh/proposals", elsewhere.url());
    let member = Scripted::new(|_| vec![Step::json(307, json!({ "detail": "there" })).header("location", &place)]);
    assert_eq!(member.ask(PATIENCE).unwrap_err().message(), "beta answered with 307: there");
    assert_eq!(elsewhere.requests().len(), 0);
}

#[test]
fn an_answer_without_end_is_cut() {
    if !can_sandbox() {
        return;
    }
    let member = Scripted::new(|_| vec![Step::text(200, "application/json", "[").then_endless("1,".repeat(4_096))]);
    assert_eq!(member.ask(PATIENCE).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_member_that_never_answers_is_waited_for_no_longer_than_was_said() {
    if !can_sandbox() {
        return;
    }
    let member = Scripted::new(|_| vec![Step::never()]);
    let error = member.ask(Duration::from_millis(300)).unwrap_err();
    assert_eq!(error.message(), "beta gave no vote within 0.3 s");
    let pending = || Step::json(202, json!({ "state": "verifying" }));
    let member = Scripted::new(|_| vec![pending(), pending(), pending(), pending(), pending()]);
    assert_eq!(member.ask(Duration::from_secs(1)).unwrap_err().message(), "beta gave no vote within 1 s");
}
