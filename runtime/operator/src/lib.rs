//! The operator: the `herm` command line over the library, and its server with the page.
//!
//! Parse first (`cli`), then build validated settings (`config`), then run one command, which
//! returns an `Answer` that is printed as text or as one JSON document. `serve` is the server; what both the commands and
//! the server do stands in `operations`.
//!
//! It uses the facade `herm` and the standard tools as any program does, and nothing uses it. A program that only wants to
//! run tasks needs `herm`; this crate is for an operator's binary of its own:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     herm_operator::main()
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `s3`, `gcs`, `azure`, `webdav` | off | snapshots in that store; `cloud` is all four |
//! | `local` | off | a language model inside the process: the backend `local`, and `herm models` |
//! | `semantic` | off | `[semantic]` in the configuration: texts compared by what they mean |
//! | `mcp` | off | MCP servers as tools, and herm as an MCP server |
//! | `otlp` | off | spans of tasks to an OpenTelemetry collector, where the `OTEL_…` variables say |

mod cli;
mod commands;
mod exit;
mod live;
mod logging;
mod operations;
mod otlp;
mod output;
mod seeds;
mod serve;
mod spinner;
mod timer;

use std::process::ExitCode;

use clap::Parser as _;
use herm_server_db as server_db;
use herm_server_db::server_layout;
use herm_settings::{backends, config, local_models, mcp, stores};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // A process that was started to build a sandbox, or to work in one, goes no further.
    herm::successor::run_worker_if_reexec(herm_tools::standard);
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let started = logging::start(&cli);
    let style = output::Style::of(&cli);
    let done = started.and_then(|()| commands::run(&cli));
    otlp::shutdown();
    match done {
        Ok(answer) => output::answer(&answer, style),
        Err(error) => output::error(&error, style),
    }
}
