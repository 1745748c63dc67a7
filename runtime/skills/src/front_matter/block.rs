//! Reads one entry whose value is more than a scalar on one line.
//!
//! Maps and lists are taken apart here, level by level, so that their scalars stay as they were written and an odd one
//! stays alone; only leaves that need YAML's folding rules (block scalars, text over several lines) go through the
//! parser, each by itself. What the parser refuses is quoted and tried again, and failing that read line by line.
//! Everything that needed leniency is noted as an [`Oddity`].

use std::collections::{BTreeMap, btree_map};

use super::Entry;
use super::flow::{self, FlowError};
use super::lines::{KeyLine, KeyStyle, Line, Lines, byte, slice};
use super::scalar::{self, Flaw, Head};
use super::yaml::{self, Failure, MAX_DEPTH};
use crate::value::FrontMatterValue;

/// Whether the YAML parser may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parser {
    Allowed,
    /// The front matter is too large for it.
    Forbidden,
}

/// Something in a value that needed leniency, or that other readers refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OddityKind {
    UnquotedColon,
    AliasOrTag,
    DuplicateKey(String),
    FlowStyle,
    /// A tab outside quotes, which the reader minds less than others do.
    Tab,
    /// Nested deeper than is read.
    TooDeep,
    /// Refused by YAML, for this reason.
    Malformed(String),
}

/// An oddity and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Oddity {
    pub(crate) kind: OddityKind,
    pub(crate) offset: usize,
}

/// Reads the value of `entry`; `limit` is the end of the front matter.
pub(crate) fn read(text: &str, entry: &Entry, limit: usize, parser: Parser) -> (FrontMatterValue, Vec<Oddity>) {
    let mut reader = Reader { text, parser, oddities: Vec::new() };
    let lines = lines_below(text, entry, limit);
    let head = Span { start: entry.key.value, end: entry.head_end };
    let value = reader.node(head, &lines, entry.indent, 0);
    let is_refused = |oddity: &Oddity| matches!(oddity.kind, OddityKind::Malformed(_) | OddityKind::UnquotedColon);
    let has_signs = reader.oddities.iter().any(|oddity| oddity.kind == OddityKind::AliasOrTag);
    if !has_signs && reader.oddities.iter().any(is_refused) {
        // This reader knows a part of YAML; what it finds odd may still be sound.
        if let Ok(value) = reader.parse(&reader.cut_out(head, &lines, entry.indent)) {
            reader.oddities.retain(|oddity| !is_refused(oddity));
            return (value, reader.oddities);
        }
    }
    (value, reader.oddities)
}

/// The lines below the key, with the blank lines that a kept line break needs and without conflict markers.
fn lines_below(text: &str, entry: &Entry, limit: usize) -> Vec<Line> {
    let mut sides = entry.sides;
    let below = Lines::between(text, entry.next_line, limit);
    below
        .take_while(|line| line.start <= entry.end || line.is_blank())
        .filter(|line| line.start >= entry.next_line && !sides.skips(text, *line))
        .collect()
}

/// Whether a tab stands between an offset and the end of its line.
fn has_tab(text: &str, start: usize) -> bool {
    let rest = text.as_bytes().iter().skip(start);
    rest.take_while(|byte| !matches!(byte, b'\n' | b'\r')).any(|byte| *byte == b'\t')
}

/// A stretch of one line.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

/// A value cut out as the map `{k: value, z: null}`.
struct Alone {
    text: String,
    content: Content,
}

/// What a cut-out value can hold, which decides how carefully it is handed to the parser.
enum Content {
    /// One scalar and nothing else.
    Scalar,
    Any,
}

struct Reader<'a> {
    text: &'a str,
    parser: Parser,
    oddities: Vec<Oddity>,
}

impl<'a> Reader<'a> {
    fn note(&mut self, kind: OddityKind, offset: usize) {
        self.oddities.push(Oddity { kind, offset });
    }

    fn malformed(&mut self, reason: &str, offset: usize) {
        self.note(OddityKind::Malformed(reason.to_owned()), offset);
    }

    fn is_content(&self, line: &Line) -> bool {
        !line.is_blank() && !line.is_comment(self.text)
    }

    /// Reads a value from what stands behind its key or dash and from the lines below; `column` is that of the key.
    fn node(&mut self, head: Span, below: &[Line], column: usize, depth: usize) -> FrontMatterValue {
        let text = slice(self.text, head.start, head.end);
        let has_more = below.iter().any(|line| self.is_content(line));
        let is_quoted = text.starts_with(['"', '\'']);
        if has_tab(self.text, if is_quoted { head.end } else { head.start }) {
            self.note(OddityKind::Tab, head.start);
        }
        match scalar::read(text) {
            Head::Empty => self.block(below, column, depth),
            Head::Null if !has_more => FrontMatterValue::Null,
            Head::Text(value) if !has_more => FrontMatterValue::Text(value.into_owned()),
            Head::Flow => self.flow(head, below, column),
            Head::Flawed(value, Flaw::Colon) if !has_more => {
                self.note(OddityKind::UnquotedColon, head.start);
                FrontMatterValue::Text(value.to_owned())
            }
            Head::Flawed(value, Flaw::Malformed) if !has_more => {
                self.malformed("the value starts or ends in a way YAML does not allow", head.start);
                FrontMatterValue::Text(value.to_owned())
            }
            Head::Flawed(_, Flaw::AliasOrTag) => {
                self.note(OddityKind::AliasOrTag, head.start);
                FrontMatterValue::Text(self.line_by_line(head, below))
            }
            Head::Block | Head::OpenQuote | Head::Null | Head::Text(_) | Head::Flawed(..) => {
                self.leaf(head, below, column)
            }
        }
    }

