//! The successor: patches judged in a real sandbox by the real program, and everything that tries to cheat.

mod acceptance;
mod attacks;
mod audit;
mod auto;
mod cycles;
mod drafts;
mod gates;
mod killed;
mod lifecycle;
mod money;
mod patches;
mod shell;
mod tiers;
mod traffic;

use std::path::{Path, PathBuf};
use std::process::Command;

use herm_tests::Herm;
use serde_json::{Value, json};

/// The program.
const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

/// A directory with brain 1, and files beside it.
struct Bench {
    dir: tempfile::TempDir,
    herm: Herm,
}

/// What an evaluation gave.
struct Judged {
    code: i32,
    json: Value,
}

impl Judged {
    fn verdict(&self) -> &Value {
        &self.json["verdict"]
    }

    fn ruling(&self) -> &str {
        self.verdict()["verdict"].as_str().unwrap_or_default()
    }

    fn reason(&self) -> &str {
        self.verdict()["reason"].as_str().unwrap_or_default()
    }

    fn directory(&self) -> PathBuf {
        PathBuf::from(self.json["directory"].as_str().unwrap_or_default())
    }

    /// The samples of one side.
    fn samples(&self, arm: &str) -> Vec<Value> {
        let all: Vec<Value> =
            serde_json::from_slice(&std::fs::read(self.directory().join("measurements.json")).unwrap()).unwrap();
        all.into_iter().filter(|sample| sample["arm"] == arm).collect()
    }
}

impl Bench {
    /// Brain 1 from its seed, with one task behind it.
    fn new() -> Self {
        let bench = Self::bare();
        bench.must(&["run", "1", "--example", "vault"]);
        bench
    }

    /// Brain 1 from its seed.
    fn bare() -> Self {
        let bench = Self::empty();
        bench.must(&["init", "1"]);
        bench
    }

    /// Brain 1 without tools, which answers whatever its model says at once.
    fn plain() -> Self {
        let bench = Self::empty();
        let from = bench.path().join("plain");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("system.md"), "You answer in JSON.\n").unwrap();
        let manifest = r#"{ "schema": "herm/manifest@1", "name": "PLAIN", "tools": [] }"#;
        std::fs::write(from.join("manifest.json"), manifest).unwrap();
        bench.must(&["init", "1", "--from", from.to_str().unwrap()]);
        bench
    }

    fn empty() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let herm = Herm::new(HERM, &dir.path().join("brains"));
        Self { dir, herm }
    }

    fn herm(&self) -> &Herm {
        &self.herm
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn brains(&self) -> PathBuf {
        self.dir.path().join("brains")
    }

    fn must(&self, arguments: &[&str]) -> String {
        let run = self.herm.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
        run.stdout
    }

    /// Writes a file beside the brains and returns its path.
    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, serde_json::to_vec_pretty(content).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The command that evaluates.
    fn evaluating(&self, patch: &Value, task: &Value, flags: &[&str]) -> Command {
        let (patch, task) = (self.file("patch.json", patch), self.file("task.json", task));
        let mut arguments = vec!["--json", "successor", "evaluate", "1", "--patch", &patch, "--task", &task];
        arguments.extend(flags);
        self.herm.command(&arguments)
    }

    /// Judges a patch.
    fn judge(&self, patch: &Value, task: &Value, flags: &[&str]) -> Judged {
        let output = self.evaluating(patch, task, flags).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let json: Value = serde_json::from_str(&said)
            .unwrap_or_else(|error| panic!("{error}: {said} {}", String::from_utf8_lossy(&output.stderr)));
        Judged { code: output.status.code().unwrap_or(-1), json }
    }

    /// Nothing of a successor is left but verdicts.
    fn assert_clean(&self) {
        let forks = self.brains().join(".successor/forks");
        let left: Vec<_> = std::fs::read_dir(&forks)
            .map(|entries| entries.map(|entry| entry.unwrap().file_name()).filter(|name| name != ".lock").collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "{left:?}");
        let making: Vec<_> = std::fs::read_dir(self.brains().join(".successor/verdicts"))
            .map(|entries| {
                let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                names.filter(|name| name.starts_with('.')).collect()
            })
            .unwrap_or_default();
        assert!(making.is_empty(), "{making:?}");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.path().to_str().unwrap()), "{mounts}");
    }
}

/// A patch of these changes.
fn patch(changes: Value) -> Value {
    json!({ "schema": "herm/patch@1", "title": "a change under test", "changes": changes })
}

/// A patch that changes next to nothing.
fn small_patch() -> Value {
    patch(json!([{ "kind": "constants", "set": { "indexBest": 41 } }]))
}

/// An evaluation of these parts.
fn evaluation(parts: Value) -> Value {
    json!({ "schema": "herm/evaluation@1", "title": "under test", "parts": parts, "goals": [{ "metric": "turns" }] })
}

/// An evaluation that runs one shell command on each side.
fn command(script: &str) -> Value {
    evaluation(json!([{ "kind": "command", "name": "shell", "argv": ["/bin/sh", "-c", script] }]))
}

/// A scripted task that looks into a tool and answers.
fn scripted(name: &str, replies: &[&str]) -> Value {
    json!({ "kind": "suite", "name": name, "tasks": [{
        "name": "scripted", "input": "contract A { }", "replies": replies, "checks": [{ "status": "converged" }]
    }] })
}
