//! Activity goes to standard error; how much is the user's choice.

use tracing_subscriber::fmt;

use crate::spinner::Above;

/// Starts logging: warnings by default, more with each `-v`, errors alone with `-q`.
pub(crate) fn start(verbose: u8, quiet: bool) {
    let level = match (quiet, verbose) {
        (true, _) => tracing::Level::ERROR,
        (false, 0) => tracing::Level::WARN,
        (false, 1) => tracing::Level::INFO,
        (false, _) => tracing::Level::DEBUG,
    };
    let colour = std::env::var_os("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr());
    fmt().with_max_level(level).with_writer(|| Above).with_ansi(colour).without_time().with_target(false).init();
}
