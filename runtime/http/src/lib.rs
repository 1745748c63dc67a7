//! One keep-alive HTTP client, and a response that is read within bounds.
//!
//! No retries, no redirects, no overall deadline: retries belong to the caller, who knows what is safe to send twice; a
//! redirect would carry the key to a host nobody configured; and a caller with a deadline drops the future. A status that
//! says no is a response; only an exchange that failed below HTTP is a [`TransportError`].
//!
//! It knows nothing of models and brains.
//!
//! ```no_run
//! use herm_core::Result;
//! use herm_http::HttpClient;
//! use reqwest::header::HeaderMap;
//!
//! async fn ask(client: &HttpClient) -> Result<Vec<u8>> {
//!     let url = reqwest::Url::parse("http://localhost:8080/health").expect("a URL");
//!     let mut response = client.post(&url, HeaderMap::new(), b"{}".to_vec()).await?;
//!     let mut body = Vec::new();
//!     while let Some(piece) = response.chunk().await? {
//!         body.extend_from_slice(piece.as_ref());
//!         if body.len() > 1 << 20 {
//!             break; // the caller says how much is enough
//!         }
//!     }
//!     Ok(body)
//! }
//!
//! # fn main() -> Result<()> {
//! let client = HttpClient::new()?; // clones share its connections
//! # drop(ask(&client));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! None. TLS is rustls on ring, with the certificates of the machine.

use std::fmt;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Url, redirect};
use rustls::crypto::CryptoProvider;
use tokio::time::timeout;

use herm_core::error::{Error, ErrorKind, Result};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const DEFAULT_IDLE: Duration = Duration::from_secs(120);

/// Why an exchange failed below HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server sent nothing for too long.
    Timeout,
    /// The request could not be built: an address or a header is not valid.
    BadRequest,
    /// The server could not be reached, or the connection broke.
    Network,
}

/// An exchange that failed below HTTP; a status that says no is a response, not this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportError {
    /// Whether it was the time, the request or the network.
    pub failure: Failure,
    /// What happened, with the host and the path, never the query.
    pub message: String,
}

impl TransportError {
    fn new(failure: Failure, message: String) -> Self {
        Self { failure, message }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TransportError {}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        Self::new(ErrorKind::Unavailable, error.message.clone()).hint("try again in a moment").because(error)
    }
}

/// A keep-alive HTTP client. Clones share its connections.
#[derive(Clone)]
pub struct HttpClient {
    http: reqwest::Client,
    idle: Duration,
    trust: Trust,
}

/// Whether the machine has certificates to check a server against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    System,
    Nobody,
}

impl HttpClient {
    /// A client that trusts the certificates of the machine.
    ///
    /// A machine without any (a bare container) still gets one: a model on `http://localhost` needs
    /// none, and a call to an `https` endpoint then says what is missing.
    pub fn new() -> Result<Self> {
        install_crypto();
        let (http, trust) = match builder().build() {
            Ok(http) => (http, Trust::System),
            Err(_) => match builder().tls_certs_only([]).build() {
                Ok(http) => (http, Trust::Nobody),
                Err(error) => return Err(Error::unavailable("cannot set up the HTTP client").because(error)),
            },
        };
        Ok(Self { http, idle: DEFAULT_IDLE, trust })
    }

    /// How long a server may send nothing before the call fails. 120 seconds unless told.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Sends `body` as JSON and returns when the head of the response is there, whatever its status.
    pub async fn post(&self, url: &Url, headers: HeaderMap, body: Vec<u8>) -> Result<Incoming, TransportError> {
        let place = place_of(url);
        if self.trust == Trust::Nobody && url.scheme() == "https" {
            return Err(TransportError::new(
                Failure::Network,
                format!("cannot reach {place}: this machine has no CA certificates (install `ca-certificates`)"),
            ));
        }
        let request = self.http.post(url.clone()).headers(headers).body(body).build();
        let request = request.map_err(|error| transport(&place, "cannot reach", error))?;
        match timeout(self.idle, self.send(request)).await {
            Ok(Ok(response)) => Ok(Incoming { response, idle: self.idle, place }),
            Ok(Err(error)) => Err(transport(&place, "cannot reach", error)),
            Err(_) => Err(silence(&place, self.idle)),
        }
    }
}

impl HttpClient {
    /// Sends a request, and waits for a descriptor where the process has none left: nothing was sent then.
    async fn send(&self, request: reqwest::Request) -> Result<reqwest::Response, reqwest::Error> {
        let mut wait = Duration::from_millis(50);
        while let Some(copy) = request.try_clone() {
            match self.http.execute(copy).await {
                Err(error) if lacks_descriptors(&error) => {
                    tokio::time::sleep(wait).await;
                    wait = (2 * wait).min(Duration::from_secs(2));
                }
                sent => return sent,
            }
        }
        self.http.execute(request).await
    }

