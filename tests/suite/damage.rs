//! Damage that no step made: a log that lost its end, rows and journals that someone changed. Nothing of it is silent,
//! and nothing of it is signed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use herm::brain::{LogState, OnChanged, OnDrift, OnLoss, examine};
use herm::memory::{Fact, MessageEntry, MessageRole, TaskEntry};
use herm::receipt::{Envelope, TrustedKeys, check, repair};
use herm::{Brain, BrainId, BrainOptions, Draft, ErrorKind, Layout, Reader, StepKind, Timestamp};
use herm_tests::brains::{skill_text, slug};
use herm_tests::{Herm, TempBrains, signer};

use crate::HERM;

const LOG: &str = "memory.db-wal";

fn id() -> BrainId {
    "1".parse().expect("an id")
}

/// A step with a file, messages, a fact and a line of the log, as a task makes it.
fn settle(brain: &mut Brain, n: u32) {
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
    draft.task(TaskEntry { task, subscriber: None, outcome: "converged".into(), summary: format!("s{n}"), at });
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
fn bytes(brain: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
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
fn crashed() -> TempBrains {
    let (brains, crashed) = (TempBrains::new(), TempBrains::new());
    brains.make("1").close().expect("closed");
    let mut brain = brains.open("1").expect("opened");
    (2..8).for_each(|n| settle(&mut brain, n));
    copy(&brains.file("1", ""), &crashed.file("1", ""));
    assert!(std::fs::metadata(crashed.file("1", LOG)).expect("a log").len() > 100_000);
    brain.close().expect("closed");
    crashed
}

fn trusted() -> TrustedKeys {
    TrustedKeys::Keys(vec![signer().public().clone()])
}

/// The chain in `receipts.ndjson` holds and ends where the brain is.
fn sound(brains: &TempBrains) {
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

#[test]
fn of_three_hundred_damaged_logs_none_undoes_a_step_in_silence() {
    let crashed = crashed();
    let mut random = Random(0x5eed_1234_abcd_0017);
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
        match brains.open("1") {
            Ok(brain) => {
                assert_eq!(
                    (looked.expect("a look"), examined.expect("verified"), brain.lock().version),
                    (7, 7, 7),
                    "{what}"
                );
                brain.close().expect("closed");
                sound(&brains);
                whole += 1;
            }
            Err(error) => {
                for error in [&error, &looked.expect_err("refused"), &examined.expect_err("refused")] {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                }
                assert_eq!(bytes(&place), before, "{what}: an open that was refused wrote something");
                refused += 1;
            }
        }
    }
    assert_eq!(whole + refused, 300);
    assert!(refused > 200, "{refused} of 300 logs lost a step");
}

/// A crashed brain that has lost the steps after version 4.
fn lost() -> TempBrains {
    let brains = crashed();
    let path = brains.file("1", LOG);
    let log = std::fs::read(&path).expect("a log");
    // The log is cut further until SQLite sees version 4.
    for cut in (0..log.len()).rev().step_by(4_120) {
        std::fs::write(&path, &log[..cut]).expect("cut");
        let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        database.set_db_config(config, true).expect("set");
        let version: i64 = database.query_row("SELECT max(version) FROM steps", [], |row| row.get(0)).expect("read");
        if version == 4 {
            return brains;
        }
    }
    panic!("no such cut");
}

#[test]
fn a_repair_names_every_step_that_is_lost_and_goes_on_only_when_told() {
    let brains = lost();
    let error = brains.open("1").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("ends at version 4, and bundle.lock.json is of version 7"), "{error}");
    let before = bytes(&brains.file("1", ""));
    let opening = brains.opening();
    let found = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Report).expect("looked");
    let lost: Vec<(u64, Option<u64>)> = found.lost.iter().map(|lost| (lost.version, lost.receipt)).collect();
    assert_eq!(lost, [(5, Some(5)), (6, Some(6)), (7, Some(7))]);
    assert_eq!((bytes(&brains.file("1", "")), found.aside), (before.clone(), None), "a report changes nothing");

    let done = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Accept).expect("repaired");
    assert_eq!((done.lost, done.settled.expect("a step").version), (found.lost, 8));
    let aside = done.aside.expect("kept");
    for name in ["memory.db", LOG, "bundle.lock.json", "receipts.ndjson"] {
        let kept = std::fs::read(aside.join(name)).expect("kept");
        assert_eq!(Some(&kept), before.get(&brains.file("1", name)), "{name}");
    }
    let receipts = std::fs::read(brains.file("1", "receipts.ndjson")).expect("receipts");
    assert!(receipts.starts_with(&before[&brains.file("1", "receipts.ndjson")]), "no receipt is signed a second time");
    sound(&brains);
    let mut brain = brains.open("1").expect("opened");
    assert!(
        brain.skill_text(&slug("flat-one")).expect("a text").contains("step 7"),
        "files stay as they were acknowledged"
    );
    settle(&mut brain, 9);
    let refused = brain.undo(6, OnChanged::Refuse).expect_err("lost");
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    brain.undo(9, OnChanged::Refuse).expect("undone");
    brain.close().expect("closed");
    sound(&brains);
    let again = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Accept).expect("looked");
    assert!(again.lost.is_empty() && again.settled.is_none() && again.aside.is_none());
    let last = std::fs::read_to_string(brains.file("1", "receipts.ndjson")).expect("receipts");
    let envelope = Envelope::parse(last.lines().nth(7).expect("a line")).expect("an envelope");
    let statement: serde_json::Value = serde_json::from_slice(&envelope.payload().expect("a payload")).expect("JSON");
    assert_eq!(
        statement["predicate"]["change"]["repair"]["lost"].as_array().expect("a list").len(),
        3,
        "{statement:#}"
    );
}

