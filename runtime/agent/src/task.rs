//! A task: what is asked, within which limits, and what came of it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Tokens;
use crate::brain::SettledStep;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, Slug, SubscriberId, TaskId};
pub use crate::memory::TaskStatus;
use crate::memory::{Arm, EvidenceStatus, TaskOutcome};
use crate::tool::{AskRules, SkillChange};
use crate::tuning::Tuning;

/// The most turns a session can have. Limits only go below it.
pub const MAX_TURNS: u8 = 8;

/// What a task may use up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TaskLimits {
    /// Turns, 1 to 8.
    pub turns: u8,
    /// Seconds from start to answer.
    pub deadline_secs: u64,
    /// The most bytes the input may have, at most 8 MiB; a longer input is an error.
    pub input_bytes: usize,
    /// Bytes of the conversation; older tool results shrink to fit.
    pub context_bytes: usize,
    /// Tokens of one reply.
    pub reply_tokens: u32,
    /// Bytes of one reply.
    pub reply_bytes: usize,
    /// Tokens of the whole task, where it has a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Millionths of a dollar of the whole task, where it has a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            turns: MAX_TURNS,
            deadline_secs: 300,
            input_bytes: 1 << 20,
            context_bytes: 2 << 20,
            reply_tokens: 4_096,
            reply_bytes: 128 << 10,
            total_tokens: None,
            micro_usd: None,
        }
    }
}

impl TaskLimits {
    /// The rules limits obey.
    pub fn validate(&self) -> Result<()> {
        if !(1..=MAX_TURNS).contains(&self.turns) {
            return Err(Error::invalid(format!("a task has 1 to {MAX_TURNS} turns, not {}", self.turns))
                .hint("the ceiling can be lowered, not raised"));
        }
        let rule = if self.deadline_secs == 0 || self.deadline_secs > 86_400 {
            "the deadline is 1 second to 24 hours"
        } else if self.input_bytes == 0 || self.input_bytes > 8 << 20 {
            "the input is at most 8 MiB"
        } else if self.reply_tokens == 0 || self.reply_bytes == 0 || self.reply_bytes > 1 << 20 {
            "a reply is at most 1 MiB and at least one token"
        } else if self.context_bytes < 16 << 10 || self.context_bytes > 16 << 20 {
            "the conversation is 16 KiB to 16 MiB"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("these limits cannot be: {rule}")).hint("see `herm config schema` for the defaults"))
    }

    /// The same, held to what a brain's tuning allows at most.
    #[must_use]
    pub fn tuned(&self, tuning: &Tuning) -> Self {
        Self {
            turns: self.turns.min(tuning.turns.unwrap_or(MAX_TURNS)),
            context_bytes: self.context_bytes.min(tuning.context_bytes.unwrap_or(usize::MAX)),
            reply_tokens: self.reply_tokens.min(tuning.reply_tokens.unwrap_or(u32::MAX)),
            ..self.clone()
        }
    }

    /// The time a task has.
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_secs)
    }
}

/// What an agent learns from its tasks, and how it is shown to the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", default, deny_unknown_fields)]
pub struct LearningOptions {
    /// Tasks leave something for the next ones. Off, what is there is shown, and nothing new is learned.
    pub learns: bool,
    /// The model is asked what a hard task taught, and writes a skill.
    pub synthesis: bool,
    /// Tasks with a good outcome leave a worked example, and the nearest one is shown where there is [`preload`](Self::preload).
    pub examples: bool,
    /// A backend that holds replies to a schema is held to the calls of the example, until one goes wrong.
    pub plans: bool,
    /// Skills that match and the nearest example are put before the task, as far as the backend has room. Off, neither is:
    /// the model looks skills up.
    pub preload: bool,
    /// What was learned is on trial: shown to some tasks and held back from others, until the difference is known. Off,
    /// it is shown at once and always.
    pub trials: bool,
    /// A task of which nobody says how good it was leaves an example too, where every fact of its answer comes from the
    /// result of a call.
    pub unrated: bool,
    /// Which example is shown.
    pub pick: ExamplePick,
}

