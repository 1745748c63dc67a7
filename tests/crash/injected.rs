//! (b) A kill at every system call of a settle, an archive and a hydrate, and
//! (c) the same calls failing with EIO, ENOSPC and EMFILE. By strace.
//!
//! A kill before a call that only looks leaves the same disk as a kill before the next one that changes something, and
//! not every call can fail in every way: what cannot differ is left out, and of the failures every third is tried,
//! unless `HERM_LONG=1` asks for all of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use herm_tests::TempBrains;

use crate::check::{CHILD, can_trace, is_red, last_ack, settled_state, switch_replay_off};

/// The calls that can change what is on the disk, or who holds it.
const CHANGING: &str = "openat,openat2,write,pwrite64,fsync,fdatasync,syncfs,rename,renameat,renameat2,unlink,unlinkat,\
rmdir,mkdir,mkdirat,ftruncate,flock,fallocate";

/// All the calls that touch files.
const CALLS: &str = "openat,openat2,read,pread64,write,pwrite64,fsync,fdatasync,syncfs,rename,renameat,renameat2,\
unlink,unlinkat,rmdir,mkdir,mkdirat,ftruncate,close,newfstatat,fstat,statx,fcntl,flock,getdents64,lseek,fallocate";

/// The calls that change something or can run out of something.
const FALLIBLE: &str = "openat,openat2,write,pwrite64,fsync,fdatasync,syncfs,renameat,renameat2,unlinkat,unlink,\
mkdirat,mkdir,ftruncate,read,pread64,getdents64";

/// Whether a call can fail so.
fn can_fail(call: &str, error: &str) -> bool {
    match error {
        // No descriptor is left.
        "EMFILE" => call.starts_with("open"),
        // No room is left.
        "ENOSPC" => !["read", "pread64", "getdents64"].contains(&call),
        _ => true,
    }
}

fn is_long() -> bool {
    std::env::var_os("HERM_LONG").is_some()
}

fn child(brains: &Path, operation: &str, strace: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]).args(strace).arg(CHILD).arg(operation).arg(brains);
    command.output().expect("strace starts")
}

