//! What a brain has learned and what it is worth: every learned skill with its trial, and the gain of all that is shown.

use std::collections::BTreeMap;

use serde::Serialize;

use super::estimate::{Gain, ScoreSum, gain};
use super::sequential::next_look;
use crate::brain::Reader;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::Slug;
use crate::memory::{ArmSum, Trial, TrialState, TrialSum};
use crate::skill::{CreatedBy, SkillState, SkillUsage};

/// One arm of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArmReport {
    /// How many tasks the arm has, those without an outcome included.
    pub tasks: u64,
    /// How many of them have a known outcome.
    pub known: u64,
    /// Their mean outcome, from 0 to 1.
    pub mean: Option<f64>,
    /// Where that mean lies with 95 % confidence.
    pub interval: Option<[f64; 2]>,
    /// Failed calls a task.
    pub errors: f64,
    /// The mean number of turns of a task.
    pub turns: f64,
    /// Cost of a task, in millionths of a dollar.
    pub micro_usd: f64,
}

impl ArmReport {
    fn of(arm: &ArmSum) -> Self {
        let each = |sum: u64| if arm.tasks == 0 { 0.0 } else { sum as f64 / arm.tasks as f64 };
        let scores = scores(arm);
        Self {
            tasks: arm.tasks,
            known: arm.known,
            mean: scores.mean(),
            interval: scores.mean().map(|_| scores.interval()),
            errors: each(arm.errors),
            turns: each(arm.turns),
            micro_usd: each(arm.micro_usd),
        }
    }
}

fn scores(arm: &ArmSum) -> ScoreSum {
    ScoreSum { count: arm.known, sum: arm.score }
}

/// A learned skill, and how its trial stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnedSkill {
    /// The skill's name, by which the report is sorted.
    pub skill: Slug,
    /// Where it stands; nothing while it was not on trial yet.
    pub state: Option<TrialState>,
    /// When its trial began.
    pub since: Option<Timestamp>,
    /// When it was decided.
    pub decided: Option<Timestamp>,
    /// Why it stands there.
    pub reason: Option<String>,
    /// Whether it is in the archive.
    pub archived: bool,
    /// Whether a person pinned it: then it is on no trial.
    pub pinned: bool,
    /// Tasks that were shown it.
    pub shown: ArmReport,
    /// Tasks that it was held back from.
    pub held_back: ArmReport,
    /// What a task gains by it, where both arms have outcomes.
    pub gain: Option<Gain>,
    /// What a task costs more with it, in millionths of a dollar; less, where negative.
    pub extra_micro_usd: Option<f64>,
    /// Rehearsals: pairs of the same task with it and without it.
    pub rehearsals: u64,
    /// What the rehearsals gained.
    pub rehearsed_gain: Option<Gain>,
    /// The number of tasks with a known outcome at which its trial is looked at next.
    pub next_look: Option<usize>,
    /// When the last task that it fits began.
    pub last: Option<Timestamp>,
}

/// How many learned skills stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LearnedCounts {
    /// Not on trial yet.
    pub untried: u64,
    /// The skill is on trial: some tasks are shown it.
    pub trial: u64,
    /// The skill helped: every task that matches is shown it.
    pub proven: u64,
    /// The skill did harm and was archived.
    pub harmful: u64,
    /// In the index, put before no task.
    pub unproven: u64,
}

/// What everything learned is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BrainGain {
    /// What a task gains that something proven fits: the mean of the gains, by how many tasks each fits.
    pub proven: Option<Gain>,
    /// The share of the brain's tasks, since its first trial, that something proven fits, as its trial saw it.
    pub fitting: f64,
    /// What a task of the brain gains on average: the one times the other.
    pub overall: Option<Gain>,
    /// What the trials cost: outcomes lost in tasks that were shown what turned out to do harm. In tasks: 2.5 is as much as
    /// two good answers and a half that were bad.
    pub price: f64,
}

/// What a brain has learned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LearningReport {
    /// Where the learned skills stand.
    pub counts: LearnedCounts,
    /// What all of them are worth.
    pub gain: BrainGain,
    /// Each of them, by name.
    pub skills: Vec<LearnedSkill>,
}

