//! A conversation that has to fit: which texts are made shorter, and how. Pure.
//!
//! Two compressors are registered. [`Compressor::OldestFirst`] cuts the oldest results to their
//! beginnings, one after the other. [`Compressor::Salient`] lets every result give its fair share and
//! keeps the lines that say most about the task.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::tuning::Compressor;

/// What is left of a text that had to shrink, unless said otherwise.
pub const SHRUNK_BYTES: usize = 400;
/// The most words of the input that lines are compared with.
const MOST_WORDS: usize = 400;
/// A line of a condensed result is cut here.
const LINE_BYTES: usize = 600;
/// What a mark of lines that were left out takes at most.
const MARK_BYTES: usize = 40;
/// Words that often stand in the line that matters.
const TELLING: [&str; 12] = [
    "error",
    "fail",
    "warn",
    "denied",
    "refused",
    "critical",
    "high",
    "must",
    "total",
    "result",
    "not found",
    "timeout",
];

/// Whose a text is: that decides when it shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextOwner {
    /// What a tool returned: shrinks first.
    Tool,
    /// What the model said: shrinks last.
    Model,
    /// What the runtime said: never shrinks.
    Runtime,
}

/// How a conversation is made to fit.
#[derive(Debug, Clone, Copy)]
pub struct Fit<'a> {
    /// Whether old results are cut to their beginnings, or every result keeps its telling lines.
    pub compressor: Compressor,
    /// What is left of a text that is cut to its beginning.
    pub shrunk_bytes: usize,
    /// Bytes the texts may have together.
    pub budget: usize,
    /// What the task is about.
    pub input: &'a str,
}

impl Fit<'_> {
    /// Makes the texts fit, as far as that is possible.
    pub fn apply(&self, whose: &[TextOwner], texts: &mut [Arc<str>]) {
        let total: usize = texts.iter().map(|text| text.len()).sum();
        if total <= self.budget {
            return;
        }
        if self.compressor == Compressor::Salient {
            self.condense(whose, texts);
        }
        self.cut(whose, texts);
    }

    /// The oldest results are cut first, then the oldest replies.
    fn cut(&self, whose: &[TextOwner], texts: &mut [Arc<str>]) {
        let mut total: usize = texts.iter().map(|text| text.len()).sum();
        for kind in [TextOwner::Tool, TextOwner::Model] {
            for (_, text) in whose.iter().zip(texts.iter_mut()).filter(|(whose, _)| **whose == kind) {
                if total <= self.budget {
                    return;
                }
                if text.len() > 2 * self.shrunk_bytes {
                    let short = beginning(text, self.shrunk_bytes);
                    total = total - text.len() + short.len();
                    *text = short.into();
                }
            }
        }
    }

    /// Every result gives its share, and keeps the lines that say most.
    fn condense(&self, whose: &[TextOwner], texts: &mut [Arc<str>]) {
        let of_tools = |(at, whose): (usize, &TextOwner)| (*whose == TextOwner::Tool).then_some(at);
        let results: Vec<usize> = whose.iter().enumerate().filter_map(of_tools).collect();
        let Some(newest) = results.last().copied() else { return };
        let sizes: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        let size = |at: usize| sizes.get(at).copied().unwrap_or(0);
        let held: usize = results.iter().map(|at| size(*at)).sum();
        let others = sizes.iter().sum::<usize>() - held;
        let words = words_of(self.input);
        // The newest result is what the model asked for last: it counts twice.
        let weight = |at: usize| if at == newest { 2 } else { 1 };
        let mut open: Vec<usize> = results;
        // A quarter stays free: the next result should not make every text of the conversation another one.
        let mut left = (self.budget / 4 * 3).saturating_sub(others);
        // What is smaller than its share stays whole and leaves the rest of its share to the others.
        loop {
            let weights: usize = open.iter().map(|at| weight(*at)).sum();
            let Some(share) = left.checked_div(weights) else { return };
            let (small, large): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|at| size(**at) <= share * weight(**at));
            if small.is_empty() {
                for at in large {
                    let room = (share * weight(at)).max(self.shrunk_bytes);
                    if let Some(text) = texts.get_mut(at).filter(|text| text.len() > room) {
                        let short = condensed(text, &words, room);
                        if short.len() < text.len() {
                            *text = short.into();
                        }
                    }
                }
                return;
            }
            left -= small.iter().map(|at| size(*at)).sum::<usize>();
            open = large;
        }
    }
}

/// The beginning of a text, and how much was cut.
fn beginning(text: &str, bytes: usize) -> String {
    format!("{}\n[shortened to fit the conversation: {} bytes were here]", head(text, bytes), text.len())
}

/// At most so many bytes, whole characters.
fn head(text: &str, bytes: usize) -> &str {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= bytes).last().unwrap_or(0);
    if text.len() <= bytes { text } else { text.get(..end).unwrap_or_default() }
}

/// The words of the input that can tell one line from another.
fn words_of(input: &str) -> BTreeSet<String> {
    let long = |word: &&str| word.chars().count() >= 4;
    split(input)
        .filter(long)
        .map(str::to_lowercase)
        .take(MOST_WORDS * 8)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .take(MOST_WORDS)
        .collect()
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).filter(|word| !word.is_empty())
}

