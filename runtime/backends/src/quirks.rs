//! What endpoints that speak the same format do not agree on, learned from their complaints.
//!
//! An endpoint that answers "I do not know this field" is asked once more without it. If that helps,
//! it is remembered for as long as the backend lives, so that the detour is taken once.

use std::sync::atomic::{AtomicU8, Ordering};

use serde::Serialize;

use super::endpoint::Endpoint;
use super::{BackendError, ErrorClass};
use herm_http::Incoming;

/// One thing that an endpoint does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quirk {
    /// No schema for the reply.
    NoSchema = 1,
    /// `max_completion_tokens` in the place of `max_tokens`.
    CompletionTokens = 2,
    /// The request has no temperature.
    NoTemperature = 4,
    /// The request has no `stream_options`, so no token counts come with a stream.
    NoStreamOptions = 8,
}

impl Quirk {
    /// What a complaint about it mentions, in lower case.
    fn wordings(self) -> &'static [&'static str] {
        match self {
            Self::NoSchema => &["response_format", "json_schema", "json schema", "structured output", "grammar"],
            Self::CompletionTokens => &["max_tokens"],
            Self::NoTemperature => &["temperature"],
            Self::NoStreamOptions => &["stream_options", "include_usage"],
        }
    }
}

/// A set of quirks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuirkSet(u8);

impl QuirkSet {
    /// Whether `quirk` is in it.
    pub(super) fn has(self, quirk: Quirk) -> bool {
        self.0 & quirk as u8 != 0
    }

    fn with(self, quirk: Quirk) -> Self {
        Self(self.0 | quirk as u8)
    }
}

/// The quirks of one endpoint, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Quirks(AtomicU8);

impl Quirks {
    /// What is known now.
    pub(super) fn known(&self) -> QuirkSet {
        QuirkSet(self.0.load(Ordering::Relaxed))
    }

    fn learn(&self, known: QuirkSet) {
        let before = self.0.fetch_or(known.0, Ordering::Relaxed);
        if before | known.0 != before {
            tracing::info!(quirks = known.0, "an endpoint does not take every field; it is asked without from now on");
        }
    }

    /// Posts what `dress` makes of the known quirks, and again for each of `lessons` that the endpoint
    /// teaches on the way.
    pub(super) async fn post<Body: Serialize>(
        &self,
        endpoint: &Endpoint,
        lessons: &[Quirk],
        dress: impl Fn(QuirkSet) -> Body,
    ) -> Result<Incoming, BackendError> {
        let mut known = self.known();
        let mut first_complaint = None;
        loop {
            let body = serde_json::to_vec(&dress(known)).map_err(unwritable)?;
            let refusal = match endpoint.post(body).await {
                Ok(incoming) => {
                    self.learn(known);
                    return Ok(incoming);
                }
                Err(refusal) => refusal,
            };
            let lesson = lessons.iter().find(|quirk| !known.has(**quirk) && refusal.complains_of(quirk.wordings()));
            match (lesson, first_complaint) {
                // Each lesson is taken once, so this ends.
                (Some(lesson), complaint) => {
                    known = known.with(*lesson);
                    first_complaint = Some(complaint.unwrap_or(refusal.error));
                }
                // Leaving fields out did not help: the first complaint is the true one.
                (None, Some(complaint)) if complaint.class == refusal.error.class => return Err(complaint),
                // Another failure: the fields were a problem, and are not any more.
                (None, Some(_)) => {
                    self.learn(known);
                    return Err(refusal.error);
                }
                (None, None) => return Err(refusal.error),
            }
        }
    }
}

fn unwritable(error: serde_json::Error) -> BackendError {
    BackendError::new(ErrorClass::BadRequest, format!("the question cannot be written as JSON: {error}"))
}
