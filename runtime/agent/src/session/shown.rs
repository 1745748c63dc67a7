//! What a task is shown of what its brain has learned: the nearest example, and skills that fit, whole.
//!
//! A skill is shown whole if it matches the task above a floor ([`WorkingCopy::matching_skills`]) and has room; a brain
//! with few skills shows all of them, if they have room together, because a small model cannot select. Beside an example
//! stand only skills that matched and that people or seeds wrote: what was learned is tried without it.
//!
//! What is on trial is shown to a share of the tasks that match it, by [`Arm::draw`]. A replay shows what was shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::exemplar::{self, Example, ExampleCache, IndexedExample, RepeatedArguments};
use super::prompt::{PreloadedSkill, PromptSkills};
use crate::error::Result;
use crate::ids::{BrainId, Slug, TaskId};
use crate::memory::{Arm, TrialState};
use crate::skill::{CreatedBy, Document, ScoredSkill};
use crate::task::{ExamplePick, LearningOptions, ShownAs, ShownSkill};
use crate::tool::{SoughtMeaning, WorkingCopy};

/// The most skills that a brain can have for all of them to be shown whole, whatever the task is about.
const FEW_SKILLS: usize = 3;
/// The most skills that are shown whole.
const MOST_PRELOADED: usize = 3;
/// The most skills that the choice is made from.
const MOST_CANDIDATES: usize = 12;
/// Scores that differ by less say the same. Then what a person or a seed wrote stands before what the agent learned.
const TIE: f64 = 0.1;

/// What the prompt shows.
#[derive(Debug, Clone, Default)]
pub(super) struct Learned {
    pub(super) shown: Vec<ShownSkill>,
    pub(super) example: Option<Example>,
    /// Which arguments of the example were the same in others of its procedure.
    pub(super) repeated: RepeatedArguments,
    pub(super) preloaded: Vec<PreloadedSkill>,
}

/// What the choice goes by.
pub(super) struct ShowRules<'a> {
    pub(super) brain: &'a BrainId,
    pub(super) task: &'a TaskId,
    pub(super) question: &'a str,
    pub(super) options: LearningOptions,
    /// Whether the backend is held to the calls of an example.
    pub(super) plans: bool,
    /// The bytes that bodies of skills may take.
    pub(super) preload_bytes: usize,
    /// Whether the example takes room of those: with a small model.
    pub(super) example_takes_room: bool,
    /// What the task means, where meaning has a part in choosing skills.
    pub(super) sought: Option<&'a SoughtMeaning>,
    /// The share of matching tasks that are shown what is on trial.
    pub(super) share: f64,
    /// Examples that were read already.
    pub(super) cache: &'a ExampleCache,
    /// What was shown then, in a replay.
    pub(super) replayed: Option<&'a [ShownSkill]>,
}

