//! Evidence made harmless: what a tool printed, as one line that fits between two backticks.
//!
//! A skill is a file of instructions that a model reads, and evidence is whatever a tool or a stranger's
//! page happened to say. So nothing of it may end the code it stands in, the block around it or the
//! front matter above, act as markup, be seen by one reader and not by another, or give orders. What is
//! left stays literal: a backslash is a backslash.

use std::iter::Peekable;
use std::str::Chars;

use crate::redact;
use crate::skill::guard;

/// The text on one line of at most `most` characters, with `…` where there was more.
///
/// Secrets are redacted first. A text that [`guard::objections`] still speaks against afterwards is
/// withheld as a whole, since half an instruction is one too: `[withheld: <rule>]`. Doing it
/// twice changes nothing more than once.
pub fn sanitize(text: &str, most: usize) -> String {
    let Some(mut flat) = settled(text, most) else { return cut("[withheld: hides a secret]".into(), most) };
    // Judged after the cut: what is cut off reaches nobody, and the cut itself may complete a phrase.
    // So may what stands behind the text in the skill, and something always does.
    flat.push(' ');
    let objection = guard::objections(&flat).first().map(|objection| objection.rule);
    match objection.or_else(|| gives_orders(&flat).then_some("gives orders")) {
        None => {
            flat.pop();
            flat
        }
        Some(rule) => cut(format!("[withheld: {rule}]"), most),
    }
}

/// The text scrubbed, flattened and cut, until nothing of the three changes it any more.
///
/// Flattening can put a secret together that no shape fitted before, as a zero-width space inside the word
/// `password` goes. A text that never comes to rest is `None`.
fn settled(text: &str, most: usize) -> Option<String> {
    let mut flat = cut(flatten(&redact::scrub(text), most), most);
    for _ in 0..MOST_PASSES {
        let again = cut(flatten(&redact::scrub(&flat), most), most);
        if again == flat {
            return Some(flat);
        }
        flat = again;
    }
    None
}

/// Two are enough for everything that was ever seen.
const MOST_PASSES: usize = 4;

/// Phrases that give orders to the reader, and do not say what happened. Messages of tools say "you must specify
/// a file"; they do not say these.
const ORDERS: [&str; 14] = [
    "you are now",
    "you must always",
    "you must never",
    "you must now",
    "you should always",
    "from now on",
    "before anything else",
    "new instructions",
    "system:",
    "assistant:",
    "developer:",
    "| sh",
    "| bash",
    "obey",
];

fn gives_orders(text: &str) -> bool {
    let lower = text.to_lowercase();
    let begins = |at: usize| lower.get(..at).is_none_or(|before| !before.ends_with(char::is_alphanumeric));
    let ends = |at: usize| lower.get(at..).is_none_or(|after| !after.starts_with(char::is_alphanumeric));
    let is_whole = |at: usize, order: &str| begins(at) && (order.ends_with(':') || ends(at + order.len()));
    ORDERS.iter().any(|order| lower.match_indices(order).any(|(at, _)| is_whole(at, order)))
}

/// The text without its marks of structure; it may be cut off once it is longer than `most`.
fn flatten(text: &str, most: usize) -> String {
    let mut line = Line { text: String::with_capacity(text.len().min(most.saturating_mul(4)) + 16), ..Line::default() };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // Most characters are these; they need not be compared with everything below.
            c if c.is_ascii_graphic() => line.push(c),
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            c if c.is_whitespace() => line.space = true,
            c if c.is_control() || is_unseen(c) => {}
            c => line.push(c),
        }
        // What is taken back below is never more than a few characters.
        if line.length > most.saturating_add(16) {
            break;
        }
    }
    line.text
}

/// The first `most` characters, the last of them `…` where there were more.
fn cut(mut text: String, most: usize) -> String {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return text;
    }
    let Some(keep) = most.checked_sub(1) else { return String::new() };
    let end = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
    text.truncate(end);
    text.push('…');
    text
}

/// Characters that are not seen, turn text around, or are not characters at all. Wider than what the
/// guard knows, for here nothing is lost with them.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Skips what a terminal would take for a command behind ESC.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control_sequence(chars);
        }
        // A title or a link ends at BEL or at the next ESC; without one of them, only the mark goes.
        Some(']') => {
            chars.next();
            let ends = |c: char| matches!(c, '\u{7}' | '\u{1b}');
            let length = chars.clone().take(LONGEST_SEQUENCE).position(ends);
            for _ in 0..length.map_or(0, |length| length + 1) {
                chars.next();
            }
            chars.next_if_eq(&'\\');
        }
        // ESC and one character are a command, but a letter of the text is worth more than that.
        _ => {}
    }
}

/// A longer command is a text.
const LONGEST_SEQUENCE: usize = 256;

/// Skips parameters and the letter that ends them: `31;1m`.
fn skip_control_sequence(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
    chars.next_if(|c| ('@'..='~').contains(c));
}

/// A line as it grows. Each rule looks only at what stands already, so a clean text stays as it is and
/// so does every beginning of one.
#[derive(Default)]
struct Line {
    text: String,
    length: usize,
    space: bool,
    last: char,
}

impl Line {
    fn push(&mut self, c: char) {
        if self.space {
            self.space = false;
            if !self.text.is_empty() {
                self.append(' ');
            }
        }
        match c {
            c if c.is_ascii_alphanumeric() && self.last != '<' => self.append(c),
            '`' => self.append('\''),
            // A tag, a comment, a declaration or a template's mark; `a < b` and `\g<0>` are none.
            c if self.last == '<' && (c.is_alphabetic() || matches!(c, '/' | '!' | '?' | '|' | '<' | '_' | '$')) => {
                self.take_back(1);
                self.append('‹');
                self.append(c);
            }
            '>' if self.ends_markup() => self.append('›'),
            '-' if self.text.ends_with("--") => {
                self.take_back(2);
                self.append('—');
            }
            '-' if self.last == '—' => {}
            '~' if self.text.ends_with("~~") => {}
            // A template's variable would be filled in.
            '{' if self.last == '$' => {
                self.append(' ');
                self.append('{');
            }
            ']' if self.ends_in("[inst") => self.bracket("[inst".len()),
            ']' if self.ends_in("[/inst") => self.bracket("[/inst".len()),
            ':' if self.ends_in("curator-evolver") => self.space = true,
            c => self.append(c),
        }
    }

    fn append(&mut self, c: char) {
        self.text.push(c);
        self.length += 1;
        self.last = c;
    }

    fn take_back(&mut self, characters: usize) {
        for _ in 0..characters {
            self.text.pop();
            self.length = self.length.saturating_sub(1);
        }
        self.last = self.text.chars().next_back().unwrap_or_default();
    }

    /// Whether a `>` here would close a tag, a comment or a mark.
    fn ends_markup(&self) -> bool {
        self.last.is_alphabetic()
            || matches!(self.last, '|' | '/' | '!' | '?' | '>' | '›' | '"' | '\'' | ']')
            || self.text.ends_with("--")
            || self.last == '—'
    }

    fn ends_in(&self, ascii: &str) -> bool {
        let from = self.text.len().checked_sub(ascii.len());
        from.and_then(|from| self.text.as_bytes().get(from..))
            .is_some_and(|tail| tail.eq_ignore_ascii_case(ascii.as_bytes()))
    }

    /// Turns the bracket that was opened `length` bytes ago, and this one, into round ones.
    fn bracket(&mut self, length: usize) {
        let at = self.text.len().saturating_sub(length);
        self.text.replace_range(at..=at, "(");
        self.append(')');
    }
}

#[cfg(test)]
mod tests;
