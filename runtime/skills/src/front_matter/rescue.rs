//! What real front matter gets wrong, put right line by line until a YAML parser reads it.
//!
//! Text that YAML refuses (`Use when: asked`, `@team`, `"so" called`) gets a [`Mark`] where YAML takes offence, which
//! makes it a text over one line or several. Tabs and missing columns become spaces. The second of two like keys is left
//! out. Nothing of the text itself changes, and everything that was put right is noted as an [`Oddity`].

use std::collections::BTreeSet;

use super::Entry;
use super::bounds::flow_extent;
use super::lines::{KeyLine, Line, slice};
use super::mark::Mark;
use super::scalar::{self, Flaw, Head};
use super::values::ALONE;
use super::yaml;

/// Something in a value that needed leniency, or that other readers refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OddityKind {
    UnquotedColon,
    AliasOrTag,
    DuplicateKey(String),
    FlowStyle,
    /// A tab outside quotes, which the parser minds less than others do.
    Tab,
    /// Nested deeper than is read.
    TooDeep,
    /// Refused by YAML, for this reason.
    Malformed(String),
}

impl OddityKind {
    /// Whether a text that YAML accepts cannot have it.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, OddityKind::Malformed(_) | OddityKind::UnquotedColon | OddityKind::DuplicateKey(_))
    }

    /// Whether it may be why YAML refuses a value.
    pub(crate) fn explains_a_refusal(&self) -> bool {
        self.is_refused() || matches!(self, OddityKind::AliasOrTag | OddityKind::Tab)
    }
}

/// An oddity and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Oddity {
    pub(crate) kind: OddityKind,
    pub(crate) offset: usize,
}

/// An entry that was put right.
pub(crate) struct Rescued {
    /// A text in which the entry is called [`ALONE`].
    pub(crate) text: String,
    pub(crate) mark: Mark,
    pub(crate) oddities: Vec<Oddity>,
}

/// Puts an entry right, whose value goes on in these lines.
pub(crate) fn rescue(text: &str, entry: &Entry, below: &[Line]) -> Rescued {
    let end = below.last().map_or(entry.head_end, |line| line.next.max(entry.head_end));
    let mark = Mark::absent_from(slice(text, entry.key.value, end));
    let column = entry.indent;
    let mut rescue = Rescue {
        text,
        mark,
        lines: below,
        at: 0,
        out: format!("{:column$}{ALONE}:", ""),
        awaits: None,
        maps: Vec::new(),
        oddities: Vec::new(),
    };
    rescue.head(Span { start: entry.key.value, end: entry.head_end }, column);
    while let Some(line) = rescue.lines.get(rescue.at) {
        rescue.line(*line);
    }
    Rescued { text: rescue.out, mark, oddities: rescue.oddities }
}

/// A stretch of one line.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

struct Rescue<'a> {
    text: &'a str,
    mark: Mark,
    lines: &'a [Line],
    /// The line that comes next.
    at: usize,
    out: String,
    /// The column of a key or dash whose value stands on the next lines.
    awaits: Option<usize>,
    /// The block maps that are open, by their column, with their keys.
    maps: Vec<(usize, BTreeSet<&'a str>)>,
    oddities: Vec<Oddity>,
}

impl<'a> Rescue<'a> {
    fn note(&mut self, kind: OddityKind, offset: usize) {
        self.oddities.push(Oddity { kind, offset });
    }

    /// Takes a line on which no value is open.
    fn line(&mut self, line: Line) {
        self.at += 1;
        if line.is_blank() || line.is_comment(self.text) {
            return self.out.push('\n');
        }
        if line.is_tabbed(self.text) {
            self.note(OddityKind::Tab, line.start);
        }
        self.maps.retain(|(column, _)| *column <= line.indent);
        self.spaces(line.indent);
        let mut inner = line;
        let mut column = self.awaits.take().unwrap_or(line.indent.saturating_sub(1));
        while inner.is_item(self.text) {
            column = inner.indent;
            self.out.push('-');
            inner = inner.behind_dash(self.text);
            self.spaces(inner.indent - column - 1);
        }
        let Some(key) = KeyLine::read(self.text, inner) else {
            return self.head(Span { start: inner.content, end: inner.end }, column);
        };
        let name = slice(self.text, key.key_start, key.key_end);
        if !self.is_new(name, inner.indent) {
            self.note(OddityKind::DuplicateKey(name.to_owned()), inner.content);
            self.skip_value(inner.indent);
            return self.out.push('\n');
        }
        if slice(self.text, key.key_end, key.value).contains('\t') {
            self.note(OddityKind::Tab, line.start);
        }
        self.out.push_str(slice(self.text, inner.content, key.colon + 1));
        self.head(Span { start: key.value, end: inner.end }, inner.indent);
    }

