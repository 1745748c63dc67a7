//! A brain has one owner at a time, is made whole or not at all, and is never overwritten.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use herm::brain::{HydrateOutcome, MemoryLayer, OnDrift};
use herm::memory::layers::LayerEdit;
use herm::memory::{MessageEntry, MessageRole};
use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, ErrorKind, Reader, Seed, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{seed_files, skill_text, slug};

use crate::CHILD;

fn settle(brain: &mut Brain, change: impl FnOnce(&mut herm::brain::Editor<'_>) -> herm::Result<()>) {
    let mut draft = Draft::new();
    change(&mut brain.edit(&mut draft)).expect("a change");
    brain.settle(&draft, StepKind::Maintenance, "a change").expect("settled");
}

#[test]
fn a_second_process_waits_and_is_then_told_who_holds_the_brain() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let mut holder =
        Command::new(CHILD).arg("hold").arg(brains.path()).stdout(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().expect("output")).read_line(&mut line).expect("a line");
    let opening = BrainOptions { wait: Duration::from_millis(30), ..brains.opening() };
    let error = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect_err("held");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains(&format!("process {}", holder.id())), "{error}");
    // Looking needs no lock.
    assert_eq!(Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader").lock().version, 1);
    holder.kill().expect("killed");
    holder.wait().expect("gone");
    brains.open("1").expect("free again");
}

#[test]
fn the_same_process_cannot_own_a_brain_twice() {
    let brains = TempBrains::new();
    let _first = brains.make("1");
    let opening = BrainOptions { wait: Duration::ZERO, ..brains.opening() };
    let error = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect_err("held");
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn a_seed_is_copied_once_and_never_over_what_the_brain_became() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let improved = skill_text("flat-one", "Improved by the agent.");
    settle(&mut brain, |editor| editor.edit_skill(&slug("flat-one"), &improved).map(drop));
    settle(&mut brain, |editor| editor.archive_skill(&slug("dir-one")));
    let before = brain.lock().clone();
    brain.close().expect("closed");

    let files = seed_files();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    let id: BrainId = "1".parse().expect("an id");
    let source = BrainSource::Seed(Seed { id: &id, files: &files });
    let (mut brain, hydrated) = Brain::hydrate(&brains.layout(), &id, &source, &brains.opening()).expect("a brain");
    assert_eq!(hydrated, HydrateOutcome::Present);
    assert_eq!(brain.lock(), &before);
    assert_eq!(brain.skill_text(&slug("flat-one")).expect("a text"), improved);
    assert!(brain.skills().expect("an index").get(&slug("dir-one")).is_none(), "the archived one stays archived");
}

fn manifest(expected: Option<&str>) -> Vec<u8> {
    let mut manifest = serde_json::json!({
        "schema": "herm/manifest@1",
        "name": "TINY",
        "tools": ["recall", "scan"],
        "files": { "system.md": "You are tiny.\n", "skills/one.md": skill_text("one", "Do one.") },
    });
    if let Some(expected) = expected {
        manifest["expectedHash"] = expected.into();
    }
    serde_json::to_vec(&manifest).expect("JSON")
}

