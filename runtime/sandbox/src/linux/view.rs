//! The root of a sandbox: what the program sees of the file system.
//!
//! Everything that is to be seen is first taken as a *tree*: a copy of a mount that is attached nowhere. Trees
//! are taken while the host's root is still there (by root before it drops its rights, since the sandbox's user
//! may not be able to walk to them). Then the root is changed, and the trees are attached inside. In between
//! nothing of the host is reachable.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::sys::{self, NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};
use super::wire::Orders;
use crate::spec::{Bind, SandboxLayer};

/// Where the program sees its work directory.
pub(crate) const WORK: &str = "/work";
/// Where [`Program::Ourselves`](crate::Program::Ourselves) is seen.
pub(crate) const OURSELVES: &str = "/program";
/// What a program may expect of `/dev`.
pub(crate) const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// What of `/proc` tells about the host, or lets one act on it, beyond the processes inside.
pub(crate) const MASKED: [&str; 14] = [
    "acpi",
    "asound",
    "bus",
    "fs",
    "irq",
    "kallsyms",
    "kcore",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "sysrq-trigger",
    "timer_list",
];
/// Files of `/tmp` at most.
const TEMPORARY_FILES: u32 = 65_536;

/// What is to be attached.
pub(crate) struct Trees {
    binds: Vec<BindTree>,
    work: OwnedFd,
    devices: Vec<(&'static str, OwnedFd)>,
    /// The host's `/proc`, for a negative control without a process namespace.
    host_proc: Option<OwnedFd>,
}

struct BindTree {
    inside: PathBuf,
    what: BindSource,
    optional: bool,
}

enum BindSource {
    Directory(OwnedFd),
    File(OwnedFd),
    /// A link at the same place on the host is the same link inside.
    Link(PathBuf),
}

/// An error with what was tried.
pub(crate) type Failure = (String, io::Error);

fn trying(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
    let what = what.into();
    move |error| (what, error)
}

/// Takes every tree that the orders name.
pub(crate) fn take(orders: &Orders) -> Result<Trees, Failure> {
    let mut binds = Vec::new();
    for bind in &orders.binds {
        match take_bind(bind) {
            Ok(what) => binds.push(BindTree { inside: bind.inside.clone(), what, optional: bind.optional }),
            Err(error) if bind.optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err((format!("take {} into the sandbox", bind.host.display()), error)),
        }
    }
    let work = tree(&orders.work, NO_SUID | NO_DEVICES)
        .map_err(trying(format!("take {} into the sandbox as its work directory", orders.work.display())))?;
    let mut devices = Vec::new();
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        let device = tree(&path, READ_ONLY | NO_SUID | NO_EXEC).map_err(trying(format!("take {}", path.display())))?;
        devices.push((name, device));
    }
    let host_proc = if orders.layers.has(SandboxLayer::ProcessNamespace) {
        None
    } else {
        Some(tree(Path::new("/proc"), NO_SUID | NO_DEVICES | NO_EXEC).map_err(trying("take /proc"))?)
    };
    Ok(Trees { binds, work, devices, host_proc })
}

fn take_bind(bind: &Bind) -> io::Result<BindSource> {
    if bind.host == bind.inside && fs::symlink_metadata(&bind.host)?.is_symlink() {
        return Ok(BindSource::Link(fs::read_link(&bind.host)?));
    }
    let directory = fs::metadata(&bind.host)?.is_dir();
    let tree = tree(&bind.host, READ_ONLY | NO_SUID | NO_DEVICES)?;
    Ok(if directory { BindSource::Directory(tree) } else { BindSource::File(tree) })
}

fn tree(path: &Path, attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(CWD, path, flags)?;
    sys::set_mount_attributes(tree.as_fd(), attributes)?;
    Ok(tree)
}

