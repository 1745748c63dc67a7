//! Pushing a brain to a vault: pack, upload what is new, then move the head.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::cache::Cache;
use super::cipher::{Cipher, OVERHEAD, ObjectKind};
use super::head::{self, Commit, HEAD_SCHEMA, HeadWriter, SnapshotHead};
use super::manifest::MAX_MANIFEST_BYTES;
use super::pack::{Packed, pack};
use super::store::{ObjectName, Store};
use super::vault::{Missing, Vault, chunk_name};
use crate::brain::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;

/// Objects that are on their way to the store at once.
const AT_ONCE: usize = 16;
/// How often a push begins anew because someone else on this machine was faster.
const ROUNDS: usize = 5;
/// How often one object is tried.
const TRIES: u32 = 4;

/// What a push did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushReport {
    /// The store's head after the push: the new one, or the one that had this very snapshot.
    pub head: SnapshotHead,
    /// Whether it moved; not, where the store had this very snapshot.
    pub moved: bool,
    /// Objects that were uploaded.
    pub objects: u64,
    /// Bytes of the objects that were uploaded.
    pub bytes: u64,
}

/// How a push knows what is in the store already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DedupSource {
    /// From the push before: only what changed is read.
    ByCache,
    /// From a list of what there is: everything is read, and what is missing is put back.
    ByListing,
}

impl Vault {
    /// Pushes a brain as it is now. `Conflict` where the store's head is one this brain has never been
    /// at: someone else took the brain further, and what was done here since must be done again there.
    pub async fn push(&self, layout: &Layout, id: &BrainId) -> Result<PushReport> {
        self.push_knowing(layout, id, DedupSource::ByCache).await
    }

    /// Refuses a brain that was taken further elsewhere: what is done with it here would lose.
    pub async fn refuse_behind(&self, layout: &Layout, id: &BrainId) -> Result<()> {
        let Some(head) = self.trusted_head(layout, id).await? else { return Ok(()) };
        let (layout, id) = (layout.clone(), id.clone());
        let looked = tokio::task::spawn_blocking(move || refuse_fenced(&Reader::open(&layout, &id)?, &head)).await;
        looked.map_err(|_| Error::internal("looking at a brain was interrupted"))?
    }

    /// The same, but looks whether every object of it is in the store, and puts back those that are not.
    pub async fn push_whole(&self, layout: &Layout, id: &BrainId) -> Result<PushReport> {
        self.push_knowing(layout, id, DedupSource::ByListing).await
    }

    async fn push_knowing(&self, layout: &Layout, id: &BrainId, knowing: DedupSource) -> Result<PushReport> {
        let cipher = self.cipher(id, Missing::Make).await?;
        let describe = self.store.describe();
        let (mut objects, mut bytes) = (0, 0);
        for _ in 0..ROUNDS {
            let last = self.last(layout, id, &cipher).await?;
            let base = last.as_ref().map(|(head, _)| head.clone());
            let (packed, sent) = self.pack_and_send(layout, id, base, &cipher, knowing).await?;
            objects += sent.objects;
            bytes += sent.bytes;
            if let Some((head, digest)) = &last
                && head.manifest == packed.digest
            {
                self.remember(layout, &describe, head, digest)?;
                if knowing == DedupSource::ByListing {
                    let name = head::place(id, &head.object)?;
                    if retried(|| self.store.get(&name, MAX_MANIFEST_BYTES + OVERHEAD)).await?.is_none() {
                        let object = self.seal_manifest(&cipher, head, &packed)?;
                        objects += 1;
                        bytes += object.len() as u64;
                        retried(|| self.store.put(&name, object.clone())).await?;
                    }
                    self.store.sync().await?;
                }
                return Ok(PushReport { head: head.clone(), moved: false, objects, bytes });
            }
            let head = cipher.sealed_head(self.next_head(last.as_ref(), &packed)?)?;
            let name = head::place(id, &head.object)?;
            let object = self.seal_manifest(&cipher, &head, &packed)?;
            objects += 1;
            bytes += object.len() as u64;
            retried(|| self.store.put(&name, object.clone())).await?;
            self.keep_key(id, &cipher).await?;
            self.store.sync().await?;
            if head::commit(&*self.store, &head).await? == Commit::Lost {
                continue;
            }
            self.remember(layout, &describe, &head, &Digest::of(&head.to_bytes()?))?;
            let cache = Cache { place: self.place_of(&cipher), manifest: Some(packed.digest), tables: packed.tables };
            if let Err(error) = cache.save(&layout.brain(id)) {
                // Only a cache: without it the next snapshot reads everything.
                tracing::debug!(brain = %id, %error, "the cache of snapshots was not kept");
            }
            return Ok(PushReport { head, moved: true, objects, bytes });
        }
        Err(Error::unavailable(format!("others push brain {id} all the time")).hint("try again later"))
    }

    /// Pushes a brain to a store that is empty and stays on its own: nothing is remembered of it.
    pub(super) async fn export_to(&self, layout: &Layout, id: &BrainId) -> Result<SnapshotHead> {
        let cipher = self.cipher(id, Missing::Make).await?;
        let (packed, _) = self.pack_and_send(layout, id, None, &cipher, DedupSource::ByCache).await?;
        let head = cipher.sealed_head(self.next_head(None, &packed)?)?;
        self.store.put(&head::place(id, &head.object)?, self.seal_manifest(&cipher, &head, &packed)?).await?;
        head::commit(&*self.store, &head).await?;
        Ok(head)
    }

