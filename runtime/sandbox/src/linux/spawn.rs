//! From a spec to a running program: the orders, the tiers one after the other, and the words that are exchanged.

use std::fs;
use std::io::{self, Read as _, Seek as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::cgroup::Groups;
use super::handle::{CountedPipe, Handle, Shared};
use super::sample::ProcView;
use super::streams::{OutputEnd, Streams};
use super::supervise::Supervisor;
use super::tree::Tree;
use super::wire::{self, CanaryTargets, ControlSocket, Orders, ParentMessage, Rlimits, StageMessage};
use super::{bubblewrap, leftovers, stage, sys, view};
use crate::error::SpawnError;
use crate::janitor::{Entry, SandboxLease};
use crate::process::{OutputReader, SandboxProcess};
use crate::report::{LayerReport, ProbeResult, SpawnReport, Tier};
use crate::spec::{Bind, CgroupPolicy, SandboxLayer, SandboxLayers, SandboxProgram, SandboxSpec};

/// How long the set-up may take, on a machine that does something else.
const PATIENCE: Duration = Duration::from_secs(30);
/// Users that no system gives to anybody, from here on.
const FIRST_USER: u32 = 0x7000_0000;
const USERS: u32 = 0x0fff_0000;

fn setup(step: impl Into<String>, why: impl ToString, hint: &str) -> SpawnError {
    SpawnError::Setup { step: step.into(), why: why.to_string(), hint: hint.into() }
}

const TRY_AGAIN: &str = "check the machine's limits and disks, and try again";

pub(crate) fn spawn(spec: SandboxSpec) -> Result<SandboxProcess, SpawnError> {
    if !stage::is_registered() {
        return Err(SpawnError::NotRegistered);
    }
    let asked = Instant::now();
    check(&spec)?;
    let (ready, is_ready) = mpsc::channel();
    let supervise = move || {
        // Nobody waits any more only if the caller's thread is gone; the sandbox then ends at once.
        match attempt_all(spec, asked) {
            Err(refusal) => drop(ready.send(Err(refusal))),
            Ok((running, supervisor)) => match ready.send(Ok(running)) {
                Ok(()) => supervisor.run(),
                Err(unheard) => {
                    // In this order: what is unheard waits for its supervisor.
                    drop(supervisor);
                    drop(unheard);
                }
            },
        }
    };
    // The stages die with the thread that started them, so it is one that stays until the end.
    let thread = std::thread::Builder::new()
        .name("herm-sandbox".into())
        .spawn(supervise)
        .map_err(|error| setup("start a thread", error, TRY_AGAIN))?;
    let spawned = is_ready.recv().unwrap_or_else(|_| Err(setup("build the sandbox", "its thread ended", TRY_AGAIN)));
    match spawned {
        Ok(mut running) => {
            running.handle.thread = Some(thread);
            Ok(running)
        }
        Err(refusal) => {
            // Nothing is left when a refusal is returned, not even its thread. A panic there is in the refusal.
            let _ = thread.join();
            Err(refusal)
        }
    }
}

fn check(spec: &SandboxSpec) -> Result<(), SpawnError> {
    let invalid = |what: String, hint: &str| Err(SpawnError::Invalid { what, hint: hint.into() });
    if let SandboxProgram::At(path) = &spec.program
        && !path.is_absolute()
    {
        return invalid(format!("the program {} is no absolute path", path.display()), "name it as it is seen inside");
    }
    for bind in &spec.binds {
        let plain = |path: &Path| {
            path.is_absolute() && path.components().all(|part| !matches!(part, std::path::Component::ParentDir))
        };
        if !plain(&bind.host) || !plain(&bind.inside) || bind.inside == Path::new("/") {
            let what =
                format!("the bind {} → {} is no pair of absolute paths", bind.host.display(), bind.inside.display());
            return invalid(what, "use absolute paths without .., and not the root itself");
        }
        if ["/work", "/tmp", "/proc", "/dev"].iter().any(|own| bind.inside.starts_with(own)) {
            let what = format!("the bind {} lies in a directory of the sandbox itself", bind.inside.display());
            return invalid(what, "choose a place outside /work, /tmp, /proc and /dev");
        }
    }
    let strings = spec.args.iter().chain(spec.environment.iter().flat_map(|(name, value)| [name, value]));
    if strings.into_iter().any(|text| text.contains('\0')) {
        return invalid("an argument or a variable holds a NUL".into(), "remove it");
    }
    if spec.environment.iter().any(|(name, _)| name.is_empty() || name.contains('=')) {
        return invalid("a variable has no name, or one with =".into(), "rename it");
    }
    let limits = &spec.limits;
    if limits.memory < 1 << 20 || limits.processes == 0 || limits.cpu_percent == 0 || limits.wall.is_zero() {
        return invalid(
            "a limit is too low for any program".into(),
            "give it at least 1 MiB, one process, 1 % and some time",
        );
    }
    if !spec.work.is_dir() {
        return invalid(format!("the work directory {} is no directory", spec.work.display()), "make it first");
    }
    Ok(())
}

/// Why one tier did not work.
enum Failed {
    /// The machine does not allow it: the next tier may be.
    Unavailable(String),
    Refused(SpawnError),
}

fn attempt_all(spec: SandboxSpec, asked: Instant) -> Result<(SandboxProcess, Supervisor), SpawnError> {
    let tiers = spec.tiers.to_try()?;
    let SandboxSpec {
        program,
        args,
        environment,
        binds,
        lease,
        work,
        limits,
        stdin,
        stdout,
        stderr,
        channel,
        layers,
        cgroups,
        ..
    } = spec;
    let streams =
        Streams::open(stdin, stdout, stderr, channel).map_err(|error| setup("open pipes", error, TRY_AGAIN))?;
    let mut plan = Plan { program, args, environment, binds, lease, work, limits, layers, cgroups, streams };
    let mut why = Vec::new();
    for tier in tiers {
        match attempt(&plan, tier) {
            Ok(built) => return plan.finish(built, asked),
            Err(Failed::Unavailable(reason)) => why.push((tier, reason)),
            Err(Failed::Refused(refusal)) => return Err(refusal),
        }
    }
    plan.streams.program.clear();
    Err(SpawnError::Unavailable { why })
}

/// A spec without what belongs to the caller.
struct Plan {
    program: SandboxProgram,
    args: Vec<String>,
    environment: Vec<(String, String)>,
    binds: Vec<Bind>,
    lease: SandboxLease,
    work: PathBuf,
    limits: crate::limits::SandboxLimits,
    layers: SandboxLayers,
    cgroups: CgroupPolicy,
    streams: Streams,
}

/// A program that has just started.
struct Built {
    tier: Tier,
    control: ControlSocket,
    init: Process,
    /// Bubblewrap outside, which goes when the init goes.
    outer: Option<Process>,
    proc_view: ProcView,
    groups: Groups,
    layers: Vec<LayerReport>,
    limits: Vec<(String, String)>,
    canary: Vec<ProbeResult>,
}

/// A process of ours, ended and reaped when it is dropped.
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) handle: OwnedFd,
    /// Whether it is our own child, which is ours to reap.
    pub(crate) child: bool,
    reaped: bool,
}

