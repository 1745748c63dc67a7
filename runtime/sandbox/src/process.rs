//! A program that runs in its sandbox, seen from outside.

use std::fs::File;
use std::io::{self, Read};

use crate::error::SpawnError;
use crate::exit::SandboxExit;
use crate::linux;
use crate::report::SpawnReport;
use crate::spec::SandboxSpec;

/// Comes first in `main`. If this process was started as a stage of a sandbox, it builds the sandbox and never
/// returns. Otherwise it notes that this binary can be started again as a stage, and returns at once.
///
/// It must run before any thread is started and before anything is read from standard input.
pub fn run_if_reexec() {
    linux::take_over();
}

/// Starts a program in a sandbox. Blocks until the canary has passed and the program has started.
///
/// A thread supervises the sandbox until it has ended, so the calling thread may end.
pub fn spawn(spec: SandboxSpec) -> Result<SandboxProcess, SpawnError> {
    linux::spawn(spec)
}

/// A program that runs in its sandbox. Dropping it ends the program; see [`SandboxProcess::wait`].
#[derive(Debug)]
pub struct SandboxProcess {
    /// What stands around it.
    pub report: SpawnReport,
    /// Its standard input, if that is [`StdinMode::Piped`](crate::StdinMode::Piped).
    pub stdin: Option<File>,
    /// Its standard output, if that is [`OutputMode::Piped`](crate::OutputMode::Piped).
    pub stdout: Option<OutputReader>,
    /// Its standard error, if that is [`OutputMode::Piped`](crate::OutputMode::Piped).
    pub stderr: Option<OutputReader>,
    pub(crate) handle: linux::Handle,
}

impl SandboxProcess {
    /// Waits until the program has ended and nothing of the sandbox is left running. Closes standard input first. A
    /// program whose pipe is full does not end: take [`SandboxProcess::stdout`] and read it on another thread (or
    /// before) if it is piped.
    pub fn wait(mut self) -> SandboxExit {
        drop(self.stdin.take());
        self.handle.wait()
    }

    /// What ends it, from anywhere.
    pub fn killer(&self) -> Killer {
        Killer { inner: self.handle.killer() }
    }
}

/// Ends a sandbox, from any thread, as often as one likes.
#[derive(Debug, Clone)]
pub struct Killer {
    inner: linux::Killer,
}

impl Killer {
    /// Ends everything inside. Returns at once; [`SandboxProcess::wait`] returns when nothing is left.
    pub fn kill(&self) {
        self.inner.kill();
    }
}

/// Reads an output stream and counts it against [`SandboxLimits::output`](crate::SandboxLimits::output): past the limit the sandbox
/// is ended, and the stream with it.
#[derive(Debug)]
pub struct OutputReader {
    pub(crate) inner: linux::CountedPipe,
}

impl Read for OutputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}
