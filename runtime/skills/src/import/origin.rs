//! What a library records of where its skills come from: shipped with a program, installed from a hub, or
//! part of a plugin. What is not recorded is simply imported.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SkillImportSkipReason, SkippedSkillImport};
use crate::CreatedBy;
use crate::fsio::Root;
use crate::ids::Slug;

/// Names of skills that came with a program, one a line, with a digest after a colon.
const BUNDLED: &str = ".bundled_manifest";
/// What was installed from a hub: `installed` has a field for each skill.
const HUB: &str = ".hub/lock.json";
/// The telemetry sidecar: a record for each skill, with `created_by`.
const SIDECAR: &str = ".usage.json";
/// The largest record that is read.
const MAX_BYTES: u64 = 8 << 20;

/// Reads the records of a library. One that cannot be read is in `skipped`.
pub(super) fn read(root: &Root, skipped: &mut Vec<SkippedSkillImport>) -> BTreeMap<Slug, CreatedBy> {
    let mut origins = BTreeMap::new();
    // The later ones win: a hub knows best what it installed.
    let sidecar = record(root, SIDECAR, skipped, |text| serde_json::from_str(text).map_err(|e| e.to_string()));
    if let Some(Value::Object(records)) = sidecar {
        for (name, record) in records {
            let by = match record.get("created_by").and_then(Value::as_str) {
                Some("plugin") => CreatedBy::Plugin,
                Some("hub") => CreatedBy::Hub,
                Some("bundled") => CreatedBy::Bundled,
                _ => continue,
            };
            note(&mut origins, &name, by);
        }
    }
    for name in record(root, BUNDLED, skipped, |text| Ok(bundled(text))).unwrap_or_default() {
        note(&mut origins, &name, CreatedBy::Bundled);
    }
    let lock: Option<Value> =
        record(root, HUB, skipped, |text| serde_json::from_str(text).map_err(|error| error.to_string()));
    let installed = lock.as_ref().and_then(|lock| lock.get("installed")).and_then(Value::as_object);
    for name in installed.into_iter().flat_map(|installed| installed.keys()) {
        note(&mut origins, name, CreatedBy::Hub);
    }
    origins
}

fn note(origins: &mut BTreeMap<Slug, CreatedBy>, name: &str, by: CreatedBy) {
    if let Some(slug) = name.parse().ok().or_else(|| Slug::from_title(name)) {
        origins.insert(slug, by);
    }
}

fn bundled(text: &str) -> Vec<String> {
    let names = text.lines().map(|line| line.split(':').next().unwrap_or_default().trim());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).map(str::to_owned).collect()
}

/// A record, where there is one and it is what it should be.
fn record<T>(
    root: &Root,
    name: &str,
    skipped: &mut Vec<SkippedSkillImport>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let bytes = match name.parse().and_then(|path| root.read(&path, MAX_BYTES)) {
        Ok(bytes) => bytes.map(String::from_utf8)?.map_err(|_| "it is not UTF-8 text".to_owned()),
        Err(error) => Err(error.message().to_owned()),
    };
    match bytes.and_then(|text| read(&text)) {
        Ok(value) => Some(value),
        Err(why) => {
            let detail = format!("where skills come from is not known: {why}");
            let (path, reason, files) = (name.to_owned(), SkillImportSkipReason::Unreadable, Vec::new());
            skipped.push(SkippedSkillImport { path, slug: None, reason, detail, files });
            None
        }
    }
}
