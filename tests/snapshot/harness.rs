//! A harness with a store: nothing is lost silently, a machine may forget everything, and of two
//! operators one moves a brain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use herm::backend::ScriptedBackend;
use herm::brain::OnExisting;
use herm::harness::{PushTiming, SnapshotOptions};
use herm::receipt::check;
use herm::snapshot::Store;
use herm::snapshot::outbox::Outbox;
use herm::snapshot::store::{CreateOutcome, MemoryStore, ObjectName, StoredObject};
use herm::{Error, ErrorKind, Harness, Reader, Result, Task, TaskId};
use herm_tests::{TempBrains, signer};

use super::{how, id, key, vault_of};

const ANSWER: &str = r#"{"summary": "all is well"}"#;

fn snapshotting(store: Arc<dyn Store>, owner: &str) -> SnapshotOptions {
    SnapshotOptions::new(Arc::new(vault_of(store, key(1), owner)))
}

fn harness(brains: &TempBrains, how: SnapshotOptions) -> Harness {
    Harness::builder()
        .brains(brains.path())
        .backend(ScriptedBackend::new(vec![ANSWER; 1_000]))
        .clock(brains.clock())
        .signer(signer())
        .wait(Duration::from_secs(20))
        .snapshotting(Some(how))
        .build()
        .unwrap()
}

fn check_chain(brains: &TempBrains, number: &str) -> u64 {
    let reader = Reader::open(&brains.layout(), &id(number)).unwrap();
    let tape: Vec<String> = reader.receipts(1, u64::MAX).unwrap().into_iter().map(|kept| kept.envelope).collect();
    let checked = check(tape.iter().map(String::as_str), &how().trusted);
    assert!(checked.is_sound(), "{checked:?}");
    assert_eq!(checked.after, Some(reader.lock().bundle_hash.to_string()));
    checked.receipts
}

/// The amnesia test: a wiped directory, another operator, and the brain goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_forgot_everything_goes_on_where_the_brain_was() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    one.make("7").close().unwrap();
    let first = harness(&one, snapshotting(store.clone(), "one"));
    for number in 0..5 {
        first.run(&id("7"), Task::new(format!("task {number}"))).await.unwrap();
    }
    first.shutdown().await.unwrap();
    let before = Reader::open(&one.layout(), &id("7")).unwrap().lock().clone();
    assert!(Outbox::load(&one.file("7", "")).unwrap().has(&store.describe(), before.version));
    let old_tape = std::fs::read_to_string(one.file("7", "receipts.ndjson")).unwrap();
    std::fs::remove_dir_all(one.path().join("7")).unwrap();

    let second = harness(&two, snapshotting(store.clone(), "two"));
    let outcome = second.run(&id("7"), Task::new("and on")).await.unwrap();
    let settled = outcome.settled.unwrap();
    assert_eq!((settled.before, settled.version), (before.bundle_hash, before.version + 1));
    second.shutdown().await.unwrap();
    let tape = std::fs::read_to_string(two.file("7", "receipts.ndjson")).unwrap();
    assert!(tape.starts_with(&old_tape) && tape.len() > old_tape.len(), "the new receipt extends the old chain");
    assert_eq!(check_chain(&two, "7"), settled.version);
    assert!(two.open("7").unwrap().verify().unwrap().is_sound());

    // And the first machine, which has nothing any more, goes on from there.
    let again = harness(&one, snapshotting(store, "one"));
    let outcome = again.run(&id("7"), Task::new("back here")).await.unwrap();
    assert_eq!(outcome.settled.unwrap().before, settled.after);
    again.shutdown().await.unwrap();
    check_chain(&one, "7");
}

/// A store that does nothing for a while.
#[derive(Debug)]
struct Moody {
    inner: MemoryStore,
    refusing: AtomicU64,
    /// Whether it lets nobody look either.
    shut: bool,
}