impl Process {
    fn hold(pid: i32, child: bool) -> io::Result<Self> {
        let number = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process"))?;
        Ok(Self { pid, handle: pidfd_open(number, PidfdFlags::empty())?, child, reaped: false })
    }

    /// Waits until it is gone; tells the CPU time of it and of what it waited for.
    pub(crate) fn reap(&mut self) -> Option<Duration> {
        if self.reaped {
            return None;
        }
        self.reaped = true;
        if self.child { sys::reap(self.pid).ok().map(|reaped| reaped.cpu) } else { self.wait_until_gone() }
    }

    fn wait_until_gone(&self) -> Option<Duration> {
        let mut gone = [rustix::event::PollFd::new(&self.handle, rustix::event::PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = rustix::event::poll(&mut gone, None) {}
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
            self.reap();
        }
    }
}

/// Things that the canary must not reach, held open until it has tried.
struct Targets {
    told: CanaryTargets,
    _port: TcpListener,
    _socket: UnixListener,
}

impl Targets {
    fn open(plan: &Plan) -> io::Result<Self> {
        let port = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let abstract_name = format!("herm-canary-{}", leftovers::random_name()?);
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name)?;
        let socket = UnixListener::bind_addr(&address)?;
        let told = CanaryTargets {
            port: port.local_addr()?.port(),
            abstract_name,
            file: plan.lease.directory().join(crate::janitor::LEASE),
            root: {
                let root = rustix::fs::stat("/")?;
                (root.st_dev, root.st_ino)
            },
            namespaces: ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
                .iter()
                .map(|kind| Ok(((*kind).to_owned(), fs::read_link(format!("/proc/self/ns/{kind}"))?)))
                .collect::<io::Result<_>>()?,
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        };
        Ok(Self { told, _port: port, _socket: socket })
    }
}

