//! `outline`: the shape of the task's input, with line numbers.

use async_trait::async_trait;
use herm::backend::{InputForm, InputOutline, LogSpan, OutlineEntry};
use herm::tool::{Permission, Tool, ToolContext, ToolData, ToolOutput, ToolPurpose, ToolSpec};
use herm::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{arguments, fit, outline_code, outline_log, outline_prose, outline_solidity};

/// How many entries an outline has at most.
const MAX_ENTRIES: usize = 250;
/// How many characters they take at most.
const ENTRIES_CHARS: usize = 14_000;
/// How much of a line is shown.
const ENTRY_CHARS: usize = 140;
/// How many lines are looked at to tell what a text is.
const SAMPLE_LINES: usize = 2_000;

/// Entries of an outline: the first ones, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    kept: Vec<(usize, usize, String)>,
    total: usize,
}

impl Entries {
    /// Adds an entry at a line, `depth` levels in.
    pub(crate) fn add(&mut self, line: usize, depth: usize, text: &str) {
        self.total += 1;
        if self.kept.len() < MAX_ENTRIES {
            self.kept.push((line, depth, herm::text::line(text, ENTRY_CHARS)));
        }
    }

    /// The listing, and the entries that it shows.
    fn into_text(self) -> (String, Vec<OutlineEntry>) {
        let mut listing = fit::Listing::new(ENTRIES_CHARS);
        let mut entries = Vec::new();
        for (line, depth, text) in self.kept {
            if !listing.add(&format!("L{line} {:indent$}{text}", "", indent = 2 * depth.min(6))) {
                break;
            }
            entries.push(OutlineEntry { line: line as u64, text });
        }
        let left = self.total - listing.shown();
        let mut text = listing.into_text();
        if left > 0 {
            text.push_str(&format!("[cut here: {left} more entries]\n"));
        }
        (text, entries)
    }
}

/// The shape of a text.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// Lines that describe the whole.
    pub(crate) facts: Vec<String>,
    /// The first and the last time of a log.
    pub(crate) span: Option<LogSpan>,
    /// The levels of a log with their lines.
    pub(crate) levels: Vec<(String, u64)>,
    /// The places in the input that the outline lists, with their lines.
    pub(crate) entries: Entries,
}

/// What kind of text it is.
fn form_of(text: &str) -> InputForm {
    let sample = || text.lines().take(SAMPLE_LINES).map(str::trim_end).filter(|line| !line.is_empty());
    let lines = sample().count();
    let dated = sample().filter(|line| outline_log::split_time(line).is_some()).count();
    if dated >= 2 && dated * 3 >= lines {
        return InputForm::Log;
    }
    if sample().any(outline_solidity::is_solidity) {
        return InputForm::Solidity;
    }
    // Code in a fence is part of a document, and a comment of a script is not a heading.
    let unfenced = || outline_prose::unfenced(text).take(SAMPLE_LINES).map(|(_, line)| line);
    let declared = unfenced().filter(|line| outline_code::is_declaration(line)).count();
    let headings = unfenced().filter(|line| outline_prose::heading(line).is_some()).count();
    let ends_like_code = |line: &&str| line.ends_with([';', '{', '}', ')', ':', ',']);
    let code_like = sample().filter(ends_like_code).count() * 3 >= lines;
    if declared > 0 && (headings == 0 || declared >= headings || code_like) {
        InputForm::Code
    } else {
        InputForm::Prose
    }
}

