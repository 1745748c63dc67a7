//! Removes what dead owners left.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::lease::{Entry, LEASE, ROOT_LOCK, lock_root};
use crate::linux::place;

/// What was removed, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Leases whose owner was gone, removed with their directories.
    pub leases: Vec<PathBuf>,
    /// Processes that were still there, ended.
    pub processes: u32,
    /// Control groups that were still there, removed.
    pub cgroups: u32,
    /// Mounts that were still there, unmounted.
    pub mounts: u32,
    /// Leases that are held: left alone.
    pub held: u32,
    /// What could not be removed, and why. The next sweep tries again.
    pub left: Vec<(PathBuf, String)>,
}

/// Removes what leases without an owner name: processes, control groups, mounts, directories.
///
/// Fails only if the root cannot be read. A root that does not exist is clean.
pub fn sweep(root: impl AsRef<Path>) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let root = match root.as_ref().canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(swept),
        other => other?,
    };
    let _sweeping = lock_root(&root)?;
    for entry in fs::read_dir(&root)? {
        let entry = entry?;
        if entry.file_name() == ROOT_LOCK || !entry.file_type()?.is_dir() {
            continue;
        }
        let directory = entry.path();
        match claim(&directory) {
            Ok(Claim::Held) => swept.held += 1,
            Ok(Claim::Ours(entries, _lock)) => match clear(&directory, &entries, &mut swept) {
                Ok(()) => swept.leases.push(directory),
                Err(error) => swept.left.push((directory, error.to_string())),
            },
            Err(error) => swept.left.push((directory, error.to_string())),
        }
    }
    Ok(swept)
}

enum Claim {
    Held,
    Ours(Vec<Entry>, Option<File>),
}

fn claim(directory: &Path) -> io::Result<Claim> {
    let mut file = match fs::OpenOptions::new().read(true).append(true).open(directory.join(LEASE)) {
        // Its owner died before it could make anything: leases are made under the root's lock, which we hold.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Claim::Ours(vec![], None)),
        other => other?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(Claim::Held),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // A last line that was cut off names nothing that was made.
    let entries = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok(Claim::Ours(entries, Some(file)))
}

fn clear(directory: &Path, entries: &[Entry], swept: &mut Swept) -> io::Result<()> {
    for entry in entries {
        match entry {
            Entry::Process { pid, start } => swept.processes += u32::from(place::end_process(*pid, *start)?),
            Entry::Cgroup(group) => swept.processes += place::end_members(group)?,
        }
    }
    for entry in entries {
        if let Entry::Cgroup(group) = entry {
            swept.cgroups += u32::from(place::remove_group(group)?);
        }
    }
    swept.mounts += place::unmount_below(directory)?;
    place::remove(directory)
}
