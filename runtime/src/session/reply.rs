//! Finds the JSON objects that a language model wrote in a plain-text reply.
//!
//! A reply is prose, thoughts, fenced code and, somewhere in it, objects: tool calls `{"tool": name, "args": {...}}`
//! and final answers (any other object). This module returns all of them in the order of the text and leaves to its
//! caller which one is legal now. What it returns may be executed, so every doubt ends in fewer objects, never in
//! more: nothing inside a thought, a quoted fence, an unclosed object or a broken object is looked at again.
//!
//! The text is walked once, from left to right. A candidate object is parsed at most twice: as it stands and after
//! its repair. So the time is linear in the length of the reply, whatever the reply is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// The most objects that one reading returns.
pub const MOST_OBJECTS: usize = 32;

/// The deepest nesting that is parsed. It is the limit of `serde_json`, so that its own stack is never at risk.
const DEEPEST: usize = 127;

/// The names of the tags around thoughts, in lower case.
const THOUGHTS: [&str; 3] = ["think", "thinking", "reasoning"];

/// Fences with these info strings hold the reply itself. A fence with any other info string quotes something.
const TRANSPARENT_FENCES: [&str; 7] = ["json", "jsonc", "json5", "tool", "tool_call", "tool_code", "text"];

/// Keys beside `tool` and `args` in which models like to talk. They are no arguments.
const REMARKS: [&str; 3] = ["thought", "reasoning", "comment"];

/// What a reply holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading<'r> {
    /// The objects in the order of the text, at most [`MOST_OBJECTS`].
    pub objects: Vec<Object<'r>>,
    /// How the reply ended.
    pub end: End,
    /// How many more objects were not looked at. It counts closed candidates, so some of them may not be JSON.
    pub left_out: usize,
}

impl Reading<'_> {
    /// Nobody can use what had to be repaired.
    pub fn refuse_repaired(&mut self) {
        for object in &mut self.objects {
            if let Object::Call { repaired: true, .. } | Object::Final { repaired: true, .. } = object {
                *object = Object::Broken { problem: Problem::NotJson };
            }
        }
    }
}

/// One object of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Object<'r> {
    /// A tool call.
    Call {
        /// The name of the tool, exactly as written.
        tool: String,
        /// The arguments, empty where the call had none.
        args: Map<String, Value>,
        /// Whether the text had to be repaired to be JSON.
        repaired: bool,
    },
    /// Any object without a key `tool`.
    Final {
        /// The exact bytes of the reply where they are strict JSON, the repaired text otherwise.
        text: Cow<'r, str>,
        /// Whether the text had to be repaired to be JSON.
        repaired: bool,
    },
    /// An object that nobody can use.
    Broken {
        /// What is wrong with it.
        problem: Problem,
    },
}

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing was left open.
    Clean,
    /// An object was opened and never closed, or the backend cut the reply.
    Truncated,
    /// A thought was opened and never closed.
    InThought,
}

/// What is wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It is not JSON and no unambiguous repair makes it JSON. A number beyond the range of `f64` counts as this.
    NotJson,
    /// The value of `tool` is not a string.
    ToolNotText,
    /// The value of `args` is an array, a number or a boolean.
    ArgsNotObject,
    /// The value of `args` is a string that does not hold a JSON object.
    ArgsTextNotJson,
    /// The arguments stand beside `tool`, not inside `args`.
    LooseArguments,
    /// The key `tool` or `args` occurs twice.
    RepeatedKey,
    /// It is nested deeper than a parser can follow.
    TooDeep,
}

impl Problem {
    /// One sentence to the model that says what was wrong and what the right shape is.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::NotJson => {
                "This is not JSON: write one strict JSON object, and escape quotes and line breaks in strings."
            }
            Self::ToolNotText => r#""tool" must be the name of a tool: write {"tool": "name", "args": {...}}."#,
            Self::ArgsNotObject => r#""args" must be an object: write {"tool": "name", "args": {"argument": value}}."#,
            Self::ArgsTextNotJson => r#""args" must be an object, not text: write {"tool": "name", "args": {...}}."#,
            Self::LooseArguments => r#"Arguments belong inside "args": write {"tool": "name", "args": {...}}."#,
            Self::RepeatedKey => {
                r#""tool" and "args" may occur once: write {"tool": "name", "args": {...}} for each call."#
            }
            Self::TooDeep => "This is nested too deeply: write an object with fewer than 100 levels.",
        }
    }
}

