//! What an agent can do. A [`Tool`] has a [`ToolSpec`] that the model reads and a call that runs.
//!
//! - [`Toolbox`] holds the tools of a harness; a brain's whitelist and the operator's
//!   [`Permissions`] decide which of them a task may use.
//! - [`ToolContext`] is what a running tool sees: the task, and the brain with
//!   the step in the making, its [`WorkingCopy`].
//! - [`dispatch`] checks arguments against the card's JSON Schema, holds the call to its time and
//!   its output to its size, and turns a panic into an error result.

mod context;
mod dispatch;
mod embeddings;
mod external_skills;
mod gate;
mod loading;
mod matching;
mod program;
#[cfg(feature = "sandbox")]
mod sandboxed;
mod toolbox;
mod working_copy;

/// What a tool can say of itself and of its results as data, for backends without a language model.
pub use crate::backend::{ToolData, ToolPurpose};
pub use context::{Agents, AnswerKeeping, AskRules, Secrets, TaskFrame, ToolContext, traced};
pub use context::{with_working_copy, with_working_copy_inline};
pub(crate) use dispatch::{CallEnd, dispatch_to_end};
pub use dispatch::{Disclosure, ToolReport, dispatch};
pub use embeddings::{EmbeddingUses, Embeddings};
pub use external_skills::ExternalSkills;
pub use gate::{RecordedSkillChanges, SkillRules, SkillWriteOutcome, TaskProposal};
pub(crate) use gate::{Write, says_nothing_new};
pub use loading::{SessionEnv, SkillEnv};
pub(crate) use matching::SoughtMeaning;
pub use program::{ProgramRunner, ToolProgram};
#[cfg(feature = "sandbox")]
pub use sandboxed::SandboxedPrograms;
pub use toolbox::{Permissions, Toolbox};
pub use working_copy::{Category, LoadedSkill, SkillChange, SkillSummary, WorkingCopy};

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::backend::ToolRole;
use crate::error::Result;

/// What a tool touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// The brain and the task's input, without changing anything.
    Read,
    /// The step in the making.
    WriteBrain,
    /// The network, as far as the operator allows it.
    Network,
    /// Other processes, which may do what this one may unless a sandbox holds them.
    Process,
}

/// Where a replay gets a tool's result from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaySource {
    /// It calls the tool again: the result depends on the brain and the task alone.
    Rerun,
    /// From the transcript: the world outside had a part in it.
    Recorded,
}

/// What a tool is, for the model and for the dispatcher.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name the model calls it by: 1 to 64 of `A-Z a-z 0-9 _ - .`.
    pub name: String,
    /// What it does and when to use it, in a sentence or two.
    pub description: String,
    /// The JSON Schema of its arguments: an object.
    pub schema: Value,
    /// What a call touches: the operator's [`Permissions`] allow it or not.
    pub permission: Permission,
    /// How long a call may take.
    pub timeout: Duration,
    /// How many characters of its output reach the model.
    pub output_cap: usize,
    /// Where a replay gets its result from.
    pub replay: ReplaySource,
    /// Whether a call does very little and waits for nothing but the brain: it then runs where its
    /// task runs, which saves waking other threads.
    pub quick: bool,
    /// Whether it only looks up what the agent itself keeps. Where other tools are there, an answer has to rest on
    /// the result of one of those.
    pub lookup: bool,
    /// A typical call from question to answer, for models that have to be shown one.
    pub few_shot: Option<FewShotExample>,
    /// What it is for, where a backend without a language model can plan by it; such a backend calls a tool that does not say
    /// only where nothing else is left.
    pub purpose: Option<ToolPurpose>,
}

/// A call of a tool, worked from the question to the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct FewShotExample {
    /// The question as a subscriber would ask it.
    pub question: String,
    /// The arguments of the call, an object that fits the tool's schema.
    pub args: Value,
    /// What the tool returns.
    pub result: String,
    /// The text of the answer; the prompt shows it in the form that the role's schema asks for.
    pub answer: String,
}

impl ToolSpec {
    /// A card with the usual limits: 10 seconds, 16,000 characters.
    pub fn new(name: &str, description: &str, permission: Permission, schema: Value) -> Self {
        let replay = match permission {
            Permission::Read | Permission::WriteBrain => ReplaySource::Rerun,
            Permission::Network | Permission::Process => ReplaySource::Recorded,
        };
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            permission,
            timeout: Duration::from_secs(10),
            output_cap: 16_000,
            replay,
            quick: false,
            lookup: false,
            few_shot: None,
            purpose: None,
        }
    }

    /// The card with a typical call on it, from the question to the answer.
    pub fn with_few_shot(self, question: &str, args: Value, result: &str, answer: &str) -> Self {
        let worked = FewShotExample { question: question.into(), args, result: result.into(), answer: answer.into() };
        Self { few_shot: Some(worked), ..self }
    }

    /// The card of a tool that says what it is for: see [`ToolSpec::purpose`].
    pub fn for_purpose(self, purpose: ToolPurpose) -> Self {
        Self { purpose: Some(purpose), ..self }
    }

    /// The tool's name with what it is for, where it says so.
    pub(crate) fn role(&self) -> Option<ToolRole> {
        self.purpose.map(|purpose| ToolRole { tool: self.name.clone(), purpose })
    }

    /// The card of a tool that does very little: see [`ToolSpec::quick`].
    pub fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    /// The card of a tool that is not evidence of work: see [`ToolSpec::lookup`].
    pub fn lookup(self) -> Self {
        Self { lookup: true, ..self }
    }
}

/// What a call returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model reads.
    pub text: String,
    /// What happened, in a line, for people and for the evidence.
    pub summary: String,
    /// Whether more than the brain and the task had a part in this one: a replay then reads it from the record.
    pub recorded: bool,
    /// Whether what the call was to do waits for a person: the step is as it was.
    pub waits: bool,
    /// What it told of the subscriber, for a replay that does not run the call.
    pub told: Option<Vec<Disclosure>>,
    /// What the text says, as data, for a backend that reads no texts. The model never sees it, and no record keeps it.
    pub data: Option<ToolData>,
}

impl ToolOutput {
    /// An output that a replay makes again: `text` is for the model, `summary` a line for people.
    pub fn new(text: impl Into<String>, summary: impl Into<String>) -> Self {
        Self { text: text.into(), summary: summary.into(), recorded: false, waits: false, told: None, data: None }
    }

    /// The same, for a replay to read from the record: see [`ToolOutput::recorded`].
    pub fn recorded(self) -> Self {
        Self { recorded: true, ..self }
    }

    /// The same of a call whose change waits for a person: see [`ToolOutput::waits`].
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// The same with what the text says as data: see [`ToolOutput::data`].
    pub fn with_data(self, data: ToolData) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The same with what it told of the subscriber: see [`ToolOutput::told`].
    pub fn with_disclosures(self, told: Vec<Disclosure>) -> Self {
        Self { told: Some(told), ..self }
    }
}

/// Something an agent can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// The tool's card, the same at every call.
    fn spec(&self) -> &ToolSpec;

    /// Runs. The arguments fit the card's schema. An error becomes a failed result that the model
    /// reads (message and hint); it does not end the task.
    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput>;
}
