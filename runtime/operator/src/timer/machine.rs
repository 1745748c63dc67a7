//! Puts a timer's files where its scheduler looks for them, and tells the scheduler.
//!
//! Files come first and stay, whatever the scheduler says: a machine without one running (a container,
//! a first login) takes them up later.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use herm::fsio::{self, Root, SyncTiming};
use herm::skill::shell::{ProcessRunner, Runner as _};
use herm::{BrainId, Error, RelPath, Result};

use super::{MARK, Schedule, Scheduler, TimerPlan, files, launchd, systemd};

/// How long the scheduler may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// No file of a timer is larger.
const MAX_FILE: u64 = 1 << 20;
/// Variables by which the scheduler's program finds the user's session.
const SESSION: [&str; 4] = ["HOME", "USER", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// Where things are on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// The user's home directory, an absolute path.
    pub(crate) home: PathBuf,
    /// The user's configuration directory, where it is not `.config` of the home.
    pub(crate) config_home: Option<PathBuf>,
    /// The `PATH` in which the scheduler's programs are looked for.
    pub(crate) path: OsString,
    /// Variables of the user's session.
    pub(crate) session: Vec<(String, OsString)>,
}

impl Machine {
    /// This machine, as the environment of this process describes it.
    pub(crate) fn here() -> Result<Self> {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").ok_or_else(|| {
            Error::invalid("no place for a timer: HOME is not set").hint("set HOME to your home directory")
        })?;
        let session = SESSION.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?)));
        Ok(Self {
            home,
            config_home: absolute("XDG_CONFIG_HOME"),
            path: std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()),
            session: session.collect(),
        })
    }

    /// Where a scheduler looks for the files of this user.
    pub(crate) fn directory(&self, scheduler: Scheduler) -> PathBuf {
        match scheduler {
            Scheduler::Systemd => {
                self.config_home.clone().unwrap_or_else(|| self.home.join(".config")).join("systemd/user")
            }
            Scheduler::Launchd => self.home.join("Library/LaunchAgents"),
        }
    }

    fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path).any(|directory| directory.join(program).is_file())
    }

    /// Runs a program of the scheduler; what it printed, or what went wrong.
    fn tell(&self, program: &'static str, arguments: &[&OsStr]) -> Result<String, String> {
        if !self.has(program) {
            return Err(format!("{program} is not on this machine's PATH"));
        }
        let said = arguments.iter().map(|one| one.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let assigned = |(name, value): (&str, &OsStr)| {
            let mut assignment = OsString::from(format!("{name}="));
            assignment.push(value);
            assignment
        };
        let session = self.session.iter().map(|(name, value)| (name.as_str(), value.as_os_str()));
        let mut words: Vec<OsString> =
            session.chain(std::iter::once(("PATH", self.path.as_os_str()))).map(assigned).collect();
        words.push(program.into());
        words.extend(arguments.iter().map(|one| (*one).to_owned()));
        // The runner gives a bare environment; `env` puts the session into it.
        let runner = ProcessRunner::new("/").timeout(ANSWER).shell(move |_| within_session(&words));
        runner.run(program).map_err(|why| format!("`{program} {said}` did not work: {why}"))
    }
}

#[expect(clippy::disallowed_methods, reason = "the scheduler's own program; the runner of skill::shell starts it")]
fn within_session(words: &[OsString]) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command.args(words);
    command
}

/// Whether a timer is to run from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnableOptions {
    /// Yes: the scheduler is told to enable and start it.
    Now,
    /// Only its files are written.
    FilesOnly,
}

/// Whether a timer that is taken away is also stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopOptions {
    /// Yes: the scheduler is told to stop it before its files go.
    Now,
    /// What is running goes on; only its files go.
    FilesOnly,
}

/// What came of telling the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "detail")]
pub(crate) enum Activation {
    /// Nobody asked for it.
    NotAsked,
    /// The scheduler took it; what it printed.
    Done(String),
    /// It did not, and why; the files are as they should be.
    Failed(String),
}

impl Activation {
    fn of(told: Result<String, String>) -> Self {
        match told {
            Ok(output) => Self::Done(output.trim().to_owned()),
            Err(why) => Self::Failed(why),
        }
    }

    /// Whether the scheduler was told and refused.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

/// What came of installing a timer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Installed {
    /// The scheduler that the files are for.
    pub(crate) scheduler: Scheduler,
    /// The files that were written, by their full paths.
    pub(crate) paths: Vec<PathBuf>,
    /// Whether there was a timer of this brain before.
    pub(crate) replaced: bool,
    /// Whether the timer runs from now on.
    pub(crate) enabled: bool,
    /// What the scheduler said.
    pub(crate) activation: Activation,
}

/// What was taken away.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Uninstalled {
    /// The scheduler that the files were for.
    pub(crate) scheduler: Scheduler,
    /// The files that are gone now.
    pub(crate) removed: Vec<PathBuf>,
    /// The files that were not there.
    pub(crate) missing: Vec<PathBuf>,
    /// What the scheduler said.
    pub(crate) activation: Activation,
}

