//! Who may do what: keys, scopes, subscribers that never see each other, rates, money, and a server without keys.

use herm_tests::model_server::{ModelServer, Step};
use serde_json::{Value, json};

use crate::{answering, operator, problem, run, saying, until, vault, with_model};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

#[test]
fn a_key_is_shown_once_listed_without_its_secret_and_revoked_at_once() {
    let operator = answering(DONE);
    let key = operator.key(&["phone", "--subscriber", "alice", "--agents", "7"]);
    assert!(key.starts_with("herm_") && key.len() == 5 + 16 + 1 + 64, "{key}");
    let (code, listed) = operator.herm().json(&["keys", "list"]);
    assert_eq!((code, listed["keys"].as_array().map(Vec::len)), (0, Some(1)));
    let secret = key.rsplit('_').next().unwrap();
    assert!(!listed.to_string().contains(secret));
    let book = std::fs::read(operator.brains().join(".operator/book.db")).unwrap();
    assert!(!book.windows(secret.len()).any(|window| window == secret.as_bytes()), "only its hash is kept");
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(run(&client.key(&key), "7", "go").status, 200);
    let run = operator.herm().run(&["keys", "revoke", listed["keys"][0]["id"].as_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");
    // Without a restart, at the next request.
    let refused = client.key(&key).get("/v1/agents/7");
    assert_eq!(problem(&refused, 401, "unauthenticated"), "this key is not known, was revoked, or has ended");
    // A server whose keys are all revoked does not fall back to having none.
    problem(&client.get("/v1/agents/7"), 401, "unauthenticated");
}

#[test]
fn what_is_no_key_opens_nothing() {
    let operator = answering(DONE);
    let key = operator.key(&["a"]);
    let serving = operator.serve();
    let client = serving.client();
    let mut other = key.clone();
    let last = if other.pop() == Some('0') { '1' } else { '0' };
    other.push(last);
    for wrong in [other.as_str(), "herm_", "herm_x_y", "sk-123", "", "é"] {
        problem(&client.key(wrong).get("/v1/agents"), 401, "unauthenticated");
    }
    problem(&client.with("authorization", &format!("Basic {key}")).get("/v1/agents"), 401, "unauthenticated");
    problem(&client.get("/v1/agents"), 401, "unauthenticated");
    assert_eq!(client.key(&key).get("/v1/agents").status, 200);
    // What tells nothing of any brain needs no key.
    for open in ["/healthz", "/readyz", "/openapi.json", "/"] {
        assert_eq!(client.get(open).status, 200, "{open}");
    }
    problem(&client.get("/metrics"), 401, "unauthenticated");
}

#[test]
fn a_key_does_what_it_may_and_nothing_else() {
    let operator = answering(DONE).with_plain_brain("8");
    let runs = operator.key(&["r", "--operations", "run", "--agents", "7"]);
    let reads = operator.key(&["l", "--operations", "read"]);
    let operates = operator.key(&["o", "--operations", "operate"]);
    let serving = operator.serve();
    let (runs, reads, operates) =
        (serving.client().key(&runs), serving.client().key(&reads), serving.client().key(&operates));
    assert_eq!(run(&runs, "7", "go").status, 200);
    assert_eq!(problem(&runs.get("/v1/agents/7"), 403, "refused"), "this key may not read");
    assert_eq!(problem(&run(&reads, "7", "go"), 403, "refused"), "this key may not run");
    assert_eq!(reads.get("/v1/agents/7").status, 200);
    for path in ["curate", "evolve", "verify", "snapshot", "restore", "pause", "resume", "import"] {
        problem(&reads.post_nothing(&format!("/v1/agents/7/{path}")), 403, "refused");
    }
    for path in ["diff?from=1", "proposals"] {
        problem(&reads.get(&format!("/v1/agents/7/{path}")), 403, "refused");
    }
    problem(&reads.get("/v1/operator/status"), 403, "refused");
    // An agent that is not the key's is not there, whether or not it is here.
    assert_eq!(problem(&run(&runs, "8", "go"), 404, "not_found"), "there is no agent 8 here");
    assert_eq!(problem(&run(&runs, "9", "go"), 404, "not_found"), "there is no agent 9 here");
    assert_eq!(operates.get("/v1/operator/status").status, 200);
    let who = runs.get("/v1/key").json();
    assert_eq!((&who["name"], &who["agents"], &who["operations"]), (&json!("r"), &json!(["7"]), &json!(["run"])));
}

/// Two subscribers and the operator on one agent.
#[test]
fn nothing_of_one_subscriber_reaches_another() {
    let operator = operator();
    let keys: Vec<String> = ["alice", "bob"].iter().map(|name| operator.key(&[name, "--subscriber", name])).collect();
    let all = operator.key(&["boss", "--operations", "operate"]);
    let serving = operator.serve();
    let (alice, bob) = (serving.client().key(&keys[0]), serving.client().key(&keys[1]));
    let boss = serving.client().key(&all);
    let secret = "contract ZanzibarVault { function withdraw() public { msg.sender.call{value: 1}(\"\"); } }";
    let task = run(&alice, "1", secret).json();
    assert_eq!(task["status"], "converged", "{task}");
    let name = task["task"].as_str().unwrap();
    run(&bob, "1", &vault());

    // Tasks.
    assert_eq!(alice.get(&format!("/v1/tasks/{name}")).status, 200);
    for (method, path) in [
        ("GET", format!("/v1/tasks/{name}")),
        ("GET", format!("/v1/tasks/{name}/events")),
        ("DELETE", format!("/v1/tasks/{name}")),
    ] {
        let answer = bob.send(method, &path, None);
        assert_eq!(problem(&answer, 404, "not_found"), "there is no such task", "{method} {path}");
    }
    let tasks = |client: &herm_tests::http::Client| client.get("/v1/tasks").json()["tasks"].as_array().unwrap().len();
    assert_eq!((tasks(&alice), tasks(&bob), tasks(&boss)), (1, 1, 2));

    // Receipts: one's own, and those of no task.
    let seen = |client: &herm_tests::http::Client| -> Vec<u64> {
        let list = client.get("/v1/agents/1/receipts").json();
        list["receipts"].as_array().unwrap().iter().map(|receipt| receipt["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!((seen(&alice), seen(&bob), seen(&boss)), (vec![2, 1], vec![3, 1], vec![3, 2, 1]));
    problem(&bob.get("/v1/agents/1/receipts/2"), 404, "not_found");
    assert_eq!(bob.get("/v1/agents/1/receipts/3").status, 200);

    // Memory.
    let found = |client: &herm_tests::http::Client| {
        client.get("/v1/agents/1/memory/search?q=ZanzibarVault").json()["hits"].as_array().unwrap().len()
    };
    assert!(found(&alice) > 0 && found(&boss) > 0);
    assert_eq!(found(&bob), 0);

    // The history tells that something happened, not what.
    let history = bob.get("/v1/agents/1/history").json();
    let steps: Vec<(&Value, bool)> =
        history["steps"].as_array().unwrap().iter().map(|step| (&step["seq"], step["summary"].is_null())).collect();
    assert_eq!(steps, [(&json!(3), false), (&json!(2), true), (&json!(1), false)]);

    // What is undone is told in nobody's words.
    drop(serving);
    let undone = operator.herm().run(&["brain", "undo", "1", "3", "--force"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    let serving = operator.serve();
    let (alice, bob) = (serving.client().key(&keys[0]), serving.client().key(&keys[1]));
    let history = alice.get("/v1/agents/1/history").json();
    let rollback = &history["steps"][0];
    assert_eq!((&rollback["kind"], &rollback["summary"]), (&json!("rollback"), &json!(null)));
    assert_eq!(rollback["files"], json!([]));

    // The same idempotency key of another caller is another task.
    let (a, b) = (alice.with("idempotency-key", "k"), bob.with("idempotency-key", "k"));
    let (one, two) = (run(&a, "1", "contract A {}").json(), run(&b, "1", "contract B {}").json());
    assert_ne!(one["task"], two["task"]);
    assert_eq!((&one["state"], &two["state"]), (&json!("done"), &json!("done")));
}

#[test]
fn a_key_of_one_agent_sees_no_task_of_another() {
    let operator = answering(DONE).with_plain_brain("8");
    let everywhere = operator.key(&["all", "--subscriber", "alice"]);
    let (seven, boss) = (
        operator.key(&["seven", "--subscriber", "alice", "--agents", "7"]),
        operator.key(&["boss", "--operations", "operate", "--agents", "7"]),
    );
    let serving = operator.serve();
    let client = serving.client();
    let task = run(&client.key(&everywhere), "8", "go").json()["task"].as_str().unwrap().to_owned();
    for key in [&seven, &boss] {
        let client = client.key(key);
        assert_eq!(client.get("/v1/tasks").json()["tasks"], json!([]));
        problem(&client.get(&format!("/v1/tasks/{task}")), 404, "not_found");
        problem(&client.delete(&format!("/v1/tasks/{task}")), 404, "not_found");
        problem(&client.get("/v1/tasks?agent=8"), 404, "not_found");
    }
    assert_eq!(client.key(&everywhere).get("/v1/tasks?agent=8").json()["tasks"][0]["task"], json!(task));
}

#[test]
fn tasks_side_by_side_never_spend_the_same_money_also_after_a_kill() {
    // A reply costs at most 3; each task may cost 3.
    let model = ModelServer::always(Step::never());
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
         price = {{ input = 0, output = 1000000 }}\n[limits]\nreply_tokens = 3\n[serve]\ntask_micro_usd = 3\n",
        model.url()
    );
    let operator = operator().configured(&config).with_plain_brain("7").with_plain_brain("8").with_plain_brain("9");
    let key = operator.key(&["poor", "--budget", "0.000006"]);
    let serving = operator.serve();
    let later = |serving: &herm_tests::operator::Serving| serving.client().key(&key).with("prefer", "respond-async");
    let client = later(&serving);
    assert_eq!((run(&client, "7", "one").status, run(&client, "8", "two").status), (202, 202));
    let refused = run(&client, "9", "three");
    assert!(
        problem(&refused, 429, "too_many_requests").contains("set aside for tasks that run: 6 of 6"),
        "{refused:?}"
    );
    serving.kill();
    let serving = operator.serve();
    let refused = run(&later(&serving), "9", "three");
    assert!(problem(&refused, 429, "too_many_requests").contains("6 of 6"), "{refused:?}");
}

#[test]
fn a_key_that_calls_too_often_is_told_when_to_come_back() {
    let operator = answering(DONE);
    let (few, many) = (operator.key(&["few", "--rate", "3"]), operator.key(&["many"]));
    let serving = operator.serve();
    let few = serving.client().key(&few);
    let statuses: Vec<u16> = (0..5).map(|_| few.get("/v1/agents/7").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let refused = few.get("/v1/agents/7");
    assert_eq!(problem(&refused, 429, "too_many_requests"), "this key may call 3 times a minute");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=21).contains(&wait), "{wait}");
    // Another key has a rate of its own.
    assert_eq!(serving.client().key(&many).get("/v1/agents/7").status, 200);
}

#[test]
fn a_key_spends_no_more_than_its_budget() {
    // A reply costs at most 3 millionths of a dollar, and the model takes them all.
    let model = saying(DONE);
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
         price = {{ input = 0, output = 1000000 }}\n[limits]\nreply_tokens = 3\n",
        model.url()
    );
    let operator = operator().configured(&config).with_plain_brain("7");
    let key = operator.key(&["poor", "--budget", "0.000008"]);
    let serving = operator.serve();
    let client = serving.client().key(&key);
    let spent = |least: u64| {
        until("what was spent", || {
            client.get("/v1/key").json()["spentMicroUsd"].as_u64().filter(|spent| *spent >= least)
        })
    };
    assert_eq!(run(&client, "7", "one").json()["outcome"]["usage"]["microUsd"], 3);
    assert_eq!(spent(3), 3);
    assert_eq!(run(&client, "7", "two").json()["outcome"]["usage"]["microUsd"], 3);
    assert_eq!(spent(6), 6);
    // The 2 that are left are not enough for a reply: nothing is asked.
    let third = run(&client, "7", "three").json();
    assert_eq!((&third["outcome"]["status"], &third["outcome"]["stop"]), (&json!("incomplete"), &json!("budget")));
    assert_eq!((spent(6), model.requests().len()), (6, 2));
    let empty = operator.key(&["empty", "--budget", "0.000003"]);
    let client = serving.client().key(&empty);
    assert_eq!(run(&client, "7", "one").status, 200);
    until("the budget used up", || (client.get("/v1/key").json()["spentMicroUsd"] == 3).then_some(()));
    let refused = run(&client, "7", "two");
    assert!(problem(&refused, 403, "refused").starts_with("the budget of this key is used up"), "{refused:?}");
    let (_, listed) = operator.herm().json(&["keys", "list"]);
    assert_eq!(listed["keys"][0]["spentMicroUsd"], 6);
}

#[test]
fn without_keys_only_this_machine_is_answered_and_no_page_of_another_site() {
    let operator = answering(DONE);
    let serving = operator.serve();
    let client = serving.client();
    let own = format!("http://{}", serving.address());
    assert_eq!(client.get("/v1/agents").status, 200);
    assert_eq!(client.with("origin", &own).get("/v1/agents").status, 200);
    // A client of another protocol brings a key whether or not there are any.
    assert_eq!(client.key("sk-anything").get("/v1/agents").status, 200);
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "evil.example:7700"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("x-forwarded-for", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
    ] {
        problem(&client.with(name, value).get("/v1/agents"), 403, "refused");
        problem(&client.with(name, value).post("/v1/agents/7/tasks", &json!({ "input": "x" })), 403, "refused");
    }
    // A proxy that is told nothing speaks HTTP/1.0, and names whom it asks as the host.
    for (version, status) in [("1.0", 403), ("1.1", 200)] {
        let host = serving.address();
        let sent = format!("GET /v1/agents HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = client.raw(sent.as_bytes()).expect("an answer");
        assert_eq!(answer.status, status, "{version}: {answer:?}");
        assert_eq!(answer.body.contains("is of HTTP/1.0"), status == 403, "{version}: {answer:?}");
    }
    // No answer ever allows another site to read it.
    let answer = client.with("origin", &own).send("OPTIONS", "/v1/agents", None);
    assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control-")), "{answer:?}");
    let open = operator.herm().run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 5, "the lock is held: {open:?}");
    drop(serving);
    let open = operator.herm().run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 3, "{open:?}");
    assert!(open.stderr.contains("there is no key") && open.stderr.contains("herm keys create"), "{open:?}");
}

/// The skills that came with agent 1, or that it has now, by path.
fn skill_files(root: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let (mut found, mut left) = (std::collections::BTreeMap::new(), vec![root.to_owned()]);
    while let Some(at) = left.pop() {
        for entry in std::fs::read_dir(at).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match path.is_dir() {
                true => left.push(path),
                // How often a skill was used is counted beside them.
                false if entry.file_name().to_string_lossy().starts_with('.') => {}
                false => drop(found.insert(path.strip_prefix(root).unwrap().to_owned(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found
}

#[test]
fn a_subscribers_task_changes_no_skill_of_the_seed_and_what_it_would_change_waits_for_the_operator() {
    let call = |args: Value| json!({ "tool": "skill_manage", "args": args }).to_string();
    let calls = [
        json!({ "action": "patch", "name": "oracle-review", "find": "Find the sources", "replace": "Trust the sources" }),
        json!({ "action": "edit", "name": "reentrancy-check", "content": "1. All is well.\n" }),
        json!({ "action": "write_file", "name": "report-writing", "file": "references/more.md", "content": "More.\n" }),
        json!({ "action": "archive", "name": "signature-review" }),
    ];
    let replies = calls.into_iter().map(call).chain([DONE.to_owned()]).map(|reply| Step::chat(&reply)).collect();
    let model = ModelServer::start(replies);
    let operator = with_model(&model);
    let made = operator.herm().run(&["init", "1"]);
    assert_eq!(made.code, 0, "{made:?}");
    let seed = skill_files(concat!(env!("CARGO_MANIFEST_DIR"), "/../seed/agents/1/skills").as_ref());
    assert_eq!(skill_files(&operator.brains().join("1/skills")), seed);
    let (alice, boss) =
        (operator.key(&["alice", "--subscriber", "alice"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (alice, boss) = (serving.client().key(&alice), serving.client().key(&boss));
    let answer = run(&alice, "1", "go").json();
    let wanted = [
        ("oracle-review", "changed"),
        ("reentrancy-check", "changed"),
        ("report-writing", "changed"),
        ("signature-review", "archived"),
    ];
    let proposed: Vec<Value> = wanted.iter().map(|(slug, change)| json!({ "slug": slug, "change": change })).collect();
    let outcome = &answer["outcome"];
    assert_eq!((&outcome["status"], &outcome["skillsChanged"]), (&json!("converged"), &json!([])), "{answer}");
    assert_eq!(outcome["skillsProposed"], json!(proposed), "{answer}");
    assert_eq!(skill_files(&operator.brains().join("1/skills")), seed, "byte for byte");
    // Whose task it was does not decide it: a person does, and not the subscriber.
    problem(&alice.get("/v1/agents/1/proposals"), 403, "refused");
    let waiting = boss.get("/v1/agents/1/proposals").json()["proposals"].as_array().unwrap().clone();
    let mut skills: Vec<&str> = waiting.iter().map(|row| row["skill"].as_str().unwrap()).collect();
    skills.sort_unstable();
    assert_eq!(skills, wanted.map(|(slug, _)| slug));
    assert!(waiting.iter().all(|row| row["status"] == "pending" && row["stands"] == true), "{waiting:?}");
    let oracle = waiting.iter().find(|row| row["skill"] == "oracle-review").unwrap();
    assert!(oracle["diff"].as_str().is_some_and(|diff| diff.contains("**Trust the sources.**")), "{oracle}");
    let id = oracle["id"].as_str().unwrap();
    problem(&alice.post_nothing(&format!("/v1/agents/1/proposals/{id}/accept")), 403, "refused");
    assert!(serving.stop().success());
    assert_eq!(skill_files(&operator.brains().join("1/skills")), seed);
    assert_eq!(operator.herm().run(&["brain", "verify", "1"]).code, 0);
}
