//! Work on a thread of its own, which is handed one piece after the other.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::error::{Error, Result};

/// A thread that works through what it is handed. When more than a set number of bytes wait for it,
/// the sender waits too.
#[derive(Debug)]
pub(super) struct Pipeline<T, R> {
    /// None once there is no more.
    pieces: Option<Sender<(T, usize)>>,
    waiting: Arc<Waiting>,
    thread: JoinHandle<Result<R>>,
}

#[derive(Debug)]
struct Waiting {
    most: usize,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    bytes: usize,
    /// Nobody takes anything any more.
    is_over: bool,
}

impl Waiting {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, bytes: usize) {
        self.now().bytes -= bytes;
        self.changed.notify_all();
    }
}

/// What there is to do, in the order in which it was handed over.
#[derive(Debug)]
pub(super) struct PipelineInput<T> {
    receiver: Receiver<(T, usize)>,
    waiting: Arc<Waiting>,
    /// The bytes of the piece that is being worked on.
    taken: usize,
}

impl<T> Iterator for PipelineInput<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.waiting.release(std::mem::take(&mut self.taken));
        let (piece, bytes) = self.receiver.recv().ok()?;
        self.taken = bytes;
        Some(piece)
    }
}

impl<T> Drop for PipelineInput<T> {
    fn drop(&mut self) {
        self.waiting.now().is_over = true;
        self.waiting.changed.notify_all();
    }
}

impl<T: Send + 'static, R: Send + 'static> Pipeline<T, R> {
    /// Begins. `most` is how many bytes may wait.
    pub(super) fn spawn(most: usize, work: impl FnOnce(PipelineInput<T>) -> Result<R> + Send + 'static) -> Self {
        let (pieces, receiver) = channel();
        let waiting = Arc::new(Waiting { most, now: Mutex::default(), changed: Condvar::new() });
        let there = PipelineInput { receiver, waiting: Arc::clone(&waiting), taken: 0 };
        Self { pieces: Some(pieces), waiting, thread: std::thread::spawn(move || work(there)) }
    }

    /// Hands over a piece. Where the work has failed it is dropped; [`finish`](Self::finish) says why.
    pub(super) fn send(&self, piece: T, bytes: usize) {
        let mut now = self.waiting.now();
        // A piece that is larger than all that may wait is handed over alone.
        while !now.is_over && now.bytes > 0 && now.bytes.saturating_add(bytes) > self.waiting.most {
            now = self.waiting.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        now.bytes += bytes;
        drop(now);
        // Nobody there: the thread has ended with an error, which is what counts.
        let _ = self.pieces.as_ref().map(|pieces| pieces.send((piece, bytes)));
    }

    /// Says that there is no more to do; the work goes on to its end.
    pub(super) fn close_input(&mut self) {
        self.pieces = None;
    }

    /// Waits until everything is done; what came of it.
    pub(super) fn finish(self) -> Result<R> {
        drop(self.pieces);
        self.thread.join().map_err(|_| Error::internal("work on another thread was interrupted"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_done_in_order_and_few_wait() {
        let adding = Pipeline::spawn(10, |pieces: PipelineInput<u64>| Ok(pieces.collect::<Vec<_>>()));
        for piece in 0..1_000 {
            adding.send(piece, if piece == 500 { 100 } else { 3 });
            assert!(adding.waiting.now().bytes <= 103);
        }
        assert_eq!(adding.finish().unwrap(), (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn whoever_hands_over_to_work_that_failed_does_not_wait_forever() {
        let failing = Pipeline::spawn(10, |mut pieces: PipelineInput<u8>| -> Result<()> {
            pieces.next();
            Err(Error::invalid("no more"))
        });
        for piece in 0..100 {
            failing.send(piece, 9);
        }
        assert_eq!(failing.finish().unwrap_err().message(), "no more");
    }
}
