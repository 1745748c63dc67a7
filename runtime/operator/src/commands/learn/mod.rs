//! `herm learn`: what an agent has learned, and whether it helps.

mod bench;
mod rehearse;
mod report;
mod show;
mod status;
mod stop;

use herm::Result;

use crate::cli::Learn;
use crate::config::Settings;
use crate::output::Answer;

pub(super) fn run(settings: &Settings, command: &Learn, quiet: bool) -> Result<Answer> {
    match command {
        Learn::Bench(arguments) => bench::run(settings, arguments, quiet),
        Learn::Status { id } => status::status(settings, &id.parse()?),
        Learn::Trials { id } => status::trials(settings, &id.parse()?),
        Learn::Show(one) => show::run(settings, &one.id.parse()?, &one.slug.parse()?),
        Learn::Stop(arguments) => stop::run(settings, arguments),
        Learn::Rehearse(arguments) => rehearse::run(settings, arguments, quiet),
        Learn::Report { id } => report::run(settings, &id.parse()?),
    }
}
