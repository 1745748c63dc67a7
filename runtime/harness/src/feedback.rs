//! Feedback: what the subscriber who asked, or the operator, says of the answer of a settled task.

use super::Harness;
use crate::brain::{Brain, SettledStep, no_such_task};
use crate::error::Result;
use crate::ids::{BrainId, SubscriberId, TaskId};
use crate::memory::{LoggedTask, OutcomeReport, OutcomeSource, OutcomeValue, TaskOutcome};

/// Who says how good an answer was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackFrom {
    /// A subscriber, of a task that it asked.
    Subscriber(SubscriberId),
    /// The one who asked without a name, as the caller has made sure. The task has no subscriber.
    Unnamed,
    /// The operator, of any task: its label prevails over feedback.
    Operator,
}

impl FeedbackFrom {
    /// The source of such a report.
    pub fn source(&self) -> OutcomeSource {
        match self {
            Self::Subscriber(_) | Self::Unnamed => OutcomeSource::Feedback,
            Self::Operator => OutcomeSource::Label,
        }
    }

    /// Whether it may speak of a task.
    pub fn may_rate(&self, task: &LoggedTask) -> bool {
        match self {
            Self::Subscriber(subscriber) => task.subscriber == Some(subscriber.digest()),
            Self::Unnamed => task.subscriber.is_none(),
            Self::Operator => true,
        }
    }
}

/// What is said of the answer of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFeedback {
    /// The task whose answer is judged; it must be one of the brain's.
    pub task: TaskId,
    /// How good its answer was.
    pub value: OutcomeValue,
    /// Why, in at most 500 characters.
    pub note: Option<String>,
    /// Who judges: of the reports on a task, the source that ranks highest decides.
    pub from: FeedbackFrom,
}

/// What feedback came to.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackResult {
    /// The outcome of the task now.
    pub outcome: TaskOutcome,
    /// How the brain moved; `None` where the same was said before.
    pub settled: Option<SettledStep>,
}

/// Takes feedback into a brain, as a step of its own. A task of someone else is `NotFound`, in the words in which a task
/// that is not there is.
pub fn give_feedback(brain: &mut Brain, feedback: TaskFeedback) -> Result<FeedbackResult> {
    let TaskFeedback { task, value, note, from } = feedback;
    let logged = brain.logged_task(&task)?;
    if !logged.is_some_and(|logged| from.may_rate(&logged)) {
        return Err(no_such_task(brain.id(), &task));
    }
    let report = OutcomeReport { source: from.source(), value, note, at: brain.clock().now() };
    let settled = brain.record_outcome(&task, report)?;
    Ok(FeedbackResult { outcome: brain.outcome(&task)?.unwrap_or_default(), settled })
}

impl Harness {
    /// Says how good the answer of a settled task was, between the tasks of its brain. Saying the same again changes
    /// nothing; saying something else corrects it. Refused as `NotFound` where there is no such task, or it is another
    /// subscriber's; as `Conflict` where a subscriber has corrected itself too often.
    pub async fn feedback(&self, id: &BrainId, feedback: TaskFeedback) -> Result<FeedbackResult> {
        let task = feedback.task.clone();
        let given = self.with_brain(id, move |brain| give_feedback(brain, feedback)).await?;
        if given.settled.is_some()
            && let Err(error) = self.learn_from(id, &task, &given.outcome).await
        {
            // The feedback stands, whatever could be learned from it.
            tracing::warn!(brain = %id, %task, %error, "nothing was learned from feedback");
        }
        Ok(given)
    }
}