#[test]
fn a_manifest_is_checked_against_its_hash_and_a_mismatch_writes_nothing() {
    let brains = TempBrains::new();
    let id: BrainId = "5".parse().expect("an id");
    let hydrate = |json: &[u8]| {
        Brain::hydrate(&brains.layout(), &id, &BrainSource::Manifest { json, expected: None }, &brains.opening())
    };
    let wrong = "0".repeat(64);
    let error = hydrate(&manifest(Some(&wrong))).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Refused);
    let left: Vec<_> = std::fs::read_dir(brains.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .filter(|name| name != ".locks")
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let (brain, _) = hydrate(&manifest(None)).expect("a brain");
    let hash = brain.lock().bundle_hash;
    brain.close().expect("closed");
    let reader = Reader::open(&brains.layout(), &id).expect("a reader");
    let tools = reader.manifest().expect("a manifest").expect("there is one").tools.expect("tools");
    assert_eq!(tools, ["recall", "scan"]);

    // The same bundle has the same hash on another day, and a directory of the same files too.
    let other = TempBrains::new();
    other.clock.advance_ms(86_400_000);
    let json = manifest(Some(&hash.to_string()));
    let source = BrainSource::Manifest { json: &json, expected: None };
    let (brain, _) =
        Brain::hydrate(&other.layout(), &"6".parse().expect("an id"), &source, &other.opening()).expect("made");
    assert_eq!(brain.lock().bundle_hash, hash);
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("skills")).expect("a directory");
    for path in ["system.md", "skills/one.md", "manifest.json"] {
        std::fs::copy(brains.file("5", path), dir.path().join(path)).expect("copied");
    }
    let source = BrainSource::Directory { path: dir.path(), expected: Some(hash) };
    let (brain, _) =
        Brain::hydrate(&other.layout(), &"7".parse().expect("an id"), &source, &other.opening()).expect("made");
    assert_eq!(brain.lock().bundle_hash, hash);
}

