//! There and back: the same brain, and only what changed on the way.

use std::sync::Arc;

use herm::brain::OnChanged;
use herm::memory::Fact;
use herm::receipt::check;
use herm::snapshot::store::{LocalStore, MemoryStore, ObjectName};
use herm::snapshot::{Encryption, Store};
use herm::{Draft, Reader, StepKind, Timestamp};
use herm_tests::TempBrains;
use proptest::prelude::*;

use super::{grown, how, id, key, step, vault, vault_of};

#[tokio::test]
async fn a_restored_brain_is_the_one_that_was_pushed_and_goes_on_from_there() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = grown(&here, "7", 200);
    let (_, vault) = vault();
    // While it is open, and its files are not flushed.
    let pushed = vault.push(&here.layout(), &id("7")).await.unwrap();
    assert!(pushed.moved && pushed.objects > 5, "{pushed:?}");
    assert_eq!((pushed.head.version, pushed.head.bundle_hash), (201, brain.lock().bundle_hash));

    let restored = vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!((restored.head, restored.receipts), (pushed.head, 201));
    let mut back = there.open("7").unwrap();
    assert_eq!(back.lock(), brain.lock());
    let report = back.verify().unwrap();
    assert!(report.is_sound() && report.stray.is_empty(), "{report:?}");
    assert_eq!(back.history(500).unwrap(), brain.history(500).unwrap());
    let undone = back.undo(199, OnChanged::Refuse).unwrap();
    assert!(undone.settled.is_some_and(|settled| settled.moved), "what is needed to undo has travelled");
    step(&mut back, 999);
    let tape: Vec<String> = back.receipts(1, u64::MAX).unwrap().into_iter().map(|kept| kept.envelope).collect();
    let checked = check(tape.iter().map(String::as_str), &how().trusted);
    assert!(checked.is_sound() && checked.receipts == 203, "{checked:?}");
    let old: Vec<String> = brain.receipts(1, u64::MAX).unwrap().into_iter().map(|kept| kept.envelope).collect();
    assert_eq!(tape[..201], old, "the new receipts extend the old chain");
    back.close().unwrap();
    assert!(Reader::open(&there.layout(), &id("7")).unwrap().receipt_log_is_whole().unwrap());
    step(&mut brain, 1_000);
}

#[tokio::test]
async fn the_same_brain_has_the_same_manifest_whoever_packs_it_and_however() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = grown(&here, "7", 40);
    let (_, one) = vault();
    one.push(&here.layout(), &id("7")).await.unwrap();
    for number in 41..60 {
        step(&mut brain, number);
        one.push(&here.layout(), &id("7")).await.unwrap();
    }
    let by_steps = one.head(&id("7")).await.unwrap().unwrap();
    let again = one.push(&here.layout(), &id("7")).await.unwrap();
    assert!(!again.moved && again.objects == 0, "{again:?}");
    // From nothing, in plain text, elsewhere, and from the restored copy.
    let plain = vault_of(Arc::new(MemoryStore::new()), Encryption::Plaintext, "another");
    let at_once = plain.push(&here.layout(), &id("7")).await.unwrap();
    assert_eq!(at_once.head.manifest, by_steps.manifest);
    one.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    let third = vault_of(Arc::new(MemoryStore::new()), key(9), "a third");
    assert_eq!(third.push(&there.layout(), &id("7")).await.unwrap().head.manifest, by_steps.manifest);
}

#[tokio::test]
async fn a_small_step_uploads_little_of_a_large_brain() {
    let here = TempBrains::new();
    let mut brain = grown(&here, "7", 1_500);
    let (_, vault) = vault();
    let first = vault.push(&here.layout(), &id("7")).await.unwrap();
    step(&mut brain, 2_000);
    let second = vault.push(&here.layout(), &id("7")).await.unwrap();
    assert!(first.objects > 50, "{first:?}");
    assert!(second.objects < 12 && second.bytes < 48 << 10, "{} objects of {} bytes", second.objects, second.bytes);
}

