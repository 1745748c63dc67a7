//! Regular expressions of schemas, which are those of ECMA-262, on an engine of linear time.
//!
//! What the engine does not have (looking around, going back to a group) and what is too large is unknown: it neither
//! accepts nor refuses a value.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

/// Patterns longer than this are not looked at.
const MAX_PATTERN: usize = 4 << 10;
/// A compiled pattern up to this size may be matched against any text of a call.
const SMALL: usize = 32 << 10;
/// One up to this size against short texts alone.
const LARGE: usize = 1 << 20;
/// What a short text is.
const SHORT_TEXT: usize = 4 << 10;
/// Longer texts are not matched.
const LONG_TEXT: usize = 1 << 20;

/// What compiling may cost in one check: some hundred large patterns, or ten thousand small ones. How large the value is
/// does not matter, since each pattern is compiled once.
const MOST_COMPILING: u64 = 6_000_000;

/// A compiled pattern. A large one costs more and is tried on short texts only.
#[derive(Debug, Clone)]
enum Compiled {
    Small(Regex),
    Large(Regex),
    Unknown,
}

/// The patterns of one check, each compiled once.
#[derive(Debug, Default)]
pub(super) struct Patterns<'s> {
    compiled: HashMap<&'s str, Compiled>,
    /// What compiling has cost.
    spent: u64,
}

impl<'s> Patterns<'s> {
    /// Whether a text matches, and what finding out has cost; `None` where nobody can tell. Where compiling has cost too
    /// much, the cost is more than any check may have.
    pub(super) fn matches(&mut self, pattern: &'s str, text: &str) -> (Option<bool>, u64) {
        if !self.compiled.contains_key(pattern) {
            if self.spent > MOST_COMPILING {
                return (None, u64::MAX);
            }
            let compiled = compile(pattern);
            self.spent += 500 + 10 * pattern.len() as u64;
            if !matches!(compiled, Compiled::Small(_)) {
                self.spent += 20_000;
            }
            self.compiled.insert(pattern, compiled);
        }
        let cost = 1 + text.len() as u64;
        match self.compiled.get(pattern) {
            Some(Compiled::Small(regex)) if text.len() <= LONG_TEXT => (Some(regex.is_match(text)), cost),
            Some(Compiled::Large(regex)) if text.len() <= SHORT_TEXT => (Some(regex.is_match(text)), 8 * cost),
            _ => (None, 1),
        }
    }
}

fn compile(pattern: &str) -> Compiled {
    if pattern.len() > MAX_PATTERN {
        return Compiled::Unknown;
    }
    let Some(translated) = translated(pattern) else { return Compiled::Unknown };
    let build = |size| RegexBuilder::new(&translated).size_limit(size).dfa_size_limit(1 << 20).nest_limit(64).build();
    build(SMALL).map(Compiled::Small).or_else(|_| build(LARGE).map(Compiled::Large)).unwrap_or(Compiled::Unknown)
}

/// A pattern of ECMA-262 in the syntax of the engine; `None` where it has no counterpart.
fn translated(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let escaped = chars.next()?;
                // Inside a class, a set stands without brackets of its own.
                let set = |inside: &str, negated: bool| match (in_class, negated) {
                    (true, true) => format!("[^{inside}]"),
                    (true, false) => inside.to_owned(),
                    (false, true) => format!("[^{inside}]"),
                    (false, false) => format!("[{inside}]"),
                };
                const SPACE: &str = r"\t\n\x0B\x0C\r\x20\u{A0}\u{FEFF}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}";
                match escaped {
                    'd' | 'D' => out.push_str(&set("0-9", escaped == 'D')),
                    'w' | 'W' => out.push_str(&set("A-Za-z0-9_", escaped == 'W')),
                    's' | 'S' => out.push_str(&set(SPACE, escaped == 'S')),
                    'b' if in_class => out.push_str(r"\x08"),
                    'b' => out.push_str(r"(?-u:\b)"),
                    // Between two bytes of a character is no place in a text.
                    'B' => return None,
                    'c' => {
                        let letter = chars.next().filter(char::is_ascii_alphabetic)?;
                        out.push_str(&format!(r"\x{:02X}", u32::from(letter) % 32));
                    }
                    '0' if !chars.peek().is_some_and(char::is_ascii_digit) => out.push_str(r"\x00"),
                    // A group that was matched before.
                    '0'..='9' | 'k' => return None,
                    'u' => out.push_str(&unicode(&mut chars)?),
                    'x' => {
                        let digits: String = chars.by_ref().take(2).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2)?;
                        out.push_str(&format!(r"\u{{{code:X}}}"));
                    }
                    'p' | 'P' => {
                        if chars.next() != Some('{') {
                            return None;
                        }
                        let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
                        out.push_str(&format!(r"\{escaped}{{{name}}}"));
                    }
                    'n' | 'r' | 't' | 'f' | 'v' => out.extend(['\\', escaped]),
                    other if other.is_ascii_alphanumeric() => return None,
                    other => push_literal(&mut out, other),
                }
            }
            '[' if in_class => out.push_str(r"\["),
            '[' => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.push('^');
                    chars.next();
                }
                // Nothing, and anything.
                if chars.peek() == Some(&']') {
                    let negated = out.ends_with('^');
                    out.truncate(out.len() - if negated { 2 } else { 1 });
                    out.push_str(if negated { r"[\s\S]" } else { r"[^\s\S]" });
                    chars.next();
                    in_class = false;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Operators that the engine has in classes, and the standard has not.
            '&' | '~' if in_class => push_literal(&mut out, c),
            '(' if !in_class && chars.peek() == Some(&'?') => {
                chars.next();
                match chars.next()? {
                    ':' => out.push_str("(?:"),
                    '<' if !matches!(chars.peek(), Some('=' | '!')) => out.push_str("(?P<"),
                    // Looking ahead and behind.
                    _ => return None,
                }
            }
            '.' if !in_class => out.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            ']' => out.push_str(r"\]"),
            '{' if !in_class && !is_repetition(chars.clone()) => out.push_str(r"\{"),
            c => out.push(c),
        }
    }
    (!in_class).then_some(out)
}

