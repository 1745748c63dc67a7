//! Running the command line as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command line with a clean environment and its own brains directory.
#[derive(Debug, Clone)]
pub struct Herm {
    binary: PathBuf,
    brains: PathBuf,
    config: Option<PathBuf>,
}

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The exit code; -1 where a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Herm {
    /// `binary` is the program, `brains` its data.
    pub fn new(binary: impl Into<PathBuf>, brains: &Path) -> Self {
        Self { binary: binary.into(), brains: brains.to_owned(), config: None }
    }

    /// The same with a configuration file.
    #[must_use]
    pub fn config(mut self, file: &Path) -> Self {
        self.config = Some(file.to_owned());
        self
    }

    /// The command, ready for more settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("HERM_BRAINS", &self.brains)
            .env("HOME", &self.brains)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        if let Some(config) = &self.config {
            command.env("HERM_CONFIG", config);
        }
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().expect("the program starts");
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on standard output"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on standard error"),
        }
    }

    /// Runs it with `--json` and reads the document.
    pub fn json(&self, arguments: &[&str]) -> (i32, serde_json::Value) {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let run = self.run(&all);
        let value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        (run.code, value)
    }
}
