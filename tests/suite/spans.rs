//! The way of a task, as the library's spans show it, is the one that docs/ARCHITECTURE.md has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use herm::backend::ScriptedBackend;
use herm::harness::{PushTiming, SnapshotOptions};
use herm::ids::SystemRandom;
use herm::snapshot::store::MemoryStore;
use herm::snapshot::{Encryption, OperatorKey, Vault};
use herm::{BrainId, Harness, Task};
use herm_tests::{TempBrains, signer};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// A brain that no other test of this program uses, so that its spans can be told from theirs.
const BRAIN: &str = "918273";

/// A span with what was recorded on it.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: &'static str,
    /// The names of those around it, from the outermost.
    path: Vec<&'static str>,
    fields: BTreeMap<&'static str, String>,
    /// Whether it is inside a task of the brain.
    is_inside: bool,
}

impl Seen {
    fn is_of_brain(&self) -> bool {
        let names_it = |name: &str| self.fields.get(name).is_some_and(|id| id == BRAIN);
        self.is_inside || names_it("gen_ai.agent.id") || names_it("herm.brain")
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

/// Keeps the spans of this program, in the order they began.
#[derive(Debug, Clone, Default)]
struct Watching(Arc<Mutex<BTreeMap<u64, Seen>>>);

/// Where a span stands among those that were kept.
struct Place(u64);

impl Watching {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<u64, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_brain(&self) -> Vec<Seen> {
        self.seen().values().filter(|seen| seen.is_of_brain()).cloned().collect()
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Watching {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if !attributes.metadata().target().starts_with("herm") {
            return;
        }
        let mut seen = Seen { name: attributes.metadata().name(), ..Seen::default() };
        attributes.record(&mut seen);
        for above in span.scope().from_root().filter(|above| above.id() != *id) {
            seen.path.push(above.name());
            let place = above.extensions().get::<Place>().map(|place| place.0);
            seen.is_inside |= place.is_some_and(|place| self.seen().get(&place).is_some_and(Seen::is_of_brain));
        }
        let mut kept = self.seen();
        let place = kept.len() as u64;
        kept.insert(place, seen);
        span.extensions_mut().insert(Place(place));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Place(place)) = span.extensions().get::<Place>()
            && let Some(seen) = self.seen().get_mut(place)
        {
            record.record(seen);
        }
    }
}

/// The spans of this program. Other tests run beside, on the same threads.
fn watching() -> &'static Watching {
    static WATCHING: OnceLock<Watching> = OnceLock::new();
    WATCHING.get_or_init(|| {
        let watching = Watching::default();
        tracing::subscriber::set_global_default(Registry::default().with(watching.clone())).expect("the only one");
        watching
    })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/ARCHITECTURE.md")).expect("the page")
}

/// The first fenced block behind a heading.
fn block<'a>(page: &'a str, heading: &str) -> &'a str {
    let behind = page.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("{heading} is not there"));
    behind.split("```").nth(1).expect("a block")
}

/// The spans of the page, each with those around it, and the file that opens it.
fn documented(page: &str) -> Vec<(Vec<String>, String)> {
    let mut path: Vec<String> = Vec::new();
    let lines = block(page, "### Its spans").lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let depth = (line.len() - line.trim_start().len()) / 2;
            let mut words = line.split_whitespace().map(str::to_owned);
            path.truncate(depth);
            path.push(words.next().expect("a name"));
            (path.clone(), words.next().expect("a file"))
        })
        .collect()
}

const SECRET: &str = "the vault's door is blue";

