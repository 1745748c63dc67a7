//! `http_secret`: a request with one of the operator's secrets, which the model never sees.

use async_trait::async_trait;
use herm::tool::{Permission, Secrets, Tool, ToolContext, ToolOutput, ToolPurpose, ToolSpec};
use herm::{Error, Result};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use schemars::JsonSchema;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::redaction::{self, Redaction};
use crate::web::{self, Request, Web};
use crate::{arguments, net};

const SHOWN_CHARS: usize = 12_000;
/// Headers that steer the connection; a secret has no place in them.
const STEERING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-type",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum Verb {
    #[serde(rename = "GET")]
    Get,
    #[serde(rename = "POST")]
    Post,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The secret's name.
    #[schemars(length(min = 1, max = 200))]
    secret: String,
    /// The URL to ask, with the secret in a header. Give this or `path`.
    #[schemars(length(max = 2048))]
    url: Option<String>,
    /// Where the secret is a base URL: the path below it, with its query. Give this or `url`.
    #[schemars(length(max = 2048))]
    path: Option<String>,
    /// The header that carries the secret; Authorization unless said.
    #[schemars(length(max = 100))]
    header: Option<String>,
    /// GET unless said.
    method: Option<Verb>,
    /// The body of a POST.
    #[schemars(length(max = 100000))]
    body: Option<String>,
}

/// Sends requests with a secret.
#[derive(Debug)]
pub struct HttpSecret {
    card: ToolSpec,
    web: Web,
}

impl Default for HttpSecret {
    fn default() -> Self {
        Self::over(Web::default())
    }
}

impl HttpSecret {
    /// Also reaches these hosts, by name or address, although they are not public, and without TLS. For tests, and
    /// for operators who know what those hosts tell.
    pub fn allowing(hosts: &[&str]) -> Self {
        Self::over(Web::allowing(hosts))
    }

    fn over(web: Web) -> Self {
        let description = "Calls an API with a secret that the operator named. The secret goes into a header of a \
                           request to `url`, or is itself the base URL that `path` is joined to. It is never shown.";
        Self {
            card: ToolSpec::new("http_secret", description, Permission::Network, arguments::schema::<Args>())
                .for_purpose(ToolPurpose::ReachesOut),
            web,
        }
    }

    async fn run(&self, args: &Args, secret: &str, redaction: &Redaction) -> Result<ToolOutput> {
        let request = request(args, secret)?;
        // Only an allowed host may be asked in the clear.
        if request.url.scheme() != "https" && !self.web.is_allowed(&request.url) {
            return Err(Error::refused("a secret is sent over https only").hint("use an https URL"));
        }
        let reply =
            tokio::time::timeout(web::PATIENCE, self.web.send(request)).await.unwrap_or_else(|_| Err(web::slow()))?;
        let (status, cut, kind) = (reply.status, reply.cut, reply.media_type.clone());
        let whole = reply.into_text()?;
        let body = if cut { redaction.clean_cut(&whole) } else { redaction.clean(&whole) };
        let mut text = format!("HTTP {status}\n");
        if status.is_redirection() {
            text.push_str("[the host redirects; requests with a secret do not follow]\n");
        }
        text.push_str(&format!("\n{}", herm::text::cut(body.clone(), SHOWN_CHARS)));
        if cut {
            text.push_str(&format!("\n[only the first {} KiB were read]", web::MAX_BODY / 1024));
        }
        let summary =
            format!("HTTP {}, {}, {} characters", status.as_u16(), herm::text::line(&kind, 40), body.chars().count());
        Ok(ToolOutput::new(text, summary))
    }
}

#[async_trait]
impl Tool for HttpSecret {
    fn spec(&self) -> &ToolSpec {
        &self.card
    }

