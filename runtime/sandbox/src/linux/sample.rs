//! What the processes of a sandbox take, read from the sandbox's own `/proc`: nobody else's processes are in it.
//!
//! Used where no control group counts. Sampling misses what happens between two samples, so near a limit everything
//! is stopped while it is looked at (see `supervise.rs`).

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::tree::Size;

/// The most open files, and the most text about mappings, that one look takes in: who has more may hide in it.
const MOST_FILES: usize = 20_000;
const MOST_MAPS: usize = 16 << 20;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What the processes take now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Processes and threads, without the init.
    pub(crate) tasks: u32,
    /// Bytes of memory: an upper bound, since what processes share is counted for each.
    pub(crate) memory: u64,
    /// CPU time of everything that lives or was waited for.
    pub(crate) cpu: Duration,
}

/// Files without a name that processes keep open: no directory shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Nameless {
    /// Those on the file system of the work directory.
    pub(crate) disk: Size,
    /// Bytes of files that are nowhere but in memory.
    pub(crate) memory: u64,
    /// Whether some may be where nobody can measure them: mapped with their descriptors closed, or on their way
    /// through a socket. A process that does that is taken to have taken all that the file system lost.
    pub(crate) hides: bool,
}

/// The sandbox's own `/proc` and `/tmp`, seen from outside.
#[derive(Debug)]
pub(crate) struct ProcView {
    proc: OwnedFd,
    temporary: OwnedFd,
    /// Whether `/tmp` is memory: it is the sandbox's own, except in a negative control.
    temporary_is_memory: bool,
    /// Whether `/proc` is the sandbox's own: in a negative control it shows everybody's processes, and counts nothing.
    own_processes: bool,
    /// The devices of files that are in memory alone, as `/proc` writes them.
    in_memory: Vec<String>,
    page: u64,
}

impl ProcView {
    pub(crate) fn new(proc: OwnedFd, temporary: OwnedFd, own_processes: bool) -> Self {
        let temporary_is_memory = rustix::fs::fstatfs(&temporary).is_ok_and(|state| state.f_type == libc::TMPFS_MAGIC);
        let nowhere = rustix::fs::memfd_create(c"device", rustix::fs::MemfdFlags::CLOEXEC).ok();
        let in_memory = nowhere.iter().chain(temporary_is_memory.then_some(&temporary));
        let in_memory = in_memory.filter_map(|file| rustix::fs::fstat(file).ok()).map(|stat| device_name(stat.st_dev));
        let (in_memory, page) = (in_memory.collect(), rustix::param::page_size() as u64);
        Self { proc, temporary, temporary_is_memory, own_processes, in_memory, page }
    }

