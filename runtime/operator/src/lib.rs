//! The operator: the `herm` command line over the library.
//!
//! Parse first (`cli`), then build validated settings (`config`), then run one command, which
//! returns an `Answer` that is printed as text or as one JSON document.

mod backends;
mod book;
mod cli;
mod commands;
mod config;
mod exit;
mod live;
mod locals;
mod logging;
mod mcp;
mod output;
mod seeds;
mod serve;
mod spinner;
mod stores;
mod timer;

use std::process::ExitCode;

use clap::Parser as _;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // A process that was started to build a sandbox, or to work in one, goes no further.
    herm::successor::run_worker_if_reexec(herm_tools::standard);
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    logging::start(&cli);
    let style = output::Style::of(&cli);
    match commands::run(&cli) {
        Ok(answer) => output::answer(&answer, style),
        Err(error) => output::error(&error, style),
    }
}
