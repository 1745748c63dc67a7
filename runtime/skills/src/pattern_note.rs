//! What the text of a pattern says, by its parts: what it is, why it matters, how to confirm it, how to fix it.

use serde::{Deserialize, Serialize};

use crate::PatternSeverity;
use crate::text::sentences;

/// How many bytes of a part are enough.
const PART_BYTES: usize = 1_500;

/// What a pattern's text says, part by part. A part that the text lacks is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternNote {
    /// The name of the pattern.
    pub pattern: String,
    /// How bad it is when the pattern applies.
    pub severity: PatternSeverity,
    /// What it is, in a sentence.
    pub description: String,
    /// The heading of the text, where it has one.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is, at length.
    #[serde(default)]
    pub what: String,
    /// Why a hit of the pattern matters, in a sentence.
    #[serde(default)]
    pub why: String,
    /// The questions to ask before believing a match.
    #[serde(default)]
    pub confirm: Vec<String>,
    /// How to fix it, or what to do next.
    #[serde(default)]
    pub fix: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    What,
    Why,
    Confirm,
    Fix,
    Other,
}

impl Part {
    fn of(label: &str) -> Self {
        let label = label.to_lowercase();
        let begins = |words: &[&str]| words.iter().any(|word| label.starts_with(word));
        if begins(&["what it", "what this"]) {
            Self::What
        } else if begins(&["why"]) {
            Self::Why
        } else if begins(&["confirm", "question", "how to confirm", "check"]) {
            Self::Confirm
        } else if begins(&["fix", "how to fix", "next step", "what to ask", "what to do", "recommend", "remed"]) {
            Self::Fix
        } else {
            Self::Other
        }
    }
}

impl PatternNote {
    /// A note without parts.
    pub fn new(pattern: &str, severity: PatternSeverity, description: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            severity,
            description: description.to_owned(),
            title: None,
            what: String::new(),
            why: String::new(),
            confirm: Vec::new(),
            fix: String::new(),
        }
    }

    /// The same with the parts that these lines of the pattern's text hold. Parts begin with a bold label
    /// (`**Why it matters.** …`) or a heading; code in fences and quotations are left out, and so is a last sentence that is
    /// cut off with `…`.
    pub fn with_lines<'a>(mut self, lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut part = Part::Other;
        let mut in_code = false;
        for line in lines.into_iter().map(str::trim) {
            if line.starts_with("```") {
                in_code = !in_code;
            } else if !in_code {
                part = self.read(line, part);
            }
        }
        self.drop_cut_sentences();
        self
    }

    /// Takes a line and says which part the next one belongs to.
    fn read(&mut self, line: &str, part: Part) -> Part {
        if let Some(title) = line.strip_prefix("# ") {
            self.title.get_or_insert_with(|| title.trim().to_owned());
            return Part::Other;
        }
        let labelled = line.strip_prefix("**").and_then(|rest| rest.split_once("**"));
        let headed = line.strip_prefix("##").map(|rest| (rest.trim_start_matches('#').trim(), ""));
        if let Some((label, rest)) = labelled.or(headed) {
            let part = Part::of(label.trim());
            self.add(part, rest.trim());
            return part;
        }
        // A `>` quotes good and bad examples.
        if !line.starts_with('>') {
            self.add(part, line);
        }
        part
    }

    fn add(&mut self, part: Part, line: &str) {
        if line.is_empty() {
            return;
        }
        let text = match part {
            Part::What => &mut self.what,
            Part::Why => &mut self.why,
            Part::Fix => &mut self.fix,
            Part::Confirm => return self.confirm.push(unnumbered(line).to_owned()),
            Part::Other => return,
        };
        if text.len() < PART_BYTES {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(line);
        }
    }

    /// A list shows the beginnings of lines; half a sentence is worth nothing.
    fn drop_cut_sentences(&mut self) {
        for text in [&mut self.what, &mut self.why, &mut self.fix].into_iter().chain(&mut self.confirm) {
            if text.ends_with('…') {
                let whole = sentences(text);
                let kept = whole.get(..whole.len().saturating_sub(1)).unwrap_or_default().join(" ");
                if !kept.is_empty() {
                    *text = kept;
                }
            }
        }
    }
}

/// `1. Who …` without its number.
fn unnumbered(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let listed = rest.strip_prefix(". ").filter(|_| rest.len() < line.len());
    listed.or_else(|| line.strip_prefix("- ")).unwrap_or(line).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> PatternNote {
        PatternNote::new("a-b", PatternSeverity::Low, "Control is handed over.").with_lines(text.lines())
    }

    #[test]
    fn a_whole_pattern_is_read_by_its_parts() {
        let text = "# Reentrancy\n\n**What it is.** A call. More.\n\n**Why it matters.** Money.\n\n**Confirm by eye**\n\n\
                    1. Who?\n2. What?\n\n**Fix.** Checks first.\n\n```solidity\n**Fix.** bad (high): x\n```\n\n\
                    **False positives.** None.\nfoo (high): no head\n";
        let expected = PatternNote {
            pattern: "a-b".into(),
            severity: PatternSeverity::Low,
            description: "Control is handed over.".into(),
            title: Some("Reentrancy".into()),
            what: "A call. More.".into(),
            why: "Money.".into(),
            confirm: vec!["Who?".into(), "What?".into()],
            fix: "Checks first.".into(),
        };
        assert_eq!(note(text), expected);
        assert_eq!(note("## Fix\nDo it.").fix, "Do it.");
    }

    #[test]
    fn half_sentences_at_the_end_of_a_cut_line_are_left_out() {
        let cut = note("**What it is.** First. Second is cu…\n**Confirm**\n1. Who?\n");
        assert_eq!((cut.what.as_str(), cut.confirm), ("First.", vec!["Who?".to_owned()]));
    }
}
