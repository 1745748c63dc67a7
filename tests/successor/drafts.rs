//! Drafts that change what a brain is told, and what it may call: from what held it up to the step that ends it, on a model
//! that does what it reads.

use herm::ids::SystemRandom;
use herm::receipt::Signer;
use herm_tests::model_server::{ModelServer, Request, Step};
use herm_tests::{Herm, can_sandbox};
use serde_json::{Value, json};

use crate::Bench;

const DONE: &str = r#"{"summary":"done"}"#;

/// What a model is told, and how far it is.
struct Heard<'a> {
    told: &'a str,
    /// How often it has replied.
    replies: usize,
}

/// A model that replies as this says.
fn model(reply: fn(&Heard<'_>) -> String) -> ModelServer {
    ModelServer::answering(move |request: &Request| {
        let messages = request.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let heard = Heard {
            told: messages.first().and_then(|first| first["content"].as_str()).unwrap_or_default(),
            replies: messages.iter().filter(|one| one["role"] == "assistant").count(),
        };
        Step::chat(&reply(&heard))
    })
}

/// A brain with these tools that has done eight tasks with a model, and a steward.
struct Place {
    bench: Bench,
    herm: Herm,
    key: String,
    _model: ModelServer,
}

impl Place {
    fn new(tools: &[&str], reply: fn(&Heard<'_>) -> String) -> Self {
        let (bench, model) = (Bench::empty(), model(reply));
        let from = bench.path().join("plain");
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("system.md"), "You look things up and answer in JSON.\n").unwrap();
        let manifest = json!({ "schema": "herm/manifest@1", "name": "PLAIN", "tools": tools });
        std::fs::write(from.join("manifest.json"), manifest.to_string()).unwrap();
        bench.must(&["init", "1", "--from", from.to_str().unwrap()]);
        let key = bench.path().join("steward.pem");
        let steward = Signer::load_or_create(&key, &SystemRandom).unwrap();
        let config = bench.path().join("config.toml");
        let text = format!(
            "backend = \"paid\"\nlearning = false\n[stewards]\nkeys = [\"{}\"]\n[backends.paid]\nkind = \"openai\"\nbase_url = \"{}/v1\"\n\
             model = \"m-1\"\nstream = false\nprice = {{ input = 1000000, output = 1000000 }}\n",
            steward.public(),
            model.url()
        );
        std::fs::write(&config, text).unwrap();
        let herm = bench.herm().clone().config(&config);
        for number in 0..8 {
            let run = herm.run(&["run", "1", &format!("look for zebra {number}")]);
            assert_eq!(run.code, 0, "{run:?}");
        }
        Self { bench, herm, key: key.to_str().unwrap().to_owned(), _model: model }
    }

    fn auto(&self, more: &[&str]) -> (i32, Value) {
        self.herm.json(&[&["successor", "auto", "1", "--money", "50"], more].concat())
    }

    /// From what was detected to the step: the draft, as it was noted.
    fn improved(&self) -> Value {
        let stage = |run: &Value, name: &str| {
            run["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == name).unwrap().clone()
        };
        let (code, dry) = self.auto(&["--dry-run"]);
        let evaluated = stage(&dry, "evaluate");
        assert_eq!((code, &evaluated["output"]["ruling"]), (0, &json!("APPROVE")), "{dry:#}");
        let verdict = evaluated["output"]["verdict"].as_str().unwrap();
        let approved = self.herm.run(&["successor", "approve", verdict, "--key", &self.key]);
        assert_eq!(approved.code, 0, "{approved:?}");
        let (code, run) = self.auto(&[]);
        assert_eq!((code, &stage(&run, "apply")["decision"]), (0, &json!("go")), "{run:#}");
        self.bench.must(&["receipts", "verify", "1"]);
        stage(&dry, "draft")["output"].clone()
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.bench.brains().join("1").join(file)).unwrap()
    }
}

#[test]
fn a_line_of_the_role_that_the_model_obeys_is_judged_approved_and_applied() {
    if !can_sandbox() {
        return;
    }
    let line = "Each reply is exactly one JSON object, with nothing before or after it.";
    let place = Place::new(&[], |heard| {
        let obeys = heard.told.contains("Each reply is exactly one JSON object, with nothing before or after it.");
        if obeys || heard.replies > 0 { DONE.to_owned() } else { "I would rather talk.".to_owned() }
    });
    let draft = place.improved();
    assert_eq!(draft["patch"]["changes"][0]["kind"], "role", "{draft:#}");
    assert_eq!(place.text("system.md"), format!("You look things up and answer in JSON.\n\n{line}\n"));
    // What it was for: the next task needs one turn.
    let (code, run) = place.herm.json(&["run", "1", "look for one more zebra"]);
    assert_eq!((code, &run["turns"]), (0, &json!(1)), "{run:#}");
}

#[test]
fn a_skill_that_says_how_to_call_a_tool_is_judged_approved_and_applied() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new(&["pattern_search", "skill_view"], |heard| {
        let knows = heard.told.contains("calling-pattern-search");
        let call = |args: Value| json!({ "tool": "pattern_search", "args": args }).to_string();
        match (knows, heard.replies) {
            (false, 0) => call(json!({ "look_for": "zebra" })),
            (true, 0) | (false, 1) => call(json!({ "query": "zebra" })),
            _ => DONE.to_owned(),
        }
    });
    let draft = place.improved();
    assert_eq!(draft["patch"]["changes"][0]["kind"], "files", "{draft:#}");
    let skill = place.text("skills/calling-pattern-search.md");
    assert!(skill.contains("- `query`: ") && skill.contains("other arguments than those above are refused"), "{skill}");
    let (code, run) = place.herm.json(&["run", "1", "look for one more zebra"]);
    assert_eq!((code, &run["turns"]), (0, &json!(2)), "{run:#}");
}

#[test]
fn a_tool_that_is_called_in_vain_is_judged_approved_and_put_on_the_whitelist() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new(&["scan"], |heard| match heard.replies {
        0 => r#"{"tool":"outline","args":{}}"#.to_owned(),
        1 => r#"{"tool":"scan","args":{}}"#.to_owned(),
        _ => DONE.to_owned(),
    });
    let draft = place.improved();
    assert_eq!(draft["patch"]["changes"][0]["kind"], "files", "{draft:#}");
    let manifest: Value = serde_json::from_str(&place.text("manifest.json")).unwrap();
    assert_eq!(manifest["tools"], json!(["scan", "outline"]));
}

#[test]
fn a_line_that_the_model_does_not_obey_is_not_approved_and_not_tried_again() {
    if !can_sandbox() {
        return;
    }
    let place = Place::new(&[], |heard| match heard.replies {
        0 => "I would rather talk.".to_owned(),
        _ => DONE.to_owned(),
    });
    let (_, run) = place.auto(&["--dry-run"]);
    let stages = run["stages"].as_array().unwrap();
    let evaluated = stages.iter().find(|stage| stage["stage"] == "evaluate").unwrap();
    assert_eq!(evaluated["output"]["ruling"], "NEEDS_REVISION", "{run:#}");
    let (_, again) = place.auto(&["--dry-run"]);
    let draft = again["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == "draft").unwrap();
    assert_eq!(draft["decision"], "nothing", "{draft:#}");
}
