//! A tool that answers from a table.

use async_trait::async_trait;
use herm::tool::{Tool, ToolContext, ToolOutput, ToolSpec};
use herm::{Error, Result};
use serde_json::{Map, Value};

use super::compare::fits;

/// The most bytes that a reply has once the arguments stand in it.
const MOST_BYTES: usize = 64 << 10;

/// What a call comes to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TableReply {
    /// The tool returns this: a text as it is, anything else as JSON.
    Result(Value),
    /// The tool fails, and says so.
    Failure(String),
}

/// Calls that have at least these arguments, and what they come to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableRow {
    pub(super) args: Map<String, Value>,
    pub(super) reply: TableReply,
}

impl TableRow {
    /// Whether a call has what the row names. `null` names an argument that is not given.
    fn fits(&self, args: &Map<String, Value>) -> bool {
        let fits_one = |(name, wanted): (&String, &Value)| match args.get(name) {
            None => wanted.is_null(),
            Some(given) => fits(wanted, given),
        };
        self.args.iter().all(fits_one)
    }
}

/// A tool with its table: the first row that fits a call decides, and where none does, `otherwise`.
#[derive(Debug, Clone)]
pub(crate) struct ToolTable {
    pub(super) spec: ToolSpec,
    pub(super) rows: Vec<TableRow>,
    pub(super) otherwise: TableReply,
}

impl ToolTable {
    /// What a call with these arguments comes to.
    pub(super) fn reply(&self, args: &Map<String, Value>) -> TableReply {
        let found = self.rows.iter().find(|row| row.fits(args)).map_or(&self.otherwise, |row| &row.reply);
        let names = self.spec.schema["properties"].as_object();
        let fill = |text: &str| filled(text, args, names);
        match found {
            TableReply::Result(value) => TableReply::Result(in_texts(value, &fill)),
            TableReply::Failure(text) => TableReply::Failure(fill(text)),
        }
    }
}

#[async_trait]
impl Tool for ToolTable {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> Result<ToolOutput> {
        match self.reply(&args) {
            TableReply::Result(Value::String(text)) => Ok(ToolOutput::new(text, "found")),
            TableReply::Result(value) => Ok(ToolOutput::new(value.to_string(), "found")),
            TableReply::Failure(why) => Err(Error::not_found(why)),
        }
    }
}

fn in_texts(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text)),
        Value::Array(items) => items.iter().map(|item| in_texts(item, fill)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), in_texts(value, fill))).collect::<Map<_, _>>().into()
        }
        plain => plain.clone(),
    }
}

/// A text with the arguments of the call where it has their names in braces. Braces around anything else stay as they
/// are, and an argument that is not given leaves nothing.
fn filled(text: &str, args: &Map<String, Value>, names: Option<&Map<String, Value>>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        rest = match behind.split_once('}') {
            Some((name, after)) if is_argument(name, args, names) => {
                match args.get(name) {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) => out.push_str(text.trim()),
                    Some(value) => out.push_str(&value.to_string()),
                }
                after
            }
            _ => {
                out.push('{');
                behind
            }
        };
        if out.len() > MOST_BYTES {
            return herm::text::cut(out, MOST_BYTES);
        }
    }
    out.push_str(rest);
    out
}

fn is_argument(name: &str, args: &Map<String, Value>, names: Option<&Map<String, Value>>) -> bool {
    args.contains_key(name) || names.is_some_and(|names| names.contains_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use herm::tool::Permission;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn table(rows: &[(Value, TableReply)]) -> ToolTable {
        let schema = json!({ "type": "object", "properties": { "piece": {}, "list": {}, "mark": {} } });
        ToolTable {
            spec: ToolSpec::new("look", "Looks.", Permission::Read, schema),
            rows: rows
                .iter()
                .map(|(args, reply)| TableRow { args: object(args.clone()), reply: reply.clone() })
                .collect(),
            otherwise: TableReply::Failure("the list {list} has no {piece}{mark}".to_owned()),
        }
    }

    fn result(text: &str) -> TableReply {
        TableReply::Result(json!(text))
    }

    #[test]
    fn the_first_row_that_fits_decides_and_else_the_default() {
        let table = table(&[
            (json!({ "piece": "lamp", "mark": null }), TableReply::Failure("a mark is needed".to_owned())),
            (json!({ "piece": "lamp", "list": "*" }), result("The {piece} is in bay 4.")),
            (json!({ "piece": "lamp" }), result("never")),
        ]);
        let reply = |args: Value| table.reply(&object(args));
        assert_eq!(reply(json!({ "piece": "Lamp" })), TableReply::Failure("a mark is needed".to_owned()));
        assert_eq!(reply(json!({ "piece": " Lamp", "list": 3, "mark": "x" })), result("The Lamp is in bay 4."));
        assert_eq!(reply(json!({ "piece": "lamp", "mark": 1 })), result("never"));
        assert_eq!(
            reply(json!({ "piece": "rope", "list": "a" })),
            TableReply::Failure("the list a has no rope".to_owned())
        );
    }

    #[test]
    fn braces_around_anything_but_an_argument_stay() {
        let args = object(json!({ "piece": "{list}", "n": 4 }));
        let names = object(json!({ "piece": {}, "list": {} }));
        let said = filled("{\"a\": {n}} {piece} {list}{other} {", &args, Some(&names));
        assert_eq!(said, "{\"a\": 4} {list} {other} {");
    }

    #[test]
    fn a_result_may_be_json_and_a_reply_is_bounded() {
        let table = table(&[(json!({}), TableReply::Result(json!({ "of": ["{piece}", 2] })))]);
        let args = object(json!({ "piece": "lamp" }));
        assert_eq!(table.reply(&args), TableReply::Result(json!({ "of": ["lamp", 2] })));
        let long = filled(&"{piece}".repeat(10_000), &object(json!({ "piece": "x".repeat(60_000) })), None);
        assert!(long.len() < 3 * MOST_BYTES, "{}", long.len());
    }
}
