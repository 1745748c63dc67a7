//! Whether a sandbox can be built here.

use serde::Serialize;

use crate::report::{LayerReport, Tier};

/// Whether a sandbox can be built here, and what would stand around a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Availability {
    /// The best tier that works, if one does.
    pub tier: Option<Tier>,
    /// The layers that depend on the kernel, and how they would stand.
    pub layers: Vec<LayerReport>,
    /// Why each tier that does not work does not.
    pub why_not: Vec<(Tier, String)>,
}

/// Looks whether a sandbox can be built here. It costs a few milliseconds: namespaces are really made, by a process
/// that does nothing else. Whether the sandbox *holds* is asked by the canary, at every spawn.
pub fn available() -> Availability {
    crate::linux::available()
}
