//! Directory trees that belong to somebody hostile: measured, handed over and removed without following anything.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// What a tree takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes that are allocated for it.
    pub(crate) bytes: u64,
    /// Files and directories, without the top.
    pub(crate) files: u64,
}

impl Size {
    /// What came since then.
    pub(crate) fn since(self, then: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(then.bytes), files: self.files.saturating_sub(then.files) }
    }

    /// The larger of both, each for itself.
    pub(crate) fn at_least(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), files: self.files.max(other.files) }
    }
}

impl std::ops::Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

/// A tree that can be measured as often as one likes.
#[derive(Debug)]
pub(crate) struct Tree {
    top: OwnedFd,
}

/// Why a tree was not measured.
#[derive(Debug)]
pub(crate) enum Unmeasured {
    /// Part of it is hidden, or too deep to be looked at: nobody does that by accident.
    Hidden,
    /// The disk did not let us look.
    Failed(io::Error),
    /// The caller asked to give up.
    Interrupted,
}

/// After so many files it is asked whether to give up.
const ASKED_EVERY: u64 = 512;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

impl Tree {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { top: rustix::fs::open(path, DIRECTORY, Mode::empty())? })
    }

    /// The file system that it is on.
    pub(crate) fn device(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.top)?.st_dev)
    }

    /// Bytes and files of the whole file system that are taken, by anybody: a cheap hint whether something happened.
    pub(crate) fn file_system(&self) -> io::Result<Size> {
        let state = rustix::fs::fstatvfs(&self.top)?;
        Ok(Size {
            bytes: state.f_blocks.saturating_sub(state.f_bfree).saturating_mul(state.f_frsize),
            files: state.f_files.saturating_sub(state.f_ffree),
        })
    }

    /// Measures it while its owner goes on changing it: what vanishes meanwhile is not counted. A large tree takes a
    /// while, so it asks now and then whether to give up.
    pub(crate) fn measure(&self, give_up: &mut dyn FnMut() -> bool) -> Result<Size, Unmeasured> {
        let own = rustix::fs::fstat(&self.top).map_err(|error| Unmeasured::Failed(error.into()))?;
        let mut size = Size { bytes: allocated(&own), files: 0 };
        let mut linked = HashSet::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(path) = waiting.pop() {
            let Some(directory) = self.directory(&path)? else { continue };
            // One that may be read and not searched is made ours.
            let entries = Dir::read_from(&directory).or_else(|error| {
                if error != Errno::ACCESS {
                    return Err(error);
                }
                self.unhide(&path);
                Dir::read_from(&directory)
            });
            let entries = entries.map_err(|error| Unmeasured::Failed(error.into()))?;
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(Errno::NOENT) => break,
                    Err(error) => return Err(Unmeasured::Failed(error.into())),
                };
                if is_dot(entry.file_name()) {
                    continue;
                }
                let stat = match rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => stat,
                    Err(Errno::NOENT) => continue,
                    // It may not be searched any more: a program that does that while we look hides something.
                    Err(Errno::ACCESS) => return Err(Unmeasured::Hidden),
                    Err(error) => return Err(Unmeasured::Failed(error.into())),
                };
                size.files += 1;
                if size.files.is_multiple_of(ASKED_EVERY) && give_up() {
                    return Err(Unmeasured::Interrupted);
                }
                let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                if is_directory {
                    use std::os::unix::ffi::OsStrExt as _;
                    waiting.push(path.join(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes())));
                } else if stat.st_nlink > 1 && !linked.insert(stat.st_ino) {
                    continue;
                }
                size.bytes += allocated(&stat);
            }
        }
        Ok(size)
    }

    /// Opens a directory of the tree, whatever its owner did to its mode.
    fn directory(&self, path: &Path) -> Result<Option<OwnedFd>, Unmeasured> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(&self.top, path, DIRECTORY, Mode::empty(), resolve);
        match open() {
            Err(Errno::ACCESS) => {
                self.unhide(path);
                match open() {
                    Ok(directory) => Ok(Some(directory)),
                    Err(Errno::NOENT) => Ok(None),
                    Err(_) => Err(Unmeasured::Hidden),
                }
            }
            Err(Errno::NAMETOOLONG) => Err(Unmeasured::Hidden),
            // It was moved or replaced: its contents are found where they are now, next time.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::AGAIN) => Ok(None),
            Err(error) => Err(Unmeasured::Failed(error.into())),
            Ok(directory) => Ok(Some(directory)),
        }
    }

    /// Makes every directory on the way ours to read. Only ever needed where the owner is our own user.
    fn unhide(&self, path: &Path) {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        for part in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(directory) = rustix::fs::openat2(&self.top, part, flags, Mode::empty(), resolve) {
                // A descriptor that is only a path has no mode to change, but its name in /proc has.
                let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
                let _ = rustix::fs::chmod(name, Mode::RWXU);
            }
        }
    }
}

