//! What the operator says of a server.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use herm::tool::Permission;
use herm::{Error, Result};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use crate::net;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const START_TIMEOUT: Duration = Duration::from_secs(10);
const RECONNECT_PAUSE: Duration = Duration::from_secs(5);
const MAX_TOOLS: usize = 64;
const MAX_NAME: usize = 24;

/// Headers that the protocol itself uses.
const RESERVED: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// A server, and how far herm goes with it.
#[derive(Debug, Clone)]
pub struct McpServer {
    name: String,
    pub(super) reach: Reach,
    pub(super) call_timeout: Duration,
    pub(super) start_timeout: Duration,
    pub(super) reconnect_pause: Duration,
    pub(super) max_tools: usize,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub(super) enum Reach {
    /// It is a program that herm starts and speaks to over pipes.
    Process(Program),
    /// It is a service that herm speaks to over HTTP.
    Http { url: Url, header: Option<SecretHeader> },
}

/// A program to start.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// Variables of herm's environment that it gets, beyond the few that every program needs.
    pub(super) env: Vec<String>,
    /// Where it is started; where herm runs, unless said.
    pub(super) directory: Option<PathBuf>,
}

/// A header with a secret in it. Nothing prints its value.
#[derive(Debug, Clone)]
pub struct SecretHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
}

impl SecretHeader {
    /// A header whose value is a secret. In `Authorization`, a bare token is sent as a bearer token.
    pub fn new(name: &str, secret: &SecretString) -> Result<Self> {
        let invalid = |what: String| Error::invalid(what).hint("name a header such as Authorization or X-Api-Key");
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("{name:?} is not the name of a header")))?;
        if RESERVED.contains(&name.as_str()) {
            return Err(invalid(format!("the header {name} belongs to the protocol")));
        }
        let secret = secret.expose_secret().trim();
        let text = if name == AUTHORIZATION && !secret.contains(' ') {
            SecretString::from(format!("Bearer {secret}"))
        } else {
            SecretString::from(secret.to_owned())
        };
        let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| {
            Error::invalid(format!("the secret of the header {name} cannot stand in a header"))
                .hint("look for line breaks in it")
        })?;
        value.set_sensitive(true);
        Ok(Self { name, value })
    }
}

impl McpServer {
    /// A program to start. It sees PATH, HOME and LANG of herm's environment, the variables that `env`
    /// names, and nothing else.
    pub fn process(name: &str, command: &str, args: Vec<String>, env: Vec<String>) -> Result<Self> {
        if command.trim().is_empty() {
            return Err(Error::invalid(format!("the MCP server {name} has an empty command"))
                .hint("name the program to start, and give its arguments in args"));
        }
        let text_ok = |text: &String| !text.contains('\0');
        let name_ok = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if command.contains('\0') || !args.iter().all(text_ok) || !env.iter().all(name_ok) {
            return Err(Error::invalid(format!("the command of the MCP server {name} cannot be run as it stands"))
                .hint("env lists names of variables, such as env = [\"API_KEY\"]; no text may hold a null character"));
        }
        Self::new(name, Reach::Process(Program { command: command.to_owned(), args, env, directory: None }))
    }

    /// A service to reach. It may be anywhere, this machine included: the operator named it. A header is sent over
    /// https, or to this machine.
    pub fn http(name: &str, url: &str, header: Option<SecretHeader>) -> Result<Self> {
        let url = net::parse_url(url)?;
        if header.is_some() && url.scheme() != "https" && !is_this_machine(net::host(&url)) {
            return Err(Error::refused(format!("the MCP server {name} would get its secret over plain http"))
                .hint("use an https URL"));
        }
        Self::new(name, Reach::Http { url, header })
    }

