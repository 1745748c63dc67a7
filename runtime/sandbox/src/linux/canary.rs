//! The canary: tries to get out, with exactly the restrictions of the program, in the process that becomes the program.
//!
//! It runs at every spawn, because what held yesterday may not hold on this machine, with this kernel, in this
//! container. Where it can, it reaches for something that is really there: a port, a socket and a file of the parent.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::sys;
use super::view;
use super::wire::Orders;
use crate::report::ProbeResult;
use crate::spec::SandboxLayer;

/// How a probe was stopped, or what it reached.
type Outcome = Result<String, String>;

/// Runs every probe, inside the finished sandbox; `channel` tells whether the program was given one.
pub(crate) fn run(orders: &Orders, channel: bool) -> Vec<ProbeResult> {
    let targets = &orders.canary;
    let mut results = Vec::new();
    let mut probe = |name: &str, outcome: Outcome| {
        let (held, detail) = match outcome {
            Ok(detail) => (true, detail),
            Err(detail) => (false, detail),
        };
        results.push(ProbeResult { probe: name.into(), held, detail });
    };
    probe("write_outside", write_outside());
    probe("root_of_the_host", root(targets.root));
    probe("file_of_the_host", denied(fs::File::open(&targets.file), "opened a file of the host"));
    probe("password_hashes", denied(fs::File::open("/etc/shadow"), "opened /etc/shadow"));
    probe("port_of_the_host", port(targets.port));
    probe("abstract_socket_of_the_host", abstract_socket(&targets.abstract_name));
    probe("namespaces_of_the_host", namespaces(&targets.namespaces));
    probe("interfaces", interfaces());
    probe("processes_of_the_host", processes(orders));
    probe("descriptors", descriptors(channel));
    probe("environment", environment());
    if orders.layers.has(SandboxLayer::Landlock) && sys::landlock_abi() > 0 {
        probe("file_rules", denied(fs::read_dir("/"), "lists the root, which no rule allows"));
    }
    probe("host_name", host_name(&targets.host_name));
    probe("capabilities", status_field(&["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"], all_zero));
    probe("no_new_privileges", status_field(&["NoNewPrivs"], |value| value == "1"));
    probe("system_call_filter", status_field(&["Seccomp"], |value| value == "2"));
    probe("core_dumps", core_dumps());
    for (name, number, arguments) in calls() {
        probe(name, denied(sys::call(number, arguments), "the call was carried out"));
    }
    probe("terminal_input", not_permitted(sys::call(libc::SYS_ioctl, [0, libc::TIOCSTI as usize, 0, 0, 0])));
    probe("work_is_writable", work_is_writable(orders));
    results
}

/// Calls that must not be carried out, each with arguments that would otherwise work.
fn calls() -> Vec<(&'static str, libc::c_long, [usize; 5])> {
    let tmpfs = c"tmpfs".as_ptr() as usize;
    let place = c"/tmp".as_ptr() as usize;
    vec![
        ("mount", libc::SYS_mount, [tmpfs, place, tmpfs, 0, 0]),
        ("new_user_namespace", libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0]),
        ("new_mount_namespace", libc::SYS_unshare, [libc::CLONE_NEWNS as usize, 0, 0, 0, 0]),
        ("clone3", libc::SYS_clone3, [0, 0, 0, 0, 0]),
        ("trace", libc::SYS_ptrace, [libc::PTRACE_TRACEME as usize, 0, 0, 0, 0]),
        ("keyring", libc::SYS_keyctl, [libc::KEYCTL_GET_KEYRING_ID as usize, usize::MAX - 3, 1, 0, 0]),
        ("io_uring", libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        ("bpf", libc::SYS_bpf, [0, 0, 0, 0, 0]),
        ("become_root", libc::SYS_setuid, [0, 0, 0, 0, 0]),
        ("vsock", libc::SYS_socket, [libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, 0, 0, 0]),
        ("netlink", libc::SYS_socket, [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, 0, 0, 0]),
        ("packet_socket", libc::SYS_socket, [libc::AF_PACKET as usize, libc::SOCK_RAW as usize, 0, 0, 0]),
        ("raw_socket", libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_RAW as usize, 1, 0, 0]),
    ]
}

/// It must fail, however.
fn denied<T>(result: io::Result<T>, reached: &str) -> Outcome {
    match result {
        Ok(_) => Err(reached.into()),
        Err(error) => Ok(error.to_string()),
    }
}

/// It must fail because it is not permitted: another error would mean that the kernel looked at it.
fn not_permitted<T>(result: io::Result<T>) -> Outcome {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(error.to_string()),
        Err(error) => Err(format!("the kernel looked at the call: {error}")),
        Ok(_) => Err("the call was carried out".into()),
    }
}

