//! Finds the JSON objects that a language model wrote in a plain-text reply.
//!
//! A reply is prose, thoughts, fenced code and, somewhere in it, objects: tool calls `{"tool": name, "args": {...}}`,
//! calls in the notation of other harnesses, and final answers (any other object). This module returns all of them in
//! the order of the text and leaves to its caller which one is legal now. What it returns may be executed, so every
//! doubt ends in fewer objects, never in more: nothing inside a thought, a quoted fence, an unclosed object or a broken
//! object is looked at again.
//!
//! The text is walked once, from left to right. A candidate object is parsed at most twice: as it stands and after
//! its repair. So the time is linear in the length of the reply, whatever the reply is.

use std::borrow::Cow;

use serde_json::{Map, Value};

mod comments;
mod edition;
mod foreign;
mod outline;
mod repair;
#[cfg(test)]
mod tests;

pub use edition::Edition;
pub use foreign::ForeignCall;

use comments::{Comments, comment_end, odd_blank};
use foreign::{Announced, Speaks};
use outline::Outline;

/// The most objects that one reading returns, calls not counted.
pub const MOST_OBJECTS: usize = 32;

/// The most prose braces that are open at once and still watched.
const MOST_OPEN: usize = 1_024;

/// The deepest nesting that is parsed. It is the limit of `serde_json`, so that its own stack is never at risk.
const DEEPEST: usize = 127;

/// The names of the tags around thoughts, in lower case.
const THOUGHTS: [&str; 3] = ["think", "thinking", "reasoning"];

/// Fences with these info strings hold the reply itself. A fence with any other info string quotes something.
const TRANSPARENT_FENCES: [&str; 7] = ["json", "jsonc", "json5", "tool", "tool_call", "tool_code", "text"];

/// What a reply holds.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedReply<'r> {
    /// The objects in the order of the text: all calls, and at most [`MOST_OBJECTS`] others.
    pub objects: Vec<Object<'r>>,
    /// How the reply ended.
    pub end: ReplyEnd,
    /// How many more objects were not looked at. It counts closed candidates, so some of them may not be JSON.
    pub left_out: usize,
    /// The tools of calls that are the whole of a fence that quotes. They are not made, and may not be passed over.
    pub quoted: Vec<String>,
}

impl ParsedReply<'_> {
    /// Nobody can use what had to be repaired.
    pub fn refuse_repaired(&mut self) {
        for object in &mut self.objects {
            if object.is_repaired() {
                *object = Object::Broken { problem: ObjectProblem::NotJson };
            }
        }
    }
}

/// One object of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Object<'r> {
    /// A call of a tool, `{"tool": …, "args": …}`.
    Call {
        /// The name of the tool, exactly as written.
        tool: String,
        /// The arguments, empty where the call had none.
        args: Map<String, Value>,
        /// Whether the text had to be repaired to be JSON.
        repaired: bool,
    },
    /// A call in the notation of another harness, if it names a tool that is there.
    Foreign {
        /// The calls it stands for, at least one.
        calls: Vec<ForeignCall>,
        /// The final answer that it is where it names no such tool; nothing where it can only be a call.
        otherwise: Option<Cow<'r, str>>,
        /// Whether the text had to be repaired to be JSON.
        repaired: bool,
    },
    /// Any other object, which may be the final answer.
    Final {
        /// The exact bytes of the reply where they are strict JSON, the repaired text otherwise.
        text: Cow<'r, str>,
        /// Whether the text had to be repaired to be JSON.
        repaired: bool,
    },
    /// An object that nobody can use.
    Broken {
        /// What is wrong with it.
        problem: ObjectProblem,
    },
}

impl Object<'_> {
    /// Whether the text had to be repaired to be JSON.
    pub fn is_repaired(&self) -> bool {
        match self {
            Self::Call { repaired, .. } | Self::Foreign { repaired, .. } | Self::Final { repaired, .. } => *repaired,
            Self::Broken { .. } => false,
        }
    }
}

/// How a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// Nothing was left open.
    Clean,
    /// An object or a quoted fence was opened and never closed, or the backend cut the reply.
    Truncated,
    /// A thought was opened and never closed.
    InThought,
}

/// What is wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectProblem {
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
    /// A key occurs twice inside the arguments.
    RepeatedArgument,
    /// It stands in the markup of a call that is not written in JSON.
    ForeignMarkup,
    /// It stands in a fence that quotes.
    Quoted,
    /// It is nested deeper than a parser can follow.
    TooDeep,
}

