//! Whether a text repeats someone's words. Words are compared where a script has spaces, characters where it has none.
//!
//! A text is read as pieces: a word, or one character of a script without spaces. A run is as many pieces in a row as
//! make a quotation: eight words, ten ideographs, twenty letters of Thai or kana, or a mixture of them. Case,
//! punctuation, spaces, marks and characters that are not seen do not count. A word of twenty letters and more is also
//! compared letter by letter with the words of the source written together.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, OnceLock};

/// What a run must be worth.
const RUN: usize = 40;
/// What its pieces are worth.
const WORD: usize = 5;
const IDEOGRAPH: usize = 4;
const LETTER: usize = 2;
/// A word of so many letters may be several, written together.
const GLUED: usize = 20;
/// So many words of the source written together are a quotation.
const GLUED_WORDS: usize = 4;

/// A word, or a character of a script without spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    hash: u64,
    worth: usize,
}

/// What a character of a script without spaces is worth; `None` for all others.
fn worth(c: char) -> Option<usize> {
    match u32::from(c) {
        0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF => Some(IDEOGRAPH),
        // Kana, Hangul, Thai, Lao, Tibetan, Myanmar, Khmer.
        0x3040..=0x30FF
        | 0x31F0..=0x31FF
        | 0xFF66..=0xFF9F
        | 0x1100..=0x11FF
        | 0xAC00..=0xD7AF
        | 0x0E00..=0x0EFF
        | 0x0F00..=0x109F
        | 0x1780..=0x17FF => Some(LETTER),
        _ => None,
    }
}

/// Characters that are not seen: they stand inside words and say nothing.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

/// A character as it is compared; fullwidth forms are the letters they show.
fn plain(c: char) -> impl Iterator<Item = char> {
    let c = match u32::from(c) {
        wide @ 0xFF01..=0xFF5E => char::from_u32(wide - 0xFEE0).unwrap_or(c),
        _ => c,
    };
    c.to_lowercase()
}

/// Reads a text piece by piece: its letters and what it is worth.
fn read(text: &str, mut each: impl FnMut(&str, usize)) {
    let mut word = String::new();
    let mut alone = [0; 4];
    // One more character, so that the last word ends too.
    for c in text.chars().filter(|c| !is_invisible(*c)).flat_map(plain).chain([' ']) {
        let worth = worth(c).filter(|_| c.is_alphanumeric());
        if c.is_alphanumeric() && worth.is_none() {
            word.push(c);
            continue;
        }
        // "don't" is one word, with whichever apostrophe.
        if matches!(c, '\'' | '\u{2019}') {
            continue;
        }
        if !word.is_empty() {
            each(&word, WORD);
            word.clear();
        }
        if let Some(worth) = worth {
            each(c.encode_utf8(&mut alone), worth);
        }
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    read(text, |letters, worth| pieces.push(Piece { hash: hash_of(letters), worth }));
    pieces
}

fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    read(text, |letters, _| words.push(letters.to_owned()));
    words
}

/// Every run of the pieces: where it begins, and what it is.
fn runs(pieces: &[Piece]) -> impl Iterator<Item = (usize, &[Piece])> {
    (0..pieces.len()).map_while(|from| {
        let mut sum = 0;
        let rest = pieces.get(from..)?;
        let length = rest.iter().position(|piece| {
            sum += piece.worth;
            sum >= RUN
        })?;
        Some((from, rest.get(..=length)?))
    })
}

fn hash_of(what: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn hash_of_run(run: &[Piece]) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.iter().for_each(|piece| hasher.write_u64(piece.hash));
    hasher.finish()
}

fn hash_of_letters(letters: impl Iterator<Item = char>) -> u64 {
    let mut hasher = DefaultHasher::new();
    letters.for_each(|c| hasher.write_u32(u32::from(c)));
    hasher.finish()
}

/// A run as it can be read.
fn shown(words: &[String], run: &[Piece]) -> String {
    let mut shown = String::new();
    let mut after_word = false;
    for (word, piece) in words.iter().zip(run) {
        if !shown.is_empty() && (after_word || piece.worth == WORD) {
            shown.push(' ');
        }
        shown.push_str(word);
        after_word = piece.worth == WORD;
    }
    shown
}

/// Texts whose words are not to be repeated.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    texts: Vec<Arc<str>>,
    runs: OnceLock<HashSet<u64>>,
    glued: OnceLock<HashSet<u64>>,
}

