//! One task, from its turn to its end. What the machine lacks for a moment, room on the disk or descriptors, delays a task
//! and does not end it; and a task is over only when that is written down.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use herm::harness::TaskCost;
use herm::session::AnswerRelease;
use herm::{Error, ErrorKind, Outcome, Result, RunOptions, TaskEvent, TaskStatus};
use serde_json::Value;
use tokio::time::Instant;

use super::super::app::App;
use super::super::ask_policy::{AskPayment, Asking};
use super::super::live::{LiveTask, TaskResult};
use super::super::problem::Problem;
use super::super::spending::Reserved;
use super::super::task_queue::Admission;
use super::super::view::{OutcomeView, TaskView, told_value, value_of};
use super::deadline::Deadline;
use super::restart;
use super::run::Job;
use super::task_payment::{Payment, TaskPayment};
use crate::otlp::{self, CallerTrace};
use crate::server_db::payments;
use crate::server_db::tasks::{self as rows, End, State, TaskRow, Tries};

/// For how long the step of a task is tried again where it stands, before the task is run again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits between two tries: 50 ms at first, twice as long each time, 5 s at most.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(Duration::from_millis(50))
    }
}

impl Backoff {
    const LONGEST: Duration = Duration::from_secs(5);

    /// Waits, longer each time.
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (2 * self.0).min(Self::LONGEST);
    }
}

/// A task with everything it needs to run.
pub(super) struct TaskExecution {
    pub(super) app: App,
    pub(super) job: Job,
    pub(super) live: Arc<LiveTask>,
    /// When it has to be done, with all its attempts.
    pub(super) deadline: Deadline,
    /// Its payment, where tasks are paid for.
    pub(super) till: Option<Arc<TaskPayment>>,
    pub(super) reserved: Option<Reserved>,
    /// The caller's own trace.
    pub(super) parent: Option<CallerTrace>,
    /// What this try has cost, whatever comes of it.
    pub(super) spent: TaskCost,
    /// What tries before it have cost.
    pub(super) earlier: Tries,
}

/// How a task ended, before anyone is told.
enum RunResult {
    Outcome(Box<Outcome>),
    /// Its step was settled, though the try that did it ended with an error: how it went, and its outcome.
    AlreadySettled(TaskStatus, Value),
    Failed(State, Problem),
    /// Whether its step was settled cannot be told, so nobody may try it again under its key.
    Unknown(Problem),
    /// It is left for the next process.
    Detached,
}

/// So often a task asks the model: each time costs what the first did.
const MOST_ATTEMPTS: u32 = 5;

/// What follows on an attempt that came to nothing.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Again,
    AtRestart,
    GivenUp,
}

/// When a task is tried again.
struct RetryState {
    durable: bool,
    deadline: Deadline,
    /// The attempts so far that were more than waiting for what the machine lacks.
    counted: u32,
}

impl RetryState {
    /// Whether a task that cannot have its brain is given up: like one that waits for its turn.
    fn is_late(&self) -> bool {
        self.deadline.is_over()
    }

    /// Whether what could not answer between two attempts, the brain or the server's database, is asked again. A task that
    /// was promised waits for as long as the cause may pass; one without a promise, until the deadline.
    fn asks_again(&self, error: &Error) -> bool {
        error.is_passing() && (self.durable || !self.is_late())
    }

    /// Counts an attempt that came to nothing; what follows.
    fn goes_on(&mut self, error: &Error, has_asked: bool, is_paid: bool) -> Next {
        let (is_conflict, is_passing) = (error.kind() == ErrorKind::Conflict, error.is_passing());
        let only_waited = is_passing && !has_asked;
        self.counted += u32::from(!only_waited);
        // A caller without a promise hears of a conflict at once, and may look for themselves.
        let may = if self.durable { is_passing || is_conflict } else { is_passing && !is_conflict };
        // Time that the machine loses is given back to a task that was promised: only another holder makes it late.
        let late = self.is_late() && !(self.durable && is_shortage(error));
        match may {
            true if self.counted < MOST_ATTEMPTS && (is_paid || !late) => Next::Again,
            // Money was taken for it: it is owed until it is there or cannot come.
            true if is_paid && self.durable => Next::AtRestart,
            true | false => Next::GivenUp,
        }
    }
}

