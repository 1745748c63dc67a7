//! A store, and the keys to what is in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::cipher::{Cipher, OVERHEAD, ObjectKind};
use super::head::{self, SnapshotHead, place};
use super::key::{DataKey, OperatorKey, WRAPPED_SCHEMA, WrappedKey};
use super::lease::Watched;
use super::manifest::{MAX_MANIFEST_BYTES, SnapshotManifest};
use super::pointer::{self, Pointer};
use super::push::retried;
use super::store::{CreateOutcome, ObjectName, Store, StoredObject};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::ids::{BrainId, Digest, Random};
use crate::layout::Layout;

/// How snapshots are encrypted.
#[derive(Debug, Clone)]
pub enum Encryption {
    /// With a key of their brain, which this key wraps.
    Key(OperatorKey),
    /// Not at all, because the operator said so: read access to the store is then enough to read the brains.
    Plaintext,
}

/// A store, and the keys to what is in it.
#[derive(Debug)]
pub struct Vault {
    pub(super) store: Arc<dyn Store>,
    pub(super) secrecy: Encryption,
    pub(super) owner: String,
    pub(super) random: Arc<dyn Random>,
    pub(super) clock: Arc<dyn Clock>,
    ciphers: Mutex<HashMap<BrainId, Cipher>>,
    pub(super) watched: Mutex<HashMap<BrainId, Watched>>,
    /// Someone beside the store who says where heads are.
    pub(super) pointer: Option<Arc<dyn Pointer>>,
    /// Whether what was seen of the store counts.
    pub(super) remembers: bool,
}

impl Vault {
    /// A vault in a store. `owner` names this operator in heads and leases, for people.
    pub fn new(
        store: Arc<dyn Store>,
        secrecy: Encryption,
        owner: &str,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let owner = owner.chars().filter(|c| !c.is_control()).take(120).collect();
        Self {
            store,
            secrecy,
            owner,
            random,
            clock,
            ciphers: Mutex::default(),
            watched: Mutex::default(),
            pointer: None,
            remembers: true,
        }
    }

    /// The same, where nothing is restored that a pointer does not agree with.
    #[must_use]
    pub fn with_pointer(self, pointer: Arc<dyn Pointer>) -> Self {
        Self { pointer: Some(pointer), ..self }
    }

    /// The same, where nothing is known or remembered of other times: for a store that is a file.
    #[must_use]
    pub(super) fn forgetful(self) -> Self {
        Self { remembers: false, ..self }
    }

    /// The last head, if the store can be believed: not older than what this machine has seen, and written by someone
    /// with the brain's key.
    pub(super) async fn last(
        &self,
        layout: &Layout,
        brain: &BrainId,
        cipher: &Cipher,
    ) -> Result<Option<(SnapshotHead, Digest)>> {
        let last = match self.remembers {
            true => retried(|| head::last_not_older(layout, &*self.store, brain)).await?,
            false => retried(|| head::last(&*self.store, brain)).await?,
        };
        if let Some((head, _)) = &last {
            cipher.check_head(head)?;
        }
        Ok(last)
    }

    /// The head of a brain that may be gone on from: one that the store, this machine and the pointer agree on. `None`
    /// where the brain has no snapshot.
    pub async fn trusted_head(&self, layout: &Layout, brain: &BrainId) -> Result<Option<SnapshotHead>> {
        self.rebuild_index(brain).await?;
        // First what this machine has seen: an empty store has no key to ask for.
        let seen = match self.remembers {
            true => retried(|| head::last_not_older(layout, &*self.store, brain)).await?,
            false => retried(|| head::last(&*self.store, brain)).await?,
        };
        self.agrees(brain).await?;
        let Some((head, _)) = seen else { return Ok(None) };
        self.cipher(brain, Missing::Refuse).await?.check_head(&head)?;
        Ok(Some(head))
    }

    pub(super) fn remember(&self, layout: &Layout, store: &str, head: &SnapshotHead, digest: &Digest) -> Result<()> {
        if self.remembers { head::remember(layout, store, head, digest) } else { Ok(()) }
    }

