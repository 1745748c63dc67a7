//! Control groups, version 1 and 2, nested under the caller's own so that the caller's limits still hold.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::limits::SandboxLimits;

/// Which files a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A place under which groups can be made: our own group in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    version: Version,
    controllers: Vec<String>,
    directory: PathBuf,
}

/// The groups of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    memory: Option<(Version, PathBuf)>,
    processes: Option<(Version, PathBuf)>,
    cpu: Option<(Version, PathBuf)>,
    accounting: Option<(Version, PathBuf)>,
    directories: Vec<PathBuf>,
    /// Processes in them that are not the program's: the init, and bubblewrap around it.
    ours: u32,
}

/// What the kernel counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Processes that were ended because memory ran out.
    pub(crate) out_of_memory: u64,
    /// Forks that were refused.
    pub(crate) refused_forks: u64,
}

/// The period over which a share of CPU time is held.
const PERIOD_US: u64 = 100_000;
/// A quarter of the usual weight: the caller wins whenever it wants the processor.
const SHARES_V1: &str = "256";
const WEIGHT_V2: &str = "25";
/// Ten times the usual weight, for those who are to end.
const LAST_SHARES_V1: &str = "10240";
const LAST_WEIGHT_V2: &str = "1000";

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Our own groups, from what the kernel tells about mounts and about us.
fn places(mounts: &str, own: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let before: Vec<_> = before.split(' ').collect();
        let after: Vec<_> = after.split(' ').collect();
        let (Some(root), Some(mount), Some(kind)) = (before.get(3), before.get(4), after.first()) else { continue };
        let options: Vec<_> = after.get(2).unwrap_or(&"").split(',').collect();
        let version = match *kind {
            "cgroup" => Version::One,
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let ours = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let matches = match version {
                Version::One => !controllers.is_empty() && controllers.split(',').all(|one| options.contains(&one)),
                Version::Two => controllers.is_empty(),
            };
            matches.then(|| (controllers.to_owned(), path.to_owned()))
        });
        let Some((controllers, path)) = ours else { continue };
        // In a container, the mount may begin at our own group or above it.
        let Ok(below) = Path::new(&path).strip_prefix(root) else { continue };
        places.push(Place {
            version,
            controllers: controllers.split(',').map(str::to_owned).filter(|name| !name.is_empty()).collect(),
            directory: Path::new(mount).join(below),
        });
    }
    places
}

/// Under which group of version 2 groups with limits can be made. A group that has processes cannot limit groups below it,
/// and our own has at least us: asking it to would turn it into one of threads, in which nobody could be put any more. So it
/// is the root, which is exempt, or the group above where that one was delegated and has no processes of its own, as
/// systemd's `Delegate=` and `DelegateSubgroup=` leave it.
fn above_limits(own: &Path) -> Option<PathBuf> {
    // The root alone has no type.
    if !own.join("cgroup.type").exists() {
        return Some(own.to_owned());
    }
    let above = own.parent().filter(|above| above.join("cgroup.procs").exists())?;
    (is_delegated(above) && members(above).is_empty()).then(|| above.to_owned())
}

