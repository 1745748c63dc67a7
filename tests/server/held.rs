//! Things that once went wrong, and what holds instead: requests that mean the same under other limits, callers of the
//! OpenAI door who leave, files that a kill leaves behind, probes that everyone asks for, money of tasks that came to
//! nothing, and passes that an operator asks for.

use herm_tests::http::Client;
use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::{Value, json};

use crate::{answering, operator, over, problem, run, saying, until, vault, with_model};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

/// What a counter says.
fn counted(client: &Client, name: &str) -> f64 {
    let metrics = client.get("/metrics").body;
    let line = metrics.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
}

#[test]
fn the_same_request_is_the_same_task_though_the_operator_changed_what_tasks_may_use() {
    let operator = answering(DONE);
    let config = std::fs::read_to_string(operator.path().join("config.toml")).unwrap();
    let ask = |client: &Client| run(&client.with("idempotency-key", "k-1"), "7", "go");
    let serving = operator.serve();
    let first = ask(&serving.client()).json();
    assert_eq!(first["state"], "done", "{first}");
    assert!(serving.stop().success());
    let operator = operator.configured(&format!("{config}\n[limits]\nturns = 2\ndeadline_secs = 9\n"));
    let serving = operator.serve();
    assert_eq!(ask(&serving.client()).json(), first, "one task, and its first answer");
    // Another request under the same key is another matter.
    let other = run(&serving.client().with("idempotency-key", "k-1"), "7", "something else");
    assert_eq!(problem(&other, 409, "conflict"), "this Idempotency-Key was used for another task");
}

/// A caller with a key can ask again, so the task goes on without them; without one nobody could ever see the answer.
#[test]
fn a_caller_of_the_openai_door_who_leaves_finds_the_answer_by_the_key_and_without_one_the_task_ends() {
    for key in [Some("k-1"), None] {
        let gate = Gate::default();
        let model = ModelServer::start(vec![Step::chat(DONE).after(&gate), Step::chat(r#"{"second":1}"#)]);
        let operator = with_model(&model);
        let serving = operator.serve();
        let client = serving.client();
        let asking = key.map_or_else(|| client.clone(), |key| client.with("idempotency-key", key));
        let body = json!({ "model": "agent-7", "messages": [{ "role": "user", "content": "go" }] });
        let text = body.to_string();
        let header = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
        let mut stream = client.connect();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{header}content-length: {}\r\n\r\n{text}",
            serving.address(),
            text.len()
        );
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        until("a request", || (!model.requests().is_empty()).then_some(()));
        let task = client.get("/v1/tasks").json()["tasks"][0]["task"].as_str().unwrap().to_owned();
        drop(stream);
        match key {
            Some(_) => {
                // It is not cancelled: the model is waited for until it answers.
                gate.open();
                assert_eq!(over(&client, &task)["state"], "done");
                let again = asking.post("/v1/chat/completions", &body).json();
                assert_eq!(again["choices"][0]["message"]["content"], DONE, "{again}");
                assert_eq!(model.requests().len(), 1, "it ran once");
            }
            None => {
                assert_eq!(over(&client, &task)["state"], "cancelled");
                gate.open();
            }
        }
    }
}

#[test]
fn what_an_import_left_when_the_server_was_killed_is_gone_when_it_is_back() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let left = || -> Vec<String> {
        let entries = std::fs::read_dir(operator.brains().join(".operator")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("import-")).collect()
    };
    // Half of what is announced, and the server waits for the rest.
    let mut stream = serving.client().connect();
    let head = format!(
        "POST /v1/agents/9/import HTTP/1.1\r\nhost: {}\r\ncontent-type: application/octet-stream\r\ncontent-length: 2000\r\n\r\n",
        serving.address()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    std::io::Write::write_all(&mut stream, &[7; 1_000]).unwrap();
    until("a file on its way in", || (left().len() == 1).then_some(()));
    serving.kill();
    assert_eq!(left().len(), 1, "a kill tidies nothing");
    let serving = operator.serve();
    assert_eq!(run(&serving.client(), "7", "go").status, 200);
    assert_eq!(left(), [""; 0]);
    // One that is sent to its end, and is none, leaves nothing either.
    let answer = serving.client().send("POST", "/v1/agents/9/import", Some(&[7; 1_000]));
    assert!((400..500).contains(&answer.status), "{answer:?}");
    assert_eq!(left(), [""; 0]);
}

#[test]
fn many_who_ask_at_once_whether_the_server_is_ready_share_its_probes() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(client.get("/readyz").status, 200);
    let steps = || -> u64 {
        let lock = operator.brains().join(".operator/probe");
        let mut dirs = vec![lock];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                match entry.file_name() == "bundle.lock.json" {
                    true => {
                        let lock: Value = serde_json::from_slice(&std::fs::read(entry.path()).unwrap()).unwrap();
                        return lock["version"].as_u64().unwrap();
                    }
                    false if entry.file_type().unwrap().is_dir() => dirs.push(entry.path()),
                    false => {}
                }
            }
        }
        panic!("no scratch brain")
    };
    let before = steps();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..48).map(|_| scope.spawn(|| client.get("/readyz").status)).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 48], "nobody makes it fail for others by asking");
    assert!(steps() - before < 48, "{before} and then {}: not one write a question", steps());
    // And tasks go on beside it.
    assert_eq!(run(&client, "7", "go").status, 200);
}

