//! Words where there are no spaces.
//!
//! SQLite's tokenizer takes a run of Chinese or Japanese text, with any Latin word glued to it, as
//! one token, so neither a two-character word inside it nor the glued word would ever be found.
//! For such text alone, a second index holds every pair of neighbouring characters, the last
//! character of each run, and the glued words.

/// Whether a character belongs to a script written without spaces (or, for Hangul, one whose words
/// carry endings that hide them from a word index).
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x11FF      // Hangul Jamo
        | 0x3005..=0x3007    // ideographic marks
        | 0x3040..=0x30FF    // Hiragana, Katakana
        | 0x31F0..=0x31FF    // Katakana extensions
        | 0x3400..=0x4DBF    // ideographs, extension A
        | 0x4E00..=0x9FFF    // ideographs
        | 0xAC00..=0xD7AF    // Hangul syllables
        | 0xF900..=0xFAFF    // compatibility ideographs
        | 0xFF66..=0xFF9F    // halfwidth Katakana
        | 0x20000..=0x323AF) // ideographs, further extensions
}

/// A run of characters of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run<'a> {
    /// Characters of an unspaced script.
    Unspaced(&'a str),
    /// Letters and digits of any other script.
    Word(&'a str),
    /// Everything between.
    Gap,
}

/// Splits text into runs, in order.
pub(super) fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let kind = |c: char| {
            if is_unspaced(c) { 2 } else { i32::from(c.is_alphanumeric()) }
        };
        let first = kind(rest.chars().next()?);
        let end = rest.find(|c| kind(c) != first).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(end);
        rest = tail;
        Some(match first {
            2 => Run::Unspaced(run),
            1 => Run::Word(run),
            _ => Run::Gap,
        })
    })
}

/// The pairs of a run, as the index holds them; the last character alone where `closing`.
pub(super) fn pairs(run: &str, closing: bool, out: &mut String) {
    let mut chars = run.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) => {
                out.push(c);
                out.push(*next);
            }
            None if closing => out.push(c),
            None => break,
        }
        out.push(' ');
    }
}

/// The first byte of U+1100 in UTF-8.
const LEAST_FIRST_BYTE: u8 = 0xE1;

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
            Run::Unspaced(run) => pairs(run, true, &mut out),
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
