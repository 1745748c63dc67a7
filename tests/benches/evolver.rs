//! The figures of the evolver. `cargo bench -p herm-tests --bench evolver`
//!
//! Whole processes are measured in wall time, as a person or a timer waits for them; the rest in CPU time of this
//! process, because the machine is shared. The data has the shape of the published figures: 200 skills (1 to 12 KB, one
//! in forty 94 KB, some pinned, shipped or from a hub), 20,000 tool events over six days, 500 recorded sessions.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use herm::evolver::pass::{self, EvolverPassOptions};
use herm::evolver::select::RankerChain;
use herm::evolver::{EvolverView, report};
use herm::memory::{Evidence, EvidenceStatus, ImportedSession};
use herm::skill::CreatedBy;
use herm::{
    Brain, BrainId, BrainOptions, BrainSource, Clock as _, Digest, Draft, Layout, Seed, Slug, StepKind, SystemClock,
    Timestamp,
};
use herm_tests::generate::Random;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");
const SKILLS: usize = 200;
const ROWS: usize = 20_000;
const RECORDS: usize = 500;
const DAY: i64 = 86_400_000;
const WORDS: [&str; 24] = [
    "gateway", "restart", "plugin", "deploy", "cache", "index", "shard", "token", "route", "proxy", "build", "test",
    "branch", "queue", "worker", "schema", "rollback", "backup", "verify", "session", "probe", "metric", "ledger",
    "buffer",
];
const FAILURES: [&str; 4] = [
    "Traceback (most recent call last): ValueError: bad shard",
    r#"{"exit_code": 2, "output": "make: *** failed"}"#,
    r#"{"success": false, "error": "not found"}"#,
    r#"{"exit_code": 1, "output": "connection refused"}"#,
];

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let brains = dir.path().join("brains");
    let id: BrainId = "1".parse().expect("an id");
    let mut brain = make(&brains, &id);
    let slugs = fill(&mut brain);
    let now = SystemClock.now();
    brain.import_evidence(sessions(&slugs, ROWS, now)).expect("taken in");
    brain.close().expect("closed");

    let run = |arguments: &[&str]| process(&brains, arguments);
    row("--version, whole process", wall(21, || run(&["--version"])), "");
    row(
        "auto-run dry-run, 3 skills, whole process",
        wall(21, || run(&["--json", "evolve", "auto-run", "1"])),
        "≤ 15 ms",
    );
    let wide = ["--json", "evolve", "auto-run", "1", "--max-skills", "25", "--variants", "4"];
    row("auto-run dry-run, 25 skills × 4 variants, whole process", wall(21, || run(&wide)), "≤ 40 ms");
    row("report, 20,000 rows, whole process", wall(21, || run(&["--json", "evolve", "report", "1"])), "");
    let query = ["--json", "evolve", "candidates", "1", "--query", "gateway plugin restart"];
    row("lexical candidates of 200 skills, whole process", wall(21, || run(&query)), "");

    // Each time on a fresh copy, for a second pass has nothing to do.
    let apply = [
        "-q",
        "evolve",
        "auto-run",
        "1",
        "--max-skills",
        "25",
        "--apply-low-risk",
        "--approve-auto-apply",
        "--staged-verify",
    ];
    row("apply of 25 with validation, whole process", fresh(&brains, dir.path(), 7, &apply), "≤ 150 ms");
    let verify = format!("--verify-command={HERM} skills validate \"$HERM_EVOLVE_TARGET_PATH\"");
    let external: Vec<&str> = apply.iter().copied().chain([verify.as_str()]).collect();
    row("the same, each also validated by a process of its own", fresh(&brains, dir.path(), 5, &external), "");

    let records = dir.path().join("sessions");
    write_records(&records, &slugs, now);
    let path = records.to_str().expect("UTF-8");
    let backfill = ["-q", "evolve", "backfill", "1", "--sessions-dir", path];
    row("backfill of 500 sessions to disk, whole process", fresh(&brains, dir.path(), 7, &backfill), "≤ 1 s");
    run(&backfill);
    row("backfill again, all known, whole process", wall(5, || run(&backfill)), "");

    let mut brain = open(&brains, &id);
    let mut taken = ROWS;
    while taken < 1_000_000 {
        let later = Timestamp(now.millis() + taken as i64);
        brain.import_evidence(sessions_from(&slugs, 50_000, later, taken)).expect("taken in");
        taken += 50_000;
    }
    let ground = EvolverView::of_brain(&brain).expect("ground");
    row(
        "report over 1,000,000 rows, CPU",
        cpu(11, || drop(report::report(&ground, 7, None).expect("a report"))),
        "≤ 300 ms",
    );
    row(
        "dry-run of 3 skills over 1,000,000 rows, CPU",
        cpu(11, || drop(pass::plan(&ground, &EvolverPassOptions::default(), RankerChain::default()).expect("a plan"))),
        "",
    );
    drop(ground);
    brain.close().expect("closed");
    row(
        "report over 1,000,000 rows, whole process",
        wall(11, || run(&["--json", "evolve", "report", "1"])),
        "≤ 300 ms",
    );
}

