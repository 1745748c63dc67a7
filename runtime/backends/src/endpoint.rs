//! One address with its key: what goes out to it, and what may be said about it.
//!
//! The key is shown nowhere. It is put into headers that are marked sensitive, and every message
//! leaves through [`Endpoint::told`], which takes it out again where a server has echoed it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::classify::{Fault, class_of, retry_after};
use super::{BackendError, ErrorClass, Role, backend_error};
use crate::error::{Error, Result};
use herm_http::{HttpClient, Incoming, place_of};

/// The most bytes of an error's body that are read, and how long it may take.
const ERROR_BODY: usize = 64 * 1024;
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// The most characters of a message.
const MESSAGE: usize = 400;

/// Header values shorter than this are names and versions rather than keys.
const SHORTEST_HEADER_KEY: usize = 8;

/// A message, as both formats have it.
#[derive(Debug, Serialize)]
pub(super) struct WireMessage<'a> {
    role: &'static str,
    content: Cow<'a, str>,
}

impl<'a> WireMessage<'a> {
    pub(super) fn new(role: Role, content: impl Into<Cow<'a, str>>) -> Self {
        Self { role: role.name(), content: content.into() }
    }
}

/// Where to post, and with which headers.
pub(super) struct Endpoint {
    client: HttpClient,
    url: Url,
    headers: Vec<(HeaderName, SecretString)>,
    secrets: Vec<SecretString>,
}

impl Endpoint {
    /// The endpoint at `path` below `base`. A query of `base` is kept: some gateways want one.
    pub(super) fn new(client: HttpClient, base: &str, path: &str) -> Result<Self> {
        let wrong = |why: String| {
            Error::invalid(format!("the base URL of a backend {why}")).hint("write it like https://api.example.org/v1")
        };
        // The URL itself is not repeated: it may hold a password.
        let mut url: Url = base.trim().parse().map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("begins with {}:, not with http: or https:", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("has a user or a password in it; use the key instead".into()));
        }
        let joined = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        url.set_fragment(None);
        Ok(Self { client, url, headers: Vec::new(), secrets: Vec::new() })
    }

    /// Adds the key, as the value of `header` after `prefix`.
    pub(super) fn key(mut self, header: &str, prefix: &str, key: Option<&SecretString>) -> Result<Self> {
        // Keys come out of files, with a line end.
        let Some(key) = key.map(|key| key.expose_secret().trim()).filter(|key| !key.is_empty()) else {
            return Ok(self);
        };
        self.secrets.push(key.into());
        self.header(header, &format!("{prefix}{key}"))
    }

    /// Adds headers that the operator configured. Their values may be keys, so they are kept like keys.
    pub(super) fn extra(mut self, headers: &[(String, String)]) -> Result<Self> {
        for (name, value) in headers {
            if value.len() >= SHORTEST_HEADER_KEY {
                self.secrets.push(value.as_str().into());
            }
            self = self.header(name, value)?;
        }
        Ok(self)
    }

    /// Adds a header; a later one of the same name wins.
    pub(super) fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid(format!("the header {name:?} of a backend has {what}"));
        let parsed: HeaderName = name.parse().map_err(|_| wrong("a name that HTTP does not allow"))?;
        sensitive(value).ok_or_else(|| wrong("a value that HTTP does not allow"))?;
        self.headers.push((parsed, value.into()));
        Ok(self)
    }

    /// Posts `body` and returns the response, if it is a good one.
    pub(super) async fn post(&self, body: Vec<u8>) -> Result<Incoming, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            // Values were checked when they were added.
            if let Some(value) = sensitive(value.expose_secret()) {
                headers.insert(name, value);
            }
        }
        let mut incoming = self.client.post(&self.url, headers, body).await.map_err(backend_error)?;
        let status = incoming.status();
        if (200..300).contains(&status) {
            return Ok(incoming);
        }
        let wait = retry_after(|name| incoming.header(name));
        let gist = incoming.gist(ERROR_BODY, ERROR_PATIENCE).await;
        let fault = Fault::in_failure(&String::from_utf8_lossy(&gist));
        let said = match status {
            300..400 => "(a redirect, which is not followed: check the base URL)",
            _ if fault.message.is_empty() => "(without a word)",
            _ => &fault.message,
        };
        let message = format!("{} answered {status}: {said}", incoming.place());
        let error = BackendError { class: class_of(status, &fault), message, retry_after: wait };
        Err(Refusal { error, fault: Some(fault) })
    }

    /// `error` as it may be told: one short line without any key.
    pub(super) fn told(&self, mut error: BackendError) -> BackendError {
        let mut message = error.message;
        for secret in self.secrets.iter().map(ExposeSecret::expose_secret) {
            message = message.replace(secret, "[key]");
            // A body that was read up to a cap may end in the middle of a key.
            let starts = secret.char_indices().map(|(at, _)| &secret[..at]).filter(|start| start.len() >= 4);
            if let Some(start) = starts.rev().find(|start| message.ends_with(*start)) {
                message.truncate(message.len() - start.len());
            }
        }
        error.message = one_line(&message);
        error
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint").field("place", &place_of(&self.url)).field("headers", &names).finish()
    }
}

