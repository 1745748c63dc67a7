//! Restoring a brain: everything is fetched, put together aside and verified before anyone sees it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::chunk::{self, LEAST_BYTES, MAX_CHUNK_BYTES};
use super::cipher::{Cipher, OVERHEAD, What};
use super::head::Head;
use super::manifest::Manifest;
use super::push::retried;
use super::vault::{Missing, Vault, Whereabouts};
use crate::brain::{Arrival, InPlace};
use crate::error::{Error, Result};
use crate::fsio;
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;
use crate::receipt::{Checked, Trusted};

/// Chunks that are on their way at once.
const AT_ONCE: usize = 16;

/// Called with how many of how many chunks have arrived.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Called with the name of a table and some of its rows.
pub type Inspecting = dyn Fn(&str, &[u8]) -> Result<()> + Send + Sync;

/// Looks at the rows of a table before they are put in place, and may refuse them.
#[derive(Clone)]
pub struct Inspect(pub Arc<Inspecting>);

/// What to restore, and how.
#[derive(Clone)]
pub struct Restoring {
    /// The version; the last one where none is given.
    pub version: Option<u64>,
    /// What to do with a brain that is there.
    pub in_place: InPlace,
    /// Whose receipts count.
    pub trusted: Trusted,
    /// How long to wait for whoever holds the brain.
    pub wait: Duration,
    /// Told how far it is.
    pub progress: Option<Progress>,
    /// Looks at the rows.
    pub inspect: Option<Inspect>,
}

impl std::fmt::Debug for Restoring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, in_place, trusted, wait, progress: _, inspect: _ } = self;
        write!(f, "Restoring {{ {version:?}, {in_place:?}, {trusted:?}, {wait:?} }}")
    }
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// The head that was followed.
    pub head: Head,
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

