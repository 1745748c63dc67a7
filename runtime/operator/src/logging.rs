//! Activity goes to standard error; how much is the user's choice. What looks like a secret is not written. Spans go to a
//! collector, where a server has one, and not to the log.

use std::io::{self, Write};

use herm::Result;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::cli::{Cli, Command};
use crate::otlp::OtlpSettings;
use crate::spinner::Above;

type Traces = Option<Box<dyn Layer<Registry> + Send + Sync>>;

/// Starts logging: warnings by default, more with each `-v`, errors alone with `-q`. A server says one line a request
/// with the first `-v`. An error says that spans cannot be sent as the environment asks; the log has begun then as well.
pub(crate) fn start(cli: &Cli) -> Result<()> {
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => LevelFilter::ERROR,
        (false, 0) => LevelFilter::WARN,
        (false, 1) => LevelFilter::INFO,
        (false, _) => LevelFilter::DEBUG,
    };
    let collector = match &cli.command {
        Command::Serve(_) => OtlpSettings::from_environment(),
        _ => Ok(None),
    };
    let traces = match &collector {
        Ok(Some(settings)) => traces(*settings),
        Ok(None) | Err(_) => Ok(None),
    };
    let (traces, started) = match traces {
        Ok(traces) => (traces, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let colour = std::env::var_os("NO_COLOR").is_none() && io::IsTerminal::is_terminal(&io::stderr());
    let lines = fmt::layer().with_writer(|| Scrubbed).with_target(false);
    let lines = match &cli.command {
        Command::Serve(arguments) if arguments.json_logs => lines.json().flatten_event(true).boxed(),
        _ => lines.with_ansi(colour).without_time().boxed(),
    };
    let wanted = filter_fn(move |metadata| metadata.is_event() && *metadata.level() <= level);
    tracing_subscriber::registry().with(traces).with(lines.with_filter(wanted.with_max_level_hint(level))).init();
    if !cfg!(feature = "otlp") && matches!(collector, Ok(Some(_))) {
        tracing::warn!(
            "the OTEL_ variables name a collector, and this herm was built without the feature `otlp`: no traces are sent"
        );
    }
    collector.map(drop).and(started)
}

#[cfg(feature = "otlp")]
fn traces(settings: OtlpSettings) -> Result<Traces> {
    crate::otlp::layer(settings).map(Some)
}

#[cfg(not(feature = "otlp"))]
fn traces(_: OtlpSettings) -> Result<Traces> {
    Ok(None)
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