#[test]
fn hostile_manifests_are_refused() {
    let brains = TempBrains::new();
    let cases = [
        ("a path that leaves", r#"{"schema":"herm/manifest@1","name":"X","files":{"../x":"y"}}"#),
        ("an absolute path", r#"{"schema":"herm/manifest@1","name":"X","files":{"/etc/x":"y"}}"#),
        ("a path twice", r#"{"schema":"herm/manifest@1","name":"X","files":{"system.md":"a","system.md":"b"}}"#),
        (
            "its own lock",
            r#"{"schema":"herm/manifest@1","name":"X","files":{"system.md":"a","bundle.lock.json":"{}"}}"#,
        ),
        ("a database", r#"{"schema":"herm/manifest@1","name":"X","files":{"system.md":"a","memory.db":"x"}}"#),
        ("a stray file", r#"{"schema":"herm/manifest@1","name":"X","files":{"system.md":"a","notes.txt":"x"}}"#),
        ("no role", r#"{"schema":"herm/manifest@1","name":"X","files":{}}"#),
        ("another format", r#"{"schema":"herm/manifest@9","name":"X","files":{"system.md":"a"}}"#),
        ("an unknown field", r#"{"schema":"herm/manifest@1","name":"X","files":{"system.md":"a"},"run":"sh"}"#),
        ("a strange tool", r#"{"schema":"herm/manifest@1","name":"X","tools":["a b"],"files":{"system.md":"a"}}"#),
        ("not JSON", "{"),
    ];
    for (what, json) in cases {
        let source = BrainSource::Manifest { json: json.as_bytes(), expected: None };
        let error =
            Brain::hydrate(&brains.layout(), &"9".parse().expect("an id"), &source, &brains.opening()).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{what}: {error}");
        assert!(!brains.path().join("9").exists(), "{what}");
    }
}

#[test]
fn edits_by_hand_are_named_refused_and_can_be_adopted() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let skill = brains.file("1", "skills/flat-one.md");
    let edited = skill_text("flat-one", "Edited by hand.");
    std::fs::write(&skill, &edited).expect("edited");
    std::fs::write(brains.file("1", "skills/new-one.md"), skill_text("new-one", "x")).expect("added");
    std::fs::remove_file(brains.file("1", "patterns/p.md")).expect("removed");

    let error = brains.open("1").expect_err("drift");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    for named in ["changed: skills/flat-one.md", "added: skills/new-one.md", "removed: patterns/p.md"] {
        assert!(error.message().contains(named), "{error}");
    }
    let opening = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("reported");
    assert!(brain.settle(&Draft::new(), StepKind::Task, "x").is_err(), "nothing settles on top of drift");
    let settled = brain.adopt().expect("adopted").expect("moved");
    assert_eq!((settled.version, settled.files.len()), (2, 3));
    assert!(brain.verify().expect("a report").is_sound());
    brain.close().expect("closed");
    let mut brain = brains.open("1").expect("open again");
    assert_eq!(brain.skill_text(&slug("flat-one")).expect("a text"), edited);
    assert_eq!(brain.history(1).expect("history")[0].kind, StepKind::Adopt);
}

#[test]
fn a_summary_does_not_say_what_kind_a_step_is() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    for (kind, summary) in [
        (StepKind::Maintenance, "patch: tidy up"),
        (StepKind::Maintenance, "curator: by hand"),
        (StepKind::Import, "adopted 2 files"),
    ] {
        let mut draft = Draft::new();
        let at = brain.clock().now();
        draft.message(MessageEntry {
            task: "t".into(),
            subscriber: None,
            role: MessageRole::User,
            content: summary.into(),
            at,
        });
        assert!(brain.settle(&draft, kind, summary).expect("settled").moved);
        assert_eq!(brain.history(1).expect("history")[0].kind, kind, "{summary}");
    }
    assert!(brain.verify().expect("a report").is_sound());
}

#[test]
fn an_edit_while_the_brain_is_open_is_noticed_when_the_file_is_used() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    brain.skills().expect("an index");
    std::fs::write(brains.file("1", "skills/flat-one.md"), skill_text("flat-one", "Swapped.")).expect("edited");
    let error = brain.skill_text(&slug("flat-one")).expect_err("noticed");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut draft = Draft::new();
    let error = brain.edit(&mut draft).patch_skill(&slug("flat-one"), None, "Swapped", "x").expect_err("noticed");
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn adopting_row_changes_makes_them_searchable_and_a_lost_role_is_refused() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    connection
        .execute("INSERT INTO facts (id, scope, key, value, task, at) VALUES (-3, 0, 'k', 'planted fact', 't', 0)", [])
        .expect("inserted");
    drop(connection);
    let opening = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let open = || Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    let mut brain = open();
    let report = brain.verify().expect("a report");
    assert!(!report.is_sound() && report.drift.tables == ["facts"]);
    assert!(brain.adopt().expect("adopted").is_some());
    assert!(brain.verify().expect("a report").is_sound());
    let wanted = herm::memory::Search {
        text: "planted",
        scope: herm::memory::SearchScope::Operator,
        except_task: None,
        limit: 5,
        now: brain.clock().now(),
        weights: Default::default(),
    };
    assert_eq!(brain.search(&wanted).expect("found").hits.len(), 1);
    brain.close().expect("closed");

    std::fs::remove_file(brains.file("1", "system.md")).expect("removed");
    let error = open().adopt().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Refused);
}

#[test]
fn a_lost_or_garbled_lock_file_is_written_again() {
    let brains = TempBrains::new();
    let brain = brains.make("1");
    let bytes = brain.lock().to_bytes().expect("bytes");
    brain.close().expect("closed");
    let path = brains.file("1", "bundle.lock.json");
    std::fs::remove_file(&path).expect("removed");
    brains.open("1").expect("opened").close().expect("closed");
    assert_eq!(std::fs::read(&path).expect("a lock"), bytes);

    std::fs::write(&path, "not JSON").expect("written");
    assert_eq!(brains.open("1").expect_err("refused").kind(), ErrorKind::Corrupt);
    let opening = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("reported");
    assert!(brain.adopt().expect("adopted").is_none(), "the content is what it was");
    brain.close().expect("closed");
    assert_eq!(std::fs::read(&path).expect("a lock"), bytes);
}

#[test]
fn a_verify_after_an_open_sees_the_same_files() {
    let brains = TempBrains::new();
    let brain = brains.make("1");
    for _ in 0..3 {
        let report = brain.verify().expect("a report");
        assert!(report.is_sound() && report.files == seed_files().len(), "{report:?}");
    }
}

#[test]
fn a_young_file_changed_in_the_same_tick_is_still_noticed() {
    // Same size, and as close in time as it gets: the cache must not trust what is too young.
    for n in 0..20 {
        let brains = TempBrains::new();
        brains.make("1").close().expect("closed");
        let path = brains.file("1", "MEMORY.md");
        let text = std::fs::read_to_string(&path).expect("a layer");
        std::fs::write(&path, text.replace("first", &format!("f{n:04}"))).expect("edited");
        assert!(brains.open("1").is_err(), "round {n}");
    }
}

#[test]
fn history_keeps_the_content_of_every_version() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    for n in 0..3 {
        settle(&mut brain, |editor| {
            editor.edit_skill(&slug("flat-one"), &skill_text("flat-one", &format!("v{n}"))).map(drop)
        });
    }
    brain.close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    let lost: i64 = connection
        .query_row(
            "SELECT count(*) FROM changes WHERE (before IS NOT NULL AND before NOT IN (SELECT digest FROM blobs)) \
             OR (after IS NOT NULL AND after NOT IN (SELECT digest FROM blobs))",
            [],
            |row| row.get(0),
        )
        .expect("a count");
    assert_eq!(lost, 0);
}

#[test]
fn layer_one_is_capped_all_or_nothing_and_per_subscriber() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let alice: herm::SubscriberId = "alice@example.com".parse().expect("a subscriber");
    let layer = MemoryLayer::Subscriber(alice.digest());
    settle(&mut brain, |editor| editor.edit_layer(layer, &[LayerEdit::Add { content: "likes tea".into() }]));
    let path = format!("users/{}.md", alice.digest());
    assert_eq!(std::fs::read_to_string(brains.file("1", &path)).expect("a layer"), "- likes tea\n");
    let mut draft = Draft::new();
    let both = [LayerEdit::Add { content: "new".into() }, LayerEdit::Remove { find: "absent".into() }];
    assert!(brain.edit(&mut draft).edit_layer(MemoryLayer::Memory, &both).is_err());
    assert!(draft.is_empty());
    brain.close().expect("closed");
    std::fs::write(brains.file("1", "MEMORY.md"), [0xff, 0xfe]).expect("written");
    let opening = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    brain.adopt().expect("adopted");
    let mut draft = Draft::new();
    let error = brain.edit(&mut draft).layer(MemoryLayer::Memory).expect_err("unreadable is not empty");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_file_someone_put_there_is_not_overwritten() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let path = brains.file("1", "skills/wanted.md");
    std::fs::write(&path, "made by hand").expect("written");
    let mut draft = Draft::new();
    let text = skill_text("wanted", "By the agent.");
    brain.edit(&mut draft).create_skill(&slug("wanted"), &text, herm::skill::CreatedBy::Agent).expect("a change");
    let error = brain.settle(&draft, StepKind::Task, "x").expect_err("in the way");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "made by hand");
    assert_eq!(brain.lock().version, 1);
}

#[test]
fn what_stands_in_the_way_of_a_file_is_found_before_the_commit() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    std::fs::write(brains.file("1", "users"), "a file where a directory belongs").expect("written");
    let alice: herm::SubscriberId = "alice".parse().expect("a subscriber");
    let mut draft = Draft::new();
    let edit = [LayerEdit::Add { content: "x".into() }];
    brain.edit(&mut draft).edit_layer(MemoryLayer::Subscriber(alice.digest()), &edit).expect("a change");
    assert_eq!(brain.settle(&draft, StepKind::Task, "x").expect_err("refused").kind(), ErrorKind::Refused);
    assert_eq!(brain.lock().version, 1);
    brain.close().expect("closed");
    brains.open("1").expect("opens as before");
}

#[test]
fn a_link_in_place_of_herms_own_directory_is_refused_and_not_followed() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(outside.path().join("tmp")).expect("a directory");
    std::fs::write(outside.path().join("tmp/precious"), "x").expect("written");
    std::fs::remove_dir_all(brains.file("1", ".herm")).expect("removed");
    std::os::unix::fs::symlink(outside.path(), brains.file("1", ".herm")).expect("linked");
    assert_eq!(brains.open("1").expect_err("refused").kind(), ErrorKind::Refused);
    assert!(outside.path().join("tmp/precious").exists());
    let locks = TempBrains::new();
    std::fs::create_dir(locks.path().join(".locks")).expect("a directory");
    std::fs::write(locks.path().join("victim"), "precious").expect("written");
    std::os::unix::fs::symlink(locks.path().join("victim"), locks.path().join(".locks/1.lock")).expect("linked");
    let id: BrainId = "1".parse().expect("an id");
    let seed = Seed { id: &id, files: &[("system.md", b"x")] };
    let made = Brain::hydrate(&locks.layout(), &id, &BrainSource::Seed(seed), &locks.opening());
    assert_eq!(made.expect_err("refused").kind(), ErrorKind::Refused);
    assert_eq!(std::fs::read_to_string(locks.path().join("victim")).expect("there"), "precious");
}