/// A failed post: the error, and what the endpoint said where it said something.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: BackendError,
    fault: Option<Fault>,
}

impl Refusal {
    /// Whether the endpoint did not understand the request and has one of `wordings` in its answer.
    pub(super) fn complains_of(&self, wordings: &[&str]) -> bool {
        // llama.cpp has answered 500 to a schema that it cannot use.
        matches!(self.error.class, ErrorClass::BadRequest | ErrorClass::Server)
            && self.fault.as_ref().is_some_and(|fault| fault.mentions(wordings))
    }
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        Self { error, fault: None }
    }
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// At most [`MESSAGE`] characters on one line, without anything that steers a terminal.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let gap = (!line.is_empty()).then_some(' ');
        for c in gap.into_iter().chain(word.chars().filter(|c| !steers(*c))) {
            if length == MESSAGE {
                line.pop();
                line.push('…');
                return line;
            }
            line.push(c);
            length += 1;
        }
    }
    line
}

/// Characters that reorder or hide the text around them.
fn steers(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base: &str) -> Result<Endpoint> {
        Endpoint::new(HttpClient::new()?, base, "/chat/completions")
    }

    #[test]
    fn the_path_goes_between_the_base_and_its_query() {
        for (base, url) in [
            ("https://a.example/v1", "https://a.example/v1/chat/completions"),
            ("https://a.example/v1/", "https://a.example/v1/chat/completions"),
            ("http://localhost:8080", "http://localhost:8080/chat/completions"),
            (" https://a.example/v1?api-version=2#x\n", "https://a.example/v1/chat/completions?api-version=2"),
        ] {
            assert_eq!(endpoint(base).unwrap().url.as_str(), url);
        }
    }

    #[test]
    fn a_base_url_that_cannot_work_is_refused_without_repeating_it() {
        for base in ["", "localhost:8080", "ftp://a.example", "https://me:hunter2@a.example/v1", "//x"] {
            let error = endpoint(base).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::InvalidInput, "{base}");
            assert!(!format!("{error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_header_that_http_does_not_allow_is_refused_without_its_value() {
        let error =
            endpoint("http://x").unwrap().key("authorization", "Bearer ", Some(&"se\ncret".into())).unwrap_err();
        assert_eq!(error.message(), "the header \"authorization\" of a backend has a value that HTTP does not allow");
        assert!(endpoint("http://x").unwrap().header("a b", "c").is_err());
    }

    #[test]
    fn keys_are_taken_out_before_a_message_is_cut() {
        let key: SecretString = "sk-0123456789".into();
        let endpoint = endpoint("http://x").unwrap().key("authorization", "Bearer ", Some(&key)).unwrap();
        let told = |message: &str| endpoint.told(BackendError::new(ErrorClass::Auth, message)).message;
        assert_eq!(told("bad key sk-0123456789, or sk-0123456789"), "bad key [key], or [key]");
        for before in 370..410 {
            let message = told(&format!("{}sk-0123456789 and more and more", "x".repeat(before)));
            assert!(!message.contains("sk-"), "{message}");
            assert!(message.chars().count() <= MESSAGE);
        }
    }

    #[test]
    fn a_key_that_a_cap_has_cut_in_two_is_taken_out_too() {
        let key: SecretString = "sk-0123456789".into();
        let endpoint = endpoint("http://x").unwrap().key("authorization", "Bearer ", Some(&key)).unwrap();
        let told = |message: &str| endpoint.told(BackendError::new(ErrorClass::Auth, message)).message;
        assert_eq!(told("bad key sk-01234567"), "bad key");
        assert_eq!(told("a desk-"), "a desk-");
    }

    #[test]
    fn a_message_is_one_line_without_controls() {
        assert_eq!(one_line(" a\r\n\tb\u{1b}[31m \u{202e}c\u{0}\n"), "a b [31m c");
        assert_eq!(one_line(&"é".repeat(500)), format!("{}…", "é".repeat(399)));
        assert_eq!(one_line(&"é".repeat(400)), "é".repeat(400));
    }
}
