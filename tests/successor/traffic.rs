//! Patches and ordinary tasks on the same brain: what a task in between voids, and what it does not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use herm::ids::SystemRandom;
use herm::receipt::Signer;
use herm::skill::CreatedBy;
use herm::successor::bottleneck::{BottleneckKind, ObservationEnv, observe_while, observe_within};
use herm::successor::detector::{Detector, DetectorOptions, look, notes};
use herm::{BrainId, Draft, Harness, Reader, StepKind, Task};
use herm_tests::brains::{skill_text, slug};
use herm_tests::operator::{Operator, Serving};
use herm_tests::{TempBrains, can_sandbox, signer};
use serde_json::{Value, json};

use crate::auto::closed_window;
use crate::{HERM, patch};

/// An operator with brain 1 from its seed, and a steward.
struct Place {
    operator: Operator,
    key: PathBuf,
}

impl Place {
    fn new(more: &str) -> Self {
        let operator = Operator::new(HERM);
        let key = operator.path().join("steward.pem");
        let steward = Signer::load_or_create(&key, &SystemRandom).unwrap().public().to_string();
        let config = format!("{more}\n[stewards]\nkeys = [\"{steward}\"]\n");
        let place = Self { operator: operator.configured(&config), key };
        place.must(&["init", "1"]);
        place
    }

    fn must(&self, arguments: &[&str]) -> String {
        let run = self.operator.herm().run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
        run.stdout
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.operator.path().join(name);
        std::fs::write(&path, content.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Judges a patch beside the process that owns the brain; the name of a verdict that approves.
    fn approved(&self, changes: Value) -> String {
        let task = json!({
            "schema": "herm/evaluation@1", "title": "compress", "goals": [{ "metric": "keptFacts" }],
            "parts": [{ "kind": "compress", "name": "c", "sessions": 12 }],
        });
        let (patch, task) = (self.file("patch.json", &patch(changes)), self.file("task.json", &task));
        let (code, judged) =
            self.operator.herm().json(&["successor", "evaluate", "1", "--patch", &patch, "--task", &task]);
        assert_eq!(code, 0, "{judged:#}");
        judged["hash"].as_str().unwrap()["sha256:".len()..][..16].to_owned()
    }

    fn approve(&self, verdict: &str) {
        self.must(&["successor", "approve", verdict, "--key", self.key.to_str().unwrap()]);
    }

    fn patches(&self) -> Vec<(String, bool)> {
        let (_, lineage) = self.operator.herm().json(&["successor", "lineage", "1"]);
        let one = |patch: &Value| (patch["title"].as_str().unwrap().to_owned(), patch["takenBack"].as_bool().unwrap());
        lineage["patches"].as_array().unwrap().iter().map(one).collect()
    }
}

const SOURCE: &str = "pragma solidity 0.8.20; contract A { function f() public { msg.sender.call(\"\"); } }";

/// A task over HTTP; its answer.
fn ask(serving: &Serving) -> Value {
    let answer = serving.client().post("/v1/agents/1/tasks", &json!({ "input": SOURCE }));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn salient() -> Value {
    json!([{ "kind": "component", "component": "compressor", "to": "salient" }])
}

/// Looks until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2_400 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("never: {what}")
}

#[test]
fn tasks_between_verdict_approval_and_window_void_nothing_on_a_serving_brain() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new("");
    let serving = place.operator.serve();
    ask(&serving);
    let verdict = place.approved(salient());
    ask(&serving);
    place.approve(&verdict);
    ask(&serving);
    // Tasks run while it is applied, and the server holds the brain.
    let (is_over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(ask(&serving)["status"], "converged");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (code, applied) = place.operator.herm().json(&["successor", "apply", &verdict]);
        let after = done.load(Ordering::Relaxed);
        until("a task after it", || done.load(Ordering::Relaxed) > after);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(code, 0, "{applied:#}");
        assert!(applied["version"].as_u64().unwrap() > 4, "{applied:#}");
    });
    assert_eq!(place.patches(), [("a change under test".to_owned(), false)]);
    // What a gate refuses, it refuses there as well.
    let again = place.operator.herm().run(&["successor", "apply", &verdict]);
    assert!(again.code == 2 && again.stderr.contains("the patch changes nothing"), "{again:?}");
    // And back, while it serves.
    let (code, undone) = place.operator.herm().json(&["successor", "rollback", "1"]);
    assert_eq!(code, 0, "{undone:#}");
    let used = place.operator.herm().run(&["successor", "apply", &verdict]);
    assert!(used.code == 3 && used.stderr.contains("was used before"), "{used:?}");
    ask(&serving);
    assert!(serving.stop().success());
    assert_eq!(place.patches(), [("a change under test".to_owned(), true)]);
    place.must(&["receipts", "verify", "1"]);
    place.must(&["brain", "verify", "1"]);
}

