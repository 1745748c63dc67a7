//! Evidence: counted once, found by its skill, taken in without doubles, let go when it is old, and never
//! part of what a brain is.

mod evolver_rows;
mod live;
mod taken_in;

use std::collections::BTreeMap;

use herm::memory::{
    Evidence, EvidenceImportCounts, EvidenceStatus, EvidenceSummary, ImportedSession, ImportedTurn, SessionEvidence,
    SessionOrigin, SkillTally, TaskEntry, TaskStatus, ToolTally, TurnEvidence, window_start,
};
use herm::{Brain, Digest, Draft, Reader, StepKind, Timestamp};
use herm_tests::TempBrains;
use herm_tests::brains::slug;

const DAY: i64 = 86_400_000;
/// Whatever there is.
const EVER: Timestamp = Timestamp(0);

fn call(task: &str, tool: &str, args: &str, skills: &[&str], at: Timestamp) -> Evidence {
    Evidence {
        task: task.to_owned(),
        turn: 1,
        tool: tool.to_owned(),
        status: EvidenceStatus::Ok,
        skills: skills.iter().map(|name| slug(name)).collect(),
        args: Digest::of(args.as_bytes()),
        arguments: None,
        summary: format!("{tool} with {args}"),
        millis: 3,
        at,
    }
}

fn failed(evidence: Evidence) -> Evidence {
    Evidence { status: EvidenceStatus::Failed, ..evidence }
}

fn turn(task: &str, number: u32, at: Timestamp) -> TurnEvidence {
    TurnEvidence {
        task: task.to_owned(),
        number,
        at,
        model: "m".to_owned(),
        platform: "p".to_owned(),
        asked: format!("question {number}"),
        answered: format!("answer {number}"),
    }
}

fn session(task: &str, calls: &[Evidence], at: Timestamp) -> SessionEvidence {
    let errors = calls.iter().filter(|call| call.status != EvidenceStatus::Ok).count();
    SessionEvidence {
        task: task.to_owned(),
        at,
        completed: true,
        interrupted: false,
        model: "m".to_owned(),
        platform: "p".to_owned(),
        turns: 2,
        calls: calls.len() as u32,
        errors: errors as u32,
        skills: calls.first().map(|call| call.skills.clone()).unwrap_or_default(),
        origin: SessionOrigin::Live,
    }
}

/// A task of the brain with these calls, settled as a step.
fn settle(brain: &mut Brain, task: &str, calls: &[Evidence]) {
    let at = brain.clock().now();
    let mut draft = Draft::new();
    draft.task(TaskEntry {
        task: task.to_owned(),
        subscriber: None,
        outcome: TaskStatus::Converged,
        summary: "done".to_owned(),
        at,
    });
    for call in calls {
        draft.evidence(call.clone());
    }
    draft.session(session(task, calls, at));
    draft.turn(turn(task, 1, at));
    assert!(brain.settle(&draft, StepKind::Task, task).expect("settled").moved);
}

/// The same from another place.
fn imported(task: &str, calls: &[Evidence], turns: u32, at: Timestamp) -> ImportedSession {
    ImportedSession {
        task: task.to_owned(),
        at,
        model: "m".to_owned(),
        platform: "p".to_owned(),
        tools: calls.to_vec(),
        turns: (1..=turns)
            .map(|number| ImportedTurn {
                number,
                asked: format!("question {number}"),
                answered: format!("answer {number}"),
                at,
            })
            .collect(),
        skills: calls.first().map(|call| call.skills.clone()).unwrap_or_default(),
        completed: true,
    }
}

fn reader(brains: &TempBrains) -> Reader {
    Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader")
}

fn numbers(rows: &[(i64, Evidence)]) -> Vec<i64> {
    rows.iter().map(|(id, _)| *id).collect()
}

/// The summary by looking at every row.
fn counted_by_hand(rows: &[(i64, Evidence)], turns: u64, sessions: u64) -> EvidenceSummary {
    let about_skills = |tool: &str| ["skill_view", "skill_manage", "skills_list"].contains(&tool);
    let mut summary = EvidenceSummary { turn_events: turns, session_events: sessions, ..EvidenceSummary::default() };
    let mut skills: BTreeMap<_, SkillTally> = BTreeMap::new();
    let mut tools: BTreeMap<_, ToolTally> = BTreeMap::new();
    for (id, row) in rows {
        let (error, about) = (u64::from(row.status != EvidenceStatus::Ok), u64::from(about_skills(&row.tool)));
        summary.tool_events += 1;
        summary.error_events += error;
        summary.skill_events += about;
        let tool =
            tools.entry(row.tool.clone()).or_insert_with(|| ToolTally { tool: row.tool.clone(), events: 0, errors: 0 });
        tool.events += 1;
        tool.errors += error;
        for skill in &row.skills {
            let tally = skills.entry(skill.clone()).or_insert_with(|| SkillTally {
                skill: skill.clone(),
                events: 0,
                skill_events: 0,
                errors: 0,
                last: 0,
            });
            tally.events += 1;
            tally.skill_events += about;
            tally.errors += error;
            tally.last = tally.last.max(*id);
        }
    }
    // By name already: a stable sort keeps it.
    summary.skills = skills.into_values().collect();
    summary.skills.sort_by_key(|tally| std::cmp::Reverse(tally.events));
    summary.tools = tools.into_values().collect();
    summary.tools.sort_by_key(|tally| std::cmp::Reverse(tally.events));
    summary
}