/// Whether the machine lacks something for now, such as room on the disk; not that another process holds the brain.
fn is_shortage(error: &Error) -> bool {
    error.is_passing() && error.kind() != ErrorKind::Conflict
}

impl TaskExecution {
    pub(super) async fn run(mut self, ticket: Admission) {
        let came = AssertUnwindSafe(self.come(ticket)).catch_unwind().await;
        let came = came
            .unwrap_or_else(|_| RunResult::Failed(State::Failed, Error::internal("running this task panicked").into()));
        let payment = match &self.till {
            Some(till) => Some(till.payment().await),
            None => None,
        };
        let (is_in_brain, (end, ended)) = match (came, payment) {
            (RunResult::Detached, _) => {
                if self.live.started_at().is_some() {
                    // What cannot be written now was written before, unless the machine could not then either.
                    let _ = self.note().await;
                }
                self.live.leave();
                self.app.queue.forget(&self.job.id);
                return;
            }
            // What is not paid for is not handed out, now or later.
            (RunResult::Outcome(_) | RunResult::AlreadySettled(..), Some(Payment::Refused(unsettled))) => {
                let (end, ended) = self.nothing(State::Failed, unsettled);
                (true, (End { may_be_tried_again: false, ..end }, ended))
            }
            (RunResult::Outcome(outcome), payment) => (outcome.settled.is_some(), self.outcome(&outcome, payment)),
            (RunResult::AlreadySettled(status, outcome), payment) => (true, self.read_back(status, outcome, payment)),
            (RunResult::Unknown(problem), _) => {
                let (end, ended) = self.nothing(State::Failed, problem);
                (false, (End { may_be_tried_again: false, ..end }, ended))
            }
            // Who paid finds the payment under the same key.
            (RunResult::Failed(state, problem), Some(Payment::Taken(_))) => {
                let (end, ended) = self.nothing(state, problem);
                (false, (End { may_be_tried_again: false, ..end }, ended))
            }
            (RunResult::Failed(state, problem), _) => (false, self.nothing(state, problem)),
        };
        // What the brain has stays so, whatever becomes of the database, and nobody was promised more of a task that is not
        // in it. Anything else could come out differently after a kill, and is told when it is on the disk.
        if is_in_brain || !self.job.durable {
            self.live.end(ended);
            self.write_down(&end).await;
        } else {
            self.write_down(&end).await;
            self.live.end(ended);
        }
        self.app.queue.forget(&self.job.id);
        drop(self.reserved);
    }

