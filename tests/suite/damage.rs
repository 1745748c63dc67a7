//! Damage that no step made: a log that lost its end, rows and journals that someone changed. Nothing of it is silent,
//! and nothing of it is signed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use herm::brain::{BrainSource, LogState, OnChanged, OnDrift, OnLoss, Seed, examine, examine_with};
use herm::memory::{Fact, MessageEntry, MessageRole, TaskEntry, TaskStatus};
use herm::receipt::{Envelope, TrustedKeys, check, repair};
use herm::{Brain, BrainId, BrainOptions, Draft, ErrorKind, Layout, Reader, StepKind, Timestamp};
use herm_tests::brains::{seed_files, skill_text, slug};
use herm_tests::{Herm, TempBrains, signer};
use serde_json::json;

use crate::lost_steps::with_key;
use crate::{HERM, first_edition};

pub(crate) const LOG: &str = "memory.db-wal";

pub(crate) fn id() -> BrainId {
    "1".parse().expect("an id")
}

/// A step with a file, messages, a fact and a line of the log, as a task makes it.
pub(crate) fn settle(brain: &mut Brain, n: u32) {
    let mut draft = Draft::new();
    let text = skill_text("flat-one", &format!("The text of step {n}."));
    brain.edit(&mut draft).edit_skill(&slug("flat-one"), &text).expect("an edit");
    let (task, at) = (format!("t{n}"), Timestamp(i64::from(n)));
    for (role, content) in
        [(MessageRole::User, format!("question {n}")), (MessageRole::Assistant, format!("answer {n}"))]
    {
        draft.message(MessageEntry { task: task.clone(), subscriber: None, role, content, at });
    }
    draft.fact(Fact { subscriber: None, key: "k".into(), value: n.to_string(), task: task.clone(), at });
    draft.task(TaskEntry { task, subscriber: None, outcome: TaskStatus::Converged, summary: format!("s{n}"), at });
    assert!(brain.settle(&draft, StepKind::Task, &format!("step {n}")).expect("settled").moved);
}

/// Copies a brain as it stands on the disk, while someone may have it open.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            // SQLite makes it again from the log.
            false if entry.file_name() == "memory.db-shm" => {}
            false => drop(std::fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// Everything that stands in a brain, byte for byte.
pub(crate) fn bytes(brain: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![brain.to_owned()];
    while let Some(at) = todo.pop() {
        for path in std::fs::read_dir(at).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            match path.is_dir() {
                true => todo.push(path),
                false if path.ends_with("memory.db-shm") => {}
                false => drop(found.insert(path.clone(), std::fs::read(path).expect("a file"))),
            }
        }
    }
    found
}

/// A brain whose log holds six steps, as a power cut would leave it.
pub(crate) fn crashed() -> TempBrains {
    let (brains, crashed) = (TempBrains::new(), TempBrains::new());
    brains.make("1").close().expect("closed");
    let mut brain = brains.open("1").expect("opened");
    (2..8).for_each(|n| settle(&mut brain, n));
    copy(&brains.file("1", ""), &crashed.file("1", ""));
    assert!(std::fs::metadata(crashed.file("1", LOG)).expect("a log").len() > 100_000);
    brain.close().expect("closed");
    crashed
}

pub(crate) fn trusted() -> TrustedKeys {
    TrustedKeys::Keys(vec![signer().public().clone()])
}

/// The chain in `receipts.ndjson` holds and ends where the brain is.
pub(crate) fn sound(brains: &TempBrains) {
    let examined = examine(&brains.layout(), &id(), Duration::ZERO).expect("examined");
    assert!(examined.report.is_sound(), "{:?}", examined.report);
    let log = std::fs::read_to_string(brains.file("1", "receipts.ndjson")).expect("receipts");
    let checked = check(log.lines(), &trusted());
    assert!(checked.is_sound(), "{checked:?}");
    assert_eq!((checked.version, checked.after), (examined.lock.version, Some(examined.lock.bundle_hash.to_string())));
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).expect("a number")).expect("a number")
    }
}

