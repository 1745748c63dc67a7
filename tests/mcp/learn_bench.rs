//! `herm learn bench` on a family whose tools are those of an MCP server.

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::{Herm, Run};
use serde_json::{Value, json};

use crate::program;

/// Adds what the question names, then answers with the sum.
fn adder() -> ModelServer {
    ModelServer::answering(|request| {
        let last = request.last_message();
        let numbers: Vec<i64> =
            last.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        let reply = match last.contains("Add") {
            true => json!({ "tool": "mcp_sum_add", "args": { "a": numbers[0], "b": numbers[1] } }),
            false => json!({ "answer": numbers.last() }),
        };
        let piece = json!({ "model": "adder-1", "choices": [{ "delta": { "content": reply.to_string() } }] });
        let end = json!({ "model": "adder-1", "choices": [{ "delta": {}, "finish_reason": "stop" }] });
        Step::sse([piece.to_string(), end.to_string(), "[DONE]".to_owned()])
    })
}

#[test]
fn a_server_beside_the_family_is_started_when_the_operator_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let family = dir.path().join("sums");
    std::fs::create_dir(&family).unwrap();
    std::os::unix::fs::symlink(program(), family.join("server")).unwrap();
    let write = |command: &str| {
        let about = json!({ "mcp": { "sum": { "command": command, "args": ["stdio"] } }, "standard_tools": [] });
        std::fs::write(family.join("family.json"), about.to_string()).unwrap();
    };
    write("./server");
    std::fs::write(family.join("system.md"), "You add numbers with a tool.\n").unwrap();
    let task = |a: u32, b: u32| json!({ "input": format!("Add {a} and {b}."), "check": [a + b, { "calls": "mcp_sum_add", "args": { "a": a } }] });
    std::fs::write(family.join("tasks.jsonl"), format!("{}\n{}\n", task(2, 30), task(4, 50))).unwrap();
    let server = adder();
    let herm = Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), &dir.path().join("brains"));
    let run = |more: &[&str]| {
        let named = family.to_str().unwrap();
        let all =
            ["--json", "learn", "bench", "--family", named, "--backend", "openai", "--model", "m", "--arms", "none"];
        let mut command = herm.command(&[&all[..], more].concat());
        command.env("OPENAI_BASE_URL", format!("{}/v1", server.url())).env("OPENAI_API_KEY", "sk-test-0123456789");
        let output = command.output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    };
    let refused = run(&[]);
    assert!(refused.code == 3 && refused.stdout.contains("a family starts a program: ./server stdio"), "{refused:?}");
    let measured = run(&["--allow-programs"]);
    assert_eq!(measured.code, 0, "{measured:?}");
    let table: Value = serde_json::from_str(&measured.stdout).unwrap();
    assert_eq!(table["families"][0]["solved"], json!([{ "arm": "none", "learn": "1", "heldOut": "1" }]), "{table:#}");
    let remarks = table["families"][0]["remarks"].to_string();
    assert!(remarks.contains("is left out"), "a tool that cannot be used is remarked on: {remarks}");
    write("./nothing");
    let missing = run(&["--allow-programs"]);
    assert!(missing.code == 6 && missing.stdout.contains("the MCP server sum cannot be started"), "{missing:?}");
}