fn attempt(plan: &Plan, tier: Tier) -> Result<Built, Failed> {
    let refused = |step: &str| {
        let step = step.to_owned();
        move |error: io::Error| Failed::Refused(setup(step, error, TRY_AGAIN))
    };
    let bubblewrap = bubblewrap::find();
    if tier == Tier::Bubblewrap && bubblewrap.is_none() {
        return Err(Failed::Unavailable("/usr/bin/bwrap is not installed".into()));
    }
    let targets = Targets::open(plan).map_err(refused("open what the canary reaches for"))?;
    let mut groups = match plan.cgroups {
        CgroupPolicy::Never => Groups::default(),
        CgroupPolicy::WhereWritable => {
            let mut note = |path: &Path| plan.lease.note(&Entry::Cgroup(path.to_owned()));
            let ours = if tier == Tier::Bubblewrap { 2 } else { 1 };
            Groups::make(&plan.lease.name(), &plan.limits, ours, &mut note).map_err(refused("make control groups"))?
        }
    };
    let built = converse(plan, tier, bubblewrap, &targets, &groups);
    match built {
        Ok((control, init, outer, windows, layers, canary)) => {
            let limits = plan.limits_in_words(&groups);
            Ok(Built { tier, control, init, outer, proc_view: windows, groups, layers, limits, canary })
        }
        Err(failed) => {
            groups.remove().map_err(refused("remove control groups"))?;
            Err(failed)
        }
    }
}

type Conversation = (ControlSocket, Process, Option<Process>, ProcView, Vec<LayerReport>, Vec<ProbeResult>);

