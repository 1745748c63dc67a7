//! The figures of snapshots, each beside its bound. `cargo bench -p herm-tests --bench snapshot`
//!
//! `HERM_BENCH=large` also packs a brain of 2 GB and measures the memory it takes; with the feature
//! `cloud`, a thousand small brains are restored over S3.

use std::sync::Arc;
use std::time::{Duration, Instant};

use herm::brain::OnExisting;
use herm::ids::SystemRandom;
use herm::memory::{MessageEntry, MessageRole, TaskEntry, TaskStatus};
use herm::receipt::TrustedKeys;
use herm::snapshot::store::LocalStore;
use herm::snapshot::{Encryption, OperatorKey, RestoreOptions, Store, Vault};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Layout, StepKind, SystemClock, Timestamp};
use herm_tests::{generate, signer};
use rustix::time::{ClockId, clock_gettime};

const SKILLS: usize = 5_000;
const MESSAGES: usize = 100_000;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let dir = tempfile::tempdir().expect("a directory");
    match std::env::var("HERM_BENCH").as_deref() {
        Ok("large") => executor.block_on(large(dir.path())),
        _ => {
            executor.block_on(usual(dir.path()));
            #[cfg(feature = "cloud")]
            executor.block_on(many(dir.path()));
        }
    }
}

fn opening() -> BrainOptions {
    BrainOptions { signer: Some(Arc::new(signer())), ..BrainOptions::default() }
}

fn vault(store: Arc<dyn Store>) -> Vault {
    let key = Encryption::Key(OperatorKey::from_bytes([5; 32]));
    Vault::new(store, key, "the bench", Arc::new(SystemRandom), Arc::new(SystemClock))
}

fn how() -> RestoreOptions {
    RestoreOptions {
        version: None,
        in_place: OnExisting::Refuse,
        trusted: TrustedKeys::Keys(vec![signer().public().clone()]),
        wait: Duration::from_secs(20),
        progress: None,
        inspect: None,
    }
}

fn message(task: &str, role: MessageRole, content: String) -> MessageEntry {
    MessageEntry { task: task.to_owned(), subscriber: None, role, content, at: Timestamp(1_767_323_045_000) }
}

