//! The demonstrations of a family: `demonstrations.jsonl`, tasks that a person worked, one JSON object a line.

use herm::checks::{self, CheckResult, MadeCall};
use herm::memory::EvidenceStatus;
use herm::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::family::{FORMAT, at_line, json_problem};
use super::tasks;
use super::tool_table::{TableReply, ToolTable};

/// The most demonstrations of a family.
const MOST: usize = 100;
/// The most calls of one: more leave no example.
const MOST_CALLS: usize = herm::session::exemplar::MOST_CALLS;

/// A task that a person worked: what was asked, what was called, and what was answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Demonstration {
    /// The file and the line, as messages name them.
    pub(super) place: String,
    pub(super) input: String,
    calls: Vec<CallFile>,
    answer: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DemonstrationLine {
    input: String,
    calls: Vec<CallFile>,
    answer: Value,
    check: Option<Value>,
    #[serde(rename = "comment")]
    _comment: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFile {
    tool: String,
    #[serde(default)]
    args: Map<String, Value>,
}

impl Demonstration {
    /// What a model would have said, reply by reply.
    pub(super) fn replies(&self) -> Vec<String> {
        let call = |call: &CallFile| json!({ "tool": call.tool, "args": call.args }).to_string();
        self.calls.iter().map(call).chain([self.answer.to_string()]).collect()
    }
}

/// Reads all lines. `known` are the names of all tools, where they are known; calls of `tables` have to succeed.
pub(super) fn read(
    place: &str,
    text: &str,
    tables: &[ToolTable],
    known: Option<&[String]>,
) -> Result<Vec<Demonstration>> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (number, line) = (at + 1, line.trim());
        if line.is_empty() || line.starts_with('#') || line.starts_with("//") {
            continue;
        }
        let wrong = |what: String, hint: &str| at_line(place, number, what).hint(hint.to_owned());
        if !line.starts_with('{') {
            return Err(wrong("a demonstration is a JSON object, and this is none".to_owned(), FORMAT));
        }
        let read: DemonstrationLine =
            serde_json::from_str(line).map_err(|error| json_problem(place, number, &error))?;
        if read.input.trim().is_empty() || read.input.contains('\0') {
            return Err(wrong("\"input\" is empty or has a NUL character".to_owned(), "say what the task asks"));
        }
        if !(1..=MOST_CALLS).contains(&read.calls.len()) {
            return Err(wrong(
                format!("a demonstration has 1 to {MOST_CALLS} calls, and this has {}", read.calls.len()),
                "give the calls that lead to the answer, in order",
            ));
        }
        for (at, call) in read.calls.iter().enumerate() {
            let called = |(what, hint): (String, String)| wrong(format!("call {}: {what}", at + 1), &hint);
            check(call, tables, known).map_err(called)?;
        }
        let answer = match read.answer {
            Value::Object(fields) if !fields.is_empty() => Value::Object(fields),
            Value::String(text) if !text.trim().is_empty() => json!({ "answer": text }),
            Value::Number(number) => json!({ "answer": number.to_string() }),
            _ => {
                let what = "\"answer\" is neither a text, a number nor an object with fields";
                return Err(wrong(what.to_owned(), "write the answer, such as \"hook 12\""));
            }
        };
        if let Some(said) = &read.check {
            let checks = tasks::checks(said, known).map_err(|(what, hint)| wrong(what, &hint))?;
            let made = read.calls.iter().map(|call| MadeCall {
                tool: &call.tool,
                args: &call.args,
                status: EvidenceStatus::Ok,
            });
            let found = checks::evaluate(&checks, Some(&answer.to_string()), &made.collect::<Vec<_>>(), &[]);
            if let CheckResult::Fails(why) | CheckResult::Unknown(why) = found {
                return Err(wrong(format!("the demonstration does not pass its own check: {why}"), "correct either"));
            }
        }
        if all.len() == MOST {
            return Err(Error::invalid(format!("{place} has more than {MOST} demonstrations")).hint("leave some out"));
        }
        all.push(Demonstration {
            place: format!("{place}, line {number}"),
            input: read.input,
            calls: read.calls,
            answer,
        });
    }
    Ok(all)
}

