//! A task as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use herm::TaskEvent;
use serde_json::json;

use super::super::app::App;
use super::super::caller::Caller;
use super::super::live::{LiveTask, TaskResult, TaskUpdate};
use super::super::view::TaskView;
use super::Leaving;

/// A comment line so often keeps proxies from closing a connection on which nothing is said.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The events of a task from one on; the caller who leaves may take it along.
pub(crate) fn events_of(
    app: &App,
    caller: &Caller,
    live: Arc<LiveTask>,
    from: usize,
    leaving: Option<Leaving>,
) -> Response {
    let caller = caller.clone();
    let following = app.meter.following();
    let first = stream::iter((from == 0).then(|| {
        let (task, agent) = (live.id.as_str(), live.agent.as_str());
        event("queued", 0, &json!({ "event": "queued", "task": task, "agent": agent }))
    }));
    let rest = live.follow(from).scan(leaving, move |leaving, (number, told)| {
        let _counted = &following;
        let sent = match told {
            TaskUpdate::Event(happened) => event(name(&happened), number, &*happened),
            TaskUpdate::End(ended) => {
                if let Some(leaving) = leaving.take() {
                    leaving.stays();
                }
                end(number, &caller, &ended)
            }
        };
        std::future::ready(Some(sent))
    });
    let all = first.chain(rest).map(Ok::<_, Infallible>);
    Sse::new(all).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// All that is left to tell of a task that is over.
pub(super) fn only_end(view: &TaskView) -> Response {
    let sent = match view.problem.as_ref().filter(|_| view.outcome.is_none()) {
        Some(problem) => event("problem", 1, problem),
        None => event("outcome", 1, view),
    };
    Sse::new(stream::iter([Ok::<_, Infallible>(sent)])).into_response()
}

fn end(number: usize, caller: &Caller, ended: &TaskResult) -> Sent {
    match &ended.problem {
        None => event("outcome", number, &caller.redact_view(ended.view.clone())),
        Some(problem) => event("problem", number, &caller.redact_problem(problem.clone())),
    }
}

fn event(name: &str, number: usize, data: &impl serde::Serialize) -> Sent {
    // Serialising plain data does not fail; if it did, an event without data says so.
    let data = serde_json::to_string(data).unwrap_or_default();
    let sent = Sent::default().event(name).data(data);
    if number == 0 { sent } else { sent.id(number.to_string()) }
}

fn name(event: &TaskEvent) -> &'static str {
    match event {
        TaskEvent::Started { .. } => "started",
        TaskEvent::TurnStarted { .. } => "turn_started",
        TaskEvent::Retry { .. } => "retry",
        TaskEvent::Reply { .. } => "reply",
        TaskEvent::Nudge { .. } => "nudge",
        TaskEvent::ToolCall { .. } => "tool_call",
        TaskEvent::ToolResult { .. } => "tool_result",
        TaskEvent::SkillWritten { .. } => "skill_written",
        TaskEvent::Settled { .. } => "settled",
    }
}
