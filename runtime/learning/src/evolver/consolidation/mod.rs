//! Skills that the agent wrote and that say nearly the same become one: the text of the one that is used more, with the
//! lines of the others that it lacks. The others go to the archive.
//!
//! [`overlapping`] and [`merged`] are pure. [`pass`] reads a brain, and proposes what they find as changes like any other
//! of the evolver's: one step with a receipt, rolled back as a whole, and on trial anew.

mod merge;
pub mod pass;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Timestamp;
use crate::ids::Slug;
use crate::skill::Document;
use crate::text::words::each_term;

pub use merge::merged;

/// Skills whose texts have this part of all their words in common say nearly the same. Of generated skills, two about
/// different matters share a seventh of all their words, and two about the same matter that have six lines of ten in common
/// share more than half.
pub const OVERLAP: f64 = 0.5;
/// A text of fewer words says too little to be compared.
const LEAST_WORDS: usize = 12;
/// The most skills that one takes in at once.
const MOST_MERGED: usize = 4;

/// A skill that may be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeCandidate {
    /// The skill's name; the keeper of a group keeps it.
    pub skill: Slug,
    /// The text of its main file, front matter included.
    pub text: String,
    /// Whether it was found to help.
    pub proven: bool,
    /// How often it was used or looked at.
    pub uses: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whether there are files beside it. Then others can be merged into it, but not it into others.
    pub has_files: bool,
}

/// Skills whose words overlap so much that one of them can take in the others.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillGroup {
    /// The one that stays.
    pub keeper: Slug,
    /// The ones that it takes in, each with the part of all words that the two share.
    pub others: Vec<(Slug, f64)>,
}

/// The groups of skills that say nearly the same; each skill is in one at most. What was found to help stays, then what is
/// used more, then what is older.
pub fn overlapping(skills: &[MergeCandidate]) -> Vec<SkillGroup> {
    let mut ids = BTreeMap::new();
    let mut ranked: Vec<(&MergeCandidate, Vec<u32>)> =
        skills.iter().map(|skill| (skill, words_of(&skill.text, &mut ids))).collect();
    ranked.retain(|(_, words)| words.len() >= LEAST_WORDS);
    ranked.sort_by(|(a, _), (b, _)| {
        (b.proven, b.uses)
            .cmp(&(a.proven, a.uses))
            .then_with(|| (a.created_at, &a.skill).cmp(&(b.created_at, &b.skill)))
    });
    let mut taken: BTreeSet<&Slug> = BTreeSet::new();
    let mut groups = Vec::new();
    for (at, (keeper, words)) in ranked.iter().enumerate() {
        if taken.contains(&keeper.skill) {
            continue;
        }
        let mut others = Vec::new();
        for (other, theirs) in ranked.iter().skip(at + 1) {
            let overlap = overlap(words, theirs);
            let fits = overlap >= OVERLAP && !other.has_files && others.len() < MOST_MERGED;
            if fits && !taken.contains(&other.skill) {
                others.push((other.skill.clone(), overlap));
                taken.insert(&other.skill);
            }
        }
        if !others.is_empty() {
            taken.insert(&keeper.skill);
            groups.push(SkillGroup { keeper: keeper.skill.clone(), others });
        }
    }
    groups
}

/// What a skill is about: its description and its text without the evolver's notes, as numbers of its words, sorted.
fn words_of(text: &str, ids: &mut BTreeMap<String, u32>) -> Vec<u32> {
    let text = merge::without_notes(text);
    let said = match Document::read(text.as_bytes()) {
        Ok(document) => format!("{}\n{}", document.description().unwrap_or_default(), document.body()),
        Err(_) => text,
    };
    let mut words = Vec::new();
    each_term(&said, |term| {
        let next = ids.len() as u32;
        words.push(*ids.entry(term.to_owned()).or_insert(next));
        true
    });
    words.sort_unstable();
    words.dedup();
    words
}

/// The part of all words of both that both have.
fn overlap(a: &[u32], b: &[u32]) -> f64 {
    let (fewer, more) = (a.len().min(b.len()), a.len().max(b.len()));
    // They cannot share more than the shorter one has.
    if (fewer as f64) < OVERLAP * more as f64 {
        return 0.0;
    }
    let shared = a.iter().filter(|word| b.binary_search(word).is_ok()).count();
    shared as f64 / (a.len() + b.len() - shared).max(1) as f64
}
