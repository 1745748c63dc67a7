//! What a request says: the tools, the skills, the input, and what was called so far.

use serde_json::{Map, Value};

use herm_agent::backend::{
    CallResult, ChatMessage, CompletionRequest, InputOutline, RecalledLine, Role, ScanHits, ToolData, ToolPurpose,
    ToolRecord,
};
use herm_brain::memory::EvidenceStatus;

use super::wording;
use crate::skill::PatternNote;

/// The turns of a task where the prompt does not say.
const USUAL_TURNS: usize = 8;
/// How the note begins that the last turn's message ends with.
const LAST_TURN: &str = "\n\n[This is the last turn.";

/// A tool that may be called.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// What it is for, where it says so.
    pub(super) purpose: Option<ToolPurpose>,
    /// The JSON Schema of its arguments.
    pub(super) args: Value,
}

/// A line of the skill index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skill<'a> {
    pub(super) name: &'a str,
    /// What it does and when to use it.
    pub(super) description: &'a str,
}

/// A call that was made, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step<'a> {
    pub(super) tool: &'a str,
    /// What the tool is for, where it says so.
    pub(super) purpose: Option<ToolPurpose>,
    /// What came of it.
    pub(super) status: EvidenceStatus,
    /// What the tool said.
    pub(super) said: Quotable<'a>,
    args: &'a Map<String, Value>,
    data: Option<&'a ToolData>,
}

/// What a tool wrote for a model. It can be quoted; nothing here reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quotable<'a>(&'a str);

impl Quotable<'_> {
    /// The text on one line, cut at `most` characters, without secrets.
    pub(super) fn quote(self, most: usize) -> String {
        wording::short(self.0, most)
    }
}

impl<'a> Step<'a> {
    fn of(call: &'a CallResult, record: &ToolRecord) -> Self {
        Self {
            tool: &call.tool,
            purpose: record.purpose(&call.tool),
            status: call.status,
            said: Quotable(&call.text),
            args: &call.args,
            data: call.data.as_deref(),
        }
    }

    /// A text among the arguments.
    pub(super) fn arg(&self, name: &str) -> Option<&'a str> {
        self.args.get(name).and_then(Value::as_str)
    }

    /// Whether the call went well.
    pub(super) fn is_ok(&self) -> bool {
        self.status == EvidenceStatus::Ok
    }

    /// Whether the call went well and gave its result as text alone.
    pub(super) fn lacks_data(&self) -> bool {
        self.is_ok() && self.data.is_none()
    }

    /// What it found, where the call went well and the tool gives data.
    fn found(&self) -> Option<&'a ToolData> {
        self.data.filter(|_| self.is_ok())
    }

    /// How the input is built.
    pub(super) fn outline(&self) -> Option<&'a InputOutline> {
        match self.found()? {
            ToolData::Outline(outline) => Some(outline),
            _ => None,
        }
    }

    /// Where patterns hit, if that is what the tool found.
    pub(super) fn hits(&self) -> Option<&'a ScanHits> {
        match self.found()? {
            ToolData::Hits(hits) => Some(hits),
            _ => None,
        }
    }

    /// What the library says of patterns.
    pub(super) fn notes(&self) -> Option<&'a [PatternNote]> {
        match self.found()? {
            ToolData::Patterns(notes) => Some(notes),
            _ => None,
        }
    }

    /// What earlier tasks said.
    pub(super) fn recalled(&self) -> Option<&'a [RecalledLine]> {
        match self.found()? {
            ToolData::Recalled(lines) => Some(lines),
            _ => None,
        }
    }
}

/// The calls that a request tells of.
pub(super) fn steps(ask: &CompletionRequest) -> Vec<Step<'_>> {
    ask.tools.calls.iter().map(|call| Step::of(call, &ask.tools)).collect()
}

/// Whether a text is a name as patterns, skills and tools have them.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

/// What a conversation says, as far as the reflex reads it.
#[derive(Debug)]
pub(super) struct Talk<'a> {
    /// The tools that may be called now; none where only an answer is legal.
    pub(super) tools: Vec<Tool>,
    /// The skill index of the prompt.
    pub(super) skills: Vec<Skill<'a>>,
    pub(super) input: &'a str,
    /// What was called so far.
    pub(super) steps: Vec<Step<'a>>,
    /// The schema of the final answer, where the role declares one.
    pub(super) answer: Option<Value>,
    /// How many calls can be made before the answer.
    pub(super) calls_left: usize,
}