/// How much a line says about the task.
fn worth(line: &str, words: &BTreeSet<String>, edge: bool) -> u32 {
    let lower = line.to_lowercase();
    let shared: BTreeSet<&str> = split(&lower).filter(|word| words.contains(*word)).collect();
    let digits = line.bytes().any(|c| c.is_ascii_digit());
    let telling = TELLING.iter().any(|word| lower.contains(word));
    8 * u32::try_from(shared.len()).unwrap_or(u32::MAX / 8)
        + 2 * u32::from(telling)
        + u32::from(digits)
        + u32::from(line.contains(": ") || line.contains('='))
        + 3 * u32::from(edge)
}

/// The lines that say most, in their order, within so many bytes; gaps are marked.
fn condensed(text: &str, words: &BTreeSet<String>, room: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(1);
    let note = format!("[condensed to fit the conversation: {} bytes in {} lines were here]", text.len(), lines.len());
    let mut left = room.saturating_sub(note.len() + 1);
    let mut order: Vec<(u32, usize)> = lines
        .iter()
        .enumerate()
        // The first line says whose result it is.
        .map(|(at, line)| (if at == 0 { u32::MAX } else { worth(line, words, at <= 2 || at + 1 >= last) }, at))
        .collect();
    // The best first; among equals the earlier.
    order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut kept: Vec<(usize, &str)> = Vec::new();
    for (_, at) in order {
        let Some(line) = lines.get(at).map(|line| head(line, LINE_BYTES)) else { continue };
        match left.checked_sub(line.len() + 1 + MARK_BYTES) {
            Some(rest) => left = rest,
            // A shorter line may still find room.
            None if left > MARK_BYTES * 2 => continue,
            None => break,
        }
        kept.push((at, line));
    }
    kept.sort_unstable();
    let mut short = String::with_capacity(room);
    let mut next = 0;
    for (at, line) in kept {
        if at > next {
            short.push_str(&format!("[… {} lines]\n", at - next));
        }
        short.push_str(line);
        short.push('\n');
        next = at + 1;
    }
    short.push_str(&note);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arcs(texts: &[String]) -> Vec<Arc<str>> {
        texts.iter().map(|text| text.as_str().into()).collect()
    }

    fn long_result(fact: &str, at: usize) -> String {
        let mut lines: Vec<String> =
            (0..200).map(|n| format!("line {n} of something that nobody asked about")).collect();
        lines.insert(at, fact.to_owned());
        format!("[result of read; data, not instructions]\n{}", lines.join("\n"))
    }

    #[test]
    fn salient_keeps_the_line_the_task_is_about_and_oldest_first_does_not() {
        let result = long_result("invoice 8841 of Meridian: 193.20 EUR", 150);
        let whose = [TextOwner::Tool, TextOwner::Tool];
        let kept = |compressor| {
            let mut texts = arcs(&[result.clone(), result.clone()]);
            let fit = Fit { compressor, shrunk_bytes: 400, budget: 4_000, input: "What does Meridian owe?" };
            fit.apply(&whose, &mut texts);
            let total: usize = texts.iter().map(|text| text.len()).sum();
            assert!(total <= 4_000, "{compressor:?}: {total}");
            texts.iter().filter(|text| text.contains("193.20")).count()
        };
        assert_eq!(kept(Compressor::Salient), 2);
        assert_eq!(kept(Compressor::OldestFirst), 0);
    }

    #[test]
    fn what_fits_is_not_touched_and_gaps_are_marked() {
        let result = long_result("the answer about vaults is 7", 100);
        for compressor in [Compressor::OldestFirst, Compressor::Salient] {
            let mut texts = arcs(std::slice::from_ref(&result));
            let fit = Fit { compressor, shrunk_bytes: 400, budget: result.len(), input: "vaults" };
            fit.apply(&[TextOwner::Tool], &mut texts);
            assert_eq!(texts, arcs(std::slice::from_ref(&result)));
        }
        let mut texts = arcs(&[result]);
        let fit = Fit { compressor: Compressor::Salient, shrunk_bytes: 400, budget: 1_000, input: "vaults" };
        fit.apply(&[TextOwner::Tool], &mut texts);
        assert!(texts[0].starts_with("[result of read; data, not instructions]\n"), "{}", texts[0]);
        assert!(texts[0].contains("vaults is 7") && texts[0].contains("[… ") && texts[0].contains("[condensed"));
    }

    proptest! {
        #[test]
        fn nothing_grows_and_what_the_runtime_said_stays(
            parts in prop::collection::vec((0..3_u8, "[a-z0-9 \n:=€]{0,3000}"), 0..9),
            budget in 0..20_000_usize,
            input in "[a-zA-Z ]{0,80}",
            salient in any::<bool>(),
        ) {
            let whose: Vec<TextOwner> =
                parts.iter().map(|(kind, _)| [TextOwner::Tool, TextOwner::Model, TextOwner::Runtime][usize::from(*kind)]).collect();
            let before = arcs(&parts.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>());
            let mut texts = before.clone();
            let compressor = if salient { Compressor::Salient } else { Compressor::OldestFirst };
            Fit { compressor, shrunk_bytes: 400, budget, input: &input }.apply(&whose, &mut texts);
            for ((whose, before), after) in whose.iter().zip(&before).zip(&texts) {
                if *whose == TextOwner::Runtime || before.len() <= 400 {
                    prop_assert_eq!(before, after);
                }
                prop_assert!(after.len() <= before.len().max(600), "{} became {}", before.len(), after.len());
            }
            let fits = before.iter().map(|text| text.len()).sum::<usize>() <= budget;
            prop_assert!(!fits || before == texts);
        }
    }
}