    /// Adds a key to the map in this column; `false` if it has the key.
    fn is_new(&mut self, name: &'a str, column: usize) -> bool {
        match self.maps.last_mut() {
            Some((at, keys)) if *at == column => keys.insert(name),
            _ => {
                self.maps.push((column, BTreeSet::from([name])));
                true
            }
        }
    }

    /// Leaves out the lines of a key's value.
    fn skip_value(&mut self, column: usize) {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|line| line.is_blank() || line.indent > column).count();
    }

    /// Takes a value from what stands behind its key or dash; `column` is that of the key or dash.
    fn head(&mut self, head: Span, column: usize) {
        let text = slice(self.text, head.start, head.end);
        self.out.push(' ');
        if has_tab(self.text, if text.starts_with(['"', '\'']) { head.end } else { head.start }) {
            self.note(OddityKind::Tab, head.start);
        }
        let found = scalar::read(text);
        match found {
            Head::Empty => {
                self.awaits = Some(column);
                self.out.push('\n');
            }
            Head::Block => self.block(text, column),
            Head::Flow => self.flow(head, column),
            Head::OpenQuote => self.open_quote(head, column),
            Head::Scalar { .. } | Head::Flawed(_) => self.scalar(head, found, column),
        }
    }

    /// Takes a scalar without a bracket or an open quote, and the lines it goes on in.
    fn scalar(&mut self, head: Span, found: Head, column: usize) {
        let text = slice(self.text, head.start, head.end);
        let rest = self.continuation(column);
        let flaw = match found {
            // A sign in a place that is rare may be one to the parser too.
            Head::Flawed(Flaw::AliasOrTag) => Some(OddityKind::AliasOrTag),
            Head::Flawed(Flaw::Malformed) if yaml::has_any_sign(text) => Some(OddityKind::AliasOrTag),
            Head::Flawed(Flaw::Colon) => Some(OddityKind::UnquotedColon),
            Head::Flawed(Flaw::Malformed) => Some(malformed("the value starts or ends in a way YAML does not allow")),
            _ if text.starts_with(['"', '\'']) => self.quoted_flaw(text, rest),
            _ => self.bare_flaw(rest),
        };
        self.text_lines(text, rest, column, flaw.is_none());
        if let Some(kind) = flaw {
            self.note(kind, head.start);
        }
    }

    /// What is wrong with a value that is in quotes on its first line.
    fn quoted_flaw(&self, text: &str, rest: &[Line]) -> Option<OddityKind> {
        let goes_on = rest.iter().any(|line| !line.is_blank() && !line.is_comment(self.text));
        if goes_on {
            return Some(malformed("text stands behind the closing quote"));
        }
        (!self.is_read(text)).then(|| malformed("the quotes hold an escape that YAML does not know"))
    }

    /// What is wrong with a bare value whose first line is sound.
    fn bare_flaw(&self, rest: &[Line]) -> Option<OddityKind> {
        if rest.iter().any(|line| colons(line.content(self.text)).next().is_some()) {
            return Some(OddityKind::UnquotedColon);
        }
        let goes_on_behind_a_comment = rest
            .iter()
            .skip_while(|line| !line.is_comment(self.text))
            .any(|line| !line.is_blank() && !line.is_comment(self.text));
        goes_on_behind_a_comment.then(|| malformed("a comment stands inside the value"))
    }

    /// Whether the parser reads a value by itself.
    fn is_read(&self, value: &str) -> bool {
        yaml::parse(&format!("{ALONE}: {value}\n"), 0).is_ok()
    }

    /// Takes the lines that a value goes on in: those further right than its key, and those that are neither a key nor
    /// an item, which are sentences that were wrapped without indentation.
    fn continuation(&mut self, column: usize) -> &'a [Line] {
        let rest = self.reach(column);
        self.at += rest.len();
        rest
    }

    /// The same lines without taking them.
    fn reach(&self, column: usize) -> &'a [Line] {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        let belongs = |line: &&Line| {
            let starts_anew = || line.is_item(self.text) || KeyLine::read(self.text, **line).is_some();
            line.is_blank() || line.indent > column || !(line.is_comment(self.text) || starts_anew())
        };
        rest.get(..rest.iter().take_while(belongs).count()).unwrap_or_default()
    }

    /// Writes a text over one line or several; one that is not sound is marked until it is.
    fn text_lines(&mut self, first: &str, rest: &[Line], column: usize, is_sound: bool) {
        if is_sound {
            self.out.push_str(first);
        } else {
            self.out.push(self.mark.sign());
            self.marked(first);
        }
        self.out.push('\n');
        for line in rest {
            if !line.is_blank() {
                self.spaces(line.indent.max(column + 1));
                let content = line.content(self.text);
                if is_sound { self.out.push_str(content) } else { self.marked(content) }
            }
            self.out.push('\n');
        }
    }

    /// Writes a line with marks where YAML would see more in it than text.
    fn marked(&mut self, line: &str) {
        let mut done = 0;
        let comments = line.match_indices('#').map(|(at, _)| at).filter(|at| is_after_blank(line, *at));
        let mut places: Vec<usize> = colons(line).map(|at| at + 1).chain(comments).collect();
        places.sort_unstable();
        for at in places {
            self.out.push_str(slice(line, done, at));
            self.out.push(self.mark.sign());
            done = at;
        }
        self.out.push_str(slice(line, done, line.len()));
    }

    /// Takes a block scalar, whose lines are text whatever they look like.
    fn block(&mut self, header: &str, column: usize) {
        let rest = self.continuation(column);
        let first = rest.iter().find(|line| !line.is_blank()).map_or(0, |line| line.indent);
        self.out.push_str(header);
        self.out.push('\n');
        for line in rest {
            if line.indent > column && !line.is_tabbed(self.text) {
                self.out.push_str(slice(self.text, line.start, line.next));
            } else {
                self.spaces(if line.indent > column { line.indent } else { first.max(column + 1) });
                self.out.push_str(slice(self.text, line.content, line.next));
            }
        }
        self.end_line();
    }

    fn flow(&mut self, head: Span, column: usize) {
        self.note(OddityKind::FlowStyle, head.start);
        let rest = self.reach(column);
        let extent = flow_extent(slice(self.text, head.start, last_end(head, rest)));
        if extent.is_some_and(|extent| extent.has_sign) {
            self.note(OddityKind::AliasOrTag, head.start);
        }
        match extent.and_then(|extent| self.lines_to(head, head.start + extent.end, rest)) {
            Some(count) => self.collected(head, count, column),
            None => self.unclosed(head, column, "its brackets are not closed"),
        }
    }

    fn open_quote(&mut self, head: Span, column: usize) {
        let rest = self.reach(column);
        let length = scalar::quoted_end(slice(self.text, head.start, last_end(head, rest)));
        match length.and_then(|length| self.lines_to(head, head.start + length, rest)) {
            Some(count) => self.collected(head, count, column),
            None => self.unclosed(head, column, "its quote is not closed"),
        }
    }

    /// How many further lines a value takes that ends at an offset; `None` if its last line goes on with
    /// more than a comment.
    fn lines_to(&self, head: Span, end: usize, rest: &[Line]) -> Option<usize> {
        let count = rest.iter().take_while(|line| line.start < end).count();
        let last = match count.checked_sub(1) {
            Some(last) => rest.get(last)?.end,
            None => head.end,
        };
        scalar::is_rest_empty(slice(self.text, end, last)).then_some(count)
    }

    /// Writes a value in brackets or quotes that ends after so many lines, each line right of its key. One that the
    /// parser refuses by itself is a text.
    fn collected(&mut self, head: Span, count: usize, column: usize) {
        let first = slice(self.text, head.start, head.end);
        let rest = self.lines.get(self.at..self.at + count).unwrap_or_default();
        self.at += count;
        let mut alone = format!("{ALONE}: {first}\n");
        for line in rest {
            alone.push_str(&format!(" {}\n", line.content(self.text)));
        }
        let is_sound = yaml::parse(&alone, 0);
        if let Err(failure) = &is_sound {
            let reason = match failure {
                yaml::Failure::Invalid { message, .. } => message.clone(),
                yaml::Failure::Refused(_) => "it is nested too deep".to_owned(),
            };
            self.note(OddityKind::Malformed(reason), head.start);
        } else if rest.iter().any(|line| !line.is_blank() && line.indent <= column) {
            self.note(malformed("the value is not indented"), head.start);
        }
        self.text_lines(first, rest, column, is_sound.is_ok());
    }

    fn unclosed(&mut self, head: Span, column: usize, reason: &str) {
        self.note(malformed(reason), head.start);
        let rest = self.continuation(column);
        self.text_lines(slice(self.text, head.start, head.end), rest, column, false);
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }

    fn end_line(&mut self) {
        if !self.out.ends_with(['\n', '\r']) {
            self.out.push('\n');
        }
    }
}

