//! The timer that lets a brain's evolver run by itself:
//! user units of systemd, or a launch agent of launchd.
//!
//! What the files say is pure ([`files`]); [`install`] and [`uninstall`] write them and tell the
//! scheduler. The files are private to no one, so no secret may stand in them.

mod environment;
mod launchd;
mod machine;
mod schedule;
mod systemd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use herm::{BrainId, Error, Result, redact};

pub(crate) use environment::carried;
pub(crate) use machine::{Activation, EnableOptions, Installed, Machine, StopOptions, Uninstalled, install, uninstall};
pub(crate) use schedule::Schedule;

/// By this a file is known as one of herm's own: only such a one is replaced or removed.
const MARK: &str = "Made by herm:";
/// What a file says of itself.
const ABOUT: &str = "`herm evolve install-auto` writes it anew, `herm evolve uninstall-auto` takes it away.";

/// Who starts things at their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scheduler {
    /// A user manager of systemd.
    Systemd,
    /// launchd, which macOS has.
    Launchd,
}

impl Scheduler {
    /// The one of this kind of machine.
    pub(crate) fn of_this_machine() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    /// What a person should know about timers of this scheduler.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Systemd => {
                "user timers run while you are logged in; `loginctl enable-linger` lets them run at all times"
            }
            Self::Launchd => "launch agents run while you are logged in",
        }
    }

    /// The names of its files for a brain; the one that is enabled comes last.
    fn file_names(self, brain: &BrainId) -> Vec<String> {
        match self {
            Self::Systemd => vec![systemd::unit(brain, "service"), systemd::unit(brain, "timer")],
            Self::Launchd => vec![format!("{}.plist", launchd::label(brain))],
        }
    }
}

/// What is to run, when, and with what around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimerPlan {
    /// Whose evolver it is.
    pub(crate) brain: BrainId,
    /// The program, by its full path.
    pub(crate) program: PathBuf,
    /// The arguments of the program. None may hold a secret: others can read the files.
    pub(crate) arguments: Vec<String>,
    /// The variables it sees beside those of the scheduler.
    pub(crate) environment: BTreeMap<String, String>,
    /// When the program is to run.
    pub(crate) schedule: Schedule,
    /// Where it runs, by its full path.
    pub(crate) working_dir: PathBuf,
}

/// A file that a scheduler reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimerFile {
    /// Its name in the scheduler's directory.
    pub(crate) name: String,
    /// The whole text of the file, `MARK` in it.
    pub(crate) content: String,
}

/// The files of a plan.
pub(crate) fn files(plan: &TimerPlan, scheduler: Scheduler) -> Result<Vec<TimerFile>> {
    check(plan)?;
    let contents = match scheduler {
        Scheduler::Systemd => vec![systemd::service(plan)?, systemd::timer(plan)],
        Scheduler::Launchd => vec![launchd::agent(plan)?],
    };
    let names = scheduler.file_names(&plan.brain);
    Ok(names.into_iter().zip(contents).map(|(name, content)| TimerFile { name, content }).collect())
}

/// What no scheduler could take, and what must not stand in a file that others may read.
fn check(plan: &TimerPlan) -> Result<()> {
    full_path(&plan.program, "the program")?;
    full_path(&plan.working_dir, "the working directory")?;
    for argument in &plan.arguments {
        plain(argument, "an argument")?;
        if !redact::find(argument).is_empty() {
            return Err(Error::refused("an argument of the timer holds a secret, and its file can be read by others")
                .hint("put the secret into a file of its own and name that file in the configuration"));
        }
    }
    for (name, value) in &plan.environment {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(good) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Error::invalid(format!("{name:?} is not the name of a variable"))
                .hint("a name is letters, digits and _, and begins with no digit"));
        }
        plain(value, name)?;
        if environment::says_secret(name) || environment::holds_secret(value) {
            return Err(Error::refused(format!("{name} holds a secret, and the timer's file can be read by others"))
                .hint("put the secret into a file of its own and name that file in the configuration"));
        }
    }
    Ok(())
}

/// A path that any scheduler can be told.
fn full_path<'a>(path: &'a Path, what: &str) -> Result<&'a str> {
    let bad = |rule: &str| {
        Error::invalid(format!("{what} of the timer, {}, {rule}", path.display()))
            .hint("move it to a place with a plain full path")
    };
    let text = path.to_str().ok_or_else(|| bad("is not UTF-8"))?;
    if !path.is_absolute() {
        return Err(bad("is not a full path"));
    }
    plain(text, what)?;
    Ok(text)
}

/// A text without characters that no scheduler takes.
fn plain(text: &str, what: &str) -> Result<()> {
    let is_bad = |c: char| c.is_control() || matches!(c, '\u{fdd0}'..='\u{fdef}') || (c as u32 & 0xfffe) == 0xfffe;
    if !text.chars().any(is_bad) {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} of the timer has a line end or another control character"))
        .hint("timers take printable text only"))
}

#[cfg(test)]
mod tests;
