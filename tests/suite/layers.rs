//! Data flows one way: no module of the runtime uses one above it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// From the ground up. A module may use those before it, and itself.
const LAYERS: [&[&str]; 11] = [
    &["error"],
    &["clock", "ids", "layout", "fsio", "redact", "schema", "text", "tuning"],
    &["bundle", "semantic", "skill"],
    &["memory"],
    &["brain"],
    &["backend", "tool"],
    &["task"],
    &["session", "receipt", "curator", "evolver"],
    &["snapshot"],
    &["harness"],
    &["successor"],
];

/// Inside a layer, who may use whom.
const SIDEWAYS: [(&str, &str); 4] = [("layout", "ids"), ("fsio", "ids"), ("fsio", "layout"), ("ids", "clock")];

fn runtime() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/src")
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Every `crate::module` a file mentions, in `use` lists and in paths.
fn edges(text: &str) -> BTreeSet<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_module_of_the_runtime_uses_one_above_it() {
    let mut files = Vec::new();
    sources(&runtime(), &mut files);
    let mut upward = Vec::new();
    let mut seen = 0;
    for file in files {
        let relative = file.strip_prefix(runtime()).expect("inside");
        let module = relative.iter().next().expect("a part").to_str().expect("UTF-8").trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a file");
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for hidden in ["crate::{", "crate::*", "crate::Brain", "crate::Draft", "crate::Reader"] {
            assert!(!code.contains(hidden), "{}: {hidden} hides where an edge goes", relative.display());
        }
        let from = layer_of(module).unwrap_or_else(|| panic!("{module} has no layer: add it to LAYERS"));
        for target in edges(&text) {
            let Some(to) = layer_of(&target) else {
                // A re-export at the crate's root, or a macro: those are of the ground.
                continue;
            };
            seen += 1;
            let allowed = to < from || target == module || SIDEWAYS.contains(&(module, target.as_str()));
            if !allowed {
                upward.push(format!("{} uses crate::{target}", relative.display()));
            }
        }
    }
    assert_eq!(upward, Vec::<String>::new());
    assert!(seen > 100, "only {seen} edges: the test no longer reads the code");
}

#[test]
fn packages_depend_one_way() {
    let manifest = |path: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).expect("a manifest")
    };
    let uses =
        |path: &str, name: &str| manifest(path).lines().any(|line| line.starts_with(&format!("{name}.workspace")));
    for forbidden in ["herm-tools", "herm-operator", "herm-tests", "clap", "axum"] {
        assert!(!uses("runtime/Cargo.toml", forbidden), "the runtime uses {forbidden}");
    }
    for forbidden in ["herm-operator", "herm-tests", "clap"] {
        assert!(!uses("tools/Cargo.toml", forbidden), "the tools use {forbidden}");
    }
    assert!(uses("runtime/operator/Cargo.toml", "herm-tools") && uses("tools/Cargo.toml", "herm"));
}