fn malformed(reason: &str) -> OddityKind {
    OddityKind::Malformed(reason.to_owned())
}

/// Where a value ends at the latest that goes on in these lines.
fn last_end(head: Span, rest: &[Line]) -> usize {
    rest.last().map_or(head.end, |line| line.end)
}

/// Whether a tab stands between an offset and the end of its line.
fn has_tab(text: &str, start: usize) -> bool {
    let rest = text.as_bytes().iter().skip(start);
    rest.take_while(|byte| !matches!(byte, b'\n' | b'\r')).any(|byte| *byte == b'\t')
}

fn is_after_blank(line: &str, at: usize) -> bool {
    at > 0 && slice(line, at - 1, at).ends_with([' ', '\t'])
}

/// The colons that YAML would take for the end of a key.
fn colons(line: &str) -> impl Iterator<Item = usize> {
    let ends_key = |at: &usize| matches!(line.as_bytes().get(at + 1), None | Some(b' ' | b'\t'));
    line.match_indices(':').map(|(at, _)| at).filter(ends_key)
}

#[cfg(test)]
mod tests {
    use super::super::FrontMatter;
    use super::super::values;
    use super::*;

    /// The value of the only entry, as JSON.
    fn json(entry: &str) -> String {
        let text = format!("---\n{entry}\n---\n");
        let found = FrontMatter::locate(&text).unwrap();
        assert_eq!(found.values.len(), 1, "{entry}");
        serde_json::to_string(&found.values[0]).unwrap()
    }

