//! Runs a program where it can reach nothing but what it was given, and ends it when it takes too much.
//!
//! A sandbox is a process tree in namespaces of its own: a root that holds only what [`SandboxSpec::binds`] lists, one
//! writable directory at `/work`, a network with nothing but its own loopback, no capabilities, a system-call filter
//! and, where the kernel has it, Landlock. Before the program starts, a canary tries to get out with exactly the
//! program's restrictions; the program starts only when every attempt failed. What the program may take is bounded
//! by [`SandboxLimits`], and crossing one ends everything inside.
//!
//! The caller's own binary is started again for the stages that build the sandbox,
//! so [`run_if_reexec`] comes first in `main`:
//!
//! ```no_run
//! use herm_sandbox::{ExitReason, SandboxLease, SandboxProgram, SandboxSpec};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     herm_sandbox::run_if_reexec();
//!     let lease = SandboxLease::take("/var/lib/herm/sandboxes")?;
//!     let mut spec = SandboxSpec::new(SandboxProgram::At("/bin/sh".into()), &lease);
//!     spec.args = vec!["-c".into(), "echo hello > /work/said".into()];
//!     spec.binds = herm_sandbox::Bind::system();
//!     let ending = herm_sandbox::spawn(spec)?.wait();
//!     assert_eq!(ending.how, ExitReason::Exited(0));
//!     assert_eq!(std::fs::read_to_string(lease.work().join("said"))?, "hello\n");
//!     Ok(())
//! }
//! ```
//!
//! It knows nothing of herm. It is the one package with `unsafe` code, and each block says why it is sound.
//!
//! # Features
//!
//! None. Linux only: elsewhere the crate compiles, and [`available`] says that there is no sandbox.
//!
//! What stands between the program and the host is described in `docs/reference/sandbox.md`, with what each layer stops.

mod availability;
mod channel;
mod error;
mod exit;
pub mod janitor;
mod limits;
mod process;
mod report;
mod spec;

#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod linux;

pub use availability::{Availability, available};
pub use channel::channel;
pub use error::SpawnError;
pub use exit::{ExitReason, ResourceUsage, SandboxExit};
pub use janitor::SandboxLease;
pub use limits::{LimitKind, SandboxLimits};
pub use process::{Killer, OutputReader, SandboxProcess, run_if_reexec, spawn};
pub use report::{LayerReport, ProbeResult, SpawnReport, Tier};
pub use spec::{
    Bind, CHANNEL_DESCRIPTOR, CHANNEL_VARIABLE, CgroupPolicy, OutputMode, SandboxLayer, SandboxLayers, SandboxProgram,
    SandboxSpec, StdinMode, TIER_VARIABLE, TierPolicy,
};
