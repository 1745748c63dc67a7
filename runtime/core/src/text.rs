//! Cutting texts to what a reader can take, and never without a mark; what differs between two.

mod class;
pub mod diff;
mod markup;
mod sentences;
mod stem;
pub mod words;

pub use class::{CLASS_CHARS, class};
pub use markup::escape_markup;
pub use sentences::sentences;

/// The first `most` characters, with `…` where there are more.
pub fn head(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// A text on one line, cut at `most` characters.
pub fn line(text: &str, most: usize) -> String {
    if text.len() <= most && is_one_line(text) {
        return text.to_owned();
    }
    let mut flat = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let space = usize::from(length > 0);
        for c in std::iter::repeat_n(' ', space).chain(word.chars()) {
            if length == most {
                flat.push('…');
                return flat;
            }
            flat.push(c);
            length += 1;
        }
    }
    flat
}

/// Whether an ASCII text is a line already, with single spaces between its words.
fn is_one_line(text: &str) -> bool {
    let mut before = b' ';
    for byte in text.bytes() {
        if !(b' '..=b'~').contains(&byte) || (byte == b' ' && before == b' ') {
            return false;
        }
        before = byte;
    }
    text.is_empty() || before != b' '
}

/// A text cut at `most` characters, with a line that says how much is missing.
pub fn cut(mut text: String, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text };
    let missing = text.get(end..).map_or(0, |rest| rest.chars().count());
    text.truncate(end);
    text.push_str(&format!("\n[cut here: {missing} more characters]"));
    // Where the text was far larger, its buffer would stay.
    text.shrink_to_fit();
    text
}

/// The text without what a terminal would take for commands: `ESC [ … letter`, and other escapes.
pub fn without_escapes(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(['\u{1b}', '\u{9b}']) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_sequence = match c {
            '\u{1b}' => chars.next_if_eq(&'[').is_some(),
            '\u{9b}' => true,
            c => {
                plain.push(c);
                continue;
            }
        };
        if is_sequence {
            while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
            chars.next_if(|c| ('@'..='~').contains(c));
        }
    }
    plain.into()
}

/// Whether a text matches a pattern as a whole: `*` stands for any characters, `?` for one.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(here) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if c == here || *c == '?' => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_is_marked() {
        assert_eq!((head("äöü", 3), head("äöüß", 3)), ("äöü".to_owned(), "äöü…".to_owned()));
        assert_eq!(line(" a\n b\tc ", 9), "a b c");
        assert_eq!(line("äöü ß", 3), "äöü…");
        for (text, flat) in [("a b", "a b"), ("a  b", "a b"), (" a", "a"), ("a ", "a"), ("", ""), (" ", "")] {
            assert_eq!(line(text, 9), flat);
        }
        assert_eq!(cut("äöü".to_owned(), 3), "äöü");
        assert_eq!(cut("äöüß!".to_owned(), 3), "äöü\n[cut here: 2 more characters]");
    }

    #[test]
    fn stars_and_question_marks_stand_for_other_characters() {
        for (pattern, text, expected) in [
            ("mail", "mail", true),
            ("mail", "mails", false),
            ("mail*", "mails", true),
            ("devops/*", "devops/deep/one", true),
            ("*-check", "reentrancy-check", true),
            ("*a*b*c", "xxaxbxbxc", true),
            ("*a*b*c", "xxaxbxbx", false),
            ("m?il", "mail", true),
            ("m?il", "mil", false),
            ("", "", true),
            ("**", "", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern:?} {text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_a_star(text in "[a-z/-]{0,20}", pattern in "[a-z*?/]{0,10}") {
            prop_assert!(glob(&text, &text) && glob("*", &text));
            glob(&pattern, &text);
        }
    }
}
