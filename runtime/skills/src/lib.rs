//! Skills: procedural memory in Markdown.
//!
//! Read leniently, written strictly. A [`Document`] keeps the exact text of a file and reads its
//! front matter entry by entry, so one broken key never costs the others; [`rules`] says what a
//! strict reader objects to, and how to put it right. The [`Index`] is what a prompt shows, the
//! [`store`] is how skills change, and [`SkillUsage`] is what is known of a skill besides its text.
//! A [`command`] asks for a skill by name, [`preprocess`] makes its text ready for the model, and
//! [`setup`] says what it needs before it works. [`import`] takes over skills from elsewhere.
//! [`provenance`] is the gate that everything unattended writes through, and a [`change`] is what waits there.
//! A [`shelf`] holds skills that stay outside, and [`visible`] says which of all these an agent sees.
//!
//! The format is described in `docs/reference/skill.md`.

use herm_core::{clock, error, fsio, ids, layout, redact, text};

pub mod body;
mod catalog;
pub mod change;
pub mod command;
mod document;
mod files;
mod finding;
mod front_matter;
pub mod guard;
pub mod import;
mod index;
mod leniency;
mod place;
pub mod preprocess;
pub mod provenance;
pub mod quotation;
pub mod rules;
pub mod setup;
mod severity;
pub mod shelf;
pub mod shell;
mod standing;
pub mod store;
pub mod template;
mod usage;
mod value;
pub mod visible;

pub use catalog::SkillCatalog;
pub use document::{Document, Unreadable};
pub use files::Files;
pub use finding::{Rule, Severity, SkillFinding};
pub use index::{Delta, Index, SkillEntry, SkillProblem};
pub use place::is_main_file_below;
pub use place::{Form, MAIN_FILES, SkillLocation, all as all_skills};
pub use severity::PatternSeverity;
pub use shelf::{ExternalSkill, SkillDirs};
pub use standing::SkillLifecycle;
pub use store::{file_path, file_text, support_path};
pub use usage::{CreatedBy, SkillState, SkillUsage, sidecar};
pub use value::FrontMatterValue;
