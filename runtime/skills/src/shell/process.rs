//! Runs the command of a snippet with `/bin/sh`: for a limited time, with a bare environment, in a
//! process group that does not outlive it.
//!
//! Blocking: it belongs on a thread that may wait.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Runner;
use super::group::{Group, Streams};
use crate::redact;
use crate::template::Variables;
use crate::text;

/// How long a command may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take at most, whatever is asked for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Characters of the first line of standard error that are shown.
pub(super) const SHOWN_ERROR: usize = 200;
/// How much a pipe may hold when the command has ended.
const PIPE_BYTES: usize = 1024 * 1024;
/// How often it is checked whether the command ended: rarely while its pipes would say so.
const PAUSE_OPEN: Duration = Duration::from_millis(20);
const PAUSE_CLOSED: Duration = Duration::from_millis(1);
/// Where programs are looked for if herm itself was given no `PATH`.
const USUAL_PATH: &str = "/usr/bin:/bin";

type Shell = dyn Fn(&str) -> Command + Send + Sync;

/// Runs commands as processes.
#[derive(Clone)]
pub struct ProcessRunner {
    directory: PathBuf,
    timeout: Duration,
    variables: Vec<(&'static str, OsString)>,
    shell: Arc<Shell>,
}

impl fmt::Debug for ProcessRunner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ProcessRunner");
        shown.field("directory", &self.directory).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl ProcessRunner {
    /// Runs commands in a directory, each for at most [`TIMEOUT`].
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), timeout: TIMEOUT, variables: Vec::new(), shell: Arc::new(plain_shell) }
    }

    /// How long a command may take, up to an hour.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.min(LONGEST_TIMEOUT), ..self }
    }

    /// The template variables, which a command sees as variables of the shell.
    pub fn variables(self, variables: &Variables<'_>) -> Self {
        let variables = variables.given().map(|(name, value)| (name, value.into())).collect();
        Self { variables, ..self }
    }

    /// One more variable of the environment.
    pub fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs a command to its end, however that is.
    pub fn finish(&self, command: &str) -> CommandResult {
        let not_run =
            |error: io::Error| CommandResult { end: CommandEnd::NotRun(error.to_string()), output: String::new() };
        let ended = match self.start(command).and_then(|child| self.watch(child)) {
            Ok(ended) => ended,
            Err(error) => return not_run(error),
        };
        match ended {
            Ended::TimedOut => CommandResult { end: CommandEnd::TimedOut, output: String::new() },
            Ended::Exited(status, streams) => {
                let said = format!("{}{}", streams.output.text(), streams.errors.text());
                let end = match status.code() {
                    Some(code) => CommandEnd::Exited(code),
                    None => CommandEnd::Killed(status.signal().unwrap_or_default()),
                };
                CommandResult { end, output: redact::redact(&said) }
            }
        }
    }

    /// What makes a process of a command: here a sandbox goes around the shell. Directory,
    /// environment, pipes and process group are set afterwards.
    pub fn shell(self, shell: impl Fn(&str) -> Command + Send + Sync + 'static) -> Self {
        Self { shell: Arc::new(shell), ..self }
    }

    fn start(&self, command: &str) -> io::Result<Child> {
        (self.shell)(command)
            .current_dir(&self.directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into()))
            .env("LANG", "C.UTF-8")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }

    /// Waits for the command, reading what it says, and ends whatever it left running.
    fn watch(&self, child: Child) -> io::Result<Ended> {
        let deadline = Instant::now() + self.timeout;
        let (mut group, mut streams) = Group::new(child)?;
        loop {
            // Asked first, so that everything written before the end is read below.
            if group.has_ended()? {
                let status = group.end()?;
                // A process that left the group may write on and on: no more is taken than a pipe holds.
                let mut taken = 0;
                while let Some(count) = streams.take(Duration::ZERO)?.filter(|_| taken < PIPE_BYTES) {
                    taken += count;
                }
                return Ok(Ended::Exited(status, streams));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                group.end()?;
                return Ok(Ended::TimedOut);
            }
            let pause = if streams.are_open() { PAUSE_OPEN } else { PAUSE_CLOSED };
            streams.take(pause.min(left))?;
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEnd {
    /// It ended by itself, with this exit code; 0 is success.
    Exited(i32),
    /// A signal with this number ended it.
    Killed(i32),
    /// It took too long, and was ended with everything it had started.
    TimedOut,
    /// It could not be started or watched.
    NotRun(String),
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// Whether it ended by itself, was ended, or never ran.
    pub end: CommandEnd,
    /// What it said on both streams, without secrets.
    pub output: String,
}

impl Runner for ProcessRunner {
    fn run(&self, command: &str) -> Result<String, String> {
        let child = self.start(command).map_err(|error| format!("it cannot be started: {error}"))?;
        match self.watch(child).map_err(|error| format!("it cannot be waited for: {error}"))? {
            Ended::TimedOut => Err(format!("it took longer than {:?} and was ended", self.timeout)),
            Ended::Exited(status, streams) if status.success() => Ok(redact::redact(&streams.output.text())),
            Ended::Exited(status, streams) => Err(failure(status, &streams.errors.text())),
        }
    }
}

/// The shell itself, with nothing around it.
#[expect(clippy::disallowed_methods, reason = "the one place that starts inline shell")]
fn plain_shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    shell
}

/// How a command failed, with the first thing it said about it.
fn failure(status: ExitStatus, errors: &str) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    match first_line(errors) {
        Some(line) => format!("{how}: {}", text::line(&line, SHOWN_ERROR)),
        None => how,
    }
}

