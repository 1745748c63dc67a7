//! The manifest: what a snapshot is of, and where everything in it is. See `docs/reference/snapshot.md`.

use serde::{Deserialize, Serialize};

use super::chunk::{MAX_LEVELS, MOST_BYTES};
use crate::bundle::Lockfile;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};

/// The format this build reads and writes.
pub const SNAPSHOT_SCHEMA: &str = "herm/snapshot@1";
/// No manifest is larger.
pub(super) const MAX_MANIFEST_BYTES: u64 = 8 << 20;
/// Tables a manifest may list.
const MAX_TABLES: usize = 64;
/// Rows a snapshot may hold.
const MAX_ROWS: u64 = 200_000_000;
/// Bytes of rows a snapshot may hold.
const MAX_BYTES: u64 = 64 << 30;
/// Files a brain may hold.
pub(super) const MAX_FILES: u64 = 50_000;
/// The table of files.
pub(super) const FILES: &str = "entries";
/// The table of their contents.
pub(super) const CONTENTS: &str = "blobs";

/// The last receipt of a brain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptHead {
    /// The number of the receipt among those of its brain.
    pub seq: u64,
    /// The digest of its statement.
    pub sha256: String,
}

/// A table in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// The name of the table in the snapshot.
    pub name: String,
    /// How many rows it has.
    pub rows: u64,
    /// How many bytes they are.
    pub bytes: u64,
    /// How many of these bytes stand in the manifest itself: the last rows, not enough for a chunk.
    pub rim: u64,
    /// References that are no node yet, level by level: chunks of rows first, then nodes.
    pub levels: Vec<Vec<Digest>>,
}

/// What a snapshot is of, and where everything in it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotManifest {
    /// The format, [`SNAPSHOT_SCHEMA`]; a manifest with any other is refused.
    pub schema: String,
    /// The brain that the snapshot is of.
    pub brain: BrainId,
    /// Its lock: version, bundle hash, parent, parts.
    pub lock: Lockfile,
    /// The last receipt among the rows; nothing where the brain has none.
    pub receipt: Option<ReceiptHead>,
    /// The schema of `memory.db` that the rows are of.
    pub database: i64,
    /// Its tables, by name.
    pub tables: Vec<TableEntry>,
}

impl SnapshotManifest {
    /// The bytes: one line of JSON, then the rims of the tables in their order.
    pub(super) fn to_bytes(&self, rims: &[Vec<u8>]) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)
            .map_err(|source| Error::internal("a manifest cannot be written").because(source))?;
        bytes.push(b'\n');
        bytes.extend(rims.iter().flatten());
        Ok(bytes)
    }

    /// Reads a manifest and checks every limit; nothing it names has been fetched yet.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, Vec<&[u8]>)> {
        let at = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| broken("it has no first line"))?;
        let (line, mut rest) = bytes.split_at(at);
        rest = rest.get(1..).unwrap_or_default();
        let manifest: Self = serde_json::from_slice(line).map_err(|source| broken(&source.to_string()))?;
        manifest.check()?;
        let mut rims = Vec::new();
        for table in &manifest.tables {
            let rim = usize::try_from(table.rim).ok().and_then(|rim| rest.split_at_checked(rim));
            let (rim, after) = rim.ok_or_else(|| broken("it is cut short"))?;
            rims.push(rim);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(broken("something stands after its last row"));
        }
        Ok((manifest, rims))
    }

    fn check(&self) -> Result<()> {
        if self.schema != SNAPSHOT_SCHEMA {
            return Err(Error::corrupt(format!(
                "the snapshot has the format {:?}, and this herm reads {SNAPSHOT_SCHEMA:?}",
                self.schema
            ))
            .hint("restore it with the herm that wrote it, or a newer one"));
        }
        if self.lock.bundle_hash != self.lock.parts.root() || self.lock.version == 0 {
            return Err(broken("its lock is not one"));
        }
        if self.tables.len() > MAX_TABLES {
            return Err(broken(&format!("it lists {} tables, and {MAX_TABLES} are the most", self.tables.len())));
        }
        let (mut rows, mut bytes) = (0u64, 0u64);
        for (at, table) in self.tables.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| self.tables.get(before));
            if before.is_some_and(|before| before.name >= table.name) {
                return Err(broken("its tables are not in order, or one is there twice"));
            }
            if table.levels.len() > MAX_LEVELS || table.rim > MOST_BYTES as u64 || table.rim > table.bytes {
                return Err(broken(&format!("its table {} cannot be", table.name)));
            }
            rows = rows.saturating_add(table.rows);
            bytes = bytes.saturating_add(table.bytes);
        }
        if rows > MAX_ROWS || bytes > MAX_BYTES {
            return Err(broken(&format!(
                "it would be {rows} rows of {bytes} bytes, which is more than a brain can be"
            )));
        }
        if self.files() > MAX_FILES {
            return Err(broken(&format!("it lists {} files, and a brain holds at most {MAX_FILES}", self.files())));
        }
        Ok(())
    }

    /// How many files the brain has.
    pub fn files(&self) -> u64 {
        self.tables.iter().find(|table| table.name == FILES).map_or(0, |table| table.rows)
    }

    /// How many bytes its rows are.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}

fn broken(what: &str) -> Error {
    Error::corrupt(format!("the manifest of the snapshot is broken: {what}"))
        .hint("restore an earlier snapshot with --version")
}
