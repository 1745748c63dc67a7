//! Calls in the notation of other harnesses.
//!
//! Models write calls as they were trained to: `{"name": …, "arguments": {…}}` (Hermes, Qwen, Mistral),
//! `{"name": …, "parameters": {…}}` (Llama), `{"type": "function", "function": {…}}` and `{"tool_calls": […]}` (OpenAI),
//! `{"type": "tool_use", "name": …, "input": {…}}` (Anthropic), `{"functionCall": {"name": …, "args": {…}}}` (Gemini),
//! `{"action": …, "action_input": …}` (ReAct), and arguments alone behind a mark that names the tool. Such an object is
//! a call if it names a tool of the task, which only the caller knows. `docs/reference/reply.md` lists the shapes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::outline::{CheckedValue, arguments};
use super::{Edition, Object, ObjectProblem, broken};

/// A call in the notation of another harness.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignCall {
    /// The name of the tool, without the prefix `functions.`.
    pub tool: String,
    /// The arguments, or what is wrong with them.
    pub args: Result<Map<String, Value>, ObjectProblem>,
}

/// Keys that name the tool.
const NAMES: [&str; 8] =
    ["name", "tool_name", "toolName", "function_name", "function", "action", "recipient_name", "tool"];
/// Keys that hold the arguments and nothing else: text in them must be an object.
const SURE_ARGUMENTS: [&str; 4] = ["arguments", "parameters", "action_input", "tool_input"];
/// Keys that hold the arguments if their value is an object.
const LIKELY_ARGUMENTS: [&str; 3] = ["input", "args", "params"];
/// Keys around one call.
const WRAPPERS: [&str; 6] = ["function_call", "functionCall", "tool_call", "toolCall", "tool_use", "toolUse"];
/// Keys around several calls.
const LISTS: [&str; 5] = ["tool_calls", "toolCalls", "tool_uses", "function_calls", "calls"];
/// Values of `type` that say that an object is a call.
const TYPES: [&str; 3] = ["function_call", "tool_use", "tool_call"];
/// Labels of a line that names a tool, and of the line behind it whose object are the arguments, in letters alone.
const NAME_LABELS: [&str; 4] = ["action", "tool", "tool name", "function"];
const ARGUMENT_LABELS: [&str; 7] =
    ["action input", "args", "arguments", "input", "parameters", "tool input", "function args"];
/// Marks that end a call, in lower case: what stands before one is a piece of a call, whatever begins it.
const ENDS: [&str; 13] = [
    "</tool_call>",
    "</tool_calls>",
    "</function>",
    "</function_call>",
    "</function_calls>",
    "</tool_use>",
    "</invoke>",
    "</parameter>",
    "</arguments>",
    "</arg_value>",
    "<|tool_call_end|>",
    "<|call|>",
    "<｜tool▁call▁end｜>",
];
/// How far back a mark before an object is looked for.
const MARK_BYTES: usize = 200;

/// What stands before an object and says what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Announced<'r> {
    /// Nothing of the kind.
    Nothing,
    /// A mark that begins a call, such as `<tool_call>`.
    Call,
    /// A mark that names a tool; the object is its arguments, for sure or if the tool is there.
    Arguments { tool: &'r str, sure: bool },
    /// A mark that begins one argument of a call that is not written in JSON.
    Parameter,
    /// A key that holds the arguments of a call, in an object that cannot be read.
    Argument,
    /// Another key of an object that cannot be read.
    Member,
}

impl<'r> Announced<'r> {
    /// The mark around the object that stands from one place to another.
    pub(super) fn around(text: &'r str, from: usize, to: usize) -> Self {
        let after = text.get(to..).unwrap_or_default();
        match Self::before(text, from) {
            Self::Nothing if ends_call(after) => Self::Call,
            // A brace too many has cut something in two.
            Self::Nothing => match key_after(after) {
                Some(key) if holds_arguments(key) => Self::Argument,
                Some(_) if !after.starts_with(char::is_whitespace) => Self::Member,
                _ => Self::Nothing,
            },
            found => found,
        }
    }