/// A new file system that is attached nowhere yet.
fn fresh(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    Ok(rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn attach(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    Ok(rustix::mount::move_mount(tree.as_fd(), "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// A fresh `/proc` of the process namespace whose init we are.
pub(crate) fn fresh_proc() -> io::Result<OwnedFd> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fresh("proc", &[], attributes | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// No mount that is made here is seen outside.
pub(crate) fn keep_mounts_to_ourselves() -> io::Result<()> {
    Ok(rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// Makes the trees the whole of what this process, and everything it starts, can see.
pub(crate) fn enter(orders: &Orders, trees: Trees) -> Result<(), Failure> {
    let nothing_special = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    keep_mounts_to_ourselves().map_err(trying("keep mounts to ourselves"))?;
    // Made while the host's /proc can still be seen: the kernel asks for that.
    let proc = match trees.host_proc {
        Some(proc) => proc,
        None => fresh_proc().map_err(trying("mount a fresh /proc"))?,
    };
    let root = fresh("tmpfs", &[("size", "4m"), ("nr_inodes", "65536"), ("mode", "0755")], nothing_special)
        .map_err(trying("mount an empty root"))?;
    attach(&root, Path::new("/proc")).map_err(trying("attach the empty root"))?;
    change_root(&root).map_err(trying("change the root"))?;

    for taken in &trees.binds {
        place(taken).map_err(trying(format!("show {}", taken.inside.display())))?;
    }
    attach_directory(&trees.work, Path::new(WORK)).map_err(trying("show the work directory"))?;
    let temporary = orders.rlimits.temporary.to_string();
    let files = TEMPORARY_FILES.to_string();
    let options = [("size", temporary.as_str()), ("nr_inodes", files.as_str()), ("mode", "1777")];
    let temporary = fresh("tmpfs", &options, nothing_special).map_err(trying("mount /tmp"))?;
    attach_directory(&temporary, Path::new("/tmp")).map_err(trying("show /tmp"))?;
    attach_directory(&proc, Path::new("/proc")).map_err(trying("show /proc"))?;
    devices(&trees.devices).map_err(trying("show /dev"))?;
    names().map_err(trying("write /etc"))?;
    Ok(())
}

fn change_root(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    // The old root ends up on top of the new one, at the same place, and goes.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

fn place(taken: &BindTree) -> io::Result<()> {
    // What lies in a directory that is bound already is seen there.
    if taken.optional && fs::symlink_metadata(&taken.inside).is_ok() {
        return Ok(());
    }
    if let Some(parent) = taken.inside.parent() {
        fs::create_dir_all(parent)?;
    }
    match &taken.what {
        BindSource::Link(target) => symlink(target, &taken.inside),
        BindSource::Directory(tree) => attach_directory(tree, &taken.inside),
        BindSource::File(tree) => attach_file(tree, &taken.inside),
    }
}

fn attach_directory(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    fs::create_dir_all(place)?;
    attach(tree, place)
}

fn attach_file(tree: &OwnedFd, place: &Path) -> io::Result<()> {
    if fs::symlink_metadata(place).is_err() {
        fs::OpenOptions::new().write(true).create_new(true).open(place)?;
    }
    attach(tree, place)
}

fn devices(devices: &[(&'static str, OwnedFd)]) -> io::Result<()> {
    fs::create_dir_all("/dev")?;
    for (name, tree) in devices {
        attach_file(tree, &Path::new("/dev").join(name))?;
    }
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(target, Path::new("/dev").join(name))?;
    }
    symlink("/tmp", "/dev/shm")
}

/// Names that programs look up, unless a bind brings the host's.
fn names() -> io::Result<()> {
    use std::io::Write as _;
    fs::create_dir_all("/etc")?;
    for (name, text) in [
        ("passwd", "sandbox:x:1000:1000::/work:/bin/sh\n"),
        ("group", "sandbox:x:1000:\n"),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ] {
        match fs::OpenOptions::new().write(true).create_new(true).open(Path::new("/etc").join(name)) {
            Ok(mut file) => file.write_all(text.as_bytes())?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Hides what of `/proc` is about the host, and closes the root: from here on it is read-only.
pub(crate) fn close() -> Result<(), Failure> {
    let proc = Path::new("/proc");
    let settings = tree(&proc.join("sys"), READ_ONLY).map_err(trying("take /proc/sys"))?;
    attach(&settings, &proc.join("sys")).map_err(trying("make /proc/sys read-only"))?;
    for name in MASKED {
        let path = proc.join(name);
        let Ok(metadata) = fs::metadata(&path) else { continue };
        mask(&path, metadata.is_dir()).map_err(trying(format!("mask {}", path.display())))?;
    }
    let root = rustix::fs::open("/", rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .map_err(|error| ("open the root".to_owned(), error.into()))?;
    sys::set_own_mount_attributes(root.as_fd(), READ_ONLY).map_err(trying("make the root read-only"))
}

fn mask(path: &Path, directory: bool) -> io::Result<()> {
    if directory {
        let empty = fresh("tmpfs", &[("size", "4k"), ("mode", "0555")], MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        attach(&empty, path)
    } else {
        let null = tree(Path::new("/dev/null"), READ_ONLY)?;
        attach(&null, path)
    }
}

/// Where the work directory is, from the program's point of view.
pub(crate) fn work_inside(orders: &Orders) -> &Path {
    if orders.layers.has(SandboxLayer::MountView) { Path::new(WORK) } else { &orders.work }
}

/// Whether a name is a process in `/proc`.
pub(crate) fn is_process(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

/// Hides the host's processes behind our own, for a negative control that sees the host's files.
pub(crate) fn fresh_proc_over_the_hosts() -> io::Result<()> {
    attach(&fresh_proc()?, Path::new("/proc"))
}
