//! Who calls, and what they may do.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, Version};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota};
use herm::memory::SearchScope;
use herm::{BrainId, Digest, SubscriberId};

use super::app::App;
use super::live::TaskResult;
use super::problem::{HandlerResult, OPERATES, Problem};
use super::task_queue::Share;
use super::view::TaskView;
use crate::server_db::keys::{Key, Operation, Shown};

/// Who calls: the holder of a key, or, where no key exists, anyone who reaches the loopback.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    key: Option<Arc<Key>>,
}

impl Caller {
    /// The operator's own process.
    pub(crate) fn operator() -> Self {
        Self { key: None }
    }

    /// Notes for the rest of the request whether its sender operates the server.
    fn noted(self) -> Self {
        // Outside of a request nobody is answered.
        let _ = OPERATES.try_with(|operates| operates.store(self.is_operator(), Ordering::Relaxed));
        self
    }

    /// A task as this caller may see it.
    pub(crate) fn redact_view(&self, view: TaskView) -> TaskView {
        if self.is_operator() { view } else { view.for_subscriber() }
    }

    /// A problem as this caller may hear of it.
    pub(crate) fn redact_problem(&self, problem: Problem) -> Problem {
        if self.is_operator() { problem } else { problem.for_subscriber() }
    }

    /// An end as this caller may hear of it.
    pub(crate) fn redact_end(&self, ended: &TaskResult) -> TaskResult {
        let problem = ended.problem.clone().map(|problem| self.redact_problem(problem));
        TaskResult { view: self.redact_view(ended.view.clone()), problem }
    }

    /// How many of the waiting places its tasks may take.
    pub(crate) fn share(&self) -> Share {
        if self.key.is_some() { Share::Fair } else { Share::All }
    }

    /// The key, where there is one.
    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_deref()
    }

    /// Refuses what the key does not allow.
    pub(crate) fn needs(&self, operation: Operation) -> HandlerResult<()> {
        if self.may(operation) {
            return Ok(());
        }
        let name = operation.name();
        Err(Problem::new(StatusCode::FORBIDDEN, "refused", format!("this key may not {name}"))
            .hint(format!("ask the operator for a key with the operation {name:?}")))
    }

    /// Whether it may do something.
    pub(crate) fn may(&self, operation: Operation) -> bool {
        self.key.as_ref().is_none_or(|key| key.may(operation))
    }

    /// Whether it sees what belongs to others.
    pub(crate) fn is_operator(&self) -> bool {
        self.may(Operation::Operate)
    }

    /// An agent's number that this caller may know of. One that is not theirs is not there.
    pub(crate) fn agent(&self, text: &str) -> HandlerResult<BrainId> {
        let id: BrainId = text.parse()?;
        if self.sees(&id) { Ok(id) } else { Err(no_agent(&id)) }
    }

    /// Whether it may know of an agent.
    pub(crate) fn sees(&self, id: &BrainId) -> bool {
        self.key.as_ref().and_then(|key| key.agents.as_ref()).is_none_or(|agents| agents.contains(id))
    }

    /// In whose name its tasks run.
    pub(crate) fn subscriber(&self) -> Option<&SubscriberId> {
        self.key.as_ref()?.subscriber.as_ref()
    }

    /// The subscriber as brains know them.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.subscriber().map(SubscriberId::digest)
    }

    /// Whose its tasks are: its subscriber's, or the key's own.
    pub(crate) fn owner(&self) -> String {
        match (&self.key, self.digest()) {
            (_, Some(digest)) => digest.to_string(),
            (Some(key), None) => format!("key:{}", key.id),
            (None, None) => "operator".to_owned(),
        }
    }

    /// Whether a task is one that this caller may know of.
    pub(crate) fn owns(&self, owner: &str) -> bool {
        self.is_operator() || self.owner() == owner
    }

    /// Which rows of a memory it may see.
    pub(crate) fn scope(&self) -> SearchScope {
        match self.digest() {
            _ if self.is_operator() => SearchScope::Operator,
            Some(digest) => SearchScope::Subscriber(digest),
            None => SearchScope::Shared,
        }
    }
}

/// There is no such agent here, as far as the caller may know.
pub(crate) fn no_agent(id: &BrainId) -> Problem {
    Problem::not_found(format!("there is no agent {id} here")).hint("see the agents with `GET /v1/agents`")
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> HandlerResult<Self> {
        let shown = match parts.headers.get(AUTHORIZATION) {
            None => None,
            Some(value) => Some(
                bearer(value.as_bytes())
                    .ok_or_else(|| Problem::unauthenticated("the Authorization header is not a bearer token"))?,
            ),
        };
        if app.is_keyless()? {
            // Clients of other protocols send a key whether or not there are any; one of ours is a mistake worth telling.
            return match shown.and_then(Shown::parse) {
                None => Ok(Self::operator().noted()),
                Some(_) => Err(Problem::unauthenticated("there are no keys here, so this one is not known")),
            };
        }
        let Some(text) = shown else { return Err(Problem::unauthenticated("this needs a key")) };
        let known = match Shown::parse(text) {
            Some(shown) => app.keyring.opened_by(&app.db, &shown, app.clock.now())?,
            None => None,
        };
        let key = known.ok_or_else(|| Problem::unauthenticated("this key is not known, was revoked, or has ended"))?;
        app.rates.check(&key)?;
        Ok(Self { key: Some(key) }.noted())
    }
}

