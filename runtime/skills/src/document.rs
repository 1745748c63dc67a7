//! A skill file: its exact text, and what can be read from it.
//!
//! Reading is lenient, for most skills in the wild break some rule and are useful all the same: nothing short of bytes
//! that are not text makes a document unreadable. Writing is exact: [`Document::set`] touches the bytes of one entry
//! and nothing else, so a file can be improved without being reformatted.
//!
//! ```
//! # use herm_skills::Document;
//! let mut skill = Document::read(b"---\nname: mail\nversion: 1.0 # first\n---\nSend mail.\n")?;
//! skill.set("version", "2.0");
//! assert_eq!(skill.raw(), "---\nname: mail\nversion: \"2.0\" # first\n---\nSend mail.\n");
//! # Ok::<(), herm_skills::Unreadable>(())
//! ```

use std::fmt;

use super::body;
use super::finding::{Rule, SkillFinding};
use super::front_matter::lines::{Conflict, Lines, bom_length, byte, slice};
use super::front_matter::scalar;
use super::front_matter::{Absence, Closing, Entry, FrontMatter};
use super::leniency;
use super::value::FrontMatterValue;

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
    pub fn finding(&self) -> SkillFinding {
        let fix = "Save the skill as UTF-8 text of at most 1 MiB without NUL bytes.";
        SkillFinding::new(Rule::Unreadable, None, self.reason.clone(), fix)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Unreadable {}

/// Whether a NUL is among the bytes; without an early exit, so that it compiles to wide comparisons.
fn has_nul(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| found | (*byte == 0))
}

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
        if has_nul(bytes) {
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
    pub fn findings(&self) -> Vec<SkillFinding> {
        leniency::findings(self)
    }

    /// The value of a top-level key, if it is text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.find(key)?.as_text().map(str::to_owned)
    }

    /// The value of a top-level key.
    pub fn value(&self, key: &str) -> Option<FrontMatterValue> {
        self.find(key).cloned()
    }

    fn find(&self, key: &str) -> Option<&FrontMatterValue> {
        let matter = self.matter.as_ref().ok()?;
        matter.find(&self.raw, key).map(|(_, value)| value)
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

    /// The operating systems the skill is for, by `platforms` or `platform`; empty if it does not say.
    pub fn platforms(&self) -> Vec<String> {
        let said = |key: &str| self.find(key).map(FrontMatterValue::words).filter(|words| !words.is_empty());
        said("platforms").or_else(|| said("platform")).unwrap_or_default()
    }

    /// The phrases that call for this skill.
    pub fn triggers(&self) -> Vec<String> {
        self.words("triggers")
    }

    /// What the front matter names as `tags`; empty where it names none.
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
            let metadata = self.find("metadata")?;
            Some(metadata.get("version")?.as_text()?.trim().to_owned())
        })
    }

    /// Sets a top-level key to a text; every other byte of the file stays as it is.
    ///
    /// An entry that is there is replaced, the first one if there are several. A new one goes before the closing
    /// fence, which is added if it was missing; a file without front matter gets some.
    pub fn set(&mut self, key: &str, value: &str) {
        let value = scalar::write(value);
        let entry = self.matter.as_ref().ok().and_then(|matter| matter.entry(&self.raw, key));
        if let Some(entry) = entry {
            let (start, new) = self.replacement(entry, &value);
            let end = entry.end;
            return self.splice(start, end, &new);
        }
        self.close_front_matter();
        let line_break = self.line_break();
        let line = format!("{}: {value}{line_break}", scalar::write(key));
        let (at, new) = match &self.matter {
            Ok(matter) => {
                let first = matter.entries.first();
                // Behind the first side of a conflict that was never closed nothing would be read.
                let at = match matter.sides {
                    Conflict::Outside | Conflict::First => matter.end,
                    Conflict::Second => first.map_or(matter.fence.next, |first| first.start),
                };
                // Keys share one column, which the first one sets.
                let indent = first.map_or(0, |first| first.indent);
                (at, format!("{:indent$}{line}", ""))
            }
            Err(_) => (bom_length(&self.raw), format!("---{line_break}{line}---{line_break}")),
        };
        self.splice(at, at, &new);
    }

    /// Replaces the text below the front matter; front matter that was not closed is closed.
    pub fn replace_body(&mut self, body: &str) {
        self.close_front_matter();
        let line_break = self.line_break();
        let start = self.body_start();
        let before = if self.matter.is_ok() { self.break_before(start) } else { "" };
        self.splice(start, self.raw.len(), &format!("{before}{body}"));
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
        let trimmed = self.find(key)?.as_text()?.trim();
        (!trimmed.is_empty()).then(|| trimmed.to_owned())
    }

    /// The words under a key at the top, in the metadata, or in a vendor's part of the metadata; where several
    /// vendors have the key, the first by name counts.
    fn words(&self, key: &str) -> Vec<String> {
        if let Some(value) = self.find(key) {
            return value.words();
        }
        let Some(FrontMatterValue::Map(metadata)) = self.find("metadata") else {
            return Vec::new();
        };
        let own = metadata.get(key);
        let found = own.or_else(|| metadata.values().find_map(|vendor| vendor.get(key)));
        found.map(FrontMatterValue::words).unwrap_or_default()
    }

    /// Where an existing entry's new value goes, and how it is written there.
    fn replacement(&self, entry: &Entry, value: &str) -> (usize, String) {
        let rest = if entry.is_multi_line() {
            self.conflict_lines(entry)
        } else {
            scalar::trailing_comment(entry.head(&self.raw)).to_owned()
        };
        // A tab behind the colon is not kept: some YAML readers refuse it.
        let has_space = byte(&self.raw, entry.key.colon + 1) == b' ';
        if entry.key.value < entry.head_end && has_space {
            (entry.key.value, format!("{value}{rest}"))
        } else {
            (entry.key.colon + 1, format!(" {value}{rest}"))
        }
    }

    /// The lines inside an entry that belong to the other side of a merge conflict, and must not be lost.
    fn conflict_lines(&self, entry: &Entry) -> String {
        let mut sides = entry.sides;
        let inner = Lines::between(&self.raw, entry.next_line, entry.end);
        let kept = inner.filter(|line| sides.skips(&self.raw, *line));
        kept.map(|line| format!("{}{}", self.line_break(), slice(&self.raw, line.start, line.end))).collect()
    }

    /// Puts the closing fence where strict readers look for it, if it is missing or indented.
    fn close_front_matter(&mut self) {
        let Ok(matter) = &self.matter else {
            return;
        };
        let end = matter.end;
        match matter.closing {
            Closing::Dashes | Closing::Dots => {}
            Closing::Indented => {
                let fence = slice(&self.raw, end, matter.body);
                let blanks = fence.len() - fence.trim_start_matches([' ', '\t']).len();
                self.splice(end, end + blanks, "");
            }
            Closing::Missing => {
                let fence = format!("{}---{}", self.break_before(end), self.line_break());
                self.splice(end, end, &fence);
            }
        }
    }

    /// The line break that must come before a new line at an offset.
    fn break_before(&self, at: usize) -> &'static str {
        let is_line_start = at == 0 || matches!(byte(&self.raw, at - 1), b'\n' | b'\r');
        if is_line_start { "" } else { self.line_break() }
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
        // A carriage return and a line feed that meet at a seam would become one line break.
        let seam = |left: &str, right: &str| {
            let meets = left.ends_with('\r') && right.starts_with('\n');
            if meets { "\n" } else { "" }
        };
        let (first, second) = (seam(before, new), seam(new, after));
        *self = Document::from_text([before, first, new, second, after].concat());
    }
}
