//! What is left: nothing, after a sandbox ended, and nothing after its parent was killed and the janitor came.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use herm_sandbox::{ExitReason, OutputMode, SandboxLease, StdinMode, janitor, spawn};

use crate::harness::{NotRun, Test, is_root, test};
use crate::test_host::{Ground, leases};

pub fn tests() -> Vec<Test> {
    vec![
        test("a_parent_that_is_killed_leaves_nothing_after_a_sweep", killed_parents),
        test("spawning_and_ending_leaks_nothing", cycles),
        test("a_sweep_leaves_a_live_sandbox_alone", live_sandbox),
        test("a_sweep_can_be_repeated_and_finds_nothing_where_nothing_is", repeated),
        test("a_lease_that_is_dropped_removes_its_directory", dropped_lease),
        test("a_process_that_closes_a_root_leaves_nothing_though_it_still_holds_the_lease", closed_root),
    ]
}

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Spawns sandboxes until it is killed.
pub fn be_a_parent(root: &str) -> ExitCode {
    let mut running = Vec::new();
    for attack in ["sleep", "stubborn", "sleep", "stubborn"].iter().cycle() {
        let lease = SandboxLease::take(root).unwrap();
        let mut spec = herm_sandbox::SandboxSpec::new(herm_sandbox::SandboxProgram::CurrentExe, &lease);
        spec.args = vec!["inside".into(), "attack".into(), (*attack).into()];
        running.push((spawn(spec).unwrap(), lease));
        if running.len() == 3 {
            drop(running.remove(0));
        }
    }
    ExitCode::SUCCESS
}

/// Processes of sandboxes of this very binary: stages, inits and programs. Nobody may not look at the binary of
/// processes that cannot be dumped, so there the user and the arguments decide.
fn processes() -> Vec<String> {
    let binary = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    let own = binary(Path::new("/proc/self/exe"));
    let user = rustix::process::geteuid().as_raw();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
        if !line.contains("herm-sandbox:") && !line.contains("inside attack") {
            continue;
        }
        let ours = match binary(&entry.path().join("exe")) {
            Some(binary) => Some(binary) == own,
            None => {
                !is_root() && fs::metadata(entry.path().join("task")).is_ok() && user_of(&entry.path()) == Some(user)
            }
        };
        if ours {
            found.push(format!("{}: {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

fn user_of(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

/// Control groups of leases with these names.
fn groups(names: &BTreeSet<String>) -> Vec<PathBuf> {
    fn walk(directory: &Path, depth: u32, found: &mut dyn FnMut(&Path)) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found(&entry.path());
                if depth > 0 {
                    walk(&entry.path(), depth - 1, found);
                }
            }
        }
    }
    let mut all = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), 6, &mut |path| {
        let name = path.file_name().unwrap().to_string_lossy();
        if names.contains(&*name) {
            all.push(path.to_owned());
        }
    });
    all
}

fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

fn entries(root: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(root).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name != ".lock").collect()
}