fn allocated(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

/// Gives a tree to a user. Refuses files that have a name outside, which may be somebody else's too; files all of whose
/// names lie inside are what a program left there that links.
pub(crate) fn hand_over(top: &Path, id: u32) -> io::Result<()> {
    let owner = Some(rustix::fs::Uid::from_raw(id));
    let group = Some(rustix::fs::Gid::from_raw(id));
    let give = |directory: &OwnedFd, name: &CStr, stat: &Stat| {
        if stat.st_uid == id && stat.st_gid == id {
            return Ok(());
        }
        Ok(rustix::fs::chownat(directory, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?)
    };
    // Files with several names: of those, how many are not found yet, and the first.
    let mut linked: HashMap<(u64, u64), (Stat, String)> = HashMap::new();
    walk(top, &mut |directory, name, stat| {
        if !has_names(stat) {
            return give(directory, name, stat);
        }
        let first = || (*stat, name.to_string_lossy().into_owned());
        let (unseen, _) = linked.entry((stat.st_dev, stat.st_ino)).or_insert_with(first);
        unseen.st_nlink = unseen.st_nlink.saturating_sub(1);
        Ok(())
    })?;
    if let Some((_, name)) = linked.values().find(|(unseen, _)| unseen.st_nlink > 0) {
        return Err(io::Error::other(format!("{name} has a name outside, too (hard link); copy it instead")));
    }
    if !linked.is_empty() {
        walk(top, &mut |directory, name, stat| if has_names(stat) { give(directory, name, stat) } else { Ok(()) })?;
    }
    Ok(rustix::fs::chown(top, owner, group)?)
}

/// Whether it is a file with several names.
fn has_names(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) != FileType::Directory && stat.st_nlink > 1
}

type Visit<'a> = dyn FnMut(&OwnedFd, &CStr, &Stat) -> io::Result<()> + 'a;

/// Visits everything below a directory that nobody changes meanwhile.
fn walk(top: &Path, visit: &mut Visit<'_>) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let top = rustix::fs::open(top, DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(path) = waiting.pop() {
        let directory = rustix::fs::openat2(&top, &path, DIRECTORY, Mode::empty(), resolve)?;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dot(name) {
                continue;
            }
            let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                waiting.push(path.join(std::ffi::OsStr::from_bytes(name.to_bytes())));
            }
            visit(&directory, name, &stat)?;
        }
    }
    Ok(())
}

/// Removes a directory and everything in it, with two descriptors however deep it is. Nothing there is success.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(format!("{} is no directory that can be removed", path.display())));
    };
    let parent = match rustix::fs::open(parent, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let mut names = vec![std::ffi::CString::new(name.as_encoded_bytes()).map_err(io::Error::other)?];
    let mut at = parent;
    // `at` holds the last of `names`.
    while let Some(name) = names.last() {
        let directory = match open_to_remove(&at, name) {
            Err(Errno::NOENT) => {
                names.pop();
                if names.is_empty() {
                    break;
                }
                at = rustix::fs::openat(&at, "..", DIRECTORY, Mode::empty())?;
                continue;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                ignore_missing(rustix::fs::unlinkat(&at, name, AtFlags::empty()))?;
                continue;
            }
            other => other?,
        };
        if let Some(below) = empty(&directory)? {
            names.push(below);
            at = directory;
        } else {
            ignore_missing(rustix::fs::unlinkat(&at, name, AtFlags::REMOVEDIR))?;
        }
    }
    Ok(())
}

fn ignore_missing(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => Ok(other?),
    }
}

fn open_to_remove(at: &impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::openat(at, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => {
            // It may be readable but not writable.
            let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
            Ok(directory)
        }
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(at, name, DIRECTORY, Mode::empty())
        }
        Err(error) => Err(error),
    }
}

