//! The guarded change of one skill, and taking it back.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use herm::brain::OnChanged;
use herm::evolver::apply::{EvolverApproval, SkillApplyReason, SkillApplyResult, SkillUpdate, apply};
use herm::evolver::rollback::{RollbackReason, rollback};
use herm::evolver::verification::VerificationOptions;
use herm::{Brain, Digest};
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};
use serde_json::json;

use super::{digest_of, file_of, last_step, own, text_of};

fn change(brain: &Brain, body: &str) -> SkillUpdate {
    SkillUpdate {
        skill: slug("pump"),
        expected: digest_of(brain, "pump"),
        content: skill_text("pump", body),
        support: Vec::new(),
        why: json!({ "what": "reviewed text", "by": "operator" }),
    }
}

fn with_pump(brains: &TempBrains) -> Brain {
    let mut brain = brains.make("1");
    own(&mut brain, "pump");
    brain
}

fn make(brain: &mut Brain, change: &SkillUpdate, verification: &VerificationOptions) -> SkillApplyResult {
    apply(brain, change, EvolverApproval::Given, verification).expect("an answer")
}

/// A change of the text as it is now.
fn rewrite(brain: &mut Brain, body: &str, verification: &VerificationOptions) -> SkillApplyResult {
    let wanted = change(brain, body);
    make(brain, &wanted, verification)
}

fn commands(pre: Option<&str>, verify: Option<&str>) -> VerificationOptions {
    VerificationOptions {
        pre_verify: pre.map(str::to_owned),
        verify: verify.map(str::to_owned),
        timeout: Some(Duration::from_secs(60)),
        ..VerificationOptions::default()
    }
}

#[test]
fn what_nobody_approved_is_not_made() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let (change, step) = (change(&brain, "new"), last_step(&brain));
    let done =
        apply(&mut brain, &change, EvolverApproval::Missing, &VerificationOptions::default()).expect("an answer");
    assert_eq!((done.applied, done.reason, last_step(&brain)), (false, SkillApplyReason::ApprovalRequired, step));
}

#[test]
fn a_digest_that_is_not_the_texts_is_refused_and_nothing_moves() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let step = last_step(&brain);
    let wrong = SkillUpdate { expected: Digest::of(b"another text"), ..change(&brain, "new") };
    let done = make(&mut brain, &wrong, &VerificationOptions::default());
    assert_eq!((done.reason, last_step(&brain)), (SkillApplyReason::HashMismatch, step));
    let missing = SkillUpdate { skill: slug("nobody"), ..change(&brain, "new") };
    assert_eq!(make(&mut brain, &missing, &VerificationOptions::default()).reason, SkillApplyReason::TargetNotFound);
}

#[test]
fn an_edit_by_hand_between_reading_and_applying_is_never_overwritten() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let change = change(&brain, "new");
    // Someone saves the file after it was read and hashed, and before the change is made.
    let by_hand = skill_text("pump", "by hand");
    std::fs::write(brains.file("1", "skills/pump.md"), &by_hand).expect("written");
    let done = apply(&mut brain, &change, EvolverApproval::Given, &VerificationOptions::default());
    assert!(done.is_err() || done.is_ok_and(|done| !done.applied));
    drop(brain);
    assert_eq!(std::fs::read_to_string(brains.file("1", "skills/pump.md")).expect("read"), by_hand);
}

#[test]
fn a_change_is_one_receipted_step_and_is_taken_back_as_one() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let before = text_of(&brain, "pump");
    let files = vec![("references/more.md".to_owned(), Some("more\n".to_owned()))];
    let change = SkillUpdate { support: files, ..change(&brain, "new") };
    let done = make(&mut brain, &change, &VerificationOptions::default());
    let step = done.manifest.expect("a step");
    assert!(done.applied && brain.receipts(1, u64::MAX).expect("receipts").last().expect("one").step == step);
    assert_eq!(file_of(&brain, "skills/pump/references/more.md").as_deref(), Some("more\n"));
    // The same again has nothing to do.
    let again = SkillUpdate { expected: digest_of(&brain, "pump"), ..change };
    assert_eq!(make(&mut brain, &again, &VerificationOptions::default()).reason, SkillApplyReason::Unchanged);
    assert_eq!(last_step(&brain), step);
    let undone = rollback(&mut brain, step, OnChanged::Refuse).expect("an answer");
    assert!(undone.rolled_back, "{undone:?}");
    assert_eq!(text_of(&brain, "pump"), before);
    assert_eq!(file_of(&brain, "skills/pump/references/more.md"), None, "support files go with it");
    assert_eq!(
        rollback(&mut brain, step, OnChanged::Refuse).expect("an answer").reason,
        RollbackReason::AlreadyAsBefore
    );
}