#[test]
fn counts_are_the_same_before_and_after_they_are_tallied() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let mut all = Vec::new();
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    for step in 0..40_u64 {
        brains.clock.advance_ms(DAY / 5);
        let at = brain.clock().now();
        let names = ["flat-one", "dir-one", "third"];
        let loaded = &names[..random(4) as usize];
        let task = format!("task-{step}");
        let calls: Vec<Evidence> = (0..random(5))
            .map(|_| {
                let tool = ["echo", "skill_view", "skills_list", "scan"][random(4) as usize];
                let made = call(&task, tool, &random(9).to_string(), loaded, at);
                if random(4) == 0 { failed(made) } else { made }
            })
            .collect();
        settle(&mut brain, &task, &calls);
        all.extend(calls);
        if step % 16 == 9 {
            brain.flush().expect("flushed");
        }
        let rows: Vec<(i64, Evidence)> = (1..).zip(all.iter().cloned()).collect();
        assert_eq!(brain.evidence_view().summary(EVER).expect("a summary"), counted_by_hand(&rows, step + 1, step + 1));
    }
    let now = brain.clock().now();
    let since = window_start(now, 3);
    let rows: Vec<(i64, Evidence)> = (1..).zip(all).filter(|(_, row): &(i64, Evidence)| row.at >= since).collect();
    let sessions = (0..40).filter(|back| now.millis() - back * (DAY / 5) >= since.millis()).count() as u64;
    let expected = counted_by_hand(&rows, sessions, sessions);
    let look = |view: herm::memory::EvidenceView<'_>| {
        assert_eq!(view.summary(since).expect("a summary"), expected);
        for tally in &expected.skills {
            assert_eq!(view.counts_of(&tally.skill, since).expect("counts"), *tally);
            let mut of_skill: Vec<i64> =
                rows.iter().filter(|(_, row)| row.skills.contains(&tally.skill)).map(|(id, _)| *id).collect();
            of_skill.reverse();
            assert_eq!(numbers(&view.of_skill(&tally.skill, since, 1_000).expect("rows")), of_skill);
            let few = view.of_skill(&tally.skill, since, 2).expect("rows");
            assert_eq!(numbers(&few), of_skill[..2.min(of_skill.len())]);
        }
        let mut newest: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
        newest.reverse();
        assert_eq!(numbers(&view.recent(since, 1_000).expect("rows")), newest);
    };
    assert!(brain.evidence_view().totals().expect("totals").uncounted > 0, "some rows wait");
    look(brain.evidence_view());
    look(reader(&brains).evidence_view());
    brain.flush().expect("flushed");
    assert_eq!(brain.evidence_view().totals().expect("totals").uncounted, 0);
    look(brain.evidence_view());
    brain.close().expect("closed");
    look(reader(&brains).evidence_view());
}

#[test]
fn a_flush_with_nothing_new_writes_no_counts() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    settle(&mut brain, "t-1", &[call("t-1", "echo", "{}", &["flat-one"], at)]);
    brain.flush().expect("flushed");
    let log = || std::fs::read(brains.file("1", "memory.db-wal")).expect("a log");
    let before = log();
    brain.flush().expect("flushed");
    assert_eq!(brain.prune_evidence(90, 1 << 26).expect("pruned"), 0);
    assert_eq!(brain.import_evidence([]).expect("taken in"), EvidenceImportCounts::default());
    assert_eq!(log(), before);
}

#[test]
fn rows_come_newest_first_whatever_their_numbers() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let now = brain.clock().now();
    settle(&mut brain, "now", &[call("now", "echo", "1", &["flat-one"], now)]);
    let old = Timestamp(now.millis() - 2 * DAY);
    let calls = [call("old", "echo", "1", &["flat-one"], old), call("old", "echo", "2", &["flat-one"], old)];
    brain.import_evidence([imported("old", &calls, 1, old)]).expect("taken in");
    let view = brain.evidence_view();
    assert_eq!(numbers(&view.recent(EVER, 9).expect("rows")), [1, 3, 2]);
    assert_eq!(numbers(&view.of_skill(&slug("flat-one"), EVER, 2).expect("rows")), [1, 3]);
    let turns: Vec<String> =
        view.recent_turns(EVER, 9).expect("turns").into_iter().map(|(_, turn)| turn.task).collect();
    assert_eq!(turns, ["now", "old"]);
    assert_eq!((view.known(3).expect("looked"), view.known(4).expect("looked")), (true, false));
}

