//! Whether the facts of an answer come from the results of its task, and not from an example or from nowhere. Pure.
//!
//! A fact is a word that names or counts something: it has a digit, a capital letter or a joint as in `ask_desk`. The
//! rule is narrow on purpose. An answer may put things in its own words; it may not report a name that no tool said.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::{text_of, words};
use crate::text::words::is_stop_word;

/// Answers of more words than this are reviews and reports, which put things in words of their own.
const SHORT_ANSWER: usize = 24;
/// The most bytes of results that are looked at.
const MOST_BYTES: usize = 1 << 20;
/// Words of short answers that report nothing.
const PLAIN: [&str; 16] = [
    "answer", "cannot", "error", "failed", "false", "fine", "found", "none", "null", "ok", "okay", "sorry", "true",
    "unknown", "unable", "yes",
];

/// How much of an answer has to come from results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grounding {
    /// Nothing is asked of the facts of an answer.
    Off,
    /// No value of an example may stand in an answer that no result has, and a short answer that reports something
    /// has at least one fact from a result.
    #[default]
    Reports,
    /// Every word of the answer that is not in the question comes from a result.
    Strict,
}

impl Grounding {
    /// The name in a role's front matter.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "reports" => Some(Self::Reports),
            "strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// What an answer may draw on.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The task's input: its words may stand in the answer.
    pub question: &'a str,
    /// The role: its words are the vocabulary of its answers.
    pub role: &'a str,
    /// The worked examples that stand in the prompt.
    pub examples: &'a str,
    /// What those examples ask for and answer.
    pub values: &'a [String],
    /// Whether the role declares a schema of its answers: then they are more than a report.
    pub has_schema: bool,
}

/// The facts of an answer that come from nowhere; none where the answer is grounded.
pub fn unsupported<'r>(
    answer: &str,
    ground: &Ground<'_>,
    results: impl Iterator<Item = &'r str>,
    rule: Grounding,
) -> Vec<String> {
    if rule == Grounding::Off {
        return Vec::new();
    }
    let value: Value = serde_json::from_str(answer).unwrap_or_else(|_| Value::String(answer.to_owned()));
    let said = text_of(&value);
    let (mut known, mut left) = (BTreeSet::new(), MOST_BYTES);
    for result in results {
        known.extend(facts_of_source(result.get(..left.min(result.len())).unwrap_or_default()));
        left = left.saturating_sub(result.len());
        if left == 0 {
            // More than can be looked at: the answer gets the benefit of the doubt.
            return Vec::new();
        }
    }
    let asked: BTreeSet<String> = facts_of_source(ground.question).collect();
    let vocabulary: BTreeSet<String> = facts_of_source(ground.role).collect();
    let is_new = |word: &String| !asked.contains(word) && !is_plain(word);
    if rule == Grounding::Strict {
        let from_nowhere = |word: &String| is_new(word) && !known.contains(word) && !vocabulary.contains(word);
        return distinct(facts_of_source(&said).filter(from_nowhere));
    }
    let shown: BTreeSet<String> = words(ground.examples).into_iter().flat_map(pieces).collect();
    let copied =
        |word: &String| is_new(word) && shown.contains(word) && !known.contains(word) && !vocabulary.contains(word);
    let facts = facts(&said);
    let copies = distinct(facts.iter().filter(|word| copied(word)).cloned());
    if !copies.is_empty() {
        return copies;
    }
    if ground.has_schema || words(&said).len() > SHORT_ANSWER {
        return Vec::new();
    }
    // A value in small letters is not a fact by its form: "a red door".
    let told: Vec<String> = facts_of_source(&said).collect();
    let from_nowhere = |word: &String| is_new(word) && !known.contains(word) && !vocabulary.contains(word);
    for value in ground.values {
        let value: Vec<String> = facts_of_source(value).collect();
        let stands = !value.is_empty() && told.windows(value.len()).any(|run| run == value);
        if stands && value.iter().any(from_nowhere) {
            return distinct(value.into_iter().filter(from_nowhere));
        }
    }
    // A number may have been counted or worked out.
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let new: Vec<&String> = facts.iter().filter(|word| is_new(word) && !is_number(word)).collect();
    if new.is_empty() || new.iter().any(|word| known.contains(*word)) {
        return Vec::new();
    }
    distinct(new.into_iter().filter(|word| !vocabulary.contains(*word)).cloned())
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    words.filter(|word| seen.insert(word.clone())).collect()
}

fn is_plain(word: &str) -> bool {
    is_stop_word(word)
        || PLAIN.contains(&word)
        || word.chars().count() < 2 && !word.starts_with(|c: char| c.is_numeric())
}

/// Every word that a source of facts has.
fn facts_of_source(text: &str) -> impl Iterator<Item = String> {
    words(text).into_iter().flat_map(pieces)
}

