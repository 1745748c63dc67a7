//! A character that keeps the words of a text from the YAML parser's types and signs.
//!
//! YAML makes numbers and switches of what skills mean as text (`1.10` would come back as `1.1`), and signs of what they
//! mean as emphasis (`*bold*`). A mark in front of such a word makes it a text like any other, in every place that a word
//! can have in YAML; in quotes and in blocks it stands in the text. So it is taken out of every text afterwards, and what
//! remains is what was written. No anchor and no alias is left in a marked text: nothing in it can multiply.

use std::collections::BTreeSet;

use super::lines::{byte, is_gap, slice};

/// The private characters that a mark is taken from. No text within the parser's bound holds all of them.
const MARKS: std::ops::RangeInclusive<char> = '\u{e000}'..='\u{f8ff}';
/// The words that are switches to the parser.
const SWITCHES: [&str; 6] = ["true", "True", "TRUE", "false", "False", "FALSE"];

/// A character that a text does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(char);

impl Mark {
    /// A mark for this text.
    pub(crate) fn absent_from(text: &str) -> Mark {
        if !text.contains(*MARKS.start()) {
            return Mark(*MARKS.start());
        }
        let taken: BTreeSet<char> = text.chars().filter(|character| MARKS.contains(character)).collect();
        Mark(MARKS.into_iter().find(|mark| !taken.contains(mark)).unwrap_or(*MARKS.end()))
    }

    pub(crate) fn sign(self) -> char {
        self.0
    }

    /// The text with a mark before every word that has a type and every sign.
    pub(crate) fn words(self, text: &str) -> String {
        let mut marked = String::with_capacity(text.len() + 32);
        let mut done = 0;
        let mut previous = b'\n';
        for (at, current) in text.bytes().enumerate() {
            let begins = match current {
                b'0'..=b'9' | b'+' | b'-' | b'.' => begins_word(previous) && is_number_like(text, at),
                b't' | b'T' | b'f' | b'F' => begins_word(previous) && is_switch(text, at),
                b'&' | b'*' | b'!' => begins_word(previous) || matches!(previous, b']' | b'}' | b'-' | b'?'),
                _ => false,
            };
            if begins {
                marked.push_str(slice(text, done, at));
                marked.push(self.0);
                done = at;
            }
            previous = current;
        }
        marked.push_str(slice(text, done, text.len()));
        marked
    }

    /// The text as it was before it was marked.
    pub(crate) fn take_out(self, text: String) -> String {
        if text.contains(self.0) { text.replace(self.0, "") } else { text }
    }
}

fn begins_word(previous: u8) -> bool {
    is_gap(previous) || matches!(previous, b'[' | b'{' | b',' | b':' | b'"' | b'\'')
}

fn is_number_like(text: &str, at: usize) -> bool {
    let next = byte(text, at + 1);
    match byte(text, at) {
        b'+' | b'-' => next.is_ascii_digit() || next == b'.',
        b'.' => matches!(next, b'0'..=b'9' | b'i' | b'I' | b'n' | b'N'),
        _ => true,
    }
}

fn is_switch(text: &str, at: usize) -> bool {
    let rest = slice(text, at, text.len());
    SWITCHES.iter().any(|switch| rest.starts_with(switch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_a_character_that_the_text_does_not_have() {
        assert_eq!(Mark::absent_from("plain").sign(), '\u{e000}');
        assert_eq!(Mark::absent_from("\u{e000} and \u{e001}").sign(), '\u{e002}');
    }

    #[test]
    fn words_with_a_type_and_signs_are_marked_and_nothing_else() {
        let mark = Mark::absent_from("");
        let shown = |text: &str| mark.words(text).replace(mark.sign(), "^");
        assert_eq!(shown("a: 1.10 v2 x-1"), "a: ^1.10 v2 x-1");
        assert_eq!(shown("a: [1, -2, +.5, .inf, true]"), "a: [^1, ^-2, ^+.5, ^.inf, ^true]");
        assert_eq!(shown("a: &x Q&A *y 2*3 !z"), "a: ^&x Q&A ^*y ^2*3 ^!z");
        assert_eq!(shown("a: ~\n- null\n--- \n... x\n"), "a: ~\n- null\n--- \n... x\n");
        assert_eq!(mark.take_out(mark.words("a: [1, *x, true]")), "a: [1, *x, true]");
    }
}
