//! The evolver: evidence becomes bounded notes in skills, under guards, and everything can be taken back.

mod applying;
mod auto_run;
mod backfilling;
mod by_itself;
mod commands;
mod drills;
mod hostile_evidence;
mod merging;
mod named_calls;
mod waiting;

use herm::evolver::pass::{
    self, EvolverCandidate, EvolverCandidateStatus, EvolverPassMode, EvolverPassOptions, EvolverPassReport,
};
use herm::evolver::select::RankerChain;
use herm::evolver::{EvolverApproval, EvolverView};
use herm::memory::{Evidence, EvidenceStatus, ImportedSession};
use herm::skill::CreatedBy;
use herm::{Brain, Digest, Draft, StepKind, Timestamp};
use herm_tests::TempBrains;
use herm_tests::brains::{rel, skill_text, slug};

const START: &str = "<!-- curator-evolver:auto:start -->";
const END: &str = "<!-- curator-evolver:auto:end -->";
const DAY: i64 = 86_400_000;

/// Adds a skill as `by` would have made it.
fn add_skill(brain: &mut Brain, name: &str, text: &str, by: CreatedBy) {
    let mut draft = Draft::new();
    brain.edit(&mut draft).create_skill(&slug(name), text, by).expect("a skill");
    brain.settle(&draft, StepKind::Maintenance, "a skill").expect("settled");
}

/// A skill that the agent wrote.
fn own(brain: &mut Brain, name: &str) {
    add_skill(brain, name, &skill_text(name, "Do it step by step."), CreatedBy::Agent);
}

/// A session that had `skills` loaded, with these results; one that begins with `!` is a failure.
fn session(task: &str, skills: &[&str], said: &[&str], at: Timestamp) -> ImportedSession {
    let row = |(number, said): (usize, &&str)| Evidence {
        task: task.to_owned(),
        turn: 1,
        tool: "terminal".to_owned(),
        status: if said.starts_with('!') { EvidenceStatus::Failed } else { EvidenceStatus::Ok },
        skills: skills.iter().map(|name| slug(name)).collect(),
        args: Digest::of(format!("{task} {number}").as_bytes()),
        arguments: None,
        summary: said.trim_start_matches('!').to_owned(),
        millis: 3,
        at,
    };
    ImportedSession {
        task: task.to_owned(),
        at,
        model: "m".to_owned(),
        platform: "p".to_owned(),
        tools: said.iter().enumerate().map(row).collect(),
        turns: Vec::new(),
        skills: skills.iter().map(|name| slug(name)).collect(),
        completed: true,
    }
}

/// Evidence of one skill.
fn seen(brain: &mut Brain, skill: &str, said: &[&str]) {
    let at = brain.clock().now();
    let task = format!("{skill}-{}", brain.next_evidence().expect("a number"));
    brain.import_evidence([session(&task, &[skill], said, at)]).expect("taken in");
}

/// A brain with skills of its own, each with three events of which two failed in the same way.
fn with_evidence(brains: &TempBrains, skills: &[&str]) -> Brain {
    let mut brain = brains.make("1");
    for skill in skills {
        own(&mut brain, skill);
        seen(&mut brain, skill, &["!connection refused", "!connection refused", "fine again"]);
    }
    brain
}

fn applying() -> EvolverPassOptions {
    EvolverPassOptions {
        mode: EvolverPassMode::ApplyLowRisk,
        approval: EvolverApproval::Given,
        ..EvolverPassOptions::default()
    }
}

fn pass(brain: &mut Brain, options: &EvolverPassOptions) -> EvolverPassReport {
    pass::run(brain, options, RankerChain::default(), &[]).expect("a pass")
}

fn look(brain: &Brain, options: &EvolverPassOptions) -> EvolverPassReport {
    pass::plan(&EvolverView::of_brain(brain).expect("ground"), options, RankerChain::default()).expect("a plan")
}

fn fate(run: &EvolverPassReport) -> Vec<(&str, EvolverCandidateStatus, &'static str)> {
    run.candidates.iter().map(|one| (one.skill_name.as_str(), one.status, told(one))).collect()
}

/// The reason as reports have it; a test's words may stay until it ends.
fn told(one: &EvolverCandidate) -> &'static str {
    Box::leak(one.reason.to_string().into_boxed_str())
}

fn text_of(brain: &Brain, name: &str) -> String {
    let ground = EvolverView::of_brain(brain).expect("ground");
    ground.text(&slug(name)).expect("readable").expect("there").text
}

fn digest_of(brain: &Brain, name: &str) -> Digest {
    Digest::of(text_of(brain, name).as_bytes())
}

/// The number of the last step.
fn last_step(brain: &Brain) -> i64 {
    brain.last_step().expect("a step")
}

fn file_of(brain: &Brain, path: &str) -> Option<String> {
    let bytes = brain.read_content(&rel(path)).expect("readable")?;
    Some(String::from_utf8(bytes).expect("text"))
}
