//! `herm learn status|trials|show|stop|report` through the command line.

use herm_tests::learned::every_state;
use herm_tests::{Herm, TempBrains};
use serde_json::json;

use crate::HERM;

/// A brain with a skill that helps, one that hurts, one that is not decided and one that nothing is known of.
fn learned() -> (TempBrains, Herm) {
    let brains = TempBrains::new();
    let mut brain = brains.make("1");
    every_state(&mut brain);
    brain.close().expect("closed");
    let herm = Herm::new(HERM, &brains.path());
    (brains, herm)
}

#[test]
fn status_shows_every_learned_skill_with_its_gain_and_what_all_of_it_is_worth() {
    let (_brains, herm) = learned();
    let run = herm.run(&["learn", "status", "1"]);
    assert_eq!(run.code, 0, "{run:?}");
    let expected = "\
SKILL   STATE              WITH IT    WITHOUT    GAIN, 95 %              COST
attic   harmful, archived  0.00 of 6  1.00 of 6  -1.00 (-1.00 to -0.45)  +0.0002 $
cellar  proven             1.00 of 7  0.00 of 7  +1.00 (+0.50 to +1.00)  +0.0002 $
garage  trial              0.50 of 3  0.25 of 3  +0.25 (-0.37 to +0.68)  +0.0002 $
shed    trial              –          –          –                       –

1 proven, 2 on trial, 1 harmful
gain of what is proven: +1.00 (+0.50 to +1.00) a task that it fits
it fits 44 % of tasks; over all tasks: +0.44 (+0.22 to +0.44)
what harmful skills cost on trial: 6.0 good answers
";
    assert_eq!(run.stdout, expected);
    let (code, json) = herm.json(&["learn", "status", "1"]);
    assert_eq!((code, &json["counts"]["proven"], &json["gain"]["price"]), (0, &json!(1), &json!(6.0)));
    assert_eq!(json["skills"][1]["skill"], "cellar");
    assert_eq!(json["skills"][1]["shown"]["tasks"], 7);
    assert_eq!(json["skills"][1]["gain"]["value"], 1.0);
}

#[test]
fn trials_shows_how_far_each_is_and_show_says_why_one_stands_where_it_does() {
    let (_brains, herm) = learned();
    let run = herm.run(&["learn", "trials", "1"]);
    assert!(run.stdout.contains("6 of 8 tasks") && run.stdout.contains("shed"), "{}", run.stdout);
    assert!(!run.stdout.contains("attic") && !run.stdout.contains("cellar"), "{}", run.stdout);
    let run = herm.run(&["learn", "show", "1", "attic"]);
    assert!(
        run.stdout.starts_with("attic: harmful, archived\nmean outcome 0.00 in 6 tasks with it and 1.00 in 6 without")
    );
    assert!(run.stdout.contains("held back") && run.stdout.contains("attic-11"), "{}", run.stdout);
    let (code, json) = herm.json(&["learn", "show", "1", "nothing"]);
    assert_eq!((code, &json["error"]["kind"]), (4, &json!("not_found")));
    let (_, json) = herm.json(&["learn", "show", "1", "garage"]);
    assert_eq!((&json["nextLook"], json["tasks"].as_array().map(Vec::len)), (&json!(8), Some(6)));
    assert_eq!(
        json["curve"].as_array().map(|curve| curve[..2].to_vec()),
        Some(vec![json!({ "arm": "shown", "score": 0.5 }), json!({ "arm": "held_back", "score": 0.25 })])
    );
    assert_eq!(json["examples"], json!([]), "a skill without worked examples");
}

#[test]
fn stop_ends_a_trial_by_hand_and_report_is_markdown() {
    let (_brains, herm) = learned();
    let run = herm.run(&["learn", "stop", "1", "garage", "--keep"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "kept garage: it is shown to every task that it fits\n"));
    let run = herm.run(&["learn", "stop", "1", "shed", "--archive"]);
    assert!(run.code == 0 && run.stdout.starts_with("archived shed; brain 1 is now version "), "{run:?}");
    assert_eq!(herm.run(&["learn", "stop", "1", "shed", "--keep"]).code, 5);
    assert_eq!(herm.run(&["learn", "stop", "1", "nothing"]).code, 4);
    assert_eq!(herm.run(&["learn", "stop", "1", "garage", "--keep", "--archive"]).code, 2);
    let report = herm.run(&["learn", "report", "1"]).stdout;
    assert!(report.starts_with("# What agent 1 has learned, at version "), "{report}");
    for part in [
        "## Proven",
        "| cellar | 1.00 of 7 | 0.00 of 7 |",
        "- garage: kept by a person",
        "## Harmful",
        "- shed: archived by a person",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let verified = herm.run(&["brain", "verify", "1"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn an_agent_that_learned_nothing_says_so() {
    let brains = TempBrains::new();
    brains.make("1").close().expect("closed");
    let herm = Herm::new(HERM, &brains.path());
    assert_eq!(herm.run(&["learn", "status", "1"]).stdout, "nothing learned yet\n");
    assert_eq!(herm.run(&["learn", "trials", "1"]).stdout, "nothing is on trial\n");
    assert!(herm.run(&["learn", "report", "1"]).stdout.ends_with("Nothing yet.\n"));
    assert_eq!(herm.run(&["learn", "rehearse", "1"]).stdout, "nothing is on trial\n");
    assert_eq!(herm.run(&["learn", "status", "2"]).code, 4);
}
