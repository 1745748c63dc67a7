//! `herm evolve` as a person and a script use it.

use herm::skill::CreatedBy;
use herm_tests::TempBrains;
use herm_tests::brains::{skill_text, slug};
use herm_tests::command::Herm;
use serde_json::{Value, json};

use super::{START, text_of, with_evidence};

/// A command line over a brain with evidence. Its clock is the machine's, so the evidence is of now.
fn herm() -> (TempBrains, Herm) {
    let brains = TempBrains::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    brains.clock.advance_ms(now.as_millis() as i64 - 1_767_323_045_000 - 60_000);
    with_evidence(&brains, &["pump", "github-review"]).close().expect("closed");
    let herm = Herm::new(super::super::HERM, &brains.path());
    // The command signs with a key of its own; the brain's first steps were signed by the tests' key.
    (brains, herm)
}

fn ok(herm: &Herm, arguments: &[&str]) -> Value {
    let (code, value) = herm.json(arguments);
    assert_eq!(code, 0, "{arguments:?}: {value:#}");
    value
}

#[test]
fn looking_takes_no_lock_and_changes_nothing() {
    let (brains, herm) = herm();
    let holder = brains.open("1").expect("opened");
    let before = holder.lock().bundle_hash;
    let status = ok(&herm, &["evolve", "status", "1"]);
    assert_eq!(status["evidence"]["tool_events"], 6);
    let report = ok(&herm, &["evolve", "report", "1"]);
    assert_eq!(report["summary"]["error_events"], 4);
    let analyzed = ok(&herm, &["evolve", "analyze", "1", "--skill", "pump"]);
    assert_eq!(analyzed["source"], "local-agent-created");
    assert_eq!(analyzed["skill_digest"], json!(super::digest_of(&holder, "pump")));
    let found = ok(&herm, &["evolve", "candidates", "1", "--query", "pump work"]);
    assert_eq!(
        (found["mode"].clone(), found["candidates"][0]["skill_name"].clone()),
        (json!("lexical"), json!("pump"))
    );
    let planned = ok(&herm, &["evolve", "auto-run", "1"]);
    assert_eq!(planned["summary"]["planned"], 2);
    assert_eq!(ok(&herm, &["evolve", "queue", "list", "1"])["count"], 0);
    assert_eq!(holder.lock().bundle_hash, before);
}

#[test]
fn a_text_that_a_person_applies_leaves_the_skill_the_agents() {
    let (brains, herm) = herm();
    let expected = {
        let brain = brains.open("1").expect("opened");
        super::digest_of(&brain, "pump").to_string()
    };
    let outside = tempfile::tempdir().expect("a directory");
    let content = outside.path().join("reviewed.md");
    std::fs::write(&content, skill_text("pump", "A person's words.")).expect("written");
    let content = content.to_string_lossy();
    let applied = ok(
        &herm,
        &[
            "evolve",
            "apply",
            "1",
            "--target",
            "pump",
            "--content",
            &content,
            "--expected-digest",
            &expected,
            "--approve",
        ],
    );
    assert_eq!((&applied["applied"], &applied["skill"]), (&json!(true), &json!("pump")), "{applied:#}");
    let brain = brains.open("1").expect("opened");
    assert!(text_of(&brain, "pump").contains("A person's words."));
    assert_eq!(brain.usage().expect("usage")[&slug("pump")].created_by, CreatedBy::Agent);
    let changes = brain.evolver_rows().changes(None).expect("changes");
    assert_eq!(changes[0].manifest["by"], "operator");
    assert_eq!(changes[0].manifest.get("unattended"), None, "a person looked at it");
}

