//! The way to a server that outlives its connections: a lost one is made anew with the next call.

use std::sync::{Arc, Mutex, PoisonError};

use herm::{Error, Result};
use rmcp::model::{CallToolResult, Tool};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::{Connection, Fault};
use super::server::McpServer;

/// A server, reached or not.
#[derive(Debug)]
pub(super) struct Link {
    server: McpServer,
    current: Mutex<Option<Arc<Connection>>>,
    /// Held while a connection is made anew; when that was tried last.
    remaking: tokio::sync::Mutex<Option<Instant>>,
}

/// What a server named.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) tools: Vec<Tool>,
    /// What the operator should know.
    pub(super) warning: Option<String>,
}

impl Link {
    /// A link that is not connected yet.
    pub(super) fn new(server: McpServer) -> Self {
        Self { server, current: Mutex::new(None), remaking: tokio::sync::Mutex::new(None) }
    }

    pub(super) fn server(&self) -> &McpServer {
        &self.server
    }

    /// Connects, and asks for the server's tools.
    pub(super) async fn list(&self) -> Result<Listed> {
        let most = self.server.max_tools;
        let asked = timeout(self.server.start_timeout, async {
            let connection = Connection::open(&self.server).await?;
            let tools = connection.tools(self.server.name(), most).await?;
            Ok((connection, tools))
        });
        let (connection, mut tools) = asked.await.unwrap_or_else(|_| Err(self.slow_start()))?;
        self.set(Some(Arc::new(connection)));
        let warning = (tools.len() > most).then(|| {
            format!("the MCP server {} has more than {most} tools; the first {most} are used", self.server.name())
        });
        tools.truncate(most);
        Ok(Listed { tools, warning })
    }

    /// Calls a tool, within the server's time for a call.
    pub(super) async fn call(&self, tool: &str, args: Map<String, Value>) -> Result<CallToolResult> {
        let until = Instant::now() + self.server.call_timeout;
        let connection = timeout_at(until, self.connection()).await.unwrap_or_else(|_| Err(self.slow_start()))?;
        let name = self.server.name();
        match timeout_at(until, connection.call(tool, args)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(Fault::Said(why))) => Err(Error::refused(format!("the MCP server {name} refused the call: {why}"))
                .hint("change the arguments, or do without this tool")),
            Ok(Err(Fault::Lost(why))) => {
                self.forget(&connection);
                Err(Error::unavailable(format!("the MCP server {name} was lost in this call: {why}"))
                    .hint("whether the call had an effect is not known; the next call reaches for the server again"))
            }
            Err(_) => {
                if connection.went_unanswered() {
                    self.forget(&connection);
                }
                let seconds = self.server.call_timeout.as_secs_f32();
                Err(Error::unavailable(format!("the MCP server {name} did not answer within {seconds} seconds"))
                    .hint("whether the call had an effect is not known; ask for less, or do without this tool"))
            }
        }
    }

    /// The connection, made anew where it was lost.
    async fn connection(&self) -> Result<Arc<Connection>> {
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let mut tried = self.remaking.lock().await;
        // Another call may have been faster.
        if let Some(connection) = self.live() {
            return Ok(connection);
        }
        let name = self.server.name();
        if tried.is_some_and(|at| at.elapsed() < self.server.reconnect_pause) {
            let pause = self.server.reconnect_pause.as_secs_f32();
            return Err(Error::unavailable(format!(
                "the MCP server {name} was lost, a moment after it was reached for"
            ))
            .hint(format!("it is reached for again {pause} seconds after the last time; go on without this tool")));
        }
        *tried = Some(Instant::now());
        // What is left of the old one ends before the new one starts.
        self.set(None);
        let opening = timeout(self.server.start_timeout, Connection::open(&self.server));
        let connection = Arc::new(opening.await.unwrap_or_else(|_| Err(self.slow_start()))?);
        self.set(Some(Arc::clone(&connection)));
        tracing::info!(server = name, "the MCP server was lost and is reached again");
        Ok(connection)
    }

    fn live(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|connection| !connection.is_closed()).cloned()
    }

    fn set(&self, connection: Option<Arc<Connection>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// Lets go of a connection, unless another has taken its place.
    fn forget(&self, lost: &Arc<Connection>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, lost)) {
            *current = None;
        }
    }

    fn slow_start(&self) -> Error {
        Error::unavailable(format!("the MCP server {} did not begin in time", self.server.name()))
            .hint("the operator sees what it says with -vv")
    }
}
