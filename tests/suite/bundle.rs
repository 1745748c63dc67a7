//! The bundle hash: as the page defines it, the same however a brain came to be what it is.

use std::collections::BTreeMap;

use herm::bundle::rows::{Cell, ChunkHasher};
use herm::bundle::{BundlePart, PartDigests, Tree, file_leaf, rows};
use herm::memory::{Fact, MessageEntry, MessageRole, TaskEntry, TaskStatus};
use herm::skill::CreatedBy;
use herm::{Brain, Digest, Draft, RelPath, StepKind, SubscriberId};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};
use proptest::prelude::*;
use serde_json::Value;

type Hashes = BTreeMap<String, String>;

#[derive(Default)]
struct Vector {
    content: Hashes,
    leaves: Hashes,
    parts: Hashes,
    chunks: Hashes,
    groups: Hashes,
    tables: Hashes,
    root: String,
}

const TABLES: [(&str, &str); 5] = [
    ("skill_usage", "usage"),
    ("facts", "memory"),
    ("messages", "memory"),
    ("subscribers", "memory"),
    ("task_log", "memory"),
];

fn compute(files: &serde_json::Map<String, Value>, tables: &serde_json::Map<String, Value>) -> Vector {
    let mut vector = Vector::default();
    let mut tree = Tree::default();
    for (path, text) in files {
        let path: RelPath = path.parse().expect("a path");
        if BundlePart::of(path.as_str()).is_none() {
            continue;
        }
        let digest = Digest::of(text.as_str().expect("text").as_bytes());
        vector.content.insert(path.to_string(), digest.to_string());
        vector.leaves.insert(path.to_string(), file_leaf(&path, &digest).to_string());
        tree.set(&path, digest);
    }
    let mut part_tables: BTreeMap<&str, Vec<(&'static str, Digest)>> = BTreeMap::new();
    for (table, part) in TABLES {
        let none = Vec::new();
        let given = tables.get(table).map_or(&none, |rows| rows.as_array().expect("rows"));
        let mut chunks: BTreeMap<i64, ChunkHasher> = BTreeMap::new();
        for row in given {
            let cells = row.as_array().expect("cells");
            let chunk = cells[0].as_i64().expect("an id").div_euclid(256);
            let hasher = chunks.entry(chunk).or_insert_with(|| ChunkHasher::new(table, chunk));
            for cell in cells {
                hasher.cell(match cell {
                    Value::Null => Cell::Null,
                    Value::Number(number) => Cell::Integer(number.as_i64().expect("an integer")),
                    Value::String(text) => Cell::Text(text.as_bytes()),
                    other => panic!("{other} is no cell"),
                });
            }
        }
        let mut groups: BTreeMap<i64, Vec<(i64, Digest)>> = BTreeMap::new();
        for (chunk, hasher) in chunks {
            let digest = hasher.finish();
            vector.chunks.insert(format!("{table}/{chunk}"), digest.to_string());
            groups.entry(chunk.div_euclid(256)).or_default().push((chunk, digest));
        }
        let groups: Vec<_> = groups.into_iter().map(|(n, chunks)| (n, rows::group(table, n, chunks))).collect();
        for (n, digest) in &groups {
            vector.groups.insert(format!("{table}/{n}"), digest.to_string());
        }
        let digest = rows::table(table, groups);
        vector.tables.insert(table.to_owned(), digest.to_string());
        part_tables.entry(part).or_default().push((table, digest));
    }
    let parts = PartDigests {
        system: tree.part(BundlePart::System),
        layer1: tree.part(BundlePart::Layer1),
        skills: tree.part(BundlePart::Skills),
        patterns: tree.part(BundlePart::Patterns),
        usage: rows::part("usage", part_tables.remove("usage").expect("usage")),
        memory: rows::part("memory", part_tables.remove("memory").expect("memory")),
    };
    for part in BundlePart::ALL {
        vector.parts.insert(part.name().to_owned(), parts.get(part).to_string());
    }
    vector.root = parts.root().to_string();
    vector
}

#[test]
fn the_test_vectors_of_the_page_hold() {
    let text = include_str!("../data/bundle_vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).expect("the vectors");
    assert_eq!(vectors.len(), 3);
    for vector in vectors {
        let name = vector["name"].as_str().expect("a name");
        let expect = |what: &str| -> Hashes { serde_json::from_value(vector["expect"][what].clone()).expect(what) };
        let got = compute(vector["files"].as_object().expect("files"), vector["rows"].as_object().expect("rows"));
        assert_eq!(got.content, expect("content"), "{name}");
        assert_eq!(got.leaves, expect("leaves"), "{name}");
        assert_eq!(got.chunks, expect("chunks"), "{name}");
        assert_eq!(got.groups, expect("groups"), "{name}");
        assert_eq!(got.tables, expect("tables"), "{name}");
        assert_eq!(got.parts, expect("parts"), "{name}");
        assert_eq!(Value::from(got.root), vector["expect"]["root"], "{name}");
    }
}

/// The same vectors through a real directory and a real database.
#[test]
fn a_real_brain_with_the_vectors_content_has_the_vectors_hash() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../data/bundle_vectors.json")).expect("the vectors");
    for vector in vectors {
        let name = vector["name"].as_str().expect("a name");
        let brains = TempBrains::new();
        let source = tempfile::tempdir().expect("a directory");
        for (path, text) in vector["files"].as_object().expect("files") {
            let path = source.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text.as_str().expect("text")).expect("written");
        }
        let id = "1".parse().expect("an id");
        let from = herm::BrainSource::Directory { path: source.path(), expected: None };
        let (brain, _) = Brain::hydrate(&brains.layout(), &id, &from, &brains.opening()).expect("made");
        brain.close().expect("closed");
        let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        for (table, _) in TABLES {
            connection.execute(&format!("DELETE FROM {table}"), []).expect("emptied");
            for row in vector["rows"].get(table).and_then(Value::as_array).into_iter().flatten() {
                let cells: Vec<rusqlite::types::Value> = row
                    .as_array()
                    .expect("cells")
                    .iter()
                    .map(|cell| match cell {
                        Value::Null => rusqlite::types::Value::Null,
                        Value::Number(number) => number.as_i64().expect("an integer").into(),
                        other => other.as_str().expect("text").to_owned().into(),
                    })
                    .collect();
                let holes = vec!["?"; cells.len()].join(", ");
                let insert = format!("INSERT INTO {table} VALUES ({holes})");
                connection.execute(&insert, rusqlite::params_from_iter(cells)).expect("inserted");
            }
        }
        drop(connection);
        let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
        let mut brain = Brain::open(&brains.layout(), &id, &opening).expect("opened");
        brain.adopt().expect("adopted");
        assert_eq!(Value::from(brain.lock().bundle_hash.to_string()), vector["expect"]["root"], "{name}");
        assert!(brain.verify().expect("a report").is_sound(), "{name}");
    }
}

