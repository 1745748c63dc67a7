//! A server that is reached over HTTP: rmcp's client, with answers that end.
//!
//! rmcp bounds the events of a stream and not the body of a JSON answer; so the one request that carries answers is
//! sent here, and rmcp's own client does the rest.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use herm::{Error, Result};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::sync::watch;

use super::MAX_MESSAGE;
use super::server::SecretHeader;

const SESSION: &str = "mcp-session-id";
/// How often a broken stream of an answer is taken up again.
const MAX_RESUMES: usize = 3;

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A transport to an address. `too_large` is told when an answer does not end.
pub(super) async fn transport(
    server: &str,
    url: &reqwest::Url,
    header: Option<&SecretHeader>,
    connect_timeout: Duration,
    too_large: Arc<watch::Sender<bool>>,
) -> Result<StreamableHttpClientTransport<Bounded>> {
    // It reads the machine's certificates.
    let built = tokio::task::spawn_blocking(move || build(connect_timeout)).await;
    let client = match built {
        Ok(Ok(client)) => client,
        Ok(Err(source)) => {
            return Err(Error::unavailable(format!("the MCP server {server} cannot be reached: no HTTP client"))
                .hint("the operator must look at the machine's certificates")
                .because(source));
        }
        Err(_) => return Err(Error::internal("the HTTP client did not start")),
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .max_sse_event_size(MAX_MESSAGE)
        .custom_headers(header.map(|header| (header.name.clone(), header.value.clone())).into_iter().collect());
    let mut resumes = ExponentialBackoff::default();
    resumes.max_times = Some(MAX_RESUMES);
    config.retry_config = Arc::new(resumes);
    Ok(StreamableHttpClientTransport::with_client(Bounded { client, too_large }, config))
}

fn build(connect_timeout: Duration) -> std::result::Result<Client, reqwest::Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Where another thread was faster, its provider is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    Client::builder()
        // A redirect would take the secret along.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(connect_timeout)
        .user_agent(concat!("herm/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// What a failed exchange means, in words that hold nothing of the address.
pub(super) fn words(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<Failure>() {
        Some(Failure::Client(error)) if error.is_connect() => "it cannot be reached".to_owned(),
        Some(Failure::Client(_)) => "the connection broke".to_owned(),
        Some(Failure::UnexpectedServerResponse(said)) => said.clone().into_owned(),
        _ => herm::text::line(&error.to_string(), 200),
    }
}

/// A client whose answers end.
#[derive(Debug, Clone)]
pub(super) struct Bounded {
    client: Client,
    too_large: Arc<watch::Sender<bool>>,
}

impl StreamableHttpClient for Bounded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> std::result::Result<StreamableHttpPostResponse, Failure> {
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, "text/event-stream, application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, session.as_ref());
        }
        // An error of the client says where it went; the address may hold a secret.
        let response = request.json(&message).send().await.map_err(|error| Failure::Client(error.without_url()))?;
        self.read(response, matches!(message, JsonRpcMessage::Request(_)), session.is_some()).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: Headers,
    ) -> std::result::Result<(), Failure> {
        self.client.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> std::result::Result<BoxStream<'static, std::result::Result<Sse, SseError>>, Failure> {
        // A stream that resumes no answer is for what the server wants to say on its own, and herm asks for nothing.
        if last_event_id.is_none() {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        self.client.get_stream_with_max_sse_event_size(uri, session, last_event_id, auth, headers, MAX_MESSAGE).await
    }
}

impl Bounded {
    async fn read(
        &self,
        response: Response,
        is_request: bool,
        in_session: bool,
    ) -> std::result::Result<StreamableHttpPostResponse, Failure> {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, session) = (response.status(), header(SESSION));
        let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
        let is_json = kind.starts_with("application/json");
        if status.is_success() && (!is_request || matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(Failure::SessionExpired);
        }
        if status.is_success() && kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        if status.is_success() && !is_json {
            return Err(Failure::UnexpectedServerResponse(Cow::from(
                "it answered neither JSON nor a stream of events",
            )));
        }
        let said = Failure::UnexpectedServerResponse(Cow::from(format!("it answered {status}")));
        if !is_json || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(said);
        }
        let body = self.body(response).await?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message @ JsonRpcMessage::Error(_)) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Ok(message) if status.is_success() => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) if status.is_success() => {
                Err(Failure::UnexpectedServerResponse(Cow::from("its answer is no message of the protocol")))
            }
            _ => Err(said),
        }
    }

    /// A whole body, if it ends in time.
    async fn body(&self, mut response: Response) -> std::result::Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Failure::Client(error.without_url()))? {
            if body.len() + chunk.len() > MAX_MESSAGE {
                self.too_large.send_replace(true);
                return Err(Failure::UnexpectedServerResponse(Cow::from("its answer is too large")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The events of an answer, up to a size.
    fn events(&self, response: Response) -> BoxStream<'static, std::result::Result<Sse, SseError>> {
        let too_large = Arc::clone(&self.too_large);
        let chunks = stream::unfold(Some((response, MAX_MESSAGE)), move |state| {
            let too_large = Arc::clone(&too_large);
            async move {
                let (mut response, left) = state?;
                match response.chunk().await {
                    Ok(None) => None,
                    Ok(Some(chunk)) => match left.checked_sub(chunk.len()) {
                        Some(left) => Some((Ok(chunk), Some((response, left)))),
                        None => {
                            too_large.send_replace(true);
                            None
                        }
                    },
                    Err(error) => Some((Err(error.without_url()), None)),
                }
            }
        });
        SseStream::from_bytes_stream(chunks.boxed()).boxed()
    }
}