    fn kinds(entry: &str) -> Vec<OddityKind> {
        let text = format!("---\n{entry}\n---\n");
        let found = FrontMatter::locate(&text).unwrap();
        let all = values::oddities(&text, &found).into_iter().flat_map(|(_, oddities)| oddities);
        all.map(|oddity| oddity.kind).collect()
    }

    #[test]
    fn text_that_yaml_refuses_is_kept_as_it_was_written() {
        for text in [
            "Use when: asked # or not",
            "@team",
            "`code` first",
            "\"so\" called",
            "100%: all",
            "a: b: c:",
            "[open",
            "- x",
        ] {
            let value = serde_json::to_string(text).unwrap();
            assert_eq!(json(&format!("a: {text}")), value);
            assert_eq!(json(&format!("a:\n  b: {text}\n  c: 1.0")), format!("{{\"b\":{value},\"c\":\"1.0\"}}"));
            assert_eq!(
                json(&format!("a:\n- 'x'\n- {text}")),
                match text {
                    // In a list these are a map and a list.
                    "Use when: asked # or not" => "[\"x\",{\"Use when\":\"asked\"}]".to_owned(),
                    "100%: all" => "[\"x\",{\"100%\":\"all\"}]".to_owned(),
                    "a: b: c:" => "[\"x\",{\"a\":\"b: c:\"}]".to_owned(),
                    "- x" => "[\"x\",[\"x\"]]".to_owned(),
                    _ => format!("[\"x\",{value}]"),
                }
            );
        }
    }

    #[test]
    fn text_over_several_lines_is_folded_whatever_stands_in_it() {
        assert_eq!(json("a: one: two\n  three: four # five"), "\"one: two three: four # five\"");
        assert_eq!(json("a: \"one\ntwo\""), "\"one two\"");
        assert_eq!(
            json("a: one\ntwo: not a key here".replace("two: ", "two, ").as_str()),
            "\"one two, not a key here\""
        );
        assert_eq!(json("a: |\n  one\ntwo"), "\"one\\ntwo\\n\"");
        assert_eq!(kinds("a:\n    |2\n  - !x\n  - y"), []);
    }

    #[test]
    fn the_second_of_two_like_keys_is_left_out_with_all_its_lines() {
        let entry = "a:\n  k: 1\n  l:\n  - x: 1\n  - x: 2\n  k:\n    m: 3\n  n: 4";
        assert_eq!(json(entry), r#"{"k":"1","l":[{"x":"1"},{"x":"2"}],"n":"4"}"#);
        assert_eq!(kinds(entry), [OddityKind::DuplicateKey("k".to_owned())]);
    }

    #[test]
    fn tabs_are_spaces_but_for_those_in_text() {
        assert_eq!(json("a:\n\tb: c\n\td:\te\tf"), r#"{"b":"c","d":"e\tf"}"#);
        assert!(kinds("a:\n\tb: c").iter().all(|kind| *kind == OddityKind::Tab));
    }

    #[test]
    fn a_value_that_nothing_helps_is_its_lines() {
        assert_eq!(json("a: b\n- c\n- d"), "\"b - c - d\"");
        assert_eq!(json(&format!("a: {}", "[".repeat(100))), format!("\"{}\"", "[".repeat(100)));
        assert_eq!(kinds(&format!("a: {}", "[".repeat(100))), [OddityKind::TooDeep]);
    }
}