impl<'a> Talk<'a> {
    /// Reads the conversation that a request holds.
    pub(super) fn read(ask: &'a CompletionRequest) -> Self {
        let system = ask.messages.first().filter(|first| first.role == Role::System);
        let at = usize::from(system.is_some());
        let system: &str = system.map_or("", |message| &message.content);
        let replies = ask.messages.iter().filter(|message| message.role == Role::Assistant).count();
        // The legal replies are made for this very turn, and nothing that was noted earlier can stand
        // in them; the prompt is asked only where they say nothing.
        let shapes = ask.reply_schema.get("anyOf").and_then(Value::as_array);
        let mut tools: Vec<Tool> = match shapes {
            Some(shapes) => shapes.iter().filter_map(call_shape).collect(),
            None => listed_tools(system),
        };
        tools.iter_mut().for_each(|tool| tool.purpose = ask.tools.purpose(&tool.name));
        let declared = shapes.into_iter().flatten().rfind(|shape| call_shape(shape).is_none() && is_declared(shape));
        Self {
            tools,
            skills: skills(system),
            input: input(&ask.messages, at),
            steps: steps(ask),
            answer: declared.cloned().or_else(|| declared_in(system)),
            calls_left: turns(system).saturating_sub(1).saturating_sub(replies),
        }
    }

    /// A tool for a purpose that may be called now.
    pub(super) fn tool(&self, purpose: ToolPurpose) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.purpose == Some(purpose))
    }

    /// The calls of tools for a purpose.
    pub(super) fn calls(&self, purpose: ToolPurpose) -> impl Iterator<Item = &Step<'a>> {
        self.steps.iter().filter(move |step| step.purpose == Some(purpose))
    }

    /// Whether a tool was called at all.
    pub(super) fn tried(&self, tool: &str) -> bool {
        self.steps.iter().any(|step| step.tool == tool)
    }
}

/// The task's input, without the note of the last turn where it stands at its end.
fn input(messages: &[ChatMessage], at: usize) -> &str {
    let text: &str = messages.get(at).map_or("", |message| &message.content);
    let has_note = at + 1 == messages.len() && text.ends_with(']');
    let end = text.rfind(LAST_TURN).filter(|_| has_note);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

/// A legal reply that is a call.
fn call_shape(shape: &Value) -> Option<Tool> {
    let properties = shape.get("properties")?;
    let name = properties.get("tool")?.get("const")?.as_str()?;
    Some(Tool { name: name.to_owned(), purpose: None, args: properties.get("args")?.clone() })
}

/// Whether a schema says anything beyond "some object that is not a call".
fn is_declared(shape: &Value) -> bool {
    shape.as_object().is_some_and(|shape| shape.keys().any(|key| key != "type" && key != "not"))
}

/// The part of the prompt below its last heading of this name. Roles and notes stand above the
/// runtime's own headings, so the last one is always the runtime's.
fn below<'a>(system: &'a str, heading: &str) -> &'a str {
    let mark = format!("\n# {heading}\n");
    let at = system.rfind(&mark).map(|at| at + mark.len());
    let rest = at.and_then(|at| system.get(at..)).unwrap_or_default();
    rest.split_once("\n# ").map_or(rest, |(section, _)| section)
}

fn listed_tools(system: &str) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    for line in below(system, "Tools").lines() {
        if let Some((name, _)) = line.strip_prefix("- ").and_then(|rest| rest.split_once(": ")) {
            tools.push(Tool { name: name.to_owned(), purpose: None, args: Value::Null });
        } else if let Some(args) = line.strip_prefix("  args: ")
            && let Some(tool) = tools.last_mut()
        {
            tool.args = serde_json::from_str(args).unwrap_or_default();
        }
    }
    tools
}

/// Name and description of the lines of a list.
pub(super) fn skill_lines(section: &str) -> Vec<Skill<'_>> {
    let pairs = section.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    pairs.map(|(name, description)| Skill { name, description }).collect()
}

fn skills(system: &str) -> Vec<Skill<'_>> {
    // A role may have a heading of this name; the runtime's stands behind "How to finish".
    let (_, runtime) = system.rsplit_once("\n# How to finish\n").unwrap_or_default();
    skill_lines(below(runtime, "Skills"))
}

fn turns(system: &str) -> usize {
    let (_, rest) = below(system, "How to call a tool").split_once("You have at most ").unwrap_or_default();
    rest.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(USUAL_TURNS)
}

/// The schema a role declares: the first fenced JSON object below a heading that speaks of the
/// final answer of a task.
fn declared_in(system: &str) -> Option<Value> {
    let mut lines = system.split_inclusive('\n');
    lines.find(|line| line.starts_with('#') && line.to_ascii_lowercase().contains("final answer"))?;
    lines.find(|line| line.trim() == "```json")?;
    let body: String = lines.take_while(|line| line.trim() != "```").collect();
    serde_json::from_str::<Value>(&body).ok().filter(|schema| schema.get("type").is_some_and(|kind| kind == "object"))
}
