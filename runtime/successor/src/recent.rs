//! Which recorded tasks a patch can be tried on: those that the brain did as it is now. A task from before its role, its
//! manifest, its tuning or a file of the patch last changed was done by another one, to which the patch may not even fit.

use std::collections::BTreeSet;

use crate::brain::{Reader, StepKind};
use crate::error::Result;
use crate::layout;
use crate::patch::Patch;

/// How far back tasks are looked for.
const MOST_STEPS: usize = 5_000;

/// The tasks that the brain did as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Recent {
    receipts: BTreeSet<u64>,
}

impl Recent {
    /// The tasks since what the patch rests on last changed.
    pub(super) fn of(reader: &Reader, patch: &Patch) -> Result<Self> {
        let mut paths = [layout::SYSTEM, layout::MANIFEST, layout::TUNING]
            .map(layout::rel)
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        paths.extend(patch.files());
        let changed = reader.file_versions(&paths, 1)?.iter().map(|last| last.version).max().unwrap_or(0);
        let mut receipts = BTreeSet::new();
        for step in reader.history(MOST_STEPS)?.into_iter().filter(|step| step.kind == StepKind::Task) {
            if step.version > changed {
                receipts.extend(reader.receipt_of(step.seq)?);
            }
        }
        Ok(Self { receipts })
    }

    /// Those of these receipts that are of such tasks, in their order, and how many are not.
    pub(super) fn among(&self, receipts: &[u64]) -> (Vec<u64>, usize) {
        let recent: Vec<u64> = receipts.iter().copied().filter(|receipt| self.receipts.contains(receipt)).collect();
        let earlier = receipts.len() - recent.len();
        (recent, earlier)
    }
}
