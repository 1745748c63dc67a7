//! Splits front matter into its top-level entries without a YAML parser, keeping their byte spans.
//!
//! Thousands of skills are listed at every start, and most of what is asked of them is two or three one-line values.
//! So a file is only cut into entries here, in one pass and with one allocation; a value is read when it is asked for.
//! Because every entry is read alone, a broken one never hurts its neighbours.

use std::borrow::Cow;

use super::block::{self, Oddity};
use super::flow;
use super::lines::{Conflict, KeyLine, KeyStyle, Line, Lines, bom_length, byte, slice};
use super::scalar::{self, Head};
use super::value::Value;
use super::yaml;

/// The keys that the specification knows.
pub(super) const KNOWN_KEYS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// One top-level entry, by offsets into the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: KeyLine,
    /// The column of the key.
    pub(super) indent: usize,
    /// Whether the key stands inside a merge conflict.
    pub(super) sides: Conflict,
    /// The end of what stands on the line of the key.
    pub(super) head_end: usize,
    /// Where the line after the key begins.
    pub(super) next_line: usize,
    /// The end of the entry, without its last line break.
    pub(super) end: usize,
}

impl Entry {
    fn new(key: KeyLine, line: Line, sides: Conflict) -> Self {
        Entry { key, indent: line.indent, sides, head_end: line.end, next_line: line.next, end: line.end }
    }

    /// The key as it was written, without its quotes.
    pub(super) fn key<'a>(&self, text: &'a str) -> &'a str {
        slice(text, self.key.key_start, self.key.key_end)
    }

    /// What stands behind the colon.
    pub(super) fn head<'a>(&self, text: &'a str) -> &'a str {
        slice(text, self.key.value, self.head_end)
    }

    /// Whether the value goes on below the line of the key.
    pub(super) fn is_multi_line(&self) -> bool {
        self.end > self.head_end
    }

    fn is_named(&self, text: &str, key: &str) -> bool {
        let written = self.key(text);
        match self.key.style {
            KeyStyle::Plain => written == key,
            KeyStyle::Single | KeyStyle::Double if !written.contains(['\\', '\'']) => written == key,
            KeyStyle::Single | KeyStyle::Double => {
                let quoted = slice(text, self.key.key_start - 1, self.key.key_end + 1);
                scalar::unquote(quoted).is_ok_and(|(name, _)| name == key)
            }
        }
    }

    /// The value's text if it is one scalar on one line; the outer `None` means that it is not.
    fn one_line<'a>(&self, text: &'a str) -> Option<Option<Cow<'a, str>>> {
        if self.is_multi_line() {
            return None;
        }
        match scalar::read(self.head(text)) {
            Head::Text(value) => Some(Some(value)),
            Head::Flawed(value, _) => Some(Some(Cow::Borrowed(value))),
            Head::Empty | Head::Null => Some(None),
            Head::Flow | Head::Block | Head::OpenQuote => None,
        }
    }
}

/// How the front matter ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// With `---`.
    Dashes,
    /// With `...`.
    Dots,
    /// It does not; the key lines end where something else begins.
    Missing,
}

/// Why a file has no front matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It does not start with a fence.
    NoFence,
    /// It starts with a fence, but no key line follows.
    NoKeys,
}

/// The front matter of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontMatter {
    /// The opening fence line.
    pub(super) fence: Line,
    /// Where the closing fence line begins, or where the key lines end.
    pub(super) end: usize,
    /// Where the body begins.
    pub(super) body: usize,
    pub(super) closing: Closing,
    pub(super) entries: Vec<Entry>,
    /// The first line that belongs to no entry.
    pub(super) stray: Option<usize>,
    /// The first `key:value` without a space.
    pub(super) missing_space: Option<usize>,
    /// The first merge-conflict marker.
    pub(super) conflict: Option<usize>,
}