fn opening() -> BrainOptions {
    BrainOptions {
        clock: Arc::new(SystemClock),
        signer: Some(Arc::new(herm_tests::signer())),
        ..BrainOptions::default()
    }
}

fn make(brains: &Path, id: &BrainId) -> Brain {
    let seed = Seed { id, files: &[("system.md", b"You are a bench.\n")] };
    Brain::hydrate(&Layout::new(brains), id, &BrainSource::Seed(seed), &opening()).expect("a brain").0
}

fn open(brains: &Path, id: &BrainId) -> Brain {
    Brain::open(&Layout::new(brains), id, &opening()).expect("opened")
}

fn words(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| WORDS[random.below(WORDS.len())]).collect::<Vec<_>>().join(" ")
}

/// The skills, the most used first.
fn fill(brain: &mut Brain) -> Vec<Slug> {
    let mut random = Random::new(7);
    let mut slugs = Vec::new();
    let mut draft = Draft::new();
    let mut editor = brain.edit(&mut draft);
    for n in 0..SKILLS {
        let slug: Slug = format!("skill-{n:04}-{}", WORDS[n % WORDS.len()]).parse().expect("a slug");
        let size = if n % 40 == 39 { 94_000 } else { 1_000 + random.below(11_000) };
        let pinned = if n % 50 == 17 { "pinned: true\n" } else { "" };
        let mut text =
            format!("---\nname: {slug}\ndescription: {}\n{pinned}---\n\n# {slug}\n\n", words(&mut random, 9));
        while text.len() < size {
            let mark = ["", "- ", "## "][random.below(3)];
            let count = 6 + random.below(12);
            text.push_str(&format!("{mark}{}\n", words(&mut random, count)));
        }
        let by = match n {
            n if n % 10 == 5 => CreatedBy::Bundled,
            n if n % 20 == 3 => CreatedBy::Hub,
            _ => CreatedBy::Agent,
        };
        editor.create_skill(&slug, &text, by).expect("made");
        slugs.push(slug);
    }
    brain.settle(&draft, StepKind::Maintenance, "made").expect("settled");
    for at in (1..slugs.len()).rev() {
        slugs.swap(at, random.below(at + 1));
    }
    slugs
}

/// A skill, the first ones far more often.
fn some_skill<'a>(random: &mut Random, slugs: &'a [Slug]) -> &'a Slug {
    let roll = random.below(1_000_000) as f64 / 1e6;
    let at = (slugs.len() as f64).powf(roll) - 1.0;
    &slugs[(at as usize).min(slugs.len() - 1)]
}

fn result(random: &mut Random) -> (String, EvidenceStatus) {
    if random.below(100) < 18 {
        return (FAILURES[random.below(FAILURES.len())].to_owned(), EvidenceStatus::Failed);
    }
    let count = 10 + random.below(60);
    (json!({ "exit_code": 0, "output": words(random, count) }).to_string(), EvidenceStatus::Ok)
}

fn sessions(slugs: &[Slug], rows: usize, now: Timestamp) -> impl Iterator<Item = ImportedSession> {
    sessions_from(slugs, rows, now, 0)
}

