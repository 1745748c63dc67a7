//! `herm learn bench` as it is typed.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct LearnBench {
    /// A directory with family.json, or the name of a built-in family; may be given several times
    /// [default: all built-in ones]
    #[arg(long = "family", value_name = "DIR")]
    pub(crate) families: Vec<PathBuf>,
    /// Who speaks: a backend of the configuration, or local, openai, anthropic, openrouter, ollama, reflex
    #[arg(long, value_name = "NAME", env = "HERM_BACKEND", default_value = "local")]
    pub(crate) backend: String,
    /// The model to ask for; of `local`, its file or a name that `herm models list` shows
    #[arg(long, env = "HERM_MODEL")]
    pub(crate) model: Option<String>,
    /// Ways to learn, separated by commas: none, curated, examples, examples-trials, plans,
    /// self-written, trials, random [default: all]
    #[arg(long, value_name = "NAMES")]
    pub(crate) arms: Option<String>,
    /// Only the first N tasks of each half
    #[arg(long, value_name = "N")]
    pub(crate) tasks: Option<usize>,
    /// Learn from the first N tasks, where that is another number than --tasks
    #[arg(long, value_name = "N")]
    pub(crate) learn: Option<usize>,
    /// Give the arms that learn only the first N demonstrations of a family [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) demonstrate: Option<usize>,
    /// Do not tell the agent which of its answers were good
    #[arg(long)]
    pub(crate) no_labels: bool,
    /// Start the MCP servers that a family names: they run with your rights
    #[arg(long)]
    pub(crate) allow_programs: bool,
    /// Write table.md, table.json, curves.svg and tasks.jsonl into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the learning curves into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Keep the model's replies in this file, and do not ask again what it answers: a measurement that was interrupted
    /// goes on where it stopped
    #[arg(long, value_name = "FILE")]
    pub(crate) replies: Option<PathBuf>,
    /// Read and check the families, and ask no model
    #[arg(long)]
    pub(crate) check: bool,
}