    /// Reads a value that stands wholly on the lines below its key or dash.
    fn block(&mut self, below: &[Line], column: usize, depth: usize) -> FrontMatterValue {
        let Some(first) = below.iter().position(|line| self.is_content(line)) else {
            return FrontMatterValue::Null;
        };
        let (Some(line), Some(lines), Some(rest)) = (below.get(first), below.get(first..), below.get(first + 1..))
        else {
            return FrontMatterValue::Null;
        };
        if line.is_tabbed(self.text) {
            self.note(OddityKind::Tab, line.start);
        }
        let span = Span { start: line.content, end: line.end };
        let is_map = KeyLine::read(self.text, *line).is_some();
        let is_list = line.is_item(self.text);
        // A list may stand in the column of its key; everything else stands further right.
        if line.indent < column || (line.indent == column && !is_list) {
            self.malformed("the value is not indented", line.start);
        }
        if !is_map && !is_list {
            return self.node(span, rest, column, depth);
        }
        if depth >= MAX_DEPTH {
            self.note(OddityKind::TooDeep, line.content);
            return FrontMatterValue::Text(self.line_by_line(span, rest));
        }
        if is_map { self.map(lines, line.indent, depth) } else { self.list(lines, line.indent, depth) }
    }

    fn map(&mut self, lines: &[Line], indent: usize, depth: usize) -> FrontMatterValue {
        let mut map = BTreeMap::new();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let begins = |line: &Line| line.indent <= indent && KeyLine::read(self.text, *line).is_some();
            let length = 1 + lines.iter().skip(at + 1).take_while(|line| !begins(line)).count();
            let below = lines.get(at + 1..at + length).unwrap_or_default();
            at += length;
            let Some(key) = KeyLine::read(self.text, *line) else {
                continue;
            };
            if line.indent != indent {
                self.malformed("the keys of one map are not in one column", line.start);
            }
            if slice(self.text, key.key_end, key.value).contains('\t') {
                self.note(OddityKind::Tab, line.start);
            }
            let head = Span { start: key.value, end: line.end };
            let value = self.node(head, below, indent, depth + 1);
            let name = self.key_name(key);
            match map.entry(name) {
                btree_map::Entry::Vacant(place) => {
                    place.insert(value);
                }
                btree_map::Entry::Occupied(first) => {
                    self.note(OddityKind::DuplicateKey(first.key().clone()), line.content);
                }
            }
        }
        FrontMatterValue::Map(map)
    }

    fn key_name(&self, key: KeyLine) -> String {
        let written = slice(self.text, key.key_start, key.key_end);
        let unquoted = match key.style {
            KeyStyle::Plain => None,
            KeyStyle::Single | KeyStyle::Double => {
                scalar::unquote(slice(self.text, key.key_start - 1, key.key_end + 1)).ok()
            }
        };
        unquoted.map_or_else(|| written.to_owned(), |(name, _)| name.into_owned())
    }

    fn list(&mut self, lines: &[Line], indent: usize, depth: usize) -> FrontMatterValue {
        let mut items = Vec::new();
        let mut at = 0;
        while let Some(line) = lines.get(at) {
            let begins = |line: &Line| line.indent <= indent && line.is_item(self.text);
            let length = 1 + lines.iter().skip(at + 1).take_while(|line| !begins(line)).count();
            let below = lines.get(at + 1..at + length).unwrap_or_default();
            at += length;
            if line.indent != indent {
                self.malformed("the items of one list are not in one column", line.start);
            }
            items.push(self.item(*line, below, depth));
        }
        FrontMatterValue::List(items)
    }

    fn item(&mut self, line: Line, below: &[Line], depth: usize) -> FrontMatterValue {
        let after_dash = slice(self.text, line.content + 1, line.end);
        let start = line.end - after_dash.trim_start_matches([' ', '\t']).len();
        let inner = Line { start, content: start, indent: line.indent + (start - line.content), ..line };
        let is_collection = KeyLine::read(self.text, inner).is_some() || inner.is_item(self.text);
        if inner.is_blank() || !is_collection {
            let head = Span { start, end: line.end };
            return self.node(head, below, line.indent, depth + 1);
        }
        // `- key: value` opens a map on the line of the dash.
        let mut lines = vec![inner];
        lines.extend_from_slice(below);
        self.block(&lines, line.indent, depth + 1)
    }

    fn flow(&mut self, head: Span, below: &[Line], column: usize) -> FrontMatterValue {
        self.note(OddityKind::FlowStyle, head.start);
        let last = below.iter().rfind(|line| !line.is_blank());
        let end = last.map_or(head.end, |line| line.end);
        let flow = match flow::read(slice(self.text, head.start, end)) {
            Ok(flow) => flow,
            Err(FlowError::AliasOrTag) => {
                self.note(OddityKind::AliasOrTag, head.start);
                return FrontMatterValue::Text(self.line_by_line(head, below));
            }
            Err(FlowError::Unusual) => return self.leaf(head, below, column),
        };
        if let Some(key) = flow.duplicate {
            self.note(OddityKind::DuplicateKey(key), head.start);
        } else if below.iter().any(|line| !line.is_blank() && line.indent <= column)
            && let Err(reason) = self.parse(&self.cut_out(head, below, column))
        {
            // The value is clear, but YAML wants every line of it further right than its key.
            self.malformed(&reason, head.start);
        }
        flow.value
    }

    /// Reads a scalar over several lines, or anything else that has no inner structure for this reader.
    fn leaf(&mut self, head: Span, below: &[Line], column: usize) -> FrontMatterValue {
        let reason = match self.parse(&self.cut_out(head, below, column)) {
            Ok(value) => return value,
            Err(reason) => reason,
        };
        let text = self.line_by_line(head, below);
        if !matches!(scalar::read(&text), Head::Flawed(_, Flaw::Colon)) {
            // Front matter that is too large is reported as such, once.
            if self.parser == Parser::Allowed {
                self.malformed(&reason, head.start);
            }
            return FrontMatterValue::Text(text);
        }
        self.note(OddityKind::UnquotedColon, head.start);
        let quoted = self.cut_out_quoted(head, below, column);
        self.parse(&quoted).unwrap_or(FrontMatterValue::Text(text))
    }

    /// Asks the YAML parser about a value that was cut out.
    fn parse(&self, alone: &Alone) -> Result<FrontMatterValue, String> {
        if self.parser == Parser::Forbidden {
            return Err("the front matter is too large for the YAML parser".to_owned());
        }
        let parsed = match alone.content {
            Content::Scalar => yaml::parse_scalar(&alone.text),
            Content::Any if yaml::may_hold_signs(&alone.text) => Err(Failure::Refused),
            Content::Any => yaml::parse(&alone.text),
        };
        match parsed {
            Ok(FrontMatterValue::Map(mut map)) if map.len() == 2 => map.remove("k").ok_or_else(String::new),
            Ok(_) => Err("it reads as something else than one value".to_owned()),
            Err(Failure::Invalid { message, .. }) => Err(message),
            Err(Failure::Refused) => Err("it is nested too deep, or may hold an anchor, alias or tag".to_owned()),
        }
    }

    /// Cuts out a value as a YAML text of its own, in the columns in which it stands.
    fn cut_out(&self, head: Span, below: &[Line], column: usize) -> Alone {
        let mut text = format!("{:column$}k: {}\n", "", slice(self.text, head.start, head.end));
        for line in below {
            text.push_str(slice(self.text, line.start, line.next));
        }
        self.close(text, head, below, column)
    }

    /// The same with the value in quotes, for text that YAML refuses because of its colons.
    fn cut_out_quoted(&self, head: Span, below: &[Line], column: usize) -> Alone {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let first = escape(slice(self.text, head.start, head.end));
        let mut text = format!("{:column$}k: \"{first}", "");
        for line in below {
            text.push('\n');
            text.push_str(&escape(slice(self.text, line.start, line.end)));
        }
        text.push('"');
        self.close(text, head, below, column)
    }

    fn close(&self, mut text: String, head: Span, below: &[Line], column: usize) -> Alone {
        if !text.ends_with(['\n', '\r']) {
            text.push('\n');
        }
        // The parser treats an empty block scalar at the end of its text unlike any other; so this is not the end.
        text.push_str(&format!("{:column$}z:\n", ""));
        // A value that does not start a collection, and whose lines all stand right of its key, cannot hold one.
        let is_inside = below.iter().all(|line| !self.is_content(line) || line.indent > column);
        let first = byte(slice(self.text, head.start, head.end), 0);
        let content = match first {
            0 | b'#' | b'[' | b'{' | b'&' | b'*' | b'!' => Content::Any,
            _ if is_inside => Content::Scalar,
            _ => Content::Any,
        };
        Alone { text, content }
    }

    /// The text of a value with no regard to YAML: its lines joined, with line breaks only where it says `|`.
    fn line_by_line(&self, head: Span, below: &[Line]) -> String {
        let first = slice(self.text, head.start, head.end);
        let lines = below.iter().filter(|line| !line.is_blank());
        if scalar::read(first) == Head::Block {
            let joint = if first.starts_with('|') { "\n" } else { " " };
            return lines.map(|line| line.content(self.text)).collect::<Vec<_>>().join(joint);
        }
        let joined = std::iter::once(first).chain(lines.map(|line| line.content(self.text)));
        let joined = joined.collect::<Vec<_>>().join(" ");
        match scalar::unquote(&joined) {
            Ok((value, length)) if length == joined.len() => value.into_owned(),
            _ => joined,
        }
    }
}
