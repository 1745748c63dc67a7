//! Tasks over HTTP: answered, followed, asked for later, run once.

use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::json;

use crate::{operator, over, problem, run, saying, until, vault, with_model, with_model_and};

#[test]
fn a_task_is_answered_with_its_receipt_and_can_be_looked_up() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client();
    let answer = run(&client, "1", &vault());
    assert_eq!(answer.status, 200, "{answer:?}");
    let task = answer.json();
    assert_eq!((&task["state"], &task["status"]), (&json!("done"), &json!("converged")));
    let outcome = &task["outcome"];
    assert_eq!(
        (&outcome["version"], &outcome["receiptSeq"], &outcome["billable"]),
        (&json!(2), &json!(2), &json!(true))
    );
    assert!(outcome["answer"].as_str().unwrap().contains("Reentrancy"));
    let name = task["task"].as_str().unwrap();
    assert_eq!(client.get(&format!("/v1/tasks/{name}")).json(), task);
    let listed = client.get("/v1/tasks").json();
    assert_eq!((&listed["tasks"][0]["task"], &listed["tasks"][0]["outcome"]), (&json!(name), &json!(null)));
    let receipt = client.get("/v1/agents/1/receipts/2").json();
    assert_eq!(receipt["envelope"], outcome["receipt"]);
    assert_eq!(receipt["statement"]["predicate"]["task"]["id"], json!(name));
    drop(serving);
    let run = operator.herm().run(&["receipts", "verify", "1"]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn the_events_of_a_task_come_as_they_happen_and_end_with_the_outcome() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client().with("accept", "text/event-stream");
    let answer = run(&client, "1", &vault());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(&names[..5], ["queued", "started", "turn_started", "reply", "tool_call"]);
    assert_eq!(&names[names.len() - 2..], ["settled", "outcome"]);
    assert!(names.contains(&"skill_written"));
    let (_, last) = events.last().unwrap();
    assert_eq!(last["outcome"]["status"], "converged");
}