/// One change to a brain, small enough to shrink.
#[derive(Debug, Clone)]
enum Change {
    Write(u8, u8),
    Support(u8, u8),
    Archive(u8),
    Restore(u8),
    Pin(u8, bool),
    Remember(u8),
    Say(u8, u8),
    Note(u8, u8),
    Log(u16),
    Flush,
    Reopen,
}

fn change() -> impl Strategy<Value = Change> {
    let skill = 0..6_u8;
    prop_oneof![
        (skill.clone(), any::<u8>()).prop_map(|(s, c)| Change::Write(s, c)),
        (skill.clone(), any::<u8>()).prop_map(|(s, c)| Change::Support(s, c)),
        skill.clone().prop_map(Change::Archive),
        skill.clone().prop_map(Change::Restore),
        (skill, any::<bool>()).prop_map(|(s, p)| Change::Pin(s, p)),
        any::<u8>().prop_map(Change::Remember),
        (0..3_u8, any::<u8>()).prop_map(|(w, c)| Change::Say(w, c)),
        (0..4_u8, any::<u8>()).prop_map(|(k, c)| Change::Note(k, c)),
        any::<u16>().prop_map(Change::Log),
        Just(Change::Flush),
        Just(Change::Reopen),
    ]
}

fn put(brain: &Brain, draft: &mut Draft, change: &Change) {
    let name = |n: &u8| slug(&format!("skill-{n}"));
    let at = brain.clock().now();
    let who = |n: u8| format!("user-{n}").parse::<SubscriberId>().expect("a subscriber").digest();
    // A refused change is part of the game: it must leave the draft as it was.
    let _ = match change {
        Change::Write(n, content) => {
            let text = skill_text(name(n).as_str(), &format!("content {content}"));
            let mut editor = brain.edit(draft);
            editor
                .edit_skill(&name(n), &text)
                .or_else(|_| editor.create_skill(&name(n), &text, CreatedBy::Agent))
                .map(drop)
        }
        Change::Support(n, content) => {
            brain.edit(draft).write_skill_file(&name(n), "references/r.md", vec![*content; 9]).map(drop)
        }
        Change::Archive(n) => brain.edit(draft).archive_skill(&name(n)),
        Change::Restore(n) => brain.edit(draft).restore_skill(&name(n)).map(drop),
        Change::Pin(n, pinned) => brain.edit(draft).pin_skill(&name(n), *pinned),
        Change::Remember(n) => {
            let edit = herm::memory::layers::LayerEdit::Add { content: format!("fact {n}") };
            brain.edit(draft).edit_layer(herm::brain::MemoryLayer::Memory, &[edit])
        }
        Change::Say(n, content) => {
            let subscriber = (*n > 0).then(|| who(*n));
            let content = format!("said {content} 缓存");
            draft.message(MessageEntry { task: "t".into(), subscriber, role: MessageRole::User, content, at });
            Ok(())
        }
        Change::Note(n, content) => {
            let (key, value) = (format!("key {n}"), format!("value {content}"));
            draft.fact(Fact { subscriber: None, key, value, task: "t".into(), at });
            Ok(())
        }
        Change::Log(n) => {
            let summary = format!("summary {n}");
            draft.task(TaskEntry {
                task: format!("task {n}"),
                subscriber: None,
                outcome: TaskStatus::Converged,
                summary,
                at,
            });
            Ok(())
        }
        Change::Flush | Change::Reopen => Ok(()),
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_incremental_hash_is_the_full_one_after_any_changes(changes in prop::collection::vec(change(), 1..24)) {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        for change in &changes {
            match change {
                Change::Flush => brain.flush().expect("flushed"),
                Change::Reopen => {
                    brain.close().expect("closed");
                    brain = brains.open("1").expect("opened");
                }
                _ => {
                    let mut draft = Draft::new();
                    put(&brain, &mut draft, change);
                    // The same task twice in the log is refused; the brain must then be unmoved.
                    let before = brain.lock().clone();
                    if brain.settle(&draft, StepKind::Task, "change").is_err() {
                        prop_assert_eq!(brain.lock(), &before);
                    }
                }
            }
            let report = brain.verify().expect("a report");
            prop_assert!(report.is_sound(), "{:?} after {:?}", report, change);
        }
    }
}

fn some_steps(brains: &TempBrains) -> Brain {
    let mut brain = brains.make("1");
    for n in 0..5 {
        let mut draft = Draft::new();
        for change in [Change::Write(n, n), Change::Say(n % 3, n), Change::Note(n, n), Change::Pin(n, true)] {
            put(&brain, &mut draft, &change);
        }
        brains.clock.advance_ms(1_000);
        brain.settle(&draft, StepKind::Task, "step").expect("settled");
    }
    brain
}

#[test]
fn same_brain_same_steps_same_clock_same_bytes() {
    let locks: Vec<(Vec<u8>, Vec<u8>)> = (0..2)
        .map(|_| {
            let brains = TempBrains::new();
            some_steps(&brains).close().expect("closed");
            let read = |path| std::fs::read(brains.file("1", path)).expect("a file");
            (read("bundle.lock.json"), read("skills/.usage.json"))
        })
        .collect();
    assert_eq!(locks[0], locks[1]);
    let text = String::from_utf8(locks[0].0.clone()).expect("UTF-8");
    assert!(text.contains("\"lastUpdated\": \"2026-01-02T03:04:10.000Z\""), "{text}");
}

#[test]
fn page_layout_and_vacuum_do_not_move_the_hash() {
    let brains = TempBrains::new();
    let brain = some_steps(&brains);
    let before = brain.lock().bundle_hash;
    brain.close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    connection.execute_batch("PRAGMA journal_mode = DELETE; VACUUM; REINDEX;").expect("vacuumed");
    drop(connection);
    let brain = brains.open("1").expect("opened");
    let report = brain.verify().expect("a report");
    assert!(report.is_sound());
    assert_eq!(report.computed, before);
}

#[test]
fn what_does_not_change_anything_makes_no_version() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut draft = Draft::new();
    put(&brain, &mut draft, &Change::Write(1, 1));
    let first = brain.settle(&draft, StepKind::Task, "one").expect("settled");
    assert!(first.moved && first.parts == [BundlePart::Skills, BundlePart::Usage]);
    let text = brain.skill_text(&slug("skill-1")).expect("a text");
    let mut same = Draft::new();
    herm::skill::Files::write(
        &mut brain.edit(&mut same),
        "skills/skill-1.md".parse().expect("a path"),
        text.into_bytes(),
    );
    let second = brain.settle(&same, StepKind::Task, "the same").expect("settled");
    assert!(!second.moved && second.version == first.version && second.after == first.after);
    assert_eq!(brain.history(10).expect("history").len(), 2);
}
