//! Removes what dead owners left.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::lease::{Entry, LEASE, PATIENCE, ROOT_LOCK, close_root, entries, lock_root};
use crate::linux::leftovers;

/// What was removed, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
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

/// Leases that are claimed at once: each is an open file.
const AT_ONCE: usize = 64;

/// Removes what leases without an owner name: processes, control groups, mounts, directories. The root's lock is held
/// while leases are claimed, and not while they are removed: that may take long, and others want to make theirs.
///
/// Fails only if the root cannot be read or locked. A root that does not exist is clean.
pub fn sweep(root: impl AsRef<Path>) -> io::Result<SweepReport> {
    let mut swept = SweepReport::default();
    let Some(root) = existing(root.as_ref())? else { return Ok(swept) };
    let directories = {
        let _looking = lock_root(&root, PATIENCE)?;
        leases(&root)?
    };
    for some in directories.chunks(AT_ONCE) {
        let mut ours = Vec::new();
        {
            let _claiming = lock_root(&root, PATIENCE)?;
            for directory in some {
                match claim(directory) {
                    Ok(Claim::Gone) => {}
                    Ok(Claim::Held) => swept.held += 1,
                    Ok(Claim::Ours(entries, lock)) => ours.push((directory, entries, lock)),
                    Err(error) => swept.left.push((directory.clone(), error.to_string())),
                }
            }
        }
        for (directory, entries, _lock) in ours {
            swept.removed(directory, clear(directory, &entries));
        }
    }
    Ok(swept)
}

/// Ends and removes every sandbox of this process under a root, and lets it take no more leases there: for a process that
/// is about to end, and whose threads may still hold some.
pub fn close(root: impl AsRef<Path>) -> io::Result<SweepReport> {
    let mut swept = SweepReport::default();
    let Some(root) = existing(root.as_ref())? else { return Ok(swept) };
    for lease in close_root(&root)? {
        let cleared = lease.close().and_then(|entries| clear(lease.directory(), &entries));
        swept.removed(lease.directory(), cleared);
    }
    Ok(swept)
}

impl SweepReport {
    fn removed(&mut self, directory: &Path, cleared: io::Result<Cleared>) {
        match cleared {
            Ok(cleared) => {
                self.processes += cleared.processes;
                self.cgroups += cleared.cgroups;
                self.mounts += cleared.mounts;
                self.leases.push(directory.to_owned());
            }
            Err(error) => self.left.push((directory.to_owned(), error.to_string())),
        }
    }
}

fn existing(root: &Path) -> io::Result<Option<PathBuf>> {
    match root.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// The directories of all leases of a root.
fn leases(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name() != ROOT_LOCK && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

enum Claim {
    /// Its owner, or another janitor, removed it meanwhile.
    Gone,
    Held,
    Ours(Vec<Entry>, Option<File>),
}

fn claim(directory: &Path) -> io::Result<Claim> {
    let mut file = match fs::OpenOptions::new().read(true).append(true).open(directory.join(LEASE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Its owner died before it could make anything: leases are made under the root's lock, which we hold.
            let is_there = directory.symlink_metadata().is_ok();
            return Ok(if is_there { Claim::Ours(vec![], None) } else { Claim::Gone });
        }
        other => other?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(Claim::Held),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Claim::Ours(entries(&text), Some(file)))
}

/// What went with a lease.
#[derive(Debug, Default)]
struct Cleared {
    processes: u32,
    cgroups: u32,
    mounts: u32,
}

fn clear(directory: &Path, entries: &[Entry]) -> io::Result<Cleared> {
    let mut cleared = Cleared::default();
    let now = leftovers::boot();
    let is_of_another_boot =
        entries.iter().any(|entry| matches!(entry, Entry::Boot(boot) if Some(boot) != now.as_ref()));
    for entry in entries {
        match entry {
            Entry::Boot(_) => {}
            Entry::Process { .. } if is_of_another_boot => {}
            Entry::Process { pid, start } => cleared.processes += u32::from(leftovers::end_process(*pid, *start)?),
            Entry::Cgroup(group) => cleared.processes += leftovers::end_members(group)?,
        }
    }
    for entry in entries {
        if let Entry::Cgroup(group) = entry {
            cleared.cgroups += u32::from(leftovers::remove_group(group)?);
        }
    }
    cleared.mounts += leftovers::unmount_below(directory)?;
    leftovers::remove(directory)?;
    Ok(cleared)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "a test leaves what a killed owner would")]
mod tests {
    use super::*;

    /// A process that waits until it is ended.
    fn stranger() -> (std::process::Child, u64) {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let start = leftovers::started(pid).unwrap();
        (child, start)
    }

    fn left_behind(root: &Path, boot: &str, pid: u32, start: u64) {
        fs::create_dir_all(root.join("herm-left/work")).unwrap();
        let lines = format!("{{\"boot\":\"{boot}\"}}\n{{\"process\":{{\"pid\":{pid},\"start\":{start}}}}}\n");
        fs::write(root.join("herm-left/lease"), lines).unwrap();
    }

    #[test]
    fn a_lease_of_another_start_of_the_machine_names_no_process_of_this_one() {
        let place = tempfile::tempdir().unwrap();
        let (mut child, start) = stranger();
        left_behind(place.path(), "00000000-0000-0000-0000-000000000000", child.id(), start);
        let swept = sweep(place.path()).unwrap();
        assert_eq!((swept.leases.len(), swept.processes, swept.left), (1, 0, vec![]));
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        // Of this start it is the one that was meant.
        left_behind(place.path(), &leftovers::boot().unwrap(), child.id(), start);
        let swept = sweep(place.path()).unwrap();
        assert_eq!((swept.leases.len(), swept.processes), (1, 1));
        child.wait().unwrap();
    }
}
