//! Both sides of an evaluation, seen from the parent: a worker in its sandbox each, the same cases for both, and what
//! they say turned into samples.

pub(in crate::successor) mod arms;
pub(in crate::successor) mod artifacts;
mod checking;
mod conversation;
pub(in crate::successor) mod side;
