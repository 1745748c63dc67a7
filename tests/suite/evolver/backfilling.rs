//! Sessions of elsewhere, five hundred of them, some broken.

use std::path::Path;

use herm::evolver::backfill::{BackfillScope, backfill};
use herm::memory::window_start;
use herm::{Brain, ErrorKind};
use herm_tests::TempBrains;
use serde_json::{Value, json};

use super::DAY;

fn record(n: usize, start: &str) -> Value {
    let mut messages = Vec::new();
    for turn in 0..3 {
        messages.push(json!({ "role": "user", "content": format!("[{n}.{turn}] please") }));
        let calls: Vec<Value> = (0..2)
            .map(|call| {
                let (tool, args) = match call {
                    0 => ("skill_view", json!({ "name": format!("skill-{}", n % 7) })),
                    _ => ("terminal", json!({ "command": format!("make {turn}") })),
                };
                json!({ "id": format!("c{n}-{turn}-{call}"), "type": "function",
                    "function": { "name": tool, "arguments": args.to_string() } })
            })
            .collect();
        messages.push(json!({ "role": "assistant", "content": "", "tool_calls": calls }));
        messages
            .push(json!({ "role": "tool", "tool_call_id": format!("c{n}-{turn}-0"), "content": "{\"success\":true}" }));
        messages.push(json!({ "role": "tool", "tool_call_id": format!("c{n}-{turn}-1"),
            "content": if n.is_multiple_of(3) { "{\"exit_code\":2,\"output\":\"make: *** failed\"}" } else { "0 errors" } }));
        messages.push(json!({ "role": "assistant", "content": format!("done {turn}") }));
    }
    json!({ "session_id": format!("s-{n:04}"), "session_start": start, "model": "m1", "platform": "cli", "messages": messages })
}

fn write(dir: &Path, name: &str, content: &[u8]) {
    std::fs::write(dir.join(name), content).expect("written");
}

/// Five hundred records, of which some are broken in each way that was seen.
fn records(dir: &Path, start: &str) {
    std::fs::create_dir(dir).expect("made");
    for n in 0..500 {
        let (name, text) = (format!("session_s-{n:04}.json"), record(n, start).to_string());
        match n % 100 {
            11 => write(dir, &name, b"\xff\xfe\x00 not text"),
            22 => write(dir, &name, text.get(..text.len() / 2).expect("a half").as_bytes()),
            33 => write(dir, &name, text.replace("please", "\\ud800 please").as_bytes()),
            44 => {
                let bare = text.replace(&format!("\"session_id\":\"s-{n:04}\","), "").replace("\"id\":", "\"was\":");
                write(dir, &name, bare.replace("\"tool_call_id\":", "\"was\":").as_bytes());
            }
            55 => write(dir, &name, b""),
            _ => write(dir, &name, text.as_bytes()),
        }
    }
    write(dir, "notes.json", b"not a record");
    std::fs::create_dir(dir.join("session_dir.json")).expect("made");
    std::os::unix::fs::symlink("/etc/passwd", dir.join("session_link.json")).expect("linked");
}

fn totals(brain: &Brain) -> (u64, u64, u64) {
    let totals = brain.evidence_view().totals().expect("totals");
    (totals.tool_events, totals.turn_events, totals.session_events)
}

#[test]
fn the_whole_ones_are_taken_in_and_the_broken_ones_are_named() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let dir = brains.path().join("sessions");
    let start = brain.clock().now().to_string();
    records(&dir, &start);
    let hash = brain.lock().bundle_hash;
    let done = backfill(&mut brain, &dir, BackfillScope::default()).expect("taken in");
    assert_eq!((done.sessions_seen, done.files_failed, done.sessions_imported), (502, 17, 485));
    assert_eq!((done.taken.tool_events, done.taken.turn_events, done.taken.session_events), (485 * 6, 485 * 3, 485));
    assert_eq!(totals(&brain), (485 * 6, 485 * 3, 485));
    assert_eq!(done.failures.len(), 17);
    assert!(done.failures.iter().any(|one| one.file == "session_link.json"));
    assert!(done.failures.iter().any(|one| one.file == "session_dir.json" && one.why.contains("directory")));
    assert!(done.failures.iter().any(|one| one.why.contains("not UTF-8")));
    assert!(done.failures.iter().any(|one| one.why.contains("cut off")));
    // A record without ids has its calls apart all the same.
    let summary = brain.evidence_view().summary(window_start(brain.clock().now(), 1)).expect("a summary");
    assert_eq!(summary.tool_events, 485 * 6);
    let failing = (0..500).filter(|n| n % 3 == 0 && ![11, 22, 55].contains(&(n % 100))).count() as u64;
    assert_eq!(summary.error_events, failing * 3, "structure says which failed; \"0 errors\" is none");
    assert_eq!(
        summary.skills.iter().map(|one| one.events).sum::<u64>(),
        485 * 5,
        "every call after the first, which loads the skill, belongs to it"
    );
    assert_eq!(brain.lock().bundle_hash, hash, "telemetry is not content");
    // Again, and nothing is new.
    let again = backfill(&mut brain, &dir, BackfillScope::default()).expect("again");
    assert_eq!((again.taken.tool_events, again.taken.duplicates), (0, 485 * 6));
    assert_eq!(totals(&brain), (485 * 6, 485 * 3, 485));
}

