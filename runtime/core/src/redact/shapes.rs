//! Shapes of keys and tokens: a table, and how a line of it is matched.

use std::sync::OnceLock;

use super::value::{follows_label, precedes_label};

/// A kind of characters that tokens are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class(u8);

impl Class {
    fn holds(self, byte: u8) -> bool {
        let letter_or_digit = byte.is_ascii_alphanumeric();
        match self.0 {
            b'd' => byte.is_ascii_digit(),
            b'h' => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
            b'H' => byte.is_ascii_hexdigit(),
            b'u' => byte.is_ascii_digit() || byte.is_ascii_uppercase(),
            b'l' => byte.is_ascii_digit() || byte.is_ascii_lowercase(),
            b'a' => letter_or_digit,
            b'w' => letter_or_digit || matches!(byte, b'_' | b'-'),
            b't' => letter_or_digit || matches!(byte, b'_' | b'-' | b'.' | b'~'),
            b'b' => letter_or_digit || matches!(byte, b'+' | b'/' | b'='),
            b'e' => letter_or_digit || matches!(byte, b'+' | b'/' | b'=' | b'%' | b'_' | b'-'),
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Text(&'static str),
    Run { class: Class, least: usize, most: usize },
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// What it is: `an API key`.
    pub(super) what: &'static str,
    /// The service that issues it, such as `Slack`.
    pub(super) whose: &'static str,
    /// The literal that texts are searched for.
    pub(super) mark: &'static str,
    before: Vec<Part>,
    after: Vec<Part>,
}

/// Where a shape matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The long runs in it, which are what nobody can guess.
    pub(super) runs: Vec<(usize, usize)>,
}

/// A run shorter than this says nothing of how a key was made.
const LONG_RUN: usize = 16;

/// No token is longer; without a bound, a text made to be slow would be.
const LONGEST_RUN: usize = 8 << 10;

/// What a text may end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The text is whole.
    Whole,
    /// The text was cut: a run that reaches its end may have been longer.
    Cut,
}

impl Shape {
    /// Matches the shape around its mark, which stands at `at`.
    pub(super) fn around(&self, text: &str, at: usize, end_of: End) -> Option<Hit> {
        let bytes = text.as_bytes();
        let mut end = at + self.mark.len();
        if bytes.get(at..end)? != self.mark.as_bytes() {
            return None;
        }
        // Before anything is read far ahead: inside of a word nothing begins.
        let starts = |at: usize| begins(bytes, at) || follows_label(bytes, at);
        if self.before.is_empty() && !starts(at) {
            return None;
        }
        let mut runs = Vec::new();
        let mut start = at;
        for part in self.before.iter().rev() {
            let from = part.backward(bytes, start)?;
            runs.push((from, start));
            start = from;
        }
        let mut is_cut = false;
        for part in &self.after {
            let Some(until) = part.forward(bytes, end) else {
                let rest = part.partly(bytes, end).filter(|_| end_of == End::Cut)?;
                is_cut = rest == bytes.len() && rest - start >= 8;
                (is_cut).then_some(())?;
                end = rest;
                break;
            };
            runs.push((end, until));
            end = until;
        }
        let is_open = matches!(self.after.last(), Some(Part::Run { most: usize::MAX, .. }));
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let is_longer = || bytes.get(end).is_some_and(goes_on) && !precedes_label(bytes, end);
        if !starts(start) || (!is_open && !is_cut && is_longer()) {
            return None;
        }
        runs.retain(|(from, until)| until - from >= LONG_RUN);
        if runs.is_empty() {
            runs.push((at + self.mark.len(), end));
        }
        Some(Hit { start, end, runs })
    }
}

impl Part {
    fn forward(self, bytes: &[u8], at: usize) -> Option<usize> {
        match self {
            Self::Text(text) => bytes.get(at..)?.starts_with(text.as_bytes()).then_some(at + text.len()),
            Self::Run { class, least, most } => {
                let length =
                    bytes.iter().skip(at).take(most.min(LONGEST_RUN)).take_while(|byte| class.holds(**byte)).count();
                (length >= least).then_some(at + length)
            }
        }
    }

    /// Where what is there of a run ends.
    fn partly(self, bytes: &[u8], at: usize) -> Option<usize> {
        match self {
            Self::Text(_) => None,
            Self::Run { class, .. } => {
                Some(at + bytes.iter().skip(at).take(LONGEST_RUN).take_while(|byte| class.holds(**byte)).count())
            }
        }
    }