#[test]
fn rankers_that_are_not_there_are_said_to_be_missing_and_the_order_stands() {
    let (_brains, herm) = herm();
    let plan = ok(&herm, &["evolve", "candidates", "1", "--query", "pump", "--semantic"]);
    assert_eq!((plan["mode"].clone(), plan["executed"].clone()), (json!("semantic-plan"), json!(false)));
    // Only what is configured is named.
    assert_eq!((plan["rankers"].clone(), plan["models"].clone()), (json!(["lexical"]), json!([])));
    let ranked = ok(&herm, &["evolve", "candidates", "1", "--query", "pump", "--execute-semantic"]);
    assert_eq!((ranked["mode"].clone(), ranked["executed"].clone()), (json!("ranked"), json!(true)));
    let both = ok(&herm, &["evolve", "candidates", "1", "--query", "pump", "--execute-semantic", "--rerank"]);
    assert_eq!(both["mode"], "ranking-unavailable");
    let run = ok(&herm, &["evolve", "auto-run", "1", "--semantic-candidates", "--rerank-candidates"]);
    assert_eq!(run["selection"]["fallback"], "deterministic-evidence");
    assert!(run["selection"]["error"].as_str().expect("an error").contains("reranker"));
    assert_eq!(run["selection"]["rankers"], json!(["lexical"]));
    assert_eq!(run["safety"]["model_executed"], false, "words in common are no model");
    let query = run["selection"]["query_preview"].as_str().expect("a query");
    assert!(query.contains("events=3") && query.contains("terminal failed: connection refused"), "{query}");
}

#[test]
fn a_change_goes_from_proposal_to_apply_drill_and_rollback_with_exit_codes() {
    let (brains, herm) = herm();
    let proposal = brains.path().join("proposal.json");
    let output = proposal.to_str().expect("UTF-8");
    let made = ok(&herm, &["evolve", "propose", "1", "--skill", "pump", "--output", output]);
    assert_eq!(made["mutation_allowed"], false);
    assert!(ok(&herm, &["evolve", "verify", "1", "--proposal", output])["passed"].as_bool().expect("a verdict"));
    let mut forged = made.clone();
    forged["mutation_allowed"] = json!(true);
    forged["proposed_actions"][0]["description"] = json!("Delete the old steps.");
    std::fs::write(&proposal, forged.to_string()).expect("written");
    let other = herm.json(&["evolve", "verify", "1", "--proposal", output, "--skill", "flat-one"]);
    assert_eq!((other.0, other.1["checks"]["skill_matches"].clone()), (1, json!(false)));
    let (code, verdict) = herm.json(&["evolve", "verify", "1", "--proposal", output]);
    assert_eq!((code, verdict["failures"].as_array().expect("failures").len()), (1, 2), "{verdict:#}");

    let digest = made["skill_digest"].as_str().expect("a digest").to_owned();
    let content = brains.path().join("new.md");
    std::fs::write(&content, herm_tests::brains::skill_text("pump", "Better steps.")).expect("written");
    let content = content.to_str().expect("UTF-8");
    let apply = |digest: &str, more: &[&str]| {
        let mut arguments =
            vec!["evolve", "apply", "1", "--target", "pump", "--content", content, "--expected-digest", digest];
        arguments.extend(more);
        herm.json(&arguments)
    };
    assert_eq!(apply(&digest, &[]).0, 3, "nobody approved it");
    assert_eq!(apply(&"0".repeat(64), &["--approve"]).0, 5, "another text");
    assert_eq!(apply("not a digest", &["--approve"]).0, 2);
    let (code, failed) = apply(&digest, &["--approve", "--staged-verify", "--verify-command", "exit 9"]);
    assert_eq!((code, failed["verify"]["failed_stage"].clone()), (1, json!("verify-command")));
    let (code, applied) = apply(&digest, &["--approve", "--pre-verify-command", "true", "--verify-command", "true"]);
    assert_eq!((code, applied["applied"].clone()), (0, json!(true)), "{applied:#}");
    let step = applied["manifest"].to_string();
    let (code, again) = apply(&digest, &["--approve"]);
    assert_eq!((code, again["reason"].clone()), (0, json!("unchanged")), "it says that already");
    assert_eq!(ok(&herm, &["evolve", "drill", "1", "--manifest", &step])["status"], "pass");
    assert_eq!(herm.json(&["evolve", "drill", "1", "--manifest", "1"]).0, 4);
    assert_eq!(ok(&herm, &["evolve", "rollback", "1", "--manifest", &step])["rolled_back"], true);
    assert_eq!(ok(&herm, &["evolve", "report", "1"])["outcomes"][0]["manifest"].to_string(), step);
}

