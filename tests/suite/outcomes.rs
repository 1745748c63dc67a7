//! Outcomes: reported once, corrected with a receipt each time, seen by the hash, taken back by a rewind.

use herm::memory::{
    Arm, MAX_REPORTS, MemorySource, MessageEntry, MessageRole, OutcomeCounts, OutcomeReport, OutcomeSource,
    OutcomeValue, Search, SearchScope, TaskEntry, TaskOutcome, TaskStatus, Trial, TrialState, TrialTask,
};
use herm::receipt::Envelope;
use herm::tuning::SearchWeights;
use herm::{Brain, Draft, ErrorKind, Layout, Reader, SettledStep, StepKind, TaskId, Timestamp};
use herm_tests::TempBrains;
use herm_tests::brains::slug;
use serde_json::{Value, json};

fn id(task: &str) -> TaskId {
    task.parse().expect("a task id")
}

fn report(brain: &Brain, source: OutcomeSource, value: OutcomeValue) -> OutcomeReport {
    OutcomeReport { source, value, note: None, at: brain.clock().now() }
}

/// A task, settled with what is known of it then.
fn settle(brain: &mut Brain, task: &str, reports: Vec<OutcomeReport>) -> SettledStep {
    let at = brain.clock().now();
    let mut draft = Draft::new();
    draft.task(TaskEntry {
        task: task.to_owned(),
        subscriber: None,
        outcome: TaskStatus::Converged,
        summary: format!("did {task}"),
        at,
    });
    draft.outcome(&id(task), TaskOutcome::of(reports));
    brain.settle(&draft, StepKind::Task, "converged: did it").expect("settled")
}

fn record(brain: &mut Brain, task: &str, source: OutcomeSource, value: OutcomeValue) -> Option<SettledStep> {
    let report = report(brain, source, value);
    brain.record_outcome(&id(task), report).expect("recorded")
}

fn value_of(brain: &Brain, task: &str) -> OutcomeValue {
    brain.outcome(&id(task)).expect("an outcome").expect("a task").value
}

fn predicate(step: &SettledStep) -> Value {
    let receipt = step.receipt.as_ref().expect("a receipt");
    let payload = Envelope::parse(&receipt.envelope).expect("an envelope").payload().expect("a payload");
    serde_json::from_slice::<Value>(&payload).expect("a statement")["predicate"].clone()
}

fn reader(brains: &TempBrains) -> Reader {
    Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader")
}

/// The line of the log itself, which is what the hash sees.
fn line(brains: &TempBrains, task: &str) -> String {
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    connection.query_row("SELECT outcome FROM task_log WHERE task = ?1", [task], |row| row.get(0)).expect("a line")
}

#[test]
fn good_then_bad_are_two_steps_with_receipts_and_the_same_again_is_none() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let task = settle(&mut brain, "a", vec![]);
    assert_eq!(value_of(&brain, "a"), OutcomeValue::Unknown);
    let good = record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Good).expect("a step");
    assert_eq!((good.before, good.version, good.moved), (task.after, task.version + 1, true));
    assert_eq!(record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Good), None);
    brains.clock.advance_ms(5_000);
    assert_eq!(record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Good), None, "also later");
    let bad = record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Bad).expect("a step");
    assert_eq!((bad.before, value_of(&brain, "a")), (good.after, OutcomeValue::Bad));
    for (step, value) in [(&good, "good"), (&bad, "bad")] {
        let said = predicate(step);
        assert_eq!((&said["kind"], &said["action"]), (&json!("maintenance"), &json!("feedback")));
        let feedback = json!({ "task": "a", "subscriber": null, "source": "feedback", "value": value, "note": null, "outcome": value });
        assert_eq!((&said["change"]["feedback"], &said["moved"]), (&feedback, &json!(["memory"])));
    }
    let last = brain.history(1).expect("history").remove(0);
    assert_eq!((last.kind, last.summary.as_str()), (StepKind::Feedback, "feedback on task a: bad"));
    assert!(brain.verify().expect("verified").is_sound());
    brain.close().expect("closed");
    assert_eq!(line(&brains, "a"), "converged bad");
    assert_eq!(reader(&brains).task_status(&id("a")).expect("a status"), Some(TaskStatus::Converged));
}

