//! Forks that judge, cross a budget, are dropped or destroyed unused: a process that makes many keeps nothing of them.

use herm_tests::can_sandbox;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::Bench;
use crate::killed::{brain, groups_named, processes_of};

/// Rounds, unless `HERM_CYCLES` says otherwise; what is held after the first eight is compared.
const ROUNDS: usize = 16;

#[test]
fn forking_and_destroying_leaks_nothing() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let before = brain(&bench);
    // A file of its own, so that its processes can be told from those of other tests.
    let program = bench.path().join("fork-child");
    fs::copy(env!("CARGO_BIN_EXE_fork-child"), &program).unwrap();
    let rounds = std::env::var("HERM_CYCLES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    assert!(rounds > 8, "the first eight are only to warm up");
    let output = Command::new(&program).arg(bench.brains()).arg(rounds.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["first"], said["last"], "{rounds} rounds");
    let leases: Vec<String> = serde_json::from_value(said["leases"].clone()).unwrap();
    assert!(leases.len() >= rounds * 2, "{leases:?}");
    assert_eq!(groups_named(&leases), Vec::<std::path::PathBuf>::new());
    assert_eq!(processes_of(&program), Vec::<String>::new());
    bench.assert_clean();
    assert_eq!(brain(&bench), before, "the brain did not move");
}
