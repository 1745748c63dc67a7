//! What a caller sends: a body within its size and time, read as JSON.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;

use super::app::App;
use super::problem::{HandlerResult, Problem};

/// A JSON body, read within the limits of the server and parsed.
#[derive(Debug)]
pub(crate) struct Payload<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Payload<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> HandlerResult<Self> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "the body is not said to be JSON",
            )
            .hint("send `Content-Type: application/json`"));
        }
        let bytes = read(app, request.into_body()).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body, or nothing at all, which is the default.
#[derive(Debug)]
pub(crate) struct OptionalPayload<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalPayload<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> HandlerResult<Self> {
        let is_json = is_json(request.headers());
        let bytes = read(app, request.into_body()).await?;
        match bytes.is_empty() {
            true => Ok(Self(T::default())),
            false if is_json => parse(&bytes).map(Self),
            false => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "the body is not said to be JSON",
            )
            .hint("send `Content-Type: application/json`, or no body")),
        }
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> HandlerResult<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let what = if error.is_data() { "does not fit" } else { "is not JSON" };
        Problem::invalid(format!("the body {what}: {error}")).hint("see the fields in /openapi.json")
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// A body that comes is read as long as it comes faster than this, in bytes a second, once it has come for a while.
const LEAST_RATE: f64 = 1_024.0;

/// Whether a body comes too slowly to be waited for.
pub(crate) fn drips(app: &App, began: Instant, bytes: u64) -> HandlerResult<()> {
    let took = began.elapsed();
    match took > app.limits.silence && (bytes as f64) < LEAST_RATE * took.as_secs_f64() {
        true => {
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body comes too slowly").hint("send it again"))
        }
        false => Ok(()),
    }
}

/// A whole body, within its limits.
pub(super) async fn read(app: &App, body: Body) -> HandlerResult<Vec<u8>> {
    let (mut bytes, most) = (Vec::new(), app.limits.body_bytes);
    let mut pieces = body.into_data_stream();
    let began = Instant::now();
    while let Some(piece) = next(app, &mut pieces).await? {
        drips(app, began, bytes.len() as u64)?;
        if bytes.len() + piece.len() > most {
            return Err(too_large(most as u64));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The next piece of a body that comes slowly, but comes.
pub(crate) async fn next(
    app: &App,
    pieces: &mut axum::body::BodyDataStream,
) -> HandlerResult<Option<axum::body::Bytes>> {
    let silent =
        |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body stopped coming").hint("send it again");
    match tokio::time::timeout(app.limits.silence, pieces.next()).await.map_err(silent)? {
        None => Ok(None),
        Some(Ok(piece)) => Ok(Some(piece)),
        Some(Err(error)) => Err(Problem::invalid(format!("the body broke off: {error}"))),
    }
}

/// Refuses a body that says itself that it is too large, before any of it is read or waited for.
pub(crate) fn check_announced(headers: &HeaderMap, most: u64) -> HandlerResult<()> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > most) { Err(too_large(most)) } else { Ok(()) }
}

pub(crate) fn too_large(most: u64) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the body has more than {most} bytes"))
        .hint("send less, or ask the operator to raise the limit")
}

/// What stands behind the `?`.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> HandlerResult<Self> {
        match Query::<T>::from_request_parts(parts, app).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => {
                Err(Problem::invalid(format!("the query does not fit: {rejection}")).hint("see it in /openapi.json"))
            }
        }
    }
}

/// How many of a list, within what is allowed.
pub(crate) fn page(limit: Option<usize>, usual: usize, most: usize) -> HandlerResult<usize> {
    match limit.unwrap_or(usual) {
        fits if (1..=most).contains(&fits) => Ok(fits),
        other => Err(Problem::invalid(format!("limit is {other}, and must be 1 to {most}"))),
    }
}
