//! (b) A kill at every system call of every kind of step, and
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

/// A kind of step, with what it begins from and what it leads to.
struct Operation {
    name: &'static str,
    /// Makes brain 1 as the operation finds it.
    prepare: fn(&TempBrains),
    /// The brain that it moves or makes.
    brain: &'static str,
    /// The version of that brain before; 0 where the operation makes it.
    before: u64,
}

const SETTLE: Operation = Operation { name: "settle", prepare: make, brain: "1", before: 1 };
const ARCHIVE: Operation = Operation { name: "archive", prepare: make, brain: "1", before: 1 };
const HYDRATE: Operation = Operation { name: "hydrate", prepare: |_| {}, brain: "1", before: 0 };
const ADOPT: Operation = Operation { name: "adopt", prepare: edit_by_hand, brain: "1", before: 1 };
const UNDO: Operation = Operation { name: "undo", prepare: settle_once, brain: "1", before: 2 };
const FORK: Operation = Operation { name: "fork", prepare: settle_once, brain: "2", before: 0 };
const REPAIR: Operation = Operation { name: "repair", prepare: lose_a_step, brain: "1", before: 2 };
/// Restoring makes no step of its own: it brings those of the snapshot.
const RESTORE: Operation = Operation { name: "restore", prepare: push_and_remove, brain: "1", before: 0 };

impl Operation {
    /// The version of its brain after it.
    fn after(&self) -> u64 {
        match self.name {
            // It brings the versions of the snapshot.
            "restore" => 2,
            _ => self.before + 1,
        }
    }
}

fn make(brains: &TempBrains) {
    brains.make("1").close().expect("closed");
}

fn run(brains: &TempBrains, operation: &str) -> Output {
    Command::new(CHILD).arg(operation).arg(brains.path()).output().expect("the child starts")
}

fn settle_once(brains: &TempBrains) {
    make(brains);
    assert!(run(brains, "settle").status.success());
}

fn edit_by_hand(brains: &TempBrains) {
    make(brains);
    let skill = brains.file("1", "skills/flat-one.md");
    let text = std::fs::read_to_string(&skill).expect("a skill");
    std::fs::write(&skill, format!("{text}\nBy hand.\n")).expect("written");
    std::fs::write(brains.file("1", "USER.md"), "By hand.\n").expect("written");
}

/// Leaves brain 1 with a `memory.db` that is one step behind its lock and its receipts.
fn lose_a_step(brains: &TempBrains) {
    make(brains);
    let (database, earlier) = (brains.file("1", "memory.db"), brains.path().join("earlier.db"));
    std::fs::copy(&database, &earlier).expect("copied");
    assert!(run(brains, "settle").status.success());
    std::fs::rename(&earlier, &database).expect("put back");
}

fn push_and_remove(brains: &TempBrains) {
    settle_once(brains);
    assert!(run(brains, "push").status.success());
    std::fs::remove_dir_all(brains.file("1", "")).expect("removed");
}

/// A child that takes longer than this hangs.
const PATIENCE: &str = "20";

fn child(brains: &Path, operation: &str, strace: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PATIENCE, "strace", "-f", "-qq"]).args(strace).arg(CHILD).arg(operation).arg(brains);
    command.output().expect("strace starts")
}

/// Whether a child was stopped because it hung.
fn hung(output: &Output) -> bool {
    output.status.code() == Some(128 + 9)
}

