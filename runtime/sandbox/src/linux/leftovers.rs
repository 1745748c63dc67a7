//! What a sandbox leaves on the host, and how each kind of it goes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{cgroup, tree};

pub(crate) use super::tree::{make_passage, make_private, remove};

/// How long processes may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A name that no other lease has.
pub(crate) fn random_name() -> io::Result<String> {
    let bytes = random()?;
    Ok(format!("herm-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Eight random bytes from the kernel; an error where it has too little randomness.
pub(crate) fn random() -> io::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled == bytes.len() { Ok(bytes) } else { Err(io::Error::other("the kernel has too little randomness")) }
}

/// Which start of the machine this is; nothing where the kernel does not tell.
pub(crate) fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// When a process was started, as the kernel counts; `None` if it is gone.
pub(crate) fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Ends a process if it is the one that was meant, and waits until it is gone. Tells whether it was there.
pub(crate) fn end_process(pid: i32, start: u64) -> io::Result<bool> {
    let Some(number) = Pid::from_raw(pid) else { return Ok(false) };
    let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(false) };
    // Asked after it was opened, so that the answer is about the process that is held.
    if started(pid) != Some(start) {
        return Ok(false);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Err(rustix::io::Errno::SRCH) => return Ok(false),
        other => other?,
    }
    wait_until(|| started(pid) != Some(start) || is_zombie(pid), "a process does not end")?;
    Ok(true)
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
}

/// Ends whatever is in a control group.
pub(crate) fn end_members(group: &Path) -> io::Result<u32> {
    let mut ended = HashSet::new();
    wait_until(
        || {
            let members = cgroup::members(group);
            for pid in &members {
                if let Some(process) = Pid::from_raw(*pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
                    // It may have left the group, or its number may be somebody else's by now.
                    && cgroup::members(group).contains(pid)
                    && pidfd_send_signal(&process, Signal::KILL).is_ok()
                {
                    ended.insert(*pid);
                }
            }
            members.is_empty()
        },
        "processes of a control group do not end",
    )?;
    Ok(u32::try_from(ended.len()).unwrap_or(u32::MAX))
}

fn wait_until(mut done: impl FnMut() -> bool, otherwise: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, otherwise.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Removes a control group. Tells whether it was there.
pub(crate) fn remove_group(group: &Path) -> io::Result<bool> {
    // One that was named and never made: where groups cannot be made, they cannot be removed either.
    if !group.exists() {
        return Ok(false);
    }
    cgroup::remove(group)?;
    Ok(true)
}

/// Unmounts whatever is mounted in a directory.
pub(crate) fn unmount_below(directory: &Path) -> io::Result<u32> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mut places: Vec<_> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|place| place.replace("\\040", " "))
        .filter(|place| Path::new(place).starts_with(directory))
        .collect();
    // What lies deeper goes first.
    places.sort_by_key(|place| std::cmp::Reverse(place.len()));
    for place in &places {
        rustix::mount::unmount(place.as_str(), rustix::mount::UnmountFlags::DETACH)?;
    }
    Ok(u32::try_from(places.len()).unwrap_or(u32::MAX))
}

/// Gives the work directory to the sandbox's user.
pub(crate) fn hand_over(work: &Path, id: u32) -> io::Result<()> {
    tree::hand_over(work, id)
}