async fn usual(dir: &std::path::Path) {
    let source = dir.join("source");
    std::fs::create_dir_all(&source).expect("a directory");
    generate::write_bundle(&source, SKILLS);
    let (layout, id) = (Layout::new(dir.join("brains")), "1".parse::<BrainId>().expect("an id"));
    let from = BrainSource::Directory { path: &source, expected: None };
    let (mut brain, _) = Brain::hydrate(&layout, &id, &from, &opening()).expect("a brain");
    let said: Vec<generate::Said> = generate::messages(MESSAGES).collect();
    for batch in said.chunks(1_000) {
        let mut draft = Draft::new();
        for one in batch {
            draft.message(message(&format!("session-{}", one.session), MessageRole::User, one.content.clone()));
        }
        brain.settle(&draft, StepKind::Import, "messages").expect("settled");
    }
    brain.flush().expect("flushed");
    let store = Arc::new(LocalStore::open(&dir.join("store")).expect("a store"));
    let vault = vault(store.clone());
    let (first, (cpu, wall)) = timed(vault.push(&layout, &id)).await;
    let first = first.expect("pushed");
    row("first snapshot to local disk, wall", wall * 1e3, "ms", "≤ 1,500 ms");
    row("  CPU", cpu * 1e3, "ms", "");
    row("  objects", first.objects as f64, "", "");
    row("  bytes uploaded", first.bytes as f64 / 1e6, "MB", "");
    let (mut cpus, mut sizes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..60 {
        let mut draft = Draft::new();
        let task = format!("01a1e340d329-{number:016}");
        draft.message(message(&task, MessageRole::User, said[number].content.clone()));
        draft.message(message(&task, MessageRole::Assistant, said[number + 1].content.clone()));
        draft.task(TaskEntry {
            task,
            subscriber: None,
            outcome: TaskStatus::Converged,
            summary: "all is well".to_owned(),
            at: Timestamp(5),
        });
        brain.settle(&draft, StepKind::Task, "a task").expect("settled");
        let (pushed, (cpu, _)) = timed(vault.push(&layout, &id)).await;
        let pushed = pushed.expect("pushed");
        cpus.push(cpu * 1e3);
        sizes.push(pushed.bytes as f64 / 1024.0);
        counts.push(pushed.objects as f64);
    }
    row("snapshot after one task, CPU (median of 60)", median(&cpus), "ms", "≤ 30 ms");
    row("  the slowest", max(&cpus), "ms", "");
    row("  uploaded (median)", median(&sizes), "KiB", "≤ 64 KiB + new rows");
    row("  the most", max(&sizes), "KiB", "");
    row("  objects (median)", median(&counts), "", "");
    brain.close().expect("closed");
    for round in 0..3 {
        let there = Layout::new(dir.join(format!("there-{round}")));
        let (restored, (cpu, wall)) = timed(vault.restore(&there, &id, &how())).await;
        restored.expect("restored");
        row(&format!("restore {}, wall", round + 1), wall * 1e3, "ms", "≤ 1,000 ms");
        row("  CPU", cpu * 1e3, "ms", "");
    }
    bare_files(&dir.join("there-0/1"), &dir.join("bare")).await;
    bare_index(&said, &dir.join("bare.db")).await;
}

/// What SQLite takes for the same rows and their full-text index, on one thread, with nothing else to do and nothing synced.
async fn bare_index(said: &[generate::Said], path: &std::path::Path) {
    let (_, (cpu, wall)) = timed(async {
        let database = rusqlite::Connection::open(path).expect("a database");
        database
            .execute_batch(
                "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;
                 CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
                 CREATE VIRTUAL TABLE found USING fts5 (content, content = 'messages', content_rowid = 'id');
                 BEGIN",
            )
            .expect("tables");
        let mut put = database.prepare("INSERT INTO messages (content) VALUES (?1)").expect("a statement");
        for one in said {
            put.execute([&one.content]).expect("put");
        }
        database.execute_batch("INSERT INTO found (found) VALUES ('rebuild'); COMMIT").expect("indexed");
    })
    .await;
    row("the same messages and an index of them by bare SQLite, wall", wall * 1e3, "ms", "");
    row("  CPU", cpu * 1e3, "ms", "");
}

/// What the disk takes for the same files, written one after the other by nobody in particular.
async fn bare_files(from: &std::path::Path, to: &std::path::Path) {
    let mut files = Vec::new();
    let mut dirs = vec![from.join("skills")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => dirs.push(path),
                false => files.push((path.clone(), std::fs::read(&path).expect("a file"))),
            }
        }
    }
    let count = files.len();
    let (_, (cpu, wall)) = timed(async {
        for (path, content) in files {
            let path = to.join(path.strip_prefix(from).expect("below"));
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, content).expect("a file");
        }
    })
    .await;
    row(&format!("{count} files by a bare loop, wall"), wall * 1e3, "ms", "");
    row("  CPU", cpu * 1e3, "ms", "");
}

