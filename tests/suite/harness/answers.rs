//! What the schema in a role asks of an answer.

use herm::{Brain, BrainSource, RunOptions, Seed, StopReason, TaskEvent};

use super::*;

const ROLE: &str = r#"You are a test agent.

## Final answer

```json
{ "type": "object", "required": ["summary", "findings"], "properties": { "summary": { "type": "string" } } }
```
"#;

/// The first answer: it lacks a key.
const PART: &str = r#"{"summary":"looked"}"#;
const WHOLE: &str = r#"{"summary":"looked","findings":[]}"#;

/// A brain whose role has a schema of the final answer.
fn with_schema(brains: &TempBrains) -> BrainId {
    let id: BrainId = "1".parse().expect("an id");
    let seed = Seed { id: &id, files: &[("system.md", ROLE.as_bytes())] };
    let (brain, _) =
        Brain::hydrate(&brains.layout(), &id, &BrainSource::Seed(seed), &brains.opening()).expect("a new brain");
    brain.close().expect("closed");
    id
}

/// Runs a task with these answers after a call. What the model was told of its answers, and what came of the task.
async fn answered(answers: &[&str]) -> (Vec<String>, herm::Outcome) {
    let brains = TempBrains::new();
    let id = with_schema(&brains);
    let replies = std::iter::once(echo(1)).chain(answers.iter().map(|answer| (*answer).to_owned()));
    let harness = harness(&brains, ScriptedBackend::new(replies));
    let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let watch = RunOptions { events: Some(events), ..RunOptions::default() };
    let outcome = harness.run_with(&id, task("do it"), watch).await.expect("an outcome");
    harness.shutdown().await.expect("closed");
    let mut told = Vec::new();
    while let Some(event) = heard.recv().await {
        if let TaskEvent::Nudge { text, .. } = event {
            told.push(text.to_string());
        }
    }
    (told, outcome)
}

const TOLD: &str = "That answer lacks \"findings\", which the schema in the role requires.";

#[tokio::test]
async fn an_answer_that_lacks_a_key_of_the_roles_schema_is_asked_for_once_more() {
    let (told, outcome) = answered(&[PART, WHOLE]).await;
    assert!(told.len() == 1 && told[0].starts_with(TOLD), "{told:?}");
    assert_eq!((outcome.stop, outcome.turns, outcome.answer.as_deref()), (StopReason::Final, 3, Some(WHOLE)));
}

#[tokio::test]
async fn an_answer_that_lacks_it_again_is_taken_as_it_is() {
    let again = r#"{"summary":"looked twice"}"#;
    let (told, outcome) = answered(&[PART, again]).await;
    assert!(told.len() == 1 && told[0].starts_with(TOLD), "{told:?}");
    assert_eq!((outcome.stop, outcome.turns, outcome.answer.as_deref()), (StopReason::Final, 3, Some(again)));
}

#[tokio::test]
async fn an_answer_with_every_key_is_taken_at_once() {
    let (told, outcome) = answered(&[WHOLE]).await;
    assert_eq!((told, outcome.turns, outcome.answer.as_deref()), (Vec::new(), 2, Some(WHOLE)));
}
