//! Tasks and outcomes as callers see them.

use herm::memory::{OutcomeValue, TaskOutcome};
use herm::{BrainId, Outcome, TaskId, TaskStatus, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::problem::{ProblemDocument, told_to_subscriber};
use crate::server_db::tasks::{State, TaskRow};

/// A task, with what came of it once it is over.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView {
    /// Its id, as in `/v1/tasks/{task}`.
    pub(crate) task: String,
    /// The number of the agent it was given to.
    pub(crate) agent: String,
    /// `queued`, `running`, `done`, `cancelled` or `failed`.
    #[schema(value_type = String)]
    pub(crate) state: State,
    /// How it went, once it is done: `converged`, `incomplete` or `failed`.
    #[schema(value_type = Option<String>)]
    pub(crate) status: Option<TaskStatus>,
    /// How good its answer was, once it is done: `good`, `bad`, `unknown`, or a score from 0 to 1.
    #[schema(value_type = Option<OutcomeValueSchema>)]
    pub(crate) value: Option<Value>,
    /// When it was accepted.
    pub(crate) created_at: String,
    /// When it began to run; null until then.
    pub(crate) started_at: Option<String>,
    /// When it was over.
    pub(crate) finished_at: Option<String>,
    /// What came of it, once it is done.
    #[schema(value_type = Option<OutcomeView>)]
    pub(crate) outcome: Option<Value>,
    /// Why nothing came of it.
    #[schema(value_type = Option<ProblemDocument>)]
    pub(crate) problem: Option<Value>,
    /// What the facilitator said when the task was paid for: the text of `PAYMENT-RESPONSE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payment: Option<String>,
}

impl TaskView {
    /// One that is not over.
    pub(crate) fn unfinished(
        id: &TaskId,
        agent: &BrainId,
        state: State,
        created_at: Timestamp,
        started_at: Option<Timestamp>,
    ) -> Self {
        Self {
            task: id.to_string(),
            agent: agent.to_string(),
            state,
            status: None,
            value: None,
            created_at: created_at.to_string(),
            started_at: started_at.map(|at| at.to_string()),
            finished_at: None,
            outcome: None,
            problem: None,
            payment: None,
        }
    }

    /// The same for someone who does not operate the server: no sentence in it names a place on the server's disk.
    pub(crate) fn for_subscriber(mut self) -> Self {
        let hide = |value: &mut Value| {
            if let Value::String(text) = value {
                *value = Value::from(told_to_subscriber(text));
            }
        };
        for field in ["detail", "hint"] {
            self.problem.as_mut().and_then(|problem| problem.get_mut(field)).into_iter().for_each(hide);
        }
        if let Some(outcome) = &mut self.outcome {
            for field in ["message", "unpushed"] {
                outcome.get_mut(field).into_iter().for_each(hide);
            }
            outcome.get_mut("warnings").and_then(Value::as_array_mut).into_iter().flatten().for_each(hide);
            outcome.get_mut("outcome").into_iter().for_each(sources_for_subscriber);
        }
        self
    }

    /// A task as a row of the server database tells it.
    pub(crate) fn of_row(row: TaskRow) -> Self {
        let parsed = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            task: row.id.to_string(),
            agent: row.agent.to_string(),
            state: row.state,
            status: row.status,
            value: row.value.as_deref().and_then(told_value),
            created_at: row.created_at.to_string(),
            started_at: row.started_at.map(|at| at.to_string()),
            finished_at: row.finished_at.map(|at| at.to_string()),
            outcome: parsed(row.outcome),
            problem: parsed(row.problem),
            payment: row.payment,
        }
    }
}

/// How good the answer of a task was: the value of an outcome as the API tells it.
#[derive(Debug, ToSchema)]
#[schema(as = OutcomeValue)]
#[expect(dead_code, reason = "only the shape of it is needed")]
#[serde(untagged)]
pub(crate) enum OutcomeValueSchema {
    /// `good`, `bad` or `unknown`.
    Word(String),
    /// A score from 0 to 1.
    Score(f64),
}