/// The first line of an error that says something, without secrets.
pub(super) fn first_line(errors: &str) -> Option<String> {
    // The whole text is redacted before a line is cut out of it: a key may have several.
    redact::redact(errors).lines().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

enum Ended {
    Exited(ExitStatus, Streams),
    TimedOut,
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn runner() -> (tempfile::TempDir, ProcessRunner) {
        let directory = tempfile::tempdir().unwrap();
        let runner = ProcessRunner::new(directory.path());
        (directory, runner)
    }

    /// Waits until nothing has the named pipe open for writing any more.
    fn is_let_go(mut pipe: File) -> bool {
        let mut chunk = [0; 16];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(&pipe, PollFlags::IN)];
                    if poll(&mut polled, Some(&Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap() == 0 {
                        return false;
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A named pipe `alive` in the directory. Who opens it for writing is alive until it is closed.
    fn named_pipe(runner: &ProcessRunner) -> File {
        use std::os::unix::fs::OpenOptionsExt as _;
        runner.run("mkfifo alive").unwrap();
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(runner.directory.join("alive")).unwrap()
    }

    #[test]
    fn a_command_runs_in_its_directory_and_gives_its_output() {
        let (directory, runner) = runner();
        std::os::unix::fs::symlink("x", directory.path().join("a link")).unwrap();
        assert_eq!(runner.run("ls; echo two >&2").as_deref(), Ok("a link\n"));
        assert_eq!(runner.run("true").as_deref(), Ok(""));
        assert_eq!(runner.run("printf '\\377ok'").as_deref(), Ok("\u{fffd}ok"));
    }

    #[test]
    fn a_command_sees_a_bare_environment_and_no_input() {
        let (_directory, runner) = runner();
        let variables = Variables { skill_dir: Some("/a b; $(x)"), session_id: Some("t-7") };
        let runner = runner.variables(&variables);
        // The shell adds these by itself.
        let names = "env | sed 's/=.*//' | grep -v -e '^PWD$' -e '^SHLVL$' -e '^_$' -e '^OLDPWD$' | LC_ALL=C sort";
        let expected = "HERMES_SESSION_ID\nHERMES_SKILL_DIR\nHERM_SESSION_ID\nHERM_SKILL_DIR\nLANG\nPATH\n";
        assert_eq!(runner.run(names).as_deref(), Ok(expected));
        assert_eq!(runner.run("echo \"${HERM_SKILL_DIR}\" $LANG").as_deref(), Ok("/a b; $(x) C.UTF-8\n"));
        assert_eq!(runner.run("cat; echo end").as_deref(), Ok("end\n"));
    }

    #[test]
    fn a_failure_says_its_code_and_the_first_line_of_its_errors() {
        let (directory, runner) = runner();
        assert_eq!(runner.run("echo; echo no mail >&2; echo more >&2; exit 3"), Err("exit code 3: no mail".to_owned()));
        assert_eq!(runner.run("exit 1"), Err("exit code 1".to_owned()));
        assert_eq!(runner.run("kill -9 $$"), Err("ended by signal 9".to_owned()));
        let nowhere = ProcessRunner::new(directory.path().join("gone"));
        assert!(nowhere.run("true").unwrap_err().starts_with("it cannot be started: "));
    }

    #[test]
    fn secrets_are_redacted_from_output_and_errors() {
        let (_directory, runner) = runner();
        let key = format!("sk-ant-{}", "a1B2".repeat(8));
        assert_eq!(runner.run(&format!("echo key {key}")).as_deref(), Ok("key [redacted]\n"));
        assert_eq!(runner.run(&format!("echo bad {key} >&2; exit 1")), Err("exit code 1: bad [redacted]".to_owned()));
    }

    #[test]
    fn endless_output_is_dropped_and_a_key_at_the_cut_is_not_shown() {
        let (_directory, runner) = runner();
        let output =
            runner.run("head -c 65530 /dev/zero | tr '\\0' x; echo; echo sk-ant-a1B2; head -c 3000000 /dev/zero");
        assert_eq!(output.unwrap(), format!("{}\n[cut here: more than 65536 bytes]", "x".repeat(65_530)));
    }

    #[test]
    fn what_a_command_leaves_running_is_not_waited_for_and_ends_with_it() {
        let (_directory, runner) = runner();
        let alive = named_pipe(&runner);
        let output = runner.run("(exec 3>alive; sleep 60; echo late) & echo done");
        assert_eq!(output.as_deref(), Ok("done\n"));
        assert!(is_let_go(alive));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_leaves_the_group_and_keeps_the_pipe_is_not_waited_for() {
        let (_directory, runner) = runner();
        let output = runner.run("setsid sh -c 'sleep 3; echo late' & echo done");
        assert_eq!(output.as_deref(), Ok("done\n"));
    }

    #[test]
    fn a_command_that_takes_too_long_ends_with_everything_it_started() {
        let (_directory, runner) = runner();
        let alive = named_pipe(&runner);
        let short = runner.timeout(Duration::from_millis(400));
        let result = short.run("exec 3>alive; sleep 60 & (sleep 60 & sleep 60)");
        assert_eq!(result, Err("it took longer than 400ms and was ended".to_owned()));
        assert!(is_let_go(alive));
    }

    #[test]
    fn closed_pipes_do_not_end_the_wait() {
        let (directory, runner) = runner();
        assert_eq!(runner.run("exec >&- 2>&-; sleep 0.1; exit 4"), Err("exit code 4".to_owned()));
        drop(directory);
    }

    #[test]
    fn a_sandbox_can_be_put_around_the_shell() {
        let (_directory, runner) = runner();
        let runner = runner.shell(|command| {
            let mut outer = plain_shell("echo inside; exec /bin/sh -c \"$1\"");
            outer.arg("sandbox").arg(command);
            outer
        });
        assert_eq!(runner.run("echo here").as_deref(), Ok("inside\nhere\n"));
    }
}
