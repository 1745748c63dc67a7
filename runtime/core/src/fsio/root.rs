//! A directory held open, and the only way to touch files below it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::survey::Stat;
use crate::error::{Error, Result};
use crate::ids::RelPath;

/// Where [`Root::replace`] prepares a file before it is renamed into place.
const TEMP_DIR: &str = ".herm/tmp";
/// So often a write begins anew because its temporary file or a directory above it was cleared meanwhile.
const MOST_CLEARED: u32 = 100;

/// When a change has to be on the disk itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncTiming {
    /// Before the call returns: the file and its directory are synced.
    Now,
    /// Someone syncs later, and can redo the change until then.
    Later,
}

/// What a name in a directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirEntryKind {
    /// A regular file, which a brain can hold.
    File,
    /// A directory, which a survey walks into.
    Dir,
    /// Something a brain cannot hold.
    Other(&'static str),
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name; lossy where it is not UTF-8.
    pub name: String,
    /// What it stands for.
    pub kind: DirEntryKind,
}

/// An open directory. Paths given to it cannot leave it: they are [`RelPath`]s, and a symbolic
/// link at any level is refused by the kernel (`openat2` with `RESOLVE_NO_SYMLINKS`, or a walk
/// with `O_NOFOLLOW` where that call does not exist).
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens `path`, which must be a real directory and not a link to one.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path: path.to_owned() }),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let what = match path.symlink_metadata() {
                    Ok(meta) if meta.is_symlink() => "a symbolic link",
                    _ => "not a directory",
                };
                Err(Error::refused(format!("{} is {what}; herm only opens real directories", path.display()))
                    .hint("replace it with a real directory that holds the files"))
            }
            Err(errno) => Err(Error::io("open", path, errno.into())),
        }
    }

    /// A directory inside this one, or `None` where there is none.
    pub fn below(&self, rel: &RelPath) -> Result<Option<Self>> {
        match self.open_dir(rel.as_str()) {
            Ok(fd) => Ok(Some(Self { fd, path: self.path.join(rel) })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.fail("open", rel.as_str(), errno)),
        }
    }

    /// The path it was opened by, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, doing: &str, rel: &str, errno: Errno) -> Error {
        let full = self.path.join(rel);
        match errno {
            Errno::LOOP => Error::refused(format!(
                "{} is a symbolic link or lies behind one; herm does not follow links",
                full.display()
            ))
            .hint("replace the link with the file itself"),
            Errno::NOTDIR => Error::refused(format!("{} lies below something that is not a directory", full.display()))
                .hint("remove what stands in the place of the directory"),
            Errno::ISDIR | Errno::NXIO => not_a_file(&full),
            _ => Error::io(doing, &full, errno.into()),
        }
    }

    fn open_below(&self, rel: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        open_beneath(self.fd.as_fd(), rel, flags, mode)
    }

    fn open_dir(&self, rel: &str) -> rustix::io::Result<OwnedFd> {
        self.open_below(rel, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// The content of a file of at most `max` bytes, or `None` where there is no such file.
    pub fn read(&self, rel: &RelPath, max: u64) -> Result<Option<Vec<u8>>> {
        let mut content = Vec::new();
        Ok(self.read_into(rel, max, &mut content)?.then_some(content))
    }

    /// Like [`read`](Self::read) into a buffer that is reused; `false` where there is no such file.
    pub fn read_into(&self, rel: &RelPath, max: u64, content: &mut Vec<u8>) -> Result<bool> {
        let Some(fd) = self.open_file(rel.as_str())? else { return Ok(false) };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| self.fail("look at", rel.as_str(), errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(not_a_file(&self.path.join(rel)));
        }
        let end = End::After(u64::try_from(stat.st_size).unwrap_or(0));
        drain(&fd, &self.path.join(rel), max, end, content)?;
        Ok(true)
    }

    /// Like [`read_into`](Self::read_into), but a short read counts as the end: two calls less, for
    /// files of which only the beginning matters. `rel` is part of a path that is known to be good.
    pub fn read_head(&self, rel: &str, max: u64, content: &mut Vec<u8>) -> Result<bool> {
        let Some(fd) = self.open_file(rel)? else { return Ok(false) };
        drain(&fd, &self.path.join(rel), max, End::ShortRead, content)?;
        if content.is_empty() {
            // A pipe looks like an empty file; nothing else that is no file gives no error.
            let stat = rustix::fs::fstat(&fd).map_err(|errno| self.fail("look at", rel, errno))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(not_a_file(&self.path.join(rel)));
            }
        }
        Ok(true)
    }

    fn open_file(&self, rel: &str) -> Result<Option<OwnedFd>> {
        match self.open_below(rel, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.fail("read", rel, errno)),
        }
    }

    /// Size and times of what stands at `rel`, without following a link; `None` where nothing does.
    pub fn stat(&self, rel: &RelPath) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, rel.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stat::from_raw(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.fail("look at", rel.as_str(), errno)),
        }
    }

    fn stat_raw(&self, rel: &str) -> rustix::io::Result<rustix::fs::Stat> {
        rustix::fs::statat(&self.fd, rel, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The names in this directory, in no particular order.
    pub fn list(&self) -> Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        let failed = |errno| self.fail("list", "", errno);
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let raw = entry.file_name();
            if matches!(raw.to_bytes(), b"." | b"..") {
                continue;
            }
            let name = raw.to_string_lossy().into_owned();
            let mut file_type = entry.file_type();
            if file_type == FileType::Unknown {
                let stat = self.stat_raw(&name).map_err(failed)?;
                file_type = FileType::from_raw_mode(stat.st_mode);
            }
            let kind = match file_type {
                _ if raw.to_str().is_err() => DirEntryKind::Other("a name that is not UTF-8"),
                FileType::RegularFile => DirEntryKind::File,
                FileType::Directory => DirEntryKind::Dir,
                FileType::Symlink => DirEntryKind::Other("a symbolic link"),
                _ => DirEntryKind::Other("not a regular file"),
            };
            entries.push(DirEntry { name, kind });
        }
        Ok(entries)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Makes the directories above `rel`, and returns the one that holds it.
    fn parent_dir(&self, rel: &str) -> Result<Option<OwnedFd>> {
        let Some((parent, _)) = rel.rsplit_once('/') else { return Ok(None) };
        for _ in 0..MOST_CLEARED {
            match self.open_dir(parent) {
                Ok(fd) => return Ok(Some(fd)),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.fail("open", parent, errno)),
            }
            let above = self.parent_dir(parent)?;
            let name = parent.rsplit_once('/').map_or(parent, |(_, name)| name);
            let at = above.as_ref().unwrap_or(&self.fd);
            match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(errno) => return Err(self.fail("create", parent, errno)),
            }
        }
        Err(self.fail("open", parent, Errno::NOENT))
    }

    /// Puts `content` at `rel` in one step: a reader sees the old file or the new one.
    pub fn replace(&self, rel: &RelPath, content: &[u8], sync: SyncTiming) -> Result<()> {
        self.install(rel, content, sync, RenameFlags::empty()).map(|_| ())
    }

    /// Begins to fill a directory that nobody else sees yet.
    pub fn bulk_writer(&self) -> BulkWriter<'_> {
        BulkWriter { root: self, above: None }
    }

    /// Puts `content` at `rel` and waits for the disk, but only if nothing is there: of several at
    /// once, exactly one is told `true`.
    pub fn create(&self, rel: &RelPath, content: &[u8]) -> Result<bool> {
        self.install(rel, content, SyncTiming::Now, RenameFlags::NOREPLACE)
    }

    fn install(&self, rel: &RelPath, content: &[u8], sync: SyncTiming, how: RenameFlags) -> Result<bool> {
        for _ in 0..MOST_CLEARED {
            if let Some(installed) = self.try_install(rel, content, sync, how)? {
                return Ok(installed);
            }
        }
        Err(self.fail("write", rel.as_str(), Errno::NOENT))
    }

    /// `None` if the temporary file was cleared meanwhile: files that no lock guards are written while others open.
    fn try_install(&self, rel: &RelPath, content: &[u8], sync: SyncTiming, how: RenameFlags) -> Result<Option<bool>> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let temp = format!("{TEMP_DIR}/{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let temp_dir = self.parent_dir(&temp)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        // Who may read a file is its owner's choice, also after herm has replaced it.
        let mode = match self.stat_raw(rel.as_str()) {
            Ok(stat) => Mode::from_raw_mode(stat.st_mode & 0o777),
            Err(_) => Mode::from_raw_mode(0o644),
        };
        let fd = match self.open_below(&temp, flags, mode) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.fail("write", &temp, errno)),
        };
        rustix::fs::fchmod(&fd, mode).map_err(|errno| self.fail("write", &temp, errno))?;
        let installed = self.fill(fd, rel, content, sync).and_then(|()| {
            let parent = self.parent_dir(rel.as_str())?;
            let from = temp_dir.as_ref().unwrap_or(&self.fd);
            let to = parent.as_ref().unwrap_or(&self.fd);
            let temp_name = temp.rsplit_once('/').map_or(temp.as_str(), |(_, name)| name);
            match rustix::fs::renameat_with(from, temp_name, to, rel.name(), how) {
                Ok(()) => {}
                Err(Errno::EXIST) if how == RenameFlags::NOREPLACE => return Ok(Some(false)),
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(self.fail("write", rel.as_str(), errno)),
            }
            match sync {
                SyncTiming::Now => rustix::fs::fsync(to).map_err(|errno| self.fail("sync", rel.as_str(), errno))?,
                SyncTiming::Later => {}
            }
            Ok(Some(true))
        });
        if !matches!(installed, Ok(Some(true))) {
            // The temporary file may be gone already; what matters is the error above.
            let _ = rustix::fs::unlinkat(&self.fd, &temp, AtFlags::empty());
        }
        installed
    }

    fn fill(&self, fd: OwnedFd, rel: &RelPath, content: &[u8], sync: SyncTiming) -> Result<()> {
        let mut file = File::from(fd);
        let failed = |source| Error::io("write", &self.path.join(rel), source);
        file.write_all(content).map_err(failed)?;
        match sync {
            SyncTiming::Now => file.sync_all().map_err(failed),
            SyncTiming::Later => Ok(()),
        }
    }

    /// Writes `tail` at `offset` of a file that only grows, and cuts off what came after. Can be
    /// repeated. `false` where the file does not reach `offset`: then nothing is written.
    pub fn write_tail(&self, rel: &RelPath, offset: u64, tail: &[u8]) -> Result<bool> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        let failed = |errno| self.fail("write", rel.as_str(), errno);
        let fd = self.open_below(rel.as_str(), flags, Mode::from_raw_mode(0o644)).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(not_a_file(&self.path.join(rel)));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size < offset {
            return Ok(false);
        }
        if size > offset {
            rustix::fs::ftruncate(&fd, offset).map_err(failed)?;
        }
        let file = File::from(fd);
        std::os::unix::fs::FileExt::write_all_at(&file, tail, offset)
            .map_err(|source| Error::io("write", &self.path.join(rel), source))?;
        Ok(true)
    }

    /// Removes a file, and the directories above it that are left empty (never the first one, so `skills/` stays). If
    /// the file is not there, this succeeds.
    pub fn remove(&self, rel: &RelPath) -> Result<()> {
        let parent = match rel.parent().map(|dir| self.open_dir(dir.as_str())).transpose() {
            Ok(parent) => parent,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(errno) => return Err(self.fail("remove", rel.as_str(), errno)),
        };
        match rustix::fs::unlinkat(parent.as_ref().unwrap_or(&self.fd), rel.name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(self.fail("remove", rel.as_str(), errno)),
        }
        let mut at = rel.parent();
        while let Some(dir) = at {
            at = dir.parent();
            if at.is_none() {
                break;
            }
            match rustix::fs::unlinkat(&self.fd, dir.as_str(), AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => break,
                Err(errno) => return Err(self.fail("remove", dir.as_str(), errno)),
            }
        }
        Ok(())
    }

    /// Waits until a file (if it is there) and every directory above it are on the disk.
    pub fn sync(&self, rel: &RelPath) -> Result<()> {
        match self.open_below(rel.as_str(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(fd) => {
                rustix::fs::fsync(&fd).map_err(|errno| self.fail("sync", rel.as_str(), errno))?;
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(self.fail("sync", rel.as_str(), errno)),
        }
        Ok(())
    }

    /// Waits until a directory's own entries are on the disk; `None` is the root itself.
    pub fn sync_dir(&self, rel: Option<&RelPath>) -> Result<()> {
        let name = rel.map_or(".", RelPath::as_str);
        match self.open_dir(name) {
            Ok(fd) => rustix::fs::fsync(&fd).map_err(|errno| self.fail("sync", name, errno)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(self.fail("sync", name, errno)),
        }
    }

    /// Waits until everything on this file system is on the disk; `false` where the system has no call for that.
    pub fn sync_file_system(&self) -> Result<bool> {
        #[cfg(target_os = "linux")]
        {
            rustix::fs::syncfs(&self.fd).map_err(|errno| self.fail("sync", "", errno))?;
            Ok(true)
        }
        #[cfg(not(target_os = "linux"))]
        Ok(false)
    }

    /// Throws away what an interrupted [`replace`](Self::replace) left behind. Never leaves this
    /// directory: a link in the way is refused.
    pub fn clear_temporaries(&self) -> Result<()> {
        let failed = |errno| self.fail("clear", TEMP_DIR, errno);
        let tmp = match self.open_dir(TEMP_DIR) {
            Ok(tmp) => tmp,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        };
        for entry in rustix::fs::Dir::read_from(&tmp).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match rustix::fs::unlinkat(&tmp, entry.file_name(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => {
                    let place = self.path.join(TEMP_DIR).join(entry.file_name().to_string_lossy().as_ref());
                    return Err(Error::refused(format!("{} is a directory that is not herm's", place.display()))
                        .hint("remove it"));
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
        let above = self.open_dir(crate::layout::INTERNAL_DIR).map_err(failed)?;
        match rustix::fs::unlinkat(&above, "tmp", AtFlags::REMOVEDIR) {
            // Somebody writes right now.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Whether a file can be put at `rel`: what is above it is a directory or absent, and what is
    /// there is a regular file or absent. `true` where a file is there.
    pub fn can_hold(&self, rel: &RelPath) -> Result<bool> {
        let mut above = rel.parent();
        while let Some(dir) = above {
            match self.open_dir(dir.as_str()) {
                Ok(_) => break,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.fail("write below", dir.as_str(), errno)),
            }
            above = dir.parent();
        }
        match self.stat_raw(rel.as_str()) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => Ok(true),
            Ok(_) => Err(not_a_file(&self.path.join(rel))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(self.fail("look at", rel.as_str(), errno)),
        }
    }
}

/// Many files on their way into a directory that nobody else sees yet: not set aside first, not synced.
#[derive(Debug)]
pub struct BulkWriter<'a> {
    root: &'a Root,
    /// The directory above the one that the last file went into: the next one is most often there too.
    above: Option<(String, OwnedFd)>,
}

impl BulkWriter<'_> {
    /// Writes a file. What is there is an error.
    pub fn write(&mut self, rel: &RelPath, content: &[u8]) -> Result<()> {
        let parent = self.parent(rel.as_str())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let at = parent.as_ref().unwrap_or(&self.root.fd);
        let fd = open_beneath(at.as_fd(), rel.name(), flags, Mode::from_raw_mode(0o644))
            .map_err(|errno| self.root.fail("write", rel.as_str(), errno))?;
        self.root.fill(fd, rel, content, SyncTiming::Later)
    }

    /// The directory that holds `rel`, made where it is not there: three calls where its neighbour was made before.
    fn parent(&mut self, rel: &str) -> Result<Option<OwnedFd>> {
        let Some((parent, _)) = rel.rsplit_once('/') else { return Ok(None) };
        let Some((above, name)) = parent.rsplit_once('/') else { return self.root.parent_dir(rel) };
        let at = match self.above.take() {
            Some((known, fd)) if known == above => fd,
            _ => match self.root.parent_dir(parent)? {
                Some(fd) => fd,
                None => return self.root.parent_dir(rel),
            },
        };
        match rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.root.fail("create", parent, errno)),
        }
        let made = open_beneath(at.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(|errno| self.root.fail("open", parent, errno))?;
        self.above = Some((above.to_owned(), at));
        Ok(Some(made))
    }
}

/// Opens `rel` below `fd`, refusing symbolic links at every level.
pub(super) fn open_beneath(fd: BorrowedFd<'_>, rel: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    #[cfg(target_os = "linux")]
    if rel.contains('/') {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(fd, rel, flags, mode, resolve) {
            Err(Errno::NOSYS) => {}
            done => return done,
        }
    }
    open_by_walk(fd, rel, flags, mode)
}

/// The portable form of `openat2(RESOLVE_NO_SYMLINKS)`: one part at a time, no links.
fn open_by_walk(fd: BorrowedFd<'_>, rel: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: Option<OwnedFd> = None;
    let (dirs, name) = rel.rsplit_once('/').unwrap_or(("", rel));
    for part in dirs.split('/').filter(|part| !part.is_empty()) {
        let from = at.as_ref().map_or(fd, |at| at.as_fd());
        at = Some(rustix::fs::openat(from, part, step, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR => Errno::LOOP,
            other => other,
        })?);
    }
    rustix::fs::openat(at.as_ref().map_or(fd, |at| at.as_fd()), name, flags, mode)
}

/// When reading a file is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// When it has given this many bytes, or says so.
    After(u64),
    /// When a read comes back short, which on a local file system is the end.
    ShortRead,
}

/// Reads an open file of at most `max` bytes to its end; `place` is for messages.
pub(super) fn drain(fd: &OwnedFd, place: &Path, max: u64, end: End, content: &mut Vec<u8>) -> Result<()> {
    content.clear();
    let expected = match end {
        End::After(bytes) => usize::try_from(bytes.min(max)).unwrap_or(0) + 1,
        End::ShortRead => 0,
    };
    content.reserve(expected.max(16 * 1024));
    loop {
        let space = content.capacity() - content.len();
        match rustix::io::read(fd, spare_capacity(content)) {
            Ok(0) => break,
            Ok(n) if end == End::ShortRead && n < space => break,
            Ok(_) if end == End::After(content.len() as u64) => break,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(Error::io("read", place, errno.into())),
        }
        if content.len() as u64 > max {
            break;
        }
        if content.len() == content.capacity() {
            content.reserve(content.len());
        }
    }
    if content.len() as u64 > max {
        return Err(Error::invalid(format!("{} is larger than the {max} bytes allowed there", place.display()))
            .hint("make it smaller, or move it elsewhere"));
    }
    Ok(())
}

fn not_a_file(path: &Path) -> Error {
    Error::refused(format!("{} is not a regular file", path.display()))
        .hint("replace it with a regular file, or remove it")
}

/// Reads a file from anywhere: a regular file of at most `max` bytes, whatever else stands there.
pub fn read_regular(path: &Path, max: u64) -> Result<Vec<u8>> {
    let (file, size) = open_regular(path)?;
    let mut content = Vec::new();
    drain(&file.into(), path, max, End::After(size), &mut content)?;
    Ok(content)
}

/// Opens a regular file from anywhere, to be read by pieces; and says how many bytes it has.
pub fn open_regular(path: &Path) -> Result<(std::fs::File, u64)> {
    let failed = |errno: Errno| Error::io("read", path, errno.into());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&fd).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_a_file(path));
    }
    Ok((std::fs::File::from(fd), u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Makes a directory and those above it.
pub fn create_dirs(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| Error::io("create", path, source))
}

/// Makes a new directory among the temporary ones that its owner alone can enter.
pub fn create_scratch(name: &str) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut number = [0; 8];
    crate::ids::Random::fill(&crate::ids::SystemRandom, &mut number)?;
    let path = std::env::temp_dir().join(format!("{name}-{:016x}", u64::from_le_bytes(number)));
    std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|source| Error::io("create", &path, source))?;
    Ok(path)
}

