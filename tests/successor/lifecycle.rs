//! What is left of successors, and what is not.

use std::process::Stdio;

use herm::ids::SystemRandom;
use herm::receipt::Signer;
use herm_tests::can_sandbox;
use serde_json::json;

use crate::{Bench, command, evaluation, scripted, small_patch};

const REPLIES: [&str; 2] =
    [r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#];

#[test]
fn verdicts_are_listed_shown_and_destroyed() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    assert!(bench.must(&["successor", "list"]).contains("no verdicts yet"));
    let judged = bench.judge(&small_patch(), &evaluation(json!([scripted("one", &REPLIES)])), &[]);
    let hash = judged.json["hash"].as_str().unwrap().to_owned();
    let name = &hash["sha256:".len()..][..16];
    let listed = bench.must(&["successor", "list"]);
    assert!(listed.contains(name) && listed.contains("NEEDS_REVISION"), "{listed}");
    assert!(bench.must(&["successor", "show", &name[..8]]).contains("a change under test"));
    bench.must(&["successor", "destroy", name]);
    let again = bench.herm().run(&["successor", "destroy", name]);
    assert_eq!(again.code, 4, "{again:?}");
    assert!(bench.must(&["successor", "list"]).contains("no verdicts yet"));
}

#[test]
fn a_verdict_that_was_changed_on_disk_is_not_shown_as_one() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let judged = bench.judge(&small_patch(), &evaluation(json!([scripted("one", &REPLIES)])), &[]);
    let patch = judged.directory().join("patch.json");
    let changed = std::fs::read_to_string(&patch).unwrap().replace("under test", "under suspicion");
    std::fs::write(&patch, changed).unwrap();
    let shown = bench.herm().run(&["successor", "show", judged.json["hash"].as_str().unwrap()]);
    assert!(shown.code == 7 && shown.stderr.contains("do not belong together"), "{shown:?}");
}

#[test]
fn a_verdict_json_that_is_not_the_signed_one_is_not_shown_approved_or_listed() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let judged = bench.judge(&small_patch(), &evaluation(json!([scripted("one", &REPLIES)])), &[]);
    let (hash, plain) = (judged.json["hash"].as_str().unwrap(), judged.directory().join("verdict.json"));
    let key = bench.path().join("steward.pem");
    Signer::load_or_create(&key, &SystemRandom).unwrap();
    let approve = || bench.herm().run(&["successor", "approve", hash, "--key", key.to_str().unwrap()]);
    let written = std::fs::read_to_string(&plain).unwrap();
    let refused = |what: &str| {
        for run in [bench.herm().run(&["successor", "show", hash]), approve()] {
            assert!(run.code == 7 && run.stderr.contains(what), "{run:?}");
        }
        let (code, listed) = bench.herm().json(&["successor", "list"]);
        let name = &hash["sha256:".len()..][..16];
        assert_eq!((code, &listed["verdicts"], &listed["unreadable"]), (0, &json!([]), &json!([name])), "{listed:#}");
        let run = bench.herm().run(&["successor", "list"]);
        assert!(run.stderr.contains(&format!("not readable, or changed since: {name}")), "{run:?}");
        assert!(!judged.directory().join("approval.dsse.json").exists());
    };
    std::fs::write(&plain, written.replace("\"NEEDS_REVISION\"", "\"APPROVE\"")).unwrap();
    refused("is not the verdict that was signed");
    std::fs::remove_file(&plain).unwrap();
    refused("is not the verdict that was signed");
    std::fs::write(&plain, written).unwrap();
    bench.must(&["successor", "show", hash]);
    assert!(bench.must(&["successor", "list"]).contains("NEEDS_REVISION"));
    assert_eq!(approve().code, 0);
}

#[test]
fn the_fewest_processes_that_a_budget_may_have_are_enough() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let task = json!({
        "schema": "herm/evaluation@1", "title": "of every kind", "goals": [{ "metric": "keptFacts" }],
        "parts": [
            { "kind": "compress", "name": "c", "sessions": 12 },
            { "kind": "replay", "name": "before", "last": 1 },
            { "kind": "calls", "name": "searches", "tool": "recall", "args": { "query": "vault" }, "calls": 40, "atOnce": 8 },
            scripted("one", &REPLIES),
            { "kind": "command", "name": "shell", "argv": ["/bin/sh", "-c", "echo seen | cat"] },
        ],
    });
    let swap = crate::patch(json!([{ "kind": "component", "component": "compressor", "to": "salient" }]));
    let judged = bench.judge(&swap, &task, &["--processes", "16"]);
    assert_eq!((judged.ruling(), judged.reason()), ("APPROVE", ""), "{:#}", judged.verdict());
    assert!(judged.verdict()["spent"]["processes"].as_u64().unwrap() <= 16, "{:#}", judged.verdict()["spent"]);
}

