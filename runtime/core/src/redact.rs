//! Secrets in texts: found by the shapes that keys and tokens have, and by where they stand.
//!
//! - [`find`] and [`redact`] are conservative: a digest, a path or a contract address is no secret. They
//!   also decide what may be written down at all.
//! - [`scrub`] is for what is kept as evidence, where a word too much is no loss: it takes away whatever is
//!   assigned to a name that says secret, and whatever a header of credentials holds.
//!
//! The shapes are a table, `redact/shapes.txt`. A text is searched once for all their marks and for the names that say
//! secret; only where one stands is anything looked at more closely. That takes linear time.

mod places;
mod shapes;
mod value;

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};

use shapes::{End, Hit, Shape};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMatch {
    /// What it looks like: `a private key`, `an API key`.
    pub what: &'static str,
    /// Who issues such a one, where its shape tells; else empty.
    pub whose: &'static str,
    /// Where it begins, in bytes.
    pub start: usize,
    /// Where it ends, in bytes.
    pub end: usize,
    /// It has the shape, but was made up: a sequence, a repetition, a published sample.
    pub sample: bool,
}

/// What a text is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    /// What looks like a secret.
    Text,
    /// Everything that stands where a secret does.
    Evidence,
}

/// What the automaton found.
enum Mark {
    Shape(&'static Shape),
    Name,
    Header,
    Bearer,
    Basic,
    Address,
    PrivateKey,
}

struct Marks {
    automaton: AhoCorasick,
    kinds: Vec<Mark>,
}

/// Everything that texts are searched for, built once. `None` only if it cannot be built, which a test rules out.
fn marks() -> Option<&'static Marks> {
    static MARKS: OnceLock<Option<Marks>> = OnceLock::new();
    let build = || {
        let mut all: Vec<(String, Mark)> =
            shapes::table().iter().map(|shape| (shape.mark.to_owned(), Mark::Shape(shape))).collect();
        let names = places::NAMES.iter().flat_map(|name| places::spellings(name));
        all.extend(names.map(|name| (name, Mark::Name)));
        all.extend(places::HEADERS.map(|header| (header.to_owned(), Mark::Header)));
        all.push(("bearer ".to_owned(), Mark::Bearer));
        all.push(("basic ".to_owned(), Mark::Basic));
        all.push(("://".to_owned(), Mark::Address));
        all.push(("-----begin ".to_owned(), Mark::PrivateKey));
        let (texts, kinds): (Vec<String>, Vec<Mark>) = all.into_iter().unzip();
        let mut builder = AhoCorasick::builder();
        let automaton = builder.ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(texts).ok()?;
        Some(Marks { automaton, kinds })
    };
    MARKS.get_or_init(build).as_ref()
}

/// Every secret in a text, in order, without overlaps.
pub fn find(text: &str) -> Vec<SecretMatch> {
    apart(search(text, Keeping::Text, End::Whole))
}

/// Where the secret begins that the end of a text cuts off. What is left of it no longer looks like one.
pub fn cut_off(text: &str) -> Option<usize> {
    search(text, Keeping::Text, End::Cut).iter().filter(|found| found.end == text.len()).map(|found| found.start).min()
}

fn search(text: &str, keeping: Keeping, end_of: End) -> Vec<SecretMatch> {
    let mut found = Vec::new();
    let Some(marks) = marks() else { return found };
    // Where the last find of a kind ended: marks inside of it are not looked at again.
    let (mut past_key, mut past_header, mut past_shape, mut past_value) = (0, 0, 0, 0);
    for hit in marks.automaton.find_overlapping_iter(text) {
        let (start, end) = (hit.start(), hit.end());
        let Some(kind) = marks.kinds.get(hit.pattern().as_usize()) else { continue };
        let one = match kind {
            Mark::Shape(shape) if start >= past_shape => {
                let hit = shape.around(text, start, end_of);
                // A longer mark at the same place comes later and is the same secret.
                past_shape = hit.as_ref().map_or(past_shape, |hit| hit.end);
                hit.and_then(|hit| shaped(shape, text, &hit, end_of))
            }
            Mark::Name if start >= past_value => {
                let value = places::named(text, start, end, keeping);
                past_value = value.as_ref().map_or(past_value, |value| value.end);
                value
            }
            Mark::Bearer => places::bearer(text, end),
            Mark::Basic => places::basic(text, end),
            Mark::Address => places::address(text, end),
            Mark::Header if keeping == Keeping::Evidence && start >= past_header => {
                let header = places::header(text, start, end);
                past_header = header.as_ref().map_or(past_header, |header| header.end);
                header
            }
            Mark::PrivateKey if start >= past_key => {
                let key = places::private_key(text, start);
                past_key = key.as_ref().map_or(past_key, |key| key.end);
                key
            }
            Mark::Shape(_) | Mark::Name | Mark::Header | Mark::PrivateKey => None,
        };
        found.extend(one);
    }
    found
}

/// What has a shape is a secret, unless it stands in for one.
fn shaped(shape: &Shape, text: &str, hit: &Hit, end_of: End) -> Option<SecretMatch> {
    let run = |(from, until): &(usize, usize)| text.get(*from..*until).unwrap_or_default();
    let runs = || hit.runs.iter().map(run);
    let is_cut = end_of == End::Cut && hit.end == text.len();
    if !is_cut && runs().any(value::is_stand_in) {
        return None;
    }
    let sample = runs().any(|run| value::is_sample(value::core(run)));
    Some(SecretMatch { what: shape.what, whose: shape.whose, start: hit.start, end: hit.end, sample })
}

/// Secrets in order, without overlaps. Of those that overlap, the first counts, and of those the longest; it is real
/// if one of them is.
fn apart(mut found: Vec<SecretMatch>) -> Vec<SecretMatch> {
    found.sort_by_key(|secret| (secret.start, usize::MAX - secret.end));
    let mut kept: Vec<SecretMatch> = Vec::with_capacity(found.len());
    for secret in found {
        match kept.last_mut() {
            Some(last) if secret.start < last.end => {
                if !secret.sample && last.sample {
                    (last.sample, last.what, last.whose) = (false, secret.what, secret.whose);
                }
                last.end = last.end.max(secret.end);
            }
            _ => kept.push(secret),
        }
    }
    kept
}

/// The text with every secret in it replaced.
pub fn redact(text: &str) -> String {
    replaced(text, &find(text))
}

/// The text with every secret in it replaced, and everything that may be one by where it stands.
pub fn scrub(text: &str) -> String {
    replaced(text, &apart(search(text, Keeping::Evidence, End::Whole)))
}

fn replaced(text: &str, found: &[SecretMatch]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    for secret in found {
        clean.push_str(text.get(at..secret.start).unwrap_or_default());
        clean.push_str("[redacted]");
        at = secret.end;
    }
    clean.push_str(text.get(at..).unwrap_or_default());
    clean
}

#[cfg(test)]
mod tests;
