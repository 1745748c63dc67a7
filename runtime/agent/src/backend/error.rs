//! What goes wrong with a backend, by what to do about it.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The key is missing, wrong or not allowed to do this.
    Auth,
    /// The account has no money, or has reached its limit.
    Billing,
    /// Too many requests: wait.
    RateLimit,
    /// The endpoint has no capacity at the moment.
    Overloaded,
    /// The endpoint reports an error of its own, such as status 500.
    Server,
    /// It took too long.
    Timeout,
    /// It could not be reached, or the connection broke.
    Network,
    /// The conversation is longer than the model's context.
    ContextOverflow,
    /// The request is larger than the endpoint takes.
    PayloadTooLarge,
    /// There is no such model.
    ModelNotFound,
    /// The endpoint's policy refuses the content.
    ContentPolicy,
    /// The endpoint does not understand the request.
    BadRequest,
    /// What came back is not a reply: HTML, garbage, nothing.
    BadReply,
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// The same again, later.
    Retry,
    /// A shorter conversation may work.
    Shrink,
    /// This backend will not answer; another may.
    FallBack,
}

impl ErrorClass {
    /// What to do about it.
    pub fn advice(self) -> Advice {
        match self {
            Self::RateLimit | Self::Overloaded | Self::Server | Self::Timeout | Self::Network | Self::BadReply => {
                Advice::Retry
            }
            Self::ContextOverflow | Self::PayloadTooLarge => Advice::Shrink,
            Self::Auth | Self::Billing | Self::ModelNotFound | Self::ContentPolicy | Self::BadRequest => {
                Advice::FallBack
            }
        }
    }

    /// The name that events, logs, spans and messages have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Billing => "billing",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::ContextOverflow => "context_overflow",
            Self::PayloadTooLarge => "payload_too_large",
            Self::ModelNotFound => "model_not_found",
            Self::ContentPolicy => "content_policy",
            Self::BadRequest => "bad_request",
            Self::BadReply => "bad_reply",
        }
    }
}

/// A failure of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendError {
    /// What kind it was.
    pub class: ErrorClass,
    /// What happened, without secrets, at most a few hundred characters.
    pub message: String,
    /// When the endpoint wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl BackendError {
    /// A failure of `class`.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.class.name())
    }
}

impl std::error::Error for BackendError {}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        let (kind, hint) = match error.class {
            ErrorClass::Auth => (ErrorKind::Unavailable, "check the key of this backend"),
            ErrorClass::Billing => (ErrorKind::Unavailable, "top up the account, or use another backend"),
            ErrorClass::ModelNotFound => (ErrorKind::NotFound, "check the model's name in the configuration"),
            ErrorClass::ContextOverflow | ErrorClass::PayloadTooLarge => {
                (ErrorKind::InvalidInput, "send a shorter input")
            }
            ErrorClass::ContentPolicy => (ErrorKind::Refused, "the endpoint refuses this content"),
            _ => (ErrorKind::Unavailable, "try again in a moment, or use another backend"),
        };
        Self::new(kind, error.message.clone()).hint(hint).because(error)
    }
}
