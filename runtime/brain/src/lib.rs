//! A brain on disk: memory, bundle hash, steps that are committed atomically, receipts, history.
//!
//! Knows nothing of models, tools and tasks: a step is whatever its caller put into a draft.

use herm_core::{clock, error, fsio, ids, layout, redact, text};
use herm_skills as skill;

pub mod brain;
pub mod bundle;
pub mod memory;
pub mod receipt;
pub mod semantic;
pub mod tuning;
