//! From what a person types to what FTS5 matches.
//!
//! Raw text never reaches `MATCH` as syntax. The text is cut into terms, each term becomes a
//! quoted phrase, and the phrases are searched one by one and added up (an OR). Words that say
//! nothing are dropped unless nothing else is left.

use crate::text::words::{Run, is_stop_word, pairs, runs};

/// A longer query is cut here.
pub const MAX_QUERY_CHARS: usize = 2_048;
/// More terms than this add cost and no precision.
const MAX_TERMS: usize = 24;
/// A chunk such as a long path becomes a phrase of at most this many words.
const MAX_PHRASE: usize = 8;

/// One thing to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// A quoted FTS5 phrase for the word index, where the term has words.
    pub(super) words: Option<String>,
    /// A quoted FTS5 phrase for the grams index.
    pub(super) grams: String,
    /// The lower-case text, for scanning and for snippets.
    pub(super) needle: String,
}

/// A query cut into terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedQuery {
    pub(super) terms: Vec<Term>,
}

impl ParsedQuery {
    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The texts that are looked for, in lower case.
    pub fn needles(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.needle.as_str())
    }
}

/// Shapes what someone typed.
pub fn parse_query(text: &str) -> ParsedQuery {
    let cut = text.char_indices().nth(MAX_QUERY_CHARS).map_or(text, |(end, _)| text.split_at(end).0);
    let mut terms: Vec<(bool, Term)> = Vec::new();
    for chunk in cut.split_whitespace() {
        let mut words: Vec<&str> = Vec::new();
        for run in runs(chunk) {
            match run {
                Run::Word(word) => words.push(word),
                Run::Gap => {}
                Run::Unspaced(run) => {
                    flush(&mut words, &mut terms);
                    terms.push((false, unspaced(run)));
                }
            }
        }
        flush(&mut words, &mut terms);
    }
    let only_stop_words = terms.iter().all(|(stop, _)| *stop);
    let mut shaped = ParsedQuery::default();
    for (stop, term) in terms {
        if (only_stop_words || !stop) && !shaped.terms.contains(&term) && shaped.terms.len() < MAX_TERMS {
            shaped.terms.push(term);
        }
    }
    shaped
}

/// The words of one chunk (`needle-0042`, `vault.sol`) are one phrase.
fn flush(words: &mut Vec<&str>, terms: &mut Vec<(bool, Term)>) {
    words.truncate(MAX_PHRASE);
    if words.is_empty() {
        return;
    }
    let needle = words.join(" ").to_lowercase();
    let stop = is_stop_word(&needle);
    let quoted = format!("\"{needle}\"");
    terms.push((stop, Term { words: Some(quoted.clone()), grams: quoted, needle }));
    words.clear();
}

fn unspaced(run: &str) -> Term {
    let grams = if run.chars().nth(1).is_none() {
        // One character: every pair that starts with it, or it alone at the end of a run.
        format!("\"{run}\"*")
    } else {
        format!("\"{}\"", pairs(run).collect::<Vec<_>>().join(" "))
    };
    Term { words: None, grams, needle: run.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phrases(text: &str) -> Vec<String> {
        parse_query(text).terms.into_iter().map(|term| term.words.unwrap_or(term.grams)).collect()
    }

    #[test]
    fn syntax_is_text() {
        assert_eq!(
            phrases(r#""quoted" col:val NEAR(a b) foo* -bar"#),
            [r#""quoted""#, r#""col val""#, r#""near a""#, r#""b""#, r#""foo""#, r#""bar""#]
        );
    }

    #[test]
    fn stop_words_go_unless_nothing_else_is_left() {
        assert_eq!(phrases("what did the audit say"), [r#""audit""#, r#""say""#]);
        assert_eq!(phrases("to be or not to be"), [r#""to""#, r#""be""#, r#""or""#, r#""not""#]);
    }

    #[test]
    fn unspaced_scripts_become_pairs() {
        assert_eq!(phrases("缓存"), [r#""缓存""#]);
        assert_eq!(phrases("分布系统"), [r#""分布 布系 系统""#]);
        assert_eq!(phrases("存"), [r#""存"*"#]);
        assert_eq!(phrases("用youer做"), [r#""用"*"#, r#""youer""#, r#""做"*"#]);
    }

    proptest! {
        #[test]
        fn no_input_leaves_a_quote_open_or_grows_without_bound(text in ".{0,300}") {
            let shaped = parse_query(&text);
            prop_assert!(shaped.terms.len() <= MAX_TERMS);
            for term in shaped.terms {
                for phrase in term.words.iter().chain([&term.grams]) {
                    let inner = phrase.trim_end_matches('*').trim_matches('"');
                    prop_assert!(!inner.contains('"') && !inner.is_empty());
                }
            }
        }
    }
}