    /// Sees to it that the key of a brain is in the store: without it nothing that is pushed could be opened elsewhere.
    pub(super) async fn keep_key(&self, brain: &BrainId, cipher: &Cipher) -> Result<()> {
        let (Cipher::Sealed(key), Encryption::Key(operator)) = (cipher, &self.secrecy) else { return Ok(()) };
        if !self.store.list(&place(brain, "key")?, None).await?.is_empty() {
            return Ok(());
        }
        tracing::warn!(%brain, "the brain's key was gone from the store; it is put back");
        let wrapped = to_json(&operator.wrap(brain, key, &*self.random)?)?;
        self.store.create(&key_name(brain, 1)?, wrapped).await.map(|_| ())
    }

    /// Whether the store is where the pointer says, or has gone on from there; nothing is said where there is no
    /// pointer, or none to this brain.
    pub async fn agrees(&self, brain: &BrainId) -> Result<Option<u64>> {
        match &self.pointer {
            Some(pointer) => pointer::check_pointer(&*self.store, &**pointer, brain).await,
            None => Ok(None),
        }
    }

    /// Sees to it that what the store has of a brain does not run out; how much was about to.
    pub async fn renew(&self, brain: &BrainId) -> Result<u64> {
        self.store.renew(&ObjectName::new(format!("brains/{brain}"))?).await
    }

    /// The store that the vault keeps snapshots in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The last head of a brain; `None` where it has no snapshot.
    pub async fn head(&self, brain: &BrainId) -> Result<Option<SnapshotHead>> {
        Ok(head::last(&*self.store, brain).await?.map(|(head, _)| head))
    }

    /// Every head of a brain that is still there, oldest first.
    pub async fn heads(&self, brain: &BrainId) -> Result<Vec<SnapshotHead>> {
        let mut heads = Vec::new();
        for number in head::numbers(&*self.store, brain, None).await? {
            heads.extend(head::read(&*self.store, brain, number).await?.map(|(head, _)| head));
        }
        Ok(heads)
    }

    /// The manifest of a head, checked against it, with its bytes.
    pub(super) async fn manifest_bytes(&self, head: &SnapshotHead, cipher: &Cipher) -> Result<Vec<u8>> {
        let name = place(&head.brain, &head.object)?;
        let object = self.store.get(&name, MAX_MANIFEST_BYTES + OVERHEAD).await?.ok_or_else(|| {
            Error::corrupt(format!("the manifest of version {} of brain {} is missing", head.version, head.brain))
                .hint("restore an earlier version with `herm restore ID --version N`")
        })?;
        let what = ObjectKind::Manifest { version: head.version, digest: &head.manifest };
        let bytes = cipher.open(&head.brain, what, &object)?;
        let (manifest, _) = SnapshotManifest::parse(&bytes)?;
        let lock = &manifest.lock;
        let same = (&manifest.brain, lock.version, lock.bundle_hash, &manifest.receipt)
            == (&head.brain, head.version, head.bundle_hash, &head.receipt);
        if !same {
            return Err(Error::corrupt(format!(
                "head {} of brain {} and its manifest do not say the same",
                head.number, head.brain
            ))
            .hint("restore an earlier version with `herm restore ID --version N`"));
        }
        Ok(bytes)
    }

    /// The manifest of a head.
    pub async fn manifest(&self, head: &SnapshotHead) -> Result<SnapshotManifest> {
        let cipher = self.cipher(&head.brain, Missing::Refuse).await?;
        let bytes = self.manifest_bytes(head, &cipher).await?;
        SnapshotManifest::parse(&bytes).map(|(manifest, _)| manifest)
    }