#[test]
fn every_report_is_a_step_also_where_the_outcome_stays() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let schema = report(&brain, OutcomeSource::Schema, OutcomeValue::Unknown);
    let verifier = report(&brain, OutcomeSource::Verifier, OutcomeValue::Good);
    settle(&mut brain, "a", vec![schema.clone(), verifier.clone()]);
    settle(&mut brain, "b", vec![schema]);
    assert_eq!((line(&brains, "a"), line(&brains, "b")), ("converged good".to_owned(), "converged".to_owned()));
    let mut before = brain.lock().bundle_hash;
    for (source, value, expected) in [
        (OutcomeSource::Feedback, OutcomeValue::Good, "converged good #3"),
        (OutcomeSource::Feedback, OutcomeValue::Score(0.7), "converged 0.70"),
        (OutcomeSource::Label, OutcomeValue::Bad, "converged bad"),
        (OutcomeSource::Feedback, OutcomeValue::Good, "converged bad #6"),
        (OutcomeSource::Label, OutcomeValue::Unknown, "converged good"),
    ] {
        let step = record(&mut brain, "a", source, value).expect("a step");
        assert_eq!((step.before, line(&brains, "a").as_str()), (before, expected));
        assert_ne!(step.after, before);
        before = step.after;
    }
    let sources: Vec<_> = brain.outcome(&id("a")).expect("read").expect("a task").sources;
    let said: Vec<_> = sources.iter().map(|report| (report.source, report.value)).collect();
    use OutcomeSource::{Feedback, Label, Schema, Verifier};
    let good = OutcomeValue::Good;
    let unknown = OutcomeValue::Unknown;
    assert_eq!(said, [(Label, unknown), (Feedback, good), (Verifier, good), (Schema, unknown)]);
    let counts = brain.outcome_counts(Timestamp(0)).expect("counts");
    assert_eq!(counts, OutcomeCounts { good: 1, unknown: 1, ..OutcomeCounts::default() });
}

#[test]
fn a_note_is_kept_beside_the_content_and_the_receipt_has_its_digest_alone() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, "a", vec![]);
    let noted = |brain: &Brain, note: String| {
        let report = report(brain, OutcomeSource::Label, OutcomeValue::Bad);
        OutcomeReport { note: Some(note), ..report }
    };
    let said = noted(&brain, " the price\nis wrong ".to_owned());
    let step = brain.record_outcome(&id("a"), said).expect("recorded").expect("a step");
    let receipt = predicate(&step)["change"]["feedback"].clone();
    let digest = herm::ids::sha256(b"the price is wrong");
    assert_eq!(receipt["note"], json!({ "sha256": digest, "bytes": 18 }));
    let kept = brain.outcome(&id("a")).expect("read").expect("a task").sources.remove(0);
    assert_eq!(kept.note.as_deref(), Some("the price is wrong"));
    let long = noted(&brain, "x".repeat(501));
    let error = brain.record_outcome(&id("a"), long).expect_err("refused");
    assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidInput, "the note has more than 500 characters"));
    let none = report(&brain, OutcomeSource::Label, OutcomeValue::Score(f64::INFINITY));
    assert_eq!(brain.record_outcome(&id("a"), none).expect_err("refused").kind(), ErrorKind::InvalidInput);
}

#[test]
fn nothing_is_said_of_a_task_that_is_not_there() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let said = report(&brain, OutcomeSource::Label, OutcomeValue::Good);
    let error = brain.record_outcome(&id("nobody"), said).expect_err("refused");
    assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "brain 1 has no task nobody"));
    assert_eq!(brain.outcome(&id("nobody")).expect("read"), None);
    // Nor in a draft.
    let mut draft = Draft::new();
    let said = report(&brain, OutcomeSource::Label, OutcomeValue::Good);
    draft.outcome(&id("nobody"), TaskOutcome::of(vec![said]));
    assert_eq!(brain.settle(&draft, StepKind::Feedback, "x").expect_err("refused").kind(), ErrorKind::NotFound);
    assert_eq!(brain.lock().version, 1);
}

