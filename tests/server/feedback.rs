//! Feedback over HTTP: by who asked, corrected with a receipt each time, bounded, and nobody else's business.

use herm_tests::http::{Answer, Client};
use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::{Value, json};

use crate::{answering, over, problem, run, saying, until, with_model};

const DONE: &str = r#"{"done":1}"#;

/// Runs a task; its name.
fn asked(client: &Client, input: &str) -> String {
    let answer = run(client, "7", input);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["task"].as_str().expect("a task").to_owned()
}

fn say(client: &Client, task: &str, value: impl Into<Value>) -> Answer {
    client.post(&format!("/v1/tasks/{task}/feedback"), &json!({ "value": value.into() }))
}

fn last_receipt(client: &Client) -> u64 {
    client.get("/v1/agents/7/receipts").json()["last"].as_u64().expect("a number")
}

#[test]
fn feedback_is_a_step_with_a_receipt_can_be_corrected_and_the_same_again_is_none() {
    let operator = answering(DONE);
    let alice = operator.key(&["a", "--subscriber", "alice"]);
    let boss = operator.key(&["boss", "--operations", "operate"]);
    let serving = operator.serve();
    let alice = serving.client().key(&alice);
    let task = asked(&alice, "go");
    assert_eq!(alice.get(&format!("/v1/tasks/{task}")).json()["value"], "unknown");
    let said = json!({ "value": "good", "note": "found  both\nflaws" });
    let first = alice.post(&format!("/v1/tasks/{task}/feedback"), &said);
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    assert_eq!((&first["task"], &first["agent"], &first["value"]), (&json!(task), &json!("7"), &json!("good")));
    let source = &first["outcome"]["sources"][0];
    assert_eq!((&source["source"], &source["note"]), (&json!("feedback"), &json!("found both flaws")));
    assert_eq!((&first["settled"]["version"], &first["settled"]["receiptSeq"]), (&json!(3), &json!(3)));
    let receipt = alice.get("/v1/agents/7/receipts/3").json();
    assert_eq!(receipt["envelope"], first["settled"]["receipt"]);
    let predicate = &receipt["statement"]["predicate"];
    let feedback = &predicate["change"]["feedback"];
    assert_eq!((&predicate["action"], &feedback["task"]), (&json!("feedback"), &json!(task)));
    assert_eq!((&feedback["source"], &feedback["value"]), (&json!("feedback"), &json!("good")));
    // The same again, as a client does that did not hear the answer.
    let again = alice.post(&format!("/v1/tasks/{task}/feedback"), &said).json();
    assert_eq!((&again["settled"], &again["outcome"]), (&json!(null), &first["outcome"]));
    for (value, version) in [(json!("bad"), 4), (json!(0.7), 5)] {
        let answer = say(&alice, &task, value.clone()).json();
        assert_eq!((&answer["value"], &answer["settled"]["version"]), (&value, &json!(version)));
        let view = alice.get(&format!("/v1/tasks/{task}")).json();
        assert_eq!((&view["value"], &view["outcome"]["outcome"]), (&value, &answer["outcome"]));
        assert_eq!(alice.get("/v1/tasks").json()["tasks"][0]["value"], value);
    }
    let counted = serving.client().key(&boss).get("/metrics").body;
    for (value, times) in [("good", 1), ("bad", 1), ("score", 1)] {
        let line = format!("herm_outcomes_total{{value=\"{value}\",source=\"feedback\"}} {times}\n");
        assert!(counted.contains(&line), "{line} is not in {counted}");
    }
    assert!(serving.stop().success());
    let verified = operator.herm().run(&["receipts", "verify", "7"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    // What the server remembers, and what the brain says, outlive the process.
    let serving = operator.serve();
    let boss = serving.client().key(&boss);
    let view = boss.get(&format!("/v1/tasks/{task}")).json();
    assert_eq!((&view["value"], &view["outcome"]["outcome"]["value"]), (&json!(0.7), &json!(0.7)));
}

#[test]
fn a_task_of_someone_else_is_not_there_and_neither_is_what_was_said_of_it() {
    let operator = answering(DONE);
    let (alice, bob) = (operator.key(&["a", "--subscriber", "alice"]), operator.key(&["b", "--subscriber", "bob"]));
    let (one, two) = (operator.key(&["one"]), operator.key(&["two"]));
    let serving = operator.serve();
    let client = serving.client();
    let (alice, bob) = (client.key(&alice), client.key(&bob));
    let task = asked(&alice, "go");
    assert_eq!(say(&alice, &task, "good").status, 200);
    // Neither by its name nor by its agent, and in the words in which one is told that is not there.
    let at = |task: &str| format!("/v1/agents/7/tasks/{task}/feedback");
    let body = json!({ "value": "bad" });
    let unknown = problem(&say(&bob, "no-such-task", "bad"), 404, "not_found");
    assert_eq!(problem(&say(&bob, &task, "bad"), 404, "not_found"), unknown);
    assert_eq!(problem(&bob.post(&at("no-such-task"), &body), 404, "not_found"), "brain 7 has no task no-such-task");
    assert_eq!(problem(&bob.post(&at(&task), &body), 404, "not_found"), format!("brain 7 has no task {task}"));
    problem(&alice.post(&format!("/v1/agents/9/tasks/{task}/feedback"), &body), 404, "not_found");
    // Two keys without a subscriber are two callers.
    let (one, two) = (client.key(&one), client.key(&two));
    let unnamed = asked(&one, "go");
    problem(&say(&two, &unnamed, "bad"), 404, "not_found");
    problem(&two.post(&at(&unnamed), &body), 404, "not_found");
    assert_eq!(one.post(&at(&unnamed), &json!({ "value": 1 })).json()["value"], json!(1.0));
    // The receipt and the line of the history are the subscriber's own.
    let receipts = |client: &Client| -> Vec<u64> {
        let list = client.get("/v1/agents/7/receipts").json();
        list["receipts"].as_array().unwrap().iter().map(|row| row["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!((receipts(&alice), receipts(&bob)), (vec![3, 2, 1], vec![1]));
    problem(&bob.get("/v1/agents/7/receipts/3"), 404, "not_found");
    let lines = |client: &Client| client.get("/v1/agents/7/history").body;
    assert!(lines(&alice).contains(&format!("feedback on task {task}")) && !lines(&bob).contains(&task));
    assert_eq!(last_receipt(&alice), 5, "nothing else was settled");
}

#[test]
fn the_operators_label_prevails_and_its_reason_is_not_told() {
    let operator = answering(DONE);
    let (alice, boss) =
        (operator.key(&["a", "--subscriber", "alice"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (alice, boss) = (serving.client().key(&alice), serving.client().key(&boss));
    let task = asked(&alice, "go");
    let label = json!({ "value": "bad", "note": "alice was charged twice" });
    let labelled = boss.post(&format!("/v1/tasks/{task}/feedback"), &label).json();
    assert_eq!(labelled["outcome"]["sources"][0]["source"], "label");
    let answer = alice.post(&format!("/v1/tasks/{task}/feedback"), &json!({ "value": "good", "note": "mine" })).json();
    assert_eq!((&answer["value"], &answer["settled"]["version"]), (&json!("bad"), &json!(4)));
    let notes = |outcome: &Value| -> Vec<Value> {
        outcome["sources"].as_array().unwrap().iter().map(|source| source["note"].clone()).collect()
    };
    assert_eq!(notes(&answer["outcome"]), [json!(null), json!("mine")]);
    let at = format!("/v1/tasks/{task}");
    assert_eq!(notes(&alice.get(&at).json()["outcome"]["outcome"]), [json!(null), json!("mine")]);
    assert_eq!(notes(&boss.get(&at).json()["outcome"]["outcome"]), [json!("alice was charged twice"), json!("mine")]);
}

#[test]
fn what_does_not_say_how_good_an_answer_was_is_refused_in_a_sentence() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    let task = asked(&client, "go");
    let at = format!("/v1/tasks/{task}/feedback");
    for (value, shown) in [
        (json!(1.2), "1.2"),
        (json!(-0.1), "-0.1"),
        (json!("great"), "great"),
        (json!("unknown"), "unknown"),
        (json!("0.7"), "0.7"),
        (json!(null), "null"),
        (json!(true), "true"),
        (json!([]), "[]"),
    ] {
        let refused = say(&client, &task, value);
        let said = problem(&refused, 400, "invalid_input");
        assert_eq!(said, format!("{shown:?} does not say how good an answer was"));
        assert!(refused.json()["hint"].as_str().is_some_and(|hint| hint.contains("from 0 (bad) to 1 (good)")));
    }
    for body in
        [&br#"{"value":NaN}"#[..], b"{\"value\":\"good\",\"by\":\"me\"}", b"{}", b"[]", b"", b"{\"value\":1e999}"]
    {
        problem(&client.with("content-type", "application/json").send("POST", &at, Some(body)), 400, "invalid_input");
    }
    let long = client.post(&at, &json!({ "value": "good", "note": "é".repeat(501) }));
    assert_eq!(problem(&long, 400, "invalid_input"), "the note has more than 500 characters");
    problem(&client.send("POST", &at, Some(b"good")), 415, "unsupported_media_type");
    problem(&client.get(&at), 405, "method_not_allowed");
    let fits = client.post(&at, &json!({ "value": "good", "note": "é".repeat(500) }));
    assert_eq!(fits.status, 200, "{fits:?}");
    assert_eq!(last_receipt(&client), 3);
}

#[test]
fn a_flood_of_contradictions_costs_twenty_steps_and_then_ends() {
    let operator = answering(DONE);
    let (alice, boss) =
        (operator.key(&["a", "--subscriber", "alice"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (alice, boss) = (serving.client().key(&alice), serving.client().key(&boss));
    let task = asked(&alice, "go");
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let flood = |first: u32| {
            let (alice, task) = (&alice, &task);
            scope.spawn(move || -> Vec<u16> {
                (0..15).map(|n| say(alice, task, f64::from((n + first) % 100) / 100.0).status).collect()
            })
        };
        let floods: Vec<_> = [0, 25, 50].map(flood).into_iter().collect();
        floods.into_iter().flat_map(|flood| flood.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 20, "{answers:?}");
    assert!(answers.iter().all(|status| [200, 409].contains(status)), "{answers:?}");
    assert_eq!(last_receipt(&boss), 2 + 20);
    let more = say(&alice, &task, "good");
    assert_eq!(problem(&more, 409, "conflict"), format!("task {task} was reported on 20 times"));
    // What stands can be said again, the next task is not the poorer, and the operator has the last word.
    let stands = alice.get(&format!("/v1/tasks/{task}")).json()["value"].clone();
    assert_eq!(say(&alice, &task, stands).json()["settled"], json!(null));
    let next = asked(&alice, "go on");
    assert_eq!(say(&alice, &next, "good").status, 200);
    assert_eq!(say(&boss, &task, "bad").json()["value"], "bad");
    drop(serving);
    let verified = operator.herm().run(&["brain", "verify", "7"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn the_rate_and_the_operations_of_a_key_hold_for_feedback() {
    let operator = answering(DONE);
    let slow = operator.key(&["slow", "--subscriber", "alice", "--rate", "3"]);
    let reads = operator.key(&["reads", "--subscriber", "alice", "--operations", "read"]);
    let serving = operator.serve();
    let (slow, reads) = (serving.client().key(&slow), serving.client().key(&reads));
    let task = asked(&slow, "go");
    problem(&say(&reads, &task, "good"), 403, "refused");
    assert_eq!(say(&slow, &task, "good").status, 200);
    assert_eq!(say(&slow, &task, "bad").status, 200);
    let over_rate = say(&slow, &task, "good");
    assert_eq!((over_rate.status, over_rate.header("retry-after").is_some()), (429, true), "{over_rate:?}");
}

#[test]
fn a_task_that_has_no_answer_cannot_be_rated_before_or_after_its_end() {
    let gate = Gate::default();
    let model = ModelServer::start(vec![Step::chat(DONE).after(&gate), Step::never()]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let later = client.with("prefer", "respond-async");
    let running = run(&later, "7", "go").json()["task"].as_str().unwrap().to_owned();
    let waiting = run(&later, "7", "never mind").json()["task"].as_str().unwrap().to_owned();
    assert_eq!(problem(&say(&client, &running, "good"), 409, "conflict"), "the task is not over yet");
    assert_eq!(client.delete(&format!("/v1/tasks/{waiting}")).status, 202);
    over(&client, &waiting);
    let said = problem(&say(&client, &waiting, "good"), 409, "conflict");
    assert_eq!(said, "the task came to no outcome: there is nothing to speak of");
    gate.open();
    over(&client, &running);
    assert_eq!(say(&client, &running, "good").status, 200);
}

#[test]
fn feedback_waits_for_the_task_that_runs_on_the_same_brain_and_the_same_again_does_not() {
    let gate = Gate::default();
    let model = ModelServer::start(vec![Step::chat(DONE), Step::chat(DONE).after(&gate)]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let first = asked(&client, "one");
    assert_eq!(say(&client, &first, "good").status, 200);
    let later = client.with("prefer", "respond-async");
    let second = run(&later, "7", "two").json()["task"].as_str().unwrap().to_owned();
    until("the task running", || {
        (client.get(&format!("/v1/tasks/{second}")).json()["state"] == "running").then_some(())
    });
    assert_eq!(say(&client, &first, "good").json()["settled"], json!(null));
    let corrected = std::thread::scope(|scope| {
        let correcting = scope.spawn(|| say(&client, &first, "bad"));
        gate.open();
        correcting.join().unwrap()
    });
    assert_eq!((corrected.status, corrected.json()["value"].clone()), (200, json!("bad")));
    over(&client, &second);
    assert_eq!(last_receipt(&client), 5);
}

#[test]
fn a_task_that_the_server_never_ran_is_rated_by_its_agent() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let ran = operator.herm().json(&["run", "7", "go", "--subscriber", "alice"]).1;
    let task = ran["task"].as_str().expect("a task").to_owned();
    let (alice, bob) = (operator.key(&["a", "--subscriber", "alice"]), operator.key(&["b", "--subscriber", "bob"]));
    let (one, boss) = (operator.key(&["one"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let [alice, bob, one, boss] = [&alice, &bob, &one, &boss].map(|key| serving.client().key(key));
    problem(&say(&alice, &task, "good"), 404, "not_found");
    let at = format!("/v1/agents/7/tasks/{task}/feedback");
    let body = json!({ "value": 0.9 });
    for stranger in [&bob, &one] {
        assert_eq!(problem(&stranger.post(&at, &body), 404, "not_found"), format!("brain 7 has no task {task}"));
    }
    let said = alice.post(&at, &body).json();
    assert_eq!((&said["value"], &said["outcome"]["sources"][0]["source"]), (&json!(0.9), &json!("feedback")));
    assert_eq!(boss.post(&at, &json!({ "value": "good" })).json()["outcome"]["sources"][0]["source"], "label");
    problem(&boss.post("/v1/agents/7/tasks/../feedback", &body), 404, "not_found");
    problem(&boss.post("/v1/agents/404/tasks/x/feedback", &body), 404, "not_found");
}

#[test]
fn a_label_of_the_command_line_is_seen_by_the_server() {
    let operator = answering(DONE);
    let boss = operator.key(&["boss", "--operations", "operate"]);
    let serving = operator.serve();
    let task = asked(&serving.client().key(&boss), "go");
    assert!(serving.stop().success());
    // The server's database knows whose brain it is.
    let (code, labelled) = operator.herm().json(&["feedback", &task, "0.25", "--note", "half of it"]);
    assert_eq!((code, &labelled["id"], &labelled["source"]), (0, &json!("7"), &json!("label")), "{labelled}");
    let serving = operator.serve();
    let client = serving.client().key(&boss);
    let view = client.get(&format!("/v1/tasks/{task}")).json();
    assert_eq!((&view["value"], &view["outcome"]["outcome"]), (&json!(0.25), &labelled["outcome"]));
    assert_eq!(client.get("/v1/tasks").json()["tasks"][0]["value"], 0.25);
}
