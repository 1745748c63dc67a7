//! Which example is of the kind that a question is of. Pure.
//!
//! Questions of one kind are asked in the same words around another matter: "Where is the lamp?", "Where is the rope?".
//! So stop words count here, and pairs of neighbouring words do.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Example;
use crate::checks::words;

/// The words of a question that are compared, from its beginning: those of 16 KiB.
const MOST_WORDS: usize = 3_000;
/// An example that shares less than this part with the question is of another kind.
const FLOOR: f64 = 0.15;

/// An example that is ready to be compared.
#[derive(Debug, Clone)]
pub struct IndexedExample {
    /// The example as its file has it.
    pub example: Example,
    features: Vec<u64>,
    /// Whether parts of the question were left out.
    is_cut: bool,
}

impl From<Example> for IndexedExample {
    fn from(example: Example) -> Self {
        let features = features(&example.question);
        let is_cut = example.question.contains('…');
        Self { example, features, is_cut }
    }
}

/// An example, and how near it is.
#[derive(Debug, Clone, Copy)]
pub struct Match<'e> {
    /// The example that was found.
    pub example: &'e Example,
    /// What part of their words and pairs of words the two questions share, 0 to 1.
    pub score: f64,
}

/// The example that is nearest to a question, where one is of its kind. Among equals it is the one with fewer calls,
/// and among those the later one.
pub fn nearest<'e>(question: &str, examples: impl IntoIterator<Item = &'e IndexedExample>) -> Option<Match<'e>> {
    let asked = features(question);
    let mut known: Vec<(&IndexedExample, Vec<u64>)> = Vec::new();
    let mut frequency: HashMap<u64, usize> = HashMap::new();
    let mut total = 0_usize;
    for indexed in examples {
        total += 1;
        let shared: Vec<u64> =
            asked.iter().filter(|feature| indexed.features.binary_search(feature).is_ok()).copied().collect();
        for feature in &shared {
            *frequency.entry(*feature).or_default() += 1;
        }
        if !shared.is_empty() {
            known.push((indexed, shared));
        }
    }
    // What few examples say tells more about which of them is meant.
    let weight = |feature: &u64| {
        let count = frequency.get(feature).copied().unwrap_or(1);
        (1.0 + total as f64 / count as f64).ln()
    };
    let mut best: Option<(Match<'e>, f64)> = None;
    for (indexed, shared) in known {
        let score = share(shared.len(), asked.len(), indexed.features.len(), indexed.is_cut);
        if score < FLOOR {
            continue;
        }
        let rank = shared.iter().map(weight).sum::<f64>();
        let example = &indexed.example;
        let wins = best.as_ref().is_none_or(|(known, known_rank)| {
            let order = rank.total_cmp(known_rank).then(score.total_cmp(&known.score));
            order.then(known.example.calls.len().cmp(&example.calls.len())).is_ge()
        });
        if wins {
            best = Some((Match { example, score }, rank));
        }
    }
    best.map(|(found, _)| found)
}

/// What part two questions share. Of one that was cut when its example was kept, only as much as it has counts.
fn share(shared: usize, asked: usize, known: usize, is_cut: bool) -> f64 {
    let asked = if is_cut { asked.min(known).max(shared) } else { asked };
    shared as f64 / (asked + known - shared).max(1) as f64
}

/// What part of the features of two questions both have, 0 to 1.
pub(super) fn likeness(one: &[u64], other: &[u64]) -> f64 {
    let shared = one.iter().filter(|feature| other.binary_search(feature).is_ok()).count();
    share(shared, one.len(), other.len(), false)
}

/// The words of a question and the pairs of neighbours, as sorted hashes; what counts something is one and the same.
pub(super) fn features(question: &str) -> Vec<u64> {
    let hash = |parts: [&str; 2]| {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        hasher.finish()
    };
    let masked: Vec<String> = words(question)
        .into_iter()
        .take(MOST_WORDS)
        .map(|word| if word.chars().any(|c| c.is_ascii_digit()) { "#".to_owned() } else { word })
        .collect();
    let mut features: Vec<u64> = masked.iter().map(|word| hash([word, ""])).collect();
    features.extend(masked.windows(2).filter_map(|pair| Some(hash([pair.first()?, pair.get(1)?]))));
    features.extend(masked.first().map(|first| hash(["^", first])));
    features.extend(masked.last().map(|last| hash([last, "$"])));
    features.sort_unstable();
    features.dedup();
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::exemplar::tests::example;

    fn found(question: &str, examples: &[&str]) -> Option<String> {
        let examples: Vec<IndexedExample> = examples.iter().map(|question| example(question).into()).collect();
        nearest(question, &examples).map(|found| found.example.question.clone())
    }

    #[test]
    fn a_question_of_the_same_kind_is_near_whatever_it_is_about() {
        let examples = ["Where is the rope?", "Who signs the permit of order 33?", "Who carries order 8 home?"];
        assert_eq!(found("Where is the violin?", &examples).as_deref(), Some("Where is the rope?"));
        assert_eq!(found("Who carries order 712 home?", &examples).as_deref(), Some("Who carries order 8 home?"));
        assert_eq!(
            found("Who signs the permit of order 9?", &examples).as_deref(),
            Some("Who signs the permit of order 33?")
        );
    }

    #[test]
    fn a_question_of_another_kind_is_near_to_nothing() {
        assert_eq!(found("Summarise this text in three lines", &["Where is the rope?"]), None);
        assert_eq!(found("", &["Where is the rope?"]), None);
        assert_eq!(found("Where is the rope?", &[]), None);
    }
}
