//! The OpenAI door, byte by byte and with the public client.

use std::path::Path;
use std::process::Command;

use herm_tests::model_server::{ModelServer, Step};
use serde_json::{Value, json};

use crate::{answering, problem, saying, with_model};

fn ask(client: &herm_tests::http::Client, more: Value) -> herm_tests::http::Answer {
    let mut body = json!({ "model": "agent-7", "messages": [{ "role": "user", "content": "go" }] });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    client.post("/v1/chat/completions", &body)
}

#[test]
fn an_agent_answers_as_a_model_does() {
    let model = saying(r#"{"done":"yes"}"#);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let answer = ask(&client, json!({ "temperature": 0.5, "user": "x", "max_tokens": 50 })).json();
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("agent-7")));
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!(r#"{"done":"yes"}"#), &json!("stop"))
    );
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10 }));
    assert_eq!(
        (&answer["herm"]["version"], &answer["herm"]["receipt"]["payloadType"]),
        (&json!(2), &json!("application/vnd.in-toto+json"))
    );
    let models = client.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("agent-7")));
    assert_eq!(client.get("/v1/models/agent-7").json()["object"], "model");
    // What was said before is context.
    let earlier = json!([
        { "role": "system", "content": "be brief" }, { "role": "user", "content": "hi" },
        { "role": "assistant", "content": "hello" }, { "role": "user", "content": [{ "type": "text", "text": "and now?" }] },
    ]);
    ask(&client, json!({ "messages": earlier }));
    let asked = model.requests().last().unwrap().last_message().to_owned();
    assert!(asked.contains("assistant: hello") && asked.contains("Now:\nand now?"), "{asked}");
}

#[test]
fn a_stream_has_the_pieces_that_clients_expect() {
    let long = format!("{{\"text\":\"{}\"}}", "é".repeat(3_000));
    let operator = answering(&long);
    let serving = operator.serve();
    let answer = ask(&serving.client(), json!({ "stream": true, "stream_options": { "include_usage": true } }));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let pieces: Vec<Value> = answer.events().into_iter().map(|(_, data)| data).collect();
    assert_eq!(pieces.last(), Some(&json!("[DONE]")));
    assert_eq!(pieces[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = pieces.iter().filter_map(|piece| piece["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, long);
    let finish: Vec<&str> = pieces.iter().filter_map(|piece| piece["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(finish, ["stop"]);
    let usage = &pieces[pieces.len() - 2];
    assert_eq!((&usage["usage"]["total_tokens"], &usage["choices"]), (&json!(10), &json!([])));
}

#[test]
fn what_goes_wrong_is_told_as_openai_tells_it() {
    let model = ModelServer::always(Step::text(401, "text/plain", "no"));
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let error = |answer: herm_tests::http::Answer, status: u16| {
        assert_eq!(answer.status, status, "{answer:?}");
        let error = answer.json()["error"].clone();
        assert!(error["message"].is_string() && error["code"].is_string(), "{error}");
        error["type"].as_str().unwrap().to_owned()
    };
    assert_eq!(error(ask(&client, json!({ "model": "gpt-4o" })), 404), "not_found_error");
    assert_eq!(error(ask(&client, json!({ "model": "agent-99" })), 404), "not_found_error");
    assert_eq!(error(ask(&client, json!({ "messages": [] })), 400), "invalid_request_error");
    assert_eq!(error(ask(&client, json!({ "n": 2 })), 400), "invalid_request_error");
    let image = json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "x" } }] }]);
    assert_eq!(error(ask(&client, json!({ "messages": image })), 400), "invalid_request_error");
    assert_eq!(error(client.post("/v1/chat/completions", &json!([])), 400), "invalid_request_error");
    assert_eq!(error(ask(&client, json!({})), 502), "api_error");
    let stream = ask(&client, json!({ "stream": true }));
    assert_eq!(stream.events().last().unwrap().1["error"]["type"], "api_error");
    let key = operator.key(&["k", "--operations", "read"]);
    assert_eq!(error(ask(&client, json!({})), 401), "authentication_error");
    assert_eq!(error(ask(&client.key(&key), json!({})), 403), "permission_error");
    problem(&client.get("/v1/agents"), 401, "unauthenticated");
}

