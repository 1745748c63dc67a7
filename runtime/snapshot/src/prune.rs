//! Letting go of old snapshots, by mark and sweep, while others may be writing.
//!
//! A prune first moves the head on to a new generation, so that every push that began before it loses. Pushes that
//! begin after it put their chunks into the new generation and count on nothing but what the head's manifest has, and
//! that is kept. So whatever an earlier generation holds that no kept manifest names can go, even if the process that
//! removes it was asleep for a week.

use std::collections::BTreeSet;

use super::chunk;
use super::cipher::{Cipher, ObjectKind};
use super::head::{self, Commit, SnapshotHead, place};
use super::manifest::SnapshotManifest;
use super::push::retried;
use super::vault::{ChunkIndex, Missing, Vault};
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;

/// Which snapshots stay, beside the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneOptions {
    /// This many of the last snapshots.
    pub last: usize,
}

/// What one prune kept and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct PruneReport {
    /// Snapshots that are still there.
    pub kept: u64,
    /// Snapshots that were removed.
    pub removed: u64,
    /// Manifests and chunks that were removed; heads are not counted.
    pub objects: u64,
    /// Bytes of the manifests and chunks that were removed.
    pub bytes: u64,
}

impl Vault {
    /// Lets go of all snapshots of a brain but those that are to stay, and of every chunk that only
    /// they needed. Where something that must stay is not there, nothing goes.
    pub async fn prune(&self, layout: &Layout, id: &BrainId, keeping: PruneOptions) -> Result<PruneReport> {
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let head = self.begin_generation(layout, id).await?;
        let heads = self.heads(id).await?;
        // Several heads can point to one snapshot: it counts once.
        let (mut kept, mut gone, mut different) = (Vec::new(), Vec::new(), BTreeSet::new());
        for head in heads.iter().rev() {
            different.insert(head.manifest);
            if different.len() <= keeping.last.max(1) { kept.push(head) } else { gone.push(head) }
        }
        let chunks = self.store.list(&place(id, "chunk")?, None).await?;
        let mut needed = BTreeSet::new();
        for head in &kept {
            self.mark(head, &cipher, &self.whereabouts_in(head, &chunks), &mut needed).await?;
        }
        let there: BTreeSet<&str> = chunks.iter().map(|object| object.name.last()).collect();
        let missing = needed.iter().filter(|name| !there.contains(name.as_str())).count();
        if missing > 0 {
            return Err(Error::corrupt(format!(
                "{missing} chunks that snapshots of brain {id} need are missing in the store; nothing was removed"
            ))
            .hint(format!(
                "see which with `herm snapshot verify {id}`; `herm snapshot create {id}` puts back what the brain here has"
            )));
        }
        let mut pruned = PruneReport { kept: kept.len() as u64, removed: gone.len() as u64, ..PruneReport::default() };
        // Heads go first: nobody must find one whose chunks are gone.
        for old in gone.iter().rev() {
            self.store.remove(&place(id, &format!("head/{:020}", old.number))?).await?;
        }
        let manifests: BTreeSet<String> =
            kept.iter().map(|head| place(id, &head.object).map(|name| name.to_string())).collect::<Result<_>>()?;
        let mut objects = self.store.list(&place(id, "manifest")?, None).await?;
        objects.retain(|object| !manifests.contains(object.name.as_str()));
        objects.extend(chunks.into_iter().filter(|object| !needed.contains(object.name.last())));
        for object in objects {
            let generation = object.name.as_str().rsplit('/').nth(1).and_then(|text| text.parse::<u64>().ok());
            if generation.is_some_and(|generation| generation < head.generation) {
                self.store.remove(&object.name).await?;
                pruned.objects += 1;
                pruned.bytes += object.bytes;
            }
        }
        Ok(pruned)
    }

    /// Moves the head on to the same snapshot, with a new generation.
    async fn begin_generation(&self, layout: &Layout, id: &BrainId) -> Result<SnapshotHead> {
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let last = self.last(layout, id, &cipher).await?;
        let Some((last, digest)) = last else {
            return Err(Error::not_found(format!("{} has no snapshot of brain {id}", self.store.describe()))
                .hint("there is nothing to prune"));
        };
        let number = last.number + 1;
        let next = cipher.sealed_head(SnapshotHead {
            number,
            previous: Some(digest),
            generation: number,
            writer: self.writer()?,
            at: self.clock.now(),
            ..last
        })?;
        match head::commit(&*self.store, &next).await? {
            Commit::Done => {
                self.remember(layout, &self.store.describe(), &next, &Digest::of(&next.to_bytes()?))?;
                Ok(next)
            }
            Commit::Lost => Err(Error::conflict(format!("someone pushes brain {id} right now")).hint("try again")),
        }
    }

    /// Notes the name of every chunk a snapshot needs.
    pub(super) async fn mark(
        &self,
        head: &SnapshotHead,
        cipher: &Cipher,
        from: &ChunkIndex,
        needed: &mut BTreeSet<String>,
    ) -> Result<()> {
        let bytes = retried(|| self.manifest_bytes(head, cipher)).await?;
        let (manifest, _) = SnapshotManifest::parse(&bytes)?;
        for table in &manifest.tables {
            for (level, references) in table.levels.iter().enumerate() {
                let mut references = references.clone();
                for below in (0..=level).rev() {
                    let mut next = Vec::new();
                    for digest in references {
                        let new = needed.insert(cipher.name(&digest).to_string());
                        // What hangs below a node that is marked is marked.
                        if below > 0 && new {
                            let object = self.object(head, cipher, from, &digest).await?;
                            let node = cipher.open(&head.brain, ObjectKind::Chunk { digest: &digest }, &object)?;
                            next.extend(chunk::references(&node, &table.name, below)?);
                        }
                    }
                    references = next;
                }
            }
        }
        Ok(())
    }
}
