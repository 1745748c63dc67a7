//! A clock that moves only when told to.

use std::sync::atomic::{AtomicI64, Ordering};

use herm::{Clock, Timestamp};

/// A clock for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Starts at 2026-01-02T03:04:05Z.
    pub fn new() -> Self {
        Self(AtomicI64::new(1_767_323_045_000))
    }

    /// Moves on.
    pub fn advance_ms(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