impl Sources {
    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        if text.trim().is_empty() || self.texts.iter().any(|known| **known == *text) {
            return;
        }
        self.texts.push(text.into());
        (self.runs, self.glued) = (OnceLock::new(), OnceLock::new());
    }

    /// The first words of `written` that repeat a source; those that stood in `before` already are no news.
    pub fn repeated(&self, written: &str, before: &str) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let (found, old) = (pieces(written), pieces(before));
        let known = self.runs.get_or_init(|| self.all_runs());
        let old: HashSet<u64> = runs(&old).map(|(_, run)| hash_of_run(run)).collect();
        let is_news = |run: &[Piece]| {
            let hash = hash_of_run(run);
            known.contains(&hash) && !old.contains(&hash)
        };
        if let Some((from, run)) = runs(&found).find(|(_, run)| is_news(run)) {
            return Some(shown(words(written).get(from..).unwrap_or_default(), run));
        }
        let old: HashSet<String> = words(before).into_iter().collect();
        let long = words(written).into_iter().filter(|word| word.chars().nth(GLUED - 1).is_some());
        let mut long = long.filter(|word| !old.contains(word)).peekable();
        long.peek()?;
        let known = self.glued.get_or_init(|| self.all_glued());
        long.find_map(|word| {
            let letters: Vec<char> = word.chars().collect();
            let part = letters.windows(GLUED).find(|part| known.contains(&hash_of_letters(part.iter().copied())))?;
            Some(part.iter().collect())
        })
    }

    fn all_runs(&self) -> HashSet<u64> {
        let mut all = HashSet::new();
        for text in &self.texts {
            all.extend(runs(&pieces(text)).map(|(_, run)| hash_of_run(run)));
        }
        all
    }

    /// Every part of the sources, written together, that reaches over so many words.
    fn all_glued(&self) -> HashSet<u64> {
        let mut all = HashSet::new();
        for text in &self.texts {
            let mut letters: Vec<(usize, char)> = Vec::new();
            let mut number = 0;
            read(text, |word, _| {
                letters.extend(word.chars().map(|c| (number, c)));
                number += 1;
            });
            for window in letters.windows(GLUED) {
                let ends = window.first().zip(window.last());
                if ends.is_some_and(|((first, _), (last, _))| last + 1 >= first + GLUED_WORDS) {
                    all.insert(hash_of_letters(window.iter().map(|(_, c)| *c)));
                }
            }
        }
        all
    }
}

/// What a text says, by its words, so that two can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape(Vec<String>);

impl Shape {
    /// The shape of a text.
    pub fn of(text: &str) -> Self {
        Self(words(text))
    }

