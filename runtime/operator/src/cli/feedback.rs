//! `herm feedback` as it is typed.

use clap::Args;

/// Say how good the answer of a task was: as the operator, or as the subscriber who asked
#[derive(Debug, Args)]
#[command(override_usage = "herm feedback [OPTIONS] [ID] TASK VALUE", allow_negative_numbers = true)]
pub(crate) struct Feedback {
    /// The agent's number, where the task is not to be looked for; the task; and how good its answer was: good, bad, or a
    /// number from 0 (bad) to 1 (good)
    #[arg(value_name = "[ID] TASK VALUE", num_args = 2..=3, required = true)]
    pub(crate) said: Vec<String>,
    /// Why, in at most 500 characters
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// As the subscriber who asked, and not as the operator
    #[arg(long = "as", value_name = "SUBSCRIBER")]
    pub(crate) subscriber: Option<String>,
}