#[test]
fn a_pass_writes_only_with_both_words_and_holds_on_request() {
    let (brains, herm) = herm();
    let (code, run) = herm.json(&["evolve", "auto-run", "1", "--apply-low-risk"]);
    assert_eq!((code, run["summary"]["applied"].clone()), (3, json!(0)));
    assert_eq!(ok(&herm, &["evolve", "status", "1"])["passedAt"], Value::Null, "a refused pass is none");
    let held = ok(&herm, &["evolve", "auto-run", "1", "--hold", "--no-protect-core-skills"]);
    assert_eq!(held["summary"]["pending"], 2);
    let queue = ok(&herm, &["evolve", "queue", "list", "1"]);
    let of = |skill: &str| {
        let mut entries = queue["queue"].as_array().expect("entries").iter();
        let entry = entries.find(|entry| entry["target_skill"] == skill).expect("one of this skill");
        entry["id"].as_str().expect("an id").to_owned()
    };
    let entry = of("pump");
    let shown = herm.run(&["evolve", "queue", "show", "1", &entry[..8]]);
    assert!(shown.stdout.contains("+<!-- curator-evolver:auto:start -->"), "{}", shown.stdout);
    assert_eq!(ok(&herm, &["evolve", "queue", "accept", "1", &entry[..8]])["done"], true);
    let other = of("github-review");
    ok(&herm, &["evolve", "queue", "reject", "1", &other]);
    assert_eq!(herm.json(&["evolve", "queue", "reject", "1", &other]).0, 5);
    assert_eq!(herm.json(&["evolve", "queue", "accept", "1", "zz"]).0, 4);
    // What a person rejected is not written by itself either.
    let write = ["evolve", "auto-run", "1", "--apply-low-risk", "--approve-auto-apply"];
    let mut allowed = write.to_vec();
    allowed.extend(["--allow-auto-apply-skill", "github-*"]);
    assert_eq!(ok(&herm, &allowed)["summary"]["applied"], 0);
    let brain = brains.open("1").expect("opened");
    assert!(text_of(&brain, "pump").contains(START) && !text_of(&brain, "github-review").contains(START));
}

#[test]
fn a_drill_that_fails_says_so_and_keeps_unattended_changes_away() {
    let (brains, herm) = herm();
    let write = ["evolve", "auto-run", "1", "--apply-low-risk", "--approve-auto-apply", "--require-restore-drill"];
    let first = ok(&herm, &write);
    let mut tried = first["candidates"].as_array().expect("some").iter();
    let step = tried.find_map(|one| one["apply_result"]["manifest"].as_i64()).expect("one is applied").to_string();
    let database = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
    database.execute_batch("UPDATE blobs SET content = x'00'").expect("done");
    drop(database);
    let outside = tempfile::tempdir().expect("a directory");
    let into = outside.path().join("drilled");
    let path = into.to_str().expect("UTF-8");
    let (code, drilled) = herm.json(&["evolve", "drill", "1", "--manifest", &step, "--into", path]);
    assert_eq!((code, drilled["status"].clone()), (1, json!("fail")), "{drilled:#}");
    let mut open = write.to_vec();
    open.push("--no-protect-core-skills");
    let (_, run) = herm.json(&open);
    let reasons: Vec<&str> =
        run["candidates"].as_array().expect("some").iter().filter_map(|one| one["reason"].as_str()).collect();
    assert!(reasons.contains(&"restore-drill-required: restore-drill-failed"), "{reasons:?}");
}

