//! What lies below a directory, by `stat` alone.
//!
//! A survey remembers the size, times and inode of every file and directory. Taken again with the
//! earlier one at hand, it lists only the directories whose own times moved and carries a file's
//! digest over while its `stat` is unchanged, so that opening a large brain costs one `stat` an
//! entry and no reading.

use std::collections::BTreeMap;

use rustix::fs::FileType;

use super::root::Root;
use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath};

/// What `stat` says of a file or directory. Times are nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// Last change of the content.
    pub mtime: i64,
    /// Last change of the content or of the inode: moves even where `mtime` was set back.
    pub ctime: i64,
    /// The inode number.
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

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNode {
    /// What `stat` said.
    pub stat: Stat,
    /// The digest of the content as of that `stat`, where it is known.
    pub digest: Option<Digest>,
}

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dir {
    /// What `stat` said.
    pub stat: Stat,
    /// Its regular files by name.
    pub files: BTreeMap<Box<str>, FileNode>,
    /// Its directories by name.
    pub dirs: BTreeMap<Box<str>, Dir>,
}

impl Dir {
    /// Calls `visit` for every file, in path order within each directory.
    pub fn for_each_file(&mut self, visit: &mut impl FnMut(&str, &mut FileNode) -> Result<()>) -> Result<()> {
        self.visit_below("", visit)
    }

    fn visit_below(&mut self, at: &str, visit: &mut impl FnMut(&str, &mut FileNode) -> Result<()>) -> Result<()> {
        for (name, file) in &mut self.files {
            visit(&join(at, name), file)?;
        }
        for (name, dir) in &mut self.dirs {
            dir.visit_below(&join(at, name), visit)?;
        }
        Ok(())
    }

    /// Marks a path as changed: the next survey lists its directories and reads the file again.
    pub fn forget(&mut self, rel: &RelPath) {
        let mut at = self;
        at.stat = Stat::UNKNOWN;
        let mut parts = rel.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                at.files.remove(part);
                return;
            }
            match at.dirs.get_mut(part) {
                Some(dir) => at = dir,
                None => return,
            }
            at.stat = Stat::UNKNOWN;
        }
    }
}

/// Something that is neither a regular file nor a directory, or whose name is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Odd {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub what: &'static str,
}

/// How much a survey takes on before it stops with an error.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Files and directories.
    pub entries: usize,
    /// Levels of directories.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 50_000, depth: RelPath::MAX_DEPTH }
    }
}

/// The outcome of [`survey`].
#[derive(Debug)]
pub struct Survey {
    /// The tree.
    pub top: Dir,
    /// What cannot be part of a brain.
    pub odd: Vec<Odd>,
    /// Whether anything differs from the earlier survey.
    pub changed: bool,
}

/// Looks at everything below `root`. `skip` prunes by relative path; `earlier` is the last survey.
pub fn survey(root: &Root, earlier: Option<&Dir>, limits: Limits, skip: &dyn Fn(&str) -> bool) -> Result<Survey> {
    let mut walk = Walk { root, limits, skip, seen: 0, odd: Vec::new(), changed: earlier.is_none() };
    let raw = root.stat_raw("").map_err(|errno| Error::io("look at", root.path(), errno.into()))?;
    let top = walk.dir("", Stat::from_raw(&raw), earlier, 1)?;
    walk.odd.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Survey { top, odd: walk.odd, changed: walk.changed })
}

struct Walk<'a> {
    root: &'a Root,
    limits: Limits,
    skip: &'a dyn Fn(&str) -> bool,
    seen: usize,
    odd: Vec<Odd>,
    changed: bool,
}

