//! One record: a JSON object with `messages` as a chat endpoint has them.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::evolver::failure;
use crate::ids::Slug;
use crate::memory::{Evidence, EvidenceStatus, ImportedSession, ImportedTurn, KeptArguments, preview};

/// The most calls and questions of one session that are taken in, and the most skills it can have had.
const MAX_CALLS: usize = 10_000;
const MAX_TURNS: usize = 10_000;
const MAX_SKILLS: usize = 64;
/// Tools whose calls name a skill that the session then has.
const LOADERS: [&str; 2] = ["skill_view", "skill_manage"];

/// Reads a record. `name` stands for an id that is missing, `changed` for a time that is.
pub fn read(bytes: &[u8], name: &str, changed: Timestamp) -> Result<ImportedSession, String> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 from byte {}", error.valid_up_to()))?;
    let text = text.trim_start_matches('\u{feff}');
    let value = parse(&without_lone_surrogates(text)).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => "it is cut off: not a whole JSON document".to_owned(),
        _ => format!("it is not JSON: {error}"),
    })?;
    let Value::Object(fields) = &value else { return Err("it is not a JSON object".to_owned()) };
    let messages = match fields.get("messages") {
        Some(Value::Array(messages)) => messages.as_slice(),
        None | Some(Value::Null) => return Err("it has no messages".to_owned()),
        Some(_) => return Err("its messages are not a list".to_owned()),
    };
    let word = |name: &str| fields.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let task = word("session_id").unwrap_or(name).to_owned();
    // A session that began after its record was written has a clock that lies.
    let at = fields.get("session_start").and_then(moment).unwrap_or(changed).min(changed);
    let mut reading = Reading { task: &task, at, ..Reading::default() };
    for message in messages {
        reading.message(message);
    }
    let (tools, turns, skills) = reading.finish();
    Ok(ImportedSession {
        at,
        model: preview(word("model").unwrap_or_default()),
        platform: preview(word("platform").unwrap_or_default()),
        completed: turns.last().is_none_or(|turn| !turn.answered.is_empty()),
        task,
        tools,
        turns,
        skills,
    })
}

/// A call and the result it waits for.
struct Call {
    tool: String,
    args: Map<String, Value>,
    result: Option<String>,
    turn: u32,
}

struct Reading<'a> {
    task: &'a str,
    at: Timestamp,
    calls: Vec<Call>,
    /// Calls without a result, by their id; ids are given again in later messages.
    waiting: HashMap<String, VecDeque<usize>>,
    /// Calls without an id, in order.
    nameless: VecDeque<usize>,
    turns: Vec<ImportedTurn>,
    asked: Option<String>,
}

impl Default for Reading<'_> {
    fn default() -> Self {
        Self {
            task: "",
            at: Timestamp(0),
            calls: Vec::new(),
            waiting: HashMap::new(),
            nameless: VecDeque::new(),
            turns: Vec::new(),
            asked: None,
        }
    }
}

impl Reading<'_> {
    fn message(&mut self, message: &Value) {
        let said = message.get("content").map(content).unwrap_or_default();
        match message.get("role").and_then(Value::as_str) {
            Some("user") if !said.trim().is_empty() => self.asked = Some(said.into_owned()),
            Some("assistant") => {
                for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                    self.call(call);
                }
                if !said.trim().is_empty() {
                    self.answer(&said);
                }
            }
            Some("tool") => self.result(message, said.into_owned()),
            _ => {}
        }
    }

    fn answer(&mut self, said: &str) {
        let Some(asked) = self.asked.take() else { return };
        self.turn(&asked, said);
    }

    fn turn(&mut self, asked: &str, answered: &str) {
        if self.turns.len() == MAX_TURNS {
            return;
        }
        let number = u32::try_from(self.turns.len() + 1).unwrap_or(u32::MAX);
        self.turns.push(ImportedTurn { number, asked: preview(asked), answered: preview(answered), at: self.at });
    }

    fn call(&mut self, call: &Value) {
        if self.calls.len() == MAX_CALLS {
            return;
        }
        let function = call.get("function").unwrap_or(call);
        let Some(tool) = function.get("name").or_else(|| call.get("name")).and_then(Value::as_str) else { return };
        let args = match function.get("arguments").or_else(|| call.get("arguments")) {
            Some(Value::Object(args)) => args.clone(),
            Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
            Some(Value::String(text)) => match parse(text) {
                Ok(Value::Object(args)) => args,
                _ => Map::from_iter([("raw_arguments".to_owned(), Value::String(text.clone()))]),
            },
            None | Some(Value::Null) => Map::new(),
            Some(other) => Map::from_iter([("raw_arguments".to_owned(), other.clone())]),
        };
        let at = self.calls.len();
        let turn = u32::try_from(self.turns.len() + 1).unwrap_or(u32::MAX);
        self.calls.push(Call { tool: preview(tool), args, result: None, turn });
        match id_of(call, &["id", "call_id", "tool_call_id"]) {
            Some(id) => self.waiting.entry(id).or_default().push_back(at),
            None => self.nameless.push_back(at),
        }
    }

    fn result(&mut self, message: &Value, said: String) {
        let named = id_of(message, &["tool_call_id", "id"]).and_then(|id| self.waiting.get_mut(&id)?.pop_front());
        let at = named.or_else(|| match id_of(message, &["tool_call_id", "id"]) {
            None => self.nameless.pop_front(),
            Some(_) => None,
        });
        if let Some(call) = at.and_then(|at| self.calls.get_mut(at)) {
            call.result = Some(said);
        }
    }

    fn finish(mut self) -> (Vec<Evidence>, Vec<ImportedTurn>, Vec<Slug>) {
        if let Some(asked) = self.asked.take() {
            self.turn(&asked, "");
        }
        // One that was still running when the record was written is known when it has ended.
        self.calls.retain(|call| call.result.is_some());
        let failed: Vec<bool> =
            self.calls.iter().map(|call| call.result.as_deref().is_some_and(failure::result)).collect();
        let mut skills: Vec<Slug> = Vec::new();
        let mut rows = Vec::with_capacity(self.calls.len());
        for (call, failed) in self.calls.iter().zip(failed) {
            rows.push(Evidence {
                task: self.task.to_owned(),
                turn: call.turn,
                tool: call.tool.clone(),
                status: if failed { EvidenceStatus::Failed } else { EvidenceStatus::Ok },
                skills: skills.clone(),
                args: Evidence::digest_of_args(Some(&call.args)),
                arguments: Some(KeptArguments::of(&call.args)),
                summary: preview(call.result.as_deref().unwrap_or_default()),
                millis: 0,
                at: self.at,
            });
            for slug in loaded(call, failed) {
                if skills.len() < MAX_SKILLS && !skills.contains(&slug) {
                    skills.push(slug);
                }
            }
        }
        (rows, self.turns, skills)
    }
}

