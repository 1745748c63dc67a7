//! The end of a process that judges: nothing of its forks is left behind.

use super::fork::forks;
use crate::error::{Error, Result};
use crate::layout::Layout;

/// Ends and removes every sandbox that this process has under a brains directory, and makes no more. What still runs on
/// threads of its own comes to nothing.
pub fn close(layout: &Layout) -> Result<herm_sandbox::janitor::SweepReport> {
    let root = forks(layout);
    herm_sandbox::janitor::close(&root).map_err(|source| Error::io("tidy", &root, source))
}
