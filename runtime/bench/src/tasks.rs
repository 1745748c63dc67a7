//! The tasks of a family: `tasks.jsonl`, one JSON object a line.

use std::collections::{BTreeMap, BTreeSet};

use herm::checks::Check;
use herm::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::family::{FORMAT, at_line, json_problem};

/// The most tasks a family has.
const MOST_TASKS: usize = 10_000;
/// The most bytes of one line.
const MOST_LINE: usize = 256 << 10;
/// The most bytes of what a task asks.
const MOST_INPUT: usize = 64 << 10;

/// One task: what is asked, and how a good answer is recognised.
#[derive(Debug, Clone)]
pub(crate) struct FamilyTask {
    /// Its name: its own, or its line.
    pub(super) name: String,
    pub(super) input: String,
    pub(super) checks: Vec<Check>,
}

/// The tasks to learn from, and those to measure on.
#[derive(Debug, Clone, Default)]
pub(super) struct Halves {
    pub(super) learn: Vec<FamilyTask>,
    pub(super) held_out: Vec<FamilyTask>,
    /// Held-out tasks whose question is also one to learn from.
    pub(super) repeated: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskLine {
    id: Option<Value>,
    input: String,
    check: Option<Value>,
    half: Option<String>,
    #[serde(rename = "comment")]
    _comment: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Learn,
    HeldOut,
}

/// Reads all lines. `tools` are the names that a check may ask for, where they are all known.
pub(super) fn read(place: &str, text: &str, tools: Option<&[String]>) -> Result<Halves> {
    let mut all = Vec::new();
    let mut lines = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let (number, line) = (at + 1, line.trim());
        if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
            continue;
        }
        if line.len() > MOST_LINE {
            return Err(
                at_line(place, number, format!("it has more than {MOST_LINE} bytes")).hint("make the task smaller")
            );
        }
        if !line.starts_with('{') {
            return Err(at_line(place, number, "a task is a JSON object, and this is none").hint(FORMAT));
        }
        let read: TaskLine = serde_json::from_str(line).map_err(|error| json_problem(place, number, &error))?;
        let (task, half) = task(place, number, read, tools)?;
        if let Some(before) = lines.insert(task.name.clone(), number) {
            return Err(at_line(place, number, format!("the task {:?} stands on line {before} too", task.name))
                .hint("give each task an \"id\" of its own, or none at all"));
        }
        if all.len() == MOST_TASKS {
            return Err(Error::invalid(format!("{place} has more than {MOST_TASKS} tasks"))
                .hint("make several families of them"));
        }
        all.push((number, task, half));
    }
    split(place, all)
}

fn task(place: &str, number: usize, read: TaskLine, tools: Option<&[String]>) -> Result<(FamilyTask, Option<Half>)> {
    let wrong = |what: String, hint: &str| at_line(place, number, what).hint(hint.to_owned());
    let name = match read.id {
        None => format!("line-{number}"),
        Some(Value::String(name)) if !name.trim().is_empty() && name.len() <= 200 => name.trim().to_owned(),
        Some(Value::Number(name)) => name.to_string(),
        Some(_) => return Err(wrong("\"id\" is neither a text of 1 to 200 bytes nor a number".to_owned(), FORMAT)),
    };
    if read.input.trim().is_empty() {
        return Err(wrong("\"input\" is empty".to_owned(), "say what the task asks"));
    }
    if read.input.contains('\0') {
        return Err(wrong("\"input\" has a NUL character".to_owned(), "take it out"));
    }
    if read.input.len() > MOST_INPUT {
        return Err(wrong(format!("\"input\" has more than {MOST_INPUT} bytes"), "make the task smaller"));
    }
    let half = match read.half.as_deref().map(|half| half.trim().to_lowercase().replace(['-', ' '], "_")).as_deref() {
        None => None,
        Some("learn" | "learning") => Some(Half::Learn),
        Some("held_out" | "heldout") => Some(Half::HeldOut),
        Some(_) => {
            return Err(wrong(
                "\"half\" is neither \"learn\" nor \"held_out\"".to_owned(),
                "leave it out, or write one of them",
            ));
        }
    };
    let said = read.check.unwrap_or_default();
    let checks = checks(&said, tools).map_err(|(what, hint)| wrong(what, &hint))?;
    Ok((FamilyTask { name, input: read.input, checks }, half))
}