impl Moody {
    fn new(refusing: u64) -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), refusing: AtomicU64::new(refusing), shut: true })
    }

    /// One that lets look and not write, for a reason that does not pass by itself.
    fn read_only() -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(), refusing: AtomicU64::new(u64::MAX), shut: false })
    }

    fn mood(&self) -> Result<()> {
        let left = self.refusing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) if self.shut => Err(Error::unavailable("the store is in no mood")),
            Ok(_) => Err(Error::refused("these credentials may not write")),
            Err(_) => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Moody {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        if self.shut {
            self.mood()?;
        }
        self.inner.get(name, max).await
    }
    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        self.mood()?;
        self.inner.put(name, content).await
    }
    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        self.mood()?;
        self.inner.create(name, content).await
    }
    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        if self.shut {
            self.mood()?;
        }
        self.inner.list(prefix, after).await
    }
    async fn remove(&self, name: &ObjectName) -> Result<()> {
        self.inner.remove(name).await
    }
    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_failed_is_tried_again_at_shutdown_and_the_answer_never_waited_for_it() {
    let here = TempBrains::new();
    here.make("7").close().unwrap();
    let store = Moody::new(8);
    let harness = harness(&here, snapshotting(store.clone(), "one"));
    let outcome = harness.run(&id("7"), Task::new("do it")).await.unwrap();
    assert!(outcome.answer.is_some());
    harness.shutdown().await.unwrap();
    let outbox = Outbox::load(&here.file("7", "")).unwrap();
    assert!(outbox.has(&store.describe(), 2) && outbox.trouble.is_none(), "{outbox:?}");
    let counters = harness.snapshot_counters().unwrap();
    assert!(counters.pushed >= 1 && counters.failed >= 1 && counters.pending == 0, "{counters:?}");
}