impl ShowRules<'_> {
    /// Chooses. Procedures leave the index of skills: their examples are shown, or held back.
    pub(super) fn choose(&self, desk: &mut WorkingCopy, index: &mut PromptSkills) -> Result<Learned> {
        if let Some(shown) = self.replayed {
            return self.as_recorded(desk, index, shown);
        }
        let mut learned = Learned::default();
        // Sorted, and without what is disabled or does not suit this machine.
        let visible: Vec<Slug> =
            desk.skills()?.into_iter().filter(|card| !card.external).map(|card| card.slug).collect();
        let procedures: Vec<Slug> = visible.iter().filter(|slug| exemplar::is_procedure(slug)).cloned().collect();
        if self.options.preload && self.options.examples {
            self.choose_example(desk, procedures, &mut learned)?;
        }
        if self.options.preload && self.preload_bytes > 0 {
            self.choose_skills(desk, &visible, &mut learned)?;
        }
        self.hide(desk, index, &learned)?;
        Ok(learned)
    }

    /// Whether a skill is shown: always, never, or as it is drawn. Only the skills that matter are looked up: a brain may
    /// have thousands of trials.
    fn arm(&self, desk: &mut WorkingCopy, skill: &Slug) -> Result<Option<(Arm, bool)>> {
        if !self.options.trials {
            return Ok(Some((Arm::Shown, false)));
        }
        Ok(match state_of(desk, skill)? {
            Some(TrialState::Proven) => Some((Arm::Shown, false)),
            Some(TrialState::Unproven | TrialState::Harmful) => None,
            Some(TrialState::Trial) | None => Some((Arm::draw(self.brain, skill, self.task, self.share), true)),
        })
    }

    fn choose_example(&self, desk: &mut WorkingCopy, procedures: Vec<Slug>, learned: &mut Learned) -> Result<()> {
        let mut known: Vec<(Slug, Arc<Vec<IndexedExample>>)> = Vec::new();
        for slug in procedures {
            if let Some(examples) = examples_of(self.cache, desk, &slug)? {
                known.push((slug, examples));
            }
        }
        while let Some((example, score)) = self.pick(&known) {
            let Some(skill) = exemplar::procedure_slug(example.tools()) else { return Ok(()) };
            let Some((arm, trial)) = self.arm(desk, &skill)? else {
                // What its trial did not prove is not shown: the next best one may be.
                let before = known.len();
                known.retain(|(slug, _)| *slug != skill);
                if known.len() == before {
                    return Ok(());
                }
                continue;
            };
            let shown_as = if self.plans { ShownAs::Plan } else { ShownAs::Example };
            let task = Some(example.task.clone());
            learned.shown.push(ShownSkill { skill: skill.clone(), arm, shown_as, trial, score, example: task });
            if arm == Arm::Shown {
                let alike = known.iter().filter(|(slug, _)| *slug == skill).flat_map(|(_, examples)| examples.iter());
                learned.repeated = exemplar::repeated(&example, alike.map(|known| &known.example));
                learned.example = Some(example);
            }
            break;
        }
        Ok(())
    }

    /// The example to show, with how near it is.
    fn pick(&self, known: &[(Slug, Arc<Vec<IndexedExample>>)]) -> Option<(Example, Option<f64>)> {
        let all = || known.iter().flat_map(|(_, examples)| examples.iter());
        match self.options.pick {
            ExamplePick::Nearest => {
                exemplar::nearest(self.question, all()).map(|found| (found.example.clone(), Some(found.score)))
            }
            ExamplePick::Random => {
                let digest = crate::ids::Digest::of(self.task.as_str().as_bytes()).to_string();
                let drawn = digest.get(..8).and_then(|hex| usize::from_str_radix(hex, 16).ok()).unwrap_or_default();
                let count = all().count();
                (count > 0).then(|| all().nth(drawn % count)).flatten().map(|found| (found.example.clone(), None))
            }
        }
    }

    /// The skills that match best, as far as they have room; all of them where there are few.
    fn choose_skills(&self, desk: &mut WorkingCopy, visible: &[Slug], learned: &mut Learned) -> Result<()> {
        let beside_example = learned.example.is_some();
        let taken =
            learned.example.as_ref().filter(|_| self.example_takes_room).map_or(0, |found| found.render().len());
        let mut left = self.preload_bytes.saturating_sub(taken);
        let mut candidates = Vec::new();
        for found in self.candidates(desk, visible, beside_example)? {
            let usage = desk.edit()?.recorded_usage(&found.slug)?;
            let is_learned = usage.is_some_and(|usage| usage.created_by == CreatedBy::Agent && !usage.pinned);
            // Its trial would not tell what it is worth from what the example is worth.
            if !(is_learned && beside_example) {
                candidates.push(Candidate { found, is_learned });
            }
        }
        experts_first(&mut candidates);
        let mut chosen = 0;
        for Candidate { found: ScoredSkill { slug, score }, is_learned } in candidates {
            if chosen == MOST_PRELOADED {
                break;
            }
            let Some(body) = body_of(desk, &slug)? else { continue };
            let Some(rest) = left.checked_sub(body.len()) else { continue };
            let (arm, trial) = match is_learned {
                true => match self.arm(desk, &slug)? {
                    Some(drawn) => drawn,
                    None => continue,
                },
                false => (Arm::Shown, false),
            };
            chosen += 1;
            let (skill, shown_as, score) = (slug.clone(), ShownAs::Skill, Some(score));
            learned.shown.push(ShownSkill { skill, arm, shown_as, trial, score, example: None });
            if arm == Arm::Shown {
                left = rest;
                preload(desk, slug, body, learned)?;
            }
        }
        Ok(())
    }

    /// The skills that match the task, best first; then the others, where there are few and all of them have room.
    fn candidates(&self, desk: &mut WorkingCopy, visible: &[Slug], beside_example: bool) -> Result<Vec<ScoredSkill>> {
        let may_stand = |slug: &Slug| visible.binary_search(slug).is_ok() && !exemplar::is_procedure(slug);
        let mut found = desk.matching_skills(self.question, MOST_CANDIDATES, self.sought).or_else(|error| {
            tracing::warn!(brain = %self.brain, %error, "skills are chosen by their words alone");
            desk.matching_skills(self.question, MOST_CANDIDATES, None)
        })?;
        found.retain(|found| may_stand(&found.slug));
        let others: Vec<&Slug> = visible.iter().filter(|slug| !exemplar::is_procedure(slug)).collect();
        if beside_example || others.len() > FEW_SKILLS {
            return Ok(found);
        }
        let mut bytes = 0;
        for slug in &others {
            bytes += body_of(desk, slug)?.map_or(0, |body| body.len());
        }
        if bytes <= self.preload_bytes {
            let known: Vec<Slug> = found.iter().map(|found| found.slug.clone()).collect();
            let rest = others.into_iter().filter(|slug| !known.contains(slug));
            found.extend(rest.map(|slug| ScoredSkill { slug: slug.clone(), score: 0.0 }));
        }
        Ok(found)
    }

    /// What is held back, and the skills of procedures, do not stand in the index either.
    fn hide(&self, desk: &mut WorkingCopy, index: &mut PromptSkills, learned: &Learned) -> Result<()> {
        let held = |slug: &Slug| learned.shown.iter().any(|shown| shown.skill == *slug && shown.arm == Arm::HeldBack);
        let mut stays = BTreeSet::new();
        for card in index.skills.iter().filter(|card| self.options.trials && exemplar::is_procedure(&card.slug)) {
            if state_of(desk, &card.slug)? == Some(TrialState::Unproven) {
                stays.insert(card.slug.clone());
            }
        }
        index
            .skills
            .retain(|card| !held(&card.slug) && (!exemplar::is_procedure(&card.slug) || stays.contains(&card.slug)));
        Ok(())
    }

    fn as_recorded(&self, desk: &mut WorkingCopy, index: &mut PromptSkills, shown: &[ShownSkill]) -> Result<Learned> {
        let mut learned = Learned { shown: shown.to_vec(), ..Learned::default() };
        for shown in shown.iter().filter(|shown| shown.arm == Arm::Shown) {
            match &shown.example {
                Some(task) => {
                    let examples = examples_of(self.cache, desk, &shown.skill)?;
                    let all = || examples.iter().flat_map(|all| all.iter()).map(|known| &known.example);
                    learned.example = all().find(|known| known.task == *task).cloned();
                    if let Some(example) = &learned.example {
                        learned.repeated = exemplar::repeated(example, all());
                    }
                }
                None => {
                    let slug = shown.skill.clone();
                    if let Some(body) = body_of(desk, &slug)? {
                        preload(desk, slug, body, &mut learned)?;
                    }
                }
            }
        }
        self.hide(desk, index, &learned)?;
        Ok(learned)
    }
}

