//! Backends: OpenAI-compatible and Anthropic endpoints, a model in the process, and one without a model.
//!
//! It knows nothing of brains: a backend sees the messages of one turn and returns one reply. Retries, fallbacks and
//! budgets are in [`herm_agent::backend`], with the trait.
//!
//! ```
//! # #[cfg(feature = "http")]
//! use herm_agent::backend::Backend as _;
//! # #[cfg(feature = "http")]
//! use herm_backends::{EndpointSettings, OpenAi};
//!
//! # #[cfg(feature = "http")]
//! fn main() -> herm_core::Result<()> {
//!     // Ollama, llama.cpp, vLLM, OpenRouter and OpenAI speak this wire format. Nothing is asked yet.
//!     let settings = EndpointSettings {
//!         context_bytes: Some(128 << 10),
//!         ..EndpointSettings::openai("http://localhost:11434/v1", "qwen3:8b")
//!     };
//!     let backend = OpenAi::new(herm_http::HttpClient::new()?, settings)?;
//!     assert_eq!(backend.name(), "openai");
//!     assert_eq!(backend.capabilities().context_bytes, Some(128 << 10));
//!     Ok(())
//! }
//! # #[cfg(not(feature = "http"))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `http` | off | `OpenAi` and `Anthropic`: models behind HTTP endpoints |
//! | `local` | off | `LocalBackend`: a language model inside the process, and the cache of model files; sets `http` |
//!
//! Without a feature there is [`Reflex`], which has no language model.

use herm_agent::backend::{
    Backend, BackendError, Capabilities, Completion, CompletionRequest, ErrorClass, FinishReason, Price, Purpose,
    Tokens,
};
#[cfg(feature = "http")]
use herm_agent::backend::{ChatMessage, Role};
#[cfg(feature = "http")]
use herm_core::error;
use herm_core::{redact, schema};
use herm_skills as skill;

#[cfg(feature = "http")]
mod anthropic;
#[cfg(feature = "http")]
mod classify;
#[cfg(feature = "http")]
mod endpoint;
#[cfg(feature = "local")]
mod local;
#[cfg(feature = "http")]
mod openai;
#[cfg(feature = "http")]
mod quirks;
mod reflex;
#[cfg(feature = "http")]
mod reply;
#[cfg(feature = "http")]
mod settings;
#[cfg(feature = "http")]
mod sse;

#[cfg(feature = "http")]
pub use anthropic::Anthropic;
#[cfg(feature = "local")]
pub use local::{Hub, LocalBackend, LocalSettings, ModelCache, ModelCard, ModelRef, PulledModel};
#[cfg(feature = "http")]
pub use openai::OpenAi;
pub use reflex::Reflex;
#[cfg(feature = "http")]
pub use settings::{EndpointSettings, SchemaMode};

/// How many bytes of skills a prompt takes whole, where the model is not a small one.
#[cfg(any(feature = "http", feature = "local"))]
const PRELOAD_BYTES: usize = 6_000;

/// What the loop does about an exchange that failed below HTTP.
#[cfg(feature = "http")]
fn backend_error(error: herm_http::TransportError) -> BackendError {
    let class = match error.failure {
        herm_http::Failure::Timeout => ErrorClass::Timeout,
        herm_http::Failure::BadRequest => ErrorClass::BadRequest,
        herm_http::Failure::Network => ErrorClass::Network,
    };
    BackendError::new(class, error.message)
}