/// How often an operation makes each call.
fn count_calls(operation: &str, calls: &str) -> BTreeMap<String, usize> {
    let brains = fresh(operation);
    let trace = brains.path().join("trace");
    let path = trace.to_str().expect("UTF-8").to_owned();
    let output = child(&brains.path(), operation, &["-o", &path, "-e", &format!("trace={calls}")]);
    assert!(output.status.success(), "{operation}: {output:?}");
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(trace).expect("a trace").lines() {
        // "12345 pwrite64(3, …"
        let call = line.split_once(' ').map_or(line, |(_, rest)| rest.trim_start());
        if let Some((name, _)) = call.split_once('(') {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn fresh(operation: &str) -> TempBrains {
    let brains = TempBrains::new();
    if operation != "hydrate" {
        brains.make("1").close().expect("closed");
    }
    brains
}

/// The state after one injected stop: `Ok` where everything holds.
fn after(brains: &TempBrains, operation: &str, output: &Output, replay: bool) -> Result<(), String> {
    if String::from_utf8_lossy(&output.stderr).contains("panicked") {
        return Err(format!("the child panicked: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let acked = last_ack(&output.stdout);
    if operation == "hydrate" && acked.is_none() && !brains.file("1", "").exists() {
        // Never made: making it now must work, and clear what was left.
        let again = Command::new(CHILD).arg("hydrate").arg(brains.path()).output().expect("the child starts");
        if !again.status.success() {
            return Err(format!("not made again: {again:?}"));
        }
        return settled_state(&brains.path(), last_ack(&again.stdout)).map(|_| ());
    }
    if !replay {
        switch_replay_off(&brains.path());
    }
    let version = settled_state(&brains.path(), acked)?;
    if version > 2 {
        return Err(format!("one step led to version {version}"));
    }
    let done = if operation == "hydrate" { 1 } else { 2 };
    if output.status.success() && version != done {
        return Err(format!("the child said it was done, and the brain is at version {version}"));
    }
    Ok(())
}

/// Every kill point of an operation; the ones after which something did not hold.
fn kill_everywhere(operation: &str, replay: bool) -> (usize, Vec<String>) {
    let mut points = 0;
    let mut bad = Vec::new();
    for (call, count) in count_calls(operation, if is_long() { CALLS } else { CHANGING }) {
        for nth in 1..=count {
            points += 1;
            let brains = fresh(operation);
            let inject = format!("inject={call}:signal=KILL:when={nth}");
            let output =
                child(&brains.path(), operation, &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
            if let Err(why) = after(&brains, operation, &output, replay) {
                bad.push(format!("{operation}, {call} number {nth}: {why}"));
            }
        }
    }
    (points, bad)
}

fn killed_everywhere_holds(operation: &str) {
    if !can_trace("kill at every system call") {
        return;
    }
    let (points, bad) = kill_everywhere(operation, true);
    eprintln!("{operation}: {points} kill points");
    assert!(points > 50, "only {points} points: strace does not see the calls");
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_settle_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds("settle");
}

#[test]
fn an_archive_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds("archive");
}

#[test]
fn a_hydrate_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds("hydrate");
}

#[test]
fn without_journal_replay_kills_between_commit_and_files_are_noticed() {
    if !can_trace("the negative control of the kill suite") {
        return;
    }
    let (_, bad) = kill_everywhere("archive", false);
    let red = bad.iter().any(|why| is_red(&Err::<(), _>(why.clone())));
    assert!(red, "no kill was noticed with replay switched off: the check cannot fail");
}

/// What came of failing calls.
#[derive(Default)]
struct Failures {
    points: usize,
    /// Errors after which the operation was done all the same, by call.
    absorbed: BTreeMap<String, usize>,
    bad: Vec<String>,
}

/// Lets every call of `calls` fail once with EIO and EMFILE, and from each on for good with ENOSPC:
/// a disk that is full stays full.
fn fail_everywhere(operation: &str, calls: &str, replay: bool) -> Failures {
    let mut failures = Failures::default();
    let step = if is_long() || !replay { 1 } else { 3 };
    for (call, count) in count_calls(operation, calls) {
        for (error, lasts) in [("EIO", ""), ("ENOSPC", "+"), ("EMFILE", "")] {
            if !is_long() && !can_fail(&call, error) {
                continue;
            }
            for nth in (1..=count).step_by(step) {
                let brains = fresh(operation);
                let inject = format!("inject={call}:error={error}:when={nth}{lasts}");
                let trace = format!("trace={call}");
                let output = child(&brains.path(), operation, &["-o", "/dev/null", "-e", &trace, "-e", &inject]);
                // Before `main` the loader reads libraries; what fails there never starts.
                if output.status.code() == Some(127) {
                    continue;
                }
                failures.points += 1;
                if output.status.success() {
                    *failures.absorbed.entry(format!("{call}:{error}")).or_default() += 1;
                }
                if let Err(why) = after(&brains, operation, &output, replay) {
                    failures.bad.push(format!("{operation}, {call} number {nth}{lasts} gives {error}: {why}"));
                }
            }
        }
    }
    failures
}

fn failing_everywhere_holds(operation: &str) {
    if !can_trace("failing system calls") {
        return;
    }
    let Failures { points, absorbed, bad } = fail_everywhere(operation, FALLIBLE, true);
    eprintln!("{operation}: {points} failing calls; done all the same: {absorbed:?}");
    assert!(points > 50, "only {points} points");
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn without_journal_replay_files_that_could_not_be_written_are_noticed() {
    if !can_trace("the negative control of the failing calls") {
        return;
    }
    let failures = fail_everywhere("archive", "renameat,unlinkat", false);
    let red = failures.bad.iter().any(|why| is_red(&Err::<(), _>(why.clone())));
    assert!(red, "no failure was noticed with replay switched off: the check cannot fail");
}

#[test]
fn a_settle_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds("settle");
}

#[test]
fn an_archive_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds("archive");
}

#[test]
fn a_hydrate_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds("hydrate");
}

#[test]
fn a_settle_waits_for_one_sync_only() {
    if !can_trace("counting syncs") {
        return;
    }
    let brains = fresh("settle");
    let trace = brains.path().join("trace");
    let mut looping = Command::new("timeout")
        .args(["2", "strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,syncfs,write", "-o"])
        .arg(&trace)
        .arg(CHILD)
        .arg("settle-loop")
        .arg(brains.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("strace starts");
    looping.wait().expect("done");
    let text = std::fs::read_to_string(&trace).expect("a trace");
    // Syncs between the open and the first acknowledgement, then between two; every seventh step is
    // followed by a flush, and every fifth by another open, whose syncs are counted with the step after it.
    let mut syncs = Vec::new();
    let mut since = 0;
    for line in text.lines() {
        if line.contains("sync(") {
            since += 1;
        } else if line.contains("write(1, \"open\\n") {
            since = 0;
        } else if let Some((_, version)) = line.split_once("write(1, \"ack ") {
            let version: u64 = version.split(' ').next().and_then(|text| text.parse().ok()).expect("a version");
            syncs.push((version, since));
            since = 0;
        }
    }
    assert!(syncs.len() > 14, "only {} steps in the trace", syncs.len());
    let slow: Vec<_> = syncs
        .iter()
        // The step that leads from version v to v + 1 is followed by a flush where v is a multiple of 7.
        .filter(|(version, _)| *version == 2 || ![5, 7].iter().any(|often| (version - 2).is_multiple_of(*often)))
        .filter(|(_, count)| *count != 1)
        .collect();
    assert!(slow.is_empty(), "a step waits for more than one sync: {slow:?} of {syncs:?}");
}
