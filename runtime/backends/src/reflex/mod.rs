//! The embedded default: deterministic, no language model, no network.
//!
//! It knows nothing but a [`CompletionRequest`] and keeps nothing between two of them: the same request gives the same
//! bytes. It plans by what tools say they are for and goes by their results as data
//! ([`ToolRecord`](herm_agent::backend::ToolRecord)); it knows no tool by name, and what a tool wrote for a model is at most
//! quoted. A turn goes through these modules:
//!
//! - [`talk`] reads the request: the tools that may be called, what was called, what came back.
//! - [`plan`] chooses the next call, or none.
//! - [`report`] joins what the tools found, with [`outline`] to say where a line stands.
//! - [`wording`] says it in sentences, [`fields`] by the name of a property, and [`fill`] in the shape
//!   of the role's schema, with [`shape`] reading that schema.
//! - [`lesson`] writes down what a hard task taught.
//!
//! What the input and the results say is only ever quoted, counted or searched for words; nothing in
//! them chooses a tool or changes the order of the calls.

mod fields;
mod fill;
mod lesson;
mod outline;
mod plan;
mod report;
mod shape;
mod talk;
#[cfg(test)]
mod tests;
mod wording;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    Backend, BackendError, Capabilities, Completion, CompletionRequest, ErrorClass, FinishReason, Price, Purpose,
    Tokens,
};
use report::Report;
use talk::Talk;

/// How it names itself where others name their model.
const MODEL: &str = "reflex-1 (no language model)";
/// How many findings an answer has, and how many where it would be too long for a reply.
const MOST_FINDINGS: [usize; 5] = [40, 12, 4, 1, 0];

/// Plans tool calls from what it reads, and answers with what the tools returned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reflex;

#[async_trait]
impl Backend for Reflex {
    fn name(&self) -> &str {
        "reflex"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { constrains_replies: true, price: Some(Price { input: 0, output: 0 }), ..Capabilities::default() }
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        if ask.purpose == Purpose::Draft {
            let why = "no language model is configured, and the embedded backend writes no drafts";
            return Err(BackendError::new(ErrorClass::BadRequest, why));
        }
        Ok(Completion {
            text: reply(ask),
            finish: FinishReason::Stop,
            model: MODEL.to_owned(),
            tokens: Some(Tokens::default()),
            attestation: None,
        })
    }
}

fn reply(ask: &CompletionRequest) -> String {
    if ask.purpose == Purpose::Synthesis {
        return lesson::write(ask).to_string();
    }
    let talk = Talk::read(ask);
    match plan::next(&talk) {
        Some(call) => json!({ "tool": call.tool, "args": call.args }).to_string(),
        None => answer(&talk, ask.max_output_bytes),
    }
}

/// The longest final answer that fits a reply.
fn answer(talk: &Talk<'_>, most_bytes: usize) -> String {
    let mut text = String::new();
    for most in MOST_FINDINGS {
        let report = Report::of(talk, most);
        let fitting = talk.answer.as_ref().and_then(|schema| fill::fill(schema, &report));
        text = fitting.unwrap_or_else(|| plain(&report)).to_string();
        if text.len() <= most_bytes {
            break;
        }
    }
    text
}

/// The answer where the role declares no schema.
fn plain(report: &Report<'_>) -> Value {
    let hits: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "title": wording::title(report, finding),
                "severity": finding.severity.name(),
                "pattern": finding.pattern,
                "lines": finding.lines,
                "text": wording::quote(report, finding.line()).unwrap_or_default(),
            })
        })
        .collect();
    json!({ "summary": wording::summary(report), "hits": hits, "note": "no language model spoke" })
}