/// A skill that may be shown whole.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    found: ScoredSkill,
    /// Whether the agent made it, and nobody pinned it.
    is_learned: bool,
}

/// A learned skill does not stand before one that a person or a seed wrote and that matches as well: mostly that is the
/// skill which the agent had before it when it learned.
fn experts_first(candidates: &mut [Candidate]) {
    for at in 1..candidates.len() {
        let mut to = at;
        while let Some([before, this]) = to.checked_sub(1).and_then(|before| candidates.get(before..=to))
            && before.is_learned
            && !this.is_learned
            && before.found.score - this.found.score < TIE
        {
            candidates.swap(to - 1, to);
            to -= 1;
        }
    }
}

/// Puts a skill into the prompt; it counts as loaded from then on.
fn preload(desk: &mut WorkingCopy, slug: Slug, body: String, learned: &mut Learned) -> Result<()> {
    if let Some(place) = desk.skill_place(&slug)?
        && let Some(content) = desk.read(&place.main)?
    {
        desk.preloaded(slug.clone(), crate::ids::Digest::of(&content));
    }
    learned.preloaded.push(PreloadedSkill { slug, body });
    Ok(())
}

fn state_of(desk: &mut WorkingCopy, skill: &Slug) -> Result<Option<TrialState>> {
    Ok(desk.brain()?.trial(skill)?.map(|trial| trial.state))
}

