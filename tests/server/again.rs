//! Tasks that are tried again: while another process holds their brain, and when their step lost against another
//! operator's. How often, for how long, and who pays.

use std::sync::Arc;

use herm::Layout;
use herm::fsio::OsLock;
use herm_tests::http::Client;
use herm_tests::model_server::{Gate, ModelServer, Step};
use herm_tests::operator::{Operator, Serving};
use herm_tests::web_server;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use crate::payment::{Facilitator, paid, price};
use crate::{over, problem, run, saying, until, with_model, with_model_and};

const DONE: &str = r#"{"done":1}"#;

/// Puts lines before the tables of a configuration.
fn configured_first(operator: Operator, lines: &str) -> Operator {
    let config = std::fs::read_to_string(operator.path().join("config.toml")).unwrap();
    operator.configured(&format!("{lines}\n{config}"))
}

/// Holds brain 7 as another process does: the server is not this one.
fn hold(operator: &Operator) -> OsLock {
    let file = Layout::new(operator.brains()).lock_file(&"7".parse().unwrap());
    OsLock::acquire(&file, "brain 7", std::time::Duration::ZERO).unwrap()
}

fn tried_again(operator: &Operator) -> usize {
    operator.logged().matches("the task is tried again").count()
}

fn name(answer: &herm_tests::http::Answer) -> String {
    answer.json()["task"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn receipts(client: &Client) -> serde_json::Value {
    client.get("/v1/agents/7/receipts").json()["last"].clone()
}

fn spent(client: &Client) -> u64 {
    client.get("/v1/key").json()["spentMicroUsd"].as_u64().unwrap()
}

#[test]
fn a_task_that_was_accepted_while_another_process_held_its_brain_is_done_when_that_lets_go() {
    let model = saying(DONE);
    let operator = configured_first(with_model(&model), "lock_wait_ms = 20");
    let held = hold(&operator);
    let serving = operator.serve();
    let client = serving.client();
    // Who waits without a promise hears of it at once.
    let refused = run(&client, "7", "now");
    assert!(problem(&refused, 409, "conflict").contains("brain 7 is held by"), "{refused:?}");
    assert_eq!(tried_again(&operator), 0);
    let later = name(&run(&client.with("prefer", "respond-async"), "7", "later"));
    // Waiting costs nothing, so it may be more often than the model is asked.
    until("more attempts than the model gets", || (tried_again(&operator) > 5).then_some(()));
    assert_eq!(client.get(&format!("/v1/tasks/{later}")).json()["state"], "running");
    drop(held);
    let view = over(&client, &later);
    assert_eq!((&view["state"], &view["outcome"]["answer"]), (&json!("done"), &json!(DONE)), "{view}");
    assert_eq!((receipts(&client), model.requests().len()), (json!(2), 1));
}

#[test]
fn a_task_whose_brain_is_held_beyond_its_deadline_fails_and_its_key_is_free_again() {
    let model = saying(DONE);
    let operator = configured_first(with_model(&model), "lock_wait_ms = 20");
    let held = hold(&operator);
    let serving = operator.serve();
    let client = serving.client().with("idempotency-key", "k");
    let ask = || client.post("/v1/agents/7/tasks", &json!({ "input": "go", "limits": { "deadlineSecs": 1 } }));
    let refused = ask();
    assert!(problem(&refused, 409, "conflict").contains("brain 7 is held by"), "{refused:?}");
    drop(held);
    let answer = ask();
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("done")), "{answer:?}");
    assert_eq!((receipts(&client), model.requests().len()), (json!(2), 1));
}

/// Gives brain 7 a receipt that its memory does not have: it cannot be read until that is gone.
fn damage(operator: &Operator) -> impl Fn() + use<> {
    let path = operator.brains().join("7/receipts.ndjson");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [whole.as_slice(), b"more\n"].concat()).unwrap();
    move || std::fs::write(&path, &whole).unwrap()
}

