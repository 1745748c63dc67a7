//! Scalars on one line: read without a YAML parser, and written so that every YAML reader gives the same text back.
//!
//! Nearly all front matter is one-line scalars, so this is the path that makes reading thousands of skills cheap.

use std::borrow::Cow;

use super::lines::{is_blank, slice};

/// Why a value is not what YAML allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A colon and a space inside an unquoted value.
    Colon,
    /// An anchor, alias or tag.
    AliasOrTag,
    /// Anything else.
    Malformed,
}

/// What stands after the colon or dash on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head<'a> {
    /// Nothing, or only a comment: the value is null or stands on the next lines.
    Empty,
    /// `~` or `null`.
    Null,
    /// A complete scalar, if no more lines follow.
    Text(Cow<'a, str>),
    /// Text that YAML refuses, kept as written.
    Flawed(&'a str, Flaw),
    /// The start of a flow collection.
    Flow,
    /// The header of a block scalar.
    Block,
    /// A quoted scalar that does not end on this line.
    OpenQuote,
}

/// Reads what stands after a colon or dash; `head` has no blanks around it.
pub(crate) fn read(head: &str) -> Head<'_> {
    let bytes = head.as_bytes();
    let Some(first) = bytes.first() else {
        return Head::Empty;
    };
    let followed_by_gap = bytes.get(1).is_none_or(|next| is_blank(*next));
    match first {
        b'#' => Head::Empty,
        b'"' | b'\'' => read_quoted(head),
        b'[' | b'{' => Head::Flow,
        b'|' | b'>' if is_block_header(head) => Head::Block,
        b'&' | b'*' | b'!' => Head::Flawed(head, Flaw::AliasOrTag),
        b'|' | b'>' | b']' | b'}' | b',' | b'%' | b'@' | b'`' => Head::Flawed(head, Flaw::Malformed),
        b'-' | b'?' | b':' if followed_by_gap => Head::Flawed(head, Flaw::Malformed),
        _ => read_plain(head),
    }
}

fn read_plain(head: &str) -> Head<'_> {
    let bytes = head.as_bytes();
    let mut previous = 0u8;
    let mut end = bytes.len();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // The whole line is kept, comment and all: nobody can tell any more what was meant.
            b':' if bytes.get(at + 1).is_none_or(|next| is_blank(*next)) => {
                return Head::Flawed(head, Flaw::Colon);
            }
            b'#' if is_blank(previous) => {
                end = at;
                break;
            }
            _ => previous = *byte,
        }
    }
    match slice(head, 0, end).trim_end_matches([' ', '\t']) {
        "~" | "null" => Head::Null,
        text => Head::Text(Cow::Borrowed(text)),
    }
}

fn read_quoted(head: &str) -> Head<'_> {
    match unquote(head) {
        Ok((text, length)) if is_rest_empty(slice(head, length, head.len())) => Head::Text(text),
        Err(Unquoted::Open) => Head::OpenQuote,
        Ok(_) | Err(Unquoted::BadEscape) => Head::Flawed(head, Flaw::Malformed),
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
    let end = match (read(head), head.as_bytes().first()) {
        (Head::Text(_), Some(b'"' | b'\'')) => unquote(head).map_or(head.len(), |(_, length)| length),
        (Head::Text(Cow::Borrowed(text)), _) => text.len(),
        (Head::Null, _) => head.find([' ', '\t']).unwrap_or(head.len()),
        _ => head.len(),
    };
    slice(head, end, head.len())
}

/// Why a quoted scalar could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unquoted {
    /// It has no closing quote.
    Open,
    /// It holds an escape that YAML does not know.
    BadEscape,
}

/// Reads the quoted scalar at the start of `text`; gives its value and its length with the quotes.
pub(crate) fn unquote(text: &str) -> Result<(Cow<'_, str>, usize), Unquoted> {
    if text.starts_with('\'') {
        return unquote_single(text);
    }
    let inner = text.strip_prefix('"').ok_or(Unquoted::Open)?;
    let stop = inner.find(['"', '\\']).ok_or(Unquoted::Open)?;
    if inner.as_bytes().get(stop) == Some(&b'"') {
        return Ok((Cow::Borrowed(slice(inner, 0, stop)), stop + 2));
    }
    let mut value = slice(inner, 0, stop).to_owned();
    let mut rest = slice(inner, stop, inner.len());
    loop {
        let next = rest.find(['"', '\\']).ok_or(Unquoted::Open)?;
        value.push_str(slice(rest, 0, next));
        let at_mark = slice(rest, next, rest.len());
        if let Some(after) = at_mark.strip_prefix('"') {
            return Ok((Cow::Owned(value), text.len() - after.len()));
        }
        let (decoded, length) = unescape(at_mark)?;
        value.push(decoded);
        rest = slice(at_mark, length, at_mark.len());
    }
}