/// The examples of a procedure's skill, by what is settled.
fn examples_of(cache: &ExampleCache, desk: &mut WorkingCopy, slug: &Slug) -> Result<Option<Arc<Vec<IndexedExample>>>> {
    let Some(path) = desk.skill_place(slug)?.as_ref().and_then(exemplar::keep::file_of) else { return Ok(None) };
    let Some(digest) = desk.brain()?.content_digest(&path)? else { return Ok(None) };
    cache
        .get(digest, || {
            let bytes = desk.read(&path)?.unwrap_or_default();
            Ok::<_, crate::error::Error>(String::from_utf8_lossy(&bytes).into_owned())
        })
        .map(Some)
}

/// The body of a skill of this brain; none of what stands outside, or has nothing to say.
pub(super) fn body_of(desk: &mut WorkingCopy, slug: &Slug) -> Result<Option<String>> {
    let Some(place) = desk.skill_place(slug)? else { return Ok(None) };
    let Some(bytes) = desk.read(&place.main)? else { return Ok(None) };
    let body = Document::read(&bytes).ok().map(|document| document.body().trim().to_owned());
    Ok(body.filter(|body| !body.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_order(candidates: &[(&str, f64, bool)]) -> Vec<String> {
        let found = |slug: &str, score| ScoredSkill { slug: slug.parse().unwrap(), score };
        let mut candidates: Vec<Candidate> = candidates
            .iter()
            .map(|(slug, score, is_learned)| Candidate { found: found(slug, *score), is_learned: *is_learned })
            .collect();
        experts_first(&mut candidates);
        candidates.into_iter().map(|candidate| candidate.found.slug.to_string()).collect()
    }

    #[test]
    fn a_learned_skill_stands_behind_an_expert_one_that_matches_as_well() {
        assert_eq!(in_order(&[("learned", 0.52, true), ("expert", 0.5, false)]), ["expert", "learned"]);
        assert_eq!(in_order(&[("expert", 0.5, false), ("learned", 0.5, true)]), ["expert", "learned"]);
        assert_eq!(
            in_order(&[("one", 0.5, true), ("two", 0.5, true), ("expert", 0.45, false)]),
            ["expert", "one", "two"]
        );
    }

    #[test]
    fn a_learned_skill_that_matches_better_stands_first() {
        assert_eq!(in_order(&[("learned", 0.9, true), ("expert", 0.2, false)]), ["learned", "expert"]);
        assert_eq!(in_order(&[]), Vec::<String>::new());
    }
}
