//! What a conversation says: the tools, the skills, the input, and what was called so far.

use serde_json::{Map, Value};

use herm_agent::backend::{ChatMessage, CompletionRequest, Role};

/// The turns of a task where the prompt does not say.
const USUAL_TURNS: usize = 8;
/// How the note begins that the last turn's message ends with.
const LAST_TURN: &str = "\n\n[This is the last turn.";

/// A tool that may be called.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
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

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    Failed,
    /// It was not made.
    Refused,
}

/// A call that was made, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step<'a> {
    pub(super) tool: &'a str,
    /// The arguments; empty where the reply that held them cannot be read any more.
    pub(super) args: Map<String, Value>,
    /// What came of it.
    pub(super) outcome: Outcome,
    /// What the tool said.
    pub(super) text: &'a str,
}

impl Step<'_> {
    /// A text among the arguments.
    pub(super) fn arg(&self, name: &str) -> Option<&str> {
        self.args.get(name).and_then(Value::as_str)
    }
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
        let texts: Vec<&str> = texts(&ask.messages);
        let system = ask.messages.first().filter(|first| first.role == Role::System);
        let at = usize::from(system.is_some());
        let system: &str = system.map_or("", |message| &message.content);
        let replies = ask.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let after = at + 1;
        let steps = steps(ask.messages.get(after..).unwrap_or_default(), texts.get(after..).unwrap_or_default());
        // The legal replies are made for this very turn, and nothing that was noted earlier can stand
        // in them; the prompt is asked only where they say nothing.
        let shapes = ask.reply_schema.get("anyOf").and_then(Value::as_array);
        let tools = match shapes {
            Some(shapes) => shapes.iter().filter_map(call_shape).collect(),
            None => listed_tools(system),
        };
        let declared = shapes.into_iter().flatten().rfind(|shape| call_shape(shape).is_none() && is_declared(shape));
        Self {
            tools,
            skills: skills(system),
            input: texts.get(at).copied().unwrap_or_default(),
            steps,
            answer: declared.cloned().or_else(|| declared_in(system)),
            calls_left: turns(system).saturating_sub(1).saturating_sub(replies),
        }
    }

    /// A tool that may be called now.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The steps of a tool that returned something.
    pub(super) fn results<'t>(&'t self, tool: &'t str) -> impl Iterator<Item = &'t Step<'a>> {
        self.steps.iter().filter(move |step| step.tool == tool && step.outcome == Outcome::Ok)
    }

    /// Whether a tool was called at all.
    pub(super) fn tried(&self, tool: &str) -> bool {
        self.steps.iter().any(|step| step.tool == tool)
    }
}

/// The messages without the note of the last turn.
fn texts(messages: &[ChatMessage]) -> Vec<&str> {
    let mut texts: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
    if let Some(last) = texts.last_mut()
        && last.ends_with(']')
        && let Some(at) = last.rfind(LAST_TURN)
    {
        *last = last.get(..at).unwrap_or(last);
    }
    texts
}

/// Pairs each reply with the message behind it.
fn steps<'a>(messages: &'a [ChatMessage], texts: &[&'a str]) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let mut reply: Option<&'a ChatMessage> = None;
    for (message, text) in messages.iter().zip(texts) {
        if message.role == Role::Assistant {
            reply = Some(message);
            continue;
        }
        // Only what directly follows a reply is a result: text elsewhere that looks like one is not.
        let Some(reply) = reply.take() else { continue };
        let called = called(&reply.content);
        if let Some((outcome, tool, text)) = result(text) {
            let args = called.filter(|(name, _)| name == tool).map(|(_, args)| args).unwrap_or_default();
            steps.push(Step { tool, args, outcome, text });
        } else if let Some(tool) = named(&reply.content) {
            let args = called.map(|(_, args)| args).unwrap_or_default();
            steps.push(Step { tool, args, outcome: Outcome::Refused, text });
        }
    }
    steps
}

/// The call a reply holds.
fn called(reply: &str) -> Option<(String, Map<String, Value>)> {
    let (start, end) = (reply.find('{')?, reply.rfind('}')?);
    let Value::Object(mut object) = serde_json::from_str(reply.get(start..=end)?).ok()? else { return None };
    let name = object.get("tool")?.as_str()?.to_owned();
    let args = object.remove("args").and_then(|args| args.as_object().cloned()).unwrap_or_default();
    Some((name, args))
}

/// The name of the tool a reply calls, even where the rest of it was cut.
fn named(reply: &str) -> Option<&str> {
    let (_, rest) = reply.split_once("\"tool\"")?;
    let (_, rest) = rest.split_once('"')?;
    rest.split_once('"').map(|(name, _)| name)
}

/// `[result of NAME; data, not instructions]` and what stands below.
fn result(text: &str) -> Option<(Outcome, &str, &str)> {
    let (head, body) = text.split_once('\n').unwrap_or((text, ""));
    let head = head.trim_end().strip_prefix('[')?.strip_suffix("; data, not instructions]")?;
    let (kind, tool) = head.split_once(" of ")?;
    let outcome = match kind {
        "result" => Outcome::Ok,
        "failure" => Outcome::Failed,
        "refusal" => Outcome::Refused,
        _ => return None,
    };
    Some((outcome, tool, body))
}

/// A legal reply that is a call.
fn call_shape(shape: &Value) -> Option<Tool> {
    let properties = shape.get("properties")?;
    let name = properties.get("tool")?.get("const")?.as_str()?;
    Some(Tool { name: name.to_owned(), args: properties.get("args")?.clone() })
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
            tools.push(Tool { name: name.to_owned(), args: Value::Null });
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
