//! What is asked for, checked against what is allowed.

use herm::TaskLimits;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::problem::{HandlerResult, Problem};

/// A task as it is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TaskRequest {
    /// What the agent should do.
    #[schema(min_length = 1)]
    pub(crate) input: String,
    /// What it may use up: less than the operator allows, never more.
    #[serde(default)]
    pub(crate) limits: Option<LimitsRequest>,
    /// Whether nothing is to be settled: the brain stays as it is, and there is no receipt.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Whether skills that match and the nearest example are put before the task; as the operator and the agent have it,
    /// where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) preload: Option<bool>,
    /// What becomes of the task when its caller leaves before it is over.
    #[serde(default)]
    pub(crate) on_disconnect: OnDisconnect,
}

/// What becomes of a task whose caller leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnDisconnect {
    /// It goes on, and is found under its name.
    #[default]
    Continue,
    /// It is cancelled, as by `DELETE /v1/tasks/{task}`.
    Cancel,
}

/// What a task may use up.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LimitsRequest {
    /// Turns, 1 to 8.
    #[schema(minimum = 1, maximum = 8)]
    pub(crate) turns: Option<u8>,
    /// Seconds from start to answer.
    #[schema(minimum = 1)]
    pub(crate) deadline_secs: Option<u64>,
    /// Tokens of one reply.
    #[schema(minimum = 1)]
    pub(crate) reply_tokens: Option<u32>,
    /// Tokens of the whole task.
    pub(crate) total_tokens: Option<u64>,
    /// Millionths of a dollar of the whole task.
    pub(crate) micro_usd: Option<u64>,
}

impl LimitsRequest {
    /// The limits in force: the operator's, lowered.
    pub(crate) fn lower(&self, allowed: &TaskLimits) -> HandlerResult<TaskLimits> {
        let limits = TaskLimits {
            turns: lower("turns", self.turns, Some(allowed.turns))?.unwrap_or(allowed.turns),
            deadline_secs: lower("deadlineSecs", self.deadline_secs, Some(allowed.deadline_secs))?
                .unwrap_or(allowed.deadline_secs),
            reply_tokens: lower("replyTokens", self.reply_tokens, Some(allowed.reply_tokens))?
                .unwrap_or(allowed.reply_tokens),
            total_tokens: lower("totalTokens", self.total_tokens, allowed.total_tokens)?,
            micro_usd: lower("microUsd", self.micro_usd, allowed.micro_usd)?,
            ..allowed.clone()
        };
        limits.validate()?;
        Ok(limits)
    }
}

fn lower<T: PartialOrd + Copy + std::fmt::Display>(
    name: &str,
    wish: Option<T>,
    allowed: Option<T>,
) -> HandlerResult<Option<T>> {
    match (wish, allowed) {
        (Some(wish), Some(allowed)) if wish > allowed => {
            Err(Problem::invalid(format!("limits.{name} is {wish}, and at most {allowed} is allowed here"))
                .hint("limits can be lowered, not raised"))
        }
        (wish, allowed) => Ok(wish.or(allowed)),
    }
}
