//! The public suite, then our own cases: what a model is told, and what a hostile schema can do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::check::Verdict;
use super::*;

const SEVEN: Dialect = Dialect { seven: true, validates: true };

/// Optional parts of the suite that are not covered, by draft and file: the vocabulary that makes formats an assertion,
/// content that is decoded, and schemas of draft 2019-09 that a later one refers to. The tests of single formats
/// (`optional/format`) are not in our copy at all: a format only annotates.
const NOT_COVERED: &[(&str, &str)] =
    &[("draft2020-12", "cross-draft.json"), ("draft2020-12", "format-assertion.json"), ("draft7", "content.json")];

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/json-schema-test-suite")
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file of the suite")).expect("JSON")
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory of the suite") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
    found.sort();
}

/// The documents that the suite expects at an address of its own.
fn remotes() -> Vec<(String, Value)> {
    let root = suite().join("remotes");
    let mut found = Vec::new();
    files(&root, &mut found);
    let name = |path: &Path| {
        let rest = path.strip_prefix(&root).expect("below").to_str().expect("text").replace('\\', "/");
        format!("http://localhost:1234/{rest}")
    };
    found.iter().map(|path| (name(path), read(path))).collect()
}

/// Runs one file; how many tests there are, and those that differ.
fn run(path: &Path, remotes: &[(String, Value)], dialect: Dialect) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for group in read(path).as_array().expect("groups") {
        for test in group["tests"].as_array().expect("tests") {
            count += 1;
            let expected = if test["valid"] == true { Verdict::Fits } else { Verdict::Fails };
            let found = Check::new(&group["schema"], remotes, dialect).verdict(&test["data"]);
            if found != expected {
                wrong.push(format!(
                    "{}: {} / {}: {found:?}",
                    path.file_name().expect("a name").to_string_lossy(),
                    group["description"],
                    test["description"]
                ));
            }
        }
    }
    (count, wrong)
}

#[test]
fn the_required_parts_of_the_public_suite_pass() {
    let remotes = remotes();
    for (draft, dialect, least) in [("draft7", SEVEN, 900), ("draft2020-12", Dialect::MODERN, 1_200)] {
        let (mut count, mut wrong) = (0, Vec::new());
        for entry in std::fs::read_dir(suite().join(draft)).expect("a directory of the suite") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|ext| ext == "json") {
                let (more, differ) = run(&path, &remotes, dialect);
                count += more;
                wrong.extend(differ);
            }
        }
        assert!(wrong.is_empty(), "{draft}: {} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(count >= least, "{draft}: only {count} tests were found");
    }
}

#[test]
fn the_optional_parts_that_are_not_covered_are_these() {
    let remotes = remotes();
    let mut differ = BTreeMap::new();
    for (draft, dialect) in [("draft7", SEVEN), ("draft2020-12", Dialect::MODERN)] {
        let mut found = Vec::new();
        files(&suite().join(draft).join("optional"), &mut found);
        for path in found {
            let (_, wrong) = run(&path, &remotes, dialect);
            if !wrong.is_empty() {
                differ.insert((draft, path.file_name().expect("a name").to_string_lossy().into_owned()), wrong);
            }
        }
    }
    let names: Vec<(&str, &str)> = differ.keys().map(|(draft, file)| (*draft, file.as_str())).collect();
    assert_eq!(names, NOT_COVERED, "{differ:#?}");
}

