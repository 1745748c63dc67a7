//! A pass over the trials of a brain: skills that the agent made go on trial, and trials that found something end.
//!
//! A pass costs what is new since the last one. A skill that does harm is archived by a step of its own; what else is
//! decided is a row beside the steps. Skills that a person made or pinned are never on trial.

use std::collections::BTreeMap;

use serde::Serialize;

use super::sequential::{
    TrialDecision, TrialPolicy, TrialVerdict, VerdictGround, days_seen, decide, next_look, next_signals_look,
};
use super::{Observation, paired};
use crate::brain::{Brain, Draft, OnChanged, SettledStep, StepKind};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::evolver::rollback;
use crate::ids::Slug;
use crate::memory::{Trial, TrialMark, TrialState, TrialSum, TrialTask};
use crate::skill::SkillState;
use crate::skill::provenance::SkillWriter;

/// The most skills that one pass archives; the next task of the others brings them up again.
const MOST_ARCHIVED: usize = 250;
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// What a process remembers of the trials of a brain from one pass to the next.
#[derive(Debug, Clone, Default)]
pub struct TrialMemory {
    /// Up to where rows were looked at; nowhere in a new process.
    mark: Option<TrialMark>,
    /// By skill, how many tasks with a known outcome and how many without were looked at.
    looked: BTreeMap<Slug, (usize, usize)>,
}

/// Which trials a pass looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialScope {
    /// Those with something new since the last pass.
    New,
    /// All trials, also those with nothing new.
    All,
}

/// A trial that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndedTrial {
    /// The skill that was on trial.
    pub skill: Slug,
    /// The state that the trial ended in.
    pub state: TrialState,
    /// Why, in a line.
    pub reason: String,
}

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TrialPassReport {
    /// Skills that went on trial.
    pub began: Vec<Slug>,
    /// The trials that ended in this pass.
    pub ended: Vec<EndedTrial>,
    /// Changes of the evolver's that did harm and were rolled back, by skill, with their steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rolled_back: Vec<(Slug, i64)>,
    /// Skills that do harm and could not be archived, with why. They stay on trial.
    pub refused: Vec<(Slug, String)>,
    /// The step that archived what does harm.
    pub settled: Option<SettledStep>,
}

impl TrialPassReport {
    /// Whether no trial began or ended, and nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.began.is_empty() && self.ended.is_empty() && self.refused.is_empty()
    }
}

/// Passes over a brain.
pub fn run(
    brain: &mut Brain,
    memory: &mut TrialMemory,
    policy: &TrialPolicy,
    scope: TrialScope,
) -> Result<TrialPassReport> {
    let since = match (scope, memory.mark) {
        (TrialScope::All, _) => TrialMark::START,
        (TrialScope::New, Some(mark)) => mark,
        (TrialScope::New, None) => brain.recent_trial_mark()?,
    };
    let news = brain.trial_news(since)?;
    let now = brain.clock().now();
    let mut report = TrialPassReport::default();
    for skill in news.untried {
        if is_the_agents_own(brain, &skill)? {
            report.began.push(skill);
        }
    }
    if !report.began.is_empty() {
        let began = |skill: &Slug| Trial {
            skill: skill.clone(),
            state: TrialState::Trial,
            since: now,
            decided: None,
            reason: "written by the agent".to_owned(),
        };
        let rows: Vec<Trial> = report.began.iter().map(began).collect();
        brain.write_trials(|writer| rows.iter().try_for_each(|trial| writer.put_trial(trial).map(drop)))?;
    }
    let mut decided = Vec::new();
    for skill in news.touched {
        if let Some(trial) = brain.trial(&skill)?.filter(|trial| trial.state == TrialState::Trial)
            && let Some((state, reason)) = look_at(brain, memory, policy, scope, &trial)?
        {
            decided.push(Trial { state, decided: Some(now), reason, ..trial });
        }
    }
    let (harmful, others): (Vec<Trial>, Vec<Trial>) =
        decided.into_iter().partition(|trial| trial.state == TrialState::Harmful);
    let gone = end_harmful(brain, harmful, &mut report)?;
    if !others.is_empty() {
        brain.write_trials(|writer| others.iter().try_for_each(|trial| writer.put_trial(trial).map(drop)))?;
    }
    for trial in gone.into_iter().chain(others) {
        memory.looked.remove(&trial.skill);
        report.ended.push(EndedTrial { skill: trial.skill, state: trial.state, reason: trial.reason });
    }
    // Only now: what failed above is new the next time as well.
    memory.mark = Some(news.mark);
    Ok(report)
}

