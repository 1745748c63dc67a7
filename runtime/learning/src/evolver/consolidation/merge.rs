//! One text of several: that of the skill that stays, and what the others say beyond it.

use std::collections::BTreeSet;

use super::super::block::{self, BlockMatch};
use crate::skill::Document;
use crate::text::words::each_term;

/// A line is known where another line has this part of its words.
const KNOWN_PART: f64 = 0.8;
/// What stands before the lines that were taken in.
const HEADING: &str = "## More on this";

/// A text without the evolver's notes: they are about the skill that they stand in. As it is where their markers are broken.
pub(super) fn without_notes(text: &str) -> String {
    block::remove(text).unwrap_or_else(|_| text.to_owned())
}

/// The keeper's text with the lines of the others that it lacks, before the evolver's notes. Nothing of what the keeper says
/// is changed; where it lacks nothing, its text is returned as it is.
pub fn merged<'a>(keeper: &str, others: impl IntoIterator<Item = &'a str>) -> String {
    let own = without_notes(keeper);
    // Code is known only as code: a sentence that names the same command does not show it.
    let mut known: Vec<(bool, BTreeSet<String>)> =
        parts_of(&own).iter().map(|part| (part.is_code(), words(part.text()))).collect();
    let mut added = String::new();
    for other in others {
        for part in parts_of(&without_notes(other)) {
            let said = words(part.text());
            let is_code = part.is_code();
            if said.is_empty() || known.iter().any(|(code, known)| *code == is_code && has(known, &said)) {
                continue;
            }
            match &part {
                Part::Line(line) => added.push_str(&format!("- {line}\n")),
                Part::Fenced(code) => added.push_str(&format!("\n{code}\n")),
            }
            known.push((is_code, said));
        }
    }
    if added.is_empty() {
        return keeper.to_owned();
    }
    let mut section = format!("{HEADING}\n\n{added}");
    if keeper.contains("\r\n") {
        section = section.replace('\n', "\r\n");
    }
    let at = match block::find(keeper) {
        BlockMatch::One(range) => range.start,
        _ => keeper.len(),
    };
    let (before, after) = keeper.split_at(at);
    let line_break = if keeper.contains("\r\n") { "\r\n" } else { "\n" };
    let after = if after.is_empty() { String::new() } else { format!("{line_break}{after}") };
    format!("{}{line_break}{line_break}{section}{after}", before.trim_end())
}

/// Whether a line says, in other words, most of what another says.
fn has(known: &BTreeSet<String>, said: &BTreeSet<String>) -> bool {
    said.intersection(known).count() as f64 >= KNOWN_PART * said.len() as f64
}

fn words(line: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    each_term(line, |term| {
        words.insert(term.to_owned());
        true
    });
    words
}

/// A part of a skill's text.
enum Part {
    /// A line, without the mark of a list.
    Line(String),
    /// A block of code, whole.
    Fenced(String),
}

impl Part {
    fn is_code(&self) -> bool {
        matches!(self, Self::Fenced(_))
    }

    fn text(&self) -> &str {
        match self {
            Self::Line(text) | Self::Fenced(text) => text,
        }
    }
}

/// The description of a skill, and the lines of its body without headings.
fn parts_of(text: &str) -> Vec<Part> {
    let Ok(document) = Document::read(text.as_bytes()) else { return Vec::new() };
    let description =
        document.description().map(|text| Part::Line(text.split_whitespace().collect::<Vec<_>>().join(" ")));
    let mut parts: Vec<Part> = description.into_iter().collect();
    let mut fenced: Option<(String, Vec<&str>)> = None;
    for line in document.body().lines() {
        let bare = line.trim();
        if let Some((fence, mut code)) = fenced.take() {
            code.push(line);
            if bare.starts_with(&fence) && bare.trim_start_matches(['`', '~']).is_empty() {
                parts.push(Part::Fenced(code.join("\n")));
            } else {
                fenced = Some((fence, code));
            }
        } else if bare.starts_with("```") || bare.starts_with("~~~") {
            let fence: String = bare.chars().take_while(|c| matches!(c, '`' | '~')).collect();
            fenced = Some((fence, vec![line]));
        } else if !bare.starts_with('#') {
            parts.push(Part::Line(unlisted(bare).to_owned()));
        }
    }
    // One that was never closed is closed here.
    if let Some((fence, mut code)) = fenced {
        code.push(&fence);
        parts.push(Part::Fenced(code.join("\n")));
    }
    parts
}

/// A line without the mark of a list: `- `, `* `, `1. `, `2) `.
fn unlisted(line: &str) -> &str {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = match line.len() != digits.len() {
        true => digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") ")),
        false => None,
    };
    let dashed = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    numbered.or(dashed).unwrap_or(line).trim()
}
