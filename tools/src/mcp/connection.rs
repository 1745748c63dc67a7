//! One connection to a server, from its first word to its last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use herm::{Error, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, Tool,
};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{RoleClient, serve_client};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::http::Bounded;
use super::process::{Pipes, Process};
use super::server::{McpServer, Reach};
use super::{MAX_MESSAGE, http, process};

/// How many pages of tools are asked for.
const MAX_PAGES: usize = 64;
/// How many calls in a row may go unanswered before the connection is given up.
const MAX_UNANSWERED: u32 = 2;
const ENDED: &str = "it ended the connection";

/// Why a call has no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server said no, and goes on.
    Said(String),
    /// The connection is of no more use.
    Lost(String),
}

/// How words go to and fro.
enum Way {
    Pipes(Pipes),
    Http(StreamableHttpClientTransport<Bounded>),
}

/// A connection. A program behind it ends when this value goes.
#[derive(Debug)]
pub(super) struct Connection {
    client: RunningService<RoleClient, ClientConfig>,
    unanswered: AtomicU32,
    too_large: Arc<watch::Sender<bool>>,
    _process: Option<Process>,
}

impl Connection {
    /// Starts or reaches a server. Without a time limit of its own.
    pub(super) async fn open(server: &McpServer) -> Result<Self> {
        let too_large = Arc::new(watch::Sender::new(false));
        let name = server.name();
        let me =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("herm", env!("CARGO_PKG_VERSION")));
        let (transport, process) = match &server.reach {
            Reach::Process(program) => {
                let (process, pipes) = process::start(name, program, Arc::clone(&too_large))?;
                (Way::Pipes(pipes), Some(process))
            }
            Reach::Http { url, header } => {
                let told = Arc::clone(&too_large);
                (Way::Http(http::transport(name, url, header.as_ref(), server.start_timeout, told).await?), None)
            }
        };
        let serving = async {
            match transport {
                Way::Pipes(pipes) => serve_client(me, pipes).await,
                Way::Http(http) => serve_client(me, http).await,
            }
        };
        let mut told = too_large.subscribe();
        let served = tokio::select! {
            biased;
            _ = told.wait_for(|is_too_large| *is_too_large) => Err(too_large_words()),
            served = serving => served.map_err(|error| no_beginning(&error)),
        };
        let client = served.map_err(|why| {
            Error::unavailable(format!("the MCP server {name} did not begin as the protocol wants it: {why}"))
                .hint("the operator sees what it says with -vv")
        })?;
        Ok(Self { client, unanswered: AtomicU32::new(0), too_large, _process: process })
    }

    /// Whether the other side has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed() || self.client.peer().is_transport_closed()
    }

    /// The server's tools, one more than `most` at most.
    pub(super) async fn tools(&self, server: &str, most: usize) -> Result<Vec<Tool>> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let listed = self.answer(self.client.list_tools(Some(page))).await.map_err(|fault| {
                let (Fault::Said(why) | Fault::Lost(why)) = fault;
                Error::unavailable(format!("the MCP server {server} does not name its tools: {why}"))
                    .hint("the operator sees what it says with -vv")
            })?;
            tools.extend(listed.tools);
            cursor = listed.next_cursor;
            if cursor.is_none() || tools.len() > most {
                break;
            }
        }
        tools.truncate(most.saturating_add(1));
        Ok(tools)
    }

    /// Calls a tool. Without a time limit of its own; a call that is dropped is cancelled.
    pub(super) async fn call(&self, tool: &str, args: Map<String, Value>) -> Result<CallToolResult, Fault> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let response = self.answer(self.client.call_tool_once(params)).await?;
        self.unanswered.store(0, Ordering::Relaxed);
        match response {
            CallToolResponse::Complete(result) => Ok(result),
            CallToolResponse::InputRequired(_) => Err(Fault::Said("it asks a person, and there is none".to_owned())),
            _ => Err(Fault::Said("it wants to go on in the background, which herm does not wait for".to_owned())),
        }
    }

    /// Notes a call without an answer; whether the connection should be given up.
    pub(super) fn went_unanswered(&self) -> bool {
        self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNANSWERED
    }

    /// Waits for an answer, unless it is known to be without end.
    async fn answer<T>(&self, asking: impl Future<Output = Result<T, ServiceError>>) -> Result<T, Fault> {
        let mut told = self.too_large.subscribe();
        let too_large = || Fault::Lost(too_large_words());
        tokio::select! {
            biased;
            _ = told.wait_for(|is_too_large| *is_too_large) => Err(too_large()),
            answer = asking => answer.map_err(|error| if *self.too_large.borrow() { too_large() } else { fault(error) }),
        }
    }
}

fn too_large_words() -> String {
    format!("its answer is larger than {} MiB", MAX_MESSAGE >> 20)
}

/// Why a connection did not begin, without what the server put into its answer.
fn no_beginning(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => ENDED.to_owned(),
        ClientInitializeError::TransportError { error, .. } => broken(&*error.error),
        ClientInitializeError::JsonRpcError(error) => format!("it said {:?}", herm::text::line(&error.message, 200)),
        _ => "its first answer is another than the protocol wants".to_owned(),
    }
}

/// What a failed exchange means.
fn broken(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<std::io::Error>() {
        // Its pipes are closed: it is gone.
        Some(_) => ENDED.to_owned(),
        None => http::words(error),
    }
}

fn fault(error: ServiceError) -> Fault {
    match error {
        ServiceError::McpError(error) => Fault::Said(herm::text::line(&error.message, 600)),
        ServiceError::TransportSend(error) => Fault::Lost(broken(&*error.error)),
        ServiceError::TransportClosed => Fault::Lost(ENDED.to_owned()),
        ServiceError::UnexpectedResponse => {
            Fault::Said("its answer is not what the protocol wants for this call".to_owned())
        }
        other => Fault::Said(herm::text::line(&other.to_string(), 200)),
    }
}