/// Removes a directory and all below it without following links. If it is not there, this succeeds.
#[expect(clippy::disallowed_methods, reason = "fsio is the module for file access")]
pub fn remove_tree(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::io("remove", path, source)),
    }
}

/// Copies a regular file to a place where nothing is, and waits for the disk; `false` where there is no such file.
pub fn copy_durably(from: &Path, to: &Path) -> Result<bool> {
    let (mut source, _) = match open_regular(from) {
        Err(error) if error.kind() == crate::error::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    let failed = |source| Error::io("write", to, source);
    let mut target = std::fs::OpenOptions::new().write(true).create_new(true).open(to).map_err(failed)?;
    std::io::copy(&mut source, &mut target).map_err(failed)?;
    target.sync_all().map_err(failed)?;
    Ok(true)
}

/// Renames a finished directory into place and waits until the name is on the disk. Refuses to
/// replace anything that is there.
pub fn rename_durably(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::CWD;
    let done = match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST | Errno::NOTEMPTY) => {
            return Err(Error::conflict(format!("{} already exists", to.display()))
                .hint("look at what is there, then try again"));
        }
        done => done,
    };
    done.map_err(|errno| Error::io("create", to, errno.into()))?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The brains directory itself may be a link.
    let synced = File::open(parent).and_then(|dir| dir.sync_all());
    synced.map_err(|source| Error::io("sync", parent, source))
}

