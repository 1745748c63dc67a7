//! What an agent has learned: one learned skill from every side, the end of its trial by a person, and the report.

mod markdown;
pub(crate) mod words;

use herm::ids::RelPath;
use herm::memory::{Arm, Trial, TrialTask};
use herm::session::exemplar::file::{self, EXAMPLES_FILE};
use herm::trial::pass::{self, StoppedTrial};
use herm::trial::report::{self, LearnedSkill};
use herm::{Brain, Error, Reader, Result, SettledStep, Slug, TaskId, text};
use serde::Serialize;

pub(crate) use markdown::markdown;

/// How many tasks of a trial are listed.
const TASKS: usize = 20;
/// How many of the last tasks are looked through for those that the caller may see.
const LOOKED_THROUGH: usize = 500;
/// How many tasks the learning curve has at most: no trial takes more.
const CURVE: usize = 1_000;
/// The characters of an example's question.
const QUESTION_CHARS: usize = 160;

/// One task in the learning curve of a skill. It names neither the task nor who asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct CurvePoint {
    /// What was drawn for it.
    pub(crate) arm: Arm,
    /// How good its answer was, from 0 to 1, where that is known.
    pub(crate) score: Option<f64>,
}

/// A worked example of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ShownExample {
    /// The task that it is told of.
    pub(crate) task: TaskId,
    /// What was asked, on one line, cut short.
    pub(crate) question: String,
    /// The tools that were called, in order.
    pub(crate) tools: Vec<String>,
}

/// One learned skill: where it stands and why, and what that rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShownSkill {
    /// Where it stands, both arms, its gain.
    #[serde(flatten)]
    pub(crate) skill: LearnedSkill,
    /// The last tasks of its trial, newest first.
    pub(crate) tasks: Vec<TrialTask>,
    /// The tasks of its trial in the order in which they came, without rehearsals.
    pub(crate) curve: Vec<CurvePoint>,
    /// The worked examples that it holds, oldest first.
    pub(crate) examples: Vec<ShownExample>,
}

/// One learned skill. `may_see` decides which tasks and examples are named: those of tasks that the caller may know of. What
/// sums up all tasks has those of others in it as well.
pub(crate) fn show(
    reader: &Reader,
    slug: &Slug,
    mut may_see: impl FnMut(&TaskId) -> Result<bool>,
) -> Result<ShownSkill> {
    let Some(skill) = report::of_skill(reader, slug)? else {
        let id = reader.id();
        return Err(Error::not_found(format!("brain {id} has not learned a skill {:?}", slug.as_str()))
            .hint(format!("see what it learned with `herm learn status {id}`")));
    };
    let all = reader.trial_tasks(slug)?;
    let asked = all.iter().filter(|task| !task.rehearsed);
    let curve = asked.take(CURVE).map(|task| CurvePoint { arm: task.arm, score: task.score }).collect();
    let mut tasks = Vec::new();
    for task in all.into_iter().rev().take(LOOKED_THROUGH) {
        if tasks.len() < TASKS && may_see(&task.task.parse()?)? {
            tasks.push(task);
        }
    }
    let mut examples = Vec::new();
    for example in examples_of(reader, slug)? {
        if may_see(&example.task)? {
            examples.push(example);
        }
    }
    Ok(ShownSkill { skill, tasks, curve, examples })
}

/// The worked examples of a skill, also of one in the archive.
fn examples_of(reader: &Reader, slug: &Slug) -> Result<Vec<ShownExample>> {
    let main = match reader.skills()?.get(slug) {
        Some(entry) => Some(entry.place.main.clone()),
        None => reader.archived_skills()?.into_iter().find(|(name, _)| name == slug).map(|(_, main)| main),
    };
    let Some(dir) = main.as_ref().and_then(|main| main.as_str().strip_suffix("SKILL.md")) else {
        return Ok(Vec::new());
    };
    let path: RelPath = format!("{dir}{EXAMPLES_FILE}").parse()?;
    let examples = file::parse(&reader.text(&path)?.unwrap_or_default());
    let shown = examples.into_iter().map(|example| ShownExample {
        question: text::line(&example.question, QUESTION_CHARS),
        tools: example.tools().map(str::to_owned).collect(),
        task: example.task,
    });
    Ok(shown.collect())
}

/// A trial that a person ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StoppedSkill {
    /// Where the skill stands now.
    pub(crate) trial: Trial,
    /// The step that archived it, where one did.
    pub(crate) settled: Option<SettledStep>,
}

/// Ends the trial of a skill, or changes its verdict, because a person says so.
pub(crate) fn stop(brain: &mut Brain, slug: &Slug, how: StoppedTrial) -> Result<StoppedSkill> {
    let (trial, settled) = pass::stop(brain, slug, how)?;
    Ok(StoppedSkill { trial, settled })
}