/// How often an operation makes each call.
fn count_calls(operation: &Operation, calls: &str) -> BTreeMap<String, usize> {
    let brains = fresh(operation);
    let trace = brains.path().join("trace");
    let path = trace.to_str().expect("UTF-8").to_owned();
    let output = child(&brains.path(), operation.name, &["-o", &path, "-e", &format!("trace={calls}")]);
    assert!(output.status.success(), "{}: {output:?}", operation.name);
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

fn fresh(operation: &Operation) -> TempBrains {
    let brains = TempBrains::new();
    (operation.prepare)(&brains);
    brains
}

/// The state after one injected stop: `Ok` where everything holds.
fn after(brains: &TempBrains, operation: &Operation, output: &Output, replay: bool) -> Result<(), String> {
    if String::from_utf8_lossy(&output.stderr).contains("panicked") {
        return Err(format!("the child panicked: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let acked = last_ack(&output.stdout);
    if !replay {
        switch_replay_off(&brains.path());
    }
    let is_before = acked.is_none()
        && match operation.name {
            "adopt" => is_drifted(brains),
            "repair" => is_behind_its_receipts(brains),
            _ => operation.before == 0 && !brains.file(operation.brain, "").exists(),
        };
    if is_before {
        // It did not happen: it must be possible now, and clear what was left.
        let again = run(brains, operation.name);
        if !again.status.success() {
            return Err(format!("not done when it was tried again: {again:?}"));
        }
        return settled_state(&brains.path(), operation.brain, last_ack(&again.stdout)).map(|_| ());
    }
    let version = settled_state(&brains.path(), operation.brain, acked)?;
    let done = operation.after();
    if version != done && version != operation.before {
        return Err(format!("one step led to version {version}"));
    }
    if output.status.success() && version != done {
        return Err(format!("the child said it was done, and the brain is at version {version}"));
    }
    Ok(())
}

/// Whether what was changed by hand is still to be adopted.
fn is_drifted(brains: &TempBrains) -> bool {
    let opening = herm::BrainOptions { on_drift: herm::brain::OnDrift::Report, ..brains.opening() };
    let brain = herm::Brain::open(&brains.layout(), &"1".parse().expect("an id"), &opening).expect("a brain");
    let drifted = brain.drift().is_some_and(|drift| !drift.is_empty());
    brain.close().expect("closed");
    drifted
}

/// Whether the loss is still to be repaired.
fn is_behind_its_receipts(brains: &TempBrains) -> bool {
    brains.open("1").is_err_and(|error| error.kind() == herm::ErrorKind::Corrupt)
}

/// Every kill point of an operation; the ones after which something did not hold.
fn kill_everywhere(operation: &Operation, replay: bool) -> (usize, Vec<String>) {
    let mut points = 0;
    let mut bad = Vec::new();
    for (call, count) in count_calls(operation, if is_long() { CALLS } else { CHANGING }) {
        for nth in 1..=count {
            points += 1;
            let brains = fresh(operation);
            let inject = format!("inject={call}:signal=KILL:when={nth}");
            let output = child(
                &brains.path(),
                operation.name,
                &["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject],
            );
            if let Err(why) = after(&brains, operation, &output, replay) {
                bad.push(format!("{}, {call} number {nth}: {why}", operation.name));
            }
        }
    }
    (points, bad)
}

fn killed_everywhere_holds(operation: &Operation) {
    if !can_trace("kill at every system call") {
        return;
    }
    let (points, bad) = kill_everywhere(operation, true);
    eprintln!("{}: {points} kill points", operation.name);
    assert!(points > 50, "only {points} points: strace does not see the calls");
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn a_settle_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&SETTLE);
}

#[test]
fn an_archive_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&ARCHIVE);
}

#[test]
fn a_hydrate_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&HYDRATE);
}

#[test]
fn an_adopt_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&ADOPT);
}

#[test]
fn an_undo_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&UNDO);
}

#[test]
fn a_fork_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&FORK);
}

#[test]
fn a_repair_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&REPAIR);
}

#[test]
fn a_restore_killed_at_every_system_call_is_before_or_after() {
    killed_everywhere_holds(&RESTORE);
}

#[test]
fn without_journal_replay_kills_between_commit_and_files_are_noticed() {
    if !can_trace("the negative control of the kill suite") {
        return;
    }
    let (_, bad) = kill_everywhere(&ARCHIVE, false);
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
fn fail_everywhere(operation: &Operation, calls: &str, replay: bool) -> Failures {
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
                let output = child(&brains.path(), operation.name, &["-o", "/dev/null", "-e", &trace, "-e", &inject]);
                if hung(&output) {
                    failures
                        .bad
                        .push(format!("{}, {call} number {nth}{lasts} gives {error}: it hangs", operation.name));
                }
                // Before `main` the loader reads libraries; what fails there never starts.
                if output.status.code() == Some(127) {
                    continue;
                }
                failures.points += 1;
                if output.status.success() {
                    *failures.absorbed.entry(format!("{call}:{error}")).or_default() += 1;
                }
                if let Err(why) = after(&brains, operation, &output, replay) {
                    failures.bad.push(format!("{}, {call} number {nth}{lasts} gives {error}: {why}", operation.name));
                }
            }
        }
    }
    failures
}

fn failing_everywhere_holds(operation: &Operation) {
    if !can_trace("failing system calls") {
        return;
    }
    let Failures { points, absorbed, bad } = fail_everywhere(operation, FALLIBLE, true);
    eprintln!("{}: {points} failing calls; done all the same: {absorbed:?}", operation.name);
    assert!(points > 50, "only {points} points");
    assert_eq!(bad, Vec::<String>::new());
}

#[test]
fn without_journal_replay_files_that_could_not_be_written_are_noticed() {
    if !can_trace("the negative control of the failing calls") {
        return;
    }
    let failures = fail_everywhere(&ARCHIVE, "renameat,unlinkat", false);
    let red = failures.bad.iter().any(|why| is_red(&Err::<(), _>(why.clone())));
    assert!(red, "no failure was noticed with replay switched off: the check cannot fail");
}

#[test]
fn a_settle_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&SETTLE);
}

#[test]
fn an_archive_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&ARCHIVE);
}

#[test]
fn a_hydrate_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&HYDRATE);
}

#[test]
fn an_adopt_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&ADOPT);
}

#[test]
fn an_undo_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&UNDO);
}

#[test]
fn a_fork_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&FORK);
}

#[test]
fn a_repair_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&REPAIR);
}

#[test]
fn a_restore_with_any_failing_call_is_before_or_after() {
    failing_everywhere_holds(&RESTORE);
}

#[test]
fn a_settle_waits_for_one_sync_only() {
    if !can_trace("counting syncs") {
        return;
    }
    let brains = fresh(&SETTLE);
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