/// Damages a log somewhere, in one of several ways.
fn damage(log: &mut Vec<u8>, random: &mut Random) -> String {
    let at = random.below(log.len());
    match random.below(4) {
        0 | 1 => {
            let bit = random.below(8);
            log[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        2 => {
            log.truncate(at);
            format!("cut to {at}")
        }
        _ => {
            let end = (at + 4_096).min(log.len());
            log[at..end].fill(0);
            format!("zeros from {at} to {end}")
        }
    }
}

/// The same, written by the first edition and cut off in its server.
pub(crate) fn cut_first_edition() -> TempBrains {
    let brains = TempBrains::new();
    first_edition::unpack("cut.tar.gz", &brains.path());
    assert!(std::fs::metadata(brains.file("1", LOG)).expect("a log").len() > 100_000);
    brains
}

#[test]
fn of_three_hundred_damaged_logs_none_undoes_a_step_in_silence() {
    none_is_silent(&crashed(), 0x5eed_1234_abcd_0017);
}

#[test]
fn of_three_hundred_damaged_logs_of_the_first_edition_none_undoes_a_step_in_silence() {
    none_is_silent(&cut_first_edition(), 0x5eed_1234_abcd_0018);
}

fn none_is_silent(crashed: &TempBrains, seed: u64) {
    let mut random = Random(seed);
    let (mut whole, mut refused) = (0, 0);
    for round in 0..300 {
        let brains = TempBrains::new();
        let place = brains.file("1", "");
        copy(&crashed.file("1", ""), &place);
        let mut log = std::fs::read(place.join(LOG)).expect("a log");
        let what = format!("round {round}: {}", damage(&mut log, &mut random));
        std::fs::write(place.join(LOG), log).expect("damaged");
        let before = bytes(&place);
        let looked = Reader::open(&brains.layout(), &id()).map(|reader| reader.lock().version);
        assert_eq!(bytes(&place), before, "{what}: looking wrote something");
        let examined = examine(&brains.layout(), &id(), Duration::ZERO).map(|examined| examined.lock.version);
        assert_eq!(bytes(&place), before, "{what}: verifying wrote something");
        let reported = repair(&brains.layout(), &id(), &brains.opening(), &trusted(), OnLoss::Report);
        assert_eq!(bytes(&place), before, "{what}: naming what is lost wrote something");
        match brains.open("1") {
            Ok(brain) => {
                assert_eq!(
                    (looked.expect("a look"), examined.expect("verified"), brain.lock().version),
                    (7, 7, 7),
                    "{what}"
                );
                assert!(reported.expect("a report").lost.is_empty(), "{what}");
                brain.close().expect("closed");
                sound(&brains);
                whole += 1;
            }
            Err(error) => {
                for error in [&error, &looked.expect_err("refused"), &examined.expect_err("refused")] {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                }
                if let Ok(reported) = reported {
                    assert!(reported.lost.iter().any(|lost| lost.version == 7), "{what}: {reported:?}");
                }
                assert_eq!(bytes(&place), before, "{what}: an open that was refused wrote something");
                refused += 1;
            }
        }
    }
    assert_eq!(whole + refused, 300);
    assert!(refused > 200, "{refused} of 300 logs lost a step");
}

#[test]
fn whoever_only_looks_writes_nothing_and_sees_what_an_interrupted_step_still_owes() {
    let brains = crashed();
    // The last step was committed, and its files were not written any more.
    let place = brains.file("1", "");
    let earlier = skill_text("flat-one", "The text of step 6.");
    std::fs::write(place.join("skills/flat-one.md"), earlier).expect("behind");
    let receipts = std::fs::read_to_string(place.join("receipts.ndjson")).expect("receipts");
    let lines: Vec<&str> = receipts.lines().collect();
    std::fs::write(place.join("receipts.ndjson"), format!("{}\n", lines[..6].join("\n"))).expect("behind");
    std::fs::remove_file(place.join("bundle.lock.json")).expect("behind");
    let before = bytes(&place);
    let reader = Reader::open(&brains.layout(), &id()).expect("a reader");
    assert!(
        reader.text(&"skills/flat-one.md".parse().expect("a path")).expect("read").expect("a text").contains("step 7")
    );
    assert_eq!(reader.skills().expect("skills").len(), 2);
    let account = reader.receipt_log().expect("an account");
    assert_eq!((account.log, account.receipts.len(), account.journal.wrong.len()), (LogState::Behind, 7, 0));
    assert!(examine(&brains.layout(), &id(), Duration::ZERO).expect("examined").report.is_sound());
    drop(reader);
    assert_eq!(bytes(&place), before);
    brains.open("1").expect("opened").close().expect("closed");
    sound(&brains);
    assert!(std::fs::read_to_string(place.join("skills/flat-one.md")).expect("a file").contains("step 7"));
}

#[test]
fn a_row_that_no_step_wrote_is_never_hashed_into_a_step() {
    let forgeries = [
        "UPDATE messages SET content = 'forged' WHERE id = 1",
        "DELETE FROM messages WHERE id = 1",
        "INSERT INTO messages (task, scope, role, content, at) VALUES ('x', 0, 'user', 'forged', 1)",
        "UPDATE facts SET value = 'forged'",
        "UPDATE skill_usage SET created_by = 'user', pinned = 1",
        "UPDATE task_log SET summary = 'forged'",
        "UPDATE hash_nodes SET digest = zeroblob(32) WHERE level = 0",
        "UPDATE hash_nodes SET digest = zeroblob(32) WHERE level = 1",
    ];
    for forgery in forgeries {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        settle(&mut brain, 2);
        brain.close().expect("closed");
        let forge = || {
            let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
            assert!(database.execute(forgery, []).expect("forged") > 0);
        };
        // Before it is opened, and beside the process that has it open.
        let mut brain = match forgery.contains("level = 1") {
            true => {
                let brain = brains.open("1").expect("opened");
                forge();
                brain
            }
            false => {
                forge();
                brains.open("1").expect("opened")
            }
        };
        let mut draft = Draft::new();
        brain.edit(&mut draft).used(&slug("flat-one")).expect("used");
        let at = Timestamp(9);
        let (task, content) = ("t9".to_owned(), "hello".to_owned());
        draft.message(MessageEntry { task: task.clone(), subscriber: None, role: MessageRole::User, content, at });
        draft.fact(Fact { subscriber: None, key: "k".into(), value: "9".into(), task: task.clone(), at });
        draft.task(TaskEntry { task, subscriber: None, outcome: TaskStatus::Converged, summary: "s".into(), at });
        let error = brain.settle(&draft, StepKind::Task, "a step").expect_err(forgery);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{forgery}: {error}");
        assert_eq!((brain.lock().version, brain.history(9).expect("a history").len()), (2, 2), "{forgery}");
        drop(brain);
        // A process that another test starts has the lock's file open until it becomes that program.
        let report = examine(&brains.layout(), &id(), Duration::from_secs(10)).expect("examined").report;
        assert!(!report.is_sound(), "{forgery}");
    }
}

#[test]
fn a_forged_row_of_a_chunk_that_a_step_does_not_touch_keeps_the_digest_that_it_had() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let say = |brain: &mut Brain, count: usize| {
        let (mut draft, at) = (Draft::new(), Timestamp(1));
        for n in 0..count {
            let (task, content) = (format!("t{n}"), format!("said {n}"));
            draft.message(MessageEntry { task, subscriber: None, role: MessageRole::User, content, at });
        }
        brain.settle(&draft, StepKind::Task, "said").expect("settled")
    };
    // Ids 1 to 255 are in the first chunk; what comes next is in another.
    say(&mut brain, 300);
    brain.close().expect("closed");
    let open = || rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    assert_eq!(open().execute("UPDATE messages SET content = 'forged' WHERE id = 7", []).expect("forged"), 1);
    let first_chunk = || {
        let digests = "SELECT digest FROM hash_nodes WHERE level = 0 AND idx = 0 ORDER BY tbl";
        let database = open();
        let mut all = database.prepare(digests).expect("a query");
        let rows = all.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("rows");
        rows.collect::<rusqlite::Result<Vec<_>>>().expect("digests")
    };
    let before = first_chunk();
    let mut brain = brains.open("1").expect("opened");
    let settled = say(&mut brain, 1);
    brain.close().expect("closed");
    assert_eq!((settled.version, first_chunk()), (3, before), "the step is signed over the chunk as it was");
    let report = examine(&brains.layout(), &id(), Duration::ZERO).expect("examined").report;
    assert!(!report.is_sound() && report.expected != report.computed, "{report:?}");
    assert_eq!(report.drift.tables, ["messages"]);
    let run = Herm::new(HERM, &brains.path()).run(&["brain", "verify", "1"]);
    assert!(run.code == 7 && run.stdout.contains("changed: memory.db table messages"), "{run:?}");
}

#[test]
fn rows_that_the_operator_adopts_can_be_built_upon() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, 2);
    brain.close().expect("closed");
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    database.execute("UPDATE skill_usage SET view_count = 3", []).expect("edited");
    drop(database);
    let opening = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &id(), &opening).expect("opened");
    brain.adopt().expect("adopted").expect("moved");
    settle(&mut brain, 4);
    brain.close().expect("closed");
    sound(&brains);
}

