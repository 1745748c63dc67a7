//! `herm learn report`: what an agent has learned is worth, as Markdown to hand on.

use herm::trial::report;
use herm::{BrainId, Reader, Result};
use serde_json::json;

use crate::commands::to_json;
use crate::config::Settings;
use crate::operations::learning::markdown;
use crate::output::Answer;

pub(super) fn run(settings: &Settings, id: &BrainId) -> Result<Answer> {
    let reader = Reader::open(&settings.layout, id)?;
    let learned = report::of(&reader)?;
    let (version, hash) = (reader.lock().version, reader.lock().bundle_hash);
    let text = markdown(id, version, &learned);
    let mut json = to_json(&learned)?;
    json["id"] = json!(id);
    json["version"] = json!(version);
    json["bundleHash"] = json!(hash);
    Ok(Answer::new(text, json))
}
