//! A role's own program says how good an answer is. The program runs in a real sandbox; one that hangs, crashes, forks, floods
//! or lies says nothing about the answer, and the task is never lost.

use herm_tests::can_sandbox;
use herm_tests::model_server::{ModelServer, Step};
use herm_tests::operator::Operator;
use serde_json::{Value, json};

use crate::HERM;

const QUESTION: &str = "Where is the lamp?";

/// A model that looks the lamp up, and answers with its box.
fn model() -> ModelServer {
    ModelServer::answering(|request| {
        let said = request.body["messages"].as_array().map_or(0, Vec::len);
        Step::chat(match said {
            0..=2 => r#"{"tool": "recall", "args": {"query": "lamp"}}"#,
            _ => r#"{"answer": "box 12"}"#,
        })
    })
}

/// An operator whose agent 7 has these checks, and a program at `tools/verify` if there is one.
fn operator(checks: &str, program: Option<&str>) -> Operator {
    let model = model();
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_model(model);
    let from = operator.path().join("agent");
    std::fs::create_dir_all(from.join("tools")).expect("a directory");
    std::fs::write(from.join("system.md"), format!("---\nchecks:\n{checks}---\nYou find things.\n")).expect("a role");
    let manifest = r#"{ "schema": "herm/manifest@1", "name": "FINDER", "tools": ["recall"] }"#;
    std::fs::write(from.join("manifest.json"), manifest).expect("a manifest");
    if let Some(program) = program {
        std::fs::write(from.join("tools/verify"), program).expect("a program");
    }
    let run = operator.herm().run(&["init", "7", "--from", from.to_str().expect("UTF-8")]);
    assert_eq!(run.code, 0, "{run:?}");
    operator
}

