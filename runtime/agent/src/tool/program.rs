//! Tools that a brain's tuning puts in the place of others: a registered tool under another name, or a
//! program that reads one JSON object and writes one. Who runs programs is the harness's affair; the
//! library itself only knows how to ask.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
use crate::error::{Error, Result};
use crate::text;
use crate::tuning::ExecutableTool;

/// How long a program may take for one call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes a program may write for one call.
const MOST_OUTPUT: usize = 1 << 20;

/// Runs programs that are tools, each call in a sandbox of its own.
#[async_trait]
pub trait ProgramRunner: Send + Sync + fmt::Debug {
    /// Gives `program` its standard input and returns what it wrote to standard output.
    async fn run(&self, name: &str, program: &Arc<[u8]>, input: Vec<u8>, timeout: Duration) -> Result<Vec<u8>>;
}

/// A program and who runs it.
#[derive(Clone)]
pub struct ToolProgram {
    name: String,
    content: Arc<[u8]>,
    runner: Arc<dyn ProgramRunner>,
}

impl ToolProgram {
    /// A program that stands in for the tool `name`.
    pub fn new(name: &str, content: Arc<[u8]>, runner: Arc<dyn ProgramRunner>) -> Self {
        Self { name: name.to_owned(), content, runner }
    }
}

impl fmt::Debug for ToolProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({}, {} bytes)", self.name, self.content.len())
    }
}

/// A program as a tool.
pub(super) struct ProgramTool {
    card: ToolSpec,
    program: ToolProgram,
}

impl ProgramTool {
    /// Where the tuning does not say what it does or takes, it is as the tool it replaces.
    pub(super) fn new(name: &str, said: &ExecutableTool, replaced: Option<&ToolSpec>, program: ToolProgram) -> Self {
        let description = said.description.clone().or_else(|| replaced.map(|card| card.description.clone()));
        let schema = said.schema.clone().or_else(|| replaced.map(|card| card.schema.clone()));
        let card = ToolSpec::new(
            name,
            description.as_deref().unwrap_or("A program of this brain."),
            Permission::Process,
            schema.unwrap_or_else(|| json!({ "type": "object" })),
        );
        let purpose = replaced.and_then(|card| card.purpose);
        Self { card: ToolSpec { timeout: TIMEOUT + Duration::from_secs(5), purpose, ..card }, program }
    }
}

#[async_trait]
impl Tool for ProgramTool {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let question = json!({ "tool": self.card.name, "args": args, "input": &*cx.task().input });
        let mut line = serde_json::to_vec(&question)
            .map_err(|source| Error::internal("the arguments cannot be written").because(source))?;
        line.push(b'\n');
        let ToolProgram { name, content, runner } = &self.program;
        answer_of(name, &runner.run(name, content, line, TIMEOUT).await?)
    }
}

/// What a program answered: `{"text": …, "summary": …}`, or `{"error": …}`.
fn answer_of(name: &str, written: &[u8]) -> Result<ToolOutput> {
    let bad = |what: &str| {
        Error::invalid(format!("the program {name} {what}"))
            .hint("it reads one JSON line and writes {\"text\": …, \"summary\": …} or {\"error\": …}")
    };
    if written.len() > MOST_OUTPUT {
        return Err(bad("wrote too much"));
    }
    let answer: Value = serde_json::from_slice(written).map_err(|_| bad("did not answer with one JSON object"))?;
    if let Some(error) = answer["error"].as_str() {
        return Err(Error::invalid(text::line(error, 500)));
    }
    let said = answer["text"].as_str().ok_or_else(|| bad("answered without a text"))?;
    let summary = answer["summary"].as_str().unwrap_or("done");
    Ok(ToolOutput::new(said, text::line(summary, 200)))
}

/// A registered tool under another name.
pub(super) struct Renamed {
    card: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl Renamed {
    pub(super) fn new(name: &str, tool: Arc<dyn Tool>) -> Self {
        let card = ToolSpec { name: name.to_owned(), ..tool.spec().clone() };
        Self { card, tool }
    }
}

#[async_trait]
impl Tool for Renamed {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        self.tool.call(args, cx).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_answers_with_a_text_or_an_error_and_anything_else_is_refused() {
        let said = |bytes: &str| answer_of("count", bytes.as_bytes());
        assert_eq!(said(r#"{"text":"7","summary":"counted"}"#).unwrap(), ToolOutput::new("7", "counted"));
        assert_eq!(said(r#"{"error":"no lines"}"#).unwrap_err().message(), "no lines");
        for bad in ["", "7", "{}", "{\"text\":7}", "APPROVE", "{\"text\":\"a\"} trailing"] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }
}
