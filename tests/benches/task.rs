//! The figures of the task loop, each beside its bound. `cargo bench -p herm-tests --bench task`
//!
//! A model server runs in a process of its own and answers at once; CPU time is this process's.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use herm::backend::{EndpointSettings, FinishReason, HttpClient, OpenAi, Router};
use herm::memory::{EvidenceStatus, MessageEntry, MessageRole};
use herm::session::machine::{Machine, Next, SessionRules};
use herm::tool::ToolReport;
use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Harness, Layout, StepKind, Task, Timestamp};
use herm_tests::generate;
use rustix::time::{ClockId, clock_gettime};

fn main() {
    match std::env::args().nth(1).as_deref() {
        // `cargo test --benches` only wants to know that it builds and starts.
        Some("--test") => {}
        Some("serve") => serve(),
        _ => bench(),
    }
}

/// Threads that work on brains.
const THREADS: usize = 8;

fn bench() {
    // `HERM_BENCH=task` and so on: only that part.
    let part = std::env::var("HERM_BENCH").ok();
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("pure") {
        machine();
        parser();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    for (skills, bound) in [(100, 4.0), (5_000, 8.0)] {
        if wanted("task") || wanted(&format!("task{skills}")) {
            // As in a server: on the runtime's own threads, not on the one that waits for it.
            runtime.block_on(runtime.spawn(one_brain(skills, bound))).expect("measured");
        }
    }
    if wanted("cold") {
        cold_start();
    }
    if wanted("many") {
        runtime.block_on(many_brains());
    }
}

fn row(what: &str, measured: String, bound: &str) {
    println!("{what:<58} {measured:>22}   {bound}");
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// The pure machine over 100,000 replies.
fn machine() {
    let rules = SessionRules {
        turns: 8,
        tools: vec!["scan".to_owned(), "note".to_owned()],
        context_bytes: 1 << 20,
        ..SessionRules::default()
    };
    let report = ToolReport::new(EvidenceStatus::Ok, "L1 hit", "1 hit");
    let call = r#"I look first. {"tool": "scan", "args": {"limit": 3}}"#;
    let (system, input): (Arc<str>, Arc<str>) = ("role".repeat(1_000).into(), "input".into());
    let started = cpu_now();
    let mut turns = 0;
    while turns < 100_000 {
        let mut machine = Machine::new(rules.clone(), Arc::clone(&system), Arc::clone(&input));
        loop {
            match machine.next() {
                Next::Done(_) => break,
                Next::Ask(question) => {
                    turns += 1;
                    let last = question.turn == 8;
                    machine.hear(if last { r#"{"summary": "done"}"# } else { call }, FinishReason::Stop);
                }
                Next::Call(_) => machine.take(&report),
            }
        }
    }
    let rate = f64::from(turns) / (cpu_now() - started).as_secs_f64();
    row("pure machine, turns a second", format!("{rate:.0}"), "≥ 200,000");
}

fn parser() {
    let shapes = [
        ("prose", "All good here. ".repeat(70_000)),
        ("open braces", "{".repeat(1 << 20)),
        ("open objects", "{\"a\":".repeat(200_000)),
        ("one long answer", format!("{{\"text\": \"{}\"}}", "word ".repeat(200_000))),
        ("fences", "```\n".repeat(250_000)),
        ("thoughts", "<think>".repeat(140_000)),
    ];
    for (name, text) in shapes {
        let started = cpu_now();
        std::hint::black_box(herm::session::reply::read(&text, false));
        row(&format!("reply parser, 1 MiB of {name}"), format!("{:.1} ms", millis(cpu_now() - started)), "≤ 20 ms");
    }
}

/// A brain with generated skills and 2,000 messages.
fn make_brain(dir: &std::path::Path, id: &BrainId, skills: usize, messages: usize) -> Layout {
    let source = dir.join(format!("source-{skills}"));
    if !source.exists() {
        std::fs::create_dir_all(&source).expect("a directory");
        generate::write_bundle(&source, skills);
    }
    let layout = Layout::new(dir.join("brains"));
    let source = BrainSource::Directory { path: &source, expected: None };
    let (mut brain, _) = Brain::hydrate(&layout, id, &source, &BrainOptions::default()).expect("a brain");
    let mut draft = Draft::new();
    for said in generate::messages(messages) {
        draft.message(MessageEntry {
            task: format!("t{}", said.session),
            subscriber: None,
            role: MessageRole::User,
            content: said.content,
            at: Timestamp(said.at * 1_000),
        });
    }
    if messages > 0 {
        brain.settle(&draft, StepKind::Import, "messages").expect("settled");
    }
    brain.close().expect("closed");
    layout
}

fn harness(layout: &Layout, server: &Server, learning: bool) -> Harness {
    let settings = EndpointSettings::openai(format!("{}/v1", server.url), "fake");
    let backend = OpenAi::new(HttpClient::new().expect("a client"), settings).expect("a backend");
    Harness::builder()
        .brains(layout.brains())
        .router(Router::single(Arc::new(backend)))
        .toolbox(herm_tools::standard().expect("tools"))
        .learning(learning)
        .build()
        .expect("a harness")
}

/// Five tool calls and an answer, again and again on one brain.
async fn one_brain(skills: usize, bound: f64) {
    let dir = tempfile::tempdir().expect("a directory");
    let id: BrainId = "1".parse().expect("an id");
    let layout = make_brain(dir.path(), &id, skills, 2_000);
    for learning in [false, true] {
        let server = Server::start();
        let harness = harness(&layout, &server, learning);
        let run = || async {
            let started = cpu_now();
            let outcome = harness.run(&id, Task::new("Do the five steps.")).await.expect("an outcome");
            let answered = cpu_now();
            assert_eq!((outcome.calls.len(), outcome.status.name()), (5, "converged"), "{:?}", outcome.calls);
            // What follows the answer is off the caller's path; it is done before the next begins.
            harness.maintain(&id).await.expect("maintained");
            (millis(answered - started), millis(cpu_now() - answered))
        };
        for _ in 0..5 {
            run().await;
        }
        server.reset();
        let (mut samples, mut after) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            let (task, maintenance) = run().await;
            samples.push(task);
            after.push(maintenance);
        }
        samples.sort_by(f64::total_cmp);
        after.sort_by(f64::total_cmp);
        let (gap, connections) = server.stats();
        let how = if learning { "with the question what it taught" } else { "learning off" };
        row(&format!("task, {skills} skills, {how}: CPU"), format!("{:.2} ms", samples[20]), &format!("≤ {bound} ms"));
        row("  maintenance after the answer: CPU", format!("{:.2} ms", after[20]), "");
        row("  median gap between a reply and the next request", format!("{gap:.2} ms"), "≤ 2 ms");
        row("  TCP connections", connections.to_string(), "≤ 1");
        harness.shutdown().await.expect("closed");
    }
}

/// A cold `herm run` with an instant model.
fn cold_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let brains = dir.path().join("brains");
    let server = Server::start();
    let herm = env!("CARGO_BIN_EXE_herm-under-test");
    let run = || {
        let started = Instant::now();
        let output = Command::new(herm)
            .args(["-q", "run", "1", "hello", "--backend", "openai", "--model", "fake"])
            .env("HERM_BRAINS", &brains)
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url))
            .env("HOME", dir.path())
            .output()
            .expect("herm starts");
        assert!(output.status.success(), "{output:?}");
        millis(started.elapsed())
    };
    run();
    let mut samples: Vec<f64> = (0..21).map(|_| run()).collect();
    samples.sort_by(f64::total_cmp);
    row("cold `herm run`, start to exit, wall", format!("{:.1} ms", samples[10]), "≤ 60 ms");
}

