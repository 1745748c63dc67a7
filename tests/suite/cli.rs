//! The command line: results on standard output, stable JSON, exit codes that mean something.

use std::process::Stdio;

use herm_tests::{Herm, TempBrains};
use serde_json::Value;

use crate::HERM;

fn herm() -> (TempBrains, Herm) {
    let brains = TempBrains::new();
    let herm = Herm::new(HERM, &brains.path());
    (brains, herm)
}

/// Snapshots with times and places taken out.
fn settings(brains: &TempBrains) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let place = brains.path().display().to_string();
    settings.add_filter(&place.replace('.', "\\."), "[brains]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "[time]");
    settings.add_filter(r"\d+ MiB free", "[free] MiB free");
    settings.add_filter(r"SQLite \d+\.\d+\.\d+", "SQLite [version]");
    // Hashes that depend on the moment.
    settings.add_filter(r"[0-9a-f]{64}", "[digest]");
    settings.add_filter(r"\b[0-9a-f]{12}\b", "[short]");
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings
}

/// The session of a newcomer, command by command, as text and as JSON.
#[test]
fn a_tour_of_every_command() {
    let (brains, herm) = herm();
    let tour: &[&[&str]] = &[
        &["brain", "list"],
        &["init", "1"],
        &["init", "1"],
        &["brain", "list"],
        &["brain", "show", "1"],
        &["skills", "list", "1"],
        &["skills", "view", "1", "report-writing"],
        &["skills", "view", "1", "report-writing", "references/severity-rubric.md"],
        &["skills", "pin", "1", "oracle-review"],
        &["skills", "pin", "1", "oracle-review"],
        &["skills", "unpin", "1", "oracle-review"],
        &["skills", "archive", "1", "report-writing"],
        &["skills", "list", "1", "--archived"],
        &["skills", "view", "1", "report-writing"],
        &["skills", "restore", "1", "report-writing"],
        &["memory", "add", "1", "the vault holds ether"],
        &["memory", "add", "1", "the vault holds ether"],
        &["memory", "add", "1", "prefers short reports", "--target", "user"],
        &["memory", "add", "1", "the deployer is a multisig", "--fact", "deployer"],
        &["memory", "add", "1", "alice audits lending", "--subscriber", "alice"],
        &["memory", "search", "1", "multisig"],
        &["memory", "search", "1", "nothing-like-it"],
        &["memory", "show", "1"],
        &["memory", "show", "1", "--subscriber", "alice"],
        &["brain", "history", "1"],
        &["brain", "history", "1", "--limit", "1"],
        &["brain", "verify", "1"],
        &["brain", "adopt", "1"],
        &["doctor"],
        &["config", "show"],
        &["config", "schema"],
    ];
    let mut text = String::new();
    for arguments in tour {
        let run = herm.run(arguments);
        text.push_str(&format!("$ herm {}\n{}", arguments.join(" "), cut(&run.stdout)));
        for line in run.stderr.lines() {
            text.push_str(&format!("! {line}\n"));
        }
        text.push_str(&format!("= {}\n\n", run.code));
    }
    settings(&brains).bind(|| insta::assert_snapshot!("tour", text));
}

/// Long answers are content, not interface.
fn cut(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 45 {
        return text.to_owned();
    }
    format!("{}\n[{} more lines]\n", lines[..20].join("\n"), lines.len() - 20)
}

#[test]
fn every_json_document_has_stable_fields() {
    let (brains, herm) = herm();
    herm.run(&["init", "1"]);
    herm.run(&["skills", "archive", "1", "signature-review"]);
    let documents: &[&[&str]] = &[
        &["init", "2"],
        &["brain", "list"],
        &["brain", "show", "1"],
        &["brain", "verify", "1"],
        &["brain", "history", "1", "--limit", "1"],
        &["brain", "adopt", "1"],
        &["skills", "list", "1"],
        &["skills", "list", "1", "--archived"],
        &["skills", "view", "1", "oracle-review"],
        &["skills", "pin", "1", "oracle-review"],
        &["memory", "add", "1", "the vault", "--fact", "what"],
        &["memory", "search", "1", "vault"],
        &["memory", "show", "1"],
        &["config", "show"],
        &["brain", "show", "9"],
    ];
    let mut text = String::new();
    for arguments in documents {
        let (code, json) = herm.json(arguments);
        text.push_str(&format!("$ herm --json {}\n{:#}\n= {code}\n\n", arguments.join(" "), shape(&json)));
    }
    settings(&brains).bind(|| insta::assert_snapshot!("json", text));
}

