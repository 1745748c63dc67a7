//! Restoring a brain: everything is fetched, put together aside and verified before anyone sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::cache::{Cache, TableCache};
use super::chunk::{self, LEAST_BYTES, MAX_CHUNK_BYTES, Piece};
use super::cipher::{Cipher, OVERHEAD, ObjectKind};
use super::head::SnapshotHead;
use super::manifest::SnapshotManifest;
use super::push::retried;
use super::vault::{ChunkIndex, Missing, Vault};
use crate::brain::{OnExisting, RestoreTarget};
use crate::error::{Error, Result};
use crate::fsio;
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;
use crate::memory::{ChangePattern, PortableTable, SCHEMA_VERSION};
use crate::receipt::{ChainReport, TrustedKeys};

/// Chunks that are on their way at once.
const AT_ONCE: usize = 16;

/// Called with how many of how many chunks have arrived.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Called with the name of a table and some of its rows.
pub type Inspecting = dyn Fn(&str, &[u8]) -> Result<()> + Send + Sync;

/// Looks at the rows of a table before they are put in place, and may refuse them.
#[derive(Clone)]
pub struct RowInspector(pub Arc<Inspecting>);

/// What to restore, and how.
#[derive(Clone)]
pub struct RestoreOptions {
    /// The version; the last one where none is given.
    pub version: Option<u64>,
    /// What to do with a brain that is there.
    pub in_place: OnExisting,
    /// Whose receipts count; the restore is refused where another key signed one.
    pub trusted: TrustedKeys,
    /// How long to wait for another process that holds the brain.
    pub wait: Duration,
    /// Told how far it is.
    pub progress: Option<Progress>,
    /// Looks at the rows.
    pub inspect: Option<RowInspector>,
}

impl RestoreOptions {
    /// The last version, where no brain is yet, waiting 5 s for another process; receipts of these keys count.
    pub fn new(trusted: TrustedKeys) -> Self {
        Self {
            version: None,
            in_place: OnExisting::Refuse,
            trusted,
            wait: Duration::from_secs(5),
            progress: None,
            inspect: None,
        }
    }
}

impl std::fmt::Debug for RestoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, in_place, trusted, wait, progress: _, inspect: _ } = self;
        write!(f, "RestoreOptions {{ {version:?}, {in_place:?}, {trusted:?}, {wait:?} }}")
    }
}

/// What [`Vault::restore`] put in place.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreReport {
    /// The head that was followed.
    pub head: SnapshotHead,
    /// Files of the brain.
    pub files: u64,
    /// Chunks that were fetched.
    pub chunks: u64,
    /// Receipts that were verified.
    pub receipts: u64,
    /// Where the brain went that was there.
    pub aside: Option<PathBuf>,
}

/// A chunk that is to come: the table it belongs to, and its digest.
type Coming = (usize, Digest);

/// What the fetching task hands to the thread that puts the brain together.
#[derive(Debug)]
enum FetchEvent {
    /// A chunk of a table, opened and checked.
    Chunk { table: usize, digest: Digest, content: Vec<u8> },
    /// Everything has come. Without this nothing may be put in place.
    All,
}

/// Everything that a snapshot is made of, beside its manifest.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    /// Every chunk of rows, table by table, in order.
    pub(super) chunks: Vec<Coming>,
    /// Every node above them.
    pub(super) nodes: Vec<Coming>,
}

impl Vault {
    /// Restores a brain. On an error nothing is where the brain would be.
    pub async fn restore(&self, layout: &Layout, id: &BrainId, how: &RestoreOptions) -> Result<RestoreReport> {
        let (head, is_last, cipher) = self.wanted_head(layout, id, how.version).await?;
        let restored = self.restore_head(layout, &head, &cipher, how).await?;
        if is_last {
            self.remember(layout, &self.store.describe(), &head, &Digest::of(&head.to_bytes()?))?;
        }
        Ok(restored)
    }

