//! `herm feedback`, `herm evolve report` and `herm learn rehearse` on the command line, with a model that is a script.

use herm::{Brain, BrainOptions, Layout, Reader};
use herm_tests::model_server::{ModelServer, Request, Step};
use herm_tests::operator::Operator;
use herm_tests::signer;
use serde_json::{Value, json};

use crate::HERM;

/// An operator whose agent 7 has this role and these tools, and asks this model.
fn operator(role: &str, tools: &[&str], model: ModelServer) -> Operator {
    // What is rehearsed is a skill: an example of the first task would stand in its place.
    let config = format!(
        "backend = \"fake\"\n[backends.fake]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n\
         [learning]\nexamples = false\n",
        model.url()
    );
    let operator = Operator::new(HERM).configured(&config).with_model(model);
    let from = operator.path().join("agent");
    std::fs::create_dir_all(&from).expect("a directory");
    std::fs::write(from.join("system.md"), role).expect("a role");
    let manifest = json!({ "schema": "herm/manifest@1", "name": "AGENT", "tools": tools });
    std::fs::write(from.join("manifest.json"), manifest.to_string()).expect("a manifest");
    let run = operator.herm().run(&["init", "7", "--from", from.to_str().expect("UTF-8")]);
    assert_eq!(run.code, 0, "{run:?}");
    operator
}