    async fn come(&mut self, ticket: Admission) -> RunResult {
        let app = self.app.clone();
        // A task that is just accepted is never late.
        if self.deadline.is_over() && !self.is_paid().await {
            let error = Error::unavailable("the deadline of this task passed while the server did not run")
                .hint("send it again, or with a later deadline");
            return RunResult::Failed(State::Failed, error.into());
        }
        let mut closing = app.closing.subscribe();
        let waited = tokio::select! {
            biased;
            () = self.live.cancel.wait_cancelled() => None,
            _ = closing.wait_for(|closing| *closing) => return self.stopped(),
            turn = tokio::time::timeout_at(self.deadline.until, ticket.acquire()) => Some(turn),
        };
        let _turn = match waited {
            Some(Ok(turn)) => turn,
            Some(Err(_)) => {
                let error = Error::unavailable(format!("agent {} was busy until the deadline", self.job.agent))
                    .hint("try again later, or with a later deadline");
                return RunResult::Failed(State::Failed, error.into());
            }
            None => return cancelled(),
        };
        self.live.begin(app.clock.now());
        // What a process before this one has left is not in the brain, or the task would not run.
        self.earlier.count_last();
        // Only tells that it has begun: a restart asks the brain.
        let _ = self.note().await;
        let mut trying = RetryState { durable: self.job.durable, deadline: self.deadline, counted: 0 };
        let mut backoff = Backoff::default();
        loop {
            let (came, has_asked) = self.attempt().await;
            let error = match came {
                Ok(outcome) => return RunResult::Outcome(Box::new(outcome)),
                Err(error) => error,
            };
            self.earlier.add(std::mem::take(&mut self.spent).micro_usd());
            // Written again before the next attempt for certain.
            let _ = self.note().await;
            let goes_on = trying.goes_on(&error, has_asked, self.is_paid().await);
            let lost_since = Instant::now();
            // The commit may have been made though it was said to have failed: nothing is said of the task before that is
            // known.
            loop {
                let error = match self.in_brain().await {
                    Ok(Some((status, outcome))) => return RunResult::AlreadySettled(status, outcome),
                    Ok(None) => break,
                    Err(error) => error,
                };
                if !trying.asks_again(&error) {
                    return RunResult::Unknown(error.into());
                }
                tracing::warn!(task = %self.job.id, agent = %self.job.agent, %error, "the brain cannot say whether the task was done; it is asked again");
                if let Some(over) = self.wait(&mut backoff).await {
                    return over;
                }
            }
            self.earlier.count_last();
            if self.live.cancel.is_cancelled() {
                return cancelled();
            }
            match goes_on {
                Next::Again => {}
                Next::AtRestart => {
                    tracing::error!(task = %self.job.id, agent = %self.job.agent, %error, "a task that is paid for has no outcome; the next start tries again");
                    return RunResult::Detached;
                }
                Next::GivenUp => return RunResult::Failed(State::Failed, error.into()),
            }
            tracing::warn!(task = %self.job.id, agent = %self.job.agent, %error, "no outcome; the task is tried again");
            // The model is not asked again before the machine can keep what it says.
            loop {
                if let Some(over) = self.wait(&mut backoff).await {
                    return over;
                }
                let error = match self.is_ready().await {
                    Ok(None) => break,
                    Ok(Some((status, outcome))) => return RunResult::AlreadySettled(status, outcome),
                    Err(error) => error,
                };
                // The brain has said that it does not have the step, and no attempt was made since.
                if !trying.asks_again(&error) {
                    return RunResult::Failed(State::Failed, error.into());
                }
                tracing::warn!(task = %self.job.id, agent = %self.job.agent, %error, "what the model says could not be kept; the next attempt waits");
            }
            if self.job.durable && is_shortage(&error) {
                self.deadline = self.deadline.later_by(lost_since.elapsed());
                trying.deadline = self.deadline;
            } else if trying.is_late() && !self.is_paid().await {
                // Another attempt would only say that there is no time left.
                return RunResult::Failed(State::Failed, error.into());
            }
        }
    }

    /// Waits until it is worth trying again; how the task ends, if it does meanwhile.
    async fn wait(&self, backoff: &mut Backoff) -> Option<RunResult> {
        let mut closing = self.app.closing.subscribe();
        tokio::select! {
            biased;
            () = self.live.cancel.wait_cancelled() => Some(cancelled()),
            _ = closing.wait_for(|closing| *closing) => Some(self.stopped()),
            () = backoff.wait() => None,
        }
    }

    /// Whether its payment was taken.
    async fn is_paid(&self) -> bool {
        match &self.till {
            Some(till) => matches!(till.payment().await, Payment::Taken(_)),
            None => false,
        }
    }

    /// Writes down that the task has begun and what its attempts have cost, so that a restart adds it.
    async fn note(&self) -> Result<()> {
        if !self.job.durable {
            return Ok(());
        }
        let at = self.live.started_at().unwrap_or_else(|| self.app.clock.now());
        let (id, tries) = (self.job.id.clone(), self.earlier);
        self.app.db.write(move |connection| rows::begin(connection, &id, at, tries)).await
    }