/// Finds the objects in a reply. `cut` says that the backend stopped the reply at its length limit; then no object
/// is returned, because what looks complete may have been meant to go on.
///
/// A thought ends at the first closing tag of its own name; thoughts do not nest. A closing tag without an opening one
/// says that all before it was thought.
#[must_use]
pub fn read(reply: &str, cut: bool) -> Reading<'_> {
    // A byte order mark would hide that a fence stands at the start of the first line.
    let text = reply.strip_prefix('\u{feff}').unwrap_or(reply);
    let end = if cut { End::Truncated } else { End::Clean };
    let mut scan = Scan { text, candidates: Vec::new(), end, left_out: 0 };
    if cut {
        return scan.reading();
    }
    let mut at = 0;
    while let Some(here) = byte(text, at) {
        at = match here {
            b'{' => scan.pass_brace(at),
            b'<' => scan.pass_angle(at),
            b'`' => scan.pass_backticks(at),
            _ => at + 1,
        };
    }
    scan.reading()
}

/// The byte at a place. All scanning goes through here, so that the tests can count the work.
fn byte(text: &str, at: usize) -> Option<u8> {
    #[cfg(test)]
    tests::count_visit();
    text.as_bytes().get(at).copied()
}

/// The first byte at or after a place that is not JSON whitespace.
fn next_solid(text: &str, mut at: usize) -> Option<u8> {
    while byte(text, at).is_some_and(is_blank) {
        at += 1;
    }
    byte(text, at)
}

/// Whether JSON calls this byte whitespace.
fn is_blank(here: u8) -> bool {
    matches!(here, b' ' | b'\t' | b'\n' | b'\r')
}

/// The walk over one reply. Each step takes the place of the byte it looks at and returns where the walk goes on.
struct Scan<'r> {
    text: &'r str,
    /// What may become objects. They are parsed at the end, so that none is parsed only to be forgotten.
    candidates: Vec<Candidate<'r>>,
    end: End,
    left_out: usize,
}

impl<'r> Scan<'r> {
    /// Passes an object, or one brace that does not begin an object.
    fn pass_brace(&mut self, at: usize) -> usize {
        // `{see below}` and most code is told apart here, so that it cannot swallow the rest of the reply.
        if !matches!(next_solid(self.text, at + 1), Some(b'"' | b'\'' | b'}')) {
            return at + 1;
        }
        if let Some(candidate) = Candidate::at(self.text, at) {
            let end = at + candidate.text.len();
            self.keep(candidate);
            return end;
        }
        self.end = End::Truncated;
        self.pass_rest(at)
    }

    /// Passes a thought, a tag that ends one, or one `<`.
    fn pass_angle(&mut self, at: usize) -> usize {
        let Some(tag) = Tag::at(self.text, at) else {
            return at + 1;
        };
        if tag.closes {
            // The template of the model opened this thought before the reply began.
            self.forget();
            return tag.end;
        }
        // Thoughts do not nest: models mention their own tag, and a count of the mentions would hide the answer.
        // Where they did nest, the outer closing tag is a lone one and what stands before it is forgotten all the same.
        if let Some(end) = thought_end(self.text, tag.end, Some(tag.name)) {
            return end;
        }
        self.end = End::InThought;
        self.pass_rest(tag.end)
    }

    /// Passes a quoted fence as a whole, or else only a run of backticks.
    fn pass_backticks(&mut self, at: usize) -> usize {
        let mut end = at;
        while byte(self.text, end) == Some(b'`') {
            end += 1;
        }
        let ticks = end - at;
        if ticks < 3 || !starts_line(self.text, at) || !quotes_material(self.text, end) {
            return end;
        }
        fence_end(self.text, end, ticks).unwrap_or_else(|| self.pass_rest(at))
    }

