//! What a task leaves in the brain's memory: its messages, its line in the log, its evidence.

use serde_json::Value;

use super::machine::{Machine, Stop};
use super::transcript::Turn;
use crate::brain::Draft;
use crate::ids::{Digest, Slug};
use crate::memory::{Evidence, Message, Role, TaskEntry};
use crate::task::Status;
use crate::text::{self, head};
use crate::tool::TaskFrame;

/// How much of a text is remembered.
const INPUT_CHARS: usize = 8_000;
const ANSWER_CHARS: usize = 8_000;
const SUMMARY_CHARS: usize = 180;

/// Adds the account of a task to its step.
pub fn write(draft: &mut Draft, frame: &TaskFrame, turns: &[Turn], machine: &Machine, stop: &Stop, loaded: &[Slug]) {
    let task = frame.task.to_string();
    let status = stop.reason.status();
    if status != Status::Failed {
        let message = |role, content: String| Message {
            task: task.clone(),
            subscriber: frame.subscriber,
            role,
            content,
            at: frame.at,
        };
        // What was asked and what was answered. The calls between are in the transcript: as messages
        // they would only be found again by whoever looks for the same words.
        draft.message(message(Role::User, head(&frame.input, INPUT_CHARS)));
        if let Some(answer) = &stop.answer {
            draft.message(message(Role::Assistant, head(answer, ANSWER_CHARS)));
        }
    }
    draft.task(TaskEntry {
        task: task.clone(),
        subscriber: frame.subscriber,
        outcome: status.name().to_owned(),
        summary: summary(stop),
        at: frame.at,
    });
    for call in machine.calls() {
        let args = turns
            .get(call.turn.saturating_sub(1) as usize)
            .and_then(|turn| turn.call.as_ref())
            .map(|made| Value::Object(made.args.clone()).to_string())
            .unwrap_or_default();
        draft.evidence(Evidence {
            task: task.clone(),
            turn: call.turn,
            tool: call.tool.clone(),
            status: call.status,
            skills: loaded.to_vec(),
            args: Digest::of(args.as_bytes()),
            summary: call.summary.clone(),
            millis: call.millis,
            at: frame.at,
        });
    }
}

/// A task in a line.
pub fn summary(stop: &Stop) -> String {
    let said = match (&stop.answer, &stop.message) {
        (Some(answer), _) => gist(answer),
        (None, Some(message)) => message.clone(),
        (None, None) => stop.reason.name().to_owned(),
    };
    text::line(&said, SUMMARY_CHARS)
}

/// The sentence of an answer that says most.
fn gist(answer: &str) -> String {
    let value: Value = serde_json::from_str(answer).unwrap_or_default();
    let field = |name: &&str| value[*name].as_str().map(str::to_owned);
    ["summary", "answer", "result", "verdict", "message", "status"]
        .iter()
        .find_map(field)
        .unwrap_or_else(|| answer.to_owned())
}
