//! An exclusive lock between processes.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// An exclusive lock on a file, released when this value is dropped or its process dies.
#[derive(Debug)]
pub struct OsLock {
    _file: File,
}

impl OsLock {
    /// Takes the lock, waiting up to `wait` for the process that holds it; then `Conflict` names the holder. `what` is
    /// the thing locked, for the message ("brain 1").
    pub fn acquire(path: &Path, what: &str, wait: Duration) -> Result<Self> {
        // Not through a link: the file is emptied to hold its owner's number.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).map_err(|errno| match errno {
            Errno::LOOP => Error::refused(format!("{} is a symbolic link; a lock must be a file", path.display()))
                .hint("remove the link"),
            other => Error::io("open", path, other.into()),
        })?;
        let mut file = File::from(fd);
        let began = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(Error::io("lock", path, source)),
                Err(TryLockError::WouldBlock) => {}
            }
            let Some(left) = wait.checked_sub(began.elapsed()) else {
                return Err(held_by(&mut file, what, wait));
            };
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        // Only a help for processes that wait: the lock itself is the kernel's.
        let named =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = named {
            tracing::debug!(path = %path.display(), %error, "could not write the holder's pid");
        }
        Ok(Self { _file: file })
    }
}

fn held_by(file: &mut File, what: &str, wait: Duration) -> Error {
    let mut text = String::new();
    let holder = match file.rewind().and_then(|()| file.take(32).read_to_string(&mut text)) {
        Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
        _ => "another process".to_owned(),
    };
    Error::conflict(format!("{what} is held by {holder}; waited {} ms", wait.as_millis()))
        .hint("wait for it to finish, or raise the wait in the configuration (lock_wait_ms)")
        .passing()
}