#[test]
fn an_edit_after_a_crash_is_drift_and_not_undone() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, |editor| editor.edit_skill(&slug("flat-one"), &skill_text("flat-one", "settled")).map(drop));
    // Dropped without being closed: as after a kill.
    drop(brain);
    let path = brains.file("1", "skills/flat-one.md");
    let edited = skill_text("flat-one", "by hand");
    std::fs::write(&path, &edited).expect("edited");
    Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), edited);
    assert_eq!(brains.open("1").expect_err("drift").kind(), ErrorKind::Corrupt);
    // A torn file, in contrast, is repaired.
    std::fs::write(&path, &skill_text("flat-one", "settled").as_bytes()[..20]).expect("torn");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    connection.execute("UPDATE state SET flushed = 1", []).expect("as before the recovery");
    drop(connection);
    let mut brain = brains.open("1").expect("repaired");
    assert!(brain.skill_text(&slug("flat-one")).expect("a text").contains("settled"));
}

#[test]
fn who_may_read_a_file_stays_as_it_was() {
    use std::os::unix::fs::PermissionsExt as _;
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let path = brains.file("1", "MEMORY.md");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    settle(&mut brain, |editor| editor.edit_layer(MemoryLayer::Memory, &[LayerEdit::Add { content: "x".into() }]));
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_hostile_database_is_refused_before_it_can_do_anything() {
    let hostile = [
        "CREATE TRIGGER t AFTER UPDATE ON state BEGIN DELETE FROM facts; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE extra (x)",
        "ALTER TABLE facts RENAME TO old; CREATE VIEW facts AS SELECT * FROM old",
        "DROP TABLE task_log",
        "UPDATE state SET flushed = 9223372036854775807",
        "UPDATE state SET lock = '{}'",
        "INSERT INTO changes (seq, path, before, after) VALUES (2, 'memory.db', NULL, x'00'); \
         INSERT INTO steps (kind, summary, at, version, after) VALUES ('task', 'x', 0, 2, 'x')",
        "PRAGMA user_version = 0",
    ];
    for statement in hostile {
        let brains = TempBrains::new();
        brains.make("1").close().expect("closed");
        let path = brains.file("1", "memory.db");
        let connection = rusqlite::Connection::open(&path).expect("opened");
        connection.execute_batch(statement).expect(statement);
        drop(connection);
        let before = std::fs::read(&path).expect("memory.db");
        let error = brains.open("1").expect_err(statement);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{statement}: {error}");
        assert!(error.hint_text().is_some(), "{statement}");
        assert_eq!(std::fs::read(&path).expect("memory.db"), before, "{statement}");
    }
}

#[test]
fn a_missing_index_is_made_again_and_lost_file_lists_are_adopted() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let run = |statement: &str| {
        let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        connection.execute_batch(statement).expect(statement);
    };
    for lost in ["DROP TABLE facts_fts", "DROP TABLE facts_fts_config", "DROP TABLE messages_fts_data"] {
        run(lost);
        brains.open("1").expect(lost).close().expect("closed");
    }
    run("DELETE FROM facts_fts_config");
    let mut brain = brains.open("1").expect("opens");
    let mut draft = Draft::new();
    let at = brain.clock().now();
    draft.fact(herm::memory::Fact { subscriber: None, key: "k".into(), value: "v".into(), task: "t".into(), at });
    brain.settle(&draft, StepKind::Task, "over a lost index").expect("healed and settled");
    brain.close().expect("closed");
    run("DELETE FROM entries");
    let opening = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    assert!(!brain.verify().expect("a report").is_sound());
    brain.adopt().expect("adopted");
    assert!(brain.verify().expect("a report").is_sound());
}

