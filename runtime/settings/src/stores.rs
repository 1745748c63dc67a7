//! From the configuration to a vault: which store, which key.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use herm::harness::{PushTiming, SnapshotOptions};
use herm::ids::SystemRandom;
use herm::receipt::{PublicKey, TrustedKeys};
use herm::snapshot::store::{LocalStore, probe};
use herm::snapshot::{BrainLease, Encryption, LeaseAttempt, OperatorKey, Store, Vault};
use herm::{BrainId, Error, ErrorKind, Result, SystemClock};

use crate::backends::secret;
use crate::config::{Settings, SnapshotEntry};
use crate::in_runtime;

/// What the command line says about encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptionOptions {
    /// What the configuration says.
    AsConfigured,
    /// Plain text, said out loud.
    Plaintext,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorePurpose {
    /// To look: there may be no right to write.
    Read,
    /// To push, prune, lease or change keys.
    Write,
}

impl Settings {
    /// What the file says of snapshots.
    pub fn snapshot(&self) -> SnapshotEntry {
        self.config.snapshot.clone().unwrap_or_default()
    }

    /// The file with the key that wraps the keys of snapshots.
    pub fn snapshot_key(&self) -> PathBuf {
        self.snapshot().key.unwrap_or_else(|| self.layout.snapshot_key())
    }

    /// How snapshots are encrypted. Without a key nothing is, unless someone said so.
    pub fn secrecy(&self, wish: EncryptionOptions) -> Result<Encryption> {
        if wish == EncryptionOptions::Plaintext || self.snapshot().plaintext {
            return Ok(Encryption::Plaintext);
        }
        let path = self.snapshot_key();
        match OperatorKey::load(&path) {
            Ok(key) => Ok(Encryption::Key(key)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::refused(format!("there is no key for snapshots at {}", path.display())).hint(
                    "make one with `herm snapshot key --create` and keep a copy of it elsewhere, or say --plaintext",
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// The store, opened and, where something is to be written to one that is not a directory, tried out first: who
    /// only reads may have no right to write.
    pub async fn store(&self, purpose: StorePurpose) -> Result<Arc<dyn Store>> {
        let said = self.snapshot();
        let named = self.named_store(&said, purpose).await?;
        match &said.walrus {
            Some(walrus) => walrus.store(named),
            None => Ok(named),
        }
    }

    /// The store that has names.
    async fn named_store(&self, said: &SnapshotEntry, purpose: StorePurpose) -> Result<Arc<dyn Store>> {
        let local = match said.store.as_deref() {
            None => Some(self.layout.snapshots()),
            Some(address) if address.starts_with("file:") => Some(file_path(address)?),
            Some(address) if address.contains("://") => None,
            Some(dir) => Some(self.beside_file(dir)),
        };
        let (Some(address), None) = (said.store.as_deref(), &local) else {
            let dir = local.unwrap_or_default();
            // The index of a store that a pointer can bring back may be gone.
            let comes_back = said.walrus.is_some() && said.ens.is_some();
            if purpose == StorePurpose::Read && !dir.is_dir() && !comes_back {
                return Err(Error::not_found(format!("there is no store in {}", dir.display()))
                    .hint("check `store` in [snapshot]; the first `herm snapshot create ID` makes it"));
            }
            return Ok(Arc::new(LocalStore::open(&dir)?));
        };
        let store = cloud(address, said)?;
        if purpose == StorePurpose::Write {
            probe(&*store, &SystemRandom).await?;
        }
        Ok(store)
    }

    /// A path of the configuration: one that is not absolute is beside the file that says it.
    fn beside_file(&self, path: &str) -> PathBuf {
        let above = self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        above.join(path)
    }

    /// The store with the keys to it.
    pub async fn vault(&self, wish: EncryptionOptions, purpose: StorePurpose) -> Result<Vault> {
        // The key first: without one there is no need to ask the store.
        let secrecy = self.secrecy(wish)?;
        self.vault_in(self.store(purpose).await?, secrecy)
    }

    /// A vault in a store that is open.
    pub fn vault_in(&self, store: Arc<dyn Store>, secrecy: Encryption) -> Result<Vault> {
        let said = self.snapshot();
        let owner = said.owner.unwrap_or_else(owner);
        let vault = Vault::new(store, secrecy, &owner, Arc::new(SystemRandom), Arc::new(SystemClock));
        Ok(match &said.ens {
            Some(ens) => vault.with_pointer(Arc::new(ens.pointer()?)),
            None => vault,
        })
    }

    /// Whose receipts count on restoring: this operator's, and those of the configuration.
    pub fn trusted(&self) -> Result<TrustedKeys> {
        let mut keys = self.trusted_keys()?;
        match self.signer.existing() {
            Ok(signer) => keys.push(signer.public().clone()),
            Err(error) if error.kind() == ErrorKind::NotFound && !keys.is_empty() => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::refused("there is no key here whose receipts would count").hint(
                    "bring the operator's signing key, or name keys to trust: trust = [\"did:key:…\"] in [snapshot]",
                ));
            }
            Err(error) => return Err(error),
        }
        Ok(TrustedKeys::Keys(keys))
    }

    /// The keys of the configuration whose receipts count on restoring.
    pub fn trusted_keys(&self) -> Result<Vec<PublicKey>> {
        self.snapshot().trust.iter().map(|did| did.parse()).collect()
    }

    /// Does something with a brain that moves it. Where brains are leased, only while the lease is ours, and not with
    /// a brain that was taken further elsewhere.
    pub fn while_leased<T>(&self, id: &BrainId, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(ttl) = self.lease() else { return work() };
        in_runtime(async {
            let vault = Arc::new(self.vault(EncryptionOptions::AsConfigured, StorePurpose::Write).await?);
            let lease = take(&vault, id, ttl).await?;
            let (done, lease) = match vault.refuse_behind(&self.layout, id).await {
                Ok(()) => {
                    let keeper = Keeper::begin(Arc::clone(&vault), lease, ttl);
                    // On this thread; the executor's own go on renewing meanwhile.
                    let done = work();
                    (done, keeper.end().await)
                }
                Err(error) => (Err(error), Some(lease)),
            };
            if let Some(lease) = lease {
                give_back(&vault, &lease).await;
            }
            done
        })
    }

    /// For how long a brain is leased; `None` where nobody asked for that.
    pub fn lease(&self) -> Option<Duration> {
        self.snapshot().lease_secs.map(|seconds| Duration::from_secs(u64::from(seconds.max(5))))
    }

    /// How a harness snapshots: not at all, where the file says nothing of it.
    pub async fn snapshotting(&self) -> Result<Option<SnapshotOptions>> {
        let Some(said) = self.config.snapshot.as_ref().filter(|said| said.auto.unwrap_or(true)) else {
            return Ok(None);
        };
        let pushing = match said.before_answer {
            true => PushTiming::BeforeTheAnswer,
            false => PushTiming::AfterTheAnswer,
        };
        Ok(Some(SnapshotOptions {
            pushing,
            lease: self.lease(),
            trusted: self.trusted_keys()?,
            flush_within: Duration::from_secs(said.flush_secs.unwrap_or(30).into()),
            ..SnapshotOptions::new(Arc::new(self.vault(EncryptionOptions::AsConfigured, StorePurpose::Write).await?))
        }))
    }
}

/// Renews a lease while a command works: a pass with verifications takes longer than a lease may last.
struct Keeper {
    ended: tokio::sync::oneshot::Sender<()>,
    keeping: tokio::task::JoinHandle<Option<BrainLease>>,
}

impl Keeper {
    fn begin(vault: Arc<Vault>, mut lease: BrainLease, ttl: Duration) -> Self {
        let (ended, mut end) = tokio::sync::oneshot::channel();
        let keeping = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = &mut end => return Some(lease),
                    () = tokio::time::sleep(ttl / 3) => {}
                }
                match vault.renew_lease(&lease).await {
                    Ok(renewed) => lease = renewed,
                    Err(error) if error.kind() == ErrorKind::Conflict => {
                        tracing::warn!(%error, "the lease was taken over meanwhile; the next push finds out who was first");
                        return None;
                    }
                    Err(error) => tracing::warn!(%error, "the lease was not renewed; trying again"),
                }
            }
        });
        Self { ended, keeping }
    }

    /// The lease as it is now; none where another operator has it.
    async fn end(self) -> Option<BrainLease> {
        drop(self.ended);
        self.keeping.await.ok().flatten()
    }
}