#[test]
fn a_flood_of_contradictions_ends_and_the_operator_still_has_the_last_word() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, "a", vec![]);
    let value = |n: usize| if n.is_multiple_of(2) { OutcomeValue::Good } else { OutcomeValue::Bad };
    for n in 0..MAX_REPORTS {
        assert!(record(&mut brain, "a", OutcomeSource::Feedback, value(n)).is_some());
    }
    let more = report(&brain, OutcomeSource::Feedback, value(MAX_REPORTS));
    let error = brain.record_outcome(&id("a"), more).expect_err("refused");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "task a was reported on 20 times"));
    let again = value(MAX_REPORTS - 1);
    assert_eq!(record(&mut brain, "a", OutcomeSource::Feedback, again), None, "what stands may be said again");
    assert_eq!(brain.lock().version, 2 + MAX_REPORTS as u64);
    assert!(record(&mut brain, "a", OutcomeSource::Label, OutcomeValue::Score(0.25)).is_some());
    assert_eq!(value_of(&brain, "a"), OutcomeValue::Score(0.25));
}

#[test]
fn a_rewind_takes_reports_and_trials_back_to_before_the_step() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, "a", vec![]);
    record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Good);
    let trial = |state| Trial {
        skill: slug("flat-one"),
        state,
        since: Timestamp(5),
        decided: None,
        reason: "drawn".to_owned(),
    };
    brain.write_trials(|rows| rows.put_trial(&trial(TrialState::Trial))).expect("written");
    record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Bad);
    brain.write_trials(|rows| rows.put_trial(&trial(TrialState::Harmful))).expect("written");
    brain.close().expect("closed");
    for (step, value, reports, state) in [
        (5, OutcomeValue::Bad, 1, Some(TrialState::Harmful)),
        (4, OutcomeValue::Good, 1, Some(TrialState::Trial)),
        (3, OutcomeValue::Unknown, 0, None),
    ] {
        let scratch = tempfile::tempdir().expect("a directory");
        let layout = Layout::new(scratch.path());
        let now = if step == 5 {
            reader(&brains)
        } else {
            reader(&brains).rewind(step, &layout).expect("rewound");
            Reader::open(&layout, &"1".parse().expect("an id")).expect("a reader")
        };
        let outcome = now.outcome(&id("a")).expect("read").expect("a task");
        assert_eq!((outcome.value, outcome.sources.len()), (value, reports), "before step {step}");
        assert_eq!(now.trials().expect("trials").first().map(|trial| trial.state), state, "before step {step}");
    }
}

