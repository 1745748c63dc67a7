//! Looking back and undoing: every version can be read, every step but the first taken back.

use std::collections::BTreeMap;
use std::path::Path;

use herm::brain::{Editor, FileChangeKind, OnChanged, OnDrift, StepRecord, UndoTarget};
use herm::memory::{Fact, MessageEntry, MessageRole, TaskEntry, TaskStatus};
use herm::receipt::{TrustedKeys, check};
use herm::skill::{CreatedBy, SkillLifecycle, SkillState};
use herm::{Brain, BrainOptions, Digest, Draft, ErrorKind, Reader, RelPath, Result, SettledStep, StepKind, Timestamp};
use herm_tests::brains::{rel, skill_text, slug};
use herm_tests::{Herm, TempBrains, signer};
use serde_json::Value;

use crate::HERM;

fn settle(brain: &mut Brain, summary: &str, change: impl FnOnce(&mut Editor<'_>) -> Result<()>) -> SettledStep {
    let mut draft = Draft::new();
    change(&mut brain.edit(&mut draft)).expect("a change");
    let settled = brain.settle(&draft, StepKind::Maintenance, summary).expect("settled");
    assert!(settled.moved);
    settled
}

fn archive(brain: &mut Brain, name: &str) {
    settle(brain, &format!("archived skill {name}"), |e| e.archive_skill(&slug(name)));
}

fn edit(brain: &mut Brain, name: &str, body: &str) {
    settle(brain, &format!("edited {name}"), |e| e.edit_skill(&slug(name), &skill_text(name, body)).map(drop));
}

fn reader(brains: &TempBrains) -> Reader {
    Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader")
}

/// Every content file of the brain.
fn tree(brains: &TempBrains) -> BTreeMap<String, Vec<u8>> {
    let top = brains.file("1", "");
    let mut found = BTreeMap::new();
    let mut todo = vec![top.clone()];
    while let Some(at) = todo.pop() {
        for entry in std::fs::read_dir(at).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&top).expect("inside").display().to_string();
            if path.is_dir() {
                todo.push(path);
            } else if herm::bundle::BundlePart::of(&name).is_some() {
                found.insert(name, std::fs::read(path).expect("a file"));
            }
        }
    }
    found
}

/// Closes the brain, recomputes everything, and checks the chain of receipts.
fn sound(brains: &TempBrains, brain: Brain) -> Brain {
    brain.close().expect("closed");
    let brain = brains.open("1").expect("opened");
    let report = brain.verify().expect("verified");
    assert!(report.is_sound(), "{report:?}");
    let tape = std::fs::read_to_string(brains.file("1", "receipts.ndjson")).expect("a tape");
    let checked = check(tape.lines(), &TrustedKeys::Keys(vec![signer().public().clone()]));
    assert!(checked.is_sound(), "{checked:?}");
    assert_eq!(checked.receipts, brain.lock().version, "every step has its receipt");
    assert_eq!(checked.after, Some(brain.lock().bundle_hash.to_string()));
    brain
}

fn last_step(brain: &Brain) -> StepRecord {
    brain.history(1).expect("a history").remove(0)
}

fn standing(brain: &Brain, name: &str) -> SkillLifecycle {
    SkillLifecycle::of(&brain.usage().expect("usage")[&slug(name)])
}

#[test]
fn an_archived_skill_is_back_byte_for_byte_after_an_undo_and_keeps_its_counts() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let before = tree(&brains);
    archive(&mut brain, "dir-one");
    // Something that happens meanwhile is a fact, and no reason to refuse.
    settle(&mut brain, "looked", |e| e.viewed(&slug("dir-one")));
    assert_ne!(tree(&brains), before);
    let undone = brain.undo(2, OnChanged::Refuse).expect("undone");
    let mut brain = sound(&brains, brain);
    assert_eq!(tree(&brains), before);
    assert_eq!(standing(&brain, "dir-one"), SkillLifecycle::PLAIN);
    assert_eq!(brain.usage().expect("usage")[&slug("dir-one")].view_count, 1);
    assert!(brain.skills().expect("an index").get(&slug("dir-one")).is_some());
    let step = last_step(&brain);
    assert_eq!(
        (step.kind, step.summary.as_str()),
        (StepKind::Undo { of: Some(2) }, "undo of step 2: archived skill dir-one")
    );
    let settled = undone.settled.expect("settled");
    assert_eq!((settled.version, settled.files.len()), (4, 4));
    assert!(settled.receipt.is_some());
    assert!(undone.plan.overwritten.is_empty() && undone.plan.kept.is_empty(), "{:?}", undone.plan);
}

