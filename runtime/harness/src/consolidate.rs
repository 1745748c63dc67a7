//! After sessions: skills of the agent's own that say nearly the same become one, as the evolver may.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Inner;
use crate::brain::Brain;
use crate::error::Result;
use crate::evolver::consolidation::pass::{self, ConsolidationReport};

impl Inner {
    /// Looks for skills to merge, where the evolver is on and the agent's skills are not those that were compared last.
    pub(super) fn consolidate(&self, brain: &mut Brain) -> Result<Option<ConsolidationReport>> {
        let Some(evolving) = self.evolving.as_ref() else { return Ok(None) };
        let compared = || self.consolidated.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = compared().get(brain.id()).copied().unwrap_or_default();
        let report = pass::run(brain, &evolving.routine.options, &mut memory)?;
        compared().insert(brain.id().clone(), memory);
        let changed = report.changed();
        if changed > 0 {
            self.counted.evolved.fetch_add(changed as u64, Ordering::Relaxed);
            tracing::info!(brain = %brain.id(), changed, "skills that say nearly the same were found");
        }
        Ok((!report.is_empty()).then_some(report))
    }
}
