//! What lies below a directory.
//!
//! A survey remembers the size, times and inode of every file and directory, and the digest of the
//! files that count. Taken again with the earlier one at hand, it lists only the directories whose
//! own times moved and reads only the files whose `stat` did, so that opening a large brain costs
//! one `stat` an entry and no reading.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::root::{End, Root, drain, open_beneath};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Digest, RelPath};

/// What `stat` says of a file or directory. Times are nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// The size of the content in bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: i64,
    /// Last change of the content or of the inode: moves even where `mtime` was set back.
    pub ctime: i64,
    /// The inode number: another one means that the file was replaced.
    pub ino: u64,
}

impl Stat {
    /// A value no file has: forces a fresh look.
    pub const UNKNOWN: Self = Self { size: u64::MAX, mtime: i64::MIN, ctime: i64::MIN, ino: 0 };

    #[expect(clippy::unnecessary_cast, reason = "field types differ by platform")]
    pub(super) fn from_raw(raw: &rustix::fs::Stat) -> Self {
        let nanos = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: u64::try_from(raw.st_size).unwrap_or(0),
            mtime: nanos(raw.st_mtime as i64, raw.st_mtime_nsec as i64),
            ctime: nanos(raw.st_ctime as i64, raw.st_ctime_nsec as i64),
            ino: raw.st_ino as u64,
        }
    }
}

/// A regular file, as the last survey found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNode {
    /// Its name in the directory, without the path.
    pub name: Box<str>,
    /// What `stat` said when the file was last looked at.
    pub stat: Stat,
    /// The digest of the content as of that `stat`, where it is known.
    pub digest: Option<Digest>,
}

/// A directory. Its files and directories are in name order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dir {
    /// Its name; empty for the top.
    pub name: Box<str>,
    /// What `stat` said when the directory was last listed.
    pub stat: Stat,
    /// The regular files directly in it.
    pub files: Vec<FileNode>,
    /// The directories directly in it.
    pub dirs: Vec<Dir>,
}

impl Default for Dir {
    /// A directory that nobody has looked at.
    fn default() -> Self {
        Self { name: "".into(), stat: Stat::UNKNOWN, files: Vec::new(), dirs: Vec::new() }
    }
}

impl Dir {
    /// Calls `visit` for every file with its path, directory by directory.
    pub fn for_each_file(&self, visit: &mut impl FnMut(&str, &FileNode) -> Result<()>) -> Result<()> {
        self.visit_below(&mut String::new(), visit)
    }

    fn visit_below(&self, at: &mut String, visit: &mut impl FnMut(&str, &FileNode) -> Result<()>) -> Result<()> {
        for file in &self.files {
            let length = push(at, &file.name);
            visit(at, file)?;
            at.truncate(length);
        }
        for dir in &self.dirs {
            let length = push(at, &dir.name);
            dir.visit_below(at, visit)?;
            at.truncate(length);
        }
        Ok(())
    }

    /// How many files there are below.
    pub fn count_files(&self) -> usize {
        self.files.len() + self.dirs.iter().map(Self::count_files).sum::<usize>()
    }

    /// Marks a path as changed: the next survey lists its directories and reads the file again.
    pub fn forget(&mut self, rel: &RelPath) {
        let mut at = self;
        at.stat = Stat::UNKNOWN;
        let mut parts = rel.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                at.files.retain(|file| &*file.name != part);
                return;
            }
            match at.dirs.iter_mut().find(|dir| &*dir.name == part) {
                Some(dir) => at = dir,
                None => return,
            }
            at.stat = Stat::UNKNOWN;
        }
    }
}

/// Something that is neither a regular file nor a directory, or whose name is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddEntry {
    /// Where it is, relative to the surveyed root.
    pub path: String,
    /// What is there instead, such as "a symbolic link".
    pub what: &'static str,
}

/// How much a survey takes on before it stops with an error.
#[derive(Debug, Clone, Copy)]
pub struct SurveyLimits {
    /// The most files and directories, counted together.
    pub entries: usize,
    /// The most levels of directories below the root.
    pub depth: usize,
}

impl Default for SurveyLimits {
    fn default() -> Self {
        Self { entries: 50_000, depth: RelPath::MAX_DEPTH }
    }
}

/// What to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanAction {
    /// It is not there at all.
    Skip,
    /// List it, without reading its content.
    List,
    /// List it, and know the digest of its content if it is a file.
    Digest,
}

/// What a survey found besides files and directories.
#[derive(Debug, Default)]
pub struct Survey {
    /// What cannot be part of a brain.
    pub odd: Vec<OddEntry>,
    /// Whether anything differs from the earlier survey.
    pub changed: bool,
    /// How many bytes were read.
    pub bytes: u64,
}

