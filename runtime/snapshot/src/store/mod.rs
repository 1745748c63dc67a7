//! Where snapshots are kept: named objects, written once.
//!
//! [`Store`] is what snapshots need of a place: to get, to put, to create only if nothing is there, to
//! list and to remove. [`LocalStore`] is a directory, [`MemoryStore`] lives as long as its process,
//! [`WalrusStore`] keeps blobs on Walrus, and with the features `s3`, `gcs`,
//! `azure` and `webdav` there is `CloudStore` for those.

#[cfg(feature = "object_store")]
mod cloud;
mod local;
mod memory;
mod resumed;
mod walrus;

#[cfg(feature = "object_store")]
pub use cloud::CloudStore;
pub use local::LocalStore;
pub use memory::MemoryStore;
pub use resumed::ResumedStore;
pub use walrus::{WalrusSettings, WalrusStore};

use std::fmt;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::ids::Random;

/// The name of an object: parts of `a-z 0-9 . -`, joined by `/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// A name, if it is one.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let fine = |part: &str| {
            let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
            !part.is_empty() && part.len() <= 120 && !part.starts_with('.') && part.bytes().all(plain)
        };
        if text.len() <= 400 && text.split('/').all(fine) {
            return Ok(Self(text));
        }
        let shown: String = text.chars().take(120).collect();
        Err(Error::invalid(format!("{shown:?} is not the name of an object in a store")))
    }

    /// The whole name, with `/` between its parts.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part of the name; the whole name where it has one part.
    pub fn last(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, last)| last)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether an object was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The object was created by this call.
    Yes,
    /// Someone's was there before.
    Taken,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The whole name of the object, with the prefix that was listed.
    pub name: ObjectName,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A place for snapshots.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// An object of at most `max` bytes; `None` where there is none.
    async fn get(&self, name: &ObjectName, max: u64) -> Result<Option<Vec<u8>>>;

    /// Puts an object whose name says what is in it: all who put it put the same.
    async fn put(&self, name: &ObjectName, content: Vec<u8>) -> Result<()>;

    /// Puts an object only if none of that name is there. With several at once, exactly one is told
    /// [`CreateOutcome::Yes`]. After an error nobody knows; look at what is there.
    async fn create(&self, name: &ObjectName, content: Vec<u8>) -> Result<CreateOutcome>;

    /// The objects below a prefix (whole parts) whose names come after `after`, sorted by name.
    async fn list(&self, prefix: &ObjectName, after: Option<&ObjectName>) -> Result<Vec<StoredObject>>;

    /// Removes an object; `Ok` also where there is none of that name.
    async fn remove(&self, name: &ObjectName) -> Result<()>;

    /// Waits until everything that was put is safe.
    async fn sync(&self) -> Result<()>;

    /// The store of names, where this one names contents itself and would be lost without it.
    fn index(&self) -> Option<&dyn Store> {
        None
    }

    /// Where the content of an object can be fetched without the index; `None` where there is no such place.
    async fn address(&self, _name: &ObjectName) -> Result<Option<String>> {
        Ok(None)
    }

    /// What is at an address, unchecked, and at most `max` bytes of it.
    async fn at_address(&self, address: &str, _max: u64) -> Result<Vec<u8>> {
        Err(Error::refused(format!("{} has nothing at {:?}", self.describe(), crate::text::line(address, 120)))
            .hint("configure the store that the pointer was written for"))
    }

    /// Sees to it that the objects below a prefix do not run out; how many were about to. Most stores keep what they
    /// have and renew nothing.
    async fn renew(&self, _below: &ObjectName) -> Result<u64> {
        Ok(0)
    }

    /// Where it is, for messages.
    fn describe(&self) -> String;
}

/// How often a creation whose answer was lost is looked into.
const CLAIMS: u32 = 6;

/// Creates an object and finds out for sure whose is there. `content` must hold something that no one
/// else would write: after an error, or a refusal that may be an echo of our own write, it tells.
pub async fn claim(store: &dyn Store, name: &ObjectName, content: &[u8]) -> Result<CreateOutcome> {
    let mut pause = std::time::Duration::from_millis(10);
    let mut tried = 1;
    loop {
        let created = store.create(name, content.to_vec()).await;
        if let Ok(CreateOutcome::Yes) = created {
            return Ok(CreateOutcome::Yes);
        }
        let error = match (created, store.get(name, content.len() as u64 + (64 << 10)).await) {
            (_, Ok(Some(found))) if found == content => return Ok(CreateOutcome::Yes),
            (_, Ok(Some(_))) => return Ok(CreateOutcome::Taken),
            // It was there and is not any more: it was someone's all the same.
            (Ok(_), Ok(None)) => return Ok(CreateOutcome::Taken),
            // The largest answer is one that is not ours.
            (Ok(_), Err(error)) if error.kind() != ErrorKind::Unavailable => return Ok(CreateOutcome::Taken),
            (Err(error), _) | (_, Err(error)) => error,
        };
        if error.kind() != ErrorKind::Unavailable || tried >= CLAIMS {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
        tried += 1;
    }
}

/// How many creators race for one name, and how often.
const RACERS: u8 = 16;
const RACES: usize = 3;

/// Finds out whether a store keeps its word on creating: a store that lets a second writer win would
/// let two operators write one brain. One after the other is not enough, for some servers look first
/// and write then: it is also tried at once. Leaves nothing behind.
pub async fn probe(store: &dyn Store, random: &dyn Random) -> Result<()> {
    let refused = |how: &str| {
        Err(Error::refused(format!("{} cannot keep snapshots: it {how}", store.describe()))
            .hint("use a store with conditional writes (If-None-Match) and strongly consistent listing"))
    };
    let name = probe_name(random)?;
    let first = store.create(&name, b"first".to_vec()).await?;
    let second = store.create(&name, b"second".to_vec()).await?;
    let kept = store.get(&name, 1 << 10).await?;
    let listed = store.list(&ObjectName::new("probe")?, None).await?;
    store.remove(&name).await?;
    match (first, second, kept.as_deref()) {
        (CreateOutcome::Yes, CreateOutcome::Taken, Some(b"first")) => {}
        (CreateOutcome::Taken, ..) => return refused("says that an object is there which is not"),
        (_, CreateOutcome::Yes, _) => return refused("ignores that an object is to be created only if none is there"),
        _ => return refused("does not give back what was put"),
    }
    if !listed.iter().any(|object| object.name == name) {
        return refused("does not list what was just put");
    }
    for _ in 0..RACES {
        let name = probe_name(random)?;
        let racing = (0..RACERS).map(|racer| store.create(&name, vec![racer]));
        let ended = futures_util::future::join_all(racing).await;
        store.remove(&name).await?;
        if ended.iter().filter(|ended| matches!(ended, Ok(CreateOutcome::Yes))).count() > 1 {
            return refused("lets several create one object when they try at once");
        }
    }
    Ok(())
}

fn probe_name(random: &dyn Random) -> Result<ObjectName> {
    let mut nonce = [0; 16];
    random.fill(&mut nonce)?;
    let name = crate::ids::hex(&nonce);
    ObjectName::new(format!("probe/{name}"))
}