    /// How the task went, if its step is in the brain.
    async fn in_brain(&self) -> Result<Option<(TaskStatus, Value)>> {
        self.app.harness.catch_up(&self.job.agent).await?;
        let (app, agent, id) = (self.app.clone(), self.job.agent.clone(), self.job.id.clone());
        let looking = tokio::task::spawn_blocking(move || restart::in_brain(&app, &agent, &id));
        looking.await.map_err(|_| Error::internal("looking for a task was interrupted"))?
    }

    /// Whether the brain can be read and the attempts so far can be written down; how the task went, if its step is there.
    async fn is_ready(&self) -> Result<Option<(TaskStatus, Value)>> {
        match self.in_brain().await? {
            Some(settled) => Ok(Some(settled)),
            None => self.note().await.map(|()| None),
        }
    }

    /// Runs it once; also whether it came as far as asking the model.
    async fn attempt(&self) -> (Result<Outcome>, bool) {
        let (app, job) = (&self.app, &self.job);
        let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let watch = RunOptions {
            events: Some(events),
            cancel: self.live.cancel.clone(),
            spent: self.spent.clone(),
            release: self.till.clone().map(|till| till as Arc<dyn AnswerRelease>),
            patience: PATIENCE,
            // What money was taken for is owed: the next attempt has the time that a task has.
            until: (!self.is_paid().await).then_some(self.deadline.until),
        };
        let mut task = job.task();
        let payment = match (&self.till, self.is_paid().await) {
            (None, _) => AskPayment::Free,
            (Some(_), false) => AskPayment::Shown,
            (Some(_), true) => AskPayment::Taken,
        };
        task.asking = Some(Arc::new(Asking::new(app.clone(), job.key.clone(), payment)));
        // What earlier tries have cost is gone.
        task.limits.micro_usd = task.limits.micro_usd.map(|most| most.saturating_sub(self.earlier.all()));
        let run = otlp::continuing(self.parent.as_ref(), app.harness.run_with(&job.agent, task, watch));
        tokio::pin!(run);
        let mut has_asked = false;
        let mut hear = |event: TaskEvent| {
            has_asked |= matches!(event, TaskEvent::TurnStarted { .. });
            self.heard(event);
        };
        let came = loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => hear(event),
                came = &mut run => break came,
            }
        };
        while let Ok(event) = heard.try_recv() {
            hear(event);
        }
        (came, has_asked)
    }

    /// Counts and passes on what happened.
    fn heard(&self, event: TaskEvent) {
        self.app.meter.heard(&event);
        match self.till.is_some() {
            // What the answer says, and what it is made of, is told when it is paid for.
            true => unpaid(event).into_iter().for_each(|event| self.live.heard(event)),
            false => self.live.heard(event),
        }
    }

    /// The server stops before the task has come to anything.
    fn stopped(&self) -> RunResult {
        if self.job.durable {
            return RunResult::Detached;
        }
        let error = Error::unavailable("the server stopped before it was this task's turn").hint("try again");
        RunResult::Failed(State::Failed, error.into())
    }

    fn outcome(&self, outcome: &Outcome, payment: Option<Payment>) -> (End, TaskResult) {
        self.app.meter.finished(outcome);
        let json = serde_json::to_value(OutcomeView::of(outcome)).unwrap_or_default();
        let cancelled = outcome.status == TaskStatus::Failed && outcome.stop == herm::StopReason::Cancelled;
        let state = if cancelled { State::Cancelled } else { State::Done };
        let cost = self.earlier.all() + outcome.usage.micro_usd.unwrap_or(0);
        self.over(state, outcome.status, json, payment, cost)
    }

    /// The end of a task as its brain tells it.
    fn read_back(&self, status: TaskStatus, outcome: Value, payment: Option<Payment>) -> (End, TaskResult) {
        let cancelled = status == TaskStatus::Failed && outcome["stop"] == herm::StopReason::Cancelled.name();
        let state = if cancelled { State::Cancelled } else { State::Done };
        // Its last try is among those that were counted.
        self.over(state, status, outcome, payment, self.earlier.all())
    }

    fn over(
        &self,
        state: State,
        status: TaskStatus,
        json: Value,
        payment: Option<Payment>,
        cost: u64,
    ) -> (End, TaskResult) {
        let at = self.app.clock.now();
        let payment = match payment {
            Some(Payment::Taken(response)) => Some(response),
            Some(Payment::Shown(_) | Payment::Refused(_)) | None => None,
        };
        let end = End {
            state,
            status: Some(status),
            outcome: Some(json.to_string()),
            value: value_of(&json),
            problem: None,
            payment: payment.clone(),
            may_be_tried_again: false,
            micro_usd: cost,
            at,
        };
        let view = TaskView {
            state: end.state,
            status: end.status,
            value: end.value.as_deref().and_then(told_value),
            finished_at: Some(at.to_string()),
            outcome: Some(json),
            payment,
            ..self.live.view()
        };
        (end, TaskResult { view, problem: None })
    }

    fn nothing(&self, state: State, problem: Problem) -> (End, TaskResult) {
        self.app.meter.failed(&problem.kind);
        let json = serde_json::to_value(&problem).unwrap_or_default();
        let at = self.app.clock.now();
        let end = End {
            state,
            status: None,
            outcome: None,
            value: None,
            problem: Some(json.to_string()),
            payment: None,
            may_be_tried_again: state == State::Failed
                && [StatusCode::SERVICE_UNAVAILABLE, StatusCode::CONFLICT]
                    .iter()
                    .any(|one| problem.status == one.as_u16()),
            // The replies were paid for, though no outcome came of them.
            micro_usd: self.earlier.all() + self.spent.micro_usd(),
            at,
        };
        let view = TaskView { state, finished_at: Some(at.to_string()), problem: Some(json), ..self.live.view() };
        (end, TaskResult { view, problem: Some(problem) })
    }

    /// Writes the end down, and goes on trying for as long as the process lives: until then the task is not over.
    async fn write_down(&self, end: &End) {
        let mut backoff = Backoff::default();
        loop {
            let (id, key, durable) = (self.job.id.clone(), self.job.key.clone(), self.job.durable);
            let (row, end) = (self.job.row(&self.live, self.deadline, end.state), end.clone());
            let written = self.app.db.write(move |connection| {
                if durable {
                    payments::close(connection, &id)?;
                    return rows::finish(connection, &id, key.as_deref(), &end);
                }
                let row = TaskRow {
                    finished_at: Some(end.at),
                    status: end.status,
                    outcome: end.outcome,
                    value: end.value,
                    problem: end.problem,
                    ..row?
                };
                rows::add(connection, &row)?;
                rows::charge(connection, key.as_deref(), end.micro_usd)
            });
            match written.await {
                Ok(()) => return,
                Err(error) if error.is_passing() => {
                    tracing::warn!(task = %self.job.id, %error, "the end of a task is not written down yet");
                    backoff.wait().await;
                }
                Err(error) => {
                    tracing::error!(task = %self.job.id, %error, "the end of a task was not written down; the next start asks its brain");
                    return;
                }
            }
        }
    }
}

