//! `herm config`: the settings.

use herm::Result;
use serde_json::json;

use super::to_json;
use crate::cli;
use crate::config::{File, Settings};
use crate::output::{Answer, columns};

pub(super) fn run(settings: &Settings, command: &cli::Config) -> Result<Answer> {
    match command {
        cli::Config::Schema => {
            let schema = to_json(&schemars::schema_for!(File))?;
            Ok(Answer::new(format!("{schema:#}\n"), schema))
        }
        cli::Config::Show => {
            let wait = u64::try_from(settings.lock_wait.as_millis()).unwrap_or(u64::MAX);
            let brains = settings.layout.brains();
            let file = settings.file.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
            let text = columns(&[
                vec!["brains".into(), brains.display().to_string()],
                vec!["lock_wait_ms".into(), wait.to_string()],
                vec!["file".into(), file],
            ]);
            Ok(Answer::new(text, json!({ "brains": brains, "lock_wait_ms": wait, "file": settings.file })))
        }
    }
}
