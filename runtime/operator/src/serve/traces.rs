//! Spans of tasks for OpenTelemetry, sent as OTLP over HTTP in JSON, by the conventions for generative models: a task is
//! `invoke_agent`, a reply is `chat`, a call is `execute_tool`. What was said is left out, unless the environment asks for
//! it.
//!
//! Where spans go is what the standard variables say: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT`
//! with `/v1/traces` behind it; `OTEL_EXPORTER_OTLP_HEADERS`; `OTEL_SERVICE_NAME`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use herm::backend::HttpClient;
use herm::ids::Random;
use herm::{Clock, Error, Outcome, Result, TaskEvent, TaskStatus};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::app::App;
use super::tasks::Job;

/// Spans that wait to be sent; what is beyond is dropped and counted.
const WAITING: usize = 4_096;
/// Spans that are sent together.
const TOGETHER: usize = 512;
/// How long spans are gathered.
const EVERY: Duration = Duration::from_secs(1);
/// How often sending is tried.
const TRIES: u32 = 4;
/// The largest answer of a collector that is read, and the longest text that is sent.
const MAX_ANSWER: usize = 64 << 10;
const MAX_TEXT: usize = 8 << 10;

/// Where spans go.
#[derive(Debug, Clone)]
pub(crate) struct Traces {
    spans: mpsc::Sender<Value>,
    dropped: Arc<AtomicU64>,
    /// Whether what was said is sent along.
    content: bool,
}

impl Traces {
    /// As the environment says; nowhere, where it says nothing.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let whole = said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = said("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| format!("{}/v1/traces", base.trim_end_matches('/')));
        let Some(url) = whole.or(base) else { return Ok(None) };
        let mut headers = Vec::new();
        for pair in said("OTEL_EXPORTER_OTLP_HEADERS").iter().flat_map(|text| text.split(',')) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Error::invalid("OTEL_EXPORTER_OTLP_HEADERS is not a list of NAME=VALUE").hint("separate them by commas")
            })?;
            headers.push((name.trim().to_ascii_lowercase(), SecretString::from(value.trim().to_owned())));
        }
        let content = said("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
        let (spans, waiting) = mpsc::channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let sending = SpanExporter {
            client: HttpClient::new()?.idle_timeout(Duration::from_secs(10)),
            url,
            headers,
            service: said("OTEL_SERVICE_NAME").unwrap_or_else(|| "herm".to_owned()),
            dropped: Arc::clone(&dropped),
        };
        tokio::spawn(sending.run(waiting));
        let content = content.is_some_and(|text| text.eq_ignore_ascii_case("true"));
        Ok(Some(Self { spans, dropped, content }))
    }

    /// How many spans were not sent.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The spans of a task that begins now.
    pub(crate) fn task(&self, app: &App, job: &Job, parent: Option<&str>) -> TaskTrace {
        let random = Arc::clone(&app.random);
        let (trace, parent) = match parent.and_then(parsed) {
            Some((trace, span)) => (trace, Some(span)),
            None => (hex(&*random, 16), None),
        };
        TaskTrace {
            root: hex(&*random, 8),
            trace,
            parent,
            agent: job.agent.to_string(),
            task: job.id.to_string(),
            input: self.content.then(|| shortened(&job.what.input)),
            backend: None,
            began: app.clock.now().millis(),
            call: None,
            traces: self.clone(),
            clock: Arc::clone(&app.clock),
            random,
        }
    }

    fn send(&self, span: Value) {
        if self.spans.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The trace and the span of a `traceparent`.
fn parsed(text: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit()) && text.bytes().any(|b| b != b'0')
    };
    match parts.as_slice() {
        ["00", trace, span, flags] if is_hex(trace, 32) && is_hex(span, 16) && flags.len() == 2 => {
            Some((trace.to_ascii_lowercase(), span.to_ascii_lowercase()))
        }
        _ => None,
    }
}

fn hex(random: &dyn Random, bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    // Without randomness spans of different tasks run into each other, and nothing else happens.
    let _ = random.fill(&mut buffer);
    herm::ids::hex(&buffer)
}

/// What may be sent of a text: its beginning, without what looks like a secret.
fn shortened(text: &str) -> String {
    herm::redact::redact(herm::text::head(text, MAX_TEXT).as_str())
}

fn attributes(pairs: Vec<(&str, Value)>) -> Value {
    let wrapped = pairs.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
        let value = match value {
            // Whole numbers are texts in OTLP's JSON.
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            Value::Bool(is_so) => json!({ "boolValue": is_so }),
            Value::String(text) => json!({ "stringValue": text }),
            other => json!({ "stringValue": other.to_string() }),
        };
        json!({ "key": key, "value": value })
    });
    wrapped.collect()
}

fn nanos(millis: i64) -> String {
    format!("{millis}000000")
}

/// The spans of one task.
pub(crate) struct TaskTrace {
    traces: Traces,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    trace: String,
    root: String,
    parent: Option<String>,
    agent: String,
    task: String,
    input: Option<String>,
    backend: Option<String>,
    began: i64,
    /// The arguments of the call that runs.
    call: Option<String>,
}

