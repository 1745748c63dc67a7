//! What a server counts of learning: outcomes of real tasks, and verdicts of trials.

use herm::memory::OutcomeValue;
use herm::trial::pass::TrialMemory;
use herm_tests::learned;
use herm_tests::model_server::ModelServer;
use herm_tests::operator::Operator;
use serde_json::json;

use crate::{HERM, answering, run, saying, until, with_brain};

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