fn unquote_single(text: &str) -> Result<(Cow<'_, str>, usize), Unquoted> {
    let inner = text.strip_prefix('\'').ok_or(Unquoted::Open)?;
    let mut value = Cow::Borrowed("");
    let mut rest = inner;
    loop {
        let (before, after) = rest.split_once('\'').ok_or(Unquoted::Open)?;
        match after.strip_prefix('\'') {
            None if value.is_empty() => {
                return Ok((Cow::Borrowed(before), text.len() - after.len()));
            }
            None => {
                value.to_mut().push_str(before);
                return Ok((value, text.len() - after.len()));
            }
            Some(more) => {
                value.to_mut().push_str(before);
                value.to_mut().push('\'');
                rest = more;
            }
        }
    }
}

/// Reads one escape; gives the character and the length of the escape.
fn unescape(text: &str) -> Result<(char, usize), Unquoted> {
    let sign = text.chars().nth(1).ok_or(Unquoted::Open)?;
    let digits = match sign {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => {
            let decoded = match sign {
                '0' => '\0',
                'a' => '\x07',
                'b' => '\x08',
                't' | '\t' => '\t',
                'n' => '\n',
                'v' => '\x0b',
                'f' => '\x0c',
                'r' => '\r',
                'e' => '\x1b',
                ' ' => ' ',
                '"' => '"',
                '/' => '/',
                '\\' => '\\',
                'N' => '\u{85}',
                '_' => '\u{a0}',
                'L' => '\u{2028}',
                'P' => '\u{2029}',
                _ => return Err(Unquoted::BadEscape),
            };
            return Ok((decoded, 2));
        }
    };
    let code = slice(text, 2, 2 + digits);
    if code.len() != digits || !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Unquoted::BadEscape);
    }
    let number = u32::from_str_radix(code, 16).map_err(|_| Unquoted::BadEscape)?;
    let decoded = char::from_u32(number).ok_or(Unquoted::BadEscape)?;
    Ok((decoded, 2 + digits))
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

    fn text(value: &str) -> Head<'_> {
        Head::Text(Cow::Borrowed(value))
    }

    #[test]
    fn a_bare_scalar_ends_before_its_comment() {
        assert_eq!(read("plain text # note"), text("plain text"));
        assert_eq!(read("C#minor"), text("C#minor"));
        assert_eq!(read("1.10"), text("1.10"));
        assert_eq!(read("null # nothing"), Head::Null);
        assert_eq!(read("# nothing"), Head::Empty);
    }

    #[test]
    fn quotes_are_taken_off_and_escapes_resolved() {
        assert_eq!(read("\"a: b\" # note"), text("a: b"));
        assert_eq!(read("'it''s'"), Head::Text("it's".into()));
        assert_eq!(read("''''"), Head::Text("'".into()));
        assert_eq!(read("\"\\u00e9\\n\\\"\""), Head::Text("é\n\"".into()));
    }

    #[test]
    fn what_yaml_refuses_is_kept_as_written() {
        assert_eq!(read("Use when: x # y"), Head::Flawed("Use when: x # y", Flaw::Colon));
        assert_eq!(read("*bold*"), Head::Flawed("*bold*", Flaw::AliasOrTag));
        assert_eq!(read("\"a\" b"), Head::Flawed("\"a\" b", Flaw::Malformed));
        assert_eq!(read("\"\\q\""), Head::Flawed("\"\\q\"", Flaw::Malformed));
        assert_eq!(read("@x"), Head::Flawed("@x", Flaw::Malformed));
        assert_eq!(read("> x"), Head::Flawed("> x", Flaw::Malformed));
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

    #[test]
    fn what_is_written_reads_back() {
        for value in ["", "x", "\0\x1b\u{85}\u{feff}", "a\tb\r\n", "'\"\\", " lead", "true", "a\t#b", "a:\tb"] {
            let written = write(value);
            assert_eq!(read(&written), Head::Text(value.into()), "{written}");
        }
    }
}
