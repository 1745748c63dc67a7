//! A path inside a brain.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::validated_text;

/// A path below a brain's directory: parts joined by `/`, none of them empty, `.` or `..`, no
/// control characters or backslashes, at most 1,024 bytes and 32 parts.
///
/// Whatever comes from outside (a manifest, a snapshot, a tool call) becomes a `RelPath` before
/// it can reach a file, so a name that leaves the brain cannot be expressed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(Arc<str>);

impl RelPath {
    /// How many parts a path may have.
    pub const MAX_DEPTH: usize = 32;

    /// Whether a text is a path inside a brain. The error, of kind `InvalidInput`, says what is wrong with it.
    pub fn validate(text: &str) -> Result<()> {
        let part_rule = |part: &str| match part {
            "" => Some("it has an empty part or is absolute"),
            "." | ".." => Some("it has a part that is . or .."),
            _ if part.len() > 255 => Some("it has a part longer than 255 bytes"),
            // Plain ASCII, the common case, is settled by one pass over the bytes.
            _ if part.bytes().any(|b| !(b' '..0x7f).contains(&b) || b == b'\\')
                && part.chars().any(|c| c.is_control() || c == '\\') =>
            {
                Some("it has a control character or a backslash")
            }
            _ => None,
        };
        let rule = if text.len() > 1024 {
            Some("it is longer than 1,024 bytes")
        } else if text.bytes().filter(|b| *b == b'/').count() >= Self::MAX_DEPTH {
            Some("it is more than 32 levels deep")
        } else {
            text.split('/').find_map(part_rule)
        };
        match rule {
            None => Ok(()),
            Some(rule) => {
                let shown: String = text.chars().take(120).collect();
                Err(Error::invalid(format!("{shown:?} is not a path inside a brain: {rule}"))
                    .hint("use a relative path such as references/notes.md"))
            }
        }
    }

    /// The path below this one.
    pub fn join(&self, rest: &str) -> Result<Self> {
        format!("{}/{rest}", self.0).try_into()
    }

    /// The directory that holds it; `None` for a name at the top.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }

    /// The last part: the name of the file without its directories.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

validated_text!(RelPath);

impl AsRef<std::path::Path> for RelPath {
    fn as_ref(&self) -> &std::path::Path {
        std::path::Path::new(&*self.0)
    }
}

impl std::borrow::Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::RelPath;

    #[test]
    fn nothing_that_leaves_the_brain_can_be_expressed() {
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", "a\\b", "a\0b", "a\nb"] {
            assert!(bad.parse::<RelPath>().is_err(), "{bad:?}");
        }
        assert!(["a"; 33].join("/").parse::<RelPath>().is_err());
        assert!(["a"; 32].join("/").parse::<RelPath>().is_ok());
        assert!("skills/.archive/old/SKILL.md".parse::<RelPath>().is_ok());
    }
}