    /// How the objects of a brain are encrypted. Its key is made with its first snapshot.
    pub(super) async fn cipher(&self, brain: &BrainId, missing: Missing) -> Result<Cipher> {
        let kept = self.ciphers.lock().unwrap_or_else(PoisonError::into_inner).get(brain).cloned();
        if let Some(cipher) = kept {
            return Ok(cipher);
        }
        let wrapped = match self.first_key(brain).await? {
            Some(first) => vec![first],
            None => self.wrapped_keys(brain).await?,
        };
        let cipher = match &self.secrecy {
            Encryption::Plaintext if wrapped.is_empty() => Cipher::Plain,
            Encryption::Plaintext => {
                return Err(Error::refused(format!(
                    "the snapshots of brain {brain} are encrypted, and no key was given"
                ))
                .hint("name the key in the configuration: key = … in [snapshot]"));
            }
            Encryption::Key(operator) => Cipher::Sealed(self.data_key(brain, operator, wrapped, missing).await?),
        };
        self.ciphers.lock().unwrap_or_else(PoisonError::into_inner).insert(brain.clone(), cipher.clone());
        Ok(cipher)
    }

    async fn data_key(
        &self,
        brain: &BrainId,
        operator: &OperatorKey,
        wrapped: Vec<(ObjectName, WrappedKey)>,
        missing: Missing,
    ) -> Result<DataKey> {
        let ours = wrapped.iter().rev().find(|(_, key)| key.wrapped_by == operator.id());
        let plain = match wrapped.is_empty() {
            true => head::last(&*self.store, brain).await?.filter(|(head, _)| head.seal.is_none()),
            false => None,
        };
        if plain.is_some() {
            return Err(Error::refused(format!(
                "the snapshots of brain {brain} in {} are not encrypted, and here is a key; one store has them one way",
                self.store.describe()
            ))
            .hint(
                "to encrypt from now on, name another directory or prefix as `store` in [snapshot] and run `herm \
                 snapshot create ID`; to go on in plain text, say --plaintext",
            ));
        }
        match (ours.or(wrapped.last()), missing) {
            (Some((_, key)), _) => operator.unwrap(brain, key),
            (None, Missing::Refuse) => {
                Err(Error::not_found(format!("{} has no encrypted snapshot of brain {brain}", self.store.describe()))
                    .hint("see what is there with `herm snapshot list ID`"))
            }
            // No other key is made where one is gone: all that is there would be lost with it.
            (None, Missing::Make) if head::last(&*self.store, brain).await?.is_some() => Err(Error::corrupt(format!(
                "{} has snapshots of brain {brain}, and not its key",
                self.store.describe()
            ))
            .hint(format!("put brains/{brain}/key back from a copy of the store"))),
            (None, Missing::Make) => {
                let key = DataKey::generate(&*self.random)?;
                let name = key_name(brain, 1)?;
                match self.store.create(&name, to_json(&operator.wrap(brain, &key, &*self.random)?)?).await? {
                    CreateOutcome::Yes => Ok(key),
                    // Someone else made it at the same moment: theirs is the key.
                    CreateOutcome::Taken => {
                        let (_, theirs) = self.wrapped_keys(brain).await?.pop().ok_or_else(|| {
                            Error::unavailable(format!("the key of brain {brain} cannot be read")).hint("try again")
                        })?;
                        operator.unwrap(brain, &theirs)
                    }
                }
            }
        }
    }

    /// The first wrapping, where it is there and ours: then there is no need to list the others.
    async fn first_key(&self, brain: &BrainId) -> Result<Option<(ObjectName, WrappedKey)>> {
        let name = key_name(brain, 1)?;
        let found = self.wrapped_key(brain, &name).await?;
        let ours =
            |key: &WrappedKey| matches!(&self.secrecy, Encryption::Key(operator) if key.wrapped_by == operator.id());
        Ok(found.filter(ours).map(|key| (name, key)))
    }

    async fn wrapped_key(&self, brain: &BrainId, name: &ObjectName) -> Result<Option<WrappedKey>> {
        let Some(bytes) = self.store.get(name, 1 << 16).await? else { return Ok(None) };
        let key: WrappedKey = serde_json::from_slice(&bytes).map_err(|source| {
            Error::corrupt(format!("{name} is no key: {source}")).hint("put it back from a copy of the store")
        })?;
        if key.schema != WRAPPED_SCHEMA || key.brain != *brain {
            return Err(Error::corrupt(format!("{name} is not the key of brain {brain}"))
                .hint("put it back from a copy of the store"));
        }
        Ok(Some(key))
    }

