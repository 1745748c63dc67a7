//! Checks: what a role asks of a good answer, as data. The page is `docs/reference/checks.md`.
//!
//! A check looks at the answer, at one place in it, or at the calls of the task. Checks are pure but for two: one that
//! asks a tool, and one that asks a program; the caller that evaluates them brings what these two said.

use regex::Regex;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::memory::EvidenceStatus;
use crate::schema;

/// The most checks a role can have.
const MOST_CHECKS: usize = 32;
/// The most bytes a regular expression may compile to.
const REGEX_BYTES: usize = 1 << 20;

/// One thing that holds for a good answer.
#[derive(Debug, Clone)]
pub struct Check {
    /// Which part of the answer is meant, as a JSON Pointer; the whole of it where it is empty.
    at: String,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    /// The value is this one; texts are compared without the blanks around them, numbers by their value.
    Equals(Value),
    /// The text has these words, one after the other, and not as a part of longer ones.
    Contains(Vec<String>),
    /// The text matches the regular expression.
    Matches(Regex),
    /// The value fits a JSON Schema.
    Fits(Value),
    /// A call of this tool went well, with at least these arguments.
    Called(String, Map<String, Value>),
    /// This tool, given the answer and the question, does not fail.
    Tool(String),
    /// This program of the brain, given answer and transcript, ends well.
    Program(String),
}

/// A call of a task, as a check sees it.
#[derive(Debug, Clone, Copy)]
pub struct MadeCall<'c> {
    /// The name of the tool that was called.
    pub tool: &'c str,
    /// The arguments that the model gave.
    pub args: &'c Map<String, Value>,
    /// Whether the tool succeeded; a check on calls counts only those that did.
    pub status: EvidenceStatus,
}

/// What came of a check, or of all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckResult {
    /// The answer passes the check, or every check of the list.
    Holds,
    /// It holds in part, 0 to 1: only programs say so.
    Share(f64),
    /// It does not, and why.
    Fails(String),
    /// It could not be found out, and why. This says nothing about the answer.
    Unknown(String),
}

