//! `herm run` and `herm receipts`, as a user meets them.

use std::io::Write as _;
use std::process::{Command, Stdio};

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::{Herm, Run};
use serde_json::{Value, json};

use crate::HERM;

fn herm() -> (tempfile::TempDir, Herm) {
    let dir = tempfile::tempdir().expect("a directory");
    let herm = Herm::new(HERM, &dir.path().join("brains"));
    (dir, herm)
}

/// Runs against a server that plays `steps`.
fn run_on(herm: &Herm, server: &ModelServer, arguments: &[&str]) -> Run {
    let output = herm
        .command(arguments)
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        .output()
        .expect("it starts");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

#[test]
fn the_first_command_of_a_newcomer_shows_real_findings() {
    let (_dir, herm) = herm();
    let run = herm.run(&["run", "1", "--example", "vault"]);
    assert_eq!(run.code, 0, "{run:?}");
    let answer: Value = serde_json::from_str(&run.stdout).expect("the answer alone is on standard output");
    let findings = answer["findings"].as_array().expect("findings");
    let reentrancy = findings.iter().find(|finding| finding["pattern"] == "reentrancy").expect("reentrancy is found");
    assert_eq!(reentrancy["lines"], json!([68]));
    assert!(answer["summary"].as_str().expect("a summary").contains("No language model spoke"));
    for said in ["scan", "skill_view", "learned", "version 2", "reflex-1 (no language model)"] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    // The same findings again, now with what was learned at hand; nothing is learned twice.
    let again = herm.run(&["run", "1", "--example", "vault"]);
    let answer_again: Value = serde_json::from_str(&again.stdout).expect("an answer");
    assert_eq!(answer_again["findings"], answer["findings"]);
    assert!(!again.stderr.contains("learned"), "{}", again.stderr);
    for other in ["2", "3"] {
        let run = herm.run(&["run", other, "--example"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(serde_json::from_str::<Value>(&run.stdout).is_ok());
    }
}

#[test]
fn the_answer_is_printed_before_snapshots_are_flushed() {
    use std::io::BufRead as _;
    use std::sync::mpsc;
    use std::time::Duration;

    let (dir, herm) = herm();
    // A store that takes what it is sent and says nothing until the answer was read.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (was_read, reading) = mpsc::channel::<()>();
    let (connected, connecting) = mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let _connection = listener.accept().expect("a connection");
        connected.send(()).expect("told");
        reading.recv_timeout(Duration::from_secs(60)).is_ok()
    });
    let config = dir.path().join("config.toml");
    let store = dir.path().join("store");
    let said = format!(
        "[snapshot]\nstore = {store:?}\nplaintext = true\n[snapshot.walrus]\npublishers = [{address:?}]\naggregators = [{address:?}]\n"
    );
    std::fs::write(&config, said).expect("written");
    let mut child = herm
        .command(&["--config", config.to_str().expect("UTF-8"), "run", "1", "--example", "vault"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    connecting.recv_timeout(Duration::from_secs(60)).expect("the snapshot is on its way");
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
    was_read.send(()).ok();
    assert!(server.join().expect("joined"), "the answer came only after the store gave up");
    assert!(line.starts_with('{'), "{line}");
    child.kill().expect("ended");
    child.wait().expect("ended");
}

#[test]
fn the_json_outcome_has_stable_names() {
    let (_dir, herm) = herm();
    let (code, outcome) = herm.json(&["run", "1", "--example", "escrow"]);
    assert_eq!(code, 0);
    let mut names: Vec<&str> = outcome.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    insta::assert_json_snapshot!("outcome_fields", names);
    assert_eq!(outcome["status"], "converged");
    assert_eq!(outcome["settled"]["version"], 2);
}

#[test]
fn events_are_json_lines_with_the_outcome_last() {
    let (_dir, herm) = herm();
    let run = herm.run(&["run", "1", "--example", "vault", "--events"]);
    assert_eq!(run.code, 0, "{run:?}");
    let events: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(events[0]["event"], "started");
    assert!(events.iter().any(|event| event["event"] == "tool_result" && event["tool"] == "scan"));
    assert_eq!(events.last().expect("an event")["event"], "outcome");
    assert_eq!(events.last().expect("an event")["outcome"]["status"], "converged");
}

#[test]
fn input_comes_from_text_file_or_standard_input() {
    let (dir, herm) = herm();
    let file = dir.path().join("input.sol");
    std::fs::write(&file, "contract A { function f() public { selfdestruct(msg.sender); } }\n").expect("written");
    let from_file = herm.run(&["-q", "run", "1", "--dry-run", "--file", file.to_str().expect("UTF-8")]);
    assert_eq!(from_file.code, 0, "{from_file:?}");
    let mut child = herm
        .command(&["-q", "run", "1", "--dry-run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("stdin").write_all(&std::fs::read(&file).expect("read")).expect("written");
    let output = child.wait_with_output().expect("done");
    assert_eq!(String::from_utf8_lossy(&output.stdout), from_file.stdout);
}

#[test]
fn bad_input_is_a_sentence_and_an_exit_code() {
    let (dir, herm) = herm();
    let large = dir.path().join("large");
    std::fs::write(&large, vec![b'x'; 10 << 20]).expect("written");
    let binary = dir.path().join("binary");
    std::fs::write(&binary, [0xff, 0xfe, 0x00]).expect("written");
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    for (arguments, code, said) in [
        (vec!["run", "1"], 2, "what should the agent do"),
        (vec!["run", "1", ""], 2, "empty"),
        (vec!["run", "1", "x", "--max-turns", "9"], 2, "1 to 8 turns"),
        (vec!["run", "1", "x", "--deadline", "0"], 2, "deadline"),
        (vec!["run", "01", "x"], 2, "not a token id"),
        (vec!["run", "99", "x"], 4, "no brain 99"),
        (vec!["run", "1", "--file", &path(&large)], 2, "input_bytes"),
        (vec!["run", "1", "--file", "/"], 2, "name a text file"),
        (vec!["receipts", "verify", "--file", &path(&binary)], 2, "receipts export"),
        (vec!["run", "1", "--file", &path(&binary)], 2, "UTF-8"),
        (vec!["run", "1", "--file", "/no/such/file"], 4, "does not exist"),
        (vec!["run", "1", "--example", "nothing"], 4, "there are:"),
        (vec!["run", "1", "x", "--backend", "nobody"], 4, "no backend"),
        (vec!["run", "1", "x", "--backend", "openai"], 2, "which model"),
        (vec!["receipts", "show", "1", "9"], 4, ""),
    ] {
        let run = herm.run(&arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {run:?}");
        assert!(run.stdout.is_empty(), "{arguments:?}: {run:?}");
    }
}

#[test]
fn a_change_of_a_skill_that_waits_for_review_is_said() {
    let (_dir, herm) = herm();
    let archive = json!({ "tool": "skill_manage", "args": { "action": "archive", "name": "oracle-review" } });
    let answer = "{\"summary\": \"seen\", \"findings\": [], \"checked\": [], \"limits\": []}";
    for (arguments, waits) in [(&[][..], true), (&["--dry-run"], false)] {
        let server = ModelServer::start(vec![Step::chat(&archive.to_string()), Step::chat(answer)]);
        let run = run_on(
            &herm,
            &server,
            &[&["run", "1", "contract A {}", "--backend", "openai", "--model", "m"], arguments].concat(),
        );
        assert_eq!(run.code, 0, "{run:?}");
        let said = "waits for review: archive oracle-review · see `herm evolve queue list 1`";
        assert_eq!(run.stderr.contains(said), waits, "{}", run.stderr);
        let total = "1 change waits: `herm evolve queue list 1`";
        assert_eq!(run.stderr.contains(total), waits, "{}", run.stderr);
    }
    // A later task says so as well, though it proposes nothing.
    let outline = json!({ "tool": "outline", "args": {} });
    let server = ModelServer::start(vec![Step::chat(&outline.to_string()), Step::chat(answer)]);
    let later = run_on(&herm, &server, &["run", "1", "contract B {}", "--backend", "openai", "--model", "m", "--json"]);
    let json: Value = serde_json::from_str(&later.stdout).expect("one document");
    assert_eq!(json["waiting"], 1, "{json:#}");
    assert!(herm.run(&["evolve", "queue", "list", "1"]).stdout.contains("oracle-review"));
}

#[test]
fn a_real_endpoint_answers_and_the_key_is_nowhere() {
    let (dir, herm) = herm();
    let server = ModelServer::start(vec![
        Step::chat("<think>first a look</think>I will look.\n```json\n{\"tool\": \"outline\", \"args\": {}}\n```"),
        Step::chat("{\"summary\": \"seen\", \"findings\": [], \"checked\": [], \"limits\": []}"),
    ]);
    let run = run_on(&herm, &server, &["run", "1", "contract A {}", "--backend", "openai", "--model", "m"]);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "{\"summary\": \"seen\", \"findings\": [], \"checked\": [], \"limits\": []}\n"),
        "{run:?}"
    );
    assert_eq!(server.requests().len(), 2);
    for entry in walk(dir.path()) {
        let content = std::fs::read(&entry).unwrap_or_default();
        let found = content.windows(16).any(|window| window == b"sk-test-01234567");
        assert!(!found, "the key is in {}", entry.display());
    }
    assert!(!run.stderr.contains("sk-test"), "{run:?}");
}

#[test]
fn a_matching_skill_stands_before_the_task_and_not_with_no_preload() {
    let (dir, herm) = herm();
    let from = dir.path().join("finder");
    std::fs::create_dir_all(from.join("skills")).expect("a directory");
    for (name, text) in [
        ("manifest.json", r#"{"schema":"herm/manifest@1","name":"FINDER","tools":[]}"#),
        ("system.md", "You find things.\n"),
        ("skills/find-lamps.md", "---\nname: find-lamps\ndescription: Finds lamps.\n---\nAsk the cellar.\n"),
    ] {
        std::fs::write(from.join(name), text).expect("written");
    }
    assert_eq!(herm.run(&["init", "5", "--from", from.to_str().expect("UTF-8")]).code, 0);
    let server = ModelServer::always(Step::chat(r#"{"answer": "box 1"}"#));
    let usual = ["run", "5", "Where is the lamp?", "--backend", "openai", "--model", "m", "--json"];
    for (flags, stands) in [(&[][..], true), (&["--no-preload"][..], false)] {
        let run = run_on(&herm, &server, &[&usual[..], flags].concat());
        assert_eq!(run.code, 0, "{run:?}");
        let outcome: Value = serde_json::from_str(&run.stdout).expect("JSON");
        assert_eq!(outcome["shown"][0]["skill"] == "find-lamps", stands, "{outcome:#}");
        let asked = server.requests().pop().expect("a request").body.to_string();
        assert_eq!(asked.contains("# Procedure: find-lamps"), stands, "{asked}");
    }
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn exit_codes_tell_incomplete_from_unavailable() {
    let (_dir, herm) = herm();
    let stubborn = ModelServer::always(Step::chat("I would rather talk."));
    let run = run_on(&herm, &stubborn, &["run", "1", "x", "--backend", "openai", "--model", "m", "--max-turns", "2"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.is_empty() && run.stderr.contains("incomplete"), "{run:?}");
    let refusing = ModelServer::always(Step::json(401, json!({ "error": { "message": "bad key" } })));
    let run = run_on(&herm, &refusing, &["run", "1", "x", "--backend", "openai", "--model", "m"]);
    assert_eq!(run.code, 6, "{run:?}");
    assert!(run.stderr.contains("failed") && run.stderr.contains("hint:"), "{run:?}");
    assert_eq!(herm.run(&["receipts", "verify", "1"]).code, 0, "both have receipts");
}

#[test]
fn receipts_are_listed_verified_replayed_and_exported() {
    let (dir, herm) = herm();
    herm.run(&["run", "1", "--example", "vault"]);
    herm.run(&["skills", "pin", "1", "oracle-review"]);
    let (_, list) = herm.json(&["receipts", "list", "1"]);
    let kinds: Vec<&str> =
        list["receipts"].as_array().expect("receipts").iter().map(|r| r["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["maintenance", "task", "create"], "every step has one, by hand too");
    let (code, verified) = herm.json(&["receipts", "verify", "1"]);
    assert_eq!((code, &verified["sound"]), (0, &json!(true)), "{verified}");
    let (code, replayed) = herm.json(&["receipts", "replay", "1", "2"]);
    assert_eq!((code, &replayed["same"], &replayed["diverged"]), (0, &json!(true), &json!([])), "{replayed}");
    assert_eq!(herm.run(&["receipts", "replay", "1", "3"]).code, 2, "only tasks can be replayed");
    let export = dir.path().join("tape");
    std::fs::write(&export, herm.run(&["receipts", "export", "1"]).stdout).expect("written");
    let key = herm.run(&["receipts", "key"]).stdout.trim().to_owned();
    let file = export.to_str().expect("UTF-8");
    assert_eq!(herm.run(&["receipts", "verify", "--file", file, "--key", &key]).code, 0);
    // Another key, a cut tape, a changed byte.
    let stranger = herm::Signer::from_seed([3; 32]).public().to_string();
    assert_eq!(herm.run(&["receipts", "verify", "--file", file, "--key", &stranger]).code, 1);
    let text = std::fs::read_to_string(&export).expect("read");
    let cut: Vec<&str> = text.lines().enumerate().filter(|(n, _)| *n != 2).map(|(_, line)| line).collect();
    std::fs::write(&export, cut.join("\n")).expect("written");
    assert_eq!(herm.run(&["receipts", "verify", "--file", file, "--key", &key]).code, 1);
}

#[test]
fn a_tampered_tape_in_the_brain_is_noticed() {
    let (dir, herm) = herm();
    herm.run(&["run", "1", "--example", "vault"]);
    let tape = dir.path().join("brains/1/receipts.ndjson");
    let text = std::fs::read_to_string(&tape).expect("a tape");
    std::fs::write(&tape, text.replace("keyid", "keyiD")).expect("written");
    let run = herm.run(&["receipts", "verify", "1"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("receipts.ndjson is not what memory.db has"), "{run:?}");
    std::fs::write(&tape, text).expect("written");
    assert_eq!(herm.run(&["receipts", "verify", "1"]).code, 0);
    // Content that no receipt speaks of.
    std::fs::write(dir.path().join("brains/1/MEMORY.md"), "- by hand\n").expect("written");
    let run = herm.run(&["receipts", "verify", "1"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("the content hashes to"), "{run:?}");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, herm) = herm();
    herm.run(&["init", "1"]);
    let key = dir.path().join("brains/.keys/receipts.pem");
    assert_eq!(key.metadata().expect("a key").permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("set");
    let run = herm.run(&["skills", "pin", "1", "oracle-review"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("chmod 600"), "{run:?}");
}

/// A stranger with Python, the page and the public key.
#[test]
fn a_stranger_verifies_without_herm() {
    let Some(python) = std::env::var_os("HERM_PYTHON") else {
        let get = "pip install cryptography, and HERM_PYTHON names that Python";
        return herm_untested::not_run("a stranger verifies receipts without herm", "Python with cryptography", get);
    };
    let (dir, herm) = herm();
    herm.run(&["run", "1", "--example", "vault"]);
    herm.run(&["run", "1", "--example", "escrow"]);
    let export = dir.path().join("tape");
    std::fs::write(&export, herm.run(&["receipts", "export", "1"]).stdout).expect("written");
    let key = herm.run(&["receipts", "key"]).stdout.trim().to_owned();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/data/verify_receipts.py");
    let verify = |key: &str| {
        Command::new(&python).args([script, export.to_str().expect("UTF-8"), key]).output().expect("Python starts")
    };
    let good = verify(&key);
    assert!(good.status.success(), "{good:?}");
    assert!(String::from_utf8_lossy(&good.stdout).contains("3 receipts"), "{good:?}");
    assert!(!verify(&herm::Signer::from_seed([3; 32]).public().to_string()).status.success(), "another key");
    let text = std::fs::read_to_string(&export).expect("read");
    for (what, bad) in [
        ("cut", text.lines().take(2).chain(text.lines().skip(3)).collect::<Vec<_>>().join("\n")),
        ("swapped", [1, 0, 2, 3].map(|n| text.lines().nth(n).expect("a line")).join("\n")),
        ("without the last", [0, 1, 3].map(|n| text.lines().nth(n).expect("a line")).join("\n")),
    ] {
        std::fs::write(&export, bad).expect("written");
        assert!(!verify(&key).status.success(), "{what} was not noticed");
    }
}

/// The cases of the page, read by both verifiers.
#[test]
fn files_of_receipts_at_the_edge_are_read_alike_by_herm_and_by_a_stranger() {
    let (dir, herm) = herm();
    herm.run(&["run", "1", "--example", "vault"]);
    let export = herm.run(&["receipts", "export", "1"]).stdout;
    let key = herm.run(&["receipts", "key"]).stdout.trim().to_owned();
    let lines: Vec<&str> = export.lines().collect();
    let [first, second, checkpoint] = lines[..] else { panic!("two receipts and a checkpoint: {export}") };
    let sound = 0;
    let cases: [(&str, String, i32, &str); 15] = [
        ("as it was written", export.clone(), sound, "all 2 receipts are signed by"),
        ("no file at all but its name", String::new(), 1, "WRONG the log: there are no receipts"),
        ("blank lines alone", "\n  \n\t\r\n\n".to_owned(), 1, "WRONG the log: there are no receipts"),
        ("blank lines between", format!("\n{first}\n\n \t\n{second}\n\n{checkpoint}\n\n"), sound, "all 2 receipts"),
        ("carriage returns", export.replace('\n', "\r\n"), sound, "all 2 receipts are signed by"),
        ("no last newline", export.trim_end().to_owned(), sound, "a signed checkpoint says that receipt 2"),
        ("spaces around a line", format!("  {first} \n\t{second}\n"), sound, "all 2 receipts"),
        ("without a checkpoint", format!("{first}\n{second}\n"), sound, "the file has no checkpoint"),
        ("one receipt", format!("{first}\n"), sound, "all 1 receipts"),
        ("a checkpoint alone", format!("{checkpoint}\n"), 1, "WRONG line 1: the checkpoint is of another brain"),
        (
            "a checkpoint too early",
            format!("{first}\n{checkpoint}\n"),
            1,
            "WRONG line 2: the checkpoint says that receipt 2",
        ),
        (
            "something after it",
            format!("{export}{checkpoint}\n"),
            1,
            "WRONG line 4: something stands after the checkpoint",
        ),
        (
            "a receipt twice",
            format!("{first}\n{first}\n{second}\n"),
            1,
            "WRONG line 2: its number is 1, and 2 was expected",
        ),
        ("a line that is no envelope", format!("{first}\n\nhello\n"), 1, "WRONG line 3: "),
        ("a mark of byte order", format!("\u{feff}{export}"), 1, "WRONG line 1: "),
    ];
    let python = std::env::var_os("HERM_PYTHON");
    if python.is_none() {
        let get = "pip install cryptography, and HERM_PYTHON names that Python";
        herm_untested::not_run("a stranger reads odd files of receipts", "Python with cryptography", get);
    }
    let (file, script) = (dir.path().join("tape"), concat!(env!("CARGO_MANIFEST_DIR"), "/data/verify_receipts.py"));
    for (what, content, code, says) in cases {
        std::fs::write(&file, content).expect("written");
        let path = file.to_str().expect("UTF-8");
        let run = herm.run(&["receipts", "verify", "--file", path, "--key", &key]);
        assert!(run.code == code && run.stdout.contains(says), "{what}: {run:?}");
        if let Some(python) = &python {
            let stranger = Command::new(python).args([script, path, &key]).output().expect("Python starts");
            assert_eq!(stranger.status.code(), Some(code), "{what}: {stranger:?}");
        }
    }
}
