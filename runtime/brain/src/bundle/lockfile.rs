//! `bundle.lock.json`: what a brain is, in one small file.

use super::part::PartDigests;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};

/// The lock format this build reads and writes.
pub const LOCK_SCHEMA: &str = "herm/lock@1";

/// Where a brain came from.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum BrainOrigin {
    /// A canonical agent of this program.
    Seed {
        /// The number of the canonical agent.
        seed: BrainId,
    },
    /// A materialised bundle with a tool whitelist.
    Manifest {
        /// The bundle hash it was checked against, where one was given.
        expected: Option<Digest>,
    },
    /// A directory of files.
    Directory,
    /// Another brain, as it was at a version.
    Fork {
        /// The number of the brain that was copied.
        brain: BrainId,
        /// Its version when it was copied.
        version: u64,
        /// The bundle hash that the original had in that version.
        #[serde(rename = "bundleHash")]
        bundle_hash: Digest,
    },
}

/// The lock of a brain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lockfile {
    /// The name of the format: always [`LOCK_SCHEMA`].
    pub schema: String,
    /// The root over the whole bundle.
    pub bundle_hash: Digest,
    /// 1 when the brain was made, and one more each time the bundle moved.
    pub version: u64,
    /// When the bundle last moved.
    pub last_updated: Timestamp,
    /// The bundle hash of the version before.
    pub parent: Option<Digest>,
    /// One digest a part.
    pub parts: PartDigests,
    /// Where the brain came from.
    pub origin: BrainOrigin,
}

impl Lockfile {
    /// Reads a lock, and says which rule a broken one breaks.
    pub fn parse(text: &[u8]) -> Result<Self> {
        #[derive(serde::Deserialize)]
        struct Probe {
            schema: Option<String>,
        }
        let broken = |source| {
            Error::corrupt("bundle.lock.json is not a lock file")
                .because(source)
                .hint("`herm brain adopt ID` writes it again from memory.db, which keeps it too")
        };
        let probe: Probe = serde_json::from_slice(text).map_err(broken)?;
        match probe.schema.as_deref() {
            Some(LOCK_SCHEMA) => {}
            Some(other) => {
                return Err(Error::corrupt(format!(
                    "bundle.lock.json has the format {other:?}, and this herm reads {LOCK_SCHEMA:?}"
                ))
                .hint("open this brain with the herm that wrote it, or a newer one"));
            }
            None => {
                return Err(Error::corrupt("bundle.lock.json has no schema field")
                    .hint("`herm brain adopt ID` writes it again from memory.db, which keeps it too"));
            }
        }
        serde_json::from_slice(text).map_err(broken)
    }

    /// Whether a file is a lock of another format, which only another herm may touch.
    pub fn is_foreign(text: &[u8]) -> bool {
        let schema = serde_json::from_slice::<serde_json::Value>(text)
            .ok()
            .and_then(|lock| lock.get("schema").and_then(|schema| schema.as_str()).map(str::to_owned));
        schema.is_some_and(|schema| schema != LOCK_SCHEMA)
    }

    /// The file's bytes: 2-space JSON and a final newline.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|source| Error::internal("the lock could not be written as JSON").because(source))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The lock after a step that leads to `parts`, or `None` where the bundle did not move.
    pub fn next(&self, parts: PartDigests, now: Timestamp) -> Option<Self> {
        (parts.root() != self.bundle_hash).then(|| self.follow(self.version, parts, now))
    }

    /// The lock after a step that leads to `parts`, where `version` is the last that the brain ever had.
    pub fn follow(&self, version: u64, parts: PartDigests, now: Timestamp) -> Self {
        Self {
            schema: LOCK_SCHEMA.to_owned(),
            bundle_hash: parts.root(),
            version: version.saturating_add(1),
            last_updated: now,
            parent: Some(self.bundle_hash),
            parts,
            origin: self.origin.clone(),
        }
    }
}