impl FrontMatter {
    /// Finds and splits the front matter of a file.
    pub(super) fn locate(text: &str) -> Result<FrontMatter, Absence> {
        let first = Lines::between(text, bom_length(text), text.len()).find(|line| !line.is_blank());
        let fence = first.filter(|line| line.content(text) == "---").ok_or(Absence::NoFence)?;
        let found = Splitter::new(text, fence).split_to_fence();
        let found = found.unwrap_or_else(|| Splitter::new(text, fence).split_key_lines());
        let has_text = found.closing == Closing::Missing || found.stray.is_some();
        if found.entries.is_empty() && has_text {
            return Err(Absence::NoKeys);
        }
        Ok(found)
    }

    /// The first entry of this name.
    pub(super) fn entry(&self, text: &str, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_named(text, key))
    }

    /// The text of an entry, if its value is text.
    pub(super) fn text<'a>(&self, text: &'a str, key: &str) -> Option<Cow<'a, str>> {
        let entry = self.entry(text, key)?;
        if let Some(value) = entry.one_line(text) {
            return value;
        }
        match self.read(text, entry).0 {
            Value::Text(value) => Some(Cow::Owned(value)),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The value of an entry.
    pub(super) fn value(&self, text: &str, entry: &Entry) -> Value {
        if let Some(value) = entry.one_line(text) {
            return value.map_or(Value::Null, |value| Value::Text(value.into_owned()));
        }
        if !entry.is_multi_line()
            && let Ok(flow) = flow::read(entry.head(text))
        {
            return flow.value;
        }
        self.read(text, entry).0
    }

    /// The value of an entry, with everything that was odd about it.
    pub(super) fn read(&self, text: &str, entry: &Entry) -> (Value, Vec<Oddity>) {
        let is_small = self.end - self.fence.next <= yaml::MAX_BYTES;
        let parser = if is_small { block::Parser::Allowed } else { block::Parser::Forbidden };
        block::read(text, entry, self.end, parser)
    }
}

/// What a line of front matter is.
enum Kind {
    Blank,
    Comment,
    /// Left out as part of a merge conflict.
    Skipped,
    Entry(KeyLine),
    EntryWithoutSpace(KeyLine),
    /// Belongs to the entry above.
    More,
    Stray,
}

struct Splitter<'a> {
    text: &'a str,
    sides: Conflict,
    found: FrontMatter,
}

impl<'a> Splitter<'a> {
    fn new(text: &'a str, fence: Line) -> Self {
        let found = FrontMatter {
            fence,
            end: fence.next,
            body: fence.next,
            closing: Closing::Missing,
            entries: Vec::with_capacity(8),
            stray: None,
            missing_space: None,
            conflict: None,
        };
        Splitter { text, sides: Conflict::default(), found }
    }

    /// Splits up to the closing fence; `None` if there is none.
    fn split_to_fence(mut self) -> Option<FrontMatter> {
        let mut is_after_blank = false;
        // Prose after a blank line is a body whose front matter was never closed, and the next `---` in it a mere
        // rule, unless a key that belongs into front matter still follows.
        let mut is_in_prose = false;
        for line in Lines::between(self.text, self.found.fence.next, self.text.len()) {
            if let Some(closing) = self.closing(line) {
                self.found.end = line.start;
                self.found.body = line.next;
                self.found.closing = closing;
                return (!is_in_prose).then_some(self.found);
            }
            let kind = self.kind(line);
            match &kind {
                Kind::Stray if is_after_blank => is_in_prose = true,
                Kind::Entry(key) if is_in_prose => {
                    is_in_prose = !KNOWN_KEYS.contains(&slice(self.text, key.key_start, key.key_end));
                }
                _ => {}
            }
            is_after_blank = matches!(kind, Kind::Blank);
            self.take(line, &kind);
        }
        None
    }

