//! A process that forks successors of brain 1, judges with them, destroys them and drops them, again and again. At the
//! end it says in JSON what it held after the first rounds and after the last.
//!
//! Usage: fork-child BRAINS ROUNDS

use std::fs;
use std::time::{Duration, Instant};

use herm::Harness;
use herm::ids::SystemRandom;
use herm::receipt::Signer;
use herm::successor::{Evaluation, Patch, SuccessorBudget, SuccessorFork};
use serde_json::{Value, json};

const PATCH: &str = r#"{"schema":"herm/patch@1","title":"t","changes":[{"kind":"constants","set":{"indexBest":41}}]}"#;
const JUDGED: &str = r#"{"schema":"herm/evaluation@1","title":"t","parts":[{"kind":"compress","name":"c","sessions":1}],"goals":[{"metric":"turns"}]}"#;
const ENDED: &str = r#"{"schema":"herm/evaluation@1","title":"t","parts":[{"kind":"command","name":"c","argv":["/bin/sleep","60"]}],"goals":[{"metric":"turns"}]}"#;
/// What is only made once is there after so many rounds.
const FIRST: usize = 8;

fn main() {
    herm::successor::run_worker_if_reexec(herm_tools::standard);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brains, rounds] = arguments.as_slice() else { panic!("usage: fork-child BRAINS ROUNDS") };
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_keep_alive(Duration::from_millis(1))
        .enable_all()
        .build()
        .expect("threads");
    let harness = Harness::builder()
        .brains(brains)
        .toolbox(herm_tools::standard().expect("tools"))
        .signer(Signer::generate(&SystemRandom).expect("a key"))
        .build()
        .expect("a harness");
    let (mut first, mut leases) = (held(), Vec::new());
    for round in 0..rounds.parse().expect("a number") {
        if round == FIRST {
            std::thread::sleep(Duration::from_secs(1));
            first = held();
        }
        leases.extend(executor.block_on(cycle(&harness, round)));
    }
    // Threads that wait for work go when none comes, each in its time.
    let deadline = Instant::now() + Duration::from_secs(20);
    while held() != first && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{}", json!({ "first": first, "last": held(), "leases": leases }));
}

/// Returns what the leases of its sandboxes were called.
async fn cycle(harness: &Harness, round: usize) -> Vec<String> {
    let patch = Patch::parse(PATCH.as_bytes()).expect("a patch");
    let mut fork = SuccessorFork::new(harness, &"1".parse().expect("an id"), patch).await.expect("a fork");
    let leases = fs::read_dir(herm::successor::forks(harness.layout())).expect("forks");
    let leases = leases.map(|entry| entry.expect("a fork").file_name().to_string_lossy().into_owned()).collect();
    let parse = |task: &str| Evaluation::parse(task.as_bytes()).expect("an evaluation");
    match round % 4 {
        0 => {
            let verdict = fork.evaluate(&parse(JUDGED), SuccessorBudget::default()).await.expect("a verdict");
            assert_eq!(verdict.reason, None, "{verdict:?}");
        }
        1 => {
            let budget = SuccessorBudget { wall_secs: 1, ..SuccessorBudget::default() };
            let verdict = fork.evaluate(&parse(ENDED), budget).await.expect("a verdict");
            assert_eq!(verdict.reason.as_deref(), Some("budget_wall"), "{verdict:?}");
        }
        2 => return leases,
        _ => {}
    }
    fork.destroy().await.expect("destroyed");
    fork.destroy().await.expect("destroyed again");
    leases
}

/// What this process holds.
fn held() -> Value {
    let count = |path: &str| fs::read_dir(path).expect("of this process").count();
    let mut children = 0;
    for task in fs::read_dir("/proc/self/task").expect("of this process").flatten() {
        children += fs::read_to_string(task.path().join("children")).unwrap_or_default().split_whitespace().count();
    }
    json!({
        "descriptors": count("/proc/self/fd"),
        "threads": count("/proc/self/task"),
        "mounts": fs::read_to_string("/proc/self/mountinfo").expect("of this process").lines().count(),
        "children": children,
    })
}