    fn seal_manifest(&self, cipher: &Cipher, head: &SnapshotHead, packed: &Packed) -> Result<Vec<u8>> {
        let what = ObjectKind::Manifest { version: head.version, digest: &packed.digest };
        cipher.seal(&head.brain, what, &packed.bytes)
    }

    /// The head that follows `last` and points to what was packed.
    fn next_head(&self, last: Option<&(SnapshotHead, Digest)>, packed: &Packed) -> Result<SnapshotHead> {
        let lock = &packed.manifest.lock;
        let generation = last.map_or(0, |(head, _)| head.generation);
        let brain = packed.manifest.brain.clone();
        let object = format!("manifest/{generation:020}/{:020}-{}", lock.version, packed.digest);
        Ok(SnapshotHead {
            schema: HEAD_SCHEMA.to_owned(),
            number: last.map_or(0, |(head, _)| head.number) + 1,
            previous: last.map(|(_, digest)| *digest),
            version: lock.version,
            bundle_hash: lock.bundle_hash,
            receipt: packed.manifest.receipt.clone(),
            manifest: packed.digest,
            object,
            generation,
            writer: self.writer()?,
            at: self.clock.now(),
            seal: None,
            brain,
        })
    }

    pub(super) fn writer(&self) -> Result<HeadWriter> {
        let mut nonce = [0; 16];
        self.random.fill(&mut nonce)?;
        let nonce = crate::ids::hex(&nonce);
        Ok(HeadWriter { owner: self.owner.clone(), nonce })
    }

    /// Packs on a thread of its own and uploads meanwhile; at most a handful of chunks are in memory.
    async fn pack_and_send(
        &self,
        layout: &Layout,
        id: &BrainId,
        base: Option<SnapshotHead>,
        cipher: &Cipher,
        knowing: DedupSource,
    ) -> Result<(Packed, Sent)> {
        let there: Option<BTreeSet<String>> = match knowing {
            DedupSource::ByCache => None,
            DedupSource::ByListing => {
                let listed = self.store.list(&head::place(id, "chunk")?, None).await?;
                let names = listed.iter().filter(|object| {
                    let generation = object.name.as_str().rsplit('/').nth(1).and_then(|text| text.parse::<u64>().ok());
                    generation <= base.as_ref().map(|base| base.generation)
                });
                Some(names.map(|object| object.name.last().to_owned()).collect())
            }
        };
        let (sender, receiver) = mpsc::channel(AT_ONCE);
        let (place, cipher, layout, id) = (self.place_of(cipher), cipher.clone(), layout.clone(), id.clone());
        let packing = tokio::task::spawn_blocking(move || {
            let reader = Reader::open(&layout, &id)?;
            if let Some(base) = &base {
                refuse_fenced(&reader, base)?;
            }
            let cache = match there {
                Some(_) => Cache::default(),
                None => Cache::load(&layout.brain(&id), &place, base.as_ref().map(|base| &base.manifest)),
            };
            let generation = base.as_ref().map_or(0, |base| base.generation);
            pack(&reader, &cache, &mut |digest, chunk| {
                if there.as_ref().is_some_and(|there| there.contains(&cipher.name(digest).to_string())) {
                    return Ok(());
                }
                let object = cipher.seal(&id, ObjectKind::Chunk { digest }, chunk)?;
                let name = chunk_name(&id, generation, &cipher.name(digest))?;
                // Nobody receives any more: the upload failed, and its error is the one that counts.
                sender.blocking_send((name, object)).map_err(|_| Error::unavailable("the upload has stopped"))
            })
        });
        let sent = send(Arc::clone(&self.store), receiver).await;
        let packed = packing.await.map_err(|_| Error::internal("packing was interrupted"))?;
        let sent = sent?;
        Ok((packed?, sent))
    }
}

/// How many objects a push uploaded, and their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    objects: u64,
    bytes: u64,
}

async fn send(store: Arc<dyn Store>, mut receiver: mpsc::Receiver<(ObjectName, Vec<u8>)>) -> Result<Sent> {
    let mut sent = Sent::default();
    let mut running: JoinSet<Result<()>> = JoinSet::new();
    let finished = |done: Option<Result<Result<()>, tokio::task::JoinError>>| match done {
        Some(done) => done.map_err(|_| Error::internal("an upload was interrupted"))?,
        None => Ok(()),
    };
    while let Some((name, object)) = receiver.recv().await {
        sent.objects += 1;
        sent.bytes += object.len() as u64;
        if running.len() >= AT_ONCE {
            finished(running.join_next().await)?;
        }
        let store = Arc::clone(&store);
        running.spawn(async move { retried(|| store.put(&name, object.clone())).await });
    }
    while !running.is_empty() {
        finished(running.join_next().await)?;
    }
    Ok(sent)
}

/// Tries again what a store could not do at the moment.
pub(super) async fn retried<T, F: Future<Output = Result<T>>>(mut attempt: impl FnMut() -> F) -> Result<T> {
    let mut pause = std::time::Duration::from_millis(20);
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                tracing::debug!(%error, "a store did not answer; trying again");
                tokio::time::sleep(pause).await;
                pause *= 3;
            }
            done => return done,
        }
    }
    attempt().await
}

/// Refuses to push a brain that the store's head is no earlier state of.
fn refuse_fenced(reader: &Reader, base: &SnapshotHead) -> Result<()> {
    if reader.has_been(base.version, &base.bundle_hash, base.receipt())? {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "brain {} was taken further elsewhere: the store is at version {} by {}, which was never here",
        base.brain, base.version, base.writer.owner
    ))
    .hint(format!(
        "take over what is there with `herm restore {} --replace`; what was done here since is set aside, and can be \
         done again",
        base.brain
    )))
}
