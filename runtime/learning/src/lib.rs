//! The curator, the evolver and trials: skills that go unused are retired, skills with evidence are improved, and what was
//! learned is shown to some tasks and held back from others until the difference is known.
//!
//! - [`curator`] moves skills from active to stale to archived by when they were last used, and back by hand.
//! - [`evolver`] reads the evidence that tasks left, finds failures that recur with what worked instead, and writes them into
//!   the skill that was loaded, where a person allowed it.
//! - [`trial`] decides from outcomes whether what was learned helps.
//!
//! It knows nothing of models, tools and running tasks: it reads what tasks left in a brain, and settles steps of its own.
//! Decisions are pure:
//!
//! ```
//! use herm_learning::evolver::outcome::{OutcomeSample, OutcomeVerdict, compare};
//!
//! // What was counted in the tasks that had a skill loaded, before its block was written and after.
//! let side = |errors| OutcomeSample {
//!     sessions: 40,
//!     calls: 200,
//!     errors,
//!     turns_sum: 160,
//!     turns_squares: 680,
//!     completed: 38,
//!     rated: 0,
//!     score_hundredths: 0,
//! };
//! assert_eq!(compare(&side(60), &side(10)).verdict, OutcomeVerdict::Better);
//! assert_eq!(compare(&side(10), &side(60)).verdict, OutcomeVerdict::Worse);
//! assert_eq!(compare(&side(10), &side(11)).verdict, OutcomeVerdict::NoDifference);
//! ```
//!
//! # Features
//!
//! None.

use herm_brain::{brain, memory, semantic, tuning};
use herm_core::{clock, error, fsio, ids, layout, redact, text};
use herm_skills as skill;

pub mod curator;
pub mod evolver;
pub mod trial;
