//! What a caller holds of a sandbox: the ways to end it, to read what it says, and to hear how it ended.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Signal, pidfd_send_signal};

use crate::exit::{ExitReason, ResourceUsage, SandboxExit};
use crate::limits::LimitKind;

/// Why a sandbox was ended from outside, and when that was decided.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) how: ExitReason,
    pub(crate) at: Instant,
}

/// What the supervisor and everyone who may end the sandbox share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The init. The kernel ends everything inside with it.
    pub(crate) init: OwnedFd,
    verdict: Mutex<Option<Verdict>>,
    /// Written to wake the supervisor.
    pub(crate) wake: OwnedFd,
    output: AtomicU64,
    output_limit: u64,
}

impl Shared {
    pub(crate) fn new(init: OwnedFd, output_limit: u64) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        Ok(Self { init, verdict: Mutex::new(None), wake, output: AtomicU64::new(0), output_limit })
    }

    /// Ends everything inside. The first reason counts.
    pub(crate) fn end(&self, how: ExitReason) {
        {
            let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
            verdict.get_or_insert(Verdict { how, at: Instant::now() });
        }
        // It may have ended by itself.
        let _ = pidfd_send_signal(&self.init, Signal::KILL);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    pub(crate) fn exceed(&self, budget: LimitKind, limit: u64, used: u64) {
        self.end(ExitReason::Exceeded { budget, limit, used });
    }

    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts output that was read. Returns how much of it is within the limit; past it, the sandbox is ended.
    pub(crate) fn count_output(&self, bytes: usize) -> usize {
        let before = self.output.fetch_add(bytes as u64, Ordering::SeqCst);
        let after = before.saturating_add(bytes as u64);
        if after > self.output_limit {
            self.exceed(LimitKind::Output, self.output_limit, after);
        }
        usize::try_from(self.output_limit.saturating_sub(before)).unwrap_or(usize::MAX).min(bytes)
    }

    pub(crate) fn output(&self) -> u64 {
        self.output.load(Ordering::SeqCst)
    }
}

/// A caller's hold on a sandbox.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ending: Option<Receiver<SandboxExit>>,
    /// The supervisor's thread, gone when the ending is told.
    pub(crate) thread: Option<JoinHandle<()>>,
}

impl Handle {
    pub(crate) fn wait(&mut self) -> SandboxExit {
        let ending = self.ending.take().and_then(|ending| ending.recv().ok());
        if let Some(thread) = self.thread.take() {
            // If it panicked there is no ending either, and that is told.
            let _ = thread.join();
        }
        ending.unwrap_or_else(|| {
            let how = ExitReason::Broken("the thread that supervised the sandbox is gone".into());
            SandboxExit { how, used: ResourceUsage::default(), terminated_within: None }
        })
    }

    pub(crate) fn killer(&self) -> Killer {
        Killer { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.ending.is_some() {
            self.shared.end(ExitReason::Killed);
            self.wait();
        }
    }
}

/// Ends a sandbox from any thread; clones end the same one.
#[derive(Debug, Clone)]
pub(crate) struct Killer {
    shared: Arc<Shared>,
}

impl Killer {
    pub(crate) fn kill(&self) {
        self.shared.end(ExitReason::Killed);
    }
}

/// A stream of the program, counted as it is read.
#[derive(Debug)]
pub(crate) struct CountedPipe {
    pub(crate) pipe: File,
    pub(crate) shared: Arc<Shared>,
}

impl CountedPipe {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.pipe.read(buffer)?;
        Ok(self.shared.count_output(count))
    }
}