impl Walk<'_> {
    fn dir(&mut self, at: &str, stat: Stat, earlier: Option<&Dir>, depth: usize) -> Result<Dir> {
        if depth > self.limits.depth {
            return Err(Error::invalid(format!(
                "{} is more than {} levels deep",
                self.root.path().join(at).display(),
                self.limits.depth
            ))
            .hint("move the files up, or the directory out of the tree"));
        }
        match earlier {
            Some(known) if known.stat == stat => self.known_dir(at, known, depth),
            _ => {
                self.changed = true;
                self.listed_dir(at, stat, earlier, depth)
            }
        }
    }

    /// Its own times have not moved: the same names are there, and only their `stat` is asked.
    fn known_dir(&mut self, at: &str, known: &Dir, depth: usize) -> Result<Dir> {
        let mut files = BTreeMap::new();
        for (name, node) in &known.files {
            self.count(at)?;
            let path = join(at, name);
            if let Some((_, stat)) = self.stat(&path)? {
                files.insert(name.clone(), self.carry_over(stat, Some(node)));
            }
        }
        let mut dirs = BTreeMap::new();
        for (name, dir) in &known.dirs {
            self.count(at)?;
            let path = join(at, name);
            if let Some((FileType::Directory, stat)) = self.stat(&path)? {
                dirs.insert(name.clone(), self.dir(&path, stat, Some(dir), depth + 1)?);
            }
        }
        Ok(Dir { stat: known.stat, files, dirs })
    }

    fn listed_dir(&mut self, at: &str, stat: Stat, earlier: Option<&Dir>, depth: usize) -> Result<Dir> {
        let mut found = Dir { stat, ..Dir::default() };
        for entry in self.root.list_raw(at)? {
            let entry = entry.map_err(|errno| Error::io("list", &self.root.path().join(at), errno.into()))?;
            let raw_name = entry.file_name();
            if matches!(raw_name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.count(at)?;
            let Ok(name) = raw_name.to_str() else {
                self.odd(join(at, &raw_name.to_string_lossy()), "a name that is not UTF-8");
                continue;
            };
            let path = join(at, name);
            if (self.skip)(&path) {
                continue;
            }
            let Some((kind, stat)) = self.stat(&path)? else { continue };
            match kind {
                FileType::RegularFile if RelPath::validate(&path).is_err() => {
                    self.odd(path, "a name that a brain cannot hold");
                }
                FileType::RegularFile => {
                    let node = self.carry_over(stat, earlier.and_then(|dir| dir.files.get(name)));
                    found.files.insert(name.into(), node);
                }
                FileType::Directory => {
                    let before = earlier.and_then(|dir| dir.dirs.get(name));
                    found.dirs.insert(name.into(), self.dir(&path, stat, before, depth + 1)?);
                }
                FileType::Symlink => self.odd(path, "a symbolic link"),
                _ => self.odd(path, "not a regular file"),
            }
        }
        Ok(found)
    }

    fn carry_over(&mut self, stat: Stat, earlier: Option<&FileNode>) -> FileNode {
        match earlier {
            Some(node) if node.stat == stat && node.digest.is_some() => node.clone(),
            _ => {
                self.changed = true;
                FileNode { stat, digest: None }
            }
        }
    }

    fn stat(&mut self, path: &str) -> Result<Option<(FileType, Stat)>> {
        match self.root.stat_raw(path) {
            Ok(raw) => Ok(Some((FileType::from_raw_mode(raw.st_mode), Stat::from_raw(&raw)))),
            Err(rustix::io::Errno::NOENT) => {
                self.changed = true;
                Ok(None)
            }
            Err(errno) => Err(Error::io("look at", &self.root.path().join(path), errno.into())),
        }
    }

    fn odd(&mut self, path: String, what: &'static str) {
        self.odd.push(Odd { path, what });
    }

    fn count(&mut self, at: &str) -> Result<()> {
        self.seen += 1;
        if self.seen > self.limits.entries {
            return Err(Error::invalid(format!(
                "{} holds more than {} files and directories",
                self.root.path().join(at).display(),
                self.limits.entries
            ))
            .hint("remove what does not belong there, or split the skills over several brains"));
        }
        Ok(())
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() {
        return name.to_owned();
    }
    let mut path = String::with_capacity(at.len() + 1 + name.len());
    path.push_str(at);
    path.push('/');
    path.push_str(name);
    path
}