/// The checks of a task. A text or a number alone is what the answer contains.
pub(super) fn checks(said: &Value, tools: Option<&[String]>) -> std::result::Result<Vec<Check>, (String, String)> {
    let full = |one: &Value| match one {
        Value::String(_) | Value::Number(_) => json!({ "contains": one }),
        other => other.clone(),
    };
    let list: Vec<Value> = match said {
        Value::Array(list) => list.iter().map(full).collect(),
        Value::Null => Vec::new(),
        one => vec![full(one)],
    };
    if list.is_empty() {
        return Err((
            "the task has no check".to_owned(),
            "add one, such as \"check\": {\"contains\": \"box 12\"}".to_owned(),
        ));
    }
    let mut called = list.iter().filter_map(|check| check.get("calls")?.as_str());
    if let Some(tools) = tools
        && let Some(unknown) = called.find(|name| !tools.iter().any(|tool| tool == name))
    {
        let hint = format!("the tools of the family are {}", tools.join(", "));
        return Err((format!("a check asks for a call of {unknown:?}, and there is no such tool"), hint));
    }
    let checks =
        Check::parse_all(&Value::Array(list)).map_err(|error| (error.message().to_owned(), FORMAT.to_owned()))?;
    if checks.iter().any(|check| check.verifier().is_some()) {
        return Err((
            "a check of a family cannot ask a tool or a program".to_owned(),
            "use equals, contains, regex, schema or calls".to_owned(),
        ));
    }
    Ok(checks)
}

