//! A server whose database is lost or emptied does not take that for "nobody has a key".

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use herm_tests::operator::Operator;
use serde_json::json;

use crate::{answering, problem, run};

const DONE: &str = r#"{"done":1}"#;

fn book(operator: &Operator) -> std::path::PathBuf {
    operator.brains().join(".operator/book.db")
}

fn marker(operator: &Operator) -> std::path::PathBuf {
    operator.brains().join(".keys-made.json")
}

/// Removes the database with everything that belongs to it.
fn remove_book(operator: &Operator) {
    for name in ["book.db", "book.db-wal", "book.db-shm"] {
        let _ = std::fs::remove_file(operator.brains().join(".operator").join(name));
    }
}

/// Whether a server refuses to start, and says what can be done; nothing is made in the place of what was lost.
fn refuses(operator: &Operator, what: &str) {
    let mut command = operator.herm().command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // A server that starts says so at once; one that does not closes its output.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("it starts: {line}");
    }
    let served = child.wait_with_output().unwrap();
    let said = String::from_utf8(served.stderr).unwrap();
    assert_eq!(served.status.code(), Some(3), "{said}");
    for part in [what, "as the operator", "backup", "herm keys reset --forget"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_server_whose_database_is_lost_or_emptied_refuses_to_start() {
    let operator = answering(DONE);
    let key = operator.key(&["a"]);
    remove_book(&operator);
    refuses(&operator, "is missing");
    assert!(!book(&operator).exists(), "nothing stands in the way of the backup");
    // Nor is it made by the commands that look or make.
    let create = operator.herm().run(&["keys", "create", "b"]);
    assert_eq!((create.code, book(&operator).exists()), (3, false), "{create:?}");
    let list = operator.herm().run(&["keys", "list"]);
    assert!(list.stderr.contains("the server does not start"), "{list:?}");
    // All of the directory.
    std::fs::remove_dir_all(operator.brains().join(".operator")).unwrap();
    refuses(&operator, "is missing");
    // Cut to nothing.
    std::fs::create_dir(operator.brains().join(".operator")).unwrap();
    std::fs::write(book(&operator), b"").unwrap();
    refuses(&operator, "is empty");
    remove_book(&operator);

    // A person who knows what is lost begins anew.
    let unsure = operator.herm().run(&["keys", "reset"]);
    assert_eq!(unsure.code, 3, "{unsure:?}");
    assert!(unsure.stderr.contains("until a new key is made") && marker(&operator).exists(), "{unsure:?}");
    let reset = operator.herm().run(&["keys", "reset", "--forget"]);
    assert_eq!((reset.code, marker(&operator).exists()), (0, false), "{reset:?}");
    let new = operator.key(&["new"]);
    let serving = operator.serve();
    problem(&serving.client().key(&key).get("/v1/agents"), 401, "unauthenticated");
    problem(&serving.client().get("/v1/agents"), 401, "unauthenticated");
    assert_eq!(run(&serving.client().key(&new), "7", "go").status, 200);
    // Where there are keys there is nothing to reset.
    let reset = operator.herm().run(&["keys", "reset", "--forget"]);
    assert_eq!((reset.code, marker(&operator).exists()), (3, true), "{reset:?}");
}

#[test]
fn keys_that_are_deleted_from_the_database_do_not_open_the_server_also_while_it_runs() {
    let operator = answering(DONE);
    let key = operator.key(&["a"]);
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(client.key(&key).get("/v1/agents").status, 200);
    let empty = || {
        let database = rusqlite::Connection::open(book(&operator)).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        database.execute_batch("DELETE FROM keys; UPDATE generation SET keys = keys + 1").unwrap();
    };
    empty();
    problem(&client.get("/v1/agents"), 401, "unauthenticated");
    problem(&client.key(&key).get("/v1/agents"), 401, "unauthenticated");
    problem(&run(&client, "7", "go"), 401, "unauthenticated");
    serving.kill();
    refuses(&operator, "has no keys");

    // One that began without keys, was given one, and lost it before anyone called.
    let other = answering(DONE);
    let serving = other.serve();
    assert_eq!(serving.client().get("/v1/agents").status, 200);
    other.key(&["b"]);
    let database = rusqlite::Connection::open(book(&other)).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    database.execute_batch("DELETE FROM keys; UPDATE generation SET keys = keys + 1").unwrap();
    problem(&serving.client().get("/v1/agents"), 401, "unauthenticated");
}

#[test]
fn the_marker_is_made_again_wherever_the_database_has_keys() {
    let operator = answering(DONE);
    let key = operator.key(&["a"]);
    let whole = std::fs::read(marker(&operator)).unwrap();
    // A first edition made keys and no marker; someone took it away; someone wrote another.
    for other in [None, Some(&b"{}"[..]), Some(b"\xff\xff"), Some(&whole[..whole.len() / 2])] {
        let _ = std::fs::remove_file(marker(&operator));
        if let Some(other) = other {
            std::fs::write(marker(&operator), other).unwrap();
        }
        let serving = operator.serve();
        assert_eq!(serving.client().key(&key).get("/v1/agents").status, 200);
        drop(serving);
        let made: serde_json::Value = serde_json::from_slice(&std::fs::read(marker(&operator)).unwrap()).unwrap();
        assert!(made["signatures"][0]["keyid"].as_str().unwrap().starts_with("did:key:"), "{made}");
    }
    remove_book(&operator);
    refuses(&operator, "is missing");
    // One that this operator did not sign refuses as well, and says so.
    std::fs::write(marker(&operator), b"{}").unwrap();
    refuses(&operator, "did not sign it");
}

#[test]
fn without_keys_and_without_a_marker_a_server_starts_as_ever() {
    let operator = answering(DONE);
    let serving = operator.serve();
    assert_eq!(serving.client().get("/v1/key").json()["keyless"], json!(true));
    assert!(!marker(&operator).exists());
    drop(serving);
    remove_book(&operator);
    assert_eq!(operator.serve().client().get("/v1/agents").status, 200);
}
