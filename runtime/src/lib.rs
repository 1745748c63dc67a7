//! herm: an embedded agent harness runtime.
//!
//! Each agent has a number and a *brain*: a directory of skills it wrote itself, a SQLite memory, a role, and a lock with
//! the brain's content hash. A **task** runs against a brain: a model answers, tools run, and what was learned is
//! committed as one signed step. After a crash at any instant the brain is exactly before the step or exactly after it.
//!
//! This crate is the facade: it re-exports the library, and its [features](#features) select what is compiled. The
//! library knows nothing of command lines, HTTP servers and payment: the crate `herm-operator` has those.
//!
//! # Embed it in ten minutes
//!
//! ## 1. The dependency
//!
//! ```toml
//! [dependencies]
//! herm = "0.2"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! async-trait = "0.1" # for tools and backends of your own
//! serde_json = "1"
//! ```
//!
//! ## 2. A brain, and a task against a model
//!
//! [`Harness`] holds brains, backends and tools. [`Brain::hydrate`] makes a brain once; [`Harness::run`] gives it a task
//! and returns an [`Outcome`]: the answer, how the task ended, what it used, how the brain moved, and the signed receipt.
//!
//! ```no_run
//! # #[cfg(feature = "http")]
//! # mod example {
//! use std::sync::Arc;
//!
//! use herm::backend::{EndpointSettings, HttpClient, OpenAi};
//! use herm::{Brain, BrainId, BrainOptions, BrainSource, Harness, Result, Seed, Task, TaskStatus};
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     // Ollama, llama.cpp, vLLM, OpenRouter and OpenAI speak this wire format.
//!     let endpoint = EndpointSettings::openai("http://localhost:11434/v1", "qwen3:8b");
//!     let harness = Harness::builder().brains("brains").backend(OpenAi::new(HttpClient::new()?, endpoint)?).build()?;
//!
//!     // Makes brain 7 once; where it exists, nothing is copied over it. The harness's key signs this first step.
//!     let id: BrainId = "7".parse()?;
//!     let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//!     let options = BrainOptions { signer: Some(Arc::new(harness.signer().clone())), ..BrainOptions::default() };
//!     Brain::hydrate(harness.layout(), &id, &BrainSource::Seed(seed), &options)?.0.close()?;
//!
//!     let outcome = harness.run(&id, Task::new("Which months have 30 days?")).await?;
//!     match outcome.status {
//!         TaskStatus::Converged => println!("{}", outcome.answer.unwrap_or_default()),
//!         TaskStatus::Incomplete | TaskStatus::Failed => eprintln!("{}", outcome.message.unwrap_or_default()),
//!     }
//!     harness.shutdown().await
//! }
//! # }
//! ```
//!
//! The example `http_model` of this crate is the same as a program that runs by itself: with a tool, events, errors and an
//! endpoint on the loopback address.
//!
//! ## 3. Events
//!
//! [`Harness::run_with`] takes [`RunOptions`]: a channel that gets every [`TaskEvent`], a [`CancelToken`] that ends the task
//! early, and how long a full disk is waited for.
//!
//! ```no_run
//! use herm::{BrainId, Harness, Outcome, Result, RunOptions, Task, TaskEvent};
//!
//! async fn follow(harness: &Harness, id: &BrainId, task: Task) -> Result<Outcome> {
//!     let (events, mut received) = tokio::sync::mpsc::unbounded_channel();
//!     tokio::spawn(async move {
//!         while let Some(event) = received.recv().await {
//!             if let TaskEvent::ToolResult { tool, summary, .. } = event {
//!                 eprintln!("{tool}: {summary}");
//!             }
//!         }
//!     });
//!     harness.run_with(id, task, RunOptions { events: Some(events), ..RunOptions::default() }).await
//! }
//! ```
//!
//! ## 4. A tool of your own
//!
//! A [`Tool`](tool::Tool) has a [`ToolSpec`](tool::ToolSpec), which the model reads, and a call that runs. Its arguments are
//! checked against the JSON Schema before the call. A tool that returns an error does not end the task: the model reads the
//! message and the hint.
//!
//! ```
//! use herm::tool::{Permission, Tool, ToolContext, ToolOutput, ToolSpec};
//! use serde_json::{Map, Value, json};
//!
//! struct WordCount(ToolSpec);
//!
//! #[async_trait::async_trait]
//! impl Tool for WordCount {
//!     fn spec(&self) -> &ToolSpec {
//!         &self.0
//!     }
//!
//!     async fn call(&self, _: Map<String, Value>, cx: &ToolContext) -> herm::Result<ToolOutput> {
//!         let count = cx.task().input.split_whitespace().count();
//!         Ok(ToolOutput::new(format!("{count} words"), format!("{count} words")))
//!     }
//! }
//!
//! # fn main() -> herm::Result<()> {
//! let schema = json!({ "type": "object", "additionalProperties": false, "properties": {} });
//! let tool = WordCount(ToolSpec::new("word_count", "Counts the words of the input.", Permission::Read, schema));
//! let builder = herm::Harness::builder().brains("brains").tool(tool)?;
//! # drop(builder);
//! # Ok(())
//! # }
//! ```
//!
//! The crate `herm-tools` has the standard tools: `.toolbox(herm_tools::standard()?)`.
//!
//! ## 5. A backend of your own
//!
//! A [`Backend`](backend::Backend) answers one question at a time: no retries, no deadline. A reply is one JSON object: a
//! call of a tool such as `{"tool": "word_count", "args": {}}`, or the final answer. This one plays the part of a model, and
//! the program runs:
//!
//! ```
//! use herm::backend::{Backend, BackendError, Completion, CompletionRequest, FinishReason};
//! use herm::{Brain, BrainOptions, BrainSource, Harness, Seed, Task};
//!
//! #[derive(Debug)]
//! struct Measuring;
//!
//! #[async_trait::async_trait]
//! impl Backend for Measuring {
//!     fn name(&self) -> &str {
//!         "measuring"
//!     }
//!
//!     async fn complete(&self, ask: &CompletionRequest) -> Result<Completion, BackendError> {
//!         let asked = ask.messages.last().map_or(0, |message| message.content.chars().count());
//!         Ok(Completion {
//!             text: format!("{{\"characters\": {asked}}}"),
//!             finish: FinishReason::Stop,
//!             model: "ruler".to_owned(),
//!             tokens: None,
//!             attestation: None,
//!         })
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> herm::Result<()> {
//!     let brains = std::env::temp_dir().join(format!("herm-doc-{}", std::process::id()));
//!     let harness = Harness::builder().brains(&brains).backend(Measuring).build()?;
//!     let id = "7".parse()?;
//!     let seed = Seed { id: &id, files: &[("system.md", b"You measure.\n")] };
//!     Brain::hydrate(harness.layout(), &id, &BrainSource::Seed(seed), &BrainOptions::default())?.0.close()?;
//!     let outcome = harness.run(&id, Task::new("how long is this?")).await?;
//!     assert_eq!(outcome.answer.as_deref(), Some(r#"{"characters": 17}"#));
//!     harness.shutdown().await?;
//!     herm::fsio::remove_tree(&brains)
//! }
//! ```
//!
//! # Errors
//!
//! Every call returns [`Error`]: [`kind`](Error::kind) says what you can do, [`message`](Error::message) what failed and which
//! rule, [`hint_text`](Error::hint_text) the next step. Decide by the kind, never by the text.
//!
//! | kind | do |
//! |---|---|
//! | [`InvalidInput`](ErrorKind::InvalidInput) | fix the input and call again |
//! | [`NotFound`](ErrorKind::NotFound) | make the brain, or correct the name |
//! | [`Conflict`](ErrorKind::Conflict) | another process holds it, or it changed: look again, then retry |
//! | [`Unavailable`](ErrorKind::Unavailable) | full disk, unreachable endpoint, brain busy until the deadline: retry later |
//! | [`Corrupt`](ErrorKind::Corrupt) | stored data is damaged: stop writing, then repair or restore |
//! | [`Refused`](ErrorKind::Refused) | a policy forbids it: do not retry |
//! | [`Internal`](ErrorKind::Internal) | a bug in herm: report it |
//!
//! [`is_passing`](Error::is_passing) is true where the same call may work later without a change. A task that ran and failed
//! is not an error: [`Outcome::status`](task::Outcome::status) and [`Outcome::stop`](task::Outcome::stop) say how it ended.
//!
//! # Threads, blocking and shutdown
//!
//! - [`Harness`] is `Clone`, `Send` and `Sync`; all clones are one harness. Tasks of one brain run one at a time, in the order
//!   of their calls; tasks of different brains run concurrently.
//! - Call asynchronous methods inside a tokio runtime with time and I/O enabled. The library starts no runtime.
//! - [`Brain`], [`Reader`], [`Signer`] and [`HarnessBuilder::build`] block: call them at the start of the program, or in
//!   `tokio::task::spawn_blocking`. [`Harness::with_brain`] runs a closure on an open brain, between tasks.
//! - One process owns a brain at a time. Another one waits for [`HarnessBuilder::wait`] (5 s), then gets `Conflict`.
//! - Dropping the future of a task leaves the brain before the step or after it.
//! - Call [`Harness::shutdown`] before the runtime ends. Without it no settled step is lost: the next open writes what is
//!   missing.
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `http` | on | models behind HTTP endpoints: `backend::OpenAi`, `backend::Anthropic` |
//! | `reflex` | on | the backend without a language model, which answers where no other is given |
//! | `snapshot` | on | encrypted snapshots to a directory or Walrus, and restore |
//! | `sandbox` | on | programs of skills and tools run inside a sandbox (Linux) |
//! | `successor` | on | patches of the runtime, judged in a sandboxed copy; sets `http`, `reflex` and `sandbox` |
//! | `s3`, `gcs`, `azure`, `webdav` | off | snapshots in that store; `cloud` is all four |
//! | `local` | off | a language model inside the process |
//! | `semantic` | off | embedding models and rerankers inside the process |
//!
//! With `default-features = false` and a backend of your own you compile the brain and the task loop, and no HTTP client.
//!
//! # What is stable
//!
//! Newer versions open the brains, receipts and snapshots of older ones. The Rust API follows Semantic Versioning: before
//! 1.0, a minor version may break it and a patch version never does. Structs with public fields may get new ones in a
//! minor version: write `..Default::default()`. The crates below this one share its version number; name their items
//! through `herm`.
//!
//! # A brain without a task
//!
//! ```
//! use herm::{Brain, BrainId, BrainOptions, BrainSource, Draft, Layout, Seed, StepKind};
//!
//! # fn main() -> herm::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("herm-brain-doc-{}", std::process::id()));
//! let layout = Layout::new(&dir);
//! let id: BrainId = "7".parse()?;
//! let seed = Seed { id: &id, files: &[("system.md", b"You answer in JSON.\n")] };
//! let (mut brain, _) = Brain::hydrate(&layout, &id, &BrainSource::Seed(seed), &BrainOptions::default())?;
//!
//! let mut draft = Draft::new();
//! brain.edit(&mut draft).create_skill(
//!     &"say-hello".parse()?,
//!     "---\nname: say-hello\ndescription: Greets. Use when someone arrives.\n---\n# Say hello\n",
//!     herm::skill::CreatedBy::Agent,
//! )?;
//! let settled = brain.settle(&draft, StepKind::Maintenance, "learned to greet")?;
//! assert_eq!(settled.version, 2);
//! brain.close()?;
//! # herm::fsio::remove_tree(&dir)
//! # }
//! ```
//!
//! `docs/embed/` in the repository has more of each; `docs/ARCHITECTURE.md` is the map, and `docs/reference/` the formats.

pub use herm_agent::{checks, session, task, tool};
pub use herm_brain::{brain, bundle, memory, receipt, tuning};
pub use herm_core::{clock, error, fsio, ids, layout, redact, schema, text};
pub use herm_harness as harness;
#[cfg(feature = "http")]
pub use herm_http as http;
pub use herm_learning::{curator, evolver, trial};
pub use herm_skills as skill;
#[cfg(feature = "snapshot")]
pub use herm_snapshot as snapshot;
#[cfg(feature = "successor")]
pub use herm_successor as successor;

pub use brain::{Brain, BrainOptions, BrainSource, Draft, Reader, Seed, SettledStep, StepKind};
pub use clock::{Clock, SystemClock, Timestamp};
pub use error::{Error, ErrorKind, Result};
pub use harness::{Harness, HarnessBuilder, RunOptions};
pub use ids::{BrainId, Digest, RelPath, Slug, SubscriberId, TaskId};
pub use layout::Layout;
pub use receipt::Signer;
pub use session::CancelToken;
pub use task::{Outcome, StopReason, Task, TaskEvent, TaskLimits, TaskStatus};

/// Who speaks for the agent: the trait, and the backends of this build.
pub mod backend {
    pub use herm_agent::backend::*;
    #[cfg(any(feature = "http", feature = "reflex", feature = "local"))]
    pub use herm_backends::*;
    #[cfg(feature = "http")]
    pub use herm_http::HttpClient;
}

/// What texts mean: the traits, and with the feature `semantic` models that run inside the process.
pub mod semantic {
    pub use herm_brain::semantic::*;
    #[cfg(feature = "semantic")]
    pub use herm_semantic::{embedder, reranker};

    /// Whether this build can run models.
    pub const fn is_built_in() -> bool {
        cfg!(feature = "semantic")
    }

    /// Fails: this build has no models.
    #[cfg(not(feature = "semantic"))]
    pub fn embedder(_: &std::path::Path, _: SemanticOptions) -> crate::Result<std::sync::Arc<dyn Embedder>> {
        Err(not_built_in())
    }

    /// Fails: this build has no models.
    #[cfg(not(feature = "semantic"))]
    pub fn reranker(_: &std::path::Path, _: SemanticOptions) -> crate::Result<std::sync::Arc<dyn Reranker>> {
        Err(not_built_in())
    }

    #[cfg(not(feature = "semantic"))]
    fn not_built_in() -> crate::Error {
        crate::Error::unavailable("this build runs no embedding models and no rerankers")
            .hint("build herm with `--features semantic`")
    }
}
