//! One subscriber, however busy, leaves room and turns for the others; and a request that says it is too large, or comes
//! from elsewhere, is answered before anything else.

use std::io::Write as _;

use herm_tests::http::Incoming;
use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::{Value, json};

use crate::{answering, over, problem, run, until, with_model};

const DONE: &str = r#"{"done":1}"#;

#[test]
fn a_subscriber_who_sends_all_they_can_leaves_places_and_turns_to_others() {
    let gate = Gate::default();
    let model = ModelServer::always(Step::chat(DONE).after(&gate));
    let operator = with_model(&model);
    let keys = ["alice", "bob", "carol"].map(|name| operator.key(&[name, "--subscriber", name]));
    let second = operator.key(&["alice-2", "--subscriber", "alice"]);
    let boss = operator.key(&["boss", "--operations", "operate"]);
    let serving = operator.serve();
    let later = |key: &str| serving.client().key(key).with("prefer", "respond-async");
    let (alice, bob, carol) = (later(&keys[0]), later(&keys[1]), later(&keys[2]));
    let mut names = Vec::new();
    let mut send = |client: &herm_tests::http::Client| {
        let answer = run(client, "7", "go");
        if answer.status == 202 {
            names.push(answer.json()["task"].as_str().unwrap().to_owned());
        }
        answer
    };
    assert_eq!(send(&alice).status, 202);
    until("one at work", || (model.requests().len() == 1).then_some(()));
    let refused = (0..40).map(|_| send(&alice)).find(|answer| answer.status != 202).expect("a limit");
    let said = problem(&refused, 429, "too_many_requests");
    assert_eq!(said, "16 of your tasks wait for agent 7 already, and the rest is for others");
    // Another key of the same subscriber is no other subscriber.
    problem(&send(&later(&second)), 429, "too_many_requests");
    assert_eq!([&bob, &bob, &carol].map(|client| send(client).status), [202; 3]);
    gate.open();
    let boss = serving.client().key(&boss);
    for name in &names {
        assert_eq!(over(&boss, name)["state"], "done");
    }
    // They took turns: alice, who was there first, then one of each.
    let receipts = boss.get("/v1/agents/7/receipts?limit=200").json();
    let mut order: Vec<&str> =
        receipts["receipts"].as_array().unwrap().iter().filter_map(|one| one["task"].as_str()).collect();
    order.reverse();
    let place = |name: &String| order.iter().position(|task| task == name).unwrap();
    let (bobs, carols) = (&names[names.len() - 3..names.len() - 1], &names[names.len() - 1]);
    assert_eq!([place(&bobs[0]), place(carols), place(&bobs[1])], [2, 3, 5], "{order:?}");
}

#[test]
fn a_server_without_keys_answers_nothing_that_came_through_a_proxy_or_names_another_host() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    for name in [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-forwarded-server",
        "x-forwarded",
        "x-real-ip",
        "via",
        "true-client-ip",
        "cf-connecting-ip",
        "cf-ray",
        "cdn-loop",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-host",
        "x-original-forwarded-for",
        "x-envoy-external-address",
        "fly-client-ip",
        "fastly-client-ip",
        "x-azure-clientip",
        "x-appengine-user-ip",
    ] {
        let refused = client.with(name, "203.0.113.9").get("/v1/agents");
        assert_eq!(
            problem(&refused, 403, "refused"),
            "the request came through a proxy, and there are no keys here",
            "{name}"
        );
    }
    for host in [
        "evil.example",
        "evil.example:7700",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "user@127.0.0.1",
        "[[::1]]",
        "localhost.evil",
    ] {
        problem(&client.with("host", host).get("/v1/agents"), 403, "refused");
    }
    // The request line may name a host, too.
    let line = format!("GET http://evil.example/v1/agents HTTP/1.1\r\nhost: {}\r\n\r\n", serving.address());
    problem(&client.raw(line.as_bytes()).unwrap(), 403, "refused");
    // Two hosts are nobody's request, with keys and without.
    let two = format!("GET /v1/agents HTTP/1.1\r\nhost: {}\r\nhost: evil.example\r\n\r\n", serving.address());
    assert_eq!(problem(&client.raw(two.as_bytes()).unwrap(), 400, "invalid_input"), "the request has 2 Host headers");
    assert_eq!(client.get("/v1/agents").status, 200);
    let key = operator.key(&["a"]);
    let two = two.replace("\r\n\r\n", &format!("\r\nauthorization: Bearer {key}\r\n\r\n"));
    problem(&client.raw(two.as_bytes()).unwrap(), 400, "invalid_input");
    // With keys, a proxy is welcome.
    assert_eq!(
        client.key(&key).with("x-forwarded-for", "203.0.113.9").with("host", "herm.example").get("/v1/agents").status,
        200
    );
}

#[test]
fn a_body_that_says_it_is_too_large_is_answered_before_any_of_it_is_sent() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    for path in ["/v1/agents/7/tasks", "/v1/chat/completions", "/v1/agents/7/pause", "/v1/mesh/proposals", "/nothing"] {
        for expect in ["", "expect: 100-continue\r\n"] {
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{expect}content-length: {}\r\n\r\n",
                serving.address(),
                2 << 20
            );
            let mut stream = client.connect();
            stream.write_all(head.as_bytes()).unwrap();
            // Not one byte of it is sent.
            let answer = Incoming::read(stream).expect("an answer").rest();
            assert_eq!(problem(&answer, 413, "too_large"), "the body has more than 1048576 bytes", "{path} {expect}");
        }
    }
    // An import has a limit of its own.
    let whole = vec![b' '; 2 << 20];
    let answer = client.send("POST", "/v1/agents/9/import", Some(&whole));
    assert_ne!(answer.status, 413, "{answer:?}");
    let fits: Value = json!({ "input": "x".repeat((1 << 20) - 100) });
    assert_ne!(client.post("/v1/agents/7/tasks", &fits).status, 413);
}