async fn run_a_task(brains: &TempBrains) {
    let id: BrainId = BRAIN.parse().expect("an id");
    brains.make(BRAIN).close().expect("closed");
    let store = Arc::new(MemoryStore::new());
    let encryption = Encryption::Key(OperatorKey::from_bytes([1; 32]));
    let vault = Vault::new(store, encryption, "the test", Arc::new(SystemRandom), brains.clock());
    let search = format!(r#"{{"tool": "recall", "args": {{"query": "{SECRET}"}}}}"#);
    let look = r#"{"tool": "outline", "args": {}}"#.to_owned();
    let harness = Harness::builder()
        .brains(brains.path())
        .backend(ScriptedBackend::new([search, look, format!(r#"{{"summary": "{SECRET}"}}"#)]))
        .toolbox(herm_tools::standard().expect("the standard tools"))
        .clock(brains.clock())
        .signer(signer())
        .snapshotting(Some(SnapshotOptions {
            pushing: PushTiming::AfterTheAnswer,
            ..SnapshotOptions::new(Arc::new(vault))
        }))
        .build()
        .expect("a harness");
    harness.run(&id, Task::new(SECRET)).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_spans_of_a_task_are_those_of_the_page() {
    let watching = watching();
    let brains = TempBrains::new();
    run_a_task(&brains).await;
    let spans = watching.of_brain();
    let paths: BTreeSet<Vec<&str>> = spans
        .iter()
        // The brain was made before the task, as a step of its own.
        .filter(|seen| !(seen.name == "commit" && seen.path.is_empty()))
        .map(|seen| seen.path.iter().copied().chain([seen.name]).collect())
        .collect();
    let page = page();
    let documented = documented(&page);
    let expected: BTreeSet<Vec<&str>> =
        documented.iter().map(|(path, _)| path.iter().map(String::as_str).collect()).collect();
    assert_eq!(paths, expected);
    for (path, file) in &documented {
        let name = path.last().expect("a name");
        let source = std::fs::read_to_string(repository().join(file)).expect(file);
        assert!(source.contains(&format!("\"{name}\"")), "{file} opens no span {name}");
    }
    // What an operator needs, and nothing that was said.
    let fields = |name: &str| spans.iter().find(|seen| seen.name == name).expect(name).fields.clone();
    let task = fields("task");
    let of_task = |name: &str| task.get(name).map(String::as_str);
    assert_eq!(
        [
            "gen_ai.operation.name",
            "gen_ai.agent.id",
            "gen_ai.provider.name",
            "herm.status",
            "herm.turns",
            "herm.version"
        ]
        .map(of_task),
        [Some("invoke_agent"), Some(BRAIN), Some("scripted"), Some("converged"), Some("3"), Some("2")]
    );
    assert!(of_task("gen_ai.conversation.id").is_some() && of_task("error.type").is_none(), "{task:?}");
    assert_eq!(fields("tool").get("gen_ai.tool.name").map(String::as_str), Some("recall"));
    assert_eq!(fields("settle").get("herm.version").map(String::as_str), Some("2"));
    assert_eq!(fields("snapshot").get("herm.version").map(String::as_str), Some("2"));
    for seen in &spans {
        assert!(!format!("{seen:?}").contains(SECRET), "{seen:?}");
    }
}

/// Every name of a file in a text: letters, digits, `_`, `/` and `-`, with `.rs` at the end.
fn files_in(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_/-.".contains(c)));
    words.map(|word| word.trim_matches('.')).filter(|word| word.ends_with(".rs")).collect()
}

#[test]
fn every_file_that_the_page_names_is_there() {
    let page = page();
    let mut missing = Vec::new();
    for file in files_in(&page)
        .into_iter()
        .filter(|file| ["runtime/", "tests/", "tools/"].iter().any(|top| file.starts_with(top)))
    {
        if !repository().join(file).is_file() {
            missing.push(file.to_owned());
        }
    }
    // In the way of a task a line at the margin says which folder the names behind it are in.
    let mut folder = PathBuf::new();
    let mut named = 0;
    for line in block(&page, "## The way of a task").lines() {
        if let Some(first) = line.split_whitespace().next().filter(|_| line.starts_with("runtime/")) {
            folder = repository().join(first);
            if first.ends_with(".rs") {
                folder.pop();
            }
        }
        for file in files_in(line) {
            named += 1;
            let places = [folder.join(file), folder.join("..").join(file), repository().join(file)];
            if !places.iter().any(|place| place.is_file()) {
                missing.push(file.to_owned());
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    assert!(named > 30, "only {named}: the test no longer reads the page");
}
