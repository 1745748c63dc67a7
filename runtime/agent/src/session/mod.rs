//! One task against one brain.
//!
//! - [`machine`] decides: replies and results in, the next thing to do out. Pure and serialisable.
//! - [`context`] makes a conversation fit: the registered compressors.
//! - [`reply`] finds the JSON objects a model wrote in its text.
//! - [`prompt`] writes the system message.
//! - [`worked`] writes that of a model which has to be shown.
//! - [`Session`] drives: it asks, calls and listens, and is the only part that waits for anything.
//! - [`synthesis`] turns a hard task into a skill.
//! - [`Transcript`] is everything a replay needs; [`account`] is what the brain remembers.

pub mod account;
pub mod context;
mod drive;
pub mod machine;
pub mod prompt;
pub mod reply;
mod run;
pub mod synthesis;
mod transcript;
pub mod worked;

pub use drive::{AnswerRelease, CancelToken, EventSender, LiveTools, Session, SessionLog, ToolExecutor, stop_of};
pub use run::{FinishedTask, TaskRun};
pub use transcript::{TRANSCRIPT_SCHEMA, Transcript, Turn};
