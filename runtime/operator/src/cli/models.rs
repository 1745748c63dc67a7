//! `herm models` as it is typed.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// The models of this machine, and where they lie
    List,
    /// Fetch a model from a hub; a fetch that broke off goes on where it stopped
    Pull(PullModel),
    /// Load a model and let it speak: how fast it reads and writes, and what it takes
    Check {
        /// Its file, or a name that `herm models list` shows
        model: String,
        /// What it is asked
        #[arg(long, default_value = "Say in one sentence what a lighthouse is for.")]
        ask: String,
        /// How many tokens it may write
        #[arg(long, default_value_t = 64, value_name = "N")]
        tokens: u32,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PullModel {
    /// OWNER/REPOSITORY/FILE.gguf, with @REVISION behind it for a certain state
    pub(crate) name: String,
    /// The SHA-256 it must have [default: what the hub says of it, noted for the next time]
    #[arg(long, value_name = "HEX")]
    pub(crate) sha256: Option<String>,
    /// The hub to ask [default: huggingface.co]
    #[arg(long, env = "HERM_HUB", value_name = "URL")]
    pub(crate) hub: Option<String>,
}
