//! The system-call filter: what no program in a sandbox needs, and what would widen its reach.
//!
//! It is a list of what is denied, since a program may be anything; but a call that is newer than this list is denied
//! as well. Four filters are stacked, and the strictest answer counts: one for numbers that are no calls of this
//! machine, one that answers "not permitted", two whose answers ("no such call", "not supported") let callers fall back.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, apply_filter, sock_filter,
};

type Rules = BTreeMap<i64, Vec<Rule>>;

/// Calls that are never permitted.
const NEVER: &[libc::c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    STATMOUNT,
    LISTMOUNT,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Namespaces that exist, and the processors that were given.
    libc::SYS_setns,
    libc::SYS_sched_setaffinity,
    // Kernel interfaces with a history.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_memfd_secret,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // The time.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
];

/// Calls that only this kind of machine has.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[libc::c_long] = &[
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_ustat,
    libc::SYS_sysfs,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[libc::c_long] = &[];

const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;
/// The newest call that was looked at (`removexattrat`). Whatever comes after it does not exist inside.
const NEWEST_KNOWN: u32 = 466;
/// Added to a number, it asks for the x32 calls, which no rule above names.
const X32: u32 = 0x4000_0000;

/// Puts characters into a terminal's input, as if they were typed; the same for a console; changes its driver.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;
const TIOCSETD: u64 = 0x5423;
/// Older names of `fallocate` (`FS_IOC_RESVSP`, `FS_IOC_RESVSP64`, `FS_IOC_ZERO_RANGE`), and `FS_IOC_FSSETXATTR`,
/// which sets how much one byte takes.
const ROOM: [u64; 4] = [0x4030_5828, 0x4030_582a, 0x4030_5839, 0x401c_5820];
/// An old way to ask for packets, whatever the family.
const SOCK_PACKET: u64 = 10;

/// Socket families that are permitted: local sockets, and the sandbox's own loopback.
const FAMILIES: [u64; 3] = [libc::AF_UNIX as u64, libc::AF_INET as u64, libc::AF_INET6 as u64];
/// Makes a namespace. The last one has a meaning in `unshare` alone.
const NAMESPACES: [u64; 8] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    0x80,
];

fn when(conditions: Vec<Condition>) -> io::Result<Rule> {
    Rule::new(conditions).map_err(io::Error::other)
}

fn argument(index: u8, op: Op, value: u64) -> io::Result<Condition> {
    // The upper half of a register is ignored by these calls, so it must not matter here either.
    Condition::new(index, Length::Dword, op, value).map_err(io::Error::other)
}

fn not_permitted() -> io::Result<Rules> {
    let mut rules: Rules = NEVER.iter().chain(NEVER_HERE).map(|call| (*call, vec![])).collect();

    let strange = FAMILIES.iter().map(|family| argument(0, Op::Ne, *family)).collect::<io::Result<Vec<_>>>()?;
    rules.insert(libc::SYS_socketpair, vec![when(strange.clone())?]);
    let kind = |kind| argument(1, Op::MaskedEq(0xf), kind);
    rules.insert(
        libc::SYS_socket,
        vec![when(strange)?, when(vec![kind(libc::SOCK_RAW as u64)?])?, when(vec![kind(SOCK_PACKET)?])?],
    );

    let flag = |flag: &u64| when(vec![argument(0, Op::MaskedEq(*flag), *flag)?]);
    // Threads of a process share their open files: a look into one thread has shown those of all.
    let (files, thread) = (libc::CLONE_FILES as u64, libc::CLONE_THREAD as u64);
    let alone = NAMESPACES.iter().chain([&files]).map(flag).collect::<io::Result<Vec<_>>>()?;
    rules.insert(libc::SYS_unshare, alone);
    let mut alone = NAMESPACES[..7].iter().map(flag).collect::<io::Result<Vec<_>>>()?;
    alone.push(when(vec![argument(0, Op::MaskedEq(files | thread), thread)?])?);
    rules.insert(libc::SYS_clone, alone);
    let unshared = u64::from(libc::CLOSE_RANGE_UNSHARE);
    rules.insert(libc::SYS_close_range, vec![when(vec![argument(2, Op::MaskedEq(unshared), unshared)?])?]);

    let request = |request: u64| when(vec![argument(1, Op::Eq, request)?]);
    rules.insert(libc::SYS_ioctl, vec![request(TIOCSTI)?, request(TIOCLINUX)?, request(TIOCSETD)?]);
    // Asking is permitted, and so is what everybody has.
    let asked = [u64::from(u32::MAX), 0].map(|persona| argument(0, Op::Ne, persona));
    rules.insert(libc::SYS_personality, vec![when(asked.into_iter().collect::<io::Result<Vec<_>>>()?)?]);
    Ok(rules)
}

/// The flags of `clone3` are in memory, where no filter can look; everyone falls back to `clone`. What waits in `io_submit`
/// keeps files that no process has open any more; everyone falls back to reading and writing.
fn no_such_call() -> Rules {
    Rules::from([(libc::SYS_clone3, vec![]), (libc::SYS_io_setup, vec![])])
}

/// They take as much disk as they like in no time, and nobody could look in between; everyone falls back to writing.
fn not_supported() -> io::Result<Rules> {
    let room = ROOM.iter().map(|request| when(vec![argument(1, Op::Eq, *request)?])).collect::<io::Result<Vec<_>>>()?;
    Ok(Rules::from([(libc::SYS_fallocate, vec![]), (libc::SYS_ioctl, room)]))
}

fn architecture() -> io::Result<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)
}

fn compile(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture()?).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// Numbers that are no calls of this machine, or newer than this list.
fn unknown_numbers() -> BpfProgram {
    let no_such_call = 0x0005_0000 | libc::ENOSYS.unsigned_abs();
    let newest = NEWEST_KNOWN;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // The number, which stands first; x32 numbers are above everything that is known.
        instruction(0x20, 0, 0, 0),
        instruction(0x25, 0, 1, newest.min(X32)),
        instruction(0x06, 0, 0, no_such_call),
        instruction(0x06, 0, 0, 0x7fff_0000),
    ]
}

/// Puts the filter over this process and everything it starts. Returns how many calls it denies.
pub(crate) fn install() -> io::Result<usize> {
    let answers =
        [(no_such_call(), libc::ENOSYS), (not_supported()?, libc::EOPNOTSUPP), (not_permitted()?, libc::EPERM)];
    apply_filter(&unknown_numbers()).map_err(io::Error::other)?;
    let mut denied = 0;
    for (rules, answer) in answers {
        denied += rules.len();
        apply_filter(&compile(rules, answer)?).map_err(io::Error::other)?;
    }
    Ok(denied)
}

/// Whether the kernel has filters.
pub(crate) fn exists() -> bool {
    rustix::thread::secure_computing_mode().is_ok()
}
