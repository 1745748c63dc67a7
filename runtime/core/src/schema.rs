//! Checking a value against a JSON Schema, drafts 7 and 2020-12.
//!
//! The check is three-valued: a value fits, does not fit, or nobody can tell (a `$ref` to another document, a regular
//! expression that needs more than linear time). Only what does not fit is refused. Nothing is fetched, and the work
//! is bounded whatever the schema is. It passes the required parts of the public JSON-Schema-Test-Suite; the test
//! `schema::tests` says which optional parts are not covered.

mod check;
mod extent;
mod pattern;
mod resources;
#[cfg(test)]
mod tests;
mod uri;
mod values;

use serde_json::Value;

use check::Check;
use resources::Dialect;

/// How many problems are listed.
const MAX_PROBLEMS: usize = 5;

/// What is wrong with `value`, one line each, at most five; nothing if it fits or if nobody can tell.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    Check::new(schema, &[], Dialect::MODERN).problems(value)
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
        "integer" => value.as_number().is_some_and(values::is_whole),
        _ => true,
    }
}