/// The outline of a text: what it is, how large, and what stands where.
pub(crate) fn outline(text: &str) -> ToolOutput {
    let form = form_of(text);
    let Shape { facts, span, levels, entries } = match form {
        InputForm::Solidity => outline_solidity::shape(text),
        InputForm::Code => outline_code::shape(text),
        InputForm::Log => outline_log::shape(text),
        InputForm::Prose => outline_prose::shape(text),
    };
    let (lines, characters) = (text.lines().count(), text.chars().count());
    let size = format!("{}, {}", fit::count(lines, "line"), fit::count(characters, "character"));
    let summary = format!("{}: {size}, {}", form.name(), fit::count(entries.total, "place"));
    let mut shown = format!("{size}; {}.\n", form.name());
    for fact in facts {
        shown.push_str(&fact);
        shown.push('\n');
    }
    let empty = entries.total == 0;
    let (listing, entries) = entries.into_text();
    shown.push_str(&listing);
    if empty && form != InputForm::Log {
        shown.push_str("No headings, sections or declarations were found.\n");
    }
    let (lines, characters) = (lines as u64, characters as u64);
    let data = InputOutline { lines, characters, form, span, levels, entries };
    ToolOutput::new(shown, summary).with_data(ToolData::Outline(data))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

/// Outlines the task's input.
#[derive(Debug)]
pub struct Outline {
    card: ToolSpec,
}

impl Default for Outline {
    fn default() -> Self {
        let description = "The shape of the task's input with line numbers: headings and sections of a text, contracts \
                           and functions of code, time span and sources of a log; and how long it is.";
        let card = ToolSpec::new("outline", description, Permission::Read, arguments::schema::<Args>())
            .for_purpose(ToolPurpose::Outlines);
        let seen = "prose: 12 lines, 2 headings: Terms, Fees";
        Self { card: card.with_few_shot("What is in this text?", json!({}), seen, "terms and fees") }
    }
}

#[async_trait]
impl Tool for Outline {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let Args {} = arguments::read(args)?;
        let input = cx.task().words().to_owned();
        tokio::task::spawn_blocking(move || outline(&input))
            .await
            .map_err(|_| Error::internal("the outline did not finish"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_for_what_it_is() {
        let cases = [
            ("# Title\n\nSome prose.\n\n## Part\n\n```python\ndef f():\n    pass\n```\n", InputForm::Prose),
            ("# a comment\n# another\nimport os\n\ndef f(x):\n    return x\n\nclass A:\n    pass\n", InputForm::Code),
            ("pragma solidity ^0.8.0;\ncontract A { }\n", InputForm::Solidity),
            ("contract Vault is Ownable {\n}\n", InputForm::Solidity),
            ("This contract is made between A and B.\n1. Term\nOne year.\n", InputForm::Prose),
            ("2025-03-11T13:41:02Z INFO a\n2025-03-11T13:41:03Z INFO b\n\tat x\n", InputForm::Log),
            ("Jun 02 00:00:03 host app[1]: x\nJun 02 00:00:04 host app[1]: y\n", InputForm::Log),
            ("export const f = (a) => {\n  return a;\n};\n", InputForm::Code),
            ("", InputForm::Prose),
        ];
        for (text, form) in cases {
            assert_eq!(form_of(text), form, "{text:?}");
        }
    }

    #[test]
    fn a_long_outline_is_cut_and_says_so() {
        let text: String = (0..2_000).map(|n| format!("# Heading {n}\n")).collect();
        let shown = outline(&text);
        assert!(shown.text.starts_with("2000 lines, ") && shown.text.contains("\nL1 Heading 0\n"), "{}", shown.text);
        assert!(shown.text.ends_with("[cut here: 1750 more entries]\n"));
        assert!(shown.summary.ends_with("2000 places"));
    }

    #[test]
    fn any_text_is_outlined_in_linear_time() {
        for text in [
            "{".repeat(300_000),
            "(".repeat(300_000),
            "# ".repeat(100_000),
            "/*".repeat(100_000),
            "\n".repeat(300_000),
            "contract A {".repeat(30_000),
            "'\"".repeat(100_000),
            "1.".repeat(100_000),
        ] {
            let shown = outline(&text);
            assert!(shown.text.chars().count() < 16_000);
        }
    }

    #[test]
    fn text_without_a_shape_says_so() {
        assert_eq!(
            outline("just words\n").text,
            "1 line, 11 characters; text.\nNo headings, sections or declarations were found.\n"
        );
    }
}