    /// Restores what a head points to.
    pub(super) async fn restore_head(
        &self,
        layout: &Layout,
        head: &SnapshotHead,
        cipher: &Cipher,
        how: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let id = &head.brain;
        let bytes = retried(|| self.manifest_bytes(head, cipher)).await?;
        let (manifest, _) = SnapshotManifest::parse(&bytes)?;
        if how.in_place == OnExisting::Refuse && layout.brain(id).symlink_metadata().is_ok() {
            return Err(Error::conflict(format!("brain {id} is already there"))
                .hint("restore it into another directory with --into, or set it aside with --replace"));
        }
        fsio::create_dirs(layout.brains())?;
        // Rows, their indexes and the files: rarely more than three times the rows.
        let (free, needed) = (fsio::free_bytes(layout.brains())?, manifest.bytes().saturating_mul(3));
        if free < needed {
            return Err(Error::unavailable(format!("restoring brain {id} takes {needed} bytes, and {free} are free"))
                .hint("free some space and try again"));
        }
        let from = retried(|| self.whereabouts(head)).await?;
        let Expanded { chunks: mut coming, nodes } = self.expand(head, &manifest, cipher, &from).await?;
        let rank = |(at, _): &Coming| manifest.tables.get(*at).map(|table| RestoreTarget::rank(&table.name));
        coming.sort_by_key(rank);
        let total = coming.len() as u64;
        let (sender, receiver) = mpsc::channel(AT_ONCE);
        // What comes out of a file is pushed nowhere from there.
        let place = self.remembers.then(|| self.place_of(cipher));
        let putting = {
            let (layout, id, how) = (layout.clone(), id.clone(), how.clone());
            let cached = Cached { place, manifest: head.manifest, nodes };
            tokio::task::spawn_blocking(move || put_together(&layout, &id, &how, &bytes, receiver, cached))
        };
        let fetched = self.fetch((head, cipher, &from), coming, sender, how.progress.as_ref()).await;
        let put = putting.await.map_err(|_| Error::internal("restoring was interrupted"))?;
        let (receipts, aside) = match (fetched, put) {
            // The thread that puts the brain together stops when nothing comes any more: then the reason is here.
            (Err(error), _) => return Err(error),
            (Ok(()), put) => put?,
        };
        Ok(RestoreReport { files: manifest.files(), head: head.clone(), chunks: total, receipts, aside })
    }

    /// The head of the version that is asked for, and whether it is the last one.
    async fn wanted_head(
        &self,
        layout: &Layout,
        id: &BrainId,
        version: Option<u64>,
    ) -> Result<(SnapshotHead, bool, Cipher)> {
        let Some(last) = self.trusted_head(layout, id).await? else {
            return Err(Error::not_found(format!("{} has no snapshot of brain {id}", self.store.describe()))
                .hint("check the number and the store"));
        };
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let Some(version) = version.filter(|version| *version != last.version) else { return Ok((last, true, cipher)) };
        let heads = self.heads(id).await?;
        let found = heads.iter().rev().find(|head| head.version == version).cloned();
        let head = found.ok_or_else(|| {
            Error::not_found(format!("there is no snapshot of version {version} of brain {id}"))
                .hint(format!("see which there are with `herm snapshot list {id}`"))
        })?;
        cipher.check_head(&head)?;
        Ok((head, false, cipher))
    }

    /// Every chunk of rows, in order, and every node. Nodes are fetched on the way; they cannot name themselves, for
    /// that their digest would have to be known before their content.
    pub(super) async fn expand(
        &self,
        head: &SnapshotHead,
        manifest: &SnapshotManifest,
        cipher: &Cipher,
        from: &ChunkIndex,
    ) -> Result<Expanded> {
        let Expanded { chunks: mut coming, nodes: mut above } = Expanded::default();
        for (at, table) in manifest.tables.iter().enumerate() {
            let before = coming.len();
            // Every chunk but the last of a table has at least so many bytes.
            let most = table.bytes / LEAST_BYTES as u64 + 1;
            for (level, references) in table.levels.iter().enumerate().rev() {
                let mut references = references.clone();
                for below in (1..=level).rev() {
                    let mut nodes = Vec::new();
                    above.extend(references.iter().map(|digest| (at, *digest)));
                    let mut fetching = futures_util::stream::iter(references)
                        .map(|digest| async move { (digest, self.object(head, cipher, from, &digest).await) })
                        .buffered(AT_ONCE);
                    while let Some((digest, object)) = fetching.next().await {
                        let node = cipher.open(&head.brain, ObjectKind::Chunk { digest: &digest }, &object?)?;
                        nodes.extend(chunk::references(&node, &table.name, below)?);
                        refuse_too_many(nodes.len() as u64, most, &table.name)?;
                    }
                    references = nodes;
                }
                coming.extend(references.into_iter().map(|digest| (at, digest)));
                refuse_too_many((coming.len() - before) as u64, most, &table.name)?;
            }
        }
        Ok(Expanded { chunks: coming, nodes: above })
    }

    /// The object of a chunk.
    pub(super) async fn object(
        &self,
        head: &SnapshotHead,
        cipher: &Cipher,
        from: &ChunkIndex,
        digest: &Digest,
    ) -> Result<Vec<u8>> {
        let at = from.name(&head.brain, &cipher.name(digest))?;
        let found = retried(|| self.store.get(&at, MAX_CHUNK_BYTES + OVERHEAD)).await?;
        found.ok_or_else(|| {
            Error::corrupt(format!(
                "chunk {} of version {} of brain {} is missing in the store",
                digest.short(),
                head.version,
                head.brain
            ))
            .hint("put it back from a copy of the store, or restore an earlier version with `herm restore ID --version N`")
        })
    }