#[test]
fn an_unknown_command_is_an_error_at_every_door_and_asks_no_model() {
    let model = saying(r#"{"done":"yes"}"#);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    let said = |text: &str| json!([{ "role": "user", "content": text }]);
    let after = |text: &str| {
        json!([
            { "role": "user", "content": "hi" }, { "role": "assistant", "content": "hello" },
            { "role": "user", "content": text },
        ])
    };
    for messages in [said("/no-such-skill go"), after("/no-such-skill go")] {
        let answer = ask(&client, json!({ "messages": messages }));
        assert_eq!(answer.status, 404, "{answer:?}");
        let error = answer.json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("no skill for the command /no-such-skill"), "{error}");
    }
    let answer = crate::run(&client, "7", "/no-such-skill go");
    assert!(answer.status == 404 && answer.json()["detail"].as_str().unwrap().contains("/no-such-skill"), "{answer:?}");
    assert!(model.requests().is_empty(), "no model was asked");
    // What was said before goes along with a command that is known, behind it; a text that is none is sent as it is.
    let answer = ask(&client, json!({ "messages": after("/reload-skills") })).json();
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&content).unwrap()["added"], json!([]), "{answer}");
    ask(&client, json!({ "messages": said("\\/no-such-skill go") }));
    assert_eq!(model.requests().last().unwrap().last_message(), "\\/no-such-skill go");
}

/// The public Python client, unchanged, against the server.
#[test]
fn the_public_openai_client_works_unchanged() {
    let Some(python) = python_with("openai", "the public OpenAI client") else { return };
    let operator = answering(r#"{"done":"yes"}"#);
    let key = operator.key(&["py"]);
    let serving = operator.serve();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/openai_client.py");
    let output = Command::new(python)
        .arg(script)
        .env_clear()
        .env("OPENAI_BASE_URL", format!("http://{}/v1", serving.address()))
        .env("OPENAI_API_KEY", key)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.trim(), "7 checks passed");
}

/// The document of the API is taken at its word: whatever it allows is sent, and nothing makes the server fail.
#[test]
fn whatever_the_document_allows_makes_no_server_error() {
    let Some(python) = python_with("schemathesis", "schemathesis against the API") else { return };
    let operator = answering(r#"{"done":"yes"}"#);
    let serving = operator.serve();
    let examples = std::env::var("HERM_EXAMPLES").unwrap_or_else(|_| "15".to_owned());
    let output = Command::new(python.with_file_name("schemathesis"))
        .args(["run", "--checks", "not_a_server_error,content_type_conformance", "--workers", "1", "--seed", "7"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples])
        // What waits for the end of a task, or ends the process's readiness on purpose, is tested elsewhere.
        .args(["--exclude-path", "/readyz"])
        .arg(format!("http://{}/openapi.json", serving.address()))
        .current_dir(operator.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", operator.logged());
    assert_eq!(serving.client().get("/healthz").status, 200);
}

/// The Python of the test environment, if it has a package; under CI it must.
fn python_with(package: &str, test: &str) -> Option<std::path::PathBuf> {
    let python = std::env::var_os("HERM_PYTHON").map(std::path::PathBuf::from);
    let has = python.as_ref().is_some_and(|python| {
        Command::new(python).args(["-c", &format!("import {package}")]).output().is_ok_and(|run| run.status.success())
    });
    if !has {
        let get = format!("pip install {package}, and HERM_PYTHON names that Python");
        herm_untested::not_run(test, &format!("Python with {package}"), &get);
    }
    python.filter(|_| has)
}