    async fn wrapped_keys(&self, brain: &BrainId) -> Result<Vec<(ObjectName, WrappedKey)>> {
        let mut keys = Vec::new();
        for object in self.store.list(&place(brain, "key")?, None).await? {
            let key = self.wrapped_key(brain, &object.name).await?;
            keys.extend(key.map(|key| (object.name, key)));
        }
        Ok(keys)
    }

    /// Wraps the key of a brain with another operator key, and takes the old wrapping away. The snapshots
    /// stay as they are.
    pub async fn rewrap(&self, brain: &BrainId, new: &OperatorKey) -> Result<()> {
        let Encryption::Key(operator) = &self.secrecy else {
            return Err(Error::invalid("there is no key to change: snapshots are not encrypted here"));
        };
        let wrapped = self.wrapped_keys(brain).await?;
        let key = self.data_key(brain, operator, wrapped.clone(), Missing::Refuse).await?;
        let last = wrapped.iter().filter_map(|(name, _)| name.last().parse::<u64>().ok()).max().unwrap_or(0);
        let (name, object) = (key_name(brain, last + 1)?, to_json(&new.wrap(brain, &key, &*self.random)?)?);
        if self.store.create(&name, object).await? == CreateOutcome::Taken {
            return Err(
                Error::conflict(format!("someone else changes the key of brain {brain} right now")).hint("try again")
            );
        }
        self.store.sync().await?;
        for (name, old) in wrapped {
            if old.wrapped_by != new.id() {
                self.store.remove(&name).await?;
            }
        }
        Ok(())
    }

    /// Where the objects of this vault are, so that a cache knows whether it is about them.
    pub(super) fn place_of(&self, cipher: &Cipher) -> String {
        format!("{} {}", self.store.describe(), cipher.name(&Digest::of(b"herm")).short())
    }
}

/// What to do where a brain has no key yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Make a key: a push that begins the brain's snapshots does.
    Make,
    /// Refuse: without a key there is nothing to open.
    Refuse,
}

fn key_name(brain: &BrainId, number: u64) -> Result<ObjectName> {
    place(brain, &format!("key/{number:020}"))
}

fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|source| Error::internal("a key cannot be written").because(source))
}

/// The object of a chunk of a generation.
pub(super) fn chunk_name(brain: &BrainId, generation: u64, name: &Digest) -> Result<ObjectName> {
    place(brain, &format!("chunk/{generation:020}/{name}"))
}

/// In which generation a chunk is.
#[derive(Debug, Default)]
pub(super) struct ChunkIndex {
    present: u64,
    /// Chunks of earlier generations, where there are any.
    earlier: HashMap<String, u64>,
}

impl ChunkIndex {
    pub(super) fn name(&self, brain: &BrainId, name: &Digest) -> Result<ObjectName> {
        let generation = match self.earlier.is_empty() {
            true => self.present,
            false => self.earlier.get(&name.to_string()).copied().unwrap_or(self.present),
        };
        chunk_name(brain, generation, name)
    }
}

impl Vault {
    /// Where the chunks of a brain are. A brain that was never pruned has one generation, and nothing
    /// has to be looked up.
    pub(super) async fn whereabouts(&self, head: &SnapshotHead) -> Result<ChunkIndex> {
        let chunks = match head.generation {
            0 => Vec::new(),
            _ => self.store.list(&place(&head.brain, "chunk")?, None).await?,
        };
        Ok(self.whereabouts_in(head, &chunks))
    }

    /// The same, from a list of all chunks of the brain.
    pub(super) fn whereabouts_in(&self, head: &SnapshotHead, chunks: &[StoredObject]) -> ChunkIndex {
        let mut found = ChunkIndex { present: head.generation, earlier: HashMap::new() };
        if head.generation == 0 {
            return found;
        }
        for object in chunks {
            let generation = object.name.as_str().rsplit('/').nth(1).and_then(|text| text.parse::<u64>().ok());
            if let Some(generation) = generation.filter(|generation| *generation <= head.generation) {
                // Later generations come later and win.
                found.earlier.insert(object.name.last().to_owned(), generation);
            }
        }
        found
    }
}
