//! `herm learn stop`: a person ends a trial.

use herm::brain::OnDrift;
use herm::memory::TrialState;
use herm::trial::pass::StoppedTrial;
use herm::{Brain, BrainId, Result, Slug};
use serde_json::json;

use crate::cli::StopTrial;
use crate::commands::{finish, to_json};
use crate::config::Settings;
use crate::operations::learning;
use crate::output::Answer;

pub(super) fn run(settings: &Settings, arguments: &StopTrial) -> Result<Answer> {
    let (id, slug): (BrainId, Slug) = (arguments.one.id.parse()?, arguments.one.slug.parse()?);
    let how = match (arguments.keep, arguments.archive) {
        (true, _) => StoppedTrial::Kept,
        (_, true) => StoppedTrial::Archived,
        (false, false) => StoppedTrial::Unproven,
    };
    settings.while_leased(&id, || {
        let mut brain = Brain::open(&settings.layout, &id, &settings.open_options(OnDrift::Refuse))?;
        let stopped = learning::stop(&mut brain, &slug, how)?;
        let version = brain.lock().version;
        let unfinished = finish(brain)?;
        let text = match stopped.trial.state {
            TrialState::Proven => format!("kept {slug}: it is shown to every task that it fits\n"),
            TrialState::Harmful => format!("archived {slug}; brain {id} is now version {version}\n"),
            TrialState::Trial | TrialState::Unproven => {
                format!("ended the trial of {slug}: it stays in the index and is put before no task\n")
            }
        };
        let mut json = to_json(&stopped)?;
        json["id"] = json!(id);
        Ok(Answer::new(text, json).unfinished(unfinished))
    })
}
