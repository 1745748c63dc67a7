//! What learning brings, measured on families of tasks that are data.
//!
//! A [`family`] is a directory: a role, tools that answer from a table, tasks with checks, and maybe a skill that a
//! person wrote (`docs/reference/learning-family.md`). Each [`Arm`](arms::Arm) is one way to learn. [`run`] lets every arm learn on
//! the first half of the tasks, freezes it, and measures it on the second; [`table`] counts, [`report`] and [`curves`]
//! show it. Nothing here reads a clock or draws at random: with a model that answers the same every time, the same
//! command gives the same table to the digit.

mod arms;
mod built_in;
mod calls;
#[cfg(test)]
mod committed;
mod compare;
mod curves;
mod demonstrations;
mod family;
mod fixed;
mod locate;
mod replies;
mod report;
mod run;
mod schema;
mod servers;
mod statistics;
mod table;
mod tasks;
mod tool_file;
mod tool_table;

pub(crate) use arms::{ARMS, Arm};
pub(crate) use built_in::{built_in, built_in_names};
pub(crate) use family::Family;
pub(crate) use replies::KeptReplies;
pub(crate) use run::{BenchOptions, Progress, run};
pub(crate) use table::{BenchTable, TaskResult};
