//! What leniency had to do to read a document, as findings.
//!
//! Nothing here runs while skills are merely listed: findings are worked out when somebody asks for them.

use std::collections::BTreeSet;

use super::document::Document;
use super::finding::{Gathered, Rule, SkillFinding};
use super::front_matter::lines::{LineIndex, bom_length, slice};
use super::front_matter::yaml::{self, Failure};
use super::front_matter::{Absence, Closing, FrontMatter, MAX_BYTES, MAX_DEPTH, Oddity, OddityKind, values};

/// What leniency had to do to read a document.
pub(super) fn findings(document: &Document) -> Vec<SkillFinding> {
    let index = LineIndex::new(document.raw());
    let mut found = all(document, &index).settle();
    // Flow style is YAML like any other to a lenient reader.
    found.retain(|finding| finding.rule != Rule::FlowStyle);
    found
}

/// The same and what only strict readers mind.
pub(super) fn all(document: &Document, index: &LineIndex) -> Gathered {
    let mut report = Report { text: document.raw(), index, found: Gathered::default() };
    match document.matter() {
        Ok(matter) => report.front_matter(matter),
        Err(Absence::NoFence) => report.add(
            Rule::FrontMatterMissing,
            Some(0),
            "The file does not start with front matter.",
            "Start the file with `---`, a `name:` and a `description:` line, and another `---`.",
        ),
        Err(Absence::NoKeys) => report.add(
            Rule::FrontMatterMissing,
            Some(0),
            "The file starts with `---`, but no `key: value` line follows.",
            "Write a `name:` and a `description:` line below the first `---`, and close them with another `---`.",
        ),
    }
    report.characters();
    report.found
}

struct Report<'a> {
    text: &'a str,
    index: &'a LineIndex,
    found: Gathered,
}

