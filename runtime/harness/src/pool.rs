//! Hydrated brains, one place each. A place is taken by one task at a time, first come first
//! served; brains nobody uses are closed when they weigh too much together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::brain::Brain;
use crate::ids::BrainId;

/// A brain's place, held.
pub(super) type BrainGuard = OwnedMutexGuard<Option<Brain>>;

#[derive(Debug, Default)]
struct Slot {
    brain: Arc<tokio::sync::Mutex<Option<Brain>>>,
    /// Tasks that hold the place or wait for it.
    wanted: AtomicUsize,
    used: AtomicU64,
    bytes: AtomicUsize,
}

/// The places of all brains.
#[derive(Debug)]
pub(super) struct Pool {
    slots: Mutex<HashMap<BrainId, Arc<Slot>>>,
    clock: AtomicU64,
    budget: usize,
}

/// Counts a task that wants a place for as long as it does.
#[derive(Debug)]
pub(super) struct Waiter(Arc<Slot>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Waiter {
    /// Notes what the brain weighs now.
    pub(super) fn weigh(&self, bytes: usize) {
        self.0.bytes.store(bytes, Ordering::SeqCst);
    }
}

impl Pool {
    pub(super) fn new(budget: usize) -> Self {
        Self { slots: Mutex::default(), clock: AtomicU64::new(0), budget }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<BrainId, Arc<Slot>>> {
        // The map is never left half changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a brain's place.
    pub(super) async fn take(&self, id: &BrainId) -> (BrainGuard, Waiter) {
        let slot = {
            let mut slots = self.slots();
            let slot = Arc::clone(slots.entry(id.clone()).or_default());
            slot.wanted.fetch_add(1, Ordering::SeqCst);
            slot
        };
        let wanting = Waiter(Arc::clone(&slot));
        let place = Arc::clone(&slot.brain).lock_owned().await;
        slot.used.store(self.clock.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        (place, wanting)
    }

    /// Takes out the brains that were unused the longest, until the rest fits the budget. The caller
    /// closes them; their places stay held until then.
    pub(super) fn overweight(&self) -> Vec<(BrainGuard, BrainId)> {
        let slots = self.slots();
        let mut total: usize = slots.values().map(|slot| slot.bytes.load(Ordering::SeqCst)).sum();
        if total <= self.budget {
            return Vec::new();
        }
        let mut oldest: Vec<(&BrainId, &Arc<Slot>)> = slots.iter().collect();
        oldest.sort_by_key(|(_, slot)| slot.used.load(Ordering::SeqCst));
        let mut out = Vec::new();
        for (id, slot) in oldest {
            if total <= self.budget {
                break;
            }
            let bytes = slot.bytes.load(Ordering::SeqCst);
            if bytes == 0 || slot.wanted.load(Ordering::SeqCst) > 0 {
                continue;
            }
            if let Ok(place) = Arc::clone(&slot.brain).try_lock_owned() {
                slot.bytes.store(0, Ordering::SeqCst);
                total -= bytes;
                out.push((place, id.clone()));
            }
        }
        out
    }

    /// Every brain that is open, as its place becomes free.
    pub(super) async fn all(&self) -> Vec<(BrainGuard, BrainId)> {
        let slots: Vec<(BrainId, Arc<Slot>)> =
            self.slots().iter().map(|(id, slot)| (id.clone(), Arc::clone(slot))).collect();
        let mut out = Vec::new();
        for (id, slot) in slots {
            let place = Arc::clone(&slot.brain).lock_owned().await;
            slot.bytes.store(0, Ordering::SeqCst);
            out.push((place, id));
        }
        out
    }

    /// Forgets places that hold nothing and that nobody wants.
    pub(super) fn tidy(&self) {
        let mut slots = self.slots();
        // A caller that wants a place has counted itself under this same lock.
        slots.retain(|_, slot| {
            slot.wanted.load(Ordering::SeqCst) > 0 || slot.brain.try_lock().map_or(true, |brain| brain.is_some())
        });
    }

    /// How many brains are open, and what they weigh.
    pub(super) fn weight(&self) -> (usize, usize) {
        let slots = self.slots();
        let weights = slots.values().map(|slot| slot.bytes.load(Ordering::SeqCst)).filter(|bytes| *bytes > 0);
        weights.fold((0, 0), |(count, total), bytes| (count + 1, total + bytes))
    }
}
