//! Letting go of old snapshots, by mark and sweep, while others may be writing.
//!
//! A prune first moves the head on to a new generation, so that every push that began before it
//! loses. Pushes that begin after it put their chunks into the new generation and count on nothing but
//! what the head's manifest has, and that is kept. So whatever an earlier generation holds that no
//! kept manifest names can go, even if whoever removes it was asleep for a week.

use std::collections::BTreeSet;

use super::chunk;
use super::cipher::{Cipher, What};
use super::head::{self, Commit, Head, place};
use super::manifest::Manifest;
use super::push::retried;
use super::vault::{Missing, Vault};
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;

/// Which snapshots stay, beside the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// This many of the last snapshots.
    pub last: usize,
}

/// What pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Pruned {
    /// Snapshots that are still there.
    pub kept: u64,
    /// Snapshots that went.
    pub removed: u64,
    /// Objects that went.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What verifying the snapshots of a brain found.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Verified {
    /// Snapshots that were looked at.
    pub snapshots: u64,
    /// Objects that were read and opened.
    pub objects: u64,
    /// What does not hold, a line each.
    pub findings: Vec<String>,
}

impl Vault {
    /// Lets go of all snapshots of a brain but those that are to stay, and of every chunk that only
    /// they needed.
    pub async fn prune(&self, layout: &Layout, id: &BrainId, keeping: Keeping) -> Result<Pruned> {
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let head = self.begin_generation(layout, id).await?;
        let heads = self.heads(id).await?;
        // Several heads can point to one snapshot: it counts once.
        let stays = |head: &Head| {
            let later = heads.iter().filter(|other| other.number > head.number && other.manifest != head.manifest);
            later.map(|other| other.manifest).collect::<BTreeSet<_>>().len() < keeping.last.max(1)
        };
        let (kept, gone): (Vec<&Head>, Vec<&Head>) = heads.iter().partition(|head| stays(head));
        let mut needed = BTreeSet::new();
        for head in &kept {
            self.mark(head, &cipher, &mut needed).await?;
        }
        let mut pruned = Pruned { kept: kept.len() as u64, removed: gone.len() as u64, ..Pruned::default() };
        // Heads go first: nobody must find one whose chunks are gone.
        for old in &gone {
            self.store.remove(&place(id, &format!("head/{:020}", old.number))?).await?;
        }
        let manifests: BTreeSet<String> = kept.iter().map(|head| head.object.clone()).collect();
        for (kind, prefix) in [("manifest", place(id, "manifest")?), ("chunk", place(id, "chunk")?)] {
            for object in self.store.list(&prefix, None).await? {
                let generation = object.name.as_str().rsplit('/').nth(1).and_then(|text| text.parse::<u64>().ok());
                let is_needed = match kind {
                    "manifest" => manifests.iter().any(|name| object.name.as_str().ends_with(name.as_str())),
                    _ => needed.contains(object.name.last()),
                };
                if generation.is_some_and(|generation| generation < head.generation) && !is_needed {
                    self.store.remove(&object.name).await?;
                    pruned.objects += 1;
                    pruned.bytes += object.bytes;
                }
            }
        }
        Ok(pruned)
    }

    /// Moves the head on to the same snapshot, with a new generation.
    async fn begin_generation(&self, layout: &Layout, id: &BrainId) -> Result<Head> {
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let last = self.last(layout, id, &cipher).await?;
        let Some((last, digest)) = last else {
            return Err(Error::not_found(format!("{} has no snapshot of brain {id}", self.store.describe()))
                .hint("there is nothing to prune"));
        };
        let number = last.number + 1;
        let next = cipher.sealed_head(Head {
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
    async fn mark(&self, head: &Head, cipher: &Cipher, needed: &mut BTreeSet<String>) -> Result<()> {
        let from = self.whereabouts(head).await?;
        let bytes = retried(|| self.manifest_bytes(head, cipher)).await?;
        let (manifest, _) = Manifest::parse(&bytes)?;
        for table in &manifest.tables {
            for (level, references) in table.levels.iter().enumerate() {
                let mut references = references.clone();
                for below in (0..=level).rev() {
                    let mut next = Vec::new();
                    for digest in references {
                        let new = needed.insert(cipher.name(&digest).to_string());
                        // What hangs below a node that is marked is marked.
                        if below > 0 && new {
                            let object = self.object(head, cipher, &from, &digest).await?;
                            let node = cipher.open(&head.brain, What::Chunk { digest: &digest }, &object)?;
                            next.extend(chunk::references(&node, &table.name, below)?);
                        }
                    }
                    references = next;
                }
            }
        }
        Ok(())
    }

    /// Reads and opens every object of the snapshots of a brain, or of one version.
    pub async fn verify(&self, id: &BrainId, version: Option<u64>) -> Result<Verified> {
        let mut verified = Verified::default();
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let mut seen = BTreeSet::new();
        let mut previous: Option<Head> = None;
        for number in head::numbers(&*self.store, id, None).await? {
            let found = match head::read(&*self.store, id, number).await {
                Ok(found) => found,
                Err(error) => {
                    verified.findings.push(error.message().to_owned());
                    continue;
                }
            };
            let Some((head, _)) = found else { continue };
            if let Some(before) = previous.replace(head.clone())
                && before.number + 1 == head.number
                && head.previous != Some(Digest::of(&before.to_bytes()?))
            {
                verified.findings.push(format!("head {number} does not follow head {}", before.number));
            }
            if version.is_some_and(|version| version != head.version) {
                continue;
            }
            verified.snapshots += 1;
            if let Err(error) = self.verify_snapshot(&head, &cipher, &mut seen, &mut verified).await {
                verified.findings.push(format!("version {}: {}", head.version, error.message()));
            }
        }
        Ok(verified)
    }

    async fn verify_snapshot(
        &self,
        head: &Head,
        cipher: &Cipher,
        seen: &mut BTreeSet<Digest>,
        verified: &mut Verified,
    ) -> Result<()> {
        let bytes = retried(|| self.manifest_bytes(head, cipher)).await?;
        verified.objects += 1;
        let (manifest, _) = Manifest::parse(&bytes)?;
        let from = retried(|| self.whereabouts(head)).await?;
        for (at, digest) in self.expand(head, &manifest, cipher, &from).await? {
            if seen.contains(&digest) {
                continue;
            }
            verified.objects += 1;
            let object = self.object(head, cipher, &from, &digest).await?;
            let content = cipher.open(&head.brain, What::Chunk { digest: &digest }, &object)?;
            let table = manifest.tables.get(at).map(|table| table.name.as_str()).unwrap_or_default();
            chunk::body(&content, table, 0)?;
            // Only what is sound: a damaged chunk is named for every snapshot that needs it.
            seen.insert(digest);
        }
        Ok(())
    }
}
