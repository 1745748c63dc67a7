//! What the tests of examples share.

use serde_json::{Value, json};

use super::{Example, ExampleCall};
use crate::backend::{Completion, FinishReason};
use crate::memory::EvidenceStatus;
use crate::session::machine::{Stop, ToolCall};
use crate::session::{Transcript, Turn};
use crate::task::StopReason;
use crate::tool::ToolReport;

/// An example of a look-up.
pub(in crate::session) fn example(question: &str) -> Example {
    example_of(question, &[("find_thing", json!({ "list": "cellar" }), "It is in box 7.")], "box 7")
}

/// An example with these calls.
pub(in crate::session) fn example_of(question: &str, calls: &[(&str, Value, &str)], answer: &str) -> Example {
    let calls = calls
        .iter()
        .map(|(tool, args, result)| ExampleCall {
            tool: (*tool).to_owned(),
            args: args.as_object().cloned().unwrap_or_default(),
            result: (*result).to_owned(),
        })
        .collect();
    let digest = crate::ids::Digest::of(question.as_bytes()).to_string();
    let task = format!("01a1e9b6a231-{}", &digest[..16]).parse().unwrap();
    Example { task, question: question.to_owned(), calls, answer: json!({ "answer": answer }) }
}

/// The transcript of a task with these calls.
pub(in crate::session) fn transcript(
    question: &str,
    turns: &[(&str, Value, EvidenceStatus, &str)],
    answer: &str,
) -> Transcript {
    let text = json!({
        "schema": "herm/transcript@1", "task": "01a1e9b6a231-ce391dce8f74b0e5", "brain": "1",
        "at": "2026-11-16T03:04:05.000Z", "subscriber": null, "input": question,
        "limits": crate::task::TaskLimits::default(), "tools": [], "backend": "b", "learning": true, "prompt": "p",
        "turns": [], "stop": { "reason": "final", "answer": null, "message": null },
    });
    let mut transcript = Transcript::parse(text.to_string().as_bytes()).unwrap();
    transcript.turns = turns
        .iter()
        .map(|(tool, args, status, text)| Turn {
            reply: Completion {
                text: String::new(),
                finish: FinishReason::Stop,
                model: "m".to_owned(),
                tokens: None,
                attestation: None,
            },
            call: Some(ToolCall { tool: (*tool).to_owned(), args: args.as_object().cloned().unwrap_or_default() }),
            report: Some(ToolReport::new(*status, *text, "")),
        })
        .collect();
    transcript.guarded = true;
    transcript.reading = crate::session::reply::Edition::default();
    transcript.stop = Stop { reason: StopReason::Final, answer: Some(answer.to_owned()), message: None };
    transcript
}
