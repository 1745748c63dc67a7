//! (a) A child settles in a loop, or lets the evolver change a skill in a loop, and is killed at random instants.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use herm_tests::TempBrains;
use herm_tests::generate::Random;
use herm_tests::meaning::{Letters, embed_all};

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

/// Kills a child; what it was told until then.
fn kill_at(brains: &TempBrains, operation: &str, kill: Kill) -> Option<(u64, String)> {
    let mut child = Command::new(CHILD)
        .args([operation])
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
        let acked = kill_at(&brains, "settle-loop", Kill::random(&mut random));
        let floor = acked.as_ref().map_or(version, |(acked, _)| *acked);
        let now = settled_state(&brains.path(), "1", acked).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
        assert!(now >= floor && now >= version, "kill {kill}: from {version} to {now}");
        version = now;
    }
    assert!(version as usize > kills / 2, "the child hardly got to settle: version {version} after {kills} kills");
}

/// The skill's text and the file beside it always tell of the same change; both are of one step.
#[test]
fn a_killed_evolver_leaves_a_skill_before_or_after_a_change_and_never_between() {
    let kills = number("HERM_KILLS", 200);
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let mut random = Random::new(3);
    let mut version = 1;
    for kill in 0..kills {
        let acked = kill_at(&brains, "evolve-loop", Kill::random(&mut random));
        let now = settled_state(&brains.path(), "1", acked).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
        assert!(now >= version, "kill {kill}: from {version} to {now}");
        version = now;
        let read = |name: &str| std::fs::read_to_string(brains.file("1", name)).unwrap_or_default();
        let text = read("skills/dir-one/SKILL.md");
        let told = text.lines().find(|line| line.starts_with("change "));
        let beside = read("skills/dir-one/references/change.md");
        assert_eq!(told.unwrap_or_default(), beside.trim_end(), "kill {kill} at version {now}");
        // The next process that opens the brain removes what the verifier looked at.
        let names = std::fs::read_dir(brains.path()).expect("a listing").filter_map(Result::ok);
        let names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().all(|name| !name.contains("staging")), "kill {kill}: {names:?}");
    }
    assert!(version as usize > kills / 2, "the child hardly got to change: version {version} after {kills} kills");
}

/// Vectors are of rows that are there and nothing else, whenever who made them was killed.
#[test]
fn a_killed_maker_of_vectors_leaves_a_sound_brain_and_the_next_goes_on() {
    let kills = number("HERM_KILLS", 20);
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let mut random = Random::new(5);
    let (mut version, mut seen) = (1, 0);
    for kill in 0..kills {
        let acked = kill_at(&brains, "vectors-loop", Kill::random(&mut random));
        let now = settled_state(&brains.path(), "1", acked).unwrap_or_else(|why| panic!("kill {kill}: {why}"));
        assert!(now >= version, "kill {kill}: from {version} to {now}");
        version = now;
        let memory = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("memory.db");
        let count = |query: &str| memory.query_row(query, [], |row| row.get::<_, i64>(0));
        // Before the first vector there is no table.
        if let Ok(vectors) = count("SELECT count(*) FROM vectors") {
            let of_rows = "SELECT count(*) FROM vectors JOIN messages ON messages.id * 4 = vectors.row";
            assert_eq!(count(of_rows).expect("counted"), vectors, "kill {kill}");
            seen = vectors;
        }
    }
    assert!(seen > 0, "the child never got to make a vector");
    let mut brain = brains.open("1").expect("opened");
    let reader = herm::Reader::open(&brains.layout(), brain.id()).expect("a reader");
    let model = Letters::named("the last");
    let made = embed_all(&mut brain, &reader, &model).expect("vectors");
    let counts = reader.counts(&reader.skills().expect("skills")).expect("counts");
    assert_eq!(made, counts.messages);
    assert!(brain.verify().expect("verified").is_sound());
}

#[test]
fn without_journal_replay_the_same_kills_are_noticed() {
    let mut random = Random::new(2);
    let red = (0..400).any(|_| {
        let brains = TempBrains::new();
        brains.make("1").close().expect("closed");
        let acked = kill_at(&brains, "settle-loop", Kill::random(&mut random));
        switch_replay_off(&brains.path());
        is_red(&settled_state(&brains.path(), "1", acked))
    });
    assert!(red, "400 kills without replay went unnoticed: the check cannot fail");
}