/// How good an answer was, as it is stored, from an outcome as JSON.
pub(crate) fn value_of(outcome: &Value) -> Option<String> {
    let value = outcome.get("outcome").and_then(|outcome| outcome.get("value")).cloned()?;
    serde_json::from_value::<OutcomeValue>(value).ok().map(|value| value.to_string())
}

/// How good an answer was, from how it is stored.
pub(crate) fn told_value(stored: &str) -> Option<Value> {
    stored.parse::<OutcomeValue>().ok().map(|value| json!(value))
}

/// Leaves of an outcome what a subscriber may read: that the operator said something, and not why.
pub(crate) fn sources_for_subscriber(outcome: &mut Value) {
    for report in outcome.get_mut("sources").and_then(Value::as_array_mut).into_iter().flatten() {
        let is_label = report["source"] == "label";
        if let Some(note) = report.get_mut("note") {
            *note = match note {
                Value::String(text) if !is_label => Value::from(told_to_subscriber(text)),
                _ => Value::Null,
            };
        }
    }
}

/// What came of a task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutcomeView<'a> {
    /// `converged`, `incomplete` or `failed`.
    status: &'static str,
    /// Why it ended, such as `final`, `ceiling`, `deadline` or `budget`.
    stop: &'static str,
    /// The final answer, byte for byte as the model wrote it.
    answer: Option<&'a str>,
    /// What happened, where the task has no answer.
    message: Option<&'a str>,
    /// The name of the backend that was asked.
    backend: &'a str,
    /// The model, as it names itself.
    model: Option<&'a str>,
    /// How many turns it used.
    turns: u32,
    /// Tool calls, in order.
    #[schema(value_type = Vec<Object>)]
    calls: &'a [herm::task::CallRecord],
    /// What it used up.
    #[schema(value_type = Object)]
    usage: &'a herm::task::TaskUsage,
    /// Skills that were loaded.
    #[schema(value_type = Vec<String>)]
    skills_loaded: &'a [herm::Slug],
    /// What was done to skills.
    #[schema(value_type = Vec<Object>)]
    skills_changed: &'a [herm::task::ChangedSkill],
    /// What was to be done to skills that are not the agent's own: it waits for review. Absent where nothing does.
    #[schema(value_type = Vec<Object>, required = false)]
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skills_proposed: &'a [herm::task::ChangedSkill],
    /// How good the answer was, and who says so: `value` and `sources`, each with `source`, `value`, `note` and `at`.
    #[schema(value_type = Object)]
    outcome: &'a TaskOutcome,
    /// Whether it may be billed.
    billable: bool,
    /// The brain's version now; nothing after a dry run.
    version: Option<u64>,
    /// The bundle hash now.
    bundle_hash: Option<String>,
    /// The number of the receipt.
    receipt_seq: Option<u64>,
    /// The signed receipt: a DSSE envelope.
    #[schema(value_type = Option<Object>)]
    receipt: Option<&'a Value>,
    /// What did not work and was worked around.
    warnings: &'a [String],
    /// Why the step is not in the store yet, where the answer was to wait for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpushed: Option<&'a str>,
}

impl<'a> OutcomeView<'a> {
    /// What a caller sees of an outcome.
    pub(crate) fn of(outcome: &'a Outcome) -> Self {
        let settled = outcome.settled.as_ref();
        Self {
            status: outcome.status.name(),
            stop: outcome.stop.name(),
            answer: outcome.answer.as_deref(),
            message: outcome.message.as_deref(),
            backend: &outcome.backend,
            model: outcome.model.as_deref(),
            turns: outcome.turns,
            calls: &outcome.calls,
            usage: &outcome.usage,
            skills_loaded: &outcome.skills_loaded,
            skills_changed: &outcome.skills_changed,
            skills_proposed: &outcome.skills_proposed,
            outcome: &outcome.outcome,
            billable: outcome.billable,
            version: settled.map(|settled| settled.version),
            bundle_hash: settled.map(|settled| settled.after.to_string()),
            receipt_seq: settled.and_then(|settled| settled.receipt.as_ref()).map(|receipt| receipt.seq),
            receipt: outcome.receipt.as_ref(),
            warnings: &outcome.warnings,
            unpushed: outcome.unpushed.as_deref(),
        }
    }
}
