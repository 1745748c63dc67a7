//! The drill: everything a change replaced, restored into an empty directory.

use herm::evolver::apply::{EvolverApproval, SkillUpdate, apply};
use herm::evolver::pass::{EvolverCandidateStatus, EvolverPassOptions};
use herm::evolver::rollback::{DrillCheck, DrillReport, DrillStatus, drill, drill_in_staging, rollback};
use herm::evolver::verification::VerificationOptions;
use herm::{Brain, ErrorKind};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};
use serde_json::json;

use super::{DAY, applying, fate, last_step, own, pass, seen, text_of, with_evidence};

fn mark(drilled: &DrillReport, check: &str) -> DrillCheck {
    drilled.checks.iter().find(|(name, _)| *name == check).expect("a check").1
}

/// A brain with one applied change, and the text before it.
fn changed(brains: &TempBrains) -> (Brain, i64, String) {
    let mut brain = with_evidence(brains, &["pump"]);
    let before = text_of(&brain, "pump");
    pass(&mut brain, &applying());
    let step = last_step(&brain);
    (brain, step, before)
}

#[test]
fn a_clean_drill_restores_what_was_and_leaves_the_brain_alone() {
    let brains = TempBrains::new();
    let outside = tempfile::tempdir().expect("a directory");
    let (mut brain, step, before) = changed(&brains);
    let (after, hash) = (text_of(&brain, "pump"), brain.lock().bundle_hash);
    let into = outside.path().join("drill");
    let drilled = drill(&mut brain, step, &into).expect("drilled");
    assert_eq!((drilled.status, drilled.errors.len(), drilled.warnings.len()), (DrillStatus::Pass, 0, 0));
    assert_eq!(std::fs::read_to_string(into.join("skills/pump.md")).expect("restored"), before);
    assert_eq!((text_of(&brain, "pump"), brain.lock().bundle_hash, last_step(&brain)), (after, hash, step));
    let state = brain.evolver_rows().drill().expect("readable").expect("remembered");
    assert_eq!((state["manifest"].clone(), state["status"].clone()), (json!(step), json!("pass")));
    assert_eq!(drill_in_staging(&mut brain, step).expect("again").status, DrillStatus::Pass);
}

#[test]
fn support_files_are_part_of_the_drill() {
    let brains = TempBrains::new();
    let outside = tempfile::tempdir().expect("a directory");
    let mut brain = brains.make("1");
    let expected = super::digest_of(&brain, "dir-one");
    let change = SkillUpdate {
        skill: slug("dir-one"),
        expected,
        content: skill_text("dir-one", "See [notes](references/notes.md) again."),
        support: vec![("references/notes.md".to_owned(), Some("other notes\n".to_owned()))],
        why: json!({}),
    };
    let step =
        apply(&mut brain, &change, EvolverApproval::Given, &VerificationOptions::default()).expect("applied").manifest;
    let into = outside.path().join("drill");
    let drilled = drill(&mut brain, step.expect("a step"), &into).expect("drilled");
    assert_eq!((drilled.status, mark(&drilled, "support-files-recovery")), (DrillStatus::Pass, DrillCheck::Pass));
    let restored = std::fs::read_to_string(into.join("skills/dir-one/references/notes.md")).expect("restored");
    assert_eq!(restored, "notes\n");
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let brains = TempBrains::new();
    let outside = tempfile::tempdir().expect("a directory");
    let (mut brain, step, _) = changed(&brains);
    let into = outside.path().join("drill");
    std::fs::create_dir(&into).expect("made");
    std::fs::write(into.join("mine"), "x").expect("written");
    let error = drill(&mut brain, step, &into).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(std::fs::read_dir(&into).expect("a listing").count(), 1);
    assert_eq!(drill(&mut brain, 2, &outside.path().join("d2")).expect_err("no change").kind(), ErrorKind::NotFound);
}

/// Damages what the journal keeps of a step.
fn damage(brains: &TempBrains, statement: &str) {
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    database.execute_batch(statement).expect("done");
}

#[test]
fn content_that_the_journal_lost_fails_the_drill_and_so_does_content_that_lies() {
    for statement in ["DELETE FROM blobs", "UPDATE blobs SET content = x'00'"] {
        let brains = TempBrains::new();
        let outside = tempfile::tempdir().expect("a directory");
        let (brain, step, _) = changed(&brains);
        brain.close().expect("closed");
        damage(&brains, statement);
        let mut brain = brains.open("1").expect("opened");
        let drilled = drill(&mut brain, step, &outside.path().join("drill")).expect("drilled");
        assert_eq!(
            (drilled.status, mark(&drilled, "target-recovery")),
            (DrillStatus::Fail, DrillCheck::Fail),
            "{statement}"
        );
        assert!(!drilled.errors.is_empty());
    }
}

