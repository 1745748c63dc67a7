//! What runs inside the sandbox: the worker, who speaks there, and the sessions and lives it generates.

mod lives;
mod meter;
pub(crate) mod sessions;
mod speakers;
pub(crate) mod worker;
