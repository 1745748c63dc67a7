//! Running one call within its limits.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Tool;
use super::context::Context;
use crate::memory::EvidenceStatus;
use crate::schema;
use crate::text;

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// How it went.
    pub status: EvidenceStatus,
    /// What the model reads.
    pub text: String,
    /// What happened, in a line.
    pub summary: String,
    /// How long it took.
    pub millis: u64,
}

impl ToolReport {
    /// A call that was not run.
    pub fn refused(text: impl Into<String>, summary: impl Into<String>) -> Self {
        Self { status: EvidenceStatus::Refused, text: text.into(), summary: summary.into(), millis: 0 }
    }

    fn failed(text: String, summary: &str) -> Self {
        Self { status: EvidenceStatus::Failed, text, summary: summary.to_owned(), millis: 0 }
    }
}

/// Summaries are lines, not texts.
const SUMMARY_CHARS: usize = 160;

/// Checks the arguments, runs the tool until its timeout or `until`, and caps what it says.
pub async fn dispatch(tool: &Arc<dyn Tool>, args: Map<String, Value>, cx: &Context, until: Instant) -> ToolReport {
    let card = tool.card();
    let value = Value::Object(args);
    let problems = schema::problems(&card.schema, &value);
    if !problems.is_empty() {
        let text =
            format!("The call was not run: the arguments do not fit {}.\n- {}", card.name, problems.join("\n- "));
        return ToolReport::refused(text, format!("arguments refused: {}", problems.join("; ")));
    }
    let Value::Object(args) = value else { return ToolReport::refused("the arguments are no object", "no object") };
    let started = Instant::now();
    let limit = until.min(started + card.timeout);
    let mut report = run(Arc::clone(tool), args, cx.clone(), limit, card.timeout).await;
    report.millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.text = text::cut(cx.secrets().redact(report.text), card.output_cap);
    report.summary = text::line(&cx.secrets().redact(report.summary), SUMMARY_CHARS);
    report
}

async fn run(tool: Arc<dyn Tool>, args: Map<String, Value>, cx: Context, limit: Instant, most: Duration) -> ToolReport {
    // A task of its own: a panic ends it and nothing else, and a call that outstays its time is
    // dropped.
    let mut call = tokio::task::JoinSet::new();
    call.spawn(async move { tool.call(args, &cx).await });
    match tokio::time::timeout_at(limit, call.join_next()).await {
        Err(_) => ToolReport::failed(
            format!("The tool was stopped: it took longer than {} seconds.", most.as_secs_f32()),
            "stopped: took too long",
        ),
        Ok(Some(Ok(Ok(output)))) => {
            ToolReport { status: EvidenceStatus::Ok, text: output.text, summary: output.summary, millis: 0 }
        }
        Ok(Some(Ok(Err(error)))) => {
            let hint = error.hint_text().map(|hint| format!("\nHint: {hint}")).unwrap_or_default();
            ToolReport::failed(format!("The tool failed: {}{hint}", error.message()), error.message())
        }
        Ok(Some(Err(_)) | None) => {
            ToolReport::failed("The tool failed: it crashed. The task goes on.".to_owned(), "crashed")
        }
    }
}
