//! Tools of MCP servers: programs and services outside herm that speak the Model Context Protocol.
//!
//! - [`McpServer`] is what the operator says of one: a command to start, or an address, and its limits.
//! - [`connect`] starts or reaches each, asks once for its tools, and makes a herm tool of each one:
//!   `mcp_<server>_<tool>` is its name.
//!
//! A server is a stranger's program. What it says of its tools is cut, marked with its name and checked like a skill;
//! what it answers is cut like any tool's output; what it does wrong (it cannot be started, dies, hangs, talks
//! nonsense, talks without end) is a failed call with a sentence, and the next call tries to reach it again.
//!
//! Servers come from the operator's configuration and from nowhere else. A brain's manifest may *name* such tools in
//! its whitelist, like any tool; it may not bring a server: a manifest travels, and what travels must not start
//! processes on the machine it arrives at.

mod connection;
mod content;
mod http;
mod link;
mod naming;
mod process;
mod remote;
mod server;

pub use server::{McpServer, SecretHeader};

use std::collections::BTreeSet;
use std::sync::Arc;

use herm::tool::Tool;
use tokio::task::JoinSet;

use link::Link;

/// How large a message of a server may be. A larger one ends the connection.
const MAX_MESSAGE: usize = 16 << 20;

/// The tools of all servers, and what the operator should know: a server that cannot be reached is a warning, and so is
/// a tool that cannot be used.
pub async fn connect(servers: Vec<McpServer>) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
    let mut listing = JoinSet::new();
    for (place, server) in servers.into_iter().enumerate() {
        listing.spawn(async move {
            let link = Arc::new(Link::new(server));
            let listed = link.list().await;
            (place, link, listed)
        });
    }
    let mut warnings = Vec::new();
    let mut answers = Vec::new();
    while let Some(answer) = listing.join_next().await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(_) => warnings.push("an MCP server could not be asked for its tools: the asking crashed".to_owned()),
        }
    }
    // Names are numbered in the order of the servers, no matter which answered first.
    answers.sort_by_key(|(place, ..)| *place);
    let mut taken = BTreeSet::new();
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    for (_, link, listed) in answers {
        match listed {
            Ok(listed) => {
                warnings.extend(listed.warning);
                for tool in listed.tools {
                    match remote::Remote::new(&link, tool, &mut taken) {
                        Ok((tool, warning)) => {
                            warnings.extend(warning);
                            tools.push(Arc::new(tool));
                        }
                        Err(warning) => warnings.push(warning),
                    }
                }
            }
            Err(error) => {
                let hint = error.hint_text().map(|hint| format!(" ({hint})")).unwrap_or_default();
                warnings.push(format!("{}; its tools are missing{hint}", error.message()));
            }
        }
    }
    (tools, warnings)
}
