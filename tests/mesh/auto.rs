//! The loop that improves a brain's runtime, where a mesh decides: from the bottleneck to the step in the lineage.

use herm_tests::can_sandbox;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Role, Town};

/// The brain that is improved.
const BRAIN: &str = "1";
const EXAMPLES: [&str; 4] = ["vault", "wallet", "escrow", "rewards"];
const STAGES: [&str; 7] = ["watch", "detect", "draft", "evaluate", "verify", "gate", "apply"];

/// Five operators whose mesh decides, each with a replica of a brain that has to make every conversation shorter. The
/// nodes with these numbers hold an evaluation of their own.
fn pressed_town(own: Option<&Value>, holders: &[usize]) -> Town {
    let mut town = Town::asleep([Role::Common; 5]);
    let herm = town.node(1).operator.herm();
    let must = |arguments: &[&str]| {
        let run = herm.run(arguments);
        assert_eq!(run.code, 0, "{run:?}");
    };
    must(&["init", BRAIN]);
    let brains = town.node(1).operator.brains();
    let tuning = "{\"schema\":\"herm/tuning@1\",\"contextBytes\":16384}\n";
    fs::write(brains.join(BRAIN).join("tuning.json"), tuning).unwrap();
    must(&["brain", "adopt", BRAIN]);
    for example in EXAMPLES.iter().cycle().take(6) {
        must(&["run", BRAIN, "--example", example]);
    }
    for number in 2..=5 {
        copy(&brains.join(BRAIN), &town.node(number).operator.brains().join(BRAIN));
        if let Some(own) = own.filter(|_| holders.contains(&number)) {
            town.node(number).holds_out(own);
        }
    }
    configure(&mut town);
    town
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Writes down for everyone where the others are now.
fn configure(town: &mut Town) {
    for place in &town.places {
        place.configure(&town.places, "[successor]\ngate = \"mesh\"\n");
    }
}

/// Starts the members with these numbers; the proposer needs no server.
fn wake(town: &mut Town, numbers: &[usize]) {
    for number in numbers {
        let place = &mut town.places[number - 1];
        place.serving = Some(place.operator.serve());
    }
    configure(town);
}

/// One run of the loop by node 1: its exit code, and what every stage decided.
fn auto(town: &Town, flags: &[&str]) -> (i32, Value, Vec<String>) {
    let arguments = [&["successor", "auto", BRAIN][..], flags].concat();
    let (code, run) = town.node(1).operator.herm().json(&arguments);
    let stages = run["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, STAGES);
    let decisions = stages.iter().map(|stage| stage["decision"].as_str().unwrap().to_owned()).collect();
    (code, run, decisions)
}

fn stage<'r>(run: &'r Value, name: &str) -> &'r Value {
    run["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == name).unwrap()
}

/// The version of a node's replica, its tuning, and the patches in its lineage.
fn replica(town: &Town, number: usize) -> (u64, String, Vec<String>) {
    let herm = town.node(number).operator.herm();
    let (_, history) = herm.json(&["brain", "history", BRAIN]);
    let (_, lineage) = herm.json(&["successor", "lineage", BRAIN]);
    let patches = lineage["patches"].as_array().unwrap().iter();
    let titles = patches.map(|patch| patch["title"].as_str().unwrap().to_owned()).collect();
    let tuning = town.node(number).operator.brains().join(BRAIN).join("tuning.json");
    (history["steps"][0]["version"].as_u64().unwrap(), fs::read_to_string(tuning).unwrap(), titles)
}

/// An hour that is not now, nor soon.
fn closed_window() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 3_600 % 24;
    format!("{}-{}", (now + 12) % 24, (now + 13) % 24)
}