fn write_outside() -> Outcome {
    let path = Path::new("/herm-canary");
    let result = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    if result.is_ok() {
        remove(path);
    }
    denied(result, "made a file in the root")
}

#[expect(clippy::disallowed_methods, reason = "a probe removes what it made")]
fn remove(path: &Path) {
    // If it cannot be removed the probe has failed already, or it is in the work directory and goes with it.
    let _ = fs::remove_file(path);
}

fn port(port: u16) -> Outcome {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    denied(TcpStream::connect_timeout(&address, Duration::from_millis(200)), "connected to the parent's port")
}

fn abstract_socket(name: &str) -> Outcome {
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).map_err(|error| error.to_string())?;
    denied(UnixStream::connect_addr(&address), "connected to the parent's abstract socket")
}

/// Reads a file that must be there. If it cannot be read, nothing is known, and that is not good enough.
fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot look: {path}: {error}"))
}

fn interfaces() -> Outcome {
    let text = read("/proc/self/net/dev")?;
    let names: Vec<_> = text.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    if names == ["lo"] { Ok("lo alone".into()) } else { Err(format!("sees {}", names.join(", "))) }
}

fn processes(orders: &Orders) -> Outcome {
    let entries = fs::read_dir("/proc").map_err(|error| format!("cannot look: {error}"))?;
    let count = entries.flatten().filter(|entry| view::is_process(&entry.file_name())).count();
    // The init, this process, and in a negative control the one that waits for it.
    let expected = if orders.layers.has(SandboxLayer::Canary) { 2 } else { 3 };
    if count <= expected { Ok(format!("{count} visible")) } else { Err(format!("sees {count} processes")) }
}

fn descriptors(channel: bool) -> Outcome {
    let entries = fs::read_dir("/proc/self/fd").map_err(|error| format!("cannot look: {error}"))?;
    let expected = if channel { 3 } else { 2 };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(i32::MAX);
        if number <= expected {
            continue;
        }
        // What closes by itself when the program starts is ours.
        let info = read(&format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .map_or(0, |flags| i32::from_str_radix(flags.trim(), 8).unwrap_or(0));
        if flags & libc::O_CLOEXEC == 0 {
            let target = entry.path().read_link().unwrap_or_default();
            found.push(format!("{number} → {}", target.display()));
        }
    }
    // The listing itself was a descriptor, gone by the time it was looked at.
    found.retain(|entry| !entry.ends_with("→ "));
    if found.is_empty() { Ok("only the streams".into()) } else { Err(format!("inherits {}", found.join(", "))) }
}

fn root(of_the_host: (u64, u64)) -> Outcome {
    let own = rustix::fs::stat("/").map_err(|error| format!("cannot look: {error}"))?;
    if (own.st_dev, own.st_ino) == of_the_host { Err("stands in it".into()) } else { Ok("its own".into()) }
}

fn namespaces(of_the_parent: &[(String, std::path::PathBuf)]) -> Outcome {
    for (kind, parents) in of_the_parent {
        let own = fs::read_link(format!("/proc/self/ns/{kind}")).map_err(|error| format!("cannot look: {error}"))?;
        if own == *parents {
            return Err(format!("shares {} with the host", own.display()));
        }
    }
    Ok("all its own".into())
}

/// The stages start without any variable; bubblewrap adds one.
fn environment() -> Outcome {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).filter(|name| name != "PWD").collect();
    if names.is_empty() { Ok("empty".into()) } else { Err(format!("inherits {names:?}")) }
}

fn host_name(of_the_host: &str) -> Outcome {
    let name = read("/proc/sys/kernel/hostname")?;
    let name = name.trim();
    if name == of_the_host && name != super::init::HOST_NAME {
        Err(format!("sees the host's name, {name}"))
    } else {
        Ok(name.into())
    }
}

fn all_zero(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'0')
}

fn status_field(names: &[&str], good: impl Fn(&str) -> bool) -> Outcome {
    let text = read("/proc/self/status")?;
    for name in names {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        match value {
            None => return Err(format!("the kernel does not tell {name}")),
            Some(value) if !good(value) => return Err(format!("{name} is {value}")),
            Some(_) => {}
        }
    }
    Ok(format!("{} as it must be", names.join(", ")))
}

fn core_dumps() -> Outcome {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
    if limit.current == Some(0) && limit.maximum == Some(0) {
        Ok("none".into())
    } else {
        Err("would be written".into())
    }
}

/// The one probe that must succeed: a sandbox in which nothing works would pass all the others.
fn work_is_writable(orders: &Orders) -> Outcome {
    let path = view::work_inside(orders).join(".herm-canary");
    let made = fs::OpenOptions::new().write(true).create_new(true).open(&path);
    remove(&path);
    made.map(|_| "a file was made and removed".into()).map_err(|error| format!("cannot write to /work: {error}"))
}
