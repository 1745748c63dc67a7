//! A brain on disk: memory, bundle hash, steps that are committed atomically, receipts, history.
//!
//! | module | has |
//! |---|---|
//! | [`brain`] | [`Brain`](brain::Brain): open, edit, settle, undo, verify; [`Reader`](brain::Reader): look without the lock |
//! | [`memory`] | `memory.db`: messages, facts, the log of tasks, evidence, and their search |
//! | [`bundle`] | the bundle hash and the lock file |
//! | [`receipt`] | signed statements about steps, and their verification |
//! | [`semantic`] | the traits of embedding models and rerankers |
//! | [`tuning`] | `tuning.json`: constants of the runtime that a brain may change |
//!
//! It knows nothing of models, tools and tasks: a step is whatever its caller put into a [`Draft`](brain::Draft). Every
//! call blocks the thread that makes it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use herm_brain::brain::{Brain, BrainOptions, BrainSource, Draft, Reader, Seed, StepKind};
//! use herm_brain::receipt::Signer;
//! use herm_core::ids::SystemRandom;
//! use herm_core::{Layout, Result, fsio};
//!
//! fn main() -> Result<()> {
//!     let dir = fsio::create_scratch("herm-brain-doc")?;
//!     let layout = Layout::new(&dir);
//!     let signer = Signer::load_or_create(&layout.signing_key(), &SystemRandom)?;
//!     let options = BrainOptions { signer: Some(Arc::new(signer)), ..BrainOptions::default() };
//!
//!     let id = "7".parse()?;
//!     let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//!     let (mut brain, _) = Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &options)?;
//!
//!     // A draft is an uncommitted step. Dropped, it has changed nothing.
//!     let mut draft = Draft::new();
//!     brain.edit(&mut draft).create_skill(
//!         &"say-hello".parse()?,
//!         "---\nname: say-hello\ndescription: Greets. Use when someone arrives.\n---\n# Say hello\n",
//!         herm_skills::CreatedBy::Agent,
//!     )?;
//!     let settled = brain.settle(&draft, StepKind::Maintenance, "learned to greet")?;
//!     assert_eq!(settled.version, 2);
//!     brain.close()?;
//!
//!     let steps = Reader::open(&layout, &id)?.history(10)?;
//!     assert_eq!(steps.len(), 2);
//!     fsio::remove_tree(&dir)
//! }
//! ```
//!
//! # Features
//!
//! The crate has no features.

use herm_core::{clock, error, fsio, ids, layout, redact, text};
use herm_skills as skill;

pub mod brain;
pub mod bundle;
pub mod memory;
pub mod receipt;
pub mod semantic;
mod signing;
pub mod tuning;