    /// Reads memory, tasks and CPU time from `/proc`: cheap, and it can miss what comes and goes.
    pub(crate) fn sample(&self) -> io::Result<Sample> {
        let mut sample = Sample { memory: self.temporary()?, ..Sample::default() };
        let mut ticks = 0;
        // What the init waited for is in its own figures.
        let init = rustix::fs::openat(&self.proc, c"1", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        if self.own_processes
            && let Some(stat) = init.ok().and_then(|init| Stat::read(&init))
        {
            ticks += stat.ticks();
        }
        self.each_process(|process| {
            let Some(stat) = Stat::read(process) else { return };
            sample.tasks = sample.tasks.saturating_add(u32::try_from(stat.field(17)).unwrap_or(0));
            let resident = match stat.resident() {
                0 => living(process).and_then(|thread| Stat::read(&thread)).map_or(0, |stat| stat.resident()),
                resident => resident,
            };
            sample.memory += resident * self.page;
            ticks += stat.ticks();
        })?;
        let second = rustix::param::clock_ticks_per_second().max(1);
        sample.cpu = Duration::from_secs_f64(ticks as f64 / second as f64);
        Ok(sample)
    }

    /// Memory, with what processes share counted once, and what files of the host take not at all. Slower.
    pub(crate) fn exact_memory(&self) -> io::Result<u64> {
        let mut memory = self.temporary()?;
        self.each_process(|process| {
            let rollup = |process: &OwnedFd| read(process, c"smaps_rollup").filter(|rollup| !rollup.is_empty());
            let rollup = rollup(process).or_else(|| rollup(&living(process)?)).unwrap_or_default();
            for line in rollup.lines() {
                let wanted = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"];
                let Some(value) = wanted.iter().find_map(|name| line.strip_prefix(name)) else { continue };
                let kilobytes: u64 = value.trim().trim_end_matches(" kB").parse().unwrap_or(0);
                memory += kilobytes * 1024;
            }
        })?;
        Ok(memory)
    }

    /// Bytes in the sandbox's `/tmp`, which is memory.
    fn temporary(&self) -> io::Result<u64> {
        if !self.temporary_is_memory {
            return Ok(0);
        }
        let state = rustix::fs::fstatvfs(&self.temporary)?;
        Ok(state.f_blocks.saturating_sub(state.f_bfree).saturating_mul(state.f_frsize))
    }

    /// Looks at every file that is open, runs or is mapped, and at no more than it can in good time.
    pub(crate) fn nameless(&self, work_device: u64) -> io::Result<Nameless> {
        let own_temporary = rustix::fs::fstat(&self.temporary)?.st_dev;
        let (mut seen, ours) = (HashSet::new(), OnceCell::new());
        let mut found = Nameless::default();
        let (mut files_left, mut maps_left) = (MOST_FILES, MOST_MAPS);
        self.each_process(|process| {
            let living =
                if Stat::read(process).is_some_and(|stat| stat.resident() > 0) { None } else { living(process) };
            let process = living.as_ref().unwrap_or(process);
            let mut count = |stat: &rustix::fs::Stat| {
                if stat.st_nlink > 0 || !seen.insert((stat.st_dev, stat.st_ino)) {
                    return;
                }
                let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
                if stat.st_dev == work_device {
                    found.disk = found.disk + Size { bytes, files: 1 };
                } else if stat.st_dev != own_temporary && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                {
                    found.memory += bytes;
                }
            };
            for held in [c"cwd", c"exe"] {
                let held = rustix::fs::statat(process, held, AtFlags::empty()).ok();
                held.iter().filter(|held| !is_our_program(held)).for_each(&mut count);
            }
            let hides_open = each_open_file(process, &mut files_left, count);
            let maps = read_some(process, c"maps", maps_left);
            maps_left = maps_left.saturating_sub(maps.as_ref().map_or(0, String::len));
            let hides_mapped = maps.is_some_and(|maps| maps.lines().any(|line| self.is_hideout(line, &ours)));
            found.hides |= hides_open || hides_mapped || files_left == 0 || maps_left == 0;
        })?;
        Ok(found)
    }

    /// Whether a line of `maps` is of a file that has no name any more. What is in memory is counted as memory; what we
    /// map too was replaced under us, and nobody hides there.
    fn is_hideout(&self, line: &str, ours: &OnceCell<String>) -> bool {
        let Some(file) = mapped_file(line).filter(|_| line.ends_with(" (deleted)")) else { return false };
        if self.in_memory.iter().any(|memory| memory == file.0) {
            return false;
        }
        let ours = ours.get_or_init(|| std::fs::read_to_string("/proc/self/maps").unwrap_or_default());
        !ours.lines().any(|line| mapped_file(line) == Some(file))
    }

    /// Whether no process inside runs or sleeps interruptibly, by the state of its first living thread.
    pub(crate) fn are_stopped(&self) -> bool {
        let mut all = true;
        let looked = self.each_process(|process| {
            let state = |thread: &OwnedFd| Stat::read(thread).map_or('X', |stat| stat.state());
            let state = match state(process) {
                'Z' => living(process).map_or('Z', |thread| state(&thread)),
                state => state,
            };
            all &= !matches!(state, 'R' | 'S');
        });
        looked.is_ok() && all
    }

    /// Calls with the directory of every process but the init; one that ends meanwhile is left out.
    fn each_process(&self, mut visit: impl FnMut(&OwnedFd)) -> io::Result<()> {
        if !self.own_processes {
            return Ok(());
        }
        for entry in Dir::read_from(&self.proc)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"1" || !name.to_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            if let Ok(process) = rustix::fs::openat(&self.proc, name, DIRECTORY, Mode::empty()) {
                visit(&process);
            }
        }
        Ok(())
    }
}

/// The directories of all threads of a process.
fn threads(process: &OwnedFd) -> impl Iterator<Item = OwnedFd> {
    let threads = rustix::fs::openat(process, c"task", DIRECTORY, Mode::empty()).ok();
    let entries = threads.as_ref().and_then(|threads| Dir::read_from(threads).ok());
    entries.into_iter().flatten().flatten().filter(|entry| !entry.file_name().to_bytes().starts_with(b".")).filter_map(
        move |entry| rustix::fs::openat(threads.as_ref()?, entry.file_name(), DIRECTORY, Mode::empty()).ok(),
    )
}

