//! The catalog of a snapshot: what the index of a store that names blobs itself has of it, as one blob.
//!
//! Such a store ([`Store::index`]) is lost with its index: nobody would find the blobs any more. A catalog holds the
//! head, the wrapped key of the brain and the references to the manifest and to every chunk, encrypted with the
//! operator's key. A pointer that names the catalog brings back all of it. See `docs/reference/snapshot.md`.

use std::collections::BTreeSet;

use super::cipher::Cipher;
use super::head::{self, SnapshotHead, place};
use super::pointer::{CatalogRef, HeadRef, PointerRecord};
use super::portable::{self, Entry};
use super::push::retried;
use super::store::{ObjectName, Store};
use super::vault::{Encryption, Missing, Vault};
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest};

/// No catalog is larger: 100,000 references and more.
const MAX_BYTES: u64 = 64 << 20;
/// No reference, head or key is larger.
const MAX_ENTRY: u64 = 64 << 10;

impl Vault {
    /// What a pointer must say so that it points to the last snapshot of a brain. Where the store would be lost with its
    /// index, a catalog is put into it first, and the record names it.
    pub async fn pointer_record(&self, brain: &BrainId) -> Result<Option<PointerRecord>> {
        let Some((head, digest)) = retried(|| head::last(&*self.store, brain)).await? else { return Ok(None) };
        let pointed = HeadRef { number: head.number, digest };
        let Some(index) = self.store.index() else { return Ok(Some(PointerRecord { pointed, catalog: None })) };
        let cipher = self.cipher(brain, Missing::Refuse).await?;
        cipher.check_head(&head)?;
        let entries = self.catalogued(index, &head, &cipher).await?;
        let object = self.seal_catalog(brain, &portable::write(brain, &entries)?)?;
        let name = place(brain, &format!("catalog/{:020}", head.number))?;
        retried(|| self.store.put(&name, object.clone())).await?;
        self.store.sync().await?;
        let address =
            self.store.address(&name).await?.ok_or_else(|| {
                Error::internal(format!("{} does not say where it keeps {name}", self.store.describe()))
            })?;
        Ok(Some(PointerRecord { pointed, catalog: Some(CatalogRef { address, blake3: Digest::of(&object) }) }))
    }

    /// What the index has of a snapshot: nothing else is needed to restore it and to go on from it.
    async fn catalogued(&self, index: &dyn Store, head: &SnapshotHead, cipher: &Cipher) -> Result<Vec<Entry>> {
        let brain = &head.brain;
        let from = retried(|| self.whereabouts(head)).await?;
        let mut chunks = BTreeSet::new();
        self.mark(head, cipher, &from, &mut chunks).await?;
        let mut names = vec![head::name(brain, head.number)?, place(brain, &head.object)?];
        names.extend(index.list(&place(brain, "key")?, None).await?.into_iter().map(|object| object.name));
        for chunk in chunks {
            names.push(from.name(brain, &chunk.parse()?)?);
        }
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let content = retried(|| index.get(&name, MAX_ENTRY)).await?.ok_or_else(|| {
                Error::corrupt(format!("{name} is missing in {}", index.describe()))
                    .hint(format!("put it back with `herm snapshot create {brain}`"))
            })?;
            entries.push(Entry { name, content });
        }
        Ok(entries)
    }

    /// Brings the index of a store back that has nothing of a brain any more, from the catalog that the pointer names.
    pub(super) async fn rebuild_index(&self, brain: &BrainId) -> Result<()> {
        let (Some(pointer), Some(index)) = (&self.pointer, self.store.index()) else { return Ok(()) };
        if retried(|| head::last(index, brain)).await?.is_some() {
            return Ok(());
        }
        let Some(PointerRecord { pointed, catalog: Some(catalog) }) = pointer.lookup(brain).await? else {
            return Ok(());
        };
        let object = self.store.at_address(&catalog.address, MAX_BYTES).await?;
        let bad = |how: &str| {
            Error::corrupt(format!("the catalog of brain {brain} that {} names {how}", pointer.describe()))
                .hint("find out who changed it; nothing was restored")
        };
        if Digest::of(&object) != catalog.blake3 {
            return Err(bad("has another digest than it says"));
        }
        let file = self.open_catalog(brain, &object)?;
        let entries = portable::read(brain, &file).map_err(|how| bad(&how))?;
        let head_name = head::name(brain, pointed.number)?;
        let head = entries.iter().find(|entry| entry.name == head_name);
        if head.is_none_or(|head| Digest::of(&head.content) != pointed.digest) {
            return Err(bad("does not hold the head that is pointed to"));
        }
        tracing::warn!(%brain, index = %index.describe(), "the index has nothing of the brain; it is brought back");
        // The head comes last: who finds it finds all it needs.
        let (last, others): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.name == head_name);
        for entry in others.into_iter().chain(last) {
            retried(|| index.create(&entry.name, entry.content.clone())).await?;
        }
        head::set_mark(index, brain, pointed.number).await?;
        index.sync().await
    }

    fn seal_catalog(&self, brain: &BrainId, file: &[u8]) -> Result<Vec<u8>> {
        match &self.secrecy {
            Encryption::Key(operator) => operator.catalog_cipher().seal_catalog(brain, file),
            Encryption::Plaintext => Cipher::Plain.seal_catalog(brain, file),
        }
    }

    fn open_catalog(&self, brain: &BrainId, object: &[u8]) -> Result<Vec<u8>> {
        match &self.secrecy {
            Encryption::Key(operator) => operator.catalog_cipher().open_catalog(brain, object, MAX_BYTES),
            Encryption::Plaintext => Cipher::Plain.open_catalog(brain, object, MAX_BYTES),
        }
    }
}

/// Whether a name is that of a catalog.
pub(super) fn is_catalog(name: &ObjectName) -> bool {
    name.as_str().split('/').nth(2) == Some("catalog")
}
