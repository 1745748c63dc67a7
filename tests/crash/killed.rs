//! (a) A child settles in a loop and is killed at random instants.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use herm_tests::TempBrains;
use herm_tests::generate::Random;

use crate::check::{CHILD, is_red, last_ack, number, settled_state, switch_replay_off};

/// When a child is killed: so long after it has said so many lines ("open", then one a step).
#[derive(Clone, Copy)]
struct Kill {
    lines: usize,
    delay: Duration,
}

impl Kill {
    fn random(random: &mut Random) -> Self {
        let lines = random.below(5);
        // From the start the delay spans the open as well; later it spans one step and a flush.
        let span = if lines == 0 { 32_000 } else { 6_000 };
        Self { lines, delay: Duration::from_micros(random.below(span) as u64) }
    }
}

/// Kills a settling child; what it was told until then.
fn kill_at(brains: &TempBrains, kill: Kill) -> Option<(u64, String)> {
    let mut child = Command::new(CHILD)
        .args(["settle-loop"])
        .arg(brains.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the child starts");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut told = Vec::new();
    for _ in 0..kill.lines {
        output.read_until(b'\n', &mut told).expect("a line");
    }
    std::thread::sleep(kill.delay);
    child.kill().expect("killed");
    child.wait().expect("gone");
    output.read_to_end(&mut told).expect("read");
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
        let acked = kill_at(&brains, Kill::random(&mut random));
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
        let acked = kill_at(&brains, Kill::random(&mut random));
        switch_replay_off(&brains.path());
        is_red(&settled_state(&brains.path(), acked))
    });
    assert!(red, "400 kills without replay went unnoticed: the check cannot fail");
}