#[test]
fn observations_are_mined_from_lines_and_bad_lines_are_named() {
    let (brains, herm) = herm();
    let lines = brains.path().join("seen.jsonl");
    std::fs::write(
        &lines,
        "{\"text\":\"error: the build failed\",\"tool_name\":\"make\"}\nnot json\n{\"text\":\"merged PR #4\"}\n",
    )
    .expect("written");
    let path = lines.to_str().expect("UTF-8");
    let (code, mined) = herm.json(&["evolve", "mine", "1", "--input", path]);
    assert_eq!((code, mined["inserted"].clone(), mined["bad"][0]["line"].clone()), (1, json!(1), json!(2)));
    let (_, again) = herm.json(&["evolve", "mine", "1", "--input", path]);
    assert_eq!((again["inserted"].clone(), again["duplicates"].clone()), (json!(0), json!(1)));
    let dry = ok(&herm, &["evolve", "mine", "1", "--dry-run"]);
    assert_eq!((dry["inserted"].clone(), dry["dryRun"].clone()), (json!(2), json!(true)));
    let own = ok(&herm, &["evolve", "mine", "1"]);
    assert_eq!(own["inserted"], 2, "one kind of failure of each skill: {own:#}");
    assert_eq!(ok(&herm, &["evolve", "queue", "list", "1", "--kind", "replay_benchmark"])["count"], 3);
}

#[test]
fn a_skill_that_nobody_knows_is_said_to_be_unknown() {
    let (_brains, herm) = herm();
    for command in ["analyze", "propose"] {
        let (code, answer) = herm.json(&["evolve", command, "1", "--skill", "nope"]);
        assert_eq!((code, answer["error"]["kind"].clone()), (4, json!("not_found")), "{command}");
    }
    let analyzed = ok(&herm, &["evolve", "analyze", "1", "--skill", "pump"]);
    assert_eq!(analyzed["summary"]["session_events"], 1, "only those of the skill");
}

#[test]
fn what_the_configuration_keeps_out_stays_out_and_off_is_off() {
    let (brains, herm) = herm();
    let config = brains.path().join("herm.toml");
    let path = config.to_str().expect("UTF-8");
    std::fs::write(&config, "[evolver]\nblock = [\"p*\"]\n").expect("written");
    let run = ok(&herm, &["--config", path, "evolve", "auto-run", "1", "--apply-low-risk", "--approve-auto-apply"]);
    assert_eq!(run["summary"]["applied"], 0, "{run:#}");
    std::fs::write(&config, "[evolver]\nmode = \"off\"\n").expect("written");
    assert_eq!(herm.json(&["--config", path, "evolve", "install-auto", "1"]).0, 3);
}

#[test]
fn without_a_model_there_is_no_draft_and_the_proposal_stands() {
    let (_brains, herm) = herm();
    let (code, made) = herm.json(&["evolve", "propose", "1", "--skill", "pump", "--draft-with-model"]);
    assert_eq!((code, made["model_draft"]["executed"].clone()), (6, json!(false)));
    assert!(made["model_draft"]["error"].as_str().expect("why").contains("no language model"));
}

