//! Both sides of an evaluation, seen from the parent: a worker in its sandbox each, the same cases for both, and what
//! they say turned into samples.

pub(crate) mod artifacts;
mod checking;
mod conversation;
pub(crate) mod eval_runner;
pub(crate) mod worker_handle;
