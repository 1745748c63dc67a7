//! The one door to the YAML parser, with guards in front of it.
//!
//! The parser copies what an alias stands for, so three hundred bytes can cost hundreds of megabytes, and it calls
//! itself for every level of nesting, so a line of dashes can overflow the stack. Text that could do either, or that
//! is simply too large, is never handed over; the caller then reads it line by line.

use gray_matter::Pod;
use gray_matter::engine::{Engine, YAML};

use super::lines::{Line, Lines, byte, is_gap};
use crate::value::FrontMatterValue;

/// The most front matter that is given to the YAML parser.
pub(crate) const MAX_BYTES: usize = 16 * 1024;

/// How deep a collection may be nested, here and in the readers written by hand.
pub(crate) const MAX_DEPTH: usize = 16;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A guard held the text back.
    Refused,
    /// The parser refused it, on this line of the text (counted from 1).
    Invalid { message: String, line: usize },
}

/// Parses `text` unless a guard holds it back.
pub(crate) fn parse(text: &str) -> Result<FrontMatterValue, Failure> {
    if may_expand(text) || is_too_deep(text) {
        return Err(Failure::Refused);
    }
    parse_scalar(text)
}

/// Parses a text whose only value is one scalar, in which the signs that the guards look for are mere text.
pub(crate) fn parse_scalar(text: &str) -> Result<FrontMatterValue, Failure> {
    if text.len() > MAX_BYTES {
        return Err(Failure::Refused);
    }
    YAML::parse(text).map(value_of).map_err(|error| invalid(&error.to_string()))
}

/// Whether the text could hold both an anchor and an alias.
///
/// One without the other cannot multiply anything. A sign only counts where a token may begin, so `Q&A` and `2*3` pass.
fn may_expand(text: &str) -> bool {
    has_sign(text, b"&") && has_sign(text, b"*")
}

/// Whether an anchor, alias or tag could stand anywhere in the text.
pub(crate) fn may_hold_signs(text: &str) -> bool {
    has_sign(text, b"&*!")
}

fn has_sign(text: &str, signs: &[u8]) -> bool {
    let mut previous = b'\n';
    for at in 0..text.len() {
        let current = byte(text, at);
        let may_begin = is_gap(previous) || b"[]{},:-?\"'".contains(&previous);
        if signs.contains(&current) && may_begin && !is_gap(byte(text, at + 1)) {
            return true;
        }
        previous = current;
    }
    false
}

/// Whether the text could nest deeper than the parser's stack should be asked to go.
///
/// Counts too much rather than too little: brackets inside quotes count, and so does every level of indentation.
fn is_too_deep(text: &str) -> bool {
    let mut indents: Vec<usize> = Vec::new();
    let mut brackets = 0usize;
    for line in Lines::between(text, 0, text.len()).filter(|line| !line.is_blank()) {
        while indents.last().is_some_and(|indent| *indent >= line.indent) {
            indents.pop();
        }
        indents.push(line.indent);
        for sign in line.content(text).bytes() {
            match sign {
                b'[' | b'{' => brackets += 1,
                b']' | b'}' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            if brackets > MAX_DEPTH {
                return true;
            }
        }
        if indents.len() + compact_levels(text, line) > 2 * MAX_DEPTH {
            return true;
        }
    }
    false
}

/// How many collections a line such as `- - ? a` opens at once.
fn compact_levels(text: &str, line: Line) -> usize {
    line.content(text)
        .split([' ', '\t'])
        .filter(|word| !word.is_empty())
        .take_while(|word| matches!(*word, "-" | "?" | ":"))
        .count()
}

fn value_of(pod: Pod) -> FrontMatterValue {
    match pod {
        Pod::Null => FrontMatterValue::Null,
        Pod::String(text) => FrontMatterValue::Text(text),
        // The readers written by hand keep such scalars as they were written; only oddly laid out ones end up here.
        Pod::Integer(number) => FrontMatterValue::Text(number.to_string()),
        Pod::Float(number) => FrontMatterValue::Text(format!("{number:?}")),
        Pod::Boolean(switch) => FrontMatterValue::Text(switch.to_string()),
        Pod::Array(items) => FrontMatterValue::List(items.into_iter().map(value_of).collect()),
        Pod::Hash(map) => FrontMatterValue::Map(map.into_iter().map(|(key, pod)| (key, value_of(pod))).collect()),
    }
}

/// Takes the place (`… at byte 3 line 1 column 4`) out of the parser's message.
fn invalid(message: &str) -> Failure {
    let reason = message.split_once(": ").map_or(message, |(_, reason)| reason);
    let (reason, place) = reason.rsplit_once(" at byte ").unwrap_or((reason, ""));
    let line = place.split(' ').nth(2).and_then(|line| line.parse().ok()).unwrap_or(1);
    Failure::Invalid { message: reason.to_owned(), line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_line() {
        let failure = parse("a: b\nc: d: e\n").unwrap_err();
        let message = "mapping values are not allowed in this context".to_owned();
        assert_eq!(failure, Failure::Invalid { message, line: 2 });
    }

    #[test]
    fn an_alias_bomb_is_held_back() {
        let bomb = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
        assert_eq!(parse(bomb), Err(Failure::Refused));
        assert_eq!(parse("a: {k: &a [x], \"l\":*a}"), Err(Failure::Refused));
    }

    #[test]
    fn signs_inside_words_are_no_anchors() {
        assert!(!may_hold_signs("a: Q&A of 2*3 hey! & * !"));
        assert!(may_hold_signs("a: !x"));
    }

    #[test]
    fn text_that_nests_too_deep_is_held_back() {
        for deep in ["- ".repeat(8_000), "? ".repeat(8_000), "[".repeat(100), "- ? ".repeat(4_000)] {
            assert_eq!(parse(&deep), Err(Failure::Refused));
        }
        let stairs: String = (0..100).map(|depth| format!("{}k:\n", " ".repeat(depth))).collect();
        assert_eq!(parse(&stairs), Err(Failure::Refused));
    }

    #[test]
    fn text_over_the_cap_is_held_back() {
        assert_eq!(parse(&format!("a: {}", "x".repeat(MAX_BYTES))), Err(Failure::Refused));
    }
}
