//! Running one call within its limits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field};

use super::context::{Secrets, ToolContext, traced};
use super::{Tool, ToolOutput};
use crate::backend::ToolData;
use crate::error::ErrorKind;
use crate::memory::{EvidenceStatus, MemorySource};
use crate::schema;
use crate::text;

/// Something that a call told of the subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disclosure {
    /// A row of the memory, where it is the subscriber's own.
    Row(MemorySource, i64),
    /// A text from elsewhere.
    Text(String),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// Whether the tool succeeded, failed, or was not run at all.
    pub status: EvidenceStatus,
    /// What the model reads.
    pub text: String,
    /// What happened, in a line.
    pub summary: String,
    /// How long it took.
    pub millis: u64,
    /// Whether a replay reads it from the record, although the tool could run again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// Whether what it was to do waits for a person, and the step is as it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// What it told of the subscriber, where a replay does not run it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Vec<Disclosure>>,
    /// What the text says, as data. No transcript keeps it: a replay has it where it runs the call again.
    #[serde(skip)]
    pub data: Option<Arc<ToolData>>,
}

impl ToolReport {
    /// A call that was not run.
    pub fn refused(text: impl Into<String>, summary: impl Into<String>) -> Self {
        Self::new(EvidenceStatus::Refused, text, summary)
    }

    /// A call that ended so, and nothing more to say of it.
    pub fn new(status: EvidenceStatus, text: impl Into<String>, summary: impl Into<String>) -> Self {
        let (text, summary) = (text.into(), summary.into());
        Self { status, text, summary, millis: 0, recorded: false, waits: false, told: None, data: None }
    }

    fn failed(text: String, summary: &str) -> Self {
        Self::new(EvidenceStatus::Failed, text, summary)
    }
}

/// Summaries are lines, not texts.
const SUMMARY_CHARS: usize = 160;

/// Whether a tool came to say something of what it was called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// It did: a result, or an error that speaks of the call.
    Said,
    /// It crashed, took too long, or lacked what it needs.
    Broke,
}

/// Checks the arguments, runs the tool until its timeout or `until`, and caps what it says.
pub async fn dispatch(tool: &Arc<dyn Tool>, args: Map<String, Value>, cx: &ToolContext, until: Instant) -> ToolReport {
    dispatch_to_end(tool, args, cx, until).await.0
}

/// The same, with how the call ended.
pub(crate) async fn dispatch_to_end(
    tool: &Arc<dyn Tool>,
    args: Map<String, Value>,
    cx: &ToolContext,
    until: Instant,
) -> (ToolReport, CallEnd) {
    let span = tool_span(&tool.spec().name);
    if cx.traces_content() && !span.is_disabled() {
        let args = serde_json::to_string(&args).unwrap_or_default();
        span.record("gen_ai.tool.call.arguments", traced(&cx.secrets().redact(args)));
    }
    let (report, end) = dispatch_in_span(tool, args, cx, until).instrument(span.clone()).await;
    span.record("herm.status", report.status.name());
    if report.status != EvidenceStatus::Ok {
        span.record("error.type", report.status.name()).record("otel.status_code", "ERROR");
    }
    (report, end)
}

/// The span of one call, with the names of OpenTelemetry's conventions for generative models.
fn tool_span(name: &str) -> Span {
    tracing::info_span!(
        "tool",
        otel.name = %format_args!("execute_tool {name}"),
        otel.status_code = field::Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.type = "function",
        gen_ai.tool.call.arguments = field::Empty,
        herm.status = field::Empty,
        error.type = field::Empty,
    )
}

async fn dispatch_in_span(
    tool: &Arc<dyn Tool>,
    args: Map<String, Value>,
    cx: &ToolContext,
    until: Instant,
) -> (ToolReport, CallEnd) {
    let refused = |text: String, summary: String| (ToolReport::refused(text, summary), CallEnd::Said);
    let card = tool.spec();
    let value = Value::Object(args);
    let problems = schema::problems(&card.schema, &value);
    if !problems.is_empty() {
        let text =
            format!("The call was not run: the arguments do not fit {}.\n- {}", card.name, problems.join("\n- "));
        return refused(text, format!("arguments refused: {}", problems.join("; ")));
    }
    let Value::Object(args) = value else {
        return refused("the arguments are no object".to_owned(), "no object".to_owned());
    };
    let started = Instant::now();
    let limit = until.min(started + card.timeout);
    let called = match card.quick {
        true => call_here(tool, args, cx, limit).await,
        false => call_apart(Arc::clone(tool), args, cx.clone(), limit).await,
    };
    let end = end_of(&called);
    let mut report = report_of(called, card.timeout);
    report.millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.text = text::cut(cx.secrets().redact(report.text), card.output_cap);
    report.data = report.data.and_then(|data| redacted(data, cx.secrets()));
    for heard in report.told.iter_mut().flatten() {
        if let Disclosure::Text(text) = heard {
            *text = cx.secrets().redact(std::mem::take(text));
        }
    }
    report.summary = text::line(&cx.secrets().redact(report.summary), SUMMARY_CHARS);
    (report, end)
}

