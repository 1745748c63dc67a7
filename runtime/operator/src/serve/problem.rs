//! What went wrong, as a caller is told: `application/problem+json` with the kinds of `herm::Error`.

use std::ops::Deref;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use herm::{Error, ErrorKind};
use serde::Serialize;

tokio::task_local! {
    /// The name of the request that is being answered.
    pub(super) static REQUEST_ID: String;
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
    /// The HTTP status.
    pub(crate) status: u16,
    /// What can be done about it.
    pub(crate) kind: String,
    /// What went wrong.
    pub(crate) detail: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
    /// Headers that go with it.
    #[serde(skip)]
    #[schema(ignore)]
    pub(crate) headers: HeaderMap,
}

/// The result of a handler.
pub(crate) type Answered<T> = Result<T, Problem>;

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

    /// Adds a header.
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

    /// The HTTP status.
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
    fn into_response(mut self) -> Response {
        // The problem of a task may have come up before this request did.
        if let Ok(id) = REQUEST_ID.try_with(Clone::clone) {
            self.0.request_id = Some(id);
        }
        let (status, headers) = (self.status(), self.headers.clone());
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.headers_mut().extend(headers);
        response
    }
}