#[test]
fn a_rollback_over_a_changed_target_is_refused_unless_forced() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let before = text_of(&brain, "pump");
    let first = rewrite(&mut brain, "one", &VerificationOptions::default()).manifest.expect("a step");
    let two = change(&brain, "two");
    make(&mut brain, &two, &VerificationOptions::default());
    let refused = rollback(&mut brain, first, OnChanged::Refuse).expect("an answer");
    assert_eq!((refused.rolled_back, refused.reason), (false, RollbackReason::TargetChanged));
    assert_eq!(text_of(&brain, "pump"), two.content);
    assert!(rollback(&mut brain, first, OnChanged::Overwrite).expect("an answer").rolled_back);
    assert_eq!(text_of(&brain, "pump"), before);
    let error = rollback(&mut brain, 1, OnChanged::Refuse).expect_err("no change of the evolver's");
    assert_eq!(error.kind(), herm::ErrorKind::NotFound);
}

#[test]
fn what_does_not_verify_is_not_made() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let step = last_step(&brain);
    for (verify, code) in
        [("echo no; exit 3", 3), ("kill -9 $$", 137), ("/no/such/program", 127), ("cd /no/such/place", 2)]
    {
        let done = rewrite(&mut brain, "new", &commands(None, Some(verify)));
        let verified = done.verify.as_ref().expect("verified");
        assert_eq!(
            (done.reason, verified.exit_code.map(|code| code != 0)),
            (SkillApplyReason::VerifyFailed, Some(true)),
            "{verify}"
        );
        if code != 2 {
            assert_eq!(verified.exit_code, Some(code), "{verify}: {}", verified.output);
        }
    }
    assert_eq!(last_step(&brain), step);
    let leftovers = std::fs::read_dir(brains.path()).expect("a listing").filter_map(Result::ok);
    assert!(leftovers.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("staging")));
}

#[test]
fn a_verifier_that_cannot_be_started_is_a_failure_of_its_own() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let gone = VerificationOptions { directory: Some(brains.path().join("gone")), ..commands(None, Some("true")) };
    let done = rewrite(&mut brain, "new", &gone);
    assert_eq!((done.reason, done.verify.expect("verified").exit_code), (SkillApplyReason::VerifyFailed, Some(125)));
}

#[test]
fn a_verifier_that_takes_too_long_is_ended_with_everything_it_started() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let mark = brains.path().join("still-here");
    let verify = format!("(sleep 3; touch {}) & sleep 30", mark.display());
    let verification =
        VerificationOptions { timeout: Some(Duration::from_millis(300)), ..commands(None, Some(verify.as_str())) };
    let done = rewrite(&mut brain, "new", &verification);
    let verified = done.verify.expect("verified");
    assert_eq!((done.reason, verified.exit_code), (SkillApplyReason::VerifyFailed, Some(124)));
    // Its grandchild went with it: nobody is left to leave the mark.
    let ps = std::process::Command::new("pgrep").args(["-f", &mark.display().to_string()]).output();
    assert!(ps.is_err() || ps.is_ok_and(|ps| ps.stdout.is_empty()), "something still runs");
    assert!(!mark.exists());
}

#[test]
fn cheap_stages_run_first_and_the_first_failure_ends_it() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let log = brains.path().join("log");
    let say = |word: &str, code: i32| format!("echo {word} >> {}; exit {code}", log.display());
    let stages = |applied: &SkillApplyResult| -> Vec<(&'static str, bool)> {
        applied.verify.as_ref().expect("verified").stages.iter().map(|stage| (stage.name, stage.passed)).collect()
    };
    // The structure is broken: no command is even started.
    let broken = SkillUpdate { content: "---\nname: [\n---\nx".to_owned(), ..change(&brain, "x") };
    let done = make(&mut brain, &broken, &commands(Some(&say("pre", 0)), Some(&say("main", 0))));
    assert!(!done.applied && !log.exists(), "{done:?}");
    let done = rewrite(&mut brain, "y", &commands(Some(&say("pre", 1)), Some(&say("main", 0))));
    assert_eq!(stages(&done), [("builtin-structural", true), ("pre-verify-command", false)]);
    assert_eq!(done.verify.as_ref().expect("verified").failed_stage, Some("pre-verify-command"));
    let done = rewrite(&mut brain, "y", &commands(Some(&say("pre", 0)), Some(&say("main", 4))));
    assert_eq!(done.verify.as_ref().expect("verified").failed_stage, Some("verify-command"));
    let done = rewrite(&mut brain, "y", &commands(Some(&say("pre", 0)), Some(&say("main", 0))));
    assert!(done.applied);
    assert_eq!(stages(&done), [("builtin-structural", true), ("pre-verify-command", true), ("verify-command", true)]);
    assert_eq!(std::fs::read_to_string(&log).expect("read"), "pre\npre\nmain\npre\nmain\n");
    // Without being asked for, stages are not listed.
    let done = rewrite(&mut brain, "z", &commands(None, Some("true")));
    let verified = done.verify.expect("verified");
    assert!(done.applied && verified.stages.is_empty() && verified.enabled);
    let none = rewrite(&mut brain, "w", &VerificationOptions::default()).verify.expect("verified");
    assert!(none.passed && !none.enabled && none.exit_code.is_none());
}