/// Calls with every open file of a process, which all its threads have. Tells whether there may be others: in a socket, or
/// where we may not look.
fn each_open_file(process: &OwnedFd, left: &mut usize, mut visit: impl FnMut(&rustix::fs::Stat)) -> bool {
    let open = match rustix::fs::openat(process, c"fd", DIRECTORY, Mode::empty()) {
        Ok(open) => open,
        Err(error) => return matches!(error, Errno::ACCESS | Errno::PERM),
    };
    let mut more = false;
    for entry in Dir::read_from(&open).into_iter().flatten().flatten() {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let Ok(stat) = rustix::fs::statat(&open, entry.file_name(), AtFlags::empty()) else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Socket {
            more |= is_carrying(process, entry.file_name());
        }
        visit(&stat);
    }
    more
}

/// Whether descriptors wait in a socket.
fn is_carrying(process: &OwnedFd, descriptor: &CStr) -> bool {
    let path = [c"fdinfo/".to_bytes(), descriptor.to_bytes()].concat();
    let Some(told) = CString::new(path).ok().and_then(|path| read(process, &path)) else { return false };
    told.lines().any(|line| line.strip_prefix("scm_fds:").is_some_and(|count| count.trim() != "0"))
}

/// A thread whose memory is there: that of the first is not, once it has ended, however many go on.
fn living(process: &OwnedFd) -> Option<OwnedFd> {
    threads(process).find(|thread| Stat::read(thread).is_some_and(|stat| stat.resident() > 0))
}

/// The device and the number of the file that a line of `maps` is of.
fn mapped_file(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split_ascii_whitespace().skip(3);
    let (device, inode) = (fields.next()?, fields.next()?);
    (inode != "0").then_some((device, inode))
}

/// Our own program may lose its name while it runs: that takes nothing.
fn is_our_program(program: &rustix::fs::Stat) -> bool {
    let ours = rustix::fs::stat(c"/proc/self/exe");
    ours.is_ok_and(|ours| (ours.st_dev, ours.st_ino) == (program.st_dev, program.st_ino))
}

/// How `/proc` writes a device.
fn device_name(device: u64) -> String {
    format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// What `/proc` tells of a process in one line.
struct Stat {
    text: String,
}

impl Stat {
    fn read(process: &OwnedFd) -> Option<Self> {
        read(process, c"stat").map(|text| Self { text })
    }

    /// A field after the name, which stands in parentheses and may hold anything.
    fn field(&self, index: usize) -> u64 {
        let fields = self.text.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().nth(index).and_then(|field| field.parse().ok()).unwrap_or(0)
    }

    /// What it does now, in one letter.
    fn state(&self) -> char {
        self.text.rsplit_once(')').and_then(|(_, fields)| fields.trim_start().chars().next()).unwrap_or('X')
    }

    /// Pages of memory that the process occupies.
    fn resident(&self) -> u64 {
        self.field(21)
    }

    /// CPU time of the process and of the children it waited for.
    fn ticks(&self) -> u64 {
        (11..15).map(|index| self.field(index)).sum()
    }
}

fn read(process: &OwnedFd, name: &CStr) -> Option<String> {
    read_some(process, name, usize::MAX)
}

/// At most so many bytes of it.
fn read_some(process: &OwnedFd, name: &CStr, most: usize) -> Option<String> {
    let file = rustix::fs::openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = Vec::new();
    File::from(file).take(most as u64).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_a_name_are_hideouts_unless_they_are_memory_or_ours() {
        let open = |path: &CStr| rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap();
        let windows = ProcView::new(open(c"/proc"), open(c"/tmp"), true);
        let deleted =
            |device: &str, inode: &str| format!("7f00-7f10 r--p 00000000 {device} {inode} /work/a b (deleted)");
        let is_hideout = |line: &str| windows.is_hideout(line, &OnceCell::new());
        assert!(is_hideout(&deleted("fe:00", "18446744073709551615")));
        assert!(!is_hideout("7f00-7f10 r--p 00000000 fe:00 18446744073709551615 /work/a b"));
        assert!(!is_hideout("7f00-7f10 rw-p 00000000 00:00 0"));
        assert!(!is_hideout(&deleted(&windows.in_memory[0], "7")), "a memory file is counted as memory");
        // Our program was replaced while it runs.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let (device, inode) = maps.lines().find_map(mapped_file).unwrap();
        assert!(!is_hideout(&deleted(device, inode)));
        assert!(is_our_program(&rustix::fs::stat(c"/proc/self/exe").unwrap()));
    }
}
