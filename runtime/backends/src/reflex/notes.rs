//! What `pattern_search` returned: one pattern in full, or the first lines of several.

use super::hits::is_name;
use super::wording::sentences;
use crate::skill::PatternSeverity as Severity;

/// How much of a part is kept.
const PART_CHARS: usize = 1_500;

/// What the library says of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Note {
    pub(super) pattern: String,
    pub(super) title: Option<String>,
    /// What it is, in a sentence.
    pub(super) description: String,
    /// What it is, at length.
    pub(super) what: String,
    pub(super) why: String,
    /// What to ask before believing it.
    pub(super) confirm: Vec<String>,
    /// What to do about it.
    pub(super) fix: String,
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

/// The notes of a result. With the `name` it was called for, it is one pattern in full.
pub(super) fn notes(text: &str, name: Option<&str>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let mut part = Part::Other;
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        // In a whole pattern only the first line is a head: others may look like one.
        let may_be_head = if name.is_some() { number == 0 } else { !line.starts_with(' ') };
        if may_be_head && let Some((pattern, description)) = head(line) {
            notes.push(Note { pattern: pattern.to_owned(), description: description.to_owned(), ..Note::default() });
            (part, in_code) = (Part::Other, false);
            continue;
        }
        if notes.is_empty() {
            match name {
                Some(name) => notes.push(Note { pattern: name.to_owned(), ..Note::default() }),
                None => continue,
            }
        }
        let Some(note) = notes.last_mut() else { continue };
        let line = line.trim();
        if line.starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            part = note.read(line, part);
        }
    }
    notes.iter_mut().for_each(Note::drop_cut_sentences);
    notes
}

/// `reentrancy (high): An external call hands control …`
fn head(line: &str) -> Option<(&str, &str)> {
    let (pattern, rest) = line.split_once(" (")?;
    let (severity, description) = rest.split_once("): ")?;
    (is_name(pattern) && Severity::named(severity).is_some()).then(|| (pattern, description.trim()))
}

impl Note {
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
        if text.len() < PART_CHARS {
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

    #[test]
    fn a_whole_pattern_is_read_by_its_parts() {
        let text = "reentrancy (high): Control is handed over.\n\n# Reentrancy\n\n**What it is.** A call. More.\n\n\
                    **Why it matters.** Money.\n\n**Confirm by eye**\n\n1. Who?\n2. What?\n\n**Fix.** Checks first.\n\n\
                    ```solidity\n**Fix.** bad (high): x\n```\n\n**False positives.** None.\nfoo (high): not a head\n";
        let expected = Note {
            pattern: "reentrancy".into(),
            title: Some("Reentrancy".into()),
            description: "Control is handed over.".into(),
            what: "A call. More.".into(),
            why: "Money.".into(),
            confirm: vec!["Who?".into(), "What?".into()],
            fix: "Checks first.".into(),
        };
        assert_eq!(notes(text, Some("reentrancy")), [expected]);
    }

    #[test]
    fn a_list_gives_one_note_each_without_half_sentences() {
        let text = "a-b (low): One.\n  **What it is.** First. Second is cu…\n  **Confirm**\n  1. Who?\n\n\
                    c (high): Two.\n  **What it is.** Third.\n\n[first lines only: call with `name` for a whole pattern]\n";
        let found = notes(text, None);
        assert_eq!(found.iter().map(|note| note.pattern.as_str()).collect::<Vec<_>>(), ["a-b", "c"]);
        assert_eq!((found[0].what.as_str(), found[0].confirm.as_slice()), ("First.", ["Who?".to_owned()].as_slice()));
        assert_eq!(notes("## Fix\nDo it.", Some("x"))[0].fix, "Do it.");
    }
}