/// A push that gave up is nobody's any more: no worker tries it again, and only the shutdown remembers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_gave_up_before_a_shutdown_is_tried_once_more_and_told_if_it_fails_again() {
    for heals in [true, false] {
        let here = TempBrains::new();
        here.make("7").close().unwrap();
        let store = Moody::read_only();
        let harness = harness(&here, snapshotting(store.clone(), "one"));
        harness.run(&id("7"), Task::new("do it")).await.unwrap();
        let gave_up =
            || harness.snapshot_counters().is_some_and(|counters| (counters.failed, counters.pending) == (1, 0));
        while !gave_up() {
            tokio::task::yield_now().await;
        }
        if heals {
            store.refusing.store(0, Ordering::SeqCst);
        }
        let closed = harness.shutdown().await;
        let outbox = Outbox::load(&here.file("7", "")).unwrap();
        assert_eq!(outbox.has(&store.describe(), 2), heals, "{outbox:?}");
        match closed {
            Ok(()) => assert!(heals && outbox.trouble.is_none(), "{outbox:?}"),
            Err(error) => {
                assert!(!heals, "{error}");
                assert_eq!(error.message(), "not in the store yet: the last steps of brain 7");
                assert!(outbox.trouble.unwrap().reason.contains("may not write"));
            }
        }
        assert_eq!(harness.snapshot_counters().unwrap().failed, if heals { 1 } else { 2 }, "tried once more");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_did_not_arrive_is_told_survives_a_restart_and_arrives_then() {
    let here = TempBrains::new();
    here.make("7").close().unwrap();
    let store = Moody::new(u64::MAX);
    let impatient = SnapshotOptions { flush_within: Duration::from_millis(300), ..snapshotting(store.clone(), "one") };
    let first = harness(&here, impatient);
    first.run(&id("7"), Task::new("do it")).await.unwrap();
    let error = first.shutdown().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("brain 7"), "{error}");
    let trouble = Outbox::load(&here.file("7", "")).unwrap().trouble.unwrap();
    assert!(trouble.attempts >= 1 && trouble.reason.contains("no mood"), "{trouble:?}");
    drop(first);

    store.refusing.store(0, Ordering::SeqCst);
    let second = harness(&here, snapshotting(store.clone(), "one"));
    assert_eq!(second.resume_snapshots().unwrap(), 1);
    second.shutdown().await.unwrap();
    let outbox = Outbox::load(&here.file("7", "")).unwrap();
    assert!(outbox.has(&store.describe(), 2) && outbox.trouble.is_none(), "{outbox:?}");
    let there = TempBrains::new();
    let vault = vault_of(store, key(1), "two");
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_gone_stops_no_task_on_a_brain_that_is_here() {
    let (here, empty) = (TempBrains::new(), TempBrains::new());
    here.make("7").close().unwrap();
    let store = Moody::new(u64::MAX);
    let one = harness(&here, snapshotting(store.clone(), "one"));
    assert!(one.run(&id("7"), Task::new("do it")).await.is_ok());
    let other = harness(&empty, snapshotting(store, "two"));
    let error = other.run(&id("7"), Task::new("do it")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_harness_snapshots_and_restores_on_demand() {
    let here = TempBrains::new();
    here.make("7").close().unwrap();
    let harness = harness(&here, snapshotting(Arc::new(MemoryStore::new()), "one"));
    harness.snapshot(&id("7")).await.unwrap();
    harness.run(&id("7"), Task::new("do it")).await.unwrap();
    harness.snapshot(&id("7")).await.unwrap();
    let error = harness.restore(&id("7"), Some(1), OnExisting::Refuse).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let restored = harness.restore(&id("7"), Some(1), OnExisting::SetAside).await.unwrap();
    assert_eq!(restored.head.version, 1);
    assert_eq!(Reader::open(&here.layout(), &id("7")).unwrap().lock().version, 1);
    // A task finds that the store is further, and goes on from there.
    let outcome = harness.run(&id("7"), Task::new("again")).await.unwrap();
    assert_eq!(outcome.settled.unwrap().version, 3);
    harness.shutdown().await.unwrap();
}

/// Two operators, one brain, answers that wait for the store: one history, and every loser is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_operators_without_leases_make_one_history_and_every_loser_is_told() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    one.make("7").close().unwrap();
    vault_of(store.clone(), key(1), "first").push(&one.layout(), &id("7")).await.unwrap();
    let strict =
        |owner: &str| SnapshotOptions { pushing: PushTiming::BeforeTheAnswer, ..snapshotting(store.clone(), owner) };
    let operators = [harness(&one, strict("one")), harness(&two, strict("two"))];
    let running: Vec<_> = operators
        .iter()
        .enumerate()
        .map(|(at, operator)| {
            let operator = operator.clone();
            tokio::spawn(async move {
                let (mut done, mut lost) = (Vec::new(), 0);
                for number in 0..30 {
                    let input = format!("task {number} of {at}");
                    loop {
                        assert!(lost < 3_000);
                        match operator.run(&id("7"), Task::new(input.clone())).await {
                            Ok(outcome) => break done.push(outcome.task.to_string()),
                            Err(error) if error.kind() == ErrorKind::Conflict => lost += 1,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
                (done, lost)
            })
        })
        .collect();
    let mut answered = Vec::new();
    for operator in running {
        let (done, _) = operator.await.unwrap();
        answered.extend(done);
    }
    for operator in &operators {
        operator.shutdown().await.unwrap();
    }
    let there = TempBrains::new();
    vault_of(store, key(1), "auditor").restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(check_chain(&there, "7"), 61);
    let database = rusqlite::Connection::open(there.file("7", "memory.db")).unwrap();
    let mut tasks: Vec<String> = database
        .prepare("SELECT task FROM task_log")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    tasks.sort();
    answered.sort();
    assert_eq!(tasks, answered, "every answered task is there once, and no other");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leased_brain_is_worked_on_by_one_operator() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    one.make("7").close().unwrap();
    let leased =
        |owner: &str| SnapshotOptions { lease: Some(Duration::from_secs(3_600)), ..snapshotting(store.clone(), owner) };
    let first = harness(&one, leased("one"));
    let second = harness(&two, leased("two"));
    first.run(&id("7"), Task::new("do it")).await.unwrap();
    let error = second.run(&id("7"), Task::new("me too")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("one works on brain 7"), "{error}");
    // Given back at shutdown, after the last push: free at once, and where the first left it.
    first.shutdown().await.unwrap();
    let outcome = second.run(&id("7"), Task::new("me too")).await.unwrap();
    assert_eq!(outcome.settled.unwrap().version, 3);
    second.shutdown().await.unwrap();
}

/// Without leases and after the answer, an operator that stays up finds out by its push that it lost, and its next task
/// goes on from the winner's brain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_lost_goes_on_from_the_winners_brain() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    one.make("7").close().unwrap();
    let first = harness(&one, snapshotting(store.clone(), "one"));
    first.run(&id("7"), Task::new("begin")).await.unwrap();
    first.snapshot(&id("7")).await.unwrap();
    let second = harness(&two, snapshotting(store.clone(), "two"));
    second.run(&id("7"), Task::new("theirs")).await.unwrap();
    second.snapshot(&id("7")).await.unwrap();
    let theirs = Reader::open(&two.layout(), &id("7")).unwrap().lock().clone();
    // The brain stays open here, and a task runs on what is a fork by now.
    first.run(&id("7"), Task::new("ours, and too late")).await.unwrap();
    assert_eq!(first.snapshot(&id("7")).await.unwrap_err().kind(), ErrorKind::Conflict);
    let outcome = first.run(&id("7"), Task::new("after that")).await.unwrap();
    assert_eq!(outcome.settled.unwrap().before, theirs.bundle_hash, "on the winner's brain");
    first.shutdown().await.unwrap();
    check_chain(&one, "7");
    let aside = std::fs::read_dir(one.layout().replaced_brains()).unwrap().count();
    assert_eq!(aside, 1, "what lost is kept");
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_by_hand_are_kept_when_a_brain_catches_up() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    one.make("7").close().unwrap();
    let first = harness(&one, snapshotting(store.clone(), "one"));
    first.run(&id("7"), Task::new("begin")).await.unwrap();
    first.shutdown().await.unwrap();
    let second = harness(&two, snapshotting(store.clone(), "two"));
    second.run(&id("7"), Task::new("on")).await.unwrap();
    second.shutdown().await.unwrap();
    std::fs::write(one.file("7", "notes.txt"), "mine").unwrap();
    let again = harness(&one, snapshotting(store, "one"));
    again.run(&id("7"), Task::new("catch up")).await.unwrap();
    again.shutdown().await.unwrap();
    let aside = std::fs::read_dir(one.layout().replaced_brains()).unwrap().next().expect("set aside").unwrap().path();
    assert_eq!(std::fs::read_to_string(aside.join("notes.txt")).unwrap(), "mine");
}

/// With `before_answer` and a store that is away, the answer is given with what is not so yet, and pushing goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_not_thrown_away_because_the_store_is() {
    let here = TempBrains::new();
    here.make("7").close().unwrap();
    let store = Moody::new(0);
    let how = SnapshotOptions { pushing: PushTiming::BeforeTheAnswer, ..snapshotting(store.clone(), "one") };
    let harness = harness(&here, how);
    harness.run(&id("7"), Task::new("one")).await.unwrap();
    store.refusing.store(40, Ordering::SeqCst);
    let outcome = harness.run(&id("7"), Task::new("two")).await.unwrap();
    assert!(outcome.answer.is_some() && outcome.settled.is_some());
    assert!(outcome.unpushed.unwrap().contains("not in the store yet"));
    store.refusing.store(0, Ordering::SeqCst);
    harness.shutdown().await.unwrap();
    assert!(Outbox::load(&here.file("7", "")).unwrap().has(&store.describe(), 3));
}

/// A store whose answer to the creation of a head comes late: meanwhile another operator goes on from it, and prunes.
#[derive(Debug)]
struct Dozing {
    inner: Arc<MemoryStore>,
    meanwhile: std::sync::Mutex<Option<TempBrains>>,
}

impl Dozing {
    async fn go_on(&self, brains: TempBrains) {
        let other = vault_of(self.inner.clone(), key(1), "the other");
        other.restore(&brains.layout(), &id("7"), &how()).await.unwrap();
        for number in 0..2 {
            super::step(&mut brains.open("7").unwrap(), 100 + number);
            other.push(&brains.layout(), &id("7")).await.unwrap();
        }
        other.prune(&brains.layout(), &id("7"), herm::snapshot::PruneOptions { last: 1 }).await.unwrap();
    }
}

#[async_trait]
impl Store for Dozing {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        self.inner.get(name, max).await
    }
    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        self.inner.put(name, content).await
    }
    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        let created = self.inner.create(name, content).await?;
        let meanwhile = match name.as_str().contains("/head/") {
            true => self.meanwhile.lock().unwrap().take(),
            false => None,
        };
        if let Some(brains) = meanwhile {
            self.go_on(brains).await;
        }
        Ok(created)
    }
    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        self.inner.list(prefix, after).await
    }
    async fn remove(&self, name: &ObjectName) -> Result<()> {
        self.inner.remove(name).await
    }
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_others_went_on_from_is_not_told_lost_even_if_its_head_is_pruned() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    one.make("7").close().unwrap();
    let store = Arc::new(Dozing { inner: Arc::new(MemoryStore::new()), meanwhile: std::sync::Mutex::new(None) });
    let how = SnapshotOptions { pushing: PushTiming::BeforeTheAnswer, ..snapshotting(store.clone(), "one") };
    let first = harness(&one, how);
    first.run(&id("7"), Task::new("first")).await.unwrap();
    // What follows the first task has pushed, too: the next head is that of the second.
    first.maintain(&id("7")).await.unwrap();
    while first.snapshot_counters().unwrap().pending > 0 {
        tokio::task::yield_now().await;
    }
    *store.meanwhile.lock().unwrap() = Some(two);
    let settled = first.run(&id("7"), Task::new("second")).await.unwrap().settled.unwrap();
    let reader = Reader::open(&one.layout(), &id("7")).unwrap();
    assert_eq!(reader.lock().version, settled.version + 2, "it goes on from what the other did");
    let third = first.run(&id("7"), Task::new("third")).await.unwrap().settled.unwrap();
    assert_eq!(third.version, settled.version + 3);
    first.shutdown().await.unwrap();
    assert_eq!(check_chain(&one, "7"), third.version, "no step is there twice");
}

