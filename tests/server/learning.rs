//! What a server counts of learning, what it shows of it, and how an operator ends a trial.

use herm::memory::{Arm, OutcomeValue, TaskEntry, TaskStatus, TrialTask};
use herm::skill::CreatedBy;
use herm::trial::pass::TrialMemory;
use herm::{Brain, Draft, StepKind, SubscriberId};
use herm_tests::brains::{skill_text, slug};
use herm_tests::learned;
use herm_tests::model_server::ModelServer;
use herm_tests::operator::Operator;
use serde_json::{Value, json};

use crate::{HERM, answering, problem, run, saying, until, with_brain};

/// An operator whose agent 7 has a role with checks.
fn checked(checks: &str, model: ModelServer) -> Operator {
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_model(model);
    let from = operator.path().join("agent");
    std::fs::create_dir_all(&from).expect("a directory");
    std::fs::write(from.join("system.md"), format!("---\nchecks:\n{checks}---\nYou answer.\n")).expect("a role");
    let manifest = r#"{ "schema": "herm/manifest@1", "name": "AGENT", "tools": [] }"#;
    std::fs::write(from.join("manifest.json"), manifest).expect("a manifest");
    let made = operator.herm().run(&["init", "7", "--from", from.to_str().expect("UTF-8")]);
    assert_eq!(made.code, 0, "{made:?}");
    operator
}