impl ObjectProblem {
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
            Self::RepeatedArgument => {
                r#"A key occurs twice inside "args", and only one of the two could be used: write each key once."#
            }
            Self::ForeignMarkup => {
                r#"Calls are plain JSON here, without tags: write {"tool": "name", "args": {...}} and nothing else."#
            }
            Self::Quoted => {
                r#"A call stands in a code fence, which quotes it, so it was not made: write {"tool": "name", "args": {...}} by itself to make it, or the final answer without it."#
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
pub fn read(reply: &str, cut: bool) -> ParsedReply<'_> {
    read_as(reply, cut, Edition::Second)
}

/// The same, by the rules of an edition.
#[must_use]
pub fn read_as(reply: &str, cut: bool, edition: Edition) -> ParsedReply<'_> {
    // A byte order mark would hide that a fence stands at the start of the first line.
    let text = reply.strip_prefix('\u{feff}').unwrap_or(reply);
    let end = if cut { ReplyEnd::Truncated } else { ReplyEnd::Clean };
    let mut scan = Scan {
        text,
        edition,
        candidates: Vec::new(),
        end,
        left_out: 0,
        open: Vec::new(),
        open_beyond: 0,
        enclosed: Vec::new(),
        quoted: Vec::new(),
        unclosed: false,
        comments: Comments::default(),
    };
    if cut {
        return scan.reading();
    }
    let mut at = 0;
    while let Some(here) = byte(text, at) {
        at = match here {
            b'{' => scan.pass_brace(at),
            b'}' => scan.pass_closing_brace(at),
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

/// What a brace opens.
enum BraceKind {
    /// An object, or what was meant to be one.
    Object,
    /// Something that was meant to be an object and cannot be read: its keys have no quotes.
    Unreadable,
    /// Prose or code. Two braces that follow each other are a template's way to write one.
    Prose { doubled: bool },
}

/// A brace of prose that is open.
struct OpenBrace {
    from: usize,
    /// How many candidates were there before it.
    before: usize,
    /// Whether what is inside it cannot be an answer, even if it is never closed.
    unreadable: bool,
    doubled: bool,
}

/// The walk over one reply. Each step takes the place of the byte it looks at and returns where the walk goes on.
struct Scan<'r> {
    text: &'r str,
    edition: Edition,
    /// What may become objects. They are parsed at the end, so that none is parsed only to be forgotten.
    candidates: Vec<Candidate<'r>>,
    end: ReplyEnd,
    left_out: usize,
    /// Braces of prose that are open, and how many more.
    open: Vec<OpenBrace>,
    open_beyond: usize,
    /// Candidates inside braces of prose, from and to.
    enclosed: Vec<(usize, usize)>,
    /// Objects that are the whole of a fence that quotes.
    quoted: Vec<Candidate<'r>>,
    /// Whether something unreadable was never closed: then nothing after it is looked for its end.
    unclosed: bool,
    comments: Comments,
}

impl<'r> Scan<'r> {
    /// Passes an object, or one brace that does not begin an object.
    fn pass_brace(&mut self, at: usize) -> usize {
        match self.opening(at) {
            BraceKind::Object => {
                if let Some(candidate) = Candidate::at(self.text, at, self.edition) {
                    let end = at + candidate.text.len();
                    self.keep(candidate);
                    return end;
                }
                self.end = ReplyEnd::Truncated;
                self.pass_rest(at)
            }
            BraceKind::Unreadable => {
                let found = if self.unclosed { None } else { Candidate::at(self.text, at, self.edition) };
                match found {
                    // Code is passed over; a call that cannot be read is one. What ends a thought has forgotten what may have
                    // been one.
                    Some(candidate) if !speaks_of_a_call(candidate.text) && !self.is_the_end(&candidate) => {
                        if candidate.ends_thought {
                            self.forget();
                        }
                        at + candidate.text.len()
                    }
                    Some(candidate) => {
                        let end = at + candidate.text.len();
                        self.keep(candidate);
                        end
                    }
                    None => {
                        self.unclosed = true;
                        self.open_brace(at, true, false);
                        at + 1
                    }
                }
            }
            BraceKind::Prose { doubled } => {
                if self.edition != Edition::First {
                    self.open_brace(at, false, doubled);
                }
                at + 1
            }
        }
    }

    /// What the brace at this place opens. `{see below}` and most code is told apart here, so that it cannot swallow
    /// the rest of the reply.
    fn opening(&mut self, at: usize) -> BraceKind {
        if self.edition == Edition::First {
            return match next_solid(self.text, at + 1) {
                Some(b'"' | b'\'' | b'}') => BraceKind::Object,
                _ => BraceKind::Prose { doubled: false },
            };
        }
        let next = self.comments.next_meant(self.text, at + 1);
        match byte(self.text, next) {
            Some(b'"' | b'\'' | b'}') => BraceKind::Object,
            Some(b'{') => BraceKind::Prose { doubled: true },
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$') if is_bare_key(self.text, next) => BraceKind::Unreadable,
            _ => BraceKind::Prose { doubled: false },
        }
    }

    /// Whether code ends a thought, where it is told from code that does not.
    fn is_the_end(&self, candidate: &Candidate<'_>) -> bool {
        self.edition >= Edition::Fourth && candidate.ends_thought
    }

    fn open_brace(&mut self, from: usize, unreadable: bool, doubled: bool) {
        if self.open.len() < MOST_OPEN {
            self.open.push(OpenBrace { from, before: self.candidates.len(), unreadable, doubled });
        } else {
            self.open_beyond += 1;
        }
    }

    /// Passes a brace that closes one of prose. What it encloses is not an answer: it is a piece of something else.
    fn pass_closing_brace(&mut self, at: usize) -> usize {
        if self.open_beyond > 0 {
            self.open_beyond -= 1;
        } else if let Some(brace) = self.open.pop()
            && !brace.doubled
        {
            // The outermost pair alone, so that no place is read for two of them.
            if self.open.is_empty() && self.was_a_call(&brace, at) {
                self.candidates.truncate(brace.before);
                while self.enclosed.pop_if(|(from, _)| *from >= brace.before).is_some() {}
                let text = self.text.get(brace.from..=at).unwrap_or_default();
                self.keep(Candidate { text, from: brace.from, depth: 0, ends_thought: false });
            } else {
                self.enclosed.push((brace.before, self.candidates.len()));
            }
        }
        at + 1
    }

    /// Whether what stands behind a brace up to a place was meant to be a call; objects in it speak for themselves.
    fn was_a_call(&self, brace: &OpenBrace, to: usize) -> bool {
        let mut speaks = Speaks::default();
        let mut from = brace.from;
        for candidate in self.candidates.iter().skip(brace.before) {
            speaks.read(self.text.get(from..candidate.from).unwrap_or_default(), true);
            from = candidate.from + candidate.text.len();
        }
        speaks.read(self.text.get(from..to).unwrap_or_default(), true);
        speaks.of_a_call()
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
        self.end = ReplyEnd::InThought;
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
        let Some(after) = fence_end(self.text, end, ticks) else {
            if self.edition != Edition::First {
                self.end = ReplyEnd::Truncated;
            }
            return self.pass_rest(at);
        };
        if self.edition >= Edition::Fourth {
            self.quoted.extend(Candidate::whole_of_fence(self.text, end, after));
        }
        after
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
        if self.edition != Edition::First || self.candidates.len() < MOST_OBJECTS {
            self.candidates.push(candidate);
        } else {
            self.left_out += 1;
        }
    }

    /// Drops all objects so far, because they were part of a thought.
    fn forget(&mut self) {
        self.candidates.clear();
        self.open.clear();
        self.open_beyond = 0;
        self.enclosed.clear();
        self.quoted.clear();
        self.left_out = 0;
    }

    /// Parses what was found.
    fn reading(mut self) -> ParsedReply<'r> {
        let all = self.candidates.len();
        if self.open.first().is_some_and(|brace| self.was_a_call(brace, self.text.len()))
            && let Some(brace) = self.open.first_mut()
        {
            brace.unreadable = true;
        }
        for brace in self.open.iter().filter(|brace| brace.unreadable) {
            self.enclosed.push((brace.before, all));
            if self.end == ReplyEnd::Clean {
                self.end = ReplyEnd::Truncated;
            }
        }
        // How many more pairs of braces begin than end before each candidate.
        let mut steps = vec![0_isize; all + 1];
        for (from, to) in &self.enclosed {
            for (at, step) in [(*from, 1), (*to, -1)] {
                if let Some(place) = steps.get_mut(at) {
                    *place += step;
                }
            }
        }
        let (mut around, mut others) = (0, 0);
        let mut objects = Vec::new();
        for (candidate, step) in self.candidates.iter().zip(steps) {
            around += step;
            let announced = candidate.announced(self.text, self.edition);
            let mut object = candidate.object(&announced, self.edition);
            // A piece of something else is not an answer.
            let is_piece = around > 0 || announced == Announced::Member;
            match &mut object {
                Object::Call { .. } => {}
                Object::Foreign { otherwise, .. } if is_piece => *otherwise = None,
                Object::Foreign { .. } => {}
                Object::Final { .. } if is_piece => continue,
                Object::Final { .. } | Object::Broken { .. } => {
                    others += 1;
                    if others > MOST_OBJECTS {
                        self.left_out += 1;
                        continue;
                    }
                }
            }
            objects.push(object);
        }
        let quoted = self.quoted.iter().flat_map(|candidate| {
            let announced = candidate.announced(self.text, self.edition);
            match candidate.object(&announced, self.edition) {
                Object::Call { tool, .. } => vec![tool],
                Object::Foreign { calls, .. } => calls.into_iter().map(|call| call.tool).collect(),
                Object::Final { .. } | Object::Broken { .. } => Vec::new(),
            }
        });
        ParsedReply { objects, end: self.end, left_out: self.left_out, quoted: quoted.collect() }
    }
}

/// Whether a key without quotes stands at this place, and a colon behind it.
fn is_bare_key(text: &str, at: usize) -> bool {
    let mut end = at;
    while end - at < 64
        && byte(text, end).is_some_and(|here| here.is_ascii_alphanumeric() || matches!(here, b'_' | b'$' | b'-'))
    {
        end += 1;
    }
    next_solid(text, end) == Some(b':')
}

/// Whether something whose keys have no quotes speaks of a call.
fn speaks_of_a_call(text: &str) -> bool {
    let mut speaks = Speaks::default();
    speaks.read(text, false);
    speaks.of_a_call()
        || ["tool", "args", "arguments", "action_input", "function", "parameters", "params"]
            .iter()
            .any(|word| text.contains(word))
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
    /// Where it begins in the reply.
    from: usize,
    /// How deep its braces and brackets nest.
    depth: usize,
    /// Whether a tag that closes a thought stands in it outside its strings. Then it is not JSON, and it began in a
    /// thought that the template of the model opened.
    ends_thought: bool,
}

impl<'r> Candidate<'r> {
    /// The candidate whose opening brace is at this place, or nothing if that brace is never closed.
    fn at(text: &'r str, from: usize, edition: Edition) -> Option<Self> {
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
                    return Some(Self { text, from, depth, ends_thought });
                }
                b'}' => braces -= 1,
                b'/' | 0x80.. if edition != Edition::First => {
                    if let Some(after) = comment_end(text, at).or_else(|| odd_blank(text, at)) {
                        ends_thought |= thought_end(text.get(..after)?, at, None).is_some();
                        at = after;
                        continue;
                    }
                }
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

