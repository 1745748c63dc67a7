//! The arguments of a call as evidence: without secrets and control characters, and bounded.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::preview::preview;
use crate::error::{Error, Result};
use crate::text::head;

/// The most bytes that the arguments of a call take as JSON.
const MOST_BYTES: usize = 400;
/// The most characters of a name.
const NAME_CHARS: usize = 40;
/// How long a text in them may be, tried in this order until all of them fit.
const TEXT_CHARS: [usize; 4] = [120, 60, 24, 8];
/// The most values of an object or a list, and how deep they may lie in each other.
const MOST_VALUES: usize = 24;
const MOST_DEPTH: usize = 3;
/// In the place of what there is no room for.
const LEFT_OUT: &str = "…";
const REDACTED: &str = "[redacted]";

/// The arguments of a call, scrubbed: a JSON object of at most 400 bytes. A text that was too long ends with `…`, and
/// `…` stands for values and names that did not fit.
///
/// ```
/// use herm_brain::memory::KeptArguments;
/// use serde_json::json;
///
/// let args = json!({ "host": "db-1", "password": "hunter2hunter2", "body": "word ".repeat(400) });
/// let kept = KeptArguments::of(args.as_object().expect("an object")).to_string();
/// assert!(kept.starts_with(r#"{"host":"db-1","password":"[redacted]","body":"word word "#));
/// assert!(kept.ends_with(r#"…"}"#) && kept.len() <= 400);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct KeptArguments(Map<String, Value>);

impl KeptArguments {
    /// What is kept of these arguments.
    pub fn of(args: &Map<String, Value>) -> Self {
        let clean = scrubbed_object(args, 0);
        let fits = |kept: &Self| kept.to_string().len() <= MOST_BYTES;
        let shortened = TEXT_CHARS.iter().map(|most| Self(shortened_object(&clean, *most)));
        if let Some(kept) = shortened.into_iter().find(fits) {
            return kept;
        }
        let [.., shortest] = TEXT_CHARS;
        let mut kept = Self(clean.iter().map(|(name, value)| (name.clone(), flat(value, shortest))).collect());
        while !fits(&kept) && !kept.0.is_empty() {
            kept.0.remove(LEFT_OUT);
            if let Some(last) = kept.0.keys().next_back().cloned() {
                kept.0.remove(&last);
            }
            kept.0.insert(LEFT_OUT.to_owned(), json!(LEFT_OUT));
        }
        kept
    }

    /// The arguments by name, in their order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The argument of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// What a row says.
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map(Self).map_err(|source| {
            Error::corrupt("evidence holds arguments that no herm wrote")
                .hint("restore the brain from a snapshot")
                .because(source)
        })
    }
}

impl std::fmt::Display for KeptArguments {
    /// As JSON without spaces.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| std::fmt::Error)?)
    }
}

fn scrubbed_object(fields: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let one = |(name, value): (&String, &Value)| (head(&preview(name), NAME_CHARS), scrubbed(name, value, depth));
    let mut clean: Map<String, Value> = fields.iter().take(MOST_VALUES).map(one).collect();
    if fields.len() > MOST_VALUES {
        clean.insert(LEFT_OUT.to_owned(), json!(LEFT_OUT));
    }
    clean
}

