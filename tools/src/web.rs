//! Requests of tools: to public addresses, with a bounded answer, and without redirects of their own.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use herm::{Error, Result};
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url};

use crate::net;

/// How much of a body is read.
pub(crate) const MAX_BODY: usize = 256 * 1024;
/// How long a call may take, with all its hops.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
}

/// What one host answered; `location` says where a redirect leads.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// The media type in lower case, without parameters; empty where there is none.
    pub(crate) media_type: String,
    /// Where to look instead.
    pub(crate) location: Option<String>,
    /// The body is not all there is.
    pub(crate) cut: bool,
    latin: bool,
    compressed: bool,
    body: Vec<u8>,
}

/// The client of the network tools: it reaches public hosts, and those that the operator allows.
#[derive(Debug, Default)]
pub(crate) struct Web {
    /// Hosts that are reached wherever they are.
    allowed: Arc<BTreeSet<String>>,
    /// Built with the first request: it reads the machine's certificates.
    client: Arc<OnceLock<Result<Client, String>>>,
}

impl Web {
    /// Also reaches these hosts, by name or address, wherever they are.
    pub(crate) fn allowing(hosts: &[&str]) -> Self {
        let allowed = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { allowed: Arc::new(allowed), client: Arc::default() }
    }

    /// Whether a host is on the list.
    pub(crate) fn is_allowed(&self, url: &Url) -> bool {
        self.allowed.contains(net::host(url))
    }

    /// Sends a request. Whatever goes wrong, the error says nothing of the URL.
    pub(crate) async fn send(&self, request: Request) -> Result<Reply> {
        net::check_url(&request.url)?;
        net::check_literal(&request.url, &self.allowed)?;
        let client = self.client().await?;
        let mut sending = client.request(request.method, request.url).headers(request.headers);
        if let Some(body) = request.body {
            sending = sending.body(body);
        }
        read(sending.send().await.map_err(failure)?).await
    }

    async fn client(&self) -> Result<Client> {
        let (slot, allowed) = (Arc::clone(&self.client), Arc::clone(&self.allowed));
        let built = tokio::task::spawn_blocking(move || slot.get_or_init(|| build(allowed)).clone()).await;
        match built {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(reason)) => Err(Error::unavailable(format!("the HTTP client cannot start: {reason}"))
                .hint("the operator must look at the machine's certificates")),
            Err(_) => Err(Error::internal("the HTTP client did not start")),
        }
    }
}

fn build(allowed: Arc<BTreeSet<String>>) -> Result<Client, String> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Where another thread was faster, its provider is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    Client::builder()
        .dns_resolver(Arc::new(PublicResolver { allowed }))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // A proxy would resolve the name itself, and reach what it can.
        .no_proxy()
        .pool_max_idle_per_host(0)
        .user_agent(concat!("herm/", env!("CARGO_PKG_VERSION")))
        .timeout(PATIENCE)
        .build()
        .map_err(|error| error.to_string())
}

