//! `herm serve`, `herm keys` and `herm top` as they are typed.

use clap::{Args, Subcommand, ValueEnum};

use crate::server_db::keys::Operation;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen [default: 127.0.0.1:7700]; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", env = "HERM_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Write log lines as JSON
    #[arg(long)]
    pub(crate) json_logs: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key; it is shown once and kept as a hash
    Create(CreateKey),
    /// All keys, those that ended too
    List,
    /// End a key: it opens nothing from then on
    Revoke {
        /// The id of the key, or the key itself
        key: String,
    },
    /// Begin without the keys that were made, after their database was lost for good
    Reset {
        /// Yes: forget every key, accepted task and payment
        #[arg(long)]
        forget: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateKey {
    /// A name, for people
    pub(crate) name: String,
    /// In whose name it calls: tasks, memory and receipts of this subscriber
    #[arg(long, value_name = "ID")]
    pub(crate) subscriber: Option<String>,
    /// Which agents it may call, such as 1,2 [default: all]
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// What it may do
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [KeyOperation::Run, KeyOperation::Read])]
    pub(crate) operations: Vec<KeyOperation>,
    /// Requests that it may make in a minute
    #[arg(long, value_name = "N", default_value_t = crate::server_db::keys::RATE)]
    pub(crate) rate: u32,
    /// What its tasks may cost together, in dollars
    #[arg(long, value_name = "USD")]
    pub(crate) budget: Option<f64>,
    /// Days after which it ends by itself
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires: Option<u32>,
}

/// Something a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyOperation {
    /// Give agents tasks, cancel them, and say how good the answers were.
    Run,
    /// Look at agents, skills, memory, receipts and history.
    Read,
    /// Do everything, and see what belongs to any subscriber.
    Operate,
}

impl From<KeyOperation> for Operation {
    fn from(typed: KeyOperation) -> Self {
        match typed {
            KeyOperation::Run => Self::Run,
            KeyOperation::Read => Self::Read,
            KeyOperation::Operate => Self::Operate,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The address of the server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7700")]
    pub(crate) url: String,
    /// The variable that holds a key with the operation operate
    #[arg(long, value_name = "NAME", default_value = "HERM_KEY")]
    pub(crate) key_env: String,
    /// Look once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub(crate) every: u64,
}
