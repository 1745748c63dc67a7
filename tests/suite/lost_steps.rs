//! A brain whose `memory.db` is behind its lock or its receipts has lost steps that were acknowledged: it is refused as it
//! stands, and a repair names each of them.

use herm::brain::{OnChanged, OnLoss};
use herm::receipt::{Envelope, TrustedKeys, repair};
use herm::{ErrorKind, Reader};
use herm_tests::brains::slug;
use herm_tests::{Herm, TempBrains, signer};
use serde_json::Value;

use crate::HERM;
use crate::damage::{LOG, bytes, crashed, cut_first_edition, id, settle, sound, trusted};

/// A crashed brain that has lost the steps after version 4.
pub(crate) fn lost() -> TempBrains {
    lost_from(crashed())
}

/// The same of a brain that has seven versions.
pub(crate) fn lost_from(brains: TempBrains) -> TempBrains {
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
fn a_brain_of_the_first_edition_that_lost_steps_is_kept_aside_as_it_was_and_repaired() {
    let brains = lost_from(cut_first_edition());
    let before = bytes(&brains.file("1", ""));
    let opening = brains.opening();
    let found = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Report).expect("looked");
    let lost: Vec<(u64, Option<u64>)> = found.lost.iter().map(|lost| (lost.version, lost.receipt)).collect();
    assert_eq!(lost, [(5, Some(5)), (6, Some(6)), (7, Some(7))]);
    assert_eq!(bytes(&brains.file("1", "")), before, "a report changes nothing");
    let done = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Accept).expect("repaired");
    assert_eq!(done.settled.expect("a step").version, 8);
    let aside = done.aside.expect("kept");
    for name in ["memory.db", LOG, "bundle.lock.json", "receipts.ndjson"] {
        let kept = std::fs::read(aside.join(name)).expect("kept");
        assert_eq!(Some(&kept), before.get(&brains.file("1", name)), "{name} is kept as the first edition left it");
    }
    assert_eq!(numbers(&brains), (1..=8).collect::<Vec<_>>());
    sound(&brains);
    let mut brain = brains.open("1").expect("opened");
    settle(&mut brain, 9);
    brain.close().expect("closed");
    sound(&brains);
}

/// Gives these brains the key of `signer`.
pub(crate) fn with_key(brains: &TempBrains) {
    std::fs::create_dir(brains.path().join(".keys")).expect("a directory");
    let key = brains.path().join(".keys/receipts.pem");
    let body = "MC4CAQAwBQYDK2VwBCIEIAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH";
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    std::fs::write(&key, pem).expect("a key");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
}

#[test]
fn the_command_line_refuses_what_is_behind_its_receipts_and_repairs_it() {
    let brains = lost();
    with_key(&brains);
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

/// What may be ahead of `memory.db`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// The lock alone: the receipts are those of `memory.db`.
    Lock,
    /// The lock alone: there are no receipts at all.
    LockWithoutReceipts,
    /// Whole receipts alone: the lock is that of `memory.db`.
    Receipts,
    /// A lock of the same version with another hash.
    OtherHash,
}

/// A brain whose memory ends at version 4.
fn ahead(what: Ahead) -> TempBrains {
    let brains = lost();
    let (lock, log) = (brains.file("1", "bundle.lock.json"), brains.file("1", "receipts.ndjson"));
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    database.set_db_config(config, true).expect("set");
    let kept: String = database.query_row("SELECT lock FROM state", [], |row| row.get(0)).expect("a lock");
    drop(database);
    let receipts = std::fs::read_to_string(&log).expect("receipts");
    let four: String = receipts.lines().take(4).map(|line| format!("{line}\n")).collect();
    match what {
        Ahead::Lock => std::fs::write(&log, four).expect("written"),
        Ahead::LockWithoutReceipts => std::fs::remove_file(&log).expect("removed"),
        Ahead::Receipts => std::fs::write(&lock, kept).expect("written"),
        Ahead::OtherHash => {
            let later: Value = serde_json::from_slice(&std::fs::read(&lock).expect("a lock")).expect("JSON");
            let mut other: Value = serde_json::from_str(&kept).expect("JSON");
            assert_eq!(other["version"], 4);
            for name in ["bundleHash", "parts"] {
                assert_ne!(other[name], later[name], "{name}");
                other[name] = later[name].clone();
            }
            std::fs::write(&lock, other.to_string()).expect("written");
            std::fs::write(&log, four).expect("written");
        }
    }
    brains
}