#[test]
fn a_journal_that_was_changed_is_noticed_and_never_used() {
    let foreign = skill_text("flat-one", "Text that no step wrote.");
    let digest = herm::Digest::of(foreign.as_bytes());
    let hex: String = digest.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let keep = format!("INSERT INTO blobs (digest, content) VALUES (x'{hex}', CAST('{foreign}' AS BLOB));");
    let changes = [
        format!("{keep} UPDATE changes SET before = x'{hex}' WHERE seq = 3"),
        format!("{keep} UPDATE changes SET after = x'{hex}' WHERE seq = 3"),
        "UPDATE changes SET path = 'skills/other.md' WHERE seq = 3".to_owned(),
        "DELETE FROM changes WHERE seq = 3".to_owned(),
        "UPDATE steps SET summary = 'nothing happened' WHERE seq = 3".to_owned(),
        "UPDATE steps SET kind = 'maintenance' WHERE seq = 3".to_owned(),
        "UPDATE steps SET at = at + 1 WHERE seq = 3".to_owned(),
        "UPDATE row_undo SET before = NULL WHERE step = 3".to_owned(),
        "DELETE FROM row_undo WHERE step = 3".to_owned(),
        "INSERT INTO row_undo (step, tbl, id, before) VALUES (3, 1, 99, NULL)".to_owned(),
    ];
    for change in changes {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        (2..5).for_each(|n| settle(&mut brain, n));
        brain.close().expect("closed");
        let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        database.execute_batch(&change).expect("changed");
        drop(database);
        let report = examine(&brains.layout(), &id(), Duration::ZERO).expect("examined").report;
        assert!(!report.is_sound() && report.expected == report.computed, "{change}: {report:?}");
        let reader = Reader::open(&brains.layout(), &id()).expect("a reader");
        assert_eq!(reader.receipt_log().expect("an account").journal.wrong.len(), 1, "{change}");
        let scratch = tempfile::tempdir().expect("a directory");
        let error = reader.rewind(3, &Layout::new(scratch.path())).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{change}: {error}");
        let mut brain = brains.open("1").expect("opened");
        let error = brain.undo(3, OnChanged::Overwrite).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{change}: {error}");
        assert_eq!(brain.lock().version, 4, "{change}");
    }
}

