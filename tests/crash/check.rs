//! What must hold of a brain after anything.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use herm::brain::OnDrift;
use herm::{Brain, BrainOptions, Layout, Reader, receipt};

/// The program that is stopped.
pub const CHILD: &str = env!("CARGO_BIN_EXE_crash-child");

/// A number from the environment, for longer runs.
pub fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Whether a command can be started.
pub fn has_command(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}

/// Whether system calls can be watched; where not, `test` is recorded as not run.
pub fn can_trace(test: &str) -> bool {
    // A container may have the program and forbid what it does.
    let traces =
        Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|run| run.status.success());
    if !traces {
        herm_untested::not_run(test, "strace", "apt-get install strace, where the machine allows ptrace");
    }
    traces
}

/// The last version and hash that a child was told are settled.
pub fn last_ack(stdout: &[u8]) -> Option<(u64, String)> {
    // A line without its end was cut by the kill: the step may or may not have been told.
    let whole = &stdout[..stdout.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1)];
    let line = std::str::from_utf8(whole).ok()?.lines().last()?;
    let mut words = line.split(' ').skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
}

fn opening() -> BrainOptions {
    BrainOptions {
        wait: Duration::from_secs(20),
        clock: Arc::new(herm::SystemClock),
        on_drift: OnDrift::Refuse,
        signer: Some(Arc::new(herm_tests::signer())),
        trusted: Vec::new(),
    }
}

/// Opens a brain, which recovers it, and checks everything: it is at the step that was acknowledged last,
/// or one further. The version it is at.
pub fn settled_state(brains: &Path, id: &str, acked: Option<(u64, String)>) -> Result<u64, String> {
    let last = acked.as_ref().map(|(version, _)| *version);
    let version = settled_state_since(brains, id, acked)?;
    match last {
        // One step may have been settled without its acknowledgement getting out.
        Some(last) if version > last + 1 => Err(format!("step {last} was acknowledged and the brain is at {version}")),
        _ => Ok(version),
    }
}

/// The same, where more steps may follow the one that was acknowledged.
pub fn settled_state_since(brains: &Path, id: &str, acked: Option<(u64, String)>) -> Result<u64, String> {
    let layout = Layout::new(brains);
    let staging = brains.join(format!(".staging-{id}"));
    let id = id.parse().expect("an id");
    let say = |error: herm::Error| format!("{error:?}");
    let brain = Brain::open(&layout, &id, &opening()).map_err(say)?;
    let report = brain.verify().map_err(say)?;
    if !report.is_sound() {
        return Err(format!("not sound: {report:?}"));
    }
    let version = brain.lock().version;
    let steps = brain.history(usize::MAX).map_err(say)?;
    for pair in steps.windows(2) {
        let [later, earlier] = pair else { continue };
        if later.before != Some(earlier.after) || later.version != earlier.version + 1 {
            return Err(format!("the chain is broken between {earlier:?} and {later:?}"));
        }
    }
    if steps.first().map(|step| step.after) != Some(brain.lock().bundle_hash) {
        return Err("the lock is not the last step".into());
    }
    if let Some((acked, hash)) = acked {
        if version < acked {
            return Err(format!("step {acked} was acknowledged and the brain is at {version}"));
        }
        let step = steps.iter().find(|step| step.version == acked as i64);
        if step.map(|step| step.after.to_string()) != Some(hash) {
            return Err(format!("step {acked} was acknowledged with another hash"));
        }
    }
    let tape = std::fs::read_to_string(layout.brain(&id).join("receipts.ndjson")).unwrap_or_default();
    let chain = receipt::check(tape.lines(), &receipt::TrustedKeys::Keys(vec![herm_tests::signer().public().clone()]));
    if !chain.is_sound() || chain.after != Some(brain.lock().bundle_hash.to_string()) || chain.version != version {
        return Err(format!("the receipts are not the steps, the chain is broken: {chain:?}"));
    }
    brain.close().map_err(say)?;
    for left in [layout.brain(&id).join(".herm/tmp"), staging, layout.brain(&id).join("memory.db-wal")] {
        if left.exists() {
            return Err(format!("{} is left behind", left.display()));
        }
    }
    same_step_everywhere(&layout, &id, version)?;
    Ok(version)
}

/// Every file and row of the last settled step says the same number.
fn same_step_everywhere(layout: &Layout, id: &herm::BrainId, version: u64) -> Result<(), String> {
    let reader = Reader::open(layout, id).map_err(|error| format!("{error:?}"))?;
    let read = |path: &str| std::fs::read_to_string(layout.brain(id).join(path)).unwrap_or_default();
    let history = reader.history(1).map_err(|error| format!("{error:?}"))?;
    let Some(step) = history.first().filter(|step| step.summary.starts_with("step ")) else { return Ok(()) };
    let said = &step.summary;
    for path in ["skills/flat-one.md", "skills/dir-one/references/step.md", "MEMORY.md"] {
        if !read(path).contains(said.as_str()) {
            return Err(format!("at version {version}, {path} does not say {said:?}"));
        }
    }
    if !read("bundle.lock.json").contains(&step.after.to_string()) {
        return Err("bundle.lock.json is not the lock of the last step".into());
    }
    Ok(())
}

/// Whether a check failed because the brain was not before or after a step, and not because the test
/// itself could not go on. Only that makes a negative control red.
pub fn is_red(outcome: &Result<impl Sized, String>) -> bool {
    const REASONS: [&str; 7] = [
        "was acknowledged",
        "were acknowledged",
        "not sound",
        "chain is broken",
        "does not say",
        "is not what its lock says",
        "not the lock",
    ];
    outcome.as_ref().is_err_and(|why| REASONS.iter().any(|reason| why.contains(reason)))
}

/// The negative control: forget what is still to be redone, as if the journal were never replayed.
pub fn switch_replay_off(brains: &Path) {
    let path = brains.join("1/memory.db");
    if let Ok(connection) = rusqlite::Connection::open(path) {
        // A brain without these tables has nothing to forget.
        let _ = connection.execute("UPDATE state SET flushed = (SELECT max(seq) FROM steps), sidecar_stale = 0", []);
    }
}
