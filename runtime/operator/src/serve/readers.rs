//! Brains that are looked at again and again: a few of them stay open for looking.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herm::brain::{BrainCounts, BrainManifest};
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
    /// What reads the brain, without its lock.
    pub(crate) reader: Reader,
    /// Which directory it was opened in: a restored brain is another one under the same name.
    place: (u64, u64),
    skills: Option<(Digest, Instant, Arc<Vec<SkillRow>>)>,
    figures: Option<(Digest, Figures)>,
}

/// What is said of a brain as a whole: its manifest, how much it holds, and which skills cannot be loaded.
type Figures = (Option<BrainManifest>, BrainCounts, Value);

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
    pub(crate) fn skills(&mut self, now: herm::Timestamp) -> Result<Arc<Vec<SkillRow>>> {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};

    use herm::{Brain, BrainOptions, BrainSource, Seed};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn however_many_look_at_brains_only_so_many_do_at_once() {
        const ROOM: usize = 3;
        let dir = tempfile::tempdir().unwrap();
        let (layout, id) = (Layout::new(dir.path().join("brains")), "7".parse::<BrainId>().unwrap());
        let files: [(&str, &[u8]); 1] = [("system.md", b"You look on.\n")];
        let source = BrainSource::Seed(Seed { id: &id, files: &files });
        Brain::hydrate(&layout, &id, &source, &BrainOptions::default()).unwrap().0.close().unwrap();
        let readers = Arc::new(Readers { room: Semaphore::new(ROOM), ..Readers::default() });
        // Each look waits until as many as have room are inside, so that they do meet.
        let met = Arc::new((Mutex::new(0_usize), Condvar::new()));
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut looking = tokio::task::JoinSet::new();
        for _ in 0..8 * ROOM {
            let (readers, layout, id) = (Arc::clone(&readers), layout.clone(), id.clone());
            let (met, inside, most) = (Arc::clone(&met), Arc::clone(&inside), Arc::clone(&most));
            looking.spawn(async move {
                let looked = readers.look(&layout, &id, move |look| {
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let (arrived, changed) = &*met;
                    let mut arrived = arrived.lock().unwrap();
                    *arrived += 1;
                    changed.notify_all();
                    drop(changed.wait_while(arrived, |arrived| *arrived < ROOM).unwrap());
                    inside.fetch_sub(1, Ordering::SeqCst);
                    Ok(look.reader.lock().version)
                });
                looked.await.unwrap()
            });
        }
        assert_eq!(looking.join_all().await, vec![1; 8 * ROOM]);
        assert_eq!(most.load(Ordering::SeqCst), ROOM);
    }
}
