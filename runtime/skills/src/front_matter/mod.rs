//! Front matter: where it stands, which entries it has, and what they say.
//!
//! Lines are cut into entries first, so that an entry can be replaced without touching its neighbours. The values are
//! those of the YAML parser, which gets the whole block behind [`bounds`]; what it refuses is read entry by entry, so that
//! a broken one does not hurt the others, and what is refused even so goes through a [`rescue`] line by line.

mod bounds;
pub(super) mod lines;
mod mark;
mod rescue;
pub(super) mod scalar;
mod split;
pub(super) mod values;
pub(super) mod yaml;

use std::borrow::Cow;

use super::value::FrontMatterValue;
use lines::{Conflict, KeyLine, KeyStyle, Line, Lines, bom_length, slice};

use bounds::Bound;
pub(super) use bounds::{MAX_BYTES, MAX_DEPTH};
pub(super) use rescue::{Oddity, OddityKind};

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

    /// The key as YAML reads it.
    pub(super) fn name<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let written = self.key(text);
        match self.key.style {
            KeyStyle::Plain => Cow::Borrowed(written),
            KeyStyle::Single | KeyStyle::Double if !written.contains(['\\', '\'']) => Cow::Borrowed(written),
            KeyStyle::Single | KeyStyle::Double => {
                let quoted = slice(text, self.key.key_start - 1, self.key.key_end + 1);
                values::unquoted(quoted).map_or(Cow::Borrowed(written), Cow::Owned)
            }
        }
    }
}

/// How the front matter ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// With a line of three dashes.
    Dashes,
    /// With a line of three dots.
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
    /// The value of each entry.
    pub(super) values: Vec<FrontMatterValue>,
}

impl FrontMatter {
    /// Finds and splits the front matter of a file.
    pub(super) fn locate(text: &str) -> Result<FrontMatter, Absence> {
        let first = Lines::between(text, bom_length(text), text.len()).find(|line| !line.is_blank());
        let fence = first.filter(|line| line.content(text) == "---").ok_or(Absence::NoFence)?;
        let mut found = split::split(text, fence);
        let has_text = found.closing == Closing::Missing || found.stray.is_some();
        if found.entries.is_empty() && has_text {
            return Err(Absence::NoKeys);
        }
        found.values = values::of(text, &found);
        Ok(found)
    }

    /// The first entry of this name.
    pub(super) fn entry(&self, text: &str, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name(text) == key)
    }

    /// The first entry of this name and its value.
    pub(super) fn find(&self, text: &str, key: &str) -> Option<(&Entry, &FrontMatterValue)> {
        self.entries.iter().zip(&self.values).find(|(entry, _)| entry.name(text) == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_and_escaped_keys_are_found_by_name() {
        let text = "---\n\"na\\u006de\": a\n'it''s': b\n---\n";
        let found = FrontMatter::locate(text).unwrap();
        let value = |key: &str| found.find(text, key).and_then(|(_, value)| value.as_text());
        assert_eq!(value("name"), Some("a"));
        assert_eq!(value("it's"), Some("b"));
    }
}
