//! What an outcome teaches, and where it shows: later feedback gives an example and takes it back, a large model is shown one
//! demonstration, the receipt says which arm was drawn, and an honest "could not find out" is an answer.

use std::path::Path;
use std::process::Command;

use herm::backend::Capabilities;
use herm::harness::{FeedbackFrom, TaskFeedback};
use herm::memory::{Arm, OutcomeValue, Trial, TrialState, TrialTask};
use herm::receipt::Envelope;
use herm::task::{LearningOptions, ShownAs, StopReason, TaskStatus};
use herm_tests::brains::slug;

use super::exemplars::{CHECKED, always, finds, lamp, made, ran, says, small, tools};
use super::*;

const EXAMPLES: &str = "skills/how-to-find/references/examples.md";

/// A harness that asks no model and takes feedback.
fn listening(brains: &TempBrains, sharing: bool) -> Harness {
    let nobody = ScriptedBackend::new(Vec::<String>::new());
    let builder = builder(brains).toolbox(tools()).backend(nobody).learning(always()).evolving(None).sharing(sharing);
    builder.build().expect("a harness")
}

async fn rated(brains: &TempBrains, task: &herm::TaskId, value: OutcomeValue, from: FeedbackFrom, sharing: bool) {
    let harness = listening(brains, sharing);
    let feedback = TaskFeedback { task: task.clone(), value, note: None, from };
    let given = harness.feedback(&"1".parse().expect("an id"), feedback).await.expect("feedback");
    assert_eq!(given.outcome.value, value);
    harness.shutdown().await.expect("closed");
}

