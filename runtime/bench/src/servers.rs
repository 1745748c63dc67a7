//! The MCP servers of a family.

use std::sync::Arc;

use herm::Result;
use herm::tool::Tool;

use super::family::FamilyServer;

/// The tools of servers, and what is to be remarked on them.
pub(super) type StartedTools = (Vec<Arc<dyn Tool>>, Vec<String>);

/// Without MCP, a family with a server cannot be run.
#[cfg(not(feature = "mcp"))]
pub(super) async fn start(servers: &[FamilyServer]) -> Result<StartedTools> {
    match servers.first() {
        None => Ok(StartedTools::default()),
        Some(server) => {
            Err(herm::Error::invalid(format!("the MCP server {}: this herm was built without MCP", server.name))
                .hint("build with --features mcp, or give the family tools with tables"))
        }
    }
}

/// Starts the servers, and says what tools they have. They end when the last of their tools is dropped.
#[cfg(feature = "mcp")]
pub(super) async fn start(servers: &[FamilyServer]) -> Result<StartedTools> {
    use herm::Error;
    use herm_tools::mcp::{McpServer, connect};

    let mut all = StartedTools::default();
    for said in servers {
        // A program beside the family is named by a path that begins with a dot.
        let command = match said.command.starts_with('.') {
            true => said.directory.join(&said.command).display().to_string(),
            false => said.command.clone(),
        };
        let server = McpServer::process(&said.name, &command, said.args.clone(), said.env.clone())?;
        let server = server.directory(&said.directory);
        let server = said.timeout.into_iter().fold(server, McpServer::call_timeout);
        let (tools, warnings) = connect(vec![server]).await;
        if tools.is_empty() {
            let why = warnings.into_iter().next();
            let why = why.unwrap_or_else(|| format!("the MCP server {} has no tools", said.name));
            return Err(Error::unavailable(why)
                .hint("run its command by hand, in the family's directory, and see what it says"));
        }
        all.0.extend(tools);
        all.1.extend(warnings);
    }
    Ok(all)
}