/// The numbers of the receipts in `receipts.ndjson`, in order.
fn numbers(brains: &TempBrains) -> Vec<u64> {
    let log = std::fs::read_to_string(brains.file("1", "receipts.ndjson")).expect("receipts");
    let number = |line: &str| {
        let payload = Envelope::parse(line).expect("an envelope").payload().expect("a payload");
        let statement: serde_json::Value = serde_json::from_slice(&payload).expect("JSON");
        statement["predicate"]["seq"].as_u64().expect("a number")
    };
    log.lines().map(number).collect()
}

#[test]
fn a_repair_refuses_receipts_that_nobody_vouches_for_and_signs_no_number_twice() {
    let stranger = herm::Signer::from_seed([9; 32]);
    let nobody = TrustedKeys::Keys(Vec::new());
    let another = TrustedKeys::Keys(vec![stranger.public().clone()]);
    let both = TrustedKeys::Keys(vec![stranger.public().clone(), signer().public().clone()]);
    let refuses = |brains: &TempBrains, trusted: &TrustedKeys, said: &str| {
        let before = bytes(&brains.file("1", ""));
        for on_loss in [OnLoss::Report, OnLoss::Accept] {
            let error = repair(&brains.layout(), &id(), &brains.opening(), trusted, on_loss).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.message().contains(said), "{error}");
            assert!(bytes(&brains.file("1", "")) == before, "nothing was changed");
        }
    };
    let brains = lost();
    refuses(&brains, &nobody, "receipt 1 in memory.db does not hold");
    refuses(&brains, &another, "receipt 1 in memory.db does not hold");

    // Receipt 6, which memory.db has lost: signed by another, by nobody, or with words that were not signed.
    let path = brains.file("1", "receipts.ndjson");
    let log = std::fs::read_to_string(&path).expect("receipts");
    let sixth = log.lines().nth(5).expect("a sixth line");
    let payload = Envelope::parse(sixth).expect("an envelope").payload().expect("a payload");
    let foreign = Envelope::seal(&payload, &stranger).to_line().expect("a line");
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut envelope: serde_json::Value = serde_json::from_str(sixth).expect("JSON");
        change(&mut envelope);
        envelope.to_string()
    };
    let unsigned = with(&|envelope| envelope["signatures"] = serde_json::json!([]));
    let changed = String::from_utf8(payload).expect("text").replace("\"version\":6", "\"version\":9");
    let forged = with(&|envelope| {
        let sealed: serde_json::Value =
            serde_json::from_str(&Envelope::seal(changed.as_bytes(), &stranger).to_line().expect("a line"))
                .expect("JSON");
        envelope["payload"] = sealed["payload"].clone();
    });
    for line in [&foreign, &unsigned, &forged] {
        std::fs::write(&path, log.replace(sixth, line)).expect("written");
        refuses(
            &brains,
            &trusted(),
            "receipt 6 in receipts.ndjson does not hold, and its number would be signed a second",
        );
    }
    // Once its signer is trusted, the chain holds and goes on.
    std::fs::write(&path, log.replace(sixth, &foreign)).expect("written");
    let done = repair(&brains.layout(), &id(), &brains.opening(), &both, OnLoss::Accept).expect("repaired");
    assert_eq!((done.lost.len(), done.settled.expect("a step").version), (3, 8));
    assert_eq!(numbers(&brains), (1..=8).collect::<Vec<_>>());
}

