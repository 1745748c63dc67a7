//! `herm models`, and local models through `herm run` and `herm receipts`: as a user meets them.

use std::path::{Path, PathBuf};

use herm_tests::hub_server::{HubServer, Told};
use herm_tests::models::smollm2;
use herm_tests::{Herm, Run};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");

fn herm() -> (tempfile::TempDir, Herm) {
    let dir = tempfile::tempdir().expect("a directory");
    let herm = Herm::new(HERM, &dir.path().join("brains"));
    (dir, herm)
}

fn said(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The real model under a name of its own, in the directory where `herm` keeps models.
fn shelved(dir: &Path, model: &Path) -> PathBuf {
    let models = dir.join("brains/.models");
    std::fs::create_dir_all(&models).expect("a directory");
    std::os::unix::fs::symlink(model.canonicalize().expect("there"), models.join("small.gguf")).expect("a link");
    models
}

#[test]
fn the_models_of_this_machine_are_listed_with_what_they_take() {
    let (dir, herm) = herm();
    let none = herm.run(&["models", "list"]);
    assert_eq!((none.code, none.stdout.starts_with("no models in ")), (0, true), "{none:?}");
    let Some(model) = smollm2() else { return };
    let models = shelved(dir.path(), &model);
    std::fs::write(models.join("broken.gguf"), "GGUF, they said").expect("written");
    std::fs::write(models.join("notes.txt"), "not a model").expect("written");
    let list = herm.run(&["models", "list"]);
    assert_eq!((list.code, list.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{list:?}");
    assert_eq!(lines[0], "small  llama  134 M weights  8192 tokens  144 MiB  apache-2.0");
    assert!(lines[1].starts_with("broken cannot be used: the model file "), "{list:?}");
    let (code, json) = herm.json(&["models", "list"]);
    assert_eq!((code, json["directory"].as_str()), (0, Some(said(&models))));
    assert!(json["models"][0]["error"].as_str().is_some_and(|error| error.contains("broken.gguf")), "{json}");
    let card = &json["models"][1]["card"];
    let digest = "5f4fa13bfc6dd4a91fd00e22974a9c4e9ed628fd7d7f307398ddf30260d6b2c3";
    assert_eq!(
        *card,
        json!({
            "name": format!("small@{}", &digest[..16]), "family": "llama", "parameters": 134_515_008, "context": 8192,
            "loaded_bytes": 151_329_384, "digest": digest, "license": "apache-2.0",
        })
    );
}

#[test]
fn a_model_is_checked_by_letting_it_speak() {
    let Some(model) = smollm2() else { return };
    let (dir, herm) = herm();
    shelved(dir.path(), &model);
    let asked = ["models", "check", "small", "--ask", "What is 2+2?", "--tokens", "12"];
    let run = herm.run(&asked);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    for word in ["small@5f4fa13bfc6dd4a9", "134 M weights", "> What is 2+2?", "four", "tokens a second"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
    let (code, json) = herm.json(&["models", "check", said(&model), "--ask", "What is 2+2?", "--tokens", "12"]);
    assert_eq!(code, 0);
    assert!(json["reply"].as_str().is_some_and(|reply| reply.contains("four")), "{json}");
    assert!(json["loadSeconds"].as_f64().is_some() && json["tokensPerSecond"].as_f64().is_some(), "{json}");
}

#[test]
fn what_is_no_model_gets_a_sentence_and_an_exit_code() {
    let (dir, herm) = herm();
    let text = dir.path().join("text.gguf");
    std::fs::write(&text, "# Notes\n").expect("written");
    let cut = dir.path().join("cut.gguf");
    // A header that promises more than there is.
    std::fs::write(&cut, b"GGUF\x03\0\0\0\x09\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0").expect("written");
    let mut cases = vec![
        (vec!["models", "check", "nothing"], 4, "there is no model \"nothing\""),
        (vec!["models", "check", "/no/such.gguf"], 4, "the model file /no/such.gguf cannot be opened"),
        (vec!["models", "check", said(&text)], 2, "is not a GGUF model file"),
        (vec!["models", "check", said(dir.path())], 2, "is not a GGUF model file"),
        (vec!["models", "check", said(&cut)], 7, "is broken: header declares 9 tensors"),
        (vec!["models", "pull", "no-such"], 2, "does not name a model"),
        (vec!["models", "pull", "a/b/../c"], 2, "does not name a model"),
        (vec!["models", "pull", "a/b/c", "--sha256", "12"], 2, "a SHA-256 has 64 hexadecimal digits"),
        (vec!["models", "pull", "a/b/c", "--hub", "http://example.org"], 3, "over https alone"),
        (vec!["models", "pull", "a/b/c", "--hub", "nowhere"], 2, "the hub's address is none"),
        (vec!["models", "pull", "a/b/c", "--hub", "http://127.0.0.1:1"], 6, "does not answer"),
        (vec!["run", "1", "--backend", "local", "x"], 2, "which model of local?"),
        (vec!["run", "1", "--backend", "local", "--model", "nothing", "x"], 4, "there is no model \"nothing\""),
        (vec!["run", "1", "--backend", "local", "--model", said(&cut), "x"], 7, "is broken"),
    ];
    let real = smollm2().map(|model| {
        let half = dir.path().join("half.gguf");
        let bytes = std::fs::read(model).expect("read");
        std::fs::write(&half, &bytes[..bytes.len() / 2]).expect("written");
        half
    });
    if let Some(half) = &real {
        cases.push((vec!["models", "check", said(half)], 7, "it ends at byte"));
    }
    for (arguments, code, sentence) in cases {
        // Who wants backtraces of panics does not want them in sentences.
        let output = herm.command(&arguments).env("RUST_BACKTRACE", "1").output().expect("it starts");
        let told = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("error: ") && lines[0].contains(sentence), "{arguments:?}: {told}");
        assert!(lines.len() <= 2 && lines.get(1).is_none_or(|hint| hint.starts_with("  hint: ")), "{told}");
    }
    let (code, json) = herm.json(&["models", "check", said(&text)]);
    assert_eq!((code, json["error"]["kind"].as_str()), (2, Some("invalid_input")), "{json}");
}

/// Runs a command beside the server it talks to.
async fn beside(herm: &Herm, arguments: &[&str]) -> Run {
    let (herm, arguments) = (herm.clone(), arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let run = move || herm.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.expect("it runs")
}

#[tokio::test]
async fn a_model_is_pulled_pinned_and_never_changed_behind_the_user() {
    let Some(model) = smollm2() else { return };
    let (dir, herm) = herm();
    let bytes = std::fs::read(model).expect("read");
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let (served, tag) = (bytes.clone(), format!("\"{digest}\""));
    let hub = HubServer::start(move |asked| Told::file(&served, asked).with("etag", &tag)).await;
    let address = hub.address();
    let name = "someone/small-GGUF/small.gguf";
    let pull = ["models", "pull", name, "--hub", &address];
    let first = beside(&herm, &pull).await;
    assert_eq!((first.code, first.stderr.as_str()), (0, ""), "{first:?}");
    let size = bytes.len();
    for said in [format!("sha256 {digest}"), format!("{size} bytes, {size} of them"), "herm models check small".into()]
    {
        assert!(first.stdout.contains(&said), "{said}: {}", first.stdout);
    }
    let again = beside(&herm, &["--json", "models", "pull", name, "--hub", &address]).await;
    let json: Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!((again.code, &json["pulled"]["fetched"], &json["card"]["family"]), (0, &json!(0), &json!("llama")));
    assert_eq!(hub.sent(), size);
    let models = dir.path().join("brains/.models");
    let pins = std::fs::read_to_string(models.join("models.lock.json")).expect("written");
    assert_eq!(serde_json::from_str::<Value>(&pins).expect("JSON"), json!({ name: digest }));
    // The hub has another file now: it is refused, for the first one was noted.
    let other = HubServer::start(|asked| Told::file(b"other", asked).with("etag", format!("\"{:064x}\"", 7))).await;
    std::fs::remove_file(models.join("small.gguf")).expect("removed");
    let changed = beside(&herm, &["models", "pull", name, "--hub", &other.address()]).await;
    assert_eq!((changed.code, other.sent()), (3, 5), "{changed:?}");
    assert!(changed.stderr.contains(&format!("not {digest}")), "{changed:?}");
    // What was noted cannot be read: the hub is not believed instead.
    std::fs::write(models.join("models.lock.json"), "{").expect("written");
    let unread = beside(&herm, &pull).await;
    assert_eq!(unread.code, 7, "{unread:?}");
    assert!(unread.stderr.contains("models.lock.json is not what was written there"), "{unread:?}");
}

/// A brain that is asked for little, so that a debug build is done in seconds.
fn brain() -> (tempfile::TempDir, Herm) {
    let (dir, herm) = herm();
    let role = dir.path().join("role");
    std::fs::create_dir_all(&role).expect("a directory");
    let text = "You answer questions in one short sentence. Look things up with recall first.\n";
    std::fs::write(role.join("system.md"), text).expect("written");
    let made = herm.run(&["init", "1", "--from", said(&role)]);
    assert_eq!(made.code, 0, "{made:?}");
    (dir, herm)
}

#[test]
fn a_task_runs_on_a_file_and_the_receipt_is_replayed_by_the_model() {
    let Some(model) = smollm2() else { return };
    let (_dir, herm) = brain();
    let task = ["run", "1", "--backend", "local", "--model", said(&model), "--max-turns", "3", "What is a lighthouse?"];
    let (code, outcome) = herm.json(&task);
    assert!(code <= 1, "{code}: {outcome}");
    let spoke = outcome.to_string();
    assert!(spoke.contains("SmolLM2-135M-Instruct.Q4_1@5f4fa13bfc6dd4a9"), "{outcome}");
    assert_eq!(outcome["settled"]["version"], 2, "{outcome}");
    assert_eq!(herm.run(&["receipts", "verify", "1"]).code, 0);
    let replay = herm.run(&["receipts", "replay", "1", "2", "--speak", "local", "--model", said(&model)]);
    assert_eq!((replay.code, replay.stdout.lines().last()), (0, Some("same")), "{replay:?}");
}

#[test]
fn a_local_model_has_a_name_in_the_configuration() {
    let Some(model) = smollm2() else { return };
    let (dir, herm) = brain();
    let config = dir.path().join("herm.toml");
    let text = format!(
        "backend = \"small\"\n\n[backends.small]\nkind = \"local\"\nmodel = {:?}\nthreads = 2\ncontext_tokens = 2048\n",
        said(&model)
    );
    std::fs::write(&config, text).expect("written");
    let herm = herm.config(&config);
    let (code, outcome) = herm.json(&["run", "1", "--max-turns", "1", "--dry-run", "What is a lighthouse?"]);
    assert!(code <= 1, "{code}: {outcome}");
    assert!(outcome.to_string().contains("SmolLM2-135M-Instruct.Q4_1@"), "{outcome}");
    // A conversation that does not fit is told so, not cut.
    let text = std::fs::read_to_string(&config).expect("read").replace("2048", "64");
    std::fs::write(&config, text).expect("written");
    let (code, outcome) = herm.json(&["run", "1", "--max-turns", "1", "--dry-run", "What is a lighthouse?"]);
    assert!(code > 0, "{code}: {outcome}");
    // Threads of no model, and a setting that is none.
    std::fs::write(&config, "[backends.small]\nkind = \"local\"\nmodel = \"x\"\nthread = 2\n").expect("written");
    let run = herm.run(&["models", "list"]);
    assert!(run.code == 2 && run.stderr.contains("thread"), "{run:?}");
}
