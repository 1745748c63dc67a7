//! herm as an MCP server, with the public Python client.

use std::path::{Path, PathBuf};
use std::process::Command;

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::operator::Operator;

const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

/// A Python that has the public MCP package; where there is none, the test is recorded as not run.
pub fn python(test: &str) -> Option<PathBuf> {
    let python = std::env::var_os("HERM_PYTHON").map(PathBuf::from);
    let has = |python: &PathBuf| {
        Command::new(python).args(["-c", "import mcp"]).output().is_ok_and(|run| run.status.success())
    };
    let found = python.filter(has);
    if found.is_none() {
        herm_untested::not_run(test, "Python with mcp", "pip install mcp, and HERM_PYTHON names that Python");
    }
    found
}

#[test]
fn the_public_mcp_client_runs_tasks_recalls_and_verifies_over_http_and_stdio() {
    let Some(python) = python("the public MCP client against herm as a server") else { return };
    let model = ModelServer::always(Step::chat(r#"{"done":"yes"}"#));
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_plain_brain("7").with_plain_brain("8");
    let key = operator.key(&["mcp", "--agents", "7"]);
    let serving = operator.serve();
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mcp_client.py"))
        .args([&format!("http://{}/mcp", serving.address()), &key, HERM])
        .env("HERM_BRAINS", operator.brains())
        .env("HERM_CONFIG", operator.path().join("config.toml"))
        .env("HOME", operator.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", operator.logged());
    assert!(said.contains("27 checks passed"), "{said}");
    // What was said over MCP is what the brains and the server know.
    let list = serving.client().key(&key).get("/v1/tasks").json();
    assert_eq!(list["tasks"][0]["value"], 0.7, "{list}");
    for id in ["7", "8"] {
        let reader = herm::Reader::open(&herm::Layout::new(operator.brains()), &id.parse().unwrap()).unwrap();
        let counts = reader.outcome_counts(herm::Timestamp(0)).unwrap();
        assert_eq!((counts.scored, counts.score_sum, counts.known()), (1, 0.7, 1), "brain {id}");
    }
    // Without a key nothing is even listed.
    assert_eq!(serving.client().post("/mcp", &serde_json::json!({})).status, 401);
}

/// MCP has no way to pay, and says so before it asks the model or the facilitator for anything.
#[test]
fn where_tasks_are_paid_for_mcp_refuses_them_and_looks_all_the_same() {
    let model = ModelServer::always(Step::chat(r#"{"done":"yes"}"#));
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
         [serve.x402]\nfacilitator = \"http://127.0.0.1:9\"\npay_to = \"0xherm\"\nnetwork = \"eip155:8453\"\n\
         asset = \"0xtoken\"\namount = \"1000\"\ntoken_name = \"USDC\"\ntoken_version = \"2\"\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_plain_brain("7");
    let serving = operator.serve();
    let client = serving.client().with("accept", "application/json, text/event-stream");
    let call = |tool: &str, arguments: serde_json::Value| {
        let asked = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments },
        });
        let answer = client.post("/mcp", &asked);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["result"].clone()
    };
    let refused = call("run_task", serde_json::json!({ "agent": "7", "input": "go" }));
    assert_eq!(refused["isError"], true, "{refused}");
    let said = refused["content"][0]["text"].as_str().unwrap();
    assert!(said.contains("MCP has no way to pay") && said.contains("POST /v1/agents/7/tasks"), "{said}");
    assert_eq!(model.requests().len(), 0);
    let looked = call("skills", serde_json::json!({ "agent": "7" }));
    assert_eq!(looked["structuredContent"]["total"], 0, "{looked}");
}

#[test]
fn a_command_that_no_skill_has_is_an_error_over_mcp_and_never_reaches_the_model() {
    let model = ModelServer::always(Step::chat(r#"{"done":"yes"}"#));
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_plain_brain("7");
    let serving = operator.serve();
    let client = serving.client().with("accept", "application/json, text/event-stream");
    let ask = |input: &str| {
        serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "run_task", "arguments": { "agent": "7", "input": input } },
        })
    };
    for input in ["/no-such-command", "/no-such-command with words", "  /no-such-command"] {
        let answer = client.post("/mcp", &ask(input));
        assert_eq!(answer.status, 200, "{answer:?}");
        let result = &answer.json()["result"];
        assert_eq!(result["isError"], true, "{input:?}: {result}");
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.contains("no-such-command"), "{input:?}: {said}");
    }
    assert_eq!(model.requests().len(), 0);
    assert_eq!(client.get("/v1/agents/7/receipts").json()["last"], 1, "nothing was settled");
    // What only begins like one is a task.
    let answered = client.post("/mcp", &ask("/etc/passwd is a file")).json();
    assert_ne!(answered["result"]["isError"], true, "{answered}");
    assert_eq!(model.requests().len(), 1);
}