#[test]
fn the_command_line_refuses_what_is_behind_its_receipts_and_repairs_it() {
    let brains = lost();
    std::fs::create_dir(brains.path().join(".keys")).expect("a directory");
    let key = brains.path().join(".keys/receipts.pem");
    // The key of `signer`.
    let body = "MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH";
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    std::fs::write(&key, pem).expect("a key");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
    let herm = Herm::new(HERM, &brains.path());
    let before = bytes(&brains.file("1", ""));
    let reading: [&[&str]; 8] = [
        &["brain", "show", "1"],
        &["brain", "verify", "1"],
        &["brain", "history", "1"],
        &["receipts", "list", "1"],
        &["receipts", "verify", "1"],
        &["skills", "list", "1"],
        &["memory", "search", "1", "question"],
        &["brain", "repair", "1"],
    ];
    for arguments in reading {
        assert_eq!(herm.run(arguments).code, 7, "{arguments:?}");
        assert_eq!(bytes(&brains.file("1", "")), before, "{arguments:?}");
    }
    let run = herm.run(&["memory", "add", "1", "more"]);
    assert!(run.code == 7 && run.stderr.contains("herm brain repair 1"), "{run:?}");
    let run = herm.run(&["brain", "repair", "1", "--accept-loss"]);
    assert!(run.code == 0 && run.stdout.contains("lost: the step to version 6 (task, receipt 6"), "{run:?}");
    for what in ["brain", "receipts"] {
        let run = herm.run(&[what, "verify", "1"]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    assert_eq!(herm.run(&["memory", "add", "1", "more"]).code, 0);
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
        // Before it is opened, and beside whoever has it open.
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
        draft.task(TaskEntry { task, subscriber: None, outcome: "converged".into(), summary: "s".into(), at });
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

#[test]
fn what_is_no_receipt_behind_the_last_one_is_named_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let herm = herm_tests::Herm::new(crate::HERM, &dir.path().join("brains"));
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    let log = dir.path().join("brains/1/receipts.ndjson");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.extend_from_slice(b"\nnot a receipt");
    std::fs::write(&log, &bytes).unwrap();
    assert_eq!(herm.run(&["skills", "pin", "1", "oracle-review"]).code, 7);
    let told = herm.run(&["brain", "repair", "1"]);
    assert!(told.code == 7 && told.stdout.contains("14 bytes that are no receipt"), "{told:?}");
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "looking changes nothing");
    let repaired = herm.run(&["brain", "repair", "1", "--accept-loss"]);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert_eq!(herm.run(&["skills", "pin", "1", "oracle-review"]).code, 0);
    assert_eq!(herm.run(&["receipts", "verify", "1"]).code, 0);
}
