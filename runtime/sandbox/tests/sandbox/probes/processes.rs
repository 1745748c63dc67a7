//! Processes: those of the host, the init of the sandbox, and what a process may become.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::Control::{Anybody, None, Root};
use super::{Found, Probe, Targets, denied, filtered, probe, without_secret, works};
use crate::sys::{address, arguments, call, text};

pub fn escapes() -> Vec<Probe> {
    vec![
        probe("see_the_parent", Anybody, |targets| {
            // Another process may have the same number inside: it is the parent only if it names the suite's harness.
            let line = fs::read_to_string(format!("/proc/{}/cmdline", targets.parent)).unwrap_or_default();
            if line.contains("sandbox") { Found::Reached(line) } else { Found::Stopped("not there".into()) }
        }),
        probe("signal_the_parent", Anybody, |targets| {
            denied(call(libc::SYS_kill, arguments(&[targets.parent as usize, 0])), "it can be signalled")
        }),
        probe("environment_of_the_parent", Anybody, |targets| of_parent(targets, "environ")),
        probe("descriptors_of_the_parent", Anybody, |targets| {
            denied(fs::read_dir(format!("/proc/{}/fd", targets.parent)), "lists them")
        }),
        probe("root_of_the_parent", Anybody, |targets| {
            let path = format!("/proc/{}/root{}", targets.parent, targets.secret.display());
            without_secret(fs::read(path), targets)
        }),
        probe("memory_of_the_parent", Anybody, |targets| {
            denied(fs::File::open(format!("/proc/{}/mem", targets.parent)), "opened it")
        }),
        probe("environment_anywhere", Anybody, |targets| {
            let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
            for process in processes {
                if let found @ Found::Reached(_) = without_secret(fs::read(process.path().join("environ")), targets) {
                    return found;
                }
            }
            Found::Stopped("nobody's".into())
        }),
        probe("own_environment", Anybody, |targets| {
            if std::env::vars().any(|(_, value)| value == targets.secret_text) {
                Found::Reached("inherited it".into())
            } else {
                Found::Stopped("cleared".into())
            }
        }),
        probe("inherited_descriptors", None, inherited),
        probe("root_of_the_init", None, |targets| {
            without_secret(fs::read(format!("/proc/1/root{}", targets.secret.display())), targets)
        }),
        probe("descriptors_of_the_init", None, |_| denied(fs::read_dir("/proc/1/fd"), "lists them")),
        probe("environment_of_the_init", None, |_| denied(fs::read("/proc/1/environ"), "read it")),
        probe("memory_of_the_init", None, |_| denied(fs::File::open("/proc/1/mem"), "opened it")),
        probe("end_the_init", None, |_| {
            let _ = call(libc::SYS_kill, arguments(&[1, libc::SIGKILL as usize]));
            if fs::metadata("/proc/1").is_ok() {
                Found::Stopped("it lives".into())
            } else {
                Found::Reached("gone".into())
            }
        }),
        probe("nice_the_parent", Anybody, |targets| {
            let asked = arguments(&[libc::PRIO_PROCESS as usize, targets.parent as usize, 0]);
            denied(call(libc::SYS_setpriority, asked), "changed it")
        }),
        probe("priority_above_ours", Root, |_| {
            denied(call(libc::SYS_setpriority, arguments(&[libc::PRIO_PROCESS as usize, 0, -5_i32 as usize])), "raised")
        }),
        probe("real_time", Root, |_| {
            let priority = 1_i32;
            denied(
                call(libc::SYS_sched_setscheduler, arguments(&[0, libc::SCHED_FIFO as usize, address(&priority)])),
                "became real-time",
            )
        }),
        probe("other_processors", Anybody, |_| {
            let all = [u64::MAX; 16];
            filtered(call(libc::SYS_sched_setaffinity, arguments(&[0, size_of_val(&all), address(&all)])))
        }),
        probe("trace_me", Anybody, |_| filtered(call(libc::SYS_ptrace, arguments(&[libc::PTRACE_TRACEME as usize])))),
        probe("trace_the_init", None, |_| {
            filtered(call(libc::SYS_ptrace, arguments(&[libc::PTRACE_SEIZE as usize, 1])))
        }),
        probe("read_memory_of_others", Anybody, |_| {
            let (from, into) = (7_u64, 0_u64);
            let (local, remote) = ([address(&into), 8], [address(&from), 8]);
            let own = std::process::id() as usize;
            let asked = arguments(&[own, address(&local), 1, address(&remote), 1]);
            filtered(call(libc::SYS_process_vm_readv, asked))
        }),
        probe("write_memory_of_others", Anybody, |_| {
            let (from, into) = (7_u64, 0_u64);
            let (local, remote) = ([address(&from), 8], [address(&into), 8]);
            let own = std::process::id() as usize;
            let asked = arguments(&[own, address(&local), 1, address(&remote), 1]);
            filtered(call(libc::SYS_process_vm_writev, asked))
        }),
        probe("take_a_descriptor_of_others", Anybody, |_| {
            let own = call(libc::SYS_pidfd_open, arguments(&[std::process::id() as usize])).unwrap_or(-1);
            filtered(call(libc::SYS_pidfd_getfd, arguments(&[own as usize, 0])))
        }),
        probe("compare_processes", Anybody, |_| {
            let own = std::process::id() as usize;
            filtered(call(libc::SYS_kcmp, arguments(&[own, own, 0, 0, 0])))
        }),
        probe("become_root", Root, |_| denied(call(libc::SYS_setuid, arguments(&[0])), "is root")),
        probe("become_the_root_group", Root, |_| denied(call(libc::SYS_setgid, arguments(&[0])), "is in it")),
        probe("become_somebody", Root, |_| denied(call(libc::SYS_setresuid, arguments(&[99, 99, 99])), "is it")),
        probe("join_groups", Root, |_| {
            let groups = [0_u32];
            denied(call(libc::SYS_setgroups, arguments(&[1, address(&groups)])), "joined them")
        }),
        probe("gain_capabilities", Root, |_| {
            let header = [0x2008_0522_u32, 0];
            let data = [1_u32 << 21, 1 << 21, 1 << 21, 0, 0, 0];
            denied(call(libc::SYS_capset, arguments(&[address(&header), address(&data)])), "gained CAP_SYS_ADMIN")
        }),
        probe("hold_capabilities", Root, |_| {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            let held = status
                .lines()
                .filter(|line| line.starts_with("Cap"))
                .any(|line| line.split_whitespace().nth(1).is_some_and(|value| value.bytes().any(|byte| byte != b'0')));
            if held { Found::Reached("some are there".into()) } else { Found::Stopped("none".into()) }
        }),
        probe("core_dumps", None, |_| {
            let unlimited = [u64::MAX, u64::MAX];
            denied(
                call(libc::SYS_prlimit64, arguments(&[0, libc::RLIMIT_CORE as usize, address(&unlimited)])),
                "raised",
            )
        }),
        probe("more_processes", None, |_| {
            let unlimited = [u64::MAX, u64::MAX];
            denied(
                call(libc::SYS_prlimit64, arguments(&[0, libc::RLIMIT_NPROC as usize, address(&unlimited)])),
                "raised",
            )
        }),
        probe("new_user_namespace", Anybody, |_| {
            denied(call(libc::SYS_unshare, arguments(&[libc::CLONE_NEWUSER as usize])), "made it")
        }),
        probe("new_mount_namespace", Root, |_| unshare(libc::CLONE_NEWNS)),
        probe("new_process_namespace", Root, |_| unshare(libc::CLONE_NEWPID)),
        probe("new_network_namespace", Root, |_| unshare(libc::CLONE_NEWNET)),
        probe("new_ipc_namespace", Root, |_| unshare(libc::CLONE_NEWIPC)),
        probe("new_host_name_namespace", Root, |_| unshare(libc::CLONE_NEWUTS)),
        probe("new_cgroup_namespace", Root, |_| unshare(libc::CLONE_NEWCGROUP)),
        probe("new_time_namespace", Root, |_| unshare(0x80)),
        probe("clone_into_a_user_namespace", Anybody, |_| {
            let flags = libc::CLONE_NEWUSER as usize | libc::SIGCHLD as usize;
            match call(libc::SYS_clone, arguments(&[flags])) {
                Ok(0) => std::process::exit(0),
                other => denied(other, "made it"),
            }
        }),
        probe("clone3", Anybody, |_| {
            // Flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
            let asked = [libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
            match call(libc::SYS_clone3, arguments(&[address(&asked), 64])) {
                Ok(0) => std::process::exit(0),
                other => denied(other, "made it"),
            }
        }),
        probe("join_a_namespace", Root, |_| {
            let Ok(own) = fs::File::open("/proc/self/ns/net") else { return Found::Stopped("cannot be opened".into()) };
            let own = std::os::fd::AsRawFd::as_raw_fd(&own) as usize;
            filtered(call(libc::SYS_setns, arguments(&[own, 0])))
        }),
        probe("x32_interface", None, |_| denied(call(0x4000_0000 | libc::SYS_getpid, arguments(&[])), "carried out")),
        probe("calls_from_the_future", None, |_| {
            // Newer than the filter knows: it must not reach the kernel, whatever it is there.
            match call(467, arguments(&[usize::MAX, 0, 0, 0, 0])) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Found::Stopped(error.to_string()),
                other => Found::Reached(format!("the kernel looked at it: {other:?}")),
            }
        }),
        probe("old_interface", None, |_| {
            #[cfg(target_arch = "x86_64")]
            let found = Found::Reached(format!("answered {}", crate::sys::old_interface()));
            #[cfg(not(target_arch = "x86_64"))]
            let found = Found::Stopped("this machine has none".into());
            found
        }),
        probe("other_personality", Anybody, |_| filtered(call(libc::SYS_personality, arguments(&[0x0004_0000])))),
        probe("chroot", Root, |_| denied(call(libc::SYS_chroot, arguments(&[text(c"/tmp")])), "changed the root")),
        probe("type_into_a_terminal", Anybody, |_| {
            let letter = b'x';
            filtered(call(libc::SYS_ioctl, arguments(&[0, 0x5412, address(&letter)])))
        }),
        probe("type_into_a_terminal_with_an_odd_request", None, |_| {
            let letter = b'x';
            filtered(call(libc::SYS_ioctl, arguments(&[0, 0x5412 | 1 << 32, address(&letter)])))
        }),
        probe("paste_into_a_console", Anybody, |_| filtered(call(libc::SYS_ioctl, arguments(&[0, 0x541c, 0])))),
    ]
}