    /// A chunk, opened on a thread where it keeps nobody waiting.
    async fn chunk(&self, head: &SnapshotHead, cipher: &Cipher, from: &ChunkIndex, digest: Digest) -> Result<Vec<u8>> {
        let object = self.object(head, cipher, from, &digest).await?;
        let (brain, cipher) = (head.brain.clone(), cipher.clone());
        let opening =
            tokio::task::spawn_blocking(move || cipher.open(&brain, ObjectKind::Chunk { digest: &digest }, &object));
        opening.await.map_err(|_| Error::internal("opening a chunk was interrupted"))?
    }

    async fn fetch(
        &self,
        (head, cipher, from): (&SnapshotHead, &Cipher, &ChunkIndex),
        coming: Vec<Coming>,
        sender: mpsc::Sender<FetchEvent>,
        progress: Option<&Progress>,
    ) -> Result<()> {
        let total = coming.len() as u64;
        let mut fetching = futures_util::stream::iter(coming)
            .map(|(table, digest)| async move {
                let content = self.chunk(head, cipher, from, digest).await?;
                Ok::<FetchEvent, Error>(FetchEvent::Chunk { table, digest, content })
            })
            .buffered(AT_ONCE);
        let mut arrived = 0;
        while let Some(came) = fetching.next().await {
            if sender.send(came?).await.is_err() {
                // The thread that puts the brain together has given up, and says why.
                return Ok(());
            }
            arrived += 1;
            if let Some(progress) = progress {
                progress(arrived, total);
            }
        }
        // The thread that puts the brain together may have given up by now, and says why.
        let _ = sender.send(FetchEvent::All).await;
        Ok(())
    }
}

fn refuse_too_many(found: u64, most: u64, table: &str) -> Result<()> {
    if found <= most {
        return Ok(());
    }
    Err(Error::corrupt(format!("the snapshot names more chunks for {table} than its rows can fill"))
        .hint("restore an earlier version with `herm restore ID --version N`"))
}

/// What the next push has to know: where the chunks went, and which nodes there are.
#[derive(Debug)]
struct Cached {
    place: Option<String>,
    manifest: Digest,
    nodes: Vec<Coming>,
}

/// Puts the brain together aside, verifies it, and gives it its place; how many receipts it has, and where
/// the one went that was there.
fn put_together(
    layout: &Layout,
    id: &BrainId,
    how: &RestoreOptions,
    manifest: &[u8],
    coming: mpsc::Receiver<FetchEvent>,
    cached: Cached,
) -> Result<(u64, Option<PathBuf>)> {
    let (manifest, rims) = SnapshotManifest::parse(manifest)?;
    let mut arrival = begin(layout, id, how.wait, &manifest)?;
    // Others may have restored it while this one waited for them.
    if how.in_place == OnExisting::Refuse && layout.brain(id).symlink_metadata().is_ok() {
        arrival.abandon();
        return Err(Error::conflict(format!(
            "brain {id} has come into place meanwhile; someone else restored or made it"
        ))
        .hint(format!("it is there: see it with `herm brain show {id}`, or set it aside with --replace")));
    }
    let filled = fill(&mut arrival, how.inspect.as_ref(), &manifest, &rims, coming).and_then(|pieces| {
        let receipts = verify(&mut arrival, &manifest, &how.trusted)?;
        keep_cache(&arrival, &manifest, pieces, cached);
        Ok(receipts)
    });
    match filled {
        Ok(receipts) => arrival.install(layout, how.in_place).map(|aside| (receipts, aside)),
        Err(error) => {
            arrival.abandon();
            Err(error)
        }
    }
}

fn begin(layout: &Layout, id: &BrainId, wait: Duration, manifest: &SnapshotManifest) -> Result<RestoreTarget> {
    let searched = manifest.tables.iter().filter(|table| RestoreTarget::is_searched(&table.name));
    RestoreTarget::begin(layout, id, wait, manifest.database, searched.map(|table| table.bytes).sum())
}