/// The shape of a document: long text and long lists are content.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(items) => Value::Array(items.iter().take(2).map(shape).collect()),
        Value::String(text) if text.chars().count() > 100 => Value::from("[long text]"),
        Value::Number(number) if number.is_f64() => Value::from("[score]"),
        other => other.clone(),
    }
}

#[test]
fn the_json_of_config_schema_doctor_and_completions_is_one_document_each() {
    let (_brains, herm) = herm();
    let (code, schema) = herm.json(&["config", "schema"]);
    assert_eq!((code, schema["type"].as_str()), (0, Some("object")));
    let (code, doctor) = herm.json(&["doctor"]);
    assert_eq!((code, doctor["ok"].as_bool()), (0, Some(true)));
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = herm.json(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(script["script"].as_str().expect("a script").contains("herm"));
    }
}

#[test]
fn drift_is_named_with_exit_7_and_adopted() {
    let (brains, herm) = herm();
    herm.run(&["init", "1"]);
    let path = brains.file("1", "skills/oracle-review.md");
    let text = std::fs::read_to_string(&path).expect("a skill") + "\nOne more line.\n";
    std::fs::write(&path, text).expect("edited");
    std::fs::write(brains.file("1", "notes.txt"), "a stray file").expect("written");
    let run = herm.run(&["brain", "verify", "1"]);
    assert_eq!(run.code, 7);
    assert!(run.stdout.contains("changed: skills/oracle-review.md"), "{run:?}");
    assert!(run.stdout.contains("not part of the brain, not hashed: notes.txt"), "{run:?}");
    assert_eq!(herm.run(&["skills", "pin", "1", "oracle-review"]).code, 7);
    assert_eq!(herm.run(&["brain", "adopt", "1"]).code, 0);
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
    assert_eq!(herm.run(&["skills", "pin", "1", "oracle-review"]).code, 0);
}

#[test]
fn making_a_brain_over_another_is_a_conflict() {
    let (brains, herm) = herm();
    herm.run(&["init", "1"]);
    let from = brains.path().join("source");
    std::fs::create_dir(&from).expect("a directory");
    std::fs::write(from.join("system.md"), "another role\n").expect("written");
    let from = from.to_str().expect("UTF-8");
    assert_eq!(herm.run(&["init", "1", "--from", from]).code, 5);
    assert_eq!(herm.run(&["init", "1", "--seed", "2"]).code, 5);
    assert_eq!(herm.run(&["init", "4", "--seed", "2"]).code, 0);
    assert_eq!(herm.run(&["init", "5", "--from", from, "--expect", &"0".repeat(64)]).code, 3);
    assert_eq!(herm.run(&["init", "5", "--from", from, "--expect", "junk"]).code, 2);
    assert_eq!(herm.run(&["init", "5", "--from", from, "--manifest", "x"]).code, 2);
    assert_eq!(herm.run(&["init", "5", "--from", "/no/such/place"]).code, 4);
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
}

#[test]
fn flags_go_over_environment_over_file_over_default() {
    let (brains, herm) = herm();
    let file = brains.path().join("config.toml");
    let from_file = brains.path().join("from-file");
    std::fs::write(&file, format!("brains = {from_file:?}\nlock_wait_ms = 7\n")).expect("written");
    let run = |set: &dyn Fn(&mut std::process::Command) -> &mut std::process::Command| {
        let mut command = herm.command(&["--json", "config", "show"]);
        set(&mut command);
        let output = command.output().expect("started");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (json["brains"].as_str().expect("a path").to_owned(), json["lock_wait_ms"].as_u64().expect("a number"))
    };
    let environment = brains.path().display().to_string();
    assert_eq!(run(&|command| command.args(["--brains", "/from/flag"])), ("/from/flag".into(), 5_000));
    assert_eq!(run(&|command| command.env("HERM_CONFIG", &file)), (environment, 7));
    let only_file = run(&|command| command.env_remove("HERM_BRAINS").arg("--config").arg(&file));
    assert_eq!(only_file, (from_file.display().to_string(), 7));
    let default = run(&|command| command.env_remove("HERM_BRAINS").current_dir("/"));
    assert_eq!(default.0, brains.path().join(".local/share/herm/brains").display().to_string());
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let checkout = run(&|command| command.env_remove("HERM_BRAINS").current_dir(root));
    assert_eq!(checkout.0, "brains");

    std::fs::write(&file, "brain = 1\n").expect("written");
    let bad = herm.run(&["--config", file.to_str().expect("UTF-8"), "config", "show"]);
    assert!(bad.code == 2 && bad.stderr.contains("unknown field `brain`"), "{bad:?}");
}

