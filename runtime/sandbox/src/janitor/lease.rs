//! A directory for a sandbox, with a lock that says its owner lives.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::linux::leftovers;

/// The file that is locked, and that names what is to be removed.
pub(crate) const LEASE: &str = "lease";
/// The lock of a whole root: taken while a lease is made and while one sweeps.
pub(crate) const ROOT_LOCK: &str = ".lock";

/// How long the lock of a root is waited for. The process that takes it holds it for moments.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The leases of this process, and the roots under which it takes no more.
static OWN: Mutex<Own> = Mutex::new(Own { leases: Vec::new(), closed: BTreeSet::new() });

struct Own {
    leases: Vec<Weak<Held>>,
    closed: BTreeSet<PathBuf>,
}

fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory for one sandbox at a time. The last clone that is dropped removes the directory with everything in it,
/// so what the program made is read before that.
#[derive(Debug, Clone)]
pub struct SandboxLease {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    directory: PathBuf,
    noted: Mutex<Noted>,
}

/// The open lease file, in which entries are noted before things are made.
#[derive(Debug)]
struct Noted {
    /// Locked as long as it is open.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it is held, and nothing is noted in it"))]
    file: File,
    /// Nothing may be made any more.
    closed: bool,
}

/// One line of a lease file: something that the owner was about to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// Which start of the machine it was: processes of another one are gone, and their numbers are somebody else's.
    Boot(String),
    /// The directory of a control group.
    Cgroup(PathBuf),
    /// A process, and when it was started as the kernel counts: its number alone may be somebody else's by now.
    Process { pid: i32, start: u64 },
}

impl SandboxLease {
    /// Makes a new directory under a root, which is made if it is missing, and takes its lock.
    pub fn take(root: impl AsRef<Path>) -> io::Result<Self> {
        let root = root.as_ref();
        make_root(root)?;
        // The program sees the directory by its full path only in messages, but the janitor compares it to mounts.
        let root = root.canonicalize()?;
        let making = lock_root(&root, PATIENCE)?;
        if own().closed.contains(&root) {
            return Err(io::Error::other("this process is ending: it makes no more sandboxes"));
        }
        let directory = root.join(leftovers::random_name()?);
        leftovers::make_passage(&directory)?;
        leftovers::make_private(&directory.join("work"))?;
        let mut file = private_file(&directory.join(LEASE))?;
        file.lock()?;
        if let Some(boot) = leftovers::boot() {
            write_entry(&mut file, &Entry::Boot(boot))?;
        }
        let held = Arc::new(Held { directory, noted: Mutex::new(Noted { file, closed: false }) });
        own().leases.push(Arc::downgrade(&held));
        drop(making);
        Ok(Self { held })
    }

    /// The directory of the lease.
    pub fn directory(&self) -> &Path {
        &self.held.directory
    }

    /// The directory that becomes `/work`: fill it before the spawn, read it after the end.
    pub fn work(&self) -> PathBuf {
        self.held.directory.join("work")
    }

    /// Removes the directory now, with everything in it. To do it twice does no harm, and so does
    /// dropping the lease afterwards.
    pub fn remove(&self) -> io::Result<()> {
        leftovers::remove(&self.held.directory)
    }

