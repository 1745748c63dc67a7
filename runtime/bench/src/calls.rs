//! The calls of a task, from its events: what checks look at.

use herm::TaskEvent;
use herm::checks::MadeCall;
use herm::memory::EvidenceStatus;
use serde_json::{Map, Value};

/// A call, and how it went.
#[derive(Debug, PartialEq)]
pub(super) struct HeardCall {
    tool: String,
    args: Map<String, Value>,
    status: EvidenceStatus,
}

impl HeardCall {
    /// As a check sees it.
    pub(super) fn view(&self) -> MadeCall<'_> {
        MadeCall { tool: &self.tool, args: &self.args, status: self.status }
    }
}

/// The calls among these events.
pub(super) fn of(events: impl IntoIterator<Item = TaskEvent>) -> Vec<HeardCall> {
    let mut calls = Vec::new();
    let mut called = None;
    for event in events {
        match event {
            TaskEvent::ToolCall { tool, args: Value::Object(args), .. } => called = Some((tool, args)),
            TaskEvent::ToolResult { status, .. } => {
                // A call that was refused before it was made has a result and no call.
                calls.extend(called.take().map(|(tool, args)| HeardCall { tool, args, status }));
            }
            _ => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_taken_with_how_it_went_and_a_refused_one_is_none() {
        let result = |status| TaskEvent::ToolResult {
            turn: 1,
            tool: "look".to_owned(),
            status,
            summary: "s".to_owned(),
            millis: 3,
        };
        let call = TaskEvent::ToolCall { turn: 2, tool: "look".to_owned(), args: json!({ "piece": "lamp" }) };
        let calls = of([result(EvidenceStatus::Refused), call, result(EvidenceStatus::Ok)]);
        let args = json!({ "piece": "lamp" }).as_object().unwrap().clone();
        assert_eq!(calls, [HeardCall { tool: "look".to_owned(), args, status: EvidenceStatus::Ok }]);
    }
}
