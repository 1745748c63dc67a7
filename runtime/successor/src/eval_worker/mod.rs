//! What runs inside the sandbox: the worker, who speaks there, and the sessions and lives it generates.

mod backends;
pub(crate) mod context;
mod curation;
mod meter;
pub(crate) mod worker;
