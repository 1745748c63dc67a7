//! That the router and the OpenAPI document name the same paths with the same methods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::openapi;

/// Paths that are no part of the API: the page, and the document itself.
const UNDOCUMENTED: [&str; 3] = ["get /", "get /app/{*path}", "get /openapi.json"];
/// The functions of axum that take a method, and the methods.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Every route that the source of the router names, as `method path`.
fn routed(source: &str) -> BTreeSet<String> {
    let mut routes = BTreeSet::new();
    for call in source.split(".route(").skip(1) {
        let (path, handlers) = call.split_once(',').unwrap();
        let path = match path.trim().strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"').unwrap(),
            None => constant(source, path.trim()),
        };
        // Up to the parenthesis that closes `.route(`.
        let mut depth = 1;
        let end = handlers.find(|letter| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        let words: Vec<&str> = handlers[..end.unwrap()]
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '(')
            .collect();
        let before = routes.len();
        for method in METHODS {
            if words.iter().any(|word| word.starts_with(&format!("{method}("))) {
                routes.insert(format!("{method} {path}"));
            }
        }
        assert!(routes.len() > before, "no method of {path} is recognised in {handlers:?}");
    }
    routes
}

/// The value of a constant of the source.
fn constant<'s>(source: &'s str, name: &str) -> &'s str {
    let (_, value) = source.split_once(&format!("const {name}: &str = \"")).unwrap();
    value.split_once('"').unwrap().0
}

/// Every path of the document, as `method path`.
fn documented(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(move |method| format!("{method} {path}")))
        .collect()
}

#[test]
fn the_router_and_the_document_name_the_same_paths() {
    let source = include_str!("router.rs");
    for other in [".nest(", ".nest_service(", ".route_service("] {
        assert!(!source.contains(other), "this test does not read routes that are made with {other}");
    }
    // MCP describes itself, behind its one path.
    assert_eq!(source.matches(".merge(").count(), 1, "only the routes of `mcp` come from another file");
    let mut routed = routed(source);
    for path in UNDOCUMENTED {
        assert!(routed.remove(path), "{path} is no longer a route");
    }
    let documented = documented(&serde_json::from_str(&openapi::text()).unwrap());
    assert!(documented.len() > 40, "{documented:?}");
    assert_eq!(
        routed.difference(&documented).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "routes without a description"
    );
    assert_eq!(
        documented.difference(&routed).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "descriptions without a route"
    );
}

#[test]
fn routes_are_read_with_every_method() {
    let source = "const A: &str = \"/a/{id}\";\nx.route(A, post(one::a)).route(\"/b\", get(b).delete(c::d))";
    assert_eq!(routed(source).into_iter().collect::<Vec<_>>(), ["delete /b", "get /b", "post /a/{id}"]);
}
