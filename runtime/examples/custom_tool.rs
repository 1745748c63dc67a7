//! A tool of your own: one card, one call. `cargo run -p herm --example custom_tool`

use herm::backend::ScriptedBackend;
use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
use herm::{Brain, BrainOptions, BrainSource, Harness, Result, Seed, Task};
use serde_json::{Map, Value, json};

/// Counts the words of the task's input.
struct WordCount(ToolSpec);

#[async_trait::async_trait]
impl Tool for WordCount {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let least = args.get("min_length").and_then(Value::as_u64).unwrap_or(1);
        let count = cx.task().input.split_whitespace().filter(|word| word.chars().count() as u64 >= least).count();
        Ok(ToolOutput::new(format!("{count} words"), format!("{count} words")))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("herm-custom-tool-{}", std::process::id()));
    let id = "7".parse()?;
    let seed = Seed { id: &id, files: &[("system.md", b"You count words and answer in JSON.\n")] };
    let (brain, _) = Brain::hydrate(&herm::Layout::new(&dir), &id, &BrainSource::Seed(seed), &BrainOptions::default())?;
    brain.close()?;

    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "min_length": { "type": "integer", "minimum": 1, "description": "Shorter words do not count." } },
    });
    let tool = WordCount(ToolSpec::new("word_count", "Counts the words of the input.", Permission::Read, schema));
    // A model would write these replies.
    let model = ScriptedBackend::new([r#"{"tool": "word_count", "args": {"min_length": 4}}"#, r#"{"words": 3}"#]);
    let harness = Harness::builder().brains(&dir).backend(model).tool(tool)?.build()?;
    let outcome = harness.run(&id, Task::new("the quick brown fox jumps")).await?;
    harness.shutdown().await?;
    assert_eq!(outcome.calls.first().map(|call| call.summary.as_str()), Some("3 words"));
    assert_eq!(outcome.answer.as_deref(), Some(r#"{"words": 3}"#));
    herm::fsio::remove_tree(&dir)
}

#[test]
fn it_does_what_it_says() {
    main().unwrap();
}
