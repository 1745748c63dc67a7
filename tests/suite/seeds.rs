//! The canonical agents are worth having: every file obeys the rules and every pattern finds something.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use herm::skill::{Document, Severity, rules};
use herm_tests::{Herm, TempBrains};
use herm_tools::{Pattern, scan};

use crate::HERM;

fn agents() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../seed/agents");
    let mut agents: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("seeds").map(|entry| entry.expect("an entry").path()).collect();
    agents.sort();
    agents
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    found
}

fn patterns(agent: &Path) -> Vec<Pattern> {
    files(&agent.join("patterns"))
        .into_iter()
        .map(|path| {
            let slug = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").parse().expect("a slug");
            Pattern::parse(slug, &std::fs::read(&path).expect("a pattern")).expect("a valid pattern")
        })
        .collect()
}

#[test]
fn every_pattern_of_a_seed_finds_something_in_its_examples() {
    for agent in agents() {
        let patterns = patterns(&agent);
        assert!(patterns.len() >= 8, "{}: {} patterns", agent.display(), patterns.len());
        let mut hits: BTreeMap<String, usize> = BTreeMap::new();
        for example in files(&agent.join("examples")) {
            for hit in scan(&patterns, &std::fs::read_to_string(example).expect("an example")) {
                *hits.entry(hit.pattern.to_string()).or_default() += 1;
            }
        }
        for pattern in &patterns {
            assert!(!pattern.signals.is_empty() && pattern.body.len() > 200, "{} is thin", pattern.slug);
            assert!(hits.contains_key(pattern.slug.as_str()), "{} finds nothing", pattern.slug);
        }
    }
}

#[test]
fn the_audit_example_shows_real_findings_and_the_clean_one_hardly_any() {
    let audit = agents().remove(0);
    let patterns = patterns(&audit);
    let hits =
        |name: &str| scan(&patterns, &std::fs::read_to_string(audit.join("examples").join(name)).expect("text")).len();
    assert!(hits("vault.sol") >= 8);
    assert!(hits("escrow.sol") <= 2);
}

#[test]
fn every_skill_of_a_seed_obeys_the_rules_without_a_warning() {
    let herm = Herm::new(HERM, &TempBrains::new().path());
    for agent in agents() {
        let skills = agent.join("skills");
        let (code, json) = herm.json(&["skills", "validate", skills.to_str().expect("UTF-8")]);
        assert_eq!(code, 0, "{json:#}");
        assert!(json["checked"].as_u64().expect("a count") >= 4);
        for skill in json["skills"].as_array().expect("skills") {
            assert_eq!(skill["findings"], serde_json::json!([]), "{}", skill["path"]);
        }
    }
}

#[test]
fn every_role_has_a_schema_for_its_final_answer() {
    for agent in agents() {
        let role = std::fs::read_to_string(agent.join("system.md")).expect("system.md");
        let (_, after) = role.split_once("## Final answer").expect("a section on the final answer");
        let (_, fenced) = after.split_once("```json\n").expect("a fence");
        let (schema, _) = fenced.split_once("\n```").expect("its end");
        let schema: serde_json::Value = serde_json::from_str(schema).expect("JSON");
        assert_eq!(schema["type"], "object");
        assert!(schema["properties"].get("tool").is_none(), "a final answer has no tool");
        for name in ["summary", "findings", "checked", "limits"] {
            assert!(schema["properties"].get(name).is_some(), "{name}");
        }
    }
}

#[test]
fn a_seed_document_is_read_without_leniency() {
    for agent in agents() {
        for path in files(&agent.join("patterns")) {
            let document = Document::read(&std::fs::read(&path).expect("a file")).expect("a document");
            assert!(document.findings().iter().all(|f| f.severity != Severity::Error), "{}", path.display());
            assert!(rules::is_valid_name(&document.name().expect("a name")));
        }
    }
}
