//! An operator that runs tasks on brain 1 of a shared store until it is killed. It says "ack TASK" on
//! standard output after each task that was answered, and "lost" after each that it was told is lost.
//!
//! Usage: operator-child BRAINS STORE NAME LEASE_MS

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use herm::backend::ScriptedBackend;
use herm::harness::{PushTiming, SnapshotOptions};
use herm::ids::SystemRandom;
use herm::snapshot::store::LocalStore;
use herm::snapshot::{Encryption, OperatorKey, Vault};
use herm::{ErrorKind, Harness, Result, SystemClock, Task};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brains, store, name, lease] = arguments.as_slice() else { return ExitCode::from(2) };
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    let lease = Duration::from_millis(lease.parse().expect("milliseconds"));
    match executor.block_on(run(brains, store, name, lease)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

async fn run(brains: &str, store: &str, name: &str, lease: Duration) -> Result<()> {
    let store = Arc::new(LocalStore::open(store.as_ref())?);
    let key = Encryption::Key(OperatorKey::from_bytes([1; 32]));
    let vault = Arc::new(Vault::new(store, key, name, Arc::new(SystemRandom), Arc::new(SystemClock)));
    let how =
        SnapshotOptions { pushing: PushTiming::BeforeTheAnswer, lease: Some(lease), ..SnapshotOptions::new(vault) };
    let harness = Harness::builder()
        .brains(brains)
        .backend(ScriptedBackend::new(vec![r#"{"summary": "all is well"}"#; 100_000]))
        .signer(herm_tests::signer())
        .wait(Duration::from_secs(30))
        .snapshotting(Some(how))
        .build()?;
    let id = "1".parse()?;
    loop {
        match harness.run(&id, Task::new(format!("a task of {name}"))).await {
            Ok(outcome) => say(&format!("ack {}", outcome.task)),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                say(if error.message().contains("lost") { "lost" } else { "busy" });
                // Someone else works on the brain: this is how often an operator asks again.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The process that listened is gone, so there is nothing left to do.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
