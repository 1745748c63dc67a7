//! What goes wrong with a model, by what to do about it.

use std::fmt;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// There is no such file.
    NotFound,
    /// It is a file, but not one this build can use.
    Invalid,
    /// The file is damaged.
    Corrupt,
    /// The conversation is longer than the model's context.
    TooLong,
    /// Nobody waits for the reply any more.
    GivenUp,
    /// The model cannot go on.
    Internal,
}

/// A failure: what happened, and what to do about it.
#[derive(Debug)]
pub struct ModelError {
    kind: ModelErrorKind,
    message: String,
    hint: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What fails here, fails with a `ModelError`.
pub(crate) type Result<T> = std::result::Result<T, ModelError>;

impl ModelError {
    pub(crate) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::NotFound, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Invalid, message)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Corrupt, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Internal, message)
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> ModelErrorKind {
        self.kind
    }

    /// What happened, in a sentence without the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn hint_text(&self) -> Option<&'static str> {
        self.hint
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