#[test]
fn whatever_alone_is_ahead_is_evidence_and_a_repair_goes_on_without_it() {
    let unknown = |versions: &[u64]| versions.iter().map(|version| (*version, None)).collect::<Vec<_>>();
    let known: Vec<(u64, Option<u64>)> = [5, 6, 7].map(|version| (version, Some(version))).into();
    for (what, said, lost, next) in [
        (Ahead::Lock, "bundle.lock.json is of version 7:", unknown(&[5, 6, 7]), 8),
        (Ahead::LockWithoutReceipts, "bundle.lock.json is of version 7:", unknown(&[5, 6, 7]), 8),
        (Ahead::Receipts, "and receipts.ndjson is", known, 8),
        (Ahead::OtherHash, "bundle.lock.json is of another version 4:", unknown(&[4]), 5),
    ] {
        let brains = ahead(what);
        let before = bytes(&brains.file("1", ""));
        let opening = brains.opening();
        let looked = Reader::open(&brains.layout(), &id()).expect_err("refused");
        let opened = brains.open("1").expect_err("refused");
        let settling = herm::brain::examine(&brains.layout(), &id(), opening.wait).expect_err("refused");
        for error in [looked, opened, settling] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what:?}: {error}");
            assert!(error.message().contains("ends at version 4, and ") && error.message().contains(said), "{error}");
        }
        let found = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Report).expect("looked");
        let named: Vec<(u64, Option<u64>)> = found.lost.iter().map(|lost| (lost.version, lost.receipt)).collect();
        assert_eq!(named, lost, "{what:?}");
        assert_eq!(bytes(&brains.file("1", "")), before, "{what:?}: evidence was changed");
        let done = repair(&brains.layout(), &id(), &opening, &trusted(), OnLoss::Accept).expect("repaired");
        assert_eq!(done.settled.expect("a step").version, next, "{what:?}");
        let aside = done.aside.expect("kept");
        for name in ["memory.db", LOG, "bundle.lock.json", "receipts.ndjson"] {
            let kept = std::fs::read(aside.join(name)).ok();
            assert_eq!(kept.as_ref(), before.get(&brains.file("1", name)), "{what:?}: {name}");
        }
        let mut brain = brains.open("1").expect("opened");
        settle(&mut brain, 9);
        brain.close().expect("closed");
        sound(&brains);
    }
}

#[test]
fn a_repair_of_a_sound_brain_says_that_there_is_nothing_to_do() {
    let made = crashed();
    with_key(&made);
    for brains in [made, cut_first_edition()] {
        let herm = Herm::new(HERM, &brains.path());
        let before = bytes(&brains.file("1", ""));
        for arguments in [["brain", "repair", "1"].as_slice(), &["brain", "repair", "1", "--accept-loss"]] {
            let run = herm.run(arguments);
            assert_eq!(
                (run.code, run.stdout.as_str()),
                (0, "brain 1 has nothing to repair: nothing beside memory.db is ahead of it\n"),
                "{run:?}"
            );
            assert_eq!(bytes(&brains.file("1", "")), before, "{arguments:?}");
        }
        let (code, repaired) = herm.json(&["brain", "repair", "1"]);
        let expected = serde_json::json!({ "id": "1", "lost": [], "surplusBytes": 0, "settled": null, "aside": null });
        assert_eq!((code, repaired), (0, expected));
    }
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