fn bearer(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What a request must not have more than one of: which of two hosts is meant, each reader decides in its own way.
pub(crate) fn check_host(headers: &HeaderMap) -> HandlerResult<()> {
    match headers.get_all(HOST).iter().count() {
        0 | 1 => Ok(()),
        several => Err(Problem::invalid(format!("the request has {several} Host headers")).hint("send one")),
    }
}

/// What proxies, load balancers and content networks add: whole names, and how names begin.
const FORWARDED: [&str; 16] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-real-host",
    "x-client-ip",
    "client-ip",
    "true-client-ip",
    "x-cluster-client-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-host",
    "x-scheme",
    "cdn-loop",
    "max-forwards",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
];
const FORWARDED_FROM: [&str; 13] = [
    "x-forwarded",
    "x-original-",
    "x-proxy",
    "proxy-",
    "x-envoy-",
    "x-azure-",
    "x-appengine-",
    "x-arr-",
    "x-akamai-",
    "x-vercel-",
    "cf-",
    "fly-",
    "fastly-",
];

fn is_forwarded(headers: &HeaderMap) -> bool {
    // Names are in lower case already.
    let added = |name: &str| FORWARDED.contains(&name) || FORWARDED_FROM.iter().any(|start| name.starts_with(start));
    headers.keys().any(|name| added(name.as_str()))
}

/// Without keys, only this machine may ask, and no page of another site may ask through a browser that runs on it.
pub(crate) fn check_local(version: Version, headers: &HeaderMap, uri: &Uri) -> HandlerResult<()> {
    let refused = |what: &str| {
        Problem::new(StatusCode::FORBIDDEN, "refused", format!("{what}, and there are no keys here"))
            .hint("use http://127.0.0.1 or http://localhost without a proxy, or make a key with `herm keys create`")
    };
    // Who comes through a proxy is not on this machine, whatever the proxy says the host is.
    if is_forwarded(headers) {
        return Err(refused("the request came through a proxy"));
    }
    // What a proxy speaks to the server behind it unless it is told otherwise; local clients have long spoken more.
    if version < Version::HTTP_11 {
        return Err(refused("the request is of HTTP/1.0, as a proxy sends it"));
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A request line may name a host of its own, which then counts.
    let named = uri.authority().map_or(host, axum::http::uri::Authority::as_str);
    if !is_loopback(host) || !is_loopback(named) {
        return Err(refused("the request names another host"));
    }
    if let Some(origin) = headers.get(ORIGIN) {
        let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        if own != Some(host) {
            return Err(refused("the request comes from a page of another origin"));
        }
    }
    Ok(())
}

/// Whether the `Host` of a request is a name of the loopback.
fn is_loopback(host: &str) -> bool {
    let is_port = |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // An address of version 6 stands in brackets, with or without a port behind it.
        Some((address, rest)) => match address.parse::<std::net::Ipv6Addr>() {
            Ok(ip) if ip.is_loopback() => {
                ("localhost", rest.strip_prefix(':').or(Some(rest).filter(|rest| !rest.is_empty())))
            }
            _ => return false,
        },
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    port.is_none_or(is_port)
        && (name.eq_ignore_ascii_case("localhost")
            || name.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()))
}

/// How often each key has called.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    by_key: Mutex<HashMap<String, (u32, Arc<DefaultDirectRateLimiter>)>>,
}

impl Rates {
    /// Counts a call; refuses one over the key's rate.
    pub(crate) fn check(&self, key: &Key) -> HandlerResult<()> {
        let limiter = {
            let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            match by_key.get(&key.id) {
                Some((rate, limiter)) if *rate == key.rate => Arc::clone(limiter),
                _ => {
                    let rate = NonZeroU32::new(key.rate).unwrap_or(NonZeroU32::MIN);
                    let limiter = Arc::new(DefaultDirectRateLimiter::direct(Quota::per_minute(rate)));
                    by_key.insert(key.id.clone(), (key.rate, Arc::clone(&limiter)));
                    limiter
                }
            }
        };
        limiter.check().map_err(|until| {
            let wait: Duration = until.wait_time_from(DefaultClock::default().now());
            Problem::too_many(format!("this key may call {} times a minute", key.rate), wait.as_secs() + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_loopback_are_local() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "127.9.9.9"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "127.0.0.1.example.com",
            "localhost.example.com:80",
            "10.0.0.1",
            "[::2]",
            "0.0.0.0",
            "[[::1]]",
            "[::1]x",
            "[::1]:",
            "127.0.0.1:",
            "127.0.0.1:80:80",
            "user@127.0.0.1",
            "127.0.0.1, evil.example",
            "localhost.",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_refused_without_keys() {
        let request = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            check_local(Version::HTTP_11, &headers, &Uri::from_static("/")).is_ok()
        };
        assert!(request("127.0.0.1:7700", None));
        assert!(request("127.0.0.1:7700", Some("http://127.0.0.1:7700")));
        assert!(!request("127.0.0.1:7700", Some("http://127.0.0.1:7701")));
        assert!(!request("127.0.0.1:7700", Some("https://evil.example")));
        assert!(!request("127.0.0.1:7700", Some("null")));
        assert!(!request("evil.example:7700", None));
        for name in ["x-forwarded-for", "x-forwarded-port", "via", "cf-ray", "true-client-ip", "fly-client-ip"] {
            let mut forwarded = HeaderMap::new();
            forwarded.insert(HOST, "127.0.0.1:7700".parse().unwrap());
            assert!(check_local(Version::HTTP_11, &forwarded, &Uri::from_static("/")).is_ok());
            assert!(check_local(Version::HTTP_11, &forwarded, &Uri::from_static("http://evil.example/")).is_err());
            forwarded.insert(name, "203.0.113.9".parse().unwrap());
            assert!(check_local(Version::HTTP_11, &forwarded, &Uri::from_static("/")).is_err(), "{name}");
        }
    }
}
