//! `herm learn` as it is typed.

use clap::{Args, Subcommand};

use super::{LearnBench, OneSkill};

#[derive(Debug, Subcommand)]
pub(crate) enum Learn {
    /// What an agent has learned: each skill that it wrote, where it stands, and what tasks gain by it
    Status {
        /// The agent's number, such as 1
        id: String,
    },
    /// The skills on trial: how far each is, and when it is looked at next
    Trials {
        /// The agent's number, such as 1
        id: String,
    },
    /// One learned skill: both arms of its trial, why it stands where it does, and its last tasks
    Show(OneSkill),
    /// End a trial by hand; unless said otherwise, the skill stays in the index and is put before no task
    Stop(StopTrial),
    /// A report as Markdown: what is learned is worth, with its interval, and what it cost to find out
    Report {
        /// The agent's number, such as 1
        id: String,
    },
    /// Run kept tasks again, with a learned skill and without it, in copies: the pairs may end its trial
    Rehearse(Rehearse),
    /// Measure what learning brings, on families of tasks that are data: yours, or those built in
    Bench(LearnBench),
}

#[derive(Debug, Args)]
pub(crate) struct Rehearse {
    /// The agent's number, such as 1
    pub(crate) id: String,
    /// The skill [default: all that are on trial, one after the other]
    pub(crate) slug: Option<String>,
    /// Rehearse a change that waits in the review queue, by its id: with the skill as it would be, and as it is
    #[arg(long, value_name = "CHANGE", conflicts_with = "slug")]
    pub(crate) change: Option<String>,
    /// At most so many tasks for a skill, each of which runs twice
    #[arg(long, value_name = "TASKS", default_value_t = 12)]
    pub(crate) budget: usize,
    /// Spend at most so many dollars on all of them together; the backend needs a known price
    #[arg(long, value_name = "USD", value_parser = micro_usd)]
    pub(crate) budget_usd: Option<u64>,
    /// Who speaks: a backend of the configuration, or openai, anthropic, openrouter, ollama, local, reflex
    #[arg(long, value_name = "NAME", env = "HERM_BACKEND")]
    pub(crate) backend: Option<String>,
    /// The model to ask for; of `local`, its file or a name that `herm models list` shows
    #[arg(long, env = "HERM_MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StopTrial {
    /// Whose skill, and which
    #[command(flatten)]
    pub(crate) one: OneSkill,
    /// Keep it: it is shown to every task that it fits
    #[arg(long, conflicts_with = "archive")]
    pub(crate) keep: bool,
    /// Archive it: it does not come back by itself
    #[arg(long)]
    pub(crate) archive: bool,
}

/// Dollars as they are typed, in millionths.
fn micro_usd(typed: &str) -> Result<u64, String> {
    let dollars: f64 = typed.parse().map_err(|_| "it is not an amount such as 0.10".to_owned())?;
    match dollars.is_finite() && (0.0..=1_000_000.0).contains(&dollars) {
        true => Ok((dollars * 1e6).round() as u64),
        false => Err("an amount goes from 0 to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::micro_usd;

    #[test]
    fn dollars_are_read_to_the_millionth() {
        assert_eq!((micro_usd("0.10"), micro_usd("2"), micro_usd("0")), (Ok(100_000), Ok(2_000_000), Ok(0)));
        for bad in ["", "-1", "ten", "NaN", "inf", "1e9"] {
            assert!(micro_usd(bad).is_err(), "{bad}");
        }
    }
}
