//! The only module that calls the YAML parser: bounds in front of it, marks in what goes through, text
//! in what comes back.

use std::collections::{BTreeMap, btree_map};

use gray_matter::Pod;
use gray_matter::engine::{Engine, YAML};

use super::bounds::{self, Bound};
use super::lines::{byte, is_gap};
use super::mark::Mark;
use crate::value::FrontMatterValue;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A bound held the text back.
    Refused(Bound),
    /// The parser refused it, on this line of the text (counted from 1).
    Invalid { message: String, line: usize },
}

/// Parses a block map whose keys stand in `column`.
pub(crate) fn parse(text: &str, column: usize) -> Result<BTreeMap<String, FrontMatterValue>, Failure> {
    parse_marked(text, column, Mark::absent_from(text))
}

/// The same for a text that has marks of its own.
pub(crate) fn parse_marked(
    text: &str,
    column: usize,
    mark: Mark,
) -> Result<BTreeMap<String, FrontMatterValue>, Failure> {
    bounds::check(text).map_err(Failure::Refused)?;
    let mut marked = mark.words(text);
    if !marked.ends_with(['\n', '\r']) {
        marked.push('\n');
    }
    // The parser treats an empty block scalar at the end of its text unlike any other; so this is not the end.
    marked.push_str(&format!("{:column$}{}:\n", "", mark.sign()));
    let pod = YAML::parse(&marked).map_err(|error| invalid(&error.to_string()))?;
    let unclear = || unclear("it reads as something else than keys with values");
    let FrontMatterValue::Map(mut map) = value_of(pod, mark)? else { return Err(unclear()) };
    match map.remove("") {
        Some(FrontMatterValue::Null) => Ok(map),
        _ => Err(unclear()),
    }
}

/// What the parser says of a text as it was written. Text with both anchors and aliases is held back: the parser copies
/// what an alias stands for, so three hundred bytes can cost hundreds of megabytes.
pub(crate) fn judge(text: &str) -> Result<(), Failure> {
    bounds::check(text).map_err(Failure::Refused)?;
    if has_sign(text, b"&") && has_sign(text, b"*") {
        return Ok(());
    }
    YAML::parse(text).map(drop).map_err(|error| invalid(&error.to_string()))
}

/// Whether an anchor, alias or tag could stand anywhere in the text.
pub(crate) fn has_any_sign(text: &str) -> bool {
    has_sign(text, b"&*!")
}

/// Whether one of the signs stands where a token may begin; `Q&A` and `2*3` have none.
fn has_sign(text: &str, signs: &[u8]) -> bool {
    let mut previous = b'\n';
    for at in 0..text.len() {
        let current = byte(text, at);
        let may_begin = is_gap(previous) || b"[]{},:-?\"'".contains(&previous);
        if signs.contains(&current) && may_begin && !is_gap(byte(text, at + 1)) {
            return true;
        }
        previous = current;
    }
    false
}

fn value_of(pod: Pod, mark: Mark) -> Result<FrontMatterValue, Failure> {
    Ok(match pod {
        Pod::Null => FrontMatterValue::Null,
        Pod::String(text) => FrontMatterValue::Text(mark.take_out(text)),
        // Marked words have no type, so these are never met.
        Pod::Integer(number) => FrontMatterValue::Text(number.to_string()),
        Pod::Float(number) => FrontMatterValue::Text(format!("{number:?}")),
        Pod::Boolean(switch) => FrontMatterValue::Text(switch.to_string()),
        Pod::Array(items) => {
            let items = items.into_iter().map(|item| value_of(item, mark));
            FrontMatterValue::List(items.collect::<Result<_, _>>()?)
        }
        Pod::Hash(pods) => {
            let mut map = BTreeMap::new();
            for (key, pod) in pods {
                match map.entry(mark.take_out(key)) {
                    btree_map::Entry::Vacant(place) => drop(place.insert(value_of(pod, mark)?)),
                    // `1` and `"1"` are two keys to the parser, and one here.
                    btree_map::Entry::Occupied(_) => return Err(unclear("duplicated key in mapping")),
                }
            }
            FrontMatterValue::Map(map)
        }
    })
}

fn unclear(message: &str) -> Failure {
    Failure::Invalid { message: message.to_owned(), line: 1 }
}

/// Takes the place (`… at byte 3 line 1 column 4`) out of the parser's message.
fn invalid(message: &str) -> Failure {
    let reason = message.split_once(": ").map_or(message, |(_, reason)| reason);
    let (reason, place) = reason.rsplit_once(" at byte ").unwrap_or((reason, ""));
    let line = place.split(' ').nth(2).and_then(|line| line.parse().ok()).unwrap_or(1);
    Failure::Invalid { message: reason.to_owned(), line }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        match parse(text, 0) {
            Ok(map) => serde_json::to_string(&map).unwrap(),
            Err(failure) => format!("{failure:?}"),
        }
    }

    #[test]
    fn every_scalar_comes_back_as_it_was_written() {
        assert_eq!(json("a: 1.10\nb: 0x1F\nc: TRUE\nd: -.inf\n"), r#"{"a":"1.10","b":"0x1F","c":"TRUE","d":"-.inf"}"#);
        assert_eq!(json("a: [+7, '1.0', \"\\x41 1\"]\n"), r#"{"a":["+7","1.0","A 1"]}"#);
        assert_eq!(json("a: >\n  1.0\n  *x*\nb: |2\n   1\n"), r#"{"a":"1.0 *x*\n","b":" 1\n"}"#);
        assert_eq!(json("1: a\ntrue: b\n"), r#"{"1":"a","true":"b"}"#);
        assert_eq!(json("a: ~\nb: null\nc:\nd: 'null'\n"), r#"{"a":null,"b":null,"c":null,"d":"null"}"#);
    }

    #[test]
    fn signs_come_back_as_text_and_multiply_nothing() {
        assert_eq!(
            json("a: &x one\nb: *x\nc: !!str 1\nd: [*x]\n"),
            r#"{"a":"&x one","b":"*x","c":"!!str 1","d":["*x"]}"#
        );
    }

    #[test]
    fn an_empty_block_at_the_end_is_empty() {
        assert_eq!(json("a: |\n"), r#"{"a":""}"#);
    }

    #[test]
    fn two_keys_of_one_name_are_refused() {
        for twice in ["a: {1: x, \"1\": y}\n", "a: 1\na: 2\n"] {
            assert!(json(twice).contains("duplicated key"), "{twice}");
        }
    }

    #[test]
    fn an_error_names_its_line() {
        let message = "mapping values are not allowed in this context".to_owned();
        assert_eq!(judge("a: b\nc: d: e\n"), Err(Failure::Invalid { message, line: 2 }));
    }
}
