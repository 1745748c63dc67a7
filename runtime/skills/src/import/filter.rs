//! Which skills of a library are wanted.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::ids::Slug;
use crate::location;
use crate::text::glob;

/// Patterns over names and over paths in the library, where `*` stands for any characters and `?` for one. A filter
/// without patterns lets everything through.
#[derive(Debug, Default)]
pub struct SkillFilter {
    patterns: Vec<String>,
    hit: RefCell<BTreeSet<usize>>,
}

impl SkillFilter {
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
            if glob(pattern, title) || slug.is_some_and(|slug| glob(pattern, slug.as_str())) {
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
        Some((dir, name)) if location::is_main_file(name) => dir,
        _ => path.strip_suffix(".md").unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_matches_nothing_is_an_error() {
        let only = SkillFilter::new(&["mail".to_owned(), "nobody".to_owned()]);
        assert!(only.wants(None, "cat/mail/SKILL.md") || only.wants("mail".parse().ok().as_ref(), "cat/mail/SKILL.md"));
        assert!(!only.wants(None, "x.md"));
        assert!(only.all_hit().unwrap_err().to_string().contains("nobody"));
    }
}