#[test]
fn an_undo_of_an_undo_does_it_again() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let before = tree(&brains);
    archive(&mut brain, "dir-one");
    let archived = tree(&brains);
    let stood = standing(&brain, "dir-one");
    assert_eq!(stood.state, SkillState::Archived);
    brain.undo(2, OnChanged::Refuse).expect("undone");
    brains.clock.advance_ms(5_000);
    brain.undo(3, OnChanged::Refuse).expect("done again");
    let mut brain = sound(&brains, brain);
    assert_eq!((tree(&brains), standing(&brain, "dir-one")), (archived, stood), "with the moment it was archived");
    assert_eq!(last_step(&brain).summary, "undo of step 3: undo of step 2: archived skill dir-one");
    brain.undo(4, OnChanged::Refuse).expect("and back");
    sound(&brains, brain);
    assert_eq!(tree(&brains), before);
}

#[test]
fn an_undo_refuses_after_a_later_change_unless_it_is_forced() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let before = tree(&brains);
    edit(&mut brain, "flat-one", "The second text.");
    edit(&mut brain, "flat-one", "The third text.");
    settle(&mut brain, "pinned", |e| e.pin_skill(&slug("flat-one"), true));
    edit(&mut brain, "flat-one", "The fourth text.");
    let error = brain.undo(2, OnChanged::Refuse).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.message(), "step 2 cannot be undone: changed since: skills/flat-one.md (steps 3, 5)");
    assert!(error.hint_text().expect("a hint").contains("--force"), "{error:?}");
    assert_eq!(brain.plan_undo(2, OnChanged::Refuse).expect_err("refused").kind(), ErrorKind::Conflict);
    assert_eq!(brain.lock().version, 5, "a refusal changes nothing");

    let undone = brain.undo(2, OnChanged::Overwrite).expect("forced");
    assert_eq!(undone.plan.overwritten.len(), 1);
    assert_eq!(undone.plan.overwritten[0].target, UndoTarget::File(rel("skills/flat-one.md")));
    let mut brain = sound(&brains, brain);
    assert_eq!(tree(&brains), before);
    assert!(standing(&brain, "flat-one").pinned, "what another step decided stays");
    assert_eq!(last_step(&brain).summary, "undo of step 2 (forced): edited flat-one");
    // What was overwritten is not lost: the forced step is a step like any other.
    brain.undo(6, OnChanged::Refuse).expect("undone");
    assert!(brain.skill_text(&slug("flat-one")).expect("a text").contains("The fourth text."));
    sound(&brains, brain);
}

#[test]
fn a_state_that_was_decided_again_is_a_conflict_too() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    archive(&mut brain, "flat-one");
    settle(&mut brain, "restored", |e| e.restore_skill(&slug("flat-one")).map(drop));
    brains.clock.advance_ms(1_000);
    archive(&mut brain, "flat-one");
    // The files are as step 2 left them, but the skill was archived at another moment.
    let error = brain.undo(2, OnChanged::Refuse).expect_err("refused");
    assert_eq!(error.message(), "step 2 cannot be undone: changed since: the state of skill flat-one (steps 3, 4)");
    brain.undo(4, OnChanged::Refuse).expect("the last one can be undone");
    let brain = sound(&brains, brain);
    assert_eq!(standing(&brain, "flat-one"), SkillLifecycle::PLAIN);
}

#[test]
fn a_pin_is_undone_and_a_skill_without_a_record_comes_back_active() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, "pinned", |e| e.pin_skill(&slug("flat-one"), true));
    brain.undo(2, OnChanged::Refuse).expect("undone");
    assert!(!standing(&brain, "flat-one").pinned);
    brain.close().expect("closed");
    // Put there by hand: archiving it makes its first record.
    std::fs::write(brains.file("1", "skills/by-hand.md"), skill_text("by-hand", "x")).expect("written");
    let report = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &report).expect("opened");
    brain.adopt().expect("adopted");
    let before = tree(&brains);
    archive(&mut brain, "by-hand");
    brain.undo(5, OnChanged::Refuse).expect("undone");
    let brain = sound(&brains, brain);
    assert_eq!((tree(&brains), standing(&brain, "by-hand")), (before, SkillLifecycle::PLAIN));
}

