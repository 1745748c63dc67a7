//! Front matter without a YAML parser: where it stands, which entries it has, and what they say when they are asked.
//!
//! Thousands of skills are listed at every start, and most of what is asked of them is two or three one-line values.
//! So a file is only cut into entries, in one pass and with one allocation; a value is read when it is asked for.
//! Because every entry is read alone, a broken one never hurts its neighbours.

pub(super) mod block;
mod flow;
pub(super) mod lines;
pub(super) mod scalar;
mod split;
pub(super) mod yaml;

use std::borrow::Cow;

use super::value::FrontMatterValue;
use block::Oddity;
use lines::{Conflict, KeyLine, KeyStyle, Line, Lines, bom_length, slice};
use scalar::Head;

/// The keys that the specification knows.
pub(super) const KNOWN_KEYS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// One top-level entry, by offsets into the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where the line of the key begins.
    pub(super) start: usize,
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
    pub(super) fn new(key: KeyLine, line: Line, sides: Conflict) -> Self {
        Entry {
            start: line.start,
            key,
            indent: line.indent,
            sides,
            head_end: line.end,
            next_line: line.next,
            end: line.end,
        }
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
    /// With `---` further right than the opening fence.
    Indented,
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
    /// Where in a merge conflict the front matter ends; outside, unless the conflict was never closed.
    pub(super) sides: Conflict,
}

impl FrontMatter {
    /// Finds and splits the front matter of a file.
    pub(super) fn locate(text: &str) -> Result<FrontMatter, Absence> {
        let first = Lines::between(text, bom_length(text), text.len()).find(|line| !line.is_blank());
        let fence = first.filter(|line| line.content(text) == "---").ok_or(Absence::NoFence)?;
        let found = split::split(text, fence);
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
            FrontMatterValue::Text(value) => Some(Cow::Owned(value)),
            FrontMatterValue::Null | FrontMatterValue::List(_) | FrontMatterValue::Map(_) => None,
        }
    }

    /// The value of an entry.
    pub(super) fn value(&self, text: &str, entry: &Entry) -> FrontMatterValue {
        if let Some(value) = entry.one_line(text) {
            return value.map_or(FrontMatterValue::Null, |value| FrontMatterValue::Text(value.into_owned()));
        }
        if !entry.is_multi_line()
            && let Ok(flow) = flow::read(entry.head(text))
        {
            return flow.value;
        }
        self.read(text, entry).0
    }

    /// The value of an entry, with everything that was odd about it.
    pub(super) fn read(&self, text: &str, entry: &Entry) -> (FrontMatterValue, Vec<Oddity>) {
        let is_small = self.end - self.fence.next <= yaml::MAX_BYTES;
        let parser = if is_small { block::Parser::Allowed } else { block::Parser::Forbidden };
        block::read(text, entry, self.end, parser)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_and_escaped_keys_are_found_by_name() {
        let text = "---\n\"na\\u006de\": a\n'it''s': b\n---\n";
        let found = FrontMatter::locate(text).unwrap();
        assert_eq!(found.text(text, "name").as_deref(), Some("a"));
        assert_eq!(found.text(text, "it's").as_deref(), Some("b"));
    }
}
