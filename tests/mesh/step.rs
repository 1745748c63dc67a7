//! What the mesh agrees to is applied on every member that voted, and the next proposal finds them in step.

use herm_tests::can_sandbox;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use herm::successor::{Evaluation, Patch};
use serde_json::{Value, json};

use super::votes::evaluated_with;
use super::{BRAIN, Role, Town, checked, evaluation, patch};

const AUTOMATIC: &str = "[successor]\ngate = \"mesh\"\napply = \"automatic\"\n";

fn configure(town: &Town) {
    for place in &town.places {
        place.configure(&town.places, AUTOMATIC);
    }
}

fn wake(town: &mut Town, numbers: &[usize]) {
    for number in numbers {
        let place = &mut town.places[number - 1];
        place.serving = Some(place.operator.serve());
    }
    configure(town);
}

/// The patches of a node's replica that stand, oldest first.
fn patches(town: &Town, number: usize) -> Vec<String> {
    let (_, lineage) = town.node(number).operator.herm().json(&["successor", "lineage", BRAIN]);
    let all = lineage["patches"].as_array().unwrap();
    all.iter().rev().map(|patch| patch["title"].as_str().unwrap().to_owned()).collect()
}

/// Looks until the replicas of these nodes have these patches.
fn until_patched(town: &Town, numbers: &[usize], titles: &[&str]) {
    for _ in 0..1_200 {
        if numbers.iter().all(|number| patches(town, *number) == titles) {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(200));
    }
    let found: Vec<_> = numbers.iter().map(|number| patches(town, *number)).collect();
    panic!("never {titles:?}: {found:?}\n{}", town.node(*numbers.last().unwrap()).operator.logged())
}

/// Tasks on these nodes at once, one after the other on each, for as long as something goes on; each of them is answered.
fn while_asked<T>(town: &Town, numbers: std::ops::RangeInclusive<usize>, doing: impl FnOnce() -> T) -> T {
    /// Ends the asking, also where a test fails.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = Over(is_over);
        let asking: Vec<_> = numbers
            .map(|number| {
                let client = town.node(number).serving().client();
                scope.spawn(move || {
                    let mut answered = 0;
                    while answered == 0 || !is_over.load(Ordering::Relaxed) {
                        let answer = client.post(&format!("/v1/agents/{BRAIN}/tasks"), &json!({ "input": "go" }));
                        assert_eq!(answer.status, 200, "node {number}: {answer:?}");
                        assert_eq!(answer.json()["status"], "converged", "node {number}: {answer:?}");
                        answered += 1;
                        // Others work on this machine too.
                        std::thread::park_timeout(Duration::from_millis(100));
                    }
                    answered
                })
            })
            .collect();
        let given = doing();
        drop(over);
        let answered: Vec<usize> = asking.into_iter().map(|asking| asking.join().unwrap()).collect();
        assert!(answered.iter().all(|answered| *answered > 1), "{answered:?}");
        given
    })
}

#[test]
fn what_the_mesh_agrees_to_is_applied_on_all_who_voted_and_the_next_proposal_finds_them_in_step() {
    if !can_sandbox() {
        return;
    }
    let mut town = Town::asleep_with([Role::Common; 5], AUTOMATIC);
    // Node 2 holds processor time dear, and votes against; the vote binds it all the same.
    town.node(2).holds_out(&json!({
        "schema": "herm/evaluation@1", "title": "It stays cheap",
        "parts": [
            { "kind": "suite", "name": "asked", "tasks": [checked("yes")] },
            { "kind": "compress", "name": "long", "sessions": 20 },
        ],
        "guards": [{ "metric": "cpuMicros", "part": "long", "slack": 0.1 }],
    }));
    // Every replica has lived a life of its own.
    for number in 1..=5 {
        for memory in 0..number {
            let text = format!("note {memory} of node {number}");
            let run = town.node(number).operator.herm().run(&["memory", "add", BRAIN, &text]);
            assert_eq!(run.code, 0, "{run:?}");
        }
    }
    configure(&town);
    wake(&mut town, &[1, 2, 3, 4]);
    // Tasks go on while it is judged, asked and applied.
    let first = "Keep what was asked for";
    while_asked(&town, 1..=4, || {
        let verdict = evaluated_with(town.node(1), &patch(), &evaluation());
        let (code, said) = town.node(1).operator.herm().json(&["successor", "propose", &verdict, "--within", "240"]);
        let tally = &said["tally"];
        assert_eq!((code, &tally["approvals"], &tally["responders"]), (0, &json!(3), &json!(4)), "{said:#}");
        // Who was down is named.
        let named = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(
            (named(&said["silent"]), named(&said["untold"])),
            (vec!["node-5".to_owned()], vec!["node-5".to_owned()])
        );
        until_patched(&town, &[1, 2, 3, 4], &[first]);
    });
    assert_eq!(patches(&town, 5), Vec::<String>::new());

    // It comes back, asks what it missed, verifies it by itself, and is in step.
    wake(&mut town, &[5]);
    until_patched(&town, &[5], &[first]);

    // So the next proposal is one that all five can judge.
    let more = json!({
        "schema": "herm/patch@1", "title": "Retire sooner",
        "changes": [{ "kind": "constants", "set": { "staleDays": 20, "archiveDays": 60 } }],
    });
    let lives = json!({
        "schema": "herm/evaluation@1", "title": "What is retired",
        "parts": [
            { "kind": "curate", "name": "lives", "lives": 20, "skills": 40 },
            { "kind": "suite", "name": "asked", "tasks": [checked("yes")] },
        ],
        "goals": [{ "metric": "deadKept" }],
    });
    let more = Patch::parse(more.to_string().as_bytes()).unwrap();
    while_asked(&town, 1..=5, || {
        let lives = Evaluation::parse(lives.to_string().as_bytes()).unwrap();
        let verdict = evaluated_with(town.node(1), &more, &lives);
        let (code, said) = town.node(1).operator.herm().json(&["successor", "propose", &verdict, "--within", "240"]);
        let tally = &said["tally"];
        assert_eq!((code, &tally["responders"], &tally["notCounted"]), (0, &json!(5), &json!([])), "{said:#}");
        until_patched(&town, &[1, 2, 3, 4, 5], &[first, "Retire sooner"]);
    });
    for number in 1..=5 {
        let verified = town.node(number).operator.herm().run(&["receipts", "verify", BRAIN]);
        assert_eq!(verified.code, 0, "{verified:?}");
    }
}
