//! `herm evolve` as it is typed.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Evolve {
    /// How much evidence there is, what waits, what was applied
    Status {
        /// The agent's number, such as 1
        id: String,
    },
    /// What the evidence says: by skill and tool, and how skills did before and after each change
    Report {
        /// The agent's number, such as 1
        id: String,
        /// How many days back
        #[arg(long, default_value_t = 7)]
        days: u32,
    },
    /// The same for one skill, with its digest and what recurs
    Analyze(Analyze),
    /// Make a proposal for one skill; changes nothing
    Propose(Propose),
    /// Judge a proposal (exit 1 if it does not hold)
    Verify {
        /// The agent's number, such as 1
        id: String,
        /// The file with the proposal, as `propose --output` wrote it
        #[arg(long, value_name = "FILE")]
        proposal: PathBuf,
        /// The skill it must be about [default: the one it names]
        #[arg(long)]
        skill: Option<String>,
        /// How many days back [default: as the proposal says]
        #[arg(long)]
        days: Option<u32>,
    },
    /// The skills that fit a query
    Candidates(Candidates),
    /// Queue the work that observations suggest: from the brain's evidence, or from lines of JSON
    Mine(Mine),
    /// What waits for a person's word
    #[command(subcommand)]
    Queue(Queue),
    /// Change one skill, guarded (exit 3 not approved, 5 changed underneath, 1 not verified)
    Apply(Apply),
    /// Take an applied change back (exit 5 if it was changed again since)
    Rollback {
        /// The agent's number, such as 1
        id: String,
        /// The step that applied it
        #[arg(long, value_name = "STEP")]
        manifest: i64,
        /// Also where it was changed again since
        #[arg(long)]
        force: bool,
    },
    /// Show that a change could be taken back: restore into an empty directory, check every digest
    Drill {
        /// The agent's number, such as 1
        id: String,
        /// The step that applied it
        #[arg(long, value_name = "STEP")]
        manifest: i64,
        /// The directory, which must be empty [default: a temporary one]
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// A pass over the skills with enough evidence; says what it would do unless told to do it
    AutoRun(AutoRun),
    /// Take in evidence from sessions that ran elsewhere (session_*.json)
    Backfill(Backfill),
    /// Take in earlier sessions and install the timer of install-auto, in one command
    Bootstrap(Bootstrap),
    /// Install a timer that lets the evolver pass, and change skills, by itself; --proposal-only holds them
    InstallAuto(InstallAuto),
    /// Take the timer away
    UninstallAuto {
        /// The agent's number, such as 1
        id: String,
        /// Leave what is running; only take the files away
        #[arg(long)]
        keep_enabled: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Analyze {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The name of the skill
    #[arg(long)]
    pub(crate) skill: String,
    /// How many days back
    #[arg(long, default_value_t = 30)]
    pub(crate) days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Propose {
    #[command(flatten)]
    pub(crate) of: Analyze,
    /// Also write the proposal to this file, which must not be there
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Ask the brain's model to word it
    #[arg(long)]
    pub(crate) draft_with_model: bool,
    /// How long the model may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub(crate) model_timeout: u64,
    /// Who drafts [default: as for tasks]
    #[arg(long, value_name = "NAME", env = "HERM_BACKEND")]
    pub(crate) backend: Option<String>,
    /// The model to ask for
    #[arg(long, env = "HERM_MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Candidates {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// What is looked for
    #[arg(long)]
    pub(crate) query: String,
    /// Say which models would rank; run none
    #[arg(long)]
    pub(crate) semantic: bool,
    /// Rank by meaning, with the embedding model of [semantic]; by words in common where there is none
    #[arg(long)]
    pub(crate) execute_semantic: bool,
    /// Rank again, with the reranker of [semantic]
    #[arg(long)]
    pub(crate) rerank: bool,
    /// At most so many skills
    #[arg(long, default_value_t = 10)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Mine {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// Observations as JSON lines; `-` reads standard input [default: the brain's evidence]
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// How many days of evidence
    #[arg(long, default_value_t = 7)]
    pub(crate) days: u32,
    /// Only say what would be queued
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// The entries of the queue
    List {
        /// The agent's number, such as 1
        id: String,
        /// pending, accepted, rejected or superseded [default: pending]
        #[arg(long, conflicts_with = "all")]
        status: Option<String>,
        /// Only of this kind
        #[arg(long)]
        kind: Option<String>,
        /// Whatever became of it
        #[arg(long)]
        all: bool,
    },
    /// One entry; a held change with what it would change, line by line
    Show {
        /// The agent's number, such as 1
        id: String,
        /// The entry, or the beginning of it
        entry: String,
    },
    /// Do it: apply the change, take the change back, or note that a person will. Verified as [evolver] says,
    /// unless the flags say otherwise
    Accept {
        /// The agent's number, such as 1
        id: String,
        /// The entry, or the beginning of it
        entry: String,
        #[command(flatten)]
        verifiers: Verifiers,
    },
    /// Do not do it, and do not bring it up again
    Reject {
        /// The agent's number, such as 1
        id: String,
        /// The entry, or the beginning of it
        entry: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Verifiers {
    /// Report each stage of the verification
    #[arg(long)]
    pub(crate) staged_verify: bool,
    /// A cheap command that must succeed first
    #[arg(long, value_name = "COMMAND")]
    pub(crate) pre_verify_command: Option<String>,
    /// The command that must succeed
    #[arg(long, value_name = "COMMAND")]
    pub(crate) verify_command: Option<String>,
    /// Where they run [default: beside the skill as it would be]
    #[arg(long, value_name = "DIR")]
    pub(crate) verify_cwd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The name of the skill
    #[arg(long, value_name = "SKILL")]
    pub(crate) target: String,
    /// The file with its new text
    #[arg(long, value_name = "FILE")]
    pub(crate) content: PathBuf,
    /// The digest that its text must have now, as `analyze` shows it
    #[arg(long, value_name = "DIGEST")]
    pub(crate) expected_digest: String,
    /// Yes: without this, the skill stays as it is
    #[arg(long)]
    pub(crate) approve: bool,
    #[command(flatten)]
    pub(crate) verifiers: Verifiers,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Policy {
    /// Leave skills alone that others rest on, by name [default]
    #[arg(long, overrides_with = "no_protect_core_skills", action = ArgAction::SetTrue)]
    pub(crate) protect_core_skills: bool,
    /// Do not leave such skills alone
    #[arg(long, action = ArgAction::SetTrue)]
    pub(crate) no_protect_core_skills: bool,
    /// Only these, with * and ?; also opens core skills
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow_auto_apply_skill: Vec<String>,
    /// Never these, with * and ?
    #[arg(long, value_name = "GLOB")]
    pub(crate) block_auto_apply_skill: Vec<String>,
    /// Let the embedding model of [semantic] put the skills that have enough evidence in order
    #[arg(long)]
    pub(crate) semantic_candidates: bool,
    /// And the reranker of [semantic] after it
    #[arg(long)]
    pub(crate) rerank_candidates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AutoRun {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// How many days back
    #[arg(long, default_value_t = 7)]
    pub(crate) days: u32,
    /// How many skills at most (1 to 25)
    #[arg(long, default_value_t = 3)]
    pub(crate) max_skills: usize,
    /// How many events a skill needs
    #[arg(long, default_value_t = 2)]
    pub(crate) min_evidence: u64,
    /// How many variants of each block are compared (1 to 4)
    #[arg(long, default_value_t = 1)]
    pub(crate) variants: usize,
    /// Make the changes; needs --approve-auto-apply as well
    #[arg(long, conflicts_with = "hold")]
    pub(crate) apply_low_risk: bool,
    /// Yes, without a person looking at each
    #[arg(long)]
    pub(crate) approve_auto_apply: bool,
    /// Hold the changes in the queue until a person accepts them
    #[arg(long)]
    pub(crate) hold: bool,
    /// Only while the last applied change has passed a drill
    #[arg(long)]
    pub(crate) require_restore_drill: bool,
    #[command(flatten)]
    pub(crate) policy: Policy,
    #[command(flatten)]
    pub(crate) verifiers: Verifiers,
}

#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The directory that holds the records [default: sessions in $HERMES_HOME, or in ~/.hermes]
    #[arg(long, value_name = "DIR")]
    pub(crate) sessions_dir: Option<PathBuf>,
    /// Sessions that began in the last so many days
    #[arg(long, default_value_t = 30)]
    pub(crate) days: u32,
    /// At most so many, the newest
    #[arg(long)]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Timer {
    /// hourly, daily, weekly, a number of seconds, or with systemd a calendar expression
    #[arg(long, default_value = "daily")]
    pub(crate) schedule: String,
    /// Hold the changes for a person instead of making them
    #[arg(long)]
    pub(crate) proposal_only: bool,
    /// How many days back [default: 7]
    #[arg(long = "window-days", value_name = "DAYS")]
    pub(crate) window_days: Option<u32>,
    /// How many skills at most (1 to 25) [default: 3]
    #[arg(long)]
    pub(crate) max_skills: Option<usize>,
    /// How many events a skill needs (1 to 1000) [default: 2]
    #[arg(long)]
    pub(crate) min_evidence: Option<u64>,
    /// How many variants of each block are compared (1 to 4) [default: 1]
    #[arg(long)]
    pub(crate) variants: Option<usize>,
    /// Only while the last applied change has passed a drill
    #[arg(long)]
    pub(crate) require_restore_drill: bool,
    #[command(flatten)]
    pub(crate) policy: Policy,
    #[command(flatten)]
    pub(crate) verifiers: Verifiers,
}

#[derive(Debug, Args)]
pub(crate) struct InstallAuto {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// Let the scheduler take it up now
    #[arg(long)]
    pub(crate) enable: bool,
    #[command(flatten)]
    pub(crate) timer: Timer,
}

#[derive(Debug, Args)]
pub(crate) struct Bootstrap {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// Take in the sessions of this directory first [default: sessions in $HERMES_HOME or in ~/.hermes, if it is there]
    #[arg(long, value_name = "DIR")]
    pub(crate) sessions_dir: Option<PathBuf>,
    /// Sessions that began in the last so many days
    #[arg(long, default_value_t = 30)]
    pub(crate) days: u32,
    /// Rank and rerank: the same as --semantic-candidates --rerank-candidates
    #[arg(long)]
    pub(crate) semantic: bool,
    /// Only write the timer's files
    #[arg(long)]
    pub(crate) no_enable: bool,
    #[command(flatten)]
    pub(crate) timer: Timer,
}