/// What someone who can write `memory.db` does to receipts, so that they say nothing of a journal that was changed.
#[derive(Debug)]
enum Silencing {
    /// In one statement.
    Sql(&'static str),
    /// From this receipt on they are written again without the digest of the journal, and signed by this key.
    Resigned(u64, Box<herm::Signer>),
    /// The same for one receipt, whose signature stays that of the other statement.
    Rewritten(u64),
}

impl Silencing {
    fn happen(&self, brains: &TempBrains) {
        let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        let (first, last, key) = match self {
            Self::Sql(statement) => return database.execute_batch(statement).expect("changed"),
            Self::Resigned(first, key) => (*first, u64::MAX, herm::Signer::clone(key)),
            Self::Rewritten(seq) => (*seq, *seq, signer()),
        };
        let rows: Vec<(u64, String)> = database
            .prepare("SELECT seq, envelope FROM receipts ORDER BY seq")
            .and_then(|mut all| {
                all.query_map([], |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?)))?.collect()
            })
            .expect("receipts");
        let (mut previous, mut ends_at, mut log) = (None, 0, String::new());
        for (seq, line) in rows {
            let mut envelope = Envelope::parse(&line).expect("an envelope");
            if (first..=last).contains(&seq) {
                let mut statement: serde_json::Value =
                    serde_json::from_slice(&envelope.payload().expect("a payload")).expect("a statement");
                let predicate = statement["predicate"].as_object_mut().expect("a predicate");
                predicate.remove("journal").expect("a digest of the journal");
                if let (Some(named), Some(digest)) = (predicate.get_mut("previous"), &previous) {
                    *named = json!({ "sha256": digest });
                }
                let payload = serde_json::to_vec(&statement).expect("JSON");
                let mut sealed = serde_json::to_value(Envelope::seal(&payload, &key)).expect("JSON");
                if let Self::Rewritten(_) = self {
                    sealed["signatures"] = serde_json::to_value(&envelope).expect("JSON")["signatures"].clone();
                }
                envelope = serde_json::from_value(sealed).expect("an envelope");
            }
            let digest = herm::ids::sha256(&envelope.payload().expect("a payload"));
            let line = envelope.to_line().expect("a line");
            ends_at += i64::try_from(line.len() + 1).expect("a length");
            database
                .execute(
                    "UPDATE receipts SET envelope = ?2, digest = ?3, ends_at = ?4 WHERE seq = ?1",
                    (i64::try_from(seq).expect("a number"), &line, &digest, ends_at),
                )
                .expect("changed");
            previous = Some(digest);
            log.push_str(&format!("{line}\n"));
        }
        std::fs::write(brains.file("1", "receipts.ndjson"), log).expect("written");
    }
}