/// A value without secrets. The name before it may be what tells that it is one.
fn scrubbed(name: &str, value: &Value, depth: usize) -> Value {
    let clean = match value {
        Value::Object(_) | Value::Array(_) if depth == MOST_DEPTH => json!(LEFT_OUT),
        Value::Object(fields) => return Value::Object(scrubbed_object(fields, depth + 1)),
        Value::Array(many) => {
            let mut clean: Vec<Value> =
                many.iter().take(MOST_VALUES).map(|one| scrubbed(name, one, depth + 1)).collect();
            if many.len() > MOST_VALUES {
                clean.push(json!(LEFT_OUT));
            }
            return Value::Array(clean);
        }
        Value::String(text) => Value::String(preview(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    };
    let beside_its_name = json!({ head(name, NAME_CHARS): clean }).to_string();
    if crate::redact::scrub(&beside_its_name) == beside_its_name { clean } else { json!(REDACTED) }
}

fn shortened_object(fields: &Map<String, Value>, most: usize) -> Map<String, Value> {
    fields.iter().map(|(name, value)| (name.clone(), shortened(value, most))).collect()
}

/// A value whose texts have at most `most` characters.
fn shortened(value: &Value, most: usize) -> Value {
    match value {
        Value::String(text) => Value::String(head(text, most)),
        Value::Array(many) => many.iter().map(|one| shortened(one, most)).collect(),
        Value::Object(fields) => Value::Object(shortened_object(fields, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The same without what lies deeper.
fn flat(value: &Value, most: usize) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => json!(LEFT_OUT),
        _ => shortened(value, most),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(args: &Value) -> String {
        KeptArguments::of(args.as_object().unwrap()).to_string()
    }

    #[test]
    fn short_arguments_are_kept_as_they_are() {
        for args in [json!({}), json!({ "id": "replay-signature", "n": 7, "deep": { "yes": true, "of": [1, null] } })] {
            assert_eq!(kept(&args), args.to_string());
            assert_eq!(KeptArguments::parse(&kept(&args)).unwrap().to_string(), kept(&args));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_with_a_mark() {
        let long = json!({ "id": "x", "body": "ä".repeat(9_000), "more": "ö".repeat(9_000) });
        let shown = kept(&long);
        assert!(shown.len() <= MOST_BYTES, "{shown}");
        assert_eq!(
            shown,
            json!({ "id": "x", "body": format!("{}…", "ä".repeat(60)), "more": format!("{}…", "ö".repeat(60)) })
                .to_string()
        );
    }

    #[test]
    fn what_there_is_no_room_for_is_a_mark() {
        let many: Map<String, Value> = (0..90).map(|n| (format!("argument-{n}"), json!("value ".repeat(9)))).collect();
        let shown = KeptArguments::of(&many);
        assert!(shown.to_string().len() <= MOST_BYTES && shown.get("…") == Some(&json!("…")), "{shown}");
        assert_eq!(shown.get("argument-0"), Some(&json!("value va…")));
        let deep = json!({ "a": { "b": { "c": { "d": { "e": 1 } } } } });
        assert_eq!(kept(&deep), json!({ "a": { "b": { "c": { "d": "…" } } } }).to_string());
    }

    #[test]
    fn secrets_and_control_characters_are_not_kept() {
        let key = format!("sk-ant-{}", "a1B2".repeat(8));
        let args = json!({
            "note": format!("my key\n is {key}\u{0}\u{1b}[31m!"),
            "password": "hunter2hunter2",
            "headers": { "Authorization": "Basic dXNlcjpwYXNzd29yZA==" },
            "api_key": ["abcdefgh12345678"],
        });
        let shown = kept(&args);
        for secret in [key.as_str(), "hunter2", "dXNlcjpwYXNz", "abcdefgh12345678", "\\u00"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.starts_with(r#"{"note":"my key is [redacted]!","password":"[redacted]""#), "{shown}");
    }

    #[test]
    fn a_row_that_is_no_object_is_damage() {
        for text in ["", "[]", "3", "{"] {
            assert_eq!(KeptArguments::parse(text).unwrap_err().kind(), crate::error::ErrorKind::Corrupt);
        }
    }

    proptest! {
        #[test]
        fn whatever_they_are_they_are_bounded_and_read_back(
            args in prop::collection::vec((any::<String>(), any::<String>(), any::<u8>()), 0..40),
        ) {
            let value = |text: String, kind: u8| match kind % 4 {
                0 => json!(text),
                1 => json!([text, { "in": text }]),
                2 => json!({ text.clone(): text.repeat(20) }),
                _ => json!(kind),
            };
            let args: Map<String, Value> = args.into_iter().map(|(name, text, kind)| (name, value(text, kind))).collect();
            let kept = KeptArguments::of(&args);
            let text = kept.to_string();
            prop_assert!(text.len() <= MOST_BYTES && !text.contains(char::is_control), "{}", text);
            prop_assert_eq!(KeptArguments::parse(&text).unwrap(), kept);
        }
    }
}