#[test]
fn each_keyword_is_held_and_told() {
    let cases = [
        (json!({ "type": "object", "required": ["a"] }), json!({}), "the arguments: \"a\" is missing"),
        (json!({ "type": "string" }), json!(1), "of type string"),
        (json!({ "type": ["string", "null"] }), json!(1), "string or null"),
        (json!({ "enum": ["x", "y"] }), json!("z"), "one of \"x\", \"y\""),
        (json!({ "const": 1 }), json!(2), "must be 1"),
        (json!({ "additionalProperties": false, "properties": { "a": true } }), json!({ "b": 1 }), "there are: a"),
        (json!({ "additionalProperties": { "type": "string" } }), json!({ "b": 1 }), "b: it must be of type"),
        (json!({ "minLength": 2 }), json!("é"), "at least 2 characters"),
        (json!({ "maxLength": 2 }), json!("abc"), "at most 2"),
        (json!({ "pattern": "^a" }), json!("b"), "match the pattern ^a"),
        (json!({ "minimum": 1 }), json!(0), "at least 1"),
        (json!({ "exclusiveMaximum": 1 }), json!(1), "less than 1"),
        (json!({ "multipleOf": 0.1 }), json!(0.25), "multiple of 0.1"),
        (json!({ "type": "integer" }), json!(1.5), "integer"),
        (json!({ "items": { "type": "integer" } }), json!([1, "x"]), "[1]: it must"),
        (json!({ "uniqueItems": true }), json!([1, 1.0]), "differ"),
        (json!({ "maxItems": 1 }), json!([1, 1]), "at most 1 items"),
        (json!({ "contains": { "const": 1 } }), json!([2]), "at least 1 of its items"),
        (json!({ "propertyNames": { "maxLength": 1 } }), json!({ "ab": 1 }), "\"ab\" is not an allowed name"),
        (json!({ "dependentRequired": { "a": ["b"] } }), json!({ "a": 1 }), "\"b\" is missing, which \"a\" needs"),
        (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!(1), "none of"),
        (json!({ "oneOf": [{ "type": "number" }, { "minimum": 0 }] }), json!(1), "exactly one"),
        (json!({ "not": { "type": "null" } }), json!(null), "not allowed"),
        (json!({ "$ref": "#/$defs/t", "$defs": { "t": { "type": "string" } } }), json!(1), "of type string"),
        (json!({ "unevaluatedProperties": false }), json!({ "a": { "b": 1 } }), "a: there is no such argument"),
        (json!(false), json!(1), "nothing is allowed"),
    ];
    for (schema, value, expected) in cases {
        let found = problems(&schema, &value).join("; ");
        assert!(found.contains(expected), "{schema} {value}: {found:?}");
    }
}

#[test]
fn what_fits_has_no_problems() {
    for (schema, value) in [
        (
            json!({
                "type": "object", "additionalProperties": false, "required": ["op"],
                "properties": { "op": { "enum": ["a"] }, "n": { "type": ["integer", "null"] } }
            }),
            json!({ "op": "a", "n": 1.0 }),
        ),
        (json!({ "oneOf": [{ "pattern": "^a" }, { "pattern": "^b" }] }), json!("bc")),
        (json!({ "not": { "pattern": "^a" } }), json!("b")),
        (json!({ "patternProperties": { "^x-": true }, "additionalProperties": false }), json!({ "x-a": 1 })),
        (json!({ "$ref": "#it", "$defs": { "it": { "$anchor": "it", "type": "string" } } }), json!("a")),
        (json!({ "const": 1 }), json!(1.0)),
        (json!({ "enum": [1, 2] }), json!(2.0)),
        // Nobody can tell: it is not refused.
        (json!({ "pattern": "^(?=a)" }), json!("b")),
        (json!({ "not": { "pattern": "^(?=a)" } }), json!("b")),
        (json!({ "oneOf": [{ "pattern": "(?=a)" }, { "type": "null" }] }), json!("b")),
        (json!({ "$ref": "https://example.org/other.json" }), json!(1)),
        (json!({ "$ref": "#/nowhere" }), json!(1)),
        (json!({ "patternProperties": { "(?=a)": true }, "additionalProperties": false }), json!({ "a": 1 })),
        (json!({ "allOf": [{ "$ref": "other" }], "unevaluatedProperties": false }), json!({ "a": 1 })),
    ] {
        assert_eq!(problems(&schema, &value), Vec::<String>::new(), "{schema} {value}");
    }
}

#[test]
fn at_most_five_problems_are_told_each_with_its_place() {
    let schema = json!({ "properties": { "a": { "items": { "properties": { "b": { "type": "null" } } } } } });
    let value = json!({ "a": [{ "b": 1 }, { "b": 2 }, { "b": 3 }, { "b": 4 }, { "b": 5 }, { "b": 6 }] });
    let found = problems(&schema, &value);
    assert_eq!(found.len(), 5);
    assert_eq!(found[0], "a[0].b: it must be of type null");
}

