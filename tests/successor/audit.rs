//! A second successor audits the verdict of a first one, and every change of its record is found.

use herm_tests::can_sandbox;
use std::fs;
use std::path::Path;

use herm_tests::Herm;
use serde_json::{Value, json};

use crate::{Bench, Judged, patch};

/// The compressor that keeps the lines that matter.
pub fn salient() -> Value {
    patch(json!([{ "kind": "component", "component": "compressor", "to": "salient" }]))
}

/// Long sessions that do not fit, with a goal on what is left of them.
pub fn sessions(goal: &str) -> Value {
    json!({
        "schema": "herm/evaluation@1", "title": "what is left", "seed": 7,
        "parts": [{ "kind": "compress", "name": "long", "sessions": 12, "resultBytes": 4000, "contextBytes": 8000 }],
        "goals": [{ "metric": goal, "part": "long" }],
        "guards": [{ "metric": "contextBytes", "part": "long", "slack": 0.2 }],
    })
}

fn approved(bench: &Bench) -> (Judged, String) {
    let judged = bench.judge(&salient(), &sessions("keptFacts"), &[]);
    assert_eq!(judged.ruling(), "APPROVE", "{:#}", judged.json);
    let name = judged.directory().file_name().unwrap().to_str().unwrap().to_owned();
    (judged, name)
}

fn faults(audit: &Value) -> Vec<String> {
    let findings = audit["audit"]["findings"].as_array().unwrap().iter();
    let faults = findings.filter(|finding| finding["weight"] == "fault");
    faults.map(|finding| finding["sentence"].as_str().unwrap().to_owned()).collect()
}

/// What the verifier says after a change, which is taken back again.
fn after(herm: &Herm, directory: &Path, name: &str, file: &str, change: impl FnOnce(String) -> String) -> Vec<String> {
    let path = directory.join(file);
    let before = fs::read_to_string(&path).unwrap();
    fs::write(&path, change(before.clone())).unwrap();
    let (code, audit) = herm.json(&["successor", "audit", name]);
    fs::write(&path, before).unwrap();
    assert_eq!((code, &audit["audit"]["agrees"]), (1, &json!(false)), "{file}: {audit:#}");
    assert_eq!(audit["audit"]["verdict"], Value::Null, "no successor is run for a record that was touched");
    faults(&audit)
}

#[test]
fn a_second_successor_with_another_seed_agrees_and_signs() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let (judged, name) = approved(&bench);
    let (code, audit) = bench.herm().json(&["successor", "audit", &name]);
    assert_eq!((code, faults(&audit)), (0, vec![]), "{audit:#}");
    let audit = &audit["audit"];
    assert_eq!((&audit["agrees"], &audit["ruling"]), (&json!(true), &json!("APPROVE")));
    assert_eq!(audit["about"], judged.json["hash"]);
    assert_ne!(audit["seed"], 7);
    // The second verdict is one like the first: it can be looked at.
    let second: Value =
        serde_json::from_str(&bench.must(&["--json", "successor", "show", audit["verdict"].as_str().unwrap()]))
            .unwrap();
    assert_eq!(second["verdict"]["seed"], audit["seed"]);
    assert_eq!(second["verdict"]["patch_hash"], judged.verdict()["patch_hash"]);
    let kept: Value = serde_json::from_slice(&fs::read(judged.directory().join("audit.dsse.json")).unwrap()).unwrap();
    assert_eq!(kept["payloadType"], "application/vnd.in-toto+json");
    // The record still reads as it did, and an audit of it does not disturb the next one.
    bench.must(&["successor", "show", &name]);
    bench.assert_clean();
}

