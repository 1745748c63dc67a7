//! Answers fit whatever schema a role declares.

use std::sync::OnceLock;

use super::*;
use proptest::prelude::*;

/// The answer of an agent with this schema, after a scan.
fn filled(schema: &Value, max_bytes: usize) -> Value {
    static LAST: OnceLock<CompletionRequest> = OnceLock::new();
    let mut ask = LAST.get_or_init(|| run(&AUDIT, 8).asks.pop().unwrap()).clone();
    ask.reply_schema =
        Arc::new(super::session::legal::LegalReplies::new(Legal::Final, &[], Some(schema), false).schema());
    ask.max_output_bytes = max_bytes;
    serde_json::from_str(&reply(&ask)).unwrap()
}

fn fits(schema: &Value) -> Value {
    let value = filled(schema, 128 << 10);
    assert_eq!(problems(schema, &value), Vec::<String>::new(), "{schema}\n{value}");
    value
}

#[test]
fn an_unknown_schema_is_filled_by_the_names_of_its_properties() {
    let value = fits(&json!({
        "type": "object",
        "required": ["verdict", "riskLevel", "issues", "hitCount", "worst", "needsReview", "zorblax", "owner"],
        "additionalProperties": false,
        "properties": {
            "verdict": { "enum": ["safe", "unsafe", "unclear"] },
            "riskLevel": { "enum": ["P0", "P1", "P2"] },
            "hitCount": { "type": "integer" },
            "worst": { "type": "object", "required": ["line"], "properties": { "line": { "type": "integer" } } },
            "needsReview": { "type": "boolean" },
            "zorblax": { "type": "string", "maxLength": 9 },
            "owner": { "type": ["string", "null"] },
            "frobnicate": { "type": "string" },
            "issues": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/issue" } },
        },
        "$defs": { "issue": {
            "type": "object",
            "required": ["line", "rule", "where"],
            "properties": {
                "line": { "type": "string" },
                "rule": { "type": "string" },
                "where": { "type": "array", "items": {
                    "type": "object", "required": ["row"], "properties": { "row": { "type": "integer", "minimum": 1 } }
                } },
            }
        } },
    }));
    let issue = &value["issues"][0];
    assert_eq!(
        issue,
        &json!({ "line": "57", "rule": "share-inflation", "where": [{ "row": 57 }, { "row": 67 }, { "row": 84 }] })
    );
    let mut rest = value.clone();
    rest.as_object_mut().unwrap().remove("issues");
    let expected = json!({
        "verdict": "unclear", "riskLevel": "P1", "hitCount": 15, "worst": { "line": 57 }, "needsReview": true,
        "zorblax": "not known", "owner": null,
    });
    assert_eq!(rest, expected);
}

#[test]
fn shapes_that_join_and_branch_are_filled() {
    fits(&json!({
        "type": "object",
        "allOf": [{ "required": ["a"] }, { "properties": { "a": { "type": "number" } } }],
        "properties": {
            "a": { "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
            "b": { "anyOf": [{ "type": "null" }, { "type": "object", "required": ["x"], "properties": { "x": false } }] },
            "c": { "oneOf": [{ "type": "object", "required": ["kind"], "properties": { "kind": { "const": "z" } } }] },
            "d": { "prefixItems": [{ "type": "integer" }, { "type": "string" }], "items": false, "minItems": 2 },
            "e": { "type": "array", "uniqueItems": true, "minItems": 3, "items": { "type": "string" } },
            "tool": { "type": "string" },
        },
        "required": ["b", "c", "d", "e", "undeclared"],
    }));
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let tree = json!({
        "type": "object", "required": ["summary"],
        "properties": { "summary": { "type": "string" }, "findings": { "type": "array", "items": { "$ref": "#" } } },
    });
    assert_eq!(fits(&tree)["findings"].as_array().unwrap().len(), 11);
}

#[test]
fn what_nobody_can_fill_is_answered_all_the_same() {
    let never = json!({ "type": "object", "required": ["a"], "properties": { "a": false } });
    let endless = json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#" } } });
    for schema in [never, endless] {
        assert_eq!(filled(&schema, 128 << 10)["note"], "no language model spoke");
    }
}

#[test]
fn an_answer_that_would_be_too_long_has_fewer_findings() {
    let schema = schema_of(&AUDIT.role());
    let value = filled(&schema, 6_000);
    assert_eq!((problems(&schema, &value), value["findings"].as_array().unwrap().len()), (Vec::new(), 4));
    assert!(value.to_string().len() <= 6_000 && value["limits"].as_str().unwrap().contains("7 patterns more"));
}

fn name() -> impl Strategy<Value = String> {
    let names =
        ["summary", "findings", "lines", "severity", "quote", "next_steps", "checked", "count", "zorblax", "note_1"];
    proptest::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0u64..40, 0u64..40)
            .prop_map(|(least, more)| json!({ "type": "string", "minLength": least, "maxLength": least + more })),
        (-9i64..9, 0i64..9)
            .prop_map(|(least, more)| json!({ "type": "integer", "minimum": least, "maximum": least + more })),
        (-9i64..9, 1i64..9).prop_map(|(least, more)| {
            json!({ "type": "number", "exclusiveMinimum": least, "exclusiveMaximum": least + more })
        }),
        (-9i64..9).prop_map(|above| json!({ "type": "integer", "exclusiveMinimum": above })),
        (-9i64..9).prop_map(|below| json!({ "type": "number", "exclusiveMaximum": below })),
        proptest::collection::vec(
            prop_oneof![Just(json!("low")), Just(json!("other")), Just(json!(3)), Just(json!(null))],
            1..4
        )
        .prop_map(|values| json!({ "enum": values })),
        Just(json!({ "const": "x" })),
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": ["integer", "null"] })),
        Just(json!({ "type": ["null", "array"] })),
        Just(json!({ "type": "null" })),
        Just(json!({ "$ref": "#/$defs/named" })),
        Just(json!({})),
        Just(json!(true)),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 4, |inner| {
        let properties = proptest::collection::btree_map(name(), inner.clone(), 0..4);
        prop_oneof![
            object(properties),
            (inner.clone(), 0u64..3, 0u64..3).prop_map(|(items, least, more)| {
                json!({ "type": "array", "items": items, "minItems": least, "maxItems": least + more })
            }),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items, "uniqueItems": true })),
            inner.clone().prop_map(|first| json!({ "type": "array", "prefixItems": [first], "items": false })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({ "anyOf": [a, b] })),
            inner.prop_map(|part| json!({ "allOf": [part, {}] })),
        ]
    })
}

fn object(
    properties: impl Strategy<Value = std::collections::BTreeMap<String, Value>>,
) -> impl Strategy<Value = Value> {
    (properties, any::<bool>(), any::<bool>()).prop_map(|(properties, open, all)| {
        let required: Vec<&String> = properties.keys().step_by(if all { 1 } else { 2 }).collect();
        let least = properties.len();
        let most = properties.len() + 1;
        json!({
            "type": "object", "required": required, "properties": properties, "additionalProperties": open,
            "minProperties": if open { least } else { required.len() }, "maxProperties": most,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_schema_is_fitted(mut root in object(proptest::collection::btree_map(name(), schema(), 0..5))) {
        root["$defs"] = json!({ "named": { "type": "string", "minLength": 3 } });
        let value = filled(&root, 1 << 20);
        prop_assert_eq!(problems(&root, &value), Vec::<String>::new(), "{}\n{}", root, value);
    }
}
