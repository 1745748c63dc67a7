//! A brain that has learned: skills in every state of a trial, with rated tasks in both arms.

use herm::memory::{Arm, OutcomeReport, OutcomeSource, OutcomeValue, TaskEntry, TaskOutcome, TaskStatus, TrialTask};
use herm::session::exemplar::{Example, ExampleCall, file};
use herm::skill::CreatedBy;
use herm::trial::pass::{self, TrialMemory, TrialScope};
use herm::trial::sequential::TrialPolicy;
use herm::{Brain, Draft, StepKind};

use crate::brains::{skill_text, slug};

/// Makes a skill as the agent would have.
pub fn learn(brain: &mut Brain, name: &str, body: &str) {
    let mut draft = Draft::new();
    brain.edit(&mut draft).create_skill(&slug(name), &skill_text(name, body), CreatedBy::Agent).expect("made");
    brain.settle(&draft, StepKind::Maintenance, "learned").expect("settled");
}

/// Tasks that matched a skill, with the outcome of each arm: shown, and held back.
pub fn tasks(brain: &mut Brain, skill: &str, [shown, held]: [OutcomeValue; 2], count: usize) {
    for number in 0..count {
        let (arm, value, cost) = if number % 2 == 0 { (Arm::Shown, shown, 300) } else { (Arm::HeldBack, held, 100) };
        let (task, at) = (format!("{skill}-{number}"), brain.clock().now());
        let mut draft = Draft::new();
        draft.task(TaskEntry {
            task: task.clone(),
            subscriber: None,
            outcome: TaskStatus::Converged,
            summary: "did it".to_owned(),
            at,
        });
        let report = OutcomeReport { source: OutcomeSource::Verifier, value, note: None, at };
        draft.outcome(&task.parse().expect("an id"), TaskOutcome::of(vec![report]));
        draft.trial_task(TrialTask {
            skill: slug(skill),
            task,
            arm,
            at,
            score: None,
            errors: 0,
            turns: 2,
            micro_usd: cost,
            rehearsed: false,
        });
        brain.settle(&draft, StepKind::Task, "converged: did it").expect("settled");
    }
}

/// Puts a worked example into a skill, as a task that went well leaves it.
pub fn example(brain: &mut Brain, skill: &str, task: &str, question: &str) {
    let call = ExampleCall { tool: "find".to_owned(), args: serde_json::Map::new(), result: "In box 28.".to_owned() };
    let example = Example {
        task: task.parse().expect("an id"),
        question: question.to_owned(),
        calls: vec![call],
        answer: serde_json::json!({ "answer": "box 28" }),
    };
    let content = file::write(&[example]).expect("written").into_bytes();
    let mut draft = Draft::new();
    brain.edit(&mut draft).write_skill_file(&slug(skill), file::EXAMPLES_FILE, content).expect("kept");
    brain.settle(&draft, StepKind::Maintenance, "kept an example").expect("settled");
}

/// Looks at the trials of a brain, as a harness does after a task.
pub fn look(brain: &mut Brain, memory: &mut TrialMemory) {
    pass::run(brain, memory, &TrialPolicy::default(), TrialScope::All).expect("a pass");
}

/// A skill that helps, one that hurts, one that is not decided and one that nothing is known of.
pub fn every_state(brain: &mut Brain) {
    for name in ["attic", "cellar", "garage", "shed"] {
        learn(brain, name, "Look there first.");
    }
    let mut memory = TrialMemory::default();
    look(brain, &mut memory);
    tasks(brain, "attic", [OutcomeValue::Bad, OutcomeValue::Good], 12);
    tasks(brain, "cellar", [OutcomeValue::Good, OutcomeValue::Bad], 14);
    tasks(brain, "garage", [OutcomeValue::Score(0.5), OutcomeValue::Score(0.25)], 6);
    look(brain, &mut memory);
}
