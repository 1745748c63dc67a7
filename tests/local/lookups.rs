//! Twenty questions with two tools: does the loop converge, and are the answers right?

use std::time::Instant;

use herm::backend::ModelCache;
use herm::{Task, TaskStatus};
use herm_tests::TempBrains;

use super::{FACTS, ROLE, harness, model, with_role};

const SUMS: [(&str, &str); 6] = [
    ("17 plus 25", "42"),
    ("9 times 8", "72"),
    ("100 minus 37", "63"),
    ("144 divided by 12", "12"),
    ("6 times 7", "42"),
    ("250 plus 250", "500"),
];

fn questions() -> Vec<(String, &'static str)> {
    let ask = |at: usize, fact: &str| {
        if at.is_multiple_of(2) { format!("Tell me the {fact}.") } else { format!("What is the {fact}?") }
    };
    let facts = FACTS.iter().enumerate().map(|(at, (fact, value))| (ask(at, fact), *value));
    facts.chain(SUMS.iter().map(|(sum, value)| (format!("What is {sum}?"), *value))).collect()
}

/// Whether an answer holds these words as words: 10000 is not 100.
fn holds(answer: &str, value: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let split = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        split.map(str::to_lowercase).collect()
    };
    let (answer, value) = (words(answer), words(value));
    answer.windows(value.len()).any(|here| here == value)
}

/// Bound: of 20 at least 19 converge and at least 15 are right.
#[test]
fn a_small_model_drives_the_loop_because_only_legal_replies_can_be_written() {
    let shelf = ModelCache::new();
    let Some(local) = model(&shelf) else { return };
    let long = std::env::var_os("HERM_LONG").is_some();
    let brains = TempBrains::new();
    let id = with_role(&brains, ROLE);
    let harness = harness(&brains, local);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (mut converged, mut right, mut calls, mut replies) = (0, 0, 0, 0);
    let all = questions();
    let count = if long { all.len() } else { 6 };
    let started = Instant::now();
    for (question, value) in all.iter().take(count) {
        let outcome = runtime.block_on(harness.run(&id, Task::new(question.as_str()))).expect("an outcome");
        let answer = outcome.answer.as_deref().unwrap_or_default();
        let is_right = holds(answer, value);
        println!("{question} → {} calls, {answer} {}", outcome.calls.len(), if is_right { "right" } else { "wrong" });
        converged += usize::from(outcome.status == TaskStatus::Converged);
        right += usize::from(is_right && outcome.status == TaskStatus::Converged);
        calls += outcome.calls.len();
        replies += outcome.turns as usize;
    }
    let seconds = started.elapsed().as_secs_f64() / count as f64;
    println!(
        "{count} tasks: {converged} converged, {right} right, {calls} calls, {replies} replies, {seconds:.1} s a task"
    );
    let (least_converged, least_right) = if long { (19, 15) } else { (6, 5) };
    assert!(converged >= least_converged && right >= least_right, "{converged} converged, {right} right of {count}");
    runtime.block_on(harness.shutdown()).expect("shut down");
}
