//! Verifying what is in a store, as a restore would, without putting anything in place.
//!
//! Every head, manifest, node and chunk is read and opened. Whether it all fits together (rows, bundle hash, receipts,
//! signatures) is found out by restoring a snapshot into a directory that is thrown away.

use std::collections::BTreeSet;

use super::chunk;
use super::cipher::{Cipher, ObjectKind};
use super::head::{self, SnapshotHead};
use super::manifest::SnapshotManifest;
use super::push::retried;
use super::restore::RestoreOptions;
use super::vault::{Missing, Vault};
use crate::brain::OnExisting;
use crate::error::{Error, Result};
use crate::fsio;
use crate::ids::{BrainId, Digest};
use crate::layout::Layout;
use crate::receipt::TrustedKeys;

/// Which snapshots [`Vault::verify`] looks at, and how.
#[derive(Debug, Clone)]
pub struct SnapshotVerifyOptions {
    /// One version; all where none is given.
    pub version: Option<u64>,
    /// Which snapshots are put together.
    pub rehearse: RehearsalScope,
    /// Whose receipts count in a rehearsal; a receipt that another key signed is a finding.
    pub trusted: TrustedKeys,
}

/// Which snapshots are put together to see that they can be restored. Of the others every object is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RehearsalScope {
    /// The last of those that are looked at.
    Last,
    /// Every one of them.
    All,
}

/// What verifying the snapshots of a brain found.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct SnapshotVerification {
    /// Snapshots that were looked at.
    pub snapshots: u64,
    /// How many of them were put together as a restore does.
    pub rehearsed: u64,
    /// Objects that were read and opened.
    pub objects: u64,
    /// Receipts that were verified with the last one.
    pub receipts: u64,
    /// What does not hold, a line each.
    pub findings: Vec<String>,
}

impl Vault {
    /// Verifies the snapshots of a brain, or one version. Nothing of the brain that is here is touched; what is put
    /// together is in a directory of its own, and thrown away.
    pub async fn verify(
        &self,
        layout: &Layout,
        id: &BrainId,
        what: &SnapshotVerifyOptions,
    ) -> Result<SnapshotVerification> {
        let mut verified = SnapshotVerification::default();
        let cipher = self.cipher(id, Missing::Refuse).await?;
        let (mut seen, mut sound) = (BTreeSet::new(), Vec::new());
        let mut previous: Option<SnapshotHead> = None;
        let numbers = head::numbers(&*self.store, id, None).await?;
        // A prune removes the oldest heads, so those that are left follow each other without a gap.
        for (before, after) in
            numbers.iter().zip(numbers.iter().skip(1)).filter(|(before, after)| *before + 1 < **after)
        {
            verified.findings.push(match before + 2 == *after {
                true => format!("head {} is missing, between heads {before} and {after}", before + 1),
                false => {
                    format!("heads {} to {} are missing, between heads {before} and {after}", before + 1, after - 1)
                }
            });
        }
        let marked = head::mark(&*self.store, id).await.ok().flatten();
        if let Some(marked) = marked.filter(|marked| numbers.last().is_none_or(|last| last < marked)) {
            verified.findings.push(format!("the last head is missing: the mark says that it is head {marked}"));
        }
        for number in numbers {
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
            if what.version.is_some_and(|version| version != head.version) {
                continue;
            }
            verified.snapshots += 1;
            match self.verify_objects(&head, &cipher, &mut seen, &mut verified).await {
                Ok(()) => sound.push(head),
                Err(error) => verified.findings.push(format!("version {}: {}", head.version, error.message())),
            }
        }
        // Several heads can point to one snapshot.
        let mut done = BTreeSet::new();
        let rehearsed = match what.rehearse {
            RehearsalScope::Last => sound.iter().rev().take(1),
            RehearsalScope::All => sound.iter().rev().take(usize::MAX),
        };
        for head in rehearsed.filter(|head| done.insert(head.manifest)) {
            verified.rehearsed += 1;
            match self.rehearse(layout, head, &cipher, &what.trusted).await {
                Ok(receipts) => verified.receipts = verified.receipts.max(receipts),
                Err(error) => verified.findings.push(format!("version {}: {}", head.version, error.message())),
            }
        }
        Ok(verified)
    }

    /// Reads and opens everything a snapshot is made of.
    async fn verify_objects(
        &self,
        head: &SnapshotHead,
        cipher: &Cipher,
        seen: &mut BTreeSet<Digest>,
        verified: &mut SnapshotVerification,
    ) -> Result<()> {
        cipher.check_head(head)?;
        let bytes = retried(|| self.manifest_bytes(head, cipher)).await?;
        verified.objects += 1;
        let (manifest, _) = SnapshotManifest::parse(&bytes)?;
        let from = retried(|| self.whereabouts(head)).await?;
        let expanded = self.expand(head, &manifest, cipher, &from).await?;
        verified.objects += expanded.nodes.iter().filter(|(_, digest)| seen.insert(*digest)).count() as u64;
        for (at, digest) in expanded.chunks {
            if seen.contains(&digest) {
                continue;
            }
            verified.objects += 1;
            let object = self.object(head, cipher, &from, &digest).await?;
            let content = cipher.open(&head.brain, ObjectKind::Chunk { digest: &digest }, &object)?;
            let table = manifest.tables.get(at).map(|table| table.name.as_str()).unwrap_or_default();
            chunk::body(&content, table, 0)?;
            // Only what is sound: a damaged chunk is named for every snapshot that needs it.
            seen.insert(digest);
        }
        Ok(())
    }

    /// Restores a snapshot into a directory of its own, and throws it away; how many receipts were verified.
    async fn rehearse(
        &self,
        layout: &Layout,
        head: &SnapshotHead,
        cipher: &Cipher,
        trusted: &TrustedKeys,
    ) -> Result<u64> {
        let mut nonce = [0; 8];
        self.random.fill(&mut nonce)?;
        let name = format!(".verify-{}-{:016x}", head.brain, u64::from_le_bytes(nonce));
        let scratch = Layout::new(layout.brains().join(name));
        let how = RestoreOptions {
            version: Some(head.version),
            in_place: OnExisting::Refuse,
            trusted: trusted.clone(),
            wait: std::time::Duration::ZERO,
            progress: None,
            inspect: None,
        };
        let restored = self.restore_head(&scratch, head, cipher, &how).await;
        let path = scratch.brains().to_owned();
        let removed = tokio::task::spawn_blocking(move || fsio::remove_tree(&path)).await;
        let restored = restored?;
        removed.map_err(|_| Error::internal("throwing a rehearsal away was interrupted"))??;
        Ok(restored.receipts)
    }
}