#[test]
fn a_parent_that_is_killed_leaves_nothing_that_the_janitor_does_not_remove() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let mut command_line = bench.evaluating(&small_patch(), &command("exec sleep 300"), &[]);
    let mut running = command_line.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let forks = bench.brains().join(".successor/forks");
    let alive = || {
        let entries = std::fs::read_dir(&forks).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().join("work/brains/1/memory.db").exists()).count()
    };
    while alive() < 2 {
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let swept = bench.must(&["successor", "janitor"]);
    assert!(swept.contains("removed 2 directories"), "{swept}");
    let again = bench.must(&["successor", "janitor"]);
    assert!(again.contains("removed 0 directories"), "{again}");
    bench.assert_clean();
    let forks_left = std::fs::read_dir(&forks).unwrap().flatten().filter(|entry| entry.file_name() != ".lock").count();
    assert_eq!(forks_left, 0);
    let commands = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let left: Vec<_> = commands.filter(|line| line.starts_with(b"sleep\x00300\x00")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_same_patch_and_seed_give_the_same_judgement() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let task = json!({
        "schema": "herm/evaluation@1", "title": "seeded", "seed": 7,
        "parts": [{ "kind": "compress", "name": "c", "sessions": 12 }],
        "goals": [{ "metric": "keptFacts" }]
    });
    let patch = crate::patch(json!([{ "kind": "component", "component": "compressor", "to": "salient" }]));
    let of = |judged: &crate::Judged| {
        let verdict = judged.verdict();
        let kept: Vec<_> = verdict["statistics"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["metric"] == "keptFacts")
            .cloned()
            .collect();
        (verdict["verdict"].clone(), verdict["confidence"].clone(), kept)
    };
    assert_eq!(of(&bench.judge(&patch, &task, &[])), of(&bench.judge(&patch, &task, &[])));
}

#[test]
fn where_no_sandbox_can_be_built_the_verdict_is_a_rejection() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let (patch, task) =
        (bench.file("p.json", &small_patch()), bench.file("t.json", &evaluation(json!([scripted("one", &REPLIES)]))));
    let judged = without_namespaces(crate::HERM)
        .args(["--json", "successor", "evaluate", "1", "--patch", &patch, "--task", &task])
        .env("HERM_BRAINS", bench.brains())
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&judged.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&judged.stderr)));
    assert_eq!(
        (&json["verdict"]["verdict"], &json["verdict"]["reason"]),
        (&json!("REJECT"), &json!("sandbox_unavailable")),
        "{json:#}"
    );
    assert!(json["verdict"]["walls"]["tier"].is_null());
    // The sentence says what each way to a sandbox met, and what to do.
    let said = json["verdict"]["evaluation_summary"].as_str().unwrap();
    assert!(said.starts_with("No sandbox: no sandbox can be built here: namespaces: "), "{said}");
    assert!(said.contains("; bubblewrap: ") && said.contains("allow unprivileged user namespaces (sysctl"), "{said}");
    assert!(!said.contains("os error"), "{said}");
}

/// A command in a user namespace that allows no other, as on a machine that forbids them.
fn without_namespaces(program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c"]);
    command.args(["echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"", "sh"]).arg(program);
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command
}

#[test]
fn where_no_sandbox_can_be_built_tests_that_need_one_are_named_as_not_run() {
    if !can_sandbox() {
        return;
    }
    let named = "lifecycle::the_same_patch_and_seed_give_the_same_judgement";
    let output =
        without_namespaces(std::env::current_exe().unwrap()).args([named, "--exact", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    let sentence = format!(
        "NOT RUN: {named}: needs a sandbox (apt-get install bubblewrap, or allow unprivileged user namespaces (sysctl))"
    );
    assert!(said.contains(&sentence), "{said}");
    // Where every test must run, it fails, and says the same.
    let output = without_namespaces(std::env::current_exe().unwrap())
        .args([named, "--exact", "--nocapture"])
        .env("HERM_CI", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(&format!("{named} must run here, and needs a sandbox")),
        "{said}"
    );
}

#[test]
fn groups_on_a_read_only_mount_do_not_keep_the_janitor_from_its_work() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let left = bench.brains().join(".successor/forks/herm-left");
    std::fs::create_dir_all(left.join("work/brains")).unwrap();
    let groups = bench.path().join("groups");
    std::fs::create_dir(&groups).unwrap();
    // Named before it was made, and never made: as where control groups are mounted read-only.
    let line = json!({ "cgroup": groups.join("herm-left") }).to_string();
    std::fs::write(left.join("lease"), line + "\n").unwrap();
    let script = "mount -t tmpfs -o ro none \"$0\" && exec \"$@\"";
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, groups.to_str().unwrap()])
        .args([crate::HERM, "successor", "janitor"])
        .env("HERM_BRAINS", bench.brains())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("removed 1 directories"), "{said} {output:?}");
    assert!(!left.exists());
}
