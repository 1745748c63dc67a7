//! What learning costs a task, each figure beside its bound. `cargo bench -p herm-tests --bench learning`
//!
//! The backend answers at once, in this process. Figures are medians of the process's CPU time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use herm::backend::{Backend, BackendError, Capabilities, Completion, CompletionRequest, FinishReason, Role, Router};
use herm::harness::{FeedbackFrom, TaskFeedback};
use herm::memory::OutcomeValue;
use herm::task::{LearningOptions, SettleMode};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Harness, Layout, Outcome, Task};
use herm_tests::generate;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const SKILLS: usize = 5_000;
/// So many procedures with so many examples each.
const PROCEDURES: usize = 218;
const EXAMPLES: usize = 23;
const SAMPLES: usize = 41;
const CHECKS: &str = "---\nchecks:\n  - calls: recall\n  - contains: done\n---\n";

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(runtime.spawn(measure())).expect("measured");
}

async fn measure() {
    task_with_learning().await;
    choosing().await;
}

fn row(what: &str, measured: String, bound: &str) {
    println!("{what:<72} {measured:>18}   {bound}");
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// A call that looks at the task, four of `recall`, and an answer.
#[derive(Debug)]
struct FiveCalls;

#[async_trait]
impl Backend for FiveCalls {
    fn name(&self) -> &str {
        "bench"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { preload_bytes: 6_000, ..Capabilities::default() }
    }

    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
        let said = ask.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let text = match said {
            0 => json!({ "tool": "outline", "args": {} }),
            1..5 => json!({ "tool": "recall", "args": { "query": format!("word {said}") } }),
            // Another answer for every task: one that an example has would be sent back as copied.
            _ => {
                let asked = ask.messages.iter().map(|message| message.content.len()).sum::<usize>();
                let task = ANSWERED.fetch_add(1, Ordering::Relaxed);
                json!({ "answer": format!("task {task} is done, {asked} bytes") })
            }
        };
        Ok(Completion {
            text: text.to_string(),
            finish: FinishReason::Stop,
            model: "bench-1".to_owned(),
            tokens: None,
            attestation: None,
        })
    }
}

fn made(dir: &std::path::Path, role: &str, skills: usize, procedures: usize) -> (Layout, BrainId) {
    let source = dir.join("source");
    std::fs::create_dir_all(&source).expect("a directory");
    generate::write_bundle(&source, skills);
    std::fs::write(source.join("system.md"), role).expect("system.md");
    for procedure in 0..procedures {
        write_procedure(&source, procedure);
    }
    let (layout, id) = (Layout::new(dir.join("brains")), "1".parse().expect("an id"));
    let source = BrainSource::Directory { path: &source, expected: None };
    let (brain, _) = Brain::hydrate(&layout, &id, &source, &BrainOptions::default()).expect("a brain");
    brain.close().expect("closed");
    (layout, id)
}

/// A procedure as tasks leave it: a skill with its examples beside it.
fn write_procedure(source: &std::path::Path, procedure: usize) {
    let slug = format!("how-to-find-then-look{procedure}");
    let dir = source.join("skills").join(&slug);
    std::fs::create_dir_all(dir.join("references")).expect("a directory");
    let skill = format!(
        "---\nname: {slug}\ndescription: \"Examples of tasks that call find, then look{procedure}. Use for tasks of this kind.\"\n---\n\
         # Examples\n\nThey stand in `references/examples.md`.\n"
    );
    std::fs::write(dir.join("SKILL.md"), skill).expect("a skill");
    let mut text = "# Examples\n".to_owned();
    for example in 0..EXAMPLES {
        let thing = format!("{} {}", THINGS[(procedure + example) % THINGS.len()], procedure * EXAMPLES + example);
        let line = json!({
            "task": format!("01a1e9b6a231-ce391d{procedure:04x}{example:06x}"),
            "question": format!("Where in the {} does clerk {} keep the {thing} of this week?", THINGS[procedure % THINGS.len()], example),
            "calls": [
                { "tool": "find", "args": { "thing": thing }, "result": format!("The {thing} has number {example}.") },
                { "tool": format!("look{procedure}"), "args": { "number": example }, "result": "It is in box 7." },
            ],
            "answer": { "answer": "box 7" },
        });
        text.push_str(&format!("\n## {thing}\n\n```json\n{line}\n```\n"));
    }
    std::fs::write(dir.join("references/examples.md"), text).expect("examples");
}

const THINGS: [&str; 12] = [
    "harbour", "ledger", "lantern", "violin", "archive", "permit", "kettle", "compass", "register", "parcel", "anvil",
    "orchard",
];

