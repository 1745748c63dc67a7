//! Checking a value against a JSON Schema.
//!
//! The keywords that tool schemas use: `type`, `enum`, `const`, `properties`, `required`,
//! `additionalProperties`, `minProperties`, `maxProperties`, `items`, `prefixItems`, `minItems`,
//! `maxItems`, `uniqueItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `exclusiveMinimum`,
//! `exclusiveMaximum`, `anyOf`, `oneOf`, `allOf`, `not` and local `$ref`s. Others say nothing here;
//! a tool that relies on one checks it itself.

use serde_json::Value;

/// Schemas deeper than this are not followed: a `$ref` may point at itself.
const MAX_DEPTH: usize = 64;
/// How many problems are listed.
const MAX_PROBLEMS: usize = 5;

/// What is wrong with `value`, one line each; nothing if it fits.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = Check { root: schema, problems: Vec::new() };
    check.value(schema, value, &mut String::new(), 0);
    check.problems
}

struct Check<'s> {
    root: &'s Value,
    problems: Vec<String>,
}

impl<'s> Check<'s> {
    fn say(&mut self, at: &str, what: impl std::fmt::Display) {
        if self.problems.len() < MAX_PROBLEMS {
            let place = if at.is_empty() { "the arguments" } else { at };
            self.problems.push(format!("{place}: {what}"));
        }
    }

    fn fits(&self, schema: &'s Value, value: &Value, depth: usize) -> bool {
        let mut check = Check { root: self.root, problems: Vec::new() };
        check.value(schema, value, &mut String::new(), depth);
        check.problems.is_empty()
    }

    fn value(&mut self, schema: &'s Value, value: &Value, at: &mut String, depth: usize) {
        if depth > MAX_DEPTH {
            return self.say(at, "the schema is nested too deeply to be checked");
        }
        let schema = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return self.say(at, "nothing is allowed here"),
            Value::Object(schema) => schema,
            _ => return,
        };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            match self.resolve(reference) {
                Some(target) => self.value(target, value, at, depth + 1),
                None => self.say(at, format_args!("the schema refers to {reference}, which is not there")),
            }
        }
        if let Some(expected) = schema.get("type")
            && !type_fits(expected, value)
        {
            let name = match expected {
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
                other => other.as_str().unwrap_or_default().to_owned(),
            };
            return self.say(at, format_args!("it must be of type {name}"));
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            let names = allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
            self.say(at, format_args!("it must be one of {names}"));
        }
        if let Some(only) = schema.get("const")
            && only != value
        {
            self.say(at, format_args!("it must be {only}"));
        }
        match value {
            Value::Object(object) => self.object(schema, object, at, depth),
            Value::Array(items) => self.array(schema, items, at, depth),
            Value::String(text) => self.text(schema, text, at),
            Value::Number(number) => self.number(schema, number, at),
            Value::Null | Value::Bool(_) => {}
        }
        self.combinations(schema, value, at, depth);
    }

    fn resolve(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn object(
        &mut self,
        schema: &'s serde_json::Map<String, Value>,
        object: &serde_json::Map<String, Value>,
        at: &mut String,
        depth: usize,
    ) {
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                self.say(at, format_args!("{name:?} is missing"));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, value) in object {
            let length = at.len();
            if !at.is_empty() {
                at.push('.');
            }
            at.push_str(name);
            match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => self.value(schema, value, at, depth + 1),
                None => match schema.get("additionalProperties") {
                    Some(Value::Bool(false)) => {
                        let known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
                        let known = known.collect::<Vec<_>>().join(", ");
                        self.say(at, format_args!("there is no such argument; there are: {known}"));
                    }
                    Some(schema) => self.value(schema, value, at, depth + 1),
                    None => {}
                },
            }
            at.truncate(length);
        }
        self.bounds(schema, "Properties", object.len() as u64, "properties", at);
    }

    fn array(&mut self, schema: &'s serde_json::Map<String, Value>, items: &[Value], at: &mut String, depth: usize) {
        let fixed = schema.get("prefixItems").and_then(Value::as_array);
        for (index, item) in items.iter().enumerate() {
            let schema = match fixed.and_then(|fixed| fixed.get(index)) {
                Some(schema) => Some(schema),
                None => schema.get("items"),
            };
            if let Some(schema) = schema {
                let length = at.len();
                at.push_str(&format!("[{index}]"));
                self.value(schema, item, at, depth + 1);
                at.truncate(length);
            }
        }
        self.bounds(schema, "Items", items.len() as u64, "items", at);
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut seen = std::collections::BTreeSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                self.say(at, "its items must all differ");
            }
        }
    }

    fn text(&mut self, schema: &serde_json::Map<String, Value>, text: &str, at: &str) {
        self.bounds(schema, "Length", text.chars().count() as u64, "characters", at);
    }

    fn bounds(&mut self, schema: &serde_json::Map<String, Value>, of: &str, count: u64, what: &str, at: &str) {
        if let Some(least) = schema.get(&format!("min{of}")).and_then(Value::as_u64)
            && count < least
        {
            self.say(at, format_args!("it must have at least {least} {what}"));
        }
        if let Some(most) = schema.get(&format!("max{of}")).and_then(Value::as_u64)
            && count > most
        {
            self.say(at, format_args!("it may have at most {most} {what}"));
        }
    }

    fn number(&mut self, schema: &serde_json::Map<String, Value>, number: &serde_json::Number, at: &str) {
        let Some(number) = number.as_f64() else { return };
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let Some(least) = bound("minimum")
            && number < least
        {
            self.say(at, format_args!("it must be at least {least}"));
        }
        if let Some(most) = bound("maximum")
            && number > most
        {
            self.say(at, format_args!("it may be at most {most}"));
        }
        if let Some(above) = bound("exclusiveMinimum")
            && number <= above
        {
            self.say(at, format_args!("it must be more than {above}"));
        }
        if let Some(below) = bound("exclusiveMaximum")
            && number >= below
        {
            self.say(at, format_args!("it must be less than {below}"));
        }
    }

    fn combinations(
        &mut self,
        schema: &'s serde_json::Map<String, Value>,
        value: &Value,
        at: &mut String,
        depth: usize,
    ) {
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.value(part, value, at, depth + 1);
        }
        if let Some(any) = schema.get("anyOf").and_then(Value::as_array)
            && !any.iter().any(|part| self.fits(part, value, depth + 1))
        {
            self.say(at, "it fits none of the allowed shapes");
        }
        if let Some(one) = schema.get("oneOf").and_then(Value::as_array) {
            let fitting = one.iter().filter(|part| self.fits(part, value, depth + 1)).count();
            if fitting != 1 {
                self.say(at, format_args!("it must fit exactly one of the allowed shapes, and fits {fitting}"));
            }
        }
        if let Some(not) = schema.get("not")
            && self.fits(not, value, depth + 1)
        {
            self.say(at, "it has a shape that is not allowed");
        }
    }
}

