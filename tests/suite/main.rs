//! One file a promise. The crash suites are a program of their own (`tests/crash`).

mod backends;
mod bad_input;
mod brain;
mod bundle;
mod by_the_pages;
mod cli;
mod concurrency;
mod curator;
mod damage;
mod evidence;
mod evolver;
mod feedback_command;
mod first_edition;
mod guard;
mod harness;
mod layers;
mod learn_bench;
mod learn_commands;
mod ledger;
mod looking;
mod lost_steps;
mod machine;
mod memory;
#[cfg(not(feature = "local"))]
mod models;
mod outcomes;
mod public_api;
mod recall;
mod retrials;
mod run_command;
mod seeds;
mod skill_commands;
mod skill_documents;
mod skill_files;
mod skill_import;
mod skill_index;
mod skill_shelf;
mod skills;
mod spans;
mod terminal;
mod trials;
mod verifiers;
mod writers;

/// The `herm` command under test.
const HERM: &str = env!("CARGO_BIN_EXE_herm-under-test");
/// The process that settles, holds or dies.
const CHILD: &str = env!("CARGO_BIN_EXE_crash-child");
/// Starts a program as a terminal's own.
const ON_TERMINAL: &str = env!("CARGO_BIN_EXE_on-terminal");
