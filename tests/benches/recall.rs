//! How well recall does, and what it costs. `cargo bench -p herm-tests --features semantic --bench recall`
//!
//! The table is of the labelled set in `tests/data/retrieval` and the real all-MiniLM-L6-v2; it is pasted into
//! `docs/reference/benchmarks.md` as it is printed; `HERM_BENCH=quality` or `times` runs one part. Times are of whole searches without the model, CPU time of the process.

use std::time::Duration;

use herm::memory::{MessageEntry, MessageRole, QueryVector, Search, SearchScope, Vector};
use herm::semantic::{self, Embedder, EmbeddingInput, SemanticOptions};
use herm::{Brain, Draft, Reader, StepKind};
use herm_tests::generate::Random;
use herm_tests::meaning::{Letters, embed_all};
use herm_tests::retrieval::Labelled;
use herm_tests::{TempBrains, models};
use rustix::time::{ClockId, clock_gettime};

/// As many messages as ever have vectors.
const MOST: usize = 32_768;
const WORDS: [&str; 16] = [
    "gateway", "restart", "plugin", "deploy", "cache", "index", "shard", "token", "route", "proxy", "branch", "queue",
    "worker", "schema", "rollback", "backup",
];

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let part = std::env::var("HERM_BENCH").unwrap_or_default();
    if part != "times" {
        quality();
    }
    if part != "quality" {
        costs();
    }
}

/// The real model on the labelled set.
fn quality() {
    let Some(directory) = models::minilm() else { return };
    let model = semantic::embedder(&directory, SemanticOptions::default()).expect("a model");
    let (brains, set) = (TempBrains::new(), Labelled::read());
    let mut brain = set.lived(&brains, &*model);
    println!("{}", set.measure(&mut brain, &*model));
    times("3,441 messages", &mut brain, &*model, "spare key flowerpot");
}

/// As many vectors as there ever are.
fn costs() {
    let (brains, letters) = (TempBrains::new(), Letters::default());
    let mut brain = large(&brains, &letters);
    times("32,768 messages, 256 dimensions", &mut brain, &letters, "gateway worker rollback");
    let reader = Reader::open(&brains.layout(), brain.id()).expect("a reader");
    row("32,768 messages: is a vector missing?", median(|| assert!(due(&reader, &letters).is_empty())));
}

fn due(reader: &Reader, model: &dyn Embedder) -> herm::memory::vectors::PendingVectors {
    reader.vectors_due(model.name(), 32).expect("looked")
}

fn large(brains: &TempBrains, model: &dyn Embedder) -> Brain {
    let mut brain = brains.make("1");
    let mut random = Random::new(3);
    for _ in 0..MOST / 1_024 {
        let mut draft = Draft::new();
        let at = brain.clock().now();
        for _ in 0..1_024 {
            let content = (0..24).map(|_| WORDS[random.below(WORDS.len())]).collect::<Vec<_>>().join(" ");
            draft.message(MessageEntry { task: "t".into(), subscriber: None, role: MessageRole::User, content, at });
        }
        brain.settle(&draft, StepKind::Task, "said").expect("settled");
    }
    let reader = Reader::open(&brains.layout(), brain.id()).expect("a reader");
    assert_eq!(embed_all(&mut brain, &reader, model).expect("vectors") as usize, MOST);
    brain
}

fn times(what: &str, brain: &mut Brain, model: &dyn Embedder, text: &str) {
    let vector = Vector::of(model, text, EmbeddingInput::Query).expect("a vector");
    let sought = QueryVector::new(model.name(), &vector);
    let now = brain.clock().now();
    let wanted =
        Search { text, scope: SearchScope::Operator, except_task: None, limit: 5, now, weights: Default::default() };
    row(&format!("{what}: by words"), median(|| drop(brain.search(&wanted).expect("an answer"))));
    row(&format!("{what}: by both"), median(|| drop(brain.search_hybrid(&wanted, Some(&sought)).expect("an answer"))));
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut samples: Vec<Duration> = (0..21)
        .map(|_| {
            let before = cpu_now();
            work();
            cpu_now() - before
        })
        .collect();
    samples.sort();
    samples[samples.len() / 2]
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn row(what: &str, time: Duration) {
    println!("{what:<52} {:>10.3} ms", time.as_secs_f64() * 1e3);
}
