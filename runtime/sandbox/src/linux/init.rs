//! The init of a sandbox, process 1 inside: it finishes the set-up, starts the program, takes in what it orphans, and
//! tells the parent how it ended. When it ends, the kernel ends everything inside.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, WaitOptions};

use super::stage::{GivenUp, StageInput, die_with_parent};
use super::sys::{self, Fork};
use super::view::{self, Failure, Trees};
use super::wire::{ControlSocket, Orders, ParentMessage, StageMessage};
use super::{canary, restrict};
use crate::report::{LayerReport, Tier};
use crate::spec::{CHANNEL_DESCRIPTOR, CHANNEL_VARIABLE, SandboxLayer};

/// How often, and how long, a program is waited for that somebody still holds open for writing.
const BUSY_TRIES: usize = 40;
const BUSY_WAIT: std::time::Duration = std::time::Duration::from_millis(5);

/// The name of the host inside.
pub(crate) const HOST_NAME: &str = "sandbox";
/// How much the program yields to others that share its processors.
const NICENESS: i32 = 5;

/// Writes one of the kernel's own files.
pub(crate) fn write(path: &str, text: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn report(layer: SandboxLayer, on: bool, detail: &str) -> LayerReport {
    LayerReport { layer, on, detail: detail.into() }
}

/// Sets up what needs rights: the network, the root, the name, the kernel's settings. Tells whether an error means that
/// this machine does not allow it.
pub(crate) fn set_up(
    orders: &Orders,
    trees: Option<Trees>,
    made: &mut Vec<LayerReport>,
) -> Result<(), (Failure, bool)> {
    const OFF: &str = "switched off for a negative control";
    let layers = &orders.layers;
    let mut note = |layer, detail: &str| {
        let on = layers.has(layer);
        made.push(report(layer, on, if on { detail } else { OFF }));
    };
    note(SandboxLayer::Descriptors, "everything from 3 on was closed before the orders came");
    note(SandboxLayer::Environment, "cleared");
    if let Some(user) = orders.user {
        note(SandboxLayer::TransientUser, &format!("user {user}"));
    } else if layers.has(SandboxLayer::TransientUser) {
        made.push(report(SandboxLayer::TransientUser, false, "only root can choose a user; it is the caller's"));
    } else {
        made.push(report(SandboxLayer::TransientUser, false, OFF));
    }
    let mut note = |layer, detail: &str| {
        let on = layers.has(layer);
        made.push(report(layer, on, if on { detail } else { OFF }));
    };

    if layers.has(SandboxLayer::NetworkNamespace) {
        sys::loopback_up().map_err(|error| (("bring the loopback up".to_owned(), error), false))?;
    }
    note(SandboxLayer::NetworkNamespace, "its own loopback and nothing else");
    match trees {
        Some(trees) => view::enter(orders, trees).map_err(|failure| {
            let unavailable = failure.0.contains("/proc");
            (failure, unavailable)
        })?,
        None => host_view(orders).map_err(|failure| (failure, false))?,
    }
    if layers.has(SandboxLayer::HostName) {
        rustix::system::sethostname(HOST_NAME.as_bytes())
            .map_err(|error| (("set the host name".to_owned(), error.into()), false))?;
    }
    note(SandboxLayer::HostName, HOST_NAME);
    note(SandboxLayer::IpcNamespace, "its own");
    note(SandboxLayer::ProcessNamespace, "the init and what it starts");
    if layers.has(SandboxLayer::NestedNamespaces) {
        write("/proc/sys/user/max_user_namespaces", "0")
            .map_err(|error| (("forbid nested user namespaces".to_owned(), error), false))?;
    }
    // Since Linux 6.14 each process namespace has its own; elsewhere the other limits hold.
    if layers.has(SandboxLayer::ProcessNamespace) {
        let _ = write("/proc/sys/kernel/pid_max", &orders.rlimits.processes.saturating_add(400).max(1_024).to_string());
    }
    if layers.has(SandboxLayer::MountView) {
        view::close().map_err(|failure| (failure, false))?;
    }
    note(SandboxLayer::MountView, "a root of its own, read-only but for /work and /tmp");
    Ok(())
}

/// A negative control that sees the host's files, but its own processes.
fn host_view(orders: &Orders) -> Result<(), Failure> {
    view::keep_mounts_to_ourselves().map_err(|error| ("keep mounts to ourselves".to_owned(), error))?;
    if orders.layers.has(SandboxLayer::ProcessNamespace) {
        view::fresh_proc_over_the_hosts().map_err(|error| ("mount a fresh /proc".to_owned(), error))?;
    }
    Ok(())
}

/// How the layers stand that bubblewrap built.
pub(crate) fn by_bubblewrap(orders: &Orders) -> Vec<LayerReport> {
    let mut reports = vec![
        report(SandboxLayer::Descriptors, true, "everything from 3 on was closed before the orders came"),
        report(SandboxLayer::Environment, true, "cleared"),
    ];
    reports.push(match orders.user {
        Some(user) => report(SandboxLayer::TransientUser, true, &format!("user {user}")),
        None => report(SandboxLayer::TransientUser, false, "only root can choose a user; it is the caller's"),
    });
    for layer in [
        SandboxLayer::NetworkNamespace,
        SandboxLayer::MountView,
        SandboxLayer::HostName,
        SandboxLayer::IpcNamespace,
        SandboxLayer::ProcessNamespace,
    ] {
        reports.push(report(layer, true, "by bubblewrap"));
    }
    reports
}

/// Restricts itself, starts the program, and stays until it ended.
pub(crate) fn run(given: StageInput, mut made: Vec<LayerReport>) -> Result<(), GivenUp> {
    let looked_at = [open_directory("/proc"), open_directory("/tmp")];
    let [Ok(proc), Ok(temporary)] = looked_at else {
        return Err(given.fail("open /proc and /tmp", &io::Error::other("one of them is missing"), false));
    };
    limit_processes(&given)?;
    // Should the machine run out of memory, the sandbox goes first.
    let _ = write("/proc/self/oom_score_adj", "500");
    let children = sys::child_signals().map_err(|error| given.fail("watch children", &error, false))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| given.fail("become undumpable", &error.into(), false))?;
    let restricted = restrict::restrict(&given.orders);
    made.extend(restricted.map_err(|(step, error)| given.fail(step, &error, false))?);
    made.sort_by_key(|report| report.layer);
    {
        use std::os::fd::AsFd as _;
        given
            .line
            .send(&StageMessage::Built(made), &[proc.as_fd(), temporary.as_fd()])
            .map_err(|error| given.fail("report the layers", &error, false))?;
    }
    drop((proc, temporary));
    match sys::fork() {
        Err(error) => Err(given.fail("fork the program", &error, false)),
        Ok(Fork::Child) => {
            drop(children);
            Err(become_program(given))
        }
        Ok(Fork::Parent(program)) => {
            let StageInput { line, descriptors, .. } = given;
            drop(descriptors);
            watch(&line, &children, program)
        }
    }
}

