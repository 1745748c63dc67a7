//! The tools an agent may call, one file a tool. Each is a plain function over values; the task
//! loop wraps it with its argument schema, its permission and its limits.

mod pattern;
mod scan;

pub use pattern::{Pattern, Severity};
pub use scan::{Hit, scan};
