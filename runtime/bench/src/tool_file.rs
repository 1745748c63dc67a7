//! The tools of a family: those parts of `family.json` that have a table.

use herm::tool::{Permission, ToolSpec};
use herm::tuning::is_tool_name;
use herm::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::family::{FORMAT, MOST_BYTES, Reading, at_line, json_problem};
use super::locate::Step::{Index, Key};
use super::tool_table::{TableReply, TableRow, ToolTable};

const MOST_TOOLS: usize = 64;
const MOST_ROWS: usize = 100_000;
/// The most bytes of what a tool says of itself.
const MOST_DESCRIPTION: usize = 4_000;

/// Tools of herm that its prompts speak of by name.
const OF_SKILLS: [&str; 3] = ["skill_view", "skills_list", "skill_manage"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFile {
    name: String,
    description: String,
    /// Without one, calls have no arguments.
    #[serde(alias = "parameters", alias = "input_schema", alias = "inputSchema")]
    schema: Option<Value>,
    example: Option<ExampleFile>,
    table: Option<Value>,
    otherwise: Option<Value>,
    #[serde(rename = "comment")]
    _comment: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExampleFile {
    question: String,
    args: Map<String, Value>,
    result: Value,
    answer: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    #[serde(default)]
    args: Map<String, Value>,
    result: Option<Value>,
    failure: Option<String>,
    #[serde(rename = "comment")]
    _comment: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyFile {
    result: Option<Value>,
    failure: Option<String>,
}

impl Reading<'_> {
    /// All tools of the file, in its order; an error where two have one name.
    pub(super) fn tools(&self, said: &[Value]) -> Result<Vec<ToolTable>> {
        if said.len() > MOST_TOOLS {
            return Err(self
                .wrong(&[Key("tools")], format!("there are {} tools, and at most {MOST_TOOLS} are allowed", said.len()))
                .hint("leave some out"));
        }
        let mut tools: Vec<ToolTable> = Vec::new();
        for (at, said) in said.iter().enumerate() {
            let tool = self.tool(at, said)?;
            if tools.iter().any(|before| before.spec.name == tool.spec.name) {
                let here = [Key("tools"), Index(at)];
                return Err(self
                    .wrong(&here, format!("there are two tools named {:?}", tool.spec.name))
                    .hint("rename one of them"));
            }
            tools.push(tool);
        }
        Ok(tools)
    }

    fn tool(&self, at: usize, said: &Value) -> Result<ToolTable> {
        let here = [Key("tools"), Index(at)];
        let said = &plain_form(said);
        let called = said["name"].as_str().map(|name| format!(" {name:?}")).unwrap_or_default();
        let wrong = |what: String, hint: &str| {
            self.wrong(&here, format!("tool {}{called} cannot be used: {what}", at + 1)).hint(hint.to_owned())
        };
        if !said.is_object() {
            return Err(wrong("it is not an object".to_owned(), FORMAT));
        }
        let read: ToolFile = serde_json::from_value(said.clone()).map_err(|error| wrong(error.to_string(), FORMAT))?;
        if !is_tool_name(&read.name) {
            return Err(wrong(
                "that is not a name for a tool".to_owned(),
                "a name is 1 to 64 of A-Z, a-z, 0-9, _, - and .",
            ));
        }
        if OF_SKILLS.contains(&read.name.as_str()) {
            return Err(wrong("with this name herm's prompts mean the tool that herm has".to_owned(), "rename it"));
        }
        if read.description.trim().is_empty() || read.description.len() > MOST_DESCRIPTION {
            return Err(wrong(
                "its description has to have 1 to 4,000 bytes".to_owned(),
                "say what it does, in a sentence or two",
            ));
        }
        let mut schema = read.schema.unwrap_or_else(|| Map::new().into());
        if let Some(problem) = super::schema::problem(&schema) {
            return Err(wrong(format!("its schema is not a JSON Schema of arguments: {problem}"), FORMAT));
        }
        if let Some(keywords) = schema.as_object_mut() {
            keywords.entry("type").or_insert_with(|| "object".into());
            keywords.entry("properties").or_insert_with(|| Map::new().into());
        }
        let mut spec = ToolSpec::new(&read.name, read.description.trim(), Permission::Read, schema).quick();
        if let Some(example) = read.example {
            let args = Value::Object(example.args);
            if let Some(problem) = herm::schema::problems(&spec.schema, &args).first() {
                return Err(wrong(
                    format!("the arguments of its example do not fit its schema: {problem}"),
                    "correct either",
                ));
            }
            spec = spec.with_few_shot(&example.question, args, &plain(&example.result), &plain(&example.answer));
        }
        if read.table.is_none() && read.otherwise.is_none() {
            return Err(wrong(
                "it has no table".to_owned(),
                "add \"table\", a list of rows or the name of a file with one row a line",
            ));
        }
        let rows = self.rows(at, &spec, read.table.as_ref())?;
        let otherwise = match &read.otherwise {
            None => TableReply::Failure("nothing is known for these arguments".to_owned()),
            Some(Value::String(failure)) => TableReply::Failure(failure.clone()),
            Some(said) => {
                let reply: ReplyFile = serde_json::from_value(said.clone()).map_err(|error| {
                    wrong(format!("\"otherwise\": {error}"), "write a text, which is a failure, or {\"result\": …}")
                })?;
                reply_of(reply.result, reply.failure).map_err(|what| wrong(format!("\"otherwise\" {what}"), FORMAT))?
            }
        };
        Ok(ToolTable { spec, rows, otherwise })
    }

    fn rows(&self, tool: usize, spec: &ToolSpec, said: Option<&Value>) -> Result<Vec<TableRow>> {
        let mut rows = Vec::new();
        let mut push = |row: Result<TableRow>| {
            rows.push(row?);
            match rows.len() {
                0..=MOST_ROWS => Ok(()),
                _ => Err(Error::invalid(format!("the table of {} has more than {MOST_ROWS} rows", spec.name))
                    .hint("use \"*\" and {argument} where rows are alike")),
            }
        };
        match said {
            None => {}
            Some(Value::Array(said)) => {
                for (at, said) in said.iter().enumerate() {
                    let here = [Key("tools"), Index(tool), Key("table"), Index(at)];
                    let wrong = |what: String| {
                        self.wrong(&here, format!("row {} of {}: {what}", at + 1, spec.name)).hint(FORMAT)
                    };
                    if !said.is_object() {
                        return Err(wrong("it is not an object".to_owned()));
                    }
                    let read = serde_json::from_value(said.clone()).map_err(|error| error.to_string());
                    push(read.and_then(|row| row_of(row, spec)).map_err(wrong))?;
                }
            }
            Some(Value::String(file)) => {
                let here = [Key("tools"), Index(tool), Key("table")];
                let text = self.files.text(file, MOST_BYTES).map_err(|error| match error.kind() {
                    ErrorKind::InvalidInput => {
                        self.wrong(&here, error.message()).hint("name a file that stands in the family's directory")
                    }
                    _ => error,
                })?;
                let text = text.ok_or_else(|| {
                    let place = self.files.place(file);
                    self.wrong(&here, format!("the table of {} is to be in {place}, which is not there", spec.name))
                        .hint("write it, or correct the name")
                })?;
                let place = self.files.place(file);
                for (at, line) in text.lines().enumerate() {
                    if line.trim().is_empty() {
                        continue;
                    }
                    let wrong = |what: String| at_line(&place, at + 1, what).hint(FORMAT);
                    if !line.trim_start().starts_with('{') {
                        return Err(wrong("it is not an object".to_owned()));
                    }
                    let read = serde_json::from_str(line).map_err(|error| json_problem(&place, at + 1, &error));
                    push(read.and_then(|row| row_of(row, spec).map_err(wrong)))?;
                }
            }
            Some(_) => {
                let here = [Key("tools"), Index(tool), Key("table")];
                return Err(self
                    .wrong(&here, format!("the table of {} is neither a list of rows nor a file", spec.name))
                    .hint(FORMAT));
            }
        }
        Ok(rows)
    }
}

/// A tool as its fields say it, also where it stands in OpenAI's form: `{"type": "function", "function": {…}}`. What stands
/// beside `function`, such as the table, belongs to it.
fn plain_form(said: &Value) -> Value {
    let Some(outer) = said.as_object().filter(|said| said.get("type").is_some_and(|kind| kind == "function")) else {
        return said.clone();
    };
    let inner = outer.get("function").and_then(Value::as_object).cloned().unwrap_or_default();
    let beside = outer.iter().filter(|(key, _)| !matches!(key.as_str(), "type" | "function"));
    let mut fields: Map<String, Value> = inner.into_iter().chain(beside.map(|(k, v)| (k.clone(), v.clone()))).collect();
    fields.remove("strict");
    Value::Object(fields)
}

/// A row, if it says one thing and names arguments that the tool has.
fn row_of(row: RowFile, spec: &ToolSpec) -> std::result::Result<TableRow, String> {
    let known = spec.schema["properties"].as_object().filter(|known| !known.is_empty());
    let open = spec.schema.get("additionalProperties").is_some_and(|more| more != &Value::Bool(false))
        || spec.schema.get("patternProperties").is_some();
    if let Some(known) = known.filter(|_| !open)
        && let Some(unknown) = row.args.keys().find(|name| !known.contains_key(*name))
    {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        return Err(format!("{} has no argument {unknown:?}; it has {}", spec.name, names.join(", ")));
    }
    Ok(TableRow { args: row.args, reply: reply_of(row.result, row.failure)? })
}

fn reply_of(result: Option<Value>, failure: Option<String>) -> std::result::Result<TableReply, String> {
    match (result, failure) {
        (Some(result), None) => Ok(TableReply::Result(result)),
        (None, Some(failure)) => Ok(TableReply::Failure(failure)),
        (Some(_), Some(_)) => Err("it has a result and a failure, and a call has one of them".to_owned()),
        (None, None) => Err("it needs \"result\" or \"failure\"".to_owned()),
    }
}

/// A text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