    /// The mark before the object at this place.
    fn before(text: &'r str, at: usize) -> Self {
        let mut from = at.saturating_sub(MARK_BYTES);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let mut before = text.get(from..at).unwrap_or_default().trim_end();
        if let Some(key) = key_before(before, from == 0) {
            return Self::behind(key);
        }
        // A fence of the reply's own may stand between the mark and the object.
        if let Some((rest, info)) = before.rsplit_once("```")
            && matches!(info.trim(), "" | "json")
            && !rest.is_empty()
        {
            before = rest.trim_end();
        }
        if before.ends_with('>') || before.ends_with(']') {
            return Self::by_tag(before);
        }
        if before.trim_end_matches('*').ends_with(':') {
            return by_labels(before).unwrap_or(Self::Nothing);
        }
        match before.rsplit_once("<｜tool▁sep｜>") {
            Some((_, name)) if is_name(name) => Self::Arguments { tool: name, sure: true },
            _ => Self::Nothing,
        }
    }

    /// What the key before an object says.
    fn behind(key: &str) -> Self {
        if holds_arguments(key) {
            Self::Argument
        } else if WRAPPERS.contains(&key) || LISTS.contains(&key) || key == "function" {
            Self::Call
        } else {
            Self::Member
        }
    }

    fn by_tag(before: &'r str) -> Self {
        let lower = before.to_ascii_lowercase();
        let ends = |tags: &[&str]| tags.iter().any(|tag| lower.ends_with(tag));
        if ends(&["<tool_call>", "<tool_calls>", "<function_call>", "<tool_use>", "<|tool_call|>", "[tool_calls]"]) {
            return Self::Call;
        }
        if ends(&["<|tool_call_begin|>", "<|python_tag|>", "<｜tool▁call▁begin｜>"]) {
            return Self::Call;
        }
        let open = before.strip_suffix('>').and_then(|before| before.rsplit_once('<')).map(|(_, tag)| tag);
        let tag = open.unwrap_or_default();
        if let Some(name) =
            tag.strip_prefix("function=").map(|name| name.trim_matches('"')).filter(|name| is_name(name))
        {
            return Self::Arguments { tool: name, sure: true };
        }
        if tag.starts_with("parameter=") || tag.starts_with("parameter name=") || tag == "arg_value" {
            return Self::Parameter;
        }
        // functions.NAME:0<|tool_call_argument_begin|>
        if let Some(before) = before.strip_suffix("<|tool_call_argument_begin|>") {
            let word = before.trim_end().rsplit(|c: char| c.is_whitespace() || c == '>').next().unwrap_or_default();
            let name = word.rsplit_once(':').map_or(word, |(name, _)| name);
            return if is_name(name) { Self::Arguments { tool: name, sure: true } } else { Self::Call };
        }
        // … to=functions.NAME <|constrain|>json<|message|>
        if let Some(before) = before.strip_suffix("<|message|>")
            && let Some((_, name)) = before.rsplit_once("to=")
        {
            let end = name.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(name.len());
            let name = name.get(..end).unwrap_or_default();
            return if is_name(name) { Self::Arguments { tool: name, sure: true } } else { Self::Nothing };
        }
        Self::Nothing
    }
}

/// The tool that a line names, where the line behind it says that arguments follow, as `Action Input:` does behind
/// a line `Action: NAME`.
fn by_labels(before: &str) -> Option<Announced<'_>> {
    let plain = |label: &str| {
        let letters = label.chars().map(|c| if c.is_alphabetic() { c.to_ascii_lowercase() } else { ' ' });
        letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut lines = before.lines().rev();
    let arguments = plain(lines.next()?);
    if !ARGUMENT_LABELS.contains(&arguments.as_str()) {
        return None;
    }
    let sure = arguments == "action input";
    let named = lines.find(|line| !line.trim().is_empty()).and_then(|line| line.split_once([':', '：']));
    let named = named.filter(|(label, _)| NAME_LABELS.contains(&plain(label).as_str()));
    let name = named.map(|(_, name)| name.trim().trim_matches(['*', '`', '"', ' ']));
    match name.filter(|name| is_name(name)) {
        Some(tool) => Some(Announced::Arguments { tool, sure }),
        // Nobody writes this before an answer.
        None => sure.then_some(Announced::Call),
    }
}