/// A store in which another operator is faster by one head, and whose content cannot be read from then on.
#[derive(Debug)]
struct Fading {
    inner: Arc<MemoryStore>,
    faster: std::sync::Mutex<Option<TempBrains>>,
    faded: std::sync::atomic::AtomicBool,
}

impl Fading {
    async fn overtake(&self, brains: TempBrains) {
        let other = vault_of(self.inner.clone(), key(1), "the other");
        other.restore(&brains.layout(), &id("7"), &how()).await.unwrap();
        super::step(&mut brains.open("7").unwrap(), 100);
        other.push(&brains.layout(), &id("7")).await.unwrap();
    }
}

#[async_trait]
impl Store for Fading {
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>> {
        if self.faded.load(Ordering::SeqCst) && name.as_str().contains("/manifest/") {
            return Err(Error::unavailable("the store is away"));
        }
        self.inner.get(name, max).await
    }
    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()> {
        self.inner.put(name, content).await
    }
    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome> {
        let faster = match name.as_str().contains("/head/") {
            true => self.faster.lock().unwrap().take(),
            false => None,
        };
        if let Some(brains) = faster {
            self.overtake(brains).await;
            self.faded.store(true, Ordering::SeqCst);
        }
        self.inner.create(name, content).await
    }
    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>> {
        self.inner.list(prefix, after).await
    }
    async fn remove(&self, name: &ObjectName) -> Result<()> {
        self.inner.remove(name).await
    }
    async fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A caller that asks the brain whether a task was done must not find a step that lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_step_that_cannot_be_taken_back_yet_is_taken_back_when_the_store_is_there() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    one.make("7").close().unwrap();
    let store = Arc::new(Fading {
        inner: Arc::new(MemoryStore::new()),
        faster: std::sync::Mutex::default(),
        faded: std::sync::atomic::AtomicBool::default(),
    });
    let how = SnapshotOptions { pushing: PushTiming::BeforeTheAnswer, ..snapshotting(store.clone(), "one") };
    let first = harness(&one, how);
    first.run(&id("7"), Task::new("first")).await.unwrap();
    first.maintain(&id("7")).await.unwrap();
    while first.snapshot_counters().unwrap().pending > 0 {
        tokio::task::yield_now().await;
    }
    first.catch_up(&id("7")).await.unwrap();
    *store.faster.lock().unwrap() = Some(two);
    let mut second = Task::new("second");
    let named: TaskId = "0198c5c0-0000-7000-8000-000000000002".parse().unwrap();
    second.id = Some(named.clone());
    let lost = first.run(&id("7"), second).await.unwrap_err();
    assert!(lost.message().contains("the step of this task lost"), "{lost}");
    let here = || Reader::open(&one.layout(), &id("7")).unwrap().task_status(&named).unwrap();
    assert!(here().is_some(), "the step is still here");
    let away = first.catch_up(&id("7")).await.unwrap_err();
    assert!(away.is_passing() && away.message().contains("not taken back yet"), "{away}");
    store.faded.store(false, Ordering::SeqCst);
    first.catch_up(&id("7")).await.unwrap();
    assert_eq!(here(), None);
    first.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn operators_of_one_machine_that_miss_a_brain_at_once_all_find_it() {
    let (one, two) = (TempBrains::new(), TempBrains::new());
    let store = Arc::new(MemoryStore::new());
    drop(super::grown(&one, "7", 50));
    vault_of(store.clone(), key(1), "one").push(&one.layout(), &id("7")).await.unwrap();
    let running: Vec<_> = (0..4)
        .map(|number| {
            let harness = harness(&two, snapshotting(store.clone(), &format!("operator {number}")));
            tokio::spawn(async move {
                let done = harness.run(&id("7"), Task::new(format!("task {number}"))).await;
                harness.shutdown().await.unwrap();
                done
            })
        })
        .collect();
    for task in running {
        task.await.unwrap().unwrap();
    }
    assert_eq!(check_chain(&two, "7"), 55);
}
