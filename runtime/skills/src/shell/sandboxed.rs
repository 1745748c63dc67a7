//! Runs the command of a snippet in a sandbox: it sees the system's programs and the skill's own directory, can write
//! nowhere but in a directory of its own, and reaches no network.
//!
//! Blocking: it belongs on a thread that may wait.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use herm_sandbox::{
    Bind, ExitReason, LimitKind, OutputMode, OutputReader, SandboxLease, SandboxLimits, SandboxProgram, SandboxSpec,
};

use super::Runner;
use super::process::{SHOWN_ERROR, first_line};
use crate::redact;
use crate::template::Variables;

/// Where the skill's own directory is inside.
const INSIDE: &str = "/skill";

/// Runs commands in sandboxes.
#[derive(Debug, Clone)]
pub struct SandboxedRunner {
    root: PathBuf,
    directory: PathBuf,
    timeout: Duration,
    variables: Vec<(String, String)>,
}

impl SandboxedRunner {
    /// Runs commands in a directory, each in a sandbox below `root`.
    pub fn new(root: impl Into<PathBuf>, directory: impl Into<PathBuf>, timeout: Duration) -> Self {
        Self { root: root.into(), directory: directory.into(), timeout, variables: Vec::new() }
    }

    /// The template variables, which a command sees as variables of the shell. The skill's directory is given as the
    /// path that it has in the sandbox.
    pub fn variables(self, variables: &Variables<'_>) -> Self {
        let place =
            |value: &str| if self.directory.as_os_str() == value { INSIDE.to_owned() } else { value.to_owned() };
        let variables = variables.given().map(|(name, value)| (name.to_owned(), place(value))).collect();
        Self { variables, ..self }
    }

    fn spec(&self, lease: &SandboxLease, command: &str) -> SandboxSpec {
        let mut spec = SandboxSpec::new(SandboxProgram::At("/bin/sh".into()), lease);
        spec.args = vec!["-c".to_owned(), format!("cd {INSIDE} || exit 126\n{command}")];
        spec.binds = Bind::system();
        spec.binds.push(Bind::at(&self.directory, INSIDE));
        spec.environment = vec![
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        spec.environment.extend(self.variables.iter().cloned());
        spec.limits = SandboxLimits {
            wall: self.timeout,
            cpu_percent: 100,
            memory: 512 << 20,
            processes: 64,
            disk: 64 << 20,
            files: 10_000,
            output: 1 << 20,
        };
        (spec.stdout, spec.stderr) = (OutputMode::Piped, OutputMode::Piped);
        spec
    }
}

impl Runner for SandboxedRunner {
    fn run(&self, command: &str) -> Result<String, String> {
        let lease = SandboxLease::take(&self.root).map_err(|error| format!("no sandbox can be made: {error}"))?;
        let mut running =
            herm_sandbox::spawn(self.spec(&lease, command)).map_err(|refusal| format!("no sandbox: {refusal}"))?;
        let (stdout, stderr) = (running.stdout.take(), running.stderr.take());
        let (said, errors) = std::thread::scope(|scope| {
            let errors = scope.spawn(|| text_of(stderr));
            (text_of(stdout), errors.join().unwrap_or_default())
        });
        let failed = |how: String| match first_line(&errors) {
            Some(line) => format!("{how}: {}", crate::text::line(&line, SHOWN_ERROR)),
            None => how,
        };
        match running.wait().how {
            ExitReason::Exited(0) => Ok(redact::redact(&said)),
            ExitReason::Exited(code) => Err(failed(format!("exit code {code}"))),
            ExitReason::Signalled(signal) => Err(failed(format!("ended by signal {signal}"))),
            ExitReason::Exceeded { budget: LimitKind::Wall, .. } => {
                Err(format!("it took longer than {:?} and was ended", self.timeout))
            }
            ExitReason::Exceeded { budget, limit, .. } => {
                Err(format!("it wanted more than {limit} {} and was ended", budget.unit()))
            }
            ExitReason::Killed => Err("it was ended".to_owned()),
            ExitReason::Broken(why) => Err(format!("its sandbox broke: {why}")),
        }
    }
}

/// What came through a pipe, as text. A program that is ended leaves what it wrote so far.
fn text_of(pipe: Option<OutputReader>) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
