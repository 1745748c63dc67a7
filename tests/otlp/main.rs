//! Spans of a server's tasks at a collector: over real sockets, by the conventions for generative models.
//! `cargo test -p herm-tests --features otlp --test otlp`

use std::sync::{Arc, Mutex};

use herm_tests::http::{Answer, Client};
use herm_tests::operator::Operator;
use herm_tests::web_server;
use serde_json::{Value, json};

/// The program.
const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

/// A contract with flaws.
fn vault() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../seed/agents/1/examples/vault.sol");
    std::fs::read_to_string(path).expect("the example")
}

fn run(client: &Client, input: &str) -> Answer {
    client.post("/v1/agents/1/tasks", &json!({ "input": input }))
}

/// Looks until something is so; a test that never sees it fails.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    panic!("never seen: {what}")
}

/// What a collector was sent.
#[derive(Debug, Default)]
struct Collected {
    spans: Vec<Value>,
    resources: Vec<Value>,
    headers: Vec<(String, String)>,
}

/// A collector that keeps the spans it gets.
async fn collector() -> (String, Arc<Mutex<Collected>>) {
    let collected: Arc<Mutex<Collected>> = Arc::default();
    let kept = Arc::clone(&collected);
    let address = web_server::serve(Arc::new(move |asked| {
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/traces"));
        let mut kept = kept.lock().unwrap();
        kept.headers = asked.headers;
        if let Ok(body) = serde_json::from_slice::<Value>(&asked.body) {
            for sent in body["resourceSpans"].as_array().unwrap() {
                kept.resources.extend(sent["resource"]["attributes"].as_array().unwrap().iter().cloned());
                for scope in sent["scopeSpans"].as_array().unwrap() {
                    kept.spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
                }
            }
        }
        (200, Vec::new())
    }))
    .await;
    (address, collected)
}

fn attribute<'a>(span: &'a Value, name: &str) -> Option<&'a Value> {
    let all = span["attributes"].as_array()?;
    all.iter().find(|pair| pair["key"] == name)?["value"].as_object()?.values().next()
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_a_trace_by_the_conventions_and_tells_no_words_unless_asked() {
    for content in ["false", "true"] {
        let (address, collected) = collector().await;
        let found = tokio::task::spawn_blocking(move || {
            let operator = Operator::new(HERM);
            let serving = operator.serve_in(
                &[],
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", &address),
                    ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content),
                ],
            );
            run(&serving.client().with("traceparent", PARENT).with("tracestate", "of=caller"), &vault());
            // A server that stops sends what is left.
            assert!(serving.stop().success());
            let all = collected.lock().unwrap().spans.clone();
            let named = |name: &str| all.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
            let root = named("invoke_agent 1")[0];
            assert_eq!(root["traceId"], "0af7651916cd43dd8448eb211c80319c");
            assert_eq!(root["parentSpanId"], "b7ad6b7169203331");
            assert_eq!(root["traceState"], "of=caller");
            assert_eq!(attribute(root, "gen_ai.operation.name"), Some(&json!("invoke_agent")));
            assert_eq!(attribute(root, "gen_ai.agent.id"), Some(&json!("1")));
            assert_eq!(attribute(root, "herm.status"), Some(&json!("converged")));
            assert!(attribute(root, "gen_ai.conversation.id").is_some(), "{root}");
            // The last question, what the task taught, is of no turn.
            let of_task = named("chat").iter().filter(|chat| chat["parentSpanId"] == root["spanId"]).count();
            let counted = (named("turn").len(), named("chat").len(), of_task, named("execute_tool scan").len());
            assert_eq!(counted, (7, 8, 1, 1), "{all:?}");
            // A call is inside a turn, and the turn inside the task.
            let scan = named("execute_tool scan")[0];
            let turn = all.iter().find(|span| span["spanId"] == scan["parentSpanId"]).expect("a turn");
            assert_eq!((&turn["name"], &turn["parentSpanId"]), (&json!("turn"), &root["spanId"]));
            for span in all.iter().filter(|span| ["chat", "turn", "settle"].iter().any(|name| span["name"] == *name)) {
                if span["name"] != "settle" || span["parentSpanId"] == root["spanId"] {
                    assert_eq!(span["traceId"], root["traceId"], "{span}");
                }
            }
            assert_eq!(attribute(named("chat")[0], "gen_ai.provider.name"), Some(&json!("reflex")));
            // Maintenance is no part of the task, and refers to it.
            let maintain = named("maintain")[0];
            assert_ne!(maintain["traceId"], root["traceId"]);
            assert_eq!(maintain["links"][0]["spanId"], root["spanId"]);
            serde_json::to_string(&all).unwrap()
        });
        let found = found.await.unwrap();
        assert_eq!(found.contains("pragma solidity"), content == "true", "content is {content}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_standard_variables_name_the_service_the_headers_and_the_encoding() {
    let (address, collected) = collector().await;
    let looking = tokio::task::spawn_blocking(move || {
        for (protocol, kind) in [("http/json", "application/json"), ("http/protobuf", "application/x-protobuf")] {
            let operator = Operator::new(HERM);
            let serving = operator.serve_in(
                &[],
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("{address}/")),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                    ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YTpi,x-team=agents"),
                    ("OTEL_SERVICE_NAME", "night-shift"),
                ],
            );
            assert_eq!(run(&serving.client(), &vault()).status, 200);
            until("spans", || (!collected.lock().unwrap().headers.is_empty()).then_some(()));
            assert!(serving.stop().success());
            let mut collected = collected.lock().unwrap();
            let header =
                |name: &str| collected.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str());
            assert_eq!(
                ["content-type", "authorization", "x-team"].map(header),
                [Some(kind), Some("Basic YTpi"), Some("agents")]
            );
            let service = json!({ "key": "service.name", "value": { "stringValue": "night-shift" } });
            assert_eq!(collected.resources.contains(&service), protocol == "http/json", "{:?}", collected.resources);
            *collected = Collected::default();
        }
    });
    looking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_whose_trace_is_not_sampled_leaves_no_spans_of_its_task() {
    let (address, collected) = collector().await;
    let looking = tokio::task::spawn_blocking(move || {
        let operator = Operator::new(HERM);
        let serving = operator.serve_in(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
        let unsampled = PARENT.replace("-01", "-00");
        assert_eq!(run(&serving.client().with("traceparent", &unsampled), &vault()).status, 200);
        assert!(serving.stop().success());
        let collected = collected.lock().unwrap();
        assert!(collected.spans.iter().all(|span| span["name"] != "invoke_agent 1"), "{:?}", collected.spans);
    });
    looking.await.unwrap();
}

#[test]
fn a_collector_that_is_not_there_costs_nothing_but_spans_and_they_are_counted() {
    let operator = Operator::new(HERM);
    let serving = operator.serve_in(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")]);
    let client = serving.client();
    assert_eq!(run(&client, &vault()).status, 200);
    let dropped = || -> u64 {
        let metrics = client.get("/metrics").body;
        let line = metrics.lines().find(|line| line.starts_with("herm_spans_dropped_total ")).expect("the counter");
        line.rsplit(' ').next().expect("a number").parse().expect("a number")
    };
    until("spans that were dropped", || (dropped() > 0).then_some(()));
    assert!(serving.stop().success());
}
