//! Brains that are looked at again and again: a few of them stay open for looking.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herm::brain::{Counts, Manifest};
use herm::{BrainId, Digest, Error, Layout, Reader, Result};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::skills::SkillRow;

/// How many stay open.
const IDLE: usize = 32;
/// For how long a list of skills is shown as it was: evidence moves without the brain.
const FRESH: Duration = Duration::from_secs(2);

/// A brain that is looked at.
pub(crate) struct Look {
    id: BrainId,
    /// The brain.
    pub(crate) reader: Reader,
    /// Which directory it was opened in: a restored brain is another one under the same name.
    place: (u64, u64),
    skills: Option<(Digest, Instant, Arc<Vec<SkillRow>>)>,
    figures: Option<(Digest, Figures)>,
}

/// What is said of a brain as a whole: its manifest, how much it holds, and which skills cannot be loaded.
type Figures = (Option<Manifest>, Counts, Value);

impl Look {
    /// What is said of the brain as a whole; made again when it moved.
    pub(crate) fn figures(&mut self) -> Result<Figures> {
        let hash = self.reader.lock().bundle_hash;
        if let Some((known, figures)) = &self.figures
            && *known == hash
        {
            return Ok(figures.clone());
        }
        let index = self.reader.skills()?;
        let figures = (self.reader.manifest()?, self.reader.counts(&index)?, json!(index.problems()));
        self.figures = Some((hash, figures.clone()));
        Ok(figures)
    }

    /// The skills with everything that lists say of them; made again when the brain moved.
    pub(crate) fn skills(&mut self, now: herm::Moment) -> Result<Arc<Vec<SkillRow>>> {
        let hash = self.reader.lock().bundle_hash;
        if let Some((known, at, rows)) = &self.skills
            && *known == hash
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(rows));
        }
        let rows = Arc::new(super::skills::rows(&self.reader, now)?);
        self.skills = Some((hash, Instant::now(), Arc::clone(&rows)));
        Ok(rows)
    }
}

/// Brains that are open for looking, those used last at the end.
pub(crate) struct Readers {
    idle: Mutex<VecDeque<Look>>,
    /// So many look at once: tasks need the same threads.
    room: Semaphore,
}

impl Default for Readers {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { idle: Mutex::default(), room: Semaphore::new(2 * cores) }
    }
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    fn idle(&self) -> std::sync::MutexGuard<'_, VecDeque<Look>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a brain, off the executor's threads.
    pub(crate) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        layout: &Layout,
        id: &BrainId,
        work: impl FnOnce(&mut Look) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // The semaphore is never closed.
        let _room = self.room.acquire().await;
        let (readers, layout, id) = (Arc::clone(self), layout.clone(), id.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let mut look = readers.open(&layout, &id)?;
            let done = work(&mut look);
            // A reader that met an error may have met damage: it is not kept.
            if done.is_ok() {
                readers.put_back(look);
            }
            done
        });
        looking.await.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }

    fn open(&self, layout: &Layout, id: &BrainId) -> Result<Look> {
        let known = {
            let mut idle = self.idle();
            let at = idle.iter().rposition(|look| look.id == *id);
            at.and_then(|at| idle.remove(at))
        };
        let here = || layout.brain(id).metadata().map(|meta| (meta.dev(), meta.ino())).ok();
        // Before it is opened: one that takes its place meanwhile is noticed the next time.
        let place = here();
        if let Some(mut look) = known
            && place == Some(look.place)
        {
            look.reader.refresh()?;
            return Ok(look);
        }
        let reader = Reader::open(layout, id)?;
        Ok(Look { id: id.clone(), reader, place: place.unwrap_or_default(), skills: None, figures: None })
    }

    fn put_back(&self, look: Look) {
        let mut idle = self.idle();
        idle.push_back(look);
        if idle.len() > IDLE {
            let oldest = idle.pop_front();
            // Closing takes a moment; nobody need wait for it.
            drop(idle);
            drop(oldest);
        }
    }
}
