//! Activity goes to standard error; how much is the user's choice. What looks like a secret is not written.

use std::io::{self, Write};

use tracing_subscriber::fmt;

use crate::cli::{Cli, Command};
use crate::spinner::Above;

/// Starts logging: warnings by default, more with each `-v`, errors alone with `-q`. A server says one line a request
/// with the first `-v`.
pub(crate) fn start(cli: &Cli) {
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => tracing::Level::ERROR,
        (false, 0) => tracing::Level::WARN,
        (false, 1) => tracing::Level::INFO,
        (false, _) => tracing::Level::DEBUG,
    };
    let colour = std::env::var_os("NO_COLOR").is_none() && io::IsTerminal::is_terminal(&io::stderr());
    let lines = fmt().with_max_level(level).with_writer(|| Scrubbed).with_target(false);
    match &cli.command {
        Command::Serve(arguments) if arguments.json_logs => lines.json().flatten_event(true).init(),
        _ => lines.with_ansi(colour).without_time().init(),
    }
}

/// Standard error without secrets. Each write is of whole lines.
struct Scrubbed;

impl Write for Scrubbed {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(lines);
        Above.write_all(herm::redact::redact(&text).as_bytes())?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Above.flush()
    }
}
