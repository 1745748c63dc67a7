//! What every other package of herm stands on.
//!
//! | module | has |
//! |---|---|
//! | [`error`] | the one public [`Error`]: a kind that says what to do, a message, a hint, a cause |
//! | [`ids`] | validated names: [`BrainId`], [`TaskId`], [`SubscriberId`], [`Slug`], [`RelPath`], [`Digest`]; randomness |
//! | [`clock`] | time: [`Clock`], [`Timestamp`] |
//! | [`fsio`] | all file access: below a directory held open, never through symbolic links, replaced by rename |
//! | [`layout`] | every path of a brain |
//! | [`text`] | texts: cutting, comparing, words |
//! | [`redact`] | secrets in texts |
//! | [`schema`] | values against a JSON Schema |
//!
//! It knows nothing of brains, skills, models or tools, and nothing of networks. Every module is usable by itself.
//!
//! ```
//! use herm_core::fsio::{self, Root, SyncTiming};
//! use herm_core::{Digest, ErrorKind, RelPath, Result, Slug, redact, schema};
//!
//! fn main() -> Result<()> {
//!     // Names are checked once, where they come in. An error says what to do about it.
//!     let slug: Slug = "reentrancy-check".parse()?;
//!     let error = "../secrets".parse::<RelPath>().expect_err("a path stays inside");
//!     assert_eq!(error.kind(), ErrorKind::InvalidInput);
//!
//!     let dir = fsio::create_scratch("herm-core-doc")?;
//!     let root = Root::open(&dir)?;
//!     let path: RelPath = format!("skills/{slug}.md").parse()?;
//!     root.replace(&path, b"# Reentrancy\n", SyncTiming::Now)?;
//!     let content = root.read(&path, 1 << 20)?.expect("it was just written");
//!     assert_eq!(Digest::of(&content), Digest::of(b"# Reentrancy\n"));
//!     fsio::remove_tree(&dir)?;
//!
//!     assert_eq!(redact::redact("postgres://me:hunter2@db:5432/x"), "postgres://me:[redacted]@db:5432/x");
//!     let problems = schema::problems(&serde_json::json!({ "type": "object" }), &serde_json::json!(7));
//!     assert_eq!(problems.len(), 1);
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! The crate has no features.

pub mod clock;
pub mod error;
pub mod fsio;
pub mod ids;
pub mod layout;
pub mod redact;
pub mod schema;
pub mod text;

pub use clock::{Clock, SystemClock, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use ids::{BrainId, Digest, RelPath, Slug, SubscriberId, TaskId};
pub use layout::Layout;
