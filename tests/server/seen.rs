//! What is seen from outside: probes, counters, logs, the document of the API, a terminal.

use std::sync::{Arc, Mutex};

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::web_server;
use serde_json::{Value, json};

use crate::{answering, answering_and, operator, run, until, vault, with_model};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

#[test]
fn the_probes_tell_what_works() {
    let operator = answering_and(DONE, "[snapshot]\nplaintext = true");
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(client.get("/healthz").body, "ok\n");
    let ready = client.get("/readyz");
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["probes"], json!({ "brain": "ok", "book": "ok", "store": "ok" }));
    // A probe is no brain of the operator's.
    assert_eq!(client.get("/v1/agents").json()["total"], 1);
    // A probe that fails says which one.
    let probe = operator.brains().join(".operator/probe");
    std::fs::remove_dir_all(&probe).unwrap();
    std::fs::write(&probe, "in the way").unwrap();
    let ready = until("a probe that fails", || Some(client.get("/readyz")).filter(|ready| ready.status == 503));
    assert_ne!(ready.json()["probes"]["brain"], "ok");
    assert_eq!(ready.json()["probes"]["store"], "ok");
}

#[test]
fn what_happens_is_counted() {
    let model = ModelServer::start(vec![
        Step::text(503, "text/plain", "busy"),
        Step::chat(DONE),
        Step::text(401, "text/plain", "no"),
    ]);
    let operator = with_model(&model);
    let serving = operator.serve();
    let client = serving.client();
    run(&client, "7", "one");
    run(&client, "7", "two");
    client.get("/nothing");
    let answer = client.get("/metrics");
    assert!(answer.header("content-type").unwrap().starts_with("text/plain"));
    let value = |name: &str| -> f64 {
        let line = answer.body.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{name}: {}", answer.body))
    };
    assert_eq!(value("herm_tasks_total{outcome=\"converged\"}"), 1.0);
    assert_eq!(value("herm_tasks_total{outcome=\"failed\"}"), 1.0);
    assert_eq!(value("herm_backend_errors_total{class=\"overloaded\"}") + 0.0, 1.0);
    assert_eq!(value("herm_settle_seconds_count"), 2.0);
    assert!(value("herm_turns_total") >= 2.0);
    assert_eq!(value("herm_output_tokens_total"), 3.0);
    assert_eq!((value("herm_tasks_running"), value("herm_tasks_waiting")), (0.0, 0.0));
    assert!(value("herm_pool_bytes") > 0.0);
    // Made-up methods are one label.
    for number in 0..50 {
        client.send(&format!("M{number}"), "/", None);
    }
    let methods = client.get("/metrics").body.lines().filter(|line| line.contains("method=\"other\"")).count();
    assert_eq!(methods, 1);
    // Every line is one that Prometheus reads.
    for line in answer.body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok() && name.starts_with("herm_"), "{line}");
    }
}

#[test]
fn the_document_of_the_api_is_the_one_that_was_reviewed() {
    let operator = operator();
    let serving = operator.serve();
    let document = serving.client().get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut shape = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let statuses: Vec<&str> = operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            shape.push(format!("{} {path} → {}", method.to_uppercase(), statuses.join(" ")));
        }
    }
    shape.sort();
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("openapi_paths", shape.join("\n"));
        insta::assert_json_snapshot!("openapi", document);
    });
}

#[test]
fn log_lines_are_json_and_hold_no_secret() {
    let operator = answering(DONE);
    let key = operator.key(&["k", "--operations", "operate"]);
    let serving = operator.serve_with(&["--json-logs", "-vv"]);
    let client = serving.client().key(&key);
    run(&client.with("x-request-id", "sk-ant-REDACTED"), "7", "go");
    assert!(serving.stop().success());
    let logged = operator.logged();
    let secret = key.rsplit('_').next().unwrap();
    assert!(!logged.contains(secret) && !logged.contains("a1B2c3D4e5F6a7B8"), "{logged}");
    let lines: Vec<serde_json::Value> =
        logged.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered = lines.iter().find(|line| line["message"] == "answered").unwrap_or_else(|| panic!("{logged}"));
    assert_eq!((&answered["route"], &answered["status"]), (&json!("/v1/agents/{id}/tasks"), &json!(200)));
}

#[test]
fn top_shows_a_server_and_says_what_is_wrong_without_one() {
    let operator = answering(DONE);
    let serving = operator.serve();
    run(&serving.client(), "7", "go");
    let url = format!("http://{}", serving.address());
    let shown = operator.herm().run(&["top", "--once", "--url", &url]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.contains("1 brains, 1 open") && shown.stdout.contains("1 converged"), "{shown:?}");
    assert!(shown.stdout.contains("nothing to do"), "{shown:?}");
    drop(serving);
    let gone = operator.herm().run(&["top", "--once", "--url", &url]);
    assert_eq!(gone.code, 6, "{gone:?}");
    assert!(gone.stderr.contains("cannot reach"), "{gone:?}");
}

/// A collector that keeps the spans it gets.
async fn collector() -> (String, Arc<Mutex<Vec<Value>>>) {
    let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&spans);
    let address = web_server::serve(Arc::new(move |asked| {
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/traces"));
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        let scope = &body["resourceSpans"][0]["scopeSpans"][0];
        kept.lock().unwrap().extend(scope["spans"].as_array().unwrap().iter().cloned());
        (200, Vec::new())
    }))
    .await;
    (address, spans)
}

fn attribute<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let all = span["attributes"].as_array()?;
    all.iter().find(|pair| pair["key"] == name)?["value"].as_object()?.values().next()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_a_trace_by_the_conventions_and_tells_no_words_unless_asked() {
    for content in ["false", "true"] {
        let (address, spans) = collector().await;
        let found = tokio::task::spawn_blocking(move || {
            let operator = operator();
            let serving = operator.serve_in(
                &[],
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", &address),
                    ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content),
                ],
            );
            let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            run(&serving.client().with("traceparent", parent), "1", &vault());
            let root = |spans: &[Value]| spans.iter().find(|span| span["name"] == "invoke_agent 1").cloned();
            let root = until("the span of the task", || root(&spans.lock().unwrap()));
            assert_eq!(root["traceId"], "0af7651916cd43dd8448eb211c80319c");
            assert_eq!(root["parentSpanId"], "b7ad6b7169203331");
            assert_eq!(attribute(&root, "gen_ai.operation.name"), Some(&json!("invoke_agent")));
            assert_eq!(attribute(&root, "gen_ai.agent.id"), Some(&json!("1")));
            assert_eq!(attribute(&root, "herm.status"), Some(&json!("converged")));
            let all = spans.lock().unwrap().clone();
            let named = |name: &str| all.iter().filter(|span| span["name"] == name).count();
            assert_eq!((named("chat"), named("execute_tool scan")), (7, 1), "{all:?}");
            for span in all.iter().filter(|span| span["name"] != "invoke_agent 1") {
                assert_eq!((&span["traceId"], &span["parentSpanId"]), (&root["traceId"], &root["spanId"]));
            }
            serde_json::to_string(&all).unwrap()
        });
        let found = found.await.unwrap();
        assert_eq!(found.contains("pragma solidity"), content == "true", "content is {content}");
    }
}

#[test]
fn a_collector_that_is_not_there_costs_nothing_but_spans() {
    let operator = operator();
    let serving = operator.serve_in(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")]);
    assert_eq!(run(&serving.client(), "1", &vault()).status, 200);
    assert!(serving.stop().success());
}
