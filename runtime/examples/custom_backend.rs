//! A backend of your own: one method. `cargo run -p herm --example custom_backend`

use herm::backend::{Backend, BackendError, Completion, CompletionRequest, FinishReason};
use herm::{Brain, BrainOptions, BrainSource, Harness, Result, Seed, Task};

/// Answers with how long the question was.
#[derive(Debug)]
struct Measuring;

#[async_trait::async_trait]
impl Backend for Measuring {
    fn name(&self) -> &str {
        "measuring"
    }

    async fn complete(&self, ask: &CompletionRequest) -> std::result::Result<Completion, BackendError> {
        let asked = ask.messages.last().map_or(0, |message| message.content.chars().count());
        Ok(Completion {
            text: format!("{{\"characters\": {asked}}}"),
            finish: FinishReason::Stop,
            model: "ruler".to_owned(),
            tokens: None,
            attestation: None,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("herm-custom-backend-{}", std::process::id()));
    let id = "7".parse()?;
    let seed = Seed { id: &id, files: &[("system.md", b"You measure.\n")] };
    let (brain, _) = Brain::hydrate(&herm::Layout::new(&dir), &id, &BrainSource::Seed(seed), &BrainOptions::default())?;
    brain.close()?;

    let harness = Harness::builder().brains(&dir).backend(Measuring).build()?;
    let outcome = harness.run(&id, Task::new("how long is this?")).await?;
    harness.shutdown().await?;
    assert_eq!(outcome.answer.as_deref(), Some("{\"characters\": 17}"));
    assert_eq!(outcome.model.as_deref(), Some("ruler"));
    herm::fsio::remove_tree(&dir)
}

#[test]
fn it_does_what_it_says() {
    main().unwrap();
}