#[test]
fn a_task_between_two_attempts_ends_when_its_brain_cannot_be_read_any_more() {
    let model = saying(DONE);
    let operator = configured_first(with_model(&model), "lock_wait_ms = 20");
    let held = hold(&operator);
    let serving = operator.serve();
    let client = serving.client();
    let task = name(&run(&client.with("prefer", "respond-async"), "7", "go"));
    // By now it waits for seconds between attempts.
    until("long waits", || (tried_again(&operator) > 7).then_some(()));
    let mend = damage(&operator);
    let view = over(&client, &task);
    assert_eq!((&view["state"], &view["problem"]["kind"]), (&json!("failed"), &json!("corrupt")), "{view}");
    mend();
    drop(held);
    assert_eq!((receipts(&client), model.requests().len()), (json!(1), 0));
}

#[test]
fn the_key_of_a_task_stays_taken_where_nobody_can_tell_whether_its_step_was_settled() {
    let model = saying(DONE);
    let operator = configured_first(with_model(&model), "lock_wait_ms = 30000");
    let held = hold(&operator);
    let serving = operator.serve();
    let client = serving.client();
    let keyed = client.with("idempotency-key", "k");
    let task = name(&run(&keyed.with("prefer", "respond-async"), "7", "go"));
    until("it at work", || (client.get(&format!("/v1/tasks/{task}")).json()["state"] == "running").then_some(()));
    // Its attempt fails on this, and the brain cannot be asked afterwards.
    let mend = damage(&operator);
    drop(held);
    let view = over(&client, &task);
    assert_eq!((&view["state"], &view["problem"]["kind"]), (&json!("failed"), &json!("corrupt")), "{view}");
    mend();
    let again = run(&keyed, "7", "go");
    assert_eq!(again.json()["detail"], view["problem"]["detail"], "{again:?}");
    assert_eq!(model.requests().len(), 0);
    // Another key runs it.
    assert_eq!(run(&client.with("idempotency-key", "l"), "7", "go").status, 200);
    assert_eq!((receipts(&client), model.requests().len()), (json!(2), 1));
}

#[test]
fn a_task_that_was_cancelled_while_its_brain_was_held_stays_cancelled_after_a_restart() {
    // Between two attempts, and in the middle of one.
    for wait in ["lock_wait_ms = 20", "lock_wait_ms = 30000"] {
        let model = saying(DONE);
        let operator = configured_first(with_model(&model), wait);
        let held = hold(&operator);
        let serving = operator.serve();
        let client = serving.client();
        let task = name(&run(&client.with("prefer", "respond-async"), "7", "go"));
        until("it at work", || (client.get(&format!("/v1/tasks/{task}")).json()["state"] == "running").then_some(()));
        if wait.ends_with(" 20") {
            until("an attempt", || (tried_again(&operator) > 0).then_some(()));
        }
        assert_eq!(client.delete(&format!("/v1/tasks/{task}")).status, 202);
        let view = over(&client, &task);
        assert_eq!(view["state"], "cancelled", "{view}");
        drop(held);
        serving.kill();
        let serving = operator.serve();
        let client = serving.client();
        assert_eq!(client.get(&format!("/v1/tasks/{task}")).json()["state"], "cancelled");
        // The brain is free for others, and nothing of the task is in it.
        assert_eq!(run(&client, "7", "another").status, 200);
        assert_eq!((receipts(&client), model.requests().len()), (json!(2), 1));
    }
}