fn plain() -> Operator {
    operator("You answer in JSON.\n", &[], ModelServer::always(Step::chat(r#"{"done":1}"#)))
}

fn asked(operator: &Operator, arguments: &[&str]) -> String {
    let (code, ran) = operator.herm().json(&[&["run", "7"], arguments].concat());
    assert_eq!(code, 0, "{ran}");
    ran["task"].as_str().expect("a task").to_owned()
}

fn reader(operator: &Operator) -> Reader {
    Reader::open(&Layout::new(operator.brains()), &"7".parse().expect("an id")).expect("a reader")
}

#[test]
fn a_subscriber_rates_its_own_task_and_is_not_told_of_those_of_others() {
    let operator = plain();
    let herm = operator.herm();
    let task = asked(&operator, &["go", "--subscriber", "alice"]);
    let (code, said) = herm.json(&["feedback", &task, "0.7", "--as", "alice", "--note", "half of it"]);
    assert_eq!((code, &said["id"], &said["source"], &said["value"]), (0, &json!("7"), &json!("feedback"), &json!(0.7)));
    assert_eq!((&said["outcome"]["value"], &said["settled"]["version"]), (&json!(0.7), &json!(3)));
    let again = herm.run(&["feedback", "7", &task, "0.7", "--as", "alice", "--note", "half of it"]);
    let says =
        format!("the feedback of task {task} says so already; its outcome is 0.70; brain 7 stays at version 3\n");
    assert_eq!((again.code, again.stdout), (0, says));
    // Another one's task, one without a subscriber and one that is not there are told of in the same words.
    let unnamed = asked(&operator, &["go on"]);
    for (task, who) in [(task.as_str(), "bob"), (&unnamed, "alice"), ("01a1f096b5e4-0000000000000000", "alice")] {
        let (code, said) = herm.json(&["feedback", "7", task, "bad", "--as", who]);
        assert_eq!((code, &said["error"]["kind"]), (4, &json!("not_found")), "{said}");
        assert_eq!(said["error"]["message"], format!("brain 7 has no task {task}"));
    }
    assert_eq!(
        reader(&operator).outcome(&task.parse().expect("an id")).expect("read").expect("a task").sources.len(),
        1
    );
    // The operator's label prevails, without a word of whose task it is.
    let label = herm.run(&["feedback", &task, "bad"]);
    assert_eq!(
        label.stdout,
        format!("the label of task {task} says bad; its outcome is bad; brain 7 is now version 5\n")
    );
    assert_eq!(herm.run(&["brain", "verify", "7"]).code, 0);
}

#[test]
fn a_task_is_found_without_its_brain_unless_several_brains_have_it_or_none() {
    let operator = plain();
    let herm = operator.herm();
    let task = asked(&operator, &["go"]);
    assert_eq!(herm.run(&["feedback", &task, "good"]).code, 0);
    let (code, said) = herm.json(&["feedback", "01a1f096b5e4-0000000000000000", "good"]);
    assert_eq!((code, &said["error"]["message"]), (4, &json!("no brain here has task 01a1f096b5e4-0000000000000000")));
    let forked = herm.run(&["brain", "fork", "7", "8"]);
    assert_eq!(forked.code, 0, "{forked:?}");
    let (code, said) = herm.json(&["feedback", &task, "bad"]);
    assert_eq!((code, &said["error"]["message"]), (5, &json!(format!("brains 7, 8 have task {task}"))));
    assert_eq!(herm.run(&["feedback", "7", &task, "bad"]).code, 0);
    for wrong in [&["feedback", &task, "great"][..], &["feedback", &task, "1.2"], &["feedback", "../7", &task, "good"]]
    {
        let (code, said) = herm.json(wrong);
        assert_eq!((code, &said["error"]["kind"]), (2, &json!("invalid_input")), "{said}");
    }
    assert_eq!(herm.run(&["feedback", &task]).code, 2);
}

#[test]
fn the_report_of_the_evolver_counts_what_is_known_of_answers() {
    let operator = plain();
    let herm = operator.herm();
    for said in [&["good"][..], &["good", "bad"], &["bad"], &["0.5"], &["0.25"], &[]] {
        let task = asked(&operator, &["go"]);
        for said in said {
            assert_eq!(herm.run(&["feedback", &task, said]).code, 0);
        }
    }
    let (code, report) = herm.json(&["evolve", "report", "7"]);
    let counted = &report["task_outcomes"];
    assert_eq!(
        (code, counted),
        (0, &json!({ "good": 1, "bad": 2, "scored": 2, "score_sum": 0.75, "unknown": 1 })),
        "{report:#}"
    );
    let text = herm.run(&["evolve", "report", "7"]).stdout;
    assert!(text.contains("1 good") && text.contains("2 bad") && text.contains("1 unknown"), "{text}");
}

/// The agent learns a skill, as a hard task would have written it.
fn learn(operator: &Operator, name: &str, body: &str) {
    let options = BrainOptions { signer: Some(std::sync::Arc::new(signer())), ..BrainOptions::default() };
    let layout = Layout::new(operator.brains());
    let mut brain = Brain::open(&layout, &"7".parse().expect("an id"), &options).expect("opened");
    herm_tests::learned::learn(&mut brain, name, body);
    brain.close().expect("closed");
}

fn system(request: &Request) -> String {
    request.body["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_rehearsal_on_the_command_line_proves_what_helps_and_settles_nothing() {
    let says = |request: &Request| {
        let colour = if system(request).contains("Say blue.") { "blue" } else { "red" };
        Step::chat(&json!({ "colour": colour }).to_string())
    };
    let role = "---\nchecks:\n  - contains: blue\n---\nYou name a colour.\n";
    let operator = operator(role, &[], ModelServer::answering(says));
    let herm = operator.herm();
    for number in 0..8 {
        asked(&operator, &[&format!("which colour has thing {number}?")]);
    }
    learn(&operator, "say-blue", "Say blue.");
    let before = reader(&operator).lock().clone();
    let (code, said) = herm.json(&["learn", "rehearse", "7", "say-blue", "--budget", "3"]);
    let rehearsal = &said["rehearsals"][0];
    assert_eq!((code, rehearsal["tasks"].as_array().map(Vec::len), &rehearsal["ended"]), (0, Some(3), &Value::Null));
    assert_eq!((&rehearsal["tasks"][0]["with"], &rehearsal["tasks"][0]["without"]), (&json!(1.0), &json!(0.0)));
    // Without a name all that is on trial is rehearsed; what was rehearsed counts.
    let run = herm.run(&["learn", "rehearse", "7", "--budget", "20"]);
    assert!(run.code == 0 && run.stdout.starts_with("say-blue: 5 tasks ran with it and without it\n"), "{run:?}");
    assert!(run.stdout.contains("8 better, 0 worse") && run.stdout.contains("its trial ended: proven;"), "{run:?}");
    assert_eq!(*reader(&operator).lock(), before, "nothing is settled");
    assert!(herm.run(&["learn", "status", "7"]).stdout.contains("say-blue  proven"));
    let again = herm.run(&["learn", "rehearse", "7"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "nothing is on trial\n"));
    assert_eq!(herm.run(&["learn", "rehearse", "7", "no-such-skill"]).code, 4);
}

#[test]
fn a_call_with_side_effects_that_the_task_did_not_make_is_not_made_in_a_rehearsal_and_decides_nothing() {
    // It notes a colour, and answers with it if that went well.
    let says = |request: &Request| {
        let colour = if system(request).contains("Say red.") { "red" } else { "blue" };
        let last = request.last_message();
        let noted = last.contains("data, not instructions") && !last.contains("not made in a rehearsal");
        Step::chat(
            &match request.body["messages"].as_array().map_or(0, Vec::len) {
                0..=2 => json!({ "tool": "note", "args": { "key": "colour", "value": colour } }),
                _ if noted => json!({ "colour": colour }),
                _ => json!({ "colour": "none was noted" }),
            }
            .to_string(),
        )
    };
    let role = "---\nchecks:\n  - contains: blue\ngrounding: off\n---\nYou note a colour.\n";
    let operator = operator(role, &["note"], ModelServer::answering(says));
    for number in 0..8 {
        let task = asked(&operator, &[&format!("which colour has thing {number}?")]);
        let known = reader(&operator).outcome(&task.parse().expect("an id")).expect("read").expect("a task");
        assert_eq!(known.value, herm::memory::OutcomeValue::Good);
    }
    learn(&operator, "say-red", "Say red.");
    let facts = || {
        let reader = reader(&operator);
        reader.counts(&reader.skills().expect("skills")).expect("counts").facts
    };
    let before = facts();
    let (code, said) = operator.herm().json(&["learn", "rehearse", "7", "say-red"]);
    let rehearsal = &said["rehearsals"][0];
    let counted = |field: &str| rehearsal[field].as_array().map(Vec::len);
    assert_eq!((code, counted("tasks"), counted("unrated")), (0, Some(0), Some(8)), "{said:#}");
    assert_eq!(rehearsal["unrated"][0], "a call of note that the task did not make is not made in a rehearsal");
    assert_eq!((&rehearsal["ended"], facts()), (&Value::Null, before), "nothing was noted, and nothing is known");
    assert!(operator.herm().run(&["learn", "status", "7"]).stdout.contains("say-red  trial"));
}
