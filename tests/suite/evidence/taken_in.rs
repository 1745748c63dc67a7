//! Sessions of elsewhere: taken in once, and no step.

use super::*;

fn three(task: &str, at: Timestamp) -> Vec<Evidence> {
    let made = |args: &str| call(task, "echo", args, &["flat-one"], at);
    vec![made("1"), made("1"), failed(made("2"))]
}

fn everything(brain: &Brain) -> (EvidenceSummary, Vec<(i64, Evidence)>, Vec<SessionEvidence>) {
    let view = brain.evidence_view();
    (
        view.summary(EVER).expect("a summary"),
        view.recent(EVER, 10_000).expect("rows"),
        view.sessions_with(&slug("flat-one"), EVER, Timestamp(i64::MAX)).expect("sessions"),
    )
}

#[test]
fn taking_in_twice_adds_nothing_and_moves_nothing() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let (at, lock) = (brain.clock().now(), brain.lock().clone());
    let sessions = || {
        (0..600).map(move |n| {
            let task = format!("s-{n}");
            imported(&task, &three(&task, at), 2, at)
        })
    };
    let first = brain.import_evidence(sessions()).expect("taken in");
    assert_eq!(
        first,
        EvidenceImportCounts {
            sessions: 600,
            tool_events: 1_800,
            turn_events: 1_200,
            session_events: 600,
            duplicates: 0
        }
    );
    let before = everything(&brain);
    assert_eq!((before.0.tool_events, before.0.error_events, before.2.len()), (1_800, 600, 600));
    assert_eq!(brain.evidence_view().totals().expect("totals").uncounted, 0, "all is counted at once");
    let log = || std::fs::metadata(brains.file("1", "memory.db-wal")).expect("a log").len();
    let written = log();
    let second = brain.import_evidence(sessions()).expect("taken in");
    assert_eq!(second, EvidenceImportCounts { sessions: 600, duplicates: 1_800, ..EvidenceImportCounts::default() });
    assert_eq!((everything(&brain), log()), (before, written));
    assert_eq!((brain.lock(), brain.history(10).expect("steps").len()), (&lock, 1), "no step, no other hash");
    brain.close().expect("closed");
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
    assert_eq!(reader(&brains).last_receipt().expect("a number"), 1, "no receipt");
}

#[test]
fn a_session_that_grew_adds_only_what_is_new() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    let mut calls = three("s", at);
    let half = ImportedSession { completed: false, ..imported("s", &calls, 1, at) };
    brain.import_evidence([half]).expect("taken in");
    // The same call a third time, and another one in between.
    calls.insert(1, call("s", "scan", "9", &["flat-one"], at));
    calls.push(failed(call("s", "echo", "1", &["flat-one"], at)));
    let taken = brain.import_evidence([imported("s", &calls, 2, at)]).expect("taken in");
    assert_eq!(
        taken,
        EvidenceImportCounts { sessions: 1, tool_events: 2, turn_events: 1, session_events: 0, duplicates: 3 }
    );
    let (summary, rows, sessions) = everything(&brain);
    assert_eq!((summary.tool_events, rows.len(), summary.turn_events, summary.session_events), (5, 5, 2, 1));
    let grown = SessionEvidence { origin: SessionOrigin::Backfill, ..session("s", &calls, at) };
    assert_eq!(sessions, [grown]);
}

#[test]
fn a_session_that_was_recorded_here_is_known() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    let mut calls = three("live", at);
    // A tool that is not there is refused before its arguments are looked at.
    let refused = Evidence { status: EvidenceStatus::Refused, ..call("live", "nothing", "", &["flat-one"], at) };
    calls.push(Evidence { args: Evidence::digest_of_args(None), ..refused.clone() });
    settle(&mut brain, "live", &calls);
    let before = everything(&brain);
    let elsewhere: Vec<Evidence> = three("live", at).into_iter().chain([refused]).collect();
    let taken = brain.import_evidence([imported("live", &elsewhere, 1, at)]).expect("taken in");
    assert_eq!(taken, EvidenceImportCounts { sessions: 1, duplicates: 4, ..EvidenceImportCounts::default() });
    assert_eq!(everything(&brain), before);
    assert_eq!(before.2[0].origin, SessionOrigin::Live);
}

#[test]
fn the_same_call_of_another_session_is_another_call() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    brain.import_evidence([imported("a", &three("a", at), 1, at)]).expect("taken in");
    let taken = brain.import_evidence([imported("b", &three("a", at), 1, at)]).expect("taken in");
    assert_eq!((taken.tool_events, taken.duplicates), (3, 0));
    let tasks: Vec<String> =
        brain.evidence_view().recent(EVER, 3).expect("rows").into_iter().map(|(_, row)| row.task).collect();
    assert_eq!(tasks, ["b", "b", "b"], "a row belongs to the session it came with");
}

#[test]
fn what_was_let_go_for_room_is_not_taken_in_again() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let now = brain.clock().now();
    let sessions = || {
        (0..40).map(move |n| {
            let (task, at) = (format!("s-{n}"), Timestamp(now.millis() - DAY + n));
            imported(&task, &three(&task, at), 1, at)
        })
    };
    brain.import_evidence(sessions()).expect("taken in");
    let bytes = brain.evidence_view().totals().expect("totals").bytes;
    assert!(brain.prune_evidence(90, bytes / 2).expect("pruned") > 0);
    let before = everything(&brain);
    let taken = brain.import_evidence(sessions()).expect("taken in");
    assert_eq!((taken.tool_events, taken.duplicates), (0, 120));
    let after = everything(&brain);
    assert_eq!((after.1, after.0.tool_events), (before.1, 120));
}

#[test]
fn long_texts_are_bounded_whoever_sends_them() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    let long = "é".repeat(5_000);
    let row = Evidence { tool: long.clone(), summary: long.clone(), ..call("s", "t", "1", &[], at) };
    let sent = ImportedSession {
        task: long.clone(),
        model: long.clone(),
        turns: vec![ImportedTurn { number: 1, asked: long.clone(), answered: long.clone(), at }],
        ..imported("s", &[row], 0, at)
    };
    brain.import_evidence([sent.clone()]).expect("taken in");
    let taken = brain.import_evidence([sent]).expect("taken in");
    assert_eq!((taken.tool_events, taken.duplicates), (0, 1));
    let view = brain.evidence_view();
    let (_, row) = view.recent(EVER, 1).expect("rows").remove(0);
    let (_, turn) = view.recent_turns(EVER, 1).expect("turns").remove(0);
    for text in [row.task, row.tool, row.summary, turn.model, turn.asked, turn.answered] {
        assert!(text.chars().count() <= 501, "{} characters", text.chars().count());
    }
}

#[test]
fn a_brain_that_cannot_settle_takes_nothing_in() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    std::fs::write(brains.file("1", "MEMORY.md"), "edited\n").expect("edited");
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("opened");
    let at = brain.clock().now();
    assert!(brain.import_evidence([imported("s", &three("s", at), 1, at)]).is_err());
    assert!(brain.prune_evidence(0, 0).is_err());
    assert!(brain.write_evolver_rows(|notes| notes.set_passed_at(at)).is_err());
}