impl TaskTrace {
    /// Notes what happened.
    pub(crate) fn heard(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::Started { backend, .. } => self.backend = Some(backend.clone()),
            TaskEvent::Reply { turn, text, millis } => {
                let said = self.traces.content.then(|| shortened(text));
                self.child(
                    "chat",
                    *millis,
                    None,
                    vec![
                        ("gen_ai.operation.name", json!("chat")),
                        ("gen_ai.provider.name", json!(self.backend)),
                        ("gen_ai.conversation.id", json!(self.task)),
                        ("gen_ai.output.messages", json!(said)),
                        ("herm.turn", json!(turn)),
                    ],
                );
            }
            TaskEvent::ToolCall { args, .. } => {
                self.call = self.traces.content.then(|| shortened(&args.to_string()));
            }
            TaskEvent::ToolResult { turn, tool, status, millis, .. } => {
                let failed = (status.name() != "ok").then(|| status.name());
                let arguments = self.call.take();
                self.child(
                    &format!("execute_tool {tool}"),
                    *millis,
                    failed,
                    vec![
                        ("gen_ai.operation.name", json!("execute_tool")),
                        ("gen_ai.tool.name", json!(tool)),
                        ("gen_ai.tool.type", json!("function")),
                        ("gen_ai.tool.call.arguments", json!(arguments)),
                        ("herm.turn", json!(turn)),
                    ],
                );
            }
            _ => {}
        }
    }

    /// A span that ends now.
    fn child(&self, name: &str, millis: u64, failed: Option<&str>, mut pairs: Vec<(&str, Value)>) {
        let end = self.clock.now().millis();
        let start = end.saturating_sub(i64::try_from(millis).unwrap_or(0)).max(self.began);
        pairs.push(("error.type", json!(failed)));
        self.traces.send(json!({
            "traceId": self.trace,
            "spanId": hex(&*self.random, 8),
            "parentSpanId": self.root,
            "name": name,
            "kind": 3,
            "startTimeUnixNano": nanos(start),
            "endTimeUnixNano": nanos(end),
            "attributes": attributes(pairs),
            "status": { "code": if failed.is_some() { 2 } else { 0 } },
        }));
    }

    /// The task is over.
    pub(crate) fn end(self, came: std::result::Result<&Outcome, &Error>) {
        let outcome = came.ok();
        let usage = outcome.map(|outcome| outcome.usage);
        let tokens = usage.and_then(|usage| usage.tokens.or(usage.estimated));
        let failed = match came {
            Ok(outcome) if outcome.status == TaskStatus::Converged => None,
            Ok(outcome) => Some(outcome.stop.name()),
            Err(error) => Some(error.kind().name()),
        };
        let answer = outcome.and_then(|outcome| outcome.answer.as_deref()).filter(|_| self.traces.content);
        let pairs = vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.agent.id", json!(self.agent)),
            ("gen_ai.conversation.id", json!(self.task)),
            ("gen_ai.provider.name", json!(outcome.map_or(self.backend.as_deref(), |outcome| Some(&outcome.backend)))),
            ("gen_ai.response.model", json!(outcome.and_then(|outcome| outcome.model.as_deref()))),
            ("gen_ai.usage.input_tokens", json!(tokens.map(|tokens| tokens.input))),
            ("gen_ai.usage.output_tokens", json!(tokens.map(|tokens| tokens.output))),
            ("gen_ai.input.messages", json!(self.input)),
            ("gen_ai.output.messages", json!(answer.map(shortened))),
            ("herm.status", json!(outcome.map(|outcome| outcome.status.name()))),
            ("herm.turns", json!(outcome.map(|outcome| outcome.turns))),
            (
                "herm.version",
                json!(outcome.and_then(|outcome| outcome.settled.as_ref()).map(|settled| settled.version)),
            ),
            ("error.type", json!(failed)),
        ];
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.root,
            "name": format!("invoke_agent {}", self.agent),
            "kind": 2,
            "startTimeUnixNano": nanos(self.began),
            "endTimeUnixNano": nanos(self.clock.now().millis()),
            "attributes": attributes(pairs),
            "status": { "code": if failed.is_some() { 2 } else { 0 } },
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(parent);
        }
        self.traces.send(span);
    }
}

/// Sends spans in batches.
struct SpanExporter {
    client: HttpClient,
    url: String,
    headers: Vec<(String, SecretString)>,
    service: String,
    dropped: Arc<AtomicU64>,
}

impl SpanExporter {
    async fn run(self, mut waiting: mpsc::Receiver<Value>) {
        let mut batch = Vec::new();
        while let Some(first) = waiting.recv().await {
            batch.push(first);
            let until = tokio::time::Instant::now() + EVERY;
            while batch.len() < TOGETHER {
                match tokio::time::timeout_at(until, waiting.recv()).await {
                    Ok(Some(next)) => batch.push(next),
                    Ok(None) | Err(_) => break,
                }
            }
            let count = batch.len() as u64;
            if !self.send(std::mem::take(&mut batch)).await {
                self.dropped.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    async fn send(&self, spans: Vec<Value>) -> bool {
        let resource = attributes(vec![
            ("service.name", json!(self.service)),
            ("service.version", json!(env!("CARGO_PKG_VERSION"))),
        ]);
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "herm" }, "spans": spans }],
        }] });
        let mut pause = Duration::from_millis(500);
        for tried in 1..=TRIES {
            let failed = match self.client.post_json(&self.url, &self.headers, &body, MAX_ANSWER).await {
                Ok((200..=299, _)) => return true,
                // What a collector does not take it will not take the next time.
                Ok((status @ (400..=428 | 430..=499), _)) => {
                    tracing::warn!(status, "the collector does not take the spans");
                    return false;
                }
                Ok((status, _)) => format!("it answered {status}"),
                Err(error) => error.message().to_owned(),
            };
            if tried == TRIES {
                tracing::warn!(failed, "spans were not sent");
            } else {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_taken_only_as_the_standard_writes_it() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let (trace, span) = parsed(good).unwrap();
        assert_eq!((trace.as_str(), span.as_str()), ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"));
        for bad in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-xyz-b7ad6b7169203331-01",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