/// The model was paid for its replies, though the step lost against another operator's and there is no outcome.
#[test]
fn what_a_task_spent_is_charged_though_it_came_to_nothing() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let path = |name: &str| operator.path().join(name).to_str().unwrap().to_owned();
    let config = std::fs::read_to_string(path("config.toml")).unwrap();
    let config = format!("{config}\n[snapshot]\nstore = {:?}\nplaintext = true\nbefore_answer = true\n", path("store"));
    std::fs::write(path("config.toml"), &config).unwrap();
    let key = operator.key(&["k", "--budget", "1000"]);
    let serving = operator.serve();
    let client = serving.client().key(&key);
    let spent = || client.get("/v1/key").json()["spentMicroUsd"].as_u64().unwrap();
    assert_eq!(run(&client, "7", "one").status, 200);
    let once = until("the price of one task", || Some(spent()).filter(|spent| *spent > 0));
    // Another operator with the same keys takes the brain further.
    let brains = operator.brains();
    let copied = std::process::Command::new("cp").args(["-a", brains.to_str().unwrap(), &path("elsewhere")]).status();
    assert!(copied.unwrap().success());
    let mut other = operator.herm().command(&["run", "7", "two"]);
    let other = other.env("HERM_BRAINS", path("elsewhere")).output().unwrap();
    assert!(other.status.success(), "{other:?}");
    let lost = run(&client, "7", "three");
    assert!(problem(&lost, 409, "conflict").contains("the step of this task lost"), "{lost:?}");
    assert_eq!(until("the price of both", || Some(spent()).filter(|spent| *spent > once)), 2 * once);
    // What was taken back can be run again, on what is there now.
    assert_eq!(run(&client, "7", "three").status, 200);
}

#[test]
fn a_pass_of_the_evolver_that_an_operator_asks_for_is_counted() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client();
    for number in 0..3 {
        assert_eq!(run(&client, "1", &format!("{}// {number}\n", vault())).status, 200);
    }
    assert!(serving.stop().success());
    crate::recurring_failures(&operator);
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(counted(&client, "herm_evolver_changed_total"), 0.0);
    assert_eq!(client.post("/v1/agents/1/evolve", &json!({ "dryRun": true })).status, 200);
    assert_eq!(counted(&client, "herm_evolver_changed_total"), 0.0, "nothing was done");
    let evolved = client.post("/v1/agents/1/evolve", &json!({})).json();
    assert!(counted(&client, "herm_evolver_changed_total") > 0.0, "{evolved}");
}

#[test]
fn errors_are_counted_by_the_version_that_a_task_led_to() {
    let failing = r#"{"tool": "skill_view", "args": {"name": "no-such-skill"}}"#;
    let working = r#"{"tool": "outline", "args": {}}"#;
    let nothing_new = r#"{"action": "none", "reason": "nothing new"}"#;
    let replies = [failing, working, DONE, nothing_new, working, DONE].map(Step::chat);
    let model = ModelServer::start(replies.to_vec());
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    for number in 0..2 {
        assert_eq!(run(&client, "1", &format!("task {number}")).json()["status"], "converged");
    }
    let charts = client.get("/v1/agents/1/charts").json();
    let expected = json!([{ "version": 2, "calls": 2, "errors": 1 }, { "version": 3, "calls": 1, "errors": 0 }]);
    assert_eq!(charts["versions"], expected, "{charts}");
    assert_eq!((&charts["days"][0]["events"], &charts["days"][0]["errors"]), (&json!(3), &json!(1)));
}