/// Tasks one after the other for as long as something goes on; each of them is answered.
fn while_asked<T>(serving: &Serving, doing: impl FnOnce() -> T) -> T {
    /// Ends the asking, also where a test fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (is_over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(ask(serving)["status"], "converged");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("a task before it", || done.load(Ordering::Relaxed) > 0);
        let given = doing();
        let after = done.load(Ordering::Relaxed);
        until("a task after it", || done.load(Ordering::Relaxed) > after);
        drop(over);
        given
    })
}

#[test]
fn where_the_operator_allows_it_the_server_applies_what_a_steward_approved_while_tasks_run() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new("[successor]\napply = \"automatic\"\n");
    let serving = place.operator.serve();
    ask(&serving);
    let verdict = place.approved(salient());
    while_asked(&serving, || {
        place.approve(&verdict);
        until("it is applied", || !place.patches().is_empty());
    });
    assert_eq!(place.patches(), [("a change under test".to_owned(), false)]);
    assert_eq!(ask(&serving)["status"], "converged");
    assert!(serving.stop().success());
    place.must(&["receipts", "verify", "1"]);
    place.must(&["brain", "verify", "1"]);
}

#[test]
fn a_server_outside_its_window_applies_nothing_and_inside_it_does() {
    if !can_sandbox() {
        return;
    }
    let closed = format!("[successor]\napply = \"automatic\"\nwindow = \"{}\"\n", closed_window());
    let (place, other) = (Place::new(&closed), Place::new("[successor]\napply = \"automatic\"\n"));
    let (waiting, applying) = (place.operator.serve(), other.operator.serve());
    let (held, verdict) = (place.approved(salient()), other.approved(salient()));
    place.approve(&held);
    // Another server, whose hours are open, looked later and applied: by then this one has looked as well.
    other.approve(&verdict);
    until("the other applies it", || !other.patches().is_empty());
    assert_eq!(place.patches(), []);
    assert_eq!(ask(&waiting)["status"], "converged");
    assert!(waiting.stop().success() && applying.stop().success());
    // The same verdict, once the hours are open.
    let config = place.operator.path().join("config.toml");
    let opened = std::fs::read_to_string(&config).unwrap().replace(&closed_window(), "0-24");
    std::fs::write(&config, opened).unwrap();
    let _serving = place.operator.serve();
    until("it is applied", || !place.patches().is_empty());
    assert_eq!(place.patches(), [("a change under test".to_owned(), false)]);
}