#[test]
fn a_hostile_schema_ends_in_a_sentence() {
    let mut doubling = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        doubling.insert(format!("l{level}"), json!({ "anyOf": [{ "allOf": [next, next] }, next] }));
    }
    doubling.insert("l40".to_owned(), json!({ "type": "string" }));
    let evil = "(a|aa|aaa|.)*".repeat(300);
    let many: Vec<Value> = (0..20_000).map(|n| json!({ "pattern": format!("^(a|b){{0,{n}}}") })).collect();
    for (schema, value) in [
        (json!({ "$ref": "#" }), json!(1)),
        (json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }), json!({})),
        (json!({ "$ref": "#/$defs/l0", "$defs": doubling }), json!(1)),
        (json!({ "allOf": many }), json!("a".repeat(1_000))),
    ] {
        let found = problems(&schema, &value);
        let told = found.iter().any(|line| line.contains("too deeply") || line.contains("takes too long"));
        assert!(told, "{found:?}");
    }
    // A pattern that would take a backtracking engine for ever is either decided or unknown.
    let _ = problems(&json!({ "pattern": format!("{evil}$") }), &json!("a".repeat(100_000)));
    let huge = json!({ "pattern": "((((a{1,999}){1,999}){1,999}){1,999})" });
    assert_eq!(problems(&huge, &json!("b")), Vec::<String>::new());
}

/// An object of so many levels, each with two children that say the same of theirs.
fn tree(levels: usize) -> Value {
    (0..levels).fold(json!({ "kind": "leaf", "n": 1 }), |below, level| {
        let kind = ["add", "sub", "mul"][level % 3];
        json!({ "left": below, "right": { "kind": "leaf", "n": 2 }, "kind": kind })
    })
}

/// Expressions: each branch has both children before the word that tells it apart.
fn expressions() -> Value {
    let node = json!({ "$ref": "#/$defs/node" });
    let branch = |kind: &str| {
        json!({ "type": "object", "required": ["kind", "left", "right"], "additionalProperties": false,
            "properties": { "left": node, "right": node, "kind": { "const": kind } } })
    };
    let leaf = json!({ "type": "object", "required": ["kind", "n"], "additionalProperties": false,
        "properties": { "kind": { "const": "leaf" }, "n": { "type": "integer" } } });
    json!({ "$ref": "#/$defs/node",
        "$defs": { "node": { "oneOf": [branch("add"), branch("sub"), branch("mul"), leaf] } } })
}

#[test]
fn a_deep_value_is_checked_in_every_branch() {
    let schema = expressions();
    for levels in [1, 5, 40, 120] {
        assert_eq!(problems(&schema, &tree(levels)), Vec::<String>::new(), "{levels}");
        let mut wrong = tree(levels).to_string();
        wrong = wrong.replacen("\"n\":1", "\"n\":\"one\"", 1);
        let wrong = serde_json::from_str(&wrong).expect("JSON");
        assert_eq!(
            problems(&schema, &wrong),
            ["the arguments: it must fit exactly one of the allowed shapes, and fits 0"],
            "{levels}"
        );
    }
    // The same without branches: each level is four schemas deep.
    let list = json!({ "$ref": "#/$defs/a", "$defs": {
        "a": { "allOf": [{ "$ref": "#/$defs/b" }] },
        "b": { "anyOf": [{ "type": "null" }, { "properties": { "next": { "$ref": "#/$defs/a" } } }] } } });
    let nested = |levels| (0..levels).fold(Value::Null, |below, _| json!({ "next": below }));
    assert_eq!(problems(&list, &nested(126)), Vec::<String>::new());
}