/// What may be told of an event before the task is paid for: that it happened.
fn unpaid(event: TaskEvent) -> Option<TaskEvent> {
    match event {
        TaskEvent::Reply { turn, millis, .. } => Some(TaskEvent::Reply { turn, millis, text: "".into() }),
        TaskEvent::Nudge { turn, .. } => Some(TaskEvent::Nudge { turn, text: "".into() }),
        TaskEvent::ToolCall { turn, tool, .. } => Some(TaskEvent::ToolCall { turn, tool, args: Value::Null }),
        TaskEvent::ToolResult { turn, tool, status, millis, .. } => {
            Some(TaskEvent::ToolResult { turn, tool, status, summary: String::new(), millis })
        }
        TaskEvent::SkillWritten { .. } => None,
        event @ (TaskEvent::Started { .. }
        | TaskEvent::TurnStarted { .. }
        | TaskEvent::Retry { .. }
        | TaskEvent::Settled { .. }) => Some(event),
    }
}

fn cancelled() -> RunResult {
    let problem = Problem::new(StatusCode::CONFLICT, "conflict", "the task was cancelled before it was over");
    RunResult::Failed(State::Cancelled, problem)
}

#[cfg(test)]
mod tests {
    use super::{MOST_ATTEMPTS, Next, RetryState};
    use crate::serve::tasks::deadline::Deadline;
    use herm::{Error, Timestamp};
    use std::time::Duration;