#[test]
fn a_trial_knows_its_tasks_with_the_outcomes_that_they_have_now() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let task = |task: &str, arm, rehearsed, score| TrialTask {
        skill: slug("flat-one"),
        task: task.to_owned(),
        arm,
        at: Timestamp(7),
        score,
        errors: 1,
        turns: 2,
        micro_usd: 30,
        rehearsed,
    };
    let at = brain.clock().now();
    let mut draft = Draft::new();
    draft.task(TaskEntry {
        task: "a".to_owned(),
        subscriber: None,
        outcome: TaskStatus::Converged,
        summary: "s".to_owned(),
        at,
    });
    let begun = Trial {
        skill: slug("flat-one"),
        state: TrialState::Trial,
        since: at,
        decided: None,
        reason: "learned from task a".to_owned(),
    };
    draft.trial(begun.clone());
    draft.trial_task(task("a", Arm::Shown, false, None));
    brain.settle(&draft, StepKind::Task, "converged: s").expect("settled");
    let rehearsed = [task("a", Arm::Shown, true, Some(0.5)), task("a", Arm::HeldBack, true, Some(0.0))];
    let added = brain
        .write_trials(|rows| {
            let again = rows.add_task(&task("a", Arm::Shown, false, Some(1.0)))?;
            Ok((rows.add_task(&rehearsed[0])?, rows.add_task(&rehearsed[1])?, again, rows.put_trial(&begun)?))
        })
        .expect("written");
    assert_eq!(added, (true, true, false, false), "what is known is not added again");
    let scores = |brain: &Brain| -> Vec<Option<f64>> {
        let tasks = brain.trial_tasks(&slug("flat-one")).expect("tasks");
        tasks.iter().map(|task| task.score).collect()
    };
    assert_eq!(scores(&brain), [None, Some(0.5), Some(0.0)]);
    record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Score(0.7));
    assert_eq!(scores(&brain), [Some(0.7), Some(0.5), Some(0.0)]);
    assert_eq!(brain.trials_of_task(&id("a")).expect("trials"), [(slug("flat-one"), Arm::Shown)]);
    let proven = Trial { state: TrialState::Proven, decided: Some(at), reason: "it helps".to_owned(), ..begun.clone() };
    brain.write_trials(|rows| rows.put_trial(&proven)).expect("written");
    assert_eq!(brain.trials().expect("trials"), std::slice::from_ref(&proven));
    assert_eq!(brain.trial(&slug("flat-one")).expect("read"), Some(proven));
    assert_eq!(brain.trial(&slug("dir-one")).expect("read"), None);
    brain.close().expect("closed");
    assert_eq!(reader(&brains).trial_tasks(&slug("flat-one")).expect("tasks")[1..], rehearsed);
}

#[test]
fn a_brain_of_schema_4_opens_and_its_tasks_can_be_rated() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let settled = settle(&mut brain, "old", vec![]);
    brain.close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    connection
        .execute_batch("DROP TABLE outcomes; DROP TABLE trials; DROP TABLE trial_tasks; DROP TABLE evidence_arguments; PRAGMA user_version = 4")
        .expect("as it was");
    drop(connection);
    let mut brain = brains.open("1").expect("migrated");
    assert_eq!(brain.lock().bundle_hash, settled.after);
    assert_eq!(brain.outcome(&id("old")).expect("read"), Some(TaskOutcome::default()));
    assert!(record(&mut brain, "old", OutcomeSource::Feedback, OutcomeValue::Good).is_some());
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn a_fork_knows_how_good_answers_were_and_no_longer_who_said_so() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    settle(&mut brain, "a", vec![]);
    record(&mut brain, "a", OutcomeSource::Feedback, OutcomeValue::Good);
    brain.close().expect("closed");
    let new = "2".parse().expect("an id");
    reader(&brains).fork(None, &brains.layout(), &new, &brains.opening()).expect("forked");
    let mut fork = brains.open("2").expect("opened");
    let known = TaskOutcome { value: OutcomeValue::Good, sources: Vec::new() };
    assert_eq!(fork.outcome(&id("a")).expect("read"), Some(known));
    let said = report(&fork, OutcomeSource::Feedback, OutcomeValue::Good);
    assert!(fork.record_outcome(&id("a"), said).expect("recorded").is_some());
}

#[test]
fn a_rated_answer_is_found_once_and_not_also_as_a_line_of_the_log() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    let mut draft = Draft::new();
    let (task, content) = ("a".to_owned(), "the parcel is at the mill".to_owned());
    draft.message(MessageEntry { task, subscriber: None, role: MessageRole::Assistant, content: content.clone(), at });
    let (task, outcome) = ("a".to_owned(), TaskStatus::Converged);
    draft.task(TaskEntry { task, subscriber: None, outcome, summary: content, at });
    let verifier = report(&brain, OutcomeSource::Verifier, OutcomeValue::Good);
    draft.outcome(&id("a"), TaskOutcome::of(vec![verifier]));
    brain.settle(&draft, StepKind::Task, "converged: found").expect("settled");
    let search = Search {
        text: "parcel",
        scope: SearchScope::Operator,
        except_task: None,
        limit: 9,
        now: at,
        weights: SearchWeights::default(),
    };
    let found = reader(&brains).search(&search).expect("searched");
    assert_eq!(found.hits.iter().map(|hit| hit.source).collect::<Vec<_>>(), [MemorySource::Message]);
}