#[tokio::test]
async fn after_a_restore_the_next_push_sends_only_what_changed() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    drop(grown(&here, "7", 1_500));
    let (_, vault) = vault();
    let first = vault.push(&here.layout(), &id("7")).await.unwrap();
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    let mut brain = there.open("7").unwrap();
    let same = vault.push(&there.layout(), &id("7")).await.unwrap();
    assert!(!same.moved && same.objects == 0, "{same:?}");
    step(&mut brain, 2_000);
    let next = vault.push(&there.layout(), &id("7")).await.unwrap();
    assert!(first.objects > 50 && next.objects < 12, "{} objects, then {}", first.objects, next.objects);
    // What was taken over from the restore is what packing from nothing gives.
    let fresh = vault_of(Arc::new(MemoryStore::new()), key(3), "fresh");
    assert_eq!(fresh.push(&there.layout(), &id("7")).await.unwrap().head.manifest, next.head.manifest);
}

#[tokio::test]
async fn what_is_searched_is_found_where_a_large_brain_arrives() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = here.make("7");
    let mut draft = Draft::new();
    for number in 0..6_000 {
        let content = match number {
            4_000 => "缓存 in the middle of nowhere".to_owned(),
            _ => format!("remark {number} about quince{} {}", number % 7, "and so on ".repeat(20)),
        };
        let (task, role) = ("talk".to_owned(), herm::memory::MessageRole::User);
        draft.message(herm::memory::MessageEntry { task, subscriber: None, role, content, at: Timestamp(5) });
    }
    let fact = |key: &str, value: &str| Fact {
        subscriber: None,
        key: key.to_owned(),
        value: value.to_owned(),
        task: "talk".to_owned(),
        at: Timestamp(5),
    };
    draft.fact(fact("orchard", "full of medlars"));
    brain.settle(&draft, StepKind::Task, "a long talk").unwrap();
    brain.close().unwrap();
    let (_, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    let database = rusqlite::Connection::open(there.file("7", "memory.db")).unwrap();
    for index in ["messages_fts", "facts_fts", "task_log_fts"] {
        // With 1, the index is compared with the rows it is of.
        database.execute(&format!("INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)"), []).unwrap();
    }
    let count = |index: &str, words: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {index} WHERE {index} MATCH ?1");
        database.query_row(&query, [words], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("messages_fts", "quince3"), 856);
    assert_eq!((count("facts_fts", "medlar"), count("grams_fts", "缓存")), (1, 1));
    drop(database);
    // And the index grows from there.
    let mut back = there.open("7").unwrap();
    step(&mut back, 1);
    back.close().unwrap();
    let database = rusqlite::Connection::open(there.file("7", "memory.db")).unwrap();
    database.execute("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)", []).unwrap();
    assert!(!there.file("7", "index.db").exists());
}

#[tokio::test]
async fn a_directory_keeps_snapshots_and_nothing_in_it_tells_what_they_hold() {
    let (here, there, dir) = (TempBrains::new(), TempBrains::new(), tempfile::tempdir().unwrap());
    let brain = grown(&here, "7", 100);
    let store = Arc::new(LocalStore::open(dir.path()).unwrap());
    let vault = vault_of(store.clone(), key(1), "the test");
    vault.push(&here.layout(), &id("7")).await.unwrap();
    let objects = store.list(&ObjectName::new("brains").unwrap(), None).await.unwrap();
    assert!(objects.len() > 4);
    for object in objects {
        let bytes = store.get(&object.name, 1 << 30).await.unwrap().unwrap();
        for secret in [&b"a question"[..], b"test agent", b"skill-3"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", object.name);
        }
    }
    vault.restore(&there.layout(), &id("7"), &how()).await.unwrap();
    assert_eq!(there.open("7").unwrap().lock(), brain.lock());
}

#[tokio::test]
async fn an_earlier_version_can_be_restored() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    let mut brain = grown(&here, "7", 5);
    let (_, vault) = vault();
    vault.push(&here.layout(), &id("7")).await.unwrap();
    let then = brain.lock().clone();
    step(&mut brain, 77);
    vault.push(&here.layout(), &id("7")).await.unwrap();
    let mut earlier = how();
    earlier.version = Some(then.version);
    vault.restore(&there.layout(), &id("7"), &earlier).await.unwrap();
    assert_eq!(*there.open("7").unwrap().lock(), then);
    earlier.version = Some(3);
    let error = vault.restore(&TempBrains::new().layout(), &id("7"), &earlier).await.unwrap_err();
    assert_eq!(error.kind(), herm::ErrorKind::NotFound);
}

