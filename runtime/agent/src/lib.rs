//! The task loop: a pure state machine, its driver, and the traits of backends and tools.
//!
//! | module | has |
//! |---|---|
//! | [`backend`] | the trait [`Backend`](backend::Backend), requests and replies, routing and retries |
//! | [`tool`] | the trait [`Tool`](tool::Tool), its [`ToolSpec`](tool::ToolSpec), dispatch within time and size, the working copy |
//! | [`task`] | [`Task`](task::Task), [`TaskLimits`](task::TaskLimits), [`Outcome`](task::Outcome), [`TaskEvent`](task::TaskEvent) |
//! | [`checks`] | what an answer is worth: the checks that a role declares |
//! | [`session`] | the machine that decides, the driver that waits, prompt, reply parser, transcript, worked examples |
//!
//! It knows no backend by name, and nothing of queues, snapshots or what is learned between tasks. Of the
//! standard tools, its rules name those of skills and memory.
//!
//! The machine takes replies and results, and says what to do next. It reads no clock and does no IO:
//!
//! ```
//! use herm_agent::backend::FinishReason;
//! use herm_agent::session::machine::{Machine, Next, SessionRules};
//! use herm_agent::task::StopReason;
//!
//! let rules = SessionRules::default(); // no tools, 8 turns
//! let mut machine = Machine::new(rules, "You answer in JSON.".into(), "six times seven".into());
//! let Next::Ask(question) = machine.next() else { panic!("it begins with a question") };
//! assert_eq!((question.turn, question.messages.len()), (1, 2));
//!
//! machine.hear(r#"{"answer": 42}"#, FinishReason::Stop);
//! let Next::Done(stop) = machine.next() else { panic!("that was an answer") };
//! assert_eq!(stop.reason, StopReason::Final);
//! assert_eq!(stop.answer.as_deref(), Some(r#"{"answer": 42}"#));
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `sandbox` | off | [`tool`]`::SandboxedPrograms`: programs that stand in for tools run inside a sandbox (Linux) |

use herm_brain::{brain, memory, semantic, tuning};
#[cfg(feature = "sandbox")]
use herm_core::fsio;
use herm_core::{clock, error, ids, layout, redact, schema, text};
use herm_skills as skill;

pub mod backend;
pub mod checks;
pub mod session;
pub mod task;
pub mod tool;
