//! What the last snapshot was made of, kept beside the brain: with it the next one reads and sends
//! only what changed. It is a cache and may be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chunk::Piece;
use crate::error::Result;
use crate::fsio::{Root, SyncTiming};
use crate::ids::Digest;
use crate::layout;
use crate::memory::RowPosition;

const SCHEMA: &str = "herm/snapshot-cache@1";
const MAX_BYTES: u64 = 1 << 30;

/// The chunks of the last snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cache {
    /// Which store, and which key: elsewhere nothing of it is there.
    pub(super) place: String,
    /// The manifest it belongs to.
    pub(super) manifest: Option<Digest>,
    pub(super) tables: BTreeMap<String, TableCache>,
}

/// The chunks of one table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TableCache {
    pub(super) pieces: Vec<Piece>,
    pub(super) nodes: Vec<Digest>,
    /// The digests of its rows, where they are kept.
    pub(super) hashes: BTreeMap<i64, Digest>,
}

impl TableCache {
    /// Everything that is in the store already.
    pub(super) fn known(&self) -> BTreeSet<Digest> {
        self.pieces.iter().map(|piece| piece.digest).chain(self.nodes.iter().copied()).collect()
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    place: String,
    manifest: Option<Digest>,
    tables: Vec<TableHead>,
}

#[derive(Serialize, Deserialize)]
struct TableHead {
    name: String,
    pieces: usize,
    nodes: usize,
    hashes: usize,
}

impl Cache {
    /// The cache of a brain; an empty one where there is none that can be used.
    pub(super) fn load(brain: &Path, place: &str, manifest: Option<&Digest>) -> Self {
        let read = Root::open(brain).and_then(|root| root.read(&layout::rel(layout::SNAPSHOT_CACHE)?, MAX_BYTES));
        let cache = read.ok().flatten().and_then(|bytes| Self::parse(&bytes));
        match cache {
            Some(cache) if cache.place == place && cache.manifest.as_ref() == manifest => cache,
            _ => Self::default(),
        }
    }

    /// Keeps it for the next snapshot.
    pub(super) fn save(&self, brain: &Path) -> Result<()> {
        let root = Root::open(brain)?;
        root.replace(&layout::rel(layout::SNAPSHOT_CACHE)?, &self.to_bytes(), SyncTiming::Later)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let tables = self.tables.iter().map(|(name, table)| TableHead {
            name: name.clone(),
            pieces: table.pieces.len(),
            nodes: table.nodes.len(),
            hashes: table.hashes.len(),
        });
        let head = Head {
            schema: SCHEMA.to_owned(),
            place: self.place.clone(),
            manifest: self.manifest,
            tables: tables.collect(),
        };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        for table in self.tables.values() {
            for piece in &table.pieces {
                bytes.extend_from_slice(piece.digest.bytes());
                for number in [piece.end.key.cast_unsigned(), piece.end.ordinal, piece.rows, piece.bytes] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            }
            for node in &table.nodes {
                bytes.extend_from_slice(node.bytes());
            }
            for (chunk, digest) in &table.hashes {
                bytes.extend_from_slice(&chunk.to_le_bytes());
                bytes.extend_from_slice(digest.bytes());
            }
        }
        let sum = Digest::of(&bytes);
        bytes.extend_from_slice(sum.bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<32>()?;
        if Digest::of(bytes) != Digest::from(*sum) {
            return None;
        }
        let at = bytes.iter().position(|byte| *byte == b'\n')?;
        let head: Head = serde_json::from_slice(bytes.get(..at)?).ok()?;
        if head.schema != SCHEMA {
            return None;
        }
        let mut rest = bytes.get(at + 1..)?;
        let mut tables = BTreeMap::new();
        for table in head.tables {
            let mut read = TableCache::default();
            for _ in 0..table.pieces {
                let digest = digest(&mut rest)?;
                let (key, ordinal) = (number(&mut rest)?.cast_signed(), number(&mut rest)?);
                let (rows, bytes) = (number(&mut rest)?, number(&mut rest)?);
                read.pieces.push(Piece { digest, end: RowPosition { key, ordinal }, rows, bytes });
            }
            for _ in 0..table.nodes {
                read.nodes.push(digest(&mut rest)?);
            }
            for _ in 0..table.hashes {
                read.hashes.insert(number(&mut rest)?.cast_signed(), digest(&mut rest)?);
            }
            tables.insert(table.name, read);
        }
        rest.is_empty().then_some(Self { place: head.place, manifest: head.manifest, tables })
    }
}

fn digest(rest: &mut &[u8]) -> Option<Digest> {
    let (bytes, after) = rest.split_first_chunk::<32>()?;
    *rest = after;
    Some(Digest::from(*bytes))
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_reads_back_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let digest = |n: u8| Digest::of(&[n]);
        let piece = Piece { digest: digest(1), end: RowPosition { key: -5, ordinal: 2 }, rows: 3, bytes: 4 };
        let table =
            TableCache { pieces: vec![piece], nodes: vec![digest(2)], hashes: [(0, digest(3)), (7, digest(4))].into() };
        let cache = Cache {
            place: "somewhere".to_owned(),
            manifest: Some(digest(9)),
            tables: [("steps".to_owned(), table), ("blobs".to_owned(), TableCache::default())].into(),
        };
        cache.save(dir.path()).unwrap();
        assert_eq!(Cache::load(dir.path(), "somewhere", Some(&digest(9))), cache);
        assert_eq!(Cache::load(dir.path(), "elsewhere", Some(&digest(9))), Cache::default());
        assert_eq!(Cache::load(dir.path(), "somewhere", Some(&digest(8))), Cache::default());
        let bytes = cache.to_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Cache::parse(&damaged), None);
        }
    }
}
