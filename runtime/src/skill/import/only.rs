//! Which skills of a library are wanted.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::ids::Slug;
use crate::skill::place;

/// Patterns over names and over paths in the library, where `*` stands for any characters and `?` for one. None at all
/// means everything.
#[derive(Debug, Default)]
pub struct Only {
    patterns: Vec<String>,
    hit: RefCell<BTreeSet<usize>>,
}

impl Only {
    /// What matches one of `patterns`.
    pub fn new(patterns: &[String]) -> Self {
        Self { patterns: patterns.to_vec(), hit: RefCell::default() }
    }

    /// Whether nothing is left out.
    pub(super) fn is_everything(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a skill, or a file of the library, is wanted.
    pub(super) fn wants(&self, slug: Option<&Slug>, path: &str) -> bool {
        let title = titled(path);
        let mut wanted = self.patterns.is_empty();
        for (number, pattern) in self.patterns.iter().enumerate() {
            if matches(pattern, title) || slug.is_some_and(|slug| matches(pattern, slug.as_str())) {
                self.hit.borrow_mut().insert(number);
                wanted = true;
            }
        }
        wanted
    }

    /// Refuses if a pattern matched nothing: a misspelt name must not look like success.
    pub(super) fn all_hit(&self) -> Result<()> {
        let hit = self.hit.borrow();
        match self.patterns.iter().enumerate().find(|(number, _)| !hit.contains(number)) {
            None => Ok(()),
            Some((_, pattern)) => Err(Error::not_found(format!("nothing in the library matches {pattern:?}"))
                .hint("see what it holds with --dry-run and without --only")),
        }
    }
}

/// A path without what is the same for every skill.
fn titled(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((dir, name)) if place::is_main_file(name) => dir,
        _ => path.strip_suffix(".md").unwrap_or(path),
    }
}

/// Whether a text matches a pattern as a whole.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(here) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if c == here || *c == '?' => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_and_question_marks_stand_for_other_characters() {
        for (pattern, text, expected) in [
            ("mail", "mail", true),
            ("mail", "mails", false),
            ("mail*", "mails", true),
            ("devops/*", "devops/deep/one", true),
            ("*-check", "reentrancy-check", true),
            ("*a*b*c", "xxaxbxbxc", true),
            ("*a*b*c", "xxaxbxbx", false),
            ("m?il", "mail", true),
            ("m?il", "mil", false),
            ("", "", true),
            ("**", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_an_error() {
        let only = Only::new(&["mail".to_owned(), "nobody".to_owned()]);
        assert!(only.wants(None, "cat/mail/SKILL.md") || only.wants("mail".parse().ok().as_ref(), "cat/mail/SKILL.md"));
        assert!(!only.wants(None, "x.md"));
        assert!(only.all_hit().unwrap_err().to_string().contains("nobody"));
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_a_star(text in "[a-z/-]{0,20}", pattern in "[a-z*?/]{0,10}") {
            prop_assert!(matches(&text, &text) && matches("*", &text));
            matches(&pattern, &text);
        }
    }
}