    /// Splits up to the first line that cannot be front matter.
    fn split_key_lines(mut self) -> FrontMatter {
        let mut is_after_blank = false;
        for line in Lines::between(self.text, self.found.fence.next, self.text.len()) {
            let kind = self.kind(line);
            let belongs = match &kind {
                Kind::Blank => {
                    is_after_blank = true;
                    continue;
                }
                Kind::Skipped => true,
                Kind::Entry(key) => self.is_word(key, is_after_blank),
                Kind::More => self.goes_on(line, is_after_blank),
                // A comment here is far more likely to be the first heading of the body.
                Kind::Comment | Kind::EntryWithoutSpace(_) | Kind::Stray => false,
            };
            if !belongs {
                break;
            }
            is_after_blank = false;
            self.take(line, &kind);
            self.found.end = line.next;
        }
        self.found.body = self.found.end;
        self.found
    }

    fn closing(&self, line: Line) -> Option<Closing> {
        match line.content(self.text) {
            "---" if line.indent <= self.found.fence.indent => Some(Closing::Dashes),
            "..." if line.indent <= self.found.fence.indent => Some(Closing::Dots),
            _ => None,
        }
    }

    fn kind(&mut self, line: Line) -> Kind {
        let text = self.text;
        if self.sides.skips(text, line) {
            return Kind::Skipped;
        }
        if line.is_blank() {
            return Kind::Blank;
        }
        let last = self.found.entries.last();
        // The first key sets the column; whatever stands further right belongs to the key above it.
        if self.found.entries.first().is_some_and(|first| line.indent > first.indent) {
            let is_inside = last.is_some_and(|last| last.is_multi_line() || is_open(last.head(text)));
            return if line.is_comment(text) && !is_inside { Kind::Comment } else { Kind::More };
        }
        if line.is_comment(text) {
            return Kind::Comment;
        }
        if let Some(key) = KeyLine::read(text, line) {
            return Kind::Entry(key);
        }
        let closes = matches!(byte(text, line.content), b']' | b'}');
        if last.is_some_and(|last| line.is_item(text) || (closes && starts_flow(last.head(text)))) {
            return Kind::More;
        }
        KeyLine::read_without_space(text, line).map_or(Kind::Stray, Kind::EntryWithoutSpace)
    }

    fn take(&mut self, line: Line, kind: &Kind) {
        match kind {
            Kind::Blank | Kind::Comment => {}
            Kind::Skipped => {
                self.found.conflict.get_or_insert(line.start);
            }
            Kind::Entry(key) => self.found.entries.push(Entry::new(*key, line, self.sides)),
            Kind::EntryWithoutSpace(key) => {
                self.found.missing_space.get_or_insert(line.start);
                self.found.entries.push(Entry::new(*key, line, self.sides));
            }
            Kind::More | Kind::Stray => {
                if matches!(kind, Kind::Stray) {
                    self.found.stray.get_or_insert(line.start);
                }
                // A stray line is most often a sentence that was wrapped without indentation.
                if let Some(last) = self.found.entries.last_mut() {
                    last.end = line.end;
                }
            }
        }
    }

    /// Whether a key in unclosed front matter is one, and not the first words of a sentence.
    fn is_word(&self, key: &KeyLine, is_after_blank: bool) -> bool {
        let name = slice(self.text, key.key_start, key.key_end);
        let mut letters = name.bytes();
        let first = letters.next().unwrap_or(0);
        let starts_well = if is_after_blank { first.is_ascii_lowercase() } else { first.is_ascii_alphabetic() };
        starts_well && letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    }

    /// Whether a line in unclosed front matter still belongs to the entry above.
    fn goes_on(&self, line: Line, is_after_blank: bool) -> bool {
        let head = self.found.entries.last().map_or("", |last| last.head(self.text));
        let is_open = matches!(scalar::read(head), Head::Empty | Head::Block);
        let is_item_of_key_above = self.found.entries.first().is_some_and(|first| line.indent <= first.indent);
        is_open || !(is_after_blank || is_item_of_key_above)
    }
}

fn starts_flow(head: &str) -> bool {
    matches!(byte(head, 0), b'[' | b'{')
}