/// The examples that the brain keeps.
fn kept(brains: &TempBrains) -> String {
    reader(brains).text(&EXAMPLES.parse().expect("a path")).expect("read").unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn good_feedback_gives_an_example_bad_feedback_takes_it_back_and_another_correction_gives_it_again() {
    let brains = TempBrains::new();
    made(&brains, "", None);
    let (outcome, _) = ran(&brains, always(), small(), "Where is the lamp?", &lamp()).await;
    assert_eq!((outcome.outcome.value, kept(&brains)), (OutcomeValue::Unknown, String::new()));
    let last = |brains: &TempBrains| {
        let steps = reader(brains).history(2).expect("history");
        steps.into_iter().map(|step| step.summary).collect::<Vec<_>>()
    };
    for (value, is_kept) in [
        (OutcomeValue::Good, true),
        (OutcomeValue::Bad, false),
        (OutcomeValue::Score(0.7), true),
        (OutcomeValue::Score(0.69), false),
        (OutcomeValue::Good, true),
    ] {
        rated(&brains, &outcome.task, value, FeedbackFrom::Operator, false).await;
        assert_eq!(kept(&brains).contains("Where is the lamp?"), is_kept, "{value}");
        let (task, words) = (&outcome.task, last(&brains));
        let learned = match is_kept {
            true => format!("an example of task {task} is in skill how-to-find"),
            false => format!("the example of task {task} is out of skill how-to-find"),
        };
        assert_eq!(words, [learned, format!("label on task {task}: {value}")]);
        // The next task of the kind is shown it, or nothing.
        let backend = Arc::new(ScriptedBackend::new([finds("kettle", "cellar"), says("box 42")]).capable(small()));
        let router = herm::backend::Router::single(Arc::clone(&backend) as Arc<dyn herm::backend::Backend>);
        let harness = builder(&brains).toolbox(tools()).router(router).learning(always()).evolving(None).build();
        let harness = harness.expect("a harness");
        let dry = Task { keep: herm::task::SettleMode::DryRun, ..task_of("Where is the kettle?") };
        let shown = harness.run(&"1".parse().expect("an id"), dry).await.expect("an outcome").shown;
        harness.shutdown().await.expect("closed");
        assert_eq!(shown.iter().any(|shown| shown.example.as_ref() == Some(task)), is_kept, "{value}: {shown:?}");
    }
    // Every step of it has a receipt, and the chain holds.
    assert!(brains.open("1").expect("opened").verify().expect("verified").is_sound());
}

fn task_of(input: &str) -> Task {
    task(input)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_its_checks_called_good_loses_its_example_when_its_subscriber_says_bad() {
    let brains = TempBrains::new();
    made(&brains, CHECKED, None);
    let (outcome, _) = ran(&brains, always(), small(), "Where is the lamp?", &lamp()).await;
    assert!(kept(&brains).contains("Where is the lamp?"));
    rated(&brains, &outcome.task, OutcomeValue::Bad, FeedbackFrom::Unnamed, false).await;
    assert_eq!(kept(&brains).matches("Where is").count(), 0, "{}", kept(&brains));
}

#[tokio::test(flavor = "multi_thread")]
async fn good_feedback_on_a_subscribers_task_is_no_example_for_others_unless_sharing_is_on() {
    for (sharing, is_kept) in [(false, false), (true, true)] {
        let brains = TempBrains::new();
        let id = made(&brains, "", None);
        let ann: herm::SubscriberId = "ann".parse().expect("a subscriber");
        let backend = ScriptedBackend::new(lamp());
        let builder = builder(&brains).toolbox(tools()).backend(backend).learning(always()).sharing(sharing);
        let harness = builder.evolving(None).build().expect("a harness");
        let asked = Task { subscriber: Some(ann.clone()), ..task("Where is the lamp?") };
        let outcome = harness.run(&id, asked).await.expect("an outcome");
        harness.shutdown().await.expect("closed");
        rated(&brains, &outcome.task, OutcomeValue::Good, FeedbackFrom::Subscriber(ann), sharing).await;
        assert_eq!(kept(&brains).contains("Where is the lamp?"), is_kept, "sharing {sharing}");
        // Sharing that is switched on later does not share what was said before.
        rated(&brains, &outcome.task, OutcomeValue::Score(0.9), FeedbackFrom::Operator, true).await;
        assert_eq!(kept(&brains).contains("Where is the lamp?"), is_kept, "sharing {sharing}");
    }
}

/// Runs a task with `find` as the only tool that could help; what came of it, and the last thing that each turn was told.
async fn with_find_alone(brains: &TempBrains, words: &[String]) -> (herm::Outcome, Vec<String>) {
    let backend = Arc::new(ScriptedBackend::new(words.to_vec()).capable(small()));
    let router = herm::backend::Router::single(Arc::clone(&backend) as Arc<dyn herm::backend::Backend>);
    let alone = tools().only(&["find".to_owned(), "skill_view".to_owned()]);
    let builder = builder(brains).toolbox(alone).router(router).learning(always()).evolving(None);
    let harness = builder.build().expect("a harness");
    let outcome = harness.run(&"1".parse().expect("an id"), task("Where is the lamp?")).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    (outcome, backend.asked().iter().map(|ask| ask.messages.last().expect("a message").content.to_string()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_every_tool_has_failed_often_enough_it_may_say_that_it_could_not_find_out() {
    let honest = says("I could not find out where the lamp is.");
    let failing = ["attic", "garage"].map(|list| [finds("lamp", list), finds("the lamp", list)]).concat();
    for role in ["", "---\ngrounding: strict\n---\n"] {
        let brains = TempBrains::new();
        made(&brains, role, None);
        let words = [failing.as_slice(), std::slice::from_ref(&honest)].concat();
        let (outcome, told) = with_find_alone(&brains, &words).await;
        let ended = (outcome.status, outcome.answer.as_ref());
        assert_eq!(ended, (TaskStatus::Converged, Some(&honest)), "{role:?}: {:?}", told.last());
        assert_eq!(outcome.calls.len(), 4);
        assert!(outcome.skills_changed.is_empty(), "it is no example");
        // Three failures are not enough.
        let words = [&failing[..3], &[honest.clone(), failing[3].clone(), honest.clone()]].concat();
        let (outcome, told) = with_find_alone(&brains, &words).await;
        assert_eq!((outcome.status, outcome.turns), (TaskStatus::Converged, 6));
        assert!(told[4].contains("no call has gone well yet"), "{told:?}");
        // What nobody said is no honest answer.
        let words = [failing.as_slice(), &[says("box Kolp"), says("box Kolp"), says("box Kolp")]].concat();
        let (outcome, _) = with_find_alone(&brains, &words).await;
        assert_eq!((outcome.stop, outcome.billable), (StopReason::Unverified, false));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_model_sees_one_example_as_a_demonstration_before_the_task() {
    let brains = TempBrains::new();
    made(&brains, CHECKED, None);
    let large = Capabilities { preload_bytes: 6_000, ..Capabilities::default() };
    ran(&brains, always(), large, "Where is the lamp?", &lamp()).await;
    let words = [finds("kettle", "cellar"), says("box 42")];
    let (outcome, asked) = ran(&brains, always(), large, "Where is the kettle?", &words).await;
    let [shown] = outcome.shown.as_slice() else { panic!("{:?}", outcome.shown) };
    assert_eq!((shown.shown_as, shown.arm), (ShownAs::Example, Arm::Shown));
    let messages = &asked[0].messages;
    assert_eq!((messages.len(), &*messages[1].content), (2, "Where is the kettle?"));
    let system = &messages[0].content;
    assert_eq!(system.matches("# Example").count(), 1);
    // Nothing but the skills stands behind it, and no reply is held to a plan.
    let demonstration = system.split("\n# Example\n").nth(1).expect("an example");
    insta::assert_snapshot!("demonstration", demonstration);
    assert!(!asked[0].reply_schema.to_string().contains(r#"{"const":"cellar"}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_is_shown_whole_as_far_as_the_backend_has_room() {
    for (room, body, is_shown) in
        [(6_000, 5_900, true), (6_000, 6_100, false), (1_200, 1_100, true), (1_200, 1_300, false)]
    {
        let brains = TempBrains::new();
        let text = format!("---\nname: find-things\ndescription: Finds things.\n---\n{}\n", "Ask. ".repeat(body / 5));
        made(&brains, "", Some(&text));
        let can = Capabilities { preload_bytes: room, ..Capabilities::default() };
        let (outcome, asked) = ran(&brains, always(), can, "Where is the lamp?", &lamp()).await;
        let shown = asked[0].messages[0].content.contains("# Procedure: find-things");
        assert_eq!((shown, outcome.shown.len()), (is_shown, usize::from(is_shown)), "{body} bytes in {room}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_receipt_has_arm_skill_and_example_and_a_stranger_still_verifies_the_chain() {
    let brains = TempBrains::new();
    made(&brains, CHECKED, None);
    let options = LearningOptions { trials: true, ..always() };
    ran(&brains, options, small(), "Where is the lamp?", &lamp()).await;
    let (mut arms, mut outcomes) = (Vec::new(), Vec::new());
    for n in 0..8 {
        let words = [finds("kettle", "cellar"), says("box 42")];
        let (outcome, _) = ran(&brains, options, small(), &format!("Where is the kettle{n}?"), &words).await;
        arms.push(outcome.shown[0].arm);
        outcomes.push(json!(outcome.shown[0]));
    }
    assert!(arms.contains(&Arm::Shown) && arms.contains(&Arm::HeldBack), "{arms:?}");
    let lines: Vec<String> =
        reader(&brains).receipts(1, u64::MAX).expect("receipts").into_iter().map(|kept| kept.envelope).collect();
    let of_task = |line: &String| {
        let payload = Envelope::parse(line).expect("an envelope").payload().expect("a payload");
        serde_json::from_slice::<Value>(&payload).expect("a statement")["predicate"]["task"].clone()
    };
    let tasks: Vec<Value> = lines.iter().skip(2).map(of_task).collect();
    assert!(of_task(&lines[1]).get("shown").is_none(), "nothing matched the first task");
    for ((task, arm), shown_there) in tasks.iter().zip(&arms).zip(&outcomes) {
        let [shown] = task["shown"].as_array().expect("an array").as_slice() else { panic!("{task}") };
        assert_eq!(
            (&shown["skill"], &shown["arm"], &shown["trial"], &shown["example"]),
            (&json!("how-to-find"), &json!(arm), &json!(true), &shown_there["example"]),
        );
        assert_eq!(task["outcome"]["value"], "good");
    }
    let Some(python) = std::env::var_os("HERM_PYTHON") else {
        let get = "pip install cryptography, and HERM_PYTHON names that Python";
        return herm_untested::not_run("a stranger verifies receipts with arms", "Python with cryptography", get);
    };
    let export = brains.path().join("tape");
    std::fs::write(&export, lines.join("\n")).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/verify_receipts.py");
    let key = signer().public().to_string();
    let run = Command::new(python).arg(script).arg(&export).arg(key).output().expect("Python starts");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains(&format!("{} receipts", lines.len())), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_brain_with_ten_thousand_trials_is_shown_what_its_own_trial_says() {
    let brains = TempBrains::new();
    made(&brains, CHECKED, None);
    let options = LearningOptions { trials: true, ..always() };
    ran(&brains, options, small(), "Where is the lamp?", &lamp()).await;
    let mut brain = brains.open("1").expect("opened");
    let since = brain.clock().now();
    brain
        .write_trials(|writer| {
            for number in 0..10_000 {
                let (skill, reason) = (slug(&format!("skill-{number}")), "learned".to_owned());
                let state = [TrialState::Trial, TrialState::Proven, TrialState::Unproven][number % 3];
                writer.put_trial(&Trial { skill: skill.clone(), state, since, decided: None, reason })?;
                let task = format!("old-{number}");
                let (arm, score) = (Arm::Shown, Some(1.0));
                let row = TrialTask {
                    skill,
                    task,
                    arm,
                    at: since,
                    score,
                    errors: 0,
                    turns: 2,
                    micro_usd: 1,
                    rehearsed: true,
                };
                writer.add_task(&row)?;
            }
            Ok(())
        })
        .expect("written");
    brain.close().expect("closed");
    for (state, expected) in [(TrialState::Proven, Some((Arm::Shown, false))), (TrialState::Unproven, None)] {
        let mut brain = brains.open("1").expect("opened");
        let (skill, reason) = (slug("how-to-find"), "by hand".to_owned());
        brain
            .write_trials(|writer| writer.put_trial(&Trial { skill, state, since, decided: Some(since), reason }))
            .expect("written");
        brain.close().expect("closed");
        let words = [finds("kettle", "cellar"), says("box 42")];
        let (outcome, asked) = ran(&brains, options, small(), "Where is the kettle?", &words).await;
        assert_eq!(outcome.status, TaskStatus::Converged);
        assert_eq!(outcome.shown.first().map(|shown| (shown.arm, shown.trial)), expected, "{:?}", outcome.shown);
        // What was not proven stays in the index, like any skill.
        let stands = asked[0].messages[0].content.contains("- how-to-find:");
        assert_eq!(stands, state == TrialState::Unproven);
    }
}
