//! `herm successor` as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Successor {
    /// Judge a patch in a sandboxed clone; changes nothing (exit 0 APPROVE, 1 anything else)
    Evaluate(Evaluate),
    /// The verdicts so far
    List,
    /// One verdict, and where its report is
    Show {
        /// The verdict: the beginning of its name or hash
        verdict: String,
    },
    /// Have a second successor, with another seed, audit a verdict (exit 0 it agrees, 1 it does not)
    Audit(Audit),
    /// Find what holds an agent up, draft a patch, judge and audit it, and go as far as the gates allow
    Auto(Auto),
    /// What the server found that holds its agents up, and what it drafted; applies nothing
    Drafts {
        /// The agent's number; all of them, unless said
        id: Option<String>,
    },
    /// The did:key of a steward's key, for `[stewards]` of the configuration
    Key {
        /// Ed25519 in PKCS#8 PEM, mode 600
        file: PathBuf,
    },
    /// Approve the patch of a verdict, with a steward's key
    Approve(Decide),
    /// Reject the patch of a verdict, with a steward's key
    Reject(Decide),
    /// Ask the mesh about it (exit 1 if it does not agree)
    Propose {
        /// The verdict: the beginning of its name or hash
        verdict: String,
        /// Seconds for the members to verify and vote [default: 900]
        #[arg(long, value_name = "SECONDS")]
        within: Option<u64>,
    },
    /// Apply the patch of a verdict whose gates are open (exit 3 if they are not)
    Apply {
        /// The verdict: the beginning of its name or hash
        verdict: String,
    },
    /// Take an applied patch back, as a step of its own
    Rollback {
        /// The agent's number, such as 1
        id: String,
        /// The step that applied it [default: the last one]
        #[arg(long)]
        step: Option<i64>,
    },
    /// The patches that were applied to a brain
    Lineage {
        /// The agent's number, such as 1
        id: String,
    },
    /// Remove a verdict with its artifacts
    Destroy {
        /// The verdict: the beginning of its name or hash
        verdict: String,
    },
    /// Remove what successors left whose parent was killed
    Janitor,
}

#[derive(Debug, Args)]
pub(crate) struct Decide {
    /// The verdict: the beginning of its name or hash
    pub(crate) verdict: String,
    /// The steward's key: Ed25519 in PKCS#8 PEM, mode 600
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// For how many hours it is good [default: 72]
    #[arg(long)]
    pub(crate) hours: Option<u64>,
    /// A remark that is signed with it
    #[arg(long)]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Evaluate {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The file with the patch
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: PathBuf,
    /// The file with the evaluation
    #[arg(long, value_name = "FILE")]
    pub(crate) task: PathBuf,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

/// What a successor may use up.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetFlags {
    /// Seconds on the wall [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wall: Option<u64>,
    /// Dollars for models [default: 5.00]
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) money: Option<f64>,
    /// Megabytes on disk [default: 10000]
    #[arg(long, value_name = "MB")]
    pub(crate) disk: Option<u64>,
    /// Percent of one processor [default: 200]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) cpu: Option<u32>,
    /// Megabytes of memory [default: 4295]
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<u64>,
    /// Files on disk at once [default: 200000]
    #[arg(long, value_name = "COUNT")]
    pub(crate) files: Option<u64>,
    /// Processes and threads [default: 256]
    #[arg(long, value_name = "COUNT")]
    pub(crate) processes: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The verdict: the beginning of its name or hash
    pub(crate) verdict: String,
    /// An evaluation with tasks that the first successor has not seen
    #[arg(long, value_name = "FILE")]
    pub(crate) held_out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Auto {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// Show every stage; ask nobody, apply nothing, take nothing back
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How many of the last tasks are looked at
    #[arg(long, value_name = "COUNT", default_value_t = herm::successor::auto::USUAL_TASKS)]
    pub(crate) tasks: usize,
    /// Let the model of this backend draft the patch, instead of a template
    #[arg(long, value_name = "BACKEND")]
    pub(crate) draft_with: Option<String>,
    /// An evaluation for the verifier, with tasks that the first successor does not see
    #[arg(long, value_name = "FILE")]
    pub(crate) held_out: Option<PathBuf>,
    /// The hours in UTC in which a patch may be applied, such as 2-5
    #[arg(long, value_name = "HOURS", default_value = "any")]
    pub(crate) window: String,
    /// How many tasks after a patch are watched
    #[arg(long, value_name = "COUNT", default_value_t = herm::successor::auto::WATCHED)]
    pub(crate) watch: usize,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}
