//! A language model in memory: no server, no key, no network.
//!
//! Data flows one way: a file ([`ModelFile`]) gives tokens, a chat template and a network; a [`Generator`] reads a
//! conversation and writes a reply that a grammar keeps legal.
//!
//! A reply depends on the file and the conversation alone: not on the number of threads, on what was read before, or on
//! the registers of the processor. Asked again, the model says the same, byte for byte.

mod error;
mod file;
mod grammar;
mod kernel;
mod lanes;
mod matrix;
mod network;
mod pieces;
mod speaker;
mod template;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use error::{Error, ErrorKind, Result};
pub use file::ModelFile;
pub use grammar::ReplyBounds;
pub use speaker::{Finish, GeneratedReply, GenerationRequest, GenerationStats, Generator};

/// One message of a conversation: who says it (`system`, `user`, `assistant`), and what.
pub type Message<'m> = (&'m str, &'m str);
