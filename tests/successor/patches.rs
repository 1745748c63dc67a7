//! Every kind of patch, evaluated for real, and the ones that cannot be.

use herm_tests::can_sandbox;
use herm_tests::model_server::{ModelServer, Step};
use serde_json::{Value, json};

use crate::{Bench, evaluation, patch, scripted};

const REPLIES: [&str; 2] =
    [r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#];

fn judged(bench: &Bench, changes: Value) -> crate::Judged {
    bench.judge(&patch(changes), &evaluation(json!([scripted("one", &REPLIES)])), &[])
}

#[test]
fn every_kind_of_change_can_be_evaluated() {
    if !can_sandbox() {
        return;
    }
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
    if !can_sandbox() {
        return;
    }
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
    if !can_sandbox() {
        return;
    }
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
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let long = [
        r#"{"tool":"outline","args":{}}"#,
        r#"{"tool":"scan","args":{}}"#,
        r#"{"tool":"skills_list","args":{}}"#,
        r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#,
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
    if !can_sandbox() {
        return;
    }
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

#[test]
fn each_side_speaks_with_the_backend_it_would_have_however_the_patch_names_it() {
    if !can_sandbox() {
        return;
    }
    let manifest = r#"{ "schema": "herm/manifest@1", "name": "PLAIN", "tools": [], "backend": "cheap" }"#;
    for change in [
        json!({ "kind": "component", "component": "backend", "to": "cheap" }),
        json!({ "kind": "constants", "set": { "backend": "cheap" } }),
        json!({ "kind": "files", "set": { "manifest.json": manifest } }),
    ] {
        let bench = Bench::plain();
        let [dear, cheap] =
            ["dear", "cheap"].map(|says| ModelServer::always(Step::chat(&json!({ "done": says }).to_string())));
        let backend = |name: &str, model: &ModelServer| {
            format!(
                "[backends.{name}]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\nstream = false\n\
                 price = {{ input = 1000, output = 1000 }}\n",
                model.url()
            )
        };
        let config = bench.path().join("herm.toml");
        let text = format!("backend = \"dear\"\n{}{}", backend("dear", &dear), backend("cheap", &cheap));
        std::fs::write(&config, text).unwrap();
        let task = json!({
            "schema": "herm/evaluation@1", "title": "who speaks", "speaker": "brain",
            "parts": [{ "kind": "suite", "name": "s", "tasks": [
                { "name": "t", "input": "go", "checks": [{ "answerHas": "cheap" }] },
            ] }],
            "goals": [{ "metric": "solved" }],
        });
        let mut command = bench.evaluating(&patch(json!([change])), &task, &[]);
        let output = command.env("HERM_CONFIG", &config).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = &json["verdict"]["checks"];
        assert_eq!((&checks["baselinePassed"], &checks["patchedPassed"]), (&json!(1), &json!(2)), "{change}: {json:#}");
        assert_eq!((dear.requests().len(), cheap.requests().len()), (1, 1), "{change}");
    }
}

/// The brain's own tasks once more.
fn replays() -> Value {
    let mut task = evaluation(json!([{ "kind": "replay", "name": "before", "last": 20 }]));
    task["goals"] = json!([{ "metric": "contextBytes" }]);
    task
}

#[test]
fn a_replay_sees_what_a_patch_does_to_a_tool() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let swapped = patch(json!([{ "kind": "tool", "name": "scan", "use": "outline" }]));
    let judged = bench.judge(&swapped, &replays(), &[]);
    let sent = |arm: &str| judged.samples(arm)[0]["metrics"]["contextBytes"].as_f64().unwrap();
    assert_ne!(sent("baseline"), sent("patched"), "{:#}", judged.verdict());
    let caveats = judged.verdict()["caveats"].to_string();
    assert!(caveats.contains("In 1 replays the patch changed the conversation"), "{caveats}");
}

#[test]
fn tasks_from_before_the_brain_was_last_changed_are_not_replayed() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let run = |tasks: usize| (0..tasks).for_each(|_| drop(bench.must(&["run", "1", "--example", "vault"])));
    let tuning = bench.brains().join("1/tuning.json");
    std::fs::write(&tuning, "{\"schema\":\"herm/tuning@1\",\"compressor\":\"salient\"}\n").unwrap();
    bench.must(&["brain", "adopt", "1"]);
    run(2);
    std::fs::remove_file(&tuning).unwrap();
    bench.must(&["brain", "adopt", "1"]);
    run(3);
    // On the first two the patch would change nothing: they are no evidence against it.
    let salient = patch(json!([{ "kind": "component", "component": "compressor", "to": "salient" }]));
    let judged = bench.judge(&salient, &replays(), &[]);
    assert_eq!(judged.reason(), "", "{:#}", judged.verdict());
    assert_eq!(judged.samples("patched").len(), 3);
    let caveats = judged.verdict()["caveats"].to_string();
    assert!(caveats.contains("2 tasks from before the brain was last changed are not replayed"), "{caveats}");
}

#[test]
fn cutoffs_of_the_curator_are_judged_by_the_skills_they_would_retire() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let task = json!({
        "schema": "herm/evaluation@1", "title": "what the curator retires",
        "parts": [{ "kind": "curate", "name": "lives", "lives": 20, "skills": 40 }],
        "goals": [{ "metric": "deadKept" }], "guards": [{ "metric": "retiredUsed", "slack": 0.0 }],
    });
    let set = |stale: u32, archive: u32| {
        patch(json!([{ "kind": "constants", "set": { "staleDays": stale, "archiveDays": archive } }]))
    };
    let counted = |judged: &crate::Judged, arm: &str, metric: &str| -> f64 {
        judged.samples(arm).iter().map(|sample| sample["metrics"][metric].as_f64().unwrap()).sum()
    };
    // Far sooner: what is used once a month goes with the dead.
    let hasty = bench.judge(&set(7, 20), &task, &[]);
    assert_eq!((hasty.ruling(), hasty.reason()), ("REJECT", "guard_broken"), "{:#}", hasty.verdict());
    assert!(counted(&hasty, "patched", "retiredUsed") > counted(&hasty, "baseline", "retiredUsed") + 50.0);
    // As late as that, nothing that lives is retired: better for them, and worse for the index.
    let lax = bench.judge(&set(30, 365), &task, &[]);
    assert_eq!(lax.ruling(), "NEEDS_REVISION", "{:#}", lax.verdict());

    // Of a brain that hardly retires anything, only the dead go.
    let tuning = bench.brains().join("1/tuning.json");
    std::fs::write(&tuning, "{\"schema\":\"herm/tuning@1\",\"staleDays\":30,\"archiveDays\":365}\n").unwrap();
    bench.must(&["brain", "adopt", "1"]);
    let better = bench.judge(&set(30, 120), &task, &[]);
    assert_eq!(better.ruling(), "APPROVE", "{:#}", better.verdict());
    assert_eq!(counted(&better, "patched", "retiredUsed"), 0.0);
    assert!(counted(&better, "patched", "deadKept") < counted(&better, "baseline", "deadKept") / 2.0);
}