/// Starts the stages and talks them through, up to the program's start. If anything fails, nothing is left running.
fn converse(
    plan: &Plan,
    tier: Tier,
    bubblewrap: Option<PathBuf>,
    targets: &Targets,
    groups: &Groups,
) -> Result<Conversation, Failed> {
    let refused = |step: &'static str| move |error: io::Error| Failed::Refused(setup(step, error, TRY_AGAIN));
    let deadline = Instant::now() + PATIENCE;
    let orders = plan.orders(tier, bubblewrap, targets, groups).map_err(Failed::Refused)?;
    if let Some(user) = orders.user {
        leftovers::hand_over(&plan.work, user).map_err(|error| match error.raw_os_error() {
            // The root of a container may be the only user there is.
            Some(errno) if errno == rustix::io::Errno::INVAL.raw_os_error() => {
                Failed::Unavailable(format!("the user namespace of this process has no user {user} for a sandbox"))
            }
            _ => {
                let step = "give the work directory to the sandbox's user";
                Failed::Refused(setup(step, error, "put copies into it, no links"))
            }
        })?;
    }
    let sealed = wire::seal(&orders).map_err(refused("write the orders"))?;
    let (control, theirs) = ControlSocket::pair().map_err(refused("open a socket"))?;
    control.enable_peer_credentials().map_err(refused("open a socket"))?;
    let (door, their_door) = ControlSocket::pair().map_err(refused("open a socket"))?;
    let mut said_aside = error_file().map_err(refused("make an unnamed file"))?;

    let descriptors = plan.layers.has(SandboxLayer::Descriptors);
    let mut command = stage::command(if descriptors { stage::BUILD } else { stage::BUILD_WITH_DESCRIPTORS });
    if !plan.layers.has(SandboxLayer::Environment) {
        command.envs(std::env::vars_os());
    }
    let aside_end = said_aside.try_clone().map_err(refused("make an unnamed file"))?;
    command.stdin(Stdio::from(theirs.into_socket())).stdout(Stdio::null()).stderr(Stdio::from(aside_end));
    let started = command.spawn().map_err(refused("start our own binary again"))?;
    drop(command);
    let pid = i32::try_from(started.id()).unwrap_or_default();
    let mut first = Process::hold(pid, true).map_err(refused("hold the first stage"))?;
    plan.note(pid).map_err(refused("write the lease"))?;
    groups.join(pid).map_err(refused("join control groups"))?;

    let mut everything = vec![sealed.as_fd(), their_door.as_fd()];
    everything.extend(stage::borrowed(&plan.streams.program));
    let for_the_first = if tier == Tier::Namespaces { &everything[..] } else { &everything[..1] };
    control.send(&(), for_the_first).map_err(refused("send the orders"))?;

    // The init says hello, and the kernel says who it is.
    let hello = hear(&control, deadline, &mut said_aside)?;
    let (StageMessage::Hello, Some(sender)) = (&hello.message, hello.sender) else {
        return Err(unexpected(hello.message));
    };
    let init = Process::hold(sender.pid, tier == Tier::Namespaces).map_err(refused("hold the init"))?;
    plan.note(sender.pid).map_err(refused("write the lease"))?;
    let outer = match tier {
        Tier::Namespaces => {
            first.reap();
            None
        }
        Tier::Bubblewrap => {
            control.send(&(), &everything).map_err(refused("send the orders"))?;
            Some(first)
        }
    };
    drop(everything);
    drop(their_door);

    let mut built = hear(&control, deadline, &mut said_aside)?;
    let StageMessage::Built(mut layers) = built.message else { return Err(unexpected(built.message)) };
    let (Some(temporary), Some(proc)) = (built.descriptors.pop(), built.descriptors.pop()) else {
        return Err(Failed::Refused(setup("look into the sandbox", "it sent no windows", TRY_AGAIN)));
    };
    let found = hear(&door, deadline, &mut said_aside)?;
    let StageMessage::Canary(mut canary) = found.message else { return Err(unexpected(found.message)) };
    // A user who is root outside stays root for what the other layers let through. The kernel says who it is.
    let detail = format!("user {} outside", sender.user);
    canary.push(ProbeResult { probe: "user_outside".into(), held: sender.user != 0, detail });
    let enforced = plan.layers.has(SandboxLayer::Canary);
    layers.push(LayerReport {
        layer: SandboxLayer::Canary,
        on: enforced,
        detail: format!("{} of {} probes held", canary.iter().filter(|probe| probe.held).count(), canary.len()),
    });
    if let Some(probe) = canary.iter().find(|probe| !probe.held)
        && enforced
    {
        let (probe, detail) = (probe.probe.clone(), probe.detail.clone());
        return Err(Failed::Refused(SpawnError::Escaped { probe, detail }));
    }
    door.send(&ParentMessage::Go, &[]).map_err(refused("give the word"))?;
    // The socket closes by itself when the program starts.
    match hear_or_close(&door, deadline, &mut said_aside)? {
        None => Ok((
            control,
            init,
            outer,
            ProcView::new(proc, temporary, plan.layers.has(SandboxLayer::ProcessNamespace)),
            layers,
            canary,
        )),
        Some(heard) => Err(unexpected(heard.message)),
    }
}

