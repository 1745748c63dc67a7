//! A task as it happens: what has been said so far, for those who follow it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{Stream, stream};
use herm::{BrainId, CancelToken, Error, TaskEvent, TaskId, Timestamp};
use tokio::sync::watch;

use super::problem::Problem;
use super::view::TaskView;
use crate::server_db::tasks::State;

/// More events than any task has; what is beyond is not kept for followers.
const MOST_EVENTS: usize = 2_000;

/// A task that waits, runs, or has just ended.
#[derive(Debug)]
pub(crate) struct LiveTask {
    pub(crate) id: TaskId,
    /// The agent whose brain it runs on.
    pub(crate) agent: BrainId,
    /// Whose it is: a subscriber's digest, `key:ID` or `operator`.
    pub(crate) owner: String,
    /// Whether it is in the server database already, and outlives the process.
    pub(crate) durable: bool,
    /// When it was accepted.
    pub(crate) created_at: Timestamp,
    /// Ends it early: on `DELETE`, when a caller leaves who asked for that, or when the server stops.
    pub(crate) cancel: CancelToken,
    now: Mutex<Now>,
    /// Ends it at once, where it is taken up again later.
    abort: std::sync::OnceLock<tokio::task::AbortHandle>,
    /// Goes up by one with each event, so that those who wait look again.
    happened: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Now {
    started_at: Option<Timestamp>,
    events: Vec<Arc<TaskEvent>>,
    end: Option<Arc<TaskResult>>,
}

/// How a task ended, as those who wait for it are told.
#[derive(Debug)]
pub(crate) struct TaskResult {
    /// The task, as its caller sees it.
    pub(crate) view: TaskView,
    /// What to answer instead, where it came to no outcome.
    pub(crate) problem: Option<Problem>,
}

impl LiveTask {
    /// A task that begins to wait.
    pub(crate) fn new(id: TaskId, agent: BrainId, owner: String, durable: bool, created_at: Timestamp) -> Self {
        let (now, abort) = (Mutex::default(), std::sync::OnceLock::new());
        let (cancel, happened) = (CancelToken::new(), watch::Sender::new(0));
        Self { id, agent, owner, durable, created_at, cancel, now, abort, happened }
    }

    /// Says how it is ended at once.
    pub(crate) fn set_abort(&self, abort: tokio::task::AbortHandle) {
        // It is started once.
        let _ = self.abort.set(abort);
    }

    /// Ends it at once: its brain stays before or after its step, never between.
    pub(crate) fn abort(&self) {
        if let Some(abort) = self.abort.get() {
            abort.abort();
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it runs.
    pub(crate) fn begin(&self, at: Timestamp) {
        self.now().started_at = Some(at);
        self.tell();
    }

    /// When it began to run.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        self.now().started_at
    }

    /// Keeps an event for followers; beyond `MOST_EVENTS`, none is kept.
    pub(crate) fn heard(&self, event: TaskEvent) {
        let mut now = self.now();
        if now.events.len() < MOST_EVENTS {
            now.events.push(Arc::new(event));
        }
        drop(now);
        self.tell();
    }

    /// Notes how it ended.
    pub(crate) fn end(&self, end: TaskResult) {
        self.now().end = Some(Arc::new(end));
        self.tell();
    }

    /// Tells those who wait that the next process goes on with it.
    pub(crate) fn leave(&self) {
        let error = Error::unavailable("the server stops; the task goes on when it is back")
            .hint(format!("ask for /v1/tasks/{} then, or send the same Idempotency-Key again", self.id));
        let view = self.view();
        self.end(TaskResult { view, problem: Some(error.into()) });
    }

    fn tell(&self) {
        self.happened.send_modify(|count| *count += 1);
    }

    /// The task as it is now.
    pub(crate) fn view(&self) -> TaskView {
        let now = self.now();
        match &now.end {
            Some(end) => end.view.clone(),
            None => {
                let state = if now.started_at.is_some() { State::Running } else { State::Queued };
                TaskView::unfinished(&self.id, &self.agent, state, self.created_at, now.started_at)
            }
        }
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> Arc<TaskResult> {
        let mut happened = self.happened.subscribe();
        loop {
            if let Some(end) = &self.now().end {
                return Arc::clone(end);
            }
            // The sender is ours: it is there as long as we are.
            if happened.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Everything that happens, from the event behind `from` on; the last is the end.
    pub(crate) fn follow(self: Arc<Self>, from: usize) -> impl Stream<Item = (usize, TaskUpdate)> {
        let happened = self.happened.subscribe();
        // With a number from elsewhere the reader still hears what comes.
        let from = from.min(self.now().events.len());
        stream::unfold(Some((self, happened, from)), |state| async move {
            let (live, mut happened, at) = state?;
            loop {
                {
                    let now = live.now();
                    if let Some(event) = now.events.get(at) {
                        let told = (at + 1, TaskUpdate::Event(Arc::clone(event)));
                        drop(now);
                        return Some((told, Some((live, happened, at + 1))));
                    }
                    if let Some(end) = &now.end {
                        return Some(((at + 1, TaskUpdate::End(Arc::clone(end))), None));
                    }
                }
                if happened.changed().await.is_err() {
                    return None;
                }
            }
        })
    }
}

/// What a follower is told.
#[derive(Debug, Clone)]
pub(crate) enum TaskUpdate {
    /// Something happened in the task.
    Event(Arc<TaskEvent>),
    /// The task is over; no update follows.
    End(Arc<TaskResult>),
}