    async fn call(&self, args: Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput> {
        let args: Args = arguments::read(args)?;
        let secret = find(cx.secrets(), args.secret.trim())?.expose_secret().trim();
        if secret.len() < redaction::SHORTEST {
            return Err(Error::refused(format!(
                "the secret {:?} is too short to be kept out of texts",
                args.secret.trim()
            ))
            .hint("the operator must configure a longer one"));
        }
        if let (Some(url), None) = (arguments::given(args.url.as_ref()), arguments::given(args.path.as_ref())) {
            let url = net::parse_url(url)?;
            // A model can be talked into sending a key anywhere: only the operator says where it goes.
            if !cx.secrets().may_go_to(args.secret.trim(), net::host(&url)) {
                return Err(Error::refused(format!(
                    "the secret {:?} may not be sent to {}",
                    args.secret.trim(),
                    herm::text::line(net::host(&url), 80)
                ))
                .hint("only the operator names the hosts of a secret; use another way"));
            }
        }
        let parts = parts(secret);
        let redaction = Redaction::new(args.secret.trim(), parts.iter().map(String::as_str));
        // Whatever is said, it is said without the secret.
        match self.run(&args, secret, &redaction).await {
            Ok(output) => Ok(ToolOutput::new(redaction.clean(&output.text), redaction.clean(&output.summary))),
            Err(error) => {
                let clean = Error::new(error.kind(), redaction.clean(error.message()));
                Err(match error.hint_text() {
                    Some(hint) => clean.hint(redaction.clean(hint)),
                    None => clean,
                })
            }
        }
    }
}

fn find<'s>(secrets: &'s Secrets, name: &str) -> Result<&'s SecretString> {
    secrets.get(name).ok_or_else(|| {
        let names: Vec<&str> = secrets.names().collect();
        let hint = if names.is_empty() {
            "the operator has configured no secrets; go on without".to_owned()
        } else {
            format!("there are: {}", names.join(", "))
        };
        Error::not_found(format!("there is no secret {:?}", herm::text::line(name, 80))).hint(hint)
    })
}

/// The secret and what of it is as good as the secret: the credential behind a scheme, and the parts of a URL.
fn parts(secret: &str) -> Vec<String> {
    let mut parts = vec![secret.to_owned()];
    if let Some((_, credential)) = scheme(secret) {
        parts.push(credential.to_owned());
    }
    if let Ok(url) = Url::parse(secret)
        && url.has_host()
    {
        parts.push(url.as_str().to_owned());
        parts.push(net::host(&url).to_owned());
        parts.push(url.path().trim_end_matches('/').to_owned());
        parts.extend(url.path_segments().into_iter().flatten().map(str::to_owned));
        parts.extend(url.query().map(str::to_owned));
        parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    }
    parts
}

/// `Bearer abc` as a scheme and a credential.
fn scheme(secret: &str) -> Option<(&str, &str)> {
    let (scheme, credential) = secret.split_once(' ')?;
    let named = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    (named && !credential.trim().is_empty()).then(|| (scheme, credential.trim()))
}

fn request(args: &Args, secret: &str) -> Result<Request> {
    let method = match args.method.unwrap_or(Verb::Get) {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
    };
    let mut headers = HeaderMap::new();
    let url = match (arguments::given(args.url.as_ref()), arguments::given(args.path.as_ref())) {
        (Some(url), None) => {
            let (name, value) = header(arguments::given(args.header.as_ref()), secret)?;
            headers.insert(name, value);
            net::parse_url(url)?
        }
        (None, Some(path)) => below(secret, path)?,
        (Some(_), Some(_)) => {
            return Err(Error::invalid("`url` and `path` do not go together")
                .hint("give `url` where the secret is a key, `path` where it is a base URL"));
        }
        (None, None) => {
            return Err(Error::invalid("`url` or `path` is missing")
                .hint("give `url` where the secret is a key, `path` where it is a base URL"));
        }
    };
    let body = args.body.clone().filter(|body| !body.is_empty());
    if let Some(body) = &body {
        if method != Method::POST {
            return Err(Error::invalid("only a POST has a `body`").hint("give method POST, or leave `body` out"));
        }
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    Ok(Request { method, url, headers, body })
}

fn header(name: Option<&str>, secret: &str) -> Result<(HeaderName, HeaderValue)> {
    let name = match name {
        None => AUTHORIZATION,
        Some(name) => HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            Error::invalid(format!("{:?} is not a header's name", herm::text::line(name, 80)))
                .hint("for example X-Api-Key")
        })?,
    };
    if STEERING.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
        return Err(Error::refused(format!("the header {name} carries no secret")).hint("for example X-Api-Key"));
    }
    let text =
        if name == AUTHORIZATION && scheme(secret).is_none() { format!("Bearer {secret}") } else { secret.to_owned() };
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        Error::invalid("that secret cannot stand in a header")
            .hint("where it is a base URL, give `path` instead of `url`")
    })?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// A URL below a base. The host, the port and the base's own path cannot be left.