fn of_parent(targets: &Targets, file: &str) -> Found {
    without_secret(fs::read(format!("/proc/{}/{file}", targets.parent)), targets)
}

fn unshare(flag: i32) -> Found {
    filtered(call(libc::SYS_unshare, arguments(&[flag as usize])))
}

/// The suite leaves a descriptor of its secret open for the programs it starts.
fn inherited(targets: &Targets) -> Found {
    for number in 3..256 {
        let path = PathBuf::from(format!("/proc/self/fd/{number}"));
        let Ok(target) = fs::read_link(&path) else { continue };
        if target.to_string_lossy().contains("herm-suite") {
            let mut bytes = vec![0; 256];
            let place = bytes.as_mut_ptr() as usize;
            let count = call(libc::SYS_pread64, arguments(&[number, place, 256, 0])).unwrap_or(0);
            bytes.truncate(count as usize);
            if let found @ Found::Reached(_) = without_secret(Ok(bytes), targets) {
                return found;
            }
            return Found::Reached(format!("holds {}", target.display()));
        }
    }
    Found::Stopped("none".into())
}

pub fn positives() -> Vec<Probe> {
    vec![
        probe("threads", None, |_| {
            let threads: Vec<_> = (0..8).map(|number| std::thread::spawn(move || number * 2)).collect();
            let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
            works(if sum == 56 { Ok(()) } else { Err(io::Error::other("wrong sum")) }, "eight threads")
        }),
        probe("a_shell", None, |_| {
            let said =
                std::process::Command::new("/bin/sh").args(["-c", "echo $((6*7)); (sleep 0); true | cat"]).output();
            let said = said.and_then(|output| match String::from_utf8_lossy(&output.stdout).trim() {
                "42" => Ok(()),
                other => Err(io::Error::other(other.to_owned())),
            });
            works(said, "a shell with children and pipes")
        }),
        probe("programs_from_memory", None, |_| works(from_memory(), "a program that is in memory alone")),
        probe("signals_to_children", None, |_| {
            let ended = std::process::Command::new("/bin/sleep").arg("60").spawn().and_then(|mut child| {
                child.kill()?;
                child.wait()
            });
            works(ended, "a child was signalled")
        }),
        probe("ask_for_the_personality", None, |_| {
            works(call(libc::SYS_personality, arguments(&[u32::MAX as usize])), "asked")
        }),
    ]
}

/// Not a boundary: a program that can write to /work can run what it wrote.
fn from_memory() -> io::Result<()> {
    let memory = call(libc::SYS_memfd_create, arguments(&[text(c"program"), 0]))?;
    let path = format!("/proc/self/fd/{memory}");
    fs::write(&path, fs::read("/bin/true")?)?;
    let status = std::process::Command::new(&path).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}