#[test]
fn old_sessions_stay_out_and_the_newest_come_first() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let dir = brains.path().join("sessions");
    std::fs::create_dir(&dir).expect("made");
    let now = brain.clock().now();
    let at = |days: i64| herm::Timestamp(now.millis() - days * DAY).to_string();
    for (n, days) in [(1, 0), (2, 3), (3, 40)] {
        write(&dir, &format!("session_{n}.json"), record(n, &at(days)).to_string().as_bytes());
        let file = std::fs::File::options().write(true).open(dir.join(format!("session_{n}.json"))).expect("opened");
        let written = std::time::UNIX_EPOCH + std::time::Duration::from_millis((now.millis() - days * DAY) as u64);
        file.set_modified(written).expect("set");
    }
    let done = backfill(&mut brain, &dir, BackfillScope { days: 30, limit: Some(1) }).expect("taken in");
    assert_eq!((done.sessions_imported, done.taken.session_events), (1, 1));
    let newest = brain.evidence_view().recent(herm::Timestamp(0), 1).expect("rows").remove(0).1;
    assert_eq!(newest.task, "s-0001");
    // One so old is not even read: what is in it cannot be told from a record.
    write(&dir, "session_3.json", b"\xff not a record");
    let file = std::fs::File::options().write(true).open(dir.join("session_3.json")).expect("opened");
    let written = std::time::UNIX_EPOCH + std::time::Duration::from_millis((now.millis() - 40 * DAY) as u64);
    file.set_modified(written).expect("set");
    let done = backfill(&mut brain, &dir, BackfillScope::default()).expect("taken in");
    assert_eq!((done.sessions_imported, done.sessions_skipped_old, done.files_failed), (2, 1, 0));
}

#[test]
fn what_only_looks_like_a_record_is_named_whatever_its_name_holds() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let dir = brains.path().join("sessions");
    std::fs::create_dir(&dir).expect("made");
    let start = brain.clock().now().to_string();
    let good = record(1, &start).to_string();
    write(&dir, "session_1.json", good.replace("\"model\":\"m1\"", "\"cost\":NaN,\"total\":1e999").as_bytes());
    write(&dir, "session_2.JSON", good.as_bytes());
    write(&dir, "session_3.json", b"{\"session_id\": \"bare\"}");
    write(&dir, "session_4\nOK: all is well.json", b"{");
    write(&dir, "session_5.txt", b"none");
    std::fs::create_dir(dir.join("session_6.json")).expect("made");
    std::fs::create_dir(dir.join("session_7\r\u{1b}[2J.json")).expect("made");
    let done = backfill(&mut brain, &dir, BackfillScope { days: 30, limit: Some(1) }).expect("taken in");
    assert_eq!((done.sessions_seen, done.sessions_imported), (6, 1), "{done:?}");
    let done = backfill(&mut brain, &dir, BackfillScope::default()).expect("taken in");
    let named: Vec<(&str, &str)> = done.failures.iter().map(|one| (one.file.as_str(), one.why.as_str())).collect();
    let why =
        |name: &str| named.iter().find(|(file, _)| *file == name).unwrap_or_else(|| panic!("{name}: {named:?}")).1;
    assert!(why("session_2.JSON").contains(".json, in small letters"));
    assert_eq!(why("session_3.json"), "it has no messages");
    assert!(why("session_4\\nOK: all is well.json").is_ascii());
    assert!(why("session_6.json").contains("directory") && why("session_7\\r\\u{1b}[2J.json").contains("directory"));
    assert_eq!((done.files_failed, done.sessions_imported), (5, 1));
    assert!(named.iter().all(|(file, why)| !format!("{file}{why}").contains(char::is_control)), "{named:?}");
}

#[test]
fn a_directory_that_is_not_there_is_said_to_be_missing() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let error = backfill(&mut brain, &brains.path().join("nowhere"), BackfillScope::default()).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.hint_text().expect("a hint").contains("session_*.json"));
}