fn ends_call(after: &str) -> bool {
    let after = after.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '}' | ']'));
    ENDS.iter().any(|end| after.get(..end.len()).is_some_and(|found| found.eq_ignore_ascii_case(end)))
}

/// Quotes as models write them, for keys too; a backslash is one only beside another.
fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '„' | '‘' | '’' | '`' | '\\')
}

fn has_quote(text: &str) -> bool {
    text.contains(|c| is_quote(c) && c != '\\')
}

/// The key that a text ends with, as in `, "key": [`; `whole` says that the text begins where the reply does. A word in
/// quotes in the middle of a sentence is none.
fn key_before(text: &str, whole: bool) -> Option<&str> {
    let text = text.trim_end_matches(|c: char| c == '[' || c.is_whitespace());
    let text = text.strip_suffix([':', '='])?.trim_end();
    let unquoted = text.trim_end_matches(is_quote);
    if !has_quote(text.get(unquoted.len()..)?) {
        return None;
    }
    let before = unquoted.trim_end_matches(is_word);
    let key = unquoted.get(before.len()..)?;
    let before = before.trim_end_matches(is_quote);
    let plain = before.trim_end_matches([' ', '\t']);
    // In a sentence, a blank or a bracket stands before what is quoted.
    let begins = match plain.is_empty() {
        true => whole,
        false => plain.ends_with(['{', '}', '[', ']', ',', ':', '>', '\n']) || before.ends_with(char::is_alphanumeric),
    };
    (begins && !key.is_empty()).then_some(key)
}

/// The key that a text begins with, as in `, "key": `.
fn key_after(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(|c: char| c == ',' || c.is_whitespace()).trim_start_matches(is_quote);
    let rest = text.trim_start_matches(is_word);
    let colon = rest.trim_start_matches(is_quote);
    let quotes = rest.get(..rest.len() - colon.len())?;
    (has_quote(quotes) && colon.trim_start().starts_with(':')).then(|| text.get(..text.len() - rest.len()))?
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')
}

fn holds_arguments(key: &str) -> bool {
    SURE_ARGUMENTS.contains(&key) || LIKELY_ARGUMENTS.contains(&key)
}

/// What an object that cannot be read says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Speaks {
    of_a_name: bool,
    of_arguments: bool,
}

impl Speaks {
    /// Reads one more piece of it. In prose and code, a word is a key only where it has a quote.
    pub(super) fn read(&mut self, text: &str, in_quotes: bool) {
        self.of_a_name = self.of_a_name || NAMES.iter().any(|key| has_key(text, key, in_quotes));
        self.of_arguments = self.of_arguments
            || SURE_ARGUMENTS.iter().chain(&LIKELY_ARGUMENTS).any(|key| has_key(text, key, in_quotes));
    }

    /// Whether it was meant to be a call.
    pub(super) fn of_a_call(self) -> bool {
        self.of_a_name && self.of_arguments
    }
}

fn has_key(text: &str, key: &str, in_quotes: bool) -> bool {
    text.match_indices(key).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + key.len()..).unwrap_or_default();
        let rest = after.trim_start_matches(is_quote);
        let (opens, closes) = (before.is_some_and(is_quote), rest.len() < after.len());
        let is_alone = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_key = (opens && closes) || rest.trim_start().starts_with([':', '=']);
        is_alone && is_key && (opens || closes || !in_quotes)
    })
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    (1..=128).contains(&text.len()) && text.chars().all(plain)
}