#[tokio::test]
async fn another_operator_key_wraps_the_same_key_and_no_snapshot_is_touched() {
    let (here, there) = (TempBrains::new(), TempBrains::new());
    drop(grown(&here, "7", 20));
    let store = Arc::new(MemoryStore::new());
    let old = vault_of(store.clone(), key(1), "old");
    old.push(&here.layout(), &id("7")).await.unwrap();
    let chunks = ObjectName::new("brains/7/chunk").unwrap();
    let before = store.list(&chunks, None).await.unwrap();
    old.rewrap(&id("7"), &herm::snapshot::OperatorKey::from_bytes([2; 32])).await.unwrap();
    assert_eq!(store.list(&chunks, None).await.unwrap(), before);
    let error = vault_of(store.clone(), key(1), "old").restore(&there.layout(), &id("7"), &how()).await.unwrap_err();
    assert_eq!(error.kind(), herm::ErrorKind::Refused);
    vault_of(store, key(2), "new").restore(&there.layout(), &id("7"), &how()).await.unwrap();
}

/// What can happen to a brain between two snapshots.
#[derive(Debug, Clone)]
enum Happens {
    Step,
    Fact(u8),
    Undo(u8),
    EditByHand(u8),
    Snapshot,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => Just(Happens::Step),
        3 => (0u8..20).prop_map(Happens::Fact),
        1 => any::<u8>().prop_map(Happens::Undo),
        1 => any::<u8>().prop_map(Happens::EditByHand),
        3 => Just(Happens::Snapshot),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_snapshot_by_steps_is_the_one_from_nothing(events in prop::collection::vec(happens(), 1..60)) {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let here = TempBrains::new();
        let mut brain = Some(grown(&here, "7", 150));
        let (_, vault) = vault();
        let mut number = 10_000;
        for event in events {
            number += 1;
            let open = brain.as_mut().unwrap();
            match event {
                Happens::Step => step(open, number),
                Happens::Fact(key) => {
                    let mut draft = Draft::new();
                    let value = format!("{number} ").repeat(usize::from(key) * 20 + 1);
                    let (key, task) = (format!("key {key}"), format!("fact-{number}"));
                    draft.fact(Fact { subscriber: None, key, value, task, at: Timestamp(5) });
                    open.settle(&draft, StepKind::Task, "noted").unwrap();
                }
                Happens::Undo(which) => {
                    let last = open.history(1).unwrap()[0].seq;
                    // What was changed again since stays; then nothing happens.
                    let _ = open.undo(2 + i64::from(which) % (last - 1), OnChanged::Refuse);
                }
                Happens::EditByHand(which) => {
                    brain.take().unwrap().close().unwrap();
                    let database = rusqlite::Connection::open(here.file("7", "memory.db")).unwrap();
                    let edit = "UPDATE messages SET content = content || ' by hand' WHERE id = ?1";
                    database.execute(edit, [i64::from(which) + 1]).unwrap();
                    drop(database);
                    let mut opening = here.opening();
                    opening.on_drift = herm::brain::OnDrift::Report;
                    let mut adopted = herm::Brain::open(&here.layout(), &id("7"), &opening).unwrap();
                    adopted.adopt().unwrap();
                    brain = Some(adopted);
                }
                Happens::Snapshot => {
                    executor.block_on(vault.push(&here.layout(), &id("7"))).unwrap();
                }
            }
        }
        let by_steps = executor.block_on(vault.push(&here.layout(), &id("7"))).unwrap();
        let fresh = vault_of(Arc::new(MemoryStore::new()), key(3), "fresh");
        let from_nothing = executor.block_on(fresh.push(&here.layout(), &id("7"))).unwrap();
        prop_assert_eq!(by_steps.head.manifest, from_nothing.head.manifest);
        let there = TempBrains::new();
        executor.block_on(vault.restore(&there.layout(), &id("7"), &how())).unwrap();
        let (back, brain) = (there.open("7").unwrap(), brain.unwrap());
        prop_assert_eq!(back.lock(), brain.lock());
    }
}