/// 1,000 brains, one task each, 64 at a time; then 10,000 tasks.
async fn many_brains() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut layout = None;
    for n in 1..=1_000 {
        layout = Some(make_brain(dir.path(), &n.to_string().parse().expect("an id"), 3, 0));
    }
    let layout = layout.expect("brains");
    let server = Server::start();
    let harness = harness(&layout, &server, false);
    // `HERM_TASKS=50000`: longer. The first 10,000 fill the pool and let the allocator find its size.
    let tasks = std::env::var("HERM_TASKS").ok().and_then(|tasks| tasks.parse().ok()).unwrap_or(20_000_usize);
    let rounds = (tasks / 1_000).max(20);
    let (mut rates, mut memory) = (Vec::new(), Vec::new());
    let cpu = cpu_now();
    for round in 0..rounds {
        let started = Instant::now();
        run_all(&harness, 1_000, 1_000).await;
        rates.push(1_000.0 / started.elapsed().as_secs_f64());
        memory.push(rss());
        if round == 0 {
            row("1,000 brains × 1 task, 64 at a time: tasks a second", format!("{:.0}", rates[0]), "≥ 300");
            row("  RSS", format!("{:.0} MiB", rss()), "≤ 150 MiB");
        }
    }
    let ran = (rounds * 1_000) as f64;
    row(&format!("  sustained over {ran} tasks"), format!("{:.0}", rates.iter().sum::<f64>() / rounds as f64), "≥ 300");
    row("  RSS after 2,000 and after 10,000", format!("{:.0} and {:.0} MiB", memory[1], memory[9]), "");
    let (warm, last) = (memory[rounds - 11], memory[rounds - 1]);
    row("  RSS before and after the last 10,000", format!("{warm:.0} and {last:.0} MiB"), "± 10 %");
    let curve: Vec<String> = memory.iter().map(|mib| format!("{mib:.0}")).collect();
    println!("  RSS after each 1,000: {}", curve.join(" "));
    row("  CPU a task, opening and closing its brain included", format!("{:.1} ms", millis(cpu_now() - cpu) / ran), "");
    run_all(&harness, 60, 60).await;
    let started = Instant::now();
    run_all(&harness, 60, 3_000).await;
    let rate = 3_000.0 / started.elapsed().as_secs_f64();
    row("60 brains that stay open, 3,000 tasks: tasks a second", format!("{rate:.0}"), "≥ 300");
    harness.shutdown().await.expect("closed");
    let (rate, cpu) = bare_sqlite(&layout);
    row("  SQLite alone: open, one commit of 35 pages, close (floor)", format!("{rate:.0}, {cpu:.1} ms CPU"), "");
    row("  syncs a second of this disk, 64 files at once (limit)", format!("{:.0}", sync_rate(dir.path())), "");
}