#[test]
fn every_kind_of_tampering_is_found_with_an_exact_sentence() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let (judged, name) = approved(&bench);
    let (herm, directory) = (bench.herm(), judged.directory());
    let report = after(herm, &directory, &name, "report.html", |text| text.replacen("APPROVE", "APPR0VE", 1));
    assert!(report[0].starts_with("The artifact report.html has the SHA-256 "), "{report:?}");
    let measured = after(herm, &directory, &name, "measurements.json", |text| {
        text.replacen("keptFacts\": 0", "keptFacts\": 1", 1)
    });
    assert!(measured.iter().any(|found| found.starts_with("The artifact measurements.json has ")), "{measured:?}");
    let plain = after(herm, &directory, &name, "verdict.json", |text| text.replacen("APPROVE", "REJECT", 1));
    assert_eq!(plain, ["verdict.json is not the verdict that was signed."]);
    let sealed =
        after(herm, &directory, &name, "verdict.dsse.json", |text| text.replacen("\"sig\":\"", "\"sig\":\"AAAA", 1));
    assert!(sealed[0].starts_with("The signature of the verdict does not hold: "), "{sealed:?}");
    let swapped = after(herm, &directory, &name, "patch.json", |text| text.replace("salient", "oldest-first"));
    assert!(swapped[0].starts_with("patch.json has the hash sha256:"), "{swapped:?}");
    let easier = after(herm, &directory, &name, "evaluation.json", |text| text.replace("0.2", "0.9"));
    assert!(easier[0].starts_with("evaluation.json has the hash sha256:"), "{easier:?}");

    fs::write(directory.join("more.txt"), "trust me").unwrap();
    let (_, audit) = herm.json(&["successor", "audit", &name]);
    assert_eq!(faults(&audit), ["more.txt is in the record, and nobody signed for it."]);
    fs::remove_file(directory.join("more.txt")).unwrap();

    std::os::unix::fs::symlink("/etc/passwd", directory.join("more.txt")).unwrap();
    let (_, audit) = herm.json(&["successor", "audit", &name]);
    assert_eq!(faults(&audit), ["more.txt is no regular file: a symbolic link."]);
    fs::remove_file(directory.join("more.txt")).unwrap();

    // Another operator's verdict in this operator's place.
    let key = bench.brains().join(".keys/receipts.pem");
    let own = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    let (code, audit) = herm.json(&["successor", "audit", &name]);
    assert!(code == 1 && faults(&audit)[0].starts_with("The verdict is signed by \"did:key:"), "{audit:#}");
    fs::write(&key, own).unwrap();

    // All of it put back, nothing speaks against it any more.
    let (code, audit) = herm.json(&["successor", "audit", &name]);
    assert_eq!((code, faults(&audit)), (0, vec![]));
}

#[test]
fn held_out_tasks_that_rule_otherwise_are_a_disagreement() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let (_, name) = approved(&bench);
    // On these tasks the patch changes nothing that counts.
    let held_out = bench.file("held_out.json", &sessions("turns"));
    let (code, audit) = bench.herm().json(&["successor", "audit", &name, "--held-out", &held_out]);
    assert_eq!(code, 1, "{audit:#}");
    assert_eq!(audit["audit"]["heldOut"], true);
    let found = faults(&audit);
    assert!(
        found.len() == 1 && found[0].starts_with("The second successor ruled NEEDS_REVISION, and the first APPROVE: "),
        "{found:?}"
    );
}

#[test]
fn a_brain_that_has_moved_is_judged_as_it_is_now_and_that_is_said() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let (_, name) = approved(&bench);
    // Another role is another brain; a task is not.
    let role = bench.brains().join("1/system.md");
    std::fs::write(&role, format!("{}\nBe brief.\n", std::fs::read_to_string(&role).unwrap())).unwrap();
    bench.must(&["brain", "adopt", "1"]);
    bench.must(&["run", "1", "--example", "vault"]);
    let (code, audit) = bench.herm().json(&["successor", "audit", &name]);
    assert_eq!(code, 0, "{audit:#}");
    let findings = audit["audit"]["findings"].as_array().unwrap();
    let said = "The brain has moved since: system.md is not as it was at version 1, now 3.";
    let moved = |finding: &Value| finding["sentence"].as_str().unwrap().starts_with(said);
    assert!(findings.iter().any(moved), "{findings:#?}");
}
