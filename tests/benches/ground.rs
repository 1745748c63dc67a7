//! The figures of the ground floor, each beside its bound. `cargo bench -p herm-tests --bench ground`
//!
//! CPU time of this process, because the machine is shared; wall time only where the bound says so.

use std::time::{Duration, Instant};

use herm::brain::OnDrift;
use herm::bundle::{BundlePart, Tree};
use herm::fsio::{self, Dir, Root, ScanAction, SurveyLimits};
use herm::memory::{MessageEntry, MessageRole, Search, SearchScope};
use herm::skill::{Index, IndexCache};
use herm::{
    Brain, BrainId, BrainOptions, BrainSource, Clock as _, Digest, Draft, Layout, StepKind, SubscriberId, SystemClock,
    Timestamp,
};
use herm_tests::generate;
use rustix::time::{ClockId, clock_gettime};

const SKILLS: usize = 5_000;
const MESSAGES: usize = 100_000;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let mut table = Table::default();
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    std::fs::create_dir_all(&source).expect("a directory");
    let skill_bytes = generate::write_bundle(&source, SKILLS);
    let layout = Layout::new(dir.path().join("brains"));
    let id: BrainId = "1".parse().expect("an id");
    let opening = BrainOptions { on_drift: OnDrift::Refuse, ..BrainOptions::default() };
    let (mut brain, _) =
        Brain::hydrate(&layout, &id, &BrainSource::Directory { path: &source, expected: None }, &opening)
            .expect("a brain");

    skills(&mut table, &layout, &id, &mut brain);
    hashing(&mut table, &layout, &id, &opening, brain, skill_bytes);
    memory(&mut table, &layout, &id, &opening);
    opening_warm(&mut table, &layout, &id, &opening);
    large_files(&mut table, dir.path());
    processes(&mut table, dir.path());
    table.print();
}

fn skills(table: &mut Table, layout: &Layout, id: &BrainId, brain: &mut Brain) {
    let root = Root::open(&layout.brain(id)).expect("the brain's directory");
    let mut count = 0;
    let first = cpu(11, || count = Index::build(&root, "skills").expect("an index").len());
    assert_eq!(count, SKILLS);
    table.ms("index of 5,000 skills, very first read", first, 250.0);
    let kept = "kept-index".parse().expect("a path");
    let mut cache = IndexCache::default();
    Index::build_with(&root, "skills", Some(&mut cache)).expect("an index");
    // No file is so young any more that its times are not trusted.
    std::thread::sleep(Duration::from_millis(100));
    cache.save(&root, &kept).expect("kept");
    let cached = cpu(11, || {
        let mut cache = IndexCache::load(&root, &kept);
        count = Index::build_with(&root, "skills", Some(&mut cache)).expect("an index").len();
        assert!(!cache.is_stale());
    });
    assert_eq!(count, SKILLS);
    table.ms("index of 5,000 skills, cached", cached, 60.0);
    root.remove(&kept).expect("removed");
    let mut index = Index::build(&root, "skills").expect("an index");
    table.ms("warm re-read, nothing changed", cpu(51, || drop(index.update(&root, &[]).expect("an update"))), 5.0);
    let slug = "facevo-malebe-00002".parse().expect("a slug");
    brain.skills().expect("an index");
    table.ms("skill view", cpu(51, || drop(brain.skill_text(&slug).expect("a text"))), 0.3);
}

fn hashing(table: &mut Table, layout: &Layout, id: &BrainId, opening: &BrainOptions, brain: Brain, bytes: u64) {
    let full = cpu(7, || assert!(brain.verify().expect("a report").is_sound()));
    let skills = brain.lock().parts.skills;
    brain.close().expect("closed");
    let root = Root::open(&layout.brain(id)).expect("the brain's directory");
    let files = cpu(7, || assert_eq!(hash_from_nothing(&root), skills));
    table.rate("full recompute, 5,700 small files", bytes, files, 1.0);
    table.ms("  the whole brain verify, database and all", full, 0.0);
    let floor = cpu(7, || read_everything(&layout.brain(id).join("skills")));
    table.rate("  of which only listing and reading (floor)", bytes, floor, 0.0);
    let mut tree = Tree::default();
    for n in 0..5_700 {
        let path = format!("skills/c{}/s{n}/SKILL.md", n % 20).parse().expect("a path");
        tree.set(&path, Digest::of(&[n as u8]));
    }
    tree.part(BundlePart::Skills);
    let path = "skills/c1/s1/SKILL.md".parse().expect("a path");
    let mut n = 0_u64;
    let rehash = cpu(201, || {
        n += 1;
        tree.set(&path, Digest::of(&n.to_le_bytes()));
        tree.part(BundlePart::Skills);
    });
    table.ms("rehash after one changed skill, 5,700 files", rehash, 2.0);
    let mut brain = Brain::open(layout, id, opening).expect("a brain");
    let slug = "facevo-malebe-00002".parse().expect("a slug");
    let text = brain.skill_text(&slug).expect("a text");
    let settle = cpu(21, || {
        n += 1;
        let mut draft = Draft::new();
        brain.edit(&mut draft).edit_skill(&slug, &format!("{text}\n{n}\n")).expect("an edit");
        brain.settle(&draft, StepKind::Maintenance, "bench").expect("settled");
    });
    table.ms("  the whole settle of that change", settle, 0.0);
    brain.close().expect("closed");
}