/// A brain of 2 GB of rows, and the most memory its snapshot takes.
async fn large(dir: &std::path::Path) {
    let source = dir.join("source");
    std::fs::create_dir_all(&source).expect("a directory");
    std::fs::write(source.join("system.md"), "You are large.\n").expect("a file");
    let (layout, id) = (Layout::new(dir.join("brains")), "1".parse::<BrainId>().expect("an id"));
    let from = BrainSource::Directory { path: &source, expected: None };
    let (mut brain, _) = Brain::hydrate(&layout, &id, &from, &opening()).expect("a brain");
    let said: Vec<generate::Said> = generate::messages(1_000).collect();
    for round in 0..1_000 {
        let mut draft = Draft::new();
        for at in 0..20 {
            let text: String = (0..360).map(|n| said[(round * 7 + at * 11 + n) % 1_000].content.as_str()).collect();
            draft.message(message("large", MessageRole::User, text));
        }
        brain.settle(&draft, StepKind::Import, "messages").expect("settled");
        if round % 50 == 49 {
            brain.flush().expect("flushed");
        }
    }
    let bytes = layout.brain(&id).join("memory.db").metadata().expect("memory.db").len();
    brain.close().expect("closed");
    drop(said);
    row("size of memory.db", bytes as f64 / 1e9, "GB", "");
    let before = peak_mib();
    // The peak is counted from here.
    std::fs::write("/proc/self/clear_refs", "5").expect("a reset");
    let resting = peak_mib();
    let vault = vault(Arc::new(LocalStore::open(&dir.join("store")).expect("a store")));
    let (pushed, (cpu, wall)) = timed(vault.push(&layout, &id)).await;
    let pushed = pushed.expect("pushed");
    row("snapshot of it, wall", wall, "s", "");
    row("  CPU", cpu, "s", "");
    row("  uploaded", pushed.bytes as f64 / 1e6, "MB", "");
    row("  memory before (most while it was made)", before, "MiB", "");
    row("  memory at its beginning", resting, "MiB", "");
    row("  peak memory", peak_mib(), "MiB", "≤ 128 MiB");
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
}

/// A thousand small brains restored over S3.
#[cfg(feature = "cloud")]
async fn many(dir: &std::path::Path) {
    use herm::snapshot::store::CloudStore;
    use herm_tests::s3_server::{Order, S3Server};
    const BRAINS: usize = 1_000;
    let server = S3Server::start(Order::OneByOne).await;
    let store = Arc::new(CloudStore::open("s3://herm/many", server.options()).expect("a store"));
    let vault = Arc::new(vault(store));
    let layout = Layout::new(dir.join("many"));
    let files: [(&str, &[u8]); 3] = [
        ("system.md", b"You are small.\n"),
        ("MEMORY.md", b"# Memory\n- a thing\n"),
        ("skills/a.md", b"---\nname: a\ndescription: Does a. Use when a.\n---\n# a\n"),
    ];
    let ids: Vec<BrainId> = (1..=BRAINS).map(|n| n.to_string().parse().expect("an id")).collect();
    for id in &ids {
        let from = BrainSource::Seed(herm::Seed { id, files: &files });
        let (mut brain, _) = Brain::hydrate(&layout, id, &from, &opening()).expect("a brain");
        let mut draft = Draft::new();
        draft.message(message("t", MessageRole::User, "a question".to_owned()));
        brain.settle(&draft, StepKind::Task, "a task").expect("settled");
        brain.close().expect("closed");
        vault.push(&layout, id).await.expect("pushed");
    }
    let there = Layout::new(dir.join("many-back"));
    let before = server.requests();
    let (_, (cpu, wall)) = timed(async {
        let mut running = tokio::task::JoinSet::new();
        for id in ids {
            if running.len() >= 16 {
                running.join_next().await.expect("one").expect("joined");
            }
            let (vault, there) = (Arc::clone(&vault), there.clone());
            running.spawn(async move { vault.restore(&there, &id, &how()).await.expect("restored") });
        }
        while let Some(done) = running.join_next().await {
            done.expect("joined");
        }
    })
    .await;
    row("1,000 small brains restored from S3, brains a second", BRAINS as f64 / wall, "/s", "≥ 50/s");
    row("  CPU a brain, server included", cpu * 1e3 / BRAINS as f64, "ms", "");
    row("  requests a brain", (server.requests() - before) as f64 / BRAINS as f64, "", "");
}

/// What a future gives, with its CPU time (of the whole process) and its wall time, in seconds.
async fn timed<T>(work: impl Future<Output = T>) -> (T, (f64, f64)) {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let given = work.await;
    (given, (cpu_seconds() - cpu, wall.elapsed().as_secs_f64()))
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn row(what: &str, value: f64, unit: &str, bound: &str) {
    println!("| {what} | {value:.3} {unit} | {bound} |");
}