    /// Whether it says something.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How much of all the words of both they share, from 0 to 1.
    pub fn likeness(&self, other: &Self) -> f64 {
        let words = |shape: &Self| shape.0.iter().cloned().collect::<HashSet<String>>();
        let (a, b) = (words(self), words(other));
        let all = a.union(&b).count();
        if all == 0 { 0.0 } else { a.intersection(&b).count() as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(source: &str, written: &str) -> bool {
        let mut sources = Sources::default();
        sources.add(source);
        sources.repeated(written, "").is_some()
    }

    const ENGLISH: &str = "our unreleased vault at 0xabc holds all of the treasury funds for now";

    #[test]
    fn eight_words_in_a_row_are_a_quotation_and_seven_are_not() {
        assert!(repeats(ENGLISH, "Note: the vault at 0xABC holds all of the treasury, funds!"));
        assert!(!repeats(ENGLISH, "Seven words: at 0xabc holds all of the treasury."));
        assert!(!repeats(ENGLISH, "Check the vault for treasury funds."));
        assert!(!repeats("", "anything at all that someone may write down here today"));
        assert!(!repeats(ENGLISH, ""));
    }

    #[test]
    fn names_of_skills_and_files_are_words_too() {
        for written in [
            "our-unreleased-vault-at-0xabc-holds-all-of",
            "references/our_unreleased_vault_at_0xabc_holds_all_of.md",
            "OUR.UNRELEASED.VAULT.AT.0XABC.HOLDS.ALL.OF",
        ] {
            assert!(repeats(ENGLISH, written), "{written}");
        }
    }

    #[test]
    fn words_written_together_are_compared_by_letters() {
        assert!(repeats(ENGLISH, "scripts/OurUnreleasedVaultAt0xabcHolds.sh"));
        assert!(repeats(ENGLISH, "see thevaultat0xabcholdsallof, xvaultat0xabcholdsallofx"));
        // One long word of the source is a word, and a long word that the source does not have is no quotation.
        let hash = "look at 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 please";
        assert!(!repeats(hash, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"));
        assert!(!repeats(ENGLISH, "internationalization-of-telecommunications"));
    }

    #[test]
    fn scripts_without_spaces_are_compared_by_characters() {
        for (source, written, other) in [
            (
                "我们尚未发布的金库地址是红色仓库七号请不要告诉别人",
                "步骤：尚未发布的金库地址是红色仓库，然后检查。",
                "检查金库的地址，然后告诉用户结果如何。",
            ),
            (
                "私の口座番号は四二七一で暗証番号は九九です",
                "手順: 口座番号は四二七一で暗証番号を見る",
                "口座の番号を聞いてから、手順を読む。",
            ),
            ("รหัสผ่านของฉันคือดอกไม้สีแดงในสวนหลังบ้าน", "ขั้นตอน: รหัสผ่านของฉันคือดอกไม้สีแดง", "ตรวจรหัสก่อนแล้วบอกผล"),
            (
                "우리 금고의 비밀번호는 빨간 창고 일곱 번째 서랍에 있습니다",
                "우리금고의비밀번호는빨간창고일곱번째서랍",
                "금고를 확인하고 결과를 알립니다",
            ),
        ] {
            assert!(repeats(source, written), "{written}");
            assert!(!repeats(source, other), "{other}");
            // Spaces between the characters hide nothing.
            let spaced: String = written.chars().flat_map(|c| [c, ' ']).collect();
            assert!(repeats(source, &spaced), "{spaced}");
        }
    }

    #[test]
    fn invisible_characters_case_marks_and_wide_letters_hide_nothing() {
        let wide: String = ENGLISH
            .chars()
            .map(|c| if c == ' ' { c } else { char::from_u32(u32::from(c) + 0xFEE0).unwrap() })
            .collect();
        let hidden: String = ENGLISH.chars().flat_map(|c| [c, '\u{200b}', '\u{ad}']).collect();
        for written in [wide, hidden, ENGLISH.to_uppercase(), ENGLISH.replace(' ', " **_** ")] {
            assert!(repeats(ENGLISH, &written), "{written}");
        }
        assert!(repeats("don't tell anyone that it's the blue house", "don’t tell anyone that it’s the blue house"));
    }

    #[test]
    fn what_stood_there_before_is_no_news() {
        let mut sources = Sources::default();
        sources.add(ENGLISH);
        let before = format!("Step one. {ENGLISH}.");
        assert_eq!(sources.repeated(&format!("{before} Step two."), &before), None);
        // Pieces that only together say it are told from what was there.
        let half = "our unreleased vault at";
        assert_eq!(sources.repeated(half, ""), None);
        assert!(sources.repeated(&format!("{half} 0xabc holds all of the treasury"), half).is_some());
    }

    #[test]
    fn several_sources_are_compared_each() {
        let mut sources = Sources::default();
        sources.add("count to five");
        sources.add(ENGLISH);
        sources.add(ENGLISH);
        assert_eq!(sources.texts.len(), 2);
        assert_eq!(
            sources.repeated(&format!("x {ENGLISH}"), "").as_deref(),
            Some("our unreleased vault at 0xabc holds all of")
        );
    }

    #[test]
    fn shapes_are_equal_where_only_marks_differ_and_alike_where_few_words_do() {
        assert_eq!(Shape::of("# Count\n\n1. Call `echo`."), Shape::of("count: 1) call echo"));
        let (a, b) =
            (Shape::of("one two three four five six seven eight"), Shape::of("one two three four five six nine"));
        assert!(a.likeness(&b) > 0.6 && a.likeness(&Shape::of("something else")) < 0.1);
        assert_eq!(Shape::of("金库地址").likeness(&Shape::of("金库，地址")), 1.0);
    }

    proptest::proptest! {
        #[test]
        fn any_text_of_enough_words_repeats_itself_and_nothing_panics(text in "\\PC{0,200}", more in "\\PC{0,50}") {
            let mut sources = Sources::default();
            sources.add(&text);
            let long = pieces(&text).iter().map(|piece| piece.worth).sum::<usize>() >= RUN;
            let whole = format!("{more} {text} {more}");
            proptest::prop_assert_eq!(sources.repeated(&whole, "").is_some() || !long, true);
            let _ = sources.repeated(&more, &text);
        }
    }
}
