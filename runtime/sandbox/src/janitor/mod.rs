//! What a sandbox leaves on the host, and its removal when the parent died before it could do that itself.
//!
//! Every sandbox lives under a [`SandboxLease`]: a directory whose lease file is locked as long as its owner lives, and which
//! names the control groups and processes of the sandbox. [`sweep`] removes what leases without an owner name. It never
//! touches a lease that is held, and running it twice, or from two processes at once, does no harm. [`close`] does the same
//! with this process's own leases, before it ends.

mod lease;
mod sweep;

pub use lease::SandboxLease;
#[cfg(target_os = "linux")]
pub(crate) use lease::{Entry, LEASE};
pub use sweep::{SweepReport, close, sweep};
