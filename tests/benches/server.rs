//! The figures of the operator's process, each beside its bound. `cargo bench -p herm-tests --bench server`
//!
//! The server is a process of its own; its CPU time and its memory are its own, too. The model and the clients run in
//! this process on the same cores, so rates are what is left for the server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use herm::backend::{EndpointSettings, HttpClient as ModelClient, OpenAi, Router};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Harness, Layout, Seed, Task};
use herm_tests::generate;
use herm_tests::model_server::{Gate, ModelServer, Step};
use herm_tests::operator::{Operator, Serving};

const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");
const ANSWER: &str = r#"{"done":1}"#;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--test") {
        return;
    }
    let part = std::env::var("HERM_BENCH").ok();
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("ready") {
        ready();
    }
    if wanted("reads") {
        reads();
    }
    if wanted("tasks") {
        tasks();
    }
    if wanted("latency") {
        latency();
    }
    if wanted("many") {
        many();
    }
    if wanted("skills") {
        skills();
    }
}

fn row(what: &str, measured: String, bound: &str) {
    println!("{what:<66} {measured:>24}   {bound}");
}

/// A configuration whose model is this one.
fn config(model: &ModelServer) -> String {
    format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    )
}

const MANIFEST: &[u8] = br#"{ "schema": "herm/manifest@1", "name": "PLAIN", "tools": [] }"#;

/// Brains without tools, numbered from 1.
fn make_brains(operator: &Operator, count: usize) {
    let layout = Layout::new(operator.brains());
    for number in 1..=count {
        let id: BrainId = number.to_string().parse().expect("a number");
        let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n"), ("manifest.json", MANIFEST)] };
        let (brain, _) =
            Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &BrainOptions::default()).expect("a brain");
        brain.close().expect("closed");
    }
}

/// What a process has used: CPU time and memory.
fn used(serving: &Serving) -> (Duration, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", serving.pid())).expect("its account");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.pid())).expect("its memory");
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse::<f64>().ok());
    (Duration::from_millis(ticks * 10), kib.unwrap_or_default() / 1024.0)
}

/// A connection that is used again and again.
struct Kept {
    reader: BufReader<TcpStream>,
}

impl Kept {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("set");
        Self { reader: BufReader::new(stream) }
    }

    fn ask(&mut self, request: &str) -> u16 {
        self.reader.get_mut().write_all(request.as_bytes()).expect("sent");
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a status");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let mut length = 0;
        loop {
            line.clear();
            self.reader.read_line(&mut line).expect("a header");
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).expect("a body");
        status
    }
}

fn get(address: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")
}

fn post_task(address: &str, agent: usize) -> String {
    let body = r#"{"input":"go"}"#;
    format!(
        "POST /v1/agents/{agent}/tasks HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// From the start of the process to its first answer.
fn ready() {
    let model = ModelServer::always(Step::chat(ANSWER));
    let operator = Operator::new(HERM).configured(&config(&model));
    make_brains(&operator, 100);
    let mut times = Vec::new();
    for _ in 0..10 {
        let began = Instant::now();
        let serving = operator.serve();
        assert_eq!(serving.client().get("/healthz").status, 200);
        times.push(began.elapsed());
        serving.stop();
    }
    times.sort();
    row(
        "herm serve: start to first answer, 100 brains",
        format!("{:.0} ms median", times[5].as_secs_f64() * 1e3),
        "≤ 100 ms",
    );
}

/// Reads on connections that are kept.
fn reads() {
    let model = ModelServer::always(Step::chat(ANSWER));
    let operator = Operator::new(HERM).configured(&config(&model));
    make_brains(&operator, 20);
    let serving = operator.serve();
    let address = serving.address().to_owned();
    for agent in 1..=20 {
        assert_eq!(
            serving.client().post(&format!("/v1/agents/{agent}/tasks"), &serde_json::json!({ "input": "go" })).status,
            200
        );
    }
    for (what, path) in [
        ("GET /v1/agents/{id}", "/v1/agents/ID"),
        ("GET /v1/agents/{id}/receipts", "/v1/agents/ID/receipts"),
        ("GET /v1/agents/{id}/history", "/v1/agents/ID/history"),
        ("GET /v1/agents/{id}/memory/search", "/v1/agents/ID/memory/search?q=go"),
        ("GET /v1/agents", "/v1/agents"),
    ] {
        let (before, _) = used(&serving);
        let (count, clients) = (20_000, 8);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..clients {
                let address = &address;
                scope.spawn(move || {
                    let mut kept = Kept::new(address);
                    for number in 0..count / clients {
                        let agent = (client + number) % 20 + 1;
                        let status = kept.ask(&get(address, &path.replace("ID", &agent.to_string())));
                        assert_eq!(status, 200);
                    }
                });
            }
        });
        let rate = count as f64 / began.elapsed().as_secs_f64();
        let (after, _) = used(&serving);
        let cpu = (after - before).as_secs_f64() * 1e6 / count as f64;
        row(&format!("reads: {what}"), format!("{rate:.0}/s, {cpu:.0} µs CPU"), "≥ 2,000/s");
    }
}

