//! Settings: flags over environment over file over default.

use std::path::{Path, PathBuf};
use std::time::Duration;

use herm::brain::OnDrift;
use herm::fsio;
use herm::{Error, Layout, Opening, Result, SystemClock};

use crate::cli::Cli;

/// The configuration file.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "herm configuration")]
pub(crate) struct File {
    /// Where brains live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) brains: Option<PathBuf>,
    /// How long to wait for another process that holds a brain, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_wait_ms: Option<u64>,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where brains live.
    pub(crate) layout: Layout,
    /// How long to wait for another process that holds a brain.
    pub(crate) lock_wait: Duration,
    /// The file they came from, if there was one.
    pub(crate) file: Option<PathBuf>,
}

const MAX_CONFIG_BYTES: u64 = 1 << 20;
const DEFAULT_LOCK_WAIT_MS: u64 = 5_000;

impl Settings {
    /// Puts the settings together.
    pub(crate) fn load(cli: &Cli) -> Result<Self> {
        let (path, file) = match &cli.config {
            Some(path) => (Some(path.clone()), read(path)?),
            None => match default_file().filter(|path| path.is_file()) {
                Some(path) => {
                    let file = read(&path)?;
                    (Some(path), file)
                }
                None => (None, File::default()),
            },
        };
        let brains = match cli.brains.clone().or(file.brains) {
            Some(brains) => brains,
            None => default_brains()?,
        };
        Ok(Self {
            layout: Layout::new(brains),
            lock_wait: Duration::from_millis(file.lock_wait_ms.unwrap_or(DEFAULT_LOCK_WAIT_MS)),
            file: path,
        })
    }

    /// How to open a brain.
    pub(crate) fn opening(&self, on_drift: OnDrift) -> Opening {
        Opening { wait: self.lock_wait, clock: std::sync::Arc::new(SystemClock), on_drift }
    }
}

fn read(path: &Path) -> Result<File> {
    let bytes = fsio::read_regular(path, MAX_CONFIG_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|source| {
        Error::invalid(format!("{} is not UTF-8 text", path.display())).hint("save it as UTF-8").because(source)
    })?;
    toml::from_str(&text).map_err(|source| {
        Error::invalid(format!("{} is not a valid configuration: {}", path.display(), source.message()))
            .hint("see the fields with `herm config schema`")
            .because(source)
    })
}

/// `./brains` of the checkout that the current directory lies in, else the data directory.
fn default_brains() -> Result<PathBuf> {
    let here = std::env::current_dir().map_err(|source| Error::io("find", Path::new("."), source))?;
    let is_checkout = |dir: &Path| dir.join("seed/agents").is_dir() && dir.join("runtime/operator").is_dir();
    if let Some(checkout) = here.ancestors().find(|dir| is_checkout(dir)) {
        return Ok(if checkout == here { PathBuf::from("brains") } else { checkout.join("brains") });
    }
    let below_home = |dir: &str| home().map(|home| home.join(dir));
    let data = if cfg!(target_os = "macos") {
        below_home("Library/Application Support")
    } else {
        absolute_env("XDG_DATA_HOME").or_else(|| below_home(".local/share"))
    };
    let data = data.ok_or_else(|| {
        Error::invalid("no directory for brains: neither HOME nor XDG_DATA_HOME is set")
            .hint("give one with --brains DIR")
    })?;
    Ok(data.join("herm/brains"))
}

fn default_file() -> Option<PathBuf> {
    let config = absolute_env("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")))?;
    Some(config.join("herm/config.toml"))
}

fn home() -> Option<PathBuf> {
    absolute_env("HOME")
}

fn absolute_env(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
