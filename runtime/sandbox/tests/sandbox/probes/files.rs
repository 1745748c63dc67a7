//! Files: what is written outside, what is read that nobody gave, and the tricks around both.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::Control::{Anybody, None, Root};
use super::{Found, Probe, Targets, denied, filtered, probe, without_secret, works};
use crate::sys::{address, arguments, call, text};

pub fn escapes() -> Vec<Probe> {
    vec![
        probe("write_into_root", Root, |_| make(Path::new("/herm-probe"))),
        probe("write_into_usr", Root, |_| make(Path::new("/usr/herm-probe"))),
        probe("write_into_etc", Root, |_| make(Path::new("/etc/herm-probe"))),
        probe("write_into_proc", None, |_| make(Path::new("/proc/herm-probe"))),
        probe("write_into_dev", None, |_| make(Path::new("/dev/herm-probe"))),
        probe("write_into_an_open_directory", Anybody, |targets| make(&targets.open_directory.join(unique("probe")))),
        probe("write_beside_work", None, |_| make(Path::new("../herm-probe"))),
        probe("overwrite_what_is_bound", Anybody, |targets| {
            denied(OpenOptions::new().append(true).open(&targets.bound), "opened it for writing")
        }),
        probe("change_the_mode_of_what_is_bound", Anybody, |targets| {
            denied(fs::set_permissions(&targets.bound, fs::Permissions::from_mode(0o644)), "changed it")
        }),
        probe("remove_what_is_bound", None, |targets| denied(fs::remove_file(&targets.bound), "removed it")),
        probe("replace_what_is_bound", None, |targets| {
            let _ = fs::write("other", "other");
            denied(fs::rename("other", &targets.bound), "replaced it")
        }),
        probe("read_a_secret", Anybody, |targets| without_secret(fs::read(&targets.secret), targets)),
        probe("read_what_everybody_can_read", Anybody, |targets| without_secret(fs::read(&targets.readable), targets)),
        probe("read_through_the_top", Anybody, |targets| {
            let path = format!("../../../../../../../../../../..{}", targets.secret.display());
            without_secret(fs::read(path), targets)
        }),
        probe("read_password_hashes", Root, |_| denied(fs::read("/etc/shadow"), "read /etc/shadow")),
        probe("read_the_home", Anybody, |targets| denied(fs::metadata(&targets.home), "sees the home")),
        probe("list_the_root_of_the_host", Anybody, |_| denied(fs::read_dir("/var/lib"), "lists /var/lib")),
        probe("read_run", Anybody, |_| denied(fs::read_dir("/run"), "lists /run")),
        probe("read_a_key_of_the_machine", Anybody, |_| {
            denied(fs::read("/etc/machine-id").or_else(|_| fs::read("/etc/os-release")), "read it")
        }),
        probe("symlink_to_a_secret", Anybody, |targets| {
            let link = Path::new(".").join(unique("link"));
            let _ = symlink(&targets.secret, &link);
            without_secret(fs::read(link), targets)
        }),
        probe("symlinked_directory", Anybody, |targets| {
            let link = Path::new(".").join(unique("up"));
            let _ = symlink("/", &link);
            without_secret(fs::read(link.join(targets.secret.strip_prefix("/").unwrap_or(&targets.secret))), targets)
        }),
        probe("hard_link_to_a_secret", Anybody, |targets| {
            let link = Path::new(".").join(unique("hard"));
            denied(fs::hard_link(&targets.secret, link), "linked it")
        }),
        probe("hard_link_to_what_is_bound", None, |targets| {
            denied(fs::hard_link(&targets.bound, "hard-bound"), "linked it")
        }),
        probe("link_a_descriptor_back", None, |targets| {
            let Ok(file) = fs::File::open(&targets.bound) else { return Found::Stopped("cannot be opened".into()) };
            let name = format!("/proc/self/fd/{}\0", std::os::fd::AsRawFd::as_raw_fd(&file));
            let follow = libc::AT_SYMLINK_FOLLOW as usize;
            let here = libc::AT_FDCWD as usize;
            denied(
                call(libc::SYS_linkat, arguments(&[here, name.as_ptr() as usize, here, text(c"back"), follow])),
                "linked it",
            )
        }),
        probe("make_a_device", Root, |_| {
            let path = Path::new(".").join(unique("device"));
            let path = format!("{}\0", path.display());
            let device = 1 << 8 | 1;
            let here = libc::AT_FDCWD as usize;
            let made = call(
                libc::SYS_mknodat,
                arguments(&[here, path.as_ptr() as usize, (libc::S_IFCHR | 0o666) as usize, device]),
            );
            denied(made, "made the memory device")
        }),
        probe("open_devices_of_the_machine", Root, |_| {
            for device in ["mem", "kmsg", "port", "vda", "sda", "nvme0n1", "kvm", "fuse", "loop-control", "net/tun"] {
                if OpenOptions::new().read(true).open(Path::new("/dev").join(device)).is_ok() {
                    return Found::Reached(format!("opened /dev/{device}"));
                }
            }
            Found::Stopped("none can be opened".into())
        }),
        probe("open_terminals", None, |_| {
            for terminal in ["tty", "console", "ptmx", "pts/0", "tty1", "ttyS0"] {
                if OpenOptions::new().read(true).write(true).open(Path::new("/dev").join(terminal)).is_ok() {
                    return Found::Reached(format!("opened /dev/{terminal}"));
                }
            }
            Found::Stopped("none can be opened".into())
        }),
        probe("give_a_file_capabilities", Root, |_| {
            let path = Path::new(".").join(unique("capable"));
            let _ = fs::write(&path, "");
            let path = format!("{}\0", path.display());
            // Version 2: one permitted capability, effective at once.
            let value: [u32; 5] = [0x0200_0001, 1 << 21, 0, 0, 0];
            let name = text(c"security.capability");
            denied(call(libc::SYS_setxattr, arguments(&[path.as_ptr() as usize, name, address(&value), 20])), "gave it")
        }),
        probe("open_by_handle", Root, |_| open_by_handle()),
        probe("name_to_handle", Anybody, |_| {
            let mut handle = [0_u8; 136];
            handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
            let mount = 0_i32;
            let here = libc::AT_FDCWD as usize;
            let asked = arguments(&[here, text(c"/"), handle.as_mut_ptr() as usize, address(&mount)]);
            filtered(call(libc::SYS_name_to_handle_at, asked))
        }),
        probe("watch_everything", Root, |_| filtered(call(libc::SYS_fanotify_init, arguments(&[0, 0])))),
        probe("old_root_is_gone", None, |targets| {
            for place in ["/oldroot", "/.old", "/mnt", "/host", "/newroot"] {
                let path = format!("{place}{}", targets.secret.display());
                if let Ok(bytes) = fs::read(path) {
                    return without_secret(Ok(bytes), targets);
                }
            }
            Found::Stopped("nowhere".into())
        }),
        probe("see_mounts_of_the_host", None, |targets| {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let points: Vec<_> = mounts.lines().filter_map(|line| line.split(' ').nth(4)).collect();
            let lines = points.len();
            let of_the_host =
                |point: &&&str| point.starts_with("/sys") || Path::new(point).starts_with(parent_of(targets));
            if let Some(point) = points.iter().find(of_the_host) {
                Found::Reached(format!("{lines} mounts, {point} among them"))
            } else {
                Found::Stopped(format!("{lines} mounts, all its own"))
            }
        }),
        probe("control_groups", Root, |_| {
            let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            let reachable = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"];
            for place in reachable {
                let path = Path::new(place).join("cgroup.procs");
                if OpenOptions::new().write(true).open(&path).is_ok() {
                    return Found::Reached(format!("opened {} for writing", path.display()));
                }
            }
            Found::Stopped(format!("none can be opened; {} lines of its own", own.lines().count()))
        }),
        probe("sysfs", Anybody, |_| denied(fs::read_dir("/sys/kernel"), "lists /sys/kernel")),
        setting("core_pattern", |_| write_setting("/proc/sys/kernel/core_pattern")),
        setting("host_name_setting", |_| write_setting("/proc/sys/kernel/hostname")),
        setting("drop_caches", |_| write_setting("/proc/sys/vm/drop_caches")),
        setting("forwarding", |_| write_setting("/proc/sys/net/ipv4/ip_forward")),
        probe("nested_namespaces_setting", None, |_| write_setting("/proc/sys/user/max_user_namespaces")),
        probe("magic_system_request", None, |_| write_setting("/proc/sysrq-trigger")),
        probe("kernel_memory", None, |_| {
            denied(fs::File::open("/proc/kcore").and_then(|mut file| file.read_exact(&mut [0; 16])), "read /proc/kcore")
        }),
        probe("kernel_keys", None, |_| match fs::read_to_string("/proc/keys") {
            Ok(keys) if !keys.is_empty() => Found::Reached("lists keys".into()),
            other => Found::Stopped(format!("{other:?}")),
        }),
    ]
}

