//! Time, randomness and names that are the same at every run.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use herm::ids::Random;
use herm::successor::statistics::SplitMix64;
use herm::{Clock, Digest, Result, TaskId, Timestamp};

/// 2026-01-01T00:00:00Z: when every measurement begins.
const BEGIN: i64 = 1_767_225_600_000;
/// How much later the next task is.
const STEP: i64 = 60_000;

/// A clock that moves by a minute from task to task, and otherwise stands still.
#[derive(Debug)]
pub(super) struct StepClock(AtomicI64);

impl StepClock {
    pub(super) fn new() -> Self {
        Self(AtomicI64::new(BEGIN))
    }

    /// Goes on to the next task.
    pub(super) fn step(&self) {
        self.0.fetch_add(STEP, Ordering::Relaxed);
    }
}

impl Clock for StepClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

/// Bytes from a seed.
#[derive(Debug)]
pub(super) struct SeededRandom(Mutex<SplitMix64>);

impl SeededRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(SplitMix64::new(seed)))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks_mut(8) {
            let next = stream.next_u64().to_le_bytes();
            piece.copy_from_slice(next.get(..piece.len()).unwrap_or_default());
        }
        Ok(())
    }
}

/// The name of a task: the same in every arm, so that what is drawn by it is drawn alike.
pub(super) fn task_id(family: &str, task: &str, number: usize) -> Result<TaskId> {
    let moment = BEGIN + STEP * i64::try_from(number).unwrap_or_default();
    let of: String = Digest::of(format!("{family}\0{task}").as_bytes())
        .bytes()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{moment:012x}-{of}").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_randomness_are_the_same_at_every_run() {
        let drawn = |seed| {
            let mut bytes = [0; 12];
            SeededRandom::new(seed).fill(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let clock = StepClock::new();
        clock.step();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:00.000Z");
    }

    #[test]
    fn a_task_is_named_by_its_family_its_own_name_and_its_place() {
        let id = task_id("ferry", "line-3", 2).unwrap();
        assert_eq!(id, task_id("ferry", "line-3", 2).unwrap());
        assert_ne!(id, task_id("ferr", "yline-3", 2).unwrap());
        assert!(id < task_id("ferry", "line-4", 3).unwrap());
        assert_eq!(id.as_str().len(), 12 + 1 + 16);
    }
}