#[test]
fn a_journal_that_was_changed_is_not_used_where_its_receipt_is_gone_or_does_not_hold() {
    let foreign = skill_text("flat-one", "Text that no step wrote.");
    let digest = herm::Digest::of(foreign.as_bytes());
    let hex: String = digest.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let edit = format!(
        "INSERT INTO blobs (digest, content) VALUES (x'{hex}', CAST('{foreign}' AS BLOB)); \
         UPDATE changes SET before = x'{hex}' WHERE seq = 3"
    );
    let stranger = || Box::new(herm::Signer::from_seed([8; 32]));
    let ways = [
        Silencing::Sql("DELETE FROM receipts WHERE step = 3"),
        Silencing::Sql("DELETE FROM receipts WHERE step <= 3"),
        Silencing::Sql("DELETE FROM receipts WHERE step = 3; UPDATE receipts SET seq = 3 WHERE seq = 4"),
        Silencing::Sql("DELETE FROM receipts WHERE step = 3; UPDATE receipts SET step = 3 WHERE seq = 4"),
        Silencing::Rewritten(3),
        Silencing::Resigned(3, stranger()),
        Silencing::Resigned(1, stranger()),
    ];
    for way in ways {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        (2..6).for_each(|n| settle(&mut brain, n));
        brain.close().expect("closed");
        let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        database.execute_batch(&edit).expect("changed");
        drop(database);
        way.happen(&brains);
        let keys = brains.opening().receipt_keys().expect("keys");
        let report = examine_with(&brains.layout(), &id(), Duration::ZERO, &keys).expect("examined").report;
        assert!(!report.is_sound() && report.expected == report.computed, "{way:?}: {report:?}");
        let reader = Reader::open(&brains.layout(), &id()).expect("a reader");
        let forked = reader.fork(Some(2), &brains.layout(), &"2".parse().expect("an id"), &brains.opening());
        let mut brain = brains.open("1").expect("opened");
        let undone = brain.undo(3, OnChanged::Overwrite).map(|_| brain.lock().clone());
        for refused in [forked, undone] {
            let error = refused.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{way:?}: {error}");
        }
        assert!(!brains.file("2", "").exists());
        assert_eq!(brain.lock().version, 5, "{way:?}");
    }
}