/// The skills that a call gave its session: one that could not be loaded is none.
fn loaded(call: &Call, failed: bool) -> Vec<Slug> {
    let slug = |value: &Value| {
        let name = value.as_str()?.trim();
        name.parse().ok().or_else(|| Slug::from_title(name))
    };
    if LOADERS.contains(&call.tool.as_str()) {
        let named = ["name", "skill", "skill_name"].iter().find_map(|name| call.args.get(*name));
        return named.filter(|_| !failed).and_then(slug).into_iter().collect();
    }
    match call.args.get("skills") {
        Some(Value::Array(many)) => many.iter().take(MAX_SKILLS).filter_map(slug).collect(),
        _ => Vec::new(),
    }
}

fn id_of(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match value.get(name)? {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    })
}

/// What a message says: its text, the texts of its parts, or its JSON.
fn content(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Null => "".into(),
        Value::Array(parts) if parts.iter().all(|part| part.get("type").is_some()) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join("\n").into()
        }
        other => other.to_string().into(),
    }
}

/// A time as records have it: RFC 3339, the same without a zone (which is UTC), or seconds since 1970.
fn moment(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => {
            let text = text.trim().replacen(' ', "T", 1);
            Timestamp::parse(&text).or_else(|_| Timestamp::parse(&format!("{text}Z"))).ok()
        }
        Value::Number(seconds) => {
            let millis = seconds.as_f64()? * 1000.0;
            (0.0..1e15).contains(&millis).then_some(Timestamp(millis as i64))
        }
        _ => None,
    }
}

/// Reads JSON. Numbers that JSON cannot hold, and that some writers leave all the same, are read as null: they stand
/// somewhere in a session, and the session is not lost for them.
fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match error.classify() {
        serde_json::error::Category::Eof => Err(error),
        _ => serde_json::from_str(&without_odd_numbers(text)),
    })
}

/// JSON in which `NaN`, `Infinity` and numbers out of range are `null`. Strings stay as they are.
fn without_odd_numbers(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        let bare = piece.trim_start_matches(['+', '-']).to_ascii_lowercase();
        let is_number = bare.starts_with(|c: char| c.is_ascii_digit());
        let is_odd = matches!(bare.as_str(), "nan" | "inf" | "infinity")
            || (is_number && bare.parse::<f64>().is_ok_and(f64::is_infinite));
        mended.push_str(if is_odd { "null" } else { piece });
        rest = after;
    }
    mended
}

/// The bytes of the string that a text begins with, its quotes included; all of it where the string does not end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// JSON in which half of a surrogate pair without its other half stands for the replacement character.
/// Some writers leave such halves, and strict readers refuse the whole document for them.
fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text.into();
    }
    let code = |at: usize| {
        let escape = text.get(at..at + 6).filter(|escape| escape.starts_with("\\u"))?;
        u16::from_str_radix(escape.get(2..)?, 16).ok()
    };
    let bytes = text.as_bytes();
    let mut mended = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        if *byte != b'\\' {
            at += 1;
            continue;
        }
        let length = match (code(at), code(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.push_str(text.get(kept..at).unwrap_or_default());
                mended.push_str("\\ufffd");
                kept = at + 6;
                6
            }
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        at += length;
    }
    mended.push_str(text.get(kept..).unwrap_or_default());
    mended.into()
}