#[test]
fn a_manifest_that_is_not_what_the_journal_has_fails_the_drill() {
    let brains = TempBrains::new();
    let outside = tempfile::tempdir().expect("a directory");
    let (brain, step, _) = changed(&brains);
    brain.close().expect("closed");
    damage(&brains, "UPDATE evolver_changes SET manifest = json_set(manifest, '$.files[0].path', '../../etc/passwd')");
    let mut brain = brains.open("1").expect("opened");
    let into = outside.path().join("drill");
    let drilled = drill(&mut brain, step, &into).expect("drilled");
    assert_eq!(drilled.status, DrillStatus::Fail);
    assert_eq!(std::fs::read_dir(&into).expect("a listing").count(), 0, "nothing was written anywhere");
}

#[test]
fn a_drill_never_writes_where_brains_live() {
    let brains = TempBrains::new();
    let (mut brain, step, _) = changed(&brains);
    for place in ["1/skills/zz", "elsewhere", "1"] {
        let error = drill(&mut brain, step, &brains.path().join(place)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Refused, "{place}");
    }
    assert!(!brains.path().join("elsewhere").exists());
}

#[test]
fn evidence_that_was_let_go_since_is_a_warning() {
    let brains = TempBrains::new();
    let outside = tempfile::tempdir().expect("a directory");
    let (mut brain, step, _) = changed(&brains);
    brains.clock.advance_ms(100 * DAY);
    assert!(brain.prune_evidence(30, u64::MAX).expect("pruned") > 0);
    let drilled = drill(&mut brain, step, &outside.path().join("drill")).expect("drilled");
    assert_eq!((drilled.status, mark(&drilled, "evidence-references")), (DrillStatus::Partial, DrillCheck::Warn));
    // Evidence is let go in time: that must not keep the gate shut for good.
    own(&mut brain, "valve");
    seen(&mut brain, "valve", &["!x", "!x"]);
    let run = pass(&mut brain, &EvolverPassOptions { require_restore_drill: true, ..applying() });
    assert_eq!(run.candidates.last().expect("one").status, EvolverCandidateStatus::Applied, "{:?}", fate(&run));
}

#[test]
fn where_drills_are_required_each_change_waits_for_the_drill_of_the_last() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["a-one", "b-two"]);
    let options = EvolverPassOptions { require_restore_drill: true, max_skills: 1, ..applying() };
    // Nothing was applied yet: the first goes through.
    assert_eq!(pass(&mut brain, &options).candidates[0].status, EvolverCandidateStatus::Applied);
    let first = last_step(&brain);
    let blocked = pass(&mut brain, &options);
    assert_eq!(
        fate(&blocked).last().expect("one"),
        &("b-two", EvolverCandidateStatus::Skipped, "restore-drill-required: restore-drill-missing")
    );
    drill_in_staging(&mut brain, first).expect("drilled");
    assert_eq!(pass(&mut brain, &options).candidates.last().expect("one").status, EvolverCandidateStatus::Applied);
    // That drill says nothing of the second change.
    brains.clock.advance_ms(1_000);
    seen(&mut brain, "a-one", &["!new"]);
    let stale = pass(&mut brain, &options);
    assert_eq!(stale.candidates[0].reason.to_string(), "restore-drill-required: restore-drill-stale");
    // Without the rule it is a remark.
    let free = EvolverPassOptions { require_restore_drill: false, ..options.clone() };
    let run = pass(&mut brain, &free);
    assert_eq!(run.candidates[0].status, EvolverCandidateStatus::Applied);
    assert_eq!(run.safety["restore_drill"]["state"], "restore-drill-stale");
    // A drill that failed keeps the gate shut.
    let last = last_step(&brain);
    let failed = json!({ "manifest": last, "status": "fail" });
    brain.write_evolver_rows(|notes| notes.set_drill(&failed)).expect("noted");
    brains.clock.advance_ms(1_000);
    seen(&mut brain, "b-two", &["!newer"]);
    let shut = pass(&mut brain, &options);
    assert!(fate(&shut).contains(&(
        "b-two",
        EvolverCandidateStatus::Skipped,
        "restore-drill-required: restore-drill-failed"
    )));
}

#[test]
fn with_the_rule_one_pass_makes_one_change() {
    let brains = TempBrains::new();
    let mut brain = with_evidence(&brains, &["a-one", "b-two"]);
    let run = pass(&mut brain, &EvolverPassOptions { require_restore_drill: true, ..applying() });
    let states: Vec<EvolverCandidateStatus> = run.candidates.iter().map(|one| one.status).collect();
    assert_eq!(states, [EvolverCandidateStatus::Applied, EvolverCandidateStatus::Skipped], "{:?}", fate(&run));
    // Taken back, it is as if nothing had been applied.
    let last = last_step(&brain);
    rollback(&mut brain, last, herm::brain::OnChanged::Refuse).expect("taken back");
    let run = pass(&mut brain, &EvolverPassOptions { require_restore_drill: true, ..applying() });
    assert_eq!(fate(&run)[0], ("a-one", EvolverCandidateStatus::Unchanged, "rolled-back-and-no-new-evidence"));
    assert_eq!(run.candidates[1].status, EvolverCandidateStatus::Applied);
}