/// Removes what is no directory, and returns the first directory if there is one.
fn empty(directory: &OwnedFd) -> io::Result<Option<std::ffi::CString>> {
    let mut first = None;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if is_dot(entry.file_name()) {
            continue;
        }
        match rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => {
                // An empty directory goes at once; the others one after the other.
                match rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(_) => first = first.or_else(|| Some(entry.file_name().to_owned())),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(first)
}

/// Makes a directory that nobody else can look into. Others may pass through if they know the name of what is in it:
/// the sandbox's user is one of them.
pub(crate) fn make_passage(path: &Path) -> io::Result<()> {
    make(path, Mode::RWXU | Mode::XGRP | Mode::XOTH)
}

/// Makes a directory that nobody else can enter.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    make(path, Mode::RWXU)
}

fn make(path: &Path, mode: Mode) -> io::Result<()> {
    rustix::fs::mkdirat(CWD, path, mode)?;
    // Whatever mask the process has.
    Ok(rustix::fs::chmod(path, mode)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_tree_is_measured_without_following_links() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outside.path().join("a/b")).unwrap();
        std::fs::create_dir(place.path().join("one")).unwrap();
        symlink(outside.path(), place.path().join("one/link")).unwrap();
        let size = Tree::open(place.path()).unwrap().measure(&mut || false).unwrap();
        assert_eq!(size.files, 2);
    }

    #[test]
    fn a_file_with_two_names_is_counted_once_in_bytes() {
        use std::io::Write as _;
        let place = tempfile::tempdir().unwrap();
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(place.path().join("a")).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        std::fs::hard_link(place.path().join("a"), place.path().join("b")).unwrap();
        let size = Tree::open(place.path()).unwrap().measure(&mut || false).unwrap();
        assert_eq!(size.files, 2);
        assert!(size.bytes >= 1 << 20 && size.bytes < 2 << 20, "{size:?}");
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = rustix::fs::open(&top, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "deeper", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "deeper", DIRECTORY, Mode::empty()).unwrap();
        }
        assert!(matches!(Tree::open(&top).unwrap().measure(&mut || false), Err(Unmeasured::Hidden)));
        remove(&top).unwrap();
        assert!(!top.exists());
        remove(&top).unwrap();
    }

    #[test]
    fn removing_does_not_follow_links_and_does_not_mind_modes() {
        let place = tempfile::tempdir().unwrap();
        let kept = place.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        let top = place.path().join("top");
        std::fs::create_dir_all(top.join("closed/inner")).unwrap();
        symlink(&kept, top.join("link")).unwrap();
        std::fs::set_permissions(top.join("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
        remove(&top).unwrap();
        assert!(kept.exists() && !top.exists());
    }

    #[test]
    fn a_file_with_a_second_name_is_not_handed_over() {
        let place = tempfile::tempdir().unwrap();
        let (work, outside) = (place.path().join("work"), place.path().join("outside"));
        std::fs::create_dir(&work).unwrap();
        std::fs::OpenOptions::new().write(true).create_new(true).open(&outside).unwrap();
        std::fs::hard_link(&outside, work.join("inside")).unwrap();
        std::fs::hard_link(&outside, work.join("inside, too")).unwrap();
        let refused = hand_over(&work, 1_900_000_000).unwrap_err();
        assert!(refused.to_string().contains("hard link"), "{refused}");
        assert_ne!(std::os::unix::fs::MetadataExt::uid(&outside.metadata().unwrap()), 1_900_000_000);
    }

    #[test]
    fn files_all_of_whose_names_lie_inside_are_handed_over() {
        use std::os::unix::fs::MetadataExt as _;
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        let one = place.path().join("one");
        std::fs::OpenOptions::new().write(true).create_new(true).open(&one).unwrap();
        for other in ["two", "a/three", "a/b/four"] {
            std::fs::hard_link(&one, place.path().join(other)).unwrap();
        }
        // To ourselves where we are nobody, to somebody else where we may.
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let id = if user == 0 { 1_900_000_000 } else { user };
        assert!(user == 0 || group == user, "run this as root, or as a user with a group of the same number");
        hand_over(place.path(), id).unwrap();
        assert_eq!((one.metadata().unwrap().uid(), one.metadata().unwrap().nlink()), (id, 4));
    }
}