/// A check that has to ask someone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verifier<'c> {
    /// The tool of this name.
    Tool(&'c str),
    /// The program at this path of the brain.
    Program(&'c str),
}

impl Check {
    /// Reads a list of checks, as a role, a manifest or a task of a family has it.
    pub fn parse_all(value: &Value) -> Result<Vec<Self>> {
        let one = std::slice::from_ref(value);
        let list = match value {
            Value::Array(list) => list.as_slice(),
            Value::Null => &[],
            _ => one,
        };
        if list.len() > MOST_CHECKS {
            return Err(Error::invalid(format!(
                "there are {} checks, and at most {MOST_CHECKS} are allowed",
                list.len()
            ))
            .hint("put several conditions into one schema"));
        }
        list.iter().enumerate().map(|(at, check)| Self::parse(check).map_err(|why| at_check(at + 1, &why))).collect()
    }

    fn parse(value: &Value) -> std::result::Result<Self, String> {
        let Some(keys) = value.as_object() else { return Err("it is not an object".to_owned()) };
        let text = |key: &str| match keys.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(format!("{key:?} takes a text")),
        };
        let at = if keys.contains_key("at") { text("at")?.to_owned() } else { String::new() };
        if !at.is_empty() && !at.starts_with('/') {
            return Err(format!("\"at\" is a JSON Pointer such as \"/total\", not {at:?}"));
        }
        let mut rules = keys.keys().filter(|key| !matches!(key.as_str(), "at" | "args"));
        let (Some(name), None) = (rules.next(), rules.next()) else {
            return Err(format!("it needs exactly one of {}", RULES.join(", ")));
        };
        let rule = match name.as_str() {
            "equals" => Rule::Equals(keys.get(name).cloned().unwrap_or_default()),
            "contains" => {
                let wanted = match keys.get(name) {
                    Some(Value::Number(number)) => number.to_string(),
                    _ => text(name)?.to_owned(),
                };
                let words = words(&wanted);
                if words.is_empty() {
                    return Err("\"contains\" has no word to look for".to_owned());
                }
                Rule::Contains(words)
            }
            "regex" => {
                let built = regex::RegexBuilder::new(text(name)?).size_limit(REGEX_BYTES).build();
                Rule::Matches(built.map_err(|error| format!("\"regex\" cannot be used: {error}"))?)
            }
            "schema" => match keys.get(name) {
                Some(schema @ Value::Object(_)) => Rule::Fits(schema.clone()),
                _ => return Err("\"schema\" takes a JSON Schema".to_owned()),
            },
            "calls" => {
                let args = match keys.get("args") {
                    None => Map::new(),
                    Some(Value::Object(args)) => args.clone(),
                    Some(_) => return Err("\"args\" takes an object".to_owned()),
                };
                Rule::Called(text(name)?.to_owned(), args)
            }
            "tool" => Rule::Tool(text(name)?.to_owned()),
            "program" => Rule::Program(text(name)?.to_owned()),
            other => return Err(format!("{other:?} is not known; it is one of {}", RULES.join(", "))),
        };
        if keys.contains_key("args") && !matches!(rule, Rule::Called(..)) {
            return Err("\"args\" belongs to \"calls\"".to_owned());
        }
        Ok(Self { at, rule })
    }

    /// Who has to be asked, where somebody has to.
    pub fn verifier(&self) -> Option<Verifier<'_>> {
        match &self.rule {
            Rule::Tool(name) => Some(Verifier::Tool(name)),
            Rule::Program(path) => Some(Verifier::Program(path)),
            _ => None,
        }
    }

    /// Looks at an answer and the calls that led to it. A check that has to ask someone is not looked at here.
    fn look(&self, answer: &Value, calls: &[MadeCall<'_>]) -> CheckResult {
        let Some(found) = answer.pointer(&self.at) else {
            return CheckResult::Fails(format!("the answer has nothing at {}", self.at));
        };
        let place = if self.at.is_empty() { "the answer".to_owned() } else { format!("the answer's {}", self.at) };
        let outcome = |holds: bool, why: String| if holds { CheckResult::Holds } else { CheckResult::Fails(why) };
        match &self.rule {
            Rule::Equals(wanted) => outcome(same(found, wanted), format!("{place} is not {wanted}")),
            Rule::Contains(wanted) => {
                let said = words(&text_of(found));
                let has = said.windows(wanted.len()).any(|window| window == wanted);
                outcome(has, format!("{place} does not say {:?}", wanted.join(" ")))
            }
            Rule::Matches(regex) => {
                outcome(regex.is_match(&text_of(found)), format!("{place} does not match {:?}", regex.as_str()))
            }
            Rule::Fits(schema) => {
                let problems = schema::problems(schema, found);
                outcome(problems.is_empty(), format!("{place} does not fit: {}", problems.join("; ")))
            }
            Rule::Called(tool, args) => {
                let went_well = |call: &MadeCall<'_>| {
                    call.status == EvidenceStatus::Ok
                        && call.tool == *tool
                        && args.iter().all(|(name, value)| call.args.get(name).is_some_and(|had| same(had, value)))
                };
                outcome(calls.iter().any(went_well), format!("no such call of {tool} went well"))
            }
            Rule::Tool(_) | Rule::Program(_) => CheckResult::Unknown("nobody was asked".to_owned()),
        }
    }
}

const RULES: [&str; 7] = ["equals", "contains", "regex", "schema", "calls", "tool", "program"];

fn at_check(number: usize, why: &str) -> Error {
    Error::invalid(format!("check {number} cannot be used: {why}")).hint("docs/reference/checks.md has every form")
}

/// Looks at all checks; `asked` has what those said that had to ask someone, in their order. All have to hold: the first
/// that fails decides, then the first that is unknown. A share is the mean of all shares.
pub fn evaluate(checks: &[Check], answer: Option<&str>, calls: &[MadeCall<'_>], asked: &[CheckResult]) -> CheckResult {
    let Some(answer) = answer else { return CheckResult::Fails("there is no answer".to_owned()) };
    // An answer is JSON; where a person reads plain text, that is the value.
    let answer = serde_json::from_str(answer).unwrap_or_else(|_| Value::String(answer.to_owned()));
    let mut asked = asked.iter();
    let (mut shares, mut unknown) = (Vec::new(), None);
    for check in checks {
        let result = match check.verifier() {
            Some(_) => asked.next().cloned().unwrap_or_else(|| CheckResult::Unknown("nobody was asked".to_owned())),
            None => check.look(&answer, calls),
        };
        match result {
            CheckResult::Holds => shares.push(1.0),
            CheckResult::Share(share) => shares.push(share),
            CheckResult::Unknown(why) => unknown = unknown.or(Some(why)),
            fails @ CheckResult::Fails(_) => return fails,
        }
    }
    match unknown {
        Some(why) => CheckResult::Unknown(why),
        None if shares.is_empty() => CheckResult::Unknown("there are no checks".to_owned()),
        None if shares.iter().all(|share| *share >= 1.0) => CheckResult::Holds,
        None => CheckResult::Share(shares.iter().sum::<f64>() / shares.len() as f64),
    }
}

/// Whether two values are the same to a person: `57` and `"57"` are, and blanks around a text do not count.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.trim() == b.trim(),
        (Value::Number(_), Value::String(_)) => same(b, a),
        (Value::String(text), Value::Number(number)) => {
            text.trim().parse::<f64>().ok().zip(number.as_f64()).is_some_and(|(a, b)| a == b)
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        // An answer of one field is that field.
        (Value::Object(fields), plain) if fields.len() == 1 && !plain.is_object() => {
            fields.values().all(|only| same(only, plain))
        }
        _ => a == b,
    }
}

