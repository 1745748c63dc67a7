//! The page: a brain inspector of static files that are part of the program.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Nothing but what is served here, no inline scripts, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers `GET /` with `index.html`.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    file("index.html", &headers)
}

/// A part of it.
pub(crate) async fn part(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&path, &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some((_, content, tag)) = PAGE.iter().find(|(name, ..)| *name == path) else {
        return Problem::not_found("there is no such file").into_response();
    };
    let kind = match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    // A browser asks whether it is still the same, and is told in a line.
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let fixed: [(HeaderName, &str); 4] =
        [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-cache"), (ETAG, tag)];
    match known {
        true => (StatusCode::NOT_MODIFIED, fixed).into_response(),
        false => (fixed, *content).into_response(),
    }
}
