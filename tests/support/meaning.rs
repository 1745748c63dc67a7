//! Models of meaning for tests: one that sees likeness of letters, and hostile ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use herm::memory::Vector;
use herm::memory::vectors::EmbeddedText;
use herm::semantic::{Embedder, EmbeddingInput};
use herm::{Brain, Error, Reader, Result};

const DIMENSIONS: usize = 256;

/// Texts with the same letters in a row mean the same: misspellings are near, synonyms are not.
#[derive(Debug)]
pub struct Letters {
    name: String,
    asked: AtomicUsize,
}

impl Letters {
    /// A model of this name.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), asked: AtomicUsize::new(0) }
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Default for Letters {
    fn default() -> Self {
        Self::named("letters@1")
    }
}

impl Embedder for Letters {
    fn name(&self) -> &str {
        &self.name
    }

    fn embed(&self, text: &str, _: EmbeddingInput) -> Result<Vec<f32>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut vector = vec![0.0; DIMENSIONS];
        for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2) {
            let letters: Vec<char> = format!("^{word}$").chars().collect();
            for gram in letters.windows(3) {
                let number = gram.iter().fold(17_usize, |sum, c| sum.wrapping_mul(31).wrapping_add(*c as usize));
                vector[number % DIMENSIONS] += 1.0;
            }
        }
        Ok(vector)
    }
}

/// What a hostile model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// It says that it cannot.
    Fails,
    /// It panics.
    Panics,
    /// Not a number.
    Nan,
    /// Larger than any number.
    Infinite,
    /// No dimension at all.
    Empty,
    /// All zero.
    Nowhere,
    /// Far too many dimensions.
    Huge,
    /// Other dimensions each time.
    Shifting,
    /// The largest numbers there are.
    Loud,
}

impl Harm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Fails,
        Self::Panics,
        Self::Nan,
        Self::Infinite,
        Self::Empty,
        Self::Nowhere,
        Self::Huge,
        Self::Shifting,
        Self::Loud,
    ];
}

/// A model that wants to do harm.
#[derive(Debug)]
pub struct Hostile {
    harm: Harm,
    asked: AtomicUsize,
}

impl Hostile {
    /// A model that does this.
    pub fn new(harm: Harm) -> Self {
        Self { harm, asked: AtomicUsize::new(0) }
    }
}

impl Embedder for Hostile {
    fn name(&self) -> &str {
        "hostile'; DROP TABLE messages; --"
    }

    fn embed(&self, text: &str, part: EmbeddingInput) -> Result<Vec<f32>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        match self.harm {
            Harm::Fails => Err(Error::unavailable("no weights")),
            Harm::Panics => panic!("the model panics"),
            Harm::Nan => {
                Letters::default().embed(text, part).map(|vector| vector.into_iter().map(|_| f32::NAN).collect())
            }
            Harm::Infinite => Ok(vec![f32::INFINITY; 8]),
            Harm::Empty => Ok(Vec::new()),
            Harm::Nowhere => Ok(vec![0.0; DIMENSIONS]),
            Harm::Huge => Ok(vec![1.0; 2_000_000]),
            Harm::Shifting => Ok(vec![1.0; 1 + asked % 7]),
            Harm::Loud => Ok(vec![f32::MAX; DIMENSIONS]),
        }
    }
}

/// Makes every vector that an open brain lacks, a pass at a time; how many.
pub fn embed_all(brain: &mut Brain, reader: &Reader, embedder: &dyn Embedder) -> Result<u64> {
    let mut all = 0;
    loop {
        let due = reader.vectors_due(embedder.name(), 500)?;
        if due.is_empty() {
            return Ok(all);
        }
        let made: Vec<EmbeddedText> = due
            .texts
            .iter()
            .map(|of| EmbeddedText {
                of: of.clone(),
                vector: Vector::of(embedder, of.text(), EmbeddingInput::Passage).ok(),
            })
            .collect();
        all += brain.keep_vectors(embedder.name(), &made, &due)?;
    }
}
