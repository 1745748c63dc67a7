//! The task loop: a pure state machine, its driver, and the traits of backends and tools.
//!
//! Knows no backend and no tool by name, and nothing of queues, snapshots or what is learned between tasks.

use herm_brain::{brain, memory, semantic, tuning};
#[cfg(feature = "sandbox")]
use herm_core::fsio;
use herm_core::{clock, error, ids, layout, redact, schema, text};
use herm_skills as skill;

pub mod backend;
pub mod session;
pub mod task;
pub mod tool;
