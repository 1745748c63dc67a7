//! The doors of one node: who is let in, and what is said to everyone else.

use herm_tests::can_sandbox;
use herm_tests::http::Answer;
use herm_tests::operator::Operator;
use serde_json::json;

use super::{HERM, Role, Town, as_json, evaluation, patch};

/// Asserts that an answer is a problem, and returns what it says.
fn problem(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    answer.json()["detail"].as_str().unwrap().to_owned()
}

#[test]
fn an_operator_without_a_mesh_has_none_of_its_doors() {
    if !can_sandbox() {
        return;
    }
    let operator = Operator::new(HERM);
    let serving = operator.serve();
    let client = serving.client();
    let town = Town::asleep([Role::Common; 5]);
    let sent = as_json(&town.proposal(1));
    assert_eq!(problem(&client.post("/v1/mesh/proposals", &sent), 404), "this operator is in no mesh");
    assert_eq!(problem(&client.post("/v1/mesh/consensus", &sent), 404), "this operator is in no mesh");
    let vote = format!("/v1/mesh/votes/{}", "0".repeat(64));
    assert_eq!(problem(&client.get(&vote), 404), "this operator is in no mesh");
}

#[test]
fn only_what_a_member_signed_is_let_in_and_no_key_of_an_operator_is_needed() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::asleep([Role::Common; 5]);
    let place = &mut town.places[1];
    place.operator.key(&["somebody"]);
    place.serving = Some(place.operator.serve());
    let client = town.node(2).serving().client();
    // Everyone else needs a key here.
    assert_eq!(client.get("/v1/agents").status, 401);
    let post = |body: &serde_json::Value| client.post("/v1/mesh/proposals", body);
    let stranger = herm::Signer::from_seed([99; 32]);
    let said = problem(&post(&as_json(&town.proposal_of(1, &stranger))), 403);
    assert_eq!(said, format!("{} signed the proposal and is no member here", stranger.public()));
    // A member's proposal with a byte of another one.
    let good = as_json(&town.proposal(1));
    let mut forged = good.clone();
    forged["payload"] = as_json(&town.proposal(2))["payload"].clone();
    let said = problem(&post(&forged), 403);
    assert_eq!(said, format!("the signature is not one of {}", town.node(1).signer.public()));
    // What is no proposal.
    for body in [json!({}), json!([]), json!({ "patch": "x" })] {
        problem(&post(&body), 400);
    }
    let other = herm::receipt::Envelope::seal(b"{\"predicateType\":\"urn:herm:vote:1\"}", &town.node(1).signer);
    assert!(problem(&post(&as_json(&other)), 400).starts_with("that is not a proposal"));
    let plain = client.send("POST", "/v1/mesh/proposals", Some(good.to_string().as_bytes()));
    assert_eq!(problem(&plain, 415), "the body is not said to be JSON");
    // A vote that nobody gave, and one that nobody could.
    assert!(
        problem(&client.get(&format!("/v1/mesh/votes/{}", "0".repeat(64))), 404).starts_with("there is no vote on")
    );
    assert!(problem(&client.get("/v1/mesh/votes/..%2f..%2fkey"), 400).contains("is not the hash of a proposal"));
    // An epoch out of nowhere.
    let far = town.proposal(u64::MAX);
    assert!(problem(&post(&as_json(&far)), 403).contains("is out of nowhere"));
    // And the good one is.
    assert!(matches!(post(&good).status, 200 | 202));
}

#[test]
fn a_body_larger_than_the_server_takes_is_refused_before_it_is_looked_at() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::asleep([Role::Common; 5]);
    let place = &mut town.places[1];
    place.serving = Some(place.operator.serve());
    let huge = json!({ "payload": "x".repeat(2 << 20) });
    let answer = town.node(2).serving().client().post("/v1/mesh/proposals", &huge);
    assert_eq!(problem(&answer, 413), "the body has more than 1048576 bytes");
}

#[test]
fn an_operator_whose_key_is_no_member_s_does_not_start() {
    if !can_sandbox() {
        return;
    }
    let town = Town::asleep([Role::Common; 5]);
    let config = std::fs::read_to_string(town.node(1).operator.path().join("config.toml")).unwrap();
    let outsider = Operator::new(HERM).configured(&config);
    let run = outsider.herm().run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("is not among the members of the mesh"), "{run:?}");
}

#[test]
fn a_brain_that_is_not_here_cannot_be_voted_on() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::asleep([Role::Common; 5]);
    std::fs::remove_dir_all(town.node(2).operator.brains().join(super::BRAIN)).unwrap();
    let place = &mut town.places[1];
    place.serving = Some(place.operator.serve());
    let asked = town.proposal(1);
    let error = town.ask(2, &asked).unwrap_err();
    assert!(error.message().starts_with("node-2 answered with 404: "), "{error}");
    assert_eq!((asked.predicate().patch_hash.clone(), &asked.predicate().evaluation), (patch().hash(), &evaluation()));
}
