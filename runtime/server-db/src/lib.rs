//! The server database: what a server of brains must remember beside them. One SQLite file, `.operator/book.db`.
//!
//! - [`ServerDb`] is the open database. One thread writes, and many writes share a commit; reads are on connections of their
//!   own. Brains that are paused are its own affair.
//! - [`tasks`] are the tasks that were accepted, with their states, costs and outcomes.
//! - [`keys`] are those of callers, and [`marker`] is the word outside the database that there are any.
//! - [`payments`] are those that were shown, each for one task.
//!
//! A brain is authoritative: whether a task ran is what its brain says. Work on rows takes a connection, so that one write
//! can do several things or none.
//!
//! It uses the facade `herm` as any program does. It knows nothing of HTTP, configuration files and command lines.
//!
//! ```
//! use herm::{BrainId, Clock, Layout, SystemClock};
//! use herm_server_db::{ServerDb, keys};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> herm::Result<()> {
//!     # let dir = tempfile::tempdir().expect("a directory");
//!     # let brains = dir.path().join("brains");
//!     let db = ServerDb::open(&Layout::new(brains))?;
//!     let agent: BrainId = "7".parse()?;
//!     db.set_paused(&agent, Some(SystemClock.now())).await?;
//!     assert_eq!(db.paused()?, [agent]);
//!     assert!(db.read(keys::all)?.is_empty());
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! None.

pub mod keys;
pub mod marker;
pub mod payments;
mod server_db;
pub mod server_layout;
pub mod tasks;

pub use server_db::{ServerDb, open};