    /// Sends JSON and reads the JSON that comes back with its status, at most `most` bytes: for services that are no
    /// model. An empty answer is null.
    pub async fn post_json(
        &self,
        url: &str,
        more: &[(String, secrecy::SecretString)],
        body: &serde_json::Value,
        most: usize,
    ) -> Result<(u16, serde_json::Value)> {
        use secrecy::ExposeSecret as _;
        let url: Url = url.parse().map_err(|_| Error::invalid(format!("{url:?} is not an address")))?;
        let mut headers = HeaderMap::new();
        headers.insert(reqwest::header::CONTENT_TYPE, reqwest::header::HeaderValue::from_static("application/json"));
        for (name, value) in more {
            let name = reqwest::header::HeaderName::from_bytes(name.as_bytes());
            let value = reqwest::header::HeaderValue::from_str(value.expose_secret());
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(Error::invalid("a header to be sent is not one").hint("check its name and value"));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let incoming = self.post(&url, headers, body.to_string().into_bytes()).await?;
        incoming.json(most).await
    }
}

impl HttpClient {
    /// Reads JSON with its status, at most `most` bytes, with a bearer token where there is one.
    pub async fn get_json(
        &self,
        url: &str,
        bearer: Option<&secrecy::SecretString>,
        most: usize,
    ) -> Result<(u16, serde_json::Value)> {
        use secrecy::ExposeSecret as _;
        let url: Url = url.parse().map_err(|_| Error::invalid(format!("{url:?} is not an address")))?;
        let place = place_of(&url);
        let mut request = self.http.get(url);
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer.expose_secret());
        }
        let response = match timeout(self.idle, request.send()).await {
            Ok(sent) => sent.map_err(|error| transport(&place, "cannot reach", error))?,
            Err(_) => return Err(silence(&place, self.idle).into()),
        };
        Incoming { response, idle: self.idle, place }.json(most).await
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// reqwest looks for the process's crypto and panics where there is none; one that the embedding
/// program chose before us stays.
pub fn install_crypto() {
    if CryptoProvider::get_default().is_none() {
        // Losing the race against another thread leaves a provider in place all the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("herm/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_WITHIN)
        .redirect(redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .http1_only()
}

/// A response whose body is still on its way.
#[derive(Debug)]
pub struct Incoming {
    response: reqwest::Response,
    idle: Duration,
    place: String,
}

impl Incoming {
    /// The HTTP status code, such as 200 or 404.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header, where it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Host and path of the endpoint, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// How long the server may send nothing.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// The next bytes of the body; nothing at its end.
    pub async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, TransportError> {
        self.chunk_within(self.idle).await
    }

    /// The next bytes of the body, if they come within `patience`.
    pub async fn chunk_within(
        &mut self,
        patience: Duration,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, TransportError> {
        match timeout(patience, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(transport(&self.place, "lost the connection to", error)),
            Err(_) => Err(silence(&self.place, patience)),
        }
    }

    /// The first `cap` bytes of the body, or fewer when it breaks or takes longer than `patience`: for
    /// bodies that only explain a status.
    pub async fn gist(&mut self, cap: usize, patience: Duration) -> Vec<u8> {
        let mut gist = Vec::new();
        let reading = async {
            while gist.len() < cap {
                let Ok(Some(chunk)) = self.chunk().await else { break };
                let chunk = chunk.as_ref();
                gist.extend_from_slice(&chunk[..chunk.len().min(cap - gist.len())]);
            }
        };
        // What came before the patience ran out is kept.
        let _ = timeout(patience, reading).await;
        gist
    }

    /// The status, and the body as JSON.
    async fn json(mut self, most: usize) -> Result<(u16, serde_json::Value)> {
        let bytes = self.gist(most, self.idle).await;
        if bytes.is_empty() {
            return Ok((self.status(), serde_json::Value::Null));
        }
        let answer = serde_json::from_slice(&bytes).map_err(|source| {
            Error::unavailable(format!("{} did not answer with JSON", self.place))
                .hint("check the address")
                .because(source)
        })?;
        Ok((self.status(), answer))
    }

    /// Reads what little is left, so that the connection can be used again.
    pub async fn drain(mut self) {
        const LEFT: usize = 16 * 1024;
        const PATIENCE: Duration = Duration::from_millis(500);
        let reading = async {
            let mut read = 0;
            while let Ok(Some(chunk)) = self.chunk().await {
                read += chunk.as_ref().len();
                if read > LEFT {
                    break;
                }
            }
        };
        // A server that keeps talking loses the connection, nothing else.
        let _ = timeout(PATIENCE, reading).await;
    }
}

/// Host, port and path: never the query, which may hold a key.
pub fn place_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or("?");
    match url.port() {
        Some(port) => format!("{host}:{port}{}", url.path()),
        None => format!("{host}{}", url.path()),
    }
}

/// Whether the process, or the machine, has no descriptor left for a connection.
fn lacks_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    use rustix::io::Errno;
    let is_lack = |code: i32| [Errno::MFILE, Errno::NFILE].iter().any(|errno| errno.raw_os_error() == code);
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error())
        .any(is_lack)
}

fn silence(place: &str, patience: Duration) -> TransportError {
    TransportError::new(Failure::Timeout, format!("{place} sent nothing for {} ms", patience.as_millis()))
}

fn transport(place: &str, what: &str, error: reqwest::Error) -> TransportError {
    let failure = if error.is_timeout() {
        Failure::Timeout
    } else if error.is_builder() {
        Failure::BadRequest
    } else {
        Failure::Network
    };
    // The innermost cause is the one a person can act on ("connection refused").
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    TransportError::new(failure, format!("{what} {place}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_descriptors_is_told_from_a_peer_that_is_not_there() {
        let failed = |errno: rustix::io::Errno| {
            let below = std::io::Error::from_raw_os_error(errno.raw_os_error());
            Error::unavailable("cannot connect").because(below)
        };
        assert!(lacks_descriptors(&failed(rustix::io::Errno::MFILE)));
        assert!(!lacks_descriptors(&failed(rustix::io::Errno::CONNREFUSED)));
        assert!(!lacks_descriptors(&Error::internal("nothing below")));
    }

    #[test]
    fn a_place_has_no_query_and_no_user() {
        let url: Url = "https://me:secret@example.org:8443/v1/chat?key=secret#x".parse().unwrap();
        assert_eq!(place_of(&url), "example.org:8443/v1/chat");
    }

    #[test]
    fn a_client_shows_its_patience_alone() {
        let client = HttpClient::new().unwrap().idle_timeout(Duration::from_secs(7));
        assert_eq!(format!("{client:?}"), "Client { idle: 7s, .. }");
    }
}
