//! Commands that are like one that is not there.

use std::collections::BTreeMap;

use crate::ids::Slug;

/// How many are offered.
const OFFERED: usize = 3;
/// A shorter word is part of too much.
const SHORTEST_PART: usize = 3;
/// A longer word is no slip of the finger.
const LONGEST: usize = Slug::MAX + 2;

/// How a key is like a word, nearest first; the number orders those that are alike in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// This many letters differ.
    Typo(usize),
    /// One begins with the other, and has this many letters more.
    Beginning(usize),
    /// One holds the other, and has this many letters more.
    Part(usize),
}

/// The keys nearest to a word, one a skill, nearest first and then in byte order.
pub(super) fn near(word: &str, skills: &BTreeMap<Box<str>, Slug>) -> Vec<String> {
    if word.is_empty() || word.len() > LONGEST {
        return Vec::new();
    }
    let mut row = Vec::with_capacity(LONGEST + 1);
    let mut found: Vec<(Likeness, &str, &Slug)> =
        skills.iter().filter_map(|(key, slug)| Some((likeness(word, key, &mut row)?, &**key, slug))).collect();
    found.sort_unstable();
    let mut offered: Vec<(&str, &Slug)> = Vec::with_capacity(OFFERED);
    for (_, key, slug) in found {
        if offered.len() == OFFERED {
            break;
        }
        if offered.iter().all(|(_, known)| *known != slug) {
            offered.push((key, slug));
        }
    }
    offered.into_iter().map(|(key, _)| key.to_owned()).collect()
}

fn likeness(word: &str, key: &str, row: &mut Vec<usize>) -> Option<Likeness> {
    let apart = word.len().abs_diff(key.len());
    // In a short word, two other letters are another word.
    let slips = if word.len() <= 4 { 1 } else { 2 };
    let typo = if apart <= slips { distance(word.as_bytes(), key.as_bytes(), slips, row) } else { None };
    if let Some(distance) = typo {
        return Some(Likeness::Typo(distance));
    }
    let (short, long) = if word.len() <= key.len() { (word, key) } else { (key, word) };
    if short.len() < SHORTEST_PART {
        None
    } else if long.starts_with(short) {
        Some(Likeness::Beginning(apart))
    } else if long.contains(short) {
        Some(Likeness::Part(apart))
    } else {
        None
    }
}

/// How many letters must be put in, taken out or changed to make `b` of `a`, if at most `most`.
fn distance(a: &[u8], b: &[u8], most: usize, row: &mut Vec<usize>) -> Option<usize> {
    row.clear();
    row.extend(0..=b.len());
    for (line, letter) in a.iter().enumerate() {
        let mut cells = row.iter_mut();
        // The cell up and left, and the cell to the left, of the one to be filled.
        let mut corner = line;
        let mut left = line + 1;
        if let Some(first) = cells.next() {
            *first = left;
        }
        let mut least = left;
        for (cell, other) in cells.zip(b) {
            let above = *cell;
            let change = corner + usize::from(letter != other);
            *cell = change.min(above + 1).min(left + 1);
            (corner, left) = (above, *cell);
            least = least.min(left);
        }
        if least > most {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(names: &[&str]) -> BTreeMap<Box<str>, Slug> {
        names.iter().map(|name| ((*name).into(), name.parse().unwrap())).collect()
    }

    const NAMES: [&str; 6] =
        ["gif-search", "git-search", "oracle-review", "reentrancy-review", "report-writing", "upgrade-review"];

    #[test]
    fn misspelt_and_shortened_words_are_found() {
        let skills = keys(&NAMES);
        for (word, found) in [
            ("gif-serch", &["gif-search", "git-search"][..]),
            ("gti-search", &["gif-search", "git-search"]),
            ("reentrancy", &["reentrancy-review"]),
            ("report-writing-now", &["report-writing"]),
            ("review", &["oracle-review", "upgrade-review", "reentrancy-review"]),
            ("re", &[]),
            ("zzz", &[]),
            ("", &[]),
        ] {
            assert_eq!(near(word, &skills), found, "{word}");
        }
        assert_eq!(near(&"review".repeat(1_000), &skills), Vec::<String>::new());
    }

    #[test]
    fn a_skill_with_two_keys_is_offered_once() {
        let slug: Slug = "gif-search".parse().unwrap();
        let skills = BTreeMap::from([("gif-search".into(), slug.clone()), ("gif-searcher".into(), slug)]);
        assert_eq!(near("gif-serch", &skills), ["gif-search"]);
    }

    /// The edit distance by its definition, to compare the fast one with.
    fn defined(a: &[u8], b: &[u8]) -> usize {
        match (a.split_first(), b.split_first()) {
            (None, _) => b.len(),
            (_, None) => a.len(),
            (Some((x, a_rest)), Some((y, b_rest))) if x == y => defined(a_rest, b_rest),
            (Some((_, a_rest)), Some((_, b_rest))) => {
                1 + defined(a_rest, b).min(defined(a, b_rest)).min(defined(a_rest, b_rest))
            }
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_that_of_the_definition(a in "[abc]{0,6}", b in "[abc]{0,6}", most in 0usize..4) {
            let expected = Some(defined(a.as_bytes(), b.as_bytes())).filter(|distance| *distance <= most);
            prop_assert_eq!(distance(a.as_bytes(), b.as_bytes(), most, &mut Vec::new()), expected);
        }
    }
}