/// Tasks with durable settle.
fn tasks() {
    let model = ModelServer::always(Step::chat(ANSWER));
    let operator = Operator::new(HERM).configured(&config(&model));
    make_brains(&operator, 64);
    let serving = operator.serve();
    let address = serving.address().to_owned();
    for round in ["tasks, brains closed at first", "tasks, brains open"] {
        let (before, _) = used(&serving);
        let (count, clients) = (4_096, 32);
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    let mut kept = Kept::new(&address);
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        assert_eq!(kept.ask(&post_task(&address, number % 64 + 1)), 200);
                    }
                });
            }
        });
        let rate = count as f64 / began.elapsed().as_secs_f64();
        let (after, rss) = used(&serving);
        let cpu = (after - before).as_secs_f64() * 1e3 / count as f64;
        row(&format!("{round}, 64 brains, 32 at a time"), format!("{rate:.0}/s, {cpu:.2} ms CPU"), "≥ 250/s");
        row("  memory", format!("{rss:.0} MiB"), "");
    }
}

/// What the server adds to the library at half load: the same tasks, at the same times, through both.
fn latency() {
    const COUNT: usize = 1_000;
    const EVERY: Duration = Duration::from_millis(8);
    let model = ModelServer::always(Step::chat(ANSWER));
    let operator = Operator::new(HERM).configured(&config(&model));
    make_brains(&operator, 64);
    let serving = operator.serve();
    let address = serving.address().to_owned();
    let paced = |one: &(dyn Fn(usize) + Sync)| -> Vec<Duration> {
        let times = Mutex::new(Vec::with_capacity(COUNT));
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= COUNT {
                            return;
                        }
                        let due = began + EVERY * u32::try_from(number).unwrap_or(0);
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                        let asked = Instant::now();
                        one(number % 64 + 1);
                        times.lock().expect("times").push(asked.elapsed());
                    }
                });
            }
        });
        let mut times = times.into_inner().expect("times");
        times.sort();
        times
    };
    let kept: Vec<Mutex<Option<Kept>>> = (0..64).map(|_| Mutex::new(None)).collect();
    let by_server = |agent: usize| {
        let mut kept = kept[agent - 1].lock().expect("a connection");
        let status = kept.get_or_insert_with(|| Kept::new(&address)).ask(&post_task(&address, agent));
        assert_eq!(status, 200);
    };
    // Once to open everything.
    (1..=64).for_each(by_server);
    let served = paced(&by_server);
    serving.stop();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let settings = EndpointSettings { stream: false, ..EndpointSettings::openai(format!("{}/v1", model.url()), "m-1") };
    let backend = OpenAi::new(ModelClient::new().expect("a client"), settings).expect("a backend");
    let harness = Harness::builder()
        .brains(operator.brains())
        .router(Router::single(Arc::new(backend)))
        .build()
        .expect("a harness");
    let by_library = |agent: usize| {
        let id: BrainId = agent.to_string().parse().expect("a number");
        let (harness, task) = (harness.clone(), Task::new("go"));
        let ran = runtime.block_on(runtime.spawn(async move { harness.run(&id, task).await }));
        assert!(ran.expect("ran").is_ok());
    };
    (1..=64).for_each(by_library);
    let direct = paced(&by_library);
    runtime.block_on(harness.shutdown()).expect("closed");
    let at = |times: &[Duration], part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let added = at(&served, part) - at(&direct, part);
        let said = format!("{added:+.1} ms ({:.1} vs {:.1})", at(&served, part), at(&direct, part));
        row(&format!("added latency at 125 tasks/s, {name}"), said, if name == "p99" { "≤ 5 ms" } else { "" });
    }
}

