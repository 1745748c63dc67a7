//! What an operator does with a brain, and how a brain is looked at.

use serde_json::json;

use crate::{LEARNED, answering_and, operator, problem, recurring_failures, run, vault};

const DONE: &str = r#"{"done":1,"summary":"done","findings":[],"checked":[],"limits":[]}"#;

#[test]
fn a_brain_is_looked_at_from_every_side() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client();
    run(&client, "1", &vault());
    let agent = client.get("/v1/agents/1").json();
    assert_eq!((&agent["name"], &agent["version"], &agent["counts"]["tasks"]), (&json!("AUDIT"), &json!(2), &json!(1)));
    assert_eq!(agent["parts"].as_object().unwrap().len(), 6);
    let (_, shown) = operator.herm().json(&["brain", "show", "1"]);
    assert_eq!(agent["bundleHash"], shown["brain"]["lock"]["bundleHash"]);
    assert_eq!(agent["counts"], shown["brain"]["counts"]);

    let list = client.get("/v1/agents/1/skills?limit=3").json();
    assert_eq!(
        (&list["total"], &list["next"], list["skills"].as_array().unwrap().len()),
        (&json!(7), &json!("oracle-review"), 3)
    );
    let rest = client.get("/v1/agents/1/skills?limit=100&cursor=oracle-review").json();
    assert_eq!((&rest["next"], rest["skills"].as_array().unwrap().len()), (&json!(null), 4));
    let used = client.get("/v1/agents/1/skills?sort=uses&limit=1").json();
    assert_eq!((&used["skills"][0]["slug"], &used["skills"][0]["uses"]), (&json!("reentrancy-check"), &json!(1)));
    let found = client.get("/v1/agents/1/skills?q=ORACLE").json();
    assert_eq!(found["skills"][0]["slug"], "oracle-review");

    let learned = LEARNED;
    let skill = client.get(&format!("/v1/agents/1/skills/{learned}")).json();
    assert!(skill["text"].as_str().unwrap().starts_with("---\nname: check-reentrancy"));
    assert_eq!((&skill["createdBy"], &skill["versions"][0]["version"]), (&json!("agent"), &json!(2)));
    let then = client.get(&format!("/v1/agents/1/skills/{learned}/versions/2")).json();
    assert_eq!((&then["text"], &then["digest"], then.get("diff")), (&skill["text"], &skill["digest"], None));
    let since = |from: u64| client.get(&format!("/v1/agents/1/skills/{learned}/versions/2?from={from}"));
    assert!(since(0).json()["diff"].as_str().unwrap().starts_with("@@ -0,0 +1,"));
    assert_eq!(since(2).json()["diff"], "");
    problem(&since(1), 404, "not_found");
    let reading = &skill["reading"];
    assert_eq!((&reading["frontMatter"][0]["name"], &reading["cut"]), (&json!("name"), &json!(false)));
    assert_eq!(reading["commands"], json!([]));
    assert!(reading["blocks"].as_array().unwrap().iter().any(|block| block["kind"] == "paragraph"), "{reading}");
    problem(&client.get(&format!("/v1/agents/1/skills/{learned}/versions/1")), 404, "not_found");
    let files = client.get("/v1/agents/1/skills/report-writing").json()["files"].clone();
    assert_eq!(files[0]["path"], "references/severity-rubric.md");

    let known = client.get("/v1/agents/1/learning").json();
    assert_eq!(
        (&known["total"], &known["next"], &known["skills"][0]["skill"]),
        (&json!(1), &json!(null), &json!(learned))
    );
    assert_eq!((&known["counts"]["proven"], &known["gain"]["proven"]), (&json!(0), &json!(null)));
    assert_eq!(client.get("/v1/agents/1/learning?state=harmful").json()["total"], 0);
    problem(&client.get("/v1/agents/1/learning?state=good"), 400, "invalid_input");

    let history = client.get("/v1/agents/1/history?limit=1").json();
    assert_eq!(
        (&history["steps"][0]["seq"], &history["steps"][0]["receipt"], &history["next"]),
        (&json!(2), &json!(2), &json!(2))
    );
    let before = client.get("/v1/agents/1/history?limit=5&before=2").json();
    assert_eq!((before["steps"].as_array().unwrap().len(), &before["steps"][0]["kind"]), (1, &json!("create")));
    let diff = client.get("/v1/agents/1/diff?from=1").json();
    assert_eq!(
        (&diff["files"][0]["what"], &diff["files"][0]["path"]),
        (&json!("added"), &json!(format!("skills/{learned}.md")))
    );
    assert!(diff["files"][0]["diff"].as_str().unwrap().contains("+name: check-reentrancy"));
    let charts = client.get("/v1/agents/1/charts").json();
    let skills: Vec<i64> =
        charts["points"].as_array().unwrap().iter().map(|point| point["skills"].as_i64().unwrap()).collect();
    assert_eq!((skills, &charts["days"][0]["events"]), (vec![6, 7], &json!(6)));
    let verified = client.post_nothing("/v1/agents/1/verify").json();
    assert_eq!((&verified["sound"], verified["proven"].as_array().unwrap().len()), (&json!(true), 6), "{verified}");
}

