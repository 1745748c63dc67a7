//! From a verdict to a step of the brain, through the human gate, and back.

use herm_tests::can_sandbox;
use std::path::PathBuf;

use herm::ids::SystemRandom;
use herm::receipt::Signer;
use herm_tests::Herm;
use serde_json::{Value, json};

use crate::{Bench, Judged, evaluation, patch, scripted};

/// A brain, a steward, and a verdict that approves.
struct Gate {
    bench: Bench,
    herm: Herm,
    key: PathBuf,
    /// Of another steward.
    second: PathBuf,
}

impl Gate {
    fn new() -> Self {
        let bench = Bench::new();
        let key = bench.path().join("steward.pem");
        let second = bench.path().join("second.pem");
        let keys = [&key, &second].map(|file| {
            let steward = Signer::load_or_create(file, &SystemRandom).unwrap().public().to_string();
            // What is written into the configuration is what the command prints.
            let (code, said) = bench.herm().json(&["successor", "key", file.to_str().unwrap()]);
            assert_eq!((code, said), (0, json!({ "key": steward })));
            steward
        });
        let config = bench.path().join("herm.toml");
        std::fs::write(&config, format!("[stewards]\nkeys = {keys:?}\n")).unwrap();
        let herm = bench.herm().clone().config(&config);
        Self { bench, herm, key, second }
    }

    fn approved(&self) -> Judged {
        let task = json!({
            "schema": "herm/evaluation@1", "title": "compress", "parts": [{ "kind": "compress", "name": "c", "sessions": 12 }],
            "goals": [{ "metric": "keptFacts" }]
        });
        let swap = patch(json!([{ "kind": "component", "component": "compressor", "to": "salient" }]));
        let judged = self.bench.judge(&swap, &task, &[]);
        assert_eq!(judged.ruling(), "APPROVE", "{:#}", judged.verdict());
        judged
    }

    fn name(judged: &Judged) -> String {
        judged.json["hash"].as_str().unwrap()["sha256:".len()..][..16].to_owned()
    }

    fn approve(&self, name: &str) {
        let run = self.herm.run(&[
            "successor",
            "approve",
            name,
            "--key",
            self.key.to_str().unwrap(),
            "--note",
            "looked at it",
        ]);
        assert!(run.code == 0 && !run.stderr.contains("no steward"), "{run:?}");
    }

    fn refused(&self, name: &str, why: &str) {
        let run = self.herm.run(&["successor", "apply", name]);
        assert!(run.code == 3 && run.stderr.contains(why), "{why}: {run:?}");
        assert!(!self.bench.brains().join("1/tuning.json").exists());
    }
}

#[test]
fn an_approved_patch_becomes_a_signed_step_and_can_be_taken_back() {
    if !can_sandbox() {
        return;
    }
    let gate = Gate::new();
    let name = Gate::name(&gate.approved());
    gate.refused(&name, "has no approval");
    gate.approve(&name);
    let (code, applied) = gate.herm.json(&["successor", "apply", &name]);
    assert_eq!((code, &applied["version"]), (0, &json!(3)), "{applied}");
    let tuning: Value =
        serde_json::from_slice(&std::fs::read(gate.bench.brains().join("1/tuning.json")).unwrap()).unwrap();
    assert_eq!(tuning, json!({ "schema": "herm/tuning@1", "compressor": "salient" }));
    // The lineage says what, the receipt says why, and both are signed.
    let (_, lineage) = gate.herm.json(&["successor", "lineage", "1"]);
    assert_eq!(lineage["patches"][0]["title"], "a change under test");
    let (_, receipt) = gate.herm.json(&["receipts", "show", "1", "3"]);
    let said = receipt.to_string();
    for part in ["identity", "steward", applied["identity"]["after"].as_str().unwrap()] {
        assert!(said.contains(part), "{part}: {said}");
    }
    gate.bench.must(&["receipts", "verify", "1"]);
    gate.bench.must(&["brain", "verify", "1"]);
    // The brain works with it, and a receipt of that time replays.
    gate.bench.must(&["run", "1", "--example", "wallet"]);
    gate.bench.must(&["receipts", "replay", "1", "4"]);
    // An approval is good for one time.
    gate.refused_again(&name);
    let (code, undone) = gate.herm.json(&["successor", "rollback", "1"]);
    assert_eq!((code, &undone["version"]), (0, &json!(5)), "{undone}");
    assert!(!gate.bench.brains().join("1/tuning.json").exists());
    gate.bench.must(&["receipts", "verify", "1"]);
    gate.bench.must(&["receipts", "replay", "1", "4"]);
}

impl Gate {
    fn refused_again(&self, name: &str) {
        let run = self.herm.run(&["successor", "apply", name]);
        // It is that already; and after another change the approval is for another brain.
        assert_eq!(run.code, 2, "{run:?}");
    }
}

