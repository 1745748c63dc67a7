//! A brain at one moment, as a manifest and chunks.

use std::collections::{BTreeMap, BTreeSet};

use super::cache::{Cache, TableCache};
use super::chunk::{self, Cutter, Piece};
use super::manifest::{CONTENTS, FILES, ReceiptHead, SNAPSHOT_SCHEMA, SnapshotManifest, TableEntry};
use crate::brain::{ReadView, Reader, refuse_collisions};
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, RelPath};
use crate::memory::{
    self, ChangePattern, Database, PortableRow, PortableTable, RowPosition, SCHEMA_VERSION, ScanControl,
};

/// A packed brain. Its chunks have been handed over already.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) manifest: SnapshotManifest,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) tables: BTreeMap<String, TableCache>,
}

/// Takes every chunk that is not known yet.
pub(super) type Put<'p> = dyn FnMut(&Digest, &[u8]) -> Result<()> + 'p;

/// Packs a brain as it is at this moment. `put` gets the chunks that `cache` does not have.
pub(super) fn pack(reader: &Reader, cache: &Cache, put: &mut Put<'_>) -> Result<Packed> {
    reader.with_read_view(|moment| pack_moment(reader, moment, cache, put))
}

fn pack_moment(reader: &Reader, moment: &ReadView<'_>, cache: &Cache, put: &mut Put<'_>) -> Result<Packed> {
    let nothing = TableCache::default();
    let files = files(moment.database)?;
    refuse_collisions(files.keys())?;
    let current: BTreeSet<Digest> = files.into_values().collect();
    let (mut entries, mut rims, mut tables) = (Vec::new(), Vec::new(), BTreeMap::new());
    for table in memory::portable_tables(&moment.database.connection)? {
        let old = cache.tables.get(table.name()).unwrap_or(&nothing);
        let cut = cut(
            moment.database,
            &table,
            old,
            &mut Check { id: reader.id(), current: &current, chunks: BTreeSet::new() },
            put,
        )?;
        entries.push(TableEntry {
            name: table.name().to_owned(),
            rows: cut.cache.pieces.iter().map(|piece| piece.rows).sum::<u64>() + cut.rim_rows,
            bytes: cut.cache.pieces.iter().map(|piece| piece.bytes).sum::<u64>() + cut.rim.len() as u64,
            rim: cut.rim.len() as u64,
            levels: cut.levels,
        });
        rims.push(cut.rim);
        tables.insert(table.name().to_owned(), cut.cache);
    }
    let manifest = SnapshotManifest {
        schema: SNAPSHOT_SCHEMA.to_owned(),
        brain: reader.id().clone(),
        lock: moment.lock.clone(),
        receipt: moment.receipt.clone().map(|(seq, sha256)| ReceiptHead { seq, sha256 }),
        database: SCHEMA_VERSION,
        tables: entries,
    };
    let bytes = manifest.to_bytes(&rims)?;
    Ok(Packed { manifest, digest: Digest::of(&bytes), bytes, tables })
}

/// The files of the bundle, by path.
fn files(database: &Database) -> Result<BTreeMap<RelPath, Digest>> {
    let failed = |source| memory::sql("read memory.db", source);
    let mut all = database.connection.prepare_cached(&format!("SELECT path, digest FROM {FILES}")).map_err(failed)?;
    let rows = all.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, [u8; 32]>(1)?))).map_err(failed)?;
    rows.map(|row| row.map_err(failed).and_then(|(path, digest)| Ok((path.parse()?, digest.into())))).collect()
}

/// Sees to it that what is packed can be restored: a snapshot of something else than the lock says would
/// only be found out when it is needed.
struct Check<'c> {
    id: &'c BrainId,
    /// Contents of the files that the brain has now.
    current: &'c BTreeSet<Digest>,
    /// Chunks of content whose rows were read.
    chunks: BTreeSet<i64>,
}

