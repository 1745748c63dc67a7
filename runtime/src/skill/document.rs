//! A skill file: its exact text, and what can be read from it.
//!
//! Reading is lenient, for most skills in the wild break some rule and are useful all the same: nothing short of bytes
//! that are not text makes a document unreadable. Writing is exact: [`Document::set`] touches the bytes of one entry
//! and nothing else, so a file can be improved without being reformatted.
//!
//! ```
//! # use skilldoc::skill::Document;
//! let mut skill = Document::read(b"---\nname: mail\nversion: 1.0 # first\n---\nSend mail.\n")?;
//! skill.set("version", "2.0");
//! assert_eq!(skill.raw(), "---\nname: mail\nversion: \"2.0\" # first\n---\nSend mail.\n");
//! # Ok::<(), skilldoc::skill::Unreadable>(())
//! ```

use std::fmt;

use super::body;
use super::finding::{Finding, Rule};
use super::front_matter::{Absence, Closing, Entry, FrontMatter};
use super::leniency;
use super::lines::{Lines, bom_length, byte, is_blank, slice};
use super::scalar;
use super::value::Value;

/// The largest file that is read as a skill.
pub(super) const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// The longest description that is taken from the body when the front matter has none.
const MAX_BORROWED_DESCRIPTION: usize = 200;

/// Why a file cannot be read as a skill at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What is wrong with it, and where.
    pub reason: String,
}

impl Unreadable {
    /// The same as a finding, for reports over many files.
    pub fn finding(&self) -> Finding {
        let fix = "Save the skill as UTF-8 text of at most 1 MiB without NUL bytes.";
        Finding::new(Rule::Unreadable, None, self.reason.clone(), fix)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Unreadable {}

/// A skill file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    raw: String,
    matter: Result<FrontMatter, Absence>,
}

impl Document {
    /// Reads a file; only bytes that are not text, or too many of them, are refused.
    pub fn read(bytes: &[u8]) -> Result<Document, Unreadable> {
        let refuse = |reason| Err(Unreadable { reason });
        if bytes.len() > MAX_DOCUMENT_BYTES {
            return refuse(format!("The file has {} bytes; a skill has at most {MAX_DOCUMENT_BYTES}.", bytes.len()));
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                return refuse(format!("The file is not UTF-8 text at byte {}.", error.valid_up_to()));
            }
        };
        if bytes.contains(&0) {
            let at = bytes.iter().position(|byte| *byte == 0).unwrap_or_default();
            return refuse(format!("The file has a NUL byte at byte {at}; it is not text."));
        }
        Ok(Document::from_text(text.to_owned()))
    }

    fn from_text(raw: String) -> Document {
        let matter = FrontMatter::locate(&raw);
        Document { raw, matter }
    }

    /// The exact text of the file.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The text below the front matter, or all of it if there is none.
    pub fn body(&self) -> &str {
        slice(&self.raw, self.body_start(), self.raw.len())
    }

    /// Whether the file has front matter, well-formed or not.
    pub fn has_front_matter(&self) -> bool {
        self.matter.is_ok()
    }

    /// What leniency had to do to read this file.
    pub fn findings(&self) -> Vec<Finding> {
        leniency::findings(self)
    }

    /// The value of a top-level key, if it is text.
    pub fn text(&self, key: &str) -> Option<String> {
        let matter = self.matter.as_ref().ok()?;
        matter.text(&self.raw, key).map(std::borrow::Cow::into_owned)
    }

    /// The value of a top-level key.
    pub fn value(&self, key: &str) -> Option<Value> {
        let matter = self.matter.as_ref().ok()?;
        matter.entry(&self.raw, key).map(|entry| matter.value(&self.raw, entry))
    }