/// Resolves names for the connection that follows, so that nothing can change in between: an address that was
/// judged is the one that is dialled.
#[derive(Debug)]
struct PublicResolver {
    allowed: Arc<BTreeSet<String>>,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_ascii_lowercase();
        let is_allowed = self.allowed.contains(&host);
        Box::pin(async move {
            // Port 0 stands for the URL's own.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            // One address that is not public is enough: which one is dialled is chance.
            if !is_allowed && found.iter().any(|address| !net::is_public(address.ip())) {
                return Err(net::not_public().into());
            }
            Ok(Box::new(found.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

/// What a failed request means, in words that hold nothing of its URL.
fn failure(error: reqwest::Error) -> Error {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(ours) = inner.downcast_ref::<Error>() {
            let told = Error::new(ours.kind(), ours.message());
            return match ours.hint_text() {
                Some(hint) => told.hint(hint),
                None => told,
            };
        }
        cause = inner.source();
    }
    if error.is_timeout() {
        slow()
    } else if error.is_connect() {
        Error::unavailable("the host cannot be reached").hint("check the host's name, or use another source")
    } else {
        Error::unavailable("the host did not answer as HTTP wants it").hint("try again later, or use another source")
    }
}

/// The error of a host that takes too long.
pub(crate) fn slow() -> Error {
    Error::unavailable(format!("the host took longer than {} seconds", PATIENCE.as_secs()))
        .hint("try again later, or use another source")
}

async fn read(mut response: Response) -> Result<Reply> {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = header(CONTENT_TYPE).to_ascii_lowercase();
    let compressed = !matches!(header(CONTENT_ENCODING), "" | "identity");
    let location = Some(header(LOCATION)).filter(|place| !place.is_empty()).map(str::to_owned);
    let status = response.status();
    let mut body = Vec::new();
    let mut cut = false;
    while !cut && let Some(chunk) = response.chunk().await.map_err(failure)? {
        let room = MAX_BODY - body.len();
        cut = chunk.len() > room;
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
    }
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_owned();
    let latin = content_type.contains("charset=iso-8859-1") || content_type.contains("charset=windows-1252");
    Ok(Reply { status, media_type, location, cut, latin, compressed, body })
}

impl Reply {
    /// Whether the body is a web page.
    pub(crate) fn is_html(&self) -> bool {
        matches!(self.media_type.as_str(), "text/html" | "application/xhtml+xml")
    }

    /// The body as text; what is not text is refused.
    pub(crate) fn into_text(self) -> Result<String> {
        let kind = self.media_type.as_str();
        let named_text = kind.is_empty()
            || kind.starts_with("text/")
            || kind.ends_with("json")
            || kind.ends_with("xml")
            || kind.ends_with("yaml")
            || kind.contains("javascript")
            || kind == "application/x-www-form-urlencoded";
        if !named_text || self.compressed || self.body.contains(&0) {
            return Err(not_text(kind));
        }
        if self.latin {
            return Ok(self.body.iter().map(|byte| char::from(*byte)).collect());
        }
        match String::from_utf8(self.body) {
            Ok(text) => Ok(text),
            Err(error) => {
                let broken = error.utf8_error();
                // A body that was cut may end within a character; and a stray byte is not a reason to refuse a page.
                let text = String::from_utf8_lossy(error.as_bytes());
                let strays = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
                if self.cut && broken.error_len().is_none() {
                    return Ok(text.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned());
                }
                if strays * 100 > text.len() { Err(not_text(&self.media_type)) } else { Ok(text.into_owned()) }
            }
        }
    }
}

fn not_text(media_type: &str) -> Error {
    let kind = if media_type.is_empty() { "of no named type" } else { media_type };
    Error::refused(format!("the answer is not text ({})", herm::text::line(kind, 60)))
        .hint("only text, HTML, JSON and XML are read; use another source")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(media_type: &str, body: &[u8], cut: bool) -> Reply {
        Reply {
            status: StatusCode::OK,
            media_type: media_type.into(),
            location: None,
            cut,
            latin: false,
            compressed: false,
            body: body.to_vec(),
        }
    }

    #[test]
    fn only_text_is_text() {
        assert_eq!(reply("text/plain", "grün".as_bytes(), false).into_text().unwrap(), "grün");
        assert_eq!(reply("application/ld+json", b"{}", false).into_text().unwrap(), "{}");
        assert_eq!(reply("text/plain", b"gr\xc3", true).into_text().unwrap(), "gr");
        assert_eq!(Reply { latin: true, ..reply("text/html", b"gr\xfcn", false) }.into_text().unwrap(), "grün");
        for (kind, body) in [("image/png", "x"), ("application/octet-stream", "x"), ("text/plain", "a\0b")] {
            assert!(reply(kind, body.as_bytes(), false).into_text().is_err(), "{kind}");
        }
        assert!(reply("text/plain", b"\xff\xfe\xfd\xfc", false).into_text().is_err());
        assert!(Reply { compressed: true, ..reply("text/plain", b"x", false) }.into_text().is_err());
    }
}
