//! The curator and the evolver: skills that go unused are retired, skills with evidence are improved.
//!
//! Knows nothing of models, tools and running tasks: it reads the evidence that tasks left in a brain.

use herm_brain::{brain, memory, semantic, tuning};
use herm_core::{clock, error, fsio, ids, layout, redact, text};
use herm_skills as skill;

pub mod curator;
pub mod evolver;