/// A number as it is, without the zeros that a format puts before or behind it.
fn pieces(word: String) -> impl Iterator<Item = String> {
    let plain = match word.parse::<f64>() {
        Ok(number) if number.is_finite() => number.to_string(),
        _ => word,
    };
    std::iter::once(plain)
}

/// The words of an answer that name or count something, in lower case.
fn facts(said: &str) -> Vec<String> {
    let few = words(said).len() <= 3;
    let mut facts = Vec::new();
    let mut begins = true;
    for token in said.split_whitespace() {
        let bare = token.trim_matches(|c: char| !c.is_alphanumeric());
        let named = bare.chars().next().is_some_and(char::is_uppercase) && (!begins || few)
            || bare.chars().skip(1).any(char::is_uppercase);
        let counted = bare.chars().any(|c| c.is_ascii_digit());
        let joined = bare.contains('_');
        if named || counted || joined {
            facts.extend(words(bare).into_iter().flat_map(pieces));
        }
        begins = token.ends_with(['.', '!', '?', ':']);
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, results: &[&str], rule: Grounding) -> Vec<String> {
        let ground = Ground {
            question: "Who looks after the harbour gate?",
            role: "You answer questions about the town. Severity is High or Low.",
            examples: "Question: Who keeps the bell?\n[result of ask]\nOle Brandt keeps it, room 41.\n{\"answer\": \"Ole Brandt\"}",
            values: &["Ole Brandt".to_owned(), "a red door".to_owned(), "unknown".to_owned(), "gate".to_owned()],
            has_schema: false,
        };
        unsupported(answer, &ground, results.iter().copied(), rule)
    }

    #[test]
    fn a_value_of_an_example_that_no_result_has_is_a_copy() {
        let found = ["Mira Tol looks after the harbour gate, room 7."];
        let rule = Grounding::Reports;
        assert_eq!(check(r#"{"answer": "Ole Brandt"}"#, &["nobody by that name"], rule), ["ole", "brandt"]);
        assert_eq!(check(r#"{"answer": "Mira Tol, room 41"}"#, &found, rule), ["41"]);
        assert_eq!(check(r#"{"answer": "Mira Tol"}"#, &found, rule), [""; 0]);
        assert_eq!(check(r#"{"answer": "Mira Tol"}"#, &found, Grounding::Off), [""; 0]);
    }

    #[test]
    fn a_value_of_an_example_in_small_letters_is_a_copy_too() {
        let rule = Grounding::Reports;
        assert_eq!(check(r#"{"answer": "a red door"}"#, &["It does not know that."], rule), ["red", "door"]);
        for fine in ["unknown", "the gate", "a green door"] {
            assert_eq!(check(&format!("{{\"answer\": \"{fine}\"}}"), &["nothing"], rule), [""; 0], "{fine}");
        }
        assert_eq!(check(r#"{"answer": "a red door"}"#, &["Behind it is a red door."], rule), [""; 0]);
        assert_eq!(check(r#"{"answer": "a red door"}"#, &["nothing"], Grounding::Off), [""; 0]);
    }

    #[test]
    fn a_short_report_without_a_fact_of_a_result_is_made_up() {
        let rule = Grounding::Reports;
        assert_eq!(check(r#"{"answer": "Zed"}"#, &["that office does not know it"], rule), ["zed"]);
        assert_eq!(
            check(r#"{"answer": "ask_office"}"#, &["that office does not know it"], rule),
            ["ask", "office"].iter().filter(|word| **word != "office").copied().collect::<Vec<_>>()
        );
        for fine in ["yes", "No", "Unknown", "not found", "It could not be found out."] {
            let answer = format!("{{\"answer\": \"{fine}\"}}");
            assert_eq!(check(&answer, &["that office does not know it"], rule), [""; 0], "{fine}");
        }
    }

    #[test]
    fn what_is_worked_out_and_what_is_long_passes() {
        let rule = Grounding::Reports;
        assert_eq!(check(r#"{"answer": "0.9 m"}"#, &["The gate is 3 feet high."], rule), [""; 0]);
        let long = format!("{{\"answer\": \"{}\"}}", "Reentrancy may let Mallory drain it. ".repeat(10));
        assert_eq!(check(&long, &["hits in line 4"], rule), [""; 0]);
        assert_eq!(check(r#"{"answer": "07"}"#, &["room 7"], rule), [""; 0]);
    }

    #[test]
    fn strict_asks_for_every_word() {
        let found = ["Mira Tol looks after the harbour gate."];
        assert_eq!(check(r#"{"answer": "Mira Tol does, gladly"}"#, &found, Grounding::Strict), ["gladly"]);
        assert_eq!(check(r#"{"answer": "Mira Tol"}"#, &found, Grounding::Strict), [""; 0]);
    }
}