    /// The object that a fence holds, from its info string to the end of its closing line, if it holds nothing else but
    /// marks such as `<tool_call>`.
    fn whole_of_fence(text: &'r str, info: usize, end: usize) -> Option<Self> {
        let fence = text.get(..end)?.trim_end();
        let content = fence.trim_end_matches('`');
        let first = info + text.get(info..content.len())?.find('\n')?;
        let from = first + text.get(first..content.len())?.find('{')?;
        let found = Self::at(content, from, Edition::Fourth)?;
        let after = text.get(from + found.text.len()..content.len())?;
        (only_marks(text.get(first..from)?) && only_marks(after)).then_some(found)
    }

    /// What stands around it in the reply and says what it is.
    fn announced(&self, reply: &'r str, edition: Edition) -> Announced<'r> {
        match edition {
            Edition::First => Announced::Nothing,
            Edition::Second | Edition::Third | Edition::Fourth => {
                Announced::around(reply, self.from, self.from + self.text.len())
            }
        }
    }

    /// What the candidate is, if need be after a repair.
    fn object(&self, announced: &Announced<'_>, edition: Edition) -> Object<'r> {
        if self.depth > DEEPEST {
            return broken(ObjectProblem::TooDeep);
        }
        if *announced == Announced::Argument {
            return broken(ObjectProblem::NotJson);
        }
        if let Ok(outline) = serde_json::from_str::<Outline>(self.text) {
            return outline.object(Cow::Borrowed(self.text), announced, edition);
        }
        if let Some(text) = repair::repair(self.text, edition)
            && let Ok(outline) = serde_json::from_str::<Outline>(&text)
        {
            return outline.object(Cow::Owned(text), announced, edition);
        }
        broken(ObjectProblem::NotJson)
    }
}

/// Whether a text is nothing but blanks and marks as `<tool_call>`.
fn only_marks(text: &str) -> bool {
    let mut rest = text.trim();
    while let Some((_, after)) = rest.strip_prefix('<').and_then(|inside| inside.split_once('>')) {
        rest = after.trim_start();
    }
    rest.is_empty()
}

/// An object with this problem.
fn broken(problem: ObjectProblem) -> Object<'static> {
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
                // An apostrophe inside a word ends nothing; the end of a string stands before a mark of JSON.
                if quote == b'"' || matches!(next_solid(text, at), Some(b',' | b':' | b'}' | b']')) {
                    return Some(Self { end: at, doubtful });
                }
                doubtful = true;
            }
        }
    }
}