    fn new(name: &str, reach: Reach) -> Result<Self> {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !(1..=MAX_NAME).contains(&name.len()) || !name.chars().all(good) {
            return Err(Error::invalid(format!("{name:?} is not a name for an MCP server"))
                .hint("a name is 1 to 24 of a-z, 0-9 and -"));
        }
        Ok(Self {
            name: name.to_owned(),
            reach,
            call_timeout: CALL_TIMEOUT,
            start_timeout: START_TIMEOUT,
            reconnect_pause: RECONNECT_PAUSE,
            max_tools: MAX_TOOLS,
        })
    }

    /// Where a program is started; where herm runs, unless said. A service is not started.
    #[must_use]
    pub fn directory(mut self, path: &Path) -> Self {
        if let Reach::Process(program) = &mut self.reach {
            program.directory = Some(path.to_owned());
        }
        self
    }

    /// How long a call may take, a new start of the server included; 30 seconds unless said.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// How long the server may take until it has named its tools; 10 seconds unless said.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// How long a server that was lost is left alone after a new start; 5 seconds unless said.
    #[must_use]
    pub fn reconnect_pause(mut self, pause: Duration) -> Self {
        self.reconnect_pause = pause;
        self
    }

    /// How many of its tools are taken; 64 unless said.
    #[must_use]
    pub fn max_tools(mut self, most: usize) -> Self {
        self.max_tools = most;
        self
    }

    /// The name that the names of its tools begin with, behind `mcp_`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the operator has to allow for it.
    pub fn permission(&self) -> Permission {
        match self.reach {
            Reach::Process(_) => Permission::Process,
            Reach::Http { .. } => Permission::Network,
        }
    }

    /// The host that it is reached at, where it is not a program.
    pub fn host(&self) -> Option<&str> {
        match &self.reach {
            Reach::Process(_) => None,
            Reach::Http { url, .. } => Some(net::host(url)),
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str) -> Result<McpServer> {
        McpServer::process(name, "true", Vec::new(), Vec::new())
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["a", "git-hub", "0", &"x".repeat(24)] {
            assert_eq!(process(good).unwrap().name(), good);
        }
        for bad in ["", "A", "a_b", "a b", "ä", &"x".repeat(25)] {
            assert!(process(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_that_cannot_be_run_is_refused() {
        assert!(McpServer::process("x", " ", Vec::new(), Vec::new()).is_err());
        assert!(McpServer::process("x", "true", vec!["a\0".into()], Vec::new()).is_err());
        assert!(McpServer::process("x", "true", Vec::new(), vec!["A=b".into()]).is_err());
    }

    #[test]
    fn a_secret_goes_over_https_or_to_this_machine() {
        let header = SecretHeader::new("Authorization", &SecretString::from("token-1")).unwrap();
        for good in ["https://example.com/mcp", "http://127.0.0.1:9/mcp", "http://[::1]/mcp", "http://localhost/mcp"] {
            assert!(McpServer::http("x", good, Some(header.clone())).is_ok(), "{good}");
        }
        assert!(McpServer::http("x", "http://example.com/mcp", Some(header)).is_err());
        assert!(McpServer::http("x", "http://example.com/mcp", None).is_ok());
        assert!(McpServer::http("x", "ftp://example.com/mcp", None).is_err());
        assert!(McpServer::http("x", "https://user:word@example.com/mcp", None).is_err());
    }

    #[test]
    fn a_header_keeps_its_secret() {
        let sent = |name: &str, secret: &str| SecretHeader::new(name, &SecretString::from(secret));
        assert_eq!(sent("authorization", "token-1").unwrap().value, "Bearer token-1");
        assert_eq!(sent("Authorization", "Basic abc").unwrap().value, "Basic abc");
        assert_eq!(sent("X-Api-Key", "token-1\n").unwrap().value, "token-1");
        assert!(!format!("{:?}", sent("X-Api-Key", "token-1").unwrap()).contains("token-1"));
        for bad in ["", "a b", "Host", "Mcp-Session-Id"] {
            assert!(sent(bad, "token-1").is_err(), "{bad}");
        }
        assert!(sent("X-Api-Key", "a\nb").is_err());
    }
}
