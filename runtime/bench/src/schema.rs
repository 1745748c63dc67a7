//! Whether the schema of a tool's arguments is one.

use std::sync::OnceLock;

use serde_json::Value;

/// What a JSON Schema looks like: the keywords whose wrong use goes unseen otherwise, as a JSON Schema.
const META: &str = r##"{
  "$defs": {
    "count": { "type": "integer", "minimum": 0 },
    "texts": { "type": "array", "items": { "type": "string" } },
    "kind": { "enum": ["array", "boolean", "integer", "null", "number", "object", "string"] },
    "schema": {
      "type": ["object", "boolean"],
      "properties": {
        "type": { "anyOf": [{ "$ref": "#/$defs/kind" },
          { "type": "array", "items": { "$ref": "#/$defs/kind" }, "minItems": 1, "uniqueItems": true }] },
        "properties": { "$ref": "#/$defs/schemas" },
        "patternProperties": { "$ref": "#/$defs/schemas" },
        "$defs": { "$ref": "#/$defs/schemas" },
        "definitions": { "$ref": "#/$defs/schemas" },
        "additionalProperties": { "$ref": "#/$defs/schema" },
        "items": { "anyOf": [{ "$ref": "#/$defs/schema" }, { "$ref": "#/$defs/several" }] },
        "prefixItems": { "$ref": "#/$defs/several" },
        "contains": { "$ref": "#/$defs/schema" },
        "not": { "$ref": "#/$defs/schema" },
        "if": { "$ref": "#/$defs/schema" },
        "then": { "$ref": "#/$defs/schema" },
        "else": { "$ref": "#/$defs/schema" },
        "allOf": { "$ref": "#/$defs/several" },
        "anyOf": { "$ref": "#/$defs/several" },
        "oneOf": { "$ref": "#/$defs/several" },
        "required": { "$ref": "#/$defs/texts" },
        "enum": { "type": "array", "minItems": 1 },
        "minimum": { "type": "number" },
        "maximum": { "type": "number" },
        "exclusiveMinimum": { "type": "number" },
        "exclusiveMaximum": { "type": "number" },
        "multipleOf": { "type": "number", "exclusiveMinimum": 0 },
        "minLength": { "$ref": "#/$defs/count" },
        "maxLength": { "$ref": "#/$defs/count" },
        "minItems": { "$ref": "#/$defs/count" },
        "maxItems": { "$ref": "#/$defs/count" },
        "minProperties": { "$ref": "#/$defs/count" },
        "maxProperties": { "$ref": "#/$defs/count" },
        "uniqueItems": { "type": "boolean" },
        "pattern": { "type": "string" },
        "format": { "type": "string" },
        "title": { "type": "string" },
        "description": { "type": "string" },
        "$ref": { "type": "string" }
      }
    },
    "schemas": { "type": "object", "additionalProperties": { "$ref": "#/$defs/schema" } },
    "several": { "type": "array", "items": { "$ref": "#/$defs/schema" }, "minItems": 1 }
  },
  "$ref": "#/$defs/schema"
}"##;

/// What is wrong with a schema of arguments; nothing where it can be used.
pub(super) fn problem(schema: &Value) -> Option<String> {
    static READ: OnceLock<Value> = OnceLock::new();
    let meta = READ.get_or_init(|| serde_json::from_str(META).unwrap_or_default());
    let Some(keywords) = schema.as_object() else { return Some("it is not an object".to_owned()) };
    if keywords.get("type").is_some_and(|kind| kind != "object") {
        return Some("its \"type\" is not \"object\": arguments have names".to_owned());
    }
    if let Some(problem) = herm::schema::problems(meta, schema).into_iter().next() {
        return Some(problem);
    }
    let known = keywords.get("properties").and_then(Value::as_object);
    let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
    let missing = required.into_iter().find(|name| !known.is_some_and(|known| known.contains_key(*name)));
    missing.filter(|_| closed).map(|name| format!("it requires {name:?}, which is not among its properties"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_that_can_be_used_has_no_problem() {
        assert!(serde_json::from_str::<Value>(META).is_ok());
        for good in [
            json!({}),
            json!({ "type": "object", "required": ["a"], "additionalProperties": false, "properties": {
                "a": { "type": ["string", "null"], "maxLength": 4 }, "b": { "enum": [1, "x"] }, "c": true } }),
            json!({ "properties": { "list": { "type": "array", "items": { "type": "object", "properties": {} } } } }),
            json!({ "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
        ] {
            assert_eq!(problem(&good), None, "{good}");
        }
    }

    #[test]
    fn a_schema_that_is_none_says_where() {
        for (bad, said) in [
            (json!("object"), "not an object"),
            (json!({ "type": "array" }), "arguments have names"),
            (json!({ "properties": ["a"] }), "properties"),
            (json!({ "properties": { "a": { "type": "text" } } }), "a"),
            (json!({ "properties": { "a": { "enum": [] } } }), "enum"),
            (json!({ "properties": { "a": { "properties": { "b": { "minLength": -1 } } } } }), "minLength"),
            (json!({ "required": "a" }), "required"),
            (json!({ "additionalProperties": false, "required": ["a"], "properties": { "b": {} } }), "\"a\""),
        ] {
            let found = problem(&bad).unwrap_or_else(|| panic!("{bad} has no problem"));
            assert!(found.contains(said), "{bad}: {found}");
        }
    }
}