#[test]
fn a_caller_without_a_promise_waits_for_a_machine_that_cannot_until_the_deadline_and_no_longer() {
    let model = saying(DONE);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let mut stream = client.connect();
    let mut answers = std::io::BufReader::new(stream.try_clone().unwrap());
    let mut ask = |head: &str, body: &str| {
        let text = format!("{head} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", serving.address());
        let text = format!("{text}content-length: {}\r\n\r\n{body}", body.len());
        std::io::Write::write_all(&mut stream, text.as_bytes()).unwrap();
        next_answer(&mut answers)
    };
    // The connection is there before no more descriptors are.
    assert!(ask("GET /healthz", "").0.contains(" 200 "));
    let pid = Pid::from_raw(i32::try_from(serving.pid()).unwrap());
    let limit = |current| Rlimit { current: Some(current), maximum: Some(1_024) };
    prlimit(pid, Resource::Nofile, limit(0)).unwrap();
    let (status, said) = ask("POST /v1/agents/7/tasks", r#"{"input":"go","limits":{"deadlineSecs":1}}"#);
    prlimit(pid, Resource::Nofile, limit(1_024)).unwrap();
    assert!(status.contains(" 503 ") && said.contains("urn:herm:problem:unavailable"), "{status}: {said}");
    assert!(operator.logged().contains("it is asked again"));
    assert_eq!(model.requests().len(), 0);
    assert_eq!(run(&client, "7", "go").status, 200);
    assert_eq!(receipts(&client), 2);
}

/// The next answer on a connection: its first line and its body.
fn next_answer(stream: &mut impl std::io::BufRead) -> (String, String) {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().to_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (first, String::from_utf8(body).unwrap())
}

/// An operator that pushes before it answers, and another with the same brains and a model of its own.
struct Two {
    operator: Operator,
    other: ModelServer,
}

impl Two {
    fn new(model: &ModelServer, more: &str) -> Self {
        let operator = with_model_and(model, more);
        let other = saying(r#"{"other":1}"#);
        let path = |name: &str| operator.path().join(name);
        let config = std::fs::read_to_string(path("config.toml")).unwrap();
        let snapshot = format!("[snapshot]\nstore = {:?}\nplaintext = true\nbefore_answer = true\n", path("store"));
        std::fs::write(path("config.toml"), format!("{config}\n{snapshot}")).unwrap();
        let elsewhere = format!(
            "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n{snapshot}",
            other.url()
        );
        std::fs::write(path("other.toml"), elsewhere).unwrap();
        Self { operator, other }
    }

    /// Copies the brains for the other operator.
    fn part(&self) {
        let (from, to) = (self.operator.brains(), self.operator.path().join("elsewhere"));
        assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    /// The other operator takes the brain further.
    fn overtake(&self) {
        let before = self.other.requests().len();
        let mut run = self.operator.herm().command(&["run", "7", "elsewhere"]);
        let run = run
            .env("HERM_BRAINS", self.operator.path().join("elsewhere"))
            .env("HERM_CONFIG", self.operator.path().join("other.toml"))
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        assert_eq!(self.other.requests().len(), before + 1);
    }

    fn serve(&self) -> Serving {
        self.operator.serve()
    }
}

fn gated(count: usize) -> (Vec<Gate>, Vec<Step>) {
    let gates: Vec<Gate> = (0..count).map(|_| Gate::default()).collect();
    let steps = gates.iter().map(|gate| Step::chat(DONE).after(gate)).collect();
    (gates, steps)
}

#[test]
fn a_task_whose_step_loses_every_time_asks_the_model_five_times_and_then_fails() {
    let (gates, steps) = gated(5);
    let model = ModelServer::start([vec![Step::chat(DONE)], steps, vec![Step::chat(DONE)]].concat());
    let two = Two::new(&model, "");
    let key = two.operator.key(&["k", "--budget", "1000000"]);
    let serving = two.serve();
    let client = serving.client().key(&key);
    assert_eq!(run(&client, "7", "first").status, 200);
    let once = until("the price of one task", || Some(spent(&client)).filter(|spent| *spent > 0));
    two.part();
    let keyed = client.with("idempotency-key", "k");
    let asking = keyed.clone();
    let answer = std::thread::spawn(move || run(&asking, "7", "go"));
    for (number, gate) in gates.iter().enumerate() {
        until("the next attempt", || (model.requests().len() == number + 2).then_some(()));
        two.overtake();
        gate.open();
    }
    let lost = answer.join().unwrap();
    assert!(problem(&lost, 409, "conflict").contains("the step of this task lost"), "{lost:?}");
    assert_eq!(model.requests().len(), 6, "one before, and five attempts");
    assert_eq!(spent(&client), 6 * once, "all of them are paid for");
    let listed = client.get("/v1/tasks?state=failed").json()["tasks"].as_array().unwrap().len();
    assert_eq!(listed, 1);
    // Nothing was changed, so the same key may ask again.
    let again = run(&keyed, "7", "go");
    assert_eq!((again.status, &again.json()["state"]), (200, &json!("done")), "{again:?}");
}

#[test]
fn what_an_attempt_cost_is_charged_though_the_server_stopped_before_the_next_was_over() {
    for is_killed in [false, true] {
        let (gates, steps) = gated(1);
        let more = vec![Step::never(), Step::chat(DONE)];
        let model = ModelServer::start([vec![Step::chat(DONE)], steps, more].concat());
        let two = Two::new(&model, "[serve]\nshutdown_secs = 0");
        let key = two.operator.key(&["k", "--budget", "1000000"]);
        let serving = two.serve();
        let client = serving.client().key(&key);
        assert_eq!(run(&client, "7", "first").status, 200);
        let once = until("the price of one task", || Some(spent(&client)).filter(|spent| *spent > 0));
        two.part();
        let task = name(&run(&client.with("prefer", "respond-async"), "7", "go"));
        until("the first attempt", || (model.requests().len() == 2).then_some(()));
        two.overtake();
        gates[0].open();
        until("the second attempt", || (model.requests().len() == 3).then_some(()));
        match is_killed {
            true => serving.kill(),
            false => assert!(serving.stop().success()),
        }
        let serving = two.serve();
        let client = serving.client().key(&key);
        let view = over(&client, &task);
        assert_eq!((&view["state"], model.requests().len()), (&json!("done"), 4), "{view}");
        // The attempt that was cut off had no reply that could be counted.
        assert_eq!(until("the end written down", || Some(spent(&client)).filter(|spent| *spent > once)), 3 * once);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_task_whose_step_lost_is_run_again_and_paid_once() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    tokio::task::spawn_blocking(move || {
        let (gates, steps) = gated(1);
        let model = ModelServer::start([vec![Step::chat(DONE)], steps, vec![Step::chat(DONE)]].concat());
        let two = Two::new(&model, &price(&address));
        let serving = two.serve();
        let client = serving.client();
        assert_eq!(run(&client.with("payment-signature", &paid("one", "1000")), "7", "first").status, 200);
        two.part();
        let asking = client.with("payment-signature", &paid("two", "1000"));
        let answer = std::thread::spawn(move || run(&asking, "7", "go"));
        until("the first attempt", || (model.requests().len() == 2).then_some(()));
        two.overtake();
        gates[0].open();
        let answer = answer.join().unwrap();
        assert_eq!((answer.status, &answer.json()["outcome"]["answer"]), (200, &json!(DONE)), "{answer:?}");
        assert!(answer.header("payment-response").is_some(), "{answer:?}");
        assert_eq!((model.requests().len(), facilitator.asked("/settle")), (3, 2), "one payment a task");
        // The making, the first task, the other operator's, and this one.
        assert_eq!(receipts(&client), 4);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_task_that_lost_five_times_is_owed_and_done_after_a_restart_and_settled_once() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    tokio::task::spawn_blocking(move || {
        let (gates, steps) = gated(5);
        let model = ModelServer::start([vec![Step::chat(DONE)], steps, vec![Step::chat(DONE)]].concat());
        let two = Two::new(&model, &price(&address));
        let serving = two.serve();
        let client = serving.client();
        assert_eq!(run(&client.with("payment-signature", &paid("one", "1000")), "7", "first").status, 200);
        two.part();
        let paying = client.with("payment-signature", &paid("two", "1000")).with("idempotency-key", "k");
        let task = name(&run(&paying.with("prefer", "respond-async"), "7", "go"));
        for (number, gate) in gates.iter().enumerate() {
            until("the next attempt", || (model.requests().len() == number + 2).then_some(()));
            two.overtake();
            gate.open();
        }
        until("a task that is left", || two.operator.logged().contains("the next start tries again").then_some(()));
        // Money was taken for it: it has not failed.
        assert_eq!(client.get(&format!("/v1/tasks/{task}")).json()["state"], "running");
        assert_eq!((model.requests().len(), facilitator.asked("/settle")), (6, 2));
        serving.kill();
        let serving = two.serve();
        let client = serving.client();
        let view = over(&client, &task);
        assert_eq!((&view["state"], &view["outcome"]["answer"]), (&json!("done"), &json!(DONE)), "{view}");
        assert!(view["payment"].is_string(), "{view}");
        assert_eq!((model.requests().len(), facilitator.asked("/settle")), (7, 2), "one payment a task");
        // The making, the first task, five of the other operator, and this one.
        assert_eq!(receipts(&client), 8);
    })
    .await
    .unwrap();
}
