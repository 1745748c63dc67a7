//! What went wrong, as a caller is told: `application/problem+json` with the kinds of `herm::Error`.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use herm::{Error, ErrorKind};
use serde::Serialize;

tokio::task_local! {
    /// The name of the request that is being answered.
    pub(super) static REQUEST_ID: String;
    /// Whether who asks operates the server; not until it is known who they are.
    pub(super) static OPERATES: AtomicBool;
}

/// In the place of what names a path of the server.
const UNTOLD: &str =
    "the server cannot do this now; its operator finds the reason in the log, under the id of this request";

/// Whether a text names a place on the server's disk: `/a/b` at the beginning of a word, or `~/a`. Paths of the API are no
/// such places, nor is a command like `/review`.
fn names_a_path(text: &str) -> bool {
    const OURS: [&str; 2] = ["/v1/", "/app/"];
    text.match_indices('/').any(|(at, _)| {
        let (before, path) = text.split_at(at);
        let word =
            path[1..].split(|c: char| c.is_whitespace() || matches!(c, '"' | '`' | '\'')).next().unwrap_or_default();
        let is_home = before.ends_with('~') && !word.is_empty();
        // Within a word, as in "and/or", an address or a path inside a brain, a slash begins nothing.
        let begins = before.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && !"/._-}~<".contains(c));
        let has_two = word.split_once('/').is_some_and(|(one, two)| !one.is_empty() && !two.is_empty());
        is_home || begins && has_two && !OURS.iter().any(|ours| path.starts_with(ours))
    })
}

/// A sentence as a subscriber may read it.
pub(super) fn told_to_subscriber(text: &str) -> &str {
    if names_a_path(text) { UNTOLD } else { text }
}

/// What went wrong. Small, since every handler may return one.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub(crate) struct Problem(Box<ProblemDocument>);

impl Deref for Problem {
    type Target = ProblemDocument;

    fn deref(&self) -> &ProblemDocument {
        &self.0
    }
}

/// A problem as it is written down.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    /// `urn:herm:problem:` and the kind.
    #[serde(rename = "type")]
    pub(crate) urn: String,
    /// The kind in words.
    pub(crate) title: String,
    /// The HTTP status of the response.
    pub(crate) status: u16,
    /// What can be done about it.
    pub(crate) kind: String,
    /// What went wrong, in a sentence.
    pub(crate) detail: String,
    /// What to do next, where there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The id of the request; the log has more under it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// Headers that go with it.
    #[serde(skip)]
    #[schema(ignore)]
    pub(crate) headers: HeaderMap,
}

/// The result of a handler.
pub(crate) type HandlerResult<T> = Result<T, Problem>;

impl Problem {
    /// A problem that is no `herm::Error`: of HTTP itself.
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(ProblemDocument {
            urn: format!("urn:herm:problem:{kind}"),
            title: kind.replace('_', " "),
            status: status.as_u16(),
            kind: kind.to_owned(),
            detail: detail.into(),
            hint: None,
            request_id: REQUEST_ID.try_with(Clone::clone).ok(),
            headers: HeaderMap::new(),
        }))
    }

    /// Adds the next step.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds a header to the response; a value that no header can have is left out.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers.insert(name, value);
        }
        self
    }

    /// Nobody said who they are, or it is not so.
    pub(crate) fn unauthenticated(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
            .hint("send `Authorization: Bearer herm_…`; an operator makes keys with `herm keys create`")
            .header(axum::http::header::WWW_AUTHENTICATE, "Bearer")
    }

    /// It is too much at once.
    pub(crate) fn too_many(detail: impl Into<String>, after_secs: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail)
            .hint(format!("try again in {after_secs} s"))
            .header(RETRY_AFTER, &after_secs.to_string())
    }

    /// There is no such thing, or none that this caller may know of.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// The input breaks a rule.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_input", detail)
    }

    /// A problem as it was written down.
    pub(crate) fn read_back(document: &serde_json::Value) -> Self {
        let text = |name: &str| document[name].as_str().map(str::to_owned);
        let status = document["status"].as_u64().and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
        let mut problem = Self::new(
            status.unwrap_or(StatusCode::CONFLICT),
            &text("kind").unwrap_or_else(|| "conflict".to_owned()),
            text("detail").unwrap_or_else(|| "the task came to nothing".to_owned()),
        );
        problem.0.hint = text("hint");
        problem
    }

    /// The same for someone who does not operate the server: without places on its disk. The log has all of it.
    pub(crate) fn for_subscriber(mut self) -> Self {
        let document = &mut self.0;
        if names_a_path(&document.detail) {
            tracing::warn!(request = document.request_id, detail = %document.detail, "told without its path");
            UNTOLD.clone_into(&mut document.detail);
            document.hint = None;
        }
        document.hint = document.hint.take().filter(|hint| !names_a_path(hint));
        self
    }

    /// The same for the caller who is being answered.
    pub(crate) fn for_caller(self) -> Self {
        match OPERATES.try_with(|operates| operates.load(Ordering::Relaxed)) {
            Ok(false) => self.for_subscriber(),
            // The operator; or nobody is being answered, and it is only written down.
            Ok(true) | Err(_) => self,
        }
    }

    /// The HTTP status; 500 where the number is not one.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Refused => StatusCode::FORBIDDEN,
            ErrorKind::Corrupt | ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::warn!(kind = error.kind().name(), %error, "a request could not be answered");
        }
        let mut problem = Self::new(status, error.kind().name(), error.message());
        problem.0.hint = error.hint_text().map(str::to_owned);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            problem = problem.header(RETRY_AFTER, "5");
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut problem = self.for_caller();
        // The problem of a task may have come up before this request did.
        if let Ok(id) = REQUEST_ID.try_with(Clone::clone) {
            problem.0.request_id = Some(id);
        }
        let (status, headers) = (problem.status(), problem.headers.clone());
        let mut response = (status, Json(problem)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.headers_mut().extend(headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_on_the_disk_is_told_from_an_address_a_path_of_the_api_and_a_path_inside_a_brain() {
        for place in [
            "cannot open /srv/herm/brains/7/memory.db: it does not exist",
            "cannot write \"/tmp/x\": the disk is full",
            "(/etc/herm)",
            "look at ~/brains",
            "path=/var/lib/herm",
            "/x/y is not a file",
            "failed:/srv/x",
        ] {
            assert!(names_a_path(place), "{place}");
        }
        for fine in [
            "send the task to POST /v1/agents/7/tasks with a payment",
            "see /openapi.json",
            "http://127.0.0.1:7700/x or https://example.com/a/b",
            "skills/x/SKILL.md and/or users/a.md",
            "1 / 2",
            "there is no command /review",
            "<s>x</s> and </a>/b",
            "ask for `GET /v1/tasks/{task}`",
            "the budget of this key is used up",
        ] {
            assert!(!names_a_path(fine), "{fine}");
        }
    }
}