#[test]
fn a_cut_off_chain_does_not_vouch_for_the_steps_behind_its_end_where_a_key_is_known() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    (2..6).for_each(|n| settle(&mut brain, n));
    brain.close().expect("closed");
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    database.execute("DELETE FROM receipts WHERE step > 3", []).expect("cut");
    drop(database);
    let log = std::fs::read_to_string(brains.file("1", "receipts.ndjson")).expect("receipts");
    let left: Vec<&str> = log.lines().take(3).collect();
    std::fs::write(brains.file("1", "receipts.ndjson"), format!("{}\n", left.join("\n"))).expect("cut");
    let mut brain = brains.open("1").expect("opened");
    for step in [3, 5] {
        let error = brain.undo(step, OnChanged::Overwrite).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains("step 5 has no receipt"), "{error}");
    }
}

#[test]
fn steps_without_a_key_are_undone_alone_and_between_signed_ones() {
    let brains = TempBrains::new();
    let unsigned = || BrainOptions { signer: None, ..brains.opening() };
    let seed = seed_files();
    let files: Vec<(&str, &[u8])> = seed.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    let source = BrainSource::Seed(Seed { id: &id(), files: &files });
    let (mut brain, _) = Brain::hydrate(&brains.layout(), &id(), &source, &unsigned()).expect("a brain");
    settle(&mut brain, 2);
    settle(&mut brain, 3);
    let journal = brain.verify().expect("verified").journal;
    assert_eq!((journal.bound, journal.unbound, journal.wrong), (0, 3, Vec::new()));
    brain.undo(3, OnChanged::Refuse).expect("undone without a key");
    brain.close().expect("closed");
    // Someone with a key takes it further, then one without, then the first again.
    for (n, opening) in [(5, brains.opening()), (6, unsigned()), (7, brains.opening())] {
        let mut brain = Brain::open(&brains.layout(), &id(), &opening).expect("opened");
        settle(&mut brain, n);
        brain.close().expect("closed");
    }
    let mut brain = brains.open("1").expect("opened");
    let journal = brain.verify().expect("verified").journal;
    assert_eq!((journal.bound, journal.unbound, journal.wrong), (2, 5, Vec::new()));
    for step in [6, 2] {
        brain.undo(step, OnChanged::Overwrite).expect("undone");
    }
    // The step that no key signed stands between two signed ones whose versions tell of it.
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    database.execute("UPDATE steps SET version = 90 WHERE seq = 6", []).expect("changed");
    let error = brain.undo(6, OnChanged::Overwrite).expect_err("refused");
    assert!(error.message().contains("step 6 has no receipt"), "{error}");
}