#[test]
fn undoing_a_task_takes_its_skill_and_keeps_what_was_said() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let before = tree(&brains);
    let mut draft = Draft::new();
    let text = skill_text("learned", "Step one.");
    brain.edit(&mut draft).create_skill(&slug("learned"), &text, CreatedBy::Agent).expect("a skill");
    brain.edit(&mut draft).used(&slug("flat-one")).expect("used");
    let at = Timestamp(5);
    for (role, content) in [(MessageRole::User, "teach yourself"), (MessageRole::Assistant, "done")] {
        draft.message(MessageEntry { task: "t".into(), subscriber: None, role, content: content.into(), at });
    }
    draft.fact(Fact { subscriber: None, key: "k".into(), value: "v".into(), task: "t".into(), at });
    draft.task(TaskEntry {
        task: "t".into(),
        subscriber: None,
        outcome: TaskStatus::Converged,
        summary: "s".into(),
        at,
    });
    brain.settle(&draft, StepKind::Task, "converged: done").expect("settled");
    let undone = brain.undo(2, OnChanged::Refuse).expect("undone");
    let kept: Vec<(&str, u64)> = undone.plan.kept.iter().map(|kept| (kept.table, kept.rows)).collect();
    assert_eq!(kept, [("facts", 1), ("messages", 2), ("task_log", 1)]);
    let mut brain = sound(&brains, brain);
    assert_eq!(tree(&brains), before);
    let counts = reader(&brains).counts(&reader(&brains).skills().expect("skills")).expect("counts");
    assert_eq!((counts.messages, counts.facts, counts.tasks, counts.skills), (2, 1, 1, 2));
    let usage = brain.usage().expect("usage");
    assert_eq!(usage[&slug("flat-one")].use_count, 1, "a use is a fact");
    assert_eq!(
        SkillLifecycle::of(&usage[&slug("learned")]),
        SkillLifecycle::PLAIN,
        "the record stays, as for a file removed by hand"
    );
    // The name is free again, and the old text is one undo away.
    brain.undo(3, OnChanged::Refuse).expect("done again");
    assert_eq!(brain.skill_text(&slug("learned")).expect("a text"), text);
    sound(&brains, brain);
}

#[test]
fn what_cannot_be_undone_is_said_in_a_sentence() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let create = brain.undo(1, OnChanged::Overwrite).expect_err("refused");
    assert_eq!(create.kind(), ErrorKind::Refused);
    assert_eq!(create.message(), "step 1 made brain 1: there is nothing before it");
    assert_eq!(brain.undo(9, OnChanged::Refuse).expect_err("refused").kind(), ErrorKind::NotFound);

    archive(&mut brain, "flat-one");
    settle(&mut brain, "restored", |e| e.restore_skill(&slug("flat-one")).map(drop));
    let undone = brain.undo(2, OnChanged::Refuse).expect("nothing to do");
    assert!(undone.settled.is_none() && undone.plan.is_empty());
    assert_eq!(brain.lock().version, 3, "no step for nothing");

    edit(&mut brain, "flat-one", "Other.");
    brain.close().expect("closed");
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    let old = Digest::of(&skill_text("flat-one", "Do the flat thing.").into_bytes());
    database.execute("DELETE FROM blobs WHERE digest = ?1", [old.bytes()]).expect("lost");
    drop(database);
    let mut brain = brains.open("1").expect("opened");
    let lost = brain.undo(4, OnChanged::Overwrite).expect_err("refused");
    assert_eq!(lost.kind(), ErrorKind::Refused);
    assert!(lost.message().contains("lost what skills/flat-one.md was"), "{lost}");
    assert_eq!(reader(&brains).content(&old).expect("looked"), None);
    brain.close().expect("closed");

    // Drift stops an undo like any other step.
    std::fs::write(brains.file("1", "MEMORY.md"), "by hand\n").expect("written");
    assert_eq!(brains.open("1").expect_err("refused").kind(), ErrorKind::Corrupt);
    let report = BrainOptions { on_drift: OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &report).expect("opened");
    assert_eq!(brain.undo(2, OnChanged::Overwrite).expect_err("refused").kind(), ErrorKind::Corrupt);
}