#[test]
fn the_verifier_sees_the_change_the_text_before_and_the_manifest() {
    let brains = TempBrains::new();
    let mut brain = with_pump(&brains);
    let before = text_of(&brain, "pump");
    let out = brains.path().join("seen");
    let verify = format!(
        "set -e; pwd > {0}; cat \"$HERM_EVOLVE_TARGET_PATH\" >> {0}; cat \"$HERM_EVOLVE_BACKUP_PATH\" >> {0}; \
         cat \"$HERM_EVOLVE_MANIFEST_PATH\" >> {0}; \
         echo $HERM_EVOLVE_SKILL $HERM_EVOLVE_ORIGINAL_DIGEST $HERM_EVOLVE_NEW_DIGEST >> {0}; \
         test -z \"$HERM_SECRET_OF_THE_PARENT\"",
        out.display()
    );
    let wanted = change(&brain, "the new body");
    let done = make(&mut brain, &wanted, &commands(None, Some(&verify)));
    assert!(done.applied, "{done:?}");
    let seen = std::fs::read_to_string(&out).expect("read");
    for part in
        [&wanted.content, &before, "herm/evolver-change/v1", &format!("pump {} {}", wanted.expected, done.new_digest)]
    {
        assert!(seen.contains(part), "{part} is not in {seen}");
    }
}

#[test]
fn the_verifier_finds_what_the_skill_has_beside_it() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let wanted = SkillUpdate {
        skill: slug("dir-one"),
        expected: digest_of(&brain, "dir-one"),
        content: skill_text("dir-one", "See [notes](references/notes.md)."),
        support: vec![("references/more.md".to_owned(), Some("more\n".to_owned()))],
        why: json!({}),
    };
    let verify = "grep -q notes references/notes.md && grep -q more references/more.md && pwd | grep -q dir-one";
    let done = make(&mut brain, &wanted, &commands(None, Some(verify)));
    assert!(done.applied, "{done:?}");
}

#[test]
fn of_eight_at_once_with_one_expected_digest_exactly_one_is_made() {
    for round in 0..5 {
        let brains = TempBrains::new();
        let brain = with_pump(&brains);
        let before = digest_of(&brain, "pump");
        brain.close().expect("closed");
        let (start, brains) = (Arc::new(Barrier::new(8)), Arc::new(brains));
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (start, brains) = (Arc::clone(&start), Arc::clone(&brains));
                std::thread::spawn(move || {
                    start.wait();
                    let mut brain = brains.open("1").expect("opened");
                    let wanted = SkillUpdate { expected: before, ..change(&brain, &format!("of {n}")) };
                    let done = make(&mut brain, &wanted, &VerificationOptions::default());
                    brain.close().expect("closed");
                    (n, done.reason)
                })
            })
            .collect();
        let told: Vec<(i32, SkillApplyReason)> =
            threads.into_iter().map(|thread| thread.join().expect("joined")).collect();
        let made: Vec<i32> =
            told.iter().filter(|(_, reason)| *reason == SkillApplyReason::Applied).map(|(n, _)| *n).collect();
        assert_eq!(made.len(), 1, "round {round}: {told:?}");
        assert!(
            told.iter().all(|(_, reason)| matches!(reason, SkillApplyReason::Applied | SkillApplyReason::HashMismatch)),
            "{told:?}"
        );
        let brain = brains.open("1").expect("opened");
        assert!(text_of(&brain, "pump").contains(&format!("of {}", made[0])));
    }
}