fn push_literal(out: &mut String, c: char) {
    match c.is_ascii() {
        true => out.push_str(&format!(r"\x{:02X}", u32::from(c))),
        false => out.push(c),
    }
}

/// Whether `{` begins a count: digits, perhaps a comma and digits, and `}`.
fn is_repetition(chars: impl Iterator<Item = char>) -> bool {
    let inside: String = chars.take_while(|c| *c != '}').take(24).collect();
    let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

/// What follows `\u`: four digits, two pairs of them, or any number in braces.
fn unicode(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    if chars.peek() == Some(&'{') {
        chars.next();
        let digits: String = chars.by_ref().take_while(|c| *c != '}').take(8).collect();
        let code = u32::from_str_radix(&digits, 16).ok()?;
        return char::from_u32(code).map(|_| format!(r"\u{{{code:X}}}"));
    }
    let mut four = || {
        let digits: String = chars.by_ref().take(4).collect();
        u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4)
    };
    let first = four()?;
    let code = match first {
        0xD800..0xDC00 => {
            let mut rest = chars.clone();
            if (rest.next(), rest.next()) != (Some('\\'), Some('u')) {
                return None;
            }
            chars.nth(1);
            let digits: String = chars.by_ref().take(4).collect();
            let second = u32::from_str_radix(&digits, 16).ok().filter(|code| (0xDC00..0xE000).contains(code))?;
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        }
        code => code,
    };
    char::from_u32(code).map(|_| format!(r"\u{{{code:X}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> Option<bool> {
        Patterns::default().matches(pattern, text).0
    }

    #[test]
    fn patterns_mean_what_the_standard_says() {
        for (pattern, text, expected) in [
            ("^a*$", "aaa", true),
            (r"^\d+$", "١", false),
            (r"^\w+$", "é", false),
            (r"^\s$", "\u{feff}", true),
            (r"^[\d\-x]+$", "1-x", true),
            (r"^[^\d]$", "a", true),
            (r"^\cC$", "\u{3}", true),
            (r"^\u00e9$", "é", true),
            (r"^\ud83d\ude00$", "😀", true),
            (r"^\p{Letter}+$", "éa", true),
            (r"^[[\]]$", "[", true),
            (r"^[a&&b]$", "&", true),
            (r"^a{2}{$", "aa{", true),
            (r"^(?<year>\d{4})$", "2020", true),
            (r"^.$", "\u{2028}", false),
            (r"^\/api\/v[12]$", "/api/v1", true),
            ("a$", "a\n", false),
        ] {
            assert_eq!(matches(pattern, text), Some(expected), "{pattern} {text:?}");
        }
    }

    #[test]
    fn what_the_engine_does_not_have_is_unknown() {
        for pattern in [r"(?=a)", r"(?<!a)b", r"(a)\1", "[a", "(", r"\z", "(((a{1,1000}){1,1000}){1,1000})"] {
            assert_eq!(matches(pattern, "a"), None, "{pattern}");
        }
    }
}