#[test]
fn large_calls_that_fit_are_accepted() {
    let word = |n: usize| format!("word-{n}-{}", "x".repeat(n % 40));
    let shapes: Vec<Value> = (0..60)
        .map(|n| {
            json!({ "type": "object", "required": ["kind"],
                "properties": { "id": { "type": "integer" }, "text": { "type": "string" }, "kind": { "const": format!("k{n}") } } })
        })
        .collect();
    let items = |count: usize| -> Vec<Value> {
        (0..count).map(|n| json!({ "id": n, "text": word(n), "kind": format!("k{}", n % 60) })).collect()
    };
    let patterned: serde_json::Map<String, Value> = (0..150)
        .map(|n| (format!("p{n}"), json!({ "type": "string", "pattern": format!("^.{{1,{}}}$", 200 + n) })))
        .collect();
    let texts: serde_json::Map<String, Value> = (0..150).map(|n| (format!("p{n}"), json!(word(n)))).collect();
    for (what, schema, value) in [
        ("many shapes", json!({ "items": { "oneOf": shapes } }), json!(items(2_500))),
        ("any of many shapes", json!({ "items": { "anyOf": shapes } }), json!(items(2_500))),
        ("a megabyte that matches", json!({ "pattern": r"^[\s\S]*$" }), json!("a b\n".repeat(1 << 18))),
        (
            "a pattern with a count",
            json!({ "items": { "pattern": "^.{1,255}$" } }),
            json!((0..5_000).map(|n| format!("{}{n}", "é".repeat(80))).collect::<Vec<_>>()),
        ),
        ("many patterns with counts", json!({ "properties": patterned }), Value::Object(texts)),
        (
            "many numbers",
            json!({ "items": { "type": "integer", "minimum": 0 } }),
            json!((0..150_000).collect::<Vec<_>>()),
        ),
        ("different items", json!({ "uniqueItems": true }), json!((0..20_000).map(word).collect::<Vec<_>>())),
        (
            "a long list of names",
            json!({ "items": { "enum": (0..2_000).map(word).collect::<Vec<_>>() } }),
            json!((0..2_000).map(word).collect::<Vec<_>>()),
        ),
    ] {
        assert_eq!(problems(&schema, &value), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_verdict_that_was_found_quietly_is_told_where_it_counts() {
    // The same schema fails in a branch first, and then where it must hold.
    let schema = json!({ "anyOf": [{ "$ref": "#/$defs/it" }, true], "allOf": [{ "$ref": "#/$defs/it" }],
        "$defs": { "it": { "type": "object", "required": ["a"] } } });
    assert_eq!(problems(&schema, &json!({})), ["the arguments: \"a\" is missing"]);
    let after = json!({ "allOf": [{ "anyOf": [{ "$ref": "#/$defs/it" }, true] }, { "$ref": "#/$defs/it" }],
        "$defs": { "it": { "type": "object", "required": ["a"] } } });
    assert_eq!(problems(&after, &json!({})), ["the arguments: \"a\" is missing"]);
}

#[test]
fn sentences_are_made_for_the_problems_that_are_told_and_no_longer_than_they_are_shown() {
    // To write each sentence in full would take hours.
    let many: Vec<String> = (0..200_000).map(|n| format!("name-{n}")).collect();
    let known: serde_json::Map<String, Value> = many.iter().map(|name| (name.clone(), json!(true))).collect();
    let given: serde_json::Map<String, Value> = many.iter().map(|name| (format!("x{name}"), json!(1))).collect();
    let closed = json!({ "properties": known, "additionalProperties": false });
    let wide = json!({ "items": { "enum": many } });
    let deep = json!({ "items": { "const": many } });
    let branches = json!({ "items": { "anyOf": [{ "not": { "const": 1 } }, { "const": many }] } });
    let ones = json!(vec![1; 100_000]);
    for (schema, value, begins) in [
        (&closed, &Value::Object(given), "xname-0: there is no such argument; there are: name-0, name-1, "),
        (&wide, &ones, "[0]: it must be one of \"name-0\", \"name-1\", "),
        (&deep, &ones, "[0]: it must be [\"name-0\",\"name-1\","),
        (&branches, &ones, "[0]: it fits none of the allowed shapes"),
    ] {
        let found = problems(schema, value);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].starts_with(begins), "{}", found[0]);
        assert!(found.iter().all(|line| line.len() < 600), "{found:?}");
    }
}

/// What MCP servers send: a whole schema that says itself which draft it is of.
#[test]
fn a_schema_that_says_it_is_of_draft_7_is_read_as_that() {
    let modern = json!({
        "type": "object",
        "properties": {
            "pair": { "items": [{ "type": "string" }, { "type": "integer" }], "additionalItems": false },
            "name": { "$ref": "#/definitions/name", "maxLength": 1 },
            "fixed": { "prefixItems": [{ "type": "string" }] },
        },
        "dependencies": { "pair": ["name"] },
        "definitions": { "name": { "type": "string" } },
    });
    let mut seven = modern.clone();
    seven["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    for (what, value, in_seven, in_modern) in [
        ("a list of schemas goes by place", json!({ "pair": [1, 1], "name": "a" }), 1, 1),
        ("and nothing may follow", json!({ "pair": ["a", 1, 2], "name": "a" }), 1, 1),
        ("what stands beside a $ref does not count", json!({ "name": "long" }), 0, 1),
        ("and the $ref does", json!({ "name": 1 }), 1, 1),
        ("prefixItems is a word of later drafts", json!({ "fixed": [1] }), 0, 1),
        ("all of it fits", json!({ "pair": ["a", 1], "name": "a", "fixed": ["a"] }), 0, 0),
    ] {
        assert_eq!(problems(&seven, &value).len(), in_seven, "{what}, by draft 7");
        assert_eq!(problems(&modern, &value).len(), in_modern, "{what}, by the draft of now");
    }
    assert_eq!(problems(&seven, &json!({ "pair": [] })), ["the arguments: \"name\" is missing, which \"pair\" needs"]);
}