#[test]
fn sessions_are_found_by_the_whole_name_of_a_skill() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    let one = [call("one", "echo", "1", &["flat-one", "dir-one"], at)];
    settle(&mut brain, "one", &one);
    settle(&mut brain, "two", &[call("two", "echo", "1", &["flat-one-more"], at)]);
    brains.clock.advance_ms(5);
    let later = brain.clock().now();
    let three = [failed(call("three", "echo", "1", &["flat-one"], later))];
    settle(&mut brain, "three", &three);
    let view = brain.evidence_view();
    let all = view.sessions_with(&slug("flat-one"), EVER, Timestamp(i64::MAX)).expect("sessions");
    assert_eq!(all, [session("three", &three, later), session("one", &one, at)]);
    let until = view.sessions_with(&slug("flat-one"), at, later).expect("sessions");
    assert_eq!(until, [session("one", &one, at)]);
}

#[test]
fn what_is_old_or_too_much_goes_and_counts_stay_true() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    for day in 0..10 {
        let at = brain.clock().now();
        let task = format!("day-{day}");
        let calls: Vec<Evidence> = (0..50).map(|n| call(&task, "echo", &n.to_string(), &["flat-one"], at)).collect();
        settle(&mut brain, &task, &calls);
        brains.clock.advance_ms(DAY);
    }
    brain.flush().expect("flushed");
    let before = brain.evidence_view().totals().expect("totals");
    assert_eq!((before.tool_events, before.turn_events, before.session_events), (500, 10, 10));
    // Day 0 is ten days ago: with five days kept, days 0 to 4 go, and their counts.
    let gone = brain.prune_evidence(5, u64::MAX).expect("pruned");
    assert_eq!(gone, 5 * (50 + 1 + 1) + 5 * 2);
    assert_eq!(brain.prune_evidence(5, u64::MAX).expect("pruned"), 0);
    let view = brain.evidence_view();
    let summary = view.summary(EVER).expect("a summary");
    assert_eq!((summary.tool_events, summary.turn_events, summary.session_events), (250, 5, 5));
    assert_eq!(numbers(&view.of_skill(&slug("flat-one"), EVER, 1_000).expect("rows")).last(), Some(&251));
    let kept = view.totals().expect("totals");
    assert!(kept.bytes * 2 >= before.bytes - 20 && kept.bytes * 2 <= before.bytes + 20, "{kept:?} of {before:?}");
    // Half of the room: the oldest half goes, and what was counted of it stays.
    let gone = brain.prune_evidence(5, kept.bytes / 2).expect("pruned");
    let view = brain.evidence_view();
    let left = view.totals().expect("totals");
    assert!((120..=170).contains(&gone) && left.bytes <= kept.bytes / 2 && left.bytes > kept.bytes / 3, "{left:?}");
    let rows = view.of_skill(&slug("flat-one"), EVER, 1_000).expect("rows");
    assert_eq!(rows.len() as u64, left.tool_events);
    assert_eq!(rows.first().map(|(id, _)| *id), Some(500), "the newest stays");
    let counts = view.counts_of(&slug("flat-one"), EVER).expect("counts");
    assert_eq!((counts.events, counts.last), (250, 500));
    assert_eq!(view.summary(EVER).expect("a summary").session_events, 5, "a session's row stays until it is old");
    assert_eq!(brain.prune_evidence(5, kept.bytes / 2).expect("pruned"), 0);
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn numbers_are_never_given_twice() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    settle(&mut brain, "a", &[call("a", "echo", "1", &[], at), call("a", "echo", "2", &[], at)]);
    brain.flush().expect("flushed");
    brains.clock.advance_ms(100 * DAY);
    brain.prune_evidence(90, u64::MAX).expect("pruned");
    assert_eq!(brain.evidence_view().totals().expect("totals").tool_events, 0);
    assert_eq!(brain.next_evidence().expect("a number"), 3);
    let at = brain.clock().now();
    settle(&mut brain, "b", &[call("b", "echo", "1", &[], at)]);
    assert_eq!(numbers(&brain.evidence_view().recent(EVER, 9).expect("rows")), [3]);
    // Turns are weighed from the start again, where all of them went.
    brain.flush().expect("flushed");
    let weighed = brain.evidence_view().totals().expect("totals").bytes;
    brains.clock.advance_ms(100 * DAY);
    brain.prune_evidence(90, u64::MAX).expect("pruned");
    assert!(weighed > 0 && brain.evidence_view().totals().expect("totals").bytes == 0);
}