    /// The name of the lease, different from every other.
    #[cfg(target_os = "linux")]
    pub(crate) fn name(&self) -> String {
        self.held.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes down something before it is made.
    #[cfg(target_os = "linux")]
    pub(crate) fn note(&self, entry: &Entry) -> io::Result<()> {
        let mut noted = self.held.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.closed {
            return Err(io::Error::other("this process is ending: nothing is made under this lease any more"));
        }
        write_entry(&mut noted.file, entry)
    }

    /// What was made under it, or was about to be. From now on nothing is.
    pub(super) fn close(&self) -> io::Result<Vec<Entry>> {
        self.held.noted.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        match fs::read_to_string(self.held.directory.join(LEASE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => Ok(entries(&text?)),
        }
    }
}

fn write_entry(file: &mut File, entry: &Entry) -> io::Result<()> {
    use std::io::Write as _;
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// What a lease file names. A last line that was cut off names nothing that was made.
pub(super) fn entries(text: &str) -> Vec<Entry> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The leases of this process under a root, under which it takes no more from now on.
pub(super) fn close_root(root: &Path) -> io::Result<Vec<SandboxLease>> {
    own().closed.insert(root.to_owned());
    // A thread that is making one holds the lock until it is made, and known.
    drop(lock_root(root, PATIENCE)?);
    let held: Vec<_> = own().leases.iter().filter_map(Weak::upgrade).collect();
    let below = held.into_iter().filter(|held| held.directory.parent() == Some(root));
    Ok(below.map(|held| SandboxLease { held }).collect())
}

impl Drop for Held {
    fn drop(&mut self) {
        // What is left is the janitor's: the lock goes with us.
        let _ = leftovers::remove(&self.directory);
        own().leases.retain(|lease| lease.strong_count() > 0);
    }
}

/// Makes a root, if it is missing, that nobody else can look into. Others may pass: the sandbox's user is one of them.
fn make_root(root: &Path) -> io::Result<()> {
    if let Some(above) = root.parent() {
        fs::create_dir_all(above)?;
    }
    match leftovers::make_passage(root) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits for the lock of a root, for a while. Nobody else can open it, so that nobody else can hold it.
pub(crate) fn lock_root(root: &Path, patience: Duration) -> io::Result<File> {
    let path = root.join(ROOT_LOCK);
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let lock = options.open(&path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // One that an earlier version made.
        if lock.metadata()?.permissions().mode() & 0o077 != 0 {
            lock.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    let until = Instant::now() + patience;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "another process holds {path} for more than {} s; `fuser -v {path}` names it: end it, and try again",
                    patience.as_secs_f64(),
                    path = path.display(),
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_hold_the_lock_of_a_root() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("above/forks");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        drop(SandboxLease::take(&root).unwrap());
        assert_eq!((mode(&root), mode(&root.join(ROOT_LOCK))), (0o711, 0o600));
        // One that an earlier version left open to all.
        fs::set_permissions(root.join(ROOT_LOCK), fs::Permissions::from_mode(0o644)).unwrap();
        drop(SandboxLease::take(&root).unwrap());
        assert_eq!(mode(&root.join(ROOT_LOCK)), 0o600);
    }

    #[test]
    fn a_lock_that_is_held_is_waited_for_no_longer_than_a_while_and_says_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let holder = lock_root(place.path(), PATIENCE).unwrap();
        let error = lock_root(place.path(), Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("fuser -v"), "{error}");
        drop(holder);
        lock_root(place.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_root_that_is_closed_loses_its_own_leases_and_gives_no_more() {
        let place = tempfile::tempdir().unwrap();
        let (root, other) = (place.path().join("forks"), place.path().join("other"));
        let (one, elsewhere) = (SandboxLease::take(&root).unwrap(), SandboxLease::take(&other).unwrap());
        fs::create_dir(one.work().join("brains")).unwrap();
        let swept = super::super::close(&root).unwrap();
        assert_eq!((swept.leases, swept.left), (vec![one.directory().to_owned()], vec![]));
        let left: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [ROOT_LOCK]);
        assert!(SandboxLease::take(&root).unwrap_err().to_string().contains("is ending"));
        assert!(elsewhere.work().exists());
        #[cfg(target_os = "linux")]
        {
            assert!(one.note(&Entry::Cgroup("/nowhere".into())).is_err());
            elsewhere.note(&Entry::Cgroup("/nowhere".into())).unwrap();
        }
        super::super::close(&root).unwrap();
        assert_eq!(super::super::close(place.path().join("never")).unwrap(), super::super::SweepReport::default());
    }
}
