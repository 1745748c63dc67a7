//! (a) A child settles in a loop and is killed at random instants.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use herm_tests::TempBrains;
use herm_tests::generate::Random;

use crate::check::{CHILD, is_red, last_ack, number, settled_state, switch_replay_off};

/// Kills a settling child after `delay`; what it was told until then.
fn kill_after(brains: &TempBrains, delay: Duration) -> Option<(u64, String)> {
    let mut child = Command::new(CHILD)
        .args(["settle-loop"])
        .arg(brains.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the child starts");
    std::thread::sleep(delay);
    child.kill().expect("killed");
    child.wait().expect("gone");
    let mut told = Vec::new();
    child.stdout.take().expect("its output").read_to_end(&mut told).expect("read");
    last_ack(&told)
}

#[test]
fn a_killed_loop_loses_no_acknowledged_step() {
    let kills = number("HERM_KILLS", 200);
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let mut random = Random::new(1);
    let mut version = 1;
    for kill in 0..kills {
        let acked = kill_after(&brains, Duration::from_micros(2_000 + random.below(30_000) as u64));
        let floor = acked.as_ref().map_or(version, |(acked, _)| *acked);
        let now = settled_state(&brains.path(), acked).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
        assert!(now >= floor && now >= version, "kill {kill}: from {version} to {now}");
        version = now;
    }
    assert!(version as usize > kills / 2, "the child hardly got to settle: version {version} after {kills} kills");
}

#[test]
fn without_journal_replay_the_same_kills_are_noticed() {
    let mut random = Random::new(2);
    let red = (0..400).any(|_| {
        let brains = TempBrains::new();
        brains.make("1").close().expect("closed");
        let acked = kill_after(&brains, Duration::from_micros(5_000 + random.below(30_000) as u64));
        switch_replay_off(&brains.path());
        is_red(&settled_state(&brains.path(), acked))
    });
    assert!(red, "400 kills without replay went unnoticed: the check cannot fail");
}
