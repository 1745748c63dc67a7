//! What runs inside the sandbox: the worker, who speaks there, and the sessions and lives it generates.

mod lives;
mod meter;
pub(in crate::successor) mod sessions;
mod speakers;
pub(in crate::successor) mod worker;
