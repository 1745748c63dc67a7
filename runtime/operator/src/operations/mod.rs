//! What both the commands and the server do for an operator.
//!
//! An operation takes settings and validated arguments, and returns a value. It prints nothing, parses no command line and
//! knows no HTTP: `commands` makes text of its value, `serve` a response. Neither of these two imports the other; a test in
//! `tests/suite/layers.rs` reads their imports.

pub(crate) mod change_preview;
pub(crate) mod gate_status;
pub(crate) mod learning;
pub(crate) mod patches;
pub(crate) mod receipt_check;
pub(crate) mod server_requests;
pub(crate) mod verifier;
pub(crate) mod versions;

use herm::{Error, Result, Slug};

use crate::config::Settings;

/// A value as JSON. Everything given here is plain data.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(|source| Error::internal("the result is not JSON").because(source))
}

/// The skills of external directories, by name.
pub(crate) fn external_skills(settings: &Settings) -> Result<Vec<Slug>> {
    let mut dirs = settings.skills().skill_dirs()?;
    dirs.update()?;
    Ok(dirs.entries().map(|found| found.entry.place.slug.clone()).collect())
}
