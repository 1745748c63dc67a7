//! Chunks: the rows of a table, cut so that a small change moves few of them, and the nodes above.
//!
//! A cut is decided by the rows since the last cut alone, so two readings of the same rows cut alike
//! wherever they begin. References to full chunks are grouped into nodes in the same way, and what is
//! not enough for a node yet stays in the manifest. See `docs/reference/snapshot.md`.

use crate::error::{Error, Result};
use crate::ids::Digest;
use crate::memory::RowPosition;

/// A chunk of rows is not cut before it has this many bytes.
pub(super) const LEAST_BYTES: usize = 16 << 10;
/// A chunk of rows is cut when it has this many bytes.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// The largest chunk there can be: one row that is as large as a row can be.
pub(super) const MAX_CHUNK_BYTES: u64 = 66 << 20;
/// A node has at most this many references.
const MOST_REFERENCES: usize = 256;
/// The most levels of nodes a manifest may have; with 32 references a node, far more than any brain.
pub(super) const MAX_LEVELS: usize = 8;

/// A chunk of rows, known by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) digest: Digest,
    /// Where its last row ends.
    pub(super) end: RowPosition,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// What a chunk begins with: what it is of. Level 0 are rows, above are references.
fn head(table: &str, level: usize) -> Vec<u8> {
    let mut head = vec![u8::try_from(level).unwrap_or(u8::MAX), u8::try_from(table.len()).unwrap_or(u8::MAX)];
    head.extend_from_slice(table.as_bytes());
    head
}

/// The body of a chunk that must be of `table` and `level`.
pub(super) fn body<'c>(chunk: &'c [u8], table: &str, level: usize) -> Result<&'c [u8]> {
    chunk.strip_prefix(head(table, level).as_slice()).ok_or_else(|| {
        Error::corrupt(format!("the snapshot names a chunk for {table} that belongs elsewhere"))
            .hint("restore an earlier snapshot")
    })
}

/// The references in a node.
pub(super) fn references(chunk: &[u8], table: &str, level: usize) -> Result<Vec<Digest>> {
    let body = body(chunk, table, level)?;
    let (digests, rest) = body.as_chunks::<32>();
    if !rest.is_empty() || digests.is_empty() || digests.len() > MOST_REFERENCES {
        return Err(
            Error::corrupt(format!("a node of {table} in the snapshot is not one")).hint("restore an earlier snapshot")
        );
    }
    Ok(digests.iter().map(|digest| Digest::from(*digest)).collect())
}

/// Collects rows until they are a chunk.
#[derive(Debug)]
pub(super) struct Cutter {
    head: usize,
    chunk: Vec<u8>,
    rows: u64,
}

impl Cutter {
    pub(super) fn new(table: &str) -> Self {
        let chunk = head(table, 0);
        Self { head: chunk.len(), chunk, rows: 0 }
    }

    /// Takes a row; whether the chunk is full with it. `key` are the cells of its primary key.
    pub(super) fn take(&mut self, row: &[u8], key: &[u8]) -> bool {
        self.chunk.extend_from_slice(row);
        self.rows += 1;
        let bytes = self.chunk.len() - self.head;
        let marked = || Digest::of(key).bytes()[0].is_multiple_of(4);
        bytes >= MOST_BYTES || (bytes >= LEAST_BYTES && marked())
    }

    /// The full chunk and what is known of it; the cutter is empty afterwards.
    pub(super) fn seal<T>(&mut self, end: RowPosition, put: impl FnOnce(&Digest, &[u8]) -> Result<T>) -> Result<Piece> {
        let digest = Digest::of(&self.chunk);
        put(&digest, &self.chunk)?;
        let bytes = (self.chunk.len() - self.head) as u64;
        let piece = Piece { digest, end, rows: self.rows, bytes };
        self.chunk.truncate(self.head);
        self.rows = 0;
        Ok(piece)
    }

    /// The rows that are no chunk yet.
    pub(super) fn rest(&self) -> (&[u8], u64) {
        (self.chunk.get(self.head..).unwrap_or_default(), self.rows)
    }
}

