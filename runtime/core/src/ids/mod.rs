//! Validated names, and the randomness new ones are made of. Each has one `validate`, and inside the crate no raw string stands for one.

mod brain_id;
mod digest;
mod hex;
mod random;
mod rel_path;
mod sha256;
mod slug;
mod subscriber;
mod task_id;

pub use brain_id::BrainId;
pub use digest::Digest;
pub use hex::{hex, unhex};
pub use random::{Random, SystemRandom};
pub use rel_path::RelPath;
pub use sha256::sha256;
pub use slug::Slug;
pub use subscriber::SubscriberId;
pub use task_id::TaskId;

/// Implements the traits every validated text newtype shares: it displays and serialises as its
/// text, and text becomes one only through `validate`.
#[macro_export]
macro_rules! validated_text {
    ($name:ident) => {
        impl $name {
            /// The text, which has passed `validate`.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::validate(text)?;
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::error::Error;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::validate(&text)?;
                Ok(Self(text.into()))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
            }
        }
    };
}
