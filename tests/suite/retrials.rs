//! A trial is about one text: a skill that is rewritten is tried anew, what does harm then is taken back to the text of
//! before, and an undo brings the verdict of the old text back.

use herm::brain::OnChanged;
use herm::evolver::pass::{
    self as evolver, EvolverCandidateReason, EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions,
};
use herm::evolver::select::RankerChain;
use herm::evolver::verification::VerificationOptions;
use herm::evolver::{EvolverApproval, SkillUpdate, apply};
use herm::memory::{Arm, OutcomeValue, TrialState, TrialTask};
use herm::skill::{CreatedBy, SkillState};
use herm::trial::pass::TrialMemory;
use herm::{Brain, Digest, Draft, StepKind};
use herm_tests::TempBrains;
use herm_tests::brains::{rel, skill_text, slug};
use serde_json::json;

use crate::trials::{create, look, settle, state, until_it_ends};

const HELPS: [OutcomeValue; 2] = [OutcomeValue::Good, OutcomeValue::Bad];
const HURTS: [OutcomeValue; 2] = [OutcomeValue::Bad, OutcomeValue::Good];

fn rewrite(brain: &mut Brain, name: &str, body: &str) -> i64 {
    let mut draft = Draft::new();
    brain.edit(&mut draft).edit_skill(&slug(name), &skill_text(name, body)).expect("edited");
    brain.settle(&draft, StepKind::Maintenance, "rewrote a skill").expect("settled");
    brain.last_step().expect("a step")
}

/// The evolver changes a skill, as a person or the operator allows.
fn change(brain: &mut Brain, name: &str, body: &str) -> i64 {
    let now = brain.read_content(&rel(&format!("skills/{name}.md"))).expect("readable").expect("there");
    let change = SkillUpdate {
        skill: slug(name),
        expected: Digest::of(&now),
        content: skill_text(name, body),
        support: Vec::new(),
        why: json!({ "what": "notes" }),
    };
    let done = apply(brain, &change, EvolverApproval::Given, &VerificationOptions::default()).expect("applied");
    assert!(done.applied, "{done:?}");
    done.manifest.expect("a step")
}

fn text(brain: &Brain, name: &str) -> String {
    let bytes = brain.read_content(&rel(&format!("skills/{name}.md"))).expect("readable").expect("there");
    String::from_utf8(bytes).expect("text")
}

fn proven(brains: &TempBrains, name: &str) -> Brain {
    let mut brain = brains.make("1");
    create(&mut brain, name, "Ask the list cellar.", CreatedBy::Agent);
    until_it_ends(&mut brain, name, HELPS, 60).expect("it is proven");
    assert_eq!(state(&brain, name), Some(TrialState::Proven));
    brain
}

#[test]
fn a_rewritten_skill_is_tried_anew_and_tasks_of_its_old_text_count_for_nothing() {
    let brains = TempBrains::new();
    let mut brain = proven(&brains, "ask-the-cellar");
    let before = brain.trial(&slug("ask-the-cellar")).expect("read").expect("a trial");
    rewrite(&mut brain, "ask-the-cellar", "Ask the list attic.");
    let trial = brain.trial(&slug("ask-the-cellar")).expect("read").expect("a trial");
    assert_eq!((trial.state, trial.reason.as_str()), (TrialState::Trial, "its text was changed"));
    assert!(trial.since > before.since, "two trials never begin at once, though the clock stands");
    let sum = brain.trial_sum(&slug("ask-the-cellar")).expect("a sum");
    assert_eq!((sum.shown.tasks, sum.held_back.tasks), (0, 0), "the old tasks are none of it");
    assert!(brain.trial_tasks(&slug("ask-the-cellar")).expect("read").is_empty());

    // The same text again changes nothing, and neither does a file beside it.
    rewrite(&mut brain, "ask-the-cellar", "Ask the list attic.");
    let mut draft = Draft::new();
    let beside = b"# An example".to_vec();
    brain
        .edit(&mut draft)
        .write_skill_file(&slug("ask-the-cellar"), "references/examples.md", beside)
        .expect("written");
    brain.settle(&draft, StepKind::Maintenance, "an example").expect("settled");
    assert_eq!(brain.trial(&slug("ask-the-cellar")).expect("read"), Some(trial));

    // What the new text does decides alone: all that was good before does not keep it.
    let (tasks, report) = until_it_ends(&mut brain, "ask-the-cellar", HURTS, 60).expect("it ends");
    assert!(tasks <= 14 && report.ended[0].state == TrialState::Harmful, "{tasks} tasks: {report:?}");
    assert_eq!(brain.usage().expect("usage")[&slug("ask-the-cellar")].state, SkillState::Archived);
    brain.close().expect("closed");
    let reader = herm::Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader");
    let sums = reader.trial_sums().expect("sums");
    assert_eq!(sums[&slug("ask-the-cellar")], reader.trial_sum(&slug("ask-the-cellar")).expect("a sum"));
    assert_eq!(sums[&slug("ask-the-cellar")].shown.score, 0.0);
}