/// The digest of the skills, read from the disk without any cache.
fn hash_from_nothing(root: &Root) -> Digest {
    let mut top = Dir::default();
    let wanted = |path: &str| match BundlePart::of(path) {
        _ if herm::layout::is_not_content(path) => ScanAction::Skip,
        Some(_) => ScanAction::Digest,
        None => ScanAction::List,
    };
    fsio::survey(root, &mut top, SurveyLimits::default(), &wanted).expect("a survey");
    let mut files = Vec::new();
    top.for_each_file(&mut |path, node| {
        files.extend(node.digest.map(|digest| (path.parse().expect("a path"), digest)));
        Ok(())
    })
    .expect("files");
    files.sort_unstable();
    Tree::from_sorted(files).part(BundlePart::Skills)
}

/// What any full recompute must at least do: list every directory and read every file.
fn read_everything(dir: &std::path::Path) {
    for entry in std::fs::read_dir(dir).expect("a listing") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            read_everything(&entry.path());
        } else {
            std::hint::black_box(std::fs::read(entry.path()).expect("a file"));
        }
    }
}

fn memory(table: &mut Table, layout: &Layout, id: &BrainId, opening: &BrainOptions) {
    let mut brain = Brain::open(layout, id, opening).expect("a brain");
    let database = layout.brain(id).join("memory.db");
    let before = database.metadata().expect("memory.db").len();
    let mut text = 0;
    let mut said = generate::messages(MESSAGES).peekable();
    while said.peek().is_some() {
        let mut draft = Draft::new();
        for said in said.by_ref().take(1_000) {
            text += said.content.len() as u64;
            let subscriber: SubscriberId = format!("user-{}", said.session % 10).parse().expect("a subscriber");
            draft.message(MessageEntry {
                task: format!("s{:06}", said.session),
                subscriber: Some(subscriber.digest()),
                role: [MessageRole::User, MessageRole::Assistant, MessageRole::Tool, MessageRole::Assistant][said.turn],
                content: said.content,
                at: Timestamp(said.at * 1_000),
            });
        }
        brain.settle(&draft, StepKind::Task, "corpus").expect("settled");
        brain.flush().expect("flushed");
    }
    brain.close().expect("closed");
    let grown = database.metadata().expect("memory.db").len() - before;
    table.times("database over text", grown as f64 / text as f64, 2.6);

    let mut brain = Brain::open(layout, id, opening).expect("a brain");
    let one: SubscriberId = "user-3".parse().expect("a subscriber");
    let own = SearchScope::Subscriber(one.digest());
    for (what, query, scope, bound) in [
        ("search: rare term", "needle-0042", SearchScope::Operator, 0.5),
        ("search: very common word", "guno", SearchScope::Operator, 10.0),
        ("search: common word", "gokusiri", SearchScope::Operator, 10.0),
        ("search: two common words", "hovebo hetoga", SearchScope::Operator, 10.0),
        ("search: two-character CJK", "缓存", SearchScope::Operator, 10.0),
        ("search: four-character CJK", "分布系统", SearchScope::Operator, 10.0),
        ("search: no hit", "zzqqxx", SearchScope::Operator, 0.5),
        ("search: very common word, one subscriber", "guno", own, 10.0),
    ] {
        let wanted = Search {
            text: query,
            scope,
            except_task: None,
            limit: 20,
            now: SystemClock.now(),
            weights: Default::default(),
        };
        let mut hits = 0;
        let time = cpu(31, || hits = brain.search(&wanted).expect("an answer").hits.len());
        table.ms(&format!("{what} ({hits} hits)"), time, bound);
    }
    let full = cpu(3, || assert!(brain.verify().expect("a report").is_sound()));
    table.ms("full verify with 100,000 messages", full, 0.0);
    brain.close().expect("closed");
}