/// Free space of the file system that holds `path`, in bytes.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let stats = rustix::fs::statvfs(path).map_err(|errno| Error::io("look at", path, errno.into()))?;
    Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        (dir, root)
    }

    fn rel(text: &str) -> RelPath {
        text.parse().unwrap()
    }

    #[test]
    fn writes_and_clearing_at_once_lose_nothing() {
        let (_dir, root) = root();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clearing = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    root.clear_temporaries().unwrap();
                }
            });
            for n in 0..2_000_u32 {
                root.replace(&"note".parse().unwrap(), &n.to_le_bytes(), SyncTiming::Later).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            clearing.join().unwrap();
        });
        let path = root.path().join("note");
        assert_eq!(std::fs::read(path).unwrap(), 1_999_u32.to_le_bytes());
    }

    #[test]
    fn a_scratch_directory_is_new_and_its_owner_alone_can_enter_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let (one, two) = (create_scratch("herm-test").unwrap(), create_scratch("herm-test").unwrap());
        let modes = [&one, &two].map(|path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777);
        [&one, &two].into_iter().for_each(|path| remove_tree(path).unwrap());
        assert_ne!(one, two);
        assert_eq!(modes, [0o700, 0o700]);
        assert!(!one.exists());
    }

    #[test]
    fn a_replaced_file_reads_back_and_leaves_no_temporary() {
        let (dir, root) = root();
        for content in [b"one".to_vec(), vec![b'x'; 100_000]] {
            root.replace(&rel("a/b/c.md"), &content, SyncTiming::Now).unwrap();
            assert_eq!(root.read(&rel("a/b/c.md"), 1 << 20).unwrap(), Some(content));
        }
        root.clear_temporaries().unwrap();
        assert!(!dir.path().join(TEMP_DIR).exists());
    }

    #[test]
    fn links_are_refused_by_both_ways_of_opening() {
        let (dir, root) = root();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        root.replace(&rel("real/x"), b"x", SyncTiming::Later).unwrap();
        std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("real/x", dir.path().join("file-link")).unwrap();
        for bad in ["link/x", "file-link"] {
            assert!(root.read(&rel(bad), 10).is_err(), "{bad}");
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            assert_eq!(open_by_walk(root.fd(), bad, flags, Mode::empty()).unwrap_err(), Errno::LOOP, "{bad}");
        }
        assert!(root.replace(&rel("link/y"), b"y", SyncTiming::Later).is_err());
        assert!(open_by_walk(root.fd(), "real/x", OFlags::RDONLY, Mode::empty()).is_ok());
    }

    #[test]
    fn removing_a_file_removes_the_empty_directories_above_but_the_first() {
        let (dir, root) = root();
        root.replace(&rel("skills/a/refs/x.md"), b"x", SyncTiming::Later).unwrap();
        root.remove(&rel("skills/a/refs/x.md")).unwrap();
        root.remove(&rel("skills/a/refs/x.md")).unwrap();
        assert!(dir.path().join("skills").is_dir());
        assert!(!dir.path().join("skills/a").exists());
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        let (_dir, root) = root();
        root.replace(&rel("big"), &vec![0; 70_000], SyncTiming::Later).unwrap();
        assert!(root.read(&rel("big"), 69_999).is_err());
        assert_eq!(root.read(&rel("big"), 70_000).unwrap().map(|c| c.len()), Some(70_000));
    }
}