#[test]
fn receipts_of_another_operator_vouch_where_the_key_is_trusted() {
    let brains = TempBrains::new();
    let theirs = herm::Signer::from_seed([8; 32]);
    let opening = BrainOptions { signer: Some(std::sync::Arc::new(theirs.clone())), ..brains.opening() };
    brains.make("1").close().expect("closed");
    let mut brain = Brain::open(&brains.layout(), &id(), &opening).expect("opened");
    settle(&mut brain, 2);
    brain.close().expect("closed");
    let mut brain = brains.open("1").expect("opened");
    let error = brain.undo(2, OnChanged::Refuse).expect_err("refused");
    assert!(error.message().contains(&format!("it is signed by {}, which is not", theirs.public())), "{error}");
    brain.close().expect("closed");
    let opening = BrainOptions { trusted: vec![theirs.public().clone()], ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &id(), &opening).expect("opened");
    brain.undo(2, OnChanged::Refuse).expect("undone");
    brain.close().expect("closed");
    // A step of the own key names the receipt before it, and so vouches for all that led to it.
    let mut brain = brains.open("1").expect("opened");
    brain.undo(2, OnChanged::Overwrite).map(drop).expect("vouched for");
    assert_eq!(brain.verify().expect("verified").journal.wrong, Vec::<String>::new());
}

#[test]
fn a_content_of_the_journal_that_was_changed_is_noticed() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    (2..4).for_each(|n| settle(&mut brain, n));
    brain.close().expect("closed");
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    let old = herm::Digest::of(skill_text("flat-one", "The text of step 2.").as_bytes());
    let changed =
        database.execute("UPDATE blobs SET content = x'00' WHERE digest = ?1", [old.bytes()]).expect("changed");
    assert_eq!(changed, 1);
    drop(database);
    let report = examine(&brains.layout(), &id(), Duration::ZERO).expect("examined").report;
    assert!(!report.is_sound() && report.journal.wrong[0].contains(&old.to_string()), "{report:?}");
    let mut brain = brains.open("1").expect("opened");
    assert_eq!(brain.undo(3, OnChanged::Refuse).expect_err("refused").kind(), ErrorKind::Refused);
}

#[test]
fn both_verifying_commands_notice_a_journal_that_was_changed() {
    let edits = [
        ("UPDATE steps SET summary = 'nothing happened' WHERE seq = 3", "the journal of step 3 is not the one that"),
        ("UPDATE steps SET at = at + 1 WHERE seq = 3", "step 3 of the journal is not the one that receipt 3 speaks of"),
        ("UPDATE changes SET path = 'USER.md' WHERE seq = 2", "the journal of step 2 is not the one that receipt 2"),
        ("DELETE FROM changes WHERE seq = 2", "step 2 of the journal is not the one that receipt 2 speaks of"),
        (
            "INSERT INTO changes SELECT 9, path, before, after FROM changes WHERE seq = 2",
            "a change of step 9, and no such",
        ),
        ("UPDATE row_undo SET before = '[]' WHERE step = 3", "the journal of step 3 is not the one that receipt 3"),
        ("DELETE FROM row_undo WHERE step = 3", "the journal of step 3 is not the one that receipt 3"),
        ("UPDATE blobs SET content = x'00'", "the journal's content "),
        ("DELETE FROM receipts WHERE step = 2", "receipt 2 is missing"),
        ("DELETE FROM blobs", "the journal has lost a content of MEMORY.md (step 2)"),
    ];
    for (edit, says) in edits {
        let brains = TempBrains::new();
        let herm = Herm::new(HERM, &brains.path());
        for arguments in [
            &["init", "1"][..],
            &["memory", "add", "1", "the vault holds ether"],
            &["memory", "add", "1", "the deployer is a multisig", "--fact", "deployer"],
            &["brain", "verify", "1"],
            &["receipts", "verify", "1"],
        ] {
            let run = herm.run(arguments);
            assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
        }
        let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        assert!(database.execute(edit, []).expect("edited") > 0, "{edit}");
        drop(database);
        let run = herm.run(&["brain", "verify", "1"]);
        assert!(
            run.code == 7 && run.stdout.contains("not as signed: ") && run.stdout.contains(says),
            "{edit}: {run:?}"
        );
        assert!(run.stderr.contains("restore the brain from a snapshot"), "{edit}: {run:?}");
        let run = herm.run(&["receipts", "verify", "1"]);
        assert!(run.code == 1 && run.stdout.ends_with("not sound\n"), "{edit}: {run:?}");
        assert!(run.stdout.contains("WRONG the log: the content has the lock's hash, and yet"), "{edit}: {run:?}");
        let (code, said) = herm.json(&["receipts", "verify", "1"]);
        assert_eq!((code, &said["sound"], &said["proven"]), (1, &json!(false), &json!([])), "{edit}");
        // Contents that the journal keeps are looked at by `brain verify` alone.
        assert_eq!(run.stdout.contains(says), !edit.contains("blobs"), "{edit}: {run:?}");
    }
}

