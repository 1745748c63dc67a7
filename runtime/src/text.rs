//! Cutting texts to what a reader can take, and never without a mark; what differs between two.

pub mod diff;

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

#[cfg(test)]
mod tests {
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
}
