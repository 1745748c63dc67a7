//! A language model in memory: no server, no key, no network.
//!
//! Data flows one way: a file ([`ModelFile`]) gives tokens, a chat template and a network; a [`Generator`] reads a
//! conversation and writes a reply that a grammar keeps legal.
//!
//! A reply depends on the file and the conversation alone: not on the number of threads, on what was read before, or on
//! the registers of the processor. Asked again, the model says the same, byte for byte.
//!
//! It knows nothing of herm, of tasks and of where files come from. A call blocks: run it on a thread of your own.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//!
//! use herm_model::{GenerationRequest, Generator, ModelFile, ReplyBounds};
//!
//! fn main() -> Result<(), herm_model::ModelError> {
//!     let file = ModelFile::open(Path::new("model.gguf"))?;
//!     let bounds = ReplyBounds { chars: 200, items: 8 };
//!     let mut generator = Generator::load(&file, bounds, 96 << 20, 4096)?;
//!     let legal = serde_json::json!({
//!         "type": "object",
//!         "properties": { "months": { "type": "array", "items": { "type": "string" } } },
//!         "required": ["months"],
//!         "additionalProperties": false,
//!     });
//!     let question = GenerationRequest {
//!         messages: &[("user", "Which months have 30 days?")],
//!         legal: &legal,
//!         most_tokens: 200,
//!         most_bytes: 1 << 16,
//!         fresh: true,
//!     };
//!     let reply = generator.answer(&question, &AtomicBool::new(false))?;
//!     println!("{}", reply.text);
//!     Ok(())
//! }
//! ```
//!
//! # Features
//!
//! The crate has no features.

mod error;
mod file;
mod generator;
mod grammar;
mod kernel;
mod lanes;
mod matrix;
mod network;
mod pieces;
mod template;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use error::{ModelError, ModelErrorKind};
pub use file::ModelFile;
pub use generator::{Finish, GeneratedReply, GenerationRequest, GenerationStats, Generator};
pub use grammar::ReplyBounds;

/// One message of a conversation: who says it (`system`, `user`, `assistant`), and what.
pub type Message<'m> = (&'m str, &'m str);