#[test]
fn a_bottleneck_becomes_a_patch_that_the_mesh_agrees_to_and_that_is_applied_in_its_window() {
    if !can_sandbox() {
        return;
    }
    let mut town = pressed_town(None, &[]);
    wake(&mut town, &[2, 3, 4, 5]);
    let before = replica(&town, 1);

    // Outside its hours: judged, audited, agreed to, and not applied.
    let (code, early, decisions) = auto(&town, &["--window", &closed_window()]);
    assert_eq!(
        (code, &*decisions),
        (0, &["go", "go", "go", "go", "go", "go", "wait"].map(str::to_owned)[..]),
        "{early:#}"
    );
    assert!(stage(&early, "detect")["why"].as_str().unwrap().starts_with("conversations do not fit: 6 of 6"));
    assert_eq!(stage(&early, "evaluate")["output"]["ruling"], "APPROVE");
    let gate = stage(&early, "gate")["why"].as_str().unwrap();
    assert_eq!(gate, "the gate opens: the mesh agreed, passed: 5 of 5 who answered approve; 3 of 5 members must");
    assert_eq!(replica(&town, 1), before);
    let patch = stage(&early, "draft")["output"]["patch"]["title"].as_str().unwrap();

    // In its hours: nothing is judged again, and nobody asked again.
    let (code, run, decisions) = auto(&town, &[]);
    assert_eq!((code, &*decisions), (0, &["go"; 7].map(str::to_owned)[..]), "{run:#}");
    assert_eq!(stage(&run, "evaluate")["output"], Value::Null);
    let after = replica(&town, 1);
    assert_eq!((after.0, &after.2), (before.0 + 1, &vec![patch.to_owned()]));
    assert!(after.1.contains("salient") && after.1.contains("16384"), "{}", after.1);
    let verified = town.node(1).operator.herm().run(&["brain", "verify", BRAIN]);
    assert_eq!(verified.code, 0, "{verified:?}");
    // Members judged it on their replicas, which are as they were: whether they apply it is their own affair.
    for number in 2..=5 {
        assert_eq!(replica(&town, number), before, "node {number}");
        let verdicts = town.node(number).operator.herm().json(&["successor", "list"]).1;
        assert_eq!(verdicts["verdicts"].as_array().unwrap().len(), 1, "{verdicts:#}");
    }
    // What opened the gate is used up, and the patch is watched.
    let (_, watching, decisions) = auto(&town, &[]);
    assert_eq!(decisions[0], "wait", "{watching:#}");
}

#[test]
fn where_the_mesh_says_no_nothing_is_applied_and_it_is_not_asked_again() {
    if !can_sandbox() {
        return;
    }
    // Members who hold processor time dear: the patch keeps more, and pays with that.
    let own = json!({
        "schema": "herm/evaluation@1", "title": "It stays cheap",
        "parts": [
            { "kind": "replay", "name": "before", "last": 2 },
            { "kind": "compress", "name": "long", "sessions": 20 },
        ],
        "guards": [{ "metric": "cpuMicros", "part": "long", "slack": 0.1 }],
    });
    let mut town = pressed_town(Some(&own), &[2, 3]);
    wake(&mut town, &[2, 3, 4, 5]);
    let before = replica(&town, 1);
    let (code, run, decisions) = auto(&town, &[]);
    assert_eq!(code, 1, "{run:#}");
    assert_eq!(decisions, ["go", "go", "go", "go", "go", "against", "notReached"]);
    let gate = stage(&run, "gate")["why"].as_str().unwrap();
    assert_eq!(gate, "the mesh did not agree: not passed: 3 of 5 who answered approve; 3 of 5 members must");
    let verdict = stage(&run, "gate")["input"]["verdict"].as_str().unwrap();
    let refused = town.node(1).operator.herm().run(&["successor", "apply", verdict]);
    assert_eq!(refused.code, 3, "{refused:?}");
    for number in 1..=5 {
        assert_eq!(replica(&town, number), before, "node {number}");
    }

    // The brain moves on. What the mesh said no to is not brought to it again.
    let herm = town.node(1).operator.herm();
    assert_eq!(herm.run(&["run", BRAIN, "--example", "vault"]).code, 0);
    let (code, again, decisions) = auto(&town, &[]);
    assert_eq!((code, decisions[2].as_str()), (0, "nothing"), "{again:#}");
    assert!(stage(&again, "draft")["why"].as_str().unwrap().contains("was tried on this runtime"), "{again:#}");
}

#[test]
fn a_mesh_of_which_too_few_answered_is_asked_again_once_they_are_back() {
    if !can_sandbox() {
        return;
    }
    let mut town = pressed_town(None, &[]);
    wake(&mut town, &[2]);
    let before = replica(&town, 1);
    let (code, alone, decisions) = auto(&town, &[]);
    assert_eq!((code, decisions[5].as_str()), (0, "wait"), "{:#}", stage(&alone, "gate"));
    let why = stage(&alone, "gate")["why"].as_str().unwrap();
    assert!(why.contains("too few"), "{why}");
    assert_eq!(replica(&town, 1), before);
    wake(&mut town, &[3, 4, 5]);
    let (code, run, decisions) = auto(&town, &[]);
    assert_eq!((code, &*decisions), (0, &["go"; 7].map(str::to_owned)[..]), "{run:#}");
    assert_eq!(replica(&town, 1).0, before.0 + 1);
}