/// Many brains, and many who follow.
fn many() {
    let gate = Gate::default();
    let model = ModelServer::always(Step::chat(ANSWER).after(&gate));
    let operator = Operator::new(HERM).configured(&config(&model));
    make_brains(&operator, 10_000);
    let serving = operator.serve();
    let client = serving.client();
    let (_, idle) = used(&serving);
    let started =
        client.with("prefer", "respond-async").post("/v1/agents/1/tasks", &serde_json::json!({ "input": "go" }));
    let task = started.json()["task"].as_str().expect("a task").to_owned();
    let path = format!("/v1/tasks/{task}/events");
    let streams: Vec<_> = (0..1_000)
        .map(|_| {
            let mut stream = client.open("GET", &path, None);
            stream.until("event: turn_started");
            stream
        })
        .collect();
    let (_, following) = used(&serving);
    let began = Instant::now();
    let listed = client.get("/v1/agents?limit=500").json();
    assert_eq!(listed["total"], 10_000);
    let took = began.elapsed();
    gate.open();
    for stream in streams {
        assert!(stream.rest().body.contains("event: outcome"));
    }
    let (_, after) = used(&serving);
    row("memory: 10,000 brains registered", format!("{idle:.0} MiB"), "");
    row("memory: and 1,000 streams of events", format!("{following:.0} MiB"), "≤ 300 MiB");
    row("memory: after they ended", format!("{after:.0} MiB"), "");
    row("a page of 500 of 10,000 agents", format!("{:.0} ms", took.as_secs_f64() * 1e3), "");
}

/// A brain of 5,000 skills, as the page asks for it.
fn skills() {
    let model = ModelServer::always(Step::chat(ANSWER));
    let operator = Operator::new(HERM).configured(&config(&model));
    let from = operator.path().join("source");
    std::fs::create_dir_all(&from).expect("a directory");
    generate::write_bundle(&from, 5_000);
    let run = operator.herm().run(&["init", "5", "--from", from.to_str().expect("UTF-8")]);
    assert_eq!(run.code, 0, "{run:?}");
    let serving = operator.serve();
    let client = serving.client();
    for what in ["first", "again"] {
        for path in ["/v1/agents/5", "/v1/agents/5/skills?limit=100", "/v1/agents/5/charts"] {
            let began = Instant::now();
            assert_eq!(client.get(path).status, 200);
            row(&format!("5,000 skills: {path}, {what}"), format!("{:.0} ms", began.elapsed().as_secs_f64() * 1e3), "");
        }
    }
    let page = std::process::Command::new("node")
        .args(["--test", "--test-reporter=tap", "large.test.mjs"])
        .current_dir(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page"))
        .env("HERM_PAGE_URL", format!("http://{}", serving.address()))
        .output();
    let said = page.map(|page| String::from_utf8_lossy(&page.stdout).into_owned()).unwrap_or_default();
    let figure = |name: &str| said.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::to_owned);
    let missing = "not run: needs Node.js, Chromium and `npm ci` in tests/page";
    let figure = |name: &str| figure(name).unwrap_or_else(|| missing.to_owned());
    row("the page with 5,000 skills, painted in Chromium", figure("# painted: "), "≤ 1 s");
    row("  weight of the page", figure("# weight: "), "≤ 300 KB");
}