#[test]
fn a_timer_is_written_as_asked_and_taken_away() {
    let (brains, herm) = herm();
    let made = ok(
        &herm,
        &[
            "evolve",
            "install-auto",
            "1",
            "--schedule",
            "hourly",
            "--verify-command",
            "grep -q \"100%\" x",
            "--block-auto-apply-skill",
            "a*",
            "--min-evidence",
            "7",
        ],
    );
    let command: Vec<&str> =
        made["command"].as_array().expect("words").iter().map(|word| word.as_str().expect("text")).collect();
    assert!(command.contains(&"--apply-low-risk") && command.contains(&"--approve-auto-apply"));
    assert!(command.contains(&"--verify-command=grep -q \"100%\" x"), "{command:?}");
    assert!(command.contains(&"--min-evidence=7"), "{command:?}");
    assert_eq!(herm.json(&["evolve", "install-auto", "1", "--min-evidence", "0"]).0, 2);
    assert!(command.contains(&"--staged-verify") && command.contains(&"--block-auto-apply-skill=a*"), "{command:?}");
    // The timer looks at the brains that are meant here, wherever it is started.
    let at = command.iter().position(|word| *word == "--brains").expect("named");
    assert_eq!(std::path::Path::new(command[at + 1]), brains.path());
    let paths: Vec<String> =
        made["paths"].as_array().expect("paths").iter().map(|path| path.as_str().expect("text").to_owned()).collect();
    assert!(paths.iter().all(|path| std::path::Path::new(path).starts_with(brains.path())));
    let verify = std::process::Command::new("systemd-analyze").arg("--user").arg("verify").args(&paths).output();
    match verify {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!said.contains(".service:") && !said.contains(".timer:"), "{said}");
        }
        Err(_) => {
            herm_untested::not_run("systemd accepts an installed timer", "systemd-analyze", "apt-get install systemd")
        }
    }
    let gone = ok(&herm, &["evolve", "uninstall-auto", "1", "--keep-enabled"]);
    assert_eq!(gone["removed"].as_array().expect("files").len(), paths.len());
    assert!(paths.iter().all(|path| !std::path::Path::new(path).exists()));
    let ranked = ok(&herm, &["evolve", "install-auto", "1", "--rerank-candidates", "--no-protect-core-skills"]);
    let words = ranked["command"].as_array().expect("words");
    assert!(words.contains(&json!("--rerank-candidates")) && words.contains(&json!("--no-protect-core-skills")));
    assert_eq!(herm.json(&["evolve", "install-auto", "7"]).0, 4, "no such brain");
    assert_eq!(herm.json(&["evolve", "install-auto", "1", "--schedule", "whenever"]).0, 2);
}

#[test]
fn bootstrap_takes_in_sessions_and_writes_the_timer() {
    let (brains, herm) = herm();
    let dir = brains.path().join("sessions");
    std::fs::create_dir(&dir).expect("made");
    let record = json!({ "session_id": "s", "messages": [
        { "role": "assistant", "tool_calls": [{ "id": "1", "function": { "name": "terminal", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "1", "content": "ok" },
    ]});
    std::fs::write(dir.join("session_s.json"), record.to_string()).expect("written");
    let sessions = dir.to_str().expect("UTF-8");
    let made = ok(&herm, &["evolve", "bootstrap", "1", "--sessions-dir", sessions, "--proposal-only", "--no-enable"]);
    assert_eq!(made["backfill"]["tool_events"], 1);
    assert!(made["command"].as_array().expect("words").contains(&json!("--hold")));
    assert_eq!(made["auto_timer"]["paths"].as_array().expect("files").len(), 2);
    // Without a name, the sessions are looked for where they usually are.
    let none = ok(&herm, &["evolve", "bootstrap", "1", "--proposal-only", "--no-enable"]);
    assert_eq!(none["backfill"], Value::Null);
    let usual = brains.path().join(".hermes/sessions");
    std::fs::create_dir_all(&usual).expect("made");
    let second = record.to_string().replace("\"s\"", "\"second\"");
    std::fs::write(usual.join("session_second.json"), second).expect("written");
    let made = ok(&herm, &["evolve", "bootstrap", "1", "--proposal-only", "--no-enable", "--min-evidence", "4"]);
    assert_eq!(
        (made["backfill"]["tool_events"].clone(), made["backfill"]["sessions_dir"].clone()),
        (json!(1), json!(usual))
    );
    assert!(made["command"].as_array().expect("words").contains(&json!("--min-evidence=4")));
    assert_eq!(ok(&herm, &["evolve", "backfill", "1"])["duplicates"], 1);
    let (code, missing) = herm.json(&["evolve", "backfill", "1", "--sessions-dir", "/no/such/place"]);
    assert_eq!((code, missing["error"]["kind"].clone()), (4, json!("not_found")));
}