    fn trying(durable: bool, deadline: Duration) -> RetryState {
        RetryState { durable, deadline: Deadline::after(Timestamp(0), deadline), counted: 0 }
    }

    fn full_disk() -> Error {
        Error::unavailable("no room").passing()
    }

    #[test]
    fn a_task_that_is_paid_for_is_left_to_the_next_process_and_not_given_up() {
        for (is_paid, last) in [(false, Next::GivenUp), (true, Next::AtRestart)] {
            let mut trying = trying(true, Duration::from_secs(3_600));
            for _ in 1..MOST_ATTEMPTS {
                assert_eq!(trying.goes_on(&full_disk(), true, is_paid), Next::Again);
            }
            assert_eq!(trying.goes_on(&full_disk(), true, is_paid), last);
        }
    }

    fn held() -> Error {
        Error::conflict("brain 7 is held by process 9").passing()
    }

    #[test]
    fn a_deadline_ends_a_task_that_waits_for_another_holder_and_none_that_is_paid_for() {
        for (is_paid, next) in [(false, Next::GivenUp), (true, Next::Again)] {
            let mut trying = trying(true, Duration::ZERO);
            for _ in 0..2 * MOST_ATTEMPTS {
                assert_eq!(trying.goes_on(&held(), false, is_paid), next);
            }
        }
    }

    #[test]
    fn a_machine_that_lacks_something_makes_no_task_late_that_was_promised() {
        for (durable, next) in [(true, Next::Again), (false, Next::GivenUp)] {
            let mut trying = trying(durable, Duration::ZERO);
            for _ in 0..10 * MOST_ATTEMPTS {
                assert_eq!(trying.goes_on(&full_disk(), false, false), next);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_attempts_end_by_the_deadline_that_the_first_one_had() {
        // Without a promise, another holder is told at once.
        for (durable, waiting) in [(true, held as fn() -> Error), (false, full_disk)] {
            let mut trying = trying(durable, Duration::from_secs(60));
            for _ in 0..2 * MOST_ATTEMPTS {
                tokio::time::advance(Duration::from_secs(5)).await;
                assert_eq!(trying.goes_on(&waiting(), false, false), Next::Again);
            }
            tokio::time::advance(Duration::from_secs(10)).await;
            assert_eq!(trying.goes_on(&waiting(), false, false), Next::GivenUp);
        }
    }

    #[test]
    fn only_what_may_pass_is_asked_again_between_attempts_and_without_a_promise_until_the_deadline() {
        let hour = Duration::from_secs(3_600);
        for (durable, deadline, asks) in
            [(false, Duration::ZERO, false), (true, Duration::ZERO, true), (false, hour, true)]
        {
            let trying = trying(durable, deadline);
            assert_eq!(trying.asks_again(&full_disk()), asks, "{durable} {deadline:?}");
            assert!(!trying.asks_again(&Error::corrupt("memory.db has lost steps")));
        }
    }

    #[test]
    fn what_does_not_pass_is_given_up_at_once() {
        let mut trying = trying(true, Duration::from_secs(3_600));
        assert_eq!(trying.goes_on(&Error::invalid("no such tool"), true, true), Next::GivenUp);
    }
}
