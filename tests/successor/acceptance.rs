//! Every acceptance criterion of the specification and every row of its table of boundaries, by name.

use herm_tests::can_sandbox;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::{Bench, command, evaluation, patch, scripted, small_patch};

/// Every file below a directory with its content, but what successors and the lock files leave.
fn everything(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, top: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            if [".successor", ".locks"].iter().any(|left_out| name.ends_with(left_out)) {
                continue;
            }
            if path.is_dir() {
                walk(&path, top, found);
            } else {
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, &mut found);
    found
}

#[test]
fn a_successor_can_be_spawned_from_a_running_instance_in_under_30_seconds() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let mut server = bench.herm().command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(first.starts_with("listening"), "{first}");
    // The whole of spawning, evaluating and judging has 30 seconds; crossing them would be the reason.
    let judged = bench.judge(&small_patch(), &evaluation(json!([scripted("one", &REPLIES)])), &["--wall", "30"]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(judged.reason(), "", "{:?}", judged.json);
    assert_eq!(judged.verdict()["walls"]["tier"], "namespaces");
    assert!(judged.verdict()["walls"]["canary"].as_array().unwrap().len() >= 12);
    bench.assert_clean();
}

const REPLIES: [&str; 2] =
    [r#"{"tool":"outline","args":{}}"#, r#"{"summary":"seen","findings":[],"checked":[],"limits":[]}"#];

#[test]
fn a_successor_cannot_modify_parent_state_filesystem_or_identity() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let before = everything(&bench.brains());
    let key = bench.brains().join(".keys/receipts.pem");
    let script = format!(
        "for f in {brains}/1/system.md {brains}/1/memory.db {key} /etc/passwd /usr/bin/owned /home/owned /root/owned; do \
           if echo owned > \"$f\"; then echo \"wrote $f\" >> /work/artifacts/wrote; fi; done 2>/dev/null; \
         if cat {key} 2>/dev/null; then exit 9; fi; \
         test ! -e /work/artifacts/wrote",
        brains = bench.brains().display(),
        key = key.display(),
    );
    let judged = bench.judge(&small_patch(), &command(&format!("mkdir -p /work/artifacts; {script}")), &[]);
    assert_eq!(judged.verdict()["checks"]["patchedPassed"], 1, "{:?}", judged.samples("patched"));
    let after = everything(&bench.brains());
    let changed: Vec<&String> =
        before.keys().chain(after.keys()).filter(|name| before.get(*name) != after.get(*name)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert!(bench.must(&["receipts", "verify", "1"]).contains("1"));
}

#[test]
fn a_successor_returns_a_structured_verdict_with_confidence_score_and_artifacts() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let judged = bench.judge(&small_patch(), &evaluation(json!([scripted("one", &REPLIES)])), &[]);
    let verdict = judged.verdict();
    for field in [
        "verdict",
        "confidence",
        "patch_hash",
        "evaluation_hash",
        "evaluation_summary",
        "caveats",
        "artifacts",
        "base",
        "identity",
        "budget",
        "spent",
        "walls",
        "seed",
        "checks",
        "statistics",
    ] {
        assert!(!verdict[field].is_null(), "{field}");
    }
    assert!((0.0..=1.0).contains(&verdict["confidence"].as_f64().unwrap()));
    assert!(verdict["patch_hash"].as_str().unwrap().starts_with("sha256:"));
    let artifacts = verdict["artifacts"].as_array().unwrap();
    assert!(artifacts.iter().any(|artifact| artifact["type"] == "report"));
    for artifact in artifacts {
        let content = std::fs::read(judged.directory().join(artifact["path"].as_str().unwrap())).unwrap();
        assert_eq!(content.len() as u64, artifact["bytes"].as_u64().unwrap());
        assert_eq!(herm::ids::sha256(&content), artifact["sha256"].as_str().unwrap());
    }
    // The key that signs receipts signs it, over all of it.
    let shown: Value = bench.herm().json(&["successor", "show", &judged.json["hash"].as_str().unwrap()[..20]]).1;
    let key: herm::receipt::PublicKey = bench.must(&["receipts", "key"]).trim().parse().unwrap();
    let envelope = herm::receipt::Envelope::parse(&shown["envelope"].to_string()).unwrap();
    let opened = herm::successor::Verdict::open(&envelope, &key).unwrap();
    assert_eq!(serde_json::to_value(&opened).unwrap(), *verdict);
}

#[test]
fn budget_enforcement_auto_terminates_runaway_successors() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let judged = bench.judge(&small_patch(), &command("trap '' TERM INT HUP; while :; do :; done"), &["--wall", "4"]);
    assert_eq!((judged.ruling(), judged.reason(), judged.code), ("REJECT", "budget_wall", 1), "{:?}", judged.json);
    bench.assert_clean();
}

#[test]
fn the_demo_patch_that_swaps_the_context_compressor_is_evaluated_end_to_end() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let seed = |name: &str| format!("{}/../seed/{name}", env!("CARGO_MANIFEST_DIR"));
    let (code, json) = bench.herm().json(&[
        "successor",
        "evaluate",
        "1",
        "--patch",
        &seed("patches/compressor.json"),
        "--task",
        &seed("evaluations/compress.json"),
    ]);
    let verdict = &json["verdict"];
    assert_eq!((code, verdict["verdict"].as_str()), (0, Some("APPROVE")), "{verdict:#}");
    let kept = verdict["statistics"].as_array().unwrap().iter().find(|one| one["metric"] == "keptFacts").unwrap();
    assert_eq!((kept["pairs"].as_u64(), kept["direction"].as_str()), (Some(100), Some("better")));
    let report = std::fs::read_to_string(Path::new(json["directory"].as_str().unwrap()).join("report.html")).unwrap();
    assert!(report.contains("APPROVE") && report.contains("<svg") && !report.contains("<script"));
    // A positive verdict applies nothing.
    assert!(!bench.brains().join("1/tuning.json").exists());
}

