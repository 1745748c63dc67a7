//! A directory for a sandbox, with a lock that says its owner lives.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::linux::place;

/// The file that is locked, and that names what is to be removed.
pub(crate) const LEASE: &str = "lease";
/// The lock of a whole root: taken while a lease is made and while one sweeps.
pub(crate) const ROOT_LOCK: &str = ".lock";

/// A directory for one sandbox at a time. The last clone that is dropped removes the directory with everything in it,
/// so what the program made is read before that.
#[derive(Debug, Clone)]
pub struct Lease {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    directory: PathBuf,
    /// Locked as long as it is open.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it is held, and nothing is noted in it"))]
    file: Mutex<File>,
}

/// One line of a lease file: something that the owner was about to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// A control group.
    Cgroup(PathBuf),
    /// A process, and when it was started as the kernel counts: its number alone may be somebody else's by now.
    Process { pid: i32, start: u64 },
}

impl Lease {
    /// Makes a new directory under a root, which is made if it is missing, and takes its lock.
    pub fn take(root: impl AsRef<Path>) -> io::Result<Self> {
        let root = root.as_ref();
        fs::create_dir_all(root)?;
        // The program sees the directory by its full path only in messages, but the janitor compares it to mounts.
        let root = root.canonicalize()?;
        let making = lock_root(&root)?;
        let directory = root.join(place::random_name()?);
        place::make_passage(&directory)?;
        place::make_private(&directory.join("work"))?;
        let file = private_file(&directory.join(LEASE))?;
        file.lock()?;
        drop(making);
        Ok(Self { held: Arc::new(Held { directory, file: Mutex::new(file) }) })
    }

    /// The directory of the lease.
    pub fn directory(&self) -> &Path {
        &self.held.directory
    }

    /// The directory that becomes `/work`: fill it before the spawn, read it after the end.
    pub fn work(&self) -> PathBuf {
        self.held.directory.join("work")
    }

    /// Removes the directory now, with everything in it. Doing it twice does no harm, and so does dropping the lease
    /// afterwards.
    pub fn remove(&self) -> io::Result<()> {
        place::remove(&self.held.directory)
    }

    /// The name of the lease, different from every other.
    #[cfg(target_os = "linux")]
    pub(crate) fn name(&self) -> String {
        self.held.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes down something before it is made.
    #[cfg(target_os = "linux")]
    pub(crate) fn note(&self, entry: &Entry) -> io::Result<()> {
        use std::io::Write as _;
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.held.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write_all(&line)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What is left is the janitor's: the lock goes with us.
        let _ = place::remove(&self.directory);
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits for the lock of a root.
pub(crate) fn lock_root(root: &Path) -> io::Result<File> {
    let lock = fs::OpenOptions::new().append(true).create(true).open(root.join(ROOT_LOCK))?;
    lock.lock()?;
    Ok(lock)
}
