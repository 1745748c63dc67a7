//! Repairs of an object that is not JSON as it stands: only faults that have one meaning.

use super::comments::{comment_end, next_meant, odd_blank};
use super::{Edition, Quoted, byte, is_blank, next_solid};

/// Repairs the faults that have only one meaning: a comma before a closing brace or bracket, single-quoted strings
/// in an object without double quotes, raw control characters inside strings, an escaped apostrophe, comments, and
/// blanks that JSON does not know. It never drops or adds a key or a value. The result may still not be JSON.
pub(super) fn repair(text: &str, edition: Edition) -> Option<String> {
    let quote = if text.contains('"') { b'"' } else { b'\'' };
    let mut repaired = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    let mut last = b' ';
    while let Some(here) = byte(text, at) {
        let mut end = at + 1;
        match here {
            b'"' | b'\'' => {
                let string = Quoted::at(text, at)?;
                if here != quote || string.doubtful {
                    return None;
                }
                end = string.end;
                repaired.push_str(text.get(copied..at)?);
                push_string(&mut repaired, text.get(at + 1..end - 1)?, quote, edition);
                copied = end;
            }
            b',' if is_trailing_comma(text, at, last, edition) => {
                repaired.push_str(text.get(copied..at)?);
                copied = end;
            }
            b'/' | 0x80.. if edition != Edition::First => {
                if let Some(after) = comment_end(text, at).or_else(|| odd_blank(text, at)) {
                    repaired.push_str(text.get(copied..at)?);
                    repaired.push(' ');
                    (end, copied) = (after, after);
                    at = end;
                    continue;
                }
            }
            _ => {}
        }
        if !is_blank(here) {
            last = here;
        }
        at = end;
    }
    repaired.push_str(text.get(copied..)?);
    Some(repaired)
}

/// Whether a comma stands between a value and a closing mark. Without a value before it, as in `[,]`, a value may be
/// missing, and that is not ours to decide.
fn is_trailing_comma(text: &str, at: usize, last: u8, edition: Edition) -> bool {
    let next = match edition {
        Edition::First => next_solid(text, at + 1),
        Edition::Second | Edition::Third | Edition::Fourth => byte(text, next_meant(text, at + 1)),
    };
    !matches!(last, b'{' | b'[' | b',' | b':') && matches!(next, Some(b'}' | b']'))
}

/// Adds the inside of a string that this quote closed, now with double quotes and without raw control characters.
fn push_string(json: &mut String, inside: &str, quote: u8, edition: Edition) {
    json.push('"');
    let mut copied = 0;
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, here)) = bytes.next() {
        // What follows a backslash is passed: a raw line break there is a riddle, and the parser is left to refuse it.
        // JSON has no escaped apostrophe, and it can only mean the apostrophe.
        let drops_backslash =
            here == b'\\' && matches!(bytes.next(), Some((_, b'\''))) && (quote == b'\'' || edition != Edition::First);
        if drops_backslash || here < b' ' {
            json.push_str(inside.get(copied..at).unwrap_or_default());
            copied = at + 1;
        }
        if here < b' ' {
            push_control(json, here);
        }
    }
    json.push_str(inside.get(copied..).unwrap_or_default());
    json.push('"');
}

/// Adds a control character as JSON writes it.
fn push_control(json: &mut String, control: u8) {
    match control {
        b'\n' => json.push_str("\\n"),
        b'\r' => json.push_str("\\r"),
        b'\t' => json.push_str("\\t"),
        _ => {
            json.push_str(if control < 16 { "\\u000" } else { "\\u001" });
            json.push(char::from_digit(u32::from(control % 16), 16).unwrap_or_default());
        }
    }
}
