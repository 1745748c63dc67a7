//! What a failure said, without what differs from call to call: numbers, ids, paths, addresses and
//! quoted texts become placeholders, so that the same failure is the same text each time.

use super::head;

/// The longest class, in characters.
pub const CLASS_CHARS: usize = 120;
/// How much of a text is looked at: what failed is said at the start.
const LOOKED_AT: usize = 300;
/// A longer quotation is not looked for: each opening quote would search to the end.
const LONGEST_QUOTE: usize = 200;
/// Where a structured result says what went wrong, in order.
const MESSAGE_KEYS: [&str; 6] = ["error", "message", "reason", "detail", "stderr", "exception"];

/// The class of a failure by what it said.
pub fn class(summary: &str) -> String {
    let said = message(summary);
    let text = said.as_deref().unwrap_or(summary);
    // A structured result that was cut short is no JSON any more; its quotes are not quotations.
    let is_structured = said.is_none() && text.trim_start().starts_with(['{', '[']);
    let mut lower = head(text, LOOKED_AT);
    if lower.is_ascii() {
        lower.make_ascii_lowercase();
    } else {
        lower = lower.to_lowercase();
    }
    if is_structured {
        lower = lower.replace(['"', '{', '}'], " ");
    } else if lower.contains(['"', '\'', '`']) {
        lower = without_quotes(&lower);
    }
    let mut class = String::with_capacity(lower.len() + 16);
    for word in lower.split_whitespace() {
        let before = class.len();
        if before > 0 {
            class.push(' ');
        }
        push_word(word, &mut class);
        let is_long = class.len() > CLASS_CHARS && class.chars().count() > CLASS_CHARS;
        if is_long {
            class.truncate(before);
            break;
        }
    }
    class
}

/// What a structured result says went wrong.
fn message(summary: &str) -> Option<String> {
    let text = summary.trim();
    if !text.starts_with('{') {
        return None;
    }
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    MESSAGE_KEYS.iter().filter_map(|key| value.get(key)).find_map(|said| match said {
        serde_json::Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        serde_json::Value::Object(inner) => inner.get("message")?.as_str().map(str::to_owned),
        _ => None,
    })
}

/// The text with `{text}` for everything in quotes. An apostrophe inside a word is none.
fn without_quotes(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    let mut last = ' ';
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let opens = matches!(c, '"' | '\'' | '`') && !last.is_alphanumeric();
        let length = if opens { quoted(after, c) } else { None };
        match length {
            Some(length) => {
                bare.push_str("{text}");
                rest = after.get(length + c.len_utf8()..).unwrap_or_default();
            }
            None => {
                bare.push(c);
                rest = after;
            }
        }
        last = c;
    }
    bare
}

/// How many bytes there are up to the closing quote.
fn quoted(text: &str, quote: char) -> Option<usize> {
    text.char_indices().take(LONGEST_QUOTE).find(|(_, c)| *c == quote).map(|(at, _)| at)
}

/// Adds a word, or what it stands for.
fn push_word(word: &str, class: &mut String) {
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        class.push_str(word);
        return;
    }
    let around = |c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '\\' | '~' | '-' | '_' | '#' | '$' | '%');
    let tail = word.trim_start_matches(around);
    let core = tail.trim_end_matches(around);
    let head = word.get(..word.len() - tail.len()).unwrap_or_default();
    let rest = tail.get(core.len()..).unwrap_or_default();
    let (head, stands_for) = if core.contains("://") {
        (head, "{url}")
    } else if is_id(core) {
        (head, "{id}")
    } else if is_path(word, core) {
        // The dot of `./x` belongs to the path.
        (head.trim_end_matches('.'), "{path}")
    } else {
        return push_numbers(word, class);
    };
    for part in [head, stands_for, rest] {
        class.push_str(part);
    }
}

/// A long number in base 16, or a UUID.
fn is_id(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let groups: Vec<usize> = word.split('-').take(6).map(|part| if is_hex(part) { part.len() } else { 0 }).collect();
    groups == [8, 4, 4, 4, 12]
        || (is_hex(digits) && (digits.len() < word.len() || (digits.len() >= 8 && is_number(digits))))
}

/// A path: rooted, with a drive, several levels deep, or a level and an extension. `and/or` is none.
fn is_path(word: &str, core: &str) -> bool {
    let slashes = core.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let is_rooted =
        ["/", "./", "../", "~/", ".\\", "\\\\"].iter().any(|root| word.starts_with(root)) || core.starts_with('/');
    let has_drive = core.get(1..3) == Some(":\\") || core.get(1..3) == Some(":/");
    core.len() > 1 && slashes > 0 && (is_rooted || has_drive || slashes > 1 || core.contains('.'))
}

/// Adds the word with `#` for every number in it; `1.5`, `10:30` and `1,000` are one.
fn push_numbers(word: &str, class: &mut String) {
    let mut chars = word.chars().peekable();
    let mut in_number = false;
    while let Some(c) = chars.next() {
        let is_digit = c.is_ascii_digit();
        let joins = in_number && matches!(c, '.' | ',' | ':') && chars.peek().is_some_and(char::is_ascii_digit);
        if !is_digit && !joins {
            class.push(c);
        } else if !in_number {
            class.push('#');
        }
        in_number = is_digit || joins;
    }
}
