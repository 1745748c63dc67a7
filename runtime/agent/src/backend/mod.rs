//! Who speaks for the agent. A [`Backend`] takes the messages of a turn and returns one reply.
//!
//! - [`CompletionRequest`] and [`Completion`] are all a backend sees and says; the loop never learns which wire
//!   format stood behind them.
//! - [`ToolRecord`] says what the session knows of its tools, as data, for a backend without a language model.
//! - [`BackendError`] carries a class, and the class says what to do about it (see [`Advice`]).
//! - [`Chain`] asks with retries and falls back; [`Router`] picks the chain of a brain.
//! - [`ScriptedBackend`] says what it was told to say: for tests and for replays.

mod chain;
mod error;
mod router;
mod scripted;
mod tool_record;

pub use chain::{Attempt, Chain, ChainResponse, RetryPolicy};
pub use error::{Advice, BackendError, ErrorClass};
pub use router::Router;
pub use scripted::ScriptedBackend;
pub use tool_record::{
    CallResult, InputForm, InputOutline, LogSpan, OutlineEntry, RecalledLine, ScanHit, ScanHits, ToolData, ToolPurpose,
    ToolRecord, ToolRole,
};

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The runtime: role, memory, tools, rules.
    System,
    /// The subscriber, and what tools returned.
    User,
    /// The model: its earlier replies.
    Assistant,
}

impl Role {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who said it: the runtime, the subscriber or a tool, or the model.
    pub role: Role,
    /// The text; it is shared, because each turn sends the conversation again.
    pub content: Arc<str>,
}

/// What a reply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A turn of a task.
    Turn,
    /// Writing down what a hard task taught.
    Synthesis,
    /// A draft for a person to read.
    Draft,
}

/// One question to a backend.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// The conversation so far. The first message is the system's.
    pub messages: Vec<ChatMessage>,
    /// What it is for.
    pub purpose: Purpose,
    /// What the session knows of its tools beside the words of the conversation. A model is not told of it.
    pub tools: ToolRecord,
    /// Which replies are legal, as a JSON Schema, for a backend that says in its
    /// [`Capabilities`] that it constrains replies; otherwise it allows anything. The loop checks the
    /// reply all the same.
    pub reply_schema: Arc<serde_json::Value>,
    /// The most tokens the reply may have.
    pub max_output_tokens: u32,
    /// The most bytes the reply may have; more is cut and reported as [`FinishReason::Length`].
    pub max_output_bytes: usize,
    /// How much the model may vary.
    pub temperature: f32,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// It was cut at a limit: nothing in it is ever executed.
    Length,
    /// The endpoint gave another reason, or none.
    Other,
}

/// Tokens as the endpoint counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Read, cached ones included.
    pub input: u64,
    /// Written by the model, reasoning included.
    pub output: u64,
    /// Of the input: served from a cache.
    #[serde(default)]
    pub cached: u64,
}

/// One reply of a backend to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completion {
    /// What the model wrote.
    pub text: String,
    /// Whether the model was done, or the reply was cut at a limit.
    pub finish: FinishReason,
    /// The model that spoke, as it names itself.
    pub model: String,
    /// Tokens; absent where the endpoint does not say.
    pub tokens: Option<Tokens>,
    /// What the endpoint gave as proof of where it ran.
    pub attestation: Option<String>,
}

/// What tokens cost, in millionths of a dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What a million tokens of the prompt cost, cached ones included.
    pub input: u64,
    /// What a million tokens of replies cost.
    pub output: u64,
}

impl Price {
    /// What these tokens cost, in millionths of a dollar, rounded up.
    pub fn of(self, tokens: Tokens) -> u64 {
        let cost =
            u128::from(tokens.input) * u128::from(self.input) + u128::from(tokens.output) * u128::from(self.output);
        u64::try_from(cost.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// What a backend can do beyond answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It holds replies to [`CompletionRequest::reply_schema`] while decoding.
    pub constrains_replies: bool,
    /// It needs worked examples of calls in the prompt.
    pub needs_examples: bool,
    /// How many bytes of skills its prompt takes whole; none, where it looks skills up itself or not at all.
    pub preload_bytes: usize,
    /// The most bytes a conversation may have, where it is known.
    pub context_bytes: Option<usize>,
    /// What it costs, where it is known.
    pub price: Option<Price>,
}

/// A model, or something that stands in for one, that answers the questions of a session.
#[async_trait]
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Its short name: `openai`, `reflex`.
    fn name(&self) -> &str;

    /// The model it asks for, where it asks for one by name; spans of its replies carry it.
    fn model(&self) -> Option<&str> {
        None
    }

    /// What it can do beyond answering.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Answers once: no retries, no deadline of its own. Dropping the future gives up.
    async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError>;
}