    /// Passes the rest of the reply, which something unclosed swallowed. If the end of a thought is in there, then
    /// the objects before may belong to that thought and must not be executed.
    fn pass_rest(&mut self, at: usize) -> usize {
        if thought_end(self.text, at, None).is_some() {
            self.forget();
        }
        self.text.len()
    }

    /// Adds a closed candidate.
    fn keep(&mut self, candidate: Candidate<'r>) {
        if candidate.ends_thought {
            self.forget();
        }
        if self.candidates.len() < MOST_OBJECTS {
            self.candidates.push(candidate);
        } else {
            self.left_out += 1;
        }
    }

    /// Drops all objects so far, because they were part of a thought.
    fn forget(&mut self) {
        self.candidates.clear();
        self.left_out = 0;
    }

    /// Parses what was found.
    fn reading(self) -> Reading<'r> {
        let objects = self.candidates.iter().map(Candidate::object).collect();
        Reading { objects, end: self.end, left_out: self.left_out }
    }
}

/// A tag that opens or closes a thought.
struct Tag {
    name: &'static str,
    closes: bool,
    end: usize,
}

impl Tag {
    /// The tag whose `<` is at this place. Tags with blanks or attributes are text.
    fn at(text: &str, at: usize) -> Option<Self> {
        let closes = byte(text, at + 1) == Some(b'/');
        let start = if closes { at + 2 } else { at + 1 };
        let mut end = start;
        while byte(text, end).is_some_and(|here| here.is_ascii_alphabetic()) {
            end += 1;
        }
        if byte(text, end) != Some(b'>') {
            return None;
        }
        let written = text.get(start..end)?;
        let name = THOUGHTS.into_iter().find(|name| name.eq_ignore_ascii_case(written))?;
        Some(Self { name, closes, end: end + 1 })
    }
}

/// The place after the next tag that closes a thought with this name, or with any name.
fn thought_end(text: &str, from: usize, name: Option<&str>) -> Option<usize> {
    (from..text.len())
        .filter(|&at| byte(text, at) == Some(b'<'))
        .filter_map(|at| Tag::at(text, at))
        .find(|tag| tag.closes && name.is_none_or(|name| name == tag.name))
        .map(|tag| tag.end)
}

/// Whether only an indentation that Markdown allows stands before this place in its line.
fn starts_line(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let line_start = before.trim_end_matches(' ');
    before.len() - line_start.len() <= 3 && (line_start.is_empty() || line_start.ends_with('\n'))
}

/// Whether the info string at this place, after the backticks of a fence, names a language that is not the reply's own.
/// It must be a single word, so that an object or prose in the same line is not taken for one.
fn quotes_material(text: &str, from: usize) -> bool {
    let line = text.get(from..).and_then(|rest| rest.lines().next());
    let info = line.unwrap_or_default().trim();
    let is_word = !info.is_empty() && !info.contains(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | '`'));
    is_word && !TRANSPARENT_FENCES.iter().any(|name| name.eq_ignore_ascii_case(info))
}

/// The place after the closing line of a fence. `from` is where its info string begins.
fn fence_end(text: &str, from: usize, ticks: usize) -> Option<usize> {
    let mut end = from;
    for line in text.get(from..)?.split_inclusive('\n') {
        end += line.len();
        if closes_fence(line, ticks) {
            return Some(end);
        }
    }
    None
}

/// Whether a line closes a fence that this many backticks opened.
fn closes_fence(line: &str, ticks: usize) -> bool {
    let fence = line.trim_start_matches(' ');
    let rest = fence.trim_start_matches('`');
    line.len() - fence.len() <= 3 && fence.len() - rest.len() >= ticks && rest.trim().is_empty()
}

