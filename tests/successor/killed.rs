//! Parents killed with `kill -9` at any moment of an evaluation: what the janitor finds, and what is never touched.

use herm_tests::can_sandbox;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Bench, HERM, Herm, patch, scripted};

/// Kills, unless `HERM_SUCCESSOR_KILLS` says otherwise.
const KILLS: u32 = 8;
/// How long what was being started when its parent died may take to notice.
const MOMENT: Duration = Duration::from_secs(10);

/// A bench whose program is a file of its own, so that its processes can be told from those of other tests.
fn own_program() -> (Bench, PathBuf) {
    let mut bench = Bench::bare();
    let program = bench.path().join("herm");
    fs::copy(HERM, &program).unwrap();
    bench.herm = Herm::new(&program, &bench.brains());
    (bench, program)
}

/// Both workers, a program that is a tool, and a command that leaves an artifact.
fn everything() -> (Value, Value) {
    let tool = "#!/bin/sh\nread line\nsleep 0.1\necho '{\"text\":\"done\"}'\n";
    let patch = patch(json!([{ "kind": "tool", "name": "outline", "executable": { "text": tool } }]));
    let replies = [r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#];
    let script = "mkdir -p /work/artifacts; echo kept > /work/artifacts/kept; sleep 0.2";
    let parts = json!([
        scripted("calls a program", &replies),
        { "kind": "compress", "name": "long", "sessions": 4 },
        { "kind": "command", "name": "shell", "argv": ["/bin/sh", "-c", script] },
    ]);
    (patch, crate::evaluation(parts))
}

fn start(bench: &Bench, (patch, task): &(Value, Value)) -> Child {
    let mut command = bench.evaluating(patch, task, &[]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Numbers that are the same for a seed (splitmix64), as a share of one.
fn share(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Processes of a program: the inits of sandboxes are some of them, and whatever else is inside goes with its init.
pub(crate) fn processes_of(program: &Path) -> Vec<String> {
    let of = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).ok();
    let wanted = of(program).expect("the program is there");
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = all.filter(|process| of(&process.join("exe")) == Some(wanted));
    ours.map(|process| {
        format!("{}: {}", process.display(), fs::read_to_string(process.join("cmdline")).unwrap_or_default())
    })
    .collect()
}

/// Control groups with one of these names.
pub(crate) fn groups_named(names: &[String]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = ahead.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let is_named = names.iter().any(|name| entry.file_name() == name.as_str());
                if is_named { found.push(entry.path()) } else { ahead.push(entry.path()) }
            }
        }
    }
    found
}

fn leases(bench: &Bench) -> Vec<String> {
    let entries = fs::read_dir(bench.brains().join(".successor/forks")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name != ".lock").collect()
}

/// Sweeps until nothing is held: a stage that was being started shares the lock of its parent for a moment.
fn sweep(bench: &Bench) -> usize {
    let until = Instant::now() + MOMENT;
    let mut removed = 0;
    loop {
        let swept: Value = serde_json::from_str(&bench.must(&["--json", "successor", "janitor"])).unwrap();
        removed += swept["directories"].as_array().unwrap().len();
        if leases(bench).is_empty() || Instant::now() > until {
            return removed;
        }
        std::thread::yield_now();
    }
}

/// What the brain is, and what was ever applied to it.
pub(crate) fn brain(bench: &Bench) -> (Value, Value) {
    let read = |arguments: &[&str]| bench.herm().json(arguments).1;
    (read(&["brain", "history", "1"]), read(&["successor", "lineage", "1"]))
}

#[test]
fn parents_that_are_killed_at_any_moment_leave_nothing_after_the_janitor() {
    if !can_sandbox() {
        return;
    }
    let (bench, program) = own_program();
    let work = everything();
    let began = Instant::now();
    assert!(start(&bench, &work).wait().unwrap().code().is_some(), "it ends by itself when nobody kills it");
    let whole = began.elapsed();
    let before = brain(&bench);
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap().matches(bench.path().to_str().unwrap()).count();
    let kills = std::env::var("HERM_SUCCESSOR_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let (mut removed, mut verdicts) = (0, 0);
    for kill in 0..kills {
        // One in every stretch of its life, somewhere in it.
        let moment = whole.mul_f64((f64::from(kill) + share(u64::from(kill) + 1)) / f64::from(kills));
        let mut running = start(&bench, &work);
        let until = Instant::now() + moment;
        while Instant::now() < until && running.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        running.kill().unwrap();
        running.wait().unwrap();
        let names = leases(&bench);
        removed += sweep(&bench);
        let said = format!("kill {kill} after {moment:?} of {whole:?}");
        while !processes_of(&program).is_empty() && Instant::now() < until + MOMENT {
            std::thread::yield_now();
        }
        assert_eq!(processes_of(&program), Vec::<String>::new(), "{said}");
        assert_eq!((leases(&bench), groups_named(&names), mounts()), (vec![], vec![], 0), "{said}");
        bench.assert_clean();
        bench.must(&["brain", "verify", "1"]);
        assert_eq!(brain(&bench), before, "{said}");
        // What is there as a verdict is one: whole, signed, and shown.
        let listed = bench.herm().json(&["successor", "list"]).1;
        assert_eq!(listed["unreadable"].as_array().map_or(0, Vec::len), 0, "{said}: {listed:#}");
        verdicts = listed["verdicts"].as_array().unwrap().len();
    }
    println!("figure: {kills} parents killed over {whole:?}: {removed} directories swept, {verdicts} verdicts whole");
    assert!(removed >= kills as usize / 2, "{removed}: they were killed before they did anything");
    // And the next one judges as if nothing had happened.
    let judged = bench.judge(&work.0, &work.1, &[]);
    assert_eq!(judged.reason(), "", "{:#}", judged.verdict());
}
