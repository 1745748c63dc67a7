//! The operator's process over real sockets: tasks, keys, limits, doors, what is seen from outside.

mod access;
mod again;
mod asking;
mod bad_input;
mod doors;
mod fair;
mod feedback;
mod held;
mod learning;
mod lost_keys;
mod operate;
mod page;
mod passing;
mod payment;
mod private;
mod restart;
mod seen;
mod skew;
mod tasks;

use herm_tests::http::{Answer, Client};
use herm_tests::model_server::{ModelServer, Step};
use herm_tests::operator::Operator;
use serde_json::{Value, json};

/// The program.
const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

/// A contract with flaws.
fn vault() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../seed/agents/1/examples/vault.sol");
    std::fs::read_to_string(path).expect("the example")
}

fn operator() -> Operator {
    Operator::new(HERM)
}

/// An operator whose agent 7 has no tools and asks this model.
fn with_model(model: &ModelServer) -> Operator {
    with_model_and(model, "")
}

/// The same with more of a configuration.
fn with_model_and(model: &ModelServer, more: &str) -> Operator {
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
         price = {{ input = 1000000, output = 1000000 }}\n{more}\n",
        model.url()
    );
    operator().configured(&config).with_plain_brain("7")
}

/// A model that answers everything with this object.
fn saying(text: &str) -> ModelServer {
    ModelServer::always(Step::chat(text))
}

/// An operator whose agent 7 answers everything with this object.
fn answering(text: &str) -> Operator {
    answering_and(text, "")
}

/// The same with more of a configuration.
fn answering_and(text: &str, more: &str) -> Operator {
    let model = saying(text);
    with_model_and(&model, more).with_model(model)
}

/// Changes a brain of an operator before it serves.
fn with_brain(operator: &Operator, id: &str, change: impl FnOnce(&mut herm::Brain)) {
    let signer = std::sync::Arc::new(herm_tests::signer());
    let options = herm::BrainOptions { signer: Some(signer), ..herm::BrainOptions::default() };
    let layout = herm::Layout::new(operator.brains());
    let mut brain = herm::Brain::open(&layout, &id.parse().expect("an id"), &options).expect("opened");
    change(&mut brain);
    brain.close().expect("closed");
}

fn run(client: &Client, agent: &str, input: &str) -> Answer {
    client.post(&format!("/v1/agents/{agent}/tasks"), &json!({ "input": input }))
}

/// The skill that agent 1 of `operator()` learns from the vault.
const LEARNED: &str = "check-reentrancy-and-share-inflation";

/// Evidence of three sessions that had that skill, each with the same wrong call and then the right one.
fn recurring_failures(operator: &Operator) {
    let sessions = operator.path().join("sessions");
    std::fs::create_dir_all(&sessions).expect("a directory");
    let call = |id: &str, tool: &str, args: Value| json!({ "id": id, "function": { "name": tool, "arguments": args.to_string() } });
    let result = |id: &str, said: &str| json!({ "role": "tool", "tool_call_id": id, "content": said });
    for number in 0..3 {
        let record = json!({ "session_id": format!("earlier-{number}"), "messages": [
            { "role": "assistant", "tool_calls": [
                call("1", "skill_view", json!({ "name": LEARNED })),
                call("2", "pattern_search", json!({ "id": "replay-signature" })),
                call("3", "pattern_search", json!({ "id": "signature-replay" })),
            ] },
            result("1", "the skill"), result("2", "error: no such pattern"), result("3", "the pattern"),
        ] });
        std::fs::write(sessions.join(format!("session_{number}.json")), record.to_string()).expect("written");
    }
    let path = sessions.to_str().expect("UTF-8");
    let taken = operator.herm().run(&["evolve", "backfill", "1", "--sessions-dir", path]);
    assert_eq!(taken.code, 0, "{taken:?}");
}

/// Asserts that an answer is a problem of this kind, and returns what it says.
fn problem(answer: &Answer, status: u16, kind: &str) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    let said = answer.json();
    assert_eq!((&said["kind"], &said["status"]), (&json!(kind), &json!(status)), "{answer:?}");
    assert_eq!(said["requestId"].as_str(), answer.header("x-request-id"), "{answer:?}");
    said["detail"].as_str().expect("a detail").to_owned()
}

/// Looks until something is so; a test that never sees it fails.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::yield_now();
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    panic!("never seen: {what}")
}

/// The task once it is over.
fn over(client: &Client, task: &str) -> Value {
    until("the end of a task", || {
        let view = client.get(&format!("/v1/tasks/{task}")).json();
        (!view["finishedAt"].is_null()).then_some(view)
    })
}
