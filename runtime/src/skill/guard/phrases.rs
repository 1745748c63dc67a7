//! Phrases that give orders about whom to obey, found in folded words.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::fold::{Word, fold_word};

/// A line of the table.
#[derive(Debug)]
pub(super) struct Phrase {
    pub(super) rule: &'static str,
    pub(super) is_strong: bool,
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
}

struct Table {
    phrases: Vec<Phrase>,
    /// Phrases by their first word.
    by_word: HashMap<String, Vec<usize>>,
    /// Texts without spaces, with their phrase.
    unspaced: Vec<(String, usize)>,
    fillers: Vec<String>,
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
            table.phrases.push(Phrase { rule, is_strong: sure == "strong", slots });
        }
        table
    })
}

/// Every phrase in these words; of those that begin at one word, the surest.
pub(super) fn find(words: &[Word]) -> Vec<Match> {
    let table = table();
    let mut found = Vec::new();
    for (first, word) in words.iter().enumerate() {
        let numbers = table.by_word.get(&word.text).into_iter().flatten();
        let matches = numbers.filter_map(|number| {
            let phrase = table.phrases.get(*number)?;
            Some(Match { phrase, first, last: last_of(table, phrase, words, first)? })
        });
        found.extend(matches.max_by_key(|found| (found.phrase.is_strong, found.last)));
        if !word.text.is_ascii() {
            let holds = |text: &&(String, usize)| word.text.contains(&text.0);
            let phrase = table.unspaced.iter().find(holds).and_then(|(_, number)| table.phrases.get(*number));
            found.extend(phrase.map(|phrase| Match { phrase, first, last: first }));
        }
    }
    found.extend(spaced_out(table, words));
    found
}

/// Where a phrase that begins at a word ends.
fn last_of(table: &Table, phrase: &Phrase, words: &[Word], first: usize) -> Option<usize> {
    let sentence = words.get(first)?.sentence;
    let mut at = first;
    for slot in phrase.slots.iter().skip(1) {
        let mut fillers = if slot.is_apart { MOST_FILLERS } else { 0 };
        loop {
            at += 1;
            let word = words.get(at).filter(|word| word.sentence == sentence)?;
            if slot.words.contains(&word.text) {
                break;
            }
            fillers = fillers.checked_sub(1)?;
            if !table.fillers.contains(&word.text) {
                return None;
            }
        }
    }
    Some(at)
}

/// Letters that stand apart, or unspaced scripts with spaces in them: `i g n o r e`, `忽略 之前的 指令`.
fn spaced_out(table: &'static Table, words: &[Word]) -> Vec<Match> {
    const LEAST: usize = 10;
    const JOINED: [&str; 12] = [
        "ignoreprevious",
        "ignoreallprevious",
        "ignoretheprevious",
        "ignoreyour",
        "ignoreallprior",
        "ignoreprior",
        "ignoretheabove",
        "disregardprevious",
        "disregardall",
        "forgetprevious",
        "forgetallprevious",
        "revealyoursystem",
    ];
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let is_piece = |word: &&Word| word.text.chars().count() == 1 || !word.text.is_ascii();
        let run = words.get(at..).unwrap_or_default().iter().take_while(is_piece).count();
        if run >= 2 {
            let joined: String = words.iter().skip(at).take(run).map(|word| word.text.as_str()).collect();
            let is_order = run >= LEAST && JOINED.iter().any(|order| joined.contains(&fold_word(order)));
            let unspaced = || table.unspaced.iter().find(|(text, _)| joined.contains(text)).map(|(_, number)| *number);
            let number = if is_order { Some(0) } else { unspaced() };
            let whole = (at, at + run - 1);
            let phrase = number.and_then(|number| table.phrases.get(number));
            found.extend(phrase.map(|phrase| Match { phrase, first: whole.0, last: whole.1 }));
        }
        at += run.max(1);
    }
    found
}
