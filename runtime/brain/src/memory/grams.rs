//! Words where there are no spaces.
//!
//! SQLite's tokenizer takes a run of Chinese or Japanese text, with any Latin word glued to it, as
//! one token, so neither a two-character word inside it nor the glued word would ever be found.
//! For such text alone, a second index holds every pair of neighbouring characters, the last
//! character of each run, and the glued words.

use crate::text::words::{Run, is_unspaced, pairs, runs};

/// The first byte of U+1100 in UTF-8.
const LEAST_FIRST_BYTE: u8 = 0xE1;

/// The last character of a run.
fn last(run: &str) -> Option<&str> {
    run.char_indices().next_back().and_then(|(at, _)| run.get(at..))
}

/// What the second index holds for a text; `None` for the many texts that need none.
pub(super) fn grams(text: &str) -> Option<String> {
    // The first byte of every such character is larger: most texts need no look at their characters.
    if !text.bytes().any(|byte| byte >= LEAST_FIRST_BYTE) || !text.chars().any(is_unspaced) {
        return None;
    }
    let mut out = String::new();
    let runs: Vec<Run<'_>> = runs(text).collect();
    for (at, run) in runs.iter().enumerate() {
        match run {
            Run::Unspaced(run) => {
                for gram in pairs(run).chain(last(run)) {
                    out.push_str(gram);
                    out.push(' ');
                }
            }
            Run::Word(word) => {
                let unspaced = |i: Option<usize>| matches!(i.and_then(|i| runs.get(i)), Some(Run::Unspaced(_)));
                if unspaced(at.checked_sub(1)) || unspaced(at.checked_add(1)) {
                    out.push_str(word);
                    out.push(' ');
                }
            }
            Run::Gap => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_such_script_needs_no_second_index() {
        assert_eq!(grams("plain words, naïve café"), None);
    }

    #[test]
    fn pairs_the_last_character_and_glued_words_are_indexed() {
        assert_eq!(grams("用youer做缓存 apart").as_deref(), Some("用 youer 做缓 缓存 存 "));
    }
}