#[test]
fn a_brain_of_schema_5_is_looked_at_as_it_is_and_keeps_arguments_once_it_is_opened() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let at = brain.clock().now();
    settle(&mut brain, "old", &[call("old", "echo", "1", &["flat-one"], at)]);
    let hash = brain.lock().bundle_hash;
    brain.close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    connection.execute_batch("DROP TABLE evidence_arguments; PRAGMA user_version = 5").expect("as it was");
    drop(connection);
    let kept = |reader: &Reader| -> Vec<Option<String>> {
        let rows = reader.evidence_view().of_skill(&slug("flat-one"), EVER, 9).expect("rows");
        rows.into_iter().map(|(_, row)| row.arguments.map(|arguments| arguments.to_string())).collect()
    };
    let before = std::fs::read(brains.file("1", "memory.db")).expect("memory.db");
    assert_eq!(kept(&reader(&brains)), [None]);
    assert_eq!(std::fs::read(brains.file("1", "memory.db")).expect("memory.db"), before);
    let mut brain = brains.open("1").expect("migrated");
    assert_eq!(brain.lock().bundle_hash, hash);
    let arguments = serde_json::json!({ "id": "x" });
    let arguments = arguments.as_object().map(herm::memory::KeptArguments::of);
    let now = brain.clock().now();
    settle(&mut brain, "new", &[Evidence { arguments, ..call("new", "echo", "1", &["flat-one"], now) }]);
    let known = Some(r#"{"id":"x"}"#.to_owned());
    assert_eq!(kept(&reader(&brains)), [known.clone(), None]);
    // They count as what evidence takes, and go with their row.
    brain.flush().expect("flushed");
    brains.clock.advance_ms(100 * DAY);
    brain.prune_evidence(90, u64::MAX).expect("pruned");
    assert_eq!(brain.evidence_view().totals().expect("totals").bytes, 0);
    assert!(brain.verify().expect("verified").is_sound());
    brain.close().expect("closed");
    let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    let left: i64 =
        connection.query_row("SELECT count(*) FROM evidence_arguments", [], |row| row.get(0)).expect("a count");
    assert_eq!(left, 0);
}

#[test]
fn a_brain_of_a_schema_that_is_too_old_to_look_at_is_brought_up_to_date_by_whoever_opens_it_to_write() {
    for looks_first in [true, false] {
        let brains = TempBrains::new();
        let mut brain = brains.make("1");
        let at = brain.clock().now();
        settle(&mut brain, "old", &[call("old", "echo", "1", &["flat-one"], at)]);
        brain.close().expect("closed");
        let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        connection
            .execute_batch(
                "DROP INDEX evidence_by_task; DROP TABLE evidence_sessions; DROP TABLE evidence_turns; \
                 DROP TABLE evidence_tallies; DROP TABLE evidence_by_skill; DROP TABLE evolver_state; \
                 DROP TABLE evolver_changes; DROP TABLE evolver_queue; DROP TABLE transcripts; \
                 DROP TABLE outcomes; DROP TABLE trials; DROP TABLE trial_tasks; DROP TABLE evidence_arguments; \
                 CREATE TABLE transcripts (\n  step INTEGER PRIMARY KEY,\n  task TEXT NOT NULL,\n  \
                 digest TEXT NOT NULL,\n  content BLOB NOT NULL\n) STRICT; \
                 CREATE INDEX evidence_by_step ON evidence (step); PRAGMA user_version = 2",
            )
            .expect("as it was");
        drop(connection);
        if looks_first {
            let before = std::fs::read(brains.file("1", "memory.db")).expect("memory.db");
            let refused = Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect_err("refused");
            assert_eq!(refused.kind(), herm::ErrorKind::Refused, "{refused}");
            assert!(refused.hint_text().is_some_and(|hint| hint.contains("herm brain adopt")), "{refused:?}");
            assert_eq!(std::fs::read(brains.file("1", "memory.db")).expect("memory.db"), before);
        }
        let mut brain = brains.open("1").expect("migrated");
        let now = brain.clock().now();
        settle(&mut brain, "new", &[call("new", "echo", "1", &["flat-one"], now)]);
        brain.close().expect("closed");
        let reader = reader(&brains);
        assert_eq!(reader.evidence_view().counts_of(&slug("flat-one"), EVER).expect("counts").events, 2);
        assert_eq!(reader.evidence_view().totals().expect("totals").uncounted, 0);
        assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
    }
}
