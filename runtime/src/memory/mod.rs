//! Layer 1 and Layer 2 memory.
//!
//! - [`layers`]: the small Markdown files that are frozen into each prompt (pure).
//! - [`Database`]: `memory.db`, one writer with read connections beside it.
//! - [`Writer`]: row changes inside one transaction, with the logical hash kept in step.
//! - [`search`]: full-text search, shaped so that no user text is ever query syntax.

mod db;
mod grams;
mod index;
pub mod layers;
mod logical;
mod query;
mod schema;
pub mod search;
mod usage_rows;
mod writer;

pub(crate) use db::sql;
pub use db::{Access, Database};
pub use index::{Source, heal as heal_indexes, rebuild as rebuild_indexes};
pub use logical::{Table, recompute, rehash, stored};
pub use query::{MAX_QUERY_CHARS, Shaped, shape};
pub use schema::SCHEMA_VERSION;
pub use search::{Found, Hit, Scope, Search};
pub use writer::{Fact, Message, Role, TaskEntry, Writer};