#[test]
fn the_loop_runs_beside_the_operator_s_own_server_which_applies_for_it() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new("[successor.detect]\nenabled = false\n");
    let tuning = place.operator.brains().join("1/tuning.json");
    std::fs::write(&tuning, "{\"schema\":\"herm/tuning@1\",\"contextBytes\":16384}\n").unwrap();
    place.must(&["brain", "adopt", "1"]);
    let serving = place.operator.serve();
    let long = format!("{SOURCE}\n{}", "// what a long day it was for the auditor\n".repeat(300));
    for _ in 0..6 {
        let answer = serving.client().post("/v1/agents/1/tasks", &json!({ "input": long }));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let (code, dry) = place.operator.herm().json(&["successor", "auto", "1", "--dry-run"]);
    let stage = |run: &Value, name: &str| {
        run["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == name).unwrap().clone()
    };
    let evaluated = stage(&dry, "evaluate");
    assert_eq!((code, &evaluated["output"]["ruling"]), (0, &json!("APPROVE")), "{dry:#}");
    place.approve(evaluated["output"]["verdict"].as_str().unwrap());
    while_asked(&serving, || {
        let (code, run) = place.operator.herm().json(&["successor", "auto", "1"]);
        assert_eq!((code, &stage(&run, "apply")["decision"]), (0, &json!("go")), "{run:#}");
    });
    assert_eq!(place.patches(), [("Keep more of conversations that are too long".to_owned(), false)]);
    assert!(std::fs::read_to_string(&tuning).unwrap().contains("salient"));
    assert!(serving.stop().success());
    place.must(&["receipts", "verify", "1"]);
}

#[test]
fn a_change_of_what_the_patch_touches_is_refused_and_named_and_one_of_anything_else_is_not() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new("");
    let skill = |words: &str| {
        format!(
            "---\nname: check-twice\ndescription: Checks twice. Use when once is not enough.\n---\n# Check\n\n{words}\n"
        )
    };
    let file = place.operator.brains().join("1/skills/check-twice.md");
    let write = |path: &PathBuf, text: &str| {
        std::fs::write(path, text).unwrap();
        place.must(&["brain", "adopt", "1"]);
    };
    write(&file, &skill("Check once."));
    let changes = json!([
        { "kind": "files", "set": { "skills/check-twice.md": skill("Check twice.") } },
        { "kind": "component", "component": "compressor", "to": "salient" },
    ]);
    let refused = |verdict: &str, why: &str| {
        let run = place.operator.herm().run(&["successor", "apply", verdict]);
        assert!(run.code == 3 && run.stderr.contains(why), "{why}: {run:?}");
    };
    let verdict = place.approved(changes.clone());
    place.approve(&verdict);
    // Someone changes the very file.
    write(&file, &skill("Check thrice."));
    refused(
        &verdict,
        "the brain has moved: a file that the patch changes is not as it was at version 2, now 3 (skills/check-twice.md)",
    );
    // Someone changes the role, or the tuning.
    let verdict = place.approved(changes.clone());
    place.approve(&verdict);
    let role = place.operator.brains().join("1/system.md");
    write(&role, &format!("{}\nBe brief.\n", std::fs::read_to_string(&role).unwrap()));
    refused(&verdict, "the brain has moved: system.md is not as it was");
    let verdict = place.approved(changes);
    place.approve(&verdict);
    write(&place.operator.brains().join("1/tuning.json"), "{\"schema\":\"herm/tuning@1\",\"indexBest\":41}\n");
    refused(&verdict, "the brain has moved: tuning.json is not as it was");
    // Someone changes what the brain says of itself.
    let verdict = place.approved(salient());
    place.approve(&verdict);
    let manifest = place.operator.brains().join("1/manifest.json");
    let mut said: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    said["name"] = json!("ANOTHER");
    write(&manifest, &said.to_string());
    refused(&verdict, "the brain has moved: manifest.json is not as it was");
    // Another skill, the memory and tasks are none of its business.
    let verdict = place.approved(salient());
    let other = place.operator.brains().join("1/skills/other-thing.md");
    write(&other, &skill("Else.").replace("check-twice", "other-thing"));
    place.must(&["memory", "add", "1", "the brain moves on"]);
    place.must(&["run", "1", "--example", "vault"]);
    place.approve(&verdict);
    place.must(&["successor", "apply", &verdict]);
}