fn open_directory(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Set here, inside the user namespace, so that only what runs in it counts.
fn limit_processes(given: &StageInput) -> Result<(), GivenUp> {
    let limit = Some(given.orders.rlimits.processes);
    if given.orders.tier == Tier::Bubblewrap && rustix::process::getrlimit(Resource::Nproc).maximum < limit {
        return Ok(());
    }
    rustix::process::setrlimit(Resource::Nproc, Rlimit { current: limit, maximum: limit })
        .map_err(|error| given.fail("limit processes", &error.into(), false))
}

/// Waits for the program, takes in orphans, and stops and continues everything when it is told to.
fn watch(line: &ControlSocket, children: &OwnedFd, program: i32) -> Result<(), GivenUp> {
    loop {
        let mut wanted = [PollFd::new(line, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Err(GivenUp),
            Ok(_) => {}
        }
        let (told, ended) = (!wanted[0].revents().is_empty(), !wanted[1].revents().is_empty());
        if ended {
            let mut signals = [0_u8; 1024];
            while rustix::io::read(children, &mut signals).is_ok_and(|count| count > 0) {}
            while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
                let over = status.exited() || status.signaled();
                if over && pid.as_raw_nonzero().get() == program {
                    // A parent that is gone needs no report.
                    let _ = line.send(&StageMessage::Ended(status.as_raw()), &[]);
                    return Ok(());
                }
            }
        }
        if told {
            match line.receive::<ParentMessage>() {
                Ok(Some(heard)) => match heard.message {
                    ParentMessage::Stop => {
                        signal_everything(libc::SIGSTOP);
                        line.send(&StageMessage::Stopped, &[]).map_err(|_| GivenUp)?;
                    }
                    ParentMessage::Continue => signal_everything(libc::SIGCONT),
                    ParentMessage::Go => {}
                },
                // Nobody is left who could want the result.
                Ok(None) | Err(_) => return Err(GivenUp),
            }
        }
    }
}

/// Signals every process inside. Without a process namespace that would be every process of the user, so
/// nothing is signalled there.
fn signal_everything(signal: i32) {
    if std::process::id() == 1 {
        sys::signal_all(signal);
    }
}

/// Runs the canary with the program's own restrictions, waits for the word, and becomes the program.
fn become_program(given: StageInput) -> GivenUp {
    let StageInput { line, orders, descriptors } = given;
    let Some((door, streams)) = descriptors.split_first() else { return GivenUp };
    let Ok(door) = sys::lift(door).map(ControlSocket::on) else { return GivenUp };
    let given = StageInput { line: door, orders, descriptors: vec![] };
    // Should the init end, the kernel ends us with it; without a process namespace this does.
    if die_with_parent(&given).is_err() {
        return GivenUp;
    }
    let lifted: io::Result<Vec<_>> = streams.iter().map(sys::lift).collect();
    let Ok(lifted) = lifted else { return GivenUp };
    drop(descriptors);
    drop(line);
    for (descriptor, number) in lifted.iter().zip([0, 1, 2, CHANNEL_DESCRIPTOR]) {
        use std::os::fd::AsFd as _;
        if let Err(error) = sys::place(descriptor.as_fd(), number) {
            return given.fail("place the program's streams", &error, false);
        }
    }
    let channel = lifted.len() > 3;
    drop(lifted);
    // A session of its own: no terminal of the caller is its own.
    let _ = rustix::process::setsid();
    let _ = rustix::process::setpriority_process(None, NICENESS);
    if let Err(error) = std::env::set_current_dir(view::work_inside(&given.orders)) {
        return given.fail("go to the work directory", &error, false);
    }
    sys::default_signals();
    if let Err(error) = try_to_get_out(&given, channel) {
        return given.fail("run the canary", &error, false);
    }
    match given.line.receive::<ParentMessage>() {
        Ok(Some(heard)) if heard.message == ParentMessage::Go => {}
        _ => exit(1),
    }
    let mut error = command(&given.orders, channel).exec();
    // A thread of the caller that starts something else just now holds the file it wrote until that has begun.
    for _ in 0..BUSY_TRIES {
        if error.kind() != io::ErrorKind::ExecutableFileBusy {
            break;
        }
        std::thread::sleep(BUSY_WAIT);
        error = command(&given.orders, channel).exec();
    }
    given.fail(format!("start {}", given.orders.program.display()), &error, false)
}

/// Runs the canary in this very process. In a negative control it may get out and still start the program, so there it
/// runs in a copy: what it reached must not be the program's.
fn try_to_get_out(given: &StageInput, channel: bool) -> io::Result<()> {
    let try_all = || given.line.send(&StageMessage::Canary(canary::run(&given.orders, channel)), &[]);
    if given.orders.layers.has(SandboxLayer::Canary) {
        return try_all();
    }
    match sys::fork()? {
        Fork::Child => exit(i32::from(try_all().is_err())),
        Fork::Parent(copy) => sys::reap(copy).map(drop),
    }
}

#[expect(clippy::disallowed_methods, reason = "the program of a sandbox is started here alone")]
fn command(orders: &Orders, channel: bool) -> std::process::Command {
    let mut command = std::process::Command::new(Path::new(&orders.program));
    command.args(&orders.args);
    if orders.layers.has(SandboxLayer::Environment) {
        command.env_clear();
    }
    command.envs(orders.environment.iter().map(|(name, value)| (name, value)));
    if channel {
        command.env(CHANNEL_VARIABLE, CHANNEL_DESCRIPTOR.to_string());
    }
    command
}