fn opening_warm(table: &mut Table, layout: &Layout, id: &BrainId, opening: &BrainOptions) {
    // Twice, so that no file is too young for its times to be trusted.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(100));
        Brain::open(layout, id, opening).expect("a brain").close().expect("closed");
    }
    let warm = cpu(11, || Brain::open(layout, id, opening).expect("a brain").close().expect("closed"));
    table.ms("open + verify warm, 5,000 skills, 100,000 messages", warm, 30.0);
}

fn large_files(table: &mut Table, dir: &std::path::Path) {
    let source = dir.join("large");
    std::fs::create_dir_all(source.join("patterns")).expect("a directory");
    std::fs::write(source.join("system.md"), "large\n").expect("system.md");
    for n in 0..16 {
        std::fs::write(source.join(format!("patterns/p{n}.md")), vec![b'a' + n; 8 << 20]).expect("a file");
    }
    let layout = Layout::new(dir.join("large-brains"));
    let id: BrainId = "2".parse().expect("an id");
    let from = BrainSource::Directory { path: &source, expected: None };
    let (brain, _) = Brain::hydrate(&layout, &id, &from, &BrainOptions::default()).expect("a brain");
    let full = cpu(5, || assert!(brain.verify().expect("a report").is_sound()));
    table.rate("full recompute, 16 files of 8 MiB", 128 << 20, full, 1.0);
    brain.close().expect("closed");
}

/// Start-up of the real program: wall time and peak memory.
fn processes(table: &mut Table, dir: &std::path::Path) {
    let brains = dir.join("process-brains");
    let herm = herm_tests::Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), &brains);
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    for (what, arguments, bound) in
        [("herm --version", &["--version"][..], 10.0), ("herm brain show 1", &["brain", "show", "1"][..], 25.0)]
    {
        let wall = median(31, || {
            let began = Instant::now();
            assert_eq!(herm.run(arguments).code, 0);
            began.elapsed()
        });
        table.ms(&format!("{what}, wall"), wall, bound);
        table.mib(&format!("{what}, peak memory"), peak_memory(&herm, arguments), 20.0);
    }
}

/// Peak resident memory of a run, from /usr/bin/time.
fn peak_memory(herm: &herm_tests::Herm, arguments: &[&str]) -> f64 {
    let command = herm.command(arguments);
    let mut timed = std::process::Command::new("/usr/bin/time");
    timed.arg("-f").arg("%M").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            timed.env(name, value);
        }
    }
    match timed.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            text.trim().lines().last().and_then(|line| line.parse::<f64>().ok()).map_or(f64::NAN, |kib| kib / 1024.0)
        }
        Err(_) => f64::NAN,
    }
}

fn cpu(runs: usize, mut work: impl FnMut()) -> Duration {
    median(runs, || {
        let began = cpu_now();
        work();
        cpu_now() - began
    })
}

fn cpu_now() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn median(runs: usize, mut once: impl FnMut() -> Duration) -> Duration {
    once();
    let mut times: Vec<Duration> = (0..runs).map(|_| once()).collect();
    times.sort();
    times[runs / 2]
}

#[derive(Default)]
struct Table {
    rows: Vec<(String, String, String, &'static str)>,
}

impl Table {
    fn ms(&mut self, what: &str, time: Duration, bound: f64) {
        let ms = time.as_secs_f64() * 1e3;
        self.row(what, format!("{ms:.3} ms"), format!("<= {bound} ms"), bound, ms <= bound);
    }

    fn rate(&mut self, what: &str, bytes: u64, time: Duration, bound: f64) {
        let rate = bytes as f64 / time.as_secs_f64() / 1e9;
        self.row(what, format!("{rate:.2} GB/s"), format!(">= {bound} GB/s"), bound, rate >= bound);
    }

    fn times(&mut self, what: &str, ratio: f64, bound: f64) {
        self.row(what, format!("{ratio:.2} x"), format!("<= {bound} x"), bound, ratio <= bound);
    }

    fn mib(&mut self, what: &str, mib: f64, bound: f64) {
        self.row(what, format!("{mib:.1} MiB"), format!("<= {bound} MiB"), bound, mib <= bound);
    }

    fn row(&mut self, what: &str, figure: String, bound: String, has_bound: f64, met: bool) {
        let (bound, verdict) = match (has_bound > 0.0, met) {
            (false, _) => (String::new(), ""),
            (true, true) => (bound, "met"),
            (true, false) => (bound, "MISSED"),
        };
        eprintln!("{what}: {figure} {bound} {verdict}");
        self.rows.push((what.to_owned(), figure, bound, verdict));
    }

    fn print(&self) {
        println!("\n| figure | measured | bound | |\n|---|---|---|---|");
        for (what, figure, bound, verdict) in &self.rows {
            println!("| {} | {figure} | {bound} | {verdict} |", what.trim());
        }
    }
}
