//! Scalars by their outside: where one ends on its line, and how a text is written so that every YAML reader gives it
//! back. What a scalar says is for the YAML parser.

use std::borrow::Cow;

use super::lines::{is_blank, slice};

/// Why a value is not what YAML allows, or not what is read of YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A colon and a space inside an unquoted value.
    Colon,
    /// An anchor, alias or tag.
    AliasOrTag,
    /// Any other form that is not read.
    Malformed,
}

/// What stands after the colon or dash on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// Nothing, or only a comment: the value is null or stands on the next lines.
    Empty,
    /// A scalar that is complete if no more lines follow, and where it ends.
    Scalar { end: usize },
    /// Text that YAML refuses, or takes for a sign.
    Flawed(Flaw),
    /// The start of a flow collection.
    Flow,
    /// The header of a block scalar.
    Block,
    /// A quoted scalar that does not end on this line.
    OpenQuote,
}

/// Looks at what stands after a colon or dash; `head` has no blanks around it.
pub(crate) fn read(head: &str) -> Head {
    let bytes = head.as_bytes();
    let Some(first) = bytes.first() else {
        return Head::Empty;
    };
    let followed_by_gap = bytes.get(1).is_none_or(|next| is_blank(*next));
    match first {
        b'#' => Head::Empty,
        b'"' | b'\'' => match quoted_end(head) {
            Some(end) if is_rest_empty(slice(head, end, head.len())) => Head::Scalar { end },
            Some(_) => Head::Flawed(Flaw::Malformed),
            None => Head::OpenQuote,
        },
        b'[' | b'{' => Head::Flow,
        b'|' | b'>' if is_block_header(head) => Head::Block,
        b'&' | b'*' | b'!' => Head::Flawed(Flaw::AliasOrTag),
        b'|' | b'>' | b']' | b'}' | b',' | b'%' | b'@' | b'`' => Head::Flawed(Flaw::Malformed),
        b'-' | b'?' | b':' if followed_by_gap => Head::Flawed(Flaw::Malformed),
        _ => read_plain(head),
    }
}

fn read_plain(head: &str) -> Head {
    let bytes = head.as_bytes();
    let mut previous = 0u8;
    let mut end = bytes.len();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b':' if bytes.get(at + 1).is_none_or(|next| is_blank(*next)) => return Head::Flawed(Flaw::Colon),
            b'#' if is_blank(previous) => {
                end = at;
                break;
            }
            _ => previous = *byte,
        }
    }
    Head::Scalar { end: slice(head, 0, end).trim_end_matches([' ', '\t']).len() }
}

/// The length of the quoted scalar at the start of `text` with its quotes; `None` if it is not closed.
pub(crate) fn quoted_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.first()?;
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote == b'"' => at += 2,
            b'\'' if quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Whether only blanks and a comment remain.
pub(crate) fn is_rest_empty(rest: &str) -> bool {
    let trimmed = rest.trim_start_matches([' ', '\t']);
    trimmed.is_empty() || (trimmed.starts_with('#') && trimmed.len() < rest.len())
}

fn is_block_header(head: &str) -> bool {
    let rest = head.trim_start_matches(['|', '>']);
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-'));
    head.len() - rest.len() == 1 && is_rest_empty(after)
}

/// The comment behind a one-line value, with the blanks before it; empty when there is none.
pub(crate) fn trailing_comment(head: &str) -> &str {
    match read(head) {
        Head::Scalar { end } => slice(head, end, head.len()),
        Head::Empty | Head::Flawed(_) | Head::Flow | Head::Block | Head::OpenQuote => "",
    }
}

/// Writes a value on one line, in quotes where YAML would read the bare text as something else.
pub(crate) fn write(value: &str) -> Cow<'_, str> {
    if is_safe_bare(value) { Cow::Borrowed(value) } else { Cow::Owned(quote(value)) }
}

