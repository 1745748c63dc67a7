//! `herm serve` as a process of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::Herm;
use crate::http::Client;
use crate::model_server::ModelServer;

/// A directory of brains with a configuration, and servers on it.
#[derive(Debug)]
pub struct Operator {
    dir: tempfile::TempDir,
    binary: PathBuf,
    model: Option<ModelServer>,
}

/// A server that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Serving {
    child: Child,
    address: String,
}

impl Operator {
    /// An empty one; `binary` is the program.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), binary: binary.into(), model: None }
    }

    /// Keeps a model for as long as it lives itself.
    #[must_use]
    pub fn with_model(mut self, model: ModelServer) -> Self {
        self.model = Some(model);
        self
    }

    /// Where its brains are.
    pub fn brains(&self) -> PathBuf {
        self.dir.path().join("brains")
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the configuration.
    #[must_use]
    pub fn configured(self, text: &str) -> Self {
        std::fs::write(self.dir.path().join("config.toml"), text).expect("the configuration is written");
        self
    }

    /// A brain without tools that answers whatever its model says: `{…}` at once.
    #[must_use]
    pub fn with_plain_brain(self, id: &str) -> Self {
        let from = self.dir.path().join(format!("plain-{id}"));
        std::fs::create_dir_all(&from).expect("a directory");
        std::fs::write(from.join("system.md"), "You answer in JSON.\n").expect("a role");
        let manifest = r#"{ "schema": "herm/manifest@1", "name": "PLAIN", "tools": [] }"#;
        std::fs::write(from.join("manifest.json"), manifest).expect("a manifest");
        let run = self.herm().run(&["init", id, "--from", from.to_str().expect("UTF-8")]);
        assert_eq!(run.code, 0, "{run:?}");
        self
    }

    /// Its command line.
    pub fn herm(&self) -> Herm {
        let herm = Herm::new(&self.binary, &self.brains());
        match self.config() {
            Some(config) => herm.config(&config),
            None => herm,
        }
    }

    fn config(&self) -> Option<PathBuf> {
        Some(self.dir.path().join("config.toml")).filter(|path| path.is_file())
    }

    /// Makes a key.
    pub fn key(&self, arguments: &[&str]) -> String {
        let mut all = vec!["keys", "create"];
        all.extend(arguments);
        let run = self.herm().run(&all);
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout.trim().to_owned()
    }

    /// Starts a server and waits until it listens.
    pub fn serve(&self) -> Serving {
        self.serve_with(&[])
    }

    /// The same with more arguments.
    pub fn serve_with(&self, arguments: &[&str]) -> Serving {
        self.serve_in(arguments, &[])
    }

    /// The same with variables of the environment.
    pub fn serve_in(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Serving {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).expect("a log");
        let mut command = self.herm().command(&all);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let Some(address) = line.trim().strip_prefix("listening at http://") else {
            panic!("it does not listen: {line:?}, {}", self.logged());
        };
        let address = address.to_owned();
        // Whatever else it says is read, so that it never waits for a reader.
        std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
        Serving { child, address }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("serve.log")
    }

    /// What its servers wrote to standard error.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }
}

impl Serving {
    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is gone");
    }

    /// Tells it to stop, and waits until it has.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().expect("it ends")
    }

    /// Waits until it has ended by itself.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it is told");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