/// The notes of the detector about brain 1, once they are there.
fn found(brains: &std::path::Path) -> Option<Value> {
    let file = notes(&herm::Layout::new(brains), &"1".parse().unwrap()).join("found.json");
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[test]
fn a_server_finds_what_holds_its_brains_up_within_its_budget_and_applies_nothing() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new("[successor.detect]\nevery_minutes = 0\ntasks = 6\n");
    std::fs::write(
        place.operator.brains().join("1/tuning.json"),
        "{\"schema\":\"herm/tuning@1\",\"contextBytes\":16384}\n",
    )
    .unwrap();
    place.must(&["brain", "adopt", "1"]);
    let serving = place.operator.serve();
    let long = format!("{SOURCE}\n{}", "// what a long day it was for the auditor\n".repeat(300));
    for _ in 0..7 {
        let answer = serving.client().post("/v1/agents/1/tasks", &json!({ "input": long }));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let brains = place.operator.brains();
    until("a draft", || found(&brains).is_some_and(|found| found["tasks"] == 6 && found["draft"].is_object()));
    let noted = found(&brains).unwrap();
    assert_eq!(
        (&noted["draft"]["aim"], noted["bottlenecks"][0]["kind"].as_str()),
        (&json!("setting"), Some("contextPressure"))
    );
    assert!(noted["millis"].as_u64().unwrap() < 60_000, "{noted:#}");
    assert_eq!(place.patches(), []);
    // What it left is a patch and an evaluation like any other.
    let left = |name: &str| notes(&herm::Layout::new(&brains), &"1".parse().unwrap()).join(name).display().to_string();
    let (code, judged) = place.operator.herm().json(&[
        "successor",
        "evaluate",
        "1",
        "--patch",
        &left("patch.json"),
        "--task",
        &left("evaluation.json"),
    ]);
    assert_eq!((code, &judged["verdict"]["verdict"]), (0, &json!("APPROVE")), "{judged:#}");
    let shown = place.must(&["successor", "drafts", "1"]);
    assert!(shown.contains("conversations do not fit") && shown.contains("Keep more of conversations"), "{shown}");
}

#[tokio::test]
async fn a_detector_in_the_library_looks_after_sessions_and_not_too_often() {
    if !can_sandbox() {
        return;
    }
    let brains = TempBrains::new();
    brains.make("1").close().unwrap();
    let how = DetectorOptions { tasks: 5, ..DetectorOptions::default() };
    let harness = Harness::builder()
        .brains(brains.path())
        .toolbox(herm_tools::standard().unwrap())
        .signer(signer())
        .after_session(Some(Arc::new(Detector::new(how).unwrap())))
        .build()
        .unwrap();
    let id: BrainId = "1".parse().unwrap();
    harness.run(&id, Task::new(SOURCE)).await.unwrap();
    until("a look", || found(&brains.path()).is_some());
    let first = found(&brains.path()).unwrap();
    assert_eq!((&first["schema"], &first["tasks"]), (&json!("herm/found@1"), &json!(1)), "{first:#}");
    for _ in 0..3 {
        harness.run(&id, Task::new(SOURCE)).await.unwrap();
    }
    harness.shutdown().await.unwrap();
    assert_eq!(found(&brains.path()).unwrap(), first, "an hour has not passed");
}

#[tokio::test]
async fn a_look_whose_time_ends_between_two_turns_counts_the_tasks_it_read_to_their_end() {
    let brains = TempBrains::new();
    brains.make("1").close().unwrap();
    let harness = Harness::builder()
        .brains(brains.path())
        .toolbox(herm_tools::standard().unwrap())
        .signer(signer())
        .learning(false)
        .curating(None)
        .evolving(None)
        .build()
        .unwrap();
    let id: BrainId = "1".parse().unwrap();
    for _ in 0..3 {
        harness.run(&id, Task::new(SOURCE)).await.unwrap();
    }
    harness.shutdown().await.unwrap();
    let reader = Reader::open(&brains.layout(), &id).unwrap();
    let around = ObservationEnv { toolbox: harness.toolbox().clone(), context_bytes: None };
    // A clock that a look moves on by a millisecond each time it is asked.
    let looked = |budget: usize| {
        let mut now = 0;
        let seen = observe_while(&reader, &around, 50, || {
            now += 1;
            now <= budget
        });
        (seen.unwrap().tasks, now)
    };
    let (all, whole) = looked(usize::MAX);
    assert!(all.len() == 3 && all.iter().all(|task| task.turns >= 3), "{all:?}");
    // It is asked before each task, and before each of its turns.
    let end = |tasks: usize| all.iter().take(tasks).map(|task| task.turns as usize + 1).sum::<usize>();
    for (budget, tasks) in [(end(1) - 1, 0), (end(1), 1), (end(1) + 2, 1), (end(2), 2), (end(3) - 1, 2)] {
        let (seen, asked) = looked(budget);
        assert_eq!((seen.as_slice(), asked), (&all[..tasks], budget + 1), "{budget}");
    }
    assert_eq!(looked(whole), (all, whole));
}

#[tokio::test]
async fn a_look_whose_time_is_over_reads_no_task_and_drafts_nothing() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    // Skills that nobody uses and that the prompt has no room for are seen without reading a task.
    let mut draft = Draft::new();
    for number in 0..240 {
        let name = format!("own-{number}");
        let text = skill_text(&name, "Nobody uses it.");
        brain.edit(&mut draft).create_skill(&slug(&name), &text, CreatedBy::Agent).unwrap();
    }
    brain.settle(&draft, StepKind::Curate, "240 skills").unwrap();
    brain.close().unwrap();
    let harness = Harness::builder()
        .brains(brains.path())
        .toolbox(herm_tools::standard().unwrap())
        .signer(signer())
        .build()
        .unwrap();
    let id: BrainId = "1".parse().unwrap();
    for _ in 0..2 {
        harness.run(&id, Task::new(SOURCE)).await.unwrap();
    }
    harness.shutdown().await.unwrap();
    let reader = Reader::open(&brains.layout(), &id).unwrap();
    let around = ObservationEnv { toolbox: harness.toolbox().clone(), context_bytes: None };
    let tasks = |until: Option<Instant>| observe_within(&reader, &around, 50, until).unwrap().tasks.len();
    assert_eq!((tasks(None), tasks(Some(Instant::now()))), (2, 0));
    let over = DetectorOptions { within: Duration::ZERO, ..DetectorOptions::default() };
    let found = look(&harness, &id, &over).unwrap();
    let kinds: Vec<BottleneckKind> = found.bottlenecks.iter().map(|one| one.kind).collect();
    assert_eq!((found.tasks, kinds, found.draft), (0, vec![BottleneckKind::UnusedSkills], None));
    assert_eq!(found.passed_over, ["no time was left to draft a patch"]);
}
