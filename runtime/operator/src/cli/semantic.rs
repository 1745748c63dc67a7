//! `herm semantic` as it is typed.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Semantic {
    /// Make every vector that a brain lacks, of its memory and of its skills; goes on where it was interrupted
    Index {
        /// The agent's number, such as 1
        id: String,
    },
}