/// The texts of a value, without the names of its fields.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => fields.values().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        plain => plain.to_string(),
    }
}

/// The words of a text in lower case. A number with its decimals is one word: `5.7` does not contain `7`.
pub fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let characters: Vec<char> = lower.chars().collect();
    let is_digit = |at: Option<&char>| at.is_some_and(char::is_ascii_digit);
    let mut words = vec![String::new()];
    for (at, c) in characters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| characters.get(before));
        let joins = matches!(c, '.' | ',' | ':') && is_digit(before) && is_digit(characters.get(at + 1));
        match words.last_mut() {
            Some(word) if c.is_alphanumeric() || joins => word.push(*c),
            Some(word) if !word.is_empty() => words.push(String::new()),
            _ => {}
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(checks: Value, answer: &str) -> CheckResult {
        evaluate(&Check::parse_all(&checks).unwrap(), Some(answer), &[], &[])
    }

    fn holds(checks: Value, answer: &str) -> bool {
        result(checks, answer) == CheckResult::Holds
    }

    #[test]
    fn a_text_is_found_by_whole_words_and_whole_numbers() {
        assert!(holds(json!({ "contains": "box 12" }), r#"{"answer": "It is in Box 12."}"#));
        assert!(!holds(json!({ "contains": "box 12" }), r#"{"answer": "box 123"}"#));
        assert!(!holds(json!({ "contains": 7 }), r#"{"answer": "5.7 m"}"#));
        assert!(holds(json!({ "contains": 5.7 }), r#"{"answer": "5.7 m"}"#));
    }

    #[test]
    fn a_value_is_compared_at_its_place() {
        let answer = r#"{"total": "12.50", "paid": true, "items": [{"name": "rope "}]}"#;
        assert!(holds(json!([{ "at": "/total", "equals": 12.5 }, { "at": "/paid", "equals": true }]), answer));
        assert!(holds(json!({ "at": "/items/0/name", "equals": "rope" }), answer));
        assert!(!holds(json!({ "at": "/items/1/name", "equals": "rope" }), answer));
        assert!(holds(json!({ "equals": "blue" }), r#"{"answer": "blue"}"#), "an answer of one field is that field");
        assert!(holds(json!({ "at": "/total", "regex": "^[0-9]+\\.[0-9]{2}$" }), answer));
        assert!(!holds(json!({ "schema": { "required": ["sum"] } }), answer));
    }

    #[test]
    fn the_first_that_fails_decides_and_what_was_not_asked_is_unknown() {
        let checks = json!([{ "tool": "verify" }, { "contains": "no" }]);
        assert!(matches!(result(checks, r#"{"answer":"yes"}"#), CheckResult::Fails(_)));
        assert!(matches!(result(json!([{ "program": "checks/one" }]), "{}"), CheckResult::Unknown(_)));
        let checks = Check::parse_all(&json!([{ "program": "checks/one" }, { "contains": "yes" }])).unwrap();
        let share = evaluate(&checks, Some(r#"{"answer":"yes"}"#), &[], &[CheckResult::Share(0.5)]);
        assert_eq!(share, CheckResult::Share(0.75));
    }

    #[test]
    fn a_check_that_cannot_be_used_says_which_and_why() {
        for (checks, why) in [
            (json!([{ "equals": 1 }, { "contians": "x" }]), "check 2 cannot be used: \"contians\" is not known"),
            (json!("x"), "check 1 cannot be used: it is not an object"),
            (json!({ "regex": "(" }), "\"regex\" cannot be used"),
            (json!({ "regex": "((a{1000}){1000}){1000}" }), "\"regex\" cannot be used"),
            (json!({ "contains": " " }), "no word"),
            (json!({ "equals": 1, "contains": "x" }), "exactly one of"),
            (json!({ "at": "total", "equals": 1 }), "JSON Pointer"),
            (json!({ "contains": "x", "args": {} }), "belongs to"),
        ] {
            let error = Check::parse_all(&checks).unwrap_err();
            assert!(error.message().contains(why), "{checks}: {error}");
        }
    }
}