impl Check<'_> {
    fn row(&mut self, table: &PortableTable, row: &PortableRow<'_>) -> Result<()> {
        match table.change_pattern() {
            ChangePattern::Hashed(_) => {
                self.chunks.insert(memory::chunk_of(row.place.key));
                Ok(())
            }
            _ if table.name() == CONTENTS => self.content(row.bytes),
            _ => Ok(()),
        }
    }

    /// A digest and a content, each a cell of a tag, a length and its bytes.
    fn content(&self, row: &[u8]) -> Result<()> {
        let digest = row.get(9..41).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()).map(Digest::from);
        match (digest, row.get(50..)) {
            (Some(digest), Some(content)) if Digest::of(content) == digest => Ok(()),
            // What only the history needs is taken along as it is.
            (Some(digest), _) if !self.current.contains(&digest) => Ok(()),
            _ => Err(Error::corrupt(format!("the journal of brain {} holds damaged content of a file", self.id))
                .hint("restore the brain from an earlier snapshot; nothing was pushed")),
        }
    }

    fn finish(&self, database: &Database, table: &PortableTable) -> Result<()> {
        let ChangePattern::Hashed(hashed) = table.change_pattern() else { return Ok(()) };
        for chunk in &self.chunks {
            if !database.chunk_is_sound(hashed, *chunk)? {
                return Err(Error::corrupt(format!(
                    "brain {} is not what its lock says (rows of {}); nothing was pushed",
                    self.id,
                    table.name()
                ))
                .hint(format!(
                    "see everything with `herm brain verify {0}`; if the edits are yours, take them over with \
                     `herm brain adopt {0}`",
                    self.id
                )));
            }
        }
        Ok(())
    }
}

struct Cut {
    cache: TableCache,
    levels: Vec<Vec<Digest>>,
    rim: Vec<u8>,
    rim_rows: u64,
}

/// Cuts a table into chunks. Where the last snapshot's chunks still stand, they are not read again.
fn cut(
    database: &Database,
    table: &PortableTable,
    old: &TableCache,
    check: &mut Check<'_>,
    put: &mut Put<'_>,
) -> Result<Cut> {
    let known = old.known();
    let mut put_new = |digest: &Digest, chunk: &[u8]| if known.contains(digest) { Ok(()) } else { put(digest, chunk) };
    let hashes = match table.change_pattern() {
        ChangePattern::Hashed(hashed) => database.chunk_digests(hashed)?,
        _ => BTreeMap::new(),
    };
    let clean = clean(database, table, old, &hashes)?;
    let mut cutter = Cutter::new(table.name());
    let mut pieces: Vec<Piece> = Vec::new();
    let mut next = 0;
    loop {
        // Chunks that stand, one after the other.
        while clean.get(next) == Some(&true) {
            pieces.extend(old.pieces.get(next).cloned());
            next += 1;
        }
        // Then rows, until a cut falls where an old one did and the chunk behind it stands.
        let ends: BTreeMap<RowPosition, usize> =
            old.pieces.iter().enumerate().skip(next).map(|(at, piece)| (piece.end, at)).collect();
        let mut met = None;
        let from = pieces.last().map(|piece| piece.end);
        database.read_rows(table, from, &mut |row| {
            check.row(table, &row)?;
            if cutter.take(row.bytes, row.key) {
                pieces.push(cutter.seal(row.place, &mut put_new)?);
                met = ends.get(&row.place).map(|at| at + 1).filter(|at| clean.get(*at) == Some(&true));
            }
            Ok(if met.is_some() { ScanControl::Stop } else { ScanControl::Continue })
        })?;
        match met {
            Some(at) => next = at,
            None => break,
        }
    }
    check.finish(database, table)?;
    let (rest, rim_rows) = cutter.rest();
    let rim = rest.to_vec();
    let mut nodes = Vec::new();
    let references = pieces.iter().map(|piece| piece.digest).collect();
    let levels = chunk::build_nodes(table.name(), references, &mut |digest, node| {
        nodes.push(*digest);
        put_new(digest, node)
    })?;
    Ok(Cut { cache: TableCache { pieces, nodes, hashes }, levels, rim, rim_rows })
}

/// Which chunks of the last snapshot hold the same rows still.
fn clean(
    database: &Database,
    table: &PortableTable,
    old: &TableCache,
    hashes: &BTreeMap<i64, Digest>,
) -> Result<Vec<bool>> {
    let Some(last) = old.pieces.last().filter(|_| table.is_seekable()) else { return Ok(Vec::new()) };
    let all = |stands: bool| vec![stands; old.pieces.len()];
    Ok(match table.change_pattern() {
        ChangePattern::AppendOnly => all(true),
        ChangePattern::AppendAndPrune => {
            let rows: u64 = old.pieces.iter().map(|piece| piece.rows).sum();
            all(database.count_rows(table, last.end)? == rows)
        }
        ChangePattern::Arbitrary => all(false),
        ChangePattern::Hashed(_) => {
            let chunks: BTreeSet<i64> = old.hashes.keys().chain(hashes.keys()).copied().collect();
            let moved: BTreeSet<i64> =
                chunks.into_iter().filter(|chunk| old.hashes.get(chunk) != hashes.get(chunk)).collect();
            let mut from = i64::MIN;
            let mut stands = Vec::new();
            for piece in &old.pieces {
                let until = memory::chunk_of(piece.end.key);
                stands.push(moved.range(from..=until).next().is_none());
                from = memory::chunk_of(piece.end.key.saturating_add(1));
            }
            stands
        }
    })
}