/// Sums up what a brain has learned.
pub fn of(reader: &Reader) -> Result<LearningReport> {
    let trials: BTreeMap<Slug, Trial> =
        reader.trials()?.into_iter().map(|trial| (trial.skill.clone(), trial)).collect();
    let mut sums = reader.trial_sums()?;
    let usage = reader.usage()?;
    let agents = usage.iter().filter(|(_, usage)| usage.created_by == CreatedBy::Agent).map(|(slug, _)| slug);
    let mut slugs: Vec<&Slug> = trials.keys().chain(agents).collect();
    slugs.sort_unstable();
    slugs.dedup();
    let learned = |slug: &&Slug| {
        learned_skill(slug, trials.get(*slug), usage.get(*slug), &sums.remove(*slug).unwrap_or_default())
    };
    let skills: Vec<LearnedSkill> = slugs.iter().map(learned).collect();
    let first = trials.values().map(|trial| trial.since).min();
    let tasks = match first {
        Some(first) => {
            let counts = reader.outcome_counts(first)?;
            counts.known() + counts.unknown
        }
        None => 0,
    };
    Ok(LearningReport { counts: counts(&skills), gain: brain_gain(&skills, tasks), skills })
}

/// One learned skill; nothing where it is none.
pub fn of_skill(reader: &Reader, slug: &Slug) -> Result<Option<LearnedSkill>> {
    let (trial, usage) = (reader.trial(slug)?, reader.usage()?.remove(slug));
    if trial.is_none() && usage.as_ref().is_none_or(|usage| usage.created_by != CreatedBy::Agent) {
        return Ok(None);
    }
    Ok(Some(learned_skill(slug, trial.as_ref(), usage.as_ref(), &reader.trial_sum(slug)?)))
}

fn learned_skill(slug: &Slug, trial: Option<&Trial>, usage: Option<&SkillUsage>, sum: &TrialSum) -> LearnedSkill {
    let (shown, held_back) = (ArmReport::of(&sum.shown), ArmReport::of(&sum.held_back));
    let known = usize::try_from(shown.known + held_back.known).unwrap_or(usize::MAX);
    let on_trial = trial.is_some_and(|trial| trial.state == TrialState::Trial);
    LearnedSkill {
        skill: slug.clone(),
        state: trial.map(|trial| trial.state),
        since: trial.map(|trial| trial.since),
        decided: trial.and_then(|trial| trial.decided),
        reason: trial.map(|trial| trial.reason.clone()),
        archived: usage.is_some_and(|usage| usage.state == SkillState::Archived),
        pinned: usage.is_some_and(|usage| usage.pinned),
        gain: gain(scores(&sum.shown), scores(&sum.held_back)),
        extra_micro_usd: (shown.tasks > 0 && held_back.tasks > 0).then_some(shown.micro_usd - held_back.micro_usd),
        rehearsals: sum.rehearsed_with.tasks.min(sum.rehearsed_without.tasks),
        rehearsed_gain: gain(scores(&sum.rehearsed_with), scores(&sum.rehearsed_without)),
        next_look: on_trial.then(|| next_look(known)).flatten(),
        last: sum.last,
        shown,
        held_back,
    }
}

fn counts(skills: &[LearnedSkill]) -> LearnedCounts {
    let mut counts = LearnedCounts::default();
    for skill in skills {
        match skill.state {
            None => counts.untried += 1,
            Some(TrialState::Trial) => counts.trial += 1,
            Some(TrialState::Proven) => counts.proven += 1,
            Some(TrialState::Harmful) => counts.harmful += 1,
            Some(TrialState::Unproven) => counts.unproven += 1,
        }
    }
    counts
}

