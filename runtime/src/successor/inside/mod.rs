//! What runs inside the sandbox: the worker, who speaks there, and the sessions it generates.

pub(in crate::successor) mod sessions;
mod speakers;
pub(in crate::successor) mod worker;