/// Sessions of forty calls, over six days until `now`; `first` keeps their names apart.
fn sessions_from(slugs: &[Slug], rows: usize, now: Timestamp, first: usize) -> impl Iterator<Item = ImportedSession> {
    const TOOLS: [&str; 8] =
        ["terminal", "read_file", "write_file", "patch", "search_files", "web_search", "browser_click", "execute_code"];
    let mut random = Random::new(11 + first as u64);
    let count = rows / 40;
    (0..count).map(move |n| {
        let at = Timestamp(now.millis() - 6 * DAY + 6 * DAY * n as i64 / count as i64);
        let task = format!("live-{:07}", first / 40 + n);
        let tools = (0..40).map(|call| {
            let skill = (random.below(10) < 6).then(|| some_skill(&mut random, slugs).clone());
            let is_view = skill.is_some() && random.below(2) == 0;
            let (summary, status) = result(&mut random);
            Evidence {
                task: task.clone(),
                turn: 1,
                tool: if is_view { "skill_view" } else { TOOLS[random.below(TOOLS.len())] }.to_owned(),
                status,
                skills: skill.into_iter().collect(),
                args: Digest::of(format!("{task} {call}").as_bytes()),
                arguments: None,
                summary,
                millis: random.below(9_000) as u64,
                at,
            }
        });
        let tools: Vec<Evidence> = tools.collect();
        ImportedSession {
            at,
            model: "m1".to_owned(),
            platform: "cli".to_owned(),
            skills: Vec::new(),
            turns: Vec::new(),
            completed: true,
            tools,
            task,
        }
    })
}

/// Records of sessions as files: six questions, twelve calls each.
fn write_records(dir: &Path, slugs: &[Slug], now: Timestamp) {
    std::fs::create_dir(dir).expect("made");
    let mut random = Random::new(13);
    for n in 0..RECORDS {
        let start = Timestamp(now.millis() - 6 * DAY + 6 * DAY * n as i64 / RECORDS as i64);
        let mut messages = Vec::new();
        for turn in 0..6 {
            let count = 8 + random.below(50);
            messages.push(json!({ "role": "user", "content": format!("[{n}.{turn}] {}", words(&mut random, count)) }));
            let ids = [0, 1].map(|call| format!("call_{n:05}_{turn}_{call}"));
            let calls = ids.clone().map(|id| {
                let skill = some_skill(&mut random, slugs);
                let (tool, args) = match random.below(2) {
                    0 => ("skill_view", json!({ "name": skill })),
                    _ => ("terminal", json!({ "command": words(&mut random, 5), "skills": [skill] })),
                };
                json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": args.to_string() } })
            });
            messages.push(json!({ "role": "assistant", "content": "", "tool_calls": calls }));
            for id in ids {
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": result(&mut random).0 }));
            }
            let count = 30 + random.below(130);
            messages.push(json!({ "role": "assistant", "content": words(&mut random, count) }));
        }
        let record = json!({ "session_id": format!("s-{n:05}"), "session_start": start, "model": "m1", "platform": "cli",
            "messages": messages });
        std::fs::write(dir.join(format!("session_{n:05}.json")), record.to_string()).expect("written");
    }
}

fn process(brains: &Path, arguments: &[&str]) {
    let status = Command::new(HERM)
        .args(arguments)
        .env_clear()
        .env("HERM_BRAINS", brains)
        .env("HOME", brains)
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "{arguments:?}: {status}");
}

/// A process on a fresh copy of the brains each time; making the copy is not counted.
fn fresh(brains: &Path, above: &Path, times: usize, arguments: &[&str]) -> Duration {
    let mut samples: Vec<Duration> = (0..times)
        .map(|n| {
            let copy = above.join(format!("copy-{n}"));
            let copied = Command::new("cp").arg("-a").arg(brains).arg(&copy).status().expect("cp starts");
            assert!(copied.success());
            let started = Instant::now();
            process(&copy, arguments);
            let took = started.elapsed();
            std::fs::remove_dir_all(&copy).expect("removed");
            took
        })
        .collect();
    samples.sort();
    samples[times / 2]
}

fn wall(times: usize, mut work: impl FnMut()) -> Duration {
    let mut samples: Vec<Duration> = (0..times)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    samples.sort();
    samples[times / 2]
}

fn cpu(times: usize, mut work: impl FnMut()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    };
    let mut samples: Vec<Duration> = (0..times)
        .map(|_| {
            let started = now();
            work();
            now() - started
        })
        .collect();
    samples.sort();
    samples[times / 2]
}

fn row(what: &str, measured: Duration, bound: &str) {
    println!("{what:<62} {:>10.2} ms   {bound}", measured.as_secs_f64() * 1e3);
}