#[test]
fn a_task_that_rewrites_a_skill_had_the_text_of_before() {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    create(&mut brain, "mine", "Think first.", CreatedBy::Agent);
    look(&mut brain, &mut TrialMemory::default());
    let mut draft = Draft::new();
    let at = brain.clock().now();
    brain.edit(&mut draft).patch_skill(&slug("mine"), None, "Think first.", "Think twice.").expect("patched");
    let task = |task: &str| TrialTask {
        skill: slug("mine"),
        task: task.to_owned(),
        arm: Arm::Shown,
        at,
        score: None,
        errors: 0,
        turns: 2,
        micro_usd: 0,
        rehearsed: false,
    };
    draft.trial_task(task("the-one-that-rewrites"));
    brain.settle(&draft, StepKind::Task, "converged: rewrote it").expect("settled");
    settle(&mut brain, "the-next", "mine", Arm::Shown, OutcomeValue::Good, at);
    let tasks = brain.trial_tasks(&slug("mine")).expect("read");
    assert_eq!(tasks.iter().map(|task| task.task.as_str()).collect::<Vec<_>>(), ["the-next"]);

    // A rehearsal of the new text takes the place of one of the old text.
    let rehearsed = |brain: &mut Brain, score| {
        let row = TrialTask { rehearsed: true, score: Some(score), ..task("kept") };
        brain.write_trials(|writer| writer.add_task(&row)).expect("written")
    };
    assert!(rehearsed(&mut brain, 0.0) && !rehearsed(&mut brain, 0.5), "once for a text");
    rewrite(&mut brain, "mine", "Think thrice.");
    assert!(rehearsed(&mut brain, 1.0));
    let sum = brain.trial_sum(&slug("mine")).expect("a sum");
    assert_eq!((sum.rehearsed_with.tasks, sum.rehearsed_with.score, sum.shown.tasks), (1, 1.0, 0));
}

#[test]
fn what_a_person_wrote_or_pinned_and_what_was_never_tried_goes_on_no_trial() {
    let brains = TempBrains::new();
    let mut brain = proven(&brains, "pinned");
    create(&mut brain, "persons", "By hand.", CreatedBy::User);
    create(&mut brain, "untried", "Just made.", CreatedBy::Agent);
    let mut draft = Draft::new();
    brain.edit(&mut draft).pin_skill(&slug("pinned"), true).expect("pinned");
    brain.settle(&draft, StepKind::Maintenance, "pinned it").expect("settled");
    for name in ["pinned", "persons", "untried"] {
        rewrite(&mut brain, name, "Something else.");
    }
    let states = ["pinned", "persons", "untried"].map(|name| state(&brain, name));
    assert_eq!(states, [Some(TrialState::Proven), None, None]);
}

#[test]
fn an_undo_brings_the_verdict_of_the_old_text_back() {
    let brains = TempBrains::new();
    let mut brain = proven(&brains, "ask-the-cellar");
    let verdict = brain.trial(&slug("ask-the-cellar")).expect("read");
    let sum = brain.trial_sum(&slug("ask-the-cellar")).expect("a sum");
    let step = rewrite(&mut brain, "ask-the-cellar", "Ask the list attic.");
    let at = brain.clock().now();
    settle(&mut brain, "between", "ask-the-cellar", Arm::Shown, OutcomeValue::Bad, at);
    brain.undo(step, OnChanged::Refuse).expect("undone");
    assert_eq!(brain.trial(&slug("ask-the-cellar")).expect("read"), verdict);
    assert_eq!(brain.trial_sum(&slug("ask-the-cellar")).expect("a sum"), sum, "without the task between");

    // A text whose trial was not over is tried anew.
    create(&mut brain, "maybe", "Think first.", CreatedBy::Agent);
    look(&mut brain, &mut TrialMemory::default());
    settle(&mut brain, "maybe-1", "maybe", Arm::Shown, OutcomeValue::Good, at);
    let step = rewrite(&mut brain, "maybe", "Think twice.");
    brain.undo(step, OnChanged::Refuse).expect("undone");
    let trial = brain.trial(&slug("maybe")).expect("read").expect("a trial");
    assert_eq!((trial.state, trial.reason.as_str()), (TrialState::Trial, "its text of before is back"));
    assert_eq!(brain.trial_sum(&slug("maybe")).expect("a sum").shown.tasks, 0);
}

