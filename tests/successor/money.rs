//! What models cost a successor: a real endpoint behind the broker, its key in the parent alone, and a worker that wants
//! more than there is.

use herm_tests::can_sandbox;
use std::path::Path;

use herm_tests::model_server::{Gate, ModelServer, Step};
use serde_json::{Value, json};

use crate::{Bench, HERM, Judged, small_patch};

/// The command with the worker that asks fifty questions at once.
const GREEDY: &str = env!("CARGO_BIN_EXE_greedy-worker");
/// The key of the endpoint. A program that looks for it in the sandbox knows how it begins.
const KEY: &str = "sk-only-the-parent-knows-4f1d6a";

/// A model that is paid by the token: so many dollars for a thousand.
fn priced(model: &ModelServer, dollars: u64) -> String {
    let price = dollars * 1_000_000_000;
    format!(
        "backend = \"paid\"\n[backends.paid]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
         key = {{ env = \"PAID_KEY\" }}\nprice = {{ input = {price}, output = {price} }}\n",
        model.url()
    )
}

/// A reply for which the endpoint charges these tokens.
fn charging(text: &str, read: u64, written: u64) -> Step {
    let message = json!({ "role": "assistant", "content": text });
    Step::json(
        200,
        json!({
            "model": "m-1",
            "choices": [{ "message": message, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": read, "completion_tokens": written },
        }),
    )
}

/// So many tasks that the brain's own backend answers.
fn asked(tasks: usize) -> Value {
    let tasks: Vec<Value> = (0..tasks)
        .map(|number| json!({ "name": format!("task {number}"), "input": "is it so?", "checks": [{ "status": "converged" }] }))
        .collect();
    json!({
        "schema": "herm/evaluation@1", "title": "paid for", "speaker": "brain",
        "parts": [{ "kind": "suite", "name": "asked", "tasks": tasks }],
        "goals": [{ "metric": "turns" }],
    })
}

/// Judges with this program, this model and this much money.
fn judge(bench: &Bench, program: &str, config: &str, task: &Value, money: &str) -> Judged {
    let file = bench.path().join("herm.toml");
    std::fs::write(&file, config).unwrap();
    let usual = bench.evaluating(&small_patch(), task, &["--money", money]);
    let mut command = std::process::Command::new(program);
    command.args(usual.get_args()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env("HERM_CONFIG", &file).env("PAID_KEY", KEY).output().unwrap();
    let json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    Judged { code: output.status.code().unwrap_or(-1), json }
}

fn spent(judged: &Judged) -> u64 {
    judged.verdict()["spent"]["microUsd"].as_u64().unwrap()
}

/// Every file below a directory that holds the key.
fn files_with_key(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with_key(&path));
        } else if std::fs::read(&path).is_ok_and(|content| content.windows(KEY.len()).any(|at| at == KEY.as_bytes())) {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_verdict_says_what_was_spent_and_it_is_what_the_endpoint_charged() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::plain();
    let model = ModelServer::always(charging(r#"{"done":"yes"}"#, 40, 10));
    let judged = judge(&bench, HERM, &priced(&model, 1), &asked(6), "1000");
    assert_eq!((judged.code, judged.ruling()), (1, "NEEDS_REVISION"), "{:#}", judged.verdict());
    // Six tasks on two sides, a question each, 50 tokens a question.
    let requests = model.requests();
    assert_eq!(requests.len(), 12);
    assert_eq!(spent(&judged), 12 * 50_000);
    assert_eq!(judged.verdict()["checks"]["patchedPassed"], judged.verdict()["checks"]["total"]);
    // The endpoint was shown the key, and nothing that is left of the evaluation has it.
    assert!(requests.iter().all(|request| request.header("authorization") == Some(&format!("Bearer {KEY}"))));
    assert_eq!(files_with_key(bench.path()), Vec::<std::path::PathBuf>::new());
    bench.assert_clean();
}

#[test]
fn money_that_runs_out_in_the_middle_ends_it_there() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::plain();
    let model = ModelServer::always(charging(r#"{"done":"yes"}"#, 40, 10));
    // Each question costs 0.05 at a dollar for a thousand tokens, and a few dollars at worst.
    let judged = judge(&bench, HERM, &priced(&model, 1), &asked(200), "10");
    assert_eq!((judged.ruling(), judged.reason()), ("REJECT", "budget_money"), "{:#}", judged.verdict());
    let seen = model.requests().len() as u64;
    assert!((1..200).contains(&seen), "{seen}");
    assert_eq!(spent(&judged), seen * 50_000);
    assert!(spent(&judged) <= 10_000_000);
    bench.assert_clean();
}

#[test]
fn fifty_questions_at_once_are_forwarded_at_once_and_the_next_is_refused() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::plain();
    // Nobody is answered before all fifty are there: asked one by one, they would wait for ever.
    let gate = Gate::default();
    let model = ModelServer::always(charging("{}", 100, 100).after(&gate));
    let (config, task) = (priced(&model, 1), asked(1));
    let judged = std::thread::scope(|scope| {
        let judging = scope.spawn(|| judge(&bench, GREEDY, &config, &task, "10.00"));
        while model.requests().len() < 50 && !judging.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        gate.open();
        judging.join().unwrap()
    });
    assert_eq!((judged.ruling(), judged.reason()), ("REJECT", "budget_money"), "{:#}", judged.verdict());
    assert_eq!((model.requests().len(), spent(&judged)), (50, 10_000_000));
    bench.assert_clean();
}

#[test]
fn fifty_questions_at_once_from_inside_spend_no_more_than_there_is() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::plain();
    // The endpoint charges the most that such a question can cost: 200 tokens, 0.20 USD.
    let model = ModelServer::always(charging("{}", 100, 100));
    let judged = judge(&bench, GREEDY, &priced(&model, 1), &asked(1), "2.50");
    assert_eq!((judged.ruling(), judged.reason()), ("REJECT", "budget_money"), "{:#}", judged.verdict());
    // Twelve of the fifty fit; the thirteenth is refused, and who was still on the way then is given up and paid for.
    assert!((0..=12).contains(&model.requests().len()), "{}", model.requests().len());
    assert_eq!(spent(&judged), 2_400_000);
    // It is ended at once: had it been let go on, it would have asked until its wall, an hour away.
    assert!(judged.verdict()["spent"]["wallMillis"].as_u64().unwrap() < 60_000, "{}", judged.verdict()["spent"]);
    bench.assert_clean();

    // It looked everywhere and listened to everything.
    let read = |name: &str| std::fs::read_to_string(judged.directory().join("artifacts/baseline").join(name)).unwrap();
    let found: Value = serde_json::from_str(&read("found.json")).unwrap();
    assert_eq!(found["filesWithKey"], json!([]), "{found:#}");
    assert!(found["filesLookedInto"].as_u64().unwrap() > 100, "{found:#}");
    let heard = read("heard.jsonl");
    assert!((1..=13).contains(&heard.lines().count()), "{heard}");
    assert!(!heard.contains(&model.url()), "not even where the endpoint is: {heard}");
    for inside in [found.to_string(), heard] {
        assert!(!inside.contains(KEY) && !inside.contains("PAID_KEY"), "{inside}");
    }
    assert!(model.requests().iter().all(|request| request.header("authorization") == Some(&format!("Bearer {KEY}"))));
}

#[test]
fn without_money_fifty_questions_at_once_reach_nobody() {
    if !can_sandbox() {
        return;
    }
    let bench = Bench::plain();
    let model = ModelServer::always(charging("{}", 100, 100));
    let judged = judge(&bench, GREEDY, &priced(&model, 1), &asked(1), "0");
    assert_eq!((judged.ruling(), judged.reason()), ("REJECT", "budget_money"), "{:#}", judged.verdict());
    assert_eq!((model.requests().len(), spent(&judged)), (0, 0));
}
