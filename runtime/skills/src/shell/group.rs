//! A process with everything it started, and what it says. Both are bounded: the group ends with its
//! value, and of each pipe only the first bytes are kept.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Bytes of output that are kept: more than [`super::MAX_OUTPUT`] characters ever need. The rest is
/// read and dropped, so that the command can finish.
const KEPT_OUTPUT: usize = 64 * 1024;
/// Bytes of standard error that are kept.
const KEPT_ERRORS: usize = 4 * 1024;

/// A process and everything it started that stayed in its group. All of it ends with this value.
pub(super) struct Group {
    /// Never waited for before the group is ended: until then its number cannot be given to another.
    child: Child,
    id: Pid,
    is_over: bool,
}

impl Group {
    pub(super) fn new(mut child: Child) -> io::Result<(Self, Streams)> {
        let pipes = (child.stdout.take(), child.stderr.take());
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some(id), (Some(output), Some(errors))) = (id, pipes) else {
            // Cannot happen with pipes asked for; without a number there is no group to end.
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("it has no pipes"));
        };
        let streams = Streams {
            output: Stream::new(output.into(), KEPT_OUTPUT),
            errors: Stream::new(errors.into(), KEPT_ERRORS),
        };
        Ok((Self { child, id, is_over: false }, streams))
    }

    /// Whether the process has ended; it stays unreaped.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.id), options) {
            Ok(status) => Ok(status.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends what is left of the group, and says how the process ended.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_over {
            self.is_over = true;
            // It fails only where nothing is left to end.
            let _ = kill_process_group(self.id, Signal::KILL);
        }
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What a command writes.
pub(super) struct Streams {
    pub(super) output: Stream,
    pub(super) errors: Stream,
}

impl Streams {
    pub(super) fn are_open(&self) -> bool {
        self.output.pipe.is_some() || self.errors.pipe.is_some()
    }

    /// Waits until there is something to read, at most `wait`, and reads some of it. `None` if there
    /// was nothing, else the number of bytes, which is 0 at a pipe's end.
    pub(super) fn take(&mut self, wait: Duration) -> io::Result<Option<usize>> {
        let mut open: Vec<&mut Stream> =
            [&mut self.output, &mut self.errors].into_iter().filter(|stream| stream.pipe.is_some()).collect();
        let ready: Vec<bool> = {
            let pipes = open.iter().filter_map(|stream| stream.pipe.as_ref());
            let mut polled: Vec<PollFd<'_>> =
                pipes.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)).collect();
            let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
            match poll(&mut polled, Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            polled.iter().map(|polled| !polled.revents().is_empty()).collect()
        };
        let mut taken = None;
        for (stream, _) in open.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            taken = Some(taken.unwrap_or(0) + stream.read()?);
        }
        Ok(taken)
    }
}

/// One pipe of a command, of which the first bytes are kept.
pub(super) struct Stream {
    pipe: Option<File>,
    kept: Vec<u8>,
    most: usize,
    is_cut: bool,
}

impl Stream {
    fn new(pipe: OwnedFd, most: usize) -> Self {
        Self { pipe: Some(File::from(pipe)), kept: Vec::new(), most, is_cut: false }
    }

    /// Reads what is there. Only called when there is something, so it does not wait.
    fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 8 * 1024];
        let Some(pipe) = &mut self.pipe else { return Ok(0) };
        let count = match pipe.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(error),
        };
        if count == 0 {
            self.pipe = None;
        }
        let fits = count.min(self.most.saturating_sub(self.kept.len()));
        self.kept.extend_from_slice(chunk.get(..fits).unwrap_or_default());
        self.is_cut |= fits < count;
        Ok(count)
    }

    /// What was kept, as text, with a mark where bytes were dropped. A last word that was cut through
    /// is left out: half a key looks like none, and would be shown.
    pub(super) fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        if self.is_cut {
            text.truncate(text.rfind(char::is_whitespace).unwrap_or(text.len()));
            text.push_str(&format!("\n[cut here: more than {} bytes]", self.most));
        }
        text
    }
}