/// Opening for writing is harmless; on the host root can.
fn setting(name: &'static str, run: fn(&Targets) -> Found) -> Probe {
    probe(name, Root, run)
}

fn write_setting(path: &str) -> Found {
    denied(OpenOptions::new().write(true).open(path), format!("opened {path} for writing"))
}

fn make(path: &Path) -> Found {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    if made.is_ok() {
        let _ = fs::remove_file(path);
    }
    denied(made, format!("made {}", path.display()))
}

fn open_by_handle() -> Found {
    let mut handle = [0_u8; 136];
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let mount = 0_i32;
    let here = libc::AT_FDCWD as usize;
    let named = arguments(&[here, text(c"/"), handle.as_mut_ptr() as usize, address(&mount)]);
    // Without a real handle the call is made with an empty one: it must not be looked at at all.
    let _ = call(libc::SYS_name_to_handle_at, named);
    let root = match fs::File::open(".").or_else(|_| fs::File::open("/")) {
        Ok(root) => root,
        Err(error) => return Found::Stopped(error.to_string()),
    };
    let root = std::os::fd::AsRawFd::as_raw_fd(&root) as usize;
    filtered(call(libc::SYS_open_by_handle_at, arguments(&[root, handle.as_ptr() as usize, 0])))
}

pub fn positives() -> Vec<Probe> {
    vec![
        probe("write_and_read_work", None, |_| {
            let written =
                fs::create_dir_all("/work/made/here").and_then(|()| fs::write("/work/made/here/file", "text"));
            works(written.and_then(|()| fs::read("/work/made/here/file")), "wrote and read /work")
        }),
        probe("write_tmp", None, |_| works(fs::write("/tmp/file", "text"), "wrote /tmp")),
        probe("read_what_is_bound", None, |targets| works(fs::read(&targets.bound), "read the bound file")),
        probe("use_devices", None, |_| {
            let mut bytes = [0; 16];
            let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
            let wrote = OpenOptions::new().write(true).open("/dev/null").and_then(|mut file| file.write_all(b"x"));
            works(read.and(wrote), "used /dev/urandom and /dev/null")
        }),
        probe("see_oneself_in_proc", None, |_| works(fs::read_to_string("/proc/self/status"), "read /proc/self")),
        probe("run_what_was_made", None, |_| {
            let copied = fs::copy("/bin/true", "/work/made-true")
                .and_then(|_| fs::set_permissions("/work/made-true", fs::Permissions::from_mode(0o755)))
                .and_then(|()| std::process::Command::new("/work/made-true").status());
            works(
                copied.and_then(|status| if status.success() { Ok(()) } else { Err(io::Error::other("failed")) }),
                "ran it",
            )
        }),
    ]
}

/// A name that no run before has used.
fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn parent_of(targets: &Targets) -> &Path {
    targets.open_directory.parent().unwrap_or(&targets.open_directory)
}