#[test]
fn the_outcomes_of_real_tasks_are_counted_by_who_says_so() {
    for (checks, counted) in [
        ("  - contains: blue\n", r#"herm_outcomes_total{value="good",source="verifier"} 2"#),
        ("  - contains: red\n", r#"herm_outcomes_total{value="bad",source="verifier"} 2"#),
        ("  - program: tools/none\n", r#"herm_outcomes_total{value="unknown",source="verifier"} 2"#),
    ] {
        let operator = checked(checks, saying(r#"{"colour":"blue"}"#));
        let serving = operator.serve();
        let client = serving.client();
        for input in ["one", "two"] {
            let answer = run(&client, "7", input);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        let metrics = client.get("/metrics").body;
        assert!(metrics.contains(&format!("{counted}\n")), "{counted} is not in {metrics}");
        assert_eq!(metrics.matches("herm_outcomes_total{").count(), 1, "{metrics}");
        for name in ["proven", "harmful", "unproven"] {
            assert!(metrics.contains(&format!("\nherm_trials_{name}_total 0\n")), "{metrics}");
        }
    }
}

#[test]
fn a_task_that_no_check_looks_at_is_counted_nowhere() {
    let operator = answering(r#"{"done":1}"#);
    let serving = operator.serve();
    let client = serving.client();
    assert_eq!(run(&client, "7", "go").status, 200);
    let metrics = client.get("/metrics").body;
    assert!(metrics.contains("# TYPE herm_outcomes_total counter\n") && !metrics.contains("herm_outcomes_total{"));
}

#[test]
fn a_verdict_after_a_real_task_is_counted_and_served() {
    use OutcomeValue::{Bad, Good};
    for (name, outcomes) in [("proven", [Good, Bad]), ("harmful", [Bad, Good])] {
        let operator = checked("  - contains: blue\n", saying(r#"{"colour":"blue"}"#));
        with_brain(&operator, "7", |brain| {
            learned::learn(brain, "say-a-colour", "Say it.");
            learned::look(brain, &mut TrialMemory::default());
            // Enough to decide it: nobody has looked yet.
            learned::tasks(brain, "say-a-colour", outcomes, 24);
        });
        let serving = operator.serve();
        let client = serving.client();
        let answer = run(&client, "7", "which colour?");
        assert_eq!(answer.status, 200, "{answer:?}");
        let line = format!("\nherm_trials_{name}_total 1\n");
        until("the verdict", || client.get("/metrics").body.contains(&line).then_some(()));
        let learning = client.get("/v1/agents/7/learning").json();
        assert_eq!(
            (&learning["counts"][name], &learning["skills"][0]["state"]),
            (&json!(1), &json!(name)),
            "{learning:#}"
        );
    }
}

/// An operator whose agent 7 has learned: a skill in every state of a trial, a worked example, and a task of bob's.
fn learned_agent() -> Operator {
    let operator = answering(r#"{"done":1}"#);
    with_brain(&operator, "7", |brain| {
        learned::every_state(brain);
        learned::example(brain, "cellar", "cellar-0", "Where is\nthe lamp?");
        task_of_bob(brain, "garage");
        let mut draft = Draft::new();
        let text = skill_text("by-hand", "Look twice.");
        brain.edit(&mut draft).create_skill(&slug("by-hand"), &text, CreatedBy::User).expect("made");
        brain.settle(&draft, StepKind::Maintenance, "a person wrote it").expect("settled");
    });
    operator
}

/// A task of a subscriber that was shown a skill; nobody says how good its answer was.
fn task_of_bob(brain: &mut Brain, skill: &str) {
    let (task, at) = ("bobs-task".to_owned(), brain.clock().now());
    let bob: SubscriberId = "bob".parse().expect("a subscriber");
    let mut draft = Draft::new();
    draft.task(TaskEntry {
        task: task.clone(),
        subscriber: Some(bob.digest()),
        outcome: TaskStatus::Converged,
        summary: "did it".to_owned(),
        at,
    });
    let (skill, arm, score) = (slug(skill), Arm::Shown, None);
    draft.trial_task(TrialTask { skill, task, arm, at, score, errors: 0, turns: 1, micro_usd: 0, rehearsed: false });
    brain.settle(&draft, StepKind::Task, "converged: did it").expect("settled");
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(|each| each["task"].as_str()).collect()
}

#[test]
fn a_learned_skill_is_shown_with_both_arms_and_with_tasks_and_examples_of_its_caller() {
    let operator = learned_agent();
    let (bob, shared, boss) = (
        operator.key(&["bob", "--subscriber", "bob"]),
        operator.key(&["shared"]),
        operator.key(&["boss", "--operations", "operate"]),
    );
    let serving = operator.serve();
    let [bob, shared, boss] = [bob, shared, boss].map(|key| serving.client().key(&key));
    let path = "/v1/agents/7/learning/garage";
    let all = boss.get(path).json();
    assert_eq!((&all["id"], &all["skill"], &all["state"]), (&json!("7"), &json!("garage"), &json!("trial")));
    assert_eq!((&all["shown"]["tasks"], &all["heldBack"]["mean"]), (&json!(4), &json!(0.25)));
    assert_eq!((&all["gain"]["value"], &all["reason"]), (&json!(0.25), &json!("written by the agent")));
    assert_eq!(names(&all["tasks"])[..2], ["bobs-task", "garage-5"], "newest first");
    assert_eq!(all["curve"].as_array().map(Vec::len), Some(7));
    assert_eq!(all["curve"][0], json!({ "arm": "shown", "score": 0.5 }), "in the order in which they came");
    assert_eq!(all["curve"][6], json!({ "arm": "shown", "score": null }));
    // The command says the same.
    let (code, told) = operator.herm().json(&["learn", "show", "7", "garage"]);
    assert_eq!((code, told), (0, all.clone()));
    // Sums and the curve are of all tasks; tasks are named to whom they belong.
    let (of_bob, of_all) = (bob.get(path).json(), shared.get(path).json());
    assert_eq!((&of_bob["curve"], &of_bob["shown"]), (&all["curve"], &all["shown"]));
    assert_eq!(names(&of_bob["tasks"]), ["bobs-task"]);
    assert_eq!((of_all["tasks"].as_array().map(Vec::len), names(&of_all["tasks"])[0]), (Some(6), "garage-5"));

    let path = "/v1/agents/7/learning/cellar";
    let example = json!([{ "task": "cellar-0", "question": "Where is the lamp?", "tools": ["find"] }]);
    assert_eq!((&boss.get(path).json()["examples"], &shared.get(path).json()["examples"]), (&example, &example));
    assert_eq!(bob.get(path).json()["examples"], json!([]));
    let told = operator.herm().run(&["learn", "show", "7", "cellar"]).stdout;
    assert!(told.contains("EXAMPLE OF TASK") && told.contains("Where is the lamp?"), "{told}");

    problem(&boss.get("/v1/agents/7/learning/nothing"), 404, "not_found");
    problem(&boss.get("/v1/agents/7/learning/by-hand"), 404, "not_found");
    problem(&boss.get("/v1/agents/8/learning/garage"), 404, "not_found");
    problem(&boss.get("/v1/agents/7/learning/No%20Slug"), 400, "invalid_input");
    let runs = operator.key(&["runs", "--operations", "run"]);
    problem(&serving.client().key(&runs).get(path), 403, "refused");
    problem(&serving.client().get(path), 401, "unauthenticated");
}

#[test]
fn an_operator_ends_a_trial_and_nobody_else_does() {
    let operator = learned_agent();
    let (bob, boss) = (operator.key(&["bob"]), operator.key(&["boss", "--operations", "operate"]));
    let serving = operator.serve();
    let (bob, boss) = (serving.client().key(&bob), serving.client().key(&boss));
    let path = |skill: &str| format!("/v1/agents/7/learning/{skill}/stop");
    let state = |skill: &str| boss.get(&format!("/v1/agents/7/learning/{skill}")).json()["state"].clone();
    problem(&bob.post(&path("garage"), &json!({ "as": "proven" })), 403, "refused");
    problem(&boss.post(&path("garage"), &json!({ "as": "good" })), 400, "invalid_input");
    problem(&boss.post(&path("nothing"), &json!({})), 404, "not_found");
    problem(&boss.post(&path("by-hand"), &json!({})), 409, "conflict");
    problem(&boss.post(&path("attic"), &json!({})), 409, "conflict");
    assert_eq!(state("garage"), "trial", "nothing happened so far");

    let version = boss.get("/v1/agents/7").json()["version"].clone();
    let kept = boss.post(&path("garage"), &json!({ "as": "proven" })).json();
    assert_eq!(
        (&kept["trial"]["state"], &kept["trial"]["reason"], &kept["settled"]),
        (&json!("proven"), &json!("kept by a person"), &json!(null))
    );
    assert_eq!(state("garage"), "proven");
    let stopped = boss.post_nothing(&path("garage")).json();
    assert_eq!((&stopped["id"], &stopped["trial"]["state"]), (&json!("7"), &json!("unproven")));
    let counts = boss.get("/v1/agents/7/learning").json()["counts"].clone();
    assert_eq!(counts, json!({ "untried": 0, "trial": 1, "proven": 1, "harmful": 1, "unproven": 1 }));
    assert_eq!(boss.get("/v1/agents/7").json()["version"], version, "a verdict is no step");

    let archived = boss.post(&path("shed"), &json!({ "as": "archived" })).json();
    assert_eq!((&archived["trial"]["state"], state("shed")), (&json!("harmful"), json!("harmful")));
    let receipts = boss.get("/v1/agents/7/receipts?limit=1").json();
    assert_eq!(receipts["receipts"][0]["version"], archived["settled"]["version"], "the step has a receipt");
    let receipt = boss.get(&format!("/v1/agents/7/receipts/{}", receipts["last"])).json();
    assert_eq!(receipt["statement"]["predicate"]["action"], "learn", "{receipt:#}");
    let history = boss.get("/v1/agents/7/history?limit=1").json();
    assert_eq!(history["steps"][0]["summary"], "trial: a person archived shed", "{history:#}");
    let gone = boss.get("/v1/agents/7/skills?state=archived").json();
    let gone: Vec<&Value> = gone["skills"].as_array().expect("a list").iter().map(|skill| &skill["slug"]).collect();
    assert_eq!(gone, ["attic", "shed"]);
    problem(&boss.post(&path("shed"), &json!({})), 409, "conflict");
}

#[test]
fn the_report_of_what_was_learned_is_the_text_of_the_command() {
    let operator = learned_agent();
    let serving = operator.serve();
    let client = serving.client();
    let answer = client.get("/v1/agents/7/learning-report");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/markdown; charset=utf-8")));
    let told = operator.herm().run(&["learn", "report", "7"]);
    assert_eq!((told.code, &told.stdout), (0, &answer.body));
    assert!(answer.body.contains("| cellar | 1.00 of 7 | 0.00 of 7 |"), "{}", answer.body);
    problem(&client.get("/v1/agents/8/learning-report"), 404, "not_found");
}

#[test]
fn a_list_of_skills_says_how_good_the_answers_of_their_tasks_were() {
    let operator = learned_agent();
    let serving = operator.serve();
    let skills = serving.client().get("/v1/agents/7/skills?state=all").json();
    let of = |name: &str| {
        let list = skills["skills"].as_array().expect("a list");
        let found = list.iter().find(|skill| skill["slug"] == name).expect("the skill");
        (found["outcomes"].clone(), found["trial"].clone())
    };
    let outcomes = |good, bad, scored, unknown, mean: Value| json!({ "good": good, "bad": bad, "scored": scored, "unknown": unknown, "mean": mean });
    assert_eq!(of("attic"), (outcomes(0, 6, 0, 0, json!(0.0)), json!("harmful")));
    assert_eq!(of("cellar"), (outcomes(7, 0, 0, 0, json!(1.0)), json!("proven")));
    assert_eq!(of("garage"), (outcomes(0, 0, 3, 1, json!(0.5)), json!("trial")));
    assert_eq!(of("by-hand"), (outcomes(0, 0, 0, 0, json!(null)), json!(null)));
}