fn killed_parents() -> Result<(), NotRun> {
    let place = tempfile::Builder::new().prefix("herm-suite-").tempdir_in("/var/tmp").unwrap();
    let root = leases(place.path());
    let before = mounts();
    let (mut swept_leases, mut swept_groups, mut swept_processes) = (0, 0, 0);
    let kills = number("HERM_SANDBOX_KILLS", 20);
    for round in 0..kills {
        let mut parent = Command::new("/proc/self/exe")
            .args(["parent", root.to_str().unwrap()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut random = [0; 1];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
        let pause = Duration::from_millis(u64::from(random[0]));
        std::thread::sleep(pause);
        parent.kill().unwrap();
        parent.wait().unwrap();
        let names = entries(&root);
        let swept = sweep_all(&root);
        let said = format!("round {round}, killed after {pause:?}: {swept:?}");
        assert_eq!(swept.left, [], "{said}");
        assert_eq!((swept.held, swept.leases.len()), (0, names.len()), "{said}");
        assert_eq!(entries(&root), BTreeSet::new(), "{said}");
        assert_eq!(groups(&names), Vec::<PathBuf>::new(), "{said}");
        assert_eq!(gone(), Vec::<String>::new(), "{said}");
        assert_eq!(mounts(), before, "{said}");
        swept_leases += swept.leases.len();
        swept_groups += swept.cgroups;
        swept_processes += swept.processes;
    }
    println!(
        "figure: {kills} parents killed: {swept_leases} leases, {swept_groups} control groups and {swept_processes} processes swept, nothing left"
    );
    assert!(swept_leases >= kills / 2, "the parents were killed before they did anything");
    Ok(())
}

/// Sweeps until no lease is held. A stage that was being started when its parent died shares the parent's descriptors,
/// and so the lock, until it is this binary: for a moment the lease is not free.
fn sweep_all(root: &Path) -> janitor::SweepReport {
    let mut all = janitor::SweepReport::default();
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let swept = janitor::sweep(root).unwrap();
        all.leases.extend(swept.leases);
        all.left.extend(swept.left);
        all.processes += swept.processes;
        all.cgroups += swept.cgroups;
        all.mounts += swept.mounts;
        all.held = swept.held;
        if swept.held == 0 || Instant::now() > deadline {
            return all;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Processes that are still there. A stage that was being started when its parent died says so a moment later: it
/// waits for orders, hears that nobody is there, and ends.
fn gone() -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = processes();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Count {
    processes: Vec<String>,
    descriptors: usize,
    threads: usize,
    mounts: usize,
    leases: BTreeSet<String>,
}

fn count(root: &Path) -> Count {
    Count {
        processes: processes(),
        descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        threads: fs::read_dir("/proc/self/task").unwrap().count(),
        mounts: mounts(),
        leases: entries(root),
    }
}

fn cycles() -> Result<(), NotRun> {
    let ground = Ground::new();
    let root = leases(ground.directory.path());
    fs::create_dir(&root).unwrap();
    // Whatever the first one opens for good is not a leak.
    let mut names = BTreeSet::new();
    cycle(&ground, 1, &mut names);
    let before = count(&root);
    let total = number("HERM_CYCLES", 100);
    let mut ready: Vec<Duration> = (0..total).map(|round| cycle(&ground, round, &mut names)).collect();
    // The supervisor's thread is gone a moment after it has told the ending.
    let deadline = Instant::now() + Duration::from_secs(5);
    while count(&root) != before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(count(&root), before);
    assert_eq!(groups(&names), Vec::<PathBuf>::new());
    ready.sort();
    let at = |share: usize| ready[(ready.len() * share / 100).min(ready.len() - 1)];
    println!("figure: {total} cycles, nothing leaked; ready after p50 {:?}, p99 {:?}", at(50), at(99));
    Ok(())
}

/// One sandbox: left to end, killed, dropped, or refused.
fn cycle(ground: &Ground, round: usize, names: &mut BTreeSet<String>) -> Duration {
    let lease = ground.lease();
    names.insert(lease.directory().file_name().unwrap().to_string_lossy().into_owned());
    let attack = if round % 4 == 1 { "nothing" } else { "sleep" };
    let mut spec = ground.spec(&lease, &["attack", attack]);
    (spec.stdin, spec.stdout, spec.stderr) = (StdinMode::Null, OutputMode::Null, OutputMode::Null);
    if round % 4 == 3 {
        spec.program = herm_sandbox::SandboxProgram::At("/no/such/program".into());
        spawn(spec).unwrap_err();
        return Duration::ZERO;
    }
    let running = spawn(spec).unwrap_or_else(|refusal| panic!("{refusal}"));
    let ready = running.report.ready_after;
    match round % 4 {
        0 => {
            running.killer().kill();
            running.killer().kill();
            assert_eq!(running.wait().how, ExitReason::Killed);
        }
        1 => assert_eq!(running.wait().how, ExitReason::Exited(0)),
        _ => drop(running),
    }
    ready
}

fn live_sandbox() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = ground.spec(&lease, &["attack", "sleep"]);
    (spec.stdin, spec.stdout, spec.stderr) = (StdinMode::Null, OutputMode::Null, OutputMode::Null);
    let running = spawn(spec).unwrap();
    let swept = janitor::sweep(leases(ground.directory.path())).unwrap();
    assert_eq!((swept.held, swept.leases.len(), swept.processes, swept.cgroups), (1, 0, 0, 0), "{swept:?}");
    assert!(lease.work().is_dir());
    running.killer().kill();
    let ending = running.wait();
    assert_eq!(ending.how, ExitReason::Killed);
    Ok(())
}

fn repeated() -> Result<(), NotRun> {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("none");
    assert_eq!(janitor::sweep(&root).unwrap(), janitor::SweepReport::default());
    fs::create_dir_all(root.join("left/work/deep")).unwrap();
    fs::write(
        root.join("left/lease"),
        "{\"process\":{\"pid\":1,\"start\":1}}\n{\"cgroup\":\"/sys/fs/cgroup/none\"}\n{\"cut",
    )
    .unwrap();
    let first = janitor::sweep(&root).unwrap();
    // Process 1 was not started at that moment, so it is somebody else's.
    assert_eq!((first.leases.len(), first.processes, first.left.len()), (1, 0, 0), "{first:?}");
    assert_eq!(janitor::sweep(&root).unwrap(), janitor::SweepReport::default());
    Ok(())
}

fn dropped_lease() -> Result<(), NotRun> {
    let place = tempfile::tempdir().unwrap();
    let lease = SandboxLease::take(place.path()).unwrap();
    let (directory, clone) = (lease.directory().to_owned(), lease.clone());
    fs::write(lease.work().join("file"), "text").unwrap();
    drop(lease);
    assert!(directory.exists());
    drop(clone);
    assert!(!directory.exists());
    Ok(())
}

fn closed_root() -> Result<(), NotRun> {
    let ground = Ground::new();
    let lease = ground.lease();
    let mut spec = ground.spec(&lease, &["attack", "sleep"]);
    (spec.stdin, spec.stdout, spec.stderr) = (StdinMode::Null, OutputMode::Null, OutputMode::Null);
    let running = spawn(spec).unwrap();
    let root = lease.directory().parent().unwrap().to_owned();
    let swept = janitor::close(&root).unwrap();
    assert_eq!((swept.left, swept.leases), (vec![], vec![lease.directory().to_owned()]));
    assert_eq!(entries(&root), BTreeSet::new());
    assert!(matches!(running.wait().how, ExitReason::Signalled(_) | ExitReason::Killed | ExitReason::Broken(_)));
    let mut again = ground.spec(&lease, &["attack", "nothing"]);
    (again.stdin, again.stdout, again.stderr) = (StdinMode::Null, OutputMode::Null, OutputMode::Null);
    assert!(spawn(again).is_err(), "nothing is made under it any more");
    assert_eq!(entries(&root), BTreeSet::new());
    Ok(())
}