#[test]
fn a_task_can_be_left_to_run_and_asked_for_later() {
    let gate = Gate::default();
    let model = ModelServer::start(vec![Step::chat(r#"{"done":1}"#).after(&gate)]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let answer = run(&client.with("prefer", "respond-async"), "7", "go");
    assert_eq!((answer.status, answer.header("preference-applied")), (202, Some("respond-async")));
    let task = answer.json()["task"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(format!("/v1/tasks/{task}").as_str()));
    until("the task running", || (client.get(&format!("/v1/tasks/{task}")).json()["state"] == "running").then_some(()));
    let mut following = client.open("GET", &format!("/v1/tasks/{task}/events"), None);
    following.until("event: turn_started");
    // A number from elsewhere does not make a caller miss what comes.
    let strange = client.with("last-event-id", "18446744073709551615");
    let strange = strange.open("GET", &format!("/v1/tasks/{task}/events"), None);
    gate.open();
    assert_eq!(strange.rest().events().last().map(|(name, _)| name.clone()).as_deref(), Some("outcome"));
    let events = following.rest().events();
    assert_eq!(events.last().map(|(name, _)| name.as_str()), Some("outcome"));
    assert_eq!(over(&client, &task)["outcome"]["answer"], r#"{"done":1}"#);
    // Once it is over, its outcome is all there is to follow.
    until("its outcome alone", || {
        let after = client.get(&format!("/v1/tasks/{task}/events"));
        (after.events().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>() == ["outcome"]).then_some(())
    });
}

#[test]
fn the_same_idempotency_key_is_the_same_task_however_often_and_at_once() {
    let model = saying(r#"{"done":1}"#);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client().with("idempotency-key", "order-17");
    let names: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| run(&client, "7", "go").json())).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()["task"].as_str().unwrap().to_owned()).collect()
    });
    assert!(names.windows(2).all(|pair| pair[0] == pair[1]), "{names:?}");
    assert_eq!(model.requests().len(), 1, "it ran once");
    let again = run(&client, "7", "go").json();
    assert_eq!((&again["task"], &again["outcome"]["answer"]), (&json!(names[0]), &json!(r#"{"done":1}"#)));
    let other = run(&client, "7", "something else");
    assert_eq!(problem(&other, 409, "conflict"), "this Idempotency-Key was used for another task");
    assert_eq!(serving.client().get("/v1/agents/7/receipts").json()["last"], 2);
}

#[test]
fn a_task_is_cancelled_while_it_runs_and_while_it_waits() {
    let model = ModelServer::always(Step::never());
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let later = client.with("prefer", "respond-async");
    let name = |answer: herm_tests::http::Answer| answer.json()["task"].as_str().unwrap().to_owned();
    let running = name(run(&later, "7", "one"));
    until("a request", || (!model.requests().is_empty()).then_some(()));
    let waiting = name(run(&later, "7", "two"));
    assert_eq!(client.get("/v1/agents/7").json()["waiting"], 1);
    assert_eq!(client.delete(&format!("/v1/tasks/{waiting}")).status, 202);
    let view = over(&client, &waiting);
    assert_eq!((&view["state"], &view["outcome"]), (&json!("cancelled"), &json!(null)));
    assert_eq!(client.delete(&format!("/v1/tasks/{running}")).status, 202);
    let view = over(&client, &running);
    assert_eq!((&view["state"], &view["outcome"]["stop"]), (&json!("cancelled"), &json!("cancelled")));
    problem(&client.delete(&format!("/v1/tasks/{running}")), 409, "conflict");
    // A task that ran has a receipt; one that never began has none.
    assert_eq!(client.get("/v1/agents/7/receipts").json()["last"], 2);
}

#[test]
fn a_caller_who_leaves_takes_the_task_along_only_if_asked() {
    for (how, ends_as) in [("cancel", "cancelled"), ("continue", "done")] {
        let gate = Gate::default();
        let model = ModelServer::start(vec![Step::chat(r#"{"done":1}"#).after(&gate)]);
        let operator = with_model(&model);
        let serving = operator.serve();
        let client = serving.client();
        let body = json!({ "input": "go", "onDisconnect": how }).to_string();
        let asking = client.with("accept", "text/event-stream").with("content-type", "application/json");
        let mut stream = asking.open("POST", "/v1/agents/7/tasks", Some(body.as_bytes()));
        stream.until("event: turn_started");
        drop(stream);
        if how == "continue" {
            gate.open();
        }
        let task = until("the task", || {
            let task = client.get("/v1/tasks").json()["tasks"][0].clone();
            (!task["finishedAt"].is_null()).then_some(task)
        });
        assert_eq!(task["state"], ends_as, "{how}");
        gate.open();
    }
}

#[test]
fn too_many_tasks_are_told_so_at_once_and_room_comes_back() {
    let gate = Gate::default();
    let slow = || Step::chat(r#"{"done":1}"#).after(&gate);
    let model = ModelServer::start((0..8).map(|_| slow()).collect());
    let operator = with_model_and(&model, "[serve]\nwaiting_per_brain = 2\nwaiting = 3").with_plain_brain("8");
    let serving = operator.serve();
    let client = serving.client().with("prefer", "respond-async");
    let first = run(&client, "7", "1").json()["task"].as_str().unwrap().to_owned();
    until("the first one running", || (client.get("/v1/agents/7").json()["running"] == 1).then_some(()));
    assert_eq!(run(&client, "7", "2").status, 202);
    assert_eq!(run(&client, "7", "3").status, 202);
    let refused = run(&client, "7", "4");
    assert_eq!(problem(&refused, 429, "too_many_requests"), "2 tasks wait for agent 7 already");
    assert!(refused.header("retry-after").is_some());
    // Another brain has a line of its own.
    assert_eq!(run(&client, "8", "1").status, 202);
    gate.open();
    over(&client, &first);
    until("room", || (run(&client, "7", "5").status == 202).then_some(()));
}

#[test]
fn limits_can_be_lowered_and_not_raised() {
    let model = saying(r#"{"done":1}"#);
    let operator = with_model_and(&model, "[limits]\nturns = 4\ndeadline_secs = 60");
    let serving = operator.serve();
    let client = serving.client();
    let with = |limits| client.post("/v1/agents/7/tasks", &json!({ "input": "go", "limits": limits }));
    assert_eq!(with(json!({ "turns": 2, "deadlineSecs": 5 })).status, 200);
    let statement = client.get("/v1/agents/7/receipts/2").json()["statement"].clone();
    let limits = &statement["predicate"]["task"]["limits"];
    assert_eq!((&limits["turns"], &limits["deadlineSecs"]), (&json!(2), &json!(5)));
    assert_eq!(
        problem(&with(json!({ "turns": 5 })), 400, "invalid_input"),
        "limits.turns is 5, and at most 4 is allowed here"
    );
    problem(&with(json!({ "turns": 0 })), 400, "invalid_input");
    problem(&with(json!({ "deadlineSecs": 0 })), 400, "invalid_input");
    problem(&with(json!({ "inputBytes": 5 })), 400, "invalid_input");
}

#[test]
fn a_dry_run_leaves_the_brain_as_it_is() {
    let model = saying(r#"{"done":1}"#);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let task = client.post("/v1/agents/7/tasks", &json!({ "input": "go", "dryRun": true })).json();
    assert_eq!((&task["outcome"]["status"], &task["outcome"]["receipt"]), (&json!("converged"), &json!(null)));
    assert_eq!(client.get("/v1/agents/7").json()["version"], 1);
}

#[test]
fn a_task_says_whether_skills_are_put_before_it() {
    let model = saying(r#"{"done":1}"#);
    let operator = with_model(&model);
    let plain = operator.brains().join("7/skills/go-slowly.md");
    std::fs::create_dir_all(plain.parent().unwrap()).unwrap();
    std::fs::write(&plain, "---\nname: go-slowly\ndescription: Says how to go.\n---\nGo slowly.\n").unwrap();
    assert_eq!(operator.herm().run(&["brain", "adopt", "7"]).code, 0);
    let serving = operator.serve();
    let client = serving.client();
    for (request, stands) in [(json!({ "input": "go" }), true), (json!({ "input": "go", "preload": false }), false)] {
        let task = client.post("/v1/agents/7/tasks", &request).json();
        assert_eq!(task["outcome"]["status"], json!("converged"), "{task:#}");
        let asked = model.requests().pop().unwrap().body.to_string();
        assert_eq!(asked.contains("# Procedure: go-slowly"), stands, "{asked}");
    }
}

#[test]
fn a_backend_that_fails_is_a_failed_outcome_with_a_receipt() {
    let model = ModelServer::always(Step::text(401, "text/plain", "no"));
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let answer = run(&client, "7", "go");
    let outcome = &answer.json()["outcome"];
    assert_eq!((answer.status, &outcome["status"], &outcome["stop"]), (200, &json!("failed"), &json!("backend")));
    assert_eq!((&outcome["billable"], &outcome["receiptSeq"]), (&json!(false), &json!(2)));
}

#[test]
fn the_first_task_of_a_seeded_number_makes_its_brain_and_no_other_number_does() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(run(&client, "2", "2026-01-01 ERROR disk full on replica").status, 200);
    assert_eq!(client.get("/v1/agents/2").json()["name"], "TRIAGE");
    let missing = run(&client, "4", "hello");
    assert_eq!(problem(&missing, 404, "not_found"), "there is no agent 4 here");
}
