//! What was accepted is not lost: kills, restarts, and a stop that takes its time.

use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::json;

use crate::{answering, over, problem, run, saying, until, with_model, with_model_and};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

fn name(answer: &herm_tests::http::Answer) -> String {
    answer.json()["task"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[test]
fn tasks_that_were_accepted_run_after_a_kill_each_once() {
    let gate = Gate::default();
    // The first two requests never get their answer: the process is killed before.
    let mut steps = vec![Step::never()];
    steps.extend((0..8).map(|_| Step::chat(DONE)));
    let model = ModelServer::start(steps);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client().with("prefer", "respond-async");
    let names: Vec<String> = (0..4).map(|number| name(&run(&client, "7", &format!("task {number}")))).collect();
    until("a request", || (!model.requests().is_empty()).then_some(()));
    gate.open();
    serving.kill();
    let serving = operator.serve();
    let client = serving.client();
    for name in &names {
        let view = over(&client, name);
        assert_eq!((&view["state"], &view["outcome"]["answer"]), (&json!("done"), &json!(DONE)), "{view}");
    }
    // One receipt for the making of the brain, and one a task.
    let receipts = client.get("/v1/agents/7/receipts").json();
    assert_eq!(receipts["last"], 5);
    let mut tasks: Vec<&str> =
        receipts["receipts"].as_array().unwrap().iter().filter_map(|receipt| receipt["task"].as_str()).collect();
    tasks.reverse();
    assert_eq!(tasks, names, "in the order they were accepted");
    assert_eq!(model.requests().len(), 5, "only the one that was cut off is asked again");
}

#[test]
fn a_task_that_was_settled_before_the_kill_is_read_back_and_not_run_again() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client().with("idempotency-key", "k-1");
    let first = run(&client, "7", "go").json();
    serving.kill();
    // As if the process had been killed between the brain's commit and that of the server database.
    let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
    let request = json!({ "input": "go", "limits": {}, "dryRun": false, "subscriber": null }).to_string();
    let changed = book
        .execute(
            "UPDATE tasks SET state = 'running', finished_at = NULL, outcome = NULL, status = NULL, request = ?1",
            [request],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(book);
    let serving = operator.serve();
    let again = run(&serving.client().with("idempotency-key", "k-1"), "7", "go").json();
    assert_eq!(again["task"], first["task"]);
    let (before, after) = (&first["outcome"], &again["outcome"]);
    for (field, value) in before.as_object().unwrap() {
        // The times of calls are not in the receipt, and that it was read back is said.
        if !matches!(field.as_str(), "calls" | "warnings") {
            assert_eq!(value, &after[field], "{field}");
        }
    }
    assert_eq!(model.requests().len(), 1, "it ran once");
}

#[test]
fn an_outcome_names_the_changes_that_wait_for_review_also_when_it_is_read_back() {
    let archive =
        json!({ "tool": "skill_manage", "args": { "action": "archive", "name": "oracle-review" } }).to_string();
    let model = ModelServer::start([archive.as_str(), DONE].map(Step::chat).into());
    let operator = with_model(&model);
    let serving = operator.serve();
    let first = run(&serving.client(), "1", "go").json();
    let proposed = json!([{ "slug": "oracle-review", "change": "archived" }]);
    assert_eq!((&first["outcome"]["skillsProposed"], &first["outcome"]["skillsChanged"]), (&proposed, &json!([])));
    let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
    book.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    // The answer is told before its end is written down.
    let ended = "SELECT count(*) FROM tasks WHERE finished_at IS NOT NULL";
    until("the end written down", || (book.query_row(ended, [], |row| row.get(0)) == Ok(1)).then_some(()));
    serving.kill();
    book.execute("UPDATE tasks SET state = 'running', finished_at = NULL, outcome = NULL, status = NULL", []).unwrap();
    drop(book);
    let serving = operator.serve();
    let again = over(&serving.client(), first["task"].as_str().unwrap());
    assert_eq!(again["outcome"]["skillsProposed"], proposed, "{again}");
}

#[test]
fn a_cancelled_task_is_not_taken_up_again() {
    let model = ModelServer::always(Step::never());
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client().with("prefer", "respond-async");
    let running = name(&run(&client, "7", "one"));
    let waiting = name(&run(&client, "7", "two"));
    until("a request", || (!model.requests().is_empty()).then_some(()));
    let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
    book.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    book.execute("UPDATE tasks SET cancelled = 1 WHERE id = ?1", [&waiting]).unwrap();
    drop(book);
    serving.kill();
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(over(&client, &waiting)["state"], "cancelled");
    assert_ne!(client.get(&format!("/v1/tasks/{running}")).json()["state"], "cancelled");
}

#[test]
fn a_stop_lets_running_tasks_end_and_takes_no_new_ones() {
    let gate = Gate::default();
    let model = ModelServer::start(vec![Step::chat(DONE).after(&gate)]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let asking = client.clone();
    let answer = std::thread::spawn(move || run(&asking, "7", "go"));
    until("a request", || (!model.requests().is_empty()).then_some(()));
    serving.signal(rustix::process::Signal::TERM);
    until("no more connections", || std::net::TcpStream::connect(client.address()).is_err().then_some(()));
    gate.open();
    let answer = answer.join().unwrap();
    assert_eq!((answer.status, &answer.json()["outcome"]["status"]), (200, &json!("converged")));
    assert!(serving.stop().success());
    assert_eq!(operator.herm().run(&["brain", "verify", "7"]).code, 0);
}

#[test]
fn a_stop_that_cannot_wait_cancels_what_nobody_was_promised_and_keeps_the_rest() {
    let model = ModelServer::always(Step::never());
    let operator = with_model_and(&model, "[serve]\nshutdown_secs = 0").with_plain_brain("8");
    let serving = operator.serve();
    let client = serving.client();
    let promised = name(&run(&client.with("prefer", "respond-async"), "8", "kept"));
    let asking = client.clone();
    let answer = std::thread::spawn(move || run(&asking, "7", "cut"));
    until("two requests", || (model.requests().len() == 2).then_some(()));
    assert!(serving.stop().success());
    let answer = answer.join().unwrap().json();
    assert_eq!((&answer["state"], &answer["outcome"]["stop"]), (&json!("cancelled"), &json!("cancelled")));
    for agent in ["7", "8"] {
        let run = operator.herm().run(&["receipts", "verify", agent]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    let serving = operator.serve();
    let client = serving.client();
    until("the promised one running again", || {
        (client.get(&format!("/v1/tasks/{promised}")).json()["state"] == "running").then_some(())
    });
}

#[test]
fn a_brain_stays_paused_over_a_restart() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let serving = operator.serve();
    let paused = serving.client().post_nothing("/v1/agents/7/pause").json();
    assert_eq!((&paused["paused"], &paused["changed"]), (&json!(true), &json!(true)));
    serving.kill();
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(problem(&run(&client, "7", "go"), 503, "unavailable"), "agent 7 is paused by its operator");
    client.post_nothing("/v1/agents/7/resume");
    assert_eq!(run(&client, "7", "go").status, 200);
}

#[test]
fn a_second_server_on_the_same_brains_is_refused() {
    let operator = answering(DONE);
    let _serving = operator.serve();
    let second = operator.herm().run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 5, "{second:?}");
    assert!(second.stderr.contains("a server runs on these brains already"), "{second:?}");
}

#[test]
fn a_caller_who_leaves_while_a_task_is_accepted_loses_nothing() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let body = json!({ "input": "go" }).to_string();
    for number in 0..60_u32 {
        let request = format!(
            "POST /v1/agents/7/tasks HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nidempotency-key: k{number}\r\n\
             content-length: {}\r\n\r\n{body}",
            serving.address(),
            body.len()
        );
        let mut stream = client.connect();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        // Somewhere between the first byte and the answer.
        std::thread::park_timeout(std::time::Duration::from_micros(u64::from(number) * 80));
        drop(stream);
    }
    let tasks = until("every task over", || {
        let tasks = client.get("/v1/tasks?limit=200").json()["tasks"].as_array().unwrap().clone();
        tasks.iter().all(|task| !task["finishedAt"].is_null()).then_some(tasks)
    });
    assert!(tasks.iter().all(|task| task["state"] == "done"), "{tasks:?}");
    assert_eq!(client.get("/v1/operator/status").json()["queue"]["waiting"], 0);
    // The same key again is the same task, and is answered.
    assert_eq!(run(&client.with("idempotency-key", "k59"), "7", "go").status, 200);
    assert!(serving.stop().success());
}

#[test]
fn a_stop_tells_those_who_wait_that_their_task_goes_on_later() {
    let gate = Gate::default();
    let model = ModelServer::start(vec![Step::chat(DONE).after(&gate), Step::chat(DONE)]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let running = name(&run(&client.with("prefer", "respond-async"), "7", "one"));
    until("a request", || (!model.requests().is_empty()).then_some(()));
    let asking = client.with("idempotency-key", "k");
    let waiting = std::thread::spawn(move || run(&asking, "7", "two"));
    until("someone who waits", || (client.get("/v1/agents/7").json()["waiting"] == 1).then_some(()));
    serving.signal(rustix::process::Signal::TERM);
    let told = waiting.join().unwrap();
    assert_eq!(problem(&told, 503, "unavailable"), "the server stops; the task goes on when it is back");
    gate.open();
    assert!(serving.wait().success());
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(over(&client, &running)["state"], "done");
    let again = run(&client.with("idempotency-key", "k"), "7", "two");
    assert_eq!((again.status, model.requests().len()), (200, 2), "{again:?}");
}

#[test]
fn a_cancel_that_was_asked_for_holds_over_a_kill() {
    let model = ModelServer::always(Step::never());
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let later = client.with("prefer", "respond-async");
    run(&later, "7", "one");
    let waiting = name(&run(&later, "7", "two"));
    until("a request", || (!model.requests().is_empty()).then_some(()));
    assert_eq!(client.delete(&format!("/v1/tasks/{waiting}")).status, 202);
    serving.kill();
    let serving = operator.serve();
    assert_eq!(over(&serving.client(), &waiting)["state"], "cancelled");
}

#[test]
fn a_failure_that_changed_nothing_does_not_stay_with_its_key() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client().with("idempotency-key", "k");
    client.post_nothing("/v1/agents/7/pause");
    problem(&run(&client, "7", "go"), 503, "unavailable");
    client.post_nothing("/v1/agents/7/resume");
    let answer = run(&client, "7", "go");
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("done")));
}