#[test]
fn every_version_can_be_read_again() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut trees = vec![tree(&brains)];
    for n in 0..12_u32 {
        let name = format!("s{}", n % 3);
        let text = skill_text(&name, &format!("round {n}"));
        settle(&mut brain, "a round", |e| {
            let name = slug(&name);
            match n % 4 {
                0 | 1 => e
                    .create_skill(&name, &text, CreatedBy::Agent)
                    .or_else(|_| e.edit_skill(&name, &text))
                    .or_else(|_| e.restore_skill(&name))
                    .map(drop),
                2 => e
                    .write_skill_file(&name, "references/x.md", vec![n as u8; 4])
                    .or_else(|_| e.create_skill(&name, &text, CreatedBy::Agent))
                    .or_else(|_| e.restore_skill(&name))
                    .map(drop),
                _ => e
                    .archive_skill(&name)
                    .or_else(|_| e.restore_skill(&name).map(drop))
                    .or_else(|_| e.create_skill(&name, &text, CreatedBy::Agent).map(drop)),
            }
        });
        trees.push(tree(&brains));
        if n % 5 == 4 {
            let undone = brain.undo(i64::from(n), OnChanged::Overwrite).expect("undone");
            trees.extend(undone.settled.map(|_| tree(&brains)));
        }
    }
    let last = brain.lock().version;
    assert_eq!(last, trees.len() as u64);
    let brain = sound(&brains, brain);
    let reader = reader(&brains);
    assert_eq!(reader.versions().expect("versions"), (1, last));
    for (version, expected) in (1..).zip(&trees) {
        let files = reader.files_at(version).expect("files");
        let content = |digest: &Digest| reader.content(digest).expect("read").expect("kept");
        let read: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(path, digest)| (path.to_string(), content(digest))).collect();
        assert_eq!(read, *expected, "version {version}");
        let nothing = reader.compare(version, version).expect("compared");
        assert!(nothing.files.is_empty() && nothing.skills.is_empty());
    }
    brain.close().expect("closed");
}

#[test]
fn a_comparison_says_archived_and_not_removed_and_added() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    edit(&mut brain, "flat-one", "Changed first.");
    archive(&mut brain, "flat-one");
    archive(&mut brain, "dir-one");
    brain.close().expect("closed");
    let compared = reader(&brains).compare(1, 4).expect("compared");
    let files: Vec<(FileChangeKind, &str, Option<&str>, bool)> = compared
        .files
        .iter()
        .map(|file| (file.what, file.path.as_str(), file.from.as_ref().map(RelPath::as_str), file.before == file.after))
        .collect();
    let archived = |path, from, same| (FileChangeKind::Archived, path, Some(from), same);
    assert_eq!(
        files,
        [
            archived("skills/.archive/dir-one/SKILL.md", "skills/dir-one/SKILL.md", true),
            archived("skills/.archive/dir-one/references/notes.md", "skills/dir-one/references/notes.md", true),
            archived("skills/.archive/flat-one.md", "skills/flat-one.md", false),
        ]
    );
    let skills: Vec<(&str, String, String)> =
        compared.skills.iter().map(|skill| (skill.slug.as_str(), skill.before.words(), skill.after.words())).collect();
    let to_archived = |name| (name, "active".to_owned(), "archived".to_owned());
    assert_eq!(skills, [to_archived("dir-one"), to_archived("flat-one")]);
    let back = reader(&brains).compare(4, 1).expect("compared");
    assert!(back.files.iter().all(|file| file.what == FileChangeKind::Restored), "{back:?}");
}

fn herm() -> (TempBrains, Herm) {
    let brains = TempBrains::new();
    let herm = Herm::new(HERM, &brains.path());
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    (brains, herm)
}

fn clean(herm: &Herm) {
    for arguments in [["brain", "verify", "1"], ["receipts", "verify", "1"]] {
        let run = herm.run(&arguments);
        assert_eq!(run.code, 0, "{run:?}");
    }
}

/// Snapshots with times and hashes taken out.
fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[time]");
    settings.add_filter(r"[0-9a-f]{64}", "[digest]");
    settings.add_filter(r"\b[0-9a-f]{12}\b", "[short]");
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings
}

fn append(path: &Path, bytes: &[u8]) {
    let mut all = std::fs::read(path).unwrap_or_default();
    all.extend(bytes);
    std::fs::write(path, all).expect("written");
}

/// A brain with an edit by hand, a binary file, an archived skill, and more.
fn lived(brains: &TempBrains, herm: &Herm) {
    append(&brains.file("1", "skills/oracle-review.md"), b"\nOne more line.\n");
    append(&brains.file("1", "patterns/picture.bin"), &[0, 1, 2, 0xff]);
    assert_eq!(herm.run(&["brain", "adopt", "1"]).code, 0);
    for arguments in
        [&["skills", "archive", "1", "report-writing"][..], &["memory", "add", "1", "the vault holds ether"]]
    {
        assert_eq!(herm.run(arguments).code, 0);
    }
}