/// Writes a value in double quotes.
pub(crate) fn quote(value: &str) -> String {
    use std::fmt::Write as _;
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if is_unprintable(character) => {
                let code = u32::from(character);
                let width = if code <= 0xff { 2 } else { 4 };
                let sign = if code <= 0xff { 'x' } else { 'u' };
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\{sign}{code:0width$x}");
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Characters that YAML readers refuse, drop or take for line breaks.
fn is_unprintable(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn is_safe_bare(value: &str) -> bool {
    let starts_well = |c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '(');
    value.chars().next().is_some_and(starts_well)
        && !value.ends_with(|c: char| c.is_whitespace() || c == ':')
        && !value.chars().any(is_unprintable)
        && ![": ", " #"].iter().any(|sign| value.contains(sign))
        && !is_typed(value)
}

/// Whether some YAML reader would take the bare text for a number, a date, a switch or nothing.
fn is_typed(value: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let is_number_sign = |byte: u8| byte.is_ascii_hexdigit() || b"xoXO_+-.:,TZ ".contains(&byte);
    let is_number_like =
        value.bytes().next().is_some_and(|first| first.is_ascii_digit()) && value.bytes().all(is_number_sign);
    // `1.2.3` is a version to every reader; `1.2` is a number to most.
    let is_version = value.bytes().filter(|byte| *byte == b'.').count() > 1
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word)) || (is_number_like && !is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(head: &str) -> usize {
        match read(head) {
            Head::Scalar { end } => end,
            other => panic!("{head}: {other:?}"),
        }
    }

    #[test]
    fn a_scalar_ends_before_its_comment() {
        assert_eq!(end("plain text # note"), 10);
        assert_eq!(end("C#minor"), 7);
        assert_eq!(end("null # nothing"), 4);
        assert_eq!(end("\"a: \\\"b\" # note"), 8);
        assert_eq!(end("'it''s'"), 7);
        assert_eq!(end("''''"), 4);
        assert_eq!(read("# nothing"), Head::Empty);
    }

    #[test]
    fn what_yaml_refuses_is_told_from_what_it_reads() {
        assert_eq!(read("Use when: x # y"), Head::Flawed(Flaw::Colon));
        assert_eq!(read("*bold*"), Head::Flawed(Flaw::AliasOrTag));
        assert_eq!(read("\"a\" b"), Head::Flawed(Flaw::Malformed));
        assert_eq!(read("@x"), Head::Flawed(Flaw::Malformed));
        assert_eq!(read("> x"), Head::Flawed(Flaw::Malformed));
        assert_eq!(read("\"open"), Head::OpenQuote);
    }

    #[test]
    fn block_headers_are_told_from_text() {
        for header in ["|", ">", ">-", "|2+", "> # note"] {
            assert_eq!(read(header), Head::Block, "{header}");
        }
    }

    #[test]
    fn a_comment_behind_a_value_can_be_found_again() {
        assert_eq!(trailing_comment("a b # c"), " # c");
        assert_eq!(trailing_comment("\"a # b\"  # c"), "  # c");
        assert_eq!(trailing_comment("~ # c"), " # c");
        assert_eq!(trailing_comment("a: b # c"), "");
    }

    #[test]
    fn values_are_quoted_only_where_yaml_needs_it() {
        for bare in ["plain text", "1.2.3", "a:b", "C#", "it's", "(beta) x", "über", "3d-model"] {
            assert_eq!(write(bare), bare);
        }
        for (value, quoted) in [
            ("", "\"\""),
            ("1.0", "\"1.0\""),
            ("2024-01-01", "\"2024-01-01\""),
            ("Yes", "\"Yes\""),
            ("a: b", "\"a: b\""),
            ("a:", "\"a:\""),
            ("a #b", "\"a #b\""),
            ("*a", "\"*a\""),
            ("a\nb", "\"a\\nb\""),
            ("\u{7f}\u{2028}", "\"\\x7f\\u2028\""),
            ("say \\ \"x\": y", "\"say \\\\ \\\"x\\\": y\""),
        ] {
            assert_eq!(write(value), quoted);
        }
    }
}
