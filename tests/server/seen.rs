//! What is seen from outside: probes, counters, logs, the document of the API, a terminal.

use herm_tests::model_server::{ModelServer, Step};
use serde_json::json;

use crate::{answering, answering_and, operator, run, until, with_model};

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

#[test]
#[cfg(not(feature = "otlp"))]
fn a_build_without_otlp_says_that_it_sends_no_traces_and_serves() {
    let operator = answering(DONE);
    let serving = operator.serve_in(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")]);
    assert_eq!(run(&serving.client(), "7", "go").status, 200);
    assert!(serving.stop().success());
    let logged = operator.logged();
    assert!(logged.contains("this herm was built without the feature `otlp`"), "{logged}");
}

#[test]
fn a_protocol_for_traces_that_cannot_be_spoken_is_refused_at_the_start() {
    let operator = operator();
    let mut command = operator.herm().command(&["serve", "--listen", "127.0.0.1:0"]);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let refused = command.envs(variables).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported"), "{said}");
    assert!(said.contains("http/json or http/protobuf"), "{said}");
}
