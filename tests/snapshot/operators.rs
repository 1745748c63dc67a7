//! Two operators, two processes, one brain: they are killed and paused at random, and there is one history.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use herm::Reader;
use herm::receipt::check;
use herm::snapshot::store::LocalStore;
use herm_tests::TempBrains;
use herm_tests::generate::Random;
use rustix::process::{Pid, Signal, kill_process};

use super::{how, id, key, vault_of};

const OPERATOR: &str = env!("CARGO_BIN_EXE_operator-child");
const LEASE_MS: &str = "300";
/// Nothing is heard for so long only if everything stands still.
const PATIENCE: Duration = Duration::from_secs(120);

struct Operator {
    child: Child,
    brains: TempBrains,
    number: usize,
}

fn start(number: usize, brains: TempBrains, store: &str, heard: &Sender<(usize, String)>) -> Operator {
    let mut child = Command::new(OPERATOR)
        .arg(brains.path())
        .args([store, &format!("operator-{number}"), LEASE_MS])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, heard) = (BufReader::new(child.stdout.take().unwrap()), heard.clone());
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if heard.send((number, line)).is_err() {
                break;
            }
        }
    });
    Operator { child, brains, number }
}

fn signal(operator: &Operator, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(operator.child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Listens until `enough` tasks of anyone, or of everyone but `not`, are answered.
fn listen(
    heard: &Receiver<(usize, String)>,
    acked: &mut Vec<String>,
    lost: &mut u64,
    enough: usize,
    not: Option<usize>,
) {
    let mut count = 0;
    while count < enough {
        let (number, line) = heard.recv_timeout(PATIENCE).expect("someone goes on");
        match line.strip_prefix("ack ") {
            Some(task) => {
                acked.push(task.to_owned());
                count += usize::from(Some(number) != not);
            }
            None => *lost += u64::from(line == "lost"),
        }
    }
}

#[test]
fn two_operators_that_are_killed_and_paused_make_one_history() {
    let wanted: usize = std::env::var("HERM_RACE").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let (one, two, dir) = (TempBrains::new(), TempBrains::new(), tempfile::tempdir().unwrap());
    let store = dir.path().to_str().unwrap().to_owned();
    one.make("1").close().unwrap();
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let vault = vault_of(std::sync::Arc::new(LocalStore::open(dir.path()).unwrap()), key(1), "the test");
    executor.block_on(vault.push(&one.layout(), &id("1"))).unwrap();
    let (sender, heard) = channel();
    let mut operators = [Some(start(0, one, &store, &sender)), Some(start(1, two, &store, &sender))];
    let mut random = Random::new(5);
    let (mut acked, mut lost, mut kills, mut pauses) = (Vec::new(), 0, 0, 0);
    while acked.len() < wanted {
        listen(&heard, &mut acked, &mut lost, 1 + random.below(9), None);
        let which = random.below(2);
        let operator = operators[which].as_mut().unwrap();
        if random.below(2) == 0 {
            kills += 1;
            operator.child.kill().unwrap();
            operator.child.wait().unwrap();
            let Operator { brains, number, .. } = operators[which].take().unwrap();
            operators[which] = Some(start(number, brains, &store, &sender));
        } else {
            pauses += 1;
            signal(operator, Signal::STOP);
            // Until the other one has gone on: if the brain was leased to this one, that takes longer
            // than the lease.
            listen(&heard, &mut acked, &mut lost, 2, Some(which));
            signal(operators[which].as_ref().unwrap(), Signal::CONT);
        }
    }
    for operator in operators.iter_mut().flatten() {
        operator.child.kill().unwrap();
        operator.child.wait().unwrap();
    }
    drop(sender);
    for (_, line) in heard {
        acked.extend(line.strip_prefix("ack ").map(str::to_owned));
    }
    let there = TempBrains::new();
    executor.block_on(vault.restore(&there.layout(), &id("1"), &how())).unwrap();
    let reader = Reader::open(&there.layout(), &id("1")).unwrap();
    let tape: Vec<String> = reader.receipts(1, u64::MAX).unwrap().into_iter().map(|kept| kept.envelope).collect();
    let checked = check(tape.iter().map(String::as_str), &how().trusted);
    assert!(checked.is_sound(), "{checked:?}");
    assert_eq!(checked.receipts, reader.lock().version);
    let database = rusqlite::Connection::open(there.file("1", "memory.db")).unwrap();
    let all = "SELECT task FROM task_log";
    let in_log: Vec<String> =
        database.prepare(all).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let log: BTreeSet<&String> = in_log.iter().collect();
    let answered: BTreeSet<&String> = acked.iter().collect();
    assert_eq!((in_log.len(), acked.len()), (log.len(), answered.len()), "nothing is there twice");
    assert!(answered.is_subset(&log), "what was answered is in the history");
    // A process that was killed between the commit and its answer could not say so.
    let unsaid = log.len() - answered.len();
    assert!(unsaid <= kills + 2, "{unsaid} steps that nobody heard of, after {kills} kills");
    println!("{} answered, {unsaid} unsaid, {lost} lost and told, {kills} kills, {pauses} pauses", acked.len());
}