/// Which example is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExamplePick {
    /// The one whose question is nearest.
    #[default]
    Nearest,
    /// Any: to measure what the nearest is worth.
    Random,
}

impl LearningOptions {
    /// Nothing is learned, and nothing that was learned is shown.
    pub const OFF: Self = Self {
        learns: false,
        synthesis: false,
        examples: false,
        plans: false,
        preload: false,
        trials: false,
        unrated: false,
        pick: ExamplePick::Nearest,
    };

    /// The same for one task of one brain: whether it preloads says the task, else the operator where they have it off, else
    /// the brain by its tuning or its manifest.
    #[must_use]
    pub fn preloading(self, task: Option<bool>, brain: Option<bool>) -> Self {
        Self { preload: task.unwrap_or(self.preload && brain.unwrap_or(true)), ..self }
    }
}

impl Default for LearningOptions {
    fn default() -> Self {
        Self { learns: true, synthesis: true, examples: true, plans: true, preload: true, trials: true, ..Self::OFF }
    }
}

impl From<bool> for LearningOptions {
    /// All of it, or nothing new: what was learned, and what people wrote, is shown all the same.
    fn from(learns: bool) -> Self {
        Self { learns, ..Self::default() }
    }
}

/// Whether a task's changes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SettleMode {
    /// The changes become a step of the brain, with a receipt where the brain was opened with a signer.
    #[default]
    Settle,
    /// Nothing is: the brain stays as it was, and there is no receipt.
    DryRun,
}

/// One call to an agent.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// Who asks, from the operator's authentication.
    pub subscriber: Option<SubscriberId>,
    /// The subscriber as a brain knows them, where another agent asks on their behalf.
    pub on_behalf_of: Option<Digest>,
    /// The question to the agent, or a command such as `/reload-skills`.
    pub input: String,
    /// What it may use up.
    pub limits: TaskLimits,
    /// Its name; made where it is not given.
    pub id: Option<TaskId>,
    /// Whether its changes are kept.
    pub keep: SettleMode,
    /// The backend to use, by its name in the configuration, instead of the brain's own.
    pub backend: Option<String>,
    /// Whether skills that match and the nearest example are put before the task; as the operator and the brain have it, where
    /// it does not say.
    pub preload: Option<bool>,
    /// The brains whose tasks led to this one.
    pub path: Vec<BrainId>,
    /// Which agents it may ask; all, where nobody says.
    pub asking: Option<Arc<dyn AskRules>>,
}

impl Task {
    /// A task with the usual limits.
    pub fn new(input: impl Into<String>) -> Self {
        Self { input: input.into(), ..Self::default() }
    }

    /// Checks the input against the limits.
    pub fn validate(&self) -> Result<()> {
        self.limits.validate()?;
        if self.input.trim().is_empty() {
            return Err(Error::invalid("the input is empty").hint("say what the agent should do"));
        }
        if self.input.len() > self.limits.input_bytes {
            return Err(Error::invalid(format!(
                "the input has {} bytes, and at most {} are allowed",
                self.input.len(),
                self.limits.input_bytes
            ))
            .hint("send less, or raise the limit of input bytes (8 MiB at most)"));
        }
        if self.input.contains('\0') {
            return Err(Error::invalid("the input has a NUL character").hint("send text"));
        }
        Ok(())
    }
}

/// Why a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The agent gave its final answer.
    Final,
    /// The agent gave an answer that nothing vouches for, and insisted on it.
    Unverified,
    /// All turns were used.
    Ceiling,
    /// The agent repeated a call that keeps failing.
    Stuck,
    /// The time was up.
    Deadline,
    /// The token or money budget was used up.
    Budget,
    /// The caller no longer wants it.
    Cancelled,
    /// No backend gave a reply, and the deadline was not the reason.
    Backend,
    /// A bug in herm, or the machine failed.
    Internal,
}

