//! Every kind of patch, evaluated for real, and the ones that cannot be.

use serde_json::{Value, json};

use crate::{Bench, evaluation, patch, scripted};

const REPLIES: [&str; 2] = [r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen"}"#];

fn judged(bench: &Bench, changes: Value) -> crate::Judged {
    bench.judge(&patch(changes), &evaluation(json!([scripted("one", &REPLIES)])), &[])
}

#[test]
fn every_kind_of_change_can_be_evaluated() {
    let bench = Bench::new();
    let skill = "---\nname: check-twice\ndescription: Checks twice. Use when once is not enough.\n---\n# Check twice\n\nCheck, then check again.\n";
    for changes in [
        json!([{ "kind": "constants", "set": { "turns": 7, "indexBytes": 8000, "recencyPercent": 20, "staleDays": 10 } }]),
        json!([{ "kind": "component", "component": "compressor", "to": "salient" }]),
        json!([{ "kind": "component", "component": "selector", "to": "most-used" }]),
        json!([{ "kind": "component", "component": "replies", "to": "strict" }]),
        json!([{ "kind": "component", "component": "ranking", "to": "words" }]),
        json!([{ "kind": "component", "component": "backend", "to": "other-model" }]),
        json!([{ "kind": "role", "content": "You look at contracts. Answer in JSON.\n" }]),
        json!([{ "kind": "tool", "name": "outline", "use": "scan" }]),
        json!([{ "kind": "tool", "name": "outline", "executable": { "text": "#!/bin/sh\nread line; echo '{\"text\":\"seen\"}'\n" } }]),
        json!([{ "kind": "migration", "up": "CREATE INDEX x_messages_at ON messages(at)" }]),
        json!([{ "kind": "files", "set": { "skills/check-twice.md": skill } }]),
        json!([{ "kind": "files", "remove": ["patterns/reentrancy.md"] }, { "kind": "constants", "set": { "turns": 5 } }]),
    ] {
        let judged = judged(&bench, changes.clone());
        assert_eq!(judged.reason(), "", "{changes}: {:#}", judged.verdict());
        assert_eq!(judged.verdict()["checks"]["patchedPassed"], 2, "{changes}: {:?}", judged.samples("patched"));
        let identity = &judged.verdict()["identity"];
        let is_identity = !changes.to_string().contains("\"files\"");
        assert!(!is_identity || identity["before"] != identity["after"], "{changes}: {identity}");
    }
    bench.assert_clean();
}

#[test]
fn a_patch_that_cannot_be_applied_is_rejected_with_the_reason() {
    let bench = Bench::new();
    for (changes, why) in [
        (json!([{ "kind": "role", "edits": [{ "find": "no such words", "replace": "x" }] }]), "not exactly once"),
        (json!([{ "kind": "migration", "up": "DELETE FROM messages" }]), "not a plain index"),
        (json!([{ "kind": "migration", "up": "CREATE INDEX x_a ON blobs(content)" }]), "not a plain index"),
        (json!([{ "kind": "files", "remove": ["skills/nobody.md"] }]), "not there"),
        (json!([{ "kind": "files", "set": { "skills/bad.md": "no front matter" } }]), "skill"),
        (
            json!([{ "kind": "constants", "set": { "staleDays": 200 } }, { "kind": "constants", "set": { "archiveDays": 100 } }]),
            "stale",
        ),
    ] {
        let judged = judged(&bench, changes.clone());
        assert_eq!(
            (judged.ruling(), judged.reason()),
            ("REJECT", "patch_refused"),
            "{changes}: {:#}",
            judged.verdict()
        );
        let summary = judged.verdict()["evaluation_summary"].as_str().unwrap().to_owned();
        assert!(summary.contains(why), "{changes}: {summary}");
    }
}

#[test]
fn a_file_that_is_no_patch_or_no_evaluation_is_an_error_with_a_next_step() {
    let bench = Bench::bare();
    let good = evaluation(json!([scripted("one", &REPLIES)]));
    for (bad, part) in [
        (json!({}), "not a patch"),
        (json!({ "schema": "herm/patch@9", "title": "t", "changes": [] }), "format"),
        (patch(json!([])), "1 to 64 changes"),
        (patch(json!([{ "kind": "constants", "set": { "turns": 9 } }])), "turns"),
        (patch(json!([{ "kind": "component", "component": "compressor", "to": "psychic" }])), "psychic"),
        (patch(json!([{ "kind": "files", "set": { "../../etc/passwd": "x" } }])), "path"),
        (patch(json!([{ "kind": "files", "set": { "bundle.lock.json": "x" } }])), "not part of a brain"),
        (patch(json!([{ "kind": "files", "set": { "tuning.json": "{}" } }])), "not changed as a file"),
        (patch(json!([{ "kind": "tool", "name": "scan" }])), "one of them"),
    ] {
        let output = bench.evaluating(&bad, &good, &[]).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(part), "{bad}: {said}");
    }
    for (bad, part) in [
        (json!({}), "not an evaluation"),
        (evaluation(json!([])), "at least one part"),
        (evaluation(json!([{ "kind": "suite", "name": "s", "tasks": [] }])), "needs tasks"),
        (evaluation(json!([{ "kind": "compress", "name": "c", "sessions": 1000000 }])), "at most"),
    ] {
        let output = bench.evaluating(&crate::small_patch(), &bad, &[]).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(part), "{bad}: {said}");
    }
    // A brain that is not there, a file that is not there.
    let patch = bench.file("patch.json", &crate::small_patch());
    let task = bench.file("task.json", &good);
    assert_eq!(bench.herm().run(&["successor", "evaluate", "9", "--patch", &patch, "--task", &task]).code, 4);
    assert_eq!(bench.herm().run(&["successor", "evaluate", "1", "--patch", "/nowhere", "--task", &task]).code, 4);
    bench.assert_clean();
}