/// Without a word in the file, the first half is learned from; otherwise each task says where it belongs.
fn split(place: &str, all: Vec<(usize, FamilyTask, Option<Half>)>) -> Result<Halves> {
    let too_few = |what: &str| {
        Error::invalid(format!("{place} has {what}")).hint(
            "a family needs at least one task to learn from and one that is held out; 20 of each show a large effect, 40 a \
             smaller one",
        )
    };
    if all.len() < 2 {
        return Err(too_few(if all.is_empty() { "no tasks" } else { "one task only" }));
    }
    let says = all.iter().filter(|(.., half)| half.is_some()).count();
    if says > 0 && says < all.len() {
        let silent = all.iter().find(|(.., half)| half.is_none()).map_or(0, |(number, ..)| *number);
        return Err(at_line(place, silent, "the task has no \"half\", and others have one".to_owned())
            .hint("write \"half\" on every line, or on none: then the first half of the lines is learned from"));
    }
    let first = all.len().div_ceil(2);
    let mut halves = Halves::default();
    for (at, (_, task, half)) in all.into_iter().enumerate() {
        let learns = half.map_or(at < first, |half| half == Half::Learn);
        if learns { &mut halves.learn } else { &mut halves.held_out }.push(task);
    }
    if halves.learn.is_empty() {
        return Err(too_few("no task to learn from: every \"half\" is \"held_out\""));
    }
    if halves.held_out.is_empty() {
        return Err(too_few("no task to measure on: every \"half\" is \"learn\""));
    }
    let learned: BTreeSet<&str> = halves.learn.iter().map(|task| task.input.trim()).collect();
    halves.repeated = halves.held_out.iter().filter(|task| learned.contains(task.input.trim())).count();
    Ok(halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Result<Halves> {
        read("tasks.jsonl", text, Some(&["look".to_owned()]))
    }

    fn names(tasks: &[FamilyTask]) -> Vec<&str> {
        tasks.iter().map(|task| task.name.as_str()).collect()
    }

    #[test]
    fn the_first_half_of_the_lines_is_learned_from() {
        let line = r#"{"input": "a", "check": "x"}"#;
        let halves = read_all(&format!("{line}\n\n# a remark\n// another\r\n{line}\n{line}")).unwrap();
        assert_eq!((names(&halves.learn), names(&halves.held_out)), (vec!["line-1", "line-5"], vec!["line-6"]));
        assert_eq!(halves.repeated, 1);
    }

    #[test]
    fn a_task_may_say_where_it_belongs_and_how_it_is_called() {
        let text = r#"{"id": "b", "input": "1", "check": 5, "half": "held-out"}
            {"id": 7, "input": "2", "check": ["x", {"calls": "look", "args": {"a": 1}}], "half": "Learn"}"#;
        let halves = read_all(text).unwrap();
        assert_eq!((names(&halves.learn), names(&halves.held_out)), (vec!["7"], vec!["b"]));
        assert_eq!(halves.learn[0].checks.len(), 2);
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named_with_its_reason() {
        let good = r#"{"input": "a", "check": "x"}"#;
        for (bad, said) in [
            ("{", "line 2, column 1: EOF while parsing an object"),
            (r#"{"input": "a"}"#, "line 2: the task has no check"),
            (r#"{"input": "a", "check": []}"#, "line 2: the task has no check"),
            (r#"{"input": "a", "check": null}"#, "line 2: the task has no check"),
            (r#"{"input": "a", "check": true}"#, "line 2: check 1 cannot be used"),
            (r#"{"input": "a", "check": [null]}"#, "line 2: check 1 cannot be used"),
            (r#"{"input": " ", "check": "x"}"#, "line 2: \"input\" is empty"),
            (r#"{"input": "a\u0000", "check": "x"}"#, "line 2: \"input\" has a NUL character"),
            (r#"{"input": "a", "chek": "x"}"#, "unknown field `chek`"),
            (r#"{"check": "x"}"#, "missing field `input`"),
            (r#"{"input": "a", "check": {"regex": "("}}"#, "line 2: check 1 cannot be used: \"regex\""),
            (r#"{"input": "a", "check": {"calls": "loook"}}"#, "line 2: a check asks for a call of \"loook\""),
            (r#"{"input": "a", "check": {"program": "x"}}"#, "cannot ask a tool or a program"),
            (r#"{"input": ["a"], "check": "x"}"#, "line 2, column"),
            (r#"{"input": "a", "check": "x", "half": "first"}"#, "line 2: \"half\" is neither"),
            (r#"{"input": "a", "check": "x", "half": "learn"}"#, "line 1: the task has no \"half\""),
            (r#"{"id": "line-1", "input": "a", "check": "x"}"#, "line 2: the task \"line-1\" stands on line 1 too"),
            (r#"{"id": [], "input": "a", "check": "x"}"#, "line 2: \"id\" is neither"),
            ("[1]", "line 2: a task is a JSON object, and this is none"),
        ] {
            let error = read_all(&format!("{good}\n{bad}")).unwrap_err();
            assert!(error.message().contains(said), "{bad}: {error:?}");
            assert!(error.message().starts_with("tasks.jsonl, line "), "{error:?}");
            assert!(error.hint_text().is_some(), "{error:?}");
        }
        let long = format!(r#"{{"input": "{}", "check": "x"}}"#, "a".repeat(MOST_INPUT + 1));
        assert!(read_all(&long).unwrap_err().message().contains("more than 65536 bytes"));
        assert!(read_all(&"x".repeat(MOST_LINE + 1)).unwrap_err().message().contains("more than 262144 bytes"));
    }

    #[test]
    fn a_family_needs_both_halves() {
        for (text, said) in
            [("", "no tasks"), ("\n# x", "no tasks"), (r#"{"input": "a", "check": "x"}"#, "one task only")]
        {
            assert!(read_all(text).unwrap_err().message().contains(said), "{text}");
        }
        let all_learn = r#"{"input": "a", "check": "x", "half": "learn"}"#;
        let error = read_all(&format!("{all_learn}\n{all_learn}")).unwrap_err();
        assert!(error.message().contains("no task to measure on"), "{error:?}");
    }
}