/// Takes the lease of a brain, or says who has it.
pub async fn take(vault: &Vault, id: &BrainId, ttl: Duration) -> Result<BrainLease> {
    match vault.take_lease(id, ttl).await? {
        LeaseAttempt::Ours(lease) => Ok(lease),
        LeaseAttempt::Busy { owner, wait } => {
            Err(Error::conflict(format!("{owner} works on brain {id}; nothing was done")).hint(format!(
                "do it there, or try again when it is done; a lease that nobody renews is free after {} s",
                wait.as_secs()
            )))
        }
    }
}

/// Gives a lease back, so that nobody has to wait for it.
pub async fn give_back(vault: &Vault, lease: &BrainLease) {
    if let Err(error) = vault.release_lease(lease).await {
        tracing::debug!(%error, "a lease was not given back; it runs out by itself");
    }
}

#[cfg(feature = "object_store")]
fn cloud(address: &str, said: &SnapshotEntry) -> Result<Arc<dyn Store>> {
    use secrecy::ExposeSecret as _;
    let mut options: Vec<(String, String)> = said.options.clone().into_iter().collect();
    for (name, entry) in &said.secrets {
        options.push((name.clone(), secret(name, entry)?.expose_secret().to_owned()));
    }
    Ok(Arc::new(herm::snapshot::store::CloudStore::open(address, options)?))
}

#[cfg(not(feature = "object_store"))]
fn cloud(address: &str, said: &SnapshotEntry) -> Result<Arc<dyn Store>> {
    // Said in any case, so that a mistake shows in both builds.
    for (name, entry) in &said.secrets {
        secret(name, entry)?;
    }
    Err(Error::refused(format!("this herm was built without the stores that {address} needs"))
        .hint("build it with `--features cloud`, or use a directory"))
}

/// The directory that a `file://` address names.
fn file_path(address: &str) -> Result<PathBuf> {
    let bad = || {
        Error::invalid(format!("{address:?} names no directory"))
            .hint("write three slashes and the whole path: store = \"file:///srv/snapshots\", or the path alone")
    };
    let rest = address.strip_prefix("file://").ok_or_else(bad)?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(bad());
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (digit(rest.next()).ok_or_else(bad)?, digit(rest.next()).ok_or_else(bad)?);
                u8::try_from(high * 16 + low).map_err(|_| bad())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map(PathBuf::from).map_err(|_| bad())
}

/// A name for this operator, for people: the machine's, where it says one.
fn owner() -> String {
    let machine = herm::fsio::read_regular(Path::new("/etc/hostname"), 1 << 10).ok();
    let name = machine.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let name = if name.trim().is_empty() { "herm" } else { name.trim() };
    format!("{name}/{}", std::process::id())
}