/// Writes the files of a plan, and lets the scheduler take them up if asked.
pub(crate) fn install(
    plan: &TimerPlan,
    scheduler: Scheduler,
    enabling: EnableOptions,
    machine: &Machine,
) -> Result<Installed> {
    // Everything that can be refused is refused before the first file is touched.
    let files = files(plan, scheduler)?;
    if let (Schedule::Calendar(expression), Scheduler::Systemd) = (&plan.schedule, scheduler) {
        let judged = machine.tell("systemd-analyze", &["calendar".as_ref(), expression.as_ref()]);
        // Where nobody can judge it, the scheduler will.
        if let Err(why) = judged
            && machine.has("systemd-analyze")
        {
            return Err(Error::invalid(format!("{expression:?} is not a time that systemd knows: {why}"))
                .hint("try it with `systemd-analyze calendar`"));
        }
    }
    let directory = machine.directory(scheduler);
    fsio::create_dirs(&directory)?;
    let root = open(&directory)?;
    let mut replaced = false;
    for file in &files {
        replaced |= is_ours(&root, &file.name.parse()?)?;
    }
    for file in &files {
        root.replace(&file.name.parse()?, file.content.as_bytes(), SyncTiming::Now)?;
    }
    tidy(root.path());
    let paths: Vec<PathBuf> = files.iter().map(|file| directory.join(&file.name)).collect();
    let activation = match enabling {
        EnableOptions::FilesOnly => Activation::NotAsked,
        EnableOptions::Now => Activation::of(enable(plan, scheduler, replaced, &paths, machine)),
    };
    let enabled = matches!(activation, Activation::Done(_));
    Ok(Installed { scheduler, paths, replaced, enabled, activation })
}

fn enable(
    plan: &TimerPlan,
    scheduler: Scheduler,
    replaced: bool,
    paths: &[PathBuf],
    machine: &Machine,
) -> Result<String, String> {
    match scheduler {
        Scheduler::Systemd => {
            let timer = systemd::unit(&plan.brain, "timer");
            systemctl(machine, &["daemon-reload"])?;
            let output = systemctl(machine, &["enable", "--now", &timer])?;
            if replaced {
                // One that runs already keeps its old times until then.
                systemctl(machine, &["restart", &timer])?;
            }
            Ok(output)
        }
        Scheduler::Launchd => {
            let domain = format!("gui/{}", rustix::process::getuid().as_raw());
            let service = format!("{domain}/{}", launchd::label(&plan.brain));
            // Fails where none is loaded, which is as good.
            let _ = machine.tell("launchctl", &["bootout".as_ref(), service.as_ref()]);
            let file = paths.last().map_or(OsStr::new(""), |path| path.as_os_str());
            machine.tell("launchctl", &["bootstrap".as_ref(), domain.as_ref(), file])
        }
    }
}

fn systemctl(machine: &Machine, arguments: &[&str]) -> Result<String, String> {
    let words: Vec<&OsStr> = std::iter::once("--user").chain(arguments.iter().copied()).map(OsStr::new).collect();
    machine.tell("systemctl", &words)
}

/// Takes the files of a brain's timer away, and stops it if asked. Files go even where the scheduler
/// cannot be told: without them the timer does not come back.
pub(crate) fn uninstall(
    brain: &BrainId,
    scheduler: Scheduler,
    stopping: StopOptions,
    machine: &Machine,
) -> Result<Uninstalled> {
    let directory = machine.directory(scheduler);
    let names = scheduler.file_names(brain);
    let nothing = || {
        let missing = names.iter().map(|name| directory.join(name)).collect();
        Uninstalled { scheduler, removed: Vec::new(), missing, activation: Activation::NotAsked }
    };
    if !directory.exists() {
        return Ok(nothing());
    }
    let root = open(&directory)?;
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for name in &names {
        if is_ours(&root, &name.parse()?)? { &mut there } else { &mut missing }.push(directory.join(name));
    }
    if there.is_empty() {
        return Ok(nothing());
    }
    // Before the files go: afterwards systemd no longer knows what to take back.
    let stopped = match stopping {
        StopOptions::FilesOnly => Activation::NotAsked,
        StopOptions::Now => Activation::of(stop(brain, scheduler, machine)),
    };
    for name in &names {
        root.remove(&name.parse()?)?;
    }
    if let (Scheduler::Systemd, StopOptions::Now) = (scheduler, stopping) {
        // The link that enabled it, where systemd did not take it back itself.
        root.remove(&format!("timers.target.wants/{}", systemd::unit(brain, "timer")).parse()?)?;
    }
    let activation = match (&stopped, scheduler) {
        (Activation::Done(_), Scheduler::Systemd) => match systemctl(machine, &["daemon-reload"]) {
            Ok(_) => stopped,
            Err(why) => Activation::Failed(why),
        },
        _ => stopped,
    };
    Ok(Uninstalled { scheduler, removed: there, missing, activation })
}

fn stop(brain: &BrainId, scheduler: Scheduler, machine: &Machine) -> Result<String, String> {
    match scheduler {
        Scheduler::Systemd => systemctl(machine, &["disable", "--now", &systemd::unit(brain, "timer")]),
        Scheduler::Launchd => {
            let service = format!("gui/{}/{}", rustix::process::getuid().as_raw(), launchd::label(brain));
            machine.tell("launchctl", &["bootout".as_ref(), service.as_ref()])
        }
    }
}

/// The directory itself, where the one named is a link to it: many keep their configuration elsewhere.
fn open(directory: &Path) -> Result<Root> {
    let real = directory.canonicalize().map_err(|source| Error::io("open", directory, source))?;
    Root::open(&real)
}

/// Whether a file is there, and herm's own. One that is not is nobody's to replace or remove here.
fn is_ours(root: &Root, name: &RelPath) -> Result<bool> {
    if !root.can_hold(name)? {
        return Ok(false);
    }
    let content = root.read(name, MAX_FILE)?.unwrap_or_default();
    if String::from_utf8_lossy(&content).contains(MARK) {
        return Ok(true);
    }
    Err(Error::refused(format!("{} was not made by herm", root.path().join(name).display()))
        .hint("move it out of the way, then try again"))
}

/// Takes away the empty directory in which files were prepared: this one belongs to the scheduler.
fn tidy(directory: &Path) {
    for below in [".herm/tmp", ".herm"] {
        // One that is not empty is in use, and the process that uses it tidies up.
        let _ = std::fs::remove_dir(directory.join(below));
    }
}
