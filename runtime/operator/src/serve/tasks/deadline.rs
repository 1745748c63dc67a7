//! When a task has to be done: fixed once, when the task is accepted. Waiting, running and every attempt end by it.

use std::time::Duration;

use herm::Timestamp;
use tokio::time::Instant;

/// The moment by which a task has to be done. While the process lives it is measured in time that passed, so that a clock
/// that jumps makes no task late; for the next process it is kept as a moment of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline {
    /// The moment, by the clock.
    pub(super) at: Timestamp,
    /// The same, in time that passed.
    pub(super) until: Instant,
}

impl Deadline {
    /// Of a task that is accepted now and may take so long.
    pub(super) fn after(now: Timestamp, most: Duration) -> Self {
        Self { at: Timestamp(now.millis().saturating_add(millis(most))), until: Instant::now() + most }
    }

    /// Of a task that an earlier process accepted.
    /// A clock that was set back in between gives it no more time than it may take at all.
    pub(super) fn kept(at: Timestamp, now: Timestamp, most: Duration) -> Self {
        Self { at, until: Instant::now() + left(at, now).min(most) }
    }

    /// Of a task that lost so much time through no fault of its own.
    pub(super) fn later_by(self, lost: Duration) -> Self {
        Self { at: Timestamp(self.at.millis().saturating_add(millis(lost))), until: self.until + lost }
    }

    /// Whether the moment has come.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

fn left(at: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.millis().saturating_sub(now.millis())).unwrap_or(0))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn the_next_process_gives_a_task_what_is_left_of_its_time_and_no_more() {
        let accepted = Timestamp(1_000_000);
        let deadline = Deadline::after(accepted, MINUTE);
        assert_eq!((deadline.at, deadline.until), (Timestamp(1_060_000), Instant::now() + MINUTE));
        let left = |now: i64| Deadline::kept(deadline.at, Timestamp(now), MINUTE).until - Instant::now();
        assert_eq!(left(1_040_000), Duration::from_secs(20));
        assert_eq!(left(1_060_000), Duration::ZERO);
        assert_eq!(left(9_000_000), Duration::ZERO, "it passed while no process ran");
        assert_eq!(left(-9_000_000), MINUTE, "the clock was set back");
        let later = deadline.later_by(MINUTE);
        assert_eq!((later.at, later.until), (Timestamp(1_120_000), Instant::now() + 2 * MINUTE));
    }
}
