//! The logical hash of a table's rows.
//!
//! A row enters as its column values in declared order, never as bytes of the database file, so page layout, free pages
//! and the write-ahead log do not move the hash. Rows are grouped by id: 256 ids a chunk, 256 chunks a group. When a
//! row changes, its chunk, its group and the list of groups are hashed again.

use super::{feed_text, node};
use crate::ids::Digest;

/// Ids in a chunk, and chunks in a group.
pub const FAN_OUT: i64 = 256;

/// One column value of a row, as [`ChunkHasher::cell`] takes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// SQL's NULL, hashed as a tag byte alone.
    Null,
    /// A signed 64-bit number, hashed in little-endian order.
    Integer(i64),
    /// The UTF-8 bytes of a text, hashed behind their length.
    Text(&'a [u8]),
}

/// Hashes the rows of one chunk, given in ascending id order.
#[derive(Debug, Clone)]
pub struct ChunkHasher {
    hasher: blake3::Hasher,
    scratch: Vec<u8>,
}

impl ChunkHasher {
    /// A chunk of `table`: the ids `chunk * 256` to `chunk * 256 + 255`.
    pub fn new(table: &str, chunk: i64) -> Self {
        let mut hasher = node("herm bundle v1 chunk");
        feed_text(&mut hasher, table);
        hasher.update(&chunk.to_le_bytes());
        Self { hasher, scratch: Vec::with_capacity(4096) }
    }

    /// Adds one column value; a row is its columns in declared order, the id first.
    pub fn cell(&mut self, cell: Cell<'_>) {
        match cell {
            Cell::Null => self.scratch.push(0),
            Cell::Integer(value) => {
                self.scratch.push(1);
                self.scratch.extend_from_slice(&value.to_le_bytes());
            }
            Cell::Text(text) => {
                self.scratch.push(2);
                self.scratch.extend_from_slice(&(text.len() as u64).to_le_bytes());
                self.scratch.extend_from_slice(text);
            }
        }
        // Large updates let BLAKE3 hash several blocks at once.
        if self.scratch.len() >= 64 * 1024 {
            self.hasher.update(&self.scratch);
            self.scratch.clear();
        }
    }

    /// The digest of the chunk, over all cells in the order in which they were added.
    pub fn finish(mut self) -> Digest {
        self.hasher.update(&self.scratch);
        self.hasher.finalize().into()
    }
}

/// The digest of a group from the (chunk number, digest) of its chunks that hold rows.
pub fn group(table: &str, group: i64, chunks: impl IntoIterator<Item = (i64, Digest)>) -> Digest {
    numbered("herm bundle v1 group", table, Some(group), chunks)
}

/// The digest of a table from the (group number, digest) of its groups that hold rows.
pub fn table(table: &str, groups: impl IntoIterator<Item = (i64, Digest)>) -> Digest {
    numbered("herm bundle v1 table", table, None, groups)
}

/// The digest of a part made of tables.
pub fn part(name: &str, tables: impl IntoIterator<Item = (&'static str, Digest)>) -> Digest {
    let mut hasher = node("herm bundle v1 tables");
    feed_text(&mut hasher, name);
    for (table, digest) in tables {
        feed_text(&mut hasher, table);
        hasher.update(digest.bytes());
    }
    hasher.finalize().into()
}

fn numbered(
    context: &'static str,
    table: &str,
    number: Option<i64>,
    below: impl IntoIterator<Item = (i64, Digest)>,
) -> Digest {
    let mut hasher = node(context);
    feed_text(&mut hasher, table);
    if let Some(number) = number {
        hasher.update(&number.to_le_bytes());
    }
    for (index, digest) in below {
        hasher.update(&index.to_le_bytes());
        hasher.update(digest.bytes());
    }
    hasher.finalize().into()
}