/// How one trial ends, where it does.
fn look_at(
    brain: &Brain,
    memory: &mut TrialMemory,
    policy: &TrialPolicy,
    scope: TrialScope,
    trial: &Trial,
) -> Result<Option<(TrialState, String)>> {
    let sum = brain.trial_sum(&trial.skill)?;
    let (known, unknown) = counts(&sum);
    let looked = memory.looked.get(&trial.skill).copied().unwrap_or_default();
    if scope == TrialScope::New && !is_due(trial, &sum, (known, unknown), looked, policy) {
        return Ok(None);
    }
    if !is_the_agents_own(brain, &trial.skill)? {
        return Ok(None);
    }
    let tasks: Vec<TrialTask> = brain.trial_tasks(&trial.skill)?.into_iter().filter(|task| !task.rehearsed).collect();
    let observations: Vec<Observation> = tasks.iter().map(Observation::from).collect();
    let times: Vec<i64> = tasks.iter().map(|task| task.at.millis()).collect();
    let decision = decide(&observations, days_seen(&times), policy);
    memory.looked.insert(trial.skill.clone(), (known, unknown));
    Ok(decision.map(|decision| (state_of(decision.verdict), reason(&decision, &sum))))
}

/// Tasks with a known outcome, and without.
fn counts(sum: &TrialSum) -> (usize, usize) {
    let known = sum.shown.known + sum.held_back.known;
    let all = sum.shown.tasks + sum.held_back.tasks;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    (count(known), count(all.saturating_sub(known)))
}

/// Whether a trial reached a look, or a bound, since it was looked at.
fn is_due(
    trial: &Trial,
    sum: &TrialSum,
    (known, unknown): (usize, usize),
    looked: (usize, usize),
    policy: &TrialPolicy,
) -> bool {
    let days = |until: Timestamp| until.millis().saturating_sub(trial.since.millis()) / DAY_MILLIS;
    next_look(looked.0).is_some_and(|look| known >= look)
        || next_signals_look(looked.1).is_some_and(|look| unknown >= look && unknown > known)
        || known >= policy.most_tasks
        || known + unknown >= super::sequential::MOST_TASKS_IN_ALL
        || sum.last.is_some_and(|last| days(last) >= i64::from(policy.most_days))
}

/// Whether a skill is the agent's own to keep or to let go.
fn is_the_agents_own(brain: &Brain, skill: &Slug) -> Result<bool> {
    Ok(brain.skill_facts(skill)?.is_some_and(|facts| facts.allow(SkillWriter::Trial)))
}

fn state_of(verdict: TrialVerdict) -> TrialState {
    match verdict {
        TrialVerdict::Proven => TrialState::Proven,
        TrialVerdict::Harmful => TrialState::Harmful,
        TrialVerdict::Unproven => TrialState::Unproven,
    }
}

/// Why, in a line: what the arms came to, and how often chance alone does that.
fn reason(decision: &TrialDecision, sum: &TrialSum) -> String {
    let mean = |sum: f64, count: u64| if count == 0 { "–".to_owned() } else { format!("{:.2}", sum / count as f64) };
    let (shown, held) = (&sum.shown, &sum.held_back);
    match decision.ground {
        VerdictGround::Outcomes { chance } => format!(
            "mean outcome {} in {} tasks with it and {} in {} without; chance alone does that in {}",
            mean(shown.score, shown.known),
            shown.known,
            mean(held.score, held.known),
            held.known,
            percent(chance)
        ),
        VerdictGround::Signals { chance } => format!(
            "{} failed calls and {} turns a task in {} tasks with it, {} and {} in {} without; chance alone does that in {}",
            mean(shown.errors as f64, shown.tasks),
            mean(shown.turns as f64, shown.tasks),
            shown.tasks,
            mean(held.errors as f64, held.tasks),
            mean(held.turns as f64, held.tasks),
            held.tasks,
            percent(chance)
        ),
        VerdictGround::Tasks => format!("no difference was found in {} tasks", decision.tasks),
        VerdictGround::Days => format!("no difference was found in time, in {} tasks", decision.tasks),
    }
}

fn percent(chance: f64) -> String {
    if chance < 0.000_1 {
        "less than 0.01 % of trials".to_owned()
    } else {
        format!("{:.2} % of trials", chance * 100.0)
    }
}

/// Puts an end to what does harm. A change of the evolver's is rolled back: the skill is what it was before. Everything
/// else is archived. Returns the trials that ended.
fn end_harmful(brain: &mut Brain, harmful: Vec<Trial>, report: &mut TrialPassReport) -> Result<Vec<Trial>> {
    let (mut ended, mut others) = (Vec::new(), Vec::new());
    for trial in harmful {
        let Some(step) = rollback::change_on_trial(brain, &trial.skill)? else {
            others.push(trial);
            continue;
        };
        // Where something was changed again since, the skill goes as a whole.
        if !rollback::rollback(brain, step, OnChanged::Refuse)?.rolled_back {
            others.push(trial);
            continue;
        }
        report.rolled_back.push((trial.skill.clone(), step));
        ended.push(Trial { reason: format!("{}; the change of step {step} was rolled back", trial.reason), ..trial });
    }
    ended.extend(archive(brain, others, report)?);
    Ok(ended)
}

