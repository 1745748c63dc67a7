//! `manifest.json`: an agent's name and the tools it may call. `docs/reference/manifest.md` describes the format.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::ids::{Digest, RelPath};

/// The manifest format this build reads and writes.
pub const MANIFEST_SCHEMA: &str = "herm/manifest@1";
/// The largest manifest that is read.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// What a brain keeps of its manifest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrainManifest {
    /// The name of the format: always [`MANIFEST_SCHEMA`].
    pub schema: String,
    /// What the agent is called.
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The only tools it may call; absent means that the operator decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The backend that speaks for it, by its name in the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// What holds for a good answer; the page on checks has the forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<serde_json::Value>,
    /// Whether skills that match and the nearest example are put before its tasks, where nobody else says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preload: Option<bool>,
}

/// A manifest as it is handed over: with its files, and the hash they must have.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ManifestBundle {
    schema: String,
    name: String,
    summary: Option<String>,
    tools: Option<Vec<String>>,
    backend: Option<String>,
    checks: Option<serde_json::Value>,
    preload: Option<bool>,
    #[serde(default, deserialize_with = "files_once")]
    pub(super) files: BTreeMap<RelPath, String>,
    pub(super) expected_hash: Option<Digest>,
}

/// A path given twice is refused: which one counts must not depend on the reader.
fn files_once<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<RelPath, String>, D::Error> {
    struct Once;
    impl<'de> serde::de::Visitor<'de> for Once {
        type Value = BTreeMap<RelPath, String>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("files by path")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut files = BTreeMap::new();
            while let Some((path, content)) = map.next_entry::<RelPath, String>()? {
                if files.contains_key(&path) {
                    return Err(serde::de::Error::custom(format!("{path} is given twice")));
                }
                files.insert(path, content);
            }
            Ok(files)
        }
    }
    deserializer.deserialize_map(Once)
}

impl BrainManifest {
    /// Reads the manifest of a brain.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        ManifestBundle::parse(bytes).map(|parcel| parcel.manifest())
    }

    /// The file's bytes: 2-space JSON and a final newline.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|source| Error::internal("the manifest could not be written").because(source))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

impl ManifestBundle {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let parcel: Self = serde_json::from_slice(bytes).map_err(|source| {
            Error::invalid(format!("the manifest is not valid: {source}"))
                .hint("docs/reference/manifest.md has the fields and an example")
        })?;
        if parcel.schema != MANIFEST_SCHEMA {
            return Err(Error::invalid(format!(
                "the manifest has the format {:?}, and this herm reads {MANIFEST_SCHEMA:?}",
                parcel.schema
            ))
            .hint("docs/reference/manifest.md has the fields and an example"));
        }
        if parcel.name.trim().is_empty() || parcel.name.chars().count() > 64 {
            return Err(Error::invalid("a manifest's name must have 1 to 64 characters")
                .hint("for example \"name\": \"AUDIT\""));
        }
        if parcel.name.chars().chain(parcel.summary.iter().flat_map(|text| text.chars())).any(char::is_control) {
            return Err(Error::invalid("a manifest's name and summary are one line each, without control characters")
                .hint("take the line breaks and escapes out"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if let Some(backend) = parcel.backend.as_deref().filter(|name| name.is_empty() || !name.chars().all(plain)) {
            return Err(Error::invalid(format!("{backend:?} is not the name of a backend"))
                .hint("a backend is named by letters, digits, - _ and ."));
        }
        for tool in parcel.tools.iter().flatten() {
            if tool.is_empty() || tool.len() > 64 || !tool.chars().all(plain) {
                return Err(Error::invalid(format!("{tool:?} is not the name of a tool"))
                    .hint("a tool is named by letters, digits, - _ and ."));
            }
        }
        Ok(parcel)
    }

    pub(super) fn manifest(&self) -> BrainManifest {
        BrainManifest {
            schema: self.schema.clone(),
            name: self.name.clone(),
            summary: self.summary.clone(),
            tools: self.tools.clone(),
            backend: self.backend.clone(),
            checks: self.checks.clone(),
            preload: self.preload,
        }
    }
}