impl StopReason {
    /// How a task that ended for this reason ended.
    pub fn status(self) -> TaskStatus {
        match self {
            Self::Final => TaskStatus::Converged,
            Self::Unverified | Self::Ceiling | Self::Stuck | Self::Deadline | Self::Budget => TaskStatus::Incomplete,
            Self::Cancelled | Self::Backend | Self::Internal => TaskStatus::Failed,
        }
    }

    /// The name as transcripts, receipts and spans have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Unverified => "unverified",
            Self::Ceiling => "ceiling",
            Self::Stuck => "stuck",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Cancelled => "cancelled",
            Self::Backend => "backend",
            Self::Internal => "internal",
        }
    }
}

/// What a task used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUsage {
    /// How many replies backends gave, the one that writes down a lesson included.
    pub replies: u32,
    /// Tokens, as far as the endpoint counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Tokens of replies that the endpoint did not count, estimated from their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Tokens>,
    /// Millionths of a dollar, where prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_usd: Option<u64>,
    /// Failed tries before answers.
    pub retries: u32,
}

impl TaskUsage {
    /// All tokens, counted and estimated.
    pub fn total_tokens(&self) -> u64 {
        [self.tokens, self.estimated]
            .into_iter()
            .flatten()
            .fold(0_u64, |sum, tokens| sum.saturating_add(tokens.input).saturating_add(tokens.output))
    }
}

/// One tool call of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// The turn it was made in.
    pub turn: u32,
    /// The tool's name as the model wrote it, at most 64 characters; a refused call may name a tool that does not exist.
    pub tool: String,
    /// Whether the tool succeeded, failed, or was not run at all.
    pub status: EvidenceStatus,
    /// What happened, in a line.
    pub summary: String,
    /// How long it took.
    pub millis: u64,
}

/// How something was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShownAs {
    /// As a worked example.
    Example,
    /// As a worked example whose calls the backend was held to.
    Plan,
    /// As a skill's body.
    Skill,
}

/// Something learned that matched a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownSkill {
    /// The learned skill, or the procedure whose example it is.
    pub skill: Slug,
    /// Whether the task was shown it.
    pub arm: Arm,
    /// In which form the prompt had it, or would have had it where it was held back.
    #[serde(rename = "as")]
    pub shown_as: ShownAs,
    /// Whether it is on trial, so that the arm was drawn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trial: bool,
    /// How near it is, 0 to 1, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The task whose example it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<TaskId>,
}

/// What a task did to a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedSkill {
    /// The skill that was changed, by its name.
    pub slug: Slug,
    /// Whether the task created, changed or archived it.
    pub change: SkillChange,
}

/// What came of a task.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The task's name: [`Task::id`], or the one that was made for it.
    pub task: TaskId,
    /// The brain that the task ran on.
    pub brain: BrainId,
    /// How the task ended; [`StopReason::status`] of `stop`.
    pub status: TaskStatus,
    /// Why the task ended.
    pub stop: StopReason,
    /// The final answer, byte for byte as the model wrote it.
    pub answer: Option<String>,
    /// What happened, in a sentence, where the task has no answer to give.
    pub message: Option<String>,
    /// The name of the backend that gave the last reply, else of the first that was to be asked; `none` where none was needed.
    pub backend: String,
    /// The model, as it names itself.
    pub model: Option<String>,
    /// How many replies of the model were taken as turns, 0 to 8.
    pub turns: u32,
    /// Tool calls, in order.
    pub calls: Vec<CallRecord>,
    /// Objects in replies that were passed over: the first legal one of a reply counts.
    pub dropped: u32,
    /// What it used up.
    pub usage: TaskUsage,
    /// Skills that were loaded.
    pub skills_loaded: Vec<Slug>,
    /// What was done to skills.
    pub skills_changed: Vec<ChangedSkill>,
    /// What was to be done to skills that are not the agent's own: it waits in the review queue for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills_proposed: Vec<ChangedSkill>,
    /// Whether it may be billed, unless the operator says otherwise: only a converged task.
    pub billable: bool,
    /// How the brain moved; nothing after a dry run.
    pub settled: Option<SettledStep>,
    /// The signed receipt: a DSSE envelope.
    pub receipt: Option<serde_json::Value>,
    /// What did not work and was worked around.
    pub warnings: Vec<String>,
    /// How good the answer was, and who says so.
    pub outcome: TaskOutcome,
    /// What the task was shown of what the brain has learned, or was not, because it is on trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<ShownSkill>,
    /// Why the step is not in the store yet, where the answer was to wait for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpushed: Option<String>,
}