#[test]
fn damaged_history_does_not_stop_a_step_and_is_put_right_by_it() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, |editor| editor.archive_skill(&slug("dir-one")));
    settle(&mut brain, |editor| editor.restore_skill(&slug("dir-one")).map(drop));
    brain.close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    let of_the_skill = "UPDATE blobs SET content = x'00' WHERE digest IN (SELECT digest FROM entries WHERE path LIKE 'skills/dir-one/%')";
    assert_eq!(connection.execute(of_the_skill, []).expect("damaged"), 2);
    drop(connection);
    let mut brain = brains.open("1").expect("opened");
    assert_eq!(brain.verify().expect("a report").journal.wrong.len(), 2);
    settle(&mut brain, |editor| editor.archive_skill(&slug("dir-one")));
    brain.close().expect("closed");
    let brain = brains.open("1").expect("open again");
    assert!(brain.verify().expect("a report").is_sound());
}

/// Several versions of a file may be unsynced at once; a power cut may leave a piece of any of them.
#[test]
fn a_torn_piece_of_a_version_in_between_is_repaired() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let path = brains.file("1", "skills/flat-one.md");
    for body in ["first ".repeat(2_000), "second ".repeat(2_000)] {
        let mut draft = Draft::new();
        brain.edit(&mut draft).edit_skill(&slug("flat-one"), &skill_text("flat-one", &body)).expect("edited");
        brain.settle(&draft, StepKind::Maintenance, "edited").expect("settled");
        if body.starts_with("first") {
            std::fs::copy(&path, brains.path().join("piece")).expect("copied");
        }
    }
    let last = std::fs::read(&path).expect("read");
    // As after a cut: the process is gone without closing, and the file is a piece of the first edit.
    drop(brain);
    let piece = std::fs::read(brains.path().join("piece")).expect("read");
    std::fs::write(&path, &piece[..4_096]).expect("written");
    let brain = brains.open("1").expect("repaired");
    assert_eq!(std::fs::read(&path).expect("read"), last);
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn a_brain_set_aside_is_whole_for_whoever_comes_next_and_still_to_be_flushed() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let text = |n: u32| skill_text("flat-one", &format!("version {n}"));
    settle(&mut brain, |editor| editor.edit_skill(&slug("flat-one"), &text(1)).map(drop));
    brain.close_unsynced().expect("aside");

    let mut brain = brains.open("1").expect("open");
    assert_eq!((brain.steps_since_flush(), brain.lock().version), (1, 2), "not synced by anyone yet");
    assert_eq!(brain.skill_text(&slug("flat-one")).expect("a text"), text(1));
    settle(&mut brain, |editor| editor.edit_skill(&slug("flat-one"), &text(2)).map(drop));
    brain.close_unsynced().expect("aside");

    // A power cut takes what was not synced: the file is empty, the lock is that of before.
    let path = brains.layout().brain(&"1".parse().expect("an id"));
    std::fs::write(path.join("skills/flat-one.md"), "").expect("torn");
    std::fs::remove_file(path.join("bundle.lock.json")).expect("lost");
    std::fs::write(path.join("receipts.ndjson"), vec![0_u8; 10]).expect("torn");
    let mut brain = brains.open("1").expect("repaired");
    assert_eq!((brain.steps_since_flush(), brain.lock().version), (0, 3), "repaired, and synced at once");
    assert_eq!(brain.skill_text(&slug("flat-one")).expect("a text"), text(2));
    assert!(brain.verify().expect("checked").is_sound());

    // After so many steps even being set aside makes it durable, and a reader never waits for that.
    for n in 3..40 {
        settle(&mut brain, |editor| editor.edit_skill(&slug("flat-one"), &text(n)).map(drop));
        brain.close_unsynced().expect("aside");
        brain = brains.open("1").expect("open");
        assert!(brain.steps_since_flush() < herm::brain::STEPS_BETWEEN_FLUSHES, "at step {n}");
    }
    brain.close().expect("closed");
    let reader = Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader");
    assert!(reader.receipt_log_is_whole().expect("read") && reader.lock().version == 40);
}
