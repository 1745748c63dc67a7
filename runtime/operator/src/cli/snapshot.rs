//! The commands of snapshots as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// Snapshot a brain now; what is missing of it in the store is put back
    Create {
        /// The agent's number, such as 1
        id: String,
        /// Do not encrypt: anyone who can read the store can read the brain
        #[arg(long)]
        plaintext: bool,
    },
    /// The snapshots of a brain that are in the store, newest first
    List {
        /// The agent's number, such as 1
        id: String,
        /// At most so many snapshots, the newest
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// What one snapshot holds
    #[command(disable_version_flag = true)]
    Show(OneSnapshot),
    /// Check every object of a brain's snapshots, and the last one as a restore does (exit 1 if something does not hold)
    #[command(disable_version_flag = true)]
    Verify {
        #[command(flatten)]
        one: OneSnapshot,
        /// Check every snapshot as a restore does, not only the last one
        #[arg(long)]
        all: bool,
    },
    /// Let go of old snapshots and of what only they needed
    Prune {
        /// The agent's number, such as 1
        id: String,
        /// How many of the last stay
        #[arg(long, value_name = "N")]
        keep: usize,
        /// The store is not encrypted
        #[arg(long)]
        plaintext: bool,
    },
    /// Which brains are in the store as they are here, and what went wrong (exit 1 if one is not)
    Status {
        /// The agent's number [default: every brain here]
        id: Option<String>,
    },
    /// Keep objects on that a store lets run out (Walrus); done by itself once a day where brains are snapshotted
    Renew {
        /// The agent's number, such as 1
        id: String,
    },
    /// What the ENS pointer says of a brain, and the record to write (exit 1 if the store was taken back)
    Pointer {
        /// The agent's number, such as 1
        id: String,
    },
    /// The key that wraps the keys of brains: make one, name it, or change it
    Key {
        /// Make one; a copy of it must be kept elsewhere
        #[arg(long)]
        create: bool,
        /// Wrap the keys of these brains with the key in this file instead; no snapshot is touched
        #[arg(long, value_name = "FILE", requires = "brains_of", conflicts_with = "create")]
        rotate_to: Option<PathBuf>,
        /// The brains whose keys are wrapped anew
        #[arg(long = "brain", value_name = "ID")]
        brains_of: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OneSnapshot {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The version [default: the last for show, all for verify]
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// The store is not encrypted
    #[arg(long)]
    pub(crate) plaintext: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The version [default: the last]
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Into this directory of brains instead
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
    /// A brain that is there is set aside, and kept
    #[arg(long)]
    pub(crate) replace: bool,
    /// The store is not encrypted
    #[arg(long)]
    pub(crate) plaintext: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The file to write; it must not be there
    pub(crate) file: PathBuf,
    /// Do not encrypt: anyone who has the file can read the brain
    #[arg(long)]
    pub(crate) plaintext: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file to read, as `herm export` wrote it
    pub(crate) file: PathBuf,
    /// The file is not encrypted
    #[arg(long)]
    pub(crate) plaintext: bool,
    /// Import it even if something in it looks like a secret
    #[arg(long)]
    pub(crate) allow_secrets: bool,
    /// Whose receipts count (did:key:…) [default: this operator's and those of the configuration]
    #[arg(long, value_name = "DID")]
    pub(crate) key: Vec<String>,
}
