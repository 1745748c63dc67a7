//! The first stage: our own binary, started again with one descriptor and nothing else. It gives up what it holds,
//! makes the namespaces, and leaves their init behind.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, exit};
use std::sync::OnceLock;

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, setrlimit};
use rustix::thread::{CpuSet, UnshareFlags};

use super::sys::{self, Fork};
use super::view::{self, Trees};
use super::wire::{self, ControlSocket, Orders, StageMessage};
use super::{bubblewrap, init};
use crate::report::Tier;
use crate::spec::SandboxLayer;

/// The first argument of a stage. It says which stage it is, and nothing more.
pub(crate) const BUILD: &str = "herm-sandbox:build";
/// The same, for a negative control without [`Layer::Descriptors`].
pub(crate) const BUILD_WITH_DESCRIPTORS: &str = "herm-sandbox:build-with-descriptors";
/// The stage that bubblewrap starts inside.
pub(crate) const INSIDE: &str = "herm-sandbox:inside";
/// Makes namespaces, does nothing in them, and tells whether it could.
pub(crate) const TRY: &str = "herm-sandbox:try";

/// The user and group that the program sees itself as.
const INNER_ID: u32 = 1000;
/// Descriptors a process may have open.
const OPEN_FILES: u64 = 4_096;

static REGISTERED: OnceLock<()> = OnceLock::new();

/// Whether this process called [`run_if_reexec`].
pub(crate) fn is_registered() -> bool {
    REGISTERED.get().is_some()
}

pub(crate) fn take_over() {
    let mut arguments = std::env::args_os().skip(1);
    if let (Some(stage), None) = (arguments.next(), arguments.next()) {
        match stage.to_str() {
            Some(BUILD) => exit(i32::from(close_what_was_inherited().and_then(|()| build()).is_err())),
            Some(BUILD_WITH_DESCRIPTORS) => exit(i32::from(build().is_err())),
            Some(INSIDE) => exit(i32::from(inside().is_err())),
            Some(TRY) => exit(try_namespaces()),
            _ => {}
        }
    }
    REGISTERED.get_or_init(|| ());
}

/// Why a stage gives up. The parent was told.
#[derive(Debug)]
pub(crate) struct GivenUp;

/// What a stage was given.
pub(crate) struct StageInput {
    pub(crate) line: ControlSocket,
    pub(crate) orders: Orders,
    /// The program's own line, its streams, and perhaps its channel.
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl StageInput {
    /// Tells the parent that a step failed.
    pub(crate) fn fail(&self, step: impl Into<String>, error: &io::Error, unavailable: bool) -> GivenUp {
        let said = StageMessage::Failed { step: step.into(), why: error.to_string(), unavailable };
        // If the parent is gone too there is nobody left to tell.
        let _ = self.line.send(&said, &[]);
        GivenUp
    }
}

/// Takes standard input as the line to the parent, and hears the orders.
fn hear() -> Result<StageInput, GivenUp> {
    let line = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|_| GivenUp)?;
    let line = ControlSocket::on(line);
    let heard = line.receive::<()>().map_err(|_| GivenUp)?.ok_or(GivenUp)?;
    let mut descriptors = heard.descriptors;
    if descriptors.is_empty() {
        return Err(GivenUp);
    }
    let orders = wire::open(descriptors.remove(0)).map_err(|_| GivenUp)?;
    Ok(StageInput { line, orders, descriptors })
}

/// The descriptors of the caller are closed before anything else happens.
fn close_what_was_inherited() -> Result<(), GivenUp> {
    sys::close_from(3).map_err(|_| GivenUp)
}

fn build() -> Result<(), GivenUp> {
    let given = hear()?;
    let orders = &given.orders;
    give_up_extras(&given)?;
    match orders.tier {
        Tier::Namespaces => namespaces(given),
        Tier::Bubblewrap => {
            become_user(&given)?;
            let mut command = bubblewrap::command(orders);
            let error = command.exec();
            Err(given.fail("start bubblewrap", &error, true))
        }
    }
}

/// Limits, processors, and what could be dumped or outlive the parent.
fn give_up_extras(given: &StageInput) -> Result<(), GivenUp> {
    let orders = &given.orders;
    die_with_parent(given)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| given.fail("become undumpable", &error.into(), false))?;
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Fsize, Some(orders.rlimits.file_size)),
        (Resource::Nofile, Some(OPEN_FILES)),
        (Resource::Memlock, Some(8 * 1024 * 1024)),
        (Resource::Msgqueue, Some(1024 * 1024)),
        (Resource::Sigpending, Some(4_096)),
        (Resource::Data, orders.rlimits.data),
    ];
    for (resource, limit) in limits {
        let Some(limit) = limit else { continue };
        // A limit that is lower already stays.
        let most = rustix::process::getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(|error| given.fail(format!("limit {resource:?}"), &error.into(), false))?;
    }
    if !orders.processors.is_empty() {
        let mut set = CpuSet::new();
        orders.processors.iter().for_each(|processor| set.set(*processor));
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|error| given.fail("choose processors", &error.into(), false))?;
    }
    Ok(())
}

