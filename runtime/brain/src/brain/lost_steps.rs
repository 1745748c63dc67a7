//! What stands beside `memory.db` and is further than it. A step is committed and synced before its lock, its files and
//! its receipt are written, so nothing can rightly be ahead: where something is, `memory.db` has lost steps that were
//! acknowledged. That is evidence. Nothing is written while it stands; [`repair`](super::repair) deals with it.

use super::receipt_log::LastReceipt;
use crate::bundle::Lockfile;
use crate::error::{Error, ErrorKind, Result};
use crate::fsio::Root;
use crate::ids::BrainId;
use crate::layout;

/// What stands beside `memory.db`. Read before `memory.db` is: then it is never further, however fast an owner settles.
#[derive(Debug, Clone, Default)]
pub(super) struct SideFiles {
    lock: Option<Lockfile>,
    receipt_bytes: u64,
}

/// What is further than `memory.db`.
#[derive(Debug, Clone)]
pub(super) struct SurplusFiles {
    /// The lock of a later step, or of another one of the same number.
    pub(super) lock: Option<Lockfile>,
    /// `receipts.ndjson` is longer than the receipts of `memory.db`: by so many bytes.
    pub(super) receipt_bytes: u64,
}

impl SideFiles {
    pub(super) fn read(root: &Root) -> Result<Self> {
        let lock = match root.read(&layout::rel(layout::LOCK)?, 1 << 20) {
            // Far too large to be a lock; it shows as drift.
            Err(error) if error.kind() == ErrorKind::InvalidInput => None,
            read => read?.and_then(|bytes| Lockfile::parse(&bytes).ok()),
        };
        let receipts = root.stat(&layout::rel(layout::RECEIPTS)?)?;
        Ok(Self { lock, receipt_bytes: receipts.map_or(0, |stat| stat.size) })
    }

    /// What of it is further than the lock and the last receipt of `memory.db`.
    pub(super) fn ahead_of(&self, lock: &Lockfile, last: &LastReceipt) -> Option<SurplusFiles> {
        let is_other = |found: &&Lockfile| {
            found.version > lock.version || (found.version == lock.version && found.bundle_hash != lock.bundle_hash)
        };
        let ahead = SurplusFiles {
            lock: self.lock.as_ref().filter(is_other).cloned(),
            receipt_bytes: self.receipt_bytes.saturating_sub(last.ends_at),
        };
        (ahead.lock.is_some() || ahead.receipt_bytes > 0).then_some(ahead)
    }
}

impl SurplusFiles {
    pub(super) fn into_error(self, id: &BrainId, lock: &Lockfile) -> Error {
        let mut further = Vec::new();
        if let Some(found) = &self.lock {
            let other = if found.version == lock.version { "another version" } else { "version" };
            further.push(format!("{} is of {other} {}", layout::LOCK, found.version));
        }
        if self.receipt_bytes > 0 {
            further.push(format!("{} is {} bytes longer", layout::RECEIPTS, self.receipt_bytes));
        }
        Error::corrupt(format!(
            "memory.db of brain {id} ends at version {}, and {}: it has lost steps that were acknowledged; nothing was changed",
            lock.version,
            further.join(", and ")
        ))
        .hint(format!(
            "`herm brain repair {id}` names what is lost and can go on without it; a snapshot may have these steps"
        ))
    }
}