impl Vault {
    /// Restores a brain. On an error nothing is where the brain would be.
    pub async fn restore(&self, layout: &Layout, id: &BrainId, how: &Restoring) -> Result<Restored> {
        let (head, is_last, cipher) = self.wanted_head(layout, id, how.version).await?;
        let bytes = retried(|| self.manifest_bytes(&head, &cipher)).await?;
        let (manifest, _) = Manifest::parse(&bytes)?;
        if how.in_place == InPlace::Refuse && layout.brain(id).symlink_metadata().is_ok() {
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
        let from = retried(|| self.whereabouts(&head)).await?;
        let coming = self.expand(&head, &manifest, &cipher, &from).await?;
        let total = coming.len() as u64;
        let (sender, receiver) = mpsc::channel(AT_ONCE);
        let putting = {
            let (layout, id, how, head) = (layout.clone(), id.clone(), how.clone(), head.clone());
            let cipher = cipher.clone();
            tokio::task::spawn_blocking(move || put_together(&layout, &id, &how, &head, &cipher, &bytes, receiver))
        };
        let fetched = self.fetch((&head, &cipher, &from), coming, sender, how.progress.as_ref()).await;
        let put = putting.await.map_err(|_| Error::internal("restoring was interrupted"))?;
        let (receipts, aside) = match (fetched, put) {
            // Whoever puts together stops when nothing comes any more: then the reason is here.
            (Err(error), _) => return Err(error),
            (Ok(()), put) => put?,
        };
        if is_last {
            self.remember(layout, &self.store.describe(), &head, &Digest::of(&head.to_bytes()?))?;
        }
        Ok(Restored { files: manifest.files(), head, chunks: total, receipts, aside })
    }

    /// The head of the version that is asked for, and whether it is the last one.
    async fn wanted_head(&self, layout: &Layout, id: &BrainId, version: Option<u64>) -> Result<(Head, bool, Cipher)> {
        let Some(last) = self.head_to_trust(layout, id).await? else {
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

    /// Every chunk of rows, in order. Nodes are fetched on the way; they cannot name themselves, for
    /// that their digest would have to be known before their content.
    pub(super) async fn expand(
        &self,
        head: &Head,
        manifest: &Manifest,
        cipher: &Cipher,
        from: &Whereabouts,
    ) -> Result<Vec<Coming>> {
        let mut coming = Vec::new();
        for (at, table) in manifest.tables.iter().enumerate() {
            let before = coming.len();
            // Every chunk but the last of a table has at least so many bytes.
            let most = table.bytes / LEAST_BYTES as u64 + 1;
            for (level, references) in table.levels.iter().enumerate().rev() {
                let mut references = references.clone();
                for below in (1..=level).rev() {
                    let mut nodes = Vec::new();
                    let mut fetching = futures_util::stream::iter(references)
                        .map(|digest| async move { (digest, self.object(head, cipher, from, &digest).await) })
                        .buffered(AT_ONCE);
                    while let Some((digest, object)) = fetching.next().await {
                        let node = cipher.open(&head.brain, What::Chunk { digest: &digest }, &object?)?;
                        nodes.extend(chunk::references(&node, &table.name, below)?);
                        refuse_too_many(nodes.len() as u64, most, &table.name)?;
                    }
                    references = nodes;
                }
                coming.extend(references.into_iter().map(|digest| (at, digest)));
                refuse_too_many((coming.len() - before) as u64, most, &table.name)?;
            }
        }
        Ok(coming)
    }

    /// The object of a chunk.
    pub(super) async fn object(
        &self,
        head: &Head,
        cipher: &Cipher,
        from: &Whereabouts,
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

    async fn fetch(
        &self,
        (head, cipher, from): (&Head, &Cipher, &Whereabouts),
        coming: Vec<Coming>,
        sender: mpsc::Sender<(usize, Digest, Vec<u8>)>,
        progress: Option<&Progress>,
    ) -> Result<()> {
        let total = coming.len() as u64;
        let mut fetching = futures_util::stream::iter(coming)
            .map(|(table, digest)| async move { (table, digest, self.object(head, cipher, from, &digest).await) })
            .buffered(AT_ONCE);
        let mut arrived = 0;
        while let Some((table, digest, object)) = fetching.next().await {
            if sender.send((table, digest, object?)).await.is_err() {
                // Whoever puts together has given up, and says why.
                return Ok(());
            }
            arrived += 1;
            if let Some(progress) = progress {
                progress(arrived, total);
            }
        }
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

/// Puts the brain together aside, verifies it, and gives it its place; how many receipts it has, and where
/// the one went that was there.
fn put_together(
    layout: &Layout,
    id: &BrainId,
    how: &Restoring,
    head: &Head,
    cipher: &Cipher,
    manifest: &[u8],
    coming: mpsc::Receiver<(usize, Digest, Vec<u8>)>,
) -> Result<(u64, Option<PathBuf>)> {
    let (manifest, rims) = Manifest::parse(manifest)?;
    let arrival = Arrival::begin(layout, id, how.wait, manifest.database)?;
    let filled = fill(&arrival, (head, cipher, how), &manifest, &rims, coming)
        .and_then(|()| verify(&arrival, &manifest, &how.trusted));
    match filled {
        Ok(receipts) => arrival.settle_in(layout, how.in_place).map(|aside| (receipts, aside)),
        Err(error) => {
            arrival.abandon();
            Err(error)
        }
    }
}

fn fill(
    arrival: &Arrival,
    (head, cipher, how): (&Head, &Cipher, &Restoring),
    manifest: &Manifest,
    rims: &[&[u8]],
    mut coming: mpsc::Receiver<(usize, Digest, Vec<u8>)>,
) -> Result<()> {
    let expected: Vec<&str> = arrival.tables().iter().map(|table| table.name()).collect();
    let listed: Vec<&str> = manifest.tables.iter().map(|table| table.name.as_str()).collect();
    if expected != listed {
        return Err(broken("the snapshot does not have the tables of its schema".to_owned()));
    }
    let mut left: Vec<(u64, u64)> = manifest.tables.iter().map(|table| (table.rows, table.bytes)).collect();
    let mut put = |at: usize, rows: &[u8]| -> Result<()> {
        let (Some(table), Some(left)) = (arrival.tables().get(at), left.get_mut(at)) else {
            return Err(Error::internal("a table that is not there"));
        };
        let more = || broken(format!("{} has more rows than its manifest says", table.name()));
        if let Some(Inspect(inspect)) = &how.inspect {
            inspect(table.name(), rows)?;
        }
        left.1 = left.1.checked_sub(rows.len() as u64).ok_or_else(more)?;
        let count = arrival.put_rows(table, rows)?;
        left.0 = left.0.checked_sub(count).ok_or_else(more)?;
        Ok(())
    };
    let mut at = 0;
    while let Some((table, digest, object)) = coming.blocking_recv() {
        while at < table {
            put(at, rims.get(at).copied().unwrap_or_default())?;
            at += 1;
        }
        let chunk = cipher.open(&head.brain, What::Chunk { digest: &digest }, &object)?;
        let name = listed.get(table).copied().unwrap_or_default();
        put(table, chunk::body(&chunk, name, 0)?)?;
    }
    for (at, rim) in rims.iter().enumerate().skip(at) {
        put(at, rim)?;
    }
    match left.iter().zip(&listed).find(|(left, _)| **left != (0, 0)) {
        None => Ok(()),
        Some((_, table)) => Err(broken(format!("{table} has fewer rows than its manifest says"))),
    }
}

fn broken(what: String) -> Error {
    Error::corrupt(what).hint("nothing was put in place; restore an earlier version with `herm restore ID --version N`")
}

/// Checks the content against the lock, and the receipts from the first to the last.
fn verify(arrival: &Arrival, manifest: &Manifest, trusted: &Trusted) -> Result<u64> {
    let mut checked = Checked::default();
    arrival.complete(&manifest.lock, &mut |lines| {
        for line in lines {
            let number = checked.receipts + 1;
            checked
                .take_line(line, trusted)
                .map_err(|what| broken(format!("receipt {number} of the snapshot does not hold: {what}")))?;
        }
        Ok(())
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
