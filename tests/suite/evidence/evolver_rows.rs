//! What the evolver keeps beside the content.

use herm::brain::MemoryLayer;
use herm::memory::layers::LayerEdit;
use herm::memory::{CandidateKind, EvolverChange, QueueRow, ReviewStatus};
use serde_json::{Value, json};

use super::*;

/// A draft that writes a line into the memory, and says what the evolver did.
fn change(brain: &Brain, line: &str, skill: &str, manifest: Value) -> Draft {
    let mut draft = Draft::new();
    brain
        .edit(&mut draft)
        .edit_layer(MemoryLayer::Memory, &[LayerEdit::Add { content: line.to_owned() }])
        .expect("edited");
    draft.evolved(slug(skill), manifest);
    draft
}

#[test]
fn a_change_is_kept_under_its_step_if_the_step_happens() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let manifest = json!({ "evidence": [1, 2] });
    let draft = change(&brain, "Improved.", "flat-one", manifest.clone());
    drop(draft.clone());
    assert_eq!(brain.evolver_rows().changes(None).expect("changes"), []);
    assert!(brain.settle(&draft, StepKind::Maintenance, "evolved").expect("settled").moved);
    // The same content again is no step.
    let again = change(&brain, "Improved.", "flat-one", json!({}));
    assert!(!brain.settle(&again, StepKind::Maintenance, "evolved").expect("settled").moved);
    let kept = EvolverChange { step: 2, skill: slug("flat-one"), manifest, rolled_back_at: None };
    assert_eq!(brain.evolver_rows().changes(None).expect("changes"), std::slice::from_ref(&kept));
    assert_eq!(brain.evolver_rows().changes(Some(&slug("dir-one"))).expect("changes"), []);
    assert_eq!(brain.evolver_rows().changes_of(2).expect("changes"), std::slice::from_ref(&kept));
    // Taken back with the step that takes it back, or by a note.
    let mut back = change(&brain, "As before.", "dir-one", json!(1));
    back.rolled_back(2);
    brain.settle(&back, StepKind::Undo { of: None }, "back").expect("settled");
    let now = brain.clock().now();
    let third = EvolverChange { step: 3, skill: slug("dir-one"), manifest: json!(1), rolled_back_at: None };
    let rolled_back = EvolverChange { rolled_back_at: Some(now), ..kept };
    assert_eq!(brain.evolver_rows().changes(None).expect("changes"), [third, rolled_back]);
    let marked =
        brain.write_evolver_rows(|notes| Ok((notes.mark_rolled_back(2, now)?, notes.mark_rolled_back(3, now)?)));
    assert_eq!(marked.expect("noted"), (0, 1));
    brain.close().expect("closed");
    let seen = reader(&brains).evolver_rows().changes(Some(&slug("dir-one"))).expect("changes");
    assert_eq!(seen[0].rolled_back_at, Some(now));
}

#[test]
fn the_queue_holds_a_thing_once() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    let row = |id: &str, kind: CandidateKind, at: i64| QueueRow {
        id: id.to_owned(),
        kind: kind.into(),
        skill: Some(slug("flat-one")),
        status: ReviewStatus::Pending.into(),
        entry: json!({ "title": id }),
        content: None,
        created_at: Timestamp(at),
        updated_at: Timestamp(at),
    };
    let late = row("a", CandidateKind::Change, 2);
    let early = QueueRow { content: Some("text".to_owned()), ..row("b", CandidateKind::Memory, 1) };
    let lock = brain.lock().clone();
    let enqueue =
        |brain: &mut Brain, row: &QueueRow| brain.write_evolver_rows(|notes| notes.enqueue(row)).expect("noted");
    assert_eq!(
        (enqueue(&mut brain, &late), enqueue(&mut brain, &early), enqueue(&mut brain, &late)),
        (true, true, false)
    );
    // Lists do not carry what accepting would write; the entry itself does.
    let listed = QueueRow { content: None, ..early.clone() };
    assert_eq!(brain.evolver_rows().queue(None, None).expect("a queue"), [listed, late.clone()]);
    assert_eq!(brain.evolver_rows().queued("b").expect("readable"), Some(early.clone()));
    assert_eq!(
        brain.evolver_rows().queue(Some(ReviewStatus::Pending), Some(CandidateKind::Change)).expect("a queue"),
        std::slice::from_ref(&late)
    );
    let set = brain.write_evolver_rows(|notes| {
        Ok((
            notes.set_status("b", ReviewStatus::Accepted, Timestamp(9))?,
            notes.set_status("c", ReviewStatus::Accepted, EVER)?,
        ))
    });
    assert_eq!(set.expect("noted"), (true, false));
    // What is decided keeps no content.
    let accepted = QueueRow { status: ReviewStatus::Accepted.into(), updated_at: Timestamp(9), content: None, ..early };
    assert_eq!(brain.evolver_rows().queued("b").expect("looked"), Some(accepted));
    assert_eq!(brain.evolver_rows().queued("c").expect("looked"), None);
    assert_eq!(brain.lock(), &lock, "nothing of it is content");
}

#[test]
fn a_note_is_written_whole_or_not_at_all() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    assert_eq!(
        (brain.evolver_rows().passed_at().expect("read"), brain.evolver_rows().drill().expect("read")),
        (None, None)
    );
    let failed = brain.write_evolver_rows(|notes| {
        notes.set_passed_at(Timestamp(5))?;
        Err::<(), _>(herm::Error::internal("stopped half-way"))
    });
    assert!(failed.is_err());
    assert_eq!(brain.evolver_rows().passed_at().expect("read"), None);
    let drill = json!({ "status": "pass", "steps": [1] });
    brain
        .write_evolver_rows(|notes| notes.set_passed_at(Timestamp(5)).and_then(|()| notes.set_drill(&drill)))
        .expect("noted");
    brain.close().expect("closed");
    let reader = reader(&brains);
    let rows = reader.evolver_rows();
    assert_eq!((rows.passed_at().expect("read"), rows.drill().expect("read")), (Some(Timestamp(5)), Some(drill)));
}
