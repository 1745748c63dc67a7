//! Runs each test in a process of its own, as root and as nobody.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// As whom a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Root,
    Nobody,
}

/// A test: a sentence, and as whom it runs.
pub struct Test {
    pub name: &'static str,
    pub who: &'static [Who],
    pub run: fn() -> Result<(), NotRun>,
}

/// What a test needs that is not here, and how to get it. Never silent; under `HERM_CI=1` a failure.
pub struct NotRun(pub &'static str, pub &'static str);

pub const BOTH: &[Who] = &[Who::Root, Who::Nobody];

/// A test that runs as root and as nobody.
pub fn test(name: &'static str, run: fn() -> Result<(), NotRun>) -> Test {
    Test { name, who: BOTH, run }
}

/// A test that runs as root alone.
pub fn root_test(name: &'static str, run: fn() -> Result<(), NotRun>) -> Test {
    Test { name, who: &[Who::Root], run }
}

/// What a test exits with that was not run.
const NOT_RUN: u8 = 77;
/// A variable of the suite with its secret, which no program may see.
pub const SECRET: &str = "HERM_SUITE_SECRET";
/// How a machine comes to have sandboxes.
const GET_SANDBOX: &str = "apt-get install bubblewrap, or allow unprivileged user namespaces (sysctl)";
/// Nobody's number.
const NOBODY: &str = "65534";

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn run_one(name: &str, tests: &[Test]) -> ExitCode {
    let test = tests.iter().find(|test| test.name == name).expect("the harness names tests that exist");
    match (test.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(NotRun(needs, get)) => {
            println!("{needs}\t{get}");
            ExitCode::from(NOT_RUN)
        }
    }
}

pub fn run_all(arguments: &[String], tests: &[Test]) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let place = tempfile::Builder::new().prefix("herm-suite-binary-").tempdir().unwrap();
    let binary = reachable_copy(place.path());
    let (mut passed, mut failed, mut not_run) = (0, Vec::new(), 0);
    let ci = herm_untested::everything_must_run();
    // A machine may forbid namespaces to some and not to others.
    let without: Vec<Who> = if ci {
        Vec::new()
    } else {
        [Who::Root, Who::Nobody].into_iter().filter(|who| !can_sandbox(*who, &binary)).collect()
    };
    if without.len() == 2 {
        herm_untested::not_run("the suite of the sandbox", "a sandbox", GET_SANDBOX);
        return ExitCode::SUCCESS;
    }
    for test in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| test.name.contains(filter.as_str())) {
            continue;
        }
        for who in test.who {
            let label = format!("{} ({who:?})", test.name);
            let began = Instant::now();
            let Some(mut command) = command(*who, &binary) else {
                not_run += 1;
                if ci {
                    println!("test {label} ... FAILED: it needs root");
                    failed.push(label);
                } else {
                    herm_untested::not_run(&format!("sandbox: {label}"), "root", "run the tests as root");
                }
                continue;
            };
            if without.contains(who) {
                not_run += 1;
                herm_untested::not_run(&format!("sandbox: {label}"), "a sandbox", GET_SANDBOX);
                continue;
            }
            command.env(SECRET, format!("secret-{}-of-the-host", std::process::id()));
            let output = command.args(["run", test.name]).output().unwrap();
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let took = began.elapsed().as_secs_f32();
            if output.status.success() {
                println!("test {label} ... ok ({took:.1} s)");
                said.lines().filter(|line| line.starts_with("figure:")).for_each(|line| println!("    {line}"));
                passed += 1;
            } else if output.status.code() == Some(NOT_RUN.into()) && !ci {
                let (needs, get) = said.trim().split_once('\t').expect("a test says what it needs and how to get it");
                herm_untested::not_run(&format!("sandbox: {label}"), needs, get);
                not_run += 1;
            } else {
                println!("test {label} ... FAILED ({took:.1} s, {})\n{said}", output.status);
                failed.push(label);
            }
        }
    }
    println!("\nsandbox suite: {passed} passed, {} failed, {not_run} not run", failed.len());
    for label in &failed {
        println!("    failed: {label}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether this user can have one sandbox; nobody else than root can say it for root.
fn can_sandbox(who: Who, binary: &Path) -> bool {
    let tried = command(who, binary).map(|mut command| command.arg("trial").output().unwrap());
    tried.is_some_and(|output| output.status.success())
}

/// Nobody, and the transient users of sandboxes with holes, must be able to start it.
fn reachable_copy(place: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let binary = place.join("sandbox-suite");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    binary
}

fn command(who: Who, binary: &Path) -> Option<Command> {
    match (who, is_root()) {
        (Who::Root, false) => None,
        (Who::Root, true) | (Who::Nobody, false) => Some(Command::new(binary)),
        (Who::Nobody, true) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(binary);
            command.env("HOME", "/nonexistent");
            Some(command)
        }
    }
}
