//! A task as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use herm::Event;
use serde_json::json;

use super::super::app::App;
use super::super::caller::Caller;
use super::super::live::{Ended, Live, Told};
use super::super::view::TaskView;
use super::Leaving;

/// A comment line so often keeps proxies from closing a connection on which nothing is said.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The events of a task from one on; the caller who leaves may take it along.
pub(crate) fn events_of(
    app: &App,
    caller: &Caller,
    live: Arc<Live>,
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
            Told::Event(happened) => event(name(&happened), number, &*happened),
            Told::End(ended) => {
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

fn end(number: usize, caller: &Caller, ended: &Ended) -> Sent {
    match &ended.problem {
        None => event("outcome", number, &caller.sees_of(ended.view.clone())),
        Some(problem) => event("problem", number, &caller.hears_of(problem.clone())),
    }
}

fn event(name: &str, number: usize, data: &impl serde::Serialize) -> Sent {
    // Serialising plain data does not fail; if it did, an event without data says so.
    let data = serde_json::to_string(data).unwrap_or_default();
    let sent = Sent::default().event(name).data(data);
    if number == 0 { sent } else { sent.id(number.to_string()) }
}

fn name(event: &Event) -> &'static str {
    match event {
        Event::Started { .. } => "started",
        Event::TurnStarted { .. } => "turn_started",
        Event::Retry { .. } => "retry",
        Event::Reply { .. } => "reply",
        Event::Nudge { .. } => "nudge",
        Event::ToolCall { .. } => "tool_call",
        Event::ToolResult { .. } => "tool_result",
        Event::SkillWritten { .. } => "skill_written",
        Event::Settled { .. } => "settled",
    }
}