/// A piece of the reply from a brace to the brace that closes it.
struct Candidate<'r> {
    text: &'r str,
    /// How deep its braces and brackets nest.
    depth: usize,
    /// Whether a tag that closes a thought stands in it outside its strings. Then it is not JSON, and it began in a
    /// thought that the template of the model opened.
    ends_thought: bool,
}

impl<'r> Candidate<'r> {
    /// The candidate whose opening brace is at this place, or nothing if that brace is never closed.
    fn at(text: &'r str, from: usize) -> Option<Self> {
        let (mut braces, mut brackets, mut depth) = (0_usize, 0_usize, 0);
        let mut ends_thought = false;
        let mut last = b' ';
        let mut at = from;
        while let Some(here) = byte(text, at) {
            let mut end = at + 1;
            match here {
                b'"' | b'\'' if opens_string(here, last) => end = Quoted::at(text, at)?.end,
                b'{' => braces += 1,
                b'[' => brackets += 1,
                b']' => brackets = brackets.saturating_sub(1),
                b'}' if braces <= 1 => {
                    let text = text.get(from..end)?;
                    return Some(Self { text, depth, ends_thought });
                }
                b'}' => braces -= 1,
                b'<' => ends_thought |= Tag::at(text, at).is_some_and(|tag| tag.closes),
                _ => {}
            }
            depth = depth.max(braces + brackets);
            if !is_blank(here) {
                last = here;
            }
            at = end;
        }
        None
    }

    /// What the candidate is, if need be after a repair.
    fn object(&self) -> Object<'r> {
        if self.depth > DEEPEST {
            return broken(Problem::TooDeep);
        }
        if let Ok(outline) = serde_json::from_str::<Outline>(self.text) {
            return outline.object(Cow::Borrowed(self.text));
        }
        if let Some(text) = repair(self.text)
            && let Ok(outline) = serde_json::from_str::<Outline>(&text)
        {
            return outline.object(Cow::Owned(text));
        }
        broken(Problem::NotJson)
    }
}

/// An object with this problem.
fn broken(problem: Problem) -> Object<'static> {
    Object::Broken { problem }
}

/// Whether a quote opens a string. A single quote does so only where a key or a value may begin; elsewhere it is an
/// apostrophe. `last` is the last byte before it that is not blank.
fn opens_string(quote: u8, last: u8) -> bool {
    quote == b'"' || matches!(last, b'{' | b'[' | b',' | b':')
}

/// A string in a candidate.
struct Quoted {
    end: usize,
    /// Whether another quote stands inside, so that the writer may have meant another end.
    doubtful: bool,
}

impl Quoted {
    /// The string whose opening quote is at this place, or nothing if it is never closed.
    fn at(text: &str, from: usize) -> Option<Self> {
        let quote = byte(text, from)?;
        let mut doubtful = false;
        let mut at = from + 1;
        loop {
            let here = byte(text, at)?;
            at += 1;
            if here == b'\\' {
                at += 1;
            } else if here == quote {
                // An apostrophe inside a word is no end; the end of a string stands before a mark of JSON.
                if quote == b'"' || matches!(next_solid(text, at), Some(b',' | b':' | b'}' | b']')) {
                    return Some(Self { end: at, doubtful });
                }
                doubtful = true;
            }
        }
    }
}

/// Repairs the faults that have only one meaning: a comma before a closing brace or bracket, single-quoted strings
/// in an object without double quotes, and raw control characters inside strings. It never drops or adds a key or a
/// value. The result may still not be JSON.
fn repair(text: &str) -> Option<String> {
    let quote = if text.contains('"') { b'"' } else { b'\'' };
    let mut repaired = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    let mut last = b' ';
    while let Some(here) = byte(text, at) {
        let mut end = at + 1;
        match here {
            b'"' | b'\'' => {
                let string = Quoted::at(text, at)?;
                if here != quote || string.doubtful {
                    return None;
                }
                end = string.end;
                repaired.push_str(text.get(copied..at)?);
                push_string(&mut repaired, text.get(at + 1..end - 1)?, quote);
                copied = end;
            }
            b',' if is_trailing_comma(text, at, last) => {
                repaired.push_str(text.get(copied..at)?);
                copied = end;
            }
            _ => {}
        }
        if !is_blank(here) {
            last = here;
        }
        at = end;
    }
    repaired.push_str(text.get(copied..)?);
    Some(repaired)
}