fn type_fits(expected: &Value, value: &Value) -> bool {
    match expected {
        Value::Array(names) => names.iter().any(|name| type_fits(name, value)),
        Value::String(name) => is_a(value, name),
        _ => true,
    }
}

/// Whether a value is of a JSON Schema type.
pub fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        // 1.0 is an integer in JSON Schema.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_keyword_is_held() {
        let cases = [
            (json!({ "type": "object", "required": ["a"] }), json!({}), "\"a\" is missing"),
            (json!({ "type": "string" }), json!(1), "of type string"),
            (json!({ "type": ["string", "null"] }), json!(1), "string or null"),
            (json!({ "enum": ["x", "y"] }), json!("z"), "one of"),
            (json!({ "const": 1 }), json!(2), "must be 1"),
            (json!({ "additionalProperties": false, "properties": { "a": true } }), json!({ "b": 1 }), "there are: a"),
            (json!({ "additionalProperties": { "type": "string" } }), json!({ "b": 1 }), "b: it must be of type"),
            (json!({ "minLength": 2 }), json!("é"), "at least 2 characters"),
            (json!({ "maxLength": 2 }), json!("abc"), "at most 2"),
            (json!({ "minimum": 1 }), json!(0), "at least 1"),
            (json!({ "exclusiveMaximum": 1 }), json!(1), "less than 1"),
            (json!({ "type": "integer" }), json!(1.5), "integer"),
            (json!({ "items": { "type": "integer" } }), json!([1, "x"]), "[1]: it must"),
            (json!({ "uniqueItems": true }), json!([1, 1]), "differ"),
            (json!({ "maxItems": 1 }), json!([1, 1]), "at most 1 items"),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!(1), "none of"),
            (json!({ "oneOf": [{ "type": "number" }, { "minimum": 0 }] }), json!(1), "exactly one"),
            (json!({ "not": { "type": "null" } }), json!(null), "not allowed"),
            (json!({ "$ref": "#/$defs/t", "$defs": { "t": { "type": "string" } } }), json!(1), "of type string"),
            (json!(false), json!(1), "nothing is allowed"),
            (json!({ "$ref": "#" }), json!(1), "too deeply"),
        ];
        for (schema, value, expected) in cases {
            let found = problems(&schema, &value).join("; ");
            assert!(found.contains(expected), "{schema} {value}: {found:?}");
        }
    }

    #[test]
    fn what_fits_has_no_problems() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["op"],
            "properties": { "op": { "enum": ["a"] }, "n": { "type": ["integer", "null"] }, "x": { "pattern": "^y" } }
        });
        assert_eq!(problems(&schema, &json!({ "op": "a", "n": 1.0, "x": "n" })), Vec::<String>::new());
    }
}
