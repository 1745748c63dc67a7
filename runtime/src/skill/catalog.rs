//! Which skills fit a text best: BM25 over slug, description and triggers.

use std::collections::HashMap;

use super::index::{Entry, Index};
use crate::ids::Slug;

const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Words of a text that are looked at: an input may be a megabyte.
const MAX_TERMS: usize = 400;

/// An inverted index over the skills of a brain.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    slugs: Vec<Slug>,
    lengths: Vec<f32>,
    average: f32,
    postings: HashMap<Box<str>, Vec<(u32, f32)>>,
}

impl Catalog {
    /// Indexes every skill that suits this platform.
    pub fn build(index: &Index) -> Self {
        Self::of(index.entries())
    }

    /// The same for skills from anywhere.
    pub fn of<'e>(entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut catalog = Self::default();
        let mut total = 0.0;
        for entry in entries.filter(|entry| entry.suits_this_platform()) {
            let number = u32::try_from(catalog.slugs.len()).unwrap_or(u32::MAX);
            let mut length = 0.0;
            // The name says most, and what the author said calls for it.
            let triggers = entry.triggers.iter().map(|trigger| (trigger.as_str(), 2.0));
            for (text, weight) in
                [(entry.place.slug.as_str(), 2.0), (&*entry.description, 1.0)].into_iter().chain(triggers)
            {
                for term in terms(text) {
                    length += weight;
                    let postings = catalog.postings.entry(term.into_boxed_str()).or_default();
                    match postings.last_mut() {
                        Some((last, count)) if *last == number => *count += weight,
                        _ => postings.push((number, weight)),
                    }
                }
            }
            catalog.slugs.push(entry.place.slug.clone());
            catalog.lengths.push(length);
            total += length;
        }
        catalog.average = if catalog.slugs.is_empty() { 1.0 } else { total / catalog.slugs.len() as f32 };
        catalog
    }

    /// The `most` skills that fit `text` best, best first; fewer if fewer fit at all. Equal ones are
    /// in slug order.
    pub fn best(&self, text: &str, most: usize) -> Vec<&Slug> {
        let mut wanted: Vec<String> = terms(text).take(MAX_TERMS * 4).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.truncate(MAX_TERMS);
        let count = self.slugs.len() as f32;
        let mut scores = vec![0.0_f32; self.slugs.len()];
        for term in &wanted {
            let Some(postings) = self.postings.get(term.as_str()) else { continue };
            let found = postings.len() as f32;
            let rarity = ((count - found + 0.5) / (found + 0.5) + 1.0).ln();
            for (number, times) in postings {
                let at = *number as usize;
                if let (Some(score), Some(length)) = (scores.get_mut(at), self.lengths.get(at)) {
                    let norm = K1 * (1.0 - B + B * length / self.average);
                    *score += rarity * times * (K1 + 1.0) / (times + norm);
                }
            }
        }
        let mut ranked: Vec<(f32, &Slug)> =
            scores.into_iter().zip(&self.slugs).filter(|(score, _)| *score > 0.0).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        ranked.into_iter().take(most).map(|(_, slug)| slug).collect()
    }
}

/// The words of a text in lower case, without plural endings.
fn terms(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).map(|word| {
        let mut word = word.to_lowercase();
        if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
            word.pop();
        }
        word
    })
}