/// Runs `tasks` tasks, 64 at a time, over the first `brains` brains in turn.
async fn run_all(harness: &Harness, brains: usize, tasks: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (harness, next) = (harness.clone(), Arc::clone(&next));
        workers.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if n >= tasks {
                    return;
                }
                let id = (n % brains + 1).to_string().parse().expect("an id");
                let outcome = harness.run(&id, Task::new("one step")).await.expect("an outcome");
                assert_eq!(outcome.status.name(), "converged", "{outcome:?}");
            }
        });
    }
    workers.join_all().await;
}

fn rss() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1_024.0
}

/// What the same brains allow without herm: their databases are opened, written to once and closed, as
/// often a second, and with as much CPU time.
fn bare_sqlite(layout: &Layout) -> (f64, f64) {
    let (started, cpu) = (Instant::now(), cpu_now());
    let next = AtomicUsize::new(1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    if n > 1_000 {
                        return;
                    }
                    let path = layout.brain(&n.to_string().parse().expect("an id")).join("memory.db");
                    let database = rusqlite::Connection::open(path).expect("opened");
                    database.pragma_update(None, "synchronous", "FULL").expect("set");
                    database
                        .execute_batch(
                            "BEGIN; CREATE TABLE bare (content BLOB); INSERT INTO bare VALUES (randomblob(35 * 4096)); COMMIT",
                        )
                        .expect("committed");
                    database.close().expect("closed");
                }
            });
        }
    });
    (1_000.0 / started.elapsed().as_secs_f64(), millis(cpu_now() - cpu) / 1e3)
}