#[test]
fn receipts_are_sound_whoever_looks_while_steps_are_settled() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let (layout, over) = (brains.layout(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = 0;
            while !over.load(Ordering::SeqCst) || looks == 0 {
                let reader = Reader::open(&layout, &id()).expect("a reader");
                let account = reader.receipt_log().expect("an account");
                let checked = check(account.receipts.iter().map(|kept| kept.envelope.as_str()), &trusted());
                assert!(checked.is_sound(), "{checked:?}");
                assert_eq!(checked.after, Some(account.lock.bundle_hash.to_string()));
                assert_ne!(account.log, LogState::Differs);
                assert_eq!((account.journal.wrong, account.unsigned_steps), (Vec::new(), 0));
                looks += 1;
            }
            looks
        });
        for n in 2..120 {
            settle(&mut brain, n);
            if n % 16 == 0 {
                brain.flush().expect("flushed");
            }
        }
        over.store(true, Ordering::SeqCst);
        assert!(looking.join().expect("no panic") > 3);
    });
    brain.close().expect("closed");
    sound(&brains);
}

/// The command takes no lock, so it runs beside a process that settles: here this one.
#[test]
fn the_command_that_verifies_receipts_says_sound_while_another_process_settles_steps() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    with_key(&brains);
    // It would wait for the brain, to look at the content as well.
    let config = brains.path().join("config.toml");
    std::fs::write(&config, "lock_wait_ms = 20\n").expect("written");
    let herm = Herm::new(HERM, &brains.path()).config(&config);
    let (mut steps, mut during) = (1, 0);
    for run in 0..30 {
        let mut verifying = herm.command(&["receipts", "verify", "1"]);
        let mut verifying = verifying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        // Each run meets them at other moments. There are few: what is verified grows with them.
        for _ in 0..3 {
            std::thread::park_timeout(Duration::from_micros(run * 500));
            steps += 1;
            settle(&mut brain, steps);
            during += u32::from(verifying.try_wait().expect("a state").is_none());
            if steps.is_multiple_of(16) {
                brain.flush().expect("flushed");
            }
        }
        let said = verifying.wait_with_output().expect("its output");
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(
            said.status.success() && text.ends_with("\nsound\n") && !text.contains("WRONG"),
            "after {steps} steps: {text}{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
    assert!(steps > 60 && during > 20, "{during} of {steps} steps while it was verified");
    brain.close().expect("closed");
    sound(&brains);
}

/// A clock past the year 9999, which RFC 3339 cannot write.
#[derive(Debug)]
struct FarAhead;

impl herm::Clock for FarAhead {
    fn now(&self) -> Timestamp {
        Timestamp(257_411_522_578_225)
    }
}

#[test]
fn a_clock_past_the_year_9999_loses_no_brain() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let opening = BrainOptions { clock: std::sync::Arc::new(FarAhead), ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &id(), &opening).expect("opened");
    settle(&mut brain, 2);
    brain.close().expect("closed");
    assert_eq!(brains.open("1").expect("opened").lock().last_updated, Timestamp::LAST);
    sound(&brains);
}
