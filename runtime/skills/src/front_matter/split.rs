//! Splits front matter into entries, line by line.
//!
//! One pass goes to the closing fence. Where there is none, a second and warier one takes key lines for as long as
//! they cannot be the body.

use super::lines::{Conflict, KeyLine, Line, Lines, byte, slice};
use super::scalar::{self, Head};
use super::{Closing, Entry, FrontMatter, KNOWN_KEYS};

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

/// Splits the front matter that begins with `fence`.
pub(crate) fn split(text: &str, fence: Line) -> FrontMatter {
    let found = Splitter::new(text, fence).split_to_fence();
    found.unwrap_or_else(|| Splitter::new(text, fence).split_key_lines())
}

struct Splitter<'a> {
    text: &'a str,
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
            sides: Conflict::default(),
            values: Vec::new(),
        };
        Splitter { text, found }
    }

    /// Splits up to the closing fence; `None` if there is none.
    fn split_to_fence(mut self) -> Option<FrontMatter> {
        let mut is_after_blank = false;
        // Prose after a blank line is a body whose front matter was never closed, and the next `---` in it a mere
        // rule, unless a key that belongs into front matter still follows.
        let mut is_in_prose = false;
        for line in Lines::between(self.text, self.found.fence.next, self.text.len()) {
            if let Some(closing) = self.closing(line) {
                return (!is_in_prose).then(|| self.close(line, closing));
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

    /// Splits up to the first line that cannot be front matter, or to a closing fence that is wrongly indented.
    fn split_key_lines(mut self) -> FrontMatter {
        let mut is_after_blank = false;
        for line in Lines::between(self.text, self.found.fence.next, self.text.len()) {
            if line.content(self.text) == "---" && !self.is_in_block(line) {
                return self.close(line, Closing::Indented);
            }
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

    fn close(mut self, line: Line, closing: Closing) -> FrontMatter {
        self.found.end = line.start;
        self.found.body = line.next;
        self.found.closing = closing;
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
        if self.found.sides.skips(text, line) {
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
            Kind::Entry(key) => self.found.entries.push(Entry::new(*key, line, self.found.sides)),
            Kind::EntryWithoutSpace(key) => {
                self.found.missing_space.get_or_insert(line.start);
                self.found.entries.push(Entry::new(*key, line, self.found.sides));
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

    /// Whether a line is part of the block scalar above it, whatever it looks like.
    fn is_in_block(&self, line: Line) -> bool {
        let head = self.found.entries.last().map_or("", |last| last.head(self.text));
        let column = self.found.entries.first().map_or(0, |first| first.indent);
        line.indent > column && scalar::read(head) == Head::Block
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
    use crate::front_matter::Absence;

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
        assert_eq!(body("---\nname: a\n ---\nbody"), "body");
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
}