#[test]
fn the_old_name_of_the_routes_is_read_with_a_remark() {
    let (brains, herm) = herm();
    herm.run(&["init", "1"]);
    let file = brains.path().join("config.toml");
    let backend = "[backends.house]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n";
    let run = |sections: &str| {
        std::fs::write(&file, format!("{backend}{sections}")).expect("written");
        herm.clone().config(&file).run(&["--json", "run", "1", "--deadline", "1", "--dry-run", "hello"])
    };
    let with = |run: &herm_tests::Run| run.stdout.contains("house");
    let (new, old) = (run("[routes]\n1 = \"house\"\n"), run("[tokens]\n1 = \"house\"\n"));
    assert!(with(&new) && !new.stderr.contains("old name"), "{new:?}");
    assert!(with(&old) && old.stderr.contains("[tokens] is now called [routes]"), "{old:?}");
    let both = run("[routes]\n1 = \"house\"\n[tokens]\n1 = \"house\"\n");
    assert!(both.code == 2 && both.stdout.contains("both [routes] and [tokens]"), "{both:?}");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let (_brains, herm) = herm();
    herm.run(&["init", "1"]);
    let mut child =
        herm.command(&["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("done");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}

#[test]
fn misuse_is_exit_2_and_help_and_version_are_results() {
    let (_brains, herm) = herm();
    for arguments in
        [&["no-such-command"][..], &["brain"], &["brain", "show"], &["-v", "-q", "doctor"], &["init", "1", "--nope"]]
    {
        let run = herm.run(arguments);
        assert!(run.code == 2 && run.stdout.is_empty(), "{run:?}");
    }
    for arguments in [&["--help"][..], &["--version"], &["skills", "--help"]] {
        let run = herm.run(arguments);
        assert!(run.code == 0 && run.stderr.is_empty() && run.stdout.contains("herm"), "{run:?}");
    }
}

#[test]
fn validating_names_the_rule_the_place_and_the_fix() {
    let (brains, herm) = herm();
    let dir = brains.path().join("lib");
    for (path, content) in [
        ("good-one/SKILL.md", "---\nname: good-one\ndescription: Does it. Use when asked.\n---\n# Good\n\nText.\n"),
        ("good-one/references/notes.md", "not a skill\n"),
        ("bad-name/SKILL.md", "---\nname: Other_Name\ndescription: d\nversion: 1\n---\nText.\n"),
        ("flat.md", "no front matter\n"),
    ] {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("written");
    }
    std::os::unix::fs::symlink("/etc", dir.join("escape")).expect("linked");
    let run = herm.run(&["skills", "validate", dir.to_str().expect("UTF-8")]);
    assert_eq!(run.code, 1);
    settings(&brains).bind(|| insta::assert_snapshot!("validate", run.stdout));
    let good = dir.join("good-one/SKILL.md");
    let run = herm.run(&["skills", "validate", good.to_str().expect("UTF-8")]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "1 checked, 0 invalid\n"));
    let (code, json) = herm.json(&["skills", "validate", dir.to_str().expect("UTF-8")]);
    assert_eq!((code, json["valid"].as_bool(), json["invalid"].as_u64()), (1, Some(false), Some(3)));
    assert_eq!(herm.run(&["skills", "validate", "/no/such/file"]).code, 4);
}

#[test]
fn the_doctor_says_what_is_wrong() {
    let (brains, herm) = herm();
    let file = brains.path().join("in-the-way");
    std::fs::write(&file, "x").expect("written");
    let run = herm.run(&["--brains", file.to_str().expect("UTF-8"), "doctor"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.starts_with("error  brains directory"), "{run:?}");
}

#[test]
fn the_doctor_warns_of_a_gate_without_stewards_only_where_something_waits_for_one() {
    let (brains, herm) = herm();
    let config = brains.path().join("herm.toml");
    let gates = |text: &str| {
        std::fs::write(&config, text).expect("written");
        let (_, said) = herm.clone().config(&config).json(&["doctor"]);
        let found = said["checks"].as_array().expect("checks").iter().find(|check| check["check"] == "gates").cloned();
        let found = found.expect("the gates");
        (
            found["level"].as_str().unwrap_or_default().to_owned(),
            found["detail"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (level, detail) = gates("");
    assert_eq!((level.as_str(), detail.contains("no stewards")), ("ok", true), "{detail}");
    for nothing in ["[successor]\napply = \"command\"\n", "[successor]\nwindow = \"2-5\"\n", "[stewards]\nkeys = []\n"]
    {
        assert_eq!(gates(nothing).0, "ok", "{nothing}");
    }
    let (level, detail) = gates("[successor]\napply = \"automatic\"\n");
    assert_eq!((level.as_str(), detail.contains("it cannot open")), ("warn", true), "{detail}");
    // Chosen by hand, a gate that nobody can open is a mistake.
    assert_eq!(gates("[successor]\ngate = \"human\"\n").0, "error");
    let key = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    let member =
        |name: &str, key: &str| format!("[mesh.members.{name}]\nkey = \"{key}\"\nurl = \"http://127.0.0.1:1\"\n");
    let other = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";
    let mesh = member("alpha", key) + &member("beta", other);
    assert_eq!(gates(&mesh).0, "warn");
    let steward = format!("[successor]\napply = \"automatic\"\n[stewards]\nkeys = [{key:?}]\n");
    assert_eq!(gates(&steward).0, "ok");
}

#[test]
fn a_result_that_cannot_be_written_is_exit_6() {
    let (_brains, herm) = herm();
    herm.run(&["init", "1"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let status = herm.command(&["--json", "brain", "show", "1"]).stdout(full).stderr(Stdio::null()).status();
    assert_eq!(status.expect("started").code(), Some(6));
}

#[test]
fn content_cannot_steer_the_terminal_or_forge_a_line() {
    let (_brains, herm) = herm();
    herm.run(&["init", "1"]);
    herm.run(&["memory", "add", "1", "marker \u{1b}[31mred\u{7} end", "--fact", "a\u{1b}b\nc"]);
    let run = herm.run(&["memory", "search", "1", "marker"]);
    assert!(run.code == 0 && !run.stdout.contains('\u{1b}') && run.stdout.lines().count() == 1, "{run:?}");
}

#[test]
fn a_broken_configuration_blocks_only_what_needs_it() {
    let (brains, herm) = herm();
    let file = brains.path().join("config.toml");
    std::fs::write(&file, "nonsense = 1\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(herm.run(&["--config", file, "config", "schema"]).code, 0);
    assert_eq!(herm.run(&["--config", file, "completions", "bash"]).code, 0);
    assert_eq!(herm.run(&["--config", file, "brain", "list"]).code, 2);
    let bare = herm.command(&["config", "schema"]).env_clear().output().expect("started");
    assert_eq!(bare.status.code(), Some(0));
}

#[test]
fn a_time_for_inline_shell_that_is_no_time_is_refused_with_the_range() {
    let (brains, herm) = herm();
    herm.run(&["init", "1"]);
    let file = brains.path().join("config.toml");
    let herm = herm.config(&file);
    for (seconds, code) in [("0", 2), ("1", 0), ("3600", 0), ("3601", 2), ("-1", 2)] {
        std::fs::write(&file, format!("[skills]\ninline_shell_timeout = {seconds}\n")).expect("written");
        let run = herm.run(&["run", "1", "--example", "vault", "--dry-run"]);
        assert_eq!(run.code, code, "{seconds}: {run:?}");
        if seconds == "0" || seconds == "3601" {
            let said = format!("inline_shell_timeout of [skills] is {seconds}, and must be 1 to 3600 seconds");
            assert!(run.stderr.contains(&said), "{run:?}");
        }
    }
}

#[test]
fn odd_places_are_answered_and_never_hang() {
    use std::os::unix::ffi::OsStrExt as _;
    let (brains, herm) = herm();
    herm.run(&["init", "1"]);
    let fifo = brains.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let fifo = fifo.to_str().expect("UTF-8");
    for (arguments, code) in [
        (&["skills", "validate", fifo][..], 1),
        (&["skills", "validate", "/dev/zero"], 1),
        (&["init", "9", "--manifest", fifo], 3),
        (&["init", "9", "--manifest", "/dev/zero"], 3),
        (&["--config", fifo, "brain", "list"], 3),
    ] {
        let run = herm.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
    }
    let database = brains.file("1", "memory.db");
    std::fs::remove_file(&database).expect("removed");
    std::fs::rename(fifo, &database).expect("moved");
    let run = herm.run(&["brain", "show", "1"]);
    assert!(run.code == 7 && run.stderr.contains("not a regular file"), "{run:?}");
    assert_eq!(herm.run(&["brain", "list"]).code, 0);

    let strange = brains.path().join(std::ffi::OsStr::from_bytes(b"strange-\xff"));
    for arguments in [&["init", "1"][..], &["--json", "brain", "show", "1"], &["config", "show"]] {
        let output = herm.command(arguments).env("HERM_BRAINS", &strange).output().expect("started");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_brains_directory_behind_a_link_works() {
    let (brains, _) = herm();
    let real = brains.path().join("real");
    std::fs::create_dir(&real).expect("a directory");
    std::os::unix::fs::symlink(&real, brains.path().join("link")).expect("linked");
    let herm = Herm::new(HERM, &brains.path().join("link"));
    assert_eq!(herm.run(&["init", "1"]).code, 0);
    assert_eq!(herm.run(&["brain", "verify", "1"]).code, 0);
}
