//! What the processes of a sandbox take, read from the sandbox's own `/proc`: nobody else's processes are in it.
//!
//! Used where no control group counts. Sampling misses what happens between two samples, so near a limit everything
//! is stopped while it is looked at (see `supervise.rs`).

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

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
    /// Bytes on the file system of the work directory.
    pub(crate) disk: u64,
    /// Bytes of files that are nowhere but in memory.
    pub(crate) memory: u64,
    /// How many of them are on the file system of the work directory.
    pub(crate) files: u64,
}

/// The sandbox's own `/proc` and `/tmp`, seen from outside.
#[derive(Debug)]
pub(crate) struct Windows {
    proc: OwnedFd,
    temporary: OwnedFd,
    /// Whether `/tmp` is memory: it is the sandbox's own, except in a negative control.
    temporary_is_memory: bool,
    /// Whether `/proc` is the sandbox's own: in a negative control it shows everybody's processes, and counts nothing.
    own_processes: bool,
    page: u64,
}

impl Windows {
    pub(crate) fn new(proc: OwnedFd, temporary: OwnedFd, own_processes: bool) -> Self {
        let temporary_is_memory = rustix::fs::fstatfs(&temporary).is_ok_and(|state| state.f_type == libc::TMPFS_MAGIC);
        Self { proc, temporary, temporary_is_memory, own_processes, page: rustix::param::page_size() as u64 }
    }

    /// A cheap look.
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
            sample.memory += stat.field(21) * self.page;
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
            let Some(rollup) = read(process, c"smaps_rollup") else { return };
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

    /// Looks at every open file.
    pub(crate) fn nameless(&self, work_device: u64) -> io::Result<Nameless> {
        let own_temporary = rustix::fs::fstat(&self.temporary)?.st_dev;
        let mut seen = HashSet::new();
        let mut found = Nameless::default();
        self.each_process(|process| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(open) = rustix::fs::openat(process, c"fd", flags, Mode::empty()) else { return };
            let Ok(entries) = Dir::read_from(&open) else { return };
            for entry in entries.flatten() {
                let Ok(stat) = rustix::fs::statat(&open, entry.file_name(), AtFlags::empty()) else { continue };
                let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                if !regular || stat.st_nlink > 0 || !seen.insert((stat.st_dev, stat.st_ino)) {
                    continue;
                }
                let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
                if stat.st_dev == work_device {
                    found.disk += bytes;
                    found.files += 1;
                } else if stat.st_dev != own_temporary {
                    found.memory += bytes;
                }
            }
        })?;
        Ok(found)
    }

    /// Calls with the directory of every process but the init; one that ends meanwhile is left out.
    fn each_process(&self, mut visit: impl FnMut(&OwnedFd)) -> io::Result<()> {
        if !self.own_processes {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::read_from(&self.proc)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"1" || !name.to_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            if let Ok(process) = rustix::fs::openat(&self.proc, name, flags, Mode::empty()) {
                visit(&process);
            }
        }
        Ok(())
    }
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

    /// CPU time of the process and of the children it waited for.
    fn ticks(&self) -> u64 {
        (11..15).map(|index| self.field(index)).sum()
    }
}

fn read(process: &OwnedFd, name: &CStr) -> Option<String> {
    let file = rustix::fs::openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = Vec::new();
    File::from(file).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
