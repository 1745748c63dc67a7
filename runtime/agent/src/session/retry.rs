//! What is left to try after calls that went wrong, as schemas of arguments: for backends that hold replies to one. Pure.

use serde_json::{Map, Value, json};

/// The most arguments that are asked for one by one.
const MOST_SHAPES: usize = 8;

/// So many calls in a row that went wrong say that a tool wants something else than words of the task, also while
/// something else is left to try.
const HELD_FAILURES: usize = 3;

/// Whether arguments are still held to words of the task, given the calls that went wrong: until the first of them where
/// nothing else could have been the reason, and a few longer where a choice or an argument is left to try.
pub(super) fn holds(schema: &Value, wrong: &[&Map<String, Value>]) -> bool {
    let has_more = || {
        let listed = choices(schema);
        !listed.is_empty() && !without(schema, &listed, wrong).is_empty() || never_given(schema, wrong).next().is_some()
    };
    wrong.is_empty() || wrong.len() < HELD_FAILURES && has_more()
}

/// The arguments that are worth a try, given those that went wrong. Values of a choice that went wrong are left out while
/// another is left, and an argument that was never given is asked for. `held` is the schema with arguments held to words of
/// the task, or the schema itself.
pub(super) fn untried(schema: &Value, held: &Value, wrong: &[&Map<String, Value>]) -> Vec<Value> {
    if wrong.is_empty() {
        return vec![held.clone()];
    }
    let mut shapes = without_tried_values(held, wrong);
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let asked: Vec<Value> = never_given(schema, wrong)
        .take(MOST_SHAPES)
        .map(|name| {
            let mut all: Vec<&str> = required.clone();
            all.push(name);
            let mut shape = held.clone();
            shape["required"] = json!(all);
            shape
        })
        .collect();
    if asked.is_empty() {
        return shapes;
    }
    // Where nothing was a choice, the same call in other words is not worth a turn before the argument was given.
    if !has_choice(schema) {
        return asked;
    }
    shapes.extend(asked);
    shapes
}

/// Arguments that no call had, and that may be left out.
fn never_given<'s>(schema: &'s Value, wrong: &[&Map<String, Value>]) -> impl Iterator<Item = &'s String> {
    let properties = schema["properties"].as_object();
    properties.into_iter().flat_map(Map::keys).filter(move |name| {
        let is_required = schema["required"].as_array().into_iter().flatten().any(|known| known == name.as_str());
        !is_required && wrong.iter().all(|args| !args.contains_key(name.as_str()))
    })
}

/// Arguments that are chosen from a list of several values.
fn choices(schema: &Value) -> Vec<(&String, &Vec<Value>)> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let listed = properties.filter_map(|(name, property)| Some((name, property["enum"].as_array()?)));
    listed.filter(|(_, values)| values.len() > 1).collect()
}

fn has_choice(schema: &Value) -> bool {
    !choices(schema).is_empty()
}

fn without_tried_values(schema: &Value, wrong: &[&Map<String, Value>]) -> Vec<Value> {
    match without(schema, &choices(schema), wrong) {
        // Everything was tried: something else was wrong.
        none if none.is_empty() => vec![schema.clone()],
        left => left,
    }
}

/// The choices that were not made yet, as schemas: at most one more than calls were made, for each list.
fn without(schema: &Value, listed: &[(&String, &Vec<Value>)], made: &[&Map<String, Value>]) -> Vec<Value> {
    let Some(((name, values), rest)) = listed.split_first() else {
        return if made.is_empty() { vec![schema.clone()] } else { Vec::new() };
    };
    let with = |values: Vec<Value>| {
        let mut shape = schema.clone();
        shape["properties"][name.as_str()]["enum"] = Value::Array(values);
        shape
    };
    let (tried, fresh): (Vec<&Value>, Vec<&Value>) =
        values.iter().partition(|value| made.iter().any(|args| args.get(*name) == Some(value)));
    let mut shapes = Vec::new();
    for value in tried {
        let made: Vec<&Map<String, Value>> =
            made.iter().filter(|args| args.get(*name) == Some(value)).copied().collect();
        shapes.extend(without(&with(vec![value.clone()]), rest, &made));
    }
    if !fresh.is_empty() {
        shapes.push(with(fresh.into_iter().cloned().collect()));
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn schema() -> Value {
        json!({ "type": "object", "required": ["list"], "properties": {
            "list": { "enum": ["attic", "cellar", "garage"] }, "name": { "type": "string" } } })
    }

    #[test]
    fn a_value_that_went_wrong_is_not_legal_again_until_all_were() {
        let wrong = [args(json!({ "list": "attic", "name": "a" })), args(json!({ "list": "cellar", "name": "a" }))];
        let listed = |shapes: Vec<Value>| {
            shapes.iter().map(|shape| shape["properties"]["list"]["enum"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(listed(untried(&schema(), &schema(), &[&wrong[0]])), [json!(["cellar", "garage"])]);
        assert_eq!(listed(untried(&schema(), &schema(), &[&wrong[0], &wrong[1]])), [json!(["garage"])]);
        let last = args(json!({ "list": "garage", "name": "a" }));
        assert_eq!(untried(&schema(), &schema(), &[&wrong[0], &wrong[1], &last]), [schema()]);
    }

    #[test]
    fn of_two_choices_pairs_are_tried() {
        let schema =
            json!({ "properties": { "a": { "enum": [1, 2] }, "b": { "enum": ["x", "y"] } }, "required": ["a", "b"] });
        let wrong =
            [args(json!({ "a": 1, "b": "x" })), args(json!({ "a": 2, "b": "x" })), args(json!({ "a": 2, "b": "y" }))];
        let shapes = untried(&schema, &schema, &wrong.iter().collect::<Vec<_>>());
        assert_eq!(shapes.len(), 1);
        assert_eq!(shapes[0]["properties"], json!({ "a": { "enum": [1] }, "b": { "enum": ["y"] } }));
    }

    #[test]
    fn words_of_the_task_hold_until_nothing_else_can_have_been_wrong() {
        let plain = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let wrong = args(json!({ "name": "a" }));
        assert!(holds(&plain, &[]) && !holds(&plain, &[&wrong]));
        let two = json!({ "properties": { "list": { "enum": ["x", "y"] } }, "required": ["list"] });
        let (x, y) = (args(json!({ "list": "x" })), args(json!({ "list": "y" })));
        assert!(holds(&two, &[&x]) && !holds(&two, &[&x, &y]));
        let [a, b, c] = ["attic", "cellar", "garage"].map(|list| args(json!({ "list": list, "name": "a" })));
        assert!(holds(&schema(), &[&a, &b]) && !holds(&schema(), &[&a, &b, &c]));
    }

    #[test]
    fn an_argument_that_was_never_given_is_asked_for() {
        let schema =
            json!({ "properties": { "id": { "type": "string" }, "code": { "type": "string" } }, "required": ["id"] });
        let wrong = args(json!({ "id": "7" }));
        let shapes = untried(&schema, &schema, &[&wrong]);
        assert_eq!(shapes.iter().map(|shape| shape["required"].clone()).collect::<Vec<_>>(), [json!(["id", "code"])]);
        let given = args(json!({ "id": "7", "code": "no" }));
        assert_eq!(untried(&schema, &schema, &[&wrong, &given]), std::slice::from_ref(&schema));
        assert_eq!(untried(&schema, &schema, &[]), [schema]);
    }
}
