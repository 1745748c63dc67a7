//! One file a command. Each takes settings and arguments and returns an [`Answer`].

mod brain;
mod config;
mod doctor;
mod init;
mod memory;
mod skills;
mod validate;

use clap::CommandFactory as _;
use herm::Result;

use crate::cli::{Cli, Command};
use crate::config::Settings;
use crate::output::Answer;

/// Runs the command that was asked for.
pub(crate) fn run(cli: &Cli, settings: &Settings) -> Result<Answer> {
    match &cli.command {
        Command::Init(arguments) => init::run(settings, arguments),
        Command::Brain(command) => brain::run(settings, command),
        Command::Skills(command) => skills::run(settings, command),
        Command::Memory(command) => memory::run(settings, command),
        Command::Doctor => doctor::run(settings),
        Command::Config(command) => config::run(settings, command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "herm", &mut script);
            let script = String::from_utf8_lossy(&script).into_owned();
            let json = serde_json::json!({ "shell": shell.to_string(), "script": script });
            Ok(Answer::new(script, json))
        }
    }
}

/// A value as JSON. Everything given here is plain data.
fn to_json(value: &impl serde::Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(|source| herm::Error::internal("the result is not JSON").because(source))
}