/// Archives what does harm, with its verdict, as one step. Returns those that are gone; what cannot be moved is reported
/// and does not hold up the others.
fn archive(brain: &mut Brain, harmful: Vec<Trial>, report: &mut TrialPassReport) -> Result<Vec<Trial>> {
    let mut draft = Draft::new();
    let mut gone = Vec::new();
    for trial in harmful.into_iter().take(MOST_ARCHIVED) {
        match put_away(brain, &mut draft, &trial) {
            Ok(()) => gone.push(trial),
            Err(error) => report.refused.push((trial.skill, error.message().to_owned())),
        }
    }
    if let [first, others @ ..] = gone.as_slice() {
        let summary = match others.len() {
            0 => format!("trial: archived {}, which does harm", first.skill),
            more => format!("trial: archived {} and {more} more, which do harm", first.skill),
        };
        let settled = brain.settle(&draft, StepKind::Learn, &summary)?;
        report.settled = settled.moved.then_some(settled);
    }
    Ok(gone)
}

/// Puts one skill and its verdict into the draft, whole or not at all.
fn put_away(brain: &Brain, draft: &mut Draft, trial: &Trial) -> Result<()> {
    let mut alone = Draft::new();
    brain.edit(&mut alone).archive_skill(&trial.skill)?;
    alone.trial(trial.clone());
    draft.merge(alone)
}

/// Ends the trial of a skill where its rehearsals decide.
pub fn conclude_rehearsals(brain: &mut Brain, skill: &Slug) -> Result<TrialPassReport> {
    let mut report = TrialPassReport::default();
    let Some(trial) = brain.trial(skill)?.filter(|trial| trial.state == TrialState::Trial) else { return Ok(report) };
    if !is_the_agents_own(brain, skill)? {
        return Ok(report);
    }
    let pairs = paired::pairs_of(&brain.trial_tasks(skill)?);
    let Some(decision) = paired::decide(&pairs) else { return Ok(report) };
    let summary = paired::summarise(&pairs);
    let reason = format!(
        "in {} rehearsals {} tasks went better with it and {} worse; chance alone does that in {}",
        pairs.len(),
        summary.better,
        summary.worse,
        percent(summary.p)
    );
    let trial = Trial { state: state_of(decision.verdict), decided: Some(brain.clock().now()), reason, ..trial };
    let ended = match trial.state {
        TrialState::Harmful => end_harmful(brain, vec![trial], &mut report)?,
        _ => {
            brain.write_trials(|writer| writer.put_trial(&trial))?;
            vec![trial]
        }
    };
    let ended = ended.into_iter().map(|Trial { skill, state, reason, .. }| EndedTrial { skill, state, reason });
    report.ended.extend(ended);
    Ok(report)
}

/// How a person ends a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedTrial {
    /// The skill is shown always.
    Kept,
    /// It stays in the index and is put before no task.
    Unproven,
    /// It goes to the archive and does not come back by itself.
    Archived,
}

/// Ends a trial, or changes its verdict, because a person says so. `NotFound` where there is no such skill, `Conflict` where
/// it never was on trial or is in the archive.
pub fn stop(brain: &mut Brain, skill: &Slug, how: StoppedTrial) -> Result<(Trial, Option<SettledStep>)> {
    let Some(trial) = brain.trial(skill)? else {
        let error = match brain.skill_facts(skill)? {
            Some(_) => Error::conflict(format!("skill {skill} of brain {} is on no trial", brain.id())),
            None => Error::not_found(format!("there is no skill {skill} in brain {}", brain.id())),
        };
        return Err(error.hint(format!("see what it learned with `herm learn status {}`", brain.id())));
    };
    let mut nothing = Draft::new();
    let usage = brain.edit(&mut nothing).recorded_usage(skill)?;
    if usage.is_some_and(|usage| usage.state == SkillState::Archived) {
        return Err(Error::conflict(format!("skill {skill} is archived"))
            .hint(format!("bring it back with `herm skills restore {} {skill}`", brain.id())));
    }
    let (state, words) = match how {
        StoppedTrial::Kept => (TrialState::Proven, "kept"),
        StoppedTrial::Unproven => (TrialState::Unproven, "stopped"),
        StoppedTrial::Archived => (TrialState::Harmful, "archived"),
    };
    let decided = Some(brain.clock().now());
    let trial = Trial { state, decided, reason: format!("{words} by a person"), ..trial };
    if how == StoppedTrial::Archived {
        let mut draft = Draft::new();
        put_away(brain, &mut draft, &trial)?;
        let summary = format!("trial: a person archived {skill}");
        let settled = brain.settle(&draft, StepKind::Learn, &summary)?;
        return Ok((trial, settled.moved.then_some(settled)));
    }
    brain.write_trials(|writer| writer.put_trial(&trial))?;
    Ok((trial, None))
}
