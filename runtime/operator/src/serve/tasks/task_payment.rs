//! The payment of one task: taken once, when there is an answer, and before anything of the answer is kept. An answer that
//! is not paid for leaves nothing in the brain that its caller could read later.

use async_trait::async_trait;
use herm::TaskId;
use herm::session::AnswerRelease;
use tokio::sync::Mutex;

use super::super::app::App;
use super::super::payment::VerifiedPayment;
use super::super::problem::Problem;
use super::running::Backoff;
use crate::server_db::payments;

/// Where the payment of a task is.
pub(super) struct TaskPayment {
    app: App,
    task: TaskId,
    state: Mutex<Payment>,
}

/// How far it has come.
#[derive(Debug, Clone)]
pub(super) enum Payment {
    /// It was shown and is good; nothing is taken.
    Shown(std::sync::Arc<VerifiedPayment>),
    /// It was taken: what the facilitator said.
    Taken(String),
    /// It was not taken, and why.
    Refused(Problem),
}

impl std::fmt::Debug for TaskPayment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Till").field("task", &self.task).finish_non_exhaustive()
    }
}

impl TaskPayment {
    /// A payment that was shown.
    pub(super) fn shown(app: &App, task: &TaskId, paid: VerifiedPayment) -> Self {
        Self::new(app, task, Payment::Shown(paid.into()))
    }

    /// One that a process before this one took.
    pub(super) fn taken(app: &App, task: &TaskId, response: String) -> Self {
        Self::new(app, task, Payment::Taken(response))
    }

    fn new(app: &App, task: &TaskId, state: Payment) -> Self {
        Self { app: app.clone(), task: task.clone(), state: Mutex::new(state) }
    }

    /// How far the payment has come.
    pub(super) async fn payment(&self) -> Payment {
        self.state.lock().await.clone()
    }

    /// Writes down that it was taken. Money that was taken must not be forgotten: this goes on until it is on the disk.
    async fn write_down(&self, response: &str) {
        let mut backoff = Backoff::default();
        loop {
            let (task, said) = (self.task.clone(), response.to_owned());
            let written = self.app.db.write(move |connection| payments::take(connection, &task, &said)).await;
            match written {
                Err(error) if error.is_passing() => {
                    tracing::warn!(task = %self.task, %error, "a payment that was taken is not written down yet");
                    backoff.wait().await;
                }
                Err(error) => {
                    tracing::error!(task = %self.task, %error, response, "a payment was taken and is not written down");
                    return;
                }
                Ok(()) => return,
            }
        }
    }
}

#[async_trait]
impl AnswerRelease for TaskPayment {
    async fn release(&self, _: &str) -> Result<(), String> {
        let mut state = self.state.lock().await;
        let settled = match &*state {
            Payment::Taken(_) => return Ok(()),
            Payment::Refused(_) => return Err(NOT_TAKEN.to_owned()),
            Payment::Shown(paid) => paid.settle().await,
        };
        match settled {
            Ok(response) => {
                self.write_down(&response).await;
                *state = Payment::Taken(response);
                Ok(())
            }
            Err(problem) => {
                tracing::warn!(task = %self.task, detail = %problem.detail, "a payment was not taken");
                *state = Payment::Refused(problem);
                Err(NOT_TAKEN.to_owned())
            }
        }
    }
}

/// What the brain keeps of an answer that was not paid for.
const NOT_TAKEN: &str = "there was an answer, its payment was not taken, and it was not kept";
