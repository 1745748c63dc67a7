//! Phrases that give orders about whom to obey, found in folded words.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::fold::{Words, fold_word};

/// A line of the table.
#[derive(Debug)]
pub(super) struct Phrase {
    pub(super) rule: &'static str,
    pub(super) is_strong: bool,
    /// It is Russian or Ukrainian, whose letters are no look-alikes of others there.
    pub(super) is_cyrillic: bool,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    /// Words that change nothing may stand before it.
    is_apart: bool,
    words: Vec<String>,
}

/// A phrase in a text, by the numbers of its first and last word.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) phrase: &'static Phrase,
    pub(super) first: usize,
    pub(super) last: usize,
    /// Its words are cut otherwise than words are: `i g n o r e`, `ig-nore`, `ignoreprevious`.
    pub(super) is_in_pieces: bool,
}

struct Table {
    phrases: Vec<Phrase>,
    /// Phrases by their first word.
    by_word: HashMap<String, Vec<usize>>,
    /// Their first words by the letter they begin with.
    by_letter: HashMap<char, Vec<String>>,
    /// Texts without spaces, with their phrase.
    unspaced: Vec<(String, usize)>,
    fillers: HashSet<String>,
}

/// The most words that change nothing in a row.
const MOST_FILLERS: usize = 4;

const FILLERS: &str = "all any of the these those this that my your our every each previous prior above other and or \
    safety given system developer original existing earlier initial here now whatever such to from own core internal \
    alle die den der deine ihre meine toutes tous les vos tes mes todas todos las los tus sus as os suas seus le tutte \
    tutti tue все все ваши мои свои всі alle de jouw wszystkie swoje tüm جميع كل כל את सभी को semua các mọi những";

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table {
            phrases: Vec::new(),
            by_word: HashMap::new(),
            by_letter: HashMap::new(),
            unspaced: Vec::new(),
            fillers: FILLERS.split_whitespace().map(fold_word).collect(),
        };
        for line in include_str!("phrases.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
            let (Some(sure), Some(rule), Some(words)) = (columns.next(), columns.next(), columns.next()) else {
                continue;
            };
            let number = table.phrases.len();
            let mut slots: Vec<Slot> = Vec::new();
            if let Some(text) = words.strip_prefix('=') {
                table.unspaced.push((fold_word(text), number));
            } else {
                let mut is_apart = false;
                for slot in words.split(' ') {
                    if slot == "~" {
                        is_apart = true;
                        continue;
                    }
                    slots.push(Slot { is_apart, words: slot.split('|').map(fold_word).collect() });
                    is_apart = false;
                }
                for word in slots.first().map(|slot| slot.words.clone()).unwrap_or_default() {
                    table.by_word.entry(word).or_default().push(number);
                }
            }
            table.phrases.push(Phrase {
                rule,
                is_strong: sure == "strong",
                is_cyrillic: words.contains(is_cyrillic),
                slots,
            });
        }
        for word in table.by_word.keys() {
            if let Some(letter) = word.chars().next() {
                table.by_letter.entry(letter).or_default().push(word.clone());
            }
        }
        table
    })
}

/// Letters of Cyrillic scripts.
pub(super) fn is_cyrillic(c: char) -> bool {
    matches!(c, '\u{400}'..='\u{52f}')
}

/// Every phrase in these words; of those that begin at one word, the surest.
pub(super) fn find(words: &Words) -> Vec<Match> {
    let table = table();
    let mut found = Vec::new();
    for (first, word) in words.words.iter().enumerate() {
        let numbers = table.by_word.get(words.text(word)).into_iter().flatten();
        let matches = numbers.filter_map(|number| {
            let phrase = table.phrases.get(*number)?;
            Some(Match { phrase, first, last: last_of(table, phrase, words, first)?, is_in_pieces: false })
        });
        let whole = matches.max_by_key(|found| (found.phrase.is_strong, found.last));
        let found_here = whole.or_else(|| in_pieces(table, words, first));
        found.extend(found_here);
    }
    if !words.letters.is_ascii() {
        found.extend(unspaced(table, words));
    }
    found
}

/// Where a phrase that begins at a word ends.
fn last_of(table: &Table, phrase: &Phrase, words: &Words, first: usize) -> Option<usize> {
    let sentence = words.words.get(first)?.sentence;
    let mut at = first;
    for slot in phrase.slots.iter().skip(1) {
        let mut fillers = if slot.is_apart { MOST_FILLERS } else { 0 };
        loop {
            at += 1;
            let word = words.words.get(at).filter(|word| word.sentence == sentence)?;
            let text = words.text(word);
            if slot.words.iter().any(|wanted| wanted == text) {
                break;
            }
            fillers = fillers.checked_sub(1)?;
            if !table.fillers.contains(text) {
                return None;
            }
        }
    }
    Some(at)
}

/// A strong phrase whose letters begin with a word, whatever stands between them.
fn in_pieces(table: &'static Table, words: &Words, first: usize) -> Option<Match> {
    let word = words.words.get(first)?;
    let rest = words.letters.get(word.from..)?;
    let begins = table.by_letter.get(&rest.chars().next()?)?.iter().filter(|begin| rest.starts_with(begin.as_str()));
    for begin in begins {
        for phrase in table.by_word.get(begin)?.iter().filter_map(|number| table.phrases.get(*number)) {
            if !phrase.is_strong {
                continue;
            }
            let ends = |at: usize| {
                let last = words.words.partition_point(|word| word.until < at);
                words.words.get(last).is_some_and(|last| last.until == at && last.sentence == word.sentence)
            };
            let slots = phrase.slots.get(1..).unwrap_or_default();
            if let Some(end) = end_of(table, slots, &words.letters, word.from + begin.len(), MOST_FILLERS, &ends) {
                let last = words.words.partition_point(|word| word.until < end);
                return Some(Match { phrase, first, last, is_in_pieces: true });
            }
        }
    }
    None
}

/// Where the letters end that the slots of a phrase ask for from a place on, if a word ends there.
fn end_of(
    table: &Table,
    slots: &[Slot],
    letters: &str,
    at: usize,
    fillers: usize,
    ends: &impl Fn(usize) -> bool,
) -> Option<usize> {
    let Some((slot, others)) = slots.split_first() else { return ends(at).then_some(at) };
    let rest = letters.get(at..)?;
    let wanted = slot.words.iter().filter(|word| rest.starts_with(word.as_str()));
    let next = wanted.filter_map(|word| end_of(table, others, letters, at + word.len(), MOST_FILLERS, ends)).next();
    if next.is_some() || !slot.is_apart {
        return next;
    }
    let left = fillers.checked_sub(1)?;
    let filler = table.fillers.iter().filter(|word| !word.is_empty() && rest.starts_with(word.as_str()));
    filler.filter_map(|word| end_of(table, slots, letters, at + word.len(), left, ends)).next()
}

/// Phrases in scripts without spaces, also where there are some: `忽略 之前的 指令`.
fn unspaced(table: &'static Table, words: &Words) -> Vec<Match> {
    let mut found: Vec<Match> = Vec::new();
    let mut known = HashSet::new();
    for (text, number) in &table.unspaced {
        let Some(phrase) = table.phrases.get(*number) else { continue };
        for (at, _) in words.letters.match_indices(text.as_str()) {
            let first = words.words.partition_point(|word| word.until <= at);
            let last = words.words.partition_point(|word| word.until < at + text.len());
            if known.insert(first) {
                found.push(Match { phrase, first, last, is_in_pieces: false });
            }
        }
    }
    found
}