/// The kernel forgets this whenever the user changes, so it is said again after that.
pub(crate) fn die_with_parent(given: &StageInput) -> Result<(), GivenUp> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| given.fail("tie our life to the parent's", &error.into(), false))
}

/// Becomes the sandbox's own user, if the caller may choose one.
fn become_user(given: &StageInput) -> Result<(), GivenUp> {
    let Some(id) = given.orders.user else { return Ok(()) };
    let (user, group) = (rustix::process::Uid::from_raw(id), rustix::process::Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[])
        .and_then(|()| rustix::thread::set_thread_res_gid(group, group, group))
        .and_then(|()| rustix::thread::set_thread_res_uid(user, user, user))
        .map_err(|error| given.fail("become the sandbox's own user", &error.into(), false))?;
    die_with_parent(given)
}

fn namespaces(given: StageInput) -> Result<(), GivenUp> {
    let layers = &given.orders.layers;
    let view = layers.has(SandboxLayer::MountView);
    let failed = |(step, error): view::Failure| given.fail(step, &error, false);
    let mut trees = None;
    if view && rustix::process::geteuid().is_root() {
        trees = Some(view::take(&given.orders).map_err(failed)?);
    }
    become_user(&given)?;
    own_users().map_err(|error| given.fail("make a user namespace", &in_words(error), true))?;
    unshare(namespace_flags(&given.orders)).map_err(|error| given.fail("make namespaces", &in_words(error), true))?;
    if view && trees.is_none() {
        trees = Some(view::take(&given.orders).map_err(failed)?);
    }
    match sys::fork_as_sibling() {
        Err(error) => Err(given.fail("fork the init", &error, false)),
        Ok(Fork::Parent(_)) => Ok(()),
        Ok(Fork::Child) => begin_inside(given, trees),
    }
}

fn begin_inside(given: StageInput, trees: Option<Trees>) -> Result<(), GivenUp> {
    die_with_parent(&given)?;
    given.line.send(&StageMessage::Hello, &[]).map_err(|_| GivenUp)?;
    let mut made = Vec::new();
    if let Err(((step, error), unavailable)) = init::set_up(&given.orders, trees, &mut made) {
        return Err(given.fail(step, &error, unavailable));
    }
    init::run(given, made)
}

fn namespace_flags(orders: &Orders) -> UnshareFlags {
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWCGROUP;
    for (layer, flag) in [
        (SandboxLayer::ProcessNamespace, UnshareFlags::NEWPID),
        (SandboxLayer::NetworkNamespace, UnshareFlags::NEWNET),
        (SandboxLayer::IpcNamespace, UnshareFlags::NEWIPC),
        (SandboxLayer::HostName, UnshareFlags::NEWUTS),
    ] {
        if orders.layers.has(layer) {
            flags |= flag;
        }
    }
    flags
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    sys::unshare(flags.bits())
}

/// Why a namespace cannot be made. "No space left on device" is what the kernel says where no more are allowed.
pub(crate) fn in_words(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(errno) if errno == rustix::io::Errno::NOSPC.raw_os_error() => {
            io::Error::other("no more of them are allowed here (sysctl user.max_*_namespaces)")
        }
        _ => error,
    }
}

/// Makes a user namespace in which we are one user without a name outside.
fn own_users() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // A process that changed its user may not write its own maps unless it can be dumped.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    unshare(UnshareFlags::NEWUSER)?;
    init::write("/proc/self/setgroups", "deny")?;
    init::write("/proc/self/uid_map", &format!("{INNER_ID} {user} 1"))?;
    init::write("/proc/self/gid_map", &format!("{INNER_ID} {group} 1"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// What bubblewrap starts: it is init already, in a root of its own.
fn inside() -> Result<(), GivenUp> {
    close_what_was_inherited()?;
    let line = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|_| GivenUp)?;
    ControlSocket::on(line).send(&StageMessage::Hello, &[]).map_err(|_| GivenUp)?;
    let given = hear()?;
    die_with_parent(&given)?;
    let made = init::by_bubblewrap(&given.orders);
    init::run(given, made)
}

/// Whether namespaces can be made here: 0, or the number of the error.
fn try_namespaces() -> i32 {
    let everything = UnshareFlags::NEWNS
        | UnshareFlags::NEWCGROUP
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    let tried = own_users().and_then(|()| unshare(everything)).and_then(|()| match sys::fork()? {
        Fork::Child => exit(view::fresh_proc().map_or_else(|error| error.raw_os_error().unwrap_or(255), |_| 0)),
        Fork::Parent(pid) => match sys::reap(pid)?.status >> 8 {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        },
    });
    tried.map_or_else(|error| error.raw_os_error().unwrap_or(255), |()| 0)
}

/// Our own binary, to be started as a stage with a line as its standard input.
#[expect(clippy::disallowed_methods, reason = "stages of a sandbox are started here alone")]
pub(crate) fn command(stage: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(stage).env_clear().current_dir("/");
    command
}

/// The descriptors of a line, for a message.
pub(crate) fn borrowed(descriptors: &[OwnedFd]) -> Vec<std::os::fd::BorrowedFd<'_>> {
    descriptors.iter().map(OwnedFd::as_fd).collect()
}