/// Runs the task. Whatever the program did, the answer stands, the step is settled and the brain is sound.
fn outcome(operator: &Operator) -> Value {
    let (code, outcome) = operator.herm().json(&["run", "7", QUESTION]);
    assert_eq!((code, &outcome["status"]), (0, &json!("converged")), "{outcome}");
    assert_eq!((&outcome["answer"], &outcome["settled"]["version"]), (&json!(r#"{"answer": "box 12"}"#), &json!(2)));
    let verified = operator.herm().run(&["brain", "verify", "7"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    outcome["outcome"].clone()
}

/// What the program's word comes to: the value, and why if it is unknown or bad.
fn said(program: &str) -> (Value, String) {
    let operator = operator("  - program: tools/verify\n", Some(program));
    let outcome = outcome(&operator);
    let [source] = outcome["sources"].as_array().expect("sources").as_slice() else { panic!("{outcome}") };
    assert_eq!((&source["source"], &source["value"]), (&json!("verifier"), &outcome["value"]));
    let left = std::fs::read_dir(herm::successor::forks(&herm::Layout::new(operator.brains()))).expect("sandboxes");
    let names: Vec<_> = left.flatten().map(|entry| entry.file_name()).filter(|name| name != ".lock").collect();
    assert!(names.is_empty(), "the sandbox leaves {names:?}");
    (outcome["value"].clone(), source["note"].as_str().unwrap_or_default().to_owned())
}

fn shell(script: &str) -> (Value, String) {
    said(&format!("#!/bin/sh\n{script}\n"))
}

/// Processes of this machine whose arguments have this word.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("a /proc").flatten();
    let arguments = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    arguments.filter(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())).count()
}

#[test]
fn a_program_says_good_bad_or_how_good() {
    if !can_sandbox() {
        return;
    }
    for (script, value, note) in [
        ("echo good", json!("good"), ""),
        ("echo bad", json!("bad"), "tools/verify says so"),
        ("printf ' 0.7 '", json!(0.7), ""),
        ("echo 1", json!("good"), ""),
        ("echo 0", json!(0.0), ""),
    ] {
        assert_eq!(shell(script), (value, note.to_owned()), "{script}");
    }
}

#[test]
fn a_program_reads_the_question_the_answer_and_the_calls() {
    if !can_sandbox() {
        return;
    }
    let has = |part: &str| shell(&format!("grep -qF '{part}' && echo good || echo bad")).0;
    for part in [
        r#""question":"Where is the lamp?""#,
        r#""answer":{"answer":"box 12"}"#,
        r#""tool":"recall""#,
        r#""args":{"query":"lamp"}"#,
        r#""status":"ok""#,
    ] {
        assert_eq!(has(part), json!("good"), "{part}");
    }
    assert_eq!(has("box 13"), json!("bad"));
}

#[test]
fn a_program_that_says_anything_else_says_nothing_about_the_answer() {
    if !can_sandbox() {
        return;
    }
    for (script, why) in [
        ("echo GOOD", "tools/verify: it said \"GOOD\", and not good, bad or 0 to 1"),
        ("echo good; echo bad", "tools/verify: it said \"good\\nbad\""),
        ("echo 1.5", "it said \"1.5\""),
        ("echo -1", "it said \"-1\""),
        ("echo NaN", "it said \"NaN\""),
        ("true", "it said \"\""),
        ("printf '\\377\\000\\200\\033[31m'", "it said "),
        // It lies: what a program said that failed does not count.
        ("echo good; exit 1", "the program tools/verify left with code 1"),
        ("echo good; kill -SEGV $$", "the program tools/verify was ended by signal 11"),
    ] {
        let (value, note) = shell(script);
        assert!(value == "unknown" && note.contains(why), "{script}: {value} {note:?}");
        assert!(note.chars().all(|c| !c.is_control()), "{note:?}");
    }
    let (value, note) = said("neither a script nor a program");
    assert!(value == "unknown" && note.starts_with("tools/verify: the program "), "{note:?}");
}

#[test]
fn a_program_that_floods_its_output_is_ended_at_the_bound() {
    if !can_sandbox() {
        return;
    }
    let (value, note) = shell("exec yes good");
    assert_eq!(value, json!("unknown"));
    assert!(note.contains("was ended: it may use 1048576"), "{note}");
    // A secret that it prints is no part of the note.
    let (_, note) = shell("echo sk-ant-abcdefghijklmnopqrstuvwxyz0123");
    assert!(note.contains("it said") && !note.contains("sk-ant-abc"), "{note}");
}

#[test]
fn what_a_program_started_does_not_outlive_it() {
    if !can_sandbox() {
        return;
    }
    let (value, note) = shell("sleep 41971 >/dev/null 2>&1 &\nsetsid sleep 41971 >/dev/null 2>&1 &\necho good");
    assert_eq!((value, note.as_str()), (json!("good"), ""));
    assert_eq!(running("41971"), 0);
}

/// The bound is ten seconds: this test takes them.
#[test]
fn a_program_that_hangs_is_ended_after_ten_seconds_with_all_it_started() {
    if !can_sandbox() {
        return;
    }
    let began = std::time::Instant::now();
    // Children hold its output open.
    let (value, note) = shell("setsid sleep 41972 &\nsleep 41972");
    assert_eq!(value, json!("unknown"));
    assert!(note.contains("the program tools/verify was ended: it may use"), "{note}");
    let took = began.elapsed().as_secs();
    assert!((10..40).contains(&took), "{took} s");
    assert_eq!(running("41972"), 0);
}

#[test]
fn a_program_that_is_not_there_is_named_and_a_check_that_fails_decides_before_it() {
    let missing = operator("  - program: tools/verify\n", None);
    let outcome_of_missing = outcome(&missing);
    assert_eq!(outcome_of_missing["value"], "unknown");
    assert_eq!(outcome_of_missing["sources"][0]["note"], "tools/verify: there is no such file in the brain");
    for (checks, value) in [
        ("  - program: tools/verify\n  - contains: box 99\n", "bad"),
        ("  - program: tools/verify\n  - contains: box 12\n", "unknown"),
        ("  - program: ../../etc/passwd\n", "unknown"),
    ] {
        assert_eq!(outcome(&operator(checks, None))["value"], value, "{checks}");
    }
}