    fn backward(self, bytes: &[u8], at: usize) -> Option<usize> {
        match self {
            Self::Text(text) => bytes.get(..at)?.ends_with(text.as_bytes()).then(|| at - text.len()),
            Self::Run { class, least, most } => {
                // No token is longer, and looking back further each time would take quadratic time.
                let most = most.min(256);
                let length = bytes.get(..at)?.iter().rev().take(most).take_while(|byte| class.holds(**byte)).count();
                (length >= least).then(|| at - length)
            }
        }
    }
}

/// Whether a token can begin here: not inside of a word. The letter of an escape (`\n`) and the digits of a percent
/// sign (`%3D`) are no word.
pub(super) fn begins(bytes: &[u8], at: usize) -> bool {
    let back = |n: usize| at.checked_sub(n).and_then(|at| bytes.get(at)).copied();
    let starts_apart = bytes.get(at).is_some_and(|byte| !byte.is_ascii_alphanumeric());
    match back(1) {
        None => true,
        _ if starts_apart => true,
        Some(b'n' | b'r' | b't') if back(2) == Some(b'\\') => true,
        Some(byte) if byte.is_ascii_hexdigit() && back(3) == Some(b'%') => true,
        Some(byte) => !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')),
    }
}

/// The table, read once.
pub(super) fn table() -> &'static [Shape] {
    static TABLE: OnceLock<Vec<Shape>> = OnceLock::new();
    TABLE.get_or_init(|| include_str!("shapes.txt").lines().filter_map(read_line).collect())
}

/// A shape from its line; `None` for comments and blank lines.
fn read_line(line: &'static str) -> Option<Shape> {
    if line.starts_with('#') {
        return None;
    }
    let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let (pattern, what, whose) = (columns.next()?, columns.next()?, columns.next()?);
    let parts = parts(pattern)?;
    let literal = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Run { .. } => 0,
    };
    let at = (0..parts.len()).rev().max_by_key(|at| parts.get(*at).map_or(0, literal))?;
    let Some(Part::Text(mark)) = parts.get(at) else { return None };
    let after = parts.get(at + 1..).unwrap_or_default().to_vec();
    Some(Shape { what, whose, mark, before: parts.get(..at).unwrap_or_default().to_vec(), after })
}

fn parts(pattern: &'static str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        if let Some((run, behind)) = rest.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            let class = Class(*run.as_bytes().last()?);
            let count = run.get(..run.len() - 1)?;
            let (least, most) = if let Some(least) = count.strip_suffix('+') {
                (least.parse().ok()?, usize::MAX)
            } else if let Some((least, most)) = count.split_once('-') {
                (least.parse().ok()?, most.parse().ok()?)
            } else {
                let exactly = count.parse().ok()?;
                (exactly, exactly)
            };
            parts.push(Part::Run { class, least, most });
            rest = behind;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            let (text, behind) = rest.split_at(end);
            parts.push(Part::Text(text));
            rest = behind;
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = include_str!("shapes.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut count = 0;
        for line in lines {
            count += 1;
            let shape = read_line(line).unwrap_or_else(|| panic!("{line}"));
            assert!(shape.mark.len() >= 2, "{line}");
            let known = |part: &Part| match part {
                Part::Text(_) => true,
                Part::Run { class, least, most } => b"dhHulawtbe".contains(&class.0) && least <= most && *least > 0,
            };
            assert!(shape.before.iter().chain(&shape.after).all(known), "{line}");
        }
        assert_eq!(table().len(), count);
        assert!(count > 180, "{count}");
    }

    /// A text of a shape, drawn from a state that moves on.
    fn drawn(pattern: &'static str, state: &mut u64) -> String {
        let mut draw = |most: usize| {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(*state >> 33).unwrap() % most
        };
        let mut text = String::new();
        for part in parts(pattern).unwrap() {
            match part {
                Part::Text(piece) => text.push_str(piece),
                Part::Run { class, least, most } => {
                    // Letters and digits, which every class has some of; what joins words is drawn less often.
                    let all: Vec<u8> =
                        (b'!'..=b'z').filter(|byte| class.holds(*byte) && byte.is_ascii_alphanumeric()).collect();
                    let joins: Vec<u8> =
                        (b'!'..=b'~').filter(|byte| class.holds(*byte) && !byte.is_ascii_alphanumeric()).collect();
                    let length = least + draw((most - least).min(8) + 1);
                    for at in 0..length {
                        let is_inside = at > 0 && at + 1 < length;
                        let from = if is_inside && !joins.is_empty() && draw(12) == 0 { &joins } else { &all };
                        text.push(char::from(from[draw(from.len())]));
                    }
                }
            }
        }
        text
    }

    #[test]
    fn a_token_of_every_shape_is_taken_away_whole() {
        let mut state = 17;
        for line in include_str!("shapes.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let pattern = line.split("  ").next().unwrap();
            for _ in 0..24 {
                let token = drawn(pattern, &mut state);
                let text = format!("It is \"{token}\" today.");
                assert_eq!(super::super::redact(&text), "It is \"[redacted]\" today.", "{pattern}: {token}");
            }
        }
    }

    #[test]
    fn a_token_begins_apart_from_words_and_not_apart_from_escapes() {
        for (text, at, expected) in [("sk-", 0, true), ("task-", 2, false), ("=sk-", 1, true), ("\\nsk-", 2, true)] {
            assert_eq!(begins(text.as_bytes(), at), expected, "{text}");
        }
        assert!(begins(b"%3Dghp_", 3) && !begins(b"x_ghp_", 2));
    }
}