#[test]
fn a_tour_of_looking_back() {
    let (brains, herm) = herm();
    lived(&brains, &herm);
    let tour: &[&[&str]] = &[
        &["brain", "history", "1", "--limit", "3", "--files"],
        &["brain", "diff", "1", "1", "4"],
        &["brain", "diff", "1", "1", "--stat"],
        &["brain", "diff", "1", "4", "2", "--stat"],
        &["brain", "diff", "1", "3", "3"],
        &["brain", "diff", "1", "0"],
        &["brain", "diff", "1", "2", "9"],
        &["brain", "undo", "1", "3", "--dry-run"],
        &["brain", "undo", "1", "3"],
        &["brain", "undo", "1", "3"],
        &["memory", "add", "1", "another thing"],
        &["brain", "undo", "1", "4"],
        &["brain", "undo", "1", "4", "--dry-run", "--force"],
        &["brain", "undo", "1", "4", "--force"],
        &["memory", "add", "1", "a fact", "--fact", "key"],
        &["brain", "undo", "1", "8"],
        &["brain", "undo", "1", "1"],
        &["brain", "undo", "1", "99"],
        &["brain", "history", "1", "--limit", "4"],
    ];
    let mut text = String::new();
    for arguments in tour {
        let run = herm.run(arguments);
        text.push_str(&format!("$ herm {}\n{}", arguments.join(" "), run.stdout));
        text.extend(run.stderr.lines().map(|line| format!("! {line}\n")));
        text.push_str(&format!("= {}\n\n", run.code));
        clean(&herm);
    }
    settings().bind(|| insta::assert_snapshot!("ledger", text));
}

#[test]
fn the_json_of_history_diff_and_undo_is_stable() {
    let (brains, herm) = herm();
    lived(&brains, &herm);
    let documents: &[&[&str]] = &[
        &["brain", "history", "1", "--limit", "2"],
        &["brain", "diff", "1", "1", "4"],
        &["brain", "diff", "1", "3", "--stat"],
        &["brain", "diff", "1", "7"],
        &["brain", "undo", "1", "3", "--dry-run"],
        &["brain", "undo", "1", "3"],
        &["brain", "undo", "1", "3"],
        &["brain", "undo", "1", "1"],
    ];
    let mut text = String::new();
    for arguments in documents {
        let (code, json) = herm.json(arguments);
        text.push_str(&format!("$ herm --json {}\n{json:#}\n= {code}\n\n", arguments.join(" ")));
        clean(&herm);
    }
    settings().bind(|| insta::assert_snapshot!("ledger_json", text));
}

#[test]
fn a_lesson_of_a_real_task_is_undone_and_its_account_stays() {
    let (_brains, herm) = herm();
    assert_eq!(herm.run(&["run", "1", "--example", "vault"]).code, 0);
    let skills = |herm: &Herm| -> Vec<Value> {
        herm.json(&["skills", "list", "1"]).1["skills"].as_array().expect("skills").clone()
    };
    let counts = |herm: &Herm| herm.json(&["brain", "show", "1"]).1["brain"]["counts"].clone();
    let (with, before) = (skills(&herm).len(), counts(&herm));
    let run = herm.run(&["brain", "undo", "1", "2"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("not undone: 2 messages, 1 line of the task log"), "{run:?}");
    clean(&herm);
    assert_eq!(skills(&herm).len(), with - 1);
    let after = counts(&herm);
    assert_eq!((&after["messages"], &after["tasks"]), (&before["messages"], &before["tasks"]));
    let used = skills(&herm).iter().any(|skill| skill["usage"]["use_count"] == 1);
    assert!(used, "a use is a fact");
    assert_eq!(herm.run(&["receipts", "replay", "1", "2"]).code, 0, "the task still replays");
}

/// What later steps put into a skill's directory is not left behind as a skill of its own.
#[test]
fn an_undo_leaves_no_orphans() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, "made", |e| e.create_skill(&slug("foo"), &skill_text("foo", "x"), CreatedBy::Agent).map(drop));
    settle(&mut brain, "promoted", |e| e.write_skill_file(&slug("foo"), "references/a.md", b"a".to_vec()).map(drop));
    let promoted = brain.history(1).expect("history").remove(0).seq;
    let inner = skill_text("bar", "!`cmd`").into_bytes();
    settle(&mut brain, "more", |e| e.write_skill_file(&slug("foo"), "references/bar/SKILL.md", inner).map(drop));
    let error = brain.undo(promoted, OnChanged::Refuse).expect_err("a later file would be left behind");
    assert!(error.kind() == ErrorKind::Conflict && error.message().contains("references/bar/SKILL.md"), "{error}");
    brain.undo(promoted, OnChanged::Overwrite).expect("forced");
    let names: Vec<String> =
        brain.skills().expect("skills").entries().map(|entry| entry.place.slug.to_string()).collect();
    assert!(names.contains(&"foo".to_owned()) && !names.contains(&"bar".to_owned()), "{names:?}");
    assert!(!brains.file("1", "skills/foo").exists());
    sound(&brains, brain).close().expect("closed");
}
