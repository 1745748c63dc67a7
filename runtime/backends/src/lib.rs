//! Backends: OpenAI-compatible and Anthropic endpoints, a model in the process, and one without a model.
//!
//! Knows nothing of brains: a backend sees the messages of one turn and returns one reply.

use herm_agent::backend::{
    Backend, BackendError, Capabilities, ChatMessage, Completion, CompletionRequest, ErrorClass, FinishReason, Price,
    Purpose, Role, Tokens,
};
use herm_core::{error, redact, schema};
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