fn harness(layout: &Layout, learning: LearningOptions) -> Harness {
    Harness::builder()
        .brains(layout.brains())
        .router(Router::single(Arc::new(FiveCalls)))
        .toolbox(herm_tools::standard().expect("tools"))
        .learning(learning)
        .sharing(true)
        .evolving(None)
        .build()
        .expect("a harness")
}

/// CPU of one task, from the call to the answer, in milliseconds.
async fn cpu_of(harness: &Harness, id: &BrainId, task: Task) -> (f64, Outcome) {
    let started = cpu_now();
    let outcome = harness.run(id, task).await.expect("an outcome");
    let spent = (cpu_now() - started).as_secs_f64() * 1e3;
    assert_eq!((outcome.calls.len(), outcome.status.name()), (5, "converged"), "{:?}", outcome.calls);
    harness.with_brain(id, |_| Ok(())).await.expect("maintained");
    (spent, outcome)
}

/// A task with learning and without it, of two brains in turn; then feedback on the tasks.
async fn task_with_learning() {
    let dirs = [tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory")];
    let off = made(dirs[0].path(), "You are a bench.\n", 100, 0);
    let on = made(dirs[1].path(), &format!("{CHECKS}You are a bench.\n"), 100, 0);
    let learning = LearningOptions { synthesis: false, ..LearningOptions::default() };
    let harnesses = [harness(&off.0, LearningOptions::OFF), harness(&on.0, learning)];
    let mut spent = [Vec::new(), Vec::new()];
    let mut told = Vec::new();
    for number in 0..SAMPLES + 8 {
        for (at, harness) in harnesses.iter().enumerate() {
            let task =
                Task::new(format!("Do the five steps for the {} of order {number}.", THINGS[number % THINGS.len()]));
            let (cpu, outcome) = cpu_of(harness, &off.1, task).await;
            if number >= 8 {
                spent[at].push(cpu);
            }
            if at == 1 {
                assert_eq!(outcome.outcome.value, OutcomeValue::Good);
                told.push(outcome.task);
            }
        }
    }
    let [off, on] = spent.map(median);
    row("task, five calls, 100 skills, learning off: CPU", format!("{off:.2} ms"), "");
    row("the same with checks, outcome, examples and trials: CPU", format!("{on:.2} ms"), "");
    row("  what learning adds", format!("{:+.2} ms", on - off), "≤ 0.33 ms (10 % of 3.3)");
    let mut feedback = Vec::new();
    for task in told {
        let said = TaskFeedback { task, value: OutcomeValue::Score(0.5), note: None, from: FeedbackFrom::Operator };
        let started = cpu_now();
        let given = harnesses[1].feedback(&on_id(), said).await.expect("feedback");
        feedback.push((cpu_now() - started).as_secs_f64() * 1e3);
        assert!(given.settled.is_some());
    }
    row("an outcome settled later, as a step with a receipt: CPU", format!("{:.2} ms", median(feedback)), "≤ 1 ms");
    for harness in harnesses {
        harness.shutdown().await.expect("closed");
    }
}

fn on_id() -> BrainId {
    "1".parse().expect("an id")
}

/// The same task with what was learned put before it, and without.
async fn choosing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (layout, id) = made(dir.path(), "You are a bench.\n", SKILLS, PROCEDURES);
    let harness = harness(&layout, LearningOptions { learns: false, ..LearningOptions::default() });
    let mut spent = [Vec::new(), Vec::new()];
    for number in 0..SAMPLES + 5 {
        for (at, preload) in [false, true].into_iter().enumerate() {
            let thing = THINGS[number % THINGS.len()];
            let task = Task {
                preload: Some(preload),
                keep: SettleMode::DryRun,
                ..Task::new(format!("Where in the {thing} does clerk {number} keep the {thing} of last week?"))
            };
            let (cpu, outcome) = cpu_of(&harness, &id, task).await;
            assert_eq!(!outcome.shown.is_empty(), preload, "{:?}", outcome.shown);
            if number >= 5 {
                spent[at].push(cpu);
            }
        }
    }
    let [without, with] = spent.map(median);
    let count = PROCEDURES * EXAMPLES;
    row(&format!("task, {SKILLS} skills and {count} examples, nothing preloaded: CPU"), format!("{without:.2} ms"), "");
    row(
        "  choosing and showing the nearest example and the skills that match",
        format!("{:+.2} ms", with - without),
        "≤ 1 ms",
    );
    harness.shutdown().await.expect("closed");
}
