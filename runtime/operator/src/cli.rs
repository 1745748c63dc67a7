//! The command line as it is typed. Nothing here is checked beyond its shape.

mod bench;
mod evolve;
mod feedback;
mod learn;
mod models;
mod semantic;
mod serve;
mod snapshot;
mod successor;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use herm_settings::SettingsFlags;

pub(crate) use bench::LearnBench;
pub(crate) use evolve::{
    Analyze, Apply, AutoRun, Backfill, Bootstrap, Candidates, Evolve, InstallAuto, Mine, Policy, Propose, Queue, Timer,
    Verifiers,
};

pub(crate) use feedback::Feedback;
pub(crate) use learn::{Learn, Rehearse, StopTrial};
pub(crate) use models::Models;
#[cfg(feature = "local")]
pub(crate) use models::PullModel;
pub(crate) use semantic::Semantic;
pub(crate) use serve::{CreateKey, Keys, Serve, Top};
pub(crate) use snapshot::{Export, Import, OneSnapshot, Restore, Snapshot};
pub(crate) use successor::{Audit, Auto, BudgetFlags, Decide, Evaluate, Successor};

/// An embedded agent harness: brains that learn, one settled step at a time.
#[derive(Debug, Parser)]
#[command(name = "herm", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 came out negative, 2 usage, 3 refused, 4 not found, 5 conflict, \
6 unavailable, 7 corrupt.\nStart with: herm run 1 --example")]
pub(crate) struct Cli {
    /// Where brains live [default: ./brains in a checkout of herm, else the data directory]
    #[arg(long, global = true, env = "HERM_BRAINS", value_name = "DIR")]
    pub(crate) brains: Option<PathBuf>,
    /// The configuration file [default: herm/config.toml in the configuration directory]
    #[arg(long, global = true, env = "HERM_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more on standard error (-vv: still more)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say nothing on standard error but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// The subcommand with its arguments.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// What goes before the configuration file.
    pub(crate) fn settings_flags(&self) -> SettingsFlags {
        SettingsFlags { config: self.config.clone(), brains: self.brains.clone() }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a brain: from a seed, a directory or a manifest
    Init(Init),
    /// Run a task: the answer on standard output, what happens on standard error
    Run(RunTask),
    /// Look at, check, replay and export the signed receipts of a brain
    #[command(subcommand)]
    Receipts(Receipts),
    /// Look at brains, check them, see how they moved
    #[command(subcommand)]
    Brain(Brain),
    /// List, read, check and keep skills
    #[command(subcommand)]
    Skills(Skills),
    /// Retire skills that the agent wrote and no longer uses; runs by itself after each session
    Curate {
        /// The agent's number, such as 1
        id: String,
        /// Only say what would move
        #[arg(long)]
        dry_run: bool,
    },
    /// Judge changes to the runtime in a sandboxed clone, before anyone applies them
    #[command(subcommand)]
    Successor(Successor),
    /// Improve skills from evidence of how their tasks went, under guards
    #[command(subcommand)]
    Evolve(Evolve),
    /// Say how good the answer of a task was: as the operator, or as the subscriber who asked
    Feedback(Feedback),
    /// What an agent has learned, and whether it helps
    #[command(subcommand)]
    Learn(Learn),
    /// Search and add to an agent's memory
    #[command(subcommand)]
    Memory(Memory),
    /// Models that speak inside this process: list them, fetch them, try them
    #[command(subcommand)]
    Models(Models),
    /// Vectors that say what memory and skills mean
    #[command(subcommand)]
    Semantic(Semantic),
    /// Keep brains in a store: encrypted, content-addressed, one head
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Bring a brain back from the store; everything is verified before it is in place
    #[command(disable_version_flag = true)]
    Restore(Restore),
    /// Write a brain into one file
    Export(Export),
    /// Take a brain out of a file
    Import(Import),
    /// Answer over HTTP: an API for subscribers, one for OpenAI clients, a page to look at brains
    Serve(Serve),
    /// Make, list and revoke keys of callers
    #[command(subcommand)]
    Keys(Keys),
    /// Watch a server: brains, queues, tasks
    Top(Top),
    /// Speak MCP on standard input and output
    Mcp,
    /// Check that this machine has what herm needs
    Doctor,
    /// Show the settings in force, or the JSON Schema of the configuration file
    #[command(subcommand)]
    Config(Config),
    /// Print a completion script
    Completions {
        /// The shell that the script is for
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// Start from this seed [default: the seed of the same number]
    #[arg(long, value_name = "N", conflicts_with_all = ["from", "manifest"])]
    pub(crate) seed: Option<String>,
    /// Start from a directory with system.md, skills/ and patterns/
    #[arg(long, value_name = "DIR", conflicts_with = "manifest")]
    pub(crate) from: Option<PathBuf>,
    /// Start from a manifest that carries its files
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Refuse unless the new brain has this bundle hash
    #[arg(long, value_name = "HASH")]
    pub(crate) expect: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunTask {
    /// The agent's number; made from its seed on the first run
    pub(crate) id: String,
    /// What to do; `-` reads it from standard input
    #[arg(conflicts_with_all = ["file", "example"])]
    pub(crate) text: Option<String>,
    /// Read what to do from a file
    #[arg(long, short, value_name = "FILE", conflicts_with = "example")]
    pub(crate) file: Option<PathBuf>,
    /// Run on an example of the agent's seed [default: its first]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub(crate) example: Option<String>,
    /// Who speaks: a backend of the configuration, or openai, anthropic, openrouter, ollama, local, reflex
    #[arg(long, value_name = "NAME", env = "HERM_BACKEND")]
    pub(crate) backend: Option<String>,
    /// The model to ask for; of `local`, its file or a name that `herm models list` shows
    #[arg(long, env = "HERM_MODEL")]
    pub(crate) model: Option<String>,
    /// The subscriber who asks: an id of 1 to 128 printable characters
    #[arg(long, value_name = "ID")]
    pub(crate) subscriber: Option<String>,
    /// At most so many turns (1 to 8)
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u8>,
    /// At most so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) deadline: Option<u64>,
    /// Settle nothing: the brain stays as it is, and there is no receipt
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Put no skills and no example before the task: the model looks skills up
    #[arg(long)]
    pub(crate) no_preload: bool,
    /// Print what happens as JSON lines, the outcome last
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Receipts {
    /// The receipts of a brain, newest first
    List {
        /// The agent's number, such as 1
        id: String,
        /// At most so many receipts, the newest
        #[arg(long, default_value_t = 20)]
        limit: u64,
    },
    /// One receipt: the signed statement
    Show {
        /// The agent's number, such as 1
        id: String,
        /// The number of the receipt
        seq: u64,
    },
    /// Check signatures, chain and content (exit 1 if something does not hold)
    Verify {
        /// The agent's number; with --file it is not needed
        #[arg(required_unless_present = "file")]
        id: Option<String>,
        /// Check an exported file instead of a brain
        #[arg(long, value_name = "FILE", conflicts_with = "id")]
        file: Option<PathBuf>,
        /// The key that must have signed (did:key:…) [default: this operator's]
        #[arg(long, value_name = "DID")]
        key: Option<String>,
    },
    /// Run a task again from the state before it, and compare the hash after (exit 1 if it differs)
    Replay {
        /// The agent's number, such as 1
        id: String,
        /// The number of the receipt
        seq: u64,
        /// Let this backend speak again, instead of the record: a local model says the same every time
        #[arg(long, value_name = "NAME")]
        speak: Option<String>,
        /// The model of that backend
        #[arg(long, requires = "speak")]
        model: Option<String>,
    },
    /// All receipts and a checkpoint, as JSON lines
    Export {
        /// The agent's number, such as 1
        id: String,
    },
    /// The public key of this operator
    Key,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Brain {
    /// All brains of this operator
    List,
    /// One brain: version, hash, parts, counts
    Show {
        /// The agent's number, such as 1
        id: String,
    },
    /// Recompute the bundle hash from nothing and compare (exit 7 if it differs)
    Verify {
        /// The agent's number, such as 1
        id: String,
    },
    /// The steps a brain took, newest first
    History {
        /// The agent's number, such as 1
        id: String,
        /// At most so many steps, the newest
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Show the files of each step, with short digests
        #[arg(long)]
        files: bool,
    },
    /// What differs between two versions: files, skills, texts line by line
    Diff {
        /// The agent's number, such as 1
        id: String,
        /// The version to compare from
        #[arg(value_name = "A")]
        from: u64,
        /// The second version [default: the last]
        #[arg(value_name = "B")]
        to: Option<u64>,
        /// Names only, no texts
        #[arg(long)]
        stat: bool,
    },
    /// Put back what one step changed, as a step of its own
    Undo {
        /// The agent's number, such as 1
        id: String,
        /// The number of the step, as `brain history` shows it
        change: i64,
        /// Also put back what was changed again since
        #[arg(long)]
        force: bool,
        /// Only say what would be put back
        #[arg(long)]
        dry_run: bool,
    },
    /// Make a new brain from another's content: same files and memory, a history of its own
    #[command(disable_version_flag = true)]
    Fork {
        /// The agent's number, such as 1
        id: String,
        /// The number of the new brain
        new: String,
        /// As it was at this version [default: the last]
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// Take over files changed by hand, as a step of their own
    Adopt {
        /// The agent's number, such as 1
        id: String,
    },
    /// Name the steps that a damaged memory.db has lost (exit 7), or go on without them
    Repair {
        /// The agent's number, such as 1
        id: String,
        /// Go on without the lost steps; a receipt names each of them
        #[arg(long)]
        accept_loss: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Skills {
    /// The skills an agent sees: its own and those of external directories
    List {
        /// The agent's number, such as 1
        id: String,
        /// The archived ones instead
        #[arg(long, conflicts_with = "all")]
        archived: bool,
        /// Only archived ones that have all these words in their name or text
        #[arg(long, value_name = "WORDS", requires = "archived")]
        search: Option<String>,
        /// The hidden ones too, and why they are hidden
        #[arg(long)]
        all: bool,
    },
    /// One skill, or one of its files
    View {
        /// The agent's number, such as 1
        id: String,
        /// The name of the skill
        slug: String,
        /// A text file of the skill, such as references/notes.md
        file: Option<String>,
    },
    /// Take in skills that were put into, edited in or taken from a brain's directory by hand, and say what changed
    Reload {
        /// The agent's number, such as 1
        id: String,
    },
    /// Check skill files or trees against the rules (exit 1 if one breaks them)
    Validate {
        /// Files or directories [default: the current directory]
        paths: Vec<PathBuf>,
    },
    /// Take over skills from a library, or a single one (exit 1 if none could be)
    Import(ImportSkills),
    /// Move a skill into the archive
    Archive(OneSkill),
    /// Bring a skill back from the archive
    Restore(OneSkill),
    /// Exempt a skill from everything automatic
    Pin(OneSkill),
    /// No longer exempt it
    Unpin(OneSkill),
}

#[derive(Debug, Args)]
pub(crate) struct ImportSkills {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// A directory that holds skills, a skill's directory, or a skill file
    pub(crate) path: PathBuf,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace skills of the same name, unless they are pinned
    #[arg(long)]
    pub(crate) replace: bool,
    /// Only these: names, or paths in the library, with * and ?
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    pub(crate) only: Vec<String>,
    /// Take over this skill whatever the guard says of it; the step says so. May be given several times
    #[arg(long, value_name = "SLUG")]
    pub(crate) trust: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct OneSkill {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The name of the skill
    pub(crate) slug: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Memory {
    /// Search messages, facts and the task log
    Search {
        /// The agent's number, such as 1
        id: String,
        /// What to look for
        #[arg(required = true)]
        query: Vec<String>,
        /// At most so many hits
        #[arg(long, default_value_t = 10)]
        limit: usize,
        /// See what this subscriber may see [default: everything]
        #[arg(long)]
        subscriber: Option<String>,
    },
    /// Add an entry to Layer 1, or a fact
    Add {
        /// The agent's number, such as 1
        id: String,
        /// The text of the entry
        text: String,
        /// The file of Layer 1 that the entry goes into
        #[arg(long, value_enum, default_value_t = Target::Memory, conflicts_with_all = ["subscriber", "fact"])]
        target: Target,
        /// For this subscriber alone
        #[arg(long)]
        subscriber: Option<String>,
        /// Store it as the fact of this key instead
        #[arg(long, value_name = "KEY")]
        fact: Option<String>,
    },
    /// Layer 1 as the next session will see it
    Show {
        /// The agent's number, such as 1
        id: String,
        /// The layer of this subscriber too
        #[arg(long)]
        subscriber: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// MEMORY.md: what the agent remembers for everyone
    Memory,
    /// USER.md: what it remembers of its users in general
    User,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// The JSON Schema of the configuration file
    Schema,
    /// The settings in force
    Show,
}
