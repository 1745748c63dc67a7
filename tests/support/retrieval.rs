//! The labelled set of `tests/data/retrieval`, and how well searches do on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use herm::memory::{MessageEntry, MessageRole, QueryVector, Search, SearchScope, Vector};
use herm::semantic::{Embedder, EmbeddingInput};
use herm::{Brain, Draft, Reader, StepKind, SubscriberId, Timestamp};
use serde::Deserialize;

use crate::TempBrains;
use crate::meaning::embed_all;

const DAY: i64 = 86_400_000;

/// Something that was said.
#[derive(Debug, Clone, Deserialize)]
pub struct Said {
    id: i64,
    session: String,
    subscriber: Option<String>,
    role: String,
    at: i64,
    text: String,
}

/// A question, and what answers it.
#[derive(Debug, Clone, Deserialize)]
pub struct Question {
    /// What kind of question.
    pub class: String,
    /// Whether the rule was chosen on it or not.
    pub half: String,
    /// The question.
    pub text: String,
    /// The messages that answer it.
    pub answers: Vec<i64>,
}

/// The labelled set.
#[derive(Debug, Clone)]
pub struct Labelled {
    messages: Vec<Said>,
    /// The questions.
    pub questions: Vec<Question>,
}

fn lines<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/retrieval").join(name);
    let text = std::fs::read_to_string(path).expect("the labelled set");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

impl Labelled {
    /// Reads it.
    pub fn read() -> Self {
        Self { messages: lines("messages.ndjson"), questions: lines("questions.ndjson") }
    }

    /// A part of it, for a run that has no time: every fifth question, the sessions that answer them, and some others.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        let mut at = 0;
        self.questions.retain(|_| {
            at += 1;
            at % 5 == 0
        });
        let answers: BTreeSet<i64> = self.questions.iter().flat_map(|question| question.answers.clone()).collect();
        let of_answers = self.messages.iter().filter(|said| answers.contains(&said.id));
        let mut sessions: BTreeSet<String> = of_answers.map(|said| said.session.clone()).collect();
        let all: BTreeSet<String> = self.messages.iter().map(|said| said.session.clone()).collect();
        sessions.extend(all.into_iter().step_by(10));
        self.messages.retain(|said| {
            answers.contains(&said.id) || (sessions.contains(&said.session) && said.id.rem_euclid(3) == 0)
        });
        // Rows are numbered as they arrive.
        let numbers: BTreeMap<i64, i64> = self.messages.iter().map(|said| said.id).zip(1..).collect();
        self.messages.iter_mut().for_each(|said| said.id = numbers[&said.id]);
        for question in &mut self.questions {
            question.answers.iter_mut().for_each(|answer| *answer = numbers[answer]);
        }
        self
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// A brain that has lived through it, with vectors of a model.
    pub fn lived(&self, brains: &TempBrains, embedder: &dyn Embedder) -> Brain {
        let mut brain = brains.make("1");
        for part in self.messages.chunks(500) {
            let mut draft = Draft::new();
            for said in part {
                let subscriber =
                    said.subscriber.as_ref().map(|name| name.parse::<SubscriberId>().expect("a subscriber").digest());
                let role = if said.role == "user" { MessageRole::User } else { MessageRole::Assistant };
                let (task, content) = (said.session.clone(), said.text.clone());
                draft.message(MessageEntry { task, subscriber, role, content, at: Timestamp(said.at) });
            }
            brain.settle(&draft, StepKind::Task, "lived").expect("settled");
        }
        let reader = Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader");
        let made = embed_all(&mut brain, &reader, embedder).expect("vectors");
        assert_eq!(made as usize, self.messages.len());
        assert_eq!(self.messages.last().map(|said| said.id), Some(self.messages.len() as i64), "ids are in order");
        brain
    }

    /// How well words, vectors and both find the answers, as the operator, who sees every message.
    pub fn measure(&self, brain: &mut Brain, embedder: &dyn Embedder) -> Quality {
        let now = Timestamp(self.messages.iter().map(|said| said.at).max().unwrap_or(0) + DAY);
        let mut quality = Quality::default();
        for question in &self.questions {
            let vector = Vector::of(embedder, &question.text, EmbeddingInput::Query).expect("a vector");
            let sought = QueryVector::new(embedder.name(), &vector);
            let wanted = |text| Search {
                text,
                scope: SearchScope::Operator,
                except_task: None,
                limit: 10,
                now,
                weights: Default::default(),
            };
            let words = brain.search(&wanted(&question.text)).expect("an answer");
            let vectors = brain.search_hybrid(&wanted(""), Some(&sought)).expect("an answer").found;
            let both = brain.search_hybrid(&wanted(&question.text), Some(&sought)).expect("an answer");
            assert!(both.used_vectors);
            let mut scores = Vec::new();
            for found in [words, vectors, both.found] {
                let ids: Vec<i64> = found.hits.iter().map(|hit| hit.id).collect();
                for most in [5, 10] {
                    let right = ids.iter().take(most).filter(|id| question.answers.contains(id)).count();
                    scores.push(right as f64 / question.answers.len() as f64);
                }
            }
            for half in [question.half.as_str(), "all"] {
                let row = quality.rows.entry((question.class.clone(), half.to_owned())).or_default();
                row.questions += 1;
                row.sums.iter_mut().zip(&scores).for_each(|(sum, score)| *sum += score);
            }
        }
        quality
    }
}

/// How well the questions of one class and half are answered.
#[derive(Debug, Clone, Default)]
pub struct Row {
    questions: u32,
    /// Words, vectors and both, each at 5 and at 10.
    sums: [f64; 6],
}

impl Row {
    /// The share of the answers that were found: by words, by vectors and by both, each at 5 and at 10.
    pub fn recall(&self) -> [f64; 6] {
        self.sums.map(|sum| sum / f64::from(self.questions))
    }
}

/// How well searches do, by class and half. Prints as the table of `docs/reference/benchmarks.md`.
#[derive(Debug, Clone, Default)]
pub struct Quality {
    /// By class, then half.
    pub rows: BTreeMap<(String, String), Row>,
}

impl Quality {
    /// The classes and halves in which words and vectors together find less than words alone.
    pub fn losses(&self) -> Vec<String> {
        let mut losses = Vec::new();
        for ((class, half), row) in &self.rows {
            let [words_5, words_10, _, _, both_5, both_10] = row.recall();
            // Sums of the same fractions in another order.
            let less = |both: f64, words: f64| both + 1e-9 < words;
            if less(both_5, words_5) || less(both_10, words_10) {
                losses.push(format!("{class}, {half}: {:?}", row.recall()));
            }
        }
        losses
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| class | half | questions | words @5 | @10 | vectors @5 | @10 | both @5 | @10 |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for ((class, half), row) in &self.rows {
            let cells: Vec<String> = row.recall().iter().map(|share| format!("{share:.3}")).collect();
            writeln!(f, "| {class} | {half} | {} | {} |", row.questions, cells.join(" | "))?;
        }
        Ok(())
    }
}
