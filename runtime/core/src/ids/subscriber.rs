//! The id of the subscriber who calls an agent.

use super::Digest;
use crate::error::{Error, Result};
use crate::validated_text;

/// An opaque id from the operator's authentication: 1 to 128 printable characters.
///
/// A brain never stores it, only its [`digest`](Self::digest): a brain travels, and the names of
/// its subscribers do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberId(Box<str>);

impl SubscriberId {
    /// Whether a text can be a subscriber's id. The error, of kind `InvalidInput`, says what is wrong with it.
    pub fn validate(text: &str) -> Result<()> {
        let rule = if text.is_empty() {
            "it is empty"
        } else if text.chars().count() > 128 {
            "it is longer than 128 characters"
        } else if text.chars().any(char::is_control) {
            "it has a control character"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("that is not a subscriber id: {rule}"))
            .hint("a subscriber id is 1 to 128 printable characters"))
    }

    /// What a brain keeps instead of the id.
    pub fn digest(&self) -> Digest {
        blake3::Hasher::new_derive_key("herm subscriber v1").update(self.0.as_bytes()).finalize().into()
    }
}

validated_text!(SubscriberId);
