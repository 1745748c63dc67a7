//! Agents that ask each other: within what the key, a pause and the payment allow, never in a circle, and once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use herm_tests::http::Client;
use herm_tests::model_server::{Gate, ModelServer, Step};
use herm_tests::operator::{Operator, Serving};
use herm_tests::web_server;
use serde_json::{Value, json};

use crate::payment::{Facilitator, paid, price};
use crate::{operator, over, problem, run, until};

const DONE: &str = r#"{"done":1}"#;

/// A circle is refused at once. A loaded machine may need some seconds; the wait for a brain that is held is 120 s long.
const AT_ONCE: Duration = Duration::from_secs(30);

fn ask(agent: &str) -> String {
    json!({ "tool": "ask_agent", "args": { "agent": agent, "input": "look into it" } }).to_string()
}

/// A call that any of these agents may make, and must: one with tools answers after a call that went well, of a tool that
/// looks at more than its own skills and notes.
const LOOK: &str = r#"{"tool":"outline","args":{}}"#;

/// What an agent does that is asked.
fn replies(last: &str) -> Vec<Step> {
    [LOOK, last].map(Step::chat).into()
}

/// An operator whose agents 7, 8, … may ask others, each with a model of its own.
fn asking(models: &[&ModelServer], more: &str) -> Operator {
    let mut config = String::from("learning = false\nbackend = \"m7\"\n");
    let mut routes = String::from("[routes]\n");
    for (number, model) in (7..).zip(models) {
        config.push_str(&format!(
            "[backends.m{number}]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
            model.url()
        ));
        routes.push_str(&format!("{number} = \"m{number}\"\n"));
    }
    let operator = operator().configured(&format!("{config}{routes}{more}\n"));
    for number in (7..).take(models.len()) {
        let from = operator.path().join(format!("asking-{number}"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::write(from.join("system.md"), "You answer in JSON.\n").unwrap();
        let manifest = r#"{ "schema": "herm/manifest@1", "name": "ASKS", "tools": ["ask_agent", "outline"] }"#;
        std::fs::write(from.join("manifest.json"), manifest).unwrap();
        let made = operator.herm().run(&["init", &number.to_string(), "--from", from.to_str().unwrap()]);
        assert_eq!(made.code, 0, "{made:?}");
    }
    operator
}

/// What the model was told after its n-th reply.
fn told(model: &ModelServer, request: usize) -> String {
    model.requests()[request].last_message().to_owned()
}

fn receipts(client: &Client, agent: &str) -> Value {
    client.get(&format!("/v1/agents/{agent}/receipts")).json()["last"].clone()
}

#[test]
fn a_task_asks_only_the_agents_of_its_key_and_none_that_is_paused() {
    let seven = ModelServer::start(
        [&ask("8"), LOOK, DONE, &ask("8"), LOOK, DONE, &ask("9"), LOOK, DONE, &ask("8"), DONE].map(Step::chat).into(),
    );
    let eight = ModelServer::start(replies(r#"{"eight":1}"#));
    let operator = asking(&[&seven, &eight], "");
    let (one, both) = (operator.key(&["one", "--agents", "7"]), operator.key(&["both", "--agents", "7,8"]));
    let boss = operator.key(&["boss", "--operations", "operate"]);
    let serving = operator.serve();
    let (one, both, boss) = (serving.client().key(&one), serving.client().key(&both), serving.client().key(&boss));
    assert_eq!(run(&one, "7", "go").json()["status"], "converged");
    assert!(told(&seven, 1).contains("there is no agent 8 here"), "{}", told(&seven, 1));
    boss.post_nothing("/v1/agents/8/pause");
    assert_eq!(run(&both, "7", "go").json()["status"], "converged");
    assert!(told(&seven, 4).contains("agent 8 is paused by its operator"), "{}", told(&seven, 4));
    // One that is not there is told in the same words as one that is not the key's, and without a place on the disk.
    assert_eq!(run(&boss, "7", "go").json()["status"], "converged");
    assert!(told(&seven, 7).contains("there is no agent 9 here"), "{}", told(&seven, 7));
    assert!(!told(&seven, 7).contains(operator.path().to_str().unwrap()));
    assert_eq!((receipts(&boss, "8"), eight.requests().len()), (json!(1), 0), "agent 8 did nothing");
    boss.post_nothing("/v1/agents/8/resume");
    assert_eq!(run(&both, "7", "go").json()["status"], "converged");
    assert!(told(&seven, 10).contains(r#"{"eight":1}"#), "{}", told(&seven, 10));
    assert_eq!(receipts(&boss, "8"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_payment_runs_one_agent_unless_the_operator_lets_it_cover_more() {
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    tokio::task::spawn_blocking(move || {
        for covers in [false, true] {
            let seven = ModelServer::start([&ask("8"), LOOK, DONE].map(Step::chat).into());
            let eight = ModelServer::start(replies(r#"{"eight":1}"#));
            let more = format!("{}\ncovers_asked_agents = {covers}", price(&address));
            let operator = asking(&[&seven, &eight], &more);
            let serving = operator.serve();
            let client = serving.client().with("payment-signature", &paid(&format!("covers-{covers}"), "1000"));
            assert_eq!(run(&client, "7", "go").json()["status"], "converged");
            let expected = if covers { r#"{"eight":1}"# } else { "paid for one agent, and agent 8 would be a second" };
            assert!(told(&seven, 1).contains(expected), "{}", told(&seven, 1));
            assert_eq!(eight.requests().len(), if covers { 2 } else { 0 });
        }
    })
    .await
    .unwrap();
}

/// Two readers of agent 8 after a paid task of agent 7 has asked it: the one who was to pay, and the operator.
fn told_by_the_asked(serving: &Serving, keys: &[String]) -> String {
    let mut told = String::new();
    for key in keys {
        let client = serving.client().key(key);
        let paths = ["memory/search?q=xylophone", "memory/search?q=attic", "history", "receipts", "skills", "charts"];
        for path in paths {
            told.push_str(&client.get(&format!("/v1/agents/8/{path}")).body);
        }
        for receipt in 2..5 {
            let answer = client.get(&format!("/v1/agents/8/receipts/{receipt}"));
            if answer.status == 200 {
                assert_eq!(answer.json()["statement"]["predicate"]["task"]["result"], Value::Null, "{answer:?}");
            }
            told.push_str(&answer.body);
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_a_paid_task_asks_hands_its_answer_over_and_keeps_none_of_it() {
    const SECRET: &str = r#"{"summary":"the xylophone is in the attic"}"#;
    let facilitator = Facilitator::default();
    let answering = facilitator.clone();
    let address = web_server::serve(Arc::new(move |asked| answering.answer(asked))).await;
    tokio::task::spawn_blocking(move || {
        let seven = ModelServer::start([&ask("8"), LOOK, SECRET, &ask("8"), LOOK, SECRET].map(Step::chat).into());
        let eight = ModelServer::start([replies(SECRET), replies(SECRET)].concat());
        let more = format!("{}\ncovers_asked_agents = true", price(&address));
        let operator = asking(&[&seven, &eight], &more);
        let keys =
            [operator.key(&["alice", "--subscriber", "alice"]), operator.key(&["boss", "--operations", "operate"])];
        let serving = operator.serve();
        // Its payment cannot be taken when there is an answer.
        let late = serving.client().key(&keys[0]).with("payment-signature", &paid("late", "1000"));
        let refused = run(&late, "7", "where is it");
        assert!(problem(&refused, 402, "payment_required").contains("authorization_expired"), "{refused:?}");
        assert!(told(&seven, 1).contains("the xylophone is in the attic"), "{}", told(&seven, 1));
        let read = told_by_the_asked(&serving, &keys);
        assert!(!read.contains("xylophone is") && !read.contains("in the attic"), "{read}");
        assert_eq!(receipts(&serving.client().key(&keys[1]), "8"), 2, "what it did is accounted for");
        // Paid for, the task that asked has the answer.
        let good = serving.client().key(&keys[0]).with("payment-signature", &paid("good", "1000"));
        assert_eq!(run(&good, "7", "where is it").json()["outcome"]["answer"], SECRET);
        assert_eq!((facilitator.asked("/settle"), eight.requests().len()), (2, 4));
        drop(serving);
        for agent in ["7", "8"] {
            for arguments in [["receipts", "verify", agent], ["brain", "verify", agent]] {
                let ran = operator.herm().run(&arguments);
                assert_eq!(ran.code, 0, "{ran:?}");
            }
        }
    })
    .await
    .unwrap();
}

#[test]
fn two_tasks_whose_agents_ask_each_other_are_not_held_up() {
    let (first, second) = (Gate::default(), Gate::default());
    let model = |asks: &str, gate: &Gate| {
        let own = vec![Step::chat(&ask(asks)).after(gate), Step::chat(LOOK), Step::chat(DONE)];
        ModelServer::start([own, replies(DONE)].concat())
    };
    let (seven, eight) = (model("8", &first), model("7", &second));
    let operator = asking(&[&seven, &eight], "");
    let serving = operator.serve();
    let client = serving.client();
    let later = client.with("prefer", "respond-async");
    let name = |answer: herm_tests::http::Answer| answer.json()["task"].as_str().unwrap().to_owned();
    let (a, b) = (name(run(&later, "7", "go")), name(run(&later, "8", "go")));
    until("both at work", || (seven.requests().len() == 1 && eight.requests().len() == 1).then_some(()));
    let mut events = client.open("GET", &format!("/v1/tasks/{a}/events"), None);
    let began = Instant::now();
    first.open();
    // Agent 7 waits for agent 8 now, which asks agent 7 next.
    events.until("event: tool_call");
    second.open();
    for task in [&a, &b] {
        let view = over(&client, task);
        assert_eq!(view["status"], "converged", "{view}");
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    // One was refused at once and went on without the other; the other was answered.
    assert_eq!(seven.requests().len() + eight.requests().len(), 8);
    let all: Vec<String> = [&seven, &eight]
        .iter()
        .flat_map(|model| model.requests())
        .map(|request| request.last_message().to_owned())
        .collect();
    assert_eq!(all.iter().filter(|told| told.contains("so neither would answer")).count(), 1, "{all:?}");
    assert_eq!(all.iter().filter(|told| told.contains("answered:")).count(), 1, "{all:?}");
}

#[test]
fn a_circle_of_three_tasks_and_an_agent_that_asks_itself_are_refused_at_once() {
    let gates = [Gate::default(), Gate::default(), Gate::default()];
    let model = |asks: &str, gate: &Gate| {
        let own = vec![Step::chat(&ask(asks)).after(gate), Step::chat(LOOK), Step::chat(DONE)];
        ModelServer::start([own, replies(DONE)].concat())
    };
    let models = [model("8", &gates[0]), model("9", &gates[1]), model("7", &gates[2])];
    let operator = asking(&models.each_ref(), "");
    let serving = operator.serve();
    let client = serving.client();
    let later = client.with("prefer", "respond-async");
    let tasks = ["7", "8", "9"].map(|agent| run(&later, agent, "go").json()["task"].as_str().unwrap().to_owned());
    until("all at work", || models.iter().all(|model| model.requests().len() == 1).then_some(()));
    let began = Instant::now();
    for (task, gate) in tasks.iter().zip(&gates) {
        let mut events = client.open("GET", &format!("/v1/tasks/{task}/events"), None);
        gate.open();
        events.until("event: tool_call");
    }
    for task in &tasks {
        assert_eq!(over(&client, task)["status"], "converged");
    }
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    let all: Vec<String> =
        models.iter().flat_map(|model| model.requests()).map(|request| request.last_message().to_owned()).collect();
    assert_eq!(all.iter().filter(|told| told.contains("so neither would answer")).count(), 1, "{all:?}");

    let own = ModelServer::start([&ask("7"), LOOK, DONE].map(Step::chat).into());
    let operator = asking(&[&own], "");
    let serving = operator.serve();
    let began = Instant::now();
    assert_eq!(run(&serving.client(), "7", "go").json()["status"], "converged");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert!(told(&own, 1).contains("does not ask itself"), "{}", told(&own, 1));
}

#[test]
fn an_agent_that_answered_before_the_kill_is_not_asked_to_do_it_again() {
    // The task is cut off after agent 8 has answered; run again, it asks the same.
    let seven = ModelServer::start(vec![Step::chat(&ask("8")), Step::never(), Step::chat(&ask("8")), Step::chat(DONE)]);
    let eight = ModelServer::start(replies(r#"{"eight":"once"}"#));
    let operator = asking(&[&seven, &eight], "");
    let serving = operator.serve();
    let later = serving.client().with("prefer", "respond-async");
    let task = run(&later, "7", "go").json()["task"].as_str().unwrap().to_owned();
    until("the answer of agent 8 told", || (seven.requests().len() == 2).then_some(()));
    serving.kill();
    let serving = operator.serve();
    let client = serving.client();
    let view = over(&client, &task);
    assert_eq!((&view["status"], eight.requests().len()), (&json!("converged"), 2), "{view}");
    assert!(told(&seven, 3).contains(r#"{"eight":"once"}"#), "{}", told(&seven, 3));
    assert_eq!((receipts(&client, "7"), receipts(&client, "8")), (json!(2), json!(2)), "one step each");
    drop(serving);
    assert_eq!(operator.herm().run(&["receipts", "verify", "8"]).code, 0);
}
