//! What a key without `operate` must not read: what was taken back, what the operator noted of others, where the server
//! keeps its files.

use herm_tests::operator::Operator;
use serde_json::{Value, json};

use crate::{answering, problem, run, until};

const DONE: &str = r#"{"done":1}"#;

fn herm(operator: &Operator, arguments: &[&str]) {
    let ran = operator.herm().run(arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn skill(text: &str) -> String {
    format!("---\nname: pumps\ndescription: How pumps are checked.\n---\n\n{text}\n")
}

#[test]
fn an_edit_that_was_undone_is_read_by_the_operator_alone() {
    let operator = answering(DONE);
    let library = operator.path().join("library/pumps");
    std::fs::create_dir_all(&library).unwrap();
    std::fs::write(library.join("SKILL.md"), skill("Check the seal.")).unwrap();
    herm(&operator, &["skills", "import", "7", library.parent().unwrap().to_str().unwrap()]);
    let file = std::fs::read_dir(operator.brains().join("7/skills"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pumps")))
        .map(|path| if path.is_dir() { path.join("SKILL.md") } else { path })
        .unwrap();
    std::fs::write(&file, skill("Check the seal. Alice's pump leaks on Tuesdays.")).unwrap();
    herm(&operator, &["brain", "adopt", "7"]);
    herm(&operator, &["brain", "undo", "7", "3"]);
    std::fs::write(&file, skill("Check the seal, then the valve.")).unwrap();
    herm(&operator, &["brain", "adopt", "7"]);
    let (bob, boss) =
        (operator.key(&["bob", "--subscriber", "bob"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (bob, boss) = (serving.client().key(&bob), serving.client().key(&boss));
    let at = |version: u64| format!("/v1/agents/7/skills/pumps/versions/{version}");
    let hidden = bob.get(&at(3));
    assert!(problem(&hidden, 404, "not_found").contains("that you may read"), "{hidden:?}");
    assert!(boss.get(&at(3)).json()["text"].as_str().unwrap().contains("Tuesdays"));
    let since = |client: &herm_tests::http::Client| client.get(&format!("{}?from=3", at(5)));
    assert!(problem(&since(&bob), 404, "not_found").contains("that you may read"));
    assert!(since(&boss).json()["diff"].as_str().unwrap().contains("-Check the seal. Alice's pump leaks on Tuesdays."));
    // Everything else is as it was: what stood before, what was brought back, what stands now.
    for (version, text) in
        [(2, "Check the seal.\n"), (4, "Check the seal.\n"), (5, "Check the seal, then the valve.\n")]
    {
        let read = bob.get(&at(version)).json();
        assert!(read["text"].as_str().is_some_and(|found| found.ends_with(text)), "{version}: {read}");
    }
    let versions = |client: &herm_tests::http::Client| -> Vec<(u64, bool)> {
        let skill = client.get("/v1/agents/7/skills/pumps").json();
        let list = skill["versions"].as_array().unwrap();
        list.iter().map(|version| (version["version"].as_u64().unwrap(), version["digest"].is_null())).collect()
    };
    assert_eq!(versions(&bob), [(5, false), (4, false), (3, true), (2, false)]);
    assert_eq!(versions(&boss), [(5, false), (4, false), (3, false), (2, false)]);
    // The history tells that something moved, and of what was taken back not even the digest.
    let digest = boss.get(&at(3)).json()["digest"].as_str().unwrap().to_owned();
    let moved = |client: &herm_tests::http::Client, seq: u64| {
        let steps = client.get("/v1/agents/7/history").json()["steps"].as_array().unwrap().clone();
        steps.iter().find(|step| step["seq"] == seq).unwrap()["files"].clone()
    };
    let (seen, all) = (moved(&bob, 3), moved(&boss, 3));
    assert_eq!((&all[0]["after"], &seen[0]["after"]), (&json!(digest), &Value::Null), "{seen}");
    assert_eq!((&seen[0]["path"], &seen[0]["before"]), (&all[0]["path"], &all[0]["before"]));
    assert!(!bob.get("/v1/agents/7/history").body.contains(&digest));
    assert_eq!(moved(&bob, 5), moved(&boss, 5), "what stands is told as it is");
}

#[test]
fn the_history_names_no_facts_and_no_subscribers_to_others() {
    let operator = answering(DONE);
    herm(&operator, &["memory", "add", "7", "has one", "--subscriber", "alice", "--fact", "pacemaker"]);
    herm(&operator, &["memory", "add", "7", "likes tea", "--subscriber", "alice"]);
    herm(&operator, &["memory", "add", "7", "everyone is greeted"]);
    let digests: Vec<String> = std::fs::read_dir(operator.brains().join("7/users"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(digests.len(), 1);
    let (bob, boss) =
        (operator.key(&["bob", "--subscriber", "bob"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (bob, boss) = (serving.client().key(&bob), serving.client().key(&boss));
    assert_eq!(run(&bob, "7", "go").status, 200);
    let (seen, all) = (bob.get("/v1/agents/7/history"), boss.get("/v1/agents/7/history"));
    for secret in ["pacemaker", "users/", &digests[0]] {
        assert!(!seen.body.contains(secret), "{secret} is in {seen:?}");
        assert!(all.body.contains(secret), "{secret} is not in {all:?}");
    }
    // That something moved is told, and what belongs to everyone.
    let steps = seen.json()["steps"].as_array().unwrap().clone();
    let kinds: Vec<&Value> = steps.iter().map(|step| &step["kind"]).collect();
    assert_eq!(kinds, ["task", "maintenance", "maintenance", "maintenance", "create"]);
    assert_eq!(steps[1]["files"][0]["path"], "MEMORY.md");
    assert!(steps[0]["summary"].as_str().is_some_and(|own| own.contains("converged")), "{steps:?}");
    // Nor do the receipts.
    for receipt in 1..=5 {
        let body = bob.get(&format!("/v1/agents/7/receipts/{receipt}")).body;
        assert!(!body.contains("pacemaker") && !body.contains(&digests[0]), "{body}");
    }
}

#[test]
fn where_the_server_keeps_its_files_is_told_to_the_operator_and_the_log_alone() {
    let operator = answering(DONE).with_plain_brain("8");
    let (bob, boss) =
        (operator.key(&["bob", "--subscriber", "bob"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (bob, boss) = (serving.client().key(&bob), serving.client().key(&boss));
    // What is in its place is no database, and no lock.
    for name in ["memory.db", "bundle.lock.json"] {
        let file = operator.brains().join("8").join(name);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
    }
    let place = operator.path().to_str().unwrap();
    for path in ["/v1/agents/8", "/v1/agents/8/history", "/v1/agents/8/skills", "/v1/agents"] {
        let (seen, all) = (bob.get(path), boss.get(path));
        assert!(!seen.body.contains(place), "{path}: {seen:?}");
        assert!(all.body.contains(place), "{path}: {all:?}");
    }
    let told = bob.get("/v1/agents/8").json();
    assert!(told["detail"].as_str().unwrap().contains("in the log, under the id of this request"), "{told}");
    // A task that comes to nothing, as it is told at once, kept, followed and listed, and by the other door.
    let keyed = bob.with("idempotency-key", "k");
    let failed = run(&keyed, "8", "go");
    assert!(failed.status >= 400 && !failed.body.contains(place), "{failed:?}");
    let task = until("it written down", || {
        let task = bob.get("/v1/tasks").json()["tasks"][0].clone();
        (!task["finishedAt"].is_null()).then_some(task)
    });
    let name = task["task"].as_str().unwrap().to_owned();
    let chat = json!({ "model": "agent-8", "messages": [{ "role": "user", "content": "go" }] });
    for answer in [
        bob.get(&format!("/v1/tasks/{name}")),
        bob.get(&format!("/v1/tasks/{name}/events")),
        bob.get("/v1/tasks"),
        bob.with("accept", "text/event-stream").post("/v1/agents/8/tasks", &json!({ "input": "go" })),
        bob.post("/v1/chat/completions", &chat),
    ] {
        assert!(!answer.body.contains(place), "{answer:?}");
    }
    assert!(boss.get(&format!("/v1/tasks/{name}")).body.contains(place));
    assert!(operator.logged().contains(place));
}
