//! What follows a session: the files are made durable, and what is kept only for a while is pruned.
//! The curator, the evolver and the snapshot join here, in this order.

use std::sync::Arc;

use super::{Harness, Inner, Place, Wanting, close_now};
use crate::brain::Brain;
use crate::error::{Error, Result};
use crate::ids::BrainId;

/// The files of a brain are made durable every so many steps, and when it is closed. Until then a crash
/// is repaired from the journal.
const STEPS_BETWEEN_FLUSHES: u64 = 16;

/// What a maintenance pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Maintained {
    /// Transcripts that were let go.
    pub transcripts: u64,
}

impl Harness {
    /// Maintains a brain now and waits for it. Runs by itself after each task.
    pub async fn maintain(&self, id: &BrainId) -> Result<Maintained> {
        let (mut place, wanting) = self.inner.open(id).await?;
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || {
            let brain = place.as_mut().ok_or_else(|| Error::internal("the brain is not open"))?;
            let maintained = maintain(brain, inner.keep_transcripts);
            drop(place);
            drop(wanting);
            inner.close_overweight();
            maintained
        });
        done.await.map_err(|_| Error::internal("maintenance was interrupted"))?
    }
}

impl Inner {
    /// Maintains the brain of a task that is done, lets go of its place, and closes brains that
    /// weigh too much.
    pub(super) fn maintain_place(&self, mut place: Place, wanting: Wanting) {
        if let Some(brain) = place.as_mut() {
            let due = brain.steps_since_flush() >= STEPS_BETWEEN_FLUSHES;
            if due && let Err(error) = maintain(brain, self.keep_transcripts) {
                tracing::warn!(brain = %brain.id(), %error, "maintenance did not finish; the next pass goes on");
            }
            wanting.weigh(brain.weight());
        }
        drop(place);
        drop(wanting);
        self.close_overweight();
    }

    /// Closes the brains that were unused the longest, until the rest fits.
    fn close_overweight(&self) {
        let overweight = self.pool.overweight();
        let any = !overweight.is_empty();
        for (place, id) in overweight {
            // Said in the log; the next open finishes what is left.
            let _ = close_now(place, &id);
        }
        if any {
            self.pool.tidy();
        }
    }
}

fn maintain(brain: &mut Brain, keep_transcripts: u64) -> Result<Maintained> {
    let transcripts = brain.prune_transcripts(keep_transcripts)?;
    brain.flush()?;
    Ok(Maintained { transcripts })
}