/// Whether a value must go on below, so that a line that looks like a comment may be part of it.
fn is_open(head: &str) -> bool {
    matches!(scalar::read(head), Head::Block | Head::OpenQuote | Head::Flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(&str, &str)> {
        let found = FrontMatter::locate(text).unwrap();
        let span = |entry: &Entry| slice(text, entry.key.value, entry.end);
        found.entries.iter().map(|entry| (entry.key(text), span(entry))).collect()
    }

    fn body(text: &str) -> &str {
        let found = FrontMatter::locate(text).unwrap();
        slice(text, found.body, text.len())
    }

    #[test]
    fn entries_are_cut_at_the_keys_of_the_first_column() {
        let text = "---\nname: a\n# note\ntags:\n- x\n- y\n\nmeta:\n  k: |\n    # kept\n  l: 1\n---\nbody";
        assert_eq!(entries(text), [("name", "a"), ("tags", "\n- x\n- y"), ("meta", "\n  k: |\n    # kept\n  l: 1")]);
        assert_eq!(body(text), "body");
    }

    #[test]
    fn fences_may_be_dotted_padded_or_follow_blank_lines() {
        assert_eq!(body("\n \n--- \nname: a\n---\t\nbody"), "body");
        assert_eq!(body("---\r\nname: a\r\n...\r\nbody"), "body");
        assert_eq!(body("  ---\n  name: a\n  ---\nbody"), "body");
        assert_eq!(entries("---\rname: a\r---\rbody"), [("name", "a")]);
    }

    #[test]
    fn unclosed_front_matter_ends_where_the_body_begins() {
        assert_eq!(body("---\nname: a\ntags:\n  - x\n\n# Title\nprose"), "\n# Title\nprose");
        assert_eq!(body("---\nname: a\n# Title\n"), "# Title\n");
        assert_eq!(body("---\nname: a\n\nversion: 1\n\nNote: prose"), "\nNote: prose");
        assert_eq!(body("---\nname: a\n- step"), "- step");
    }

    #[test]
    fn a_rule_further_down_does_not_close_front_matter() {
        let text = "---\nname: a\n\n# Title\n\nSome prose.\n\n---\n\nMore.";
        assert_eq!(entries(text), [("name", "a")]);
        assert_eq!(body(text), "\n# Title\n\nSome prose.\n\n---\n\nMore.");
        let text = "---\nname: a\n\nlost words\ndescription: b\n---\nbody";
        assert_eq!(body(text), "body");
    }

    #[test]
    fn wrapped_text_without_indentation_belongs_to_the_key_above() {
        let text = "---\ndescription: one\ntwo three\nname: a\n---\n";
        assert_eq!(entries(text), [("description", "one\ntwo three"), ("name", "a")]);
    }

    #[test]
    fn a_fence_without_keys_is_no_front_matter() {
        for text in ["---", "---\n", "---\n\nprose", "---\nprose\n---\nmore"] {
            assert_eq!(FrontMatter::locate(text), Err(Absence::NoKeys), "{text:?}");
        }
        assert_eq!(FrontMatter::locate("prose"), Err(Absence::NoFence));
        assert_eq!(FrontMatter::locate(""), Err(Absence::NoFence));
        assert!(FrontMatter::locate("---\n# note\n---\n").is_ok());
    }

    #[test]
    fn the_first_side_of_a_merge_conflict_is_read() {
        let text = "---\nname: a\n<<<<<<< HEAD\nlicense: x\n=======\nlicense: y\n>>>>>>> b\n---\n";
        assert_eq!(entries(text), [("name", "a"), ("license", "x")]);
    }

    #[test]
    fn quoted_and_escaped_keys_are_found_by_name() {
        let text = "---\n\"na\\u006de\": a\n'it''s': b\n---\n";
        let found = FrontMatter::locate(text).unwrap();
        assert_eq!(found.text(text, "name").as_deref(), Some("a"));
        assert_eq!(found.text(text, "it's").as_deref(), Some("b"));
    }
}
