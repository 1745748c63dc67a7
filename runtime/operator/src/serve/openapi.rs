//! The OpenAPI document, from the handlers themselves.

use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::{agents, history, learning, mesh, openai, operate, proposals, receipts, skills, status, tasks};

#[derive(OpenApi)]
#[openapi(
    info(title = "herm", description = "Agents that learn, one settled step at a time.", license(name = "MIT OR Apache-2.0")),
    paths(
        tasks::submit, tasks::list, tasks::show, tasks::follow, tasks::cancel, tasks::feedback::rate,
        tasks::feedback::rate_of_agent,
        agents::list, agents::show,
        skills::list, skills::show, skills::version,
        learning::list, learning::show, learning::stop, learning::report,
        history::search, history::list, history::charts, history::diff,
        receipts::list, receipts::show,
        operate::snapshots, operate::curate, operate::evolve, operate::verify, operate::snapshot, operate::restore,
        operate::import, operate::pause, operate::resume,
        proposals::list, proposals::accept, proposals::reject,
        status::status, status::key, status::healthz, status::readyz, status::metrics,
        openai::completions, openai::models, openai::one_model,
        mesh::propose, mesh::vote, mesh::close, mesh::missed,
    ),
    components(schemas(super::view::OutcomeView<'static>, super::view::OutcomeValueSchema)),
    security(("key" = [])),
    modifiers(&Keys)
)]
struct Document;

struct Keys;

impl utoipa::Modify for Keys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("herm_…").build();
        document.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(bearer));
    }
}

/// The document as text.
pub(crate) fn text() -> String {
    let mut document = Document::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    // Plain data, without anything that could fail to be written.
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// Answers `GET /openapi.json`; the text is made once.
pub(crate) async fn document() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    ([(CONTENT_TYPE, "application/json")], TEXT.get_or_init(text).as_str()).into_response()
}
