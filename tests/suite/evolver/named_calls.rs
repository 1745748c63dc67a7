//! From tasks to a proposal: the block names the call that failed and the call that worked, and nothing that a private
//! subscriber gave to a tool.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use herm::backend::ScriptedBackend;
use herm::ids::{Random, SystemRandom};
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
use herm::{Error, Harness, Reader, Task, TaskStatus, Timestamp};
use herm_tests::TempBrains;
use herm_tests::brains::{signer, slug};
use herm_tests::command::Herm;
use serde_json::{Map, Value, json};

use super::{START, own, text_of};

const ANSWER: &str = r#"{"summary": "the pattern is known"}"#;

/// Knows one pattern.
struct Patterns(ToolSpec);

#[async_trait]
impl Tool for Patterns {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, args: Map<String, Value>, _: &ToolContext) -> herm::Result<ToolOutput> {
        match args.get("id").and_then(Value::as_str) {
            Some("signature-replay") => Ok(ToolOutput::new("the pattern is known", "found it")),
            _ => Err(Error::not_found("no such pattern")),
        }
    }
}

fn call(tool: &str, args: Value) -> String {
    json!({ "tool": tool, "args": args }).to_string()
}

/// Five tasks that load a skill, look for a pattern under a wrong name and then under the right one.
async fn five_tasks(brains: &TempBrains, wrong: &str, subscriber: Option<&str>, shares: bool) {
    let one = [
        call("skill_view", json!({ "name": "find-patterns" })),
        call("pattern_lookup", json!({ "id": wrong })),
        call("pattern_lookup", json!({ "id": "signature-replay" })),
        ANSWER.to_owned(),
    ];
    let mut toolbox = herm_tools::standard().expect("the standard tools");
    let schema = json!({ "type": "object", "properties": { "id": { "type": "string" } }, "required": ["id"] });
    toolbox
        .add(Arc::new(Patterns(ToolSpec::new("pattern_lookup", "Finds a pattern.", Permission::Read, schema))))
        .expect("added");
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    let harness = Harness::builder()
        .brains(brains.path())
        .toolbox(toolbox)
        .clock(brains.clock())
        .random(random)
        .signer(signer())
        .wait(Duration::from_secs(20))
        .backend(ScriptedBackend::new(std::iter::repeat_n(one, 5).flatten()))
        .sharing(shares)
        .learning(false)
        .curating(None)
        .evolving(None)
        .build()
        .expect("a harness");
    for number in 0..5 {
        let task = Task {
            subscriber: subscriber.map(|who| who.parse().expect("an id")),
            ..Task::new(format!("is pattern {number} known? I call it {wrong}"))
        };
        let outcome = harness.run(&"1".parse().expect("an id"), task).await.expect("an outcome");
        assert_eq!((outcome.status, outcome.calls.len()), (TaskStatus::Converged, 3), "{outcome:?}");
    }
    harness.shutdown().await.expect("closed");
}

/// A brain of now, for the command has the machine's clock, with a skill of the agent's own.
fn brains() -> TempBrains {
    let brains = TempBrains::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    brains.clock.advance_ms(now.as_millis() as i64 - 1_767_323_045_000 - 60_000);
    let mut brain = brains.make("1");
    own(&mut brain, "find-patterns");
    brain.close().expect("closed");
    brains
}

/// What `herm evolve` holds after a pass, and all that it says of the pass, of evidence and of what waits.
fn held(brains: &TempBrains) -> (String, String) {
    let herm = Herm::new(super::super::HERM, &brains.path());
    let ok = |arguments: &[&str]| {
        let (code, value) = herm.json(arguments);
        assert_eq!(code, 0, "{arguments:?}: {value:#}");
        value
    };
    let run = ok(&["evolve", "auto-run", "1", "--hold"]);
    assert_eq!(run["summary"]["pending"], 1, "{run:#}");
    let report = ok(&["evolve", "report", "1"]);
    let queue = ok(&["evolve", "queue", "list", "1"]);
    let id = queue["queue"][0]["id"].as_str().expect("an id").to_owned();
    let shown = herm.run(&["evolve", "queue", "show", "1", &id]).stdout;
    assert_eq!(ok(&["evolve", "queue", "accept", "1", &id])["done"], true);
    let text = text_of(&brains.open("1").expect("opened"), "find-patterns");
    assert!(text.contains(START), "{text}");
    (text.clone(), format!("{run}{report}{queue}{shown}{text}"))
}

fn evidence(brains: &TempBrains) -> Vec<(i64, herm::memory::Evidence)> {
    let reader = Reader::open(&brains.layout(), &"1".parse().expect("an id")).expect("a reader");
    reader.evidence_view().of_skill(&slug("find-patterns"), Timestamp(0), 100).expect("rows")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_wrong_call_in_five_tasks_becomes_a_lesson_that_names_both_calls() {
    let brains = brains();
    five_tasks(&brains, "replay-signature", None, false).await;
    // Calls before the skill was there say nothing about it.
    let rows = evidence(&brains);
    assert!(rows.iter().all(|(_, row)| row.tool == "pattern_lookup") && rows.len() == 10, "{rows:?}");
    let (text, told) = held(&brains);
    let lesson = r#"- `pattern_lookup` with `{"id":"replay-signature"}` failed 5 times in 5 tasks with `no such pattern`; `pattern_lookup` with `{"id":"signature-replay"}` worked, 5 of 5."#;
    assert!(text.contains(lesson) && told.contains(&format!("+{lesson}")), "{text}");
    assert!(told.contains(r#""arguments":{"id":"replay-signature"}"#), "the report has the arguments of rows: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_private_tasks_give_to_tools_is_in_no_evidence_no_block_and_no_proposal() {
    for shares in [false, true] {
        let brains = brains();
        five_tasks(&brains, "widow-harrington-estate", Some("alice"), shares).await;
        let rows = evidence(&brains);
        assert_eq!(rows.len(), 10);
        assert_eq!(rows.iter().all(|(_, row)| row.arguments.is_some()), shares);
        let (text, told) = held(&brains);
        if shares {
            assert!(text.contains(r#"with `{"id":"widow-harrington-estate"}` failed 5 times"#), "{text}");
            continue;
        }
        // It is still known that the call failed and that others worked.
        let known = "`pattern_lookup` failed 5 times in 5 tasks with `no such pattern`; \
            what then worked: the same tool with other arguments, 5 times.";
        assert!(text.contains(known), "{text}");
        let everything = format!("{told}{rows:?}").to_lowercase();
        for word in ["widow", "harrington", "estate", "signature-replay"] {
            assert!(!everything.contains(word), "{word} is in {everything}");
        }
        // Nor in any table that evidence and the evolver have.
        let connection = rusqlite::Connection::open(brains.file("1", "memory.db")).expect("opened");
        for table in [
            "evidence",
            "evidence_arguments",
            "evidence_turns",
            "evidence_sessions",
            "evolver_queue",
            "evolver_changes",
        ] {
            let mut all = connection.prepare(&format!("SELECT * FROM {table}")).expect("a table");
            let columns = all.column_count();
            let mut rows = all.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                let cells: Vec<rusqlite::types::Value> = (0..columns).map(|at| row.get(at).expect("a cell")).collect();
                assert!(!format!("{cells:?}").to_lowercase().contains("harrington"), "{table}: {cells:?}");
            }
        }
    }
}