impl Report<'_> {
    fn add(&mut self, rule: Rule, offset: Option<usize>, message: impl Into<String>, fix: impl Into<String>) {
        let line = offset.map(|offset| self.index.line(offset));
        self.found.add(SkillFinding::new(rule, line, message, fix));
    }

    fn characters(&mut self) {
        if bom_length(self.text) > 0 {
            let fix = "Save the file as UTF-8 without a byte order mark.";
            self.add(Rule::ByteOrderMark, Some(0), "The file starts with a byte order mark.", fix);
        }
        let is_odd =
            |c: char| (c.is_control() && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}');
        if let Some((at, first)) = self.text.char_indices().find(|(_, c)| is_odd(*c)) {
            let count = self.text.chars().filter(|c| is_odd(*c)).count();
            let message = format!("Control character U+{:04X}; {count} in all.", u32::from(first));
            self.add(Rule::ControlCharacter, Some(at), message, "Delete the control characters.");
        }
        let is_lone = |at: &usize| slice(self.text, *at, *at + 2) != "\r\n";
        if let Some(at) = self.text.match_indices('\r').map(|(at, _)| at).find(is_lone) {
            let message = "A carriage return without a line feed ends a line.";
            self.add(Rule::LoneCarriageReturn, Some(at), message, "End lines with a line feed.");
        }
    }

    fn front_matter(&mut self, matter: &FrontMatter) {
        self.lines(matter);
        self.entries(matter);
        if !self.found.has_error() {
            self.whole(matter);
        }
        self.fences(matter);
    }

    fn fences(&mut self, matter: &FrontMatter) {
        if self.index.line(matter.fence.start) > 1 {
            let message = "Blank lines stand before the opening `---`.";
            self.add(Rule::LeadingBlankLines, Some(0), message, "Start the file with `---` on its first line.");
        }
        if matter.fence.indent > 0 {
            self.indented_fence(matter.fence.start);
        }
        match matter.closing {
            Closing::Dashes => {}
            Closing::Indented => self.indented_fence(matter.end),
            Closing::Dots => self.add(
                Rule::FenceForm,
                Some(matter.end),
                "The front matter is closed with `...`.",
                "Close the front matter with `---`.",
            ),
            Closing::Missing => self.add(
                Rule::FrontMatterUnclosed,
                Some(matter.fence.start),
                "The front matter is not closed; it was read up to the first line that cannot belong to it.",
                "Write `---` on a line of its own below the last key.",
            ),
        }
    }

    fn indented_fence(&mut self, offset: usize) {
        let message = "A `---` that fences the front matter is indented.";
        let fix = "Write `---` at the start of its line.";
        self.add(Rule::FenceForm, Some(offset), message, fix);
    }

    fn lines(&mut self, matter: &FrontMatter) {
        if let Some(at) = matter.conflict {
            let message = "Merge-conflict markers stand in the front matter; the first side was read.";
            self.add(Rule::MergeConflict, Some(at), message, "Keep one side of the conflict and delete the markers.");
        }
        if let Some(at) = matter.stray {
            let message = "A line is neither a key nor part of a value; it was taken for more of the value above.";
            let fix = "Indent a value's further lines by two spaces, or put the value on one line in double quotes.";
            self.add(Rule::InvalidYaml, Some(at), message, fix);
        }
        if let Some(at) = matter.missing_space {
            let message = "A key and its value have no space between them.";
            self.add(Rule::InvalidYaml, Some(at), message, "Write a space behind the colon, as in `name: value`.");
        }
        let size = matter.end - matter.fence.next;
        if size > MAX_BYTES {
            let message =
                format!("The front matter has {size} bytes; beyond {} it is only read line by line.", MAX_BYTES);
            let fix = "Move long texts from the front matter into the body or into `references/`.";
            self.add(Rule::FrontMatterTooLarge, Some(matter.fence.start), message, fix);
        }
    }

    fn entries(&mut self, matter: &FrontMatter) {
        let mut seen = BTreeSet::new();
        for entry in &matter.entries {
            let key = entry.key(self.text);
            if !seen.insert(key) {
                self.duplicate(key, entry.key.key_start);
            }
            if slice(self.text, entry.start, entry.key.value).contains('\t') {
                let kind = OddityKind::Tab;
                self.oddity(key, Oddity { kind, offset: entry.start });
            }
        }
        for (entry, oddities) in values::oddities(self.text, matter) {
            for oddity in oddities {
                self.oddity(entry.key(self.text), oddity);
            }
        }
    }

    fn duplicate(&mut self, key: &str, offset: usize) {
        let message = format!("The key `{key}` stands twice; the first one counts.");
        self.add(Rule::DuplicateKey, Some(offset), message, format!("Keep one `{key}` entry."));
    }

    fn oddity(&mut self, key: &str, Oddity { kind, offset }: Oddity) {
        let at = Some(offset);
        match kind {
            OddityKind::DuplicateKey(inner) => self.duplicate(&inner, offset),
            OddityKind::UnquotedColon => {
                let message = format!("The value of `{key}` has a colon followed by a space and is not quoted.");
                let fix = format!("Put the value in double quotes: `{key}: \"…\"`.");
                self.add(Rule::UnquotedColon, at, message, fix);
            }
            OddityKind::AliasOrTag => {
                let message = format!(
                    "The value of `{key}` has an anchor (`&`), alias (`*`) or tag (`!`); it was read as plain text."
                );
                let fix = "Write the value out, and put text that begins with `&`, `*` or `!` in double quotes.";
                self.add(Rule::AliasOrTag, at, message, fix);
            }
            OddityKind::FlowStyle => {
                let message = format!("`{key}` is written in flow style, which the public validator refuses.");
                let fix = "Write one `- item` or `key: value` per line, indented by two spaces.";
                self.add(Rule::FlowStyle, at, message, fix);
            }
            OddityKind::Tab => {
                let message = format!("A tab stands in `{key}` outside quotes, which many YAML readers refuse.");
                let fix = "Write spaces instead of tabs.";
                self.add(Rule::InvalidYaml, at, message, fix);
            }
            OddityKind::TooDeep => {
                let message = format!("`{key}` is nested deeper than {} levels.", MAX_DEPTH);
                self.add(Rule::InvalidYaml, at, message, "Nest less.");
            }
            OddityKind::Malformed(reason) => {
                let message = format!("The value of `{key}` is not well-formed YAML: {reason}.");
                let fix = format!("Put the value on one line in double quotes: `{key}: \"…\"`.");
                self.add(Rule::InvalidYaml, at, message, fix);
            }
        }
    }

    /// Lets the parser have the last word on front matter whose entries are all sound by themselves.
    fn whole(&mut self, matter: &FrontMatter) {
        let text = slice(self.text, matter.fence.next, matter.end);
        if let Err(Failure::Invalid { message, line }) = yaml::judge(text) {
            let line = self.index.line(matter.fence.next) + line - 1;
            let message = format!("The front matter is not well-formed YAML: {message}.");
            let fix = "Write one `key: value` per line, all keys in one column, without tabs.";
            self.found.add(SkillFinding::new(Rule::InvalidYaml, Some(line), message, fix));
        }
    }
}