fn below(base: &str, path: &str) -> Result<Url> {
    let base = Url::parse(base).ok().filter(|url| net::check_url(url).is_ok()).ok_or_else(|| {
        Error::invalid("that secret is not a base URL").hint("give the whole `url`; the secret goes into a header")
    })?;
    let refused = || {
        Error::refused("that path leaves the base URL").hint("give a plain path such as v1/items?limit=5, without ..")
    };
    if path.contains(['\\', '#']) || path.chars().any(char::is_control) || path.starts_with("//") {
        return Err(refused());
    }
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    // Before any reader decodes it: `..` however it is written.
    let is_up = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), ".." | ".");
    if path.contains("://") || path.to_ascii_lowercase().contains("%2f") || path.split('/').any(is_up) {
        return Err(refused());
    }
    let root = format!("{}/", base.path().trim_end_matches('/'));
    let mut url = base.clone();
    url.set_path(&format!("{root}{}", path.trim_start_matches('/')));
    match (base.query(), query) {
        (Some(own), Some(more)) => url.set_query(Some(&format!("{own}&{more}"))),
        (None, Some(more)) => url.set_query(Some(more)),
        (_, None) => {}
    }
    let same_place = url.origin() == base.origin() && url.path().starts_with(&root);
    if same_place { Ok(url) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_base() {
        let base = "https://rpc.example/v2/KEY?net=main";
        let url = |path| below(base, path).map(|url| url.to_string());
        assert_eq!(url("items").unwrap(), "https://rpc.example/v2/KEY/items?net=main");
        assert_eq!(url("/items/1?a=b").unwrap(), "https://rpc.example/v2/KEY/items/1?net=main&a=b");
        assert_eq!(url("@evil.example/").unwrap(), "https://rpc.example/v2/KEY/@evil.example/?net=main");
        assert_eq!(url(":80/x").unwrap(), "https://rpc.example/v2/KEY/:80/x?net=main");
        for path in [
            "../x",
            "a/../../x",
            "a/..",
            "%2e%2e/x",
            "%2E./x",
            "..%2fx",
            "//evil.example/x",
            "https://evil.example/",
            "a\\..\\x",
            "\\\\evil.example",
            "x#y",
            "a\nb",
            ".",
        ] {
            assert!(url(path).is_err(), "{path:?} became {:?}", url(path));
        }
        assert!(below("not a url", "x").is_err() && below("ftp://a/", "x").is_err());
        assert!(below("https://user:pass@a/", "x").is_err());
    }

    #[test]
    fn a_header_carries_the_secret_as_its_kind_wants_it() {
        let sent =
            |name, secret| header(name, secret).map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        assert_eq!(sent(None, "abcdef").unwrap(), "authorization: Bearer abcdef");
        assert_eq!(sent(None, "Basic abcdef").unwrap(), "authorization: Basic abcdef");
        assert_eq!(sent(Some("X-Api-Key"), "abcdef").unwrap(), "x-api-key: abcdef");
        for bad in ["Host", "Content-Length", "proxy-authorization", "a b", "x\r\ny"] {
            assert!(sent(Some(bad), "abcdef").is_err(), "{bad:?}");
        }
        assert!(sent(None, "abc\ndef").is_err());
    }

    #[test]
    fn the_parts_of_a_base_url_are_as_secret_as_the_whole() {
        let redaction = Redaction::new(
            "rpc",
            parts("https://abc123.node.example/v2/KEY-KEY?token=tok-tok").iter().map(String::as_str),
        );
        let clean = redaction.clean("Cannot GET /v2/KEY-KEY/x?token=tok-tok on abc123.node.example");
        assert!(!clean.contains("KEY") && !clean.contains("tok-") && !clean.contains("abc123"), "{clean}");
    }
}
