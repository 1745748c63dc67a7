//! The identity of a skill.

use crate::error::{Error, Result};
use crate::validated_text;

/// A skill's name everywhere: 1 to 64 of `a-z 0-9 -`, no hyphen at either end, no two in a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slug(std::sync::Arc<str>);

impl Slug {
    /// How many characters a slug has at most.
    pub const MAX: usize = 64;

    /// Whether a text is a slug. The error, of kind `InvalidInput`, says what is wrong with it.
    pub fn validate(text: &str) -> Result<()> {
        let rule = if text.is_empty() {
            "it is empty"
        } else if text.len() > Self::MAX {
            "it is longer than 64 characters"
        } else if !text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-')) {
            "it has a character outside a-z, 0-9 and -"
        } else if text.starts_with('-') || text.ends_with('-') {
            "it starts or ends with a hyphen"
        } else if text.contains("--") {
            "it has two hyphens in a row"
        } else {
            return Ok(());
        };
        let shown: String = text.chars().take(80).collect();
        let error = Error::invalid(format!("{shown:?} is not a skill name: {rule}"));
        Err(match Self::from_title(text) {
            Some(near) => error.hint(format!("try {:?}", near.as_str())),
            None => error.hint("a skill name looks like \"reentrancy-check\""),
        })
    }

    /// The slug nearest to any title: lower case, everything else a hyphen, squeezed and cut.
    /// `None` where nothing is left.
    pub fn from_title(title: &str) -> Option<Self> {
        let mut slug = String::with_capacity(title.len().min(Self::MAX));
        for c in title.chars().flat_map(char::to_lowercase) {
            if slug.len() >= Self::MAX {
                break;
            }
            match c {
                'a'..='z' | '0'..='9' => slug.push(c),
                _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
                _ => {}
            }
        }
        slug.truncate(slug.trim_end_matches('-').len());
        (!slug.is_empty()).then(|| Self(slug.into()))
    }
}

validated_text!(Slug);

#[cfg(test)]
mod tests {
    use super::Slug;
    use proptest::prelude::*;

    #[test]
    fn titles_become_slugs() {
        let slug = |title| Slug::from_title(title).map(|s| s.as_str().to_owned());
        assert_eq!(slug("Oracle Manipulation!").as_deref(), Some("oracle-manipulation"));
        assert_eq!(slug("--Weird__Name--").as_deref(), Some("weird-name"));
        assert_eq!(slug("日本"), None);
    }

    proptest! {
        #[test]
        fn whatever_the_title_the_slug_is_valid_and_stable(title in ".{0,200}") {
            if let Some(slug) = Slug::from_title(&title) {
                prop_assert!(Slug::validate(slug.as_str()).is_ok());
                prop_assert_eq!(Slug::from_title(slug.as_str()), Some(slug));
            }
        }
    }
}
