//! One file a command. Each takes settings and arguments and returns an [`Answer`].

mod brain;
mod config;
mod curate;
mod doctor;
mod evolve;
mod feedback;
mod history;
mod import;
mod init;
mod keys;
mod learn;
mod memory;
mod models;
mod receipts;
mod restore;
mod run;
mod semantic;
mod serve;
mod skill_list;
mod skills;
mod snapshot;
mod successor;
mod top;
mod validate;

use clap::CommandFactory as _;
use herm::Result;
use herm_settings::in_runtime;

use crate::cli::{self, Cli, Command};
use crate::config::Settings;
use crate::operations::to_json;
use crate::output::Answer;

/// Runs the command that was asked for.
pub(crate) fn run(cli: &Cli) -> Result<Answer> {
    // Only what needs settings fails for want of them.
    let settings = || Settings::load(&cli.settings_flags());
    match &cli.command {
        Command::Init(arguments) => init::run(&settings()?, arguments),
        Command::Run(arguments) => run::run(&settings()?, arguments, cli),
        Command::Receipts(command) => receipts::run(&settings()?, command),
        Command::Brain(command) => brain::run(&settings()?, command),
        Command::Skills(cli::Skills::Validate { paths }) => validate::run(paths),
        Command::Skills(command) => skills::run(&settings()?, command),
        Command::Curate { id, dry_run } => curate::run(&settings()?, id, *dry_run),
        Command::Evolve(command) => evolve::run(&settings()?, command),
        Command::Feedback(arguments) => feedback::run(&settings()?, arguments),
        Command::Learn(command) => learn::run(&settings()?, command, cli.quiet),
        Command::Memory(command) => memory::run(&settings()?, command),
        Command::Models(command) => models::run(&settings()?, command),
        Command::Semantic(command) => semantic::run(&settings()?, command, cli.quiet || cli.json),
        Command::Snapshot(command) => snapshot::run(&settings()?, command),
        Command::Successor(command) => successor::run(&settings()?, command),
        Command::Restore(arguments) => restore::restore(&settings()?, arguments, cli.quiet || cli.json),
        Command::Export(arguments) => restore::export(&settings()?, arguments),
        Command::Import(arguments) => restore::import(&settings()?, arguments),
        Command::Serve(arguments) => serve::run(&settings()?, arguments, cli),
        Command::Keys(command) => keys::run(&settings()?, command),
        Command::Top(arguments) => top::run(arguments),
        Command::Mcp => serve::mcp(&settings()?),
        Command::Doctor => doctor::run(&settings()?),
        Command::Config(cli::Config::Schema) => config::schema(),
        Command::Config(cli::Config::Show) => config::show(&settings()?),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "herm", &mut script);
            let script = String::from_utf8_lossy(&script).into_owned();
            let json = serde_json::json!({ "shell": shell.to_string(), "script": script });
            Ok(Answer::new(script, json))
        }
    }
}

/// Lets go of a brain after its step is settled. What could not be finished now does not fail the
/// step: the next command that opens the brain finishes it.
fn finish(brain: herm::Brain) -> Result<Option<String>> {
    let id = brain.id().clone();
    match brain.close() {
        Ok(()) => Ok(None),
        // No later command can finish what stored damage prevents.
        Err(error) if error.kind() == herm::ErrorKind::Corrupt => Err(error),
        Err(error) => Ok(Some(format!(
            "the step is settled, but not all files of brain {id} could be written ({}); the next command finishes it",
            error.message()
        ))),
    }
}
