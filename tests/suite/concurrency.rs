//! Promise 2: whatever runs at once on one brain, there is one order and no lost step.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use herm::memory::{TaskEntry, TaskStatus};
use herm::{Draft, StepKind};
use herm_tests::TempBrains;

use crate::CHILD;

/// Every step follows the one before; the summaries of all tasks.
fn one_order(brains: &TempBrains) -> Vec<String> {
    let brain = brains.open("1").expect("opened");
    assert!(brain.verify().expect("a report").is_sound());
    let steps = brain.history(usize::MAX).expect("history");
    for pair in steps.windows(2) {
        assert_eq!(pair[0].before, Some(pair[1].after));
        assert_eq!(pair[0].version, pair[1].version + 1);
    }
    let mut tasks: Vec<String> =
        steps.into_iter().filter(|step| step.kind == StepKind::Task).map(|step| step.summary).collect();
    tasks.sort();
    tasks
}

#[test]
fn eight_processes_and_sixty_four_tasks_give_one_total_order() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let children: Vec<Child> = (0..8)
        .map(|n| {
            Command::new(CHILD)
                .arg("tasks")
                .arg(brains.path())
                .args([format!("p{n}"), "8".to_owned()])
                .stdout(Stdio::piped())
                .spawn()
                .expect("started")
        })
        .collect();
    let mut acked = 0;
    for child in children {
        let output = child.wait_with_output().expect("done");
        assert!(output.status.success());
        acked += String::from_utf8(output.stdout).expect("UTF-8").lines().count();
    }
    assert_eq!(acked, 64);
    let mut expected: Vec<String> = (0..8).flat_map(|p| (0..8).map(move |n| format!("task {n} of p{p}"))).collect();
    expected.sort();
    assert_eq!(one_order(&brains), expected);
}

#[test]
fn sixty_four_tasks_at_once_in_one_process_give_one_total_order() {
    let brains = Arc::new(TempBrains::new());
    brains.make("1").close().expect("closed");
    let threads: Vec<_> = (0..64)
        .map(|n| {
            let brains = Arc::clone(&brains);
            std::thread::spawn(move || {
                let mut brain = brains.open("1").expect("opened in the end");
                let mut draft = Draft::new();
                let (task, at) = (format!("t{n}"), brain.clock().now());
                let summary = task.clone();
                draft.task(TaskEntry {
                    task,
                    subscriber: None,
                    outcome: TaskStatus::Converged,
                    summary: summary.clone(),
                    at,
                });
                brain.settle(&draft, StepKind::Task, &summary).expect("settled");
                brain.close().expect("closed");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("done");
    }
    assert_eq!(one_order(&brains).len(), 64);
}