/// Whether a call can be made, and succeeds where its tool has a table; what is wrong, and what to do.
fn check(call: &CallFile, tables: &[ToolTable], known: Option<&[String]>) -> std::result::Result<(), (String, String)> {
    if let Some(known) = known.filter(|known| !known.contains(&call.tool)) {
        return Err((
            format!("there is no tool {:?}", call.tool),
            format!("the tools of the family are {}", known.join(", ")),
        ));
    }
    let Some(table) = tables.iter().find(|table| table.spec.name == call.tool) else { return Ok(()) };
    if let Some(problem) = herm::schema::problems(&table.spec.schema, &Value::Object(call.args.clone())).first() {
        return Err((format!("the arguments do not fit the schema of {}: {problem}", call.tool), FORMAT.to_owned()));
    }
    match table.reply(&call.args) {
        TableReply::Result(_) => Ok(()),
        TableReply::Failure(why) => {
            Err((format!("{} fails: {why}", call.tool), "a demonstration shows the calls that work".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_table::TableRow;
    use herm::tool::{Permission, ToolSpec};

    fn tables() -> Vec<ToolTable> {
        let schema = json!({ "type": "object", "required": ["saw"], "properties": { "saw": { "type": "string" } } });
        let args = json!({ "saw": "rip saw" }).as_object().unwrap().clone();
        vec![ToolTable {
            spec: ToolSpec::new("look", "Looks.", Permission::Read, schema),
            rows: vec![TableRow { args, reply: TableReply::Result(json!("It hangs on hook 4.")) }],
            otherwise: TableReply::Failure("there is no {saw}".to_owned()),
        }]
    }

    fn read_all(text: &str) -> Result<Vec<Demonstration>> {
        read("demonstrations.jsonl", text, &tables(), Some(&["look".to_owned()]))
    }

    const GOOD: &str =
        r#"{"input": "Where?", "calls": [{"tool": "look", "args": {"saw": "rip saw"}}], "answer": "hook 4"}"#;

    #[test]
    fn a_demonstration_is_what_a_model_would_have_said() {
        let read = read_all(&format!("# a remark\n\n{GOOD}\r\n")).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].place, "demonstrations.jsonl, line 3");
        assert_eq!(read[0].replies(), [r#"{"tool":"look","args":{"saw":"rip saw"}}"#, r#"{"answer":"hook 4"}"#]);
        let checked = GOOD.replace("\"answer\"", "\"check\": [4, {\"calls\": \"look\"}], \"answer\"");
        assert_eq!(read_all(&checked).unwrap()[0].replies(), read[0].replies());
        assert_eq!(read_all("").unwrap(), []);
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named_with_its_reason() {
        let with = |from: &str, to: &str| GOOD.replace(from, to);
        for (bad, said) in [
            ("[1]".to_owned(), "line 2: a demonstration is a JSON object"),
            (with("\"Where?\"", "\" \""), "line 2: \"input\" is empty"),
            (with("\"look\"", "\"lock\""), "line 2: call 1: there is no tool \"lock\""),
            (with("rip saw", "fret saw"), "line 2: call 1: look fails: there is no fret saw"),
            (with("\"saw\": \"rip saw\"", ""), "line 2: call 1: the arguments do not fit the schema of look"),
            (
                with("[{\"tool\": \"look\", \"args\": {\"saw\": \"rip saw\"}}]", "[]"),
                "line 2: a demonstration has 1 to 7",
            ),
            (with("\"hook 4\"", "null"), "line 2: \"answer\" is neither"),
            (with("\"answer\"", "\"anser\""), "unknown field `anser`"),
            (with("\"answer\"", "\"check\": 5, \"answer\""), "line 2: the demonstration does not pass its own check"),
            (with("\"answer\"", "\"check\": [], \"answer\""), "line 2: the task has no check"),
        ] {
            let error = read_all(&format!("{GOOD}\n{bad}")).unwrap_err();
            assert!(error.message().contains(said), "{bad}: {error:?}");
            assert!(
                error.message().contains("demonstrations.jsonl, line 2") && error.hint_text().is_some(),
                "{error:?}"
            );
        }
    }
}