/// The data without the operator's secrets; none where what is left cannot be read as data any more.
fn redacted(data: Arc<ToolData>, secrets: &Secrets) -> Option<Arc<ToolData>> {
    if secrets.names().next().is_none() {
        return Some(data);
    }
    let mut value = serde_json::to_value(&*data).ok()?;
    redact_texts(&mut value, secrets);
    serde_json::from_value(value).ok().map(Arc::new)
}

fn redact_texts(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => *text = secrets.redact(std::mem::take(text)),
        Value::Array(values) => values.iter_mut().for_each(|value| redact_texts(value, secrets)),
        Value::Object(fields) => {
            let redacted = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                redact_texts(&mut value, secrets);
                (secrets.redact(name), value)
            });
            *fields = redacted.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn end_of(called: &Result<crate::error::Result<ToolOutput>, Cut>) -> CallEnd {
    match called {
        Ok(Ok(_)) => CallEnd::Said,
        Ok(Err(error)) => match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Corrupt | ErrorKind::Internal => CallEnd::Broke,
            ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Refused => CallEnd::Said,
        },
        Err(Cut::Late | Cut::Crashed) => CallEnd::Broke,
    }
}

/// How a call can end beside returning.
enum Cut {
    Late,
    Crashed,
}

/// Runs a quick call where its task runs.
async fn call_here(
    tool: &Arc<dyn Tool>,
    args: Map<String, Value>,
    cx: &ToolContext,
    limit: Instant,
) -> Result<crate::error::Result<ToolOutput>, Cut> {
    let cx = cx.for_quick_call();
    let mut call = tool.call(args, &cx);
    // A panic ends the call and nothing else.
    let call = std::future::poll_fn(|waker| {
        catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(waker)))
            .map_or(Poll::Ready(Err(Cut::Crashed)), |polled| polled.map(Ok))
    });
    tokio::time::timeout_at(limit, call).await.unwrap_or(Err(Cut::Late))
}

/// Runs a call as a task of its own: a panic ends it and nothing else, and one that outstays its
/// time is dropped, even where it blocks its thread.
async fn call_apart(
    tool: Arc<dyn Tool>,
    args: Map<String, Value>,
    cx: ToolContext,
    limit: Instant,
) -> Result<crate::error::Result<ToolOutput>, Cut> {
    let mut call = tokio::task::JoinSet::new();
    call.spawn(async move { tool.call(args, &cx).await }.in_current_span());
    match tokio::time::timeout_at(limit, call.join_next()).await {
        Err(_) => Err(Cut::Late),
        Ok(Some(Ok(returned))) => Ok(returned),
        Ok(Some(Err(_)) | None) => Err(Cut::Crashed),
    }
}

fn report_of(called: Result<crate::error::Result<ToolOutput>, Cut>, most: Duration) -> ToolReport {
    match called {
        Ok(Ok(output)) => {
            let ToolOutput { text, summary, recorded, waits, told, data } = output;
            let data = data.map(Arc::new);
            ToolReport { recorded, waits, told, data, ..ToolReport::new(EvidenceStatus::Ok, text, summary) }
        }
        Ok(Err(error)) => {
            let hint = error.hint_text().map(|hint| format!("\nHint: {hint}")).unwrap_or_default();
            ToolReport::failed(format!("The tool failed: {}{hint}", error.message()), error.message())
        }
        Err(Cut::Late) => ToolReport::failed(
            format!("The tool was stopped: it took longer than {} seconds.", most.as_secs_f32()),
            "stopped: took too long",
        ),
        Err(Cut::Crashed) => ToolReport::failed("The tool failed: it crashed. The task goes on.".to_owned(), "crashed"),
    }
}