/// What happens while a task runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum TaskEvent {
    /// The brain is hydrated, the session begins.
    Started {
        /// The task's name, as in [`Outcome::task`].
        task: TaskId,
        /// The brain that the task runs on.
        brain: BrainId,
        /// The brain's version before the task's step.
        version: u64,
        /// The name of the backend that is asked first.
        backend: String,
    },
    /// The model is asked.
    TurnStarted {
        /// The turn, from 1.
        turn: u32,
        /// How many there can be.
        of: u32,
    },
    /// One attempt at a backend failed.
    Retry {
        /// The name of the backend that failed.
        backend: String,
        /// The name of the error's class, as [`ErrorClass::name`](crate::backend::ErrorClass::name) has it.
        class: String,
        /// How long until the next try; nothing where there is none.
        wait_millis: Option<u64>,
    },
    /// The model gave a reply. Whether it is legal is not decided yet.
    Reply {
        /// The turn that the reply ends, from 1.
        turn: u32,
        /// The whole reply as the model wrote it.
        text: Arc<str>,
        /// How long it took.
        millis: u64,
    },
    /// The reply was not a legal one, and the model is told.
    Nudge {
        /// The turn of the reply that was not legal, from 1.
        turn: u32,
        /// What it is told.
        text: Arc<str>,
    },
    /// A tool is about to run. A call that is refused has no such event, only a result.
    ToolCall {
        /// The turn of the reply that asks for the call, from 1.
        turn: u32,
        /// The tool's name; the task may use it.
        tool: String,
        /// The arguments as the model gave them, before they are checked against the tool's schema.
        args: serde_json::Value,
    },
    /// A tool is done.
    ToolResult {
        /// The turn of the reply that asked for the call, from 1.
        turn: u32,
        /// The tool's name; a refused call may name a tool that does not exist.
        tool: String,
        /// Whether the tool succeeded, failed, or was not run at all.
        status: EvidenceStatus,
        /// What happened, in a line.
        summary: String,
        /// How long it took.
        millis: u64,
    },
    /// A skill was written, changed or archived.
    SkillWritten {
        /// The skill that was changed, by its name.
        slug: Slug,
        /// Whether it was created, changed or archived.
        change: SkillChange,
    },
    /// The brain has moved.
    Settled {
        /// The brain's version after the step; the version before it, where the step changed nothing.
        version: u64,
        /// The bundle hash now.
        after: crate::ids::Digest,
        /// How long settling took.
        millis: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_a_task_preloads_says_the_task_then_the_operator_then_the_brain() {
        let preloads = |task, operator, brain| {
            LearningOptions { preload: operator, ..LearningOptions::default() }.preloading(task, brain).preload
        };
        assert!(preloads(None, true, None));
        assert!(preloads(None, true, Some(true)));
        assert!(!preloads(None, true, Some(false)));
        assert!(!preloads(None, false, Some(true)), "a brain does not turn on what the operator has off");
        assert!(preloads(Some(true), false, Some(false)));
        assert!(!preloads(Some(false), true, Some(true)));
    }
}
