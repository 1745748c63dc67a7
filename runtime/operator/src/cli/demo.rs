//! `herm demo` as it is typed.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Demo {
    /// Does an agent solve more once it has learned? Three arms: no skill, a curated one, one it wrote itself
    Learn(Learn),
}

#[derive(Debug, Args)]
pub(crate) struct Learn {
    /// Who speaks: a backend of the configuration, or local, openai, anthropic, openrouter, ollama
    #[arg(long, value_name = "NAME", env = "HERM_BACKEND", default_value = "local")]
    pub(crate) backend: String,
    /// The model to ask for; of `local`, its file or a name that `herm models list` shows
    #[arg(long, env = "HERM_MODEL")]
    pub(crate) model: Option<String>,
    /// How many tasks: the first half to learn from, the second to measure on
    #[arg(long, default_value_t = 40, value_name = "N")]
    pub(crate) tasks: usize,
}