/// Groups references into nodes, level by level. `put` gets every node; what comes back are the
/// references of each level that are no node yet, the lowest first.
pub(super) fn build_nodes(
    table: &str,
    pieces: Vec<Digest>,
    put: &mut dyn FnMut(&Digest, &[u8]) -> Result<()>,
) -> Result<Vec<Vec<Digest>>> {
    let mut levels = Vec::new();
    let mut items = pieces;
    while !items.is_empty() || levels.is_empty() {
        let node_head = head(table, levels.len() + 1);
        let (mut above, mut open) = (Vec::new(), Vec::new());
        for item in items {
            let ends = item.bytes()[0].is_multiple_of(32);
            open.push(item);
            if ends || open.len() >= MOST_REFERENCES {
                let mut node = node_head.clone();
                for reference in open.drain(..) {
                    node.extend_from_slice(reference.bytes());
                }
                let digest = Digest::of(&node);
                put(&digest, &node)?;
                above.push(digest);
            }
        }
        levels.push(open);
        items = above;
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn digests(count: u32) -> Vec<Digest> {
        (0..count).map(|n| Digest::of(&n.to_le_bytes())).collect()
    }

    fn expand(levels: &[Vec<Digest>], nodes: &BTreeMap<Digest, Vec<u8>>) -> Vec<Digest> {
        let mut found = Vec::new();
        for (level, items) in levels.iter().enumerate().rev() {
            let mut items = items.clone();
            for below in (1..=level).rev() {
                items = items.iter().flat_map(|item| references(&nodes[item], "t", below).unwrap()).collect();
            }
            found.extend(items);
        }
        found
    }

    #[test]
    fn a_tower_holds_its_references_in_order_and_leaves_few_outside() {
        for count in [0, 1, 31, 500, 20_000] {
            let mut nodes = BTreeMap::new();
            let levels = build_nodes("t", digests(count), &mut |digest, node| {
                nodes.insert(*digest, node.to_vec());
                Ok(())
            })
            .unwrap();
            assert_eq!(expand(&levels, &nodes), digests(count));
            assert!(levels.iter().all(|level| level.len() < MOST_REFERENCES) && levels.len() <= MAX_LEVELS);
        }
    }

    #[test]
    fn one_more_reference_makes_few_new_nodes() {
        let made = |count| {
            let mut nodes = Vec::new();
            let put = &mut |digest: &Digest, _: &[u8]| {
                nodes.push(*digest);
                Ok(())
            };
            build_nodes("t", digests(count), put).unwrap();
            nodes
        };
        let (before, after) = (made(20_000), made(20_001));
        assert!(after.iter().filter(|node| !before.contains(node)).count() <= 3);
    }

    #[test]
    fn cuts_meet_again_behind_a_row_that_grew() {
        let cut = |grown: u64| {
            let mut cutter = Cutter::new("t");
            let mut pieces = Vec::new();
            for id in 0..5_000u64 {
                let row = vec![7; if id == grown { 150 } else { 100 }];
                if cutter.take(&row, &id.to_le_bytes()) {
                    let end = RowPosition { key: id.cast_signed(), ordinal: 1 };
                    pieces.push(cutter.seal(end, |_, _| Ok(())).unwrap());
                }
            }
            pieces
        };
        let (before, after) = (cut(u64::MAX), cut(1_000));
        let moved = after.iter().filter(|piece| !before.iter().any(|old| old.end == piece.end)).count();
        assert!(moved < 10, "{moved} of {} cuts moved", after.len());
        assert_eq!(before.last().unwrap().end, after.last().unwrap().end);
    }

    #[test]
    fn a_chunk_is_only_read_as_what_it_is() {
        let mut kept = Vec::new();
        build_nodes("t", digests(100), &mut |_, node| {
            kept = node.to_vec();
            Ok(())
        })
        .unwrap();
        assert!(references(&kept, "t", 1).is_ok());
        assert!(references(&kept, "t", 2).is_err());
        assert!(references(&kept, "u", 1).is_err());
        assert!(body(&kept, "t", 0).is_err());
        assert!(references(&kept[..kept.len() - 1], "t", 1).is_err());
    }
}
