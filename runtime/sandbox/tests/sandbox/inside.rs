//! What this binary does inside a sandbox.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::attacks;
use crate::probes::{self, Found, Probe, Targets};

pub fn run(arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["probes", kind] => all(kind),
        ["probe", name] => one(name),
        ["attack", ref attack @ ..] => attacks::run(attack),
        _ => ExitCode::FAILURE,
    }
}

fn targets() -> (Targets, String) {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    (serde_json::from_str(&text).unwrap(), text)
}

pub fn of_kind(kind: &str) -> Vec<Probe> {
    if kind == "positives" { probes::positives() } else { probes::escapes() }
}

/// Runs every probe in a process of its own, and says what each found.
fn all(kind: &str) -> ExitCode {
    let (_, text) = targets();
    let found: Vec<(String, Found)> = of_kind(kind)
        .iter()
        .map(|probe| (probe.name.to_owned(), in_a_process(probe.name, &text, Path::new("."))))
        .collect();
    println!("{}", serde_json::to_string(&found).unwrap());
    ExitCode::SUCCESS
}

/// Runs one probe in a process of its own, in a directory in which it may make things. A probe without an answer counts as one that got out: nothing is skipped.
pub fn in_a_process(name: &str, targets: &str, directory: &Path) -> Found {
    let started = Command::new("/proc/self/exe")
        .args(["inside", "probe", name])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return Found::Reached(format!("the probe could not be started: {error}")),
    };
    let _ = child.stdin.take().unwrap().write_all(targets.as_bytes());
    let output = child.wait_with_output().unwrap();
    if let Ok(found) = serde_json::from_slice(&output.stdout) {
        return found;
    }
    match std::os::unix::process::ExitStatusExt::signal(&output.status) {
        Some(libc::SIGSYS) => Found::Stopped("ended by the filter".into()),
        _ => Found::Reached(format!("no answer: {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

fn one(name: &str) -> ExitCode {
    let (targets, _) = targets();
    let probe = probes::escapes().into_iter().chain(probes::positives()).find(|probe| probe.name == name).unwrap();
    println!("{}", serde_json::to_string(&(probe.run)(&targets)).unwrap());
    ExitCode::SUCCESS
}