/// What an object without the key `tool` is.
pub(super) fn object<'r>(
    entries: &[(String, CheckedValue)],
    text: Cow<'r, str>,
    announced: &Announced<'_>,
) -> Object<'r> {
    let repaired = matches!(text, Cow::Owned(_));
    let mut calls = Vec::new();
    collect(entries, None, &mut calls);
    let sure = calls.iter().any(|(_, sure)| *sure);
    let mut calls: Vec<ForeignCall> = calls.into_iter().map(|(call, _)| call).collect();
    match announced {
        Announced::Parameter => return broken(ObjectProblem::ForeignMarkup),
        Announced::Call if calls.is_empty() => return broken(ObjectProblem::ForeignMarkup),
        Announced::Arguments { tool, .. } if calls.is_empty() => {
            let mut args = Map::new();
            let mut repeated = false;
            for (key, kept) in entries {
                repeated |= kept.repeated;
                repeated |= args.insert(key.clone(), kept.value.clone()).is_some();
            }
            let args = if repeated { Err(ObjectProblem::RepeatedArgument) } else { Ok(args) };
            calls.push(ForeignCall { tool: plain_name(tool), args });
        }
        _ if calls.is_empty() => return Object::Final { text, repaired },
        _ => {}
    }
    let marked = !matches!(announced, Announced::Nothing | Announced::Arguments { sure: false, .. });
    let otherwise = (!sure && !marked).then_some(text);
    Object::Foreign { calls, otherwise, repaired }
}

/// The calls that an object stands for, and whether it can be nothing else.
fn collect(entries: &[(String, CheckedValue)], inside: Option<Sure>, calls: &mut Vec<(ForeignCall, bool)>) {
    let says_type = |wanted: &[&str]| {
        let type_of = entries.iter().find(|(key, _)| key == "type").and_then(|(_, kept)| kept.value.as_str());
        type_of.is_some_and(|found| wanted.contains(&found))
    };
    let sure = inside.is_some_and(|Sure(sure)| sure) || says_type(&TYPES);
    if let Some(call) = flat(entries, inside == Some(Sure(true))) {
        calls.push((call, sure));
        return;
    }
    for (key, kept) in entries {
        let (inner, sure): (&[Value], bool) = match &kept.value {
            value @ Value::Object(_) if key == "function" => (std::slice::from_ref(value), says_type(&["function"])),
            value @ Value::Object(_) if WRAPPERS.contains(&key.as_str()) => (std::slice::from_ref(value), true),
            Value::Array(items) if LISTS.contains(&key.as_str()) => (items, key != "calls"),
            _ => continue,
        };
        // A list of wrapped calls is as deep as anybody nests them.
        let sure = match inside {
            None => Sure(sure),
            Some(Sure(outer)) if key == "function" => Sure(outer || sure),
            Some(_) => continue,
        };
        for value in inner {
            if let Value::Object(map) = value {
                // Which of the inner objects has a key twice is not known; then each of them may.
                let kept = |value: &Value| CheckedValue { value: value.clone(), repeated: kept.repeated };
                let entries: Vec<(String, CheckedValue)> =
                    map.iter().map(|(key, value)| (key.clone(), kept(value))).collect();
                collect(&entries, Some(sure), calls);
            }
        }
    }
}

/// Whether what stands around an object says that it is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sure(bool);

/// A name and arguments in one object.
fn flat(entries: &[(String, CheckedValue)], sure: bool) -> Option<ForeignCall> {
    let get = |wanted: &str| entries.iter().find(|(key, _)| key == wanted).map(|(_, kept)| kept);
    let name = NAMES.iter().find_map(|key| get(key)?.value.as_str())?;
    let held = SURE_ARGUMENTS.iter().find_map(|key| get(key));
    let likely = || LIKELY_ARGUMENTS.iter().find_map(|key| get(key).filter(|kept| kept.value.is_object()));
    let args = match held.or_else(likely) {
        Some(kept) => arguments(Some(kept.clone()), Edition::Second),
        // A name alone is a call only where nothing else can be meant.
        None if sure => Ok(Map::new()),
        None => return None,
    };
    let twice = |key: &str| entries.iter().filter(|(other, _)| other == key).count() > 1;
    let args = match NAMES.iter().chain(&SURE_ARGUMENTS).chain(&LIKELY_ARGUMENTS).any(|key| twice(key)) {
        true => Err(ObjectProblem::RepeatedKey),
        false => args,
    };
    Some(ForeignCall { tool: plain_name(name), args })
}

fn plain_name(name: &str) -> String {
    name.strip_prefix("functions.").unwrap_or(name).to_owned()
}