#[test]
fn receipts_come_in_pages_from_the_newest_to_the_first() {
    let operator = answering_and(DONE, "");
    let serving = operator.serve();
    let client = serving.client();
    for number in 0..6 {
        assert_eq!(run(&client, "7", &format!("task {number}")).status, 200);
    }
    let mut seen = Vec::new();
    let mut path = "/v1/agents/7/receipts?limit=3".to_owned();
    loop {
        let page = client.get(&path).json();
        seen.extend(page["receipts"].as_array().unwrap().iter().map(|receipt| receipt["seq"].as_u64().unwrap()));
        match page["next"].as_u64() {
            Some(next) => path = format!("/v1/agents/7/receipts?limit=3&before={next}"),
            None => break,
        }
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn the_curator_and_the_evolver_run_when_they_are_told_to() {
    let operator = operator();
    let serving = operator.serve();
    let client = serving.client();
    // The second task loads what the first one learned.
    for _ in 0..3 {
        run(&client, "1", &vault());
    }
    assert!(serving.stop().success());
    recurring_failures(&operator);
    let serving = operator.serve();
    let client = serving.client();
    let curated = client.post("/v1/agents/1/curate", &json!({ "dryRun": true })).json();
    assert_eq!((&curated["settled"], curated["transitioned"].as_array().unwrap().len()), (&json!(null), 0));
    assert_eq!(client.post_nothing("/v1/agents/1/curate").status, 200);
    let planned = client.post("/v1/agents/1/evolve", &json!({ "dryRun": true })).json();
    assert_eq!(planned["run"]["mode"], "dry-run");
    let held = client.post_nothing("/v1/agents/1/evolve").json();
    assert_eq!(held["run"]["mode"], "pending");
    let pending = client.get("/v1/agents/1/proposals").json()["proposals"].clone();
    if let Some(proposal) = pending[0]["id"].as_str() {
        assert!(
            pending[0]["diff"].as_str().is_some_and(|diff| diff.contains("curator-evolver:auto:start")),
            "{pending}"
        );
        let named = r#"`pattern_search` with `{"id":"signature-replay"}` worked, 3 of 3."#;
        assert!(pending[0]["diff"].as_str().is_some_and(|diff| diff.contains(named)), "{pending}");
        let before = client.get("/v1/agents/1").json()["version"].as_u64().unwrap();
        let decided = client.post_nothing(&format!("/v1/agents/1/proposals/{proposal}/accept"));
        assert_eq!((decided.status, &decided.json()["done"]), (200, &json!(true)), "{decided:?}");
        assert_eq!(client.get("/v1/agents/1").json()["version"].as_u64(), Some(before + 1));
        problem(&client.post_nothing(&format!("/v1/agents/1/proposals/{proposal}/reject")), 409, "conflict");
    } else {
        panic!("a learned skill with failures that recur is held: {held}");
    }
    problem(&client.post_nothing("/v1/agents/1/proposals/nothing/accept"), 404, "not_found");
    problem(&client.get("/v1/agents/1/proposals?status=maybe"), 400, "invalid_input");
}

#[test]
fn a_brain_is_pushed_lost_and_comes_back_by_itself() {
    let operator = answering_and(DONE, "[snapshot]\nplaintext = true");
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(run(&client, "7", "go").status, 200);
    let pushed = client.post_nothing("/v1/agents/7/snapshot");
    assert_eq!((pushed.status, &pushed.json()["head"]["version"]), (200, &json!(2)), "{pushed:?}");
    let counted = client.get("/metrics").body;
    let value = |name: &str| counted.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    assert!(value("herm_snapshots_pushed_total ") >= Some(1), "{counted}");
    assert_eq!(value("herm_snapshot_lag_seconds "), Some(0), "{counted}");
    let snapshots = client.get("/v1/agents/7/snapshots").json();
    assert_eq!((&snapshots["configured"], &snapshots["head"]["version"]), (&json!(true), &json!(2)));
    problem(&client.post_nothing("/v1/agents/7/restore"), 409, "conflict");
    assert!(serving.stop().success());
    std::fs::remove_dir_all(operator.brains().join("7")).unwrap();
    let serving = operator.serve();
    let client = serving.client();
    // A task restores it.
    let again = run(&client, "7", "on we go").json();
    assert_eq!(again["outcome"]["version"], 3, "{again}");
    assert_eq!(client.post_nothing("/v1/agents/7/verify").json()["sound"], true);
    assert!(serving.stop().success());
    std::fs::remove_dir_all(operator.brains().join("7")).unwrap();
    let serving = operator.serve();
    let restored = serving.client().post_nothing("/v1/agents/7/restore");
    assert_eq!((restored.status, &restored.json()["head"]["version"]), (200, &json!(3)), "{restored:?}");
    // An older version would be left behind by the next task, which asks the store.
    let older = serving.client().post("/v1/agents/7/restore", &json!({ "version": 2, "replace": true }));
    assert!(problem(&older, 409, "conflict").starts_with("the store has version 3"), "{older:?}");
}

#[test]
fn a_portable_brain_is_taken_in_once_and_only_under_its_number() {
    let operator = answering_and(DONE, "[snapshot]\nplaintext = true\nauto = false");
    let file = operator.path().join("seven.herm");
    let run = operator.herm().run(&["export", "7", file.to_str().unwrap(), "--plaintext"]);
    assert_eq!(run.code, 0, "{run:?}");
    let bytes = std::fs::read(&file).unwrap();
    let serving = operator.serve();
    let client = serving.client().with("content-type", "application/octet-stream");
    problem(&client.send("POST", "/v1/agents/7/import", Some(&bytes)), 409, "conflict");
    assert!(serving.stop().success());
    std::fs::remove_dir_all(operator.brains().join("7")).unwrap();
    let serving = operator.serve();
    let client = serving.client().with("content-type", "application/octet-stream");
    let wrong = client.send("POST", "/v1/agents/8/import", Some(&bytes));
    assert_eq!(problem(&wrong, 400, "invalid_input"), "the file holds agent 7, not agent 8");
    let mut torn = bytes.clone();
    torn.truncate(bytes.len() / 2);
    assert_eq!(client.send("POST", "/v1/agents/7/import", Some(&torn)).status, 500);
    let taken = client.send("POST", "/v1/agents/7/import", Some(&bytes));
    assert_eq!(taken.status, 201, "{taken:?}");
    assert_eq!(client.get("/v1/agents/7").json()["version"], 1);
    let left: Vec<_> = std::fs::read_dir(operator.brains().join(".operator"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with("import-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
