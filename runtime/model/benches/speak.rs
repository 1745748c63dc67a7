//! How fast a real model reads and writes inside the process, and what it takes.
//! `.ci/models && cargo bench -p herm-model`

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a bench shows its figures, and stops where it has none")]

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use herm_model::{GeneratedReply, GenerationRequest, Generator, ModelFile, ReplyBounds};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

fn row(what: &str, measured: String, bound: &str) {
    println!("| {what} | {measured} | {bound} |");
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Wall and processor seconds of some work.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64, f64) {
    let (wall, cpu) = (Instant::now(), cpu_now());
    let made = work();
    (made, wall.elapsed().as_secs_f64(), (cpu_now() - cpu).as_secs_f64())
}

fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) / 1024
}

fn main() {
    let fetched = || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/models");
    let directory = std::env::var_os("HERM_MODELS").map_or_else(fetched, std::path::PathBuf::from);
    let path = directory.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    let threads = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(2);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    println!("SmolLM2-135M-Instruct, {threads} threads\n\n| figure | measured | bound |\n|---|---|---|");
    let (speaker, wall, cpu) = timed(|| {
        let file = ModelFile::open(&path).expect("a model");
        pool.install(|| Generator::load(&file, ReplyBounds { chars: 200, items: 8 }, 96 << 20, 8_192)).expect("loaded")
    });
    let mut speaker = speaker;
    row("load, with weights made anew", format!("{wall:.2} s ({cpu:.2} s CPU)"), "≤ 1.5 s");
    let mut ask = |messages: &[(&str, &str)], legal: &Value, most_tokens: usize| -> (GeneratedReply, f64, f64) {
        let question = GenerationRequest { messages, legal, most_tokens, most_bytes: 1 << 20, fresh: false };
        let (reply, wall, cpu) = timed(|| pool.install(|| speaker.answer(&question, &AtomicBool::new(false))));
        (reply.expect("a reply"), wall, cpu)
    };
    let free = Value::Bool(true);
    let (warm, ..) = ask(&[("system", "You are helpful."), ("user", "Say yes.")], &free, 4);
    assert!(warm.effort.written > 0);

    for (name, times, bound) in [("600", 45, "≥ 75"), ("1,600", 120, "")] {
        let long: String = (0..times).map(|n| format!("Item {n} lies in box {} near the door. ", n * 7 % 90)).collect();
        let (reply, wall, cpu) = ask(&[("system", &long), ("user", "Where is item 7?")], &free, 1);
        let read = reply.effort.read as f64;
        let per = cpu / read * 1e3;
        row(
            &format!("prompt of about {name} tokens: tokens a second"),
            format!("{:.0} ({per:.1} ms CPU a token)", read / wall),
            bound,
        );
        let (reply, wall, cpu) =
            ask(&[("system", &long), ("user", "Tell me about all the items, at length.")], &free, 97);
        let written = reply.effort.written as f64;
        row(
            &format!("generated behind it: tokens a second, {} of {} read anew", reply.effort.read, reply.effort.asked),
            format!("{:.0} ({:.1} ms CPU a token)", written / wall, cpu / written * 1e3),
            "",
        );
    }
    let (reply, wall, cpu) =
        ask(&[("system", "You tell stories."), ("user", "Tell me a long story about a ship.")], &free, 128);
    let written = reply.effort.written as f64;
    row(
        "generated behind a short prompt: tokens a second",
        format!("{:.0} ({:.1} ms CPU a token)", written / wall, cpu / written * 1e3),
        "≥ 40",
    );
    let legal = json!({
        "type": "object", "additionalProperties": false, "required": ["title", "summary", "tags"],
        "properties": {
            "title": { "type": "string" }, "summary": { "type": "string" },
            "tags": { "type": "array", "minItems": 3, "items": { "type": "string" } },
        },
    });
    let (reply, ..) = ask(&[("system", "You answer in JSON."), ("user", "Describe a lighthouse.")], &legal, 300);
    let effort = reply.effort;
    let mask = effort.masking.as_secs_f64() * 1e3 / effort.masks.max(1) as f64;
    row(
        &format!(
            "which tokens are legal, {} times ({} of {} tokens forced)",
            effort.masks, effort.forced, effort.written
        ),
        format!("{mask:.3} ms"),
        "≤ 0.2 ms",
    );
    let system = ("system", "You are a guide. Answer in one sentence. The museum has seven floors and a garden.");
    let (first, ..) = ask(&[system, ("user", "How many floors are there?")], &free, 24);
    let turns = [system, ("user", "How many floors are there?"), ("assistant", &first.text), ("user", "And a garden?")];
    let (second, ..) = ask(&turns, &free, 24);
    row(
        "second turn: tokens read of tokens asked",
        format!("{} of {} (the first asked {})", second.effort.read, second.effort.asked, first.effort.asked),
        "only what is new",
    );
    row("memory now and at its highest", format!("{} and {} MiB", memory("VmRSS"), memory("VmHWM")), "≤ 350 MiB");
}