/// How many small appends this disk makes durable in a second, from 64 threads.
fn sync_rate(dir: &std::path::Path) -> f64 {
    let count = Arc::new(AtomicUsize::new(0));
    let until = Instant::now() + Duration::from_secs(2);
    let threads: Vec<_> = (0..64)
        .map(|n| {
            let (count, path) = (Arc::clone(&count), dir.join(format!("sync-{n}")));
            std::thread::spawn(move || {
                let mut file = std::fs::File::create(path).expect("a file");
                while Instant::now() < until {
                    file.write_all(&[0; 4_096]).and_then(|()| file.sync_data()).expect("synced");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    count.load(Ordering::Relaxed) as f64 / 2.0
}

/// The model server, in a process of its own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg("serve")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        Self { child, url: format!("http://{}", line.trim()) }
    }

    fn ask(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).expect("connected");
        write!(stream, "GET {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    fn reset(&self) {
        self.ask("/reset");
    }

    /// The median gap in milliseconds, and how many connections asked for replies.
    fn stats(&self) -> (f64, usize) {
        let stats = self.ask("/stats");
        let (gap, connections) = stats.split_once(' ').expect("two numbers");
        (gap.parse().expect("a number"), connections.trim().parse().expect("a number"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct Seen {
    gaps: Vec<f64>,
    connections: usize,
    tasks: usize,
}

/// Answers each request from what it reads in it: a call a turn, then a final answer.
fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    let seen = Arc::new(std::sync::Mutex::new(Seen::default()));
    for stream in listener.incoming().flatten() {
        let seen = Arc::clone(&seen);
        std::thread::spawn(move || connection(stream, &seen));
    }
}

fn connection(stream: TcpStream, seen: &std::sync::Mutex<Seen>) {
    stream.set_nodelay(true).expect("no delay");
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut writer = stream;
    let mut sent: Option<Instant> = None;
    let mut counted = false;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) == 0 || header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let received = Instant::now();
        let mut seen = seen.lock().expect("not poisoned");
        let text = if first.starts_with("GET /reset") {
            *seen = Seen { connections: 1, ..Seen::default() };
            String::new()
        } else if first.starts_with("GET /stats") {
            seen.gaps.sort_by(f64::total_cmp);
            let median = seen.gaps.get(seen.gaps.len() / 2).copied().unwrap_or(0.0);
            format!("{median} {}", seen.connections)
        } else {
            if !counted {
                counted = true;
                seen.connections += 1;
            }
            let body = String::from_utf8_lossy(&body);
            let turn = body.matches("\"role\":\"assistant\"").count();
            if let Some(sent) = sent.filter(|_| turn > 0) {
                seen.gaps.push(millis(received - sent));
            }
            seen.tasks += usize::from(turn == 0);
            completion(&reply(&body, turn, seen.tasks))
        };
        drop(seen);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", text.len());
        if writer.write_all(format!("{head}{text}").as_bytes()).is_err() || first.starts_with("GET") {
            return;
        }
        sent = Some(Instant::now());
    }
}

fn reply(body: &str, turn: usize, task: usize) -> String {
    if body.contains("You keep the procedures of an agent") {
        return r#"{"action": "none", "reason": "nothing new"}"#.to_owned();
    }
    let five = body.contains("Do the five steps.");
    match (five, turn) {
        (true, 0) => r#"{"tool": "outline", "args": {}}"#.to_owned(),
        (true, 1 | 4) => r#"{"tool": "skill_view", "args": {"name": "facevo-malebe-00002"}}"#.to_owned(),
        (true, 2) => format!(
            r#"{{"tool": "memory", "args": {{"action": "add", "target": "memory", "content": "task {task} ran on two cores"}}}}"#
        ),
        (true, 3) => r#"{"tool": "recall", "args": {"query": "needle-0001"}}"#.to_owned(),
        (false, 0) => r#"{"tool": "outline", "args": {}}"#.to_owned(),
        _ => r#"{"answer": "All steps are done."}"#.to_owned(),
    }
}

fn completion(text: &str) -> String {
    serde_json::json!({
        "id": "x", "model": "fake",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": text } }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
    })
    .to_string()
}
