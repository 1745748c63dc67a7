//! The system calls that no safe wrapper has. Every `unsafe` block of the library is in this file.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fork {
    Parent(i32),
    Child,
}

fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks a process with one thread. Refused in a process with more: their locks would stay taken in the child.
pub(crate) fn fork() -> io::Result<Fork> {
    fork_with(0)
}

/// Forks a child whose parent is our own parent, so that we may go away.
pub(crate) fn fork_as_sibling() -> io::Result<Fork> {
    fork_with(libc::CLONE_PARENT as libc::c_ulong)
}

#[expect(unsafe_code, reason = "no safe wrapper can promise that there is one thread; here it is counted")]
fn fork_with(flags: libc::c_ulong) -> io::Result<Fork> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("{threads} threads run where only one may")));
    }
    // SAFETY: the process has one thread, so the child's copy of memory is consistent. No stack, no thread pointer and
    // no tid addresses are passed, which makes this a plain fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD as libc::c_ulong, 0, 0, 0, 0) };
    match checked(pid)? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid as i32)),
    }
}

/// Closes every descriptor from `first` on.
#[expect(unsafe_code, reason = "closing descriptors that others may own is what is wanted here")]
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called in a stage before it owns any descriptor but standard input, so nothing that Rust owns is closed.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Puts a descriptor at a fixed number, open over `exec`.
#[expect(unsafe_code, reason = "the number is the point")]
pub(crate) fn place(descriptor: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: the caller has moved every descriptor it owns above the numbers that are placed.
    checked(i64::from(unsafe { libc::dup2(descriptor.as_raw_fd(), number) })).map(drop)
}

/// A copy of a descriptor at a number that no [`place`] takes, closed over `exec`.
pub(crate) fn lift(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, 20)?)
}

/// Gives every signal its default again, and blocks none.
#[expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]
pub(crate) fn default_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is a valid disposition; signals that cannot be set are refused by the kernel.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: a zeroed set is made empty before it is used, and outlives the call.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// A descriptor that becomes readable when a child has ended. SIGCHLD is blocked for this process.
#[expect(unsafe_code, reason = "signalfd has no safe wrapper")]
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: the set is initialised before use; the descriptor that signalfd returns is ours alone.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        checked(i64::from(descriptor))?;
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Sends a signal to every process of this pid namespace but ourselves.
#[expect(unsafe_code, reason = "-1 is no process id that the safe wrapper takes")]
pub(crate) fn signal_all(signal: i32) {
    // SAFETY: kill takes two integers. Only called by the init of a pid namespace.
    unsafe { libc::kill(-1, signal) };
}

/// Makes the loopback interface of this network namespace usable.
#[expect(unsafe_code, reason = "interface flags are an ioctl")]
pub(crate) fn loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: the request is zeroed, which is valid for it, its name is NUL-terminated, and it outlives both calls.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        checked(i64::from(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request)))?;
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        checked(i64::from(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request))).map(drop)
    }
}

/// Mount attributes, as in `linux/mount.h`.
pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SUID: u64 = 0x2;
pub(crate) const NO_DEVICES: u64 = 0x4;
pub(crate) const NO_EXEC: u64 = 0x8;

/// Sets attributes of a mount and of every mount below it.
pub(crate) fn set_mount_attributes(mount: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    const AT_RECURSIVE: libc::c_int = 0x8000;
    mount_setattr(mount, AT_RECURSIVE, attributes)
}

/// Sets attributes of a mount, and leaves those below it as they are.
pub(crate) fn set_own_mount_attributes(mount: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    mount_setattr(mount, 0, attributes)
}

#[expect(unsafe_code, reason = "mount_setattr has no safe wrapper")]
fn mount_setattr(mount: BorrowedFd<'_>, flags: libc::c_int, attributes: u64) -> io::Result<()> {
    let request = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    // SAFETY: the path is an empty C string, the request outlives the call, and its size is passed.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const request,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Removes every capability from the bounding set.
#[expect(unsafe_code, reason = "a loop over numbers the kernel may know and the wrapper may not")]
pub(crate) fn empty_bounding_set() -> io::Result<()> {
    for capability in 0..64_u64 {
        // SAFETY: PR_CAPBSET_DROP takes one integer.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if result != 0 {
            let error = io::Error::last_os_error();
            // The first number that the kernel does not know ends the list.
            return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// What `exec` may take along, for a process that is to keep its capabilities: only for negative controls.
#[expect(unsafe_code, reason = "a loop over numbers the kernel may know and the wrapper may not")]
pub(crate) fn raise_ambient_set() {
    for capability in 0..64_u64 {
        // SAFETY: PR_CAP_AMBIENT takes integers; a capability that is not held is refused.
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0) };
    }
}

/// How a child ended, and the CPU time of it and of all it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reaped {
    pub(crate) status: i32,
    pub(crate) cpu: Duration,
}

/// Waits for a child.
#[expect(unsafe_code, reason = "wait4 is the one call that tells the CPU time of a process tree")]
pub(crate) fn reap(pid: i32) -> io::Result<Reaped> {
    let mut status = 0;
    // SAFETY: zero is valid for a rusage, and both pointers outlive the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        loop {
            if libc::wait4(pid, &raw mut status, 0, &raw mut usage) >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, (time.tv_usec as u32) * 1_000);
    Ok(Reaped { status, cpu: time(usage.ru_utime) + time(usage.ru_stime) })
}

/// The shared libraries of this process, as its linker found them, and the linker itself.
#[expect(unsafe_code, reason = "only the linker knows under which names it found them")]
pub(crate) fn loaded_libraries() -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;

    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: libc::size_t, found: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the linker passes a valid info whose name is a C string, and our own pointer to a Vec.
        let (name, found) = unsafe {
            let name = (*info).dlpi_name;
            let name = if name.is_null() { c"" } else { CStr::from_ptr(name) };
            (name, &mut *found.cast::<Vec<PathBuf>>())
        };
        if name.to_bytes().starts_with(b"/") {
            found.push(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())));
        }
        0
    }

    let mut found: Vec<PathBuf> = Vec::new();
    // SAFETY: the callback matches the signature and only touches the Vec that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

/// The version of Landlock that the kernel has, 0 if it has none.
#[expect(unsafe_code, reason = "asking for the version is a form of the call that the wrapper keeps to itself")]
pub(crate) fn landlock_abi() -> i32 {
    const VERSION: libc::c_int = 1;
    // SAFETY: without attributes and with this flag, the call only returns a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Leaves namespaces of the parent behind.
#[expect(unsafe_code, reason = "the safe wrapper leaves out flags that do not touch memory or descriptors")]
pub(crate) fn unshare(flags: u32) -> io::Result<()> {
    // SAFETY: only namespace flags are passed, by a process with one thread.
    checked(unsafe { libc::syscall(libc::SYS_unshare, flags) }).map(drop)
}

/// A system call by its number, for probes: with arguments that must do no harm should it be carried out.
#[expect(unsafe_code, reason = "a probe asks the kernel itself, not a library in between")]
pub(crate) fn call(number: libc::c_long, arguments: [usize; 5]) -> io::Result<i64> {
    let [one, two, three, four, five] = arguments;
    // SAFETY: the canary passes integers, null pointers and C strings that outlive the call; no call that it makes
    // writes through them.
    checked(unsafe { libc::syscall(number, one, two, three, four, five) })
}
