//! Requests to stores and pointers that speak plain HTTP: bounded in time and size, no redirects.

use std::time::Duration;

use herm_http::install_crypto;
use reqwest::{Method, Url, redirect};

use crate::error::{Error, Result};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A whole exchange; a publisher may take a while to certify.
const WITHIN: Duration = Duration::from_secs(120);

/// An HTTP client. Clones share its connections.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: reqwest::Client,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The beginning of what it said, for messages.
    pub(super) fn said(&self) -> String {
        crate::text::line(&String::from_utf8_lossy(&self.body), 200)
    }
}

impl Http {
    pub(super) fn new() -> Result<Self> {
        install_crypto();
        let builder = || {
            reqwest::Client::builder()
                .redirect(redirect::Policy::none())
                .connect_timeout(CONNECT_WITHIN)
                .timeout(WITHIN)
                .no_proxy()
        };
        // A machine without certificates still reaches a server on loopback.
        let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
        let client = client.map_err(|error| Error::unavailable("cannot set up the HTTP client").because(error))?;
        Ok(Self { client })
    }

    /// Sends a request and reads at most `max` bytes of the answer.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<(&'static str, Vec<u8>)>,
        max: u64,
    ) -> Result<Answer> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let unreachable = |error: reqwest::Error| {
            // The address may hold a key: the host is enough.
            Error::unavailable(format!("{host} does not answer: {}", error.without_url())).hint("try again later")
        };
        let mut request = self.client.request(method, url);
        if let Some((kind, body)) = body {
            request = request.header(reqwest::header::CONTENT_TYPE, kind).body(body);
        }
        let mut response = request.send().await.map_err(unreachable)?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unreachable)? {
            if (body.len() + piece.len()) as u64 > max {
                return Err(Error::corrupt(format!("{host} answers with more than {max} bytes"))
                    .hint("see that the address is the right one"));
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer { status, body })
    }
}

/// An address of a service, as the operator wrote it.
pub(super) fn address(text: &str) -> Result<Url> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    url.ok_or_else(|| {
        Error::invalid(format!("{:?} is not an http address", crate::text::line(text, 120)))
            .hint("write it like https://publisher.example")
    })
}
