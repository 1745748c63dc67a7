//! Lines of front matter: where they start and end, and whether they begin a `key: value` entry.
//!
//! Offsets are bytes into the whole file, so that an entry can later be replaced without touching its neighbours.

const BOM: &str = "\u{feff}";

/// The part of `text` between two byte offsets; empty when they do not name one.
pub(crate) fn slice(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).unwrap_or_default()
}

/// The length of the byte order mark at the start of `text`, if there is one.
pub(crate) fn bom_length(text: &str) -> usize {
    if text.starts_with(BOM) { BOM.len() } else { 0 }
}

/// The byte at an offset; 0 past the end, which no readable document contains.
pub(crate) fn byte(text: &str, at: usize) -> u8 {
    text.as_bytes().get(at).copied().unwrap_or(0)
}

/// Whether a byte separates words within a line.
pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether a byte ends a word, a line or the text.
pub(crate) fn is_gap(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

/// One line, by offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Where the line begins.
    pub(crate) start: usize,
    /// Where its first character that is not blank stands; `end` in a blank line.
    pub(crate) content: usize,
    /// Past its last character that is not blank.
    pub(crate) end: usize,
    /// Where the next line begins.
    pub(crate) next: usize,
    /// The column of `content`, which differs from the offset when the line is what follows a list dash.
    pub(crate) indent: usize,
}

impl Line {
    pub(crate) fn is_blank(&self) -> bool {
        self.content == self.end
    }

    pub(crate) fn content<'a>(&self, text: &'a str) -> &'a str {
        slice(text, self.content, self.end)
    }

    pub(crate) fn is_comment(&self, text: &str) -> bool {
        byte(text, self.content) == b'#' && !self.is_blank()
    }

    /// Whether this line begins an item of a block list.
    pub(crate) fn is_item(&self, text: &str) -> bool {
        byte(text, self.content) == b'-' && !self.is_blank() && is_gap(byte(text, self.content + 1))
    }

    /// What stands behind the dash of an item, as a line of its own in its own column.
    pub(crate) fn behind_dash(&self, text: &str) -> Line {
        let after_dash = slice(text, self.content + 1, self.end);
        let start = self.end - after_dash.trim_start_matches([' ', '\t']).len();
        Line { start, content: start, indent: self.indent + (start - self.content), ..*self }
    }

    /// Whether a tab stands in the indentation.
    pub(crate) fn is_tabbed(&self, text: &str) -> bool {
        !self.is_blank() && slice(text, self.start, self.content).contains('\t')
    }
}

/// The lines of a stretch of text; `\n`, `\r\n` and a lone `\r` all end a line.
pub(crate) struct Lines<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn between(text: &'a str, start: usize, end: usize) -> Self {
        Lines { text, at: start, end: end.min(text.len()) }
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        if self.at >= self.end {
            return None;
        }
        let start = self.at;
        let rest = self.text.as_bytes().get(start..self.end)?;
        let length = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
        let line = rest.get(..length)?;
        let lead = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(length);
        let used = line.iter().rposition(|byte| !is_blank(*byte)).map_or(lead, |last| last + 1);
        let line_break = match (rest.get(length), rest.get(length + 1)) {
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(_), _) => 1,
            (None, _) => 0,
        };
        self.at = start + length + line_break;
        Some(Line { start, content: start + lead, end: start + used, next: self.at, indent: lead })
    }
}

/// How a key was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyStyle {
    Plain,
    Single,
    Double,
}

/// A line that begins an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyLine {
    pub(crate) style: KeyStyle,
    /// The key without its quotes.
    pub(crate) key_start: usize,
    pub(crate) key_end: usize,
    /// Where the colon stands.
    pub(crate) colon: usize,
    /// Where the value begins on this line; the end of the line when there is none.
    pub(crate) value: usize,
}

impl KeyLine {
    /// Reads `line` as `key: value` the way YAML does.
    pub(crate) fn read(text: &str, line: Line) -> Option<KeyLine> {
        let bytes = text.as_bytes().get(line.content..line.end)?;
        let first = *bytes.first()?;
        match first {
            b'"' | b'\'' => Self::read_quoted(bytes, first, line),
            b'[' | b']' | b'{' | b'}' | b',' | b'&' | b'*' | b'!' | b'|' | b'>' | b'%' | b'@' | b'`' | b'#' => None,
            b'-' | b'?' | b':' if bytes.get(1).is_none_or(|next| is_blank(*next)) => None,
            _ => Self::read_plain(bytes, line),
        }
    }

    /// Reads `key:value`, which YAML does not take for an entry but whose author surely meant one.
    pub(crate) fn read_without_space(text: &str, line: Line) -> Option<KeyLine> {
        let content = line.content(text);
        let (key, value) = content.split_once(':')?;
        let is_word = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let starts_well = key.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        // `https://…` is an address and `std::fmt` a path.
        if !is_word || !starts_well || value.starts_with("//") || value.starts_with(':') {
            return None;
        }
        Some(Self::plain_at(line, key.len(), key.len()))
    }