/// Weighs the gains of what is proven by the tasks that it fits. `tasks` are all of the brain since its first trial.
fn brain_gain(skills: &[LearnedSkill], tasks: u64) -> BrainGain {
    let fits = |skill: &LearnedSkill| (skill.shown.tasks + skill.held_back.tasks) as f64;
    let proven: Vec<(f64, Gain)> = skills
        .iter()
        .filter(|skill| skill.state == Some(TrialState::Proven))
        .filter_map(|skill| Some((fits(skill), skill.gain.or(skill.rehearsed_gain)?)))
        .collect();
    let all: f64 = proven.iter().map(|(fits, _)| fits).sum();
    let mean = (all > 0.0).then(|| {
        let value = proven.iter().map(|(fits, gain)| fits / all * gain.value).sum::<f64>();
        // Trials of different skills are drawn apart: their errors add up by their squares.
        let reach = |end: fn(&Gain) -> f64| {
            proven.iter().map(|(fits, gain)| (fits / all * end(gain)).powi(2)).sum::<f64>().sqrt()
        };
        let (below, above) = (reach(|gain| gain.value - gain.low), reach(|gain| gain.high - gain.value));
        Gain { value, low: (value - below).max(-1.0), high: (value + above).min(1.0) }
    });
    let fitting = if tasks == 0 { 0.0 } else { (all / tasks as f64).min(1.0) };
    let scaled = |gain: Gain| Gain { value: gain.value * fitting, low: gain.low * fitting, high: gain.high * fitting };
    let price = skills
        .iter()
        .filter(|skill| skill.state == Some(TrialState::Harmful))
        .filter_map(|skill| skill.gain.map(|gain| skill.shown.known as f64 * (-gain.value).max(0.0)))
        .sum();
    BrainGain { proven: mean, fitting, overall: mean.map(scaled), price }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(tasks: u64, score: f64) -> ArmSum {
        ArmSum { tasks, known: tasks, score, errors: 0, turns: 2 * tasks, micro_usd: 100 * tasks }
    }

    fn skill(name: &str, state: TrialState, shown: ArmSum, held_back: ArmSum) -> LearnedSkill {
        let slug: Slug = name.parse().unwrap();
        let trial = Trial { skill: slug.clone(), state, since: Timestamp(0), decided: None, reason: String::new() };
        learned_skill(&slug, Some(&trial), None, &TrialSum { shown, held_back, ..TrialSum::default() })
    }

    #[test]
    fn the_gain_of_a_brain_weighs_what_is_proven_by_the_tasks_it_fits() {
        let skills = [
            skill("a", TrialState::Proven, arm(30, 27.0), arm(30, 9.0)),
            skill("b", TrialState::Proven, arm(10, 10.0), arm(10, 4.0)),
            skill("c", TrialState::Harmful, arm(20, 2.0), arm(20, 12.0)),
            skill("d", TrialState::Trial, arm(5, 5.0), arm(5, 0.0)),
        ];
        let found = brain_gain(&skills, 160);
        let proven = found.proven.unwrap();
        // 27/30 against 9/30 weighs 3/4 and 10/10 against 4/10 weighs 1/4; the ends were computed apart, by the same papers.
        let near = |found: f64, known: f64| (found - known).abs() < 1e-9;
        assert!(near(proven.value, 0.6), "{proven:?}");
        assert!(near(proven.low, 0.395_857_492_178) && near(proven.high, 0.725_568_949_033), "{proven:?}");
        assert_eq!(found.fitting, 0.5);
        assert!((found.overall.unwrap().value - 0.3).abs() < 1e-9);
        assert_eq!(found.price, 10.0, "twenty tasks lost half an answer each");
        let counted = counts(&skills);
        assert_eq!(counted, LearnedCounts { proven: 2, harmful: 1, trial: 1, ..LearnedCounts::default() });
    }

    #[test]
    fn where_nothing_is_proven_nothing_is_claimed() {
        let skills = [skill("a", TrialState::Trial, arm(5, 5.0), arm(5, 0.0))];
        let none = BrainGain { proven: None, fitting: 0.0, overall: None, price: 0.0 };
        assert_eq!(brain_gain(&skills, 10), none);
        assert_eq!(skills[0].next_look, Some(12));
        assert_eq!(skills[0].extra_micro_usd, Some(0.0));
    }
}
