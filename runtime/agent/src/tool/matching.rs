//! Which skills of a brain match a task well enough to be put before it whole, by words and by meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::embeddings::Embeddings;
use super::working_copy::WorkingCopy;
use crate::error::Result;
use crate::ids::Slug;
use crate::memory::vectors::NearSkills;
use crate::memory::{QueryVector, fuse};
use crate::skill::{SCORE_FLOOR, ScoredSkill};

/// Skills without a vector that one task notes, at most.
const LACKING: usize = 256;
/// A skill that is no nearer than this means something else. Unrelated texts are at 0 to 0.2 with most models.
const NEAR_FLOOR: f32 = 0.35;
/// With some models all texts are near each other: one that is meant stands out from the middle one by this much.
const NEAR_LEAD: f32 = 0.1;

/// What a task means, and who says so.
#[derive(Debug, Clone)]
pub(crate) struct SoughtMeaning {
    pub(crate) vector: QueryVector,
    pub(crate) meaning: Arc<Embeddings>,
}

impl WorkingCopy {
    /// The `most` skills of the brain that match `text` above the floor, best first: by their words and, where the task
    /// comes with one, by their meaning. The score is the better one of the two.
    pub(crate) fn matching_skills(
        &mut self,
        text: &str,
        most: usize,
        sought: Option<&SoughtMeaning>,
    ) -> Result<Vec<ScoredSkill>> {
        let mut by_words = self.brain()?.scored_skills(text, most)?;
        by_words.retain(|found| found.score >= SCORE_FLOOR);
        let Some(sought) = sought else { return Ok(by_words) };
        let cards = self.skills()?;
        let pairs = cards.iter().map(|card| (card.slug.as_str(), &*card.description));
        let brain = self.brain()?;
        let NearSkills { order, lacking } = brain.nearest_skills(&sought.vector, pairs, LACKING)?;
        sought.meaning.want(&brain.id().clone(), lacking);
        let near = stands_out(&order).iter().take(most).filter_map(|(at, nearness)| Some((cards.get(*at)?, *nearness)));
        let by_meaning: Vec<ScoredSkill> = near
            .filter(|(card, _)| !card.external)
            .map(|(card, nearness)| ScoredSkill { slug: card.slug.clone(), score: thousandths(nearness) })
            .collect();
        Ok(fused(by_words, by_meaning, most))
    }
}

/// The beginning of an order, nearest first, that means what is sought.
fn stands_out(near: &[(usize, f32)]) -> &[(usize, f32)] {
    // The middle one of few may be meant itself.
    let middle = near.get(near.len() / 2).filter(|_| near.len() > 2).map_or(0.0, |(_, nearness)| *nearness);
    let floor = NEAR_FLOOR.max(middle + NEAR_LEAD);
    let end = near.iter().position(|(_, nearness)| *nearness < floor).unwrap_or(near.len());
    near.get(..end).unwrap_or_default()
}

/// One order made of two; a skill that is in both has the better score.
fn fused(by_words: Vec<ScoredSkill>, by_meaning: Vec<ScoredSkill>, most: usize) -> Vec<ScoredSkill> {
    let vote = |found: &[ScoredSkill]| found.iter().map(|found| (found.slug.clone(), 1.0)).collect::<Vec<_>>();
    let order = fuse(&[vote(&by_words), vote(&by_meaning)]);
    let mut scores: BTreeMap<Slug, f64> = BTreeMap::new();
    for ScoredSkill { slug, score } in by_words.into_iter().chain(by_meaning) {
        let best = scores.entry(slug).or_default();
        *best = best.max(score);
    }
    let scored = order.into_iter().filter_map(|(slug, _)| Some(ScoredSkill { score: *scores.get(&slug)?, slug }));
    scored.take(most).collect()
}

fn thousandths(nearness: f32) -> f64 {
    (f64::from(nearness.clamp(0.0, 1.0)) * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(found: &[(&str, f64)]) -> Vec<ScoredSkill> {
        found.iter().map(|(slug, score)| ScoredSkill { slug: slug.parse().unwrap(), score: *score }).collect()
    }

    #[test]
    fn what_words_and_meaning_both_find_comes_first_with_the_better_score() {
        let both = fused(scored(&[("bread", 0.4), ("soup", 0.2)]), scored(&[("soup", 0.6), ("tea", 0.5)]), 3);
        assert_eq!(both, scored(&[("soup", 0.6), ("bread", 0.4), ("tea", 0.5)]));
        assert_eq!(fused(scored(&[("bread", 0.4)]), Vec::new(), 3), scored(&[("bread", 0.4)]));
    }

    #[test]
    fn only_what_is_near_and_nearer_than_the_rest_is_meant() {
        let near = [(3, 0.62), (0, 0.31), (1, 0.1), (2, 0.0)];
        assert_eq!(stands_out(&near), &near[..1]);
        let all_alike = [(3, 0.86), (0, 0.82), (1, 0.81), (2, 0.8)];
        assert_eq!(stands_out(&all_alike), &all_alike[..0]);
        let one = [(0, 0.5)];
        assert_eq!(stands_out(&one), &one);
        assert!(stands_out(&[]).is_empty());
    }
}