#[test]
fn live_state_store_is_a_read_only_copy() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let before = bench.must(&["brain", "show", "1"]);
    // The successor may do with its copy what it likes.
    let judged = bench.judge(&small_patch(), &command("rm -rf /work/brains/1 && test ! -e /work/brains/1"), &[]);
    assert_eq!(judged.verdict()["checks"]["patchedPassed"], 1);
    assert_eq!(bench.must(&["brain", "show", "1"]), before);
    bench.must(&["brain", "verify", "1"]);
}

#[test]
fn live_tool_registry_is_a_temporary_copy() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let swap = patch(json!([{ "kind": "tool", "name": "outline", "use": "scan" }]));
    let judged = bench.judge(&swap, &evaluation(json!([scripted("one", &REPLIES)])), &[]);
    assert_eq!(judged.reason(), "", "{:?}", judged.json);
    let (_, run) = bench.herm().json(&["run", "1", "--example", "vault", "--dry-run"]);
    let outlined = run["calls"].as_array().unwrap().iter().find(|call| call["tool"] == "outline").unwrap();
    assert!(outlined["summary"].as_str().unwrap().contains("Solidity"), "{outlined}");
}

#[test]
fn network_of_proprietary_apis_is_blocked() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    host.set_nonblocking(true).unwrap();
    let port = host.local_addr().unwrap().port();
    let reach = |address: &str, port: u16| format!("if echo hi > /dev/tcp/{address}/{port}; then exit 7; fi;");
    let script = format!(
        "exec 2>/dev/null; {} {} {} exit 0",
        reach("127.0.0.1", port),
        reach("169.254.169.254", 80),
        reach("1.1.1.1", 443)
    );
    let task = evaluation(json!([{ "kind": "command", "name": "net", "argv": ["/bin/bash", "-c", script] }]));
    let judged = bench.judge(&small_patch(), &task, &[]);
    assert_eq!(judged.verdict()["checks"]["patchedPassed"], 1, "{:?}", judged.samples("patched"));
    assert!(host.accept().is_err(), "somebody knocked");
}

#[test]
fn network_of_localhost_tests_is_allowed() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let script = "use IO::Socket::INET; \
        my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or exit 2; \
        if (my $pid = fork) { my $c = $s->accept or exit 3; my $l = <$c>; exit($l eq \"hi\\n\" ? 0 : 4) } \
        my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $s->sockport) or exit 5; print $c \"hi\\n\";";
    let task = evaluation(json!([{ "kind": "command", "name": "net", "argv": ["/usr/bin/perl", "-e", script] }]));
    let judged = bench.judge(&small_patch(), &task, &[]);
    assert_eq!(judged.verdict()["checks"]["patchedPassed"], 1, "{:?}", judged.samples("patched"));
}

#[test]
fn the_identity_key_is_not_there() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let pem = std::fs::read_to_string(bench.brains().join(".keys/receipts.pem")).unwrap();
    let secret = pem.lines().nth(1).unwrap().to_owned();
    // Neither as a file, nor in the environment, nor in any process that can be seen.
    let script = format!(
        "! grep -rqs '{secret}' /work /tmp /proc/[0-9]*/environ && \
         test -z \"$HERM_BRAINS$HOME$HERM_CONFIG\""
    );
    let mut command_line = bench.evaluating(&small_patch(), &command(&script), &[]);
    let output = command_line.env("ANTHROPIC_API_KEY", &secret).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"]["checks"]["patchedPassed"], 1, "{json:#}");
}

#[test]
fn user_messages_do_not_reach_a_successor() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::new();
    let waiting =
        command("for i in $(seq 1 100); do test -e /work/go && break; sleep 0.1; done; ! grep -rq zanzibar /work");
    let mut running =
        bench.evaluating(&small_patch(), &waiting, &["--wall", "120"]).stdout(Stdio::piped()).spawn().unwrap();
    let forks = bench.brains().join(".successor/forks");
    // Both copies are there: from here on the parent goes its own way.
    let copies = || {
        let entries = std::fs::read_dir(&forks).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().join("work/brains/1/bundle.lock.json").exists()).count()
    };
    while copies() < 2 && running.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    bench.must(&["memory", "add", "1", "the subscriber went to zanzibar"]);
    for entry in std::fs::read_dir(&forks).unwrap().flatten() {
        // The copy may be gone already where the evaluation was quicker than this test.
        let _ = std::fs::write(entry.path().join("work/go"), "");
    }
    let mut said = String::new();
    running.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    running.wait().unwrap();
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["verdict"]["checks"]["patchedPassed"], 1, "{json:#}");
    assert_eq!(json["verdict"]["base"]["version"], 2);
}

#[test]
fn the_file_system_outside_is_read_only() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::bare();
    let script = "for f in /usr/x /bin/x /lib/x /etc/x /x /proc/sys/kernel/hostname; do \
                    if echo x > $f; then exit 7; fi; done 2>/dev/null; echo fine > /tmp/x && echo fine > /work/x";
    let judged = bench.judge(&small_patch(), &command(script), &[]);
    assert_eq!(judged.verdict()["checks"]["patchedPassed"], 1, "{:?}", judged.samples("patched"));
}
