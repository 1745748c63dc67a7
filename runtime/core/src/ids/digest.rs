//! BLAKE3 digests, by which contents are named and compared.

use std::fmt;

use crate::error::{Error, Result};

/// 32 bytes of BLAKE3, shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some content: plain BLAKE3, the same as `b3sum`.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// The rule for the text form.
    pub fn validate(text: &str) -> Result<()> {
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(());
        }
        let shown: String = text.chars().take(80).collect();
        Err(Error::invalid(format!("{shown:?} is not a digest: it must be 64 digits of 0-9 a-f")))
    }

    /// The digest as 32 bytes; its text is these in hexadecimal.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve digits: enough to recognise a version by eye.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Digest {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::validate(text)?;
        match blake3::Hash::from_hex(text) {
            Ok(hash) => Ok(hash.into()),
            Err(source) => Err(Error::invalid("that is not a digest").because(source)),
        }
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
