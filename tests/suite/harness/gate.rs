//! One gate for everything that writes skills without a person: what no agent made waits in the review queue.

use herm::brain::OnChanged;
use herm::evolver::SkillApplyReason;
use herm::evolver::review_queue::{self, ReviewOutcome};
use herm::evolver::verification::VerificationOptions;
use herm::memory::{CandidateKind, QueueRow, ReviewStatus};
use herm::skill::CreatedBy;
use herm::tool::SkillChange;
use herm::{Brain, Draft, StepKind};
use herm_tests::brains::{skill_text, slug};
use herm_tests::command::Herm;

use super::*;

/// Skills of every maker beside the seed's, each a directory with a file.
const MAKERS: [(&str, CreatedBy); 6] = [
    ("by-agent", CreatedBy::Agent),
    ("by-bundle", CreatedBy::Bundled),
    ("by-hub", CreatedBy::Hub),
    ("by-import", CreatedBy::Imported),
    ("by-person", CreatedBy::User),
    ("by-plugin", CreatedBy::Plugin),
];
/// Those that only a person changes.
const PROTECTED: [&str; 6] = ["by-bundle", "by-hub", "by-import", "by-person", "by-plugin", "dir-one"];

fn step(brain: &mut Brain, change: impl FnOnce(&mut herm::brain::Editor<'_>)) {
    let mut draft = Draft::new();
    change(&mut brain.edit(&mut draft));
    brain.settle(&draft, StepKind::Maintenance, "by a person").expect("settled");
}

pub(super) fn all_makers(brains: &TempBrains) {
    let mut brain = brains.make("1");
    for (name, by) in MAKERS {
        step(&mut brain, |editor| {
            editor.create_skill(&slug(name), &skill_text(name, "As it was."), by).expect("made");
            editor.write_skill_file(&slug(name), "references/notes.md", b"notes\n".to_vec()).expect("written");
        });
    }
    brain.close().expect("closed");
}

fn hard() -> Vec<String> {
    (0..5).map(echo).chain([ANSWER.to_owned()]).collect()
}

fn lesson(action: &str, name: &str, description: &str, body: &str) -> String {
    json!({ "action": action, "name": name, "description": description, "body": body }).to_string()
}

/// Runs one task; what came of it, and what the model was told last.
async fn run(brains: &TempBrains, words: Vec<String>, synthesis: &str) -> (herm::Outcome, String) {
    let backend = Arc::new(ScriptedBackend::new(words).synthesising(synthesis));
    let router = herm::backend::Router::single(Arc::clone(&backend) as _);
    let harness = builder(brains).router(router).build().expect("a harness");
    let outcome = harness.run(&"1".parse().expect("an id"), task("count to five")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let asked = backend.asked();
    let told = asked[asked.len().min(2) - 1].messages.last().expect("a message").content.to_string();
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
    (outcome, told)
}

pub(super) fn waiting(brains: &TempBrains) -> Vec<QueueRow> {
    let rows = reader(brains).evolver_rows().queue(Some(ReviewStatus::Pending), None).expect("the queue");
    rows.iter().map(|row| reader(brains).evolver_rows().queued(&row.id).expect("read").expect("there")).collect()
}

pub(super) fn files(brains: &TempBrains, name: &str) -> Vec<(String, String)> {
    let dir = brains.file("1", &format!("skills/{name}"));
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).unwrap_or_default();
    ["SKILL.md", "references/notes.md", "references/more.md"].map(|path| (path.to_owned(), read(path))).to_vec()
}

fn accept(brains: &TempBrains, id: &str) -> ReviewOutcome {
    let mut brain = brains.open("1").expect("opened");
    let accepted = review_queue::accept(&mut brain, id, &VerificationOptions::default()).expect("an answer");
    brain.close().expect("closed");
    accepted
}

pub(super) fn made_by(brains: &TempBrains, name: &str) -> CreatedBy {
    reader(brains).usage().expect("usage")[&slug(name)].created_by
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_task_learned_changes_the_agents_own_skill_and_waits_for_a_person_with_all_others() {
    let brains = TempBrains::new();
    all_makers(&brains);
    for (number, name) in PROTECTED.into_iter().enumerate() {
        let before = files(&brains, name);
        let (outcome, _) = run(&brains, hard(), &lesson("update", name, "Counts. Use when asked.", "1. Count.")).await;
        assert_eq!(files(&brains, name), before, "{name} is as it was");
        assert_eq!(outcome.skills_changed, []);
        assert_eq!(
            (&outcome.skills_proposed[0].slug, outcome.skills_proposed[0].change),
            (&slug(name), SkillChange::Changed)
        );
        assert!(outcome.warnings.iter().any(|said| said.contains("waits for a person")), "{:?}", outcome.warnings);
        let queue = waiting(&brains);
        assert_eq!(queue.len(), number + 1);
        assert!(queue.iter().any(|row| row.skill == Some(slug(name)) && row.kind == CandidateKind::Change));
    }
    let (outcome, _) =
        run(&brains, hard(), &lesson("update", "by-agent", "Counts. Use when asked.", "1. Count.")).await;
    assert_eq!((outcome.skills_changed.len(), outcome.skills_proposed.len()), (1, 0), "{:?}", outcome.warnings);
    assert!(files(&brains, "by-agent")[0].1.contains("1. Count."));
    // A lesson that means the same as a skill of a person's is one about that skill.
    let (outcome, _) =
        run(&brains, hard(), &lesson("create", "other", "Does by-person. Use when by-person is asked for.", "1. Do."))
            .await;
    assert_eq!(outcome.skills_proposed[0].slug, slug("by-person"));
    assert!(!brains.file("1", "skills/other.md").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_of_skill_manage_waits_with_what_no_agent_made_and_the_model_reads_it() {
    let actions = [
        json!({ "action": "edit", "content": "1. All new.\n", "description": "New. Use when new." }),
        json!({ "action": "patch", "find": "As it was.", "replace": "Better." }),
        json!({ "action": "patch", "find": "notes", "replace": "better", "file": "references/notes.md" }),
        json!({ "action": "write_file", "file": "references/more.md", "content": "more\n" }),
        json!({ "action": "remove_file", "file": "references/notes.md" }),
        json!({ "action": "archive" }),
    ];
    let brains = TempBrains::new();
    all_makers(&brains);
    for action in actions {
        for name in ["by-import", "by-person", "by-hub", "by-agent"] {
            let before = files(&brains, name);
            let mut args = action.clone();
            args["name"] = json!(name);
            let (outcome, told) = run(&brains, vec![call("skill_manage", args), ANSWER.to_owned()], "").await;
            assert_eq!(outcome.calls[0].status.name(), "ok", "{action} {told}");
            if name == "by-agent" {
                assert_ne!(files(&brains, name), before, "{action}");
                assert!(!told.contains("waits"), "{told}");
                let mut brain = brains.open("1").expect("opened");
                brain.undo(brain.last_step().expect("a step"), OnChanged::Refuse).expect("undone");
                brain.close().expect("closed");
                continue;
            }
            assert_eq!(files(&brains, name), before, "{action} of {name}");
            assert!(told.contains("waits for a person") && told.contains(name), "{told}");
            assert_eq!(outcome.skills_proposed.len(), 1);
        }
    }
    assert_eq!(waiting(&brains).len(), 18);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_proposals_wait_than_a_person_can_read() {
    let brains = TempBrains::new();
    all_makers(&brains);
    for number in 0..12 {
        let args =
            json!({ "action": "patch", "name": "by-hub", "find": "As it was.", "replace": format!("Way {number}.") });
        let (outcome, told) = run(&brains, vec![call("skill_manage", args), ANSWER.to_owned()], "").await;
        assert_eq!(outcome.skills_proposed.len(), usize::from(number < 10), "{told}");
        assert_eq!(told.contains("so many wait already"), number >= 10, "{told}");
    }
    assert_eq!(waiting(&brains).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn accepting_makes_exactly_what_was_proposed_and_the_skill_stays_whose_it_was() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let text = skill_text("dir-one", "Now this.");
    let words = vec![
        call("skill_manage", json!({ "action": "edit", "name": "dir-one", "content": text })),
        call(
            "skill_manage",
            json!({ "action": "patch", "name": "dir-one", "find": "Now this.", "replace": "Now that." }),
        ),
        call(
            "skill_manage",
            json!({ "action": "write_file", "name": "dir-one", "file": "references/more.md", "content": "more\n" }),
        ),
        call("skill_manage", json!({ "action": "remove_file", "name": "dir-one", "file": "references/notes.md" })),
        ANSWER.to_owned(),
    ];
    let (outcome, _) = run(&brains, words, "").await;
    assert_eq!(outcome.skills_proposed.len(), 1, "one proposal says all of it: {:?}", outcome.warnings);
    let queue = waiting(&brains);
    assert_eq!(queue.len(), 1);
    // A person sees it, line by line, on the command line.
    let herm = Herm::new(super::super::HERM, &brains.path());
    let listed = herm.run(&["evolve", "queue", "list", "1"]);
    assert!(listed.stdout.contains("Change dir-one as a task proposed"), "{listed:?}");
    let shown = herm.run(&["evolve", "queue", "show", "1", &queue[0].id[..8]]);
    for line in ["+Now that.", "+more", "removes references/notes.md", "came with the agent"] {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    assert!(matches!(accept(&brains, &queue[0].id), ReviewOutcome::Change(applied) if applied.applied));
    let now = files(&brains, "dir-one");
    assert_eq!(now[0].1, text.replace("Now this.", "Now that."));
    assert_eq!((now[1].1.as_str(), now[2].1.as_str()), ("", "more\n"));
    assert_eq!(made_by(&brains, "dir-one"), CreatedBy::Seed);
    assert_eq!(waiting(&brains), []);
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_since_cannot_be_accepted_and_what_was_rejected_is_not_asked_again() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let patch = |name: &str| {
        let args = json!({ "action": "patch", "name": name, "find": "As it was.", "replace": "Better." });
        vec![call("skill_manage", args), ANSWER.to_owned()]
    };
    let file =
        json!({ "action": "patch", "name": "by-hub", "find": "notes", "replace": "x", "file": "references/notes.md" });
    run(&brains, patch("by-person"), "").await;
    run(&brains, vec![call("skill_manage", file), ANSWER.to_owned()], "").await;
    let mut brain = brains.open("1").expect("opened");
    step(&mut brain, |editor| {
        drop(editor.edit_skill(&slug("by-person"), &skill_text("by-person", "As it was. And more.")).expect("edited"));
        drop(
            editor
                .write_skill_file(&slug("by-hub"), "references/notes.md", b"notes, mine\n".to_vec())
                .expect("written"),
        );
    });
    brain.close().expect("closed");
    for row in waiting(&brains) {
        let accepted = accept(&brains, &row.id);
        assert!(
            matches!(&accepted, ReviewOutcome::Change(applied) if applied.reason == SkillApplyReason::HashMismatch),
            "{accepted:?}"
        );
    }
    assert!(files(&brains, "by-person")[0].1.contains("And more."));
    assert_eq!(files(&brains, "by-hub")[1].1, "notes, mine\n");

    run(&brains, patch("by-import"), "").await;
    let id = waiting(&brains).into_iter().find(|row| row.skill == Some(slug("by-import"))).expect("queued").id;
    let (again, told) = run(&brains, patch("by-import"), "").await;
    assert!(told.contains("waits for a person") && again.skills_proposed.len() == 1);
    assert_eq!(waiting(&brains).iter().filter(|row| row.id == id).count(), 1, "the same change is one entry");
    let mut brain = brains.open("1").expect("opened");
    review_queue::reject(&mut brain, &id).expect("rejected");
    brain.close().expect("closed");
    let (outcome, told) = run(&brains, patch("by-import"), "").await;
    assert!(told.contains("a person rejected this very change"), "{told}");
    assert_eq!(outcome.skills_proposed, []);
    assert!(!waiting(&brains).iter().any(|row| row.skill == Some(slug("by-import"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_skills_are_neither_changed_nor_brought_up() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let mut brain = brains.open("1").expect("opened");
    let front = "---\nname: pinned-in-front\ndescription: Pinned. Use when pinned.\npinned: true\n---\nAs it was.\n";
    step(&mut brain, |editor| {
        for name in ["by-agent", "by-person"] {
            editor.pin_skill(&slug(name), true).expect("pinned");
        }
        drop(editor.create_skill(&slug("pinned-in-front"), front, CreatedBy::Agent).expect("made"));
    });
    brain.close().expect("closed");
    let before = brains.open("1").expect("opened").lock().parts.skills;
    for name in ["by-agent", "by-person", "pinned-in-front"] {
        for action in [
            json!({ "action": "edit", "name": name, "content": "1. All new.\n", "description": "New. Use when new." }),
            json!({ "action": "patch", "name": name, "find": "As it was.", "replace": "Better." }),
            json!({ "action": "write_file", "name": name, "file": "references/more.md", "content": "more\n" }),
            json!({ "action": "archive", "name": name }),
        ] {
            let (outcome, told) = run(&brains, vec![call("skill_manage", action), ANSWER.to_owned()], "").await;
            assert!(told.contains("pinned by the operator"), "{told}");
            assert_eq!((outcome.skills_changed, outcome.skills_proposed), (vec![], vec![]));
        }
        let (outcome, _) = run(&brains, hard(), &lesson("update", name, "Counts. Use when asked.", "1. Count.")).await;
        assert!(outcome.warnings.iter().any(|said| said.contains("pinned")), "{:?}", outcome.warnings);
    }
    assert_eq!(brains.open("1").expect("opened").lock().parts.skills, before);
    assert_eq!(waiting(&brains), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_skill_of_a_persons_comes_back_by_a_person_alone() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let mut brain = brains.open("1").expect("opened");
    step(&mut brain, |editor| editor.archive_skill(&slug("by-person")).expect("archived"));
    brain.close().expect("closed");
    let (outcome, _) =
        run(&brains, hard(), &lesson("update", "by-person", "Counts. Use when asked.", "1. Count.")).await;
    assert_eq!(outcome.skills_proposed.len(), 1, "{:?}", outcome.warnings);
    assert!(!brains.file("1", "skills/by-person/SKILL.md").exists());
    let id = waiting(&brains)[0].id.clone();
    assert!(matches!(accept(&brains, &id), ReviewOutcome::Change(applied) if applied.applied));
    let now = files(&brains, "by-person");
    assert!(now[0].1.contains("1. Count.") && now[1].1 == "notes\n", "{now:?}");
    assert_eq!(made_by(&brains, "by-person"), CreatedBy::User);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_a_task_proposed_is_made_when_a_person_accepts_it() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let words = vec![call("skill_manage", json!({ "action": "archive", "name": "by-hub" })), ANSWER.to_owned()];
    run(&brains, words, "").await;
    let row = waiting(&brains).remove(0);
    let herm = Herm::new(super::super::HERM, &brains.path());
    let shown = herm.run(&["evolve", "queue", "show", "1", &row.id]);
    assert!(
        shown.stdout.contains("Archive by-hub") && shown.stdout.contains("moves by-hub to the archive"),
        "{shown:?}"
    );
    let (code, accepted) = herm.json(&["evolve", "queue", "accept", "1", &row.id]);
    assert_eq!((code, accepted["done"].clone()), (0, json!(true)), "{accepted:#}");
    assert!(
        !brains.file("1", "skills/by-hub").exists() && brains.file("1", "skills/.archive/by-hub/SKILL.md").exists()
    );
    assert_eq!(made_by(&brains, "by-hub"), CreatedBy::Hub);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_fail_or_are_dry_runs_propose_nothing() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let archive = call("skill_manage", json!({ "action": "archive", "name": "by-hub" }));
    let id = "1".parse().expect("an id");
    let dry = harness(&brains, ScriptedBackend::new([archive.clone(), ANSWER.to_owned()]));
    let asked = Task { keep: herm::task::SettleMode::DryRun, ..task("go") };
    dry.run(&id, asked).await.expect("an outcome");
    dry.shutdown().await.expect("closed");
    assert_eq!(waiting(&brains), []);
    let failing = harness(&brains, ScriptedBackend::new([archive]));
    let outcome = failing.run(&id, task("go")).await.expect("an outcome");
    failing.shutdown().await.expect("closed");
    assert_eq!(outcome.status, herm::TaskStatus::Failed, "{outcome:?}");
    assert_eq!(waiting(&brains), []);
}

const COUNTS: &str = "Counts things one by one. Use when asked how many there are.";
const BODY: &str =
    "1. Call `echo` with the first number.\n2. Go on until all things are counted.\n3. Say the last number.";

fn undo_last(brains: &TempBrains) {
    let mut brain = brains.open("1").expect("opened");
    brain.undo(brain.last_step().expect("a step"), OnChanged::Refuse).expect("undone");
    brain.close().expect("closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learned_skill_that_was_undone_stays_undone_until_a_person_brings_it_back() {
    let brains = TempBrains::new();
    brain(&brains);
    let there = |name: &str| brains.file("1", &format!("skills/{name}.md")).exists();
    let learned = |name: &str, body: &str| lesson("create", name, COUNTS, body);
    let (outcome, _) = run(&brains, hard(), &learned("count-things", BODY)).await;
    assert_eq!(outcome.skills_changed.len(), 1, "{:?}", outcome.warnings);
    undo_last(&brains);
    // The very same, and the same under another name, with other marks and in other letters.
    let shouted = BODY.to_uppercase().replace('`', "");
    for (name, body) in [("count-things", BODY), ("tally-up", BODY), ("tally-up", shouted.as_str())] {
        let (outcome, _) = run(&brains, hard(), &learned(name, body)).await;
        assert_eq!((outcome.skills_changed, outcome.skills_proposed), (vec![], vec![]), "{name}");
        assert!(outcome.warnings.iter().any(|said| said.contains("taken back by a person")), "{:?}", outcome.warnings);
        let content = format!("---\nname: {name}\ndescription: {COUNTS}\n---\n{body}\n");
        let args = json!({ "action": "create", "name": name, "content": content });
        let (_, told) = run(&brains, vec![call("skill_manage", args), ANSWER.to_owned()], "").await;
        assert!(told.contains("taken back by a person"), "{told}");
        assert!(!there(name));
    }
    // What is only like it, or has its name, is for a person to decide.
    let likely = BODY.replace("3. Say the last number.", "3. Say it.");
    for (name, body) in
        [("count-things", "Something else: look at the clock, and say the hour."), ("tally-up", &likely)]
    {
        let (outcome, _) = run(&brains, hard(), &learned(name, body)).await;
        assert_eq!(outcome.skills_proposed.len(), 1, "{name}: {:?}", outcome.warnings);
        assert!(!there(name));
    }
    let tally = waiting(&brains).into_iter().find(|row| row.skill == Some(slug("tally-up"))).expect("queued");
    assert!(matches!(accept(&brains, &tally.id), ReviewOutcome::Change(applied) if applied.applied));
    assert!(there("tally-up"));
    assert_eq!(made_by(&brains, "tally-up"), CreatedBy::Agent, "an agent thought of it");
    // A person brings it back: the undo is undone.
    let mut brain = brains.open("1").expect("opened");
    let undo = brain
        .history(50)
        .expect("history")
        .into_iter()
        .find(|step| matches!(step.kind, StepKind::Undo { .. }))
        .expect("it");
    brain.undo(undo.seq, OnChanged::Refuse).expect("undone");
    brain.close().expect("closed");
    assert!(there("count-things"));
    let (outcome, _) = run(&brains, hard(), &lesson("update", "count-things", COUNTS, "1. Count twice.")).await;
    assert_eq!(outcome.skills_changed.len(), 1, "{:?}", outcome.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_support_file_that_was_undone_blocks_no_skill_of_its_name() {
    let brains = TempBrains::new();
    all_makers(&brains);
    // Files of the skill by-person, which alone would look like skills.
    for file in ["tally-up.md", "count-things/SKILL.md"] {
        let path = brains.file("1", &format!("skills/by-person/{file}"));
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, skill_text("support", "Notes of a person.")).expect("written");
    }
    let reporting = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let mut brain = Brain::open(&brains.layout(), &"1".parse().expect("an id"), &reporting).expect("opened");
    let adopted = brain.adopt().expect("adopted").expect("a step");
    assert_eq!(adopted.files.len(), 2, "{adopted:?}");
    brain.close().expect("closed");
    undo_last(&brains);
    for name in ["tally-up", "count-things"] {
        assert!(!brains.file("1", &format!("skills/by-person/{name}.md")).exists());
        let body = format!("1. Call `echo` for {name}.\n2. Say the last number.");
        let learned = lesson("create", name, &format!("Does {name} with numbers. Use when {name} is wanted."), &body);
        let (outcome, _) = run(&brains, hard(), &learned).await;
        assert_eq!(outcome.skills_changed.len(), 1, "{name}: {outcome:?}");
        assert!(brains.file("1", &format!("skills/{name}.md")).exists(), "{name}");
    }
    assert_eq!(waiting(&brains), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_undone_is_not_made_again_and_other_changes_are() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let update = |body: &str| lesson("update", "by-agent", "Does by-agent. Use when asked.", body);
    run(&brains, hard(), &update("1. Count backwards.")).await;
    let before = files(&brains, "by-agent");
    undo_last(&brains);
    let (outcome, _) = run(&brains, hard(), &update("1. Count backwards.")).await;
    assert_eq!(outcome.skills_changed, [], "{:?}", outcome.warnings);
    assert!(files(&brains, "by-agent")[0].1.contains("As it was."), "{before:?}");
    let (outcome, _) = run(&brains, hard(), &update("1. Count forwards.")).await;
    assert_eq!(outcome.skills_changed.len(), 1, "{:?}", outcome.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_changes_wait_replays_to_the_same_hash() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let words = vec![
        call("skill_manage", json!({ "action": "archive", "name": "by-hub" })),
        call(
            "skill_manage",
            json!({ "action": "patch", "name": "by-agent", "find": "As it was.", "replace": "Better." }),
        ),
        ANSWER.to_owned(),
    ];
    let (outcome, _) = run(&brains, words, "").await;
    let seq = outcome.settled.expect("settled").version;
    // What a person says of it later is no part of the task.
    let mut brain = brains.open("1").expect("opened");
    let waits = brain.evolver_rows().queue(Some(ReviewStatus::Pending), None).expect("the queue").remove(0).id;
    review_queue::reject(&mut brain, &waits).expect("rejected");
    brain.close().expect("closed");
    let work = tempfile::tempdir().expect("a directory");
    let id = "1".parse().expect("an id");
    let replayed = herm::harness::replay(&brains.layout(), &id, seq, &toolbox(), work.path()).await.expect("replayed");
    assert!(replayed.is_same() && replayed.diverged.is_empty(), "{replayed:?}");
    let kept = reader(&brains).transcript(i64::try_from(seq).expect("a number")).expect("read").expect("kept");
    assert!(String::from_utf8(kept).expect("text").contains("\"gated\":true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lesson_that_a_person_rejected_is_not_asked_again_in_slightly_other_words() {
    let brains = TempBrains::new();
    all_makers(&brains);
    let reject_all = || {
        let mut brain = brains.open("1").expect("opened");
        for row in waiting(&brains) {
            review_queue::reject(&mut brain, &row.id).expect("rejected");
        }
        brain.close().expect("closed");
    };
    let said = |body: &str| lesson("update", "by-person", COUNTS, body);
    let (outcome, _) = run(&brains, hard(), &said(BODY)).await;
    assert_eq!(outcome.skills_proposed.len(), 1, "{:?}", outcome.warnings);
    reject_all();
    // The very same from another task, in other letters and marks, and with a word changed.
    let slightly = BODY.replace("Go on until", "Continue until");
    for body in [BODY.to_owned(), BODY.to_uppercase().replace('`', ""), slightly] {
        let (outcome, _) = run(&brains, hard(), &said(&body)).await;
        assert_eq!(outcome.skills_proposed, [], "{body}");
        assert!(outcome.warnings.iter().any(|said| said.contains("a person rejected")), "{:?}", outcome.warnings);
    }
    // Another lesson about the same skill is another question.
    let other =
        lesson("update", "by-person", "Finds a book. Use when a book is wanted.", "Look on every shelf upstairs.");
    let (outcome, _) = run(&brains, hard(), &other).await;
    assert_eq!(outcome.skills_proposed.len(), 1, "{:?}", outcome.warnings);
    reject_all();
    // What changes little in a long skill is told apart by what it changes.
    let long: String = (0..60).map(|n| format!("{n}. Step number{n} of the long way.\n")).collect();
    let mut brain = brains.open("1").expect("opened");
    step(&mut brain, |editor| {
        drop(editor.edit_skill(&slug("by-hub"), &skill_text("by-hub", &long)).expect("edited"));
    });
    brain.close().expect("closed");
    let patch = |find: &str, replace: &str| {
        let args = json!({ "action": "patch", "name": "by-hub", "find": find, "replace": replace });
        vec![call("skill_manage", args), ANSWER.to_owned()]
    };
    run(&brains, patch("Step number7 of", "Ask the bank before noon, step number7 of"), "").await;
    reject_all();
    let (outcome, told) =
        run(&brains, patch("Step number7 of", "First ask the bank before noon, step number7 of"), "").await;
    assert!(told.contains("a person rejected") && outcome.skills_proposed.is_empty(), "{told}");
    for (find, replace) in [
        ("Step number7 of", "Never call anybody at night, step number7 of"),
        ("5. Step number5 of the long way.\n", ""),
        ("Step number9 of", "Step ninety of"),
    ] {
        let (outcome, told) = run(&brains, patch(find, replace), "").await;
        assert_eq!(outcome.skills_proposed.len(), 1, "{replace}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_was_proposed_before_a_file_was_added_takes_nothing() {
    let brains = TempBrains::new();
    all_makers(&brains);
    for (name, file) in [("by-hub", "references/more.md"), ("flat-one", "references/first.md")] {
        let words = vec![call("skill_manage", json!({ "action": "archive", "name": name })), ANSWER.to_owned()];
        run(&brains, words, "").await;
        let id = waiting(&brains).into_iter().find(|row| row.skill == Some(slug(name))).expect("queued").id;
        let mut brain = brains.open("1").expect("opened");
        step(&mut brain, |editor| {
            drop(editor.write_skill_file(&slug(name), file, b"mine\n".to_vec()).expect("written"));
        });
        brain.close().expect("closed");
        let herm = Herm::new(super::super::HERM, &brains.path());
        let accepted = herm.run(&["evolve", "queue", "accept", "1", &id]);
        let said = format!("{}{}", accepted.stdout, accepted.stderr);
        assert!(said.contains(&format!("{file} was added since")), "{name}: {accepted:?}");
        assert_ne!(accepted.code, 0);
        assert!(brains.file("1", &format!("skills/{name}/{file}")).exists(), "{name}");
        let accepted = accept(&brains, &id);
        assert!(
            matches!(&accepted, ReviewOutcome::Change(applied) if applied.reason == SkillApplyReason::HashMismatch),
            "{accepted:?}"
        );
    }
}
