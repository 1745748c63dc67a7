//! Rankers that know what texts mean. They stand behind [`Ranker`], and so can only put what is eligible into another
//! order; a model that fails leaves the order that was there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::select::Ranker;
use crate::error::Result;
use crate::semantic::{Embedder, EmbeddingInput, Reranker, SemanticOptions, nearness};

/// How many results are kept, because a pass asks for the same skills again after each change.
const KEPT: usize = 4_096;

/// Ranks by how near the meaning of a text is to that of the query.
#[derive(Debug)]
pub struct EmbeddingRanker {
    embedder: Arc<dyn Embedder>,
    running: SemanticOptions,
    known: Mutex<HashMap<String, Vec<f32>>>,
}

impl EmbeddingRanker {
    /// By the vectors of this model.
    pub fn new(embedder: Arc<dyn Embedder>, running: SemanticOptions) -> Self {
        Self { embedder, running, known: Mutex::default() }
    }

    fn passage(&self, text: &str) -> Result<Vec<f32>> {
        kept(&self.known, text.to_owned(), || self.embedder.embed(text, EmbeddingInput::Passage))
    }
}

impl Ranker for EmbeddingRanker {
    fn name(&self) -> &str {
        self.embedder.name()
    }

    fn is_model(&self) -> bool {
        true
    }

    fn text_limit(&self) -> usize {
        self.running.text_limit()
    }

    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let query = self.embedder.embed(query, EmbeddingInput::Query)?;
        texts.iter().map(|text| Ok(f64::from(nearness(&query, &self.passage(text)?)))).collect()
    }
}

/// Ranks by reading each text together with the query.
#[derive(Debug)]
pub struct CrossEncoderRanker {
    reranker: Arc<dyn Reranker>,
    running: SemanticOptions,
    known: Mutex<HashMap<(String, String), f32>>,
}

impl CrossEncoderRanker {
    /// By the judgement of this model.
    pub fn new(reranker: Arc<dyn Reranker>, running: SemanticOptions) -> Self {
        Self { reranker, running, known: Mutex::default() }
    }
}

impl Ranker for CrossEncoderRanker {
    fn name(&self) -> &str {
        self.reranker.name()
    }

    fn is_model(&self) -> bool {
        true
    }

    fn text_limit(&self) -> usize {
        self.running.text_limit()
    }

    fn rank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>> {
        let score = |text: &&str| {
            let pair = (query.to_owned(), (*text).to_owned());
            Ok(f64::from(kept(&self.known, pair, || self.reranker.score(query, text))?))
        };
        texts.iter().map(score).collect()
    }
}

/// What is known already, or is found out and remembered.
fn kept<K: std::hash::Hash + Eq, V: Clone>(
    known: &Mutex<HashMap<K, V>>,
    key: K,
    find: impl FnOnce() -> Result<V>,
) -> Result<V> {
    let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = lock().get(&key) {
        return Ok(value.clone());
    }
    let value = find()?;
    let mut known = lock();
    if known.len() < KEPT {
        known.insert(key, value.clone());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::Error;

    /// Points along the number of letters `a` and of all others; counts how often it is asked.
    #[derive(Debug, Default)]
    struct Letters(AtomicUsize);

    impl Embedder for Letters {
        fn name(&self) -> &str {
            "letters"
        }
        fn embed(&self, text: &str, _: EmbeddingInput) -> Result<Vec<f32>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let count = text.chars().filter(|c| *c == 'a').count() as f32;
            let (x, y) = (count, text.chars().count() as f32 - count);
            Ok(vec![x / x.hypot(y), y / x.hypot(y)])
        }
    }

    #[test]
    fn nearer_texts_have_higher_scores_and_are_looked_at_once() {
        let letters = Arc::new(Letters::default());
        let ranker = EmbeddingRanker::new(letters.clone(), SemanticOptions::default());
        let scores = ranker.rank("aaab", &["aaab", "bbba", "aab"]).unwrap();
        assert!(scores[0] > scores[2] && scores[2] > scores[1], "{scores:?}");
        assert_eq!(ranker.rank("aaab", &["aaab", "bbba", "aab"]).unwrap(), scores);
        assert_eq!(letters.0.load(Ordering::Relaxed), 2 + 3, "two queries, three texts");
        assert_eq!((ranker.name(), ranker.text_limit()), ("letters", 512));
    }

    #[derive(Debug)]
    struct Equal(AtomicUsize);

    impl Reranker for Equal {
        fn name(&self) -> &str {
            "equal"
        }
        fn score(&self, query: &str, passage: &str) -> Result<f32> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if passage == "broken" {
                return Err(Error::unavailable("no score"));
            }
            Ok(f32::from(u8::from(query == passage)))
        }
    }

    #[test]
    fn a_pair_is_read_once_and_a_failure_is_passed_on() {
        let ranker = CrossEncoderRanker::new(Arc::new(Equal(AtomicUsize::new(0))), SemanticOptions::default());
        for _ in 0..2 {
            assert_eq!(ranker.rank("x", &["x", "y", "x"]).unwrap(), [1.0, 0.0, 1.0]);
        }
        assert_eq!(ranker.rank("y", &["y"]).unwrap(), [1.0]);
        assert_eq!(ranker.rank("x", &["x", "broken"]).unwrap_err().message(), "no score");
    }
}
