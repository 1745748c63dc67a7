//! The figures of models that know what texts mean. `cargo bench -p herm-tests --features semantic --bench semantic`
//!
//! The real all-MiniLM-L6-v2 on two threads. Texts have 512 characters, of the words of skills. CPU time of the
//! process comes first, because the machine is shared; `RAYON_NUM_THREADS` sets another number of threads.

use std::time::{Duration, Instant};

use herm::semantic::{self, EmbeddingInput, SemanticOptions};
use herm_tests::generate::Random;
use herm_tests::models;
use rustix::time::{ClockId, clock_gettime};

const TEXTS: usize = 200;
const WORDS: [&str; 32] = [
    "gateway", "restart", "the", "plugin", "deploy", "a", "cache", "index", "of", "shard", "token", "and", "route",
    "proxy", "before", "build", "test", "when", "branch", "queue", "worker", "fails", "schema", "rollback", "backup",
    "verify", "then", "session", "probe", "metric", "ledger", "buffer",
];

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let Some(directory) = models::minilm() else { return };
    let open = || semantic::embedder(&directory, SemanticOptions::default()).expect("a model");
    let (cpu, wall) = timed(|| drop(open()));
    row("opening a model, without its weights", cpu, wall, "");
    let model = open();
    let (cpu, wall) = timed(|| drop(model.embed("", EmbeddingInput::Passage).expect("a vector")));
    row("loading and the first text", cpu, wall, "");

    let mut random = Random::new(7);
    let texts: Vec<String> = (0..TEXTS).map(|_| text(&mut random)).collect();
    let mut samples: Vec<(Duration, Duration)> = texts
        .iter()
        .map(|text| timed(|| drop(model.embed(text, EmbeddingInput::Passage).expect("a vector"))))
        .collect();
    let median = |samples: &mut Vec<(Duration, Duration)>, by: fn(&(Duration, Duration)) -> Duration| {
        samples.sort_by_key(by);
        by(&samples[TEXTS / 2])
    };
    let (cpu, wall) = (median(&mut samples, |sample| sample.0), median(&mut samples, |sample| sample.1));
    row("a text of 512 characters, median of 200", cpu, wall, "≤ 55 ms");
    println!("{:<48} {:>10.0} MiB", "memory of the process", resident());
}

/// Words up to 512 characters.
fn text(random: &mut Random) -> String {
    let mut text = String::new();
    while text.len() < 512 {
        text.push_str(WORDS[random.below(WORDS.len())]);
        text.push(' ');
    }
    text.truncate(512);
    text
}

fn timed(work: impl FnOnce()) -> (Duration, Duration) {
    let (cpu, wall) = (cpu_now(), Instant::now());
    work();
    (cpu_now() - cpu, wall.elapsed())
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse::<f64>().expect("a number") / 1024.0
}

fn row(what: &str, cpu: Duration, wall: Duration, bound: &str) {
    let shown = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    println!("{what:<48} {:>14} CPU {:>14} wall   {bound}", shown(cpu), shown(wall));
}
