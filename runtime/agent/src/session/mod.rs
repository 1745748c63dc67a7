//! One task against one brain.
//!
//! - [`machine`] decides: replies and results in, the next thing to do out. Pure and serialisable.
//! - [`context`] makes a conversation fit: the registered compressors.
//! - [`grounding`] asks whether the facts of an answer come from results.
//! - [`reply`] finds the JSON objects a model wrote in its text.
//! - [`prompt`] writes the system message.
//! - [`legal`] says which replies are legal, for backends that hold replies to a schema.
//! - [`few_shot`] writes that of a model which has to be shown.
//! - [`Session`] drives: it asks, calls and listens, and is the only part that waits for anything.
//! - [`synthesis`] turns a hard task into a skill.
//! - [`Transcript`] is everything a replay needs; [`task_record`] is what the brain remembers.

pub mod context;
mod drive;
pub mod exemplar;
pub mod few_shot;
pub mod grounding;
pub mod legal;
mod lesson_rules;
pub mod machine;
pub mod prompt;
pub mod reply;
mod retry;
mod role;
mod run;
mod shown;
pub mod synthesis;
pub mod task_record;
mod transcript;

pub use drive::{AnswerRelease, CancelToken, EventSender, LiveTools, Session, SessionLog, ToolExecutor, stop_of};
pub use role::{role_has_checks, role_text};
pub use run::{FinishedTask, GOOD_SCORE, TaskRun};
pub use transcript::{HarvestRule, TRANSCRIPT_SCHEMA, Transcript, Turn};
