//! Search by words and by meaning together.
//!
//! Both give an order of rows, and reciprocal rank fusion makes one of the two: a row at place `r` of an order has a
//! vote of `1 / (5 + r)` there, and its votes are added up. The vote of a row that was found by words counts by the
//! share of the words that it holds, of those that any row holds: one of five common words says little, all of them
//! say as much as being nearest. A row that holds all words and comes first among them is thus never behind a row that
//! is only near. How this was chosen, and how well it does, stands in `docs/reference/recall.md`.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::db::sql;
use super::index::MemorySource;
use super::query::parse_query;
use super::search::{self, Search, SearchHit, SearchResults};
use super::vectors::{self, QueryVector};
use crate::error::Result;

/// What the place of a row is softened by: small, because what is asked for is a handful.
const SOFTENING: f64 = 5.0;
/// How many rows of each order have a vote.
const VOTING: usize = 50;

/// The answer to a search by words and meaning.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HybridResults {
    /// The hits, best first; by words alone where no vectors were used.
    pub found: SearchResults,
    /// Whether meaning had a part in it.
    pub used_vectors: bool,
}

/// One order from several, whose members each have a weight from 0 to 1. Equals stay in the order of their keys.
pub fn fuse<K: Ord + Clone>(orders: &[Vec<(K, f64)>]) -> Vec<(K, f64)> {
    let mut votes: BTreeMap<K, f64> = BTreeMap::new();
    for order in orders {
        for (place, (key, weight)) in (1_u32..).zip(order) {
            *votes.entry(key.clone()).or_default() += weight / (SOFTENING + f64::from(place));
        }
    }
    let mut fused: Vec<(K, f64)> = votes.into_iter().collect();
    fused.sort_by(|a, b| b.1.total_cmp(&a.1));
    fused
}

/// Searches by words, and by what is sought. Where nothing is, there are no vectors to compare, or they cannot be read,
/// the answer is that of the words alone.
pub fn search(connection: &Connection, wanted: &Search<'_>, sought: Option<&QueryVector>) -> Result<HybridResults> {
    let failed = |source| sql("search memory.db", source);
    if wanted.limit == 0 {
        return Ok(HybridResults::default());
    }
    let scopes = search::visible_scopes(connection, wanted.scope)?;
    let voting = wanted.limit.max(VOTING);
    let near = sought
        .map_or(Ok(Vec::new()), |sought| vectors::nearest(connection, sought, &scopes, wanted.except_task, voting));
    let near = near.unwrap_or_else(|error| {
        tracing::warn!(%error, "the vectors cannot be read; searching by words alone");
        Vec::new()
    });
    if near.is_empty() {
        return Ok(HybridResults { found: search::search(connection, wanted)?, used_vectors: false });
    }
    let shaped = parse_query(wanted.text);
    let (ranked, degraded) = match shaped.is_empty() {
        true => (Vec::new(), false),
        false => search::by_words(connection, &Search { limit: voting, ..wanted.clone() }, &shaped, &scopes)?,
    };
    let by_words = ranked.iter().map(|ranked| ((ranked.hit.source, ranked.hit.id), ranked.share)).collect();
    let by_meaning = near.into_iter().map(|key| (key, 1.0)).collect();
    let mut known: BTreeMap<(MemorySource, i64), SearchHit> =
        ranked.into_iter().map(|ranked| ((ranked.hit.source, ranked.hit.id), ranked.hit)).collect();
    let mut voted = Vec::new();
    for ((source, id), score) in fuse(&[by_words, by_meaning]) {
        match known.remove(&(source, id)) {
            Some(hit) => voted.push((SearchHit { score, ..hit }, true)),
            None => {
                if let Some((task, at)) = search::place_of(connection, source, id, &scopes).map_err(failed)? {
                    voted.push((SearchHit { source, id, task, at, snippet: String::new(), score }, false));
                }
            }
        }
    }
    // Among equals a row that holds the words comes first, then the newer.
    voted.sort_by(|(a, a_holds), (b, b_holds)| {
        (b.score.total_cmp(&a.score)).then(b_holds.cmp(a_holds)).then_with(|| search::ahead(a, b))
    });
    let voted = search::answers_once(connection, voted, |(hit, _)| hit)?;
    let mut hits: Vec<SearchHit> = voted.into_iter().map(|(hit, _)| hit).take(wanted.limit).collect();
    search::show(connection, &shaped, &mut hits)?;
    Ok(HybridResults { found: SearchResults { hits, degraded }, used_vectors: true })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_of_both_orders_is_before_rows_of_one() {
        let words = vec![("a", 1.0), ("b", 1.0)];
        let near = vec![("c", 1.0), ("b", 1.0)];
        let order: Vec<&str> = fuse(&[words, near]).into_iter().map(|(key, _)| key).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn a_row_that_holds_few_of_the_words_is_behind_what_is_near() {
        let order: Vec<&str> =
            fuse(&[vec![("few", 0.2)], vec![("near", 1.0), ("next", 1.0)]]).into_iter().map(|(key, _)| key).collect();
        assert_eq!(order, ["near", "next", "few"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_first_with_all_words_has_the_vote_of_the_nearest(
            words in prop::collection::vec(0..40_u8, 1..20), near in prop::collection::vec(40..80_u8, 1..20),
        ) {
            let weighted = |mut keys: Vec<u8>| {
                let mut seen = std::collections::BTreeSet::new();
                keys.retain(|key| seen.insert(*key));
                keys.into_iter().map(|key| (key, 1.0)).collect::<Vec<_>>()
            };
            let (words, near) = (weighted(words), weighted(near));
            let (first, count) = (words[0].0, words.len() + near.len());
            let fused = fuse(&[words, near]);
            let vote = |key: u8| fused.iter().find(|(other, _)| *other == key).map(|(_, vote)| *vote);
            prop_assert_eq!(fused.len(), count);
            prop_assert_eq!(vote(first), Some(fused[0].1));
        }
    }
}