#[test]
fn a_change_of_the_evolvers_that_hurts_is_rolled_back_and_the_skill_stays_proven() {
    let brains = TempBrains::new();
    let mut brain = proven(&brains, "ask-the-cellar");
    let before = text(&brain, "ask-the-cellar");
    let step = change(&mut brain, "ask-the-cellar", "Ask the list cellar, in the dark.");
    assert_eq!(state(&brain, "ask-the-cellar"), Some(TrialState::Trial));
    let (tasks, report) = until_it_ends(&mut brain, "ask-the-cellar", HURTS, 60).expect("it ends");
    assert!(tasks <= 14, "{tasks} tasks");
    assert_eq!(report.rolled_back, [(slug("ask-the-cellar"), step)]);
    let ended = &report.ended[0];
    assert_eq!(ended.state, TrialState::Harmful);
    assert!(ended.reason.ends_with(&format!("the change of step {step} was rolled back")), "{}", ended.reason);
    // The skill is what it was, in the index and proven; the step is one with a receipt.
    assert_eq!(text(&brain, "ask-the-cellar"), before);
    assert_eq!(state(&brain, "ask-the-cellar"), Some(TrialState::Proven));
    assert_eq!(brain.usage().expect("usage")[&slug("ask-the-cellar")].state, SkillState::Active);
    let undone = brain.history(1).expect("history").remove(0);
    assert_eq!(undone.kind, StepKind::Undo { of: Some(step) });
    assert_eq!(brain.receipts(1, u64::MAX).expect("receipts").pop().expect("one").step, undone.seq);
    assert!(brain.evolver_rows().changes_of(step).expect("changes")[0].rolled_back_at.is_some());
    assert!(look(&mut brain, &mut TrialMemory::default()).is_empty(), "it is not ended twice");
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn where_somebody_changed_it_again_since_the_skill_goes_as_a_whole() {
    let brains = TempBrains::new();
    let mut brain = proven(&brains, "ask-the-cellar");
    change(&mut brain, "ask-the-cellar", "Ask the list cellar, in the dark.");
    rewrite(&mut brain, "ask-the-cellar", "Ask nobody.");
    let (_, report) = until_it_ends(&mut brain, "ask-the-cellar", HURTS, 60).expect("it ends");
    assert!(report.rolled_back.is_empty() && report.settled.is_some());
    assert_eq!(brain.usage().expect("usage")[&slug("ask-the-cellar")].state, SkillState::Archived);
}

#[test]
fn the_evolver_waits_until_its_last_change_is_decided_and_leaves_the_skill_alone_after_a_rollback() {
    let brains = TempBrains::new();
    let mut brain = proven(&brains, "ask-the-cellar");
    let at = brain.clock().now();
    let session = |task: &str| herm::memory::ImportedSession {
        task: task.to_owned(),
        at,
        model: "m".to_owned(),
        platform: "p".to_owned(),
        tools: ["fine", "refused", "refused", "fine"]
            .iter()
            .enumerate()
            .map(|(number, said)| herm::memory::Evidence {
                task: task.to_owned(),
                turn: 1,
                tool: "terminal".to_owned(),
                status: match *said {
                    "fine" => herm::memory::EvidenceStatus::Ok,
                    _ => herm::memory::EvidenceStatus::Failed,
                },
                skills: vec![slug("ask-the-cellar")],
                args: Digest::of(format!("{task} {number}").as_bytes()),
                arguments: None,
                summary: (*said).to_owned(),
                millis: 3,
                at,
            })
            .collect(),
        turns: Vec::new(),
        skills: vec![slug("ask-the-cellar")],
        completed: true,
    };
    let options = EvolverPassOptions {
        mode: EvolverPassMode::ApplyLowRisk,
        approval: EvolverApproval::Given,
        ..EvolverPassOptions::default()
    };
    let pass = |brain: &mut Brain, task: &str| {
        brain.import_evidence([session(task)]).expect("taken in");
        let run = evolver::run(brain, &options, RankerChain::default(), &[]).expect("a pass");
        run.candidates.into_iter().next().expect("a candidate")
    };
    let first = pass(&mut brain, "seen-1");
    assert_eq!(first.status, EvolverCandidateStatus::Applied, "{first:?}");
    let second = pass(&mut brain, "seen-2");
    let fate = (second.status, second.reason);
    assert_eq!(fate, (EvolverCandidateStatus::Skipped, EvolverCandidateReason::OnTrial));
    until_it_ends(&mut brain, "ask-the-cellar", HURTS, 60).expect("it ends");
    let third = pass(&mut brain, "seen-3");
    let fate = (third.status, third.reason);
    assert_eq!(fate, (EvolverCandidateStatus::Skipped, EvolverCandidateReason::RolledBackNeedsPerson));
    assert_eq!(state(&brain, "ask-the-cellar"), Some(TrialState::Proven));
}