#[test]
fn a_gate_stays_shut_for_strangers_for_rejections_and_for_a_brain_that_moved() {
    if !can_sandbox() {
        return;
    }
    let gate = Gate::new();
    let name = Gate::name(&gate.approved());
    let stranger = gate.bench.path().join("stranger.pem");
    Signer::load_or_create(&stranger, &SystemRandom).unwrap();
    let by =
        |decision: &str, key: &PathBuf| gate.herm.run(&["successor", decision, &name, "--key", key.to_str().unwrap()]);
    assert!(by("approve", &stranger).stderr.contains("no steward"));
    gate.refused(&name, "no steward here");
    assert_eq!(by("reject", &gate.key).code, 0);
    gate.refused(&name, "rejected this patch");
    // What another steward says does not take its place; the one who rejected may think again.
    let other = by("approve", &gate.second);
    assert!(other.code == 0 && other.stderr.contains("rejected it: the gate stays shut until"), "{other:?}");
    assert!(other.stdout.contains("the verdict is APPROVE\n"), "{other:?}");
    gate.refused(&name, "rejected this patch");
    gate.approve(&name);
    gate.bench.must(&["memory", "add", "1", "the brain moves on"]);
    let role = gate.bench.brains().join("1/system.md");
    std::fs::write(&role, format!("{}\nBe brief.\n", std::fs::read_to_string(&role).unwrap())).unwrap();
    gate.bench.must(&["brain", "adopt", "1"]);
    gate.refused(&name, "the brain has moved: system.md is not as it was at version 2, now 4");
}

#[test]
fn no_gate_opens_for_a_verdict_that_does_not_approve_or_was_made_elsewhere() {
    if !can_sandbox() {
        return;
    }
    let gate = Gate::new();
    let replies = [r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#];
    let undecided = gate.bench.judge(&crate::small_patch(), &evaluation(json!([scripted("one", &replies)])), &[]);
    let name = Gate::name(&undecided);
    let arguments = ["successor", "approve", &name, "--key", gate.key.to_str().unwrap()];
    let told = gate.herm.run(&arguments);
    assert!(told.stdout.contains("the verdict is NEEDS_REVISION"), "{told:?}");
    assert!(told.stderr.contains("the verdict is NEEDS_REVISION: no gate opens for that"), "{told:?}");
    gate.refused(&name, "NEEDS_REVISION");
    // A verdict signed by another operator's key counts nothing here.
    let good = gate.approved();
    let name = Gate::name(&good);
    gate.approve(&name);
    std::fs::remove_file(gate.bench.brains().join(".keys/receipts.pem")).unwrap();
    gate.refused(&name, "not one that this operator signed");
    let (_, told) = gate.herm.json(&["successor", "approve", &name, "--key", gate.key.to_str().unwrap()]);
    assert_eq!((&told["ruling"], told["warnings"].as_array().unwrap().len()), (&json!("APPROVE"), 1), "{told}");
    assert!(told["warnings"][0].as_str().unwrap().contains("signed the verdict, not this operator"), "{told}");
}

#[test]
fn a_patch_with_a_program_needs_the_permission_to_start_processes_and_then_works() {
    if !can_sandbox() {
        return;
    }
    let gate = Gate::new();
    let script = "#!/bin/sh\nread line\necho '{\"text\":\"a program speaks\",\"summary\":\"spoke\"}'\n";
    let swap = patch(json!([
        { "kind": "tool", "name": "outline", "executable": { "text": script } },
        { "kind": "component", "component": "compressor", "to": "salient" }
    ]));
    let task = json!({
        "schema": "herm/evaluation@1", "title": "both", "goals": [{ "metric": "keptFacts" }],
        "parts": [{ "kind": "compress", "name": "c", "sessions": 12 }]
    });
    let judged = gate.bench.judge(&swap, &task, &[]);
    let name = Gate::name(&judged);
    gate.approve(&name);
    // What could not be done anyway does not use the approval up.
    gate.refused(&name, "brings a program");
    let config = gate.bench.path().join("herm.toml");
    let allowed = format!("{}[tools]\nprocess = true\n", std::fs::read_to_string(&config).unwrap());
    std::fs::write(&config, allowed).unwrap();
    assert_eq!(gate.herm.run(&["successor", "apply", &name]).code, 0);
    let (_, run) = gate.herm.json(&["run", "1", "--example", "vault"]);
    let outlined = run["calls"].as_array().unwrap().iter().find(|call| call["tool"] == "outline").unwrap();
    assert_eq!(outlined["summary"], "spoke", "{run:#}");
}

#[test]
fn the_doctor_warns_while_a_verdict_waits_for_a_steward_that_nobody_named() {
    if !can_sandbox() {
        return;
    }
    let gate = Gate::new();
    let level = |herm: &Herm| {
        let (_, said) = herm.json(&["doctor"]);
        let found = said["checks"].as_array().unwrap().iter().find(|check| check["check"] == "gates").unwrap().clone();
        (found["level"].as_str().unwrap().to_owned(), found["detail"].as_str().unwrap().to_owned())
    };
    assert_eq!(level(gate.bench.herm()).0, "ok", "nothing waits");
    let name = Gate::name(&gate.approved());
    let (warned, detail) = level(gate.bench.herm());
    assert!(warned == "warn" && detail.contains(&name), "{warned}: {detail}");
    assert_eq!(level(&gate.herm).0, "ok", "there are stewards");
    gate.approve(&name);
    assert_eq!(gate.herm.run(&["successor", "apply", &name]).code, 0);
    assert_eq!(level(gate.bench.herm()).0, "ok", "it waits no longer");
}