/// Whether a comma stands between a value and a closing mark. Without a value before it, as in `[,]`, a value may be
/// missing, and that is not ours to decide.
fn is_trailing_comma(text: &str, at: usize, last: u8) -> bool {
    !matches!(last, b'{' | b'[' | b',' | b':') && matches!(next_solid(text, at + 1), Some(b'}' | b']'))
}

/// Adds the inside of a string that this quote closed, now with double quotes and without raw control characters.
fn push_string(json: &mut String, inside: &str, quote: u8) {
    json.push('"');
    let mut copied = 0;
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, here)) = bytes.next() {
        // What follows a backslash is passed: a raw line break there is a riddle, and the parser is left to refuse it.
        let drops_backslash = here == b'\\' && matches!(bytes.next(), Some((_, b'\''))) && quote == b'\'';
        if drops_backslash || here < b' ' {
            json.push_str(inside.get(copied..at).unwrap_or_default());
            copied = at + 1;
        }
        if here < b' ' {
            push_control(json, here);
        }
    }
    json.push_str(inside.get(copied..).unwrap_or_default());
    json.push('"');
}

/// Adds a control character as JSON writes it.
fn push_control(json: &mut String, control: u8) {
    match control {
        b'\n' => json.push_str("\\n"),
        b'\r' => json.push_str("\\r"),
        b'\t' => json.push_str("\\t"),
        _ => {
            json.push_str(if control < 16 { "\\u000" } else { "\\u001" });
            json.push(char::from_digit(u32::from(control % 16), 16).unwrap_or_default());
        }
    }
}

/// The top level of a parsed object, as far as a call needs it.
#[derive(Default)]
struct Outline {
    tool: Option<Value>,
    args: Option<Value>,
    /// Whether there are other keys than `tool`, `args` and remarks.
    loose: bool,
    /// Whether `tool` or `args` occurs twice.
    repeated: bool,
}

impl Outline {
    /// What the object is. `text` is its source, owned if and only if it was repaired.
    fn object(self, text: Cow<'_, str>) -> Object<'_> {
        let repaired = matches!(text, Cow::Owned(_));
        if self.repeated {
            return broken(Problem::RepeatedKey);
        }
        match self.tool {
            None => Object::Final { text, repaired },
            Some(Value::String(tool)) => match arguments(self.args, self.loose) {
                Ok(args) => Object::Call { tool, args, repaired },
                Err(problem) => broken(problem),
            },
            Some(_) => broken(Problem::ToolNotText),
        }
    }
}

/// The arguments of a call. Some models write them as JSON inside a string, which has only one meaning.
fn arguments(args: Option<Value>, loose: bool) -> Result<Map<String, Value>, Problem> {
    match args {
        None if loose => Err(Problem::LooseArguments),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(args)) => Ok(args),
        Some(Value::String(text)) => serde_json::from_str(&text).map_err(|_| Problem::ArgsTextNotJson),
        Some(_) => Err(Problem::ArgsNotObject),
    }
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OutlineVisitor)
    }
}

struct OutlineVisitor;

impl<'de> Visitor<'de> for OutlineVisitor {
    type Value = Outline;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline, A::Error> {
        let mut outline = Outline::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "tool" if outline.tool.is_none() => outline.tool = Some(map.next_value()?),
                "args" if outline.args.is_none() => outline.args = Some(map.next_value()?),
                other => {
                    outline.repeated |= matches!(other, "tool" | "args");
                    outline.loose |= !REMARKS.contains(&other);
                    map.next_value::<Checked>()?;
                }
            }
        }
        Ok(outline)
    }
}

/// A value that is parsed as strictly as a [`Value`] but not kept. serde's `IgnoredAny` would let numbers out of range
/// and lone surrogates pass, and the caller could then not parse the final answer it is given.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}
