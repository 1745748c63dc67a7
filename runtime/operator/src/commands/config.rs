//! `herm config`: the settings.

use herm::Result;
use serde_json::json;

use super::to_json;
use crate::config::{ConfigFile, Settings};
use crate::output::{Answer, columns};

pub(super) fn schema() -> Result<Answer> {
    let schema = to_json(&schemars::schema_for!(ConfigFile))?;
    Ok(Answer::new(format!("{schema:#}\n"), schema))
}

pub(super) fn show(settings: &Settings) -> Result<Answer> {
    let wait = u64::try_from(settings.lock_wait.as_millis()).unwrap_or(u64::MAX);
    let brains = settings.layout.brains().display().to_string();
    let file = settings.file.as_ref().map(|path| path.display().to_string());
    let text = columns(&[
        vec!["brains".into(), brains.clone()],
        vec!["lock_wait_ms".into(), wait.to_string()],
        vec!["file".into(), file.clone().unwrap_or_else(|| "none".to_owned())],
    ]);
    Ok(Answer::new(text, json!({ "brains": brains, "lock_wait_ms": wait, "file": file })))
}
