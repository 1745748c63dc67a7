//! The lanes of the evolver that models may put in order, as a person and a script use them.

use std::path::{Path, PathBuf};

use herm::memory::{Evidence, EvidenceStatus, ImportedSession};
use herm::skill::CreatedBy;
use herm::{Digest, Draft, StepKind};
use herm_tests::brains::{skill_text, slug};
use herm_tests::command::Herm;
use herm_tests::{TempBrains, models};
use serde_json::{Value, json};

use super::{copy_of, tiny};

const SKILLS: [(&str, &str); 3] = [
    ("bread", "Knead flour, water and yeast, wait an hour, then bake the loaf in a hot oven."),
    ("gateway", "When the web server crashed, start the service again and check that it answers."),
    ("minutes", "Write down who said what in a meeting and what was decided."),
];

/// A command line over a brain whose skills have evidence, configured as said.
fn herm(config: &str) -> (TempBrains, Herm) {
    let brains = TempBrains::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    brains.clock.advance_ms(now.as_millis() as i64 - 1_767_323_045_000 - 60_000);
    let mut brain = brains.make("1");
    for (at, (name, body)) in SKILLS.iter().enumerate() {
        let mut draft = Draft::new();
        brain.edit(&mut draft).create_skill(&slug(name), &skill_text(name, body), CreatedBy::Agent).expect("a skill");
        brain.settle(&draft, StepKind::Maintenance, "a skill").expect("settled");
        let now = brain.clock().now();
        let row = |number: usize| Evidence {
            task: (*name).to_owned(),
            turn: 1,
            tool: "terminal".to_owned(),
            status: EvidenceStatus::Ok,
            skills: vec![slug(name)],
            args: Digest::of(&[number as u8]),
            arguments: None,
            summary: "fine".to_owned(),
            millis: 3,
            at: now,
        };
        let session = ImportedSession {
            task: (*name).to_owned(),
            at: now,
            model: "m".to_owned(),
            platform: "p".to_owned(),
            tools: (at..5).map(row).collect(),
            turns: Vec::new(),
            skills: vec![slug(name)],
            completed: true,
        };
        brain.import_evidence([session]).expect("taken in");
    }
    brain.close().expect("closed");
    let file = brains.path().join("herm.toml");
    std::fs::write(&file, config).expect("written");
    let herm = Herm::new(env!("CARGO_BIN_EXE_herm-under-test"), &brains.path()).config(&file);
    (brains, herm)
}

fn section(embedder: Option<&Path>, reranker: Option<&Path>) -> String {
    let line = |name: &str, path: Option<&Path>| {
        path.map(|path| format!("{name} = {:?}\n", path.to_str().expect("UTF-8"))).unwrap_or_default()
    };
    format!("[semantic]\n{}{}", line("embedder", embedder), line("reranker", reranker))
}

fn ok(herm: &Herm, arguments: &[&str]) -> Value {
    let (code, value) = herm.json(arguments);
    assert_eq!(code, 0, "{arguments:?}: {value:#}");
    value
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|one| one["skill_name"].as_str().expect("a name")).collect()
}

const QUERY: [&str; 5] = ["evolve", "candidates", "1", "--query", "my site is down, how do I bring it back"];

#[test]
fn a_real_model_finds_a_skill_that_shares_no_word_with_the_query() {
    let Some(minilm) = models::minilm() else { return };
    let (_brains, herm) = herm(&section(Some(&minilm), None));
    let found = ok(&herm, &[&QUERY[..], &["--execute-semantic"]].concat());
    assert_eq!((found["mode"].clone(), found["executed"].clone()), (json!("ranked"), json!(true)));
    assert_eq!(found["candidates"][0]["skill_name"], "gateway", "{found:#}");
    let model = found["rankers"][0].as_str().expect("a name");
    assert!(model.starts_with("all-MiniLM-L6-v2@"), "{model}");
    let score = found["candidates"][0]["score"].as_f64().expect("a number");
    assert_eq!(found["candidates"][0]["reasons"], json!([format!("ranked by {model}: {score:.4}")]));
    assert_eq!(found["ranking_remark"], Value::Null);
}