    fn read_plain(bytes: &[u8], line: Line) -> Option<KeyLine> {
        let mut previous = 0u8;
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b':' if bytes.get(at + 1).is_none_or(|next| is_blank(*next)) => {
                    let head = bytes.get(..at)?;
                    let key = head.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
                    return Some(Self::plain_at(line, key, at).skip_blanks(bytes, line));
                }
                b'#' if is_blank(previous) => return None,
                _ => previous = *byte,
            }
        }
        None
    }

    fn plain_at(line: Line, key: usize, colon: usize) -> KeyLine {
        KeyLine {
            style: KeyStyle::Plain,
            key_start: line.content,
            key_end: line.content + key,
            colon: line.content + colon,
            value: line.content + colon + 1,
        }
    }

    fn read_quoted(bytes: &[u8], quote: u8, line: Line) -> Option<KeyLine> {
        let mut at = 1;
        let close = loop {
            match *bytes.get(at)? {
                b'\\' if quote == b'"' => at += 2,
                byte if byte == quote && quote == b'\'' && bytes.get(at + 1) == Some(&quote) => at += 2,
                byte if byte == quote => break at,
                _ => at += 1,
            }
        };
        let rest = bytes.get(close + 1..)?;
        let colon = close + 1 + rest.iter().position(|byte| !is_blank(*byte))?;
        let is_key = bytes.get(colon) == Some(&b':') && bytes.get(colon + 1).is_none_or(|next| is_blank(*next));
        is_key.then(|| {
            KeyLine {
                style: if quote == b'"' { KeyStyle::Double } else { KeyStyle::Single },
                key_start: line.content + 1,
                key_end: line.content + close,
                colon: line.content + colon,
                value: line.content + colon + 1,
            }
            .skip_blanks(bytes, line)
        })
    }

    fn skip_blanks(mut self, bytes: &[u8], line: Line) -> KeyLine {
        while bytes.get(self.value - line.content).is_some_and(|byte| is_blank(*byte)) {
            self.value += 1;
        }
        self
    }
}

/// Where in a merge conflict a line stands, for readers that take the first side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Not between conflict markers: every line counts.
    #[default]
    Outside,
    /// On the side that is taken.
    First,
    /// On a side that is left out.
    Second,
}

impl Conflict {
    /// Moves past one line; says whether the line is to be left out.
    pub(crate) fn skips(&mut self, text: &str, line: Line) -> bool {
        let marker = match byte(text, line.start) {
            first @ (b'<' | b'|' | b'=' | b'>') => is_marker(text, line, first).then_some(first),
            _ => None,
        };
        match (*self, marker) {
            (Conflict::Outside, Some(b'<')) => *self = Conflict::First,
            (Conflict::First, Some(b'|' | b'=')) => *self = Conflict::Second,
            (Conflict::First | Conflict::Second, Some(b'>')) => *self = Conflict::Outside,
            (Conflict::Second, _) => {}
            _ => return false,
        }
        true
    }
}

fn is_marker(text: &str, line: Line, sign: u8) -> bool {
    let bytes = text.as_bytes().get(line.start..line.end).unwrap_or_default();
    bytes.len() >= 7
        && bytes.iter().take(7).all(|byte| *byte == sign)
        && bytes.get(7).is_none_or(|byte| is_blank(*byte))
}

/// Line numbers for byte offsets, built once for a whole report.
pub(crate) struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    pub(crate) fn new(text: &str) -> Self {
        LineIndex { starts: Lines::between(text, 0, text.len()).map(|line| line.start).collect() }
    }

    /// The number of the line that holds an offset, counted from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).max(1)
    }

    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(line: &str) -> Option<(&str, &str)> {
        let at = Lines::between(line, 0, line.len()).next().unwrap();
        let found = KeyLine::read(line, at)?;
        Some((slice(line, found.key_start, found.key_end), slice(line, found.value, at.end)))
    }

    #[test]
    fn every_kind_of_line_break_ends_a_line() {
        let text = "a\nb\r\nc\rd";
        let lines: Vec<&str> = Lines::between(text, 0, text.len()).map(|line| line.content(text)).collect();
        assert_eq!(lines, ["a", "b", "c", "d"]);
        let index = LineIndex::new(text);
        assert_eq!([0, 2, 5, 7, 99].map(|at| index.line(at)), [1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_key_line_is_what_yaml_takes_for_one() {
        assert_eq!(key("name: x"), Some(("name", "x")));
        assert_eq!(key("  name :  x "), Some(("name", "x")));
        assert_eq!(key("name:"), Some(("name", "")));
        assert_eq!(key("\"a: b\": c"), Some(("a: b", "c")));
        assert_eq!(key("'it''s': c"), Some(("it''s", "c")));
        assert_eq!(key("a:b: c"), Some(("a:b", "c")));
        assert_eq!(key("-a: c"), Some(("-a", "c")));
        for line in ["name:x", "# a: b", "- a: b", "? a: b", "a #: b", "[a: b]", "\"a\":b", "\"a: b", "*a : b", " "] {
            assert_eq!(key(line), None, "{line}");
        }
    }

    #[test]
    fn a_key_without_a_space_is_recognised_unless_it_is_an_address() {
        let read = |line: &str| {
            let at = Lines::between(line, 0, line.len()).next().unwrap();
            KeyLine::read_without_space(line, at).map(|found| slice(line, found.value, at.end).to_owned())
        };
        assert_eq!(read("name:x"), Some("x".to_owned()));
        assert_eq!(read("https://example.org"), None);
        assert_eq!(read("std::fmt"), None);
        assert_eq!(read("some prose:x"), None);
    }

    #[test]
    fn the_first_side_of_a_conflict_is_kept() {
        let text = "a\n<<<<<<< HEAD\nb\n||||||| base\nc\n=======\nd\n>>>>>>> other\ne\n=======\n";
        let mut conflict = Conflict::default();
        let kept: Vec<&str> = Lines::between(text, 0, text.len())
            .filter(|line| !conflict.skips(text, *line))
            .map(|line| line.content(text))
            .collect();
        assert_eq!(kept, ["a", "b", "e", "======="]);
    }
}