/// A file without a name into which stages write what they have to say when they cannot say it otherwise.
fn error_file() -> io::Result<fs::File> {
    Ok(rustix::fs::memfd_create("herm-aside", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

fn unexpected(said: StageMessage) -> Failed {
    match said {
        StageMessage::Failed { step, why, unavailable: true } => Failed::Unavailable(format!("cannot {step}: {why}")),
        StageMessage::Failed { step, why, .. } => {
            let hint = "check that what the spec names exists, and that the sandbox's user may reach it";
            Failed::Refused(setup(step, why, hint))
        }
        other => Failed::Refused(setup("build the sandbox", format!("a stage said {other:?} out of turn"), TRY_AGAIN)),
    }
}

fn hear_or_close(
    line: &ControlSocket,
    deadline: Instant,
    aside: &mut fs::File,
) -> Result<Option<wire::ReceivedMessage<StageMessage>>, Failed> {
    let refused = |why: String| Failed::Refused(setup("build the sandbox", why, TRY_AGAIN));
    loop {
        if Instant::now() >= deadline {
            return Err(refused(format!(
                "a stage said nothing for {} s {}",
                PATIENCE.as_secs(),
                read_error_file(aside)
            )));
        }
        if line.readable_before(deadline).map_err(|error| refused(error.to_string()))? {
            return line.receive().map_err(|error| refused(error.to_string()));
        }
    }
}

fn hear(
    line: &ControlSocket,
    deadline: Instant,
    aside: &mut fs::File,
) -> Result<wire::ReceivedMessage<StageMessage>, Failed> {
    match hear_or_close(line, deadline, aside)? {
        // Bubblewrap that cannot make its namespaces says so aside, and ends.
        None => Err(Failed::Unavailable(format!("a stage ended without a word {}", read_error_file(aside)))),
        Some(heard) => match heard.message {
            said @ StageMessage::Failed { .. } => Err(unexpected(said)),
            _ => Ok(heard),
        },
    }
}

fn read_error_file(aside: &mut fs::File) -> String {
    let mut words = String::new();
    let read = aside.rewind().and_then(|()| aside.take(2_000).read_to_string(&mut words));
    match read {
        Ok(_) => format!("({})", words.trim()),
        Err(error) => format!("(and what it said cannot be read: {error})"),
    }
}

impl Plan {
    fn note(&self, pid: i32) -> io::Result<()> {
        self.lease.note(&Entry::Process { pid, start: leftovers::started(pid).unwrap_or(0) })
    }

    fn orders(
        &self,
        tier: Tier,
        bubblewrap: Option<PathBuf>,
        targets: &Targets,
        groups: &Groups,
    ) -> Result<Orders, SpawnError> {
        let failed = |error: io::Error| setup("find our own binary", error, TRY_AGAIN);
        let mut binds = self.binds.clone();
        let needed = self.program == SandboxProgram::CurrentExe || tier == Tier::Bubblewrap;
        let mut libraries: Vec<_> = if needed { libraries() } else { Vec::new() };
        // What lies in a directory that is bound anyway is seen there.
        libraries.retain(|library| !binds.iter().any(|bind| library.inside.starts_with(&bind.inside)));
        let root = rustix::process::geteuid().is_root();
        // The kernel's own name for it holds even if the file was replaced, but only root can take a tree by it.
        let exe = match tier {
            Tier::Namespaces if root => PathBuf::from("/proc/self/exe"),
            Tier::Namespaces | Tier::Bubblewrap => std::env::current_exe().map_err(failed)?,
        };
        let program = match &self.program {
            SandboxProgram::At(path) => path.clone(),
            SandboxProgram::CurrentExe if self.layers.has(SandboxLayer::MountView) => {
                binds.push(bubblewrap::ourselves(&exe));
                view::OURSELVES.into()
            }
            SandboxProgram::CurrentExe => std::env::current_exe().map_err(failed)?,
        };
        if tier == Tier::Bubblewrap {
            binds.extend(bubblewrap::stage_binds(&exe, libraries));
        } else {
            binds.extend(libraries);
        }
        let user = match root && self.layers.has(SandboxLayer::TransientUser) {
            false => None,
            true => {
                let random = leftovers::random().map_err(|error| setup("choose a user", error, TRY_AGAIN))?;
                Some(FIRST_USER + u32::from_ne_bytes([random[0], random[1], random[2], random[3]]) % USERS)
            }
        };
        let limits = &self.limits;
        Ok(Orders {
            tier,
            layers: self.layers.clone(),
            program,
            args: self.args.clone(),
            environment: self.environment.clone(),
            binds,
            work: self.work.clone(),
            user,
            rlimits: Rlimits {
                file_size: limits.disk,
                // Untouched stacks and reservations count here, so it only stops what is far beyond the limit.
                data: groups.holds_memory().is_none().then(|| limits.memory.saturating_add(1 << 30)),
                // The init, and one to show that the limit was crossed.
                processes: u64::from(limits.processes) + 2,
                temporary: (limits.memory / 2).max(1 << 20),
            },
            processors: processors(limits.cpu_percent, groups.holds_cpu().is_some()),
            bubblewrap,
            canary: targets.told.clone(),
        })
    }

    fn limits_in_words(&self, groups: &Groups) -> Vec<(String, String)> {
        let sampled = |by: Option<&str>, otherwise: &str| by.unwrap_or(otherwise).to_owned();
        vec![
            ("wall".into(), "timer".into()),
            (
                "cpu".into(),
                sampled(groups.holds_cpu().map(|_| "cgroup quota, weight and affinity"), "affinity and niceness"),
            ),
            ("memory".into(), sampled(groups.holds_memory(), "sampling and rlimit")),
            ("processes".into(), sampled(groups.holds_processes(), "sampling and rlimit")),
            ("disk".into(), "sampling and rlimit".into()),
            ("files".into(), "sampling".into()),
            ("output".into(), "counted as it is read".into()),
        ]
    }

    fn finish(self, built: Built, asked: Instant) -> Result<(SandboxProcess, Supervisor), SpawnError> {
        let failed = |error: io::Error| setup("supervise the sandbox", error, TRY_AGAIN);
        let Streams { program, stdin, stdout, stderr } = self.streams;
        drop(program);
        built.groups.yield_to_others();
        let handle = built.init.handle.try_clone().map_err(failed)?;
        let shared = Arc::new(Shared::new(handle, self.limits.output).map_err(failed)?);
        let tree = Tree::open(&self.work).map_err(failed)?;
        let (ended, ending) = mpsc::channel();
        let mut pumps = Vec::new();
        let mut reader = |side: OutputEnd| match side {
            OutputEnd::Null => None,
            OutputEnd::Caller(pipe) => Some(OutputReader { inner: CountedPipe { pipe, shared: Arc::clone(&shared) } }),
            OutputEnd::Pump(pump) => {
                pumps.push(pump);
                None
            }
        };
        let (stdout, stderr) = (reader(stdout), reader(stderr));
        let report = SpawnReport {
            tier: built.tier,
            layers: built.layers,
            limits: built.limits,
            canary: built.canary,
            ready_after: asked.elapsed(),
        };
        let handle = Handle { shared: Arc::clone(&shared), ending: Some(ending), thread: None };
        let supervisor = Supervisor::new(
            shared,
            ended,
            (built.control, built.init, built.outer),
            (built.proc_view, tree, built.groups),
            (self.limits, pumps, self.lease),
        );
        Ok((SandboxProcess { report, stdin, stdout, stderr, handle }, supervisor))
    }
}

/// The shared libraries that our own binary needs, under the names by which its linker looks for them.
fn libraries() -> Vec<Bind> {
    let found = sys::loaded_libraries().into_iter();
    let mut binds: Vec<_> = found.map(|path| Bind { optional: true, ..Bind::same(path) }).collect();
    for bind in &mut binds {
        // A link would point at a name that is not there inside.
        if let Ok(real) = bind.host.canonicalize() {
            bind.host = real;
        }
    }
    if !binds.is_empty() {
        binds.push(Bind { optional: true, ..Bind::same("/etc/ld.so.cache") });
    }
    binds
}

/// The processors that a sandbox may use: the last of ours, so that the first stay free.
fn processors(percent: u32, held_by_group: bool) -> Vec<usize> {
    let Ok(ours) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    let ours: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|number| ours.is_set(*number)).collect();
    let wanted = if held_by_group { percent.div_ceil(100) } else { percent / 100 };
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).clamp(1, ours.len().max(1));
    ours[ours.len().saturating_sub(wanted)..].to_vec()
}
