//! What learning brings, measured on families of tasks that are data.
//!
//! A [`Family`] is a directory: a role, tools that answer from a table, tasks with checks, and maybe a skill that a person
//! wrote (`docs/reference/learning-family.md`). Each [`BenchArm`] is one way to learn. [`run`] lets every arm learn on the
//! first half of the tasks, freezes it, and measures it on the second; a [`BenchTable`] counts, and shows it as Markdown,
//! JSON and curves. Nothing here reads a clock or draws at random: with a model that answers the same every time, the same
//! measurement gives the same table to the digit. [`KeptReplies`] asks a model the same question once.
//!
//! It uses the facade `herm` and the standard tools as any program does, and knows nothing of command lines, servers and
//! configuration files. The families of `seed/families/` are built in.
//!
//! ```
//! use std::sync::Arc;
//!
//! use herm::backend::Backend;
//! use herm_bench::{BenchArm, BenchOptions, BenchTable, Family, built_in, built_in_names, run};
//!
//! /// No learning beside examples, on four tasks of each half of each family.
//! async fn measure(families: &[Family], backend: Arc<dyn Backend>) -> herm::Result<BenchTable> {
//!     let arms = BenchArm::parse_all("none, examples")?;
//!     let options = BenchOptions { arms, learn: Some(4), held_out: Some(4), demonstrations: None, labels: true };
//!     run(families, &backend, &options, &mut |_| ()).await
//! }
//!
//! fn main() -> herm::Result<()> {
//!     let families: Vec<Family> = built_in_names().map(built_in).collect::<herm::Result<_>>()?;
//!     for family in &families {
//!         let (learn, held_out) = family.sizes();
//!         assert!(learn > 0 && held_out > 0);
//!     }
//!     # drop(|backend| measure(&families, backend));
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `mcp` | off | families whose tools are those of an MCP server |

mod arms;
mod built_in;
mod calls;
#[cfg(test)]
mod committed;
mod compare;
mod curves;
mod demonstrations;
mod family;
mod fixed;
mod locate;
mod replies;
mod report;
mod run;
mod schema;
mod servers;
mod statistics;
mod table;
mod tasks;
mod tool_file;
mod tool_table;

pub use arms::{ARMS, BenchArm};
pub use built_in::{built_in, built_in_names};
pub use family::Family;
pub use replies::KeptReplies;
pub use run::{BenchOptions, BenchProgress, run};
pub use table::{BenchTable, TaskResult};
