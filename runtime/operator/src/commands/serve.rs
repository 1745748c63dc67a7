//! `herm serve` and `herm mcp`.

use std::time::Duration;

use herm::{Error, Result};
use serde_json::json;

use crate::cli::{Cli, Serve};
use crate::config::Settings;
use crate::output::{self, Answer};
use crate::serve::Server;

/// So long work on brains has to end once every task has.
const LAST_WORK: Duration = Duration::from_secs(10);

pub(super) fn run(settings: &Settings, arguments: &Serve, cli: &Cli) -> Result<Answer> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores)
        // Work on brains is bounded by the disk and the cores: more threads would only wait for each other.
        .max_blocking_threads(16.max(4 * cores))
        .enable_all()
        .build()
        .map_err(|source| Error::unavailable("no threads can be started").because(source))?;
    let served = runtime.block_on(async {
        let server = Server::open(settings, arguments.listen.as_deref()).await?;
        let first = server.make_first_brain()?;
        let address = server.address();
        let keyless = server.is_keyless()?;
        // On standard output and at once: the program that started the server waits for this line.
        let line = json!({ "event": "listening", "url": format!("http://{address}"), "keyless": keyless });
        let said = if cli.json {
            format!("{line}\n")
        } else {
            let mut said = format!("listening at http://{address}\n");
            if keyless {
                said.push_str(
                    "no key is configured: only this machine is answered, as the operator; see `herm keys create`\n",
                );
            }
            if first {
                said.push_str("there was no brain: agent 1, AUDIT, was made from its seed\n");
            }
            said
        };
        // Nobody reads it: the server answers all the same.
        let _ = output::print(&said);
        server.run().await
    });
    // A successor that judges for the mesh may take an hour more; its verdict is nothing anyone waits for now.
    runtime.shutdown_timeout(LAST_WORK);
    served?;
    Ok(Answer::new("", json!({ "event": "stopped" })).note("stopped: every task is settled or written down"))
}

#[cfg(feature = "mcp")]
pub(super) fn mcp(settings: &Settings) -> Result<Answer> {
    crate::serve::mcp::on_stdio(settings)?;
    Ok(Answer::new("", json!(null)))
}

#[cfg(not(feature = "mcp"))]
pub(super) fn mcp(_: &Settings) -> Result<Answer> {
    Err(Error::refused("this herm was built without MCP").hint("build it with `--features mcp`"))
}