fn is_delegated(group: &Path) -> bool {
    ["user.delegate", "trusted.delegate"].iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(group, *name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

impl Groups {
    /// Makes the groups that can be made, and sets their limits. `note` hears of each before it is there.
    pub(crate) fn make(
        name: &str,
        limits: &SandboxLimits,
        ours: u32,
        note: &mut dyn FnMut(&Path) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mut groups = Self::default();
        groups.ours = ours;
        for place in places(&mounts, &own) {
            let wanted = ["memory", "pids", "cpu", "cpuacct"];
            let useful =
                place.version == Version::Two || place.controllers.iter().any(|one| wanted.contains(&one.as_str()));
            if !useful {
                continue;
            }
            let above = match place.version {
                Version::One => place.directory.clone(),
                Version::Two => match above_limits(&place.directory) {
                    Some(above) => above,
                    None => continue,
                },
            };
            let directory = above.join(name);
            note(&directory)?;
            if fs::create_dir(&directory).is_err() {
                continue;
            }
            groups.directories.push(directory.clone());
            let controllers = match place.version {
                Version::One => place.controllers.clone(),
                Version::Two => {
                    for controller in ["+memory", "+pids", "+cpu"] {
                        // Those that are not to be had here are held by something else.
                        let _ = write(&above.join("cgroup.subtree_control"), controller);
                    }
                    let given = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
                    given.split_whitespace().map(str::to_owned).collect()
                }
            };
            for controller in controllers {
                groups.limit(place.version, &controller, &directory, limits);
            }
        }
        Ok(groups)
    }

    /// A limit that cannot be set leaves its place empty, and something else holds it.
    fn limit(&mut self, version: Version, controller: &str, directory: &Path, limits: &SandboxLimits) {
        let set = |name: &str, value: String| write(&directory.join(name), &value);
        let here = Some((version, directory.to_owned()));
        match (controller, version) {
            ("memory", Version::One) if set("memory.limit_in_bytes", limits.memory.to_string()).is_ok() => {
                // Without this, swap would be free.
                let _ = set("memory.memsw.limit_in_bytes", limits.memory.to_string());
                self.memory = here;
            }
            ("memory", Version::Two) if set("memory.max", limits.memory.to_string()).is_ok() => {
                let _ = set("memory.swap.max", "0".into());
                let _ = set("memory.oom.group", "1".into());
                self.memory = here;
            }
            ("pids", _)
                if set("pids.max", (u64::from(limits.processes) + u64::from(self.ours)).to_string()).is_ok() =>
            {
                self.processes = here;
            }
            ("cpu", Version::One) => {
                let quota = u64::from(limits.cpu_percent) * PERIOD_US / 100;
                let held = set("cpu.cfs_period_us", PERIOD_US.to_string())
                    .and_then(|()| set("cpu.cfs_quota_us", quota.to_string()));
                if held.is_ok() {
                    self.cpu = here;
                }
            }
            ("cpu", Version::Two) => {
                let quota = u64::from(limits.cpu_percent) * PERIOD_US / 100;
                if set("cpu.max", format!("{quota} {PERIOD_US}")).is_ok() {
                    self.cpu = here.clone();
                    self.accounting = here;
                }
            }
            ("cpuacct", Version::One) => self.accounting = here,
            _ => {}
        }
    }

    /// Puts a process, and everything it starts, into every group.
    pub(crate) fn join(&self, pid: i32) -> io::Result<()> {
        self.directories.iter().try_for_each(|directory| write(&directory.join("cgroup.procs"), &pid.to_string()))
    }

    pub(crate) fn holds_memory(&self) -> Option<&'static str> {
        self.memory.as_ref().map(|(version, _)| version.name())
    }

    pub(crate) fn holds_processes(&self) -> Option<&'static str> {
        self.processes.as_ref().map(|(version, _)| version.name())
    }

    pub(crate) fn holds_cpu(&self) -> Option<&'static str> {
        self.cpu.as_ref().map(|(version, _)| version.name())
    }

    /// What was refused so far.
    pub(crate) fn counted(&self) -> Counted {
        let out_of_memory = self.memory.as_ref().and_then(|(version, directory)| match version {
            Version::One => field(&directory.join("memory.oom_control"), "oom_kill "),
            Version::Two => field(&directory.join("memory.events"), "oom_kill "),
        });
        let refused_forks =
            self.processes.as_ref().and_then(|(_, directory)| field(&directory.join("pids.events"), "max "));
        Counted { out_of_memory: out_of_memory.unwrap_or(0), refused_forks: refused_forks.unwrap_or(0) }
    }

    pub(crate) fn memory_peak(&self) -> Option<u64> {
        let (version, directory) = self.memory.as_ref()?;
        match version {
            Version::One => number(&directory.join("memory.max_usage_in_bytes")),
            Version::Two => {
                number(&directory.join("memory.peak")).or_else(|| number(&directory.join("memory.current")))
            }
        }
    }

    /// Processes and threads of the program now.
    pub(crate) fn processes(&self) -> Option<u32> {
        let (_, directory) = self.processes.as_ref()?;
        u32::try_from(number(&directory.join("pids.current"))?.saturating_sub(self.ours.into())).ok()
    }

    pub(crate) fn cpu_used(&self) -> Option<Duration> {
        let (version, directory) = self.accounting.as_ref()?;
        match version {
            Version::One => number(&directory.join("cpuacct.usage")).map(Duration::from_nanos),
            Version::Two => field(&directory.join("cpu.stat"), "usage_usec ").map(Duration::from_micros),
        }
    }

    /// From now on the caller wins whenever it wants the processor. This is not set before the program starts: the
    /// set-up is the caller's own work.
    pub(crate) fn yield_to_others(&self) {
        if let Some((version, directory)) = &self.cpu {
            // Where it cannot be set, the niceness of the program remains.
            let _ = match version {
                Version::One => write(&directory.join("cpu.shares"), SHARES_V1),
                Version::Two => write(&directory.join("cpu.weight"), WEIGHT_V2),
            };
        }
    }

    /// Lets processes that are to end do so at once: one that waits for its share would wait with dying too.
    pub(crate) fn hasten(&self) {
        if let Some((version, directory)) = &self.cpu {
            let files = match version {
                Version::One => [("cpu.cfs_quota_us", "-1"), ("cpu.shares", LAST_SHARES_V1)],
                Version::Two => [("cpu.max", "max"), ("cpu.weight", LAST_WEIGHT_V2)],
            };
            for (file, value) in files {
                // They end without it too, only later.
                let _ = write(&directory.join(file), value);
            }
        }
    }

    /// Removes the groups. What is gone already is fine.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        for directory in std::mem::take(&mut self.directories) {
            remove(&directory)?;
        }
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // A caller that wants to know calls `remove` itself; what is left here is the janitor's.
        let _ = self.remove();
    }
}

impl Version {
    fn name(self) -> &'static str {
        match self {
            Self::One => "cgroup v1",
            Self::Two => "cgroup v2",
        }
    }
}

/// How long the kernel may take to notice that a group is empty.
const PATIENCE: Duration = Duration::from_secs(2);

/// Removes one group, which must have no process in it.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

/// The processes of a group.
pub(crate) fn members(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_under_our_own() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "2:cpu,cpuacct:/service/herm\n0::/service/herm\n";
        assert_eq!(
            places(mounts, own),
            [
                Place {
                    version: Version::One,
                    controllers: vec!["cpu".into(), "cpuacct".into()],
                    directory: "/sys/fs/cgroup/cpu,cpuacct/service/herm".into(),
                },
                Place {
                    version: Version::Two,
                    controllers: vec![],
                    directory: "/sys/fs/cgroup/unified/service/herm".into(),
                },
            ]
        );
    }

    #[test]
    fn a_mount_that_begins_at_a_container_is_not_walked_twice() {
        let mounts = "31 30 0:27 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = places(mounts, "0::/docker/abc/inner\n");
        assert_eq!(found[0].directory, Path::new("/sys/fs/cgroup/inner"));
        assert_eq!(places(mounts, "0::/elsewhere\n"), []);
    }
}
