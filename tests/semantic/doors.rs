//! A person's search, and a server's, finds what the agent's own would find.

use herm_tests::model_server::{ModelServer, Step};
use herm_tests::models;
use herm_tests::operator::Operator;
use serde_json::{Value, json};

const SAID: &str = "The gateway crashed last night, so we started the service again and it answered.";
/// No word of it stands in what was said.
const ASKED: [&str; 6] = ["my", "site", "is", "down,", "what", "now"];

/// A brain that was told something, and may know what it means.
fn operator(semantic: &str) -> Operator {
    let model = ModelServer::always(Step::chat(r#"{"done":"noted"}"#));
    let config = format!(
        "backend = \"m\"\n[backends.m]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m-1\"\nstream = false\n{semantic}",
        model.url()
    );
    let operator = Operator::new(env!("CARGO_BIN_EXE_herm-under-test"))
        .with_model(model)
        .configured(&config)
        .with_plain_brain("1");
    let run = operator.herm().run(&["run", "1", SAID]);
    assert_eq!(run.code, 0, "{run:?}");
    operator
}

fn until_by_meaning(mut search: impl FnMut() -> Value) -> Value {
    for _ in 0..60 {
        let found = search();
        if found["byMeaning"] == true {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("meaning never had a part in it");
}

#[test]
fn the_command_and_the_server_search_by_meaning_where_recall_does() {
    let Some(minilm) = models::minilm() else { return };
    let operator = operator(&format!("[semantic]\nembedder = {minilm:?}\nrecall = true\n"));
    // Vectors are made behind a task, for a while; on a busy machine it may take another.
    let found = until_by_meaning(|| {
        let (code, found) = operator.herm().json(&[&["memory", "search", "1"][..], &ASKED].concat());
        assert_eq!(code, 0, "{found:#}");
        if found["byMeaning"] == false {
            assert_eq!(operator.herm().run(&["run", "1", "Go on."]).code, 0);
        }
        found
    });
    assert!(found["hits"][0]["snippet"].as_str().is_some_and(|snippet| snippet.contains("gateway")), "{found:#}");

    let key = operator.key(&["o", "--operations", "operate"]);
    let serving = operator.serve();
    let asked = format!("/v1/agents/1/memory/search?q={}", ASKED.join("%20"));
    // The first question loads the model, and nobody waits for it longer than a moment.
    let served = until_by_meaning(|| serving.client().key(&key).get(&asked).json());
    assert_eq!(served["hits"][0]["id"], found["hits"][0]["id"]);

    if cfg!(feature = "mcp") {
        let client = serving.client().key(&key).with("accept", "application/json, text/event-stream");
        let asked = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "recall", "arguments": { "agent": "1", "query": ASKED.join(" ") } },
        });
        let recalled = until_by_meaning(|| client.post("/mcp", &asked).json()["result"]["structuredContent"].clone());
        assert_eq!(recalled["hits"][0]["id"], found["hits"][0]["id"]);
    }
}

#[test]
fn without_a_model_or_with_one_that_fails_words_are_searched_and_it_is_said() {
    for (semantic, note) in [("", false), ("[semantic]\nembedder = \"/nowhere\"\nrecall = true\n", true)] {
        let operator = operator(semantic);
        let run = operator.herm().run(&["memory", "search", "1", "gateway", "crashed"]);
        assert!(run.code == 0 && run.stdout.contains("gateway"), "{run:?}");
        assert_eq!(run.stderr.contains("by words alone"), note, "{run:?}");
        let (code, found) = operator.herm().json(&[&["memory", "search", "1"][..], &ASKED].concat());
        assert_eq!((code, &found["byMeaning"], &found["hits"]), (0, &json!(false), &json!([])), "{found:#}");
    }
}

#[test]
fn the_vectors_of_a_brain_are_made_by_a_command_and_made_once() {
    let Some(minilm) = models::minilm() else { return };
    let operator = operator("");
    let run = operator.herm().run(&["semantic", "index", "1"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("no embedding model is configured"), "{run:?}");
    assert!(run.stderr.contains("set `embedder` in [semantic] to its directory"), "{run:?}");

    let config = operator.path().join("config.toml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    // Nothing makes vectors behind a task here: the command alone does.
    std::fs::write(config, format!("{text}\n[semantic]\nembedder = {minilm:?}\n")).expect("written");
    let (code, first) = operator.herm().json(&["semantic", "index", "1"]);
    let made = first["made"].as_u64().unwrap_or_default();
    assert!(code == 0 && made > 0 && first["missing"] == made, "{first:#}");
    let run = operator.herm().run(&["semantic", "index", "1"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "brain 1 lacks no vectors\n"), "{run:?}");
    let (code, again) = operator.herm().json(&["semantic", "index", "1"]);
    assert_eq!((code, again), (0, json!({ "id": "1", "made": 0, "missing": 0 })));
}
