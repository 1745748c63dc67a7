//! Layer 1 and Layer 2 memory.
//!
//! - [`layers`]: the small Markdown files that are frozen into each prompt (pure).
//! - [`Database`]: `memory.db`, one writer with read connections beside it.
//! - [`Writer`]: row changes inside one transaction, with the logical hash kept in step.
//! - [`Evidence`]: how tool calls went, for the evolver; beside the content, not part of it.
//! - [`undo`]: what rows were before a step, so that it can be taken back exactly.
//! - [`search`]: full-text search, shaped so that no user text is ever query syntax.

mod db;
mod evidence;
mod grams;
mod index;
pub mod layers;
mod logical;
mod query;
mod schema;
pub mod search;
pub mod undo;
mod usage_rows;
mod writer;

pub(crate) use db::sql;
pub use db::{Access, Database};
pub use evidence::{Evidence, EvidenceStatus};
pub use index::{Source, heal as heal_indexes, rebuild as rebuild_indexes};
pub use logical::{Table, recompute, rehash, stored};
pub use query::{MAX_QUERY_CHARS, Shaped, shape};
pub use schema::SCHEMA_VERSION;
pub use search::{Found, Hit, Scope, Search};
pub use writer::{Fact, Message, Role, TaskEntry, Writer};