    /// The top-level keys in the order of the file, as written and without quotes.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries().iter().map(|entry| entry.key(&self.raw))
    }

    /// The skill's name, if it has one.
    pub fn name(&self) -> Option<String> {
        self.trimmed("name")
    }

    /// The skill's description, or failing that the first prose of its body.
    pub fn description(&self) -> Option<String> {
        self.trimmed("description").or_else(|| {
            let mut prose = body::first_prose(self.body())?;
            if let Some((end, _)) = prose.char_indices().nth(MAX_BORROWED_DESCRIPTION) {
                prose.truncate(end);
            }
            Some(prose)
        })
    }

    /// The operating systems the skill is for; empty if it does not say.
    pub fn platforms(&self) -> Vec<String> {
        self.value("platforms").map(|value| value.words()).unwrap_or_default()
    }

    /// The phrases that call for this skill.
    pub fn triggers(&self) -> Vec<String> {
        self.words("triggers")
    }

    /// The skill's tags.
    pub fn tags(&self) -> Vec<String> {
        self.words("tags")
    }

    /// What the skill requires; `requires: {mcp: [mail]}` is `mcp:mail`.
    pub fn requires(&self) -> Vec<String> {
        self.words("requires")
    }

    /// The skill's version, as written.
    pub fn version(&self) -> Option<String> {
        self.trimmed("version").or_else(|| {
            let metadata = self.value("metadata")?;
            Some(metadata.get("version")?.as_text()?.trim().to_owned())
        })
    }

    /// Sets a top-level key to a text; every other byte of the file stays as it is.
    ///
    /// An entry that is there is replaced, the first one if there are several. A new one goes before the closing
    /// fence, which is added if it was missing; a file without front matter gets some.
    pub fn set(&mut self, key: &str, value: &str) {
        let value = scalar::write(value);
        let raw = &self.raw;
        let (start, end, new) = match &self.matter {
            Ok(matter) => match matter.entry(raw, key) {
                Some(entry) => self.replacement(entry, &value),
                None => {
                    let entry = self.new_entry(key, &value, matter);
                    (matter.end, matter.end, entry + &self.missing_fence(matter))
                }
            },
            Err(_) => {
                let (at, line_break) = (bom_length(raw), self.line_break());
                let key = scalar::write(key);
                (at, at, format!("---{line_break}{key}: {value}{line_break}---{line_break}"))
            }
        };
        self.splice(start, end, &new);
    }

    /// Replaces the text below the front matter; front matter that was not closed is closed.
    pub fn replace_body(&mut self, body: &str) {
        let line_break = self.line_break();
        let start = self.body_start();
        let fence = match &self.matter {
            Ok(matter) => {
                let before = if self.is_line_start(start) { "" } else { line_break };
                format!("{before}{}", self.missing_fence(matter))
            }
            Err(_) => String::new(),
        };
        self.splice(start, self.raw.len(), &format!("{fence}{body}"));
        // Without front matter, a body that begins with a fence would be taken for some.
        if self.body() != body {
            self.splice(start, start, &format!("---{line_break}---{line_break}"));
        }
    }

    pub(super) fn matter(&self) -> Result<&FrontMatter, Absence> {
        self.matter.as_ref().map_err(|absence| *absence)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.matter.as_ref().map_or(&[], |matter| &matter.entries)
    }

    pub(super) fn body_start(&self) -> usize {
        self.matter.as_ref().map_or(bom_length(&self.raw), |matter| matter.body)
    }

    fn trimmed(&self, key: &str) -> Option<String> {
        let matter = self.matter.as_ref().ok()?;
        let text = matter.text(&self.raw, key)?;
        let trimmed = text.trim();
        (!trimmed.is_empty()).then(|| trimmed.to_owned())
    }

    /// The words under a key at the top, in the metadata, or in a vendor's part of the metadata.
    fn words(&self, key: &str) -> Vec<String> {
        if let Some(value) = self.value(key) {
            return value.words();
        }
        let Some(Value::Map(metadata)) = self.value("metadata") else {
            return Vec::new();
        };
        let own = metadata.get(key);
        let found = own.or_else(|| metadata.values().find_map(|vendor| vendor.get(key)));
        found.map(Value::words).unwrap_or_default()
    }

    /// The bytes that an existing entry's new value takes the place of.
    fn replacement(&self, entry: &Entry, value: &str) -> (usize, usize, String) {
        let comment = if entry.is_multi_line() {
            self.conflict_lines(entry)
        } else {
            scalar::trailing_comment(entry.head(&self.raw)).to_owned()
        };
        let keeps_blanks = entry.key.value < entry.head_end && is_blank(byte(&self.raw, entry.key.colon + 1));
        if keeps_blanks {
            (entry.key.value, entry.end, format!("{value}{comment}"))
        } else {
            (entry.key.colon + 1, entry.end, format!(" {value}{comment}"))
        }
    }

    /// The lines inside an entry that belong to the other side of a merge conflict, and must not be lost.
    fn conflict_lines(&self, entry: &Entry) -> String {
        let mut sides = entry.sides;
        let inner = Lines::between(&self.raw, entry.next_line, entry.end);
        let kept = inner.filter(|line| sides.skips(&self.raw, *line));
        kept.map(|line| format!("{}{}", self.line_break(), slice(&self.raw, line.start, line.end))).collect()
    }

    fn new_entry(&self, key: &str, value: &str, matter: &FrontMatter) -> String {
        let line_break = self.line_break();
        let before = if self.is_line_start(matter.end) { "" } else { line_break };
        // Keys share one column, which the first one sets.
        let indent = matter.entries.first().map_or(0, |first| first.indent);
        format!("{before}{:indent$}{}: {value}{line_break}", "", scalar::write(key))
    }

    /// The closing fence that unclosed front matter lacks.
    fn missing_fence(&self, matter: &FrontMatter) -> String {
        let line_break = self.line_break();
        match matter.closing {
            Closing::Dashes | Closing::Dots => String::new(),
            Closing::Missing => format!("---{line_break}"),
        }
    }

    fn is_line_start(&self, at: usize) -> bool {
        at == 0 || matches!(byte(&self.raw, at - 1), b'\n' | b'\r')
    }

    /// The line break that the file uses.
    fn line_break(&self) -> &'static str {
        match self.raw.find(['\n', '\r']) {
            Some(at) if slice(&self.raw, at, at + 2) == "\r\n" => "\r\n",
            Some(at) if byte(&self.raw, at) == b'\r' => "\r",
            _ => "\n",
        }
    }

    fn splice(&mut self, start: usize, end: usize, new: &str) {
        let before = slice(&self.raw, 0, start);
        let after = slice(&self.raw, end, self.raw.len());
        *self = Document::from_text([before, new, after].concat());
    }
}