#[test]
fn a_task_whose_deadline_passed_while_no_server_ran_ends_and_says_so() {
    let model = ModelServer::start(vec![Step::never(), Step::chat(DONE)]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let keyed = |serving: &herm_tests::operator::Serving| serving.client().with("idempotency-key", "k");
    let task = name(&run(&keyed(&serving).with("prefer", "respond-async"), "7", "go"));
    until("a request", || (!model.requests().is_empty()).then_some(()));
    serving.kill();
    // As if the server had been down for as long as the task may take.
    let book = rusqlite::Connection::open(operator.brains().join(".operator/book.db")).unwrap();
    assert_eq!(book.execute("UPDATE tasks SET deadline = created_at", []).unwrap(), 1);
    drop(book);
    let serving = operator.serve();
    let view = over(&serving.client(), &task);
    let said = "the deadline of this task passed while the server did not run";
    assert_eq!((&view["state"], &view["problem"]["detail"]), (&json!("failed"), &json!(said)), "{view}");
    assert_eq!(model.requests().len(), 1, "the model is not asked for it again");
    // Nothing was changed, so the same key may ask again.
    let again = run(&keyed(&serving), "7", "go");
    assert_eq!((again.status, &again.json()["state"]), (200, &json!("done")), "{again:?}");
}