#[test]
fn both_models_put_the_eligible_in_order_and_say_who_gave_which_score() {
    let (_brains, herm) = herm(&section(Some(&tiny("bert")), Some(&tiny("xlm-roberta"))));
    let plain = ok(&herm, &["evolve", "auto-run", "1"]);
    assert_eq!(plain["selection"]["mode"], "deterministic-evidence");
    assert_eq!(names(&plain["candidates"]), ["bread", "gateway", "minutes"]);
    let run = ok(&herm, &["evolve", "auto-run", "1", "--semantic-candidates", "--rerank-candidates"]);
    assert_eq!((&plain["safety"]["model_executed"], &run["safety"]["model_executed"]), (&json!(false), &json!(true)));
    let selection = &run["selection"];
    assert_eq!(
        (selection["mode"].clone(), selection["eligible_skill_count"].clone()),
        (json!("ranked-reranked"), json!(3))
    );
    let rankers: Vec<&str> =
        selection["rankers"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(rankers[0].starts_with("bert@") && rankers[1].starts_with("xlm-roberta@"), "{rankers:?}");
    let mut chosen = names(&run["candidates"]);
    chosen.sort_unstable();
    assert_eq!(chosen, ["bread", "gateway", "minutes"], "the same skills, whatever the order");
    for one in run["candidates"].as_array().expect("a list") {
        let why = &one["selection"];
        assert!((0.0..=1.0).contains(&why["score"].as_f64().expect("a score")), "{why:#}");
        assert!((-1.0..=1.0).contains(&why["first_score"].as_f64().expect("a score")), "{why:#}");
        let reasons = why["reasons"].to_string();
        for part in ["event_count=", "ranked by bert@", "reranked by xlm-roberta@"] {
            assert!(reasons.contains(part), "{reasons}");
        }
    }
    let said = herm.run(&["evolve", "auto-run", "1", "--semantic-candidates"]);
    assert!(said.stdout.contains("order: ranked by bert@"), "{said:?}");
}

#[test]
fn a_plan_names_the_models_that_are_configured_and_runs_none() {
    for (embedder, reranker) in [(true, true), (true, false), (false, true), (false, false)] {
        let (bert, roberta) = (tiny("bert"), tiny("xlm-roberta"));
        let (_brains, herm) = herm(&section(embedder.then_some(bert.as_path()), reranker.then_some(roberta.as_path())));
        let plan = ok(&herm, &[&QUERY[..], &["--semantic"]].concat());
        assert_eq!((&plan["mode"], &plan["executed"]), (&json!("semantic-plan"), &json!(false)), "{plan:#}");
        let said = plan.to_string();
        assert_eq!((said.contains("bert@"), said.contains("xlm-roberta@")), (embedder, reranker), "{plan:#}");
    }
}

#[test]
fn a_model_that_cannot_be_loaded_leaves_the_order_of_the_evidence_and_says_why() {
    let broken = copy_of("bert");
    std::fs::write(broken.path().join("tokenizer.json"), "{}").expect("written");
    let nowhere = PathBuf::from("/nowhere");
    for (embedder, why) in [(broken.path(), "tokenizer.json cannot be read"), (&nowhere, "/nowhere is no model")] {
        let (_brains, herm) = herm(&section(Some(embedder), None));
        let run = ok(&herm, &["evolve", "auto-run", "1", "--semantic-candidates"]);
        let selection = &run["selection"];
        assert_eq!(
            (selection["mode"].clone(), selection["fallback"].clone()),
            (json!("ranking-unavailable"), json!("deterministic-evidence"))
        );
        assert!(selection["error"].as_str().expect("an error").contains(why), "{selection:#}");
        assert_eq!(names(&run["candidates"]), ["bread", "gateway", "minutes"]);
        let found = ok(&herm, &[&QUERY[..], &["--execute-semantic"]].concat());
        assert_eq!((found["mode"].clone(), found["executed"].clone()), (json!("ranking-unavailable"), json!(false)));
        assert!(found["error"].as_str().expect("an error").contains(why), "{found:#}");
    }
}

#[test]
fn without_a_model_it_is_said_what_to_set_and_words_rank() {
    let (_brains, herm) = herm("");
    let found = ok(&herm, &[&QUERY[..], &["--execute-semantic"]].concat());
    assert_eq!((found["mode"].clone(), found["rankers"][0].clone()), (json!("ranked"), json!("lexical")));
    let remark = found["ranking_remark"].as_str().expect("a remark");
    assert!(remark.contains("set `embedder` in [semantic]"), "{remark}");
    let run = herm.run(&["evolve", "auto-run", "1", "--rerank-candidates"]);
    assert!(run.stdout.contains("no reranker is configured: set `reranker` in [semantic]"), "{run:?}");
}

#[test]
fn settings_of_the_environment_go_before_the_file_and_wrong_ones_are_refused() {
    let (_brains, herm) = herm(&format!("{}text_limit = 600\n", section(Some(&tiny("bert")), None)));
    let run = |name: &str, value: &str| {
        let mut command = herm.command(&["evolve", "auto-run", "1", "--semantic-candidates"]);
        let output = command.env(name, value).output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run("HERM_SEMANTIC_TEXT_LIMIT", "40").0, Some(0));
    let (code, _, said) = run("HERM_SEMANTIC_TEXT_LIMIT", "0");
    assert!(code == Some(2) && said.contains("a text limit of 0 characters"), "{said}");
    let (code, _, said) = run("HERM_SEMANTIC_DEVICE", "abacus");
    assert!(code == Some(2) && said.contains("\"abacus\" is no device"), "{said}");
    let (code, said, _) = run("HERM_SEMANTIC_DEVICE", "cuda");
    assert!(code == Some(0) && said.contains("the CPU does the work"), "{said}");
}

#[test]
fn the_doctor_names_the_models_and_what_they_are_used_for() {
    let (_brains, sound) = herm(&format!("{}recall = true\n", section(Some(&tiny("bert")), None)));
    let checks = ok(&sound, &["doctor"])["checks"].clone();
    let check = checks.as_array().expect("a list").iter().find(|check| check["check"] == "semantic").expect("a check");
    let detail = check["detail"].as_str().expect("a text");
    assert!(check["level"] == "ok" && detail.starts_with("embedder bert@") && detail.ends_with(", recall"), "{detail}");
    let (_brains, broken) = herm("[semantic]\nreranker = \"/nowhere\"\nrecall = true\n");
    let (code, report) = broken.json(&["doctor"]);
    assert!(code == 1 && report.to_string().contains("recall = true needs an embedding model"), "{report:#}");
}
