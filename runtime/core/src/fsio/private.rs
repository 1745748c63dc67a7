//! Files for their owner alone: keys.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::root::{create_dirs, read_regular, rename_durably};
use crate::error::{Error, Result};

/// Makes a file that only its owner can read, whole or not at all. `Conflict` where one is there.
#[expect(clippy::disallowed_methods, reason = "fsio is the module for file access")]
pub fn create_private(path: &Path, content: &[u8]) -> Result<()> {
    let failed = |source| Error::io("write", path, source);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dirs(parent)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("key");
    let temp = parent.join(format!(".{name}.{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&temp, flags, Mode::from_raw_mode(0o600)).map_err(|errno| failed(errno.into()))?;
    let mut file = std::fs::File::from(fd);
    let made = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(failed)
        .and_then(|()| rename_durably(&temp, path));
    if made.is_err() {
        // The error is what matters; an unused key beside it does no harm.
        let _ = std::fs::remove_file(&temp);
    }
    made
}

/// Reads a file that only its owner may read; one that others can read is refused.
pub fn read_private(path: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let content = read_regular(path, 1 << 16)?;
    let mode = path.metadata().map_err(|source| Error::io("look at", path, source))?.mode();
    if mode & 0o077 != 0 {
        return Err(Error::refused(format!("{} can be read by others than its owner", path.display()))
            .hint(format!("run `chmod 600 {}`", path.display())));
    }
    String::from_utf8(content)
        .map_err(|source| Error::invalid(format!("{} is not text", path.display())).because(source))
}

/// A new file that only its owner can read, written piece by piece.
#[derive(Debug)]
pub struct PrivateFile {
    path: PathBuf,
    file: std::fs::File,
}

impl PrivateFile {
    /// Makes it. What is there already is an error.
    pub fn create(path: &Path) -> Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| Error::io("write", path, errno.into()))?;
        Ok(Self { path: path.to_owned(), file: std::fs::File::from(fd) })
    }

    /// Writes the next piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.file.write_all(piece).map_err(|source| Error::io("write", &self.path, source))
    }
}

/// Makes a new file for someone else's output.
pub fn create_output(path: &Path) -> Result<std::fs::File> {
    PrivateFile::create(path).map(|made| made.file)
}

/// Makes a new file that can be run. What is there already is an error.
pub fn write_program(path: &Path, content: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::from_raw_mode(0o755))
        .map_err(|errno| Error::io("write", path, errno.into()))?;
    std::fs::File::from(fd).write_all(content).map_err(|source| Error::io("write", path, source))
}

/// Removes a file. If the file is not there, this succeeds.
#[expect(clippy::disallowed_methods, reason = "fsio is the module for file access")]
pub fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, source)),
        _ => Ok(()),
    }
}