#[test]
fn a_worse_patch_is_rejected_and_one_that_changes_nothing_is_not_approved() {
    let bench = Bench::new();
    let long = [
        r#"{"tool":"outline","args":{}}"#,
        r#"{"tool":"scan","args":{}}"#,
        r#"{"tool":"skills_list","args":{}}"#,
        r#"{"summary":"seen"}"#,
    ];
    let task = evaluation(json!([scripted("four turns", &long)]));
    let short = bench.judge(&patch(json!([{ "kind": "constants", "set": { "turns": 2 } }])), &task, &[]);
    assert_eq!((short.ruling(), short.code), ("REJECT", 1), "{:#}", short.verdict());
    assert_eq!(short.verdict()["checks"]["regressed"], 2, "it converges no more, and it did");
    let same = bench.judge(&crate::small_patch(), &task, &[]);
    assert_eq!((same.ruling(), same.code), ("NEEDS_REVISION", 1), "{:#}", same.verdict());
}

#[test]
fn recorded_tasks_are_replayed_with_the_recorded_words_where_nothing_changed() {
    let bench = Bench::new();
    let task = evaluation(json!([{ "kind": "replay", "name": "before", "last": 3 }]));
    let same = bench.judge(&crate::small_patch(), &task, &[]);
    let (before, after) = (&same.samples("baseline")[0]["metrics"], &same.samples("patched")[0]["metrics"]);
    assert_eq!((&before["turns"], &before["contextBytes"]), (&after["turns"], &after["contextBytes"]));
    // Another role is another conversation: the embedded backend speaks from the first turn on.
    let role = patch(json!([{ "kind": "role", "content": "You look at contracts.\n" }]));
    let other = bench.judge(&role, &task, &[]);
    let (before, after) = (&other.samples("baseline")[0]["metrics"], &other.samples("patched")[0]["metrics"]);
    assert!(after["contextBytes"].as_f64().unwrap() < before["contextBytes"].as_f64().unwrap(), "{before} {after}");
}