/// Puts the rows of all tables into their places; the chunks of each table.
fn fill(
    arrival: &mut RestoreTarget,
    inspect: Option<&RowInspector>,
    manifest: &SnapshotManifest,
    rims: &[&[u8]],
    mut coming: mpsc::Receiver<FetchEvent>,
) -> Result<Vec<Vec<Piece>>> {
    let tables: Vec<PortableTable> = arrival.tables().to_vec();
    if !tables.iter().map(PortableTable::name).eq(manifest.tables.iter().map(|table| table.name.as_str())) {
        return Err(broken("the snapshot does not have the tables of its schema".to_owned()));
    }
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by_key(|at| tables.get(*at).map(|table| RestoreTarget::rank(table.name())));
    let mut pieces = vec![Vec::new(); tables.len()];
    let mut next = coming.blocking_recv();
    for at in order {
        let (Some(table), Some(entry), Some(found)) = (tables.get(at), manifest.tables.get(at), pieces.get_mut(at))
        else {
            return Err(Error::internal("a table that is not there"));
        };
        let more = || broken(format!("{} has more rows than its manifest says", table.name()));
        let (mut rows_left, mut bytes_left, mut end) = (entry.rows, entry.bytes, None);
        let mut put = |rows: &[u8]| -> Result<Option<Piece>> {
            if let Some(RowInspector(inspect)) = inspect {
                inspect(table.name(), rows)?;
            }
            let bytes = rows.len() as u64;
            bytes_left = bytes_left.checked_sub(bytes).ok_or_else(more)?;
            let rows = arrival.put_rows(table, rows, &mut end)?;
            rows_left = rows_left.checked_sub(rows).ok_or_else(more)?;
            Ok(end.map(|end| Piece { digest: Digest::from([0; 32]), end, rows, bytes }))
        };
        let is_next = |came: &mut FetchEvent| matches!(came, FetchEvent::Chunk { table, .. } if *table == at);
        while let Some(FetchEvent::Chunk { digest, content, .. }) = next.take_if(is_next) {
            let piece = put(chunk::body(&content, table.name(), 0)?)?;
            found.extend(piece.map(|piece| Piece { digest, ..piece }));
            next = coming.blocking_recv();
        }
        put(rims.get(at).copied().unwrap_or_default())?;
        if (rows_left, bytes_left) != (0, 0) {
            return Err(broken(format!("{} has fewer rows than its manifest says", table.name())));
        }
        arrival.table_is_full(table);
    }
    match next {
        Some(FetchEvent::All) => Ok(pieces),
        // The task that fetches has the reason.
        _ => Err(Error::unavailable("not everything has come").hint("try again")),
    }
}

/// Keeps what the next push needs to send only what changed.
fn keep_cache(arrival: &RestoreTarget, manifest: &SnapshotManifest, pieces: Vec<Vec<Piece>>, cached: Cached) {
    // Rows of an earlier schema are about to become others.
    let Some(place) = cached.place.filter(|_| manifest.database == SCHEMA_VERSION) else { return };
    let saved = pieces.into_iter().enumerate().zip(arrival.tables()).map(|((at, pieces), table)| {
        let nodes = cached.nodes.iter().filter(|(of, _)| *of == at).map(|(_, digest)| *digest).collect();
        let hashes = match table.change_pattern() {
            ChangePattern::Hashed(hashed) => arrival.chunk_digests(hashed)?,
            _ => BTreeMap::new(),
        };
        Ok((table.name().to_owned(), TableCache { pieces, nodes, hashes }))
    });
    let saved = saved
        .collect::<Result<_>>()
        .and_then(|tables| Cache { place, manifest: Some(cached.manifest), tables }.save(arrival.staging()));
    if let Err(error) = saved {
        // Only a cache: without it the next snapshot reads and sends everything.
        tracing::debug!(%error, "the cache of snapshots was not kept");
    }
}

fn broken(what: String) -> Error {
    Error::corrupt(what).hint("nothing was put in place; restore an earlier version with `herm restore ID --version N`")
}

/// Checks the content against the lock, and the receipts from the first to the last.
fn verify(arrival: &mut RestoreTarget, manifest: &SnapshotManifest, trusted: &TrustedKeys) -> Result<u64> {
    let mut checked = ChainReport::default();
    arrival.complete(&manifest.lock, &mut |line| {
        let number = checked.receipts + 1;
        checked
            .take_line(line, trusted)
            .map_err(|what| broken(format!("receipt {number} of the snapshot does not hold: {what}")))
    })?;
    let said = manifest.receipt.as_ref().map(|receipt| (receipt.seq, receipt.sha256.as_str()));
    let found = checked.last.as_deref().map(|last| (checked.receipts, last));
    let Some(found) = found else {
        return Err(Error::refused("the snapshot has no receipts: nobody signed what is in it")
            .hint("only brains whose steps are signed can be restored"));
    };
    if Some(found) != said {
        return Err(broken("the last receipt of the snapshot is not the one its manifest names".to_owned()));
    }
    let ends = (checked.brain.as_deref(), checked.version, checked.after.as_deref());
    let hash = manifest.lock.bundle_hash.to_string();
    if ends != (Some(manifest.brain.as_str()), manifest.lock.version, Some(hash.as_str())) {
        return Err(broken("the receipts of the snapshot end at another state than its lock".to_owned()));
    }
    Ok(checked.receipts)
}