/// Looks at everything below `root` and brings `top`, an earlier survey or an empty one, up to
/// date. `look` decides by relative path.
pub fn survey(root: &Root, top: &mut Dir, limits: SurveyLimits, look: &dyn Fn(&str) -> ScanAction) -> Result<Survey> {
    let mut walk = Walk {
        root,
        limits,
        look,
        seen: 0,
        path: String::new(),
        buffer: Vec::new(),
        names: Vec::new(),
        found: Survey::default(),
    };
    let stat = Stat::from_raw(&rustix::fs::fstat(root.fd()).map_err(|errno| walk.fail("look at", errno))?);
    // Its own descriptor: listing moves a position that the root's is shared with.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(root.fd(), ".", flags, Mode::empty()).map_err(|errno| walk.fail("list", errno))?;
    walk.dir(fd.as_fd(), top, stat)?;
    walk.found.odd.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(walk.found)
}

struct Walk<'a> {
    root: &'a Root,
    limits: SurveyLimits,
    look: &'a dyn Fn(&str) -> ScanAction,
    seen: usize,
    /// Where the walk is, relative to the root.
    path: String,
    /// Content, and names, as they are read.
    buffer: Vec<u8>,
    names: Vec<u8>,
    found: Survey,
}

impl Walk<'_> {
    /// `fd` is the directory itself, `stat` what it says now.
    fn dir(&mut self, fd: BorrowedFd<'_>, dir: &mut Dir, stat: Stat) -> Result<()> {
        if dir.stat != stat {
            let same_names = self.list(fd, dir)?;
            // SQLite's log comes and goes at the top, so its times say nothing.
            self.found.changed |= !(same_names && self.path.is_empty());
            dir.stat = stat;
        }
        self.members(fd, "", dir)
    }

    /// Looks at what is known to be in `dir`, which lies at `prefix` below `fd`.
    fn members(&mut self, fd: BorrowedFd<'_>, prefix: &str, dir: &mut Dir) -> Result<()> {
        self.files(fd, prefix, dir)?;
        let mut at = 0;
        while let Some(below) = dir.dirs.get_mut(at) {
            let name = format!("{prefix}{}", below.name);
            if self.child(fd, &name, below)? {
                at += 1;
            } else {
                self.found.changed = true;
                dir.dirs.remove(at);
            }
        }
        Ok(())
    }

    /// Looks at the directory `name` below `fd`; `false` where it is gone.
    fn child(&mut self, fd: BorrowedFd<'_>, name: &str, dir: &mut Dir) -> Result<bool> {
        let length = push(&mut self.path, &dir.name);
        let depth = self.path.bytes().filter(|b| *b == b'/').count() + 1;
        if depth >= self.limits.depth {
            return Err(Error::invalid(format!(
                "{} is more than {} levels deep",
                self.root.path().join(&self.path).display(),
                self.limits.depth
            ))
            .hint("move the files up, or the directory out of the tree"));
        }
        // A directory nobody has looked at is opened in any case; that also says whether it is one.
        let known = match dir.stat {
            Stat::UNKNOWN => None,
            _ => match self.stat(fd, name)? {
                Some((FileType::Directory, stat)) => Some(stat),
                _ => {
                    self.path.truncate(length);
                    return Ok(false);
                }
            },
        };
        // Opening a directory costs more than a few look-ups through the one above it.
        let found = if known == Some(dir.stat) && dir.dirs.len() + dir.files.len() <= 3 {
            self.members(fd, &format!("{name}/"), dir)?;
            true
        } else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            match open_beneath(fd, name, flags, Mode::empty()) {
                Ok(opened) => {
                    let raw = rustix::fs::fstat(&opened).map_err(|errno| self.fail("look at", errno))?;
                    self.dir(opened.as_fd(), dir, Stat::from_raw(&raw))?;
                    true
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => false,
                Err(errno) => return Err(self.fail("list", errno)),
            }
        };
        self.path.truncate(length);
        Ok(found)
    }

    /// Asks for the `stat` of every file of `dir`, which lies at `prefix` below `fd`.
    fn files(&mut self, fd: BorrowedFd<'_>, prefix: &str, dir: &mut Dir) -> Result<()> {
        let mut name = String::with_capacity(64);
        let mut failed = None;
        dir.files.retain_mut(|file| {
            if failed.is_some() {
                return true;
            }
            name.clear();
            name.push_str(prefix);
            name.push_str(&file.name);
            match self.file(fd, &name, file) {
                Ok(true) => true,
                Ok(false) => {
                    self.found.changed = true;
                    false
                }
                Err(error) => {
                    failed = Some(error);
                    true
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// Brings one file up to date; `false` where it is gone.
    fn file(&mut self, fd: BorrowedFd<'_>, name: &str, file: &mut FileNode) -> Result<bool> {
        if file.stat != Stat::UNKNOWN {
            match self.stat(fd, name)? {
                Some((FileType::RegularFile, stat)) if stat == file.stat => return Ok(true),
                Some((FileType::RegularFile, _)) => {}
                _ => return Ok(false),
            }
        }
        self.found.changed = true;
        let length = push(&mut self.path, &file.name);
        let there = match (self.look)(&self.path) {
            ScanAction::Digest => self.digest(fd, name, file)?,
            ScanAction::List | ScanAction::Skip => match self.stat(fd, name)? {
                Some((FileType::RegularFile, stat)) => {
                    (file.stat, file.digest) = (stat, None);
                    true
                }
                _ => false,
            },
        };
        self.path.truncate(length);
        Ok(there)
    }

    /// Reads a file, and takes its `stat` from the very file that was read.
    fn digest(&mut self, fd: BorrowedFd<'_>, name: &str, file: &mut FileNode) -> Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match open_beneath(fd, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            Err(errno) => return Err(self.fail("read", errno)),
        };
        let raw = rustix::fs::fstat(&opened).map_err(|errno| self.fail("look at", errno))?;
        if FileType::from_raw_mode(raw.st_mode) != FileType::RegularFile {
            return Ok(false);
        }
        let place = self.root.path().join(&self.path);
        let end = End::After(u64::try_from(raw.st_size).unwrap_or(0));
        drain(&opened, &place, crate::layout::MAX_FILE_BYTES, end, &mut self.buffer).map_err(|error| {
            match error.kind() {
                ErrorKind::InvalidInput => {
                    Error::corrupt(error.message()).hint("make it smaller, or move it elsewhere")
                }
                _ => error,
            }
        })?;
        self.found.bytes += self.buffer.len() as u64;
        (file.stat, file.digest) = (Stat::from_raw(&raw), Some(Digest::of(&self.buffer)));
        Ok(true)
    }

    /// Lists a directory, keeping what is known of the names that are still there. `true` where the
    /// names are the same as before.
    fn list(&mut self, fd: BorrowedFd<'_>, dir: &mut Dir) -> Result<bool> {
        let before = dir.files.len() + dir.dirs.len();
        let mut files: BTreeMap<Box<str>, FileNode> =
            dir.files.drain(..).map(|file| (file.name.clone(), file)).collect();
        let mut dirs: BTreeMap<Box<str>, Dir> = dir.dirs.drain(..).map(|dir| (dir.name.clone(), dir)).collect();
        for (raw_name, kind) in names_in(fd, &mut self.names).map_err(|errno| self.fail("list", errno))? {
            self.count()?;
            let Ok(name) = raw_name.to_str() else {
                self.odd(&raw_name.to_string_lossy(), "a name that is not UTF-8");
                continue;
            };
            let length = push(&mut self.path, name);
            let skipped = (self.look)(&self.path) == ScanAction::Skip;
            let allowed = RelPath::validate(&self.path);
            self.path.truncate(length);
            if skipped {
                continue;
            }
            let kind = match kind {
                FileType::Unknown => match self.stat(fd, name)? {
                    Some((kind, _)) => kind,
                    None => continue,
                },
                known => known,
            };
            match kind {
                FileType::RegularFile if allowed.is_err() => self.odd(name, "a name that a brain cannot hold"),
                FileType::RegularFile => dir.files.push(files.remove(name).unwrap_or_else(|| FileNode {
                    name: name.into(),
                    stat: Stat::UNKNOWN,
                    digest: None,
                })),
                FileType::Directory => {
                    let known = dirs.remove(name);
                    dir.dirs.push(known.unwrap_or_else(|| Dir { name: name.into(), ..Dir::default() }));
                }
                FileType::Symlink => self.odd(name, "a symbolic link"),
                _ => self.odd(name, "not a regular file"),
            }
        }
        dir.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        dir.dirs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files.is_empty() && dirs.is_empty() && dir.files.len() + dir.dirs.len() == before)
    }

    fn stat(&self, fd: BorrowedFd<'_>, name: &str) -> Result<Option<(FileType, Stat)>> {
        match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) => Ok(Some((FileType::from_raw_mode(raw.st_mode), Stat::from_raw(&raw)))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.fail("look at", errno)),
        }
    }

    fn odd(&mut self, name: &str, what: &'static str) {
        let length = push(&mut self.path, name);
        self.found.odd.push(OddEntry { path: self.path.clone(), what });
        self.path.truncate(length);
    }

    fn count(&mut self) -> Result<()> {
        self.seen += 1;
        if self.seen > self.limits.entries {
            return Err(Error::invalid(format!(
                "{} holds more than {} files and directories",
                self.root.path().display(),
                self.limits.entries
            ))
            .hint("remove what does not belong there, or split the skills over several brains"));
        }
        Ok(())
    }

    fn fail(&self, doing: &str, errno: Errno) -> Error {
        Error::io(doing, &self.root.path().join(&self.path), errno.into())
    }
}

/// The names in an open directory whose position is at its beginning.
#[cfg(target_os = "linux")]
fn names_in(fd: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> rustix::io::Result<Vec<(CString, FileType)>> {
    buffer.reserve(32 * 1024);
    let mut raw = rustix::fs::RawDir::new(fd, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

/// The names in an open directory.
#[cfg(not(target_os = "linux"))]
fn names_in(fd: BorrowedFd<'_>, _buffer: &mut Vec<u8>) -> rustix::io::Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(fd)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

/// Adds a name to a path and returns the length to cut it back to.
fn push(path: &mut String, name: &str) -> usize {
    let length = path.len();
    if length > 0 {
        path.push('/');
    }
    path.push_str(name);
    length
}
