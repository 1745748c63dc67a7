//! A tool's arguments: one type gives both the schema the model reads and the value the call gets.

use herm::{Error, Result};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The schema of a type, without what a model has no use for.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema: Value = settings.into_generator().into_root_schema_for::<T>().into();
    if let Some(root) = schema.as_object_mut() {
        root.remove("title");
        root.remove("description");
        // Some providers refuse an object without.
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    tidy(&mut schema);
    schema
}

/// `"format": "uint32"` is not a format that providers know, and `minimum` says it all; a description is one line.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.retain(|key, value| !(key == "format" && value.is_string()));
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// The arguments as a value. They fit the schema already.
pub(crate) fn read<T: DeserializeOwned>(mut args: Map<String, Value>) -> Result<T> {
    for value in args.values_mut() {
        if let Some(whole) = whole_number(value) {
            *value = whole.into();
        }
    }
    serde_json::from_value(Value::Object(args)).map_err(|source| {
        Error::invalid(format!("the arguments cannot be read: {source}")).hint("call the tool as its schema says")
    })
}

/// 5.0 is an integer in JSON Schema, and some models write it.
fn whole_number(value: &Value) -> Option<i64> {
    let number = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() < 1e15)?;
    Some(number as i64)
}

/// An optional text that says something: models fill what they leave out with an empty text.
pub(crate) fn given(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Args {
        /// How many.
        #[schemars(range(min = 1, max = 20))]
        limit: Option<u32>,
        op: Op,
    }

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Op {
        WriteFile,
        Archive,
    }

    #[test]
    fn a_schema_is_inline_closed_and_bare() {
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["op"],
            "properties": {
                "limit": { "description": "How many.", "type": ["integer", "null"], "minimum": 1, "maximum": 20 },
                "op": { "type": "string", "enum": ["write_file", "archive"] }
            }
        });
        assert_eq!(schema::<Args>(), expected);
    }

    #[test]
    fn a_whole_float_is_an_integer() {
        let Value::Object(args) = json!({ "limit": 5.0, "op": "archive" }) else { panic!() };
        assert_eq!(read::<Args>(args).unwrap(), Args { limit: Some(5), op: Op::Archive });
    }
}
